// The few instructions we need beyond C++17: 16 bytes at once, bit counting and prefetching.
//
// Every x86-64 has SSE2, every 64-bit Arm NEON. Other processors, and builds with HF_SCAFFOLD_NO_VECTORS, run plain loops
// with the same results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(HF_SCAFFOLD_NO_VECTORS)
#elif defined(__SSE2__) || defined(_M_X64)
#define HF_SCAFFOLD_SSE2 1
#include <emmintrin.h>
#elif (defined(__aarch64__) && !defined(__AARCH64EB__)) || defined(_M_ARM64)
#define HF_SCAFFOLD_NEON 1
#include <arm_neon.h>
#endif
#if defined(HF_SCAFFOLD_SSE2) || defined(HF_SCAFFOLD_NEON)
#define HF_SCAFFOLD_VECTORS 1
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

// 16 bytes. Tests give bytes of 0xFF for yes and 0 for no; their bits() are the answers, the first byte's lowest.
class Bytes16 {
public:
    static Bytes16 load(const void* at);
    static Bytes16 all(unsigned char byte);

    Bytes16 operator|(Bytes16 other) const;
    Bytes16 equal(unsigned char byte) const;
    // Whether each is `first` or one of the n - 1 bytes after it; 0 < n < 256.
    Bytes16 in_range(unsigned char first, unsigned char n) const;
    // Whether each continues a character of UTF-8: 0x80 to 0xBF.
    Bytes16 are_tails() const;

    // The highest bit of each byte.
    unsigned bits() const;
    // The bits of four, one after another.
    static std::uint64_t bits(Bytes16 a, Bytes16 b, Bytes16 c, Bytes16 d);

    // Writes the low bytes of 16 units to `out`; returns a bit for each of 0x80 or more, whose byte has no meaning.
    static unsigned narrow(const std::uint16_t* units, unsigned char* out);

private:
#if defined(HF_SCAFFOLD_SSE2)
    using Vector = __m128i;
#elif defined(HF_SCAFFOLD_NEON)
    using Vector = uint8x16_t;
#else
    struct Vector {
        unsigned char bytes[16];
    };
    template <class Test>
    Bytes16 each(Test test) const {
        Vector made;
        for (unsigned i = 0; i < 16; ++i) made.bytes[i] = static_cast<unsigned char>(test(vector_.bytes[i], i));
        return made;
    }
#endif
    Bytes16(Vector vector) : vector_(vector) {}

    Vector vector_;
};

#if defined(HF_SCAFFOLD_SSE2)

inline Bytes16 Bytes16::load(const void* at) { return _mm_loadu_si128(static_cast<const __m128i*>(at)); }
inline Bytes16 Bytes16::all(unsigned char byte) { return _mm_set1_epi8(static_cast<char>(byte)); }
inline Bytes16 Bytes16::operator|(Bytes16 other) const { return _mm_or_si128(vector_, other.vector_); }
inline Bytes16 Bytes16::equal(unsigned char byte) const { return _mm_cmpeq_epi8(vector_, all(byte).vector_); }

// SSE2 only compares signed bytes, so this shifts `first` to the lowest one.
inline Bytes16 Bytes16::in_range(unsigned char first, unsigned char n) const {
    const __m128i moved = _mm_sub_epi8(vector_, all(static_cast<unsigned char>(first + 0x80)).vector_);
    return _mm_cmplt_epi8(moved, all(static_cast<unsigned char>(0x80 + n)).vector_);
}

inline Bytes16 Bytes16::are_tails() const { return _mm_cmplt_epi8(vector_, all(0xC0).vector_); }

inline unsigned Bytes16::bits() const { return static_cast<unsigned>(_mm_movemask_epi8(vector_)); }

inline std::uint64_t Bytes16::bits(Bytes16 a, Bytes16 b, Bytes16 c, Bytes16 d) {
    return a.bits() | std::uint64_t{b.bits()} << 16 | std::uint64_t{c.bits()} << 32 | std::uint64_t{d.bits()} << 48;
}

inline unsigned Bytes16::narrow(const std::uint16_t* units, unsigned char* out) {
    const __m128i low = load(units).vector_, high = load(units + 8).vector_;
    const __m128i limit = _mm_set1_epi16(0x7F);
    const __m128i beyond = _mm_packs_epi16(_mm_subs_epu16(low, limit), _mm_subs_epu16(high, limit));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(low, high));
    return 0xFFFF ^ Bytes16(beyond).equal(0).bits();
}

#elif defined(HF_SCAFFOLD_NEON)

