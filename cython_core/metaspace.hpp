// Pre-tokens of text in which U+2581, ▁, stands for spaces, and of text that stays whole; see scan.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "simd.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

inline bool is_metaspace_at(const byte_t* at) { return at[0] == 0xE2 && at[1] == 0x96 && at[2] == 0x81; }

#ifdef HF_SCAFFOLD_VECTORS
// A bit for each of 64 bytes at which ▁ begins; reads two more.
inline std::uint64_t metaspaces_in_64(const byte_t* at) {
    const auto places = [](const byte_t* bytes, byte_t byte) {
        return bits_of_64(bytes, [=](Bytes16 some) { return some.equal(byte); });
    };
    return places(at, 0xE2) & places(at + 1, 0x96) & places(at + 2, 0x81);
}
#endif

// Writes n bytes with one byte in place of each ▁, at most n, to where nothing of them is; returns how many these are.
inline std::size_t shorten_metaspaces(const byte_t* at, std::size_t n, byte_t by, byte_t* out) {
    const byte_t* const end = at + n;
    byte_t* to = out;
#ifdef HF_SCAFFOLD_VECTORS
    // What comes before the next ▁ is copied by sixteens; what that is too much is overwritten.
    constexpr std::ptrdiff_t STEP = 64, COPIED = 16;
    const auto copy_until = [&](const byte_t* stop) {
        for (; stop - at > COPIED; at += COPIED, to += COPIED) std::memcpy(to, at, COPIED);
        std::memcpy(to, at, COPIED);
        to += stop - at;
    };
    while (end - at >= STEP + COPIED) {
        const byte_t* const begin = at;
        for (std::uint64_t found = metaspaces_in_64(at); found != 0; found &= found - 1) {
            const byte_t* const metaspace = begin + trailing_zeros(found);
            copy_until(metaspace);
            *to++ = by;
            at = metaspace + 3;
        }
        if (at >= begin + STEP) continue;
        copy_until(begin + STEP);
        at = begin + STEP;
    }
#endif
    while (at != end) {
        const bool is_one = end - at >= 3 && is_metaspace_at(at);
        *to++ = is_one ? by : *at;
        at += is_one ? 3 : 1;
    }
    return static_cast<std::size_t>(to - out);
}

// All of the text is one pre-token.
struct WholeRules {
    static const byte_t* next(const byte_t*, const byte_t* end) { return end; }

    template <class Neighbour>
    static bool separates(Neighbour, Neighbour) {
        return false;
    }

    // As in scan.hpp; works without vectors, too.
    class Starts {
    public:
        static constexpr std::ptrdiff_t STEP = std::numeric_limits<std::ptrdiff_t>::max();
        Starts(const byte_t*, const byte_t*) {}
        std::uint64_t next(const byte_t*) { return 1; }
        bool are_cut_short() const { return false; }
    };
};

// A pre-token starts before each ▁; with `joins_runs`, only before the first one of a run.
template <bool joins_runs>
struct MetaspaceRules {
    static const byte_t* next(const byte_t* at, const byte_t* end) {
        bool after_metaspace = joins_runs;
        while (at != end) {
            const bool is_one = end - at >= 3 && is_metaspace_at(at);
            if (joins_runs ? is_one && !after_metaspace : is_one && after_metaspace) break;
            after_metaspace = joins_runs ? is_one : true;
            at += is_one ? 3 : 1;
        }
        return at;
    }

    template <class Neighbour>
    static bool separates(Neighbour a, Neighbour b) {
        return is_metaspace(b) && !(joins_runs && is_metaspace(a));
    }

#ifdef HF_SCAFFOLD_VECTORS
    class Starts {
    public:
        static constexpr std::ptrdiff_t STEP = 64;

        Starts(const byte_t* begin, const byte_t* end) : begin_(begin), end_(end) {}

        std::uint64_t next(const byte_t* at) {
            byte_t copy[STEP + 2];
            const byte_t* bytes = at;
            if (end_ - at < STEP + 2) {
                std::memset(copy, 0, sizeof copy);
                std::memcpy(copy, at, static_cast<std::size_t>(end_ - at));
                bytes = copy;
            }
            const std::uint64_t found = metaspaces_in_64(bytes);
            std::uint64_t starts = joins_runs ? found & ~(found << 3 | last_found_ >> 61) : found;
            last_found_ = found;
            if (at == begin_) starts |= 1;
            return starts;
        }

        bool are_cut_short() const { return false; }

    private:
        const byte_t* begin_;
        const byte_t* end_;
        std::uint64_t last_found_ = 0;
    };
#endif

private:
    template <class Neighbour>
    static bool is_metaspace(Neighbour character) {
        return character.lead == 0xE2 && is_metaspace_at(character.at);
    }
};

}  // namespace hf_scaffold
