// The two tokens that stand for one that has lost its rule.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hash_seed.hpp"
#include "interrupt.hpp"
#include "widths.hpp"

namespace hf_scaffold {

constexpr std::size_t NO_TOKEN = static_cast<std::size_t>(-1);

struct TokenSplit {
    std::size_t left = NO_TOKEN;  // places among the tokens
    std::size_t right = NO_TOKEN;
};

// Cuts tokens, valid UTF-8, where the rarer of both parts is as frequent as can be; of several such places, at the
// first. The right part gets the prefix, as what follows in a pre-token has; either has a character besides affixes.
class TokenSplitter {
public:
    // The tokens and frequencies must outlive it.
    TokenSplitter(
        const std::vector<std::string>& tokens, const count_t* frequencies, std::string_view prefix,
        std::string_view suffix)
        : frequencies_(frequencies), prefix_(prefix), suffix_(suffix) {
        places_.reserve(tokens.size());
        for (std::size_t place = 0; place < tokens.size(); ++place) {
            places_.emplace(tokens[place], place);
            lengths_.push_back(tokens[place].size());
        }
        std::sort(lengths_.begin(), lengths_.end());
        lengths_.erase(std::unique(lengths_.begin(), lengths_.end()), lengths_.end());
    }

    // Cost: for each length that some token has, a look-up of the parts.
    TokenSplit split(std::string_view token, Steps& steps) {
        const std::size_t first = (starts_with(token, prefix_) ? prefix_.size() : 0) + 1;
        const std::size_t unsplit = (ends_with(token, suffix_) ? suffix_.size() : 0) + 1;
        TokenSplit best;
        count_t strongest = -1;
        for (auto at = std::lower_bound(lengths_.begin(), lengths_.end(), first); at != lengths_.end(); ++at) {
            if (*at + unsplit > token.size()) break;
            steps.next();
            const std::size_t left = place_of(token.substr(0, *at));
            if (left == NO_TOKEN || frequencies_[left] <= strongest) continue;
            spelled_.assign(prefix_).append(token.substr(*at));
            const std::size_t right = place_of(spelled_);
            if (right == NO_TOKEN || frequencies_[right] <= strongest) continue;
            strongest = std::min(frequencies_[left], frequencies_[right]);
            best = {left, right};
        }
        return best;
    }

private:
    static bool starts_with(std::string_view token, std::string_view affix) {
        return token.substr(0, affix.size()) == affix;
    }

    static bool ends_with(std::string_view token, std::string_view affix) {
        return token.size() >= affix.size() && token.substr(token.size() - affix.size()) == affix;
    }

    std::size_t place_of(std::string_view token) const {
        const auto found = places_.find(token);
        return found == places_.end() ? NO_TOKEN : found->second;
    }

    const count_t* frequencies_;
    const std::string_view prefix_, suffix_;
    std::unordered_map<std::string_view, std::size_t, KeyedHash> places_;
    std::vector<std::size_t> lengths_;  // distinct, ascending
    std::string spelled_;
};

}  // namespace hf_scaffold
