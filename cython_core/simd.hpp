// The few instructions we need beyond C++17: SSE2, which every x86-64 has, bit counting and prefetching. Other
// processors run plain loops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if defined(__SSE2__) || defined(_M_X64)
#define HF_SCAFFOLD_SSE2 1
#include <emmintrin.h>
#endif
#ifdef _MSC_VER
#include <intrin.h>
#endif

namespace hf_scaffold {

// The number of zeros below the lowest set bit. bits != 0.
inline unsigned trailing_zeros(unsigned bits) {
#ifdef _MSC_VER
    unsigned long index;
    _BitScanForward(&index, bits);
    return index;
#else
    return static_cast<unsigned>(__builtin_ctz(bits));
#endif
}

inline unsigned trailing_zeros(std::uint64_t bits) {
#if defined(_MSC_VER) && defined(_M_X64)
    unsigned long index;
    _BitScanForward64(&index, bits);
    return index;
#elif defined(_MSC_VER)
    const auto low = static_cast<unsigned>(bits);
    return low ? trailing_zeros(low) : 32 + trailing_zeros(static_cast<unsigned>(bits >> 32));
#else
    return static_cast<unsigned>(__builtin_ctzll(bits));
#endif
}

inline unsigned count_ones(std::uint64_t bits) {
    bits -= bits >> 1 & 0x5555555555555555;
    bits = (bits & 0x3333333333333333) + (bits >> 2 & 0x3333333333333333);
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F;
    return static_cast<unsigned>(bits * 0x0101010101010101 >> 56);
}

inline std::uint64_t lowest_one(std::uint64_t bits) { return bits & (~bits + 1); }

// Where `byte` first is among the n at `bytes`; n if it is not there. Bytes up to the next multiple of 16 may be read.
inline std::size_t index_of(unsigned char byte, const unsigned char* bytes, std::size_t n) {
#ifdef HF_SCAFFOLD_SSE2
    const __m128i wanted = _mm_set1_epi8(static_cast<char>(byte));
    for (std::size_t i = 0; i < n; i += 16) {
        const __m128i some = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
        const auto found = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(some, wanted)));
        if (found != 0) return std::min(n, i + trailing_zeros(found));
    }
    return n;
#else
    return static_cast<std::size_t>(std::find(bytes, bytes + n, byte) - bytes);
#endif
}

// Starts loading the cache line of `address`.
inline void prefetch(const void* address) {
#ifdef HF_SCAFFOLD_SSE2
    _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
#elif defined(__GNUC__)
    __builtin_prefetch(address);
#else
    static_cast<void>(address);
#endif
}

// Prefetches memory a little at a time: where the hardware can't predict the order, data still arrives early, without
// delaying the work in progress.
class SlowPrefetch {
public:
    void aim(const void* begin, std::size_t size) {
        next_ = static_cast<const char*>(begin);
        end_ = next_ + size;
    }

    void advance(unsigned n_lines) {
        for (; n_lines != 0 && next_ < end_; --n_lines, next_ += 64) prefetch(next_);
    }

private:
    const char* next_ = nullptr;
    const char* end_ = nullptr;
};

}  // namespace hf_scaffold
