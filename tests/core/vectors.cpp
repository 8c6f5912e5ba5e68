// What the parts with vectors make of texts, one line for each; tests/core/test_vectors.py compares processors.
//
//     vectors TEXTS MODEL LINES
//
// TEXTS: of each text the number of its bytes, uint32, and its UTF-8. MODEL: the tokens of the 256 bytes, and of each
// rule the left, right and merged token; int32. LINES: JSON Lines. All numbers are little-endian.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "bpe_encoder.hpp"
#include "json_lines.hpp"
#include "metaspace.hpp"
#include "scan.hpp"
#include "transcode.hpp"
#include "window.hpp"

using namespace hf_scaffold;

static std::string content(const char* path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
}

static bool no_signals() { return false; }

// FNV-1a.
static std::uint64_t digest(const void* data, std::size_t size, std::uint64_t hash = 0xCBF29CE484222325) {
    for (std::size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const byte_t*>(data)[i]) * 0x100000001B3;
    return hash;
}

static std::unique_ptr<BpeEncoder> encoder_of(const std::string& model) {
    std::vector<token_id_t> numbers(model.size() / sizeof(token_id_t));
    std::memcpy(numbers.data(), model.data(), numbers.size() * sizeof(token_id_t));
    const std::size_t n_rules = (numbers.size() - 256) / 3;
    auto encoder = std::make_unique<BpeEncoder>(n_rules);
    for (unsigned byte = 0; byte < 256; ++byte) encoder->set_byte(static_cast<byte_t>(byte), numbers[byte]);
    for (const token_id_t* rule = &numbers[256]; rule != numbers.data() + 256 + 3 * n_rules; rule += 3) {
        encoder->add_rule(rule[0], rule[1], rule[2]);
    }
    return encoder;
}

// Where pre-tokens begin and end, by windows where there are vectors; and whether one after the other is the same.
template <class Rules>
static void show_pretokens(Rules rules, const byte_t* begin, const byte_t* end, const BpeEncoder& encoder) {
    std::vector<std::ptrdiff_t> bounds, singly;
    std::vector<token_id_t> ids;
    BpeEncoder::Work work;
    scan_in_batches(rules, begin, end, [&](const byte_t* const* at, std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            bounds.push_back(at[i + 1] - begin);
            encoder.encode(at[i], static_cast<std::size_t>(at[i + 1] - at[i]), work, ids);
        }
    });
    for (const byte_t* at = begin; at != end; singly.push_back(at - begin)) at = rules.next(at, end);
    std::printf(
        " %zu:%016llx:%016llx%s", bounds.size(),
        static_cast<unsigned long long>(digest(bounds.data(), bounds.size() * sizeof bounds[0])),
        static_cast<unsigned long long>(digest(ids.data(), ids.size() * sizeof ids[0])),
        bounds == singly ? "" : " OTHERS ONE BY ONE");
}

// The masks of windows that begin anywhere, inside characters, too. Plain loops don't need them.
template <bool has_cases>
static void show_windows(const byte_t* begin, const byte_t* end) {
    std::uint64_t hash = 0;
    for (const byte_t* at = begin; end - at >= static_cast<std::ptrdiff_t>(WINDOW_SIZE) + 3; ++at) {
        const Window<has_cases> w(at, at);
        for (const std::uint64_t mask :
             {w.letters, w.numbers, w.digits, w.spaces, w.blanks, w.newlines, w.quotes, w.long_spaces, w.tails, w.upper,
              w.lower, w.marks, w.slashes}) {
            hash = digest(&mask, sizeof mask, hash);
        }
    }
    std::printf(" %016llx", static_cast<unsigned long long>(hash));
}

