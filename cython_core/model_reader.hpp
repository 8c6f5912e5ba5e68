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

#include "json_cursor.hpp"
#include "token_map.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// A model whose parts fit: every merge joins two known tokens into a third, and every scaffold token is made by one and
// spelled by the public tokens that replace it. Scaffold tokens have the ids from `first_scaffold` on.
class ModelReader {
public:
    // What is left of a document without the large values; null stands for each.
    using Rest = std::string;

    // Null unless both documents are as our own writers and `tokenizers` leave them, tokens without a prefix.
    static std::unique_ptr<ModelReader> read(std::string_view tokenizer, std::string_view scaffold) {
        const std::size_t size = tokenizer.size() + scaffold.size();
        if (size > TokenMap::MOST_BYTES) return nullptr;
        auto reader = std::make_unique<ModelReader>(size);
        reader->rules_.reserve(3 * scaffold.size() / SHORTEST_MERGE);
        reader->previous_.reserve(scaffold.size() / SHORTEST_MERGE);
        try {
            reader->read_tokenizer(tokenizer);
            reader->read_scaffold(scaffold);
        } catch (const Unusual&) {
            return nullptr;
        }
        return reader;
    }

    // `size` is that of both documents.
    explicit ModelReader(std::size_t size)
        : room_(new char[size + TokenMap::SPARE]), tokens_(room_.get(), size / BYTES_A_TOKEN) {}

    const Rest& tokenizer() const { return tokenizer_; }
    const Rest& scaffold() const { return scaffold_; }
    // Part of the document.
    std::string_view vocab() const { return vocab_; }
    token_id_t first_scaffold() const { return first_scaffold_; }
    std::size_t n_tokens() const { return n_public_; }

    // Left, right and merged token of each merge.
    const std::vector<token_id_t>& rules() const { return rules_; }
    // Scaffold token i is replaced by parts()[ends()[i - 1]:ends()[i]].
    const std::vector<token_id_t>& parts() const { return parts_; }
    const std::vector<std::int64_t>& ends() const { return ends_; }

    // -1 if there is no such token, or it is a scaffold.
    token_id_t public_id(std::string_view token) const {
        std::string padded(token);
        padded.resize(token.size() + TokenMap::SPARE);
        return public_id(padded.data(), token.size());
    }

    // Whether the public tokens' ids and these are all numbers from 0 on, each once.
    bool fill(const std::vector<token_id_t>& others) const {
        std::vector<bool> taken(n_public_ + others.size());
        const auto is_new = [&](token_id_t id) {
            if (id < 0 || static_cast<std::size_t>(id) >= taken.size() || taken[id]) return false;
            return static_cast<bool>(taken[id] = true);
        };
        return std::all_of(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(n_public_), is_new) &&
               std::all_of(others.begin(), others.end(), is_new);
    }

private:
    using number_t = TokenMap::number_t;
    static_assert(JsonCursor::SPARE <= TokenMap::SPARE);
    // Memory that isn't needed after all is never touched, and costs nothing.
    static constexpr std::size_t SHORTEST_MERGE = 10;  // ["a","b"],
    static constexpr std::size_t BYTES_A_TOKEN = 64;   // of both documents, or rather more

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
        const auto is_made = [](std::uint32_t merge) { return merge != 0; };
        if (n_read != 2 || last_making_.size() != ids_.size()) throw Unusual{};
        if (!std::all_of(last_making_.begin() + n_public_, last_making_.end(), is_made)) throw Unusual{};
        scaffold_ = std::move(cut).rest();
    }

    // Tokens are written one after another; what is looked up, after the last one. Nothing gets longer than in its
    // document, so there is room for all.

    void read_vocab(JsonCursor& at) {
        at.entries([&] {
            const std::size_t n = size_at(tokens_.end(), at);
            at.colon();
            add(n, at.id());
            first_scaffold_ = std::max(first_scaffold_, ids_.back() + 1);
        });
        n_public_ = ids_.size();
    }

    // Nothing takes those of the plain BPE here, but they have to be JSON.
    static void pass_merges(JsonCursor& at) {
        at.array([&] {
            if (at.next() == '"') {
                at.pass_string();
            } else {
                at.array([&] { at.pass_string(); });
            }
        });
    }

    void read_demolish(JsonCursor& at) {
        at.entries([&] {
            const char* const token = tokens_.end();
            const std::size_t n = size_at(tokens_.end(), at);
            at.colon();
            char* const spelled = tokens_.end() + n;
            char* end = spelled;
            at.array([&] {
                const std::size_t size = size_at(end, at);
                parts_.push_back(public_id(end, size));
                if (parts_.back() == NO_ID) throw Unusual{};
                end += size;
            });
            if (std::string_view(spelled, end - spelled) != std::string_view(token, n)) throw Unusual{};
            add(n, first_scaffold_ + static_cast<std::int64_t>(ends_.size()));
            ends_.push_back(static_cast<std::int64_t>(parts_.size()));
        });
    }

    void read_merges(JsonCursor& at) {
        last_making_.assign(ids_.size(), 0);
        number_t expected = 0;
        at.array([&] {
            const char* const merged = tokens_.end();
            char* end = tokens_.end();
            const std::size_t begin = rules_.size();
            at.array([&] {
                const std::size_t n = size_at(end, at);
                rules_.push_back(ids_[known(tokens_.find(end, n))]);
                end += n;
            });
            if (rules_.size() - begin != 2) throw Unusual{};
            const std::size_t n = end - merged;
            const number_t made = tokens_.is(expected, merged, n) ? expected : known(tokens_.find(merged, n));
            if (made < n_public_) expected = made + 1;  // mostly, as public tokens are in the order of their merges
            refuse_twice(rules_[begin], made);
            rules_.push_back(ids_[made]);
        });
    }

    // A pair that is merged twice makes the same token of the same left token. Each merge that makes a token is at least
    // as long as that, and there are no more of them than bytes in it: comparing them all is linear in the document.
    void refuse_twice(token_id_t left, number_t made) {
        for (std::uint32_t i = last_making_[made]; i != 0; i = previous_[i - 1]) {
            if (rules_[3 * (i - 1)] == left) throw Unusual{};
        }
        previous_.push_back(last_making_[made]);
        last_making_[made] = static_cast<std::uint32_t>(previous_.size());
    }

    static std::size_t size_at(char* out, JsonCursor& at) { return static_cast<std::size_t>(at.string_to(out) - out); }

    // The largest id of all has no next one.
    void add(std::size_t n, std::int64_t id) {
        if (n == 0 || id >= std::numeric_limits<token_id_t>::max() || !tokens_.add(n)) throw Unusual{};
        ids_.push_back(static_cast<token_id_t>(id));
    }

    token_id_t public_id(const char* token, std::size_t n) const {
        const number_t number = tokens_.find(token, n);
        return number < n_public_ ? ids_[number] : NO_ID;
    }

    static number_t known(number_t number) {
        if (number == TokenMap::NONE) throw Unusual{};
        return number;
    }

    std::deque<std::string> unescaped_;
    std::unique_ptr<char[]> room_;
    TokenMap tokens_;
    std::vector<token_id_t> ids_;  // by number: public tokens, then scaffolds
    std::size_t n_public_ = 0;
    token_id_t first_scaffold_ = 0;
    std::vector<token_id_t> rules_, parts_;
    std::vector<std::int64_t> ends_;
    // Merges that make the same token, counted from 1: the last one by the token's number, the one before it by merge.
    std::vector<std::uint32_t> last_making_, previous_;
    Rest tokenizer_, scaffold_;
    std::string_view vocab_;
};

}  // namespace hf_scaffold
