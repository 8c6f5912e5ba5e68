// The ids of a batch, put in order while threads are still encoding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "large_array.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// A growable array. Large ones grow without a copy where realloc can remap pages.
class IdBuffer {
public:
    IdBuffer() = default;
    IdBuffer(const IdBuffer&) = delete;
    IdBuffer& operator=(const IdBuffer&) = delete;
    ~IdBuffer() { std::free(data_); }

    const token_id_t* data() const { return data_; }
    std::size_t size() const { return size_; }

    void append(const token_id_t* ids, std::size_t n) {
        if (capacity_ - size_ < n) reserve(std::max(size_ + n, capacity_ + capacity_ / 2));
        if (n != 0) std::memcpy(data_ + size_, ids, n * sizeof *ids);
        size_ += n;
    }

    void reserve(std::size_t capacity) {
        if (capacity <= capacity_) return;
        void* larger = std::realloc(data_, capacity * sizeof *data_);
        if (larger == nullptr) throw std::bad_alloc();
        data_ = static_cast<token_id_t*>(larger);
        capacity_ = capacity;
        ask_for_huge_pages(data_, capacity * sizeof *data_);
    }

    // Transfers ownership of the array, to be freed with std::free. Null if there are no ids.
    token_id_t* release() {
        if (size_ == 0) return nullptr;
        void* trimmed = std::realloc(data_, size_ * sizeof *data_);
        token_id_t* data = trimmed ? static_cast<token_id_t*>(trimmed) : data_;
        data_ = nullptr;
        size_ = capacity_ = 0;
        return data;
    }

private:
    token_id_t* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

// The output of tasks 0, 1, 2, … in this order, whichever finishes first.
class IdList {
public:
    void put(std::size_t task, const token_id_t* ids, std::size_t n) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (task != next_) {
            early_.emplace(task, std::vector<token_id_t>(ids, ids + n));
            return;
        }
        ids_.append(ids, n);
        ++next_;
        for (auto it = early_.begin(); it != early_.end() && it->first == next_; it = early_.erase(it)) {
            ids_.append(it->second.data(), it->second.size());
            ++next_;
        }
    }

    IdBuffer& ids() { return ids_; }

private:
    std::mutex mutex_;
    std::size_t next_ = 0;
    std::map<std::size_t, std::vector<token_id_t>> early_;
    IdBuffer ids_;
};

}  // namespace hf_scaffold
