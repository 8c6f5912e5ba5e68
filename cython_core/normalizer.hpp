// Normalizers of `tokenizers`: steps, each of which rewrites a text in UTF-8.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "byte_buffer.hpp"
#include "character_maps.hpp"
#include "interrupt.hpp"
#include "normal_forms.hpp"
#include "scan.hpp"
#include "simd.hpp"
#include "splitter.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

// Immutable once the last step is added. Each step takes time linear in the text it reads and the text it writes.
class Normalizer {
public:
    // What a call works with, to be reused by the next one.
    struct Work {
        ByteBuffer buffers[2];
        Rewriter rewriter;
    };

    // When a prefix is put before a text that is not empty.
    struct When {
        bool if_missing;  // only if the text does not begin with it
        bool at_start;    // only if nothing precedes the text, no added token either
    };

    // Replaces each occurrence, leftmost first, without overlap.
    void add_replace(std::string pattern, std::string content) {
        if (pattern.empty() || pattern.size() > LONGEST_PATTERN) {
            throw std::invalid_argument("a pattern to replace must have 1 to 64 bytes");
        }
        steps_.push_back({Kind::REPLACE, std::move(pattern), std::move(content), {}, {}, {}, {}});
    }

    // Replaces each piece that the splitter drops.
    void add_replace_dropped(std::shared_ptr<const Splitter> splitter, std::string content) {
        if (splitter == nullptr) throw std::invalid_argument("there are no patterns to replace by");
        steps_.push_back({Kind::REPLACE_DROPPED, {}, std::move(content), {}, {}, {}, std::move(splitter)});
    }

    void add_prepend(std::string prefix, When when) {
        steps_.push_back({Kind::PREPEND, {}, std::move(prefix), when, {}, {}, {}});
    }

    void add_strip(bool left, bool right) {
        if (left) steps_.push_back({Kind::STRIP_LEFT, {}, {}, {}, {}, {}, {}});
        if (right) steps_.push_back({Kind::STRIP_RIGHT, {}, {}, {}, {}, {}, {}});
    }

    // By its name in `tokenizers`: NFC, Lowercase, …; the steps of BertNormalizer have names of their own.
    void add_named(std::string_view name) {
        for (const auto& [known, form] : FORMS) {
            if (name == known) return steps_.push_back({Kind::FORM, {}, {}, {}, form, {}, {}});
        }
        for (const auto& [known, map] : MAPS) {
            if (name == known) return steps_.push_back({Kind::MAP, {}, {}, {}, {}, map, {}});
        }
        throw std::invalid_argument("no normalizer of that name");
    }

    // False if the text stays as it is; true says nothing.
    bool may_change(const byte_t* begin, const byte_t* end, Interrupt* interrupt = nullptr) const {
        Steps polled(interrupt);
        return std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
            return step.kind != Kind::FORM || Unnormal(begin, end, step.form).next(polled);
        });
    }

    // Whether the text stays as it is but for what is put before it.
    bool only_prepends() const {
        return std::all_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.kind == Kind::PREPEND; });
    }

    // Appends what the steps make of a text to `out`, which must not be one of the work's buffers.
    void run(
        const byte_t* begin, const byte_t* end, bool is_at_start, Work& work, ByteBuffer& out,
        Interrupt* interrupt = nullptr) const {
        Steps polled(interrupt);
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const bool is_last = i + 1 == steps_.size();
            ByteBuffer& made = is_last ? out : work.buffers[i % 2];
            if (!is_last) made.clear();
            run(steps_[i], begin, end, is_at_start, work.rewriter, made, polled);
            begin = made.begin();
            end = made.end();
        }
        if (steps_.empty()) out.append(begin, end);
    }

