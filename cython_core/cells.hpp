// Training's text: the symbols of all pre-tokens in one row of cells, and which pre-token each cell is in.
//
// A cell of BOUNDARY precedes each pre-token, and one follows the last; these stay where they are. So a cell's
// pre-token is the number of boundaries before it. They are counted up to each cache line of cells; those in the line
// itself, which whoever asks has read already, are counted anew each time. The pre-token's number in each cell would
// take sixteen times the memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "large_array.hpp"
#include "simd.hpp"
#include "widths.hpp"

namespace hf_scaffold {

constexpr token_id_t BOUNDARY = -1;  // between two pre-tokens
constexpr token_id_t INSIDE = -2;    // inside a token, where a shorter token once began or ended

class Cells {
public:
    // For so many; there are none before.
    void make_room(std::size_t n) {
        const std::size_t n_lines = n / LINE + 1, room = n_lines * LINE;
        cells_ = make_large_array<token_id_t>(room);
        boundaries_before_ = make_large_array<std::uint32_t>(n_lines);
        std::fill(cells_.get() + room - LINE, cells_.get() + room, INSIDE);  // a whole line is read at a time
        room_ = n;
        size_ = n_boundaries_ = 0;
    }

    void append(token_id_t cell) {
        if (size_ == room_) throw std::length_error("more cells than there is room for");
        if (size_ % LINE == 0) boundaries_before_[size_ / LINE] = n_boundaries_;
        n_boundaries_ += cell == BOUNDARY;
        cells_[size_++] = cell;
    }

    std::size_t size() const { return size_; }
    token_id_t* data() { return cells_.get(); }
    token_id_t& operator[](std::size_t cell) { return cells_[cell]; }

    // The number of its pre-token. A boundary belongs to the pre-token after it.
    std::uint32_t pretoken_of(position_t cell) const {
        const token_id_t* const line = &cells_[cell / LINE * LINE];
        std::uint32_t n = boundaries_before_[cell / LINE];
        for (std::size_t i = 0; i < LINE; ++i) n += (line[i] == BOUNDARY) & (i <= cell % LINE);
        return n - 1;
    }

    // Starts loading the cell and what pretoken_of() needs.
    void prefetch_cell(position_t cell) const {
        prefetch(&cells_[cell]);
        prefetch(&boundaries_before_[cell / LINE]);
    }

    // The boundary before the pre-token, which must be one of those here.
    position_t boundary_before(std::uint32_t pretoken) const {
        const std::uint32_t* const lines = boundaries_before_.get();
        const std::size_t n_lines = (size_ + LINE - 1) / LINE;
        const std::size_t line = std::upper_bound(lines, lines + n_lines, pretoken) - lines - 1;
        std::size_t cell = line * LINE;
        for (std::uint32_t n = lines[line]; (n += cells_[cell] == BOUNDARY) <= pretoken;) ++cell;
        return static_cast<position_t>(cell);
    }

private:
    static constexpr std::size_t LINE = CACHE_LINE / sizeof(token_id_t);

    LargeArray<token_id_t> cells_;
    LargeArray<std::uint32_t> boundaries_before_;  // each line
    std::size_t room_ = 0;
    std::size_t size_ = 0;
    std::uint32_t n_boundaries_ = 0;
};

}  // namespace hf_scaffold
