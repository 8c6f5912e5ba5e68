// Added tokens in a text, as `tokenizers` finds them: leftmost first, the longest at each place, without overlap.
//
// An automaton (Aho and Corasick 1975) of the reversed tokens reads the text backwards, so it knows at each place the
// longest token that begins there, in time linear in the text, whatever the tokens. A forward search from each place
// would reread up to a token's length every time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "scan.hpp"
#include "widths.hpp"

namespace hf_scaffold {

struct AddedToken {
    token_id_t id;
    bool single_word, lstrip, rstrip;
    bool ignored;  // found, but read as text: a special token under split_special_tokens
};

// A stretch of text: an added token, or the text between two of them.
struct Stretch {
    const byte_t* begin;
    const byte_t* end;
    token_id_t id;  // NO_ID for text
};

// The number of the longest of some strings that begins at each place of a text. Memory: up to 13 bytes for each byte
// of the strings, 9 more during build().
class LongestAt {
public:
    static constexpr std::uint32_t NONE = std::numeric_limits<std::uint32_t>::max();
    struct Found {
        const byte_t* at;
        std::uint32_t number;
    };

    // The string must not be empty. The last of equal strings counts.
    void add(const byte_t* bytes, std::size_t length) {
        if (length == 0) throw std::invalid_argument("an empty string would be everywhere");
        if (length >= NONE - reversed_.size()) throw std::overflow_error("strings of 4 GiB in all");
        for (const byte_t* at = bytes + length; at != bytes;) reversed_.push_back(*--at);
        ends_.push_back(static_cast<std::uint32_t>(reversed_.size()));
        longest_ = std::max(longest_, length);
    }

    // Call it after the last add() and before find().
    void build() {
        if (ends_.empty()) return;
        make_nodes();
        link();
        find_last_bytes();
        reversed_ = {};
    }

    std::size_t size() const { return ends_.size(); }
    std::size_t longest() const { return longest_; }
    std::size_t length(std::uint32_t number) const { return ends_[number] - begin_of(number); }

    // Appends what it finds between `begin` and `end`, the last place first.
    void find(const byte_t* begin, const byte_t* end, std::vector<Found>& out) const {
        std::uint32_t node = ROOT;
        for (const byte_t* at = end;;) {
            if (node == ROOT) at = after_last_byte(begin, at);
            if (at == begin) return;
            node = next(node, *--at);
            if (found_[node] != NONE) out.push_back({at, found_[node]});
        }
    }

private:
    static constexpr std::uint32_t ROOT = 0;
    static constexpr std::size_t FEW = 4;

    std::uint32_t begin_of(std::uint32_t number) const { return number == 0 ? 0 : ends_[number - 1]; }
    const byte_t* reversed(std::uint32_t number) const { return reversed_.data() + begin_of(number); }

