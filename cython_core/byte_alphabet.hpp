// GPT-2's byte-level alphabet: one visible character for each byte.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "utf8.hpp"

namespace hf_scaffold {

class ByteAlphabet {
public:
    // Writes the bytes in this alphabet, as UTF-8, to `room`; the result is valid as long as that stays.
    static const byte_t* write(const byte_t* bytes, std::size_t& n, std::vector<byte_t>& room) {
        const std::array<Written, 256>& alphabet = all();
        room.resize(2 * n);
        byte_t* out = room.data();
        for (std::size_t i = 0; i < n; ++i) {
            const Written& written = alphabet[bytes[i]];
            out[0] = written.bytes[0];
            out[written.n - 1] = written.bytes[written.n - 1];
            out += written.n;
        }
        n = static_cast<std::size_t>(out - room.data());
        return room.data();
    }

    struct Written {
        byte_t bytes[2];
        std::size_t n;
    };

    // By byte.
    static const std::array<Written, 256>& all() {
        static const std::array<Written, 256> alphabet = make();
        return alphabet;
    }

private:
    static bool is_printable(unsigned byte) {
        return (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD && byte <= 0xFF);
    }

    // Bytes that are no printable character of Latin-1 have the characters from U+0100 on.
    static std::array<Written, 256> make() {
        std::array<Written, 256> alphabet{};
        unsigned next = 0x100;
        for (unsigned byte = 0; byte < 256; ++byte) {
            const unsigned code = is_printable(byte) ? byte : next++;
            Written& written = alphabet[byte];
            written.n = code < 0x80 ? 1 : 2;
            written.bytes[0] = static_cast<byte_t>(code < 0x80 ? code : 0xC0 | code >> 6);
            written.bytes[1] = static_cast<byte_t>(0x80 | (code & 0x3F));
        }
        return alphabet;
    }
};

}  // namespace hf_scaffold
