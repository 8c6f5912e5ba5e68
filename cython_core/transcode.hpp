// From Python's strings to UTF-8. A str stores its characters as units of 1, 2 or 4 bytes, as its widest one needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "simd.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

constexpr unsigned AT_ONCE = 16;

// Writes the low bytes of AT_ONCE characters to `out`; returns a mask with a bit for each that is not ASCII.
template <class Unit>
unsigned copy_low_bytes(const Unit* at, byte_t* out) {
    unsigned beyond = 0;
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        out[i] = static_cast<byte_t>(at[i]);
        beyond |= static_cast<unsigned>(at[i] >= 0x80) << i;
    }
    return beyond;
}

template <>
inline unsigned copy_low_bytes(const std::uint16_t* at, byte_t* out) {
    return Bytes16::narrow(at, out);
}

// Sets `bytes` to the UTF-8 of a character, first byte lowest, and `length` to its length. Branchless, since text in
// many scripts is unpredictable, and so that compilers vectorize it.
template <class Unit>
void as_utf8(Unit unit, std::uint32_t& bytes, std::uint32_t& length) {
    const std::uint32_t code = unit, last = code & 0x3F;
    const std::uint32_t two = 0x80C0 | code >> 6 | last << 8;
    const std::uint32_t three = 0x8080E0 | code >> 12 | (code & 0xFC0) << 2 | last << 16;
    const std::uint32_t four = 0x808080F0 | code >> 18 | (code >> 4 & 0x3F00) | (code & 0xFC0) << 10 | last << 24;
    bytes = code < 0x80 ? code : code < 0x800 ? two : sizeof unit < 4 || code < 0x10000 ? three : four;
    length = 1u + (code >= 0x80) + (code >= 0x800) + (sizeof unit == 4 && code >= 0x10000);
}

// Writes a character as UTF-8 to `out`, followed by up to 3 meaningless bytes; returns the end of the former.
template <class Unit>
byte_t* put(Unit unit, byte_t* out) {
    std::uint32_t bytes, length;
    as_utf8(unit, bytes, length);
    std::memcpy(out, &bytes, sizeof bytes);
    return out + length;
}

// put() for AT_ONCE characters.
template <class Unit>
byte_t* put_all(const Unit* at, byte_t* out) {
    std::uint32_t bytes[AT_ONCE], lengths[AT_ONCE];
    for (unsigned i = 0; i < AT_ONCE; ++i) as_utf8(at[i], bytes[i], lengths[i]);
    for (unsigned i = 0; i < AT_ONCE; ++i) {
        std::memcpy(out, &bytes[i], sizeof bytes[i]);
        out += lengths[i];
    }
    return out;
}

// The most bytes of UTF-8 that a character takes, given the size of the units that store it.
constexpr std::size_t most_utf8_bytes(std::size_t unit_size) { return unit_size == 4 ? 4 : unit_size + 1; }

// Writes the characters as UTF-8 to `out`, which has room for most_utf8_bytes(sizeof(Unit)) for each and AT_ONCE bytes
// more. Returns the end; null if there is a lone surrogate, which UTF-8 can't express.
template <class Unit>
byte_t* to_utf8(const Unit* at, const Unit* end, byte_t* out) {
    bool is_text = true;
    const auto check = [&](unsigned n) {
        for (unsigned i = 0; i < n; ++i) is_text &= (at[i] & 0xFFFFF800u) != 0xD800;
    };
    while (end - at >= static_cast<std::ptrdiff_t>(AT_ONCE)) {
        const unsigned beyond = copy_low_bytes(at, out);
        if (beyond == 0) {  // adding a constant lets the next load start before this test is done
            at += AT_ONCE;
            out += AT_ONCE;
        } else if ((beyond & (beyond - 1)) == 0) {
            at += trailing_zeros(beyond);
            out += trailing_zeros(beyond);
            check(1);
            out = put(*at++, out);
        } else {
            check(AT_ONCE);
            out = put_all(at, out);
            at += AT_ONCE;
        }
    }
    for (; at != end; ++at) {
        check(1);
        out = put(*at, out);
    }
    return is_text ? out : nullptr;
}

}  // namespace hf_scaffold
