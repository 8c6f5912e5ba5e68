// From the bytes of a pre-token to its ids: a hash table that threads read and fill at the same time without locks.
//
// Open addressing with linear probing over 32-byte slots, two to a cache line. A pre-token of up to 15 bytes with
// up to 3 ids lies in its slot, so that encoding one of the many that recur reads one cache line; the others lie
// in a block of their own that the slot points to. A slot goes from empty through busy to full once and never
// changes again. Readers of a warm cache write nothing, so cores share its lines.
//
// There is no lock that a fork could leave taken: a slot that another thread was filling when the process was
// forked stays busy in the child, which passes over it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "large_array.hpp"
#include "simd.hpp"
#include "utf8.hpp"
#include "widths.hpp"

namespace hf_scaffold {

#ifdef __BYTE_ORDER__
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read from bytes, ids from words");
#endif

class IdCache {
public:
    static constexpr std::size_t LONGEST = 256;  // in bytes: what is longer hardly recurs
    static constexpr std::size_t SPARE = 4;      // ids that may be written behind those appended

    // A pre-token as this cache looks for it. The bytes must outlive it.
    struct Key {
        std::uint64_t low;
        std::uint64_t high;  // its top byte: the length, or LONG
        const byte_t* bytes;
        std::uint32_t length;
        std::uint32_t home;  // where the search for its slot begins
    };

    explicit IdCache(std::size_t n_slots = FIRST_SLOTS) : n_slots_(n_slots), slots_(make_large_array<Slot>(n_slots)) {
        std::uninitialized_value_construct_n(slots_.get(), n_slots);
    }
    IdCache(const IdCache&) = delete;
    IdCache& operator=(const IdCache&) = delete;
    ~IdCache() {
        for (std::size_t i = 0; i < n_slots_; ++i) delete[] block_of(slots_[i]);
    }

    // The key of 0 < length <= LONGEST bytes, of which `readable` >= length may be read. Its slot begins to be fetched:
    // make some hundred keys before finding the first, and none has to wait for memory.
    Key key_of(const byte_t* bytes, std::size_t length, std::size_t readable) const {
        if (length > INLINE) return key(hash_of(bytes, length), LONG << 56 | length, bytes, length);
        std::uint64_t words[2] = {0, 0};
        if (readable >= 16) {
            std::uint64_t mask[2];
            std::memcpy(words, bytes, 16);
            std::memcpy(mask, ONES_THEN_ZEROS + 16 - length, 16);
            words[0] &= mask[0];
            words[1] &= mask[1];
        } else {
            std::memcpy(words, bytes, length);
        }
        return key(words[0], words[1] | static_cast<std::uint64_t>(length) << 56, bytes, length);
    }

    // Writes the ids of the pre-token to `out`, and up to SPARE numbers without meaning behind them; returns the
    // end of the ids, or null if the cache doesn't hold it.
    token_id_t* find(const Key& key, token_id_t* out) const {
        for (std::size_t i = key.home;; i = (i + 1) & (n_slots_ - 1)) {
            const Slot& slot = slots_[i];
            const std::uint64_t high = slot.high.load(std::memory_order_acquire);
            if (high == key.high && slot.low.load(std::memory_order_relaxed) == key.low) {
                const std::uint64_t values[2] = {
                    slot.values[0].load(std::memory_order_relaxed), slot.values[1].load(std::memory_order_relaxed)};
                const std::uint64_t n = values[1] >> 32;
                if (n <= INLINE_IDS) {
                    std::memcpy(out, values, sizeof values);
                    return out + n;
                }
                const token_id_t* block = reinterpret_cast<const token_id_t*>(values[0]);
                if (holds(block, key)) return std::copy_n(block + 1, block[0], out);
            } else if (high == EMPTY) {
                return nullptr;
            }
        }
    }

