// The core's integer widths, in one place.
#pragma once

#include <cstdint>
#include <limits>

namespace hf_scaffold {

using token_id_t = std::int32_t;   // a token's id
using count_t = std::int64_t;      // an occurrence count or a frequency; an overflow is an error
using position_t = std::uint32_t;  // a cell of the symbol sequence

constexpr token_id_t NO_ID = -1;

// Sets *sum to a + b, for a, b >= 0. Returns false, leaving *sum alone, if that overflows.
inline bool checked_add(count_t a, count_t b, count_t* sum) {
    if (a > std::numeric_limits<count_t>::max() - b) return false;
    *sum = a + b;
    return true;
}

}  // namespace hf_scaffold
