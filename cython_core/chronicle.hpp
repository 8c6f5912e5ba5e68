// Encoding by the steps of a training that also took tokens out again: pairs were merged and tokens removed, in turn.
//
// All steps are applied in their order, each wherever it applies, from left to right. Only those that find something
// matter: of each pair of neighbours and each token the next step is known, and the earliest of all comes next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "hash_seed.hpp"
#include "interrupt.hpp"
#include "pair_key.hpp"
#include "widths.hpp"

namespace hf_scaffold {

class Chronicle {
    static constexpr std::uint32_t NEVER = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::uint32_t END = std::numeric_limits<std::uint32_t>::max();

    struct Node {
        token_id_t token;              // NO_ID inside of a token
        std::uint32_t merge, removal;  // the next step for this node and the next one; and for this alone
        std::uint32_t previous, next;
    };

    struct Candidate {
        std::uint32_t step, node;
        // For std::*_heap, whose top is the largest: the earliest step, then the leftmost.
        bool operator<(const Candidate& other) const {
            return step != other.step ? step > other.step : node > other.node;
        }
    };

public:
    struct Work {
        std::vector<Node> nodes;
        std::vector<Candidate> queue;
    };

    // Steps are added in order; a token's own steps after the merges of its parts.
    void add_merge(token_id_t left, token_id_t right, token_id_t merged) {
        const std::uint64_t length = sum(length_of(left), length_of(right));
        merges_[pair_key(left, right)].push_back(new_step(merged, 0, length));
        lengths_.emplace(merged, length);
    }

    void add_removal(token_id_t token, const token_id_t* parts, std::size_t n) {
        std::uint64_t length = 0;
        for (std::size_t i = 0; i < n; ++i) length = sum(length, length_of(parts[i]));
        removals_[token].push_back(new_step(NO_ID, n, length));
        parts_.insert(parts_.end(), parts, parts + n);
    }

    // The most entries a look-up compares. O(size of the tables).
    std::size_t longest_probe() const {
        return std::max({longest_chain(merges_), longest_chain(removals_), longest_chain(lengths_)});
    }

    // Appends what becomes of these symbols. O(n log n) for n symbols, times how often tokens come and go there.
    template <class Append>
    void encode(const std::vector<token_id_t>& symbols, Work& work, Interrupt* interrupt, Append append) const {
        if (symbols.size() >= END) throw std::overflow_error("a pre-token of 2**32 - 1 or more symbols");
        Steps polls(interrupt);
        start(symbols, work);
        while (!work.queue.empty()) {
            polls.next();
            const Candidate first = work.queue.front();
            std::pop_heap(work.queue.begin(), work.queue.end());
            work.queue.pop_back();
            const Node& node = work.nodes[first.node];
            if (node.token == NO_ID) continue;
            if (first.step == node.merge) {
                merge(first, work);
            } else if (first.step == node.removal) {
                split(first, work);
            }
        }
        for (std::uint32_t at = symbols.empty() ? END : 0; at != END; at = work.nodes[at].next) {
            append(work.nodes[at].token);
        }
    }

private:
    struct Step {
        token_id_t merged;  // NO_ID of a removal
        std::uint32_t first_part, n_parts;
        std::uint64_t length;  // of the merged token, or of all parts together
    };

    using Times = std::vector<std::uint32_t>;  // of steps, ascending

    std::uint32_t new_step(token_id_t merged, std::size_t n_parts, std::uint64_t length) {
        if (steps_.size() >= NEVER || n_parts > NEVER - parts_.size()) throw std::length_error("too many steps");
        const std::uint32_t first_part = static_cast<std::uint32_t>(parts_.size());
        steps_.push_back({merged, first_part, static_cast<std::uint32_t>(n_parts), length});
        return static_cast<std::uint32_t>(steps_.size() - 1);
    }

    // Lengths above those of pre-tokens are all the same: rules that anyone may write double them without end.
    static std::uint64_t sum(std::uint64_t length, std::uint64_t other) {
        return std::min<std::uint64_t>(length + other, END);
    }

