// Byte-pair encoding without merging, in linear time: the longest token, unless it can't follow the token before it.
//
// A merge joins two tokens and looks no further. So the encoding of a text is the only sequence of tokens in which each
// token is the encoding of its own bytes, and each two neighbours are the encoding of theirs (Berglund and van der
// Merwe 2023). Whether two tokens may be neighbours is found by undoing their merges, the last one first, and looking
// for an earlier rule that joins the parts that touch. Where the longest token may not follow, a shorter one is tried;
// where none may, the token before it was too long. (The search is that of the Rust crate `bpe`, by van Antwerpen and
// Neubeck.) A short pre-token that begins with a short token is merged all the same: random letters and digits hardly
// merge, so that takes less time.
//
// This needs rules in an order in which the parts of a token are made before the token, as training makes them, and
// tokens that stand for one string each. Other rules are odd: pre-tokens have to be merged then.
#pragma once

#include <algorithm>
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "hash_seed.hpp"
#include "interrupt.hpp"
#include "simd.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

class LinearBpe {
public:
    struct Rule {
        token_id_t left, right, merged;
    };

    // The token of each byte, or NO_ID; and the rules in rank order. The first n_character_rules may make characters of
    // bytes, if no rule among them joins bytes of two characters. O(size of the rules and the tokens they make).
    LinearBpe(
        const std::vector<token_id_t>& byte_ids, const std::vector<Rule>& rules, std::size_t n_character_rules = 0) {
        Making making(rules.size());
        is_odd_ = rules.size() >= MOST_TOKENS - 256;
        if (is_odd_) return;
        pairs_.assign(slots_for(rules.size()), 0);
        made_of_two_.assign(std::size_t{1} << 16, NONE);
        tokens_.reserve(rules.size() + 256);
        ids_.reserve(rules.size() + 256);
        making.begins.reserve(rules.size() + 256);
        for (unsigned byte = 0; byte < 256; ++byte) {
            if (byte_ids[byte] != NO_ID) add_byte(static_cast<byte_t>(byte), byte_ids[byte], making);
        }
        if (tokens_.empty()) is_odd_ = true;
        for (std::size_t i = 0; i < rules.size(); ++i) {
            if (is_odd_) return;
            add_rule(rules[i], i < n_character_rules, making);
        }
        grow_trie(making);
    }

    // Tokens are numbered in the order in which rules make them, bytes first. So of two tokens the one of the higher
    // number is merged later, and a pair's rule is known by the number of what it makes.
    using number_t = std::uint32_t;
    static constexpr number_t NONE = std::numeric_limits<number_t>::max();

    struct Run {
        number_t token;
        std::size_t length;
    };

    struct Work {
        std::vector<token_id_t> ids;
        std::vector<std::uint32_t> made;
        std::vector<bool> is_dead;
        std::vector<Run> runs, more_runs;
    };

