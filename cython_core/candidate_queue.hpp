// Training's queue of candidates, in its one total order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "widths.hpp"

namespace hf_scaffold {

struct Candidate {
    count_t frequency;  // when queued: never below the current one
    token_id_t left;    // the pair, or the pair that created the scaffold token
    token_id_t right;
    token_id_t scaffold;  // NO_ID for a pair
    std::uint32_t pair;   // for a pair: its number in the PairIndex
};

// The one total order: larger frequency first; then smaller (left, right); then the pair before the scaffold token
// it created.
inline bool comes_before(const Candidate& x, const Candidate& y) {
    if (x.frequency != y.frequency) return x.frequency > y.frequency;
    if (x.left != y.left) return x.left < y.left;
    if (x.right != y.right) return x.right < y.right;
    return x.scaffold < y.scaffold;
}

// A four-ary heap: shallower than a binary one, and the four children span only two or three cache lines.
class CandidateQueue {
public:
    bool empty() const { return heap_.empty(); }
    std::size_t size() const { return heap_.size(); }
    const Candidate& top() const { return heap_.front(); }

    void push(const Candidate& candidate) {
        std::size_t hole = heap_.size();
        heap_.push_back(candidate);
        while (hole > 0) {
            const std::size_t parent = (hole - 1) / 4;
            if (!comes_before(candidate, heap_[parent])) break;
            heap_[hole] = heap_[parent];
            hole = parent;
        }
        heap_[hole] = candidate;
    }

    void pop() {
        const Candidate last = heap_.back();
        heap_.pop_back();
        if (!heap_.empty()) sink(last);
    }

    // Lowers the top's frequency and restores the order.
    void requeue_top(count_t frequency) {
        Candidate candidate = heap_.front();
        candidate.frequency = frequency;
        sink(candidate);
    }

    // Leaves the scaffold tokens alone.
    void drop_pairs() {
        std::vector<Candidate> old;
        old.swap(heap_);
        for (const Candidate& candidate : old) {
            if (candidate.scaffold != NO_ID) push(candidate);
        }
    }

private:
    // Replaces the top by the candidate and restores the order.
    void sink(const Candidate& candidate) {
        std::size_t hole = 0;
        const std::size_t size = heap_.size();
        for (std::size_t child = 1; child < size; child = 4 * hole + 1) {
            std::size_t best = child;
            for (std::size_t other = child + 1; other < size && other < child + 4; ++other) {
                if (comes_before(heap_[other], heap_[best])) best = other;
            }
            if (!comes_before(heap_[best], candidate)) break;
            heap_[hole] = heap_[best];
            hole = best;
        }
        heap_[hole] = candidate;
    }

    std::vector<Candidate> heap_;
};

}  // namespace hf_scaffold
