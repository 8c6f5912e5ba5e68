// What a single pass over the rules tells about all tokens.
//
// Which bytes may be neighbours inside a token: they were the last byte of a rule's left part and the first of its
// right part. Between two other bytes no merge ever reaches across, so a pre-token falls apart there into pieces that
// merge on their own.
//
// Which tokens are late: made by a rule that comes after one that uses them. As long as none is met, a merge makes no
// pair of a lower rank, so the rule of lowest rank may be applied everywhere at once.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

class Joints {
public:
    explicit Joints(std::size_t n_rules) : ends_(2 * n_rules + 1024) {}

    void set_byte(byte_t byte, token_id_t token) { set_ends(token, byte, byte); }

    // Rules come in rank order, after the bytes.
    void add_rule(token_id_t left, token_id_t right, token_id_t merged) {
        Ends* const first = ends_of(left);
        Ends* const second = ends_of(right);
        if (first == nullptr || second == nullptr || !first->is_known || !second->is_known) {
            give_up();
            return;
        }
        pairs_[pair(first->last, second->first)] = true;
        first->is_used = second->is_used = true;
        set_ends(merged, first->first, second->last);
        if (Ends* const made = ends_of(merged)) made->is_late |= made->is_used;
    }

    bool may_join(byte_t left, byte_t right) const { return pairs_[pair(left, right)]; }

    bool is_late(token_id_t token) const { return is_odd_ || ends_[static_cast<std::size_t>(token)].is_late; }

private:
    struct Ends {
        byte_t first = 0, last = 0;
        bool is_known = false, is_used = false, is_late = false;
    };

    static std::size_t pair(byte_t left, byte_t right) { return static_cast<std::size_t>(left) << 8 | right; }

    Ends* ends_of(token_id_t token) {
        const auto place = static_cast<std::size_t>(token);
        return token >= 0 && place < ends_.size() ? &ends_[place] : nullptr;
    }

    void set_ends(token_id_t token, byte_t first, byte_t last) {
        Ends* const ends = ends_of(token);
        if (ends == nullptr || (ends->is_known && (ends->first != first || ends->last != last))) {
            give_up();
        } else {
            ends->first = first;
            ends->last = last;
            ends->is_known = true;
        }
    }

    // A token out of the ordinary: of an id beyond the table, made of one that no rule made before, or of several
    // strings.
    void give_up() {
        is_odd_ = true;
        pairs_.set();
    }

    std::vector<Ends> ends_;  // by token
    std::bitset<std::size_t{1} << 16> pairs_;
    bool is_odd_ = false;
};

}  // namespace hf_scaffold
