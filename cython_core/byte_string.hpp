// Short byte strings as 8-byte words, which the tables of pre-tokens compare and hash.
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

}  // namespace hf_scaffold
