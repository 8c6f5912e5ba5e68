// A pattern's automaton, and the pieces that it cuts a text into: matches, and the gaps between them.
//
// The automaton finds what a backtracking matcher would. In state 0 nothing is read. On a character it goes to another
// state, or none; and it tells whether a match ends before that character, which replaces those found before. The match
// is the last one found once there is no next state.
//
// Nearly always the automaton stops where the match ends, so the next piece begins with the very character that
// stopped it. `Pieces` therefore runs a table in which stopping and beginning are one step, and in which a row stands
// for the text between matches, too. It goes back only where the automaton had read on beyond the match, or in vain.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "char_classes.hpp"
#include "scan.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

enum PieceKind : byte_t { GAP, MATCH };

// As automaton.py describes it.
struct Automaton {
    std::size_t n_states, n_classes, n_runs;
    const std::uint32_t* starts;
    const byte_t* classes;
    const std::int16_t* transitions;
    const byte_t* accepts;
};

class Pattern {
public:
    // Throws std::invalid_argument if the automaton is none, matches the empty text, or needs more than linear time.
    explicit Pattern(const Automaton& given)
        : n_states_(given.n_states), n_classes_(given.n_classes), classes_(checked_classes(given)) {
        transitions_.assign(given.transitions, given.transitions + n_states_ * n_classes_);
        accepts_.assign(given.accepts, given.accepts + n_states_ * (n_classes_ + 1));
        for (const std::int16_t next : transitions_) {
            if (next < DEAD || next >= static_cast<std::int64_t>(n_states_)) {
                throw std::invalid_argument("a transition leads to an unknown state");
            }
        }
        for (std::size_t c = 0; c <= n_classes_; ++c) {
            if (accepts(0, c)) throw std::invalid_argument("the pattern matches the empty text");
        }
        find_sure_states();
        is_embracing_.assign(n_states_ * n_classes_, false);
        std::fill_n(is_embracing_.begin(), n_classes_, true);
        if (!is_linear()) {
            find_embracing_steps();
            if (!is_linear()) throw std::invalid_argument("the pattern may read far ahead again and again");
        }
        make_rows();
        find_cuts();
    }

    const CharClasses& classes() const { return classes_; }

    // Whether a piece always ends between characters of these classes, whatever the rest of the text, and only cuts
    // that count are there: those between pieces of kinds k and l for which `kinds` has the bit 2 * k + l.
    bool cuts(byte_t a, byte_t b, unsigned kinds) const {
        const unsigned found = cuts_[a * n_classes_ + b];
        return found != 0 && (found & ~kinds) == 0;
    }
    // Whether the pieces after a cut between characters of these classes are the same as without that cut, except that
    // one piece may be two.
    bool goes_on_alike(byte_t a, byte_t b) const { return alike_[a * n_classes_ + b]; }

private:
    friend class Pieces;
    static constexpr std::int16_t DEAD = -1;
    static constexpr std::size_t MOST_STATES = 500, MOST_CLASSES = 250, MOST_STEPS = 1 << 22;
    // Rows of the table: after a match, in a gap, then one for each state.
    static constexpr std::size_t AFTER = 0, IN_GAP = 1, FIRST_STATE = 2;
    // What to do before a character. CUT: a piece begins here; perhaps a MATCH. BACK: match again from its beginning.
    static constexpr byte_t CUT = 1, BACK = 2, IS_MATCH = 4;

    static CharClasses checked_classes(const Automaton& given) {
        if (given.n_states == 0 || given.n_states > MOST_STATES || given.n_classes == 0 ||
            given.n_classes > MOST_CLASSES) {
            throw std::invalid_argument("the automaton has too many states or classes, or none");
        }
        return CharClasses(given.starts, given.classes, given.n_runs, given.n_classes);
    }

    std::int16_t next(std::size_t state, std::size_t c) const { return transitions_[state * n_classes_ + c]; }
    bool accepts(std::size_t state, std::size_t c) const { return accepts_[state * (n_classes_ + 1) + c]; }
    std::size_t the_end() const { return n_classes_; }

    // ---- checks