    // Leaves the tokens' ids in work.ids. Or returns false: if the rules are odd, if a byte has no token, or if it takes
    // far more steps than any trained rules would need. O(n) for n bytes.
    bool encode(const byte_t* bytes, std::size_t n, Work& work, Interrupt* interrupt) const {
        std::vector<token_id_t>& ids = work.ids;
        if (is_odd_) return false;
        ids.clear();
        const byte_t *at = bytes, *const end = bytes + n;
        if (at == end) return true;
        if (n >= LONG && read_runs(bytes, n, work.runs) && merge_runs(n, work)) {
            for (const Run& run : work.runs) ids.insert(ids.end(), run.length, ids_[run.token]);
            return true;
        }
        std::size_t steps_left = SOME_STEPS + MOST_STEPS * n;
        sized_t token = longest_at(at, end, steps_left);
        if (token != NONE && length_of(token) == n) {
            ids.push_back(ids_[number_of(token)]);
            return true;
        }
        if (n <= FEW && (token == NONE || length_of(token) <= SHORT_TOKEN)) return merge_short(bytes, n, ids);
        if (work.made.size() < n) work.made.resize(n);
        sized_t *const made = work.made.data(), *last = made;
        bool any_dead = false;  // places where no token may follow those before
        Steps steps(interrupt);
        for (;;) {
            steps.next();
            if (token != NONE && at != bytes && are_joined(at))
                token = follower(number_of(last[-1]), token, steps_left);
            if (token != NONE) {
                const byte_t* const next = at + length_of(token);
                if (!(any_dead && work.is_dead[static_cast<std::size_t>(next - bytes)])) {
                    *last++ = token;
                    if (next == end) break;
                    at = next;
                    for (const byte_t* const stop = at + std::min<std::ptrdiff_t>(end - at - 1, 4096);
                         at != stop && !are_joined(at) && !are_joined(at + 1); ++at) {
                        if (longest_of_byte_[*at] == NONE) return false;
                        *last++ = sized(longest_of_byte_[*at], 1);
                    }
                    token = longest_at(at, end, steps_left);
                    continue;
                }
                token = shorter(token);
            }
            if (steps_left == 0) return false;
            while (token == NONE) {  // the last token was too long
                if (!any_dead) work.is_dead.assign(n + 1, false);
                any_dead = true;
                work.is_dead[static_cast<std::size_t>(at - bytes)] = true;
                if (last == made) return false;
                token = *--last;
                at -= length_of(token);
                token = shorter(token);
            }
        }
        ids.resize(static_cast<std::size_t>(last - made));
        for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = ids_[number_of(made[i])];
        return true;
    }

    // The number of the token that stands for these bytes; NONE if there is none.
    number_t number_of(const byte_t* bytes, std::size_t n) const {
        if (is_odd_ || n == 0) return NONE;
        std::size_t steps_left = SOME_STEPS + n;
        const sized_t token = longest_at(bytes, bytes + n, steps_left);
        return token != NONE && length_of(token) == n ? number_of(token) : NONE;
    }

    // Merges n tokens given by their numbers, and moves `out` past the ids of those that are left. Or returns false: if
    // there are more than a few, or one is NONE.
    bool merge(const number_t* tokens, std::size_t n, token_id_t*& out) const {
        if (n > FEW || std::find(tokens, tokens + n, NONE) != tokens + n) return false;
        if (n == 1) {
            *out++ = ids_[tokens[0]];
        } else if (n == 2) {
            const number_t made = merged(tokens[0], tokens[1]);
            *out++ = ids_[made != NONE ? made : tokens[0]];
            if (made == NONE) *out++ = ids_[tokens[1]];
        } else {
            out = n <= 4   ? merge_few<4>(tokens, n, out)
                  : n <= 8 ? merge_few<8>(tokens, n, out)
                           : merge_few<FEW>(tokens, n, out);
        }
        return true;
    }

    // The most slots a look-up visits. O(slots).
    std::size_t longest_probe() const {
        std::size_t longest = 0;
        for (std::size_t i = 0; i < pairs_.size(); ++i) {
            if (pairs_[i] == 0) continue;
            longest = std::max(longest, ((i - key_.of(pairs_[i] >> NUMBER_BITS)) & (pairs_.size() - 1)) + 1);
        }
        return longest;
    }

private:
    // A number, and above it the token's length: so the search for the next one needn't wait for this one's record. The
    // longest tokens' lengths are looked up.
    using sized_t = std::uint32_t;
    static constexpr unsigned NUMBER_BITS = 21;
    static constexpr std::size_t MOST_TOKENS = std::size_t{1} << NUMBER_BITS, MOST_NODES = std::size_t{1} << 23;
    static constexpr std::size_t SOME_NODES = 4096;                   // that there is made room for at a time
    static constexpr std::size_t SOME_STEPS = 1024, MOST_STEPS = 16;  // for rules and tokens; and for each byte
    static constexpr std::size_t LONG = 32, FEW_RUNS = 64;
    static constexpr std::size_t FEW = 16, SHORT_TOKEN = 4;  // tokens; bytes

