// Character classes of 64 bytes of text as bit masks, so that rules handle all of them at once.
#pragma once

#include <cstdint>

#include "simd.hpp"
#include "unicode_classes.hpp"
#include "utf8.hpp"

#ifdef HF_SCAFFOLD_SSE2

namespace hf_scaffold {

// Each mask has one bit per byte. In letters, numbers, digits, spaces, upper and lower, all bytes of a character have
// its bit.
constexpr unsigned WINDOW_SIZE = 64;
template <bool has_cases>
struct Window {
    std::uint64_t letters = 0, numbers = 0, digits = 0, spaces = 0;
    std::uint64_t blanks = 0, newlines = 0, quotes = 0;  // ' ', [\r\n] and '\''
    std::uint64_t long_spaces = 0;                       // the first bytes of spaces that are not ASCII
    std::uint64_t tails = 0;                             // the continuation bytes of characters
    // Only if has_cases. `letters` is then upper | lower, including marks, which are both.
    std::uint64_t upper = 0, lower = 0, marks = 0, slashes = 0;

    // Classifies the 64 bytes at `bytes`: either the text at `at` itself, or a copy of it with ASCII where there is no
    // text. Characters that cross the window's borders must be complete at `at`.
    Window(const byte_t* bytes, const byte_t* at) {
        std::uint64_t beyond = 0;
        for (unsigned i = 0; i < WINDOW_SIZE; i += 16) {
            const __m128i some = load(bytes + i);
            const __m128i blank = _mm_cmpeq_epi8(some, _mm_set1_epi8(' '));
            if constexpr (has_cases) {
                upper |= bits(in_range(some, 'A', 26)) << i;
                lower |= bits(in_range(some, 'a', 26)) << i;
                slashes |= bits(_mm_cmpeq_epi8(some, _mm_set1_epi8('/'))) << i;
            } else {
                letters |= bits(in_range(_mm_or_si128(some, _mm_set1_epi8(0x20)), 'a', 26)) << i;
            }
            numbers |= bits(in_range(some, '0', 10)) << i;
            spaces |= bits(_mm_or_si128(blank, in_range(some, '\t', 5))) << i;
            blanks |= bits(blank) << i;
            const __m128i returns = _mm_cmpeq_epi8(some, _mm_set1_epi8('\r'));
            newlines |= bits(_mm_or_si128(returns, _mm_cmpeq_epi8(some, _mm_set1_epi8('\n')))) << i;
            quotes |= bits(_mm_cmpeq_epi8(some, _mm_set1_epi8('\''))) << i;
            beyond |= bits(some) << i;
        }
        digits = numbers;
        if (beyond != 0) add_long_characters(bytes, at, beyond);
        if (has_cases) letters = upper | lower;
    }

private:
    void add_long_characters(const byte_t* bytes, const byte_t* at, std::uint64_t beyond) {
        const __m128i first_lead = _mm_set1_epi8(static_cast<char>(0xC0));
        for (unsigned i = 0; i < WINDOW_SIZE; i += 16) tails |= bits(_mm_cmplt_epi8(load(bytes + i), first_lead)) << i;
        tails &= beyond;
        if (tails & 1) {
            const byte_t* lead = at - 1;
            while ((*lead & 0xC0) == 0x80) --lead;
            const Character character = long_character_at(lead);
            add(character.classes, ones(character.length) >> (at - lead));
        }
        for (std::uint64_t leads = beyond & ~tails; leads != 0; leads &= leads - 1) {
            const unsigned i = trailing_zeros(leads);
            const Character character = long_character_at(at + i);
            add(character.classes, ones(character.length) << i);
            if (character.classes & SPACE) long_spaces |= lowest_one(leads);
        }
    }

    void add(classes_t classes, std::uint64_t places) {
        if constexpr (has_cases) {
            upper |= all_if(classes & UPPER) & places;
            lower |= all_if(classes & LOWER) & places;
            marks |= all_if((classes & OTHER) && (classes & UPPER)) & places;
        } else {
            letters |= all_if(classes & LETTER) & places;
        }
        numbers |= all_if(classes & NUMBER) & places;
        digits |= all_if(classes & DIGIT) & places;
        spaces |= all_if(classes & SPACE) & places;
    }

    static std::uint64_t all_if(bool yes) { return std::uint64_t{0} - yes; }
    static std::uint64_t ones(unsigned n) { return (std::uint64_t{1} << n) - 1; }
    static __m128i load(const byte_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
    static std::uint64_t bits(__m128i bytes) { return static_cast<unsigned>(_mm_movemask_epi8(bytes)); }

    // SSE2 only compares signed bytes, so this shifts `first` to the lowest one.
    static __m128i in_range(__m128i bytes, int first, int n) {
        const __m128i moved = _mm_sub_epi8(bytes, _mm_set1_epi8(static_cast<char>(first + 0x80)));
        return _mm_cmplt_epi8(moved, _mm_set1_epi8(static_cast<char>(0x80 + n)));
    }
};

}  // namespace hf_scaffold
#endif
