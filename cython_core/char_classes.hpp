// Classes of characters, given as runs of code points: a table that finds a character's class in UTF-8.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <vector>

#include "utf8.hpp"

namespace hf_scaffold {

constexpr std::uint32_t CODE_POINTS = 0x110000;

// The code point of the valid character at `at`; sets `length` to its bytes.
inline std::uint32_t code_point_at(const byte_t* at, std::size_t& length) {
    const std::uint32_t lead = at[0];
    if (lead < 0x80) {
        length = 1;
        return lead;
    }
    if (lead < 0xE0) {
        length = 2;
        return (lead & 0x1F) << 6 | (at[1] & 0x3Fu);
    }
    if (lead < 0xF0) {
        length = 3;
        return (lead & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
    }
    length = 4;
    return (lead & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
}

class CharClasses {
public:
    // The i-th of n runs goes from starts[i] to the next one's start, the last to the last code point. Throws
    // std::invalid_argument unless they begin at 0 and ascend, and each class is below `n_classes`.
    CharClasses(const std::uint32_t* starts, const byte_t* classes, std::size_t n, std::size_t n_classes) {
        if (n == 0 || starts[0] != 0) throw std::invalid_argument("the runs of code points must begin at 0");
        for (std::size_t i = 0; i < n; ++i) {
            if (classes[i] >= n_classes) throw std::invalid_argument("a run of code points has an unknown class");
            if (starts[i] >= CODE_POINTS || (i > 0 && starts[i] <= starts[i - 1])) {
                throw std::invalid_argument("the runs of code points must ascend");
            }
        }
        std::map<Row, std::uint16_t> known;
        std::size_t run = 0;
        Row row;
        bool is_uniform = false;
        for (std::uint32_t code = 0; code < CODE_POINTS; code += ROW) {
            if (is_uniform && (run + 1 == n || starts[run + 1] >= code + ROW)) {  // the same again
                row_of_[code / ROW] = row_of_[code / ROW - 1];
                continue;
            }
            for (std::uint32_t i = 0; i < ROW; ++i) {
                if (run + 1 < n && starts[run + 1] == code + i) ++run;
                row[i] = classes[run];
            }
            const auto found = known.emplace(row, static_cast<std::uint16_t>(rows_.size()));
            if (found.second) rows_.push_back(row);
            row_of_[code / ROW] = found.first->second;
            is_uniform = row == uniform(row[0]);
        }
    }

    byte_t of(std::uint32_t code) const { return rows_[row_of_[code / ROW]][code % ROW]; }
    const byte_t* of_ascii() const { return rows_[0].data(); }

    // Whether wanted(class) holds for all characters whose UTF-8 begins with this byte; false for four bytes.
    template <class Wanted>
    bool all_that_begin(byte_t lead, Wanted wanted) const {
        std::uint32_t first = lead, last = lead;
        if (lead >= 0xC2 && lead < 0xE0) {
            first = (lead & 0x1Fu) << 6, last = first | 0x3F;
        } else if (lead >= 0xE0 && lead < 0xF0) {
            first = (lead & 0x0Fu) << 12, last = first | 0xFFF;
        } else if (lead >= 0x80) {
            return false;
        }
        for (std::uint32_t code = first; code <= last; ++code) {
            if (!wanted(of(code))) return false;
        }
        return true;
    }

private:
    static constexpr std::uint32_t ROW = 128;  // row 0 is ASCII
    using Row = std::array<byte_t, ROW>;

    static Row uniform(byte_t value) {
        Row row;
        row.fill(value);
        return row;
    }

    std::array<std::uint16_t, CODE_POINTS / ROW> row_of_;
    std::vector<Row> rows_;
};

}  // namespace hf_scaffold
