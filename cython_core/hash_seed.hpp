// Hashes under random keys, so that nobody can craft words, merges or ids that collide.
//
// With a hash that anyone can compute, one megabyte of crafted words takes half a minute to look up. Xoring a secret
// into such a hash doesn't help: words that collide do so whatever the secret is. Here the secrets are factors of a
// 128-bit product, so they decide which inputs collide. Results never depend on a hash.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <random>
#include <string_view>

#include "byte_string.hpp"
#include "utf8.hpp"

#ifdef _MSC_VER
#include <intrin.h>
#endif

namespace hf_scaffold {

// The two halves of the product, xored. Each bit depends on all bits of both factors.
inline std::uint64_t folded_product(std::uint64_t a, std::uint64_t b) {
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 product_t;
    const product_t product = static_cast<product_t>(a) * b;
    return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
#elif defined(_M_X64)
    std::uint64_t high;
    const std::uint64_t low = _umul128(a, b, &high);
    return high ^ low;
#else
    return __umulh(a, b) ^ (a * b);
#endif
}

// Randomness from the system; if it has none, something that differs between processes.
inline std::uint64_t drawn_seed() noexcept {
    try {
        std::random_device device;
        const std::uint64_t high = device();
        return high << 32 | device();
    } catch (const std::exception&) {
        static const char here = 0;
        return static_cast<std::uint64_t>(std::chrono::high_resolution_clock::now().time_since_epoch().count()) *
               (reinterpret_cast<std::uintptr_t>(&here) | 1);
    }
}

// A new number on each call: SplitMix64 (Steele, Lea, Flood 2014) from two seeds per process.
inline std::uint64_t secret_number() noexcept {
    static std::atomic<std::uint64_t> state{drawn_seed()};
    static const std::uint64_t blind = drawn_seed();
    std::uint64_t z = state.fetch_add(0x9E3779B97F4A7C15, std::memory_order_relaxed);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return (z ^ z >> 31) ^ blind;
}

// One key per table. Sharing a key would be slow, too: copying a table slot by slot into a smaller one would fill that
// from the front.
class HashKey {
public:
    HashKey() noexcept : first_(secret_number()), second_(secret_number()) {}

    // Gives all byte strings of 8 bytes or more the same hash. For tests.
    static HashKey colliding() noexcept { return HashKey(0, 0); }

    std::uint64_t of(std::uint64_t number) const { return folded_product(number ^ first_, second_); }
    std::uint64_t of(std::uint64_t a, std::uint64_t b) const { return folded_product(a ^ first_, b ^ second_); }

    // length >= 8.
    std::uint64_t of(const byte_t* bytes, std::size_t length) const {
        std::uint64_t hash = first_ ^ (length * second_);
        for (std::size_t at = 0; at + 8 <= length; at += 8) {
            hash = folded_product(hash ^ word_at(bytes + at), second_);
        }
        return folded_product(hash ^ word_at(bytes + length - 8), second_);
    }

private:
    HashKey(std::uint64_t first, std::uint64_t second) noexcept : first_(first), second_(second) {}

    std::uint64_t first_, second_;
};

// For std::unordered_map and its kin: std::hash has a fixed seed for strings and leaves numbers unhashed.
struct KeyedHash {
    std::size_t operator()(std::string_view text) const {
        if (text.size() >= 8) {
            return static_cast<std::size_t>(key.of(reinterpret_cast<const byte_t*>(text.data()), text.size()));
        }
        std::uint64_t word = text.size();
        std::memcpy(reinterpret_cast<char*>(&word) + 1, text.data(), text.size());
        return static_cast<std::size_t>(key.of(word));
    }
    std::size_t operator()(std::uint64_t number) const { return static_cast<std::size_t>(key.of(number)); }

    HashKey key;
};

// How many slots a table of n entries has by open addressing: a power of two, of which at most half are taken.
inline std::size_t slots_for(std::size_t n) {
    std::size_t n_slots = 16;
    while (n_slots < 2 * n + 2) n_slots *= 2;
    return n_slots;
}

// The most entries one look-up in an unordered container compares.
template <class Container>
std::size_t longest_chain(const Container& container) {
    std::size_t longest = 0;
    for (std::size_t i = 0; i < container.bucket_count(); ++i) {
        const std::size_t size = container.bucket_size(i);
        if (size > longest) longest = size;
    }
    return longest;
}

}  // namespace hf_scaffold
