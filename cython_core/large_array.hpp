// Arrays that begin a cache line; those of some megabytes lie on huge pages, where Linux has them to give. On small ones
// each first touch is a trap into the kernel, which together would cost a fifth of the time that encoding takes, and
// a table's look-ups wait for addresses to be translated.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef _MSC_VER
#include <malloc.h>
#endif

namespace hf_scaffold {

struct FreeAligned {
    void operator()(void* array) const {
#ifdef _MSC_VER
        _aligned_free(array);
#else
        std::free(array);
#endif
    }
};

// What is in it is never destroyed.
template <class T>
using LargeArray = std::unique_ptr<T[], FreeAligned>;

// Memory for n > 0 objects, none of them made yet.
template <class T>
LargeArray<T> make_large_array(std::size_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    constexpr std::size_t CACHE_LINE = 64, HUGE_PAGE = std::size_t{1} << 21;
    const std::size_t alignment = n * sizeof(T) < HUGE_PAGE ? CACHE_LINE : HUGE_PAGE;
    const std::size_t size = (n * sizeof(T) + alignment - 1) / alignment * alignment;
    void* array = nullptr;
#ifdef _MSC_VER
    array = _aligned_malloc(size, alignment);
#else
    if (posix_memalign(&array, alignment, size) != 0) array = nullptr;
#endif
    if (array == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (alignment == HUGE_PAGE) madvise(array, size, MADV_HUGEPAGE);  // a wish: nothing depends on it
#endif
    return LargeArray<T>(static_cast<T*>(array));
}

}  // namespace hf_scaffold
