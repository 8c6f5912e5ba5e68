// Where a pre-token of characters may be cut without changing its tokens: between characters that no rule joins. Most
// parts of Chinese text have one character or two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "characters.hpp"
#include "hash_seed.hpp"
#include "linear_bpe.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// A merge joins two tokens, so it joins the last character of one with the first of the other. Between two characters
// that are in no rule's middle nothing ever merges, and each side has its tokens whatever the other is.
//
// Characters must be the same symbols wherever they stand, but for the last of a pre-token, and none may vanish. Those
// without a token merge with nothing, but a run of them may become a single token: there is no seam after one.
class Seams {
public:
    using Rule = LinearBpe::Rule;
    using number_t = LinearBpe::number_t;

    Seams() = default;

    // Takes rules in the order of rank, and what was made of them. O(size of all).
    Seams(
        const CharacterTable& characters, const std::vector<Rule>& rules, const Spelling& spelling,
        const LinearBpe& linear) {
        const bool any_bytes = characters.byte_ids_[0] != NO_ID;
        if (!characters.prefix_.empty() || (any_bytes ? !characters.suffix_.empty() : characters.unknown_ == NO_ID))
            return;
        Making making(rules.size());
        blocks_.assign(N_CODES / BLOCK, 0);
        numbers_.assign(BLOCK, Numbers());
        for (const auto& [key, forms] : characters.forms_) {
            const std::uint32_t code = code_of(key);
            if (forms[0] != forms[2] || forms[1] != forms[3]) return;
            for (const token_id_t form : {forms[0], forms[1]}) {
                if (form != NO_ID && !making.set(form, {code, code})) return;
            }
            Numbers& numbers = numbers_for(code);
            if (forms[0] != NO_ID) numbers.inside = spelling.number_of(key, false, linear);
            if (forms[1] != NO_ID) numbers.at_end = spelling.number_of(key, true, linear);
        }
        joined_.assign(slots_for(rules.size() / 4), 0);  // eight bits or more for each rule
        for (const Rule& rule : rules) {
            const Ends *const left = making.find(rule.left), *const right = making.find(rule.right);
            if (left == nullptr || right == nullptr) {
                making.leave_out(left == nullptr ? rule.left : rule.right);
                continue;
            }
            join(left->last, right->first);
            if (!making.set(rule.merged, {left->first, right->last})) return;
        }
        is_usable_ = true;
    }

    // If not, nothing may be cut.
    bool is_usable() const { return is_usable_; }

    static constexpr std::size_t MOST = 64;

    // Consecutive parts: the i-th begins at bounds[i] and with the character of numbers[firsts[i]], and ends where the next
    // one begins. The numbers are those of the characters' tokens, or NONE; of a part of more than MOST characters only
    // the first ones are there.
    struct Parts {
        std::size_t n;
        const byte_t* bounds[MOST + 1];
        std::size_t firsts[MOST + 1];
        number_t numbers[MOST];
    };

    // Cuts off the first parts of a text, one or more. It must be valid UTF-8 and not empty. O(bytes of these parts).
    void cut(const byte_t* at, const byte_t* end, Parts& parts) const {
        std::size_t n = 0, n_read = 0;
        std::uint32_t before = 0;
        bool may_end = false;  // a part, after the character before
        for (; at != end && n_read != MOST; ++n_read) {
            const Code code = code_at(at);
            parts.bounds[n] = at;
            parts.firsts[n] = n_read;
            // Without a branch, which would often be mispredicted.
            n += static_cast<std::size_t>(n_read == 0) | (may_end & !are_joined(before, code.point));
            parts.numbers[n_read] = numbers_of(code.point).inside;
            may_end = parts.numbers[n_read] != LinearBpe::NONE;
            before = code.point;
            at += code.length;
        }
        if (at == end) parts.numbers[n_read - 1] = numbers_of(before).at_end;
        if (at != end && n > 1) {
            --n;  // the last one may go on
        } else {
            for (; at != end; ++n_read) {
                const Code code = code_at(at);
                if (may_end && !are_joined(before, code.point)) break;
                may_end = numbers_of(code.point).inside != LinearBpe::NONE;
                before = code.point;
                at += code.length;
            }
            parts.bounds[n] = at;
            parts.firsts[n] = n_read;
        }
        parts.n = n;
    }

private:
    // The first and the last character of a token.
    struct Ends {
        std::uint32_t first, last;
    };
    static constexpr std::uint32_t NONE = 0xFFFFFFFF, N_CODES = 0x110000, BLOCK = 256;

