// The loops of counter.pyx: from text to a table of pre-tokens, from the table to flat arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "interrupt.hpp"
#include "pretoken_table.hpp"
#include "splitter.hpp"

namespace hf_scaffold {

// Scans the text in pieces, cut where that changes nothing, and polls between them. Calls sink as scan_in_batches().
template <class Sink>
void scan_in_pieces(
    const Splitting& splitting, const byte_t* text, const byte_t* end, Interrupt& interrupt, Sink sink) {
    static constexpr std::ptrdiff_t PIECE = std::ptrdiff_t{1} << 20;
    std::ptrdiff_t size = PIECE;
    while (text != end) {
        const bool is_last = end - text <= size;
        const byte_t* stop = is_last ? end : text + last_cut(splitting, text, text + size);
        if (stop == text) {
            size *= 2;  // text without a cut is read a constant number of times
            continue;
        }
        scan_in_batches(splitting, text, stop, sink);
        interrupt.poll();
        text = stop;
        size = PIECE;
    }
}

inline void count_pretokens(
    PretokenTable& table, const Splitting& splitting, const byte_t* text, const byte_t* end, Interrupt& interrupt) {
    const auto add = [&](const byte_t* const* bounds, std::size_t n, const byte_t* dropped = nullptr) {
        table.add(bounds, n, dropped, end);
    };
    scan_in_pieces(splitting, text, end, interrupt, add);
}

// Appends the start and the end of each pre-token of the text.
inline void append_offsets(
    std::vector<std::int64_t>& offsets, const Splitting& splitting, const byte_t* text, const byte_t* end,
    Interrupt& interrupt) {
    const auto append = [&](const byte_t* const* bounds, std::size_t n, const byte_t* dropped = nullptr) {
        for (std::size_t i = 0; i < n; ++i) {
            if (dropped != nullptr && dropped[i]) continue;
            offsets.push_back(bounds[i] - text);
            offsets.push_back(bounds[i + 1] - text);
        }
    };
    scan_in_pieces(splitting, text, end, interrupt, append);
}

// Writes the pre-tokens' concatenated bytes, their ends in these, and their counts.
inline void flatten(
    const std::vector<CountedPretoken>& pretokens, char* bytes, std::int64_t* ends, count_t* counts,
    Interrupt& interrupt) {
    Steps steps(interrupt);
    std::int64_t end = 0;
    for (const CountedPretoken& pretoken : pretokens) {
        steps.next();
        std::memcpy(bytes + end, pretoken.bytes, pretoken.length);
        *ends++ = end += static_cast<std::int64_t>(pretoken.length);
        *counts++ = pretoken.count;
    }
}

}  // namespace hf_scaffold
