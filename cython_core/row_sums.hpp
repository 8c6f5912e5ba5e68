// Rows of tables of counted pre-tokens: checked, put in order, and added up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "interrupt.hpp"
#include "pretoken_table.hpp"
#include "widths.hpp"

namespace hf_scaffold {

// n rows of a table: pre-token i is bytes[offsets[i]] to bytes[offsets[i + 1]]. Throws std::invalid_argument if the
// offsets descend or leave 0 to `size`.
class PretokenRows {
public:
    PretokenRows() = default;

    PretokenRows(const byte_t* bytes, std::size_t size, const std::int64_t* offsets, std::size_t n)
        : bytes_(bytes), end_(bytes + size), offsets_(offsets), n_(n) {
        if (offsets[0] < 0 || !std::is_sorted(offsets, offsets + n + 1) ||
            static_cast<std::size_t>(offsets[n]) > size) {
            throw std::invalid_argument(
                "offsets must ascend from 0 or more to the length of data, " + std::to_string(size) + ", at most");
        }
    }

    std::size_t size() const { return n_; }
    const byte_t* bytes_of(std::size_t row) const { return bytes_ + offsets_[row]; }
    std::size_t length_of(std::size_t row) const { return static_cast<std::size_t>(offsets_[row + 1] - offsets_[row]); }

    bool precedes(std::size_t row, std::size_t other) const {
        return comes_before(bytes_of(row), length_of(row), bytes_of(other), length_of(other));
    }

    Prefix prefix_of(std::size_t row) const {
        return Prefix::of(bytes_of(row), length_of(row), static_cast<std::size_t>(end_ - bytes_of(row)));
    }

private:
    const byte_t *bytes_ = nullptr, *end_ = nullptr;
    const std::int64_t* offsets_ = nullptr;
    std::size_t n_ = 0;
};

// The first row that does not come after the one before it; the number of rows if there is none.
inline std::size_t first_out_of_order(const PretokenRows& rows, Interrupt& interrupt) {
    Steps steps(interrupt);
    for (std::size_t i = 1; i < rows.size(); ++i) {
        steps.next();
        if (!rows.precedes(i - 1, i)) return i;
    }
    return rows.size();
}

// The rows of one or several tables as those of one: in order, each pre-token once, with the sum of its counts.
class RowSums {
public:
    // Stretches of rows in order are merged, two and two: O(rows · log(stretches)). The rows must stay valid. Throws
    // std::invalid_argument if a count is negative.
    RowSums(const PretokenRows& rows, const count_t* counts, Interrupt& interrupt) : rows_(rows) {
        if (std::any_of(counts, counts + rows.size(), [](count_t count) { return count < 0; })) {
            throw std::invalid_argument("counts must not be negative");
        }
        std::vector<Key> keys;
        keys.reserve(rows.size());
        for (std::size_t i = 0; i < rows.size(); ++i) keys.push_back({rows.prefix_of(i), i});
        add_up(in_order(std::move(keys), interrupt), counts);
    }

    std::size_t size() const { return firsts_.size(); }
    std::size_t n_bytes() const { return n_bytes_; }

    // A row whose pre-token's sum passes 2**63 - 1, or the number of rows. If there is one, the sums end there.
    std::size_t overflown() const { return overflown_; }

    // Writes the pre-tokens' concatenated bytes, their ends in these, and their counts.
    void write(char* bytes, std::int64_t* ends, count_t* counts) const {
        std::int64_t end = 0;
        for (const std::size_t row : firsts_) {
            std::memcpy(bytes + end, rows_.bytes_of(row), rows_.length_of(row));
            *ends++ = end += static_cast<std::int64_t>(rows_.length_of(row));
        }
        std::copy(sums_.begin(), sums_.end(), counts);
    }

private:
    struct Key {
        Prefix prefix;
        std::size_t row;
    };

    bool precedes(const Key& a, const Key& b) const {
        return a.prefix == b.prefix ? rows_.precedes(a.row, b.row) : a.prefix < b.prefix;
    }

    std::vector<Key> in_order(std::vector<Key> keys, Interrupt& interrupt) const {
        Steps steps(interrupt);
        std::vector<std::size_t> bounds{0};  // of the stretches
        for (std::size_t i = 1; i < keys.size(); ++i) {
            if (precedes(keys[i], keys[i - 1])) bounds.push_back(i);
        }
        bounds.push_back(keys.size());
        std::vector<Key> merged(bounds.size() > 2 ? keys.size() : 0);
        while (bounds.size() > 2) {
            std::vector<std::size_t> fewer;
            for (std::size_t i = 0; i + 1 < bounds.size(); i += 2) {
                const Key* const middle = keys.data() + bounds[i + 1];
                const Key* const end = keys.data() + bounds[std::min(i + 2, bounds.size() - 1)];
                merge(keys.data() + bounds[i], middle, end, &merged[bounds[i]], steps);
                fewer.push_back(bounds[i]);
            }
            fewer.push_back(keys.size());
            bounds.swap(fewer);
            keys.swap(merged);
        }
        return keys;
    }

    // Two stretches, that of `middle` the second one. Which is next is chance, so no branch is taken by it.
    void merge(const Key* first, const Key* middle, const Key* end, Key* out, Steps& steps) const {
        const Key* second = middle;
        while (first != middle && second != end) {
            steps.next();
            const bool is_second = precedes(*second, *first);
            *out++ = is_second ? *second : *first;
            second += is_second;
            first += !is_second;
        }
        std::copy(second, end, std::copy(first, middle, out));
    }

    void add_up(const std::vector<Key>& keys, const count_t* counts) {
        const Key* before = nullptr;
        for (const Key& key : keys) {
            const bool is_new =
                before == nullptr || !(before->prefix == key.prefix) || rows_.precedes(before->row, key.row);
            before = &key;
            if (is_new) {
                firsts_.push_back(key.row);
                sums_.push_back(counts[key.row]);
                n_bytes_ += rows_.length_of(key.row);
            } else if (!checked_add(sums_.back(), counts[key.row], &sums_.back())) {
                overflown_ = key.row;
                return;
            }
        }
    }

    PretokenRows rows_;
    std::vector<std::size_t> firsts_;  // a row of each pre-token
    std::vector<count_t> sums_;
    std::size_t n_bytes_ = 0, overflown_ = rows_.size();
};

}  // namespace hf_scaffold
