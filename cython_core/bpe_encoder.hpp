// Byte-pair encoding of one pre-token: apply the rule of lowest rank, leftmost first, until none applies.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "byte_alphabet.hpp"
#include "characters.hpp"
#include "chronicle.hpp"
#include "dice.hpp"
#include "hash_seed.hpp"
#include "interrupt.hpp"
#include "linear_bpe.hpp"
#include "pair_key.hpp"
#include "replacements.hpp"
#include "seams.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// Rules in rank order, found by their pairs. Open addressing, where half of the slots are taken: one half of a pair's
// hash says where to look, the other half, its tag, which rules to compare.
class RuleTable {
public:
    using Rule = LinearBpe::Rule;
    static constexpr std::uint32_t NO_RANK = std::numeric_limits<std::uint32_t>::max();

    // For at most so many.
    explicit RuleTable(std::size_t n_rules) : most_(n_rules), slots_(2 * n_rules + 1, Slot{0, NO_RANK}) {
        if (n_rules >= NO_RANK / 2) throw std::overflow_error("more rules than there are ranks");
        rules_.reserve(n_rules);
    }

    // The first of several rules for a pair counts.
    void add(const Rule& rule) {
        if (rules_.size() == most_) throw std::length_error("more rules than announced");
        const std::uint64_t hash = key_.of(pair_key(rule.left, rule.right));
        Slot& slot = slots_[probe(rule.left, rule.right, hash)];
        if (slot.rank == NO_RANK) slot = {static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(rules_.size())};
        rules_.push_back(rule);
    }

    // That of the pair's rule, or NO_RANK.
    std::uint32_t rank_of(token_id_t left, token_id_t right) const {
        return slots_[probe(left, right, key_.of(pair_key(left, right)))].rank;
    }

    token_id_t merged(std::uint32_t rank) const { return rules_[rank].merged; }
    const std::vector<Rule>& in_order() const { return rules_; }

    // The most slots a look-up visits. O(slots).
    std::size_t longest_probe() const {
        std::size_t longest = 0;
        for (std::size_t i = 0; i < slots_.size(); ++i) {
            if (slots_[i].rank == NO_RANK) continue;
            const Rule& rule = rules_[slots_[i].rank];
            const std::size_t first = place_of(key_.of(pair_key(rule.left, rule.right)));
            longest = std::max(longest, (i < first ? i + slots_.size() : i) - first + 1);
        }
        return longest;
    }

private:
    struct Slot {
        std::uint32_t tag, rank;
    };

    // Where the search for a hash begins: any number of slots will do.
    std::size_t place_of(std::uint64_t hash) const { return (hash >> 32) * slots_.size() >> 32; }

    std::size_t probe(token_id_t left, token_id_t right, std::uint64_t hash) const {
        for (std::size_t i = place_of(hash);; i = i + 1 == slots_.size() ? 0 : i + 1) {
            const Slot slot = slots_[i];
            if (slot.rank == NO_RANK) return i;
            if (slot.tag != static_cast<std::uint32_t>(hash)) continue;
            if (rules_[slot.rank].left == left && rules_[slot.rank].right == right) return i;
        }
    }

    HashKey key_;
    std::size_t most_;
    std::vector<Slot> slots_;
    std::vector<Rule> rules_;
};

class BpeEncoder {
public:
    explicit BpeEncoder(std::size_t n_rules) : rules_(n_rules), byte_ids_(256, NO_ID) {}

    void set_byte(unsigned char byte, token_id_t token) { byte_ids_[byte] = token; }
    // Calling this makes pre-tokens be read as characters instead of bytes.
    CharacterTable& characters() {
        by_character_ = true;
        return characters_;
    }
    // Characters are those of the byte-level alphabet, in which pre-tokens are to be written first.
    void write_bytes() { writes_bytes_ = true; }
    // Rules are added in rank order, at most as many as announced to the constructor.
    void add_rule(token_id_t left, token_id_t right, token_id_t merged) { rules_.add({left, right, merged}); }
    // Makes encoding much faster from now on. That takes a while, so call it before encoding much, with all bytes and
    // rules set. Other threads may encode meanwhile; only one at a time may call this.
    void prepare() {
        if (is_prepared_) return;
        if (chronicle_ != nullptr) {
            // It has no tables to build.
        } else if (by_character_) {
            spelling_ = Spelling(characters_, rules_.in_order(), writes_bytes_);
            if (spelling_.is_usable()) {
                prepared_ = std::make_unique<LinearBpe>(
                    spelling_.byte_ids(), spelling_.take_rules(), spelling_.n_character_rules());
                if (!writes_bytes_) seams_ = Seams(characters_, rules_.in_order(), spelling_, *prepared_);
            }
        } else {
            prepared_ = std::make_unique<LinearBpe>(byte_ids_, rules_.in_order());
        }
        linear_.store(prepared_.get(), std::memory_order_release);
        is_prepared_ = true;
    }
    // Rules for what the replacements leave, which is merged once more; at most so many.
    RuleTable& rules_again(std::size_t n_rules) {
        again_ = std::make_unique<RuleTable>(n_rules);
        return *again_;
    }
    // Calling this makes the chronicle's steps decide, in place of rules.
    Chronicle& chronicle() {
        if (chronicle_ == nullptr) chronicle_ = std::make_unique<Chronicle>();
        return *chronicle_;
    }
    // A pre-token of these bytes becomes this token, without merging.
    void add_whole(const byte_t* bytes, std::size_t n, token_id_t token) {
        wholes_.emplace(std::string(reinterpret_cast<const char*>(bytes), n), token);
    }
    // Applied to the output.
    Replacements& replacements() { return replacements_; }

