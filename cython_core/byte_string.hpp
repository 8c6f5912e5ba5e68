// Short byte strings as 8-byte words, which the tables of pre-tokens compare and hash.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "utf8.hpp"

namespace hf_scaffold {

inline std::uint64_t word_at(const byte_t* at) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

// Up to 16 bytes, padded with zeros.
struct TwoWords {
    std::uint64_t low, high;
};

// The first `length` <= 16 bytes at `at`. `readable` >= length bytes may be read there.
inline TwoWords two_words(const byte_t* at, std::size_t length, std::size_t readable) {
    static constexpr byte_t ONES_THEN_ZEROS[32] = {
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
    };
    if (readable >= 16) {
        const byte_t* mask = ONES_THEN_ZEROS + 16 - length;
        return {word_at(at) & word_at(mask), word_at(at + 8) & word_at(mask + 8)};
    }
    byte_t copy[16] = {};
    std::memcpy(copy, at, length);
    return {word_at(copy), word_at(copy + 8)};
}

// The order of byte strings: lexicographic, a prefix first.
inline bool comes_before(const byte_t* a, std::size_t a_length, const byte_t* b, std::size_t b_length) {
    const int order = std::memcmp(a, b, std::min(a_length, b_length));
    return order != 0 ? order < 0 : a_length < b_length;
}

// The bytes of a word in reverse.
inline std::uint64_t reversed(std::uint64_t word) {
    word = (word & 0x00FF00FF00FF00FF) << 8 | (word >> 8 & 0x00FF00FF00FF00FF);
    word = (word & 0x0000FFFF0000FFFF) << 16 | (word >> 16 & 0x0000FFFF0000FFFF);
    return word << 32 | word >> 32;
}

// The first sixteen bytes of a byte string, padded with zeros, as numbers in the strings' order: they decide most
// comparisons.
struct Prefix {
    std::uint64_t high, low;

    // `readable` >= length bytes may be read.
    static Prefix of(const byte_t* at, std::size_t length, std::size_t readable) {
        const TwoWords words = two_words(at, std::min<std::size_t>(length, 16), readable);
        return {reversed(words.low), reversed(words.high)};
    }

    bool operator==(const Prefix& other) const { return high == other.high && low == other.low; }
    bool operator<(const Prefix& other) const { return high < other.high || (high == other.high && low < other.low); }
};

}  // namespace hf_scaffold
