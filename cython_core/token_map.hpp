// From tokens to numbers, for many tokens that are read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

#include "byte_string.hpp"
#include "hash_seed.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

// Tokens are numbered in the order in which they are added; none is removed. They lie one after another in memory that
// the map's owner writes: token i ends where token i + 1 begins.
//
// Open addressing with linear probing; at most three quarters of the slots are taken. The upper half of a slot, and of a
// hash, says which of the others to look at and where the search for it begins; so slots keep their order as they grow.
class TokenMap {
public:
    using number_t = std::uint32_t;
    static constexpr number_t NONE = std::numeric_limits<number_t>::max();
    static constexpr std::size_t MOST_BYTES = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::size_t SPARE = 16;  // so many bytes may be read after a token

    // The first token begins here. All tokens together have at most MOST_BYTES. Some n of them are expected.
    TokenMap(char* tokens, std::size_t n) : tokens_(tokens) {
        while (slots_for(n - n / 3) > slots_.size()) grow();
        ends_.reserve(n + 1);
    }

    // Where the next token begins.
    char* end() const { return tokens_ + ends_.back(); }

    // The n bytes at end() become a token. False, changing nothing, if they already are one.
    bool add(std::size_t n) {
        if (n > MOST_BYTES - ends_.back()) throw std::length_error("tokens of 4 GiB or more");
        if (size() >= slots_.size() / 4 * 3) grow();
        const std::uint32_t hash = hash_of(end(), n);
        std::uint64_t& slot = slots_[probe(end(), n, hash)];
        if (slot != 0) return false;
        ends_.push_back(ends_.back() + static_cast<std::uint32_t>(n));
        slot = static_cast<std::uint64_t>(hash) << 32 | size();
        return true;
    }

    std::size_t size() const { return ends_.size() - 1; }

    // The number of these n bytes, or NONE.
    number_t find(const char* token, std::size_t n) const {
        return static_cast<number_t>(slots_[probe(token, n, hash_of(token, n))]) - 1;
    }

    // Whether these n bytes are the token of that number, if there is one.
    bool is(number_t number, const char* token, std::size_t n) const {
        return number < size() && is_at(number, token, n);
    }

private:
    // Short tokens take no branch: their lengths can't be predicted.
    static TwoWords words_of(const char* token, std::size_t n) {
        return two_words(reinterpret_cast<const byte_t*>(token), n, SPARE);
    }

    std::uint32_t hash_of(const char* token, std::size_t n) const {
        if (n > SPARE) return static_cast<std::uint32_t>(key_.of(reinterpret_cast<const byte_t*>(token), n) >> 32);
        const TwoWords words = words_of(token, n);
        return static_cast<std::uint32_t>(key_.of(words.low + n, words.high) >> 32);
    }

    bool is_at(number_t number, const char* token, std::size_t n) const {
        const char* const own = tokens_ + ends_[number];
        if (ends_[number + 1] - ends_[number] != n) return false;
        if (n > SPARE) return std::memcmp(own, token, n) == 0;
        const TwoWords words = words_of(own, n), others = words_of(token, n);
        return words.low == others.low && words.high == others.high;
    }

    // The slot of these bytes, or the empty one where they belong.
    std::size_t probe(const char* token, std::size_t n, std::uint32_t hash) const {
        const std::size_t last = slots_.size() - 1;
        for (std::size_t i = hash >> shift_;; i = (i + 1) & last) {
            const std::uint64_t slot = slots_[i];
            if (slot == 0) return i;
            if (slot >> 32 == hash && is_at(static_cast<number_t>(slot) - 1, token, n)) return i;
        }
    }

    void grow() {
        std::vector<std::uint64_t> old(slots_.size() * 2);
        old.swap(slots_);
        --shift_;
        const std::size_t last = slots_.size() - 1;
        for (const std::uint64_t slot : old) {
            if (slot == 0) continue;
            std::size_t i = slot >> 32 >> shift_;
            while (slots_[i] != 0) i = (i + 1) & last;
            slots_[i] = slot;
        }
    }

    char* tokens_;
    std::vector<std::uint32_t> ends_{0};  // where token i begins; and where the last one ends
    unsigned shift_ = 32 - 12;
    std::vector<std::uint64_t> slots_ = std::vector<std::uint64_t>(1 << 12);  // 0, or hash and number + 1
    HashKey key_;
};

}  // namespace hf_scaffold
