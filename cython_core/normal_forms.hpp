// The normal forms of Unicode (UAX #15): a text is copied, but for the stretches that may not have the form.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "byte_buffer.hpp"
#include "interrupt.hpp"
#include "normalization_tables.hpp"
#include "transcode.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

struct NormalForm {
    unsigned absent;  // the bit of characters that may not occur in this form
    bool is_compatible, is_composed;
};

constexpr NormalForm NFC{NOT_NFC, false, true}, NFD{NOT_NFD, false, false};
constexpr NormalForm NFKC{NOT_NFKC, true, true}, NFKD{NOT_NFKD, true, false};

// The bits of a code point.
inline unsigned normal_bits(std::uint32_t code) { return NORMAL[NORMAL_BLOCK[code / 128]][code % 128]; }

// Whether no character of three bytes that begins with this byte, less 0xE0, has a bit: so it is for most of Chinese.
struct PlainLeads {
    constexpr PlainLeads() {
        constexpr std::size_t N_BLOCKS = sizeof NORMAL / sizeof *NORMAL;
        bool is_plain[N_BLOCKS] = {};
        for (std::size_t block = 0; block < N_BLOCKS; ++block) {
            is_plain[block] = true;
            for (const std::uint16_t bits : NORMAL[block]) is_plain[block] = is_plain[block] && bits == 0;
        }
        for (unsigned lead = 0; lead < 16; ++lead) {
            are_plain[lead] = true;
            for (unsigned i = 0; i < 32; ++i)
                are_plain[lead] = are_plain[lead] && is_plain[NORMAL_BLOCK[32 * lead + i]];
        }
    }

    bool has(byte_t lead) const { return (lead & 0xF0) == 0xE0 && are_plain[lead & 0x0F]; }

    bool are_plain[16] = {};
};
constexpr PlainLeads PLAIN_LEADS;

// What the two compose to; 0 if they don't.
inline std::uint32_t composed(std::uint32_t first, std::uint32_t second) {
    // Syllables of Hangul: an initial and a medial, then a final.
    const std::uint32_t initial = first - 0x1100, medial = second - 0x1161;
    if (initial < 19 && medial < 21) return 0xAC00 + (initial * 21 + medial) * 28;
    const std::uint32_t syllable = first - 0xAC00, last = second - 0x11A7;
    if (syllable < 19 * 21 * 28 && syllable % 28 == 0 && last - 1 < 27) return first + last;
    if (!(normal_bits(second) & NOT_NFC)) return 0;  // in a text of this form it could be anywhere
    const std::uint64_t pair = static_cast<std::uint64_t>(first) << 32 | second;
    const std::uint64_t* const found = std::lower_bound(PAIRS, PAIRS + N_COMPOSED, pair);
    return found != PAIRS + N_COMPOSED && *found == pair ? COMPOSED[found - PAIRS] : 0;
}

// Rewrites a stretch from scratch: decomposes it, puts its marks in order and composes it again.
class Rewriter {
public:
    // Appends what becomes of the stretch.
    void rewrite(const byte_t* begin, const byte_t* end, NormalForm form, ByteBuffer& out, Steps& steps) {
        codes_.clear();
        for (const byte_t* at = begin; at != end;) {
            steps.next();
            const Code code = code_at(at);
            decompose(code.point, form);
            at += code.length;
        }
        sort_marks(steps);
        if (form.is_composed) compose(steps);
        byte_t* to = out.room_for(4 * codes_.size());
        for (const Ranked& code : codes_) to = put(code.point, to);
        out.end_at(to);
    }

private:
    struct Ranked {
        std::uint32_t point;
        std::uint32_t rank;
    };

    void add(std::uint32_t point) { codes_.push_back({point, normal_bits(point) & RANK}); }

    void decompose(std::uint32_t point, NormalForm form) {
        if (const std::uint32_t syllable = point - 0xAC00; syllable < 19 * 21 * 28) {
            add(0x1100 + syllable / (21 * 28));
            add(0x1161 + syllable / 28 % 21);
            if (syllable % 28 != 0) add(0x11A7 + syllable % 28);
            return;
        }
        const std::uint16_t place = form.is_compatible ? COMPATIBLE[COMPATIBLE_BLOCK[point / 128]][point % 128]
                                                       : DECOMPOSED[DECOMPOSED_BLOCK[point / 128]][point % 128];
        if (place == 0) return add(point);
        for (std::uint32_t i = 1; i <= STRINGS[place]; ++i) add(STRINGS[place + i]);
    }

