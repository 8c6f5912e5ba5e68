// A pair of tokens as one number.
#pragma once

#include <cstdint>

#include "widths.hpp"

namespace hf_scaffold {

inline std::uint64_t pair_key(token_id_t left, token_id_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace hf_scaffold
