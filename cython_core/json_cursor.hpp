// JSON read in place: strings are views, and nothing is made that nobody asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "simd.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// Thrown where a document isn't what its reader takes, malformed or not. Whoever catches it leaves the document to
// Python's reader, which takes all there is and names what is wrong.
struct Unusual {};

// A position in a document, or in several of one line each. They outlive it, and are valid UTF-8, which it doesn't check;
// it only tells whether they are ASCII. Strings with escapes are kept in `unescaped`.
class JsonCursor {
public:
    enum Documents : bool { ONE, ONE_A_LINE };

    JsonCursor(std::string_view text, std::deque<std::string>& unescaped, Documents documents = ONE)
        : at_(text.data()), end_(at_ + text.size()), unescaped_(unescaped), documents_(documents) {}

    const char* at() const { return at_; }

    // Whether all strings since the last call may have had other characters than ASCII; if not, nothing else had.
    bool take_is_beyond_ascii() { return std::exchange(beyond_ascii_, Bytes16::all(0)).bits() != 0; }

    // Calls entry(key) for each, which has to read the value.
    template <class Entry>
    void object(Entry entry) {
        entries([&] {
            const std::string_view key = string();
            colon();
            entry(key);
        });
    }

    // Calls entry() for each, which has to read the key, the colon and the value.
    template <class Entry>
    void entries(Entry entry) {
        expect('{');
        if (next() == '}') return expect('}');
        do entry();
        while (goes_on('}'));
    }

    void colon() { expect(':'); }

    // Calls item() for each, which has to read it.
    template <class Item>
    void array(Item item) {
        expect('[');
        if (next() == ']') return expect(']');
        do item();
        while (goes_on(']'));
    }

    std::string_view string() {
        expect('"');
        const char* begin = at_;
        pass_plain([](const char*, std::size_t) {});
        if (at_ != end_ && *at_ == '"') return {begin, static_cast<std::size_t>(at_++ - begin)};
        return unescape(begin);
    }

    // Writes a string to `out` and returns its end there. It takes no more room than in the document, and SPARE bytes.
    char* string_to(char* out) {
        expect('"');
        while (true) {
            const char* begin = at_;
            pass_plain([&](const char* some, std::size_t n) { std::memcpy(out + (some - begin), some, n); });
            out += at_ - begin;
            if (at_ != end_ && *at_ == '"') break;
            escape([&](std::uint32_t code) { out = put_utf8(code, out); });
        }
        ++at_;
        return out;
    }

    static constexpr std::size_t SPARE = 16;

    void pass_string() {
        expect('"');
        while (true) {
            pass_plain([](const char*, std::size_t) {});
            if (at_ != end_ && *at_ == '"') break;
            escape([](std::uint32_t) {});
        }
        ++at_;
    }

    // A whole number from 0 to the largest id.
    token_id_t id() {
        constexpr std::int64_t LARGEST = std::numeric_limits<token_id_t>::max();
        next();
        const char* begin = at_;
        std::int64_t number = 0;
        while (at_ != end_ && *at_ >= '0' && *at_ <= '9' && number <= LARGEST) number = number * 10 + (*at_++ - '0');
        const bool has_zeros = at_ - begin > 1 && *begin == '0';
        if (at_ == begin || has_zeros || number > LARGEST) throw Unusual{};
        return static_cast<token_id_t>(number);
    }

    // The text of the value that read() reads.
    template <class Read>
    std::string_view text(Read read) {
        next();
        const char* begin = at_;
        read();
        return {begin, static_cast<std::size_t>(at_ - begin)};
    }

    // Any value. Of numbers and names it only sees where they end: it is for what is read once more.
    void skip(int depth = 64) {
        if (depth == 0) throw Unusual{};
        const char first = next();
        if (first == '{') {
            entries([&] {
                pass_string();
                colon();
                skip(depth - 1);
            });
        } else if (first == '[') {
            array([&] { skip(depth - 1); });
        } else if (first == '"') {
            pass_string();
        } else {
            const char* begin = at_;
            while (at_ != end_ && *at_ > ' ' && *at_ != ',' && *at_ != ']' && *at_ != '}') ++at_;
            if (at_ == begin) throw Unusual{};
        }
    }