    // The most entries a look-up of a rule, a character or a whole pre-token compares. O(size of the tables).
    std::size_t longest_probe() const {
        const LinearBpe* const linear = linear_.load(std::memory_order_acquire);
        return std::max(
            {rules_.longest_probe(), characters_.longest_probe(), linear ? linear->longest_probe() : 0,
             longest_chain(wholes_), chronicle_ ? chronicle_->longest_probe() : 0,
             again_ ? again_->longest_probe() : 0});
    }

    // Appends the pre-token's tokens to `out`. Symbols without a token are dropped. `work` is scratch space; each
    // thread needs its own. O(n log n) for n bytes.
    struct Work;
    void encode(const unsigned char* bytes, std::size_t n, Work& work, std::vector<token_id_t>& out) const {
        const std::size_t size = out.size();
        encode_once(bytes, n, work, out);
        if (again_ != nullptr) merge_again(size, work, out);
    }

    // The same with BPE-dropout: before each merge the dice may drop candidates, in order; the first one kept is
    // merged. Ends when all are dropped.
    void encode(const unsigned char* bytes, std::size_t n, Work& work, std::vector<token_id_t>& out, Dice dice) const {
        if (chronicle_ != nullptr || again_ != nullptr)
            throw std::invalid_argument("there is no dropout where tokens are also removed, as in PickyBPE");
        if (writes_bytes_) bytes = ByteAlphabet::write(bytes, n, work.written);
        read(bytes, n, work);
        merge_by_queue(rules_, work, [&] { return dice.drops(); });
        write(work, out);
    }

private:
    struct Node {
        token_id_t token;    // NO_ID once merged into the node before it
        std::uint32_t rank;  // of the rule for this node and the next
        std::uint32_t previous;
        std::uint32_t next;
    };

    struct Candidate {
        std::uint32_t rank;
        std::uint32_t node;
        // For std::*_heap, whose top is the largest: the lowest rank, then the leftmost.
        bool operator<(const Candidate& other) const {
            return rank != other.rank ? rank > other.rank : node > other.node;
        }
    };

public:
    struct Work {
        std::vector<Node> nodes;
        std::vector<Candidate> queue;
        std::vector<Candidate> dropped;
        LinearBpe::Work linear;
        Chronicle::Work chronicle;
        std::vector<token_id_t> symbols;  // for it
        std::vector<byte_t> written, spelled;
        Interrupt* interrupt = nullptr;  // polled in long pre-tokens
    };

private:
    static constexpr std::size_t SHORT = 48;  // symbols up to which scanning beats the queue
    static constexpr std::uint32_t END = std::numeric_limits<std::uint32_t>::max();
    static constexpr std::size_t FEW_PARTS = 8, SHORT_PART = 32;  // parts; bytes

    void encode_once(const unsigned char* bytes, std::size_t n, Work& work, std::vector<token_id_t>& out) const {
        if (!wholes_.empty()) {
            const auto whole = wholes_.find(std::string(reinterpret_cast<const char*>(bytes), n));
            if (whole != wholes_.end()) {
                replacements_.append(whole->second, out);
                return;
            }
        }
        if (chronicle_ != nullptr) {
            if (writes_bytes_) bytes = ByteAlphabet::write(bytes, n, work.written);
            work.symbols.clear();
            read(bytes, n, [&](token_id_t token) { work.symbols.push_back(token); });
            const auto append = [&](token_id_t token) { replacements_.append(token, out); };
            chronicle_->encode(work.symbols, work.chronicle, work.interrupt, append);
            return;
        }
        const LinearBpe* const linear = linear_.load(std::memory_order_acquire);
        if (linear != nullptr) {
            if (by_character_) {
                if (encode_characters(*linear, bytes, n, work, out)) return;
            } else if (linear->encode(bytes, n, work.linear, work.interrupt)) {
                replacements_.append(work.linear.ids, out);
                return;
            }
        }
        if (writes_bytes_) bytes = ByteAlphabet::write(bytes, n, work.written);
        read(bytes, n, work);
        merge(rules_, work);
        write(work, out);
    }

