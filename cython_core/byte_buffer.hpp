// Bytes that grow at the end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <new>

#include "large_array.hpp"
#include "transcode.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

// After the last byte there is room for AT_ONCE more, which may be read and written.
class ByteBuffer {
public:
    void clear() { size_ = 0; }

    const byte_t* begin() const { return memory_.get(); }
    const byte_t* end() const { return memory_.get() + size_; }
    std::size_t size() const { return size_; }

    // Where `n` more bytes, and AT_ONCE, may be written; then call end_at(). Invalidates pointers.
    byte_t* room_for(std::size_t n) {
        if (memory_.size() < AT_ONCE || n > memory_.size() - AT_ONCE - size_) {
            if (n > std::numeric_limits<std::size_t>::max() / 2 - 2 * size_ - AT_ONCE) throw std::bad_alloc();
            memory_.more_room_for(std::max(2 * size_, size_ + n) + AT_ONCE, size_);
        }
        return memory_.get() + size_;
    }

    void end_at(const byte_t* end) { size_ = static_cast<std::size_t>(end - memory_.get()); }

    void append(const byte_t* begin, const byte_t* end) {
        const auto n = static_cast<std::size_t>(end - begin);
        byte_t* const out = room_for(n);
        if (n != 0) std::memcpy(out, begin, n);
        size_ += n;
    }

private:
    Scratch<byte_t> memory_;
    std::size_t size_ = 0;
};

}  // namespace hf_scaffold
