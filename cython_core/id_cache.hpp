// From the bytes of a pre-token to its ids: a lock-free hash table that threads read and fill at the same time.
//
// Open addressing with linear probing over 32-byte slots. A pre-token of up to 15 bytes with up to 3 ids, or 8 small ones,
// is stored in its slot, so looking it up reads one cache line; the slots of others point to a block each. A slot goes from empty
// through busy to full once, then never changes. Readers of a warm cache write nothing, so cores share its lines.
//
// A fork leaves no lock taken: a slot that another thread was filling then stays busy in the child, which skips it.
//
// Touching memory for the first time costs as much as encoding. So a cache grows to what its text is expected to need;
// and once it is large, and for long pre-tokens from the start, it takes only what is met a second time.
//
// A cache is full when three quarters of its slots are taken, or when there is no room for a block. The largest then has
// 128 MiB.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "byte_string.hpp"
#include "door.hpp"
#include "hash_seed.hpp"
#include "large_array.hpp"
#include "simd.hpp"
#include "slabs.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

#ifdef __BYTE_ORDER__
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read from bytes, ids from words");
#endif

class IdCache {
public:
    static constexpr std::size_t LONGEST = std::size_t{1} << 21;  // bytes: longer pre-tokens are not kept
    static constexpr std::size_t SPARE = 4;                       // ids that may be written past the end

    // A pre-token, prepared for a look-up in this cache.
    struct Key {
        std::uint64_t low;
        std::uint64_t high;  // its top byte: the length, or LONG
        std::size_t home;    // the slot where the search starts
    };

    explicit IdCache(HashKey key = {}) : IdCache(key, FIRST_SLOTS, std::make_shared<Estate>()) {}
    IdCache(const IdCache&) = delete;
    IdCache& operator=(const IdCache&) = delete;

    // Makes the keys of n pre-tokens, the i-th from bounds[i] to bounds[i + 1], and prefetches their slots: with some
    // hundred keys made before the first find(), none waits for memory. Bytes up to `readable` may be read.
    void keys_of(const byte_t* const* bounds, std::size_t n, const byte_t* readable, Key* keys) const {
        const auto make = [&](std::size_t i, std::size_t n_readable) {
            keys[i] = key_of(bounds[i], static_cast<std::size_t>(bounds[i + 1] - bounds[i]), n_readable);
            prefetch(&slots_[keys[i].home]);
        };
        std::size_t n_far = n;  // those 16 bytes or more before `readable`
        while (n_far != 0 && readable - bounds[n_far - 1] < 16) --n_far;
        for (std::size_t i = 0; i < n_far; ++i) make(i, 16);
        for (std::size_t i = n_far; i < n; ++i) make(i, static_cast<std::size_t>(readable - bounds[i]));
    }

    // Writes the ids of pre-tokens to `out`, followed by up to SPARE meaningless numbers, and moves `out` past the ids.
    // Stops at the first pre-token that is not cached; returns how many came before it.
    std::size_t find(const byte_t* const* bounds, const Key* keys, std::size_t n, token_id_t*& out) const {
        token_id_t* next = out;
        std::size_t i = 0;
        for (; i < n; ++i) {
            const Slot& home = slots_[keys[i].home];
            if (home.is_of(keys[i]) && (home.copy_inlined(next) || home.copy_packed(next))) continue;  // nearly all
            const Slot* slot = slot_of(keys[i], bounds[i]);
            if (slot == nullptr) break;
            slot->copy_ids(next);
        }
        out = next;
        return i;
    }

    // What a thread has to itself for adding, so that threads seldom wait for each other's cache lines.
    struct Share {
        token_id_t* room = nullptr;  // for blocks
        std::size_t n_left = 0;
        std::size_t n_next = 0;  // to take when that is used up
        std::size_t n_uncounted = 0;
    };

