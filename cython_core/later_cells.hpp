// Where pairs have appeared since they were indexed: the left token's first cells, some of them stale by now.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "widths.hpp"

namespace hf_scaffold {

class LaterCells {
public:
    void add(std::uint32_t pair, position_t cell) { cells_[pair].push_back(cell); }

    // Room for n more cells, for the caller to fill before the next call here.
    position_t* make_room(std::uint32_t pair, std::size_t n) {
        std::vector<position_t>& cells = cells_[pair];
        cells.resize(cells.size() + n);
        return cells.data() + cells.size() - n;
    }

    // Moves the pair's cells to `out`, in ascending order together with the n others; false if there are none.
    bool take(std::uint32_t pair, const position_t* others, std::size_t n, std::vector<position_t>& out) {
        const auto found = cells_.find(pair);
        if (found == cells_.end()) return false;
        out.assign(others, others + n);
        out.insert(out.end(), found->second.begin(), found->second.end());
        std::sort(out.begin(), out.end());
        cells_.erase(found);
        return true;
    }

    void clear() { cells_.clear(); }

private:
    std::unordered_map<std::uint32_t, std::vector<position_t>> cells_;  // by the pair's number
};

}  // namespace hf_scaffold