    // Calls each(class, next state) for the steps from `state` after which the last match found may be further away.
    template <class Each>
    void each_vain_step(std::size_t state, Each each) const {
        for (std::size_t c = 0; c < n_classes_; ++c) {
            if (next(state, c) == DEAD || accepts(state, c)) continue;
            const auto to = static_cast<std::size_t>(next(state, c));
            if (!is_sure_[to]) each(c, to);
        }
    }

    // The states that `from` leads to by vain steps, itself only if it comes back.
    std::vector<bool> reached_in_vain(std::size_t from) const {
        std::vector<bool> reached(n_states_);
        std::vector<std::size_t> left{from};
        while (!left.empty()) {
            const std::size_t state = left.back();
            left.pop_back();
            each_vain_step(state, [&](std::size_t, std::size_t to) {
                if (!reached[to]) left.push_back(to);
                reached[to] = true;
            });
        }
        return reached;
    }

    // Text is read twice where the automaton goes on in vain from state to state in a circle, and then goes back. If
    // from there, on the same characters, it can go on in vain in a circle again, the time is not linear, unless all
    // steps that lead there are embracing, so that nothing begins where they were taken. Otherwise a character is read
    // once for each state at most.
    bool is_linear() const {
        std::vector<std::vector<bool>> reached;
        for (std::size_t state = 0; state < n_states_; ++state) reached.push_back(reached_in_vain(state));
        const auto is_embraced = [&](std::size_t circle) {
            bool is = true;
            for (std::size_t from = 0; from < n_states_; ++from) {
                each_vain_step(from, [&](std::size_t c, std::size_t to) {
                    if (to == circle || reached[to][circle]) is = is && is_embracing_[from * n_classes_ + c];
                });
            }
            return is;
        };
        std::vector<bool> is_done(n_states_);
        for (std::size_t state = 0; state < n_states_; ++state) {
            if (!reached[state][state] || is_done[state]) continue;
            std::vector<bool> read(n_classes_);  // in the circles of this state
            for (std::size_t from = 0; from < n_states_; ++from) {
                if (!reached[state][from] || !reached[from][state]) continue;
                is_done[from] = true;
                each_vain_step(from, [&](std::size_t c, std::size_t to) {
                    if (reached[to][state]) read[c] = true;
                });
            }
            if (circles_on(read) && !is_embraced(state)) return false;
        }
        return true;
    }

    // Whether the automaton, from its beginning, can go in vain in a circle on characters of these classes.
    bool circles_on(const std::vector<bool>& read) const {
        std::vector<bool> known(n_states_);
        std::vector<std::size_t> left{0};
        known[0] = true;
        while (!left.empty()) {
            const std::size_t state = left.back();
            left.pop_back();
            for (std::size_t c = 0; c < n_classes_; ++c) {
                if (!read[c] || next(state, c) == DEAD) continue;
                const auto to = static_cast<std::size_t>(next(state, c));
                if (!known[to]) left.push_back(to);
                known[to] = true;
            }
        }
        // A circle remains when states without a way on are taken away, again and again.
        std::vector<std::vector<std::size_t>> before(n_states_);
        std::vector<std::size_t> n_ways(n_states_);
        std::size_t n_left = 0;
        for (std::size_t state = 0; state < n_states_; ++state) {
            if (!known[state]) continue;
            ++n_left;
            each_vain_step(state, [&](std::size_t c, std::size_t to) {
                if (!read[c]) return;
                before[to].push_back(state);
                ++n_ways[state];
            });
            if (n_ways[state] == 0) left.push_back(state);
        }
        while (!left.empty()) {
            const std::size_t state = left.back();
            left.pop_back();
            --n_left;
            for (const std::size_t from : before[state]) {
                if (--n_ways[from] == 0) left.push_back(from);
            }
        }
        return n_left != 0;
    }

    // A step from a state by a character is embracing if from there a match is found wherever one begins: where none is
    // found, none begins before this character. Steps from state 0 are; others are looked for where time depends on it.
    void find_embracing_steps() {
        std::size_t n_steps = 0;
        for (std::size_t state = 1; state < n_states_; ++state) {
            each_vain_step(state, [&](std::size_t c, std::size_t) {
                is_embracing_[state * n_classes_ + c] = embraces_beginning(state, c, n_steps);
            });
        }
    }