    // Adds a pre-token that find() did not find; unless it has to be met once more, the cache is full, or the pre-token
    // is too long or has more ids than bytes, for which callers of find() may have no room.
    void add(
        const byte_t* bytes, std::size_t length, const Key& key, const token_id_t* ids, std::size_t n, Share& share) {
        if (length > LONGEST || n > length || is_full() || !is_welcome(key, length)) return;
        Values values;
        if (length > INLINE || !(inlined(ids, n, values) || packed(ids, n, values))) {
            const std::size_t n_bytes = length <= INLINE ? 0 : length;
            const std::size_t size = 1 + n + (n_bytes + sizeof(token_id_t) - 1) / sizeof(token_id_t);
            token_id_t* const block = new_block(size, share);
            if (block == nullptr) return;
            block[0] = static_cast<token_id_t>(n);
            std::copy_n(ids, n, block + 1);
            std::memcpy(block + 1 + n, bytes, n_bytes);
            values = {reinterpret_cast<std::uintptr_t>(block), BLOCK << 60};
        }
        put(key, values);
        if (++share.n_uncounted == MOST_UNCOUNTED) count(share);
    }

    // Call it when the thread adds no more.
    void count(Share& share) { size_.fetch_add(std::exchange(share.n_uncounted, 0), std::memory_order_relaxed); }

    bool is_full() const { return size() >= most_of(n_slots_) || is_out_of_room_.load(std::memory_order_relaxed); }
    std::size_t size() const { return size_.load(std::memory_order_relaxed); }
    std::size_t n_bytes() const { return n_slots_ * sizeof(Slot) + Door::N_BYTES + estate_->slabs.n_bytes(); }

    // Tells users of this cache to go on with its successor, so that its memory can be freed.
    void retire() { is_retired_.store(true, std::memory_order_relaxed); }
    bool is_retired() const { return is_retired_.load(std::memory_order_relaxed); }

    // The most slots a look-up visits. O(slots).
    std::size_t longest_probe() const {
        std::size_t longest = 0;
        for (std::size_t i = 0; i < n_slots_; ++i) {
            const std::uint64_t high = slots_[i].high.load(std::memory_order_acquire);
            if (high <= BUSY) continue;
            const std::size_t passed = (i - key_.of(slots_[i].low, high)) & (n_slots_ - 1);
            longest = std::max(longest, passed + 1);
        }
        return longest;
    }

    // The replacement of a full cache: with the same content, and two slots for each pre-token expected, but at least
    // twice as large; or, where it may not grow, empty, so that text of another kind finds room.
    std::shared_ptr<IdCache> successor(std::size_t n_expected) const {
        const bool may_grow = n_slots_ < LAST_SLOTS && !is_out_of_room_.load(std::memory_order_relaxed);
        if (!may_grow) return made(key_, n_slots_, std::make_shared<Estate>());
        std::size_t n_slots = n_slots_ * 2;
        while (n_slots < LAST_SLOTS && n_expected > n_slots / 2) n_slots *= 2;
        const std::shared_ptr<IdCache> larger = made(key_, n_slots, estate_);
        Share all;
        for (std::size_t i = 0; i < n_slots_; ++i) all.n_uncounted += larger->put_copy(slots_[i]);
        larger->count(all);
        return larger;
    }

private:
    static constexpr std::size_t FIRST_SLOTS = std::size_t{1} << 14;  // half a MB
    static constexpr std::size_t LAST_SLOTS = std::size_t{1} << 21;   // 64 MB
    static constexpr std::size_t LARGEST_SHARE = 1024;                // ids
    static constexpr std::size_t MOST_UNCOUNTED = 8;  // by each of 256 threads: an eighth of FIRST_SLOTS
    static constexpr std::size_t most_of(std::size_t n_slots) { return n_slots / 4 * 3; }
    static constexpr std::size_t MOST_BYTES = (std::size_t{1} << 26) - Door::N_BYTES;  // of slabs
    // Pre-tokens that are kept the first time they are met, of up to so many bytes.
    static constexpr std::size_t MOST_AT_ONCE = LAST_SLOTS / 8 * 5, LONGEST_AT_ONCE = 512;
    static constexpr std::size_t INLINE = 15;
    static constexpr std::size_t INLINE_IDS = 3, PACKED_IDS = 8;
    static constexpr std::uint64_t LONG = 0xFF;  // in the top byte of `high`, with the length in its low bits
    static constexpr std::uint64_t BLOCK = 0xF;  // in place of the number of ids
    // Values of `high` that no key has, whose top byte is never 0.
    static constexpr std::uint64_t EMPTY = 0;
    static constexpr std::uint64_t BUSY = 1;