    // Any value, as Python's reader takes it; some that it takes are unusual: NaN, numbers of very many digits.
    void check(int depth = 64) {
        if (depth == 0) throw Unusual{};
        const char first = next();
        if (first == '{') {
            entries([&] {
                pass_string();
                colon();
                check(depth - 1);
            });
        } else if (first == '[') {
            array([&] { check(depth - 1); });
        } else if (first == '"') {
            pass_string();
        } else if (first == 't' || first == 'f' || first == 'n') {
            const std::string_view name = first == 't' ? "true" : first == 'f' ? "false" : "null";
            if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).substr(0, name.size()) != name) {
                throw Unusual{};
            }
            at_ += name.size();
        } else {
            check_number();
        }
    }

    // Whether nothing comes any more, on the line where each is a document.
    bool is_at_end() { return next() == '\0' ? at_ == end_ : *at_ == '\n'; }

    // Goes past the end of the document, which must be there.
    void end() {
        if (!is_at_end()) throw Unusual{};
        if (at_ != end_) ++at_;
    }

    // The first character of what comes; 0 at the end.
    char next() {
        if (at_ != end_ && is_space(*at_)) pass_spaces();
        return at_ != end_ ? *at_ : '\0';
    }

private:
    static bool is_plain(char c) { return c != '"' && c != '\\' && static_cast<byte_t>(c) >= 0x20; }

    bool is_space(char c) const { return c == ' ' || c == '\r' || c == '\t' || (c == '\n' && documents_ == ONE); }

    void pass_spaces() {
        for (; documents_ == ONE && end_ - at_ >= 16; at_ += 16) {
            const Bytes16 some = Bytes16::load(at_);
            const Bytes16 spaces = some.equal(' ') | some.equal('\n') | some.equal('\r') | some.equal('\t');
            const unsigned others = spaces.bits() ^ 0xFFFF;
            if (others == 0) continue;
            at_ += trailing_zeros(others);
            return;
        }
        while (at_ != end_ && is_space(*at_)) ++at_;
    }

    void expect(char c) {
        if (next() != c || at_ == end_) throw Unusual{};
        ++at_;
    }

    bool goes_on(char last) {
        const bool is_last = next() == last;
        expect(is_last ? last : ',');
        return !is_last;
    }

    // Goes to the first character of a string that isn't plain; seen(some, n) is called for each n bytes looked at.
    template <class Seen>
    void pass_plain(Seen seen) {
        for (; end_ - at_ >= 16; at_ += 16) {
            const Bytes16 some = Bytes16::load(at_);
            seen(at_, 16);
            beyond_ascii_ = beyond_ascii_ | some;
            const unsigned found = (some.equal('"') | some.equal('\\') | some.in_range(0, 0x20)).bits();
            if (found == 0) continue;
            at_ += trailing_zeros(found);
            return;
        }
        for (; at_ != end_ && is_plain(*at_); ++at_) {
            seen(at_, 1);
            if (static_cast<byte_t>(*at_) >= 0x80) beyond_ascii_ = Bytes16::all(0x80);
        }
    }

    void check_number() {
        const char* begin = at_;
        if (at_ != end_ && *at_ == '-') ++at_;
        if (at_ != end_ && *at_ == '0') {
            ++at_;
        } else {
            digits();
        }
        if (at_ != end_ && *at_ == '.') {
            ++at_;
            digits();
        }
        if (at_ != end_ && (*at_ | 0x20) == 'e') {
            ++at_;
            if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
            digits();
        }
        if (at_ - begin > MOST_DIGITS) throw Unusual{};
    }

    void digits() {
        const char* begin = at_;
        while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
        if (at_ == begin) throw Unusual{};
    }

    // The string that goes on with an escape, or with what no string has.
    std::string_view unescape(const char* begin) {
        std::string& text = unescaped_.emplace_back(begin, at_);
        while (at_ != end_ && *at_ != '"') {
            if (is_plain(*at_)) {
                text += *at_++;
            } else {
                escape([&](std::uint32_t code) {
                    char utf8[4];
                    text.append(utf8, put_utf8(code, utf8));
                });
            }
        }
        expect('"');
        return text;
    }

    // Calls put(code point).
    template <class Put>
    void escape(Put put) {
        if (end_ - at_ < 2 || *at_ != '\\') throw Unusual{};
        const char kind = at_[1];
        at_ += 2;
        if (kind == 'u') {
            put(code_point());
        } else {
            const char meant = ESCAPES.meant[static_cast<byte_t>(kind)];
            if (meant == 0) throw Unusual{};
            put(static_cast<std::uint32_t>(meant));
        }
    }

    std::uint32_t code_point() {
        const std::uint32_t unit = code_unit();
        if (unit < 0xD800 || unit > 0xDFFF) return unit;
        if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') throw Unusual{};
        at_ += 2;
        const std::uint32_t low = code_unit();
        if (unit > 0xDBFF || low < 0xDC00 || low > 0xDFFF) throw Unusual{};
        return 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }

    std::uint32_t code_unit() {
        if (end_ - at_ < 4) throw Unusual{};
        const auto digit = [this](int i) {
            return static_cast<std::uint32_t>(ESCAPES.digits[static_cast<byte_t>(at_[i])]);
        };
        const std::uint32_t unit = digit(0) << 12 | digit(1) << 8 | digit(2) << 4 | digit(3);
        if (unit > 0xFFFF) throw Unusual{};  // one is none, -1
        at_ += 4;
        return unit;
    }

    static char* put_utf8(std::uint32_t code, char* out) {
        const auto tail = [code](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
        if (code < 0x80) {
            *out++ = static_cast<char>(code);
        } else if (code < 0x800) {
            *out++ = static_cast<char>(0xC0 | code >> 6);
            *out++ = tail(0);
        } else if (code < 0x10000) {
            *out++ = static_cast<char>(0xE0 | code >> 12);
            *out++ = tail(6);
            *out++ = tail(0);
        } else {
            *out++ = static_cast<char>(0xF0 | code >> 18);
            *out++ = tail(12);
            *out++ = tail(6);
            *out++ = tail(0);
        }
        return out;
    }

    // By byte: what stands for it after a backslash, or 0; and its value as a hexadecimal digit, or -1. Tables, since a
    // branch on what text has is often predicted wrongly.
    struct Escapes {
        char meant[256] = {};
        std::int8_t digits[256] = {};

        constexpr Escapes() {
            for (const char c : {'"', '\\', '/'}) meant[static_cast<byte_t>(c)] = c;
            meant['b'] = '\b';
            meant['f'] = '\f';
            meant['n'] = '\n';
            meant['r'] = '\r';
            meant['t'] = '\t';
            for (std::int8_t& digit : digits) digit = -1;
            for (int i = 0; i < 10; ++i) digits['0' + i] = static_cast<std::int8_t>(i);
            for (int i = 10; i < 16; ++i) digits['a' + i - 10] = digits['A' + i - 10] = static_cast<std::int8_t>(i);
        }
    };
    static const Escapes ESCAPES;

    // Python refuses numbers of more digits than a setting says, 640 at least.
    static constexpr std::ptrdiff_t MOST_DIGITS = 640;

    const char* at_;
    const char* end_;
    std::deque<std::string>& unescaped_;
    Documents documents_;
    Bytes16 beyond_ascii_ = Bytes16::all(0);  // bits() is not 0 once there were such characters
};

inline constexpr JsonCursor::Escapes JsonCursor::ESCAPES{};

}  // namespace hf_scaffold
