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
#include "large_array.hpp"
#include "simd.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// A pre-token of the table. Its bytes are valid until the table changes.
struct CountedPretoken {
    Prefix prefix;
    const byte_t* bytes;
    std::size_t length;
    count_t count;

    bool operator<(const CountedPretoken& other) const {
        if (prefix == other.prefix) return comes_before(bytes, length, other.bytes, other.length);
        return prefix < other.prefix;
    }
};

// Open addressing with linear probing over 32-byte slots, their number a power of two. A pre-token of up to 16 bytes is
// stored in its slot, so counting it again touches one cache line and compares two words; longer ones are stored in an
// arena. Pre-tokens are never removed.
class PretokenTable {
public:
    explicit PretokenTable(HashKey key = {}) : key_(key) {}

    // Adds n occurrences: the i-th from bounds[i] to bounds[i + 1], not empty, but none where dropped[i]; dropped may be
    // null. The bytes up to `end` may be read. Throws std::overflow_error if a count passes 2**63 - 1; those before it
    // were added.
    void add(const byte_t* const* bounds, std::size_t n, const byte_t* dropped, const byte_t* end) {
        for (std::size_t i = 0; i < n; i += AT_ONCE) {
            add_some(bounds + i, std::min(n - i, AT_ONCE), dropped == nullptr ? nullptr : dropped + i, end);
        }
    }

    // Adds every count of the other table, which may be this one. Throws like add, with some of the counts added.
    void merge(const PretokenTable& other, Interrupt& interrupt) {
        Steps steps(interrupt);
        const std::size_t n_slots = other.last_ + 1;
        for (std::size_t i = 0; i < n_slots; ++i) {
            steps.next();
            const std::size_t ahead = i + AHEAD;
            if (ahead < n_slots && is_short(other.slots_[ahead])) {
                prefetch(&slots_[hash_of(other.slots_[ahead]) & last_]);
            }
            const Slot slot = other.slots_[i];
            if (slot.length == 0) continue;
            const byte_t* const bytes = other.bytes_of(slot);
            add(slot, is_short(slot) ? hash_of(slot) : key_.of(bytes, slot.length), bytes);
        }
    }

    std::size_t size() const { return size_; }

    // Of memory; three times as much while it grows.
    std::size_t n_bytes() const { return (last_ + 1) * sizeof(Slot) + arena_.capacity(); }

    // The most slots a look-up visits. O(slots).
    std::size_t longest_probe() const {
        std::size_t longest = 0;
        for (std::size_t i = 0; i <= last_; ++i) {
            if (slots_[i].length == 0) continue;
            const std::size_t passed = (i - hash_of(slots_[i])) & last_;
            longest = std::max(longest, passed + 1);
        }
        return longest;
    }

    // All pre-tokens in the order of their bytes.
    std::vector<CountedPretoken> sorted(Interrupt& interrupt) const {
        Steps steps(interrupt);
        std::vector<CountedPretoken> pretokens;
        pretokens.reserve(size_);
        for (std::size_t i = 0; i <= last_; ++i) {
            steps.next();
            const Slot& slot = slots_[i];
            if (slot.length == 0) continue;
            const byte_t* const bytes = bytes_of(slot);
            const std::size_t readable = std::max(slot.length, INLINE);  // a slot has so many
            pretokens.push_back({Prefix::of(bytes, slot.length, readable), bytes, slot.length, slot.count});
        }
        std::sort(pretokens.begin(), pretokens.end(), [&](const CountedPretoken& a, const CountedPretoken& b) {
            steps.next();
            return a < b;
        });
        return pretokens;
    }

private:
    static constexpr std::size_t INLINE = 16, FIRST_SLOTS = 1 << 12;
    static constexpr std::size_t AT_ONCE = 320;  // pre-tokens
    static constexpr std::size_t AHEAD = 16;     // slots

    struct Slot {
        std::uint64_t words[2];  // up to 16 bytes: the bytes, zero-padded; longer: the hash and the offset in arena_
        std::size_t length;      // 0 in an empty slot
        count_t count;
    };