    struct Slot {
        std::atomic<std::uint64_t> low;        // bytes 0 to 7; the hash of a long pre-token
        std::atomic<std::uint64_t> high;       // bytes 8 to 14 and the length
        std::atomic<std::uint64_t> values[2];  // see Values

        bool is_of(const Key& key) const {
            return high.load(std::memory_order_acquire) == key.high && low.load(std::memory_order_relaxed) == key.low;
        }

        // The block: the number of ids, the ids, the bytes of a long pre-token. Null if there is none.
        const token_id_t* block() const {
            if (high.load(std::memory_order_acquire) <= BUSY || values[1] >> 60 != BLOCK) return nullptr;
            return reinterpret_cast<const token_id_t*>(values[0].load(std::memory_order_relaxed));
        }

        // Each writes the ids to `out` and moves it past them; false if they are stored in another way.
        bool copy_inlined(token_id_t*& out) const {
            const std::uint64_t words[2] = {
                values[0].load(std::memory_order_relaxed), values[1].load(std::memory_order_relaxed)};
            const std::uint64_t n = words[1] >> 32;
            if (n > INLINE_IDS) return false;
            std::memcpy(out, words, sizeof words);
            out += n;
            return true;
        }

        bool copy_packed(token_id_t*& out) const {
            const std::uint64_t first = values[0].load(std::memory_order_relaxed);
            const std::uint64_t second = values[1].load(std::memory_order_relaxed);
            const std::uint64_t n = second >> 60;
            if (n > PACKED_IDS) return false;
            const unsigned half = static_cast<unsigned>(n + 1) / 2, n_bits = 60 / half;
            const std::uint64_t mask = (std::uint64_t{1} << n_bits) - 1;
            for (unsigned i = 0; i < half; ++i) {
                out[i] = static_cast<token_id_t>(first >> i * n_bits & mask);
                out[half + i] = static_cast<token_id_t>(second >> i * n_bits & mask);
            }
            out += n;
            return true;
        }

        void copy_ids(token_id_t*& out) const {
            if (copy_inlined(out) || copy_packed(out)) return;
            const token_id_t* ids = block();
            out = std::copy_n(ids + 1, ids[0], out);
        }
    };

    // Of a slot. The highest four bits of the second tell what the others hold: 0, up to three ids and their number, 32
    // bits each; from 4 to 8, so many ids, half of them in either word, in 30, 20 or 15 bits each; BLOCK, an address.
    using Values = std::array<std::uint64_t, 2>;

    static bool inlined(const token_id_t* ids, std::size_t n, Values& values) {
        if (n > INLINE_IDS) return false;
        token_id_t all[4] = {0, 0, 0, static_cast<token_id_t>(n)};
        std::copy_n(ids, n, all);
        std::memcpy(values.data(), all, sizeof all);
        return true;
    }

    static bool packed(const token_id_t* ids, std::size_t n, Values& values) {
        if (n > PACKED_IDS) return false;
        const unsigned half = static_cast<unsigned>(n + 1) / 2, n_bits = 60 / half;
        values = {0, static_cast<std::uint64_t>(n) << 60};
        for (unsigned i = 0; i < n; ++i) {
            const auto id = static_cast<std::uint64_t>(ids[i]);
            if (id >> n_bits != 0) return false;
            values[i >= half] |= id << (i >= half ? i - half : i) * n_bits;
        }
        return true;
    }

    // What a cache hands on to its larger successor.
    struct Estate {
        Slabs slabs{MOST_BYTES};
        Door door;
    };

    IdCache(HashKey key, std::size_t n_slots, std::shared_ptr<Estate> estate)
        : key_(key), n_slots_(n_slots), slots_(make_large_zeros<Slot>(n_slots)), estate_(std::move(estate)) {}

