// Every adjacent pair of symbols seen in training: its current frequency and the cells where it first occurred.
//
// A pair appears once, everywhere at the same time (see trainer.pyx), with all its cells in ascending order. Later
// merges nearby lower its frequency and leave some of its cells stale, which the reader detects; none are ever added.
// So a whole run files at most three cells for each symbol of the corpus: one at the start and two per replacement.
// Of the latter, about half take the place of the merged pair's cells.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "hash_seed.hpp"
#include "pair_key.hpp"
#include "simd.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// Bump allocation for lists, most of which live as long as the index.
class CellArena {
public:
    position_t* allocate(std::size_t size) {
        if (size <= spare_left_) {
            position_t* const cells = spare_;
            spare_ += size;
            spare_left_ -= size;
            return cells;
        }
        if (size > left_) {
            const std::size_t room = std::max(size, BLOCK);
            std::unique_ptr<position_t[]> block(new position_t[room]);
            blocks_.push_back(std::move(block));
            next_ = blocks_.back().get();
            left_ = room;
        }
        position_t* cells = next_;
        next_ += size;
        left_ -= size;
        return cells;
    }

    // Memory that was allocated here and is no longer needed is handed out again, until there is other such memory.
    void reuse(position_t* cells, std::size_t size) {
        spare_ = cells;
        spare_left_ = size;
    }

private:
    static constexpr std::size_t BLOCK = std::size_t{1} << 18;
    std::vector<std::unique_ptr<position_t[]>> blocks_;
    position_t* next_ = nullptr;
    std::size_t left_ = 0;
    position_t* spare_ = nullptr;
    std::size_t spare_left_ = 0;
};

struct Pair {
    count_t frequency;  // always exact
    position_t* cells;  // the left symbol's first cell at each place where the pair appeared
    position_t size;
    bool is_filed;  // all places that there were are among the cells
};

class PairIndex {
public:
    std::size_t size() const { return pairs_.size(); }
    Pair* at(std::uint32_t pair) { return &pairs_[pair]; }

    // The pair must be in the index.
    Pair* find(token_id_t left, token_id_t right) { return &pairs_[slots_[probe(pair_key(left, right))].pair]; }

    bool has(token_id_t left, token_id_t right) const {
        return !slots_.empty() && slots_[probe(pair_key(left, right))].pair != FREE;
    }

    // Lowers the pair's frequency, if it is in the index.
    void lower(token_id_t left, token_id_t right, count_t by) {
        const std::uint32_t pair = slots_[probe(pair_key(left, right))].pair;
        if (pair != FREE) pairs_[pair].frequency -= by;
    }

    // The pair's number. A new pair has frequency 0 and no cells.
    std::uint32_t find_or_add(token_id_t left, token_id_t right) {
        if (pairs_.size() * 2 >= slots_.size()) grow();
        const std::uint64_t key = pair_key(left, right);
        Slot& slot = slots_[probe(key)];
        if (slot.pair == FREE) {
            if (pairs_.size() == FREE) throw std::length_error("more than 2**32 - 1 distinct pairs");
            pairs_.push_back(Pair{0, nullptr, 0, false});
            slot = Slot{key, static_cast<std::uint32_t>(pairs_.size() - 1)};
        }
        return slot.pair;
    }

    // Starts loading what find() and find_or_add() will need.
    void prefetch_pair(token_id_t left, token_id_t right) const {
        if (!slots_.empty()) prefetch(&slots_[key_.of(pair_key(left, right)) & (slots_.size() - 1)]);
    }

    // Allocates the pair's cells. The caller fills them in ascending order.
    position_t* allocate_cells(std::uint32_t pair, position_t size) {
        pairs_[pair].cells = cells_.allocate(size);
        pairs_[pair].size = size;
        pairs_[pair].is_filed = true;
        return pairs_[pair].cells;
    }

    // The pair needs its cells no more; the next pairs' cells may take their place.
    void release_cells(Pair* pair) {
        cells_.reuse(pair->cells, pair->size);
        pair->cells = nullptr;
        pair->size = 0;
    }

    void clear() { *this = PairIndex(); }

    // The most slots a look-up visits. O(slots).
    std::size_t longest_probe() const {
        std::size_t longest = 0;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (slots_[i].pair == FREE) continue;
            const std::size_t passed = (i - key_.of(slots_[i].key)) & (slots_.size() - 1);
            longest = std::max(longest, passed + 1);
        }
        return longest;
    }

private:
    static constexpr std::uint32_t FREE = std::numeric_limits<std::uint32_t>::max();

    struct Slot {
        std::uint64_t key;
        std::uint32_t pair;
    };

    // The slot that holds the key, or the free slot where it belongs. At most half the slots are taken.
    std::size_t probe(std::uint64_t key) const {
        const std::size_t mask = slots_.size() - 1;
        std::size_t slot = key_.of(key) & mask;
        while (slots_[slot].pair != FREE && slots_[slot].key != key) slot = (slot + 1) & mask;
        return slot;
    }

    void grow() {
        std::vector<Slot> old(std::max(slots_.size() * 2, std::size_t{1} << 16), Slot{0, FREE});
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.pair != FREE) slots_[probe(slot.key)] = slot;
        }
    }

    HashKey key_;
    std::vector<Pair> pairs_;
    std::vector<Slot> slots_;
    CellArena cells_;
};

// How one merge changes the pairs on one side of it, by neighbouring symbol, so that each pair is looked up once per
// merge, not once per occurrence. Its vectors keep their memory between merges.
class NeighbourTally {
public:
    struct Entry {
        count_t weight = 0;
        position_t size = 0;
        position_t* out = nullptr;
    };

    void add(token_id_t neighbour, count_t weight) {
        const std::size_t at = static_cast<std::size_t>(neighbour);
        if (at >= entries_.size()) entries_.resize(2 * at + 256);
        Entry& entry = entries_[at];
        if (entry.size == 0) neighbours_.push_back(neighbour);
        entry.weight += weight;
        entry.size += 1;
    }

    void add_cell(token_id_t neighbour, count_t weight, position_t cell) {
        add(neighbour, weight);
        occurrences_.push_back({neighbour, cell});
    }

    // In the order of their first addition.
    std::vector<token_id_t>& neighbours() { return neighbours_; }
    Entry* at(token_id_t neighbour) { return &entries_[neighbour]; }

    // Writes each cell where its neighbour's `out` points, if anywhere, in the order of addition.
    void file_cells() {
        for (const Occurrence& occurrence : occurrences_) {
            position_t*& out = entries_[occurrence.neighbour].out;
            if (out != nullptr) *out++ = occurrence.cell;
        }
    }

    void clear() {
        for (token_id_t neighbour : neighbours_) entries_[neighbour] = Entry{};
        neighbours_.clear();
        occurrences_.clear();
    }

private:
    struct Occurrence {
        token_id_t neighbour;
        position_t cell;
    };

    std::vector<Entry> entries_;
    std::vector<token_id_t> neighbours_;
    std::vector<Occurrence> occurrences_;
};

}  // namespace hf_scaffold