    void sort_marks(Steps& steps) {
        for (std::size_t at = 0; at < codes_.size();) {
            std::size_t end = at;
            bool is_sorted = true;
            for (; end < codes_.size() && codes_[end].rank != 0; ++end) {
                is_sorted &= end == at || codes_[end - 1].rank <= codes_[end].rank;
            }
            if (!is_sorted) sort_marks(at, end);
            at = end + 1;
            steps.next();
        }
    }

    // By counting, in linear time: a text may be all marks. Those of one rank keep their order.
    void sort_marks(std::size_t begin, std::size_t end) {
        std::size_t places[RANK + 2] = {};
        for (std::size_t i = begin; i < end; ++i) ++places[codes_[i].rank + 1];
        for (unsigned rank = 1; rank <= RANK; ++rank) places[rank] += places[rank - 1];
        sorted_.resize(end - begin);
        for (std::size_t i = begin; i < end; ++i) sorted_[places[codes_[i].rank]++] = codes_[i];
        std::copy(sorted_.begin(), sorted_.end(), codes_.begin() + static_cast<std::ptrdiff_t>(begin));
    }

    // A character composes with the last starter (rank 0) unless one between them blocks it: of its rank, or higher.
    void compose(Steps& steps) {
        std::size_t n = 0, starter = 0;
        bool has_starter = false;
        std::uint32_t last = 0;  // the rank of the last character after the starter
        for (const Ranked code : codes_) {
            steps.next();
            if (has_starter && (last == 0 || last < code.rank)) {
                if (const std::uint32_t whole = composed(codes_[starter].point, code.point)) {
                    codes_[starter].point = whole;
                    continue;
                }
            }
            if (code.rank == 0) {
                starter = n;
                has_starter = true;
            }
            last = code.rank;
            codes_[n++] = code;
        }
        codes_.resize(n);
    }

    std::vector<Ranked> codes_;
    std::vector<Ranked> sorted_;
};

// Finds the stretches of a text that may not have the form. A character that has no bit, neither a rank nor the form's,
// interacts with nothing before it: such a stretch begins and ends with one.
class Unnormal {
public:
    Unnormal(const byte_t* begin, const byte_t* end, NormalForm form)
        : at_(begin), end_(end), mask_(RANK | form.absent), absent_(form.absent) {}

    const byte_t* begin() const { return begin_; }
    const byte_t* stop() const { return stop_; }

    // Whether there is another one.
    bool next(Steps& steps) {
        begin_ = at_;
        for (unsigned last = 0; skip_plain(last, steps); steps.next()) {
            const Code code = code_at(at_);
            const unsigned bits = normal_bits(code.point) & mask_;
            if (bits == 0) {
                begin_ = at_;
                last = 0;
            } else if ((bits & absent_) || (bits & RANK) < last) {
                find_stop(steps);
                return true;
            } else {
                last = bits & RANK;
            }
            at_ += code.length;
        }
        return false;
    }

private:
    // Skips characters that have no bits, which most are, and sets `last` to 0 if there are any. False at the text's end.
    bool skip_plain(unsigned& last, Steps& steps) {
        while (at_ != end_) {
            if (PLAIN_LEADS.has(*at_)) {
                begin_ = at_;
                at_ += 3;
            } else if (*at_ < 0x80) {
                while (end_ - at_ >= 8 && are_eight_ascii(at_)) at_ += 8;
                while (at_ != end_ && *at_ < 0x80) ++at_;
                begin_ = at_ - 1;
                steps.next();
            } else {
                return true;
            }
            last = 0;
        }
        return false;
    }

    void find_stop(Steps& steps) {
        while (at_ != end_) {
            const Code code = code_at(at_);
            if ((normal_bits(code.point) & mask_) == 0) break;
            at_ += code.length;
            steps.next();
        }
        stop_ = at_;
    }

    const byte_t* at_;
    const byte_t* const end_;
    const unsigned mask_, absent_;
    const byte_t* begin_ = nullptr;
    const byte_t* stop_ = nullptr;
};

// Appends the text in this form.
inline void to_form(
    const byte_t* begin, const byte_t* end, NormalForm form, Rewriter& rewriter, ByteBuffer& out, Steps& steps) {
    for (Unnormal found(begin, end, form); found.next(steps);) {
        out.append(begin, found.begin());
        rewriter.rewrite(found.begin(), found.stop(), form, out, steps);
        begin = found.stop();
    }
    out.append(begin, end);
}

}  // namespace hf_scaffold
