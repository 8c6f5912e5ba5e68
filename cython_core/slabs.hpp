// Room for blocks of ids, which one after another are cut off slabs. A malloc for each would take longer than merging.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "widths.hpp"

namespace hf_scaffold {

class Slabs {
public:
    explicit Slabs(std::size_t most_bytes) : most_bytes_(most_bytes) {}
    Slabs(const Slabs&) = delete;
    Slabs& operator=(const Slabs&) = delete;
    ~Slabs() {
        for (const std::atomic<Slab*>* list : {&last_, &last_large_}) {
            for (const Slab* slab = list->load(); slab != nullptr;) delete std::exchange(slab, slab->previous);
        }
    }

    std::size_t n_bytes() const { return n_bytes_.load(std::memory_order_relaxed); }

    // Room for so many ids, as long as these slabs; null if that would be more than most_bytes in all. Any thread may
    // call this.
    token_id_t* block(std::size_t size) {
        if (size > SLAB / 4) return large_block(size);
        for (;;) {
            Slab* last = last_.load(std::memory_order_acquire);
            if (last != nullptr) {
                const std::size_t at = last->used.fetch_add(size, std::memory_order_relaxed);
                if (at + size <= SLAB) return last->words.get() + at;
            }
            std::unique_ptr<Slab> slab = make_slab(SLAB, size, last);
            if (slab == nullptr) return nullptr;
            if (last_.compare_exchange_strong(last, slab.get(), std::memory_order_acq_rel)) {
                return slab.release()->words.get();
            }
            n_bytes_.fetch_sub(SLAB * sizeof(token_id_t), std::memory_order_relaxed);
        }
    }

private:
    static constexpr std::size_t SLAB = std::size_t{1} << 14;  // ids: 64 KB

    struct Slab {
        Slab(std::size_t size, std::size_t used, Slab* previous)
            : words(new token_id_t[size]), used(used), previous(previous) {}

        std::unique_ptr<token_id_t[]> words;
        std::atomic<std::size_t> used;  // beyond the size once it is full
        Slab* previous;
    };

    // A slab of its own.
    token_id_t* large_block(std::size_t size) {
        std::unique_ptr<Slab> slab = make_slab(size, size, last_large_.load(std::memory_order_acquire));
        if (slab == nullptr) return nullptr;
        while (!last_large_.compare_exchange_weak(slab->previous, slab.get(), std::memory_order_acq_rel)) {
        }
        return slab.release()->words.get();
    }

    std::unique_ptr<Slab> make_slab(std::size_t size, std::size_t used, Slab* previous) {
        const std::size_t n = size * sizeof(token_id_t);
        auto slab = std::make_unique<Slab>(size, used, previous);
        for (std::size_t taken = n_bytes(); taken + n <= most_bytes_;) {
            if (n_bytes_.compare_exchange_weak(taken, taken + n, std::memory_order_relaxed)) return slab;
        }
        return nullptr;
    }

    const std::size_t most_bytes_;
    std::atomic<Slab*> last_{nullptr}, last_large_{nullptr};
    std::atomic<std::size_t> n_bytes_{0};
};

}  // namespace hf_scaffold
