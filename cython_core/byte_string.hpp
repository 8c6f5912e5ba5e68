// Short byte strings as words of eight bytes: what the tables of pre-tokens compare and hash.
#pragma once

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

// Up to 16 bytes, and zeros behind them.
struct TwoWords {
    std::uint64_t low, high;
};

// Of `length` bytes of which `readable` >= length may be read.
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

// A hash of two words whose low bits depend on all of theirs.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t hash = (a * 0x9E3779B97F4A7C15) ^ ((b << 32 | b >> 32) * 0xC2B2AE3D27D4EB4F);
    return hash ^ hash >> 32;
}

// The same for a table that has no room to spare: at the price of a multiplication it spreads likes better.
inline std::uint64_t mix_well(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t hash = mix(a, b) * 0xD6E8FEB86659FD93;
    return hash ^ hash >> 32;
}

// A hash of length >= 8 bytes.
inline std::uint64_t hash_of(const byte_t* bytes, std::size_t length) {
    std::uint64_t hash = length;
    for (std::size_t at = 0; at + 8 <= length; at += 8) hash = mix_well(hash, word_at(bytes + at));
    return mix_well(hash, word_at(bytes + length - 8));
}

}  // namespace hf_scaffold