    // Takes the same steps from state 0, and sees that `state` finds a match no later; false, too, once that takes too
    // many.
    bool embraces_beginning(std::size_t state, std::size_t first, std::size_t& n_steps) const {
        n_steps += n_states_ * n_states_ / 64;
        if (n_steps >= MOST_STEPS) return false;
        std::vector<bool> known(n_states_ * n_states_);
        std::vector<std::pair<std::size_t, std::size_t>> left;
        const auto takes = [&](std::size_t begun, std::size_t going, std::size_t c) {
            if (accepts(going, c)) return true;
            if (accepts(begun, c)) return false;
            if (c == the_end() || next(begun, c) == DEAD) return true;
            if (next(going, c) == DEAD) return false;
            const auto a = static_cast<std::size_t>(next(begun, c)), b = static_cast<std::size_t>(next(going, c));
            if (!known[a * n_states_ + b]) left.emplace_back(a, b);
            known[a * n_states_ + b] = true;
            return true;
        };
        if (!takes(0, state, first)) return false;
        while (!left.empty()) {
            const auto [begun, going] = left.back();
            left.pop_back();
            n_steps += n_classes_;
            if (n_steps >= MOST_STEPS) return false;
            for (std::size_t c = 0; c <= n_classes_; ++c) {
                if (!takes(begun, going, c)) return false;
            }
        }
        return true;
    }

    // ---- the table

    // A state is sure if a match is found from it, whatever follows.
    void find_sure_states() {
        is_sure_.assign(n_states_, true);
        for (bool is_smaller = true; is_smaller;) {
            is_smaller = false;
            for (std::size_t state = 0; state < n_states_; ++state) {
                if (!is_sure_[state] || leads_to_match(state)) continue;
                is_sure_[state] = false;
                is_smaller = true;
            }
        }
    }

    bool leads_to_match(std::size_t state) const {
        for (std::size_t c = 0; c < n_classes_; ++c) {
            const std::int16_t to = next(state, c);
            if (!accepts(state, c) && (to == DEAD || !is_sure_[static_cast<std::size_t>(to)])) return false;
        }
        return accepts(state, the_end());
    }

    void set(std::size_t row, std::size_t c, std::size_t next_row, byte_t action) {
        next_[row * n_classes_ + c] = static_cast<std::uint32_t>(next_row * n_classes_);
        actions_[row * n_classes_ + c] = action;
    }

    void make_rows() {
        next_.resize((FIRST_STATE + n_states_) * n_classes_);
        actions_.resize(next_.size());
        for (std::size_t c = 0; c < n_classes_; ++c) {
            const bool begins = next(0, c) != DEAD;
            const std::size_t begun = begins ? FIRST_STATE + static_cast<std::size_t>(next(0, c)) : IN_GAP;
            const byte_t begin = begins ? CUT | IS_MATCH : CUT;
            set(AFTER, c, begun, begin);
            set(IN_GAP, c, begun, begins ? begin : 0);
            for (std::size_t state = 0; state < n_states_; ++state) {
                if (next(state, c) != DEAD) {
                    set(FIRST_STATE + state, c, FIRST_STATE + static_cast<std::size_t>(next(state, c)), 0);
                } else if (accepts(state, c)) {
                    set(FIRST_STATE + state, c, begun, begin);
                } else {
                    set(FIRST_STATE + state, c, AFTER, BACK);
                }
            }
        }
        for (unsigned byte = 0; byte < 256; ++byte) {
            const bool is_tail = byte >= 0x80 && byte < 0xC0;
            const auto stays = [&](byte_t c) { return next(0, c) == DEAD; };
            stays_in_gap_[byte] = is_tail || classes_.all_that_begin(static_cast<byte_t>(byte), stays);
        }
    }

