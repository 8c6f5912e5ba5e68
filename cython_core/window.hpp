// Character classes of 64 bytes of text as bit masks, so that rules handle all of them at once.
#pragma once

#include <cstdint>

#include "simd.hpp"
#include "unicode_classes.hpp"
#include "utf8.hpp"

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
        if constexpr (has_cases) {
            upper = bits_of_64(bytes, [](Bytes16 some) { return some.in_range('A', 26); });
            lower = bits_of_64(bytes, [](Bytes16 some) { return some.in_range('a', 26); });
            slashes = bits_of_64(bytes, [](Bytes16 some) { return some.equal('/'); });
        } else {
            letters = bits_of_64(bytes, [](Bytes16 some) { return (some | Bytes16::all(0x20)).in_range('a', 26); });
        }
        numbers = bits_of_64(bytes, [](Bytes16 some) { return some.in_range('0', 10); });
        blanks = bits_of_64(bytes, [](Bytes16 some) { return some.equal(' '); });
        spaces = blanks | bits_of_64(bytes, [](Bytes16 some) { return some.in_range('\t', 5); });
        newlines = bits_of_64(bytes, [](Bytes16 some) { return some.equal('\r') | some.equal('\n'); });
        quotes = bits_of_64(bytes, [](Bytes16 some) { return some.equal('\''); });
        const std::uint64_t beyond = bits_of_64(bytes, [](Bytes16 some) { return some; });
        digits = numbers;
        if (beyond != 0) add_long_characters(bytes, at, beyond);
        if (has_cases) letters = upper | lower;
    }

private:
    void add_long_characters(const byte_t* bytes, const byte_t* at, std::uint64_t beyond) {
        tails = bits_of_64(bytes, [](Bytes16 some) { return some.are_tails(); });
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
};

}  // namespace hf_scaffold
