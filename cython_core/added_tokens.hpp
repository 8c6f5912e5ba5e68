// Added tokens in a text, as `tokenizers` finds them: leftmost first, the longest at each place, without overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "scan.hpp"
#include "widths.hpp"

namespace hf_scaffold {

struct AddedToken {
    token_id_t id;
    bool single_word, lstrip, rstrip;
    bool ignored;  // found, but then read as text: a special token under split_special_tokens
};

// A stretch of text: an added token, or what stands between two of them.
struct Stretch {
    const byte_t* begin;
    const byte_t* end;
    token_id_t id;  // NO_ID for text
};

class AddedTokens {
public:
    // The content must not be empty. Of two with the same content the last added counts.
    void add(const byte_t* content, std::size_t length, AddedToken token) {
        std::uint32_t node = 0;
        for (std::size_t i = 0; i < length; ++i) {
            const auto [child, is_new] = children_.try_emplace(edge(node, content[i]), n_nodes_);
            n_nodes_ += is_new;
            node = child->second;
        }
        tokens_[node] = token;
        if (!starts_[content[0]]) n_starts_ += 1;
        starts_[content[0]] = true;
        only_start_ = content[0];
    }

    // Appends the stretches of a text to `out`, none of them empty. False, with nothing of use in `out`, where it
    // takes the tables of `tokenizers` to tell: next to a single_word token stands a character beyond ASCII.
    bool split(const byte_t* at, const byte_t* end, std::vector<Stretch>& out) const {
        const byte_t* begin = at;
        const byte_t* text = at;  // where the text since the last token begins
        while ((at = next_start(at, end)) != end) {
            const AddedToken* token = nullptr;
            const byte_t* stop = longest_at(at, end, token);
            if (token == nullptr) {
                ++at;
                continue;
            }
            const byte_t* start = at;
            at = stop;
            if (token->ignored) continue;
            if (token->single_word) {
                const bool is_known = (start == begin || start[-1] < 0x80) && (stop == end || *stop < 0x80);
                if (!is_known) return false;
                if ((start != begin && is_word(start[-1])) || (stop != end && is_word(*stop))) continue;
            }
            if (token->lstrip) start = space_before(text, start);
            if (token->rstrip) stop = skip(stop, end, SPACE);
            if (start < text) return false;  // the token before it has taken its first characters as space
            if (text != start) out.push_back({text, start, NO_ID});
            out.push_back({start, stop, token->id});
            text = stop;
        }
        if (text != end) out.push_back({text, end, NO_ID});
        return true;
    }

private:
    static std::uint64_t edge(std::uint32_t node, byte_t byte) { return std::uint64_t{node} << 8 | byte; }

    static bool is_word(byte_t c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z'); }

    const byte_t* next_start(const byte_t* at, const byte_t* end) const {
        if (at == end || n_starts_ == 0) return end;
        if (n_starts_ == 1) {
            const void* found = std::memchr(at, only_start_, static_cast<std::size_t>(end - at));
            return found ? static_cast<const byte_t*>(found) : end;
        }
        while (at != end && !starts_[*at]) ++at;
        return at;
    }

    const byte_t* longest_at(const byte_t* at, const byte_t* end, const AddedToken*& token) const {
        const byte_t* stop = at;
        std::uint32_t node = 0;
        while (at != end) {
            const auto child = children_.find(edge(node, *at));
            if (child == children_.end()) break;
            node = child->second;
            ++at;
            if (const auto found = tokens_.find(node); found != tokens_.end()) {
                token = &found->second;
                stop = at;
            }
        }
        return stop;
    }

    // The start of the white space that ends at `at`, at the earliest `begin`.
    static const byte_t* space_before(const byte_t* begin, const byte_t* at) {
        while (at > begin) {
            const byte_t* before = at - 1;
            while (before > begin && (*before & 0xC0) == 0x80) --before;
            if (!(character_at(before).classes & SPACE)) break;
            at = before;
        }
        return at;
    }

    std::unordered_map<std::uint64_t, std::uint32_t> children_;  // a trie: node and byte to node; 0 is the root
    std::unordered_map<std::uint32_t, AddedToken> tokens_;       // the nodes where a token ends
    std::uint32_t n_nodes_ = 1;
    bool starts_[256] = {};
    std::size_t n_starts_ = 0;
    byte_t only_start_ = 0;
};

}  // namespace hf_scaffold
