// Counts of pre-tokens: a hash table for many short byte strings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "byte_string.hpp"
#include "hash_seed.hpp"
#include "interrupt.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// The order of byte strings: lexicographic, a prefix first.
inline bool comes_before(const byte_t* a, std::size_t a_length, const byte_t* b, std::size_t b_length) {
    const int order = std::memcmp(a, b, std::min(a_length, b_length));
    return order != 0 ? order < 0 : a_length < b_length;
}

// A pre-token of the table. Its bytes are valid until the table changes.
struct CountedPretoken {
    std::uint64_t prefix;  // the first eight bytes, big-endian, zero-padded: decides most comparisons
    const byte_t* bytes;
    std::size_t length;
    count_t count;

    CountedPretoken(const byte_t* bytes, std::size_t length, count_t count)
        : prefix(0), bytes(bytes), length(length), count(count) {
        for (std::size_t i = 0; i < 8; ++i) prefix = prefix << 8 | (i < length ? bytes[i] : 0);
    }

    bool operator<(const CountedPretoken& other) const {
        if (prefix != other.prefix) return prefix < other.prefix;
        return comes_before(bytes, length, other.bytes, other.length);
    }
};

// Open addressing with linear probing over 32-byte slots, their number a power of two. A pre-token of up to 16 bytes is
// stored in its slot, so counting it again touches one cache line and compares two words; longer ones are stored in an
// arena. Pre-tokens are never removed.
class PretokenTable {
public:
    explicit PretokenTable(HashKey key = {}) : key_(key) {}

    // Adds `count` > 0 occurrences of a pre-token of `length` > 0 bytes. `readable` >= length bytes may be read there.
    // Throws std::overflow_error, changing nothing, if the sum exceeds 2**63 - 1.
    void add(const byte_t* bytes, std::size_t length, std::size_t readable, count_t count = 1) {
        if (length > INLINE) return add_long(bytes, length, count);
        const TwoWords words = two_words(bytes, length, readable);
        const Slot key{{words.low, words.high}, length, count};
        Slot& slot = find(hash_of(key), [&](const Slot& other) {
            return other.words[0] == key.words[0] && other.words[1] == key.words[1] && other.length == length;
        });
        slot.length != 0 ? increase(slot, count) : insert(slot, key);
    }

    // Adds every count of the other table, which may be this one. Throws like add, with some of the counts added.
    void merge(const PretokenTable& other, Interrupt& interrupt) {
        Steps steps(interrupt);
        for (const Slot& slot : other.slots_) {
            steps.next();
            if (slot.length != 0) add(other.bytes_of(slot), slot.length, std::max(slot.length, INLINE), slot.count);
        }
    }

    std::size_t size() const { return size_; }

    // The most slots a look-up visits. O(slots).
    std::size_t longest_probe() const {
        std::size_t longest = 0;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (slots_[i].length == 0) continue;
            const std::size_t passed = (i - hash_of(slots_[i])) & (slots_.size() - 1);
            longest = std::max(longest, passed + 1);
        }
        return longest;
    }

    // All pre-tokens in the order of their bytes.
    std::vector<CountedPretoken> sorted(Interrupt& interrupt) const {
        Steps steps(interrupt);
        std::vector<CountedPretoken> pretokens;
        pretokens.reserve(size_);
        for (const Slot& slot : slots_) {
            steps.next();
            if (slot.length != 0) pretokens.emplace_back(bytes_of(slot), slot.length, slot.count);
        }
        std::sort(pretokens.begin(), pretokens.end(), [&](const CountedPretoken& a, const CountedPretoken& b) {
            steps.next();
            return a < b;
        });
        return pretokens;
    }

private:
    static constexpr std::size_t INLINE = 16;

    struct Slot {
        std::uint64_t words[2];  // up to 16 bytes: the bytes, zero-padded; longer: the hash and the offset in arena_
        std::size_t length;      // 0 in an empty slot
        count_t count;
    };

    std::uint64_t hash_of(const Slot& slot) const {
        return slot.length > INLINE ? slot.words[0] : key_.of(slot.words[0] + slot.length, slot.words[1]);
    }

    const byte_t* bytes_of(const Slot& slot) const {
        if (slot.length > INLINE) return arena_.data() + slot.words[1];
        return reinterpret_cast<const byte_t*>(slot.words);
    }

    // The slot that `matches`, or the empty one where it belongs.
    template <class Matches>
    Slot& find(std::uint64_t hash, Matches matches) {
        const std::size_t last = slots_.size() - 1;
        for (std::size_t index = hash & last;; index = (index + 1) & last) {
            Slot& slot = slots_[index];
            if (slot.length == 0 || matches(slot)) return slot;
        }
    }

    static void increase(Slot& slot, count_t count) {
        if (slot.count > std::numeric_limits<count_t>::max() - count) {
            throw std::overflow_error("a pre-token's count passes 2**63 - 1");
        }
        slot.count += count;
    }

    // Puts a new key into its empty slot, or grows first: at most 5 of 8 slots are ever taken.
    void insert(Slot& slot, const Slot& key) {
        if ((size_ + 1) * 8 > slots_.size() * 5) {
            grow();
            vacant(key) = key;
        } else {
            slot = key;
        }
        ++size_;
    }

    Slot& vacant(const Slot& key) {
        return find(hash_of(key), [](const Slot&) { return false; });
    }

    void add_long(const byte_t* bytes, std::size_t length, count_t count) {
        const std::uint64_t hash = key_.of(bytes, length);
        Slot& slot = find(hash, [&](const Slot& other) {
            return other.length == length && other.words[0] == hash && std::memcmp(bytes_of(other), bytes, length) == 0;
        });
        if (slot.length != 0) return increase(slot, count);
        const Slot key{{hash, arena_.size()}, length, count};
        arena_.insert(arena_.end(), bytes, bytes + length);
        insert(slot, key);
    }

    void grow() {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.length != 0) vacant(slot) = slot;
        }
    }

    HashKey key_;
    std::vector<Slot> slots_ = std::vector<Slot>(1 << 12);
    std::vector<byte_t> arena_;
    std::size_t size_ = 0;
};

}  // namespace hf_scaffold