    // A token at the edge of one or more others, before a merge made the next larger one of these.
    struct Edge {
        number_t token, until;   // which rules came before that merge: those that make a token below `until`
        std::uint64_t partners;  // what these rules merge it with across the edge: a bit each, which some share
    };

    // On one cache line.
    struct alignas(64) Token {
        Edge right, left;                  // the largest ones inside, but for those that could merge with nothing
        std::uint64_t followers, leaders;  // all partners of the token itself, on its right and left
        sized_t shorter;                   // the longest token that this one begins with
        std::uint32_t length;
    };

    // A place in the trie of all tokens: a double array (Aoe 1989). A child is as far from where its parent's children
    // begin as the byte says that leads to it. No two nodes' children begin at the same place, so that byte also says
    // whose child it is.
    struct Node {
        std::uint32_t children : 23;  // where they begin
        std::uint32_t is_child : 1;
        std::uint32_t byte : 8;  // that leads here

        bool is_reached_by(byte_t by) const { return is_child && byte == by; }
    };
    static constexpr std::size_t REACH = 256;  // of a node's children
    static constexpr Edge NOTHING_INSIDE{NONE, 0, 0};
    static constexpr std::uint32_t MOST_LENGTH = std::numeric_limits<sized_t>::max() >> NUMBER_BITS;

    // NONE for NONE.
    static sized_t sized(number_t token, std::uint32_t length) {
        return token | std::min(length, MOST_LENGTH) << NUMBER_BITS;
    }
    static number_t number_of(sized_t token) { return token & (MOST_TOKENS - 1); }
    std::uint32_t length_of(sized_t token) const {
        const std::uint32_t length = token >> NUMBER_BITS;
        return length != MOST_LENGTH ? length : tokens_[number_of(token)].length;
    }
    sized_t shorter(sized_t token) const { return tokens_[number_of(token)].shorter; }

    // ---- making

    // What only the constructor needs.
    struct Making {
        explicit Making(std::size_t n_rules)
            : number_of(2 * n_rules + 1024, NONE), is_missing(number_of.size()), most_bytes(256 * n_rules + 4096) {}

        byte_t byte_of(number_t token, std::size_t at) const { return bytes[begins[token] + at]; }
        bool is_known(token_id_t id) const { return id >= 0 && static_cast<std::size_t>(id) < number_of.size(); }

        std::vector<number_t> number_of;  // by id
        std::vector<bool> is_missing;     // by id
        std::vector<byte_t> bytes;        // of all tokens
        std::vector<std::size_t> begins;  // by number: in bytes
        std::size_t most_bytes;
    };

    void add_byte(byte_t byte, token_id_t id, Making& making) {
        if (!making.is_known(id) || making.number_of[static_cast<std::size_t>(id)] != NONE) {
            is_odd_ = true;
            return;
        }
        making.number_of[static_cast<std::size_t>(id)] = n_bytes_++;
        making.begins.push_back(making.bytes.size());
        making.bytes.push_back(byte);
        tokens_.push_back({NOTHING_INSIDE, NOTHING_INSIDE, 0, 0, NONE, 1});
        ids_.push_back(id);
    }