    static std::shared_ptr<IdCache> made(HashKey key, std::size_t n_slots, std::shared_ptr<Estate> estate) {
        return std::shared_ptr<IdCache>(new IdCache(key, n_slots, std::move(estate)));
    }

    // The first ones are, if they are not long; of others, those met before.
    bool is_welcome(const Key& key, std::size_t length) {
        if (length <= LONGEST_AT_ONCE && size() < MOST_AT_ONCE) return true;
        return estate_->door.has_met(key_.of(key.low, key.high));
    }

    // Null if there is no room. Shares grow, so that a thread that adds little takes little.
    token_id_t* new_block(std::size_t size, Share& share) {
        if (size > LARGEST_SHARE) return taken_block(size);
        if (share.n_left < size) {
            const std::size_t n = std::max(size, share.n_next);
            share.room = taken_block(n);
            share.n_left = share.room == nullptr ? 0 : n;
            share.n_next = std::min(2 * n, LARGEST_SHARE);
            if (share.room == nullptr) return nullptr;
        }
        share.n_left -= size;
        return std::exchange(share.room, share.room + size);
    }

    token_id_t* taken_block(std::size_t size) {
        token_id_t* const block = estate_->slabs.block(size);
        if (block == nullptr) is_out_of_room_.store(true, std::memory_order_relaxed);
        return block;
    }

    void put(const Key& key, const Values& values) {
        for (std::size_t i = key.home;; i = (i + 1) & (n_slots_ - 1)) {
            Slot& slot = slots_[i];
            std::uint64_t high = slot.high.load(std::memory_order_acquire);
            if (high != EMPTY || !slot.high.compare_exchange_strong(high, BUSY, std::memory_order_acquire)) continue;
            slot.low.store(key.low, std::memory_order_relaxed);
            slot.values[0].store(values[0], std::memory_order_relaxed);
            slot.values[1].store(values[1], std::memory_order_relaxed);
            slot.high.store(key.high, std::memory_order_release);
            return;
        }
    }

    static std::size_t length_of(std::uint64_t high) {
        return high >> 56 == LONG ? static_cast<std::uint32_t>(high) : high >> 56;
    }

    Key key_of(const byte_t* bytes, std::size_t length, std::size_t readable) const {
        if (length > LONGEST) return {0, LONG << 56 | length, 0};  // in no slot
        if (length > INLINE) return with_home(key_.of(bytes, length), LONG << 56 | length);
        const TwoWords words = two_words(bytes, length, readable);
        return with_home(words.low, words.high | static_cast<std::uint64_t>(length) << 56);
    }

    Key with_home(std::uint64_t low, std::uint64_t high) const {
        return {low, high, static_cast<std::size_t>(key_.of(low, high) & (n_slots_ - 1))};
    }

    // The pre-token's slot, or null.
    const Slot* slot_of(const Key& key, const byte_t* bytes) const {
        for (std::size_t i = key.home;; i = (i + 1) & (n_slots_ - 1)) {
            const Slot& slot = slots_[i];
            if (slot.is_of(key)) {
                if (key.high >> 56 != LONG) return &slot;
                const token_id_t* block = slot.block();
                if (std::memcmp(block + 1 + block[0], bytes, length_of(key.high)) == 0) return &slot;
            } else if (slot.high.load(std::memory_order_acquire) == EMPTY) {
                return nullptr;
            }
        }
    }

    // The copy shares the slot's block. False if there is nothing in the slot.
    bool put_copy(const Slot& slot) {
        const std::uint64_t high = slot.high.load(std::memory_order_acquire);
        if (high <= BUSY) return false;
        put(with_home(slot.low, high), {slot.values[0], slot.values[1]});
        return true;
    }

    HashKey key_;
    std::size_t n_slots_;  // a power of two
    LargeArray<Slot> slots_;
    std::shared_ptr<Estate> estate_;
    alignas(CACHE_LINE) std::atomic<std::size_t> size_{0};  // written far more often than what is above
    std::atomic<bool> is_out_of_room_{false};
    std::atomic<bool> is_retired_{false};
};

}  // namespace hf_scaffold