    // Adds a pre-token that find() did not find. Nothing is added once the cache is full.
    void add(const Key& key, const token_id_t* ids, std::size_t n) {
        if (is_full()) return;
        std::uint64_t values[2] = {0, static_cast<std::uint64_t>(n) << 32};
        token_id_t* block = nullptr;
        if (n <= INLINE_IDS && key.length <= INLINE) {
            token_id_t inlined[4] = {0, 0, 0, static_cast<token_id_t>(n)};
            std::copy_n(ids, n, inlined);
            std::memcpy(values, inlined, sizeof values);
        } else {
            block = new token_id_t[1 + n + (key.length + sizeof(token_id_t) - 1) / sizeof(token_id_t)];
            block[0] = static_cast<token_id_t>(n);
            std::copy_n(ids, n, block + 1);
            std::memcpy(block + 1 + n, key.bytes, key.length);
            values[0] = reinterpret_cast<std::uintptr_t>(block);
            values[1] = BLOCK << 32;
        }
        for (std::size_t i = key.home;; i = (i + 1) & (n_slots_ - 1)) {
            Slot& slot = slots_[i];
            std::uint64_t high = slot.high.load(std::memory_order_acquire);
            if (high != EMPTY || !slot.high.compare_exchange_strong(high, BUSY, std::memory_order_acquire)) continue;
            slot.low.store(key.low, std::memory_order_relaxed);
            slot.values[0].store(values[0], std::memory_order_relaxed);
            slot.values[1].store(values[1], std::memory_order_relaxed);
            slot.high.store(key.high, std::memory_order_release);
            size_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
    }

    bool is_full() const { return size_.load(std::memory_order_relaxed) >= n_slots_ / 2; }
    std::size_t size() const { return size_.load(std::memory_order_relaxed); }

    // What takes the place of a full cache: one four times as large with the same content; an empty one at the
    // largest size, so that text of another kind finds room, too.
    std::shared_ptr<IdCache> successor() const {
        if (n_slots_ >= LAST_SLOTS) return std::make_shared<IdCache>(LAST_SLOTS);
        auto larger = std::make_shared<IdCache>(n_slots_ * 4);
        for (std::size_t i = 0; i < n_slots_; ++i) larger->add_copy(slots_[i]);
        return larger;
    }

private:
    static constexpr std::size_t FIRST_SLOTS = std::size_t{1} << 15;  // 1 MB
    static constexpr std::size_t LAST_SLOTS = std::size_t{1} << 19;  // 16 MB
    static constexpr std::size_t INLINE = 15;
    static constexpr std::size_t INLINE_IDS = 3;
    static constexpr std::uint64_t LONG = 0xFF;   // in the top byte of `high`, whose low bits are the length
    static constexpr std::uint64_t BLOCK = 0xFF;  // in place of the number of ids
    // Values of `high` that no key has: its top byte is not 0.
    static constexpr std::uint64_t EMPTY = 0;
    static constexpr std::uint64_t BUSY = 1;
    static constexpr byte_t ONES_THEN_ZEROS[32] = {
        0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
    };

    struct Slot {
        std::atomic<std::uint64_t> low;        // bytes 0 to 7; of a long pre-token the hash
        std::atomic<std::uint64_t> high;       // bytes 8 to 14 and the length
        std::atomic<std::uint64_t> values[2];  // three ids and their number; or the address of a block, and BLOCK
    };

    static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
        const std::uint64_t hash = (a * 0x9E3779B97F4A7C15ull) ^ ((b << 32 | b >> 32) * 0xC2B2AE3D27D4EB4Full);
        return hash ^ hash >> 32;
    }

    static std::uint64_t hash_of(const byte_t* bytes, std::size_t length) {
        std::uint64_t hash = length;
        std::uint64_t word;
        for (std::size_t at = 0; at + 8 <= length; at += 8) {
            std::memcpy(&word, bytes + at, 8);
            hash = mix(hash, word);
        }
        std::memcpy(&word, bytes + length - 8, 8);
        return mix(hash, word);
    }

    Key key(std::uint64_t low, std::uint64_t high, const byte_t* bytes, std::size_t length) const {
        const std::size_t home = mix(low, high) & (n_slots_ - 1);
        prefetch(&slots_[home]);
        return {low, high, bytes, static_cast<std::uint32_t>(length), static_cast<std::uint32_t>(home)};
    }

    // A block: the number of ids, the ids, the bytes of the pre-token.
    static bool holds(const token_id_t* block, const Key& key) {
        return std::memcmp(block + 1 + block[0], key.bytes, key.length) == 0;
    }

    static const token_id_t* block_of(const Slot& slot) {
        if (slot.high <= BUSY || slot.values[1] >> 32 != BLOCK) return nullptr;
        return reinterpret_cast<const token_id_t*>(slot.values[0].load());
    }

    void add_copy(const Slot& slot) {
        const std::uint64_t high = slot.high.load(std::memory_order_acquire);
        if (high <= BUSY) return;
        const std::size_t length = high >> 56 == LONG ? high & 0xFFFF : high >> 56;
        if (const token_id_t* block = block_of(slot)) {
            const byte_t* bytes = reinterpret_cast<const byte_t*>(block + 1 + block[0]);
            add(key(slot.low, high, bytes, length), block + 1, static_cast<std::size_t>(block[0]));
        } else {
            const std::uint64_t values[2] = {slot.values[0], slot.values[1]};
            token_id_t ids[4];
            std::memcpy(ids, values, sizeof values);
            add(key(slot.low, high, nullptr, length), ids, static_cast<std::size_t>(ids[3]));
        }
    }

    std::size_t n_slots_;  // a power of two
    LargeArray<Slot> slots_;
    std::atomic<std::size_t> size_{0};
};

}  // namespace hf_scaffold