    void add_rule(const Rule& rule, bool is_character, Making& making) {
        if (!making.is_known(rule.left) || !making.is_known(rule.right) || !making.is_known(rule.merged)) {
            is_odd_ = true;
            return;
        }
        const auto left_id = static_cast<std::size_t>(rule.left), right_id = static_cast<std::size_t>(rule.right);
        const auto merged_id = static_cast<std::size_t>(rule.merged);
        const number_t left = making.number_of[left_id], right = making.number_of[right_id];
        if (left == NONE || right == NONE) {
            making.is_missing[left == NONE ? left_id : right_id] = true;  // never applied, unless that is made later
            return;
        }
        if (making.number_of[merged_id] != NONE) {
            // Never applied: these bytes are that token by now.
            is_odd_ = !is_made_of(making.number_of[merged_id], left, right, making);
            return;
        }
        const auto number = static_cast<number_t>(tokens_.size());
        std::size_t steps_left = SOME_STEPS;
        if (!are_neighbours(left, right, number, steps_left)) {
            is_odd_ = steps_left == 0;
            return;  // never applied: another rule comes first
        }
        const std::uint32_t length = tokens_[left].length + tokens_[right].length;
        if (making.is_missing[merged_id] || making.bytes.size() + length > making.most_bytes) {
            is_odd_ = true;
            return;
        }
        making.number_of[merged_id] = number;
        making.begins.push_back(making.bytes.size());
        for (const number_t part : {left, right}) {
            const std::size_t end = making.bytes.size(), n = tokens_[part].length;
            making.bytes.resize(end + n);
            std::memcpy(&making.bytes[end], &making.bytes[making.begins[part]], n);
        }
        tokens_.push_back({NOTHING_INSIDE, NOTHING_INSIDE, 0, 0, NONE, length});
        ids_.push_back(rule.merged);
        add_pair(left, right, number);
        if (!is_character) add_edges(left, right, number);
        if (length == 2) made_of_two_[joint(&making.bytes[making.begins[number] + 1])] = number;
        joints_[joint(&making.bytes[making.begins[number] + tokens_[left].length])] = true;
    }

    bool is_made_of(number_t token, number_t left, number_t right, const Making& making) const {
        const std::size_t n = tokens_[left].length;
        const byte_t* const bytes = &making.bytes[making.begins[token]];
        return tokens_[token].length == n + tokens_[right].length &&
               std::memcmp(bytes, &making.bytes[making.begins[left]], n) == 0 &&
               std::memcmp(bytes + n, &making.bytes[making.begins[right]], tokens_[right].length) == 0;
    }

    // ---- runs of one byte, such as spaces and dashes, whose many tokens all fit almost anywhere

    bool read_runs(const byte_t* bytes, std::size_t n, std::vector<Run>& runs) const {
        runs.clear();
        const std::size_t most = std::min(n / 16, FEW_RUNS);
        for (const byte_t *at = bytes, *const end = bytes + n; at != end;) {
            const byte_t* const begin = at;
            while (at != end && *at == *begin) ++at;
            if (runs.size() == most || longest_of_byte_[*begin] == NONE) return false;
            runs.push_back({longest_of_byte_[*begin], static_cast<std::size_t>(at - begin)});
        }
        return true;
    }

    // As no merge makes way for an earlier rule, each rule can be applied everywhere at once, and tokens stay in a few
    // runs. False if they don't.
    bool merge_runs(std::size_t n, Work& work) const {
        std::vector<Run>& runs = work.runs;
        for (std::size_t steps_left = SOME_STEPS + MOST_STEPS * n;;) {
            if (runs.size() > 2 * FEW_RUNS || steps_left < runs.size()) return false;
            steps_left -= runs.size();
            number_t made = NONE, left = NONE, right = NONE;
            for (std::size_t i = 0; i < runs.size(); ++i) {
                for (std::size_t j = runs[i].length > 1 ? i : i + 1; j <= i + 1 && j < runs.size(); ++j) {
                    const number_t found = made_of(runs[i].token, runs[j].token);
                    if (found >= made) continue;
                    made = found;
                    left = runs[i].token;
                    right = runs[j].token;
                }
            }
            if (made == NONE) return true;
            merge_pair(left, right, made, runs, work.more_runs);
        }
    }

    // Merges the pair wherever it is, left to right.
    static void merge_pair(
        number_t left, number_t right, number_t made, std::vector<Run>& runs, std::vector<Run>& more_runs) {
        more_runs.clear();
        const auto add = [&](number_t token, std::size_t length) {
            if (length == 0) return;
            if (!more_runs.empty() && more_runs.back().token == token) {
                more_runs.back().length += length;
            } else {
                more_runs.push_back({token, length});
            }
        };
        for (const Run& run : runs) {
            if (left == right && run.token == left) {
                add(made, run.length / 2);
                add(left, run.length % 2);
            } else if (left != right && run.token == right && !more_runs.empty() && more_runs.back().token == left) {
                if (--more_runs.back().length == 0) more_runs.pop_back();
                add(made, 1);
                add(right, run.length - 1);
            } else {
                add(run.token, run.length);
            }
        }
        runs.swap(more_runs);
    }

