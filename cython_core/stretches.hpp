// A text in stretches: added tokens, and the normalized text between them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "added_tokens.hpp"
#include "byte_buffer.hpp"
#include "interrupt.hpp"
#include "normalizer.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// In the order of `tokenizers`. A null normalizer changes nothing.
struct Finder {
    const AddedTokens* first;      // found in the whole text
    const Normalizer* normalizer;  // of the text between those, each stretch by itself
    const AddedTokens* second;     // found in that
    const Normalizer* marker;      // of what is left, before pre-tokens are found: spaces become visible
};

class Stretches {
public:
    // False, with all else here unusable, if only `tokenizers` can find the added tokens. The text must outlive this.
    bool find(const Finder& finder, const byte_t* begin, const byte_t* end, Interrupt* interrupt = nullptr) {
        begin_ = begin;
        end_ = end;
        stretches_.clear();
        if (!finder.first->split(begin, end, stretches_)) return false;
        is_normalized_ = finder.normalizer != nullptr && finder.normalizer->may_change(begin, end, interrupt);
        if (is_normalized_) rewrite(*finder.normalizer, NORMALIZED, interrupt);
        if (!finder.second->empty() && !split_again(*finder.second)) return false;
        if (finder.marker != nullptr) rewrite(*finder.marker, MARKED, interrupt);
        return true;
    }

    // None is empty. In order, and nothing is between them.
    const std::vector<Stretch>& all() const { return stretches_; }

    // Whether a normalizer may have changed the text.
    bool is_normalized() const { return is_normalized_; }

    // The bytes that all stretches are in.
    const byte_t* begin() const { return begin_; }
    const byte_t* end() const { return end_; }

private:
    enum Made { NORMALIZED, MARKED };

    // Made when text is first rewritten: for a short text that isn't, it would take a twentieth of the time.
    struct Rewriting {
        Normalizer::Work work;
        ByteBuffer made[2];
        std::vector<std::size_t> ends;  // of the stretches
    };

    // These two are not inlined, so that the way of most texts stays small.
    [[gnu::noinline]] bool split_again(const AddedTokens& tokens) {
        outer_.swap(stretches_);
        stretches_.clear();
        for (const Stretch& stretch : outer_) {
            if (stretch.id != NO_ID) {
                stretches_.push_back(stretch);
            } else if (!tokens.split(stretch.begin, stretch.end, stretches_)) {
                return false;
            }
        }
        return true;
    }

    [[gnu::noinline]] void rewrite(const Normalizer& normalizer, Made what, Interrupt* interrupt) {
        if (rewriting_ == nullptr) rewriting_ = std::make_unique<Rewriting>();
        ByteBuffer& made = rewriting_->made[what];
        made.clear();
        rewriting_->ends.clear();
        for (const Stretch& stretch : stretches_) {
            if (stretch.id != NO_ID) {
                made.append(stretch.begin, stretch.end);
            } else {
                normalizer.run(stretch.begin, stretch.end, stretch.begin == begin_, rewriting_->work, made, interrupt);
            }
            rewriting_->ends.push_back(made.size());
        }
        begin_ = made.begin();
        end_ = made.end();
        move_stretches(rewriting_->ends);
    }

    // To the bytes that begin at begin_, stretch i up to ends[i].
    void move_stretches(const std::vector<std::size_t>& ends) {
        std::size_t n = 0, start = 0;
        for (std::size_t i = 0; i < stretches_.size(); ++i) {
            const token_id_t id = stretches_[i].id;
            if (start != ends[i]) stretches_[n++] = {begin_ + start, begin_ + ends[i], id};
            start = ends[i];
        }
        stretches_.resize(n);
    }

    std::vector<Stretch> stretches_;
    std::vector<Stretch> outer_;
    std::unique_ptr<Rewriting> rewriting_;
    bool is_normalized_ = false;
    const byte_t* begin_ = nullptr;
    const byte_t* end_ = nullptr;
};

}  // namespace hf_scaffold