    // In symbols.
    std::uint64_t length_of(token_id_t token) const {
        const auto found = lengths_.find(token);
        return found == lengths_.end() ? 1 : found->second;
    }

    template <class Map, class Key>
    static std::uint32_t next_of(const Map& map, const Key& key, std::int64_t after) {
        const auto found = map.find(key);
        if (found == map.end()) return NEVER;
        const Times& times = found->second;
        const auto next = std::upper_bound(
            times.begin(), times.end(), after, [](std::int64_t step, std::uint32_t other) { return step < other; });
        return next == times.end() ? NEVER : *next;
    }

    void start(const std::vector<token_id_t>& symbols, Work& work) const {
        const std::uint32_t n = static_cast<std::uint32_t>(symbols.size());
        work.queue.clear();
        work.nodes.clear();
        for (std::uint32_t i = 0; i < n; ++i) {
            work.nodes.push_back({symbols[i], NEVER, NEVER, i == 0 ? END : i - 1, i + 1 == n ? END : i + 1});
        }
        for (std::uint32_t i = 0; i < n; ++i) {
            await_merge(work, i, -1);
            await_removal(work, i, -1);
        }
    }

    static void push(Work& work, Candidate candidate) {
        if (candidate.step == NEVER) return;
        work.queue.push_back(candidate);
        std::push_heap(work.queue.begin(), work.queue.end());
    }

    void await_merge(Work& work, std::uint32_t i, std::int64_t after) const {
        Node& node = work.nodes[i];
        node.merge = NEVER;
        if (node.next == END) return;
        node.merge = next_of(merges_, pair_key(node.token, work.nodes[node.next].token), after);
        push(work, {node.merge, i});
    }

    void await_removal(Work& work, std::uint32_t i, std::int64_t after) const {
        Node& node = work.nodes[i];
        node.removal = next_of(removals_, node.token, after);
        push(work, {node.removal, i});
    }

    void merge(Candidate at, Work& work) const {
        Node& node = work.nodes[at.node];
        Node& gone = work.nodes[node.next];
        node.token = steps_[at.step].merged;
        node.next = gone.next;
        gone.token = NO_ID;
        if (node.next != END) work.nodes[node.next].previous = at.node;
        await_removal(work, at.node, at.step);
        await_merge(work, at.node, at.step);
        if (node.previous != END) await_merge(work, node.previous, at.step);
    }

    // Each part begins at the node of its first symbol, which was merged into this one.
    void split(Candidate at, Work& work) const {
        const Step& step = steps_[at.step];
        const std::uint32_t before = work.nodes[at.node].previous, after = work.nodes[at.node].next;
        if (step.length != (after == END ? work.nodes.size() : after) - at.node) {
            throw std::invalid_argument("a removed token's parts are not as long as the token");
        }
        std::uint32_t i = at.node, previous = before;
        for (std::uint32_t part = step.first_part; part != step.first_part + step.n_parts; ++part) {
            work.nodes[i] = {parts_[part], NEVER, NEVER, previous, after};
            if (part != step.first_part) work.nodes[previous].next = i;
            previous = i;
            i += static_cast<std::uint32_t>(length_of(parts_[part]));
        }
        if (after != END) work.nodes[after].previous = previous;
        if (before != END) await_merge(work, before, at.step);
        for (i = at.node; i != after; i = work.nodes[i].next) {
            await_removal(work, i, at.step);
            await_merge(work, i, at.step);
        }
    }

    std::vector<Step> steps_;
    std::vector<token_id_t> parts_;
    std::unordered_map<std::uint64_t, Times, KeyedHash> merges_;  // by pair_key
    std::unordered_map<token_id_t, Times, KeyedHash> removals_;
    std::unordered_map<token_id_t, std::uint64_t, KeyedHash> lengths_;  // in symbols, of those that have several
};

}  // namespace hf_scaffold