    // ---- few bytes, or other tokens

    bool merge_short(const byte_t* bytes, std::size_t n, std::vector<token_id_t>& ids) const {
        number_t tokens[FEW];
        for (std::size_t i = 0; i < n; ++i) {
            tokens[i] = longest_of_byte_[bytes[i]];
            if (tokens[i] == NONE) return false;
        }
        const auto made_at = [&](std::size_t i) { return made_of_two_[joint(bytes + i + 1)]; };
        token_id_t merged[FEW];
        ids.assign(merged, merge_few(tokens, n, made_at, merged));
        return true;
    }

    // Up to MOST tokens.
    template <std::size_t MOST>
    token_id_t* merge_few(const number_t* tokens, std::size_t n, token_id_t* out) const {
        number_t few[MOST];
        std::copy_n(tokens, n, few);
        return merge_few(few, n, [&](std::size_t i) { return merged(tokens[i], tokens[i + 1]); }, out);
    }

    // By merging in place, lowest rule first; a rule is known by the number of what it makes. made_at(i) says what the
    // i-th token and the next make. Writes the ids, and returns where they end.
    template <std::size_t MOST, class MadeAt>
    token_id_t* merge_few(number_t (&tokens)[MOST], std::size_t n, MadeAt made_at, token_id_t* out) const {
        constexpr std::uint32_t NOTHING = std::numeric_limits<std::int32_t>::max();  // SSE2 compares signed numbers
        static_assert(MOST_TOKENS * MOST < NOTHING);
        std::uint32_t candidates[MOST];  // what the tokens here and next make: the lowest, leftmost one comes first
        std::uint8_t previous[MOST + 1], next[MOST];
        const auto candidate = [](number_t made, std::size_t place) {
            return made == NONE ? NOTHING : static_cast<std::uint32_t>(made * MOST + place);
        };
        for (std::size_t i = 0; i < MOST; ++i) {
            previous[i] = static_cast<std::uint8_t>(i - 1);
            next[i] = static_cast<std::uint8_t>(i + 1);
        }
        for (std::size_t i = 0; i + 1 < n; ++i) candidates[i] = candidate(made_at(i), i);
        std::fill(candidates + n - 1, candidates + MOST, NOTHING);
        for (;;) {
            std::int32_t best = NOTHING;
            for (const std::uint32_t each : candidates) best = std::min(best, static_cast<std::int32_t>(each));
            if (best == NOTHING) break;
            const std::size_t here = static_cast<std::uint32_t>(best) % MOST, gone = next[here], after = next[gone];
            tokens[here] = static_cast<std::uint32_t>(best) / MOST;
            candidates[gone] = NOTHING;
            next[here] = static_cast<std::uint8_t>(after);
            previous[after] = static_cast<std::uint8_t>(here);
            candidates[here] = after == n ? NOTHING : candidate(made_of(tokens[here], tokens[after]), here);
            if (here == 0) continue;
            const std::size_t before = previous[here];
            candidates[before] = candidate(made_of(tokens[before], tokens[here]), before);
        }
        for (std::size_t i = 0; i < n; i = next[i]) *out++ = ids_[tokens[i]];
        return out;
    }

    // ---- any bytes

    // Whether two tokens may be neighbours: of the rules that make tokens below the limit, none joins what was at the end
    // of one with what was at the beginning of the other at the same time. Counts steps_left down; at 0 it gives up and
    // says no.
    bool are_neighbours(number_t left, number_t right, number_t limit, std::size_t& steps_left) const {
        Edge ending{left, limit, tokens_[left].followers}, beginning{right, limit, tokens_[right].leaders};
        for (;;) {
            if (steps_left == 0) return false;
            --steps_left;
            if (may_merge(ending, beginning) &&
                merged(ending.token, beginning.token) < std::min(ending.until, beginning.until)) {
                return false;
            }
            // Undo the last merge; of two by the same rule, the one on the right.
            if (ending.token > beginning.token) {
                ending = tokens_[ending.token].right;
                if (ending.token == NONE) return true;
            } else {
                beginning = tokens_[beginning.token].left;
                if (beginning.token == NONE) return true;
            }
        }
    }

