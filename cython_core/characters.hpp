// The symbols of models that read characters: one by one, for merging; and as bytes, for encoding without merging.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "byte_alphabet.hpp"
#include "hash_seed.hpp"
#include "linear_bpe.hpp"
#include "metaspace.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// The symbols of a pre-token read as UTF-8 characters. Affixes make a character's symbol depend on whether it continues
// (follows another one) and whether it ends its pre-token.
class CharacterTable {
public:
    // A character's tokens, by form(); NO_ID for none.
    using Forms = std::array<token_id_t, 4>;
    static std::size_t form(bool continues, bool ends) { return 2 * continues + ends; }

    // Sets the token of a character, given as UTF-8, for where it `continues` a pre-token or not, and `ends` it or not.
    void set(const byte_t* character, std::size_t length, bool continues, bool ends, token_id_t token) {
        if (length == 0 || character_length(character, character + length) != length) {
            throw std::invalid_argument("a symbol must be one character");
        }
        forms_.try_emplace(key(character, length), Forms{NO_ID, NO_ID, NO_ID, NO_ID})
            .first->second[form(continues, ends)] = token;
    }

    // Characters without a token become this one; a run of them becomes a single one if they fuse.
    void set_unknown(token_id_t token, bool fuse) {
        unknown_ = token;
        fuse_ = fuse;
    }

    // Characters without a token become the tokens of their bytes, if each of these has one.
    void set_byte(byte_t byte, token_id_t token) { byte_ids_[byte] = token; }

    // Of those characters, the ones that continue begin with this byte; call it for each byte of the prefix in turn.
    void add_prefix_byte(byte_t byte) { prefix_.push_back(byte); }
    // The ones that end a pre-token end with this byte.
    void add_suffix_byte(byte_t byte) { suffix_.push_back(byte); }

    std::size_t longest_probe() const { return longest_chain(forms_); }

    // Calls add(token) for each symbol of the pre-token, from left to right. Bytes that are not UTF-8 count as
    // characters without a token. Those that become nothing else are dropped.
    //
    // As in `tokenizers`, an unknown token comes only before the next character that has a token, or at the end; bytes
    // in between overtake it.
    template <class Add>
    void read(const byte_t* bytes, std::size_t n, Add add) const {
        const byte_t* const end = bytes + n;
        bool owes_unknown = false;
        for (const byte_t* at = bytes; at != end;) {
            const std::size_t well_formed = character_length(at, end);
            const byte_t* const next = at + std::max<std::size_t>(well_formed, 1);
            const bool continues = at != bytes, ends = next == end;
            const token_id_t token = find(at, well_formed, continues, ends);
            if (token != NO_ID) {
                if (std::exchange(owes_unknown, false)) add(unknown_);
                add(token);
            } else if (!add_bytes(at, next, continues, ends, add) && unknown_ != NO_ID) {
                if (owes_unknown && !fuse_) add(unknown_);
                owes_unknown = true;
            }
            at = next;
        }
        if (owes_unknown) add(unknown_);
    }

private:
    friend class Spelling;
    friend class Seams;

    bool has_affixes() const { return !prefix_.empty() || !suffix_.empty(); }

    // A character has at most four bytes, so it is its own key.
    static std::uint32_t key(const byte_t* bytes, std::size_t n) {
        std::uint32_t key = 0;
        for (std::size_t i = 0; i < n; ++i) key = key << 8 | bytes[i];
        return key;
    }

    token_id_t find(const byte_t* bytes, std::size_t n, bool continues, bool ends) const {
        if (n == 0) return NO_ID;
        const auto found = forms_.find(key(bytes, n));
        return found == forms_.end() ? NO_ID : found->second[form(continues, ends)];
    }