    // What has been appended since `out` was that long.
    void merge_again(std::size_t size, Work& work, std::vector<token_id_t>& out) const {
        work.nodes.clear();
        for (std::size_t i = size; i < out.size(); ++i) work.nodes.push_back({out[i], 0, 0, 0});
        merge(*again_, work);
        out.resize(size);
        for (const Node& node : work.nodes) {
            if (node.token != NO_ID) out.push_back(node.token);
        }
    }

    // False if this takes merging.
    bool encode_characters(
        const LinearBpe& linear, const byte_t* bytes, std::size_t n, Work& work, std::vector<token_id_t>& out) const {
        const std::size_t size = out.size();
        // A word in Latin letters hardly has seams.
        const bool is_word = n <= FEW_PARTS * SHORT_PART && (n <= 4 || (bytes[2 * n / 3] | bytes[n - 1]) < 0x80);
        if (seams_.is_usable() && !is_word) {
            if (encode_parts(linear, bytes, bytes + n, work, out)) return true;
            out.resize(size);
        }
        if (encode_part(linear, bytes, n, true, work, out)) return true;
        out.resize(size);
        return false;
    }

    // The same, with false also for pre-tokens that are not to be cut.
    [[gnu::noinline]] bool encode_parts(
        const LinearBpe& linear, const byte_t* begin, const byte_t* end, Work& work,
        std::vector<token_id_t>& out) const {
        if (!is_valid_utf8(begin, end)) return false;
        Steps steps(work.interrupt);
        Seams::Parts parts;
        token_id_t merged[Seams::MOST], *last = merged;  // of the parts before
        const auto append_merged = [&] { replacements_.append(merged, std::exchange(last, merged), out); };
        for (const byte_t* at = begin; at != end; at = parts.bounds[parts.n]) {
            steps.next();
            seams_.cut(at, end, parts);
            if (at == begin && !are_short(parts)) return false;
            for (std::size_t i = 0; i < parts.n; ++i) {
                const byte_t* const stop = parts.bounds[i + 1];
                const auto n_bytes = static_cast<std::size_t>(stop - parts.bounds[i]);
                const std::size_t n = parts.firsts[i + 1] - parts.firsts[i];
                if ((n <= 2 || n_bytes > n) && linear.merge(parts.numbers + parts.firsts[i], n, last)) continue;
                append_merged();
                if (!encode_part(linear, parts.bounds[i], n_bytes, stop == end, work, out)) return false;
            }
            append_merged();
        }
        return true;
    }

    // Whether there are several parts, the first of which are short and Chinese, Japanese or Korean, mostly: of letters of
    // a byte or two merging takes longer than the search.
    static bool are_short(const Seams::Parts& parts) {
        const std::size_t n = std::min(parts.n, FEW_PARTS), n_characters = parts.firsts[n];
        const byte_t *const begin = parts.bounds[0], *const end = parts.bounds[n];
        const auto n_wide = std::count_if(begin, end, [](byte_t byte) { return byte >= 0xE3; });  // U+3000 and above
        return n > 1 && static_cast<std::size_t>(end - begin) <= FEW_PARTS * SHORT_PART &&
               2 * static_cast<std::size_t>(n_wide) >= n_characters;
    }

    // A part of a pre-token, or all of it.
    bool encode_part(
        const LinearBpe& linear, const byte_t* bytes, std::size_t n, bool is_end, Work& work,
        std::vector<token_id_t>& out) const {
        const byte_t* const spelled = spelling_.spell(bytes, n, is_end, work.spelled);
        if (spelled == nullptr || !linear.encode(spelled, n, work.linear, work.interrupt)) return false;
        if (!spelling_.any_loose(work.linear.ids)) {
            replacements_.append(work.linear.ids, out);
            return true;
        }
        const auto append = [&](token_id_t token) { replacements_.append(token, out); };
        return spelling_.replace_loose(characters_, work.linear.ids, append);
    }

    // Makes a node of each symbol.
    void read(const unsigned char* bytes, std::size_t n, Work& work) const {
        work.nodes.clear();
        read(bytes, n, [&](token_id_t token) { work.nodes.push_back({token, 0, 0, 0}); });
    }