    // The longest token that may follow `left`: this one, or one that it begins with; or NONE.
    sized_t follower(number_t left, sized_t token, std::size_t& steps_left) const {
        while (token != NONE && !are_neighbours(left, number_of(token), NONE, steps_left)) token = shorter(token);
        return token;
    }

    // The byte before `at` and the one there, as one number.
    static std::size_t joint(const byte_t* at) { return static_cast<std::size_t>(at[-1]) << 8 | at[0]; }
    bool are_joined(const byte_t* at) const { return joints_[joint(at)]; }

    static std::uint64_t pair_of(number_t left, number_t right) {
        return static_cast<std::uint64_t>(left) << NUMBER_BITS | right;
    }

    // The bit of 64 that stands for a token.
    static unsigned bit_of(number_t token) { return token * 0x9E3779B9 >> 26; }

    static bool may_merge(const Edge& left, const Edge& right) {
        return left.partners >> bit_of(right.token) & right.partners >> bit_of(left.token) & 1;
    }

    // The token that a pair makes, or NONE.
    number_t merged(number_t left, number_t right) const {
        const std::uint64_t pair = pair_of(left, right), hash = key_.of(pair);
        const std::size_t mask = pairs_.size() - 1;
        for (std::size_t i = hash & mask; pairs_[i] != 0; i = (i + 1) & mask) {
            if (pairs_[i] >> NUMBER_BITS == pair) return pairs_[i] & (MOST_TOKENS - 1);
        }
        return NONE;
    }

    // The same, and quickly if they make nothing.
    number_t made_of(number_t left, number_t right) const {
        if (!(tokens_[left].followers >> bit_of(right) & tokens_[right].leaders >> bit_of(left) & 1)) return NONE;
        return merged(left, right);
    }

    void add_pair(number_t left, number_t right, number_t made) {
        const std::uint64_t pair = pair_of(left, right), hash = key_.of(pair);
        tokens_[left].followers |= std::uint64_t{1} << bit_of(right);
        tokens_[right].leaders |= std::uint64_t{1} << bit_of(left);
        const std::size_t mask = pairs_.size() - 1;
        std::size_t i = hash & mask;
        while (pairs_[i] != 0) i = (i + 1) & mask;
        pairs_[i] = pair << NUMBER_BITS | made;
    }

    // The parts of a token are at its edges until it is made. As all rules before that are known, so is what these merge
    // a part with; if nothing, only what is inside the part may count.
    void add_edges(number_t left, number_t right, number_t made) {
        const std::uint64_t followers = tokens_[right].followers, leaders = tokens_[left].leaders;
        tokens_[made].right = followers != 0 ? Edge{right, made, followers} : tokens_[right].right;
        // The rule that makes the token joins the left part with the same part before it, if both parts are the same.
        tokens_[made].left = leaders != 0 ? Edge{left, made + 1, leaders} : tokens_[left].left;
    }

    // The longest token at `at`; NONE if its byte has none.
    sized_t longest_at(const byte_t* at, const byte_t* end, std::size_t& steps_left) const {
        if (end - at < 2 || !are_joined(at + 1)) return sized(longest_of_byte_[*at], 1);
        std::uint32_t node = after_two_[joint(at + 1)];
        if (node == 0) return sized(longest_of_byte_[*at], 1);
        at += 2;
        const byte_t* const begin = at;
        for (; at != end; ++at) {
            const std::uint32_t child = nodes_[node].children + *at;
            if (!nodes_[child].is_reached_by(*at)) break;
            node = child;
        }
        steps_left -= std::min(steps_left, static_cast<std::size_t>(at - begin) + 1);
        return longest_[node];
    }