    static bool is_short(const Slot& slot) { return slot.length <= INLINE; }

    std::uint64_t hash_of(const Slot& slot) const {
        return is_short(slot) ? key_.of(slot.words[0] + slot.length, slot.words[1]) : slot.words[0];
    }

    // A pointer into a short slot is valid as long as that.
    const byte_t* bytes_of(const Slot& slot) const {
        if (!is_short(slot)) return arena_.data() + slot.words[1];
        return reinterpret_cast<const byte_t*>(slot.words);
    }

    // The slot that `matches`, or the empty one where it belongs.
    template <class Matches>
    Slot& find(std::uint64_t hash, Matches matches) {
        for (std::size_t index = hash & last_;; index = (index + 1) & last_) {
            Slot& slot = slots_[index];
            if (slot.length == 0 || matches(slot)) return slot;
        }
    }

    // In two passes, so that the memory serves many at a time.
    void add_some(const byte_t* const* bounds, std::size_t n, const byte_t* dropped, const byte_t* end) {
        Slot keys[AT_ONCE];
        std::uint64_t hashes[AT_ONCE];
        for (std::size_t i = 0; i < n; ++i) {
            const byte_t* const at = bounds[i];
            const std::size_t length = static_cast<std::size_t>(bounds[i + 1] - at);
            keys[i] = {{0, 0}, length, 1};
            if (length <= INLINE) {
                const TwoWords words = two_words(at, length, static_cast<std::size_t>(end - at));
                keys[i].words[0] = words.low;
                keys[i].words[1] = words.high;
                hashes[i] = hash_of(keys[i]);
            } else {
                hashes[i] = key_.of(at, length);
            }
            prefetch(&slots_[hashes[i] & last_]);
        }
        for (std::size_t i = 0; i < n; ++i) {
            if (dropped == nullptr || !dropped[i]) add(keys[i], hashes[i], bounds[i]);
        }
    }

    // Adds the key's count. Of a long key, only that and the length are set.
    void add(const Slot& key, std::uint64_t hash, const byte_t* bytes) {
        const std::size_t length = key.length;
        if (length > INLINE) return add_long(bytes, length, hash, key.count);
        Slot& slot = find(hash, [&](const Slot& other) {
            return other.words[0] == key.words[0] && other.words[1] == key.words[1] && other.length == length;
        });
        slot.length != 0 ? increase(slot, key.count) : insert(slot, key);
    }

    void add_long(const byte_t* bytes, std::size_t length, std::uint64_t hash, count_t count) {
        Slot& slot = find(hash, [&](const Slot& other) {
            return other.length == length && other.words[0] == hash && std::memcmp(bytes_of(other), bytes, length) == 0;
        });
        if (slot.length != 0) return increase(slot, count);
        const Slot key{{hash, arena_.size()}, length, count};
        arena_.insert(arena_.end(), bytes, bytes + length);
        insert(slot, key);
    }

    static void increase(Slot& slot, count_t count) {
        if (slot.count > std::numeric_limits<count_t>::max() - count) {
            throw std::overflow_error("a pre-token's count passes 2**63 - 1");
        }
        slot.count += count;
    }

    // Puts a new key into its empty slot, or grows first: at most 5 of 8 slots are ever taken.
    void insert(Slot& slot, const Slot& key) {
        if ((size_ + 1) * 8 > (last_ + 1) * 5) {
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

    void grow() {
        const std::size_t n_old = last_ + 1;
        LargeArray<Slot> old = make_large_zeros<Slot>(2 * n_old);
        old.swap(slots_);
        last_ = 2 * n_old - 1;
        for (std::size_t i = 0; i < n_old; ++i) {
            if (old[i].length != 0) vacant(old[i]) = old[i];
        }
    }

    HashKey key_;
    LargeArray<Slot> slots_ = make_large_zeros<Slot>(FIRST_SLOTS);
    std::size_t last_ = FIRST_SLOTS - 1;
    std::vector<byte_t> arena_;
    std::size_t size_ = 0;
};

}  // namespace hf_scaffold