    struct Making {
        explicit Making(std::size_t n_rules)
            : ends(2 * n_rules + (1 << 16), Ends{NONE, NONE}), is_left_out(ends.size()) {}

        bool is_near(token_id_t id) const { return id >= 0 && static_cast<std::size_t>(id) < ends.size(); }

        // Null if no rule so far makes it.
        const Ends* find(token_id_t id) const {
            return is_near(id) && ends[static_cast<std::size_t>(id)].first != NONE ? &ends[static_cast<std::size_t>(id)]
                                                                                   : nullptr;
        }

        // A rule of this token is left out, as it is never applied unless a later rule makes the token.
        void leave_out(token_id_t id) {
            if (is_near(id)) is_left_out[static_cast<std::size_t>(id)] = true;
        }

        // False if the token has other ends elsewhere, or a rule of it was left out.
        bool set(token_id_t id, Ends made) {
            if (!is_near(id) || is_left_out[static_cast<std::size_t>(id)]) return false;
            Ends& known = ends[static_cast<std::size_t>(id)];
            const bool is_new = known.first == NONE;
            if (is_new) known = made;
            return is_new || (known.first == made.first && known.last == made.last);
        }

        std::vector<Ends> ends;  // by id
        std::vector<bool> is_left_out;
    };

    static std::uint32_t code_of(std::uint32_t key) {
        byte_t bytes[4];
        std::size_t n = 0;
        for (int shift = 24; shift >= 0; shift -= 8) {
            const byte_t byte = static_cast<byte_t>(key >> shift);
            if (byte != 0 || shift == 0) bytes[n++] = byte;
        }
        return code_at(bytes).point;
    }

    // Of a character's tokens.
    struct Numbers {
        number_t inside = LinearBpe::NONE, at_end = LinearBpe::NONE;  // of a pre-token
    };

    Numbers numbers_of(std::uint32_t code) const { return numbers_[blocks_[code / BLOCK] * BLOCK + code % BLOCK]; }
    Numbers& numbers_for(std::uint32_t code) {
        std::uint32_t& block = blocks_[code / BLOCK];
        if (block == 0) {
            block = static_cast<std::uint32_t>(numbers_.size() / BLOCK);
            numbers_.resize(numbers_.size() + BLOCK);
        }
        return numbers_[block * BLOCK + code % BLOCK];
    }

    // Two characters' bit; others share it.
    std::size_t place_of(std::uint32_t before, std::uint32_t after) const {
        const std::uint64_t pair = static_cast<std::uint64_t>(before) << 32 | after;
        return static_cast<std::size_t>(pair * 0x9E3779B97F4A7C15 >> 38);
    }
    void join(std::uint32_t before, std::uint32_t after) {
        const std::size_t place = place_of(before, after);
        joined_[place / 64 & (joined_.size() - 1)] |= std::uint64_t{1} << place % 64;
    }
    bool are_joined(std::uint32_t before, std::uint32_t after) const {
        const std::size_t place = place_of(before, after);
        return joined_[place / 64 & (joined_.size() - 1)] >> place % 64 & 1;
    }

    bool is_usable_ = false;
    std::vector<std::uint64_t> joined_;  // a bit for each two characters; a power of two
    std::vector<std::uint32_t> blocks_;  // by code point / BLOCK: where its numbers are; 0: all are NONE
    std::vector<Numbers> numbers_;
};

}  // namespace hf_scaffold