    // The rows that the table may be in after a character of class c.
    std::vector<std::size_t> rows_after(std::size_t c) const {
        std::vector<bool> found(FIRST_STATE + n_states_);
        for (std::size_t row = 0; row < found.size(); ++row) {
            if (!(actions_[row * n_classes_ + c] & BACK)) found[next_[row * n_classes_ + c] / n_classes_] = true;
        }
        // What begins a match in vain begins a gap.
        if (next(0, c) != DEAD && !is_sure_[static_cast<std::size_t>(next(0, c))]) found[IN_GAP] = true;
        std::vector<std::size_t> rows;
        for (std::size_t row = 0; row < found.size(); ++row) {
            if (found[row]) rows.push_back(row);
        }
        return rows;
    }

    void find_cuts() {
        cuts_.resize(n_classes_ * n_classes_);
        alike_.resize(cuts_.size());
        for (std::size_t a = 0; a < n_classes_; ++a) {
            const std::vector<std::size_t> rows = rows_after(a);
            bool ends = true;  // whether all goes on here as where the text ends
            for (const std::size_t row : rows)
                ends = ends && (row < FIRST_STATE || accepts(row - FIRST_STATE, the_end()));
            for (std::size_t b = 0; b < n_classes_; ++b) {
                bool is_cut = ends && !rows.empty(), is_alike = ends;
                unsigned kinds = 0;
                for (const std::size_t row : rows) {
                    const std::size_t i = row * n_classes_ + b;
                    is_cut = is_cut && (actions_[i] & CUT) && kinds_cut(row == IN_GAP ? GAP : MATCH, b, kinds);
                    is_alike = is_alike && !(actions_[i] & BACK) && next_[i] == next_[AFTER * n_classes_ + b];
                }
                cuts_[a * n_classes_ + b] = is_cut ? static_cast<byte_t>(kinds) : 0;
                alike_[a * n_classes_ + b] = is_alike;
            }
        }
    }

    // Adds the kinds of pieces that a cut before a character of class b may be between; false if it may be undone.
    bool kinds_cut(PieceKind before, std::size_t b, unsigned& kinds) const {
        const std::int16_t begun = next(0, b);
        const bool may_be_gap = begun == DEAD || !is_sure_[static_cast<std::size_t>(begun)];
        if (before == GAP && may_be_gap) return false;
        if (may_be_gap) kinds |= 1u << (2 * before + GAP);
        if (begun != DEAD) kinds |= 1u << (2 * before + MATCH);
        return true;
    }

    std::size_t n_states_, n_classes_;
    CharClasses classes_;
    std::vector<std::int16_t> transitions_;
    std::vector<byte_t> accepts_;
    std::vector<bool> is_sure_;        // by states
    std::vector<bool> is_embracing_;   // states times n_classes
    std::vector<std::uint32_t> next_;  // rows times n_classes
    std::vector<byte_t> actions_;
    std::array<byte_t, 256> stays_in_gap_;  // for first bytes of characters; others are 1
    std::vector<byte_t> cuts_;              // the kinds of pieces they are between
    std::vector<bool> alike_;
};

// Cuts a text into pieces.
class Pieces {
public:
    Pieces(const Pattern& pattern, const byte_t* begin, const byte_t* end) : pattern_(pattern), at_(begin), end_(end) {}

    // Calls sink(bounds, kinds, n) for batches of pieces, in order, as scan_in_batches() in scan.hpp.
    template <class Sink>
    void each_batch(Sink&& sink) {
        if (at_ == end_) return;
        for (;;) {
            while (at_ != end_) {
                if (row_ == Pattern::IN_GAP * pattern_.n_classes_) skip_gap();
                read(at_ + std::min<std::ptrdiff_t>(end_ - at_, MOST_IN_BATCH - BATCH - 2));
                // The last piece is not complete; the one before grows if it is a gap, and the last becomes one.
                if (n_ > BATCH) flush(n_ - 2, sink);
            }
            if (is_complete()) break;
            go_back();
        }
        bounds_[n_] = end_;
        sink(static_cast<const byte_t* const*>(bounds_), static_cast<const byte_t*>(kinds_), n_);
    }

private:
    bool is_complete() const {
        const std::size_t row = row_ / pattern_.n_classes_;
        return row < Pattern::FIRST_STATE || pattern_.accepts(row - Pattern::FIRST_STATE, pattern_.the_end());
    }