    // False if a byte has no token.
    template <class Add>
    bool add_bytes(const byte_t* at, const byte_t* end, bool continues, bool ends, Add add) const {
        const auto have_tokens = [&](const byte_t* first, const byte_t* last) {
            return std::all_of(first, last, [&](byte_t byte) { return byte_ids_[byte] != NO_ID; });
        };
        const byte_t *const prefix = prefix_.data(), *const suffix = suffix_.data();
        const std::size_t n_prefix = continues ? prefix_.size() : 0, n_suffix = ends ? suffix_.size() : 0;
        if (!have_tokens(at, end) || !have_tokens(prefix, prefix + n_prefix) ||
            !have_tokens(suffix, suffix + n_suffix)) {
            return false;
        }
        for (std::size_t i = 0; i < n_prefix; ++i) add(byte_ids_[prefix[i]]);
        for (; at != end; ++at) add(byte_ids_[*at]);
        for (std::size_t i = 0; i < n_suffix; ++i) add(byte_ids_[suffix[i]]);
        return true;
    }

    std::unordered_map<std::uint32_t, Forms, KeyedHash> forms_;
    std::array<token_id_t, 256> byte_ids_ = without_ids();
    std::vector<byte_t> prefix_, suffix_;
    token_id_t unknown_ = NO_ID;
    bool fuse_ = false;

    static std::array<token_id_t, 256> without_ids() {
        std::array<token_id_t, 256> none;
        none.fill(NO_ID);
        return none;
    }
};

// Pre-tokens of characters as bytes that LinearBpe reads, and rules that make characters of those.
//
// A character is built from its UTF-8 by rules that come before all others: the first two bytes, then the third, then
// the fourth. They never join bytes of two characters. Characters of the byte-level alphabet need no such rules: they
// are the bytes that they stand for. Nor does ▁, which stands for a space: it is written as a byte that UTF-8 never has.
// Where affixes count, another such byte goes before each character that continues, and a third after the last one;
// further rules join these with the characters, and ▁ is a character like others. What a
// character has no token for, and what is only part of one, gets an id of its own: *loose* ones are replaced in the end.
class Spelling {
public:
    using Rule = LinearBpe::Rule;

    Spelling() = default;

    // Takes the rules in rank order. If it `reads_bytes`, characters are those of the byte-level alphabet, and pre-tokens
    // are given before they are written in it. O(size of both).
    Spelling(const CharacterTable& characters, const std::vector<Rule>& rules, bool reads_bytes)
        : reads_bytes_(reads_bytes), byte_ids_(256, NO_ID) {
        if (!find_first_loose(characters, rules) || !are_apart(characters, rules)) return;
        std::vector<Rule> marked, ending;
        for (const auto& [key, forms] : characters.forms_) {
            marks_continuing_ |= forms[0] != forms[2] || forms[1] != forms[3];
            marks_end_ |= forms[0] != forms[1] || forms[2] != forms[3];
        }
        for (unsigned byte = 0; byte < 256; ++byte) byte_ids_[byte] = id_of(characters, character_of(byte));
        const auto space = characters.forms_.find(key_of(METASPACE));
        shortens_spaces_ = !reads_bytes_ && !marks_continuing_ && !marks_end_ && space != characters.forms_.end() &&
                           space->second[0] != NO_ID;
        if (shortens_spaces_) byte_ids_[SPACE] = space->second[0];
        parts_.clear();
        for (unsigned byte = 0; reads_bytes_ && byte < CONTINUES; ++byte) {
            const Bytes character = character_of(byte);
            const auto found = characters.forms_.find(key_of(character));
            if (found == characters.forms_.end()) continue;
            add_character({{static_cast<byte_t>(byte)}, 1}, character, found->second, marked, ending);
        }
        for (const auto& [key, forms] : characters.forms_) {
            const bool is_a_byte = shortens_spaces_ && key == key_of(METASPACE);
            if (!reads_bytes_ && !is_a_byte) add_character(bytes_of(key), bytes_of(key), forms, marked, ending);
        }
        parts_.clear();
        n_character_rules_ = rules_.size();
        for (const std::vector<Rule>* more : {&std::as_const(marked), &std::as_const(ending), &rules}) {
            rules_.insert(rules_.end(), more->begin(), more->end());
        }
        is_usable_ = true;
    }

    // Whether the rules treat characters as this class does: those of unknown characters take no part in merges.
    bool is_usable() const { return is_usable_; }
    const std::vector<token_id_t>& byte_ids() const { return byte_ids_; }
    std::vector<Rule> take_rules() { return std::move(rules_); }
    // How many of them make characters of bytes; they are the first.
    std::size_t n_character_rules() const { return n_character_rules_; }