    // Tokens that begin with the bytes that lead to a node, and go on.
    struct Below {
        std::uint32_t node;
        std::uint32_t depth;     // how many bytes that is
        std::size_t begin, end;  // in the list of tokens
    };

    // Those of them that go on with one byte; the first one that was made.
    struct Group {
        byte_t byte;
        number_t first;
        std::size_t begin, end;
    };

    // Which places of the trie are taken, and where children begin; a bit for each place.
    class Plan {
    public:
        // Takes places for the children that these bytes lead to, as near to the others as some search finds; returns
        // where they begin. The first places stay free: leaves have their children there.
        std::uint32_t place_for(const std::vector<Group>& groups) {
            std::size_t place = std::max(end_, 2 * REACH) - REACH;
            std::uint64_t free = 0;
            for (;; place += 64) {
                const std::size_t n_words = (place + REACH) / 64 + 2;
                if (taken_.size() < n_words) {
                    taken_.resize(2 * n_words);
                    begun_.resize(2 * n_words);
                }
                free = ~window(begun_, place);
                for (const Group& group : groups) free &= ~window(taken_, place + group.byte);
                if (free != 0) break;
            }
            place += trailing_zeros(free);
            set(begun_, place);
            for (const Group& group : groups) {
                set(taken_, place + group.byte);
                end_ = std::max(end_, place + group.byte + 1);
            }
            return static_cast<std::uint32_t>(place);
        }

    private:
        using Bits = std::vector<std::uint64_t>;

        // 64 bits.
        static std::uint64_t window(const Bits& bits, std::size_t at) {
            const std::uint64_t low = bits[at / 64] >> at % 64;
            return at % 64 == 0 ? low : low | bits[at / 64 + 1] << (64 - at % 64);
        }
        static void set(Bits& bits, std::size_t at) { bits[at / 64] |= std::uint64_t{1} << at % 64; }

        Bits taken_, begun_;
        std::size_t end_ = 0;
    };

    // The tokens below a node are sorted by their next byte, and so on, those made earlier first: a token made early is
    // on few cache lines. O(bytes of all tokens).
    void grow_trie(const Making& making) {
        longest_of_byte_.fill(NONE);
        after_two_.assign(std::size_t{1} << 16, 0);
        nodes_.reserve(making.bytes.size() / 2 + REACH);  // most tokens share their beginning with others
        longest_.reserve(nodes_.capacity());
        nodes_.resize(REACH);
        longest_.resize(REACH, NONE);
        Plan plan;
        std::vector<number_t> tokens(tokens_.size()), spare;
        for (number_t i = 0; i < tokens.size(); ++i) tokens[i] = i;
        std::vector<Below> left{{0, 0, 0, tokens.size()}};
        std::vector<Group> groups;
        while (!left.empty()) {
            const Below below = left.back();
            left.pop_back();
            if (below.depth > 1 && below.end - below.begin == 1) {
                if (!grow_tail(making, below, tokens[below.begin], groups, plan)) return;
                continue;
            }
            const std::size_t n_left = left.size();
            sort_by_byte(making, below, tokens, spare);
            find_groups(making, below, tokens, groups);
            if (!begin_children(below.node, groups, plan)) return;
            const std::uint32_t children = nodes_[below.node].children;
            for (const Group& group : groups) add_child(below, group, children + group.byte, tokens, left);
            std::reverse(left.begin() + static_cast<std::ptrdiff_t>(n_left), left.end());
        }
    }

    // What is left of the only token below, a node for each byte.
    bool grow_tail(const Making& making, const Below& below, number_t token, std::vector<Group>& groups, Plan& plan) {
        const sized_t shorter = longest_[below.node];
        std::uint32_t node = below.node;
        for (std::size_t depth = below.depth; depth != tokens_[token].length; ++depth) {
            const byte_t byte = making.byte_of(token, depth);
            groups.assign(1, {byte, token, below.begin, below.end});
            if (!begin_children(node, groups, plan)) return false;
            node = nodes_[node].children + byte;
            nodes_[node] = {0, 1, byte};
            longest_[node] = shorter;
        }
        longest_[node] = sized(token, tokens_[token].length);
        tokens_[token].shorter = shorter;
        return true;
    }

