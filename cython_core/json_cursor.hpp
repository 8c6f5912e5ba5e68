// JSON read in place: strings are views, and nothing is made that nobody asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <string>
#include <string_view>

#include "simd.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// Thrown where a document isn't what its reader takes, malformed or not. Whoever catches it leaves the document to
// Python's reader, which takes all there is and names what is wrong.
struct Unusual {};

// A position in a document, which is valid UTF-8 and outlives it. Strings with escapes are kept in `unescaped`.
class JsonCursor {
public:
    JsonCursor(std::string_view document, std::deque<std::string>& unescaped)
        : at_(document.data()), end_(at_ + document.size()), unescaped_(unescaped) {}

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
        pass_plain();
        if (at_ != end_ && *at_ == '"') return {begin, static_cast<std::size_t>(at_++ - begin)};
        return unescape(begin);
    }

    // Writes a string to `out` and returns its end there. It takes no more room than in the document, and SPARE bytes.
    char* string_to(char* out) {
        expect('"');
        while (true) {
            const char* begin = at_;
            at_ = end_of_plain(begin, end_, [&](const char* some) { std::memcpy(out + (some - begin), some, SPARE); });
            for (out += at_ - begin; at_ != end_ && is_plain(*at_);) *out++ = *at_++;
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
            pass_plain();
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

    // Nothing may come any more.
    void end() {
        next();
        if (at_ != end_) throw Unusual{};
    }

    // The first character of what comes; 0 at the end.
    char next() {
        if (at_ != end_ && is_space(*at_)) pass_spaces();
        return at_ != end_ ? *at_ : '\0';
    }

private:
    static bool is_plain(char c) { return c != '"' && c != '\\' && static_cast<byte_t>(c) >= 0x20; }

    static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

    void pass_spaces() {
        for (; end_ - at_ >= 16; at_ += 16) {
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

    // From `at` up to a multiple of 16 bytes of plain characters, and to the first that isn't, if that is found among
    // the next 16; seen(some) is called for each 16 bytes looked at.
    template <class Seen>
    static const char* end_of_plain(const char* at, const char* end, Seen seen) {
        for (; end - at >= 16; at += 16) {
            const Bytes16 some = Bytes16::load(at);
            seen(at);
            const unsigned found = (some.equal('"') | some.equal('\\') | some.in_range(0, 0x20)).bits();
            if (found != 0) return at + trailing_zeros(found);
        }
        return at;
    }

    void pass_plain() {
        at_ = end_of_plain(at_, end_, [](const char*) {});
        while (at_ != end_ && is_plain(*at_)) ++at_;
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
        if (at_ == end_ || *at_++ != '\\' || at_ == end_) throw Unusual{};
        switch (const char c = *at_++) {
            case '"':
            case '\\':
            case '/': put(static_cast<std::uint32_t>(c)); break;
            case 'b': put('\b'); break;
            case 'f': put('\f'); break;
            case 'n': put('\n'); break;
            case 'r': put('\r'); break;
            case 't': put('\t'); break;
            case 'u': put(code_point()); break;
            default: throw Unusual{};
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
        std::uint32_t unit = 0;
        for (int i = 0; i < 4; ++i) {
            const char c = *at_++;
            const bool is_digit = c >= '0' && c <= '9';
            const char letter = static_cast<char>(c | 0x20);
            if (!is_digit && !(letter >= 'a' && letter <= 'f')) throw Unusual{};
            unit = unit << 4 | static_cast<std::uint32_t>(is_digit ? c - '0' : letter - 'a' + 10);
        }
        return unit;
    }

    static char* put_utf8(std::uint32_t code, char* out) {
        if (code < 0x80) {
            *out++ = static_cast<char>(code);
            return out;
        }
        const int n_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        *out++ = static_cast<char>((0xFF00 >> (n_more + 1) & 0xFF) | code >> 6 * n_more);
        for (int i = n_more - 1; i >= 0; --i) *out++ = static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
        return out;
    }

    // Python refuses numbers of more digits than a setting says, 640 at least.
    static constexpr std::ptrdiff_t MOST_DIGITS = 640;

    const char* at_;
    const char* end_;
    std::deque<std::string>& unescaped_;
};

}  // namespace hf_scaffold
