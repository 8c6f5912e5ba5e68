// What was met before, so that a cache takes only what comes again: of a long text most distinct words come once, and
// keeping them costs more memory, and so more time, than all else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "large_array.hpp"

namespace hf_scaffold {

// A Bloom filter with two bits to a hash, both in one word. Threads may use it at the same time.
class Door {
public:
    Door() : words_(make_large_zeros<std::atomic<std::uint64_t>>(N_WORDS)) {}

    // Whether this hash was met before; from now on it was. At half a million hashes one in twenty is taken for
    // another; a hash that two threads meet at once may have to be met a third time.
    bool has_met(std::uint64_t hash) {
        std::atomic<std::uint64_t>& word = words_[hash >> (64 - N_WORDS_LOG2)];
        const std::uint64_t bits = std::uint64_t{1} << (hash & 63) | std::uint64_t{1} << (hash >> 6 & 63);
        const std::uint64_t met = word.load(std::memory_order_relaxed);
        if ((met & bits) == bits) return true;
        word.store(met | bits, std::memory_order_relaxed);
        return false;
    }

    static constexpr std::size_t N_BYTES = std::size_t{1} << 19;

private:
    static constexpr unsigned N_WORDS_LOG2 = 16;
    static constexpr std::size_t N_WORDS = std::size_t{1} << N_WORDS_LOG2;
    static_assert(N_BYTES == N_WORDS * sizeof(std::uint64_t));

    LargeArray<std::atomic<std::uint64_t>> words_;  // their pages take memory once they are touched
};

}  // namespace hf_scaffold
