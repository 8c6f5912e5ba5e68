// Lines, and the texts of JSON Lines: of each line, an object, the string in one field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "interrupt.hpp"
#include "json_cursor.hpp"
#include "utf8.hpp"

namespace hf_scaffold {

// Appends where each line ends: after its line end, or with the data.
inline void find_line_ends(const char* data, std::size_t size, std::vector<std::int64_t>& ends) {
    for (const char *at = data, *end = data + size; at != end;) {
        const void* found = std::memchr(at, '\n', static_cast<std::size_t>(end - at));
        at = found == nullptr ? end : static_cast<const char*>(found) + 1;
        ends.push_back(at - data);
    }
}

// Reads lines up to the first that Python's reader must take: one that is malformed, has no text in the field, or is
// unusual otherwise.
class JsonLines {
public:
    // `out` has room for `size` bytes and SPARE more.
    JsonLines(const char* data, std::size_t size, std::string_view field, char* out)
        : at_(data),
          end_(data + size),
          field_(field),
          out_(out),
          begin_(out),
          cursor_({data, size}, unescaped_, JsonCursor::ONE_A_LINE) {}
    JsonLines(const JsonLines&) = delete;
    JsonLines& operator=(const JsonLines&) = delete;

    void run(Interrupt& interrupt) {
        Steps steps(interrupt);
        for (; at_ != end_ && read(); ++n_lines_) steps.next();
    }

    const char* at() const { return at_; }
    std::size_t n_lines() const { return n_lines_; }
    // Where each text ends in `out`; empty ones are left out.
    const std::vector<std::int64_t>& ends() const { return ends_; }

    static constexpr std::size_t SPARE = JsonCursor::SPARE;

private:
    // Appends the line's text, if it has one that isn't empty; false if it is for Python's reader.
    bool read() {
        unescaped_.clear();
        char* text_end = nullptr;
        try {
            if (!cursor_.is_at_end()) {
                cursor_.object([&](std::string_view key) {
                    if (key == field_) {
                        text_end = cursor_.string_to(out_);  // of several values the last counts
                    } else {
                        cursor_.check();
                    }
                });
                if (text_end == nullptr) return false;
            }
            cursor_.end();
        } catch (const Unusual&) {
            return false;
        }
        if (cursor_.take_is_beyond_ascii() && !is_valid_utf8(as_bytes(at_), as_bytes(cursor_.at()))) return false;
        at_ = cursor_.at();
        if (text_end != nullptr && text_end != out_) {
            out_ = text_end;
            ends_.push_back(out_ - begin_);
        }
        return true;
    }

    static const byte_t* as_bytes(const char* at) { return reinterpret_cast<const byte_t*>(at); }

    const char* at_;  // where the next line begins
    const char* end_;
    std::string_view field_;
    char* out_;
    const char* begin_;
    std::size_t n_lines_ = 0;
    std::vector<std::int64_t> ends_;
    std::deque<std::string> unescaped_;
    JsonCursor cursor_;
};

}  // namespace hf_scaffold
