// Python's strings as UTF-8: the characters of a str are 1, 2 or 4 bytes wide, whichever its widest one needs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simd.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

constexpr unsigned AT_ONCE = 16;

// The length of the run of ASCII at `at`, up to AT_ONCE of as many readable characters, all written to `out`.
inline unsigned copy_ascii(const std::uint16_t* at, byte_t* out) {
#ifdef HF_SCAFFOLD_SSE2
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 8));
    const __m128i limit = _mm_set1_epi16(0x7F);
    const __m128i beyond = _mm_packs_epi16(_mm_subs_epu16(low, limit), _mm_subs_epu16(high, limit));
    const __m128i ascii = _mm_cmpeq_epi8(beyond, _mm_setzero_si128());
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(low, high));
    return trailing_zeros(~static_cast<unsigned>(_mm_movemask_epi8(ascii)));
#else
    unsigned n = 0;
    while (n < AT_ONCE && at[n] < 0x80) ++n;
    for (unsigned i = 0; i < AT_ONCE; ++i) out[i] = static_cast<byte_t>(at[i]);
    return n;
#endif
}

template <class Unit>
unsigned copy_ascii(const Unit* at, byte_t* out) {
    unsigned n = 0;
    while (n < AT_ONCE && at[n] < 0x80) ++n;
    for (unsigned i = 0; i < AT_ONCE; ++i) out[i] = static_cast<byte_t>(at[i]);
    return n;
}

// Writes the characters as UTF-8 to `out`, which has room for 4 bytes for each and AT_ONCE more; returns the end, or
// null at a lone surrogate, which UTF-8 can't express.
template <class Unit>
byte_t* to_utf8(const Unit* at, const Unit* end, byte_t* out) {
    while (at != end) {
        if (end - at >= static_cast<std::ptrdiff_t>(AT_ONCE)) {
            const unsigned n = copy_ascii(at, out);
            if (n == AT_ONCE) {  // adding a constant lets the next be loaded before these have been tested
                at += AT_ONCE;
                out += AT_ONCE;
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
