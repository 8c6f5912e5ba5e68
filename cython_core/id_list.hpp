// The ids of a batch, put in order while threads are still encoding.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

#include "large_array.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// A growable array of token_id_t or, if they are short, std::uint16_t. Large ones grow without a copy where realloc can
// remap pages.
class IdBuffer {
public:
    IdBuffer() = default;
    IdBuffer(const IdBuffer&) = delete;
    IdBuffer& operator=(const IdBuffer&) = delete;
    ~IdBuffer() { std::free(data_); }

    // Call it before the first ids come.
    void make_short() { is_short_ = true; }

    bool is_short() const { return is_short_; }
    const void* data() const { return data_; }
    std::size_t size() const { return size_; }

    // Makes room for `n_expected` ids, if it needs more room at all. Throws std::overflow_error if an id has more bits than
    // there are.
    void append(const token_id_t* ids, std::size_t n, std::size_t n_expected) {
        if (capacity_ - size_ < n) reserve(std::max({size_ + n, capacity_ + capacity_ / 2, n_expected}));
        if (is_short_) {
            shorten(ids, n, static_cast<std::uint16_t*>(data_) + size_);
        } else if (n != 0) {
            std::memcpy(static_cast<token_id_t*>(data_) + size_, ids, n * sizeof *ids);
        }
        size_ += n;
    }

    void reserve(std::size_t capacity) {
        if (capacity <= capacity_) return;
        void* larger = std::realloc(data_, capacity * width());
        if (larger == nullptr) throw std::bad_alloc();
        data_ = larger;
        capacity_ = capacity;
        ask_for_huge_pages(data_, capacity * width());
    }

    // Transfers ownership of the array, to be freed with std::free. Null if there are no ids.
    void* release() {
        if (size_ == 0) return nullptr;
        void* const trimmed = std::realloc(data_, size_ * width());
        void* const data = trimmed != nullptr ? trimmed : data_;
        data_ = nullptr;
        size_ = capacity_ = 0;
        return data;
    }

private:
    std::size_t width() const { return is_short_ ? sizeof(std::uint16_t) : sizeof(token_id_t); }

    static void shorten(const token_id_t* ids, std::size_t n, std::uint16_t* out) {
        std::uint32_t bits = 0;
        for (std::size_t i = 0; i < n; ++i) {
            const auto id = static_cast<std::uint32_t>(ids[i]);
            bits |= id;
            out[i] = static_cast<std::uint16_t>(id);
        }
        if (bits >> 16 != 0) throw std::overflow_error("an id is above 65535, too large for uint16");
    }

    void* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
    bool is_short_ = false;
};

// The ids of tasks 0, 1, 2, … in this order, whichever finishes first: joined, or to be taken task by task.
class IdList {
public:
    // Call it before the first put(). Joined ids then find room made for so many tasks like those before: growing in
    // small steps would touch most of the memory in small pages.
    void expect(std::size_t n_tasks) { n_tasks_ = n_tasks; }

    // Lets take() give them, instead of joining them. Call it before the first put().
    void keep_apart() { is_apart_ = true; }

    // The ids of a task.
    using Piece = std::vector<token_id_t>;

    void put(std::size_t task, const token_id_t* ids, std::size_t n) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (is_apart_ || task != next_) {
            Piece piece = spare();
            piece.assign(ids, ids + n);
            early_.emplace(task, std::move(piece));
            return;
        }
        ++next_;
        join(ids, n);
        for (Piece piece; take_next(piece);) join(piece.data(), piece.size());
    }

    IdBuffer& ids() { return ids_; }

    bool is_ready() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return is_next_there();
    }

    // The next task's ids, if they are there, in place of those that were taken last.
    bool take(Piece& piece) {
        const std::lock_guard<std::mutex> lock(mutex_);
        return take_next(piece);
    }

private:
    // Those of the task before `next_`.
    void join(const token_id_t* ids, std::size_t n) {
        const double part = static_cast<double>(next_) / static_cast<double>(n_tasks_);
        const double n_expected = 1.125 * static_cast<double>(ids_.size() + n) / part;
        ids_.append(ids, n, static_cast<std::size_t>(n_expected));
    }

    bool is_next_there() const { return !early_.empty() && early_.begin()->first == next_; }

    bool take_next(Piece& piece) {
        if (!is_next_there()) return false;
        piece.swap(early_.begin()->second);
        spares_.push_back(std::move(early_.begin()->second));
        early_.erase(early_.begin());
        ++next_;
        return true;
    }

    // Memory of a piece that was taken: to touch new memory takes about as long as encoding.
    Piece spare() {
        if (spares_.empty()) return {};
        Piece piece = std::move(spares_.back());
        spares_.pop_back();
        return piece;
    }

    std::mutex mutex_;
    bool is_apart_ = false;
    std::size_t next_ = 0, n_tasks_ = 0;
    std::map<std::size_t, Piece> early_;
    std::vector<Piece> spares_;
    IdBuffer ids_;
};

}  // namespace hf_scaffold