inline Bytes16 Bytes16::load(const void* at) { return vld1q_u8(static_cast<const std::uint8_t*>(at)); }
inline Bytes16 Bytes16::all(unsigned char byte) { return vdupq_n_u8(byte); }
inline Bytes16 Bytes16::operator|(Bytes16 other) const { return vorrq_u8(vector_, other.vector_); }
inline Bytes16 Bytes16::equal(unsigned char byte) const { return vceqq_u8(vector_, vdupq_n_u8(byte)); }

inline Bytes16 Bytes16::in_range(unsigned char first, unsigned char n) const {
    return vcltq_u8(vsubq_u8(vector_, vdupq_n_u8(first)), vdupq_n_u8(n));
}

inline Bytes16 Bytes16::are_tails() const { return vcltq_s8(vreinterpretq_s8_u8(vector_), vdupq_n_s8(-0x40)); }

inline unsigned Bytes16::bits() const { return static_cast<unsigned>(bits(*this, all(0), all(0), all(0))); }

// Each byte keeps the bit of its place among eight; sums of neighbours then gather eight of them in a byte.
inline std::uint64_t Bytes16::bits(Bytes16 a, Bytes16 b, Bytes16 c, Bytes16 d) {
    static const std::uint8_t PLACES[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t places = vld1q_u8(PLACES);
    const auto kept = [&](Bytes16 some) {
        const int8x16_t highest = vshrq_n_s8(vreinterpretq_s8_u8(some.vector_), 7);
        return vandq_u8(vreinterpretq_u8_s8(highest), places);
    };
    const uint8x16_t halves = vpaddq_u8(vpaddq_u8(kept(a), kept(b)), vpaddq_u8(kept(c), kept(d)));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(halves, halves)), 0);
}

inline unsigned Bytes16::narrow(const std::uint16_t* units, unsigned char* out) {
    const Bytes16 made = vcombine_u8(vqmovn_u16(vld1q_u16(units)), vqmovn_u16(vld1q_u16(units + 8)));  // 0xFF if above
    vst1q_u8(out, made.vector_);
    return made.bits();
}

#else

inline Bytes16 Bytes16::load(const void* at) {
    Vector made;
    std::memcpy(made.bytes, at, 16);
    return made;
}

inline Bytes16 Bytes16::all(unsigned char byte) {
    Vector made;
    std::memset(made.bytes, byte, 16);
    return made;
}

inline Bytes16 Bytes16::operator|(Bytes16 other) const {
    return each([&](unsigned char byte, unsigned i) { return byte | other.vector_.bytes[i]; });
}

inline Bytes16 Bytes16::equal(unsigned char wanted) const {
    return each([&](unsigned char byte, unsigned) { return byte == wanted ? 0xFF : 0; });
}

inline Bytes16 Bytes16::in_range(unsigned char first, unsigned char n) const {
    return each([&](unsigned char byte, unsigned) { return static_cast<unsigned char>(byte - first) < n ? 0xFF : 0; });
}

inline Bytes16 Bytes16::are_tails() const { return in_range(0x80, 0x40); }

inline unsigned Bytes16::bits() const {
    unsigned bits = 0;
    for (unsigned i = 0; i < 16; ++i) bits |= static_cast<unsigned>(vector_.bytes[i] >> 7) << i;
    return bits;
}

inline std::uint64_t Bytes16::bits(Bytes16 a, Bytes16 b, Bytes16 c, Bytes16 d) {
    return a.bits() | std::uint64_t{b.bits()} << 16 | std::uint64_t{c.bits()} << 32 | std::uint64_t{d.bits()} << 48;
}

inline unsigned Bytes16::narrow(const std::uint16_t* units, unsigned char* out) {
    unsigned beyond = 0;
    for (unsigned i = 0; i < 16; ++i) {
        out[i] = static_cast<unsigned char>(units[i]);
        beyond |= static_cast<unsigned>(units[i] >= 0x80) << i;
    }
    return beyond;
}

#endif

// A bit for each of the 64 bytes at `bytes`, as test(Bytes16) tells.
template <class Test>
std::uint64_t bits_of_64(const unsigned char* bytes, Test test) {
    return Bytes16::bits(
        test(Bytes16::load(bytes)), test(Bytes16::load(bytes + 16)), test(Bytes16::load(bytes + 32)),
        test(Bytes16::load(bytes + 48)));
}

// Starts loading the cache line of `address`.
inline void prefetch(const void* address) {
#if defined(HF_SCAFFOLD_SSE2)
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