    // The strings' numbers in the order of the reversed strings; of equal ones only the last.
    std::vector<std::uint32_t> in_order() const {
        std::vector<std::uint32_t> order(ends_.size());
        std::iota(order.begin(), order.end(), 0);
        const auto compare = [&](std::uint32_t a, std::uint32_t b) {
            const std::size_t common = std::min(length(a), length(b));
            const int difference = std::memcmp(reversed(a), reversed(b), common);
            return difference != 0 ? difference : length(a) < length(b) ? -1 : length(a) > length(b);
        };
        std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
            const int difference = compare(a, b);
            return difference != 0 ? difference < 0 : a > b;
        });
        const auto are_alike = [&](std::uint32_t a, std::uint32_t b) { return compare(a, b) == 0; };
        order.erase(std::unique(order.begin(), order.end(), are_alike), order.end());
        return order;
    }

    // Builds a trie of the reversed strings, level by level, so that a node's children are contiguous.
    void make_nodes() {
        const std::vector<std::uint32_t> order = in_order();
        struct Range {
            std::uint32_t begin, end;  // in `order`: the strings that pass through a node
        };
        const std::size_t most_nodes = reversed_.size() + 1;
        std::vector<Range> ranges;
        ranges.reserve(most_nodes);
        ranges.push_back({0, static_cast<std::uint32_t>(order.size())});
        for (auto* of_each : {&children_, &found_}) of_each->reserve(most_nodes + 1);
        bytes_.reserve(most_nodes);
        bytes_.push_back(0);
        std::size_t level_end = 1, depth = 0;
        for (std::size_t node = 0; node < ranges.size(); ++node) {
            if (node == level_end) {
                level_end = ranges.size();
                ++depth;
            }
            auto [at, end] = ranges[node];
            children_.push_back(static_cast<std::uint32_t>(ranges.size()));
            const bool ends_here = length(order[at]) == depth;
            found_.push_back(ends_here ? order[at++] : NONE);
            while (at != end) {
                const std::uint32_t first = at;
                const byte_t byte = reversed(order[at])[depth];
                while (at != end && reversed(order[at])[depth] == byte) ++at;
                ranges.push_back({first, at});
                bytes_.push_back(byte);
            }
        }
        children_.push_back(static_cast<std::uint32_t>(ranges.size()));
    }

    // Links each node to its longest proper suffix that is a node, too, and inherits the string found there if none
    // ends at the node itself.
    void link() {
        std::fill_n(first_children_, 256, ROOT);
        for (std::uint32_t child = children_[ROOT]; child < children_[ROOT + 1]; ++child) {
            first_children_[bytes_[child]] = child;
        }
        suffixes_.assign(bytes_.size(), ROOT);
        for (std::uint32_t node = children_[ROOT]; node < bytes_.size(); ++node) {
            if (found_[node] == NONE) found_[node] = found_[suffixes_[node]];
            for (std::uint32_t child = children_[node]; child < children_[node + 1]; ++child) {
                suffixes_[child] = next(suffixes_[node], bytes_[child]);
            }
        }
    }

    // Follows the byte, from the longest suffix that can. Each suffix tried is shorter, so a text of n bytes takes at
    // most n extra tries.
    std::uint32_t next(std::uint32_t node, byte_t byte) const {
        for (;; node = suffixes_[node]) {
            if (node == ROOT) return first_children_[byte];
            const byte_t* const begin = bytes_.data() + children_[node];
            const byte_t* const end = bytes_.data() + children_[node + 1];
            const byte_t* const child = end - begin < 2 ? begin : std::lower_bound(begin, end, byte);
            if (child != end && *child == byte) return static_cast<std::uint32_t>(child - bytes_.data());
        }
    }

    void find_last_bytes() {
        n_last_bytes_ = 0;
        for (unsigned byte = 0; byte < 256; ++byte) {
            if (first_children_[byte] == ROOT) continue;
            if (n_last_bytes_ < FEW) last_bytes_[n_last_bytes_] = static_cast<byte_t>(byte);
            ++n_last_bytes_;
        }
        for (std::size_t i = n_last_bytes_; i < FEW; ++i) last_bytes_[i] = last_bytes_[0];
    }

    // The place after the last byte that some string ends with, or `begin`.
    const byte_t* after_last_byte(const byte_t* begin, const byte_t* at) const {
        if (n_last_bytes_ == 1) at = pass_over<1, 16>(begin, pass_over<1, 128>(begin, at));
        if (n_last_bytes_ > 1 && n_last_bytes_ <= FEW) at = pass_over<FEW, 16>(begin, pass_over<FEW, 128>(begin, at));
        while (at != begin && first_children_[at[-1]] == ROOT) --at;
        return at;
    }

    // Skips bytes that none of n last bytes equals, MANY at a time. The inner loop runs forwards so that compilers
    // vectorize it.
    template <std::size_t n, std::ptrdiff_t MANY>
    const byte_t* pass_over(const byte_t* begin, const byte_t* at) const {
        byte_t last[n];
        std::copy_n(last_bytes_, n, last);
        for (; at - begin >= MANY; at -= MANY) {
            byte_t any = 0;
            for (std::ptrdiff_t i = 0; i < MANY; ++i) {
                const byte_t byte = at[i - MANY];
                for (std::size_t k = 0; k < n; ++k) any = any | (byte == last[k]);
            }
            if (any) break;
        }
        return at;
    }

    std::vector<byte_t> reversed_;         // the reversed strings, until build()
    std::vector<std::uint32_t> ends_;      // of the strings in reversed_
    std::vector<byte_t> bytes_;            // of the edges to the nodes
    std::vector<std::uint32_t> children_;  // each node's first; they end where the next node's begin
    std::vector<std::uint32_t> suffixes_;
    std::vector<std::uint32_t> found_;        // the longest string at each node, or NONE
    std::uint32_t first_children_[256] = {};  // of the root, by byte
    byte_t last_bytes_[FEW] = {};
    std::size_t n_last_bytes_ = 0;
    std::size_t longest_ = 0;
};