// Characters up to U+FFFF, as Python stores them, to UTF-8 and back.
static void show_transcoded(const byte_t* begin, const byte_t* end) {
    std::vector<std::uint16_t> units;
    for (const byte_t* at = begin; at != end;) {
        const std::size_t length = character_length(at, end);
        if (length == 1) units.push_back(at[0]);
        if (length == 2) units.push_back(static_cast<std::uint16_t>((at[0] & 0x1F) << 6 | (at[1] & 0x3F)));
        if (length == 3) {
            units.push_back(static_cast<std::uint16_t>((at[0] & 0x0F) << 12 | (at[1] & 0x3F) << 6 | (at[2] & 0x3F)));
        }
        at += length;
    }
    std::vector<byte_t> utf8(3 * units.size() + AT_ONCE);
    const byte_t* stop = to_utf8(units.data(), units.data() + units.size(), utf8.data());
    std::printf(
        " %016llx", static_cast<unsigned long long>(digest(utf8.data(), static_cast<std::size_t>(stop - utf8.data()))));
}

// Whether the text, with another byte in its middle, is taken as far as one character after another is.
static void show_valid(const byte_t* begin, std::size_t size) {
    std::vector<byte_t> text(begin, begin + size);
    for (const unsigned byte : {0x61, 0x80, 0x9F, 0xA0, 0xC0, 0xC2, 0xE0, 0xE1, 0xED, 0xF0, 0xF3, 0xF4, 0xF5}) {
        if (size != 0) text[size / 2] = static_cast<byte_t>(byte);
        const byte_t *wanted = text.data(), *const end = wanted + size;
        for (std::size_t length = 1; wanted != end && (length = character_length(wanted, end)) != 0;) wanted += length;
        if (end_of_valid_utf8(text.data(), end) != wanted) std::printf(" with %x VALID ELSEWHERE", byte);
    }
}

// The text with a byte in place of each ▁, from wherever it begins.
static void show_shortened(const byte_t* begin, const byte_t* end) {
    std::vector<byte_t> out(static_cast<std::size_t>(end - begin));
    std::uint64_t hash = digest(nullptr, 0);
    for (const byte_t* at = begin; at != end; ++at) {
        const auto size = static_cast<std::size_t>(end - at);
        hash = digest(out.data(), shorten_metaspaces(at, size, 0xFD, out.data()), hash);
    }
    std::printf(" %016llx", static_cast<unsigned long long>(hash));
}

int main(int n_arguments, char** arguments) {
    if (n_arguments != 4) return 2;
    const std::string texts = content(arguments[1]), lines = content(arguments[3]);
    const std::unique_ptr<BpeEncoder> encoder = encoder_of(content(arguments[2]));
    encoder->prepare();
    for (std::size_t at = 0; at < texts.size();) {
        std::uint32_t size;
        std::memcpy(&size, &texts[at], sizeof size);
        at += sizeof size;
        const std::vector<byte_t> text(
            texts.begin() + static_cast<std::ptrdiff_t>(at), texts.begin() + static_cast<std::ptrdiff_t>(at + size));
        const byte_t* const begin = text.data();
        std::printf("%u", size);
        const auto show = [&](auto rules) { show_pretokens(rules, begin, begin + size, *encoder); };
        show(Gpt2Rules<false>());
        show(Gpt2Rules<true>());
        show(Llama3Rules());
        show(Gpt4oRules());
        show(MetaspaceRules<false>());
        show(MetaspaceRules<true>());
        show_windows<false>(begin, begin + size);
        show_windows<true>(begin, begin + size);
        show_transcoded(begin, begin + size);
        show_valid(begin, size);
        show_shortened(begin, begin + size);
        std::printf("\n");
        at += size;
    }
    std::vector<char> out(lines.size() + JsonLines::SPARE);
    Interrupt interrupt(no_signals);
    for (std::size_t at = 0; at < lines.size();) {
        JsonLines reader(&lines[at], lines.size() - at, "text", out.data());
        reader.run(interrupt);
        const std::size_t size = reader.ends().empty() ? 0 : static_cast<std::size_t>(reader.ends().back());
        std::printf(
            "%zu %zu %016llx\n", reader.n_lines(), size, static_cast<unsigned long long>(digest(out.data(), size)));
        at = static_cast<std::size_t>(reader.at() - lines.data());
        at = lines.find('\n', at);  // of a line that is for Python's reader
        at = at == std::string::npos ? lines.size() : at + 1;
    }
}