    // The number of the token of a character, which ends its pre-token or not; NONE if it has none.
    LinearBpe::number_t number_of(std::uint32_t key, bool is_end, const LinearBpe& linear) const {
        const Bytes character = bytes_of(key);
        std::size_t n = character.n;
        std::vector<byte_t> room;
        const byte_t* const spelled = spell(character.bytes.data(), n, is_end, room);
        return linear.number_of(spelled, n);
    }

    // A pre-token, or a part of one that ends it or not, as LinearBpe is to read it, in `room` if that differs; null for
    // what is not UTF-8.
    const byte_t* spell(const byte_t* bytes, std::size_t& n, bool is_end, std::vector<byte_t>& room) const {
        if (!is_valid_utf8(bytes, bytes + n)) return nullptr;
        if (shortens_spaces_) {
            room.resize(n);
            n = shorten_metaspaces(bytes, n, SPACE, room.data());
            return room.data();
        }
        const bool marks_end = marks_end_ && is_end;
        if (!marks_continuing_ && !marks_end) return bytes;
        room.resize(marks_continuing_ ? 2 * n + 1 : n + 1);
        byte_t* out = room.data();
        for (const byte_t *at = bytes, *const end = bytes + n; at != end; ++at) {
            const bool begins = reads_bytes_ || (*at & 0xC0) != 0x80;
            if (marks_continuing_ && begins && at != bytes) *out++ = CONTINUES;
            *out++ = *at;
        }
        if (marks_end && n != 0) *out++ = ENDS;
        n = static_cast<std::size_t>(out - room.data());
        return room.data();
    }

    // Whether any of these tokens stands for a character that has none.
    bool any_loose(const std::vector<token_id_t>& tokens) const {
        return std::any_of(tokens.begin(), tokens.end(), [&](token_id_t token) { return token >= first_loose_; });
    }

    // Calls add(token) for each of these tokens, with what they stand for in place of loose ones. False if characters
    // were dropped, so that their neighbours might have merged, or became the bytes of an affix: then start again.
    template <class Add>
    bool replace_loose(const CharacterTable& characters, const std::vector<token_id_t>& tokens, Add add) const {
        bool after_unknown = false;
        for (const token_id_t token : tokens) {
            if (token < first_loose_) {
                add(token);
                after_unknown = false;
            } else if (characters.byte_ids_[0] != NO_ID) {
                if (marks_continuing_ || marks_end_ || characters.has_affixes()) return false;
                const Bytes& loose = loose_[static_cast<std::size_t>(token - first_loose_)];
                for (std::size_t i = 0; i < loose.n; ++i) add(characters.byte_ids_[loose.bytes[i]]);
            } else if (characters.unknown_ == NO_ID) {
                return false;
            } else if (loose_[static_cast<std::size_t>(token - first_loose_)].begins_character()) {
                if (!(after_unknown && characters.fuse_)) add(characters.unknown_);
                after_unknown = true;
            }
        }
        return true;
    }

private:
    static constexpr byte_t SPACE = 0xFD, CONTINUES = 0xFE, ENDS = 0xFF;

    // All or some of a character's bytes, or a mark.
    struct Bytes {
        std::array<byte_t, 4> bytes;
        std::size_t n;

        bool begins_character() const { return (bytes[0] & 0xC0) != 0x80 && bytes[0] < CONTINUES; }
    };
    static constexpr Bytes METASPACE{{0xE2, 0x96, 0x81}, 3};

    // Loose ids follow all others. False if none might be left.
    bool find_first_loose(const CharacterTable& characters, const std::vector<Rule>& rules) {
        token_id_t largest = characters.unknown_;
        for (const auto& [key, forms] : characters.forms_) {
            largest = std::max({largest, forms[0], forms[1], forms[2], forms[3]});
        }
        for (const Rule& rule : rules) largest = std::max({largest, rule.left, rule.right, rule.merged});
        for (const token_id_t token : characters.byte_ids_) largest = std::max(largest, token);
        const std::size_t n_loose = 256 + 6 * characters.forms_.size();
        if (n_loose >= static_cast<std::size_t>(std::numeric_limits<token_id_t>::max() - largest)) return false;
        first_loose_ = largest + 1;
        return true;
    }