class AddedTokens {
public:
    // The content must not be empty. The last of equal contents counts.
    void add(const byte_t* content, std::size_t length, AddedToken token) {
        tokens_.push_back(token);
        contents_.add(content, length);
    }

    // Call it after the last add() and before split().
    void build() { contents_.build(); }

    bool empty() const { return tokens_.empty(); }

    // Appends the stretches of a text, none of them empty, to `out`. False, with `out` unusable, if only `tokenizers`
    // can tell: a single_word token is next to a character beyond ASCII.
    bool split(const byte_t* begin, const byte_t* end, std::vector<Stretch>& out) const {
        const byte_t* text = begin;  // the start of the text after the last token
        if (!tokens_.empty() && !each_token(begin, end, [&](const byte_t* start, const byte_t* stop, AddedToken token) {
                if (token.ignored) return true;
                if (token.single_word) {
                    const bool is_known = (start == begin || start[-1] < 0x80) && (stop == end || *stop < 0x80);
                    if (!is_known) return false;
                    if ((start != begin && is_word(start[-1])) || (stop != end && is_word(*stop))) return true;
                }
                if (token.lstrip) start = space_before(text, start);
                if (token.rstrip) stop = skip(stop, end, SPACE);
                if (start < text) return false;  // the token before it took its first characters as space
                if (text != start) out.push_back({text, start, NO_ID});
                out.push_back({start, stop, token.id});
                text = stop;
                return true;
            })) {
            return false;
        }
        if (text != end) out.push_back({text, end, NO_ID});
        return true;
    }

private:
    // Calls take(start, stop, token) for each token in the text, in order. Stops and returns false if take() does.
    template <class Take>
    bool each_token(const byte_t* begin, const byte_t* end, Take take) const {
        // Block by block, to save memory, each with the bytes that its last token may extend into.
        const std::size_t size = std::max(std::size_t{1} << 16, 4 * contents_.longest());
        std::vector<LongestAt::Found> found;
        const byte_t* at = begin;  // the end of the last token
        while (begin != end) {
            const byte_t* const stop = begin + std::min(static_cast<std::size_t>(end - begin), size);
            found.clear();
            contents_.find(begin, stop + std::min(static_cast<std::size_t>(end - stop), contents_.longest()), found);
            for (std::size_t i = found.size(); i-- > 0;) {
                const auto [start, number] = found[i];
                if (start >= stop) break;
                if (start < at) continue;
                at = start + contents_.length(number);
                if (!take(start, at, tokens_[number])) return false;
            }
            begin = stop;
        }
        return true;
    }

    static bool is_word(byte_t c) {
        return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    }

    LongestAt contents_;
    std::vector<AddedToken> tokens_;  // by their number in contents_
};

// Cython constructs members where an exception would terminate the process.
static_assert(std::is_nothrow_default_constructible_v<AddedTokens>);

}  // namespace hf_scaffold
