// The numbers in tokenizer.json and scaffold.json, read without an object for each token.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hash_seed.hpp"
#include "json_cursor.hpp"
#include "pair_key.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// From tokens to ids: open addressing with linear probing. Tokens are views, and are never removed.
class TokenMap {
public:
    // False, changing nothing, if it is there.
    bool add(std::string_view token, token_id_t id) {
        if ((size_ + 1) * 2 > slots_.size()) grow();
        Slot& slot = find(token);
        if (slot.id != NO_ID) return false;
        slot = {token.data(), token.size(), id};
        ++size_;
        return true;
    }

    // -1 if it isn't there.
    token_id_t operator[](std::string_view token) const { return const_cast<TokenMap*>(this)->find(token).id; }

private:
    struct Slot {
        const char* data;
        std::size_t size;
        token_id_t id = NO_ID;
    };

    // Its slot, or the empty one where it belongs.
    Slot& find(std::string_view token) {
        const std::size_t last = slots_.size() - 1;
        for (std::size_t index = hash_(token) & last;; index = (index + 1) & last) {
            Slot& slot = slots_[index];
            if (slot.id == NO_ID || std::string_view(slot.data, slot.size) == token) return slot;
        }
    }

    void grow() {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.id != NO_ID) find({slot.data, slot.size}) = slot;
        }
    }

    std::vector<Slot> slots_ = std::vector<Slot>(1 << 12);
    std::size_t size_ = 0;
    KeyedHash hash_;
};

// A model whose parts fit: every merge joins two known tokens into a third, and every scaffold token is made by one and
// spelled by the public tokens that replace it. Scaffold tokens have the ids from `first_scaffold` on. The documents
// must outlive it.
class ModelReader {
public:
    // What is left of a document without the large values; null stands for each.
    using Rest = std::string;

    // Null unless both documents are as our own writers and `tokenizers` leave them, tokens without a prefix.
    static std::unique_ptr<ModelReader> read(std::string_view tokenizer, std::string_view scaffold) {
        auto reader = std::make_unique<ModelReader>();
        try {
            reader->read_tokenizer(tokenizer);
            reader->read_scaffold(scaffold);
        } catch (const Unusual&) {
            return nullptr;
        }
        return reader;
    }

    const Rest& tokenizer() const { return tokenizer_; }
    const Rest& scaffold() const { return scaffold_; }
    std::string_view vocab() const { return vocab_; }
    token_id_t first_scaffold() const { return first_scaffold_; }
    std::size_t n_tokens() const { return public_ids_.size(); }

    // Left, right and merged token of each merge.
    const std::vector<token_id_t>& rules() const { return rules_; }
    // Scaffold token i is replaced by parts()[ends()[i - 1]:ends()[i]].
    const std::vector<token_id_t>& parts() const { return parts_; }
    const std::vector<std::size_t>& ends() const { return ends_; }

    // -1 if there is no such token, or it is a scaffold.
    token_id_t public_id(std::string_view token) const {
        const token_id_t id = ids_[token];
        return id < first_scaffold_ ? id : NO_ID;
    }

    // Whether the public tokens' ids and these are all numbers from 0 on, each once.
    bool fill(const std::vector<token_id_t>& others) const {
        std::vector<bool> taken(public_ids_.size() + others.size());
        const auto is_new = [&](token_id_t id) {
            if (id < 0 || static_cast<std::size_t>(id) >= taken.size() || taken[id]) return false;
            return static_cast<bool>(taken[id] = true);
        };
        return std::all_of(public_ids_.begin(), public_ids_.end(), is_new) &&
               std::all_of(others.begin(), others.end(), is_new);
    }

private:
    // The text of a document but for some of its values, given from the first to the last.
    class Cut {
    public:
        explicit Cut(std::string_view document) : from_(document.data()), end_(from_ + document.size()) {
            const auto* bytes = reinterpret_cast<const byte_t*>(from_);
            if (!is_valid_utf8(bytes, bytes + document.size())) throw Unusual{};
        }

        void leave_out(std::string_view value) {
            rest_.append(from_, value.data()).append("null");
            from_ = value.data() + value.size();
        }

        Rest rest() && { return std::move(rest_.append(from_, end_)); }

