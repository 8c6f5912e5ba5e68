// For LD_PRELOAD: makes one allocation of chosen libraries fail. Linux with glibc only.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <new>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

constexpr std::size_t MOST = 64;
std::uintptr_t begins[MOST], ends[MOST];
std::size_t n_ranges = 0, n_own = 0;  // the first n_own ranges are of the libraries themselves, the others of the
                                      // standard library, which calls operator new on their behalf
std::atomic<long> left{-1};           // allocations until the one that fails; below 0 none does any more
std::atomic<bool> armed{false};

bool fails(void* caller, bool by_new) {
    if (!armed.load(std::memory_order_relaxed)) return false;
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(caller);
    for (std::size_t i = 0; i < (by_new ? n_ranges : n_own); ++i) {
        if (at >= begins[i] && at < ends[i]) return left.fetch_sub(1) == 0;
    }
    return false;
}

}  // namespace

extern "C" {

void watch(std::uintptr_t begin, std::uintptr_t end, bool own) {
    if (n_ranges == MOST) return;
    begins[n_ranges] = begin;
    ends[n_ranges++] = end;
    if (own) n_own = n_ranges;
}

// From now on the n-th allocation fails, counted from 0.
void arm(long n) {
    left = n;
    armed = true;
}

// Whether one has failed.
bool disarm() {
    armed = false;
    return left < 0;
}

void* malloc(std::size_t size) {
    return fails(__builtin_return_address(0), false) ? (errno = ENOMEM, nullptr) : __libc_malloc(size);
}

void* calloc(std::size_t n, std::size_t size) {
    return fails(__builtin_return_address(0), false) ? (errno = ENOMEM, nullptr) : __libc_calloc(n, size);
}

void* realloc(void* old, std::size_t size) {
    return fails(__builtin_return_address(0), false) ? (errno = ENOMEM, nullptr) : __libc_realloc(old, size);
}

int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
    if (fails(__builtin_return_address(0), false)) return ENOMEM;
    *out = __libc_memalign(alignment, size);
    return *out == nullptr ? ENOMEM : 0;
}

}  // extern "C"

void* operator new(std::size_t size) {
    void* made = fails(__builtin_return_address(0), true) ? nullptr : __libc_malloc(size == 0 ? 1 : size);
    if (made == nullptr) throw std::bad_alloc();
    return made;
}

void* operator new[](std::size_t size) {
    void* made = fails(__builtin_return_address(0), true) ? nullptr : __libc_malloc(size == 0 ? 1 : size);
    if (made == nullptr) throw std::bad_alloc();
    return made;
}
