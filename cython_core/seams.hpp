// Where a pre-token of characters may be cut without changing its tokens: between characters that no rule joins.
#pragma once

#include <algorithm>
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
// Characters must be the same symbols everywhere, without affixes, and none may vanish. Those without a token merge with
// nothing, but a run of them may become a single token: there is no seam after one.
class Seams {
public:
    using Rule = LinearBpe::Rule;

    Seams() = default;

    // Takes rules in the order of rank; they must be those of a usable Spelling. O(size of both).
    Seams(const CharacterTable& characters, const std::vector<Rule>& rules) {
        if (characters.has_affixes() || (characters.unknown_ == NO_ID && characters.byte_ids_[0] == NO_ID)) return;
        Making making(rules.size());
        known_.resize(1);
        for (const auto& [key, forms] : characters.forms_) {
            const std::uint32_t code = code_of(key);
            if (forms[0] == NO_ID) return;
            for (const token_id_t form : forms) {
                if (form != forms[0]) return;
            }
            if (!making.set(forms[0], {code, code})) return;
            if (known_.size() <= code / 64 + 1) known_.resize(code / 64 + 2);
            known_[code / 64] |= std::uint64_t{1} << code % 64;
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

    // Cuts the text at its first seams into up to `most` parts, the i-th from bounds[i] to bounds[i + 1]; returns their
    // number. The text must be valid UTF-8 and not empty. O(bytes up to there).
    std::size_t cut(const byte_t* at, const byte_t* end, std::size_t most, const byte_t** bounds) const {
        std::size_t n = 0;
        bounds[0] = at;
        Code before = code_at(at);
        for (at += before.length; at != end && n != most; at += before.length) {
            const Code after = code_at(at);
            bounds[n + 1] = at;
            // Without a branch, which would often be mispredicted.
            n += !are_joined(before.point, after.point) & is_known(before.point);
            before = after;
        }
        if (n != most) bounds[++n] = end;
        return n;
    }

private:
    // The first and the last character of a token.
    struct Ends {
        std::uint32_t first, last;
    };
    static constexpr std::uint32_t NONE = 0xFFFFFFFF;

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

    bool is_known(std::uint32_t code) const {
        return known_[std::min<std::size_t>(code / 64, known_.size() - 1)] >> code % 64 & 1;
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
    std::vector<std::uint64_t> known_;   // a bit for each code point that has a token; none in the last word
};

}  // namespace hf_scaffold
