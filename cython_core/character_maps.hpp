// Normalizers that look at one character at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "byte_buffer.hpp"
#include "interrupt.hpp"
#include "normalization_tables.hpp"
#include "transcode.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

// The characters that have one of `away` are dropped, of `to_space` become a space, of `spaced` have spaces put around
// them, of `lowered` become their lower case.
struct CharacterMap {
    unsigned away, to_space, spaced, lowered;

    unsigned all() const { return away | to_space | spaced | lowered; }
};

// BertNormalizer's steps, StripAccents, Nmt and Lowercase.
constexpr CharacterMap CLEAN{CLEANED_AWAY, CLEANED_TO_SPACE, 0, 0}, SPACE_CHINESE{0, 0, CHINESE, 0};
constexpr CharacterMap DROP_NONSPACING{NONSPACING, 0, 0, 0}, DROP_COMBINING{COMBINING, 0, 0, 0};
constexpr CharacterMap NMT{NMT_AWAY, NMT_TO_SPACE, 0, 0}, LOWERCASE{0, 0, 0, LOWERED};

inline unsigned kinds_of(std::uint32_t code) { return KINDS[KINDS_BLOCK[code / 128]][code % 128]; }

// All kinds of characters of three bytes that begin with a byte, less 0xE0; none for most of Chinese but CHINESE.
struct KindsOfLeads {
    constexpr KindsOfLeads() {
        for (std::uint32_t code = 0x800; code < 0x10000; ++code) {
            kinds[code >> 12] |= KINDS[KINDS_BLOCK[code / 128]][code % 128];
        }
    }

    unsigned kinds[16] = {};
};
constexpr KindsOfLeads KINDS_OF_LEADS;

// Whether characters that begin with this byte stay as they are, and have three.
inline bool are_plain(byte_t lead, CharacterMap map) {
    return (lead & 0xF0) == 0xE0 && (KINDS_OF_LEADS.kinds[lead & 0x0F] & map.all()) == 0;
}

// Writes what becomes of a character that is to change.
inline byte_t* put_mapped(std::uint32_t code, unsigned kinds, CharacterMap map, byte_t* to) {
    if (kinds & map.away) return to;
    if (kinds & (map.to_space | map.spaced)) *to++ = ' ';
    if (kinds & map.to_space) return to;
    if (kinds & map.spaced) {
        to = put(code, to);
        *to++ = ' ';
        return to;
    }
    const std::uint32_t* const lower = STRINGS + LOWER_CASE[LOWER_CASE_BLOCK[code / 128]][code % 128];
    for (std::uint32_t i = 1; i <= *lower; ++i) to = put(lower[i], to);
    return to;
}

// Copies bytes, ASCII letters in lower case if asked for. Written so that compilers vectorize it.
inline void copy_ascii(const byte_t* at, std::size_t n, bool is_lowered, byte_t* to) {
    const byte_t case_bit = is_lowered ? 0x20 : 0;
    for (std::size_t i = 0; i < n; ++i) {
        const byte_t byte = at[i];
        to[i] = static_cast<byte_t>(byte + (static_cast<byte_t>(byte - 'A') < 26 ? case_bit : 0));
    }
}

// Appends the text with its characters mapped.
inline void map_characters(const byte_t* at, const byte_t* end, CharacterMap map, ByteBuffer& out, Steps& steps) {
    constexpr std::size_t MOST_AT_ONCE = 256;
    constexpr std::size_t GROWTH = 2;  // more than any character grows by: a Chinese one from 3 bytes to 5
    const bool ascii_stays = ((kinds_of('\0') | kinds_of('\n') | kinds_of(0x7F)) & map.all() & ~map.lowered) == 0;
    while (at != end) {
        steps.next();
        const std::size_t left = static_cast<std::size_t>(end - at);
        const byte_t* stop = at + (left < MOST_AT_ONCE ? left : MOST_AT_ONCE);
        byte_t* to = out.room_for(GROWTH * (MOST_AT_ONCE + 4));
        while (at < stop) {
            const byte_t* ascii = at;
            if (ascii_stays) {
                while (stop - ascii >= 8 && are_eight_ascii(ascii)) ascii += 8;
                while (ascii != stop && *ascii < 0x80) ++ascii;
            } else {
                while (ascii != stop && *ascii < 0x80 && !(kinds_of(*ascii) & map.all())) ++ascii;
            }
            const auto n = static_cast<std::size_t>(ascii - at);
            copy_ascii(at, n, map.lowered != 0, to);
            to += n;
            at = ascii;
            if (at >= stop) break;
            const byte_t* const first = at;
            for (; at < stop && are_plain(*at, map); at += 3) to = std::copy_n(at, 3, to);
            if (at != first) continue;
            const Code code = code_at(at);
            const unsigned kinds = kinds_of(code.point) & map.all();
            to = kinds == 0 ? put(code.point, to) : put_mapped(code.point, kinds, map, to);
            at += code.length;
        }
        out.end_at(to);
    }
}

}  // namespace hf_scaffold
