// The presets' pre-tokenizers as scanners: text in, pre-token boundaries out. See splitter.hpp for others.
//
// Each struct of rules stands for one `tokenizers` pipeline and has two functions:
//
//   next(at, end)      The end of the pre-token that starts at `at` < end. It depends only on the text from `at` on,
//                      never on what came before. The pre-tokens of a text tile it.
//   separates(a, b)    Whether adjacent characters a and b are always in different pre-tokens, and the text up to a
//                      has the same pre-tokens whatever follows. False negatives are allowed, false positives are
//                      not. A run of letters, numbers or others ends where the kind changes; each rule notes what
//                      can cross such a change. White space depends on what follows it, so no text is cut after
//                      it, except after line breaks that end a pre-token of their own.
//
// With vectors there is also `Starts`, which finds what next() would for many bytes at once.
//
// All text is valid UTF-8, cut between characters. Time is linear: a rule reads a character a few times at most. The
// patterns' alternatives are tried in order; quantifiers backtrack only where noted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "metaspace.hpp"
#include "simd.hpp"
#include "unicode_classes.hpp"
#include "utf8.hpp"
#include "window.hpp"

namespace hf_scaffold {

constexpr classes_t KIND = LETTER | NUMBER | SPACE | OTHER;  // each character has exactly one of these

// The end of the run of characters from `at` on whose bits under `mask` are `wanted`.
inline const byte_t* skip(const byte_t* at, const byte_t* end, classes_t mask, classes_t wanted) {
    while (at != end) {
        const Character next = character_at(at);
        if ((next.classes & mask) != wanted) break;
        at += next.length;
    }
    return at;
}

inline const byte_t* skip(const byte_t* at, const byte_t* end, classes_t wanted) {
    return skip(at, end, wanted, wanted);
}

// The start of the white space that ends at `at`, `begin` at the earliest.
inline const byte_t* space_before(const byte_t* begin, const byte_t* at) {
    while (at > begin) {
        const byte_t* before = at - 1;
        while (before > begin && (*before & 0xC0) == 0x80) --before;
        if (!(character_at(before).classes & SPACE)) break;
        at = before;
    }
    return at;
}

// How many bytes of the 16 at `at` come before the first that is not in a-z or, in `any_case`, A-Z.
template <bool any_case>
inline unsigned leading_ascii_letters(const byte_t* at) {
    const Bytes16 bytes = Bytes16::load(at);
    return trailing_zeros(~(any_case ? bytes | Bytes16::all(0x20) : bytes).in_range('a', 26).bits());
}

// skip() where the only ASCII characters wanted are letters, or without `any_case` lower-case ones. No branch depends
// on the length of a run: mispredicted for every word, it would cost more than everything else here.
template <bool any_case>
inline const byte_t* skip_letters(const byte_t* at, const byte_t* end, classes_t mask, classes_t wanted) {
    while (end - at >= 16) {
        const unsigned n = leading_ascii_letters<any_case>(at);
        at += n;
        if (n == 16) continue;
        if (*at < 0x80) return at;
        const Character next = long_character_at(at);
        if ((next.classes & mask) != wanted) return at;
        at += next.length;
    }
    return skip(at, end, mask, wanted);
}

// The length in bytes of 't|'m|'d|'re|'ve|'ll|'s at `at`, or 0; with (?i:…) in `any_case`, where U+017F (long s) is an
// s, too.
template <bool any_case>
std::size_t contraction_length(const byte_t* at, const byte_t* end) {
    if (end - at < 2 || at[0] != '\'') return 0;
    const byte_t fold = any_case ? 0x20 : 0;  // turns no byte but an upper-case letter into a lower-case one
    const byte_t first = at[1] | fold;
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (end - at < 3) return 0;
    if (any_case && at[1] == 0xC5 && at[2] == 0xBF) return 3;
    const byte_t second = at[2] | fold;
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    return first == 'l' && second == 'l' ? 3 : 0;
}

// \s+(?!\S)|\s+ at a white-space character: a run leaves its last character to what follows, unless that is its only
// one or nothing follows. A character with a bit of `stop` counts as the end of the text.
inline const byte_t* white_space(const byte_t* at, const byte_t* end, classes_t stop = 0) {
    const byte_t* last = at;
    const byte_t* after = at;
    while (after != end) {
        const Character next = character_at(after);
        if (next.classes & stop) return after;
        if (!(next.classes & SPACE)) return last == at ? after : last;
        last = after;
        after += next.length;
    }
    return end;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ at a white-space character: a run extends to its last line break, if it has one.
inline const byte_t* white_space_by_lines(const byte_t* at, const byte_t* end) {
    const byte_t* line_end = nullptr;
    for (const byte_t* after = at; after != end;) {
        const Character next = character_at(after);
        if (!(next.classes & SPACE)) break;
        after += next.length;
        if (next.classes & NEWLINE) line_end = after;
    }
    return line_end ? line_end : white_space(at, end);
}

// \p{N}{1,3} at a number.
inline const byte_t* up_to_three_numbers(const byte_t* at, const byte_t* end) {
    for (int count = 0; count < 3 && at != end; ++count) {
        const Character next = character_at(at);
        if (!(next.classes & NUMBER)) break;
        at += next.length;
    }
    return at;
}

// Where a run of `kind` with an optional space before it starts: after a space at `at`, or at `at`.
inline const byte_t* after_space(const byte_t* at, const byte_t* end, classes_t kind) {
    return *at == ' ' && at + 1 != end && (character_at(at + 1).classes & kind) ? at + 1 : at;
}

// One of two neighbouring characters, as `separates` sees it.
struct Neighbour {
    classes_t classes;
    byte_t lead;  // its first byte: the character itself in ASCII
    const byte_t* at;

    classes_t kind() const { return classes & KIND; }
    bool is(classes_t wanted) const { return classes & wanted; }
};

inline Neighbour neighbour_at(const byte_t* at) { return {character_at(at).classes, *at, at}; }

#ifdef HF_SCAFFOLD_VECTORS

// The common part of rules that look at windows. A window holds the STEP bytes to decide on, BEFORE bytes before them
// and one after. Masks have one bit per byte of the window.
template <unsigned n_before>
class WindowRules {
public:
    static constexpr unsigned BEFORE = n_before, STEP = WINDOW_SIZE - BEFORE - 1;

    // Whether the bytes of the last next() may have further starts, after those it returned, that only Rules::next()
    // finds.
    bool are_cut_short() const { return false; }

protected:
    static constexpr std::uint64_t ALL = ~std::uint64_t{0};
    static constexpr std::uint64_t DECIDED = ALL >> (WINDOW_SIZE - STEP) << BEFORE;
    static constexpr std::uint64_t FIRST = std::uint64_t{1} << BEFORE, LAST = FIRST << (STEP - 1);  // of these

    WindowRules(const byte_t* begin, const byte_t* end) : begin_(begin), end_(end), stop_(begin) {}

    // Calls find(window, text) for the window whose FIRST bit is the byte at `at`, and shifts the starts it returns
    // into what next() returns: one bit for each of the STEP bytes from `at` on. The window is zero where there is no
    // text.
    template <class Window, class Find>
    std::uint64_t starts(const byte_t* at, Find find) {
        const std::size_t before = static_cast<std::size_t>(at - begin_), left = static_cast<std::size_t>(end_ - at);
        const byte_t* bytes = at - BEFORE;
        std::uint64_t text = ALL;
        byte_t copy[WINDOW_SIZE];
        if (before < BEFORE || left <= STEP) {
            const std::size_t from = BEFORE - std::min<std::size_t>(before, BEFORE);
            const std::size_t to = BEFORE + std::min<std::size_t>(left, STEP + 1);
            std::memset(copy, 0, sizeof copy);
            std::memcpy(copy + from, at - (BEFORE - from), to - from);
            text = ALL << from & ALL >> (WINDOW_SIZE - to);
            bytes = copy;
        }
        return (find(Window(bytes, at - BEFORE), text) & text & DECIDED) >> BEFORE;
    }

    static std::uint64_t first_of(std::uint64_t mask) { return mask & ~(mask << 1); }

    // The first bytes of those `spaces` that other text follows. `not_before` masks the characters with one of
    // `classes`, which don't count as that.
    template <class Window>
    std::uint64_t last_spaces(
        const Window& window, std::uint64_t spaces, std::uint64_t not_before, classes_t classes, std::uint64_t text,
        const byte_t* at) const {
        std::uint64_t last = spaces & ~window.tails & ~(not_before >> 1) & text >> 1;
        for (std::uint64_t rest = window.long_spaces & ALL << BEFORE; rest != 0; rest &= rest - 1) {
            const byte_t* space = at + trailing_zeros(rest) - BEFORE;
            const byte_t* after = space + character_at(space).length;
            if (after != end_ && !(character_at(after).classes & classes)) last |= lowest_one(rest);
        }
        return last;
    }

    // Corrects the starts for contractions, given the quotes that may begin one. A contraction is a pre-token if one
    // starts at its quote; if `attached`, it belongs to the pre-token before it.
    template <bool any_case, bool attached>
    std::uint64_t with_contractions(std::uint64_t starts, std::uint64_t quotes, const byte_t* at) {
        std::uint64_t left = quotes & DECIDED;
        stops_ = 0;
        if (stop_ >= at) left &= ALL << stop_at(starts, 0, static_cast<unsigned>(stop_ - at) + BEFORE) << attached;
        for (;;) {
            if (!attached) left &= starts;
            if (left == 0) return starts;
            const unsigned i = trailing_zeros(left);
            left &= left - 1;
            const byte_t* quote = at + i - BEFORE;
            const unsigned length = static_cast<unsigned>(contraction_length<any_case>(quote, end_));
            if (length == 0) continue;
            stop_ = quote + length;
            const unsigned first = attached ? i : i + 1;
            if (i + length >= BEFORE + STEP) return starts & ~(ALL << first);
            // A quote right after a contraction may begin another, but if `attached`, it has no word to attach to.
            left = quotes & DECIDED & ALL << stop_at(starts, first, i + length) << attached;
        }
    }

    const byte_t* begin_;
    const byte_t* end_;
    std::uint64_t stops_ = 0;  // where contractions end in this window

private:
    // Clears the starts from bit `from` to bit `stop`, and sets one at `stop`, which it returns.
    unsigned stop_at(std::uint64_t& starts, unsigned from, unsigned stop) {
        const std::uint64_t at_stop = std::uint64_t{1} << stop;
        starts = (starts & ~(ALL << from)) | (starts & ALL << stop) | at_stop;
        stops_ |= at_stop;
        return stop;
    }

    const byte_t* stop_;  // of the last contraction
};

// Where GPT-2's pre-tokens start, window by window.
//
// A run of one kind starts a pre-token, unless a blank precedes it. So does a run of white space, and so does its last
// character, which is left over (and, if a blank, leads the next run), but not before a digit that is split off: for
// the pattern, the text ends there.
template <bool split_digits>
class Gpt2Starts : public WindowRules<1> {
public:
    Gpt2Starts(const byte_t* begin, const byte_t* end) : WindowRules(begin, end) {}

    // One bit for each of the STEP bytes at `at`, or for those up to the end. Call it for successive windows, from the
    // beginning on.
    std::uint64_t next(const byte_t* at) {
        return starts<Window<false>>(at, [&](const Window<false>& w, std::uint64_t text) {
            constexpr classes_t STOP = split_digits ? DIGIT : 0;
            const std::uint64_t split = split_digits ? w.digits : 0;
            const std::uint64_t others = text & ~(w.letters | w.numbers | w.spaces | split);
            const std::uint64_t runs = first_of(w.letters & ~split) | first_of(w.numbers & ~split) | first_of(others);
            const std::uint64_t found = (split & ~w.tails) | first_of(w.spaces) | (runs & ~(w.blanks << 1)) |
                                        last_spaces(w, w.spaces, w.spaces | split, SPACE | STOP, text, at);
            return with_contractions<false, false>(found, w.quotes, at);
        });
    }
};

// Where pre-tokens start under rules that treat line breaks apart, before contractions.
//
// They start at runs of letters, of others and of white space, and at every third number of a run; except that
// - a space that is no line break, or a single other without a blank before it, leads the letters it precedes; a blank
//   leads the others it precedes;
// - line breaks after others belong to them, and so do slashes of the window's mask among those line breaks.
// White space is cut after its last line break, and before its last character if that is no line break.
class LineRules : public WindowRules<5> {  // a whole character, and the last byte of the one before
protected:
    LineRules(const byte_t* begin, const byte_t* end) : WindowRules(begin, end) {}

    template <class Window>
    std::uint64_t line_starts(const Window& w, std::uint64_t text, const byte_t* at) {
        const std::uint64_t blanks = w.spaces & ~w.newlines;  // here any white space but line breaks
        const std::uint64_t rest = text & ~(w.letters | w.numbers | w.spaces);
        const std::uint64_t swallowed = swallow(w.newlines, w.slashes, rest), after_swallowed = swallowed << 1;
        swallowed_before_ = swallowed >> STEP & (FIRST - 1);
        const std::uint64_t first_others = first_of(rest & ~swallowed) & ~(w.blanks << 1);
        const std::uint64_t first_blanks = first_of(blanks);
        const std::uint64_t after_newlines = first_blanks & w.newlines << 1 & ~after_swallowed;
        return (first_of(w.letters) & ~(blanks << 1) & ~after(first_others, w.tails)) | first_others |
               numbers(w.numbers, w.tails) | (first_of(w.spaces) & ~swallowed) | (first_blanks & after_swallowed) |
               after_last_newline(after_newlines, blanks, w.newlines, at) |
               last_spaces(w, blanks, w.spaces, SPACE, text, at);
    }

private:
    // The places after characters, given their first bytes.
    static std::uint64_t after(std::uint64_t firsts, std::uint64_t tails) {
        const std::uint64_t next = firsts << 1;
        return (next | (tails + (next & tails))) & ~tails;  // the sum carries through continuation bytes
    }

    // The line breaks after others, with the slashes among them.
    std::uint64_t swallow(std::uint64_t newlines, std::uint64_t slashes, std::uint64_t others) const {
        const std::uint64_t first = newlines & others << 1 & ALL << BEFORE;
        std::uint64_t found = swallowed_before_ | first;
        for (;;) {
            const std::uint64_t more = (newlines | slashes) & found << 1 & ~found & ALL << BEFORE;
            if (more == 0) return found;
            found |= more;
        }
    }

    // Every third number of a run.
    std::uint64_t numbers(std::uint64_t numbers, std::uint64_t tails) {
        const std::uint64_t four = numbers & numbers >> 1 & numbers >> 2 & numbers >> 3;
        if (four == 0 && !(numbers & LAST) && n_numbers_ == 0) return first_of(numbers);
        std::uint64_t starts = 0;
        const std::uint64_t firsts = first_of(numbers);
        for (std::uint64_t rest = numbers & ~tails & DECIDED; rest != 0; rest &= rest - 1) {
            const std::uint64_t number = lowest_one(rest);
            if (number & firsts) n_numbers_ = 0;
            if (n_numbers_ % 3 == 0) starts |= number;
            ++n_numbers_;
        }
        if (!(numbers & LAST)) n_numbers_ = 0;
        return starts;
    }

    // Of blanks after a line break, those with no further line break in their run of white space.
    std::uint64_t after_last_newline(
        std::uint64_t firsts, std::uint64_t blanks, std::uint64_t newlines, const byte_t* at) const {
        std::uint64_t found = 0;
        for (std::uint64_t rest = firsts & DECIDED; rest != 0; rest &= rest - 1) {
            const std::uint64_t first = lowest_one(rest);
            const std::uint64_t stop = ~blanks & (blanks + first);
            bool is_cut = stop & newlines;
            if (stop == 0) {  // beyond the window
                const byte_t* after_run = skip(at + trailing_zeros(rest) - BEFORE, end_, SPACE | NEWLINE, SPACE);
                is_cut = after_run != end_ && character_at(after_run).classes & NEWLINE;
            }
            if (!is_cut) found |= first;
        }
        return found;
    }

    std::uint64_t swallowed_before_ = 0;  // of the bytes before the window's first
    std::size_t n_numbers_ = 0;           // in the run that the last window ended in
};

// Where Llama 3's pre-tokens start.
class Llama3Starts : public LineRules {
public:
    Llama3Starts(const byte_t* begin, const byte_t* end) : LineRules(begin, end) {}

    std::uint64_t next(const byte_t* at) {
        return starts<Window<false>>(at, [&](const Window<false>& w, std::uint64_t text) {
            return with_contractions<true, false>(line_starts(w, text, at), w.quotes, at);
        });
    }
};

// Where GPT-4o's pre-tokens start.
//
// A word ends where lower case turns to upper, and includes a contraction. Letters without case, and marks, continue
// any word; where upper case follows them, the end of the run decides. A mark that follows no word may begin one or be
// among others.
class Gpt4oStarts : public LineRules {
public:
    Gpt4oStarts(const byte_t* begin, const byte_t* end) : LineRules(begin, end) {}

    std::uint64_t next(const byte_t* at) {
        return starts<Window<true>>(at, [&](const Window<true>& w, std::uint64_t text) {
            const std::uint64_t upper = w.upper & ~w.lower & ~w.tails, lower = w.lower & ~w.upper;
            const std::uint64_t words = line_starts(w, text, at) | (upper & lower << 1);
            const std::uint64_t found = with_contractions<true, true>(words, w.quotes & w.letters << 1, at);
            const std::uint64_t no_word = ~(w.letters << 1) | stops_;
            const std::uint64_t after_both = (w.upper & w.lower) << 1;
            const std::uint64_t unclear = DECIDED & ((upper & after_both) | (w.marks & ~w.tails & no_word));
            are_cut_short_ = unclear != 0;
            return are_cut_short_ ? found & (lowest_one(unclear) - 1) : found;
        });
    }

    bool are_cut_short() const { return are_cut_short_; }

private:
    bool are_cut_short_ = false;
};

#endif

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// With `split_digits`, each DIGIT is a pre-token of its own, and the pattern sees only the pieces in between.
template <bool split_digits>
struct Gpt2Rules {
    static constexpr classes_t STOP = split_digits ? DIGIT : 0;

    static const byte_t* next(const byte_t* at, const byte_t* end) {
        Character first = character_at(at);
        if (first.classes & STOP) return at + first.length;
        if (const std::size_t length = contraction_length<false>(at, end)) return at + length;
        if (*at == ' ' && at + 1 != end) {
            const Character second = character_at(at + 1);
            if (!(second.classes & (SPACE | STOP))) {
                first = second;
                ++at;
            }
        }
        if (first.classes & SPACE) return white_space(at, end, STOP);
        const classes_t kind = first.classes & KIND;
        if (kind == LETTER) return skip_letters<true>(at + first.length, end, LETTER | STOP, LETTER);
        return skip(at + first.length, end, kind | STOP, kind);
    }

#ifdef HF_SCAFFOLD_VECTORS
    using Starts = Gpt2Starts<split_digits>;
#endif

    static bool separates(Neighbour a, Neighbour b) {
        if (a.is(STOP) || b.is(STOP)) return true;
        if (a.is(SPACE) || a.kind() == b.kind()) return false;
        return !(a.lead == '\'' && b.is(LETTER));  // a contraction
    }
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
struct Llama3Rules {
    static const byte_t* next(const byte_t* at, const byte_t* end) {
        if (const std::size_t length = contraction_length<true>(at, end)) return at + length;
        const Character first = character_at(at);
        const byte_t* second = at + first.length;
        if (first.classes & LETTER) return skip_letters<true>(second, end, LETTER, LETTER);
        if (first.classes & NUMBER) return up_to_three_numbers(at, end);
        if (!(first.classes & NEWLINE) && second != end && (character_at(second).classes & LETTER)) {
            return skip_letters<true>(second, end, LETTER, LETTER);
        }
        const byte_t* others = after_space(at, end, OTHER);
        if (character_at(others).classes & OTHER) return skip(skip(others, end, OTHER), end, NEWLINE);
        return white_space_by_lines(at, end);
    }

#ifdef HF_SCAFFOLD_VECTORS
    using Starts = Llama3Starts;
#endif

    static bool separates(Neighbour a, Neighbour b) {
        if (a.is(NEWLINE)) return !b.is(SPACE);
        if (a.is(SPACE) || a.kind() == b.kind()) return false;
        // Others include line breaks after them, and can lead a run of letters.
        return !(a.is(OTHER) && (b.is(NEWLINE) || b.is(LETTER)));
    }
};

// With U = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] (UPPER), W = [\p{Ll}\p{Lm}\p{Lo}\p{M}] (LOWER) and
// C = (?i:'s|'t|'re|'ve|'m|'ll|'d):
// [^\r\n\p{L}\p{N}]?U*W+C?|[^\r\n\p{L}\p{N}]?U+W*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
struct Gpt4oRules {
    static const byte_t* next(const byte_t* at, const byte_t* end) {
        const Character first = character_at(at);
        if (first.classes & NUMBER) return up_to_three_numbers(at, end);
        if (const byte_t* letters = cased_letters(at, end, first)) {
            return letters + contraction_length<true>(letters, end);
        }
        const byte_t* others = after_space(at, end, OTHER);
        if (character_at(others).classes & OTHER) return line_breaks_and_slashes(skip(others, end, OTHER), end);
        return white_space_by_lines(at, end);
    }

#ifdef HF_SCAFFOLD_VECTORS
    using Starts = Gpt4oStarts;
#endif

    static bool separates(Neighbour a, Neighbour b) {
        if (a.is(NEWLINE)) return !b.is(SPACE) && b.lead != '/';
        if (a.is(SPACE) || a.kind() == b.kind()) return false;
        if (a.is(LETTER)) return b.lead != '\'' && !b.is(UPPER);  // a contraction, a mark
        // As in Llama3Rules; a mark among letters ends there, too.
        return !(a.is(OTHER) && (b.is(NEWLINE) || b.is(LETTER)));
    }

private:
    // The end of the first two alternatives, without C?, or null. Each is tried with the optional first character, then
    // without it; a mark can be that character, and a letter of either case.
    static const byte_t* cased_letters(const byte_t* at, const byte_t* end, Character first) {
        const bool can_lead = !(first.classes & (LETTER | NEWLINE));
        const byte_t* second = at + first.length;
        const byte_t* stop;
        if (can_lead && (stop = upper_then_lower(second, end))) return stop;
        if ((stop = upper_then_lower(at, end))) return stop;
        // Neither matched, so no W follows the U+.
        if (can_lead && (stop = skip(second, end, UPPER)) != second) return stop;
        stop = skip(at, end, UPPER);
        return stop != at ? stop : nullptr;
    }

    // The end of U*W+, or null. If no W follows the run of U, it backtracks to the last character in it that is also a
    // W, and that one is the W+.
    static const byte_t* upper_then_lower(const byte_t* at, const byte_t* end) {
        const byte_t* last_lower_end = nullptr;
        while (at != end) {
            const Character next = character_at(at);
            if (!(next.classes & UPPER)) {
                return next.classes & LOWER ? skip_letters<false>(at, end, LOWER, LOWER) : last_lower_end;
            }
            at += next.length;
            if (next.classes & LOWER) last_lower_end = at;
        }
        return last_lower_end;
    }

    static const byte_t* line_breaks_and_slashes(const byte_t* at, const byte_t* end) {
        while (at != end && (*at == '\r' || *at == '\n' || *at == '/')) ++at;
        return at;
    }
};

constexpr std::size_t BATCH = 256, MOST_IN_BATCH = BATCH + 64;

// Writes the place of each bit, counted from `at`, then up to 7 meaningless ones; returns the end of the former.
inline const byte_t** put_places(std::uint64_t bits, const byte_t* at, const byte_t** out) {
    const byte_t** const end = out + count_ones(bits);
    for (; out < end; out += 8) {
        for (unsigned i = 0; i < 8; ++i) {
            out[i] = at + trailing_zeros(bits | std::uint64_t{1} << 63);
            bits &= bits - 1;
        }
    }
    return end;
}

// Calls sink(bounds, n) for batches of the text's pre-tokens, in order; the i-th of the n goes from bounds[i] to
// bounds[i + 1]. n is BATCH to MOST_IN_BATCH, in the last batch 1 or more.
template <class Rules, class Sink>
void scan_in_batches(Rules rules, const byte_t* at, const byte_t* end, Sink&& sink) {
    if (at == end) return;
    const byte_t* bounds[MOST_IN_BATCH + 8];
    const byte_t** last = bounds;
    const auto flush = [&] {
        sink(static_cast<const byte_t* const*>(bounds), static_cast<std::size_t>(last - bounds));
        bounds[0] = *last;
        last = bounds;
    };
#ifdef HF_SCAFFOLD_VECTORS
    using Starts = typename Rules::Starts;
    Starts starts(at, end);
    const byte_t** next = bounds;
    while (at != end) {
        next = put_places(starts.next(at), at, next);
        const byte_t* const stop = at + std::min<std::ptrdiff_t>(end - at, Starts::STEP);
        if (starts.are_cut_short()) {  // go on with next() from the last start, then restart
            if (next != bounds) at = *--next;
            for (; at < stop; at = rules.next(at, end)) *next++ = at;
            starts = Starts(at, end);
        } else {
            at = stop;
        }
        if (next - bounds > static_cast<std::ptrdiff_t>(BATCH)) {
            last = next - 1;
            flush();
            next = bounds + 1;
        }
    }
    *next = end;
    last = next;
#else
    for (*last = at; at != end;) {
        *++last = at = rules.next(at, end);
        if (last == bounds + BATCH) flush();
    }
    if (last == bounds) return;
#endif
    sink(static_cast<const byte_t* const*>(bounds), static_cast<std::size_t>(last - bounds));
}

enum class Preset { gpt2, gpt2_digits, llama3, gpt4o, whole, metaspace, metaspace_runs };

}  // namespace hf_scaffold