    // Finds places for a node's children; false if there are too many nodes.
    bool begin_children(std::uint32_t node, const std::vector<Group>& groups, Plan& plan) {
        const std::uint32_t children = plan.place_for(groups);
        if (children >= MOST_NODES) {
            is_odd_ = true;
            return false;
        }
        if (nodes_.size() < children + REACH) {
            nodes_.resize(children + SOME_NODES);
            longest_.resize(nodes_.size());
        }
        nodes_[node].children = children;
        return true;
    }

    static void find_groups(
        const Making& making, const Below& below, const std::vector<number_t>& tokens, std::vector<Group>& groups) {
        groups.clear();
        byte_t last = 0;
        for (std::size_t i = below.begin; i != below.end; ++i) {
            const byte_t byte = making.byte_of(tokens[i], below.depth);
            if (i == below.begin || byte != last) groups.push_back({byte, tokens[i], i, i});
            groups.back().first = std::min(groups.back().first, tokens[i]);
            groups.back().end = i + 1;
            last = byte;
        }
        std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
    }

    void add_child(
        const Below& below, const Group& group, std::uint32_t child, std::vector<number_t>& tokens,
        std::vector<Below>& left) {
        number_t token = NONE;  // that ends here
        std::size_t begin = group.begin;
        for (std::size_t i = begin; i != group.end; ++i) {
            if (tokens_[tokens[i]].length != below.depth + 1) continue;
            token = tokens[i];
            std::swap(tokens[i], tokens[begin++]);
        }
        if (token != NONE) tokens_[token].shorter = longest_[below.node];
        nodes_[child] = {0, 1, group.byte};
        longest_[child] = token != NONE ? sized(token, below.depth + 1) : longest_[below.node];
        if (below.depth == 0) longest_of_byte_[group.byte] = token;
        if (below.depth == 1) after_two_[static_cast<std::size_t>(nodes_[below.node].byte) << 8 | group.byte] = child;
        if (begin != group.end) left.push_back({child, below.depth + 1, begin, group.end});
    }

    static void sort_by_byte(
        const Making& making, const Below& below, std::vector<number_t>& tokens, std::vector<number_t>& spare) {
        const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(below.begin);
        const auto end = tokens.begin() + static_cast<std::ptrdiff_t>(below.end);
        const auto byte_of = [&](number_t token) { return making.byte_of(token, below.depth); };
        if (end - begin <= 64) {
            std::sort(begin, end, [&](number_t a, number_t b) { return byte_of(a) < byte_of(b); });
            return;
        }
        std::array<std::size_t, 257> places{};
        for (auto token = begin; token != end; ++token) ++places[byte_of(*token) + 1U];
        for (std::size_t i = 0; i < 256; ++i) places[i + 1] += places[i];
        spare.assign(begin, end);
        for (const number_t token : spare) begin[static_cast<std::ptrdiff_t>(places[byte_of(token)]++)] = token;
    }

    HashKey key_;
    std::vector<Token> tokens_;
    std::vector<token_id_t> ids_;
    std::vector<std::uint64_t> pairs_;          // hash table: a pair and what it makes, or 0
    std::bitset<std::size_t{1} << 16> joints_;  // which bytes may be neighbours in a token
    std::vector<number_t> made_of_two_;         // by two bytes
    std::vector<Node> nodes_;
    std::vector<sized_t> longest_;  // by node: the longest token on the way there
    number_t n_bytes_ = 0;
    std::vector<std::uint32_t> after_two_;  // by two bytes: the node there, or 0
    std::array<number_t, 256> longest_of_byte_{};
    bool is_odd_ = false;
};

}  // namespace hf_scaffold
