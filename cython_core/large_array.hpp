// Arrays of some megabytes, on huge pages where Linux has them to give: of small ones each first touch is a trap into
// the kernel, and together these would cost a fifth of the time that encoding takes.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace hf_scaffold {

constexpr std::size_t HUGE_PAGE = std::size_t{1} << 21;

struct Free {
    void operator()(void* array) const { std::free(array); }
};

template <class Number>
using LargeArray = std::unique_ptr<Number[], Free>;

// An array of n > 0 numbers without values.
template <class Number>
LargeArray<Number> make_large_array(std::size_t n) {
    std::size_t n_bytes = n * sizeof(Number);
    void* array;
#ifdef MADV_HUGEPAGE
    if (n_bytes >= HUGE_PAGE) {
        n_bytes = (n_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        array = std::aligned_alloc(HUGE_PAGE, n_bytes);
        if (array != nullptr) madvise(array, n_bytes, MADV_HUGEPAGE);  // may be refused: they are a bonus
    } else {
        array = std::malloc(n_bytes);
    }
#else
    array = std::malloc(n_bytes);
#endif
    if (array == nullptr) throw std::bad_alloc();
    return LargeArray<Number>(static_cast<Number*>(array));
}

}  // namespace hf_scaffold