    template <class Sink>
    void flush(std::size_t n, Sink&& sink) {
        sink(static_cast<const byte_t* const*>(bounds_), static_cast<const byte_t*>(kinds_), n);
        for (std::size_t i = n; i < n_; ++i) {
            bounds_[i - n] = bounds_[i];
            kinds_[i - n] = kinds_[i];
        }
        n_ -= n;
    }

    // Reads characters up to `stop` at least, or until it goes back. A character begins one piece at most.
    void read(const byte_t* stop) {
        const byte_t* const ascii = pattern_.classes_.of_ascii();
        const std::uint32_t* const next = pattern_.next_.data();
        const byte_t* const actions = pattern_.actions_.data();
        const byte_t* at = at_;
        std::size_t row = row_, n = n_;
        while (at < stop) {
            std::size_t length = 1;
            const std::size_t c = *at < 0x80 ? ascii[*at] : pattern_.classes_.of(code_point_at(at, length));
            const byte_t action = actions[row + c];
            // Without a branch, which would be mispredicted for every other piece.
            bounds_[n] = at;
            kinds_[n] = action / Pattern::IS_MATCH;
            n += action & Pattern::CUT;
            if (action & Pattern::BACK) {
                at_ = at, n_ = n;
                go_back();
                return;  // there may now be more pieces before `stop` than there is room for
            }
            row = next[row + c];
            at += length;
        }
        at_ = at, row_ = row, n_ = n;
    }

    // The last piece began like a match, but went on in vain: goes back to where the match ends; if there is none, to
    // where another one may begin, after characters that are in a gap.
    void go_back() {
        const Attempt attempt = match(bounds_[n_ - 1]);
        at_ = attempt.stop;
        if (attempt.is_match) {
            row_ = Pattern::AFTER * pattern_.n_classes_;
            return;
        }
        if (n_ > 1 && kinds_[n_ - 2] == GAP) {
            --n_;
        } else {
            kinds_[n_ - 1] = GAP;
        }
        row_ = Pattern::IN_GAP * pattern_.n_classes_;
    }

    struct Attempt {
        const byte_t* stop;  // of the match; else up to here none begins
        bool is_match;
    };

    Attempt match(const byte_t* at) const {
        const byte_t* found = nullptr;
        const byte_t* none_before = nullptr;
        std::size_t state = 0, length;
        for (; at != end_; at += length) {
            const std::size_t c = pattern_.classes_.of(code_point_at(at, length));
            if (none_before == nullptr && !pattern_.is_embracing_[state * pattern_.n_classes_ + c]) none_before = at;
            if (pattern_.accepts(state, c)) found = at;
            if (pattern_.next(state, c) == Pattern::DEAD) break;
            state = static_cast<std::size_t>(pattern_.next(state, c));
        }
        if (at == end_ && pattern_.accepts(state, pattern_.the_end())) found = end_;
        if (found != nullptr) return {found, true};
        return {none_before != nullptr ? none_before : at, false};
    }

    void skip_gap() {
        const auto& stays = pattern_.stays_in_gap_;
        const byte_t* at = at_;
        for (; end_ - at >= 8; at += 8) {
            if (!(stays[at[0]] & stays[at[1]] & stays[at[2]] & stays[at[3]] & stays[at[4]] & stays[at[5]] &
                  stays[at[6]] & stays[at[7]])) {
                break;
            }
        }
        // Back to the first byte of a character: as that stays, so does all of it.
        while (at > at_ && at != end_ && (*at & 0xC0) == 0x80) --at;
        at_ = at;
    }

    const Pattern& pattern_;
    const byte_t* at_;
    const byte_t* end_;
    std::size_t row_ = Pattern::AFTER;
    std::size_t n_ = 0;
    const byte_t* bounds_[MOST_IN_BATCH + 8];
    byte_t kinds_[MOST_IN_BATCH + 8];
};

}  // namespace hf_scaffold
