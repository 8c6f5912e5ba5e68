// Python's strings as UTF-8: the characters of a str are 1, 2 or 4 bytes wide, whichever its widest one needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

// The length of the run of ASCII at `at`, up to 8 of 8 readable characters, which are all written to `out`.
inline unsigned copy_ascii(const std::uint16_t* at, byte_t* out) {
#ifdef HF_SCAFFOLD_SSE2
    const __m128i units = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i beyond = _mm_subs_epu16(units, _mm_set1_epi16(0x7F));
    const __m128i ascii = _mm_cmpeq_epi16(beyond, _mm_setzero_si128());
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(units, units));
    return trailing_zeros(~static_cast<unsigned>(_mm_movemask_epi8(ascii))) / 2;
#else
    unsigned n = 0;
    while (n < 8 && at[n] < 0x80) ++n;
    for (unsigned i = 0; i < 8; ++i) out[i] = static_cast<byte_t>(at[i]);
    return n;
#endif
}

template <class Unit>
unsigned copy_ascii(const Unit* at, byte_t* out) {
    unsigned n = 0;
    while (n < 8 && at[n] < 0x80) ++n;
    for (unsigned i = 0; i < 8; ++i) out[i] = static_cast<byte_t>(at[i]);
    return n;
}

// Writes the characters as UTF-8 to `out`, which has room for 4 bytes for each and 8 more; returns the end, or null
// at a lone surrogate, which UTF-8 can't express.
template <class Unit>
byte_t* to_utf8(const Unit* at, const Unit* end, byte_t* out) {
    while (at != end) {
        if (end - at >= 8) {
            const unsigned n = copy_ascii(at, out);
            if (n == 8) {  // adding a number, not n, lets the next eight be loaded before these have been tested
                at += 8;
                out += 8;
                continue;
            }
            at += n;
            out += n;
        }
        const std::uint32_t code = *at++;
        const auto tail = [&](unsigned shift) { return static_cast<byte_t>(0x80 | (code >> shift & 0x3F)); };
        if (code < 0x80) {
            *out++ = static_cast<byte_t>(code);
        } else if (code < 0x800) {
            *out++ = static_cast<byte_t>(0xC0 | code >> 6);
            *out++ = tail(0);
        } else if (code < 0x10000) {
            if (code - 0xD800 < 0x800) return nullptr;
            *out++ = static_cast<byte_t>(0xE0 | code >> 12);
            *out++ = tail(6);
            *out++ = tail(0);
        } else {
            *out++ = static_cast<byte_t>(0xF0 | code >> 18);
            *out++ = tail(12);
            *out++ = tail(6);
            *out++ = tail(0);
        }
    }
    return out;
}

}  // namespace hf_scaffold
