// Tokens to replace in the output, each by any number of others.
//
// Memory grows with the number of replaced tokens, never with their ids: ids close together, like those of scaffold
// tokens, index a table; others are found by binary search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "widths.hpp"

namespace hf_scaffold {

class Replacements {
public:
    // Starts the replacement of this token, which add() extends. An empty one drops the token.
    void begin(token_id_t token) { entries_.push_back({token, parts_.size(), parts_.size()}); }

    void add(token_id_t part) {
        if (entries_.empty()) throw std::logic_error("a part, but of no token");
        parts_.push_back(part);
        entries_.back().end = parts_.size();
    }

    // Call it after the last add() and before append().
    void finish() {
        std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.token < b.token; });
        if (entries_.empty()) return;
        first_ = entries_.front().token;
        const std::uint64_t span = place_of(entries_.back().token) + 1;
        if (span <= 8 * entries_.size() + 1024 && entries_.size() < std::numeric_limits<std::uint32_t>::max()) {
            table_.assign(static_cast<std::size_t>(span), 0);
            std::uint32_t number = 0;
            for (const Entry& entry : entries_) table_[place_of(entry.token)] = ++number;
        }
        span_ = span;
    }

    // Appends the token, or what replaces it.
    void append(token_id_t token, std::vector<token_id_t>& out) const {
        if (place_of(token) >= span_) {
            out.push_back(token);
        } else {
            append_parts(token, out);
        }
    }

    // The same for each of several.
    void append(const token_id_t* tokens, const token_id_t* end, std::vector<token_id_t>& out) const {
        for (const token_id_t* at = tokens; at != end; ++at) {
            const token_id_t* const first = at;
            at = std::find_if(first, end, [&](token_id_t token) { return place_of(token) < span_; });
            out.insert(out.end(), first, at);
            if (at == end) return;
            append_parts(*at, out);
        }
    }
    void append(const std::vector<token_id_t>& tokens, std::vector<token_id_t>& out) const {
        append(tokens.data(), tokens.data() + tokens.size(), out);
    }

private:
    struct Entry {
        token_id_t token;
        std::size_t begin, end;  // in parts_
    };

    // The token is none below the first or above the last that are replaced.
    void append_parts(token_id_t token, std::vector<token_id_t>& out) const {
        if (const Entry* found = entry_of(token)) {
            out.insert(
                out.end(), parts_.begin() + static_cast<std::ptrdiff_t>(found->begin),
                parts_.begin() + static_cast<std::ptrdiff_t>(found->end));
        } else {
            out.push_back(token);
        }
    }

    // The token's distance from the first one; >= span_ for a token below that.
    std::uint64_t place_of(token_id_t token) const {
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(token) - first_);
    }

    const Entry* entry_of(token_id_t token) const {
        if (!table_.empty()) {
            const std::uint32_t number = table_[place_of(token)];
            return number == 0 ? nullptr : &entries_[number - 1];
        }
        const auto found = std::lower_bound(
            entries_.begin(), entries_.end(), token, [](const Entry& entry, token_id_t t) { return entry.token < t; });
        return found != entries_.end() && found->token == token ? &*found : nullptr;
    }

    std::vector<Entry> entries_;  // by token
    std::vector<token_id_t> parts_;
    std::vector<std::uint32_t> table_;  // by place: 0, or 1 + the index of an entry
    std::int64_t first_ = 0;
    std::uint64_t span_ = 0;
};

}  // namespace hf_scaffold
