// What counter.pyx does without the GIL: a text's pre-tokens into a table, a table into flat arrays.
#pragma once

#include <cstdint>
#include <vector>

#include "pretoken_table.hpp"
#include "scan.hpp"

namespace hf_scaffold {

inline void count_pretokens(PretokenTable& table, Preset preset, const byte_t* text, const byte_t* end) {
    scan(preset, text, end, [&](const byte_t* at, const byte_t* stop) {
        table.add(at, static_cast<std::size_t>(stop - at), static_cast<std::size_t>(end - at));
    });
}

// Appends the start and the end of each pre-token of the text.
inline void append_offsets(std::vector<std::int64_t>& offsets, Preset preset, const byte_t* text, const byte_t* end) {
    scan(preset, text, end, [&](const byte_t* at, const byte_t* stop) {
        offsets.push_back(at - text);
        offsets.push_back(stop - text);
    });
}

// Out: all bytes one after another, the pre-tokens' ends in them, the counts.
inline void flatten(const std::vector<CountedPretoken>& pretokens, char* bytes, std::int64_t* ends, count_t* counts) {
    std::int64_t end = 0;
    for (const CountedPretoken& pretoken : pretokens) {
        std::memcpy(bytes + end, pretoken.bytes, pretoken.length);
        *ends++ = end += static_cast<std::int64_t>(pretoken.length);
        *counts++ = pretoken.count;
    }
}

// The first of n byte strings, bytes[offsets[i]] to bytes[offsets[i + 1]], that does not come after the one before
// it; n if there is none.
inline std::size_t first_out_of_order(const byte_t* bytes, const std::int64_t* offsets, std::size_t n) {
    for (std::size_t i = 1; i < n; ++i) {
        const std::int64_t before = offsets[i - 1], start = offsets[i], end = offsets[i + 1];
        if (!comes_before(bytes + before, start - before, bytes + start, end - start)) return i;
    }
    return n;
}

}  // namespace hf_scaffold
