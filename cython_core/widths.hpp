// The integer widths of the core, in one place.
#pragma once

#include <cstdint>

namespace hf_scaffold {

using token_id_t = std::int32_t;  // a token's creation id
using count_t = std::int64_t;     // an occurrence count or a frequency; an overflow is an error
using position_t = std::uint32_t; // a cell of the symbol sequence: training text has < 2**32 symbols

}  // namespace hf_scaffold
