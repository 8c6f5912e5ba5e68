// Arrays aligned to cache lines, but for small ones; large ones use huge pages where Linux provides them. With small
// pages, page faults would take a fifth of the encoding time, and table look-ups would wait for address translation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef _MSC_VER
#include <malloc.h>
#endif

namespace hf_scaffold {

struct FreeAligned {
    void* block = nullptr;  // the array is in, if it does not begin there

    void operator()(void* array) const {
#ifdef _MSC_VER
        block == nullptr ? _aligned_free(array) : std::free(block);
#else
        std::free(block == nullptr ? array : block);
#endif
    }
};

// Never destroys its elements.
template <class T>
using LargeArray = std::unique_ptr<T[], FreeAligned>;

constexpr std::size_t CACHE_LINE = 64, SMALL = 4096;  // bytes
constexpr std::size_t HUGE_PAGE = std::size_t{1} << 21;

// Best effort, for the whole huge pages inside the array; correctness doesn't depend on it.
inline void ask_for_huge_pages(void* array, std::size_t size) {
#ifdef MADV_HUGEPAGE
    const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(array) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(array) + size) / HUGE_PAGE * HUGE_PAGE;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
    static_cast<void>(array), static_cast<void>(size);
#endif
}

// The bytes of n objects; they can be rounded up.
template <class T>
std::size_t size_of(std::size_t n) {
    if (n > (std::numeric_limits<std::size_t>::max() - HUGE_PAGE) / sizeof(T)) throw std::bad_alloc();
    return n * sizeof(T);
}

constexpr std::size_t alignment_of(std::size_t size) { return size < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE; }

// Uninitialized memory for n > 0 objects.
template <class T>
LargeArray<T> make_large_array(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    const std::size_t n_bytes = size_of<T>(n), alignment = alignment_of(n_bytes);
    const std::size_t size = (n_bytes + alignment - 1) / alignment * alignment;
    void* array = nullptr;
#ifdef _MSC_VER
    array = _aligned_malloc(size, alignment);
#else
    if (size < SMALL) {
        array = std::malloc(size);  // several times as fast
    } else if (posix_memalign(&array, alignment, size) != 0) {
        array = nullptr;
    }
#endif
    if (array == nullptr) throw std::bad_alloc();
    ask_for_huge_pages(array, size);
    return LargeArray<T>(static_cast<T*>(array));
}

// The same, all bytes zero. Large ones are zero from the start: their pages are cleared when they are first touched.
template <class T>
LargeArray<T> make_large_zeros(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    const std::size_t size = size_of<T>(n), alignment = alignment_of(size);
    void* const block = std::calloc(size + alignment, 1);
    if (block == nullptr) throw std::bad_alloc();
    const auto place = (reinterpret_cast<std::uintptr_t>(block) + alignment - 1) / alignment * alignment;
    ask_for_huge_pages(reinterpret_cast<void*>(place), size);
    return LargeArray<T>(reinterpret_cast<T*>(place), FreeAligned{block});
}

// A buffer to reuse, which grows as needed.
template <class T>
class Scratch {
public:
    // Loses the previous contents.
    T* room_for(std::size_t n) {
        if (size_ < n) {
            array_ = make_large_array<T>(n);
            size_ = n;
        }
        return array_.get();
    }

    // Keeps the first `n_kept` elements.
    T* more_room_for(std::size_t n, std::size_t n_kept) {
        static_assert(std::is_trivially_copyable_v<T>);
        LargeArray<T> larger = make_large_array<T>(n);
        if (n_kept != 0) std::memcpy(larger.get(), array_.get(), n_kept * sizeof(T));
        array_ = std::move(larger);
        size_ = n;
        return array_.get();
    }

    T* get() const { return array_.get(); }
    std::size_t size() const { return size_; }

private:
    LargeArray<T> array_;
    std::size_t size_ = 0;
};

}  // namespace hf_scaffold