    private:
        Rest rest_;
        const char* from_;
        const char* end_;
    };

    void read_tokenizer(std::string_view document) {
        Cut cut(document);
        JsonCursor at(document, unescaped_);
        int n_read = 0;
        at.object([&](std::string_view key) {
            if (key != "model") return at.skip();
            at.object([&](std::string_view key) {
                if (key == "vocab") {
                    ++n_read;
                    vocab_ = at.text([&] { read_vocab(at); });
                    cut.leave_out(vocab_);
                } else if (key == "merges") {
                    cut.leave_out(at.text([&] { pass_merges(at); }));
                } else {
                    at.skip();
                }
            });
        });
        at.end();
        if (n_read != 1) throw Unusual{};
        tokenizer_ = std::move(cut).rest();
    }

    void read_scaffold(std::string_view document) {
        Cut cut(document);
        JsonCursor at(document, unescaped_);
        int n_read = 0;
        at.object([&](std::string_view key) {
            n_read += key == "demolish" || key == "merges";
            if (key == "demolish") {
                cut.leave_out(at.text([&] { read_demolish(at); }));
            } else if (key == "merges") {  // as keys are sorted, the demolish map is known
                cut.leave_out(at.text([&] { read_merges(at); }));
            } else {
                at.skip();
            }
        });
        at.end();
        if (n_read != 2) throw Unusual{};
        scaffold_ = std::move(cut).rest();
    }

    void read_vocab(JsonCursor& at) {
        at.object([&](std::string_view token) {
            const token_id_t id = at.id();
            add(token, id);
            public_ids_.push_back(id);
            first_scaffold_ = std::max(first_scaffold_, id + 1);
        });
    }

    // Nothing takes those of the plain BPE here, but they have to be JSON.
    static void pass_merges(JsonCursor& at) {
        at.array([&] {
            if (at.next() == '"') {
                at.string();
            } else {
                at.array([&] { at.string(); });
            }
        });
    }

    void read_demolish(JsonCursor& at) {
        std::string spelled;
        at.object([&](std::string_view token) {
            add(token, first_scaffold_ + static_cast<std::int64_t>(ends_.size()));
            spelled.clear();
            at.array([&] {
                const std::string_view part = at.string();
                parts_.push_back(public_id(part));
                if (parts_.back() == NO_ID) throw Unusual{};
                spelled += part;
            });
            if (spelled != token) throw Unusual{};
            ends_.push_back(parts_.size());
        });
    }

    void read_merges(JsonCursor& at) {
        std::vector<bool> is_made(ends_.size());
        std::vector<std::uint64_t> pairs;
        std::string merged;
        at.array([&] {
            merged.clear();
            const std::size_t begin = rules_.size();
            at.array([&] {
                const std::string_view token = at.string();
                rules_.push_back(id_of(token));
                merged += token;
            });
            if (rules_.size() - begin != 2) throw Unusual{};
            pairs.push_back(pair_key(rules_[begin], rules_[begin + 1]));
            rules_.push_back(id_of(merged));
            if (rules_.back() >= first_scaffold_) is_made[rules_.back() - first_scaffold_] = true;
        });
        if (!std::all_of(is_made.begin(), is_made.end(), [](bool made) { return made; })) throw Unusual{};
        std::sort(pairs.begin(), pairs.end());
        if (std::adjacent_find(pairs.begin(), pairs.end()) != pairs.end()) throw Unusual{};
    }

    // The largest id of all has no next one.
    void add(std::string_view token, std::int64_t id) {
        if (token.empty() || id >= std::numeric_limits<token_id_t>::max()) throw Unusual{};
        if (!ids_.add(token, static_cast<token_id_t>(id))) throw Unusual{};
    }

    token_id_t id_of(std::string_view token) const {
        const token_id_t id = ids_[token];
        if (id == NO_ID) throw Unusual{};
        return id;
    }

    std::deque<std::string> unescaped_;
    TokenMap ids_;
    token_id_t first_scaffold_ = 0;
    std::vector<token_id_t> public_ids_, rules_, parts_;
    std::vector<std::size_t> ends_;
    Rest tokenizer_, scaffold_;
    std::string_view vocab_;
};

}  // namespace hf_scaffold