    template <class Add>
    void read(const unsigned char* bytes, std::size_t n, Add add) const {
        if (by_character_) {
            characters_.read(bytes, n, add);
            return;
        }
        for (const byte_t* at = bytes; at != bytes + n; ++at) {
            if (byte_ids_[*at] != NO_ID) add(byte_ids_[*at]);
        }
    }

    void write(const Work& work, std::vector<token_id_t>& out) const {
        for (const Node& node : work.nodes) {
            if (node.token != NO_ID) replacements_.append(node.token, out);
        }
    }

    static std::uint32_t rank_of(const RuleTable& rules, const Node& left, const Node& right) {
        return rules.rank_of(left.token, right.token);
    }

    static void merge(const RuleTable& rules, Work& work) {
        if (work.nodes.size() <= SHORT) {
            merge_by_scanning(rules, work);
        } else {
            merge_by_queue(rules, work, [] { return false; });
        }
    }

    // Nodes store their ranks, so that each merge only looks up two pairs and scans for the lowest rank.
    static void merge_by_scanning(const RuleTable& rules, Work& work) {
        std::vector<Node>& nodes = work.nodes;
        std::size_t n = nodes.size();
        for (std::size_t i = 0; i + 1 < n; ++i) nodes[i].rank = rank_of(rules, nodes[i], nodes[i + 1]);
        while (n > 1) {
            std::size_t best = 0;
            for (std::size_t i = 1; i + 1 < n; ++i) {
                if (nodes[i].rank < nodes[best].rank) best = i;
            }
            if (nodes[best].rank == RuleTable::NO_RANK) break;
            nodes[best].token = rules.merged(nodes[best].rank);
            nodes.erase(nodes.begin() + best + 1);
            --n;
            if (best > 0) nodes[best - 1].rank = rank_of(rules, nodes[best - 1], nodes[best]);
            if (best + 1 < n) nodes[best].rank = rank_of(rules, nodes[best], nodes[best + 1]);
        }
    }

    // A queued rank that is no longer its node's is stale. drops() says whether to drop a candidate; as in
    // `tokenizers`, stale ones take part, so that the odds are the same.
    template <class Drops>
    static void merge_by_queue(const RuleTable& rules, Work& work, Drops drops) {
        std::vector<Node>& nodes = work.nodes;
        if (nodes.size() >= END) throw std::overflow_error("a pre-token of 2**32 - 1 or more symbols");
        const std::uint32_t n = static_cast<std::uint32_t>(nodes.size());
        Steps steps(work.interrupt);
        work.queue.clear();
        work.dropped.clear();
        for (std::uint32_t i = 0; i < n; ++i) {
            steps.next();
            nodes[i].previous = i == 0 ? END : i - 1;
            nodes[i].next = i + 1 == n ? END : i + 1;
            rate(rules, work, i);
        }
        while (!work.queue.empty()) {
            steps.next();
            const Candidate candidate = work.queue.front();
            std::pop_heap(work.queue.begin(), work.queue.end());
            work.queue.pop_back();
            if (drops()) {
                work.dropped.push_back(candidate);
                continue;
            }
            for (const Candidate& dropped : work.dropped) push(work, dropped);
            work.dropped.clear();
            Node& node = nodes[candidate.node];
            if (node.token == NO_ID || node.rank != candidate.rank) continue;
            Node& gone = nodes[node.next];
            node.token = rules.merged(node.rank);
            node.next = gone.next;
            gone.token = NO_ID;
            if (node.next != END) nodes[node.next].previous = candidate.node;
            rate(rules, work, candidate.node);
            if (node.previous != END) rate(rules, work, node.previous);
        }
    }

    static void push(Work& work, Candidate candidate) {
        work.queue.push_back(candidate);
        std::push_heap(work.queue.begin(), work.queue.end());
    }

    static void rate(const RuleTable& rules, Work& work, std::uint32_t i) {
        Node& node = work.nodes[i];
        node.rank = node.next == END ? RuleTable::NO_RANK : rank_of(rules, node, work.nodes[node.next]);
        if (node.rank != RuleTable::NO_RANK) push(work, {node.rank, i});
    }

    RuleTable rules_;
    std::unique_ptr<RuleTable> again_;      // null where nothing is merged again
    std::unique_ptr<Chronicle> chronicle_;  // null where rules decide
    std::unique_ptr<const LinearBpe> prepared_;
    std::atomic<const LinearBpe*> linear_{nullptr};
    std::vector<token_id_t> byte_ids_;
    CharacterTable characters_;
    Spelling spelling_;  // of those, once prepared
    Seams seams_;
    bool by_character_ = false, writes_bytes_ = false, is_prepared_ = false;
    std::unordered_map<std::string, token_id_t, KeyedHash> wholes_;
    Replacements replacements_;
};

}  // namespace hf_scaffold
