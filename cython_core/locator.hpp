// Where the tokens of texts stand in them: the characters that each covers, and its word.
//
// Byte-level tokens spell the text's bytes in order, so their lengths say where each begins and ends. Nothing relies on
// the ids being right: a text whose tokens don't fill its pre-tokens exactly is not located.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "byte_buffer.hpp"
#include "interrupt.hpp"
#include "normalizer.hpp"
#include "scan.hpp"
#include "span.hpp"
#include "splitter.hpp"
#include "stretches.hpp"
#include "text_encoder.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// Locates texts one after another.
class Locator {
public:
    // `lengths`: how many bytes each id's token has; 0 for none.
    Locator(const Pipeline& pipeline, const std::int32_t* lengths, std::size_t n_lengths, Interrupt& interrupt)
        : pipeline_(pipeline), lengths_(lengths), n_lengths_(n_lengths), interrupt_(interrupt), steps_(interrupt) {}

    // Writes the span of each of the `n` ids. False if the ids are not the text's, or only `tokenizers` can tell.
    bool locate(const Text& text, const token_id_t* ids, std::size_t n, Span* out) {
        if (text.length > std::numeric_limits<std::int32_t>::max()) return false;
        Finder finder = pipeline_.finder;
        const Normalizer* const marker = std::exchange(finder.marker, nullptr);
        if (marker != nullptr && !marker->only_prepends()) return false;
        if (!utf8_.hold(text) || !stretches_.find(finder, utf8_.begin(), utf8_.end(), &interrupt_)) return false;
        if (stretches_.is_normalized()) return false;  // other characters than the text's
        ids_ = ids;
        last_ = ids + n;
        out_ = out;
        n_characters_ = word_ = 0;
        return with_rules(pipeline_.splitting, [&](auto rules) {
            for (const Stretch& stretch : stretches_.all()) {
                if (!(stretch.id == NO_ID ? put_text(rules, stretch, marker) : put_added(stretch))) return false;
            }
            return ids_ == last_;
        });
    }

private:
    template <class Rules>
    bool put_text(Rules rules, const Stretch& stretch, const Normalizer* marker) {
        const byte_t *begin = stretch.begin, *end = stretch.end;
        own_ = begin;
        if (marker != nullptr) {
            marked_.clear();
            marker->run(begin, end, begin == stretches_.begin(), work_, marked_, &interrupt_);
            begin = marked_.begin();
            end = marked_.end();
            own_ = end - (stretch.end - stretch.begin);
        }
        bool fits = true;
        scan_in_batches(
            rules, begin, end, [&](const byte_t* const* bounds, std::size_t n, const byte_t* dropped = nullptr) {
                for (std::size_t i = 0; i < n && fits; ++i) {
                    if (dropped != nullptr && dropped[i]) {
                        for (const byte_t* at = bounds[i]; at != bounds[i + 1]; ++at) n_characters_ += is_lead(*at);
                        continue;
                    }
                    fits = put_pre_token(bounds[i], bounds[i + 1]);
                    ++word_;
                }
                steps_.next();
            });
        return fits;
    }

    bool put_pre_token(const byte_t* at, const byte_t* end) {
        while (at != end) {
            if (ids_ == last_) return false;
            const std::size_t id = static_cast<std::size_t>(*ids_++);  // a negative one becomes very large
            if (id >= n_lengths_) return false;
            const std::int32_t length = lengths_[id];
            if (length <= 0 || length > end - at) return false;
            put_token(at, at + length);
            at += length;
            steps_.next();
        }
        return true;
    }

    // What was put before the text stands for the first character that it has of its own.
    void put_token(const byte_t* begin, const byte_t* end) {
        const bool is_before = begin < own_;
        Span span{n_characters_ - !(is_before || is_lead(*begin)), n_characters_, 0, 0, word_, 0};
        for (const byte_t* at = is_before ? own_ : begin; at < end; ++at) span.end += is_lead(*at);
        n_characters_ = span.end;
        if (is_before && span.end == span.begin) ++span.end;
        for (const byte_t* at = begin; at != end && *at == ' '; ++at) ++span.leading;
        for (const byte_t* at = end; at != begin && at[-1] == ' '; --at) ++span.trailing;
        *out_++ = span;
    }

    bool put_added(const Stretch& stretch) {
        if (ids_ == last_ || *ids_++ != stretch.id) return false;
        Span span{n_characters_, n_characters_, 0, 0, word_++, 1};
        for (const byte_t* at = stretch.begin; at != stretch.end;) {
            const Character character = character_at(at);
            if (is_space(at, character)) {
                if (span.end - span.begin == span.leading) ++span.leading;
                ++span.trailing;
            } else {
                span.trailing = 0;
            }
            ++span.end;
            at += character.length;
            steps_.next();
        }
        n_characters_ = span.end;
        *out_++ = span;
        return true;
    }

    static bool is_lead(byte_t byte) { return (byte & 0xC0) != 0x80; }

    // An added token is spelled as in the text, where U+0120, the stand-in for a space, counts as one.
    static bool is_space(const byte_t* at, Character character) {
        return (character.classes & SPACE) || (at[0] == 0xC4 && at[1] == 0xA0);
    }

    Pipeline pipeline_;
    const std::int32_t* lengths_;
    std::size_t n_lengths_;
    Interrupt& interrupt_;
    Steps steps_;
    Utf8 utf8_;
    Stretches stretches_;
    Normalizer::Work work_;
    ByteBuffer marked_;
    // Of the stretch at hand, which may be marked: where its own text begins.
    const byte_t* own_ = nullptr;
    // Of the text at hand: the ids to come, where the next span goes, and what comes before it.
    const token_id_t* ids_ = nullptr;
    const token_id_t* last_ = nullptr;
    Span* out_ = nullptr;
    std::int32_t n_characters_ = 0, word_ = 0;
};

// Texts with their ids, to be located on several threads.
class LocatorBatch {
public:
    void add(Text text, const token_id_t* ids, std::size_t n_ids, Span* out) {
        items_.push_back({text, ids, n_ids, out, false});
    }

    void run(
        const Pipeline& pipeline, const std::int32_t* lengths, std::size_t n_lengths, std::size_t n_threads,
        Interrupt& interrupt) {
        std::atomic<std::size_t> next{0};
        run_on_threads(std::clamp<std::size_t>(n_threads, 1, items_.size() / AT_ONCE + 1), interrupt, [&] {
            Locator locator(pipeline, lengths, n_lengths, interrupt);
            for (std::size_t begin; (begin = next.fetch_add(AT_ONCE)) < items_.size();) {
                interrupt.poll();
                for (std::size_t i = begin; i < std::min(begin + AT_ONCE, items_.size()); ++i) {
                    Item& item = items_[i];
                    item.is_located = locator.locate(item.text, item.ids, item.n_ids, item.out);
                }
            }
        });
    }

    bool is_located(std::size_t i) const { return items_[i].is_located; }

private:
    static constexpr std::size_t AT_ONCE = 4;

    struct Item {
        Text text;
        const token_id_t* ids;
        std::size_t n_ids;
        Span* out;
        bool is_located;
    };

    std::vector<Item> items_;
};

}  // namespace hf_scaffold