    // Whether unknown characters merge with nothing, and either all bytes have a token or none has.
    static bool are_apart(const CharacterTable& characters, const std::vector<Rule>& rules) {
        const std::array<token_id_t, 256>& byte_ids = characters.byte_ids_;
        const auto n_without = std::count(byte_ids.begin(), byte_ids.end(), NO_ID);
        if (n_without != 0 && n_without != 256) return false;
        std::vector<token_id_t> fixed(byte_ids.begin(), byte_ids.end());
        fixed.push_back(characters.unknown_);
        std::sort(fixed.begin(), fixed.end());
        const auto is_fixed = [&](token_id_t token) { return std::binary_search(fixed.begin(), fixed.end(), token); };
        return std::none_of(
            rules.begin(), rules.end(), [&](const Rule& rule) { return is_fixed(rule.left) || is_fixed(rule.right); });
    }

    // The character that a byte stands for; or, where it is only part of one or a mark, the byte itself.
    Bytes character_of(unsigned byte) const {
        if (!reads_bytes_ || byte >= CONTINUES) return {{static_cast<byte_t>(byte)}, 1};
        const ByteAlphabet::Written& written = ByteAlphabet::all()[byte];
        return {{written.bytes[0], written.bytes[1]}, written.n};
    }

    token_id_t id_of(const CharacterTable& characters, const Bytes& character) {
        const auto found = characters.forms_.find(key_of(character));
        return found != characters.forms_.end() && found->second[0] != NO_ID ? found->second[0] : new_loose(character);
    }

    static std::uint32_t key_of(const Bytes& character) {
        return CharacterTable::key(character.bytes.data(), character.n);
    }

    static Bytes bytes_of(std::uint32_t key) {
        Bytes character{{}, 0};
        for (int shift = 24; shift >= 0; shift -= 8) {
            const byte_t byte = static_cast<byte_t>(key >> shift);
            if (byte != 0 || shift == 0) character.bytes[character.n++] = byte;
        }
        return character;
    }

    token_id_t new_loose(const Bytes& bytes) {
        loose_.push_back(bytes);
        return first_loose_ + static_cast<token_id_t>(loose_.size() - 1);
    }

    // Adds the rules that make a character of how it is spelled, and those that join it with marks.
    void add_character(
        const Bytes& spelled, const Bytes& character, const CharacterTable::Forms& forms, std::vector<Rule>& marked,
        std::vector<Rule>& ending) {
        const auto or_loose = [&](token_id_t token) { return token != NO_ID ? token : new_loose(character); };
        token_id_t bare = byte_ids_[spelled.bytes[0]];
        std::uint32_t part = spelled.bytes[0];
        for (std::size_t i = 1; i < spelled.n; ++i) {
            part = part << 8 | spelled.bytes[i];
            token_id_t& made = parts_.try_emplace(part, NO_ID).first->second;
            if (made == NO_ID) {
                Bytes beginning = character;
                beginning.n = i + 1;
                made = i + 1 == spelled.n && forms[0] != NO_ID ? forms[0] : new_loose(beginning);
                rules_.push_back({bare, byte_ids_[spelled.bytes[i]], made});
            }
            bare = made;
        }
        token_id_t continuing = bare;
        if (marks_continuing_) {
            continuing = or_loose(forms[2]);
            marked.push_back({byte_ids_[CONTINUES], bare, continuing});
        }
        if (marks_end_) {
            ending.push_back({bare, byte_ids_[ENDS], or_loose(forms[1])});
            if (marks_continuing_) ending.push_back({continuing, byte_ids_[ENDS], or_loose(forms[3])});
        }
    }

    bool reads_bytes_ = false;
    bool is_usable_ = false, shortens_spaces_ = false, marks_continuing_ = false, marks_end_ = false;
    token_id_t first_loose_ = 0;
    std::vector<token_id_t> byte_ids_;
    std::vector<Rule> rules_;
    std::size_t n_character_rules_ = 0;
    std::vector<Bytes> loose_;                                        // by id
    std::unordered_map<std::uint32_t, token_id_t, KeyedHash> parts_;  // while making: what some bytes become
};

}  // namespace hf_scaffold
