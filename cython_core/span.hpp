// A token in its text, and how white space is trimmed off.
#pragma once

#include <algorithm>
#include <cstdint>

namespace hf_scaffold {

// A token that begins or ends inside a character covers all of it.
struct Span {
    std::int32_t begin, end;         // characters
    std::int32_t leading, trailing;  // how many of the token's own characters at either end are white space
    std::int32_t word;               // the pre-token or added token that it is part of, counted from 0
    std::int32_t is_added;
};
static_assert(sizeof(Span) == 6 * sizeof(std::int32_t), "a row of an array");

// How a post-processor trims white space off spans.
enum class Trim : int { NONE, ALL, ALL_BUT_PREFIX };

// The span's `begin` and `end` without white space, as `tokenizers` has them. With ALL_BUT_PREFIX a token that is first,
// in its row or in the text, keeps a single space, taken for one that was put before the text.
inline Span trimmed(Span span, Trim trim, bool is_first) {
    if (trim == Trim::NONE) return span;
    const bool has_prefix = trim == Trim::ALL_BUT_PREFIX && (is_first || span.begin == 0) && span.leading == 1;
    const std::int32_t leading = has_prefix ? 0 : span.leading;
    span.begin = leading < span.end - span.begin ? span.begin + leading : span.end;
    if (span.trailing <= span.end) span.end = std::max(span.end - span.trailing, span.begin);
    return span;
}

}  // namespace hf_scaffold
