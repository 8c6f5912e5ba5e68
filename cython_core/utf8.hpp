// Reading UTF-8: validation of untrusted bytes, character classes of valid text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simd.hpp"
#include "unicode_classes.hpp"

namespace hf_scaffold {

using byte_t = unsigned char;

// The length of the character at `at` < `end`; 0 if no complete, well-formed one starts there (Unicode, table 3-7).
// Reads nothing at or past `end`.
inline std::size_t character_length(const byte_t* at, const byte_t* end) {
    const byte_t lead = *at;
    if (lead < 0x80) return 1;
    const std::size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
    if (length == 0 || static_cast<std::size_t>(end - at) < length) return 0;
    // The second byte's range excludes overlong forms, surrogates and code points above U+10FFFF.
    const byte_t lowest = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const byte_t highest = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < lowest || at[1] > highest) return 0;
    for (std::size_t i = 2; i < length; ++i) {
        if ((at[i] & 0xC0) != 0x80) return 0;
    }
    return length;
}

inline bool are_eight_ascii(const byte_t* at) {
    std::uint64_t eight;
    std::memcpy(&eight, at, 8);
    return (eight & 0x8080808080808080) == 0;
}

// The first byte that is not ASCII; `end` if all are.
inline const byte_t* skip_ascii(const byte_t* at, const byte_t* end) {
#ifdef HF_SCAFFOLD_VECTORS
    for (; end - at >= 16; at += 16) {
        const unsigned others = Bytes16::load(at).bits();
        if (others != 0) return at + trailing_zeros(others);
    }
#else
    while (end - at >= 8 && are_eight_ascii(at)) at += 8;
#endif
    while (at != end && *at < 0x80) ++at;
    return at;
}

#ifdef HF_SCAFFOLD_VECTORS
// How many of 64 bytes are whole characters, up to the last one, `others` being those that aren't ASCII; 0 if something
// else is among them.
inline std::size_t n_valid_by_masks(const byte_t* at, std::uint64_t others) {
    const auto bits = [&](auto test) { return bits_of_64(at, test); };
    const std::uint64_t tails = bits([](Bytes16 some) { return some.are_tails(); });
    const std::uint64_t leads_of_2 = bits([](Bytes16 some) { return some.in_range(0xC2, 0x1E); });
    if (others == (tails | leads_of_2)) return tails == leads_of_2 << 1 ? 64 - (leads_of_2 >> 63) : 0;
    const std::uint64_t leads_of_3 = bits([](Bytes16 some) { return some.in_range(0xE0, 0x10); });
    const std::uint64_t leads_of_4 = bits([](Bytes16 some) { return some.in_range(0xF0, 0x05); });
    const std::uint64_t longer = leads_of_3 | leads_of_4, leads = leads_of_2 | longer;
    if (others != (tails | leads) || tails != (leads << 1 | longer << 2 | leads_of_4 << 3)) return 0;
    // Second bytes after four of the leads, as in character_length.
    const auto after = [&](byte_t lead) { return bits([=](Bytes16 some) { return some.equal(lead); }) << 1; };
    const std::uint64_t upper = bits([](Bytes16 some) { return some.in_range(0xA0, 0x20); });
    if ((after(0xE0) & ~upper) != 0 || (after(0xED) & upper) != 0) return 0;
    if (leads_of_4 != 0) {
        const std::uint64_t lowest = bits([](Bytes16 some) { return some.in_range(0x80, 0x10); });
        if ((after(0xF0) & lowest) != 0 || (after(0xF4) & ~lowest) != 0) return 0;
    }
    return leads >> 63 != 0 ? 63 : longer >> 62 != 0 ? 62 : leads_of_4 >> 61 != 0 ? 61 : 64;
}

// The same for 64 bytes or a few more, one character after another: faster if there are few.
inline std::size_t n_valid_by_character(const byte_t* at, const byte_t* end, std::uint64_t others) {
    std::size_t n = 0;
    for (; others != 0; others = n < 64 ? others >> n << n : 0) {
        const unsigned i = trailing_zeros(others);
        const std::size_t length = character_length(at + i, end);
        if (length == 0) return 0;
        n = i + length;
    }
    return std::max<std::size_t>(n, 64);
}

// Up to where less than 64 bytes are left, or something else than characters is among the next 64.
inline const byte_t* skip_valid_64s(const byte_t* at, const byte_t* end) {
    constexpr unsigned FEW = 8;
    for (std::size_t n = 0; end - at >= 64; at += n) {
        const Bytes16 all =
            Bytes16::load(at) | Bytes16::load(at + 16) | Bytes16::load(at + 32) | Bytes16::load(at + 48);
        if (all.bits() == 0) {
            n = 64;
            continue;
        }
        const std::uint64_t others = bits_of_64(at, [](Bytes16 some) { return some; });
        n = count_ones(others) > FEW ? n_valid_by_masks(at, others) : n_valid_by_character(at, end, others);
        if (n == 0) break;
    }
    return at;
}
#endif

// The first byte that begins no whole character; `end` if there is none.
inline const byte_t* end_of_valid_utf8(const byte_t* at, const byte_t* end) {
#ifdef HF_SCAFFOLD_VECTORS
    at = skip_valid_64s(at, end);
#endif
    while ((at = skip_ascii(at, end)) != end) {
        do {
            const std::size_t length = character_length(at, end);
            if (length == 0) return at;
            at += length;
        } while (at != end && *at >= 0x80);
    }
    return end;
}

inline bool is_valid_utf8(const byte_t* at, const byte_t* end) { return end_of_valid_utf8(at, end) == end; }

struct Character {
    classes_t classes;
    std::uint8_t length;  // in bytes
};

struct Code {
    std::uint32_t point;
    std::uint8_t length;  // in bytes
};

// A character of more than one byte.
inline Code long_code_at(const byte_t* at) {
    const std::uint32_t code = at[0];
    if (code < 0xE0) return {(code & 0x1F) << 6 | (at[1] & 0x3Fu), 2};
    if (code < 0xF0) return {(code & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu), 3};
    return {(code & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu), 4};
}

inline Code code_at(const byte_t* at) { return *at < 0x80 ? Code{*at, 1} : long_code_at(at); }

inline Character long_character_at(const byte_t* at) {
    const auto [code, length] = long_code_at(at);
    return {UNICODE_CLASSES[UNICODE_BLOCK[code / UNICODE_BLOCK_SIZE]][code % UNICODE_BLOCK_SIZE], length};
}

// The character at `at`, in valid UTF-8. Small, so that the scanners inline its ASCII path.
inline Character character_at(const byte_t* at) {
    if (*at < 0x80) return {UNICODE_CLASSES[0][*at], 1};
    return long_character_at(at);
}

}  // namespace hf_scaffold