private:
    static constexpr std::pair<std::string_view, NormalForm> FORMS[] = {
        {"NFC", NFC}, {"NFD", NFD}, {"NFKC", NFKC}, {"NFKD", NFKD}};
    static constexpr std::pair<std::string_view, CharacterMap> MAPS[] = {
        {"Lowercase", LOWERCASE}, {"StripAccents", DROP_COMBINING},        {"Nmt", NMT},
        {"clean_text", CLEAN},    {"handle_chinese_chars", SPACE_CHINESE}, {"drop_nonspacing", DROP_NONSPACING}};

    // The search takes up to so many steps for each byte of the text.
    static constexpr std::size_t LONGEST_PATTERN = 64;
    static constexpr std::size_t BLOCK = 4096;  // bytes between two polls

    enum class Kind { REPLACE, REPLACE_DROPPED, PREPEND, STRIP_LEFT, STRIP_RIGHT, FORM, MAP };
    struct Step {
        Kind kind;
        std::string pattern;
        std::string content;
        When when;
        NormalForm form;
        CharacterMap map;
        std::shared_ptr<const Splitter> splitter;
    };

    static void run(
        const Step& step, const byte_t* begin, const byte_t* end, bool is_at_start, Rewriter& rewriter, ByteBuffer& out,
        Steps& polled) {
        switch (step.kind) {
            case Kind::REPLACE:
                if (step.pattern.size() == 1) return replace_byte(step, begin, end, out, polled);
                return replace(step, begin, end, out, polled);
            case Kind::REPLACE_DROPPED: return replace_dropped(step, begin, end, out, polled);
            case Kind::PREPEND:
                if (is_wanted(step, begin, end, is_at_start)) append(step.content, out);
                return out.append(begin, end);
            case Kind::STRIP_LEFT: return out.append(skip(begin, end, SPACE), end);
            case Kind::STRIP_RIGHT: return out.append(begin, space_before(begin, end));
            case Kind::FORM: return to_form(begin, end, step.form, rewriter, out, polled);
            case Kind::MAP: return map_characters(begin, end, step.map, out, polled);
        }
    }

    static bool is_wanted(const Step& step, const byte_t* begin, const byte_t* end, bool is_at_start) {
        if (begin == end || (step.when.at_start && !is_at_start)) return false;
        return !(step.when.if_missing && starts_with(begin, end, step.content));
    }

    static bool starts_with(const byte_t* begin, const byte_t* end, std::string_view wanted) {
        return static_cast<std::size_t>(end - begin) >= wanted.size() &&
               std::memcmp(begin, wanted.data(), wanted.size()) == 0;
    }

    static void append(std::string_view bytes, ByteBuffer& out) {
        const auto* const begin = reinterpret_cast<const byte_t*>(bytes.data());
        out.append(begin, begin + bytes.size());
    }

    // Spaces are in every sixth place or so, which a search from each to the next would be slow at.
    static void replace_byte(const Step& step, const byte_t* begin, const byte_t* end, ByteBuffer& out, Steps& polled) {
        constexpr std::size_t SHORT = 4;  // bytes that are written whatever the length
        const std::size_t n = step.content.size();
        if (n > SHORT) return replace(step, begin, end, out, polled);
        byte_t content[SHORT] = {};
        std::memcpy(content, step.content.data(), n);
        const auto pattern = static_cast<byte_t>(step.pattern[0]);
        while (begin != end) {
            polled.next();
            const byte_t* const stop = begin + std::min(static_cast<std::size_t>(end - begin), BLOCK);
            byte_t* to = out.room_for(static_cast<std::size_t>(stop - begin) * SHORT);
            const auto put_content = [&] {
                std::memcpy(to, content, SHORT);
                to += n;
            };
            // Writes 16 bytes, of which those before the next occurrence stay. 16 more may always be written.
            while (stop - begin >= 16) {
                std::memcpy(to, begin, 16);
                const unsigned found = Bytes16::load(begin).equal(pattern).bits();
                const unsigned n_before = trailing_zeros(found | 1U << 16);
                begin += n_before;
                to += n_before;
                if (found == 0) continue;
                ++begin;
                put_content();
            }
            for (; begin != stop; ++begin) {
                if (*begin == pattern) {
                    put_content();
                } else {
                    *to++ = *begin;
                }
            }
            out.end_at(to);
        }
    }

    static void replace(const Step& step, const byte_t* begin, const byte_t* end, ByteBuffer& out, Steps& polled) {
        const std::string_view text(reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin));
        for (std::size_t at = 0; at != text.size();) {
            polled.next();
            const std::string_view block = text.substr(at, BLOCK);
            std::size_t n = block.find(step.pattern);
            const bool is_found = n != std::string_view::npos;
            // An occurrence may begin at the end of the block.
            if (!is_found) n = block.size() < BLOCK ? block.size() : BLOCK - (step.pattern.size() - 1);
            append(block.substr(0, n), out);
            if (is_found) append(step.content, out);
            at += n + (is_found ? step.pattern.size() : 0);
        }
    }

    static void replace_dropped(
        const Step& step, const byte_t* begin, const byte_t* end, ByteBuffer& out, Steps& polled) {
        step.splitter->scan(begin, end, [&](const byte_t* const* bounds, std::size_t n, const byte_t* dropped) {
            polled.next();
            for (std::size_t i = 0; i < n; ++i) {
                if (dropped != nullptr && dropped[i]) {
                    append(step.content, out);
                } else {
                    out.append(bounds[i], bounds[i + 1]);
                }
            }
        });
    }

    std::vector<Step> steps_;
};

}  // namespace hf_scaffold
