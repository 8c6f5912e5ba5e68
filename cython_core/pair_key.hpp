// A pair of tokens as the key of a hash table with a power of two of slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "widths.hpp"

namespace hf_scaffold {

inline std::uint64_t pair_key(token_id_t left, token_id_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

// The slot where the key belongs, if it is free.
inline std::size_t home_slot(std::uint64_t key, std::size_t n_slots) {
    return ((key * 0x9E3779B97F4A7C15ull) >> 32) & (n_slots - 1);
}

}  // namespace hf_scaffold
