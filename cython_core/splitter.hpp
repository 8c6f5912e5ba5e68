// How a text is cut into pre-tokens: by a preset's scanner, or by compiled patterns, one after another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "pattern.hpp"
#include "scan.hpp"

namespace hf_scaffold {

// What becomes of a pattern's pieces, by their kinds.
struct Behavior {
    bool cuts[2][2];  // whether a piece of the second kind is a pre-token of its own after one of the first
    bool drops[2];    // whether pieces of this kind are left out

    bool is_plain() const { return all_cuts() == 0xF && !drops[GAP] && !drops[MATCH]; }
    unsigned all_cuts() const {
        unsigned all = 0;
        for (unsigned i = 0; i < 4; ++i) all |= static_cast<unsigned>(cuts[i / 2][i % 2]) << i;
        return all;
    }
};

// Patterns, each of which splits what the one before left: it sees each piece as a text of its own. Immutable once
// built.
class Splitter {
public:
    static constexpr std::size_t MOST_LEVELS = 16;

    // Throws std::invalid_argument as Pattern, or if there are too many levels.
    void add(const Automaton& automaton, Behavior behavior) {
        if (levels_.size() == MOST_LEVELS) throw std::invalid_argument("too many patterns one after another");
        levels_.push_back({Pattern(automaton), behavior});
    }

    // Calls sink(bounds, n, dropped) for batches of the text's pre-tokens, as scan_in_batches(). Those with dropped[i]
    // are none; dropped may be null.
    template <class Sink>
    void scan(const byte_t* at, const byte_t* end, Sink&& sink) const {
        if (at == end) return;
        if (levels_.size() == 1 && levels_[0].behavior.is_plain()) {
            Pieces(levels_[0].pattern, at, end)
                .each_batch([&](const byte_t* const* bounds, const byte_t*, std::size_t n) {
                    sink(bounds, n, static_cast<const byte_t*>(nullptr));
                });
            return;
        }
        const byte_t* bounds[BATCH + 1];
        byte_t dropped[BATCH];
        std::size_t n = 0;
        const auto flush = [&](const byte_t* stop) {
            bounds[n] = stop;
            sink(static_cast<const byte_t* const*>(bounds), n, static_cast<const byte_t*>(dropped));
            n = 0;
        };
        scan_level(0, at, end, [&](const byte_t* begin, const byte_t* stop, bool is_dropped) {
            bounds[n] = begin;
            dropped[n++] = is_dropped;
            if (n == BATCH) flush(stop);
        });
        if (n != 0) flush(end);
    }

    // Whether the text may be cut between these characters: what comes before has the same pre-tokens whatever follows,
    // and so has what comes after.
    bool separates(std::uint32_t a, std::uint32_t b) const {
        for (const Level& level : levels_) {
            const byte_t before = level.pattern.classes().of(a), after = level.pattern.classes().of(b);
            if (level.pattern.cuts(before, after, level.behavior.all_cuts())) return true;
            if (!level.pattern.goes_on_alike(before, after)) return false;
        }
        return false;
    }

private:
    struct Level {
        Pattern pattern;
        Behavior behavior;
    };

    // Calls add(begin, end, whether it is dropped) for what the levels from `i` on make of a text that is not empty.
    template <class Add>
    void scan_level(std::size_t i, const byte_t* at, const byte_t* end, const Add& add) const {
        if (i == levels_.size()) {
            add(at, end, false);
            return;
        }
        const Behavior& behavior = levels_[i].behavior;
        const byte_t* begin = at;
        PieceKind kind = GAP;  // of the last piece
        const auto put = [&](const byte_t* stop) {
            behavior.drops[kind] ? add(begin, stop, true) : scan_level(i + 1, begin, stop, add);
            begin = stop;
        };
        Pieces(levels_[i].pattern, at, end)
            .each_batch([&](const byte_t* const* bounds, const byte_t* kinds, std::size_t n) {
                for (std::size_t k = 0; k < n; ++k) {
                    const PieceKind next = static_cast<PieceKind>(kinds[k]);
                    if (bounds[k] != at && behavior.cuts[kind][next]) put(bounds[k]);
                    kind = next;
                }
            });
        put(end);
    }

    std::vector<Level> levels_;
};

// A preset, or a splitter where there is one.
struct Splitting {
    Preset preset = Preset::gpt2;
    std::shared_ptr<const Splitter> splitter;
};

// The rules of compiled patterns; see scan.hpp for those of presets. They know no next(): where a pre-token ends
// depends on the piece that it is in.
struct CompiledRules {
    const Splitter* splitter;
};

template <class Sink>
void scan_in_batches(CompiledRules rules, const byte_t* at, const byte_t* end, Sink&& sink) {
    rules.splitter->scan(at, end, sink);
}

// Calls sink(start, end) for each pre-token of the text, in order.
template <class Rules, class Sink>
void scan_by(Rules rules, const byte_t* at, const byte_t* end, Sink&& sink) {
    scan_in_batches(rules, at, end, [&](const byte_t* const* bounds, std::size_t n, const byte_t* dropped = nullptr) {
        for (std::size_t i = 0; i < n; ++i) {
            if (dropped == nullptr || !dropped[i]) sink(bounds[i], bounds[i + 1]);
        }
    });
}

// Calls `function` with the rules.
template <class Function>
auto with_rules(const Splitting& splitting, Function function) {
    if (splitting.splitter != nullptr) return function(CompiledRules{splitting.splitter.get()});
    switch (splitting.preset) {
        case Preset::gpt2: return function(Gpt2Rules<false>());
        case Preset::gpt2_digits: return function(Gpt2Rules<true>());
        case Preset::llama3: return function(Llama3Rules());
        case Preset::whole: return function(WholeRules());
        case Preset::metaspace: return function(MetaspaceRules<false>());
        case Preset::metaspace_runs: return function(MetaspaceRules<true>());
        default: return function(Gpt4oRules());
    }
}

template <class Rules>
bool separates(Rules rules, const byte_t* a, const byte_t* b) {
    return rules.separates(neighbour_at(a), neighbour_at(b));
}

inline bool separates(CompiledRules rules, const byte_t* a, const byte_t* b) {
    std::size_t length;
    const std::uint32_t before = code_point_at(a, length);
    return rules.splitter->separates(before, code_point_at(b, length));
}

// Calls sink(bounds, n) or sink(bounds, n, dropped) for batches of the text's pre-tokens.
template <class Sink>
void scan_in_batches(const Splitting& splitting, const byte_t* at, const byte_t* end, Sink&& sink) {
    with_rules(splitting, [&](auto rules) { scan_in_batches(rules, at, end, sink); });
}

// The largest offset > 0 with characters on both sides that the rules separate, or 0. The text may be any bytes: only
// complete, well-formed characters count. Reads back from the end as far as the result.
inline std::size_t last_cut(const Splitting& splitting, const byte_t* begin, const byte_t* end) {
    return with_rules(splitting, [&](auto rules) -> std::size_t {
        const byte_t* after = nullptr;  // the nearest character after `at`
        for (const byte_t* at = end; at != begin;) {
            --at;
            const std::size_t length = character_length(at, end);
            if (length == 0) continue;
            if (at + length == after && separates(rules, at, after)) return static_cast<std::size_t>(after - begin);
            after = at;
        }
        return 0;
    });
}

}  // namespace hf_scaffold
