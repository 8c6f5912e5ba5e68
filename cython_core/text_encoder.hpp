// A batch of texts to token ids, on all cores.
//
// text → UTF-8 → stretches between added tokens → pre-tokens → ids. Texts are gathered into tasks of about the same
// size, long ones cut where pre-tokens are sure to end, and threads take the tasks in turn. Each writes its ids into
// blocks of its own; in the end they are put together.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "bpe_encoder.hpp"
#include "id_cache.hpp"
#include "large_array.hpp"
#include "scan.hpp"
#include "transcode.hpp"

namespace hf_scaffold {

// How a text encodes, apart from what calls remember.
struct Pipeline {
    Preset preset;
    const BpeEncoder* bpe;
    const AddedTokens* first;   // found in the whole text
    const AddedTokens* second;  // found between those
};

// BPE-dropout: its probability, and for each text where its chances come from.
struct Dropout {
    float p = 0;
    const std::uint64_t* streams = nullptr;
};

// A text of `length` units: UTF-8 where width is 0, else characters of 1, 2 or 4 bytes.
struct Text {
    const void* data;
    std::size_t length;
    int width;
};

// Runs work() on `n` threads, the caller's among them, and throws what any of them threw.
template <class Work>
void run_on_threads(std::size_t n, Work work) {
    std::exception_ptr thrown;
    std::mutex mutex;
    const auto guarded = [&] {
        try {
            work();
        } catch (...) {
            const std::lock_guard<std::mutex> lock(mutex);
            thrown = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    try {
        while (threads.size() + 1 < n) threads.emplace_back(guarded);
    } catch (const std::system_error&) {
        // No more threads to be had: those there are do the work.
    }
    guarded();
    for (std::thread& thread : threads) thread.join();
    if (thrown) std::rethrow_exception(thrown);
}

class Batch {
public:
    Batch(Pipeline pipeline, std::size_t n_threads, Dropout dropout = {})
        : pipeline_(pipeline), n_threads_(n_threads), dropout_(dropout) {}

    void add(Text text) {
        texts_.push_back(text);
        n_units_ += text.length;
    }

    // Encodes until all is done, or until the cache is full: then call it again with another one.
    bool run(IdCache& cache) {
        if (tasks_.empty()) plan();
        const auto left = tasks_.size() - std::min(tasks_.size(), next_.load());
        run_on_threads(std::min(n_threads_, left), [&] {
            Worker worker(*this, cache);
            while (!cache.is_full()) {
                const std::size_t i = next_.fetch_add(1);
                if (i >= tasks_.size()) return;
                worker.encode(tasks_[i]);
            }
        });
        return next_.load() >= tasks_.size();
    }

    // What came of a text: OK; NOT_TEXT for a lone surrogate; UNSURE where `tokenizers` must find the added tokens.
    enum Status : std::uint8_t { OK, NOT_TEXT, UNSURE };
    Status status(std::size_t text) const { return status_[text]; }

    // The ends of the texts' ids in the ids of all.
    void ends(std::int64_t* out) {
        std::fill_n(out, texts_.size(), 0);
        std::int64_t end = 0;
        for (Task& task : tasks_) {
            task.first_id = end;
            for (std::size_t i = 0; i < task.lengths.size(); ++i) {
                end += static_cast<std::int64_t>(task.lengths[i]);
                out[task.text + i] = end;
            }
        }
    }

    // The ids of all texts, after ends().
    void ids(token_id_t* out) {
        std::atomic<std::size_t> next{0};
        const std::size_t n = n_threads_ > 1 && tasks_.size() > 8 ? n_threads_ : 1;
        run_on_threads(n, [&] {
            for (std::size_t i; (i = next.fetch_add(1)) < tasks_.size();) {
                const Task& task = tasks_[i];
                std::copy_n(task.ids, task.n_ids, out + task.first_id);
            }
        });
    }

private:
    static constexpr std::size_t TASK = std::size_t{1} << 16;  // units of text
    static constexpr std::size_t BLOCK = std::size_t{1} << 22;  // ids

    // Whole texts in a row; or of one long text some stretches in a row.
    struct Task {
        std::size_t text;
        std::size_t n_texts;
        std::size_t first_stretch = 0;
        std::size_t last_stretch = 0;  // past the last one; 0 for whole texts
        const byte_t* begin = nullptr;  // of the long text
        token_id_t* ids = nullptr;
        std::size_t n_ids = 0;
        std::int64_t first_id = 0;
        std::vector<std::size_t> lengths = {};  // of the texts
    };

    // UTF-8 of a text; `buffer` holds it where the text has it in another form.
    static bool view(const Text& text, std::vector<byte_t>& buffer, const byte_t*& begin, const byte_t*& end) {
        if (text.width == 0) {
            begin = static_cast<const byte_t*>(text.data);
            end = begin + text.length;
            return true;
        }
        const std::size_t longest = text.width == 4 ? 4 : text.width + 1;
        buffer.resize(std::max(buffer.size(), longest * text.length + AT_ONCE));
        begin = buffer.data();
        const byte_t* stop = text.width == 1   ? convert<std::uint8_t>(text, buffer)
                             : text.width == 2 ? convert<std::uint16_t>(text, buffer)
                                               : convert<std::uint32_t>(text, buffer);
        end = stop;
        return stop != nullptr;
    }

    template <class Unit>
    static const byte_t* convert(const Text& text, std::vector<byte_t>& buffer) {
        const Unit* at = static_cast<const Unit*>(text.data);
        return to_utf8(at, at + text.length, buffer.data());
    }

    static bool split(const Pipeline& pipeline, const byte_t* begin, const byte_t* end, std::vector<Stretch>& out) {
        std::vector<Stretch> outer;
        out.clear();
        if (!pipeline.first->split(begin, end, outer)) return false;
        for (const Stretch& stretch : outer) {
            if (stretch.id != NO_ID) {
                out.push_back(stretch);
            } else if (!pipeline.second->split(stretch.begin, stretch.end, out)) {
                return false;
            }
        }
        return true;
    }

    void plan() {
        status_.assign(texts_.size(), OK);
        std::size_t units = 0;
        for (std::size_t i = 0; i < texts_.size(); ++i) {
            if (texts_[i].length > 4 * TASK) {
                plan_long(i);
                units = TASK;
                continue;
            }
            if (tasks_.empty() || units >= TASK) {
                tasks_.push_back({i, 0});
                units = 0;
            }
            tasks_.back().n_texts += 1;
            units += texts_[i].length;
        }
    }

    // A text for all threads.
    void plan_long(std::size_t i) {
        buffers_.emplace_back();
        const byte_t *begin, *end;
        std::vector<Stretch> stretches;
        if (!view(texts_[i], buffers_.back(), begin, end)) {
            status_[i] = NOT_TEXT;
        } else if (!split(pipeline_, begin, end, stretches)) {
            status_[i] = UNSURE;
        }
        if (status_[i] != OK) stretches.clear();
        std::size_t size = TASK;
        for (const Stretch& stretch : stretches) {
            for (const byte_t* at = stretch.begin; at != stretch.end;) {
                const byte_t* stop = stretch.end;
                if (stretch.id == NO_ID && static_cast<std::size_t>(stop - at) > 2 * TASK) {
                    const std::size_t cut = last_cut(pipeline_.preset, at, at + TASK);
                    if (cut != 0) stop = at + cut;
                }
                if (size >= TASK) {
                    tasks_.push_back({i, 1, stretches_.size(), 0, begin});
                    size = 0;
                }
                stretches_.push_back({at, stop, stretch.id});
                tasks_.back().last_stretch = stretches_.size();
                size += static_cast<std::size_t>(stop - at);
                at = stop;
            }
        }
        if (stretches.empty()) {
            tasks_.push_back({i, 0});
            tasks_.back().lengths.push_back(0);
        }
    }

    class Worker {
    public:
        Worker(Batch& batch, IdCache& cache) : batch_(batch), cache_(cache) {}

        void encode(Task& task) {
            with_rules(batch_.pipeline_.preset, [&](auto rules) {
                if (task.last_stretch != 0) {
                    encode_stretches(rules, task);
                } else {
                    encode_texts(rules, task);
                }
            });
            task.n_ids = static_cast<std::size_t>(next_ - task.ids);
        }

    private:
        template <class Rules>
        void encode_stretches(Rules rules, Task& task) {
            const Stretch* first = &batch_.stretches_[task.first_stretch];
            const Stretch* last = &batch_.stretches_[task.last_stretch - 1];
            reserve(static_cast<std::size_t>(last->end - first->begin));
            task.ids = next_;
            for (const Stretch* stretch = first; stretch <= last; ++stretch) {
                append(rules, *stretch, last->end, task.text, task.begin);
            }
            task.lengths.push_back(static_cast<std::size_t>(next_ - task.ids));
        }

        template <class Rules>
        void encode_texts(Rules rules, Task& task) {
            std::size_t n_bytes = 0;
            for (std::size_t i = task.text; i < task.text + task.n_texts; ++i) {
                const Text& text = batch_.texts_[i];
                n_bytes += text.length * static_cast<std::size_t>(text.width == 0 ? 1 : text.width == 4 ? 4 : text.width + 1);
            }
            reserve(n_bytes);
            task.ids = next_;
            task.lengths.reserve(task.n_texts);
            for (std::size_t i = task.text; i < task.text + task.n_texts; ++i) {
                const token_id_t* start = next_;
                batch_.status_[i] = encode_text(rules, i);
                if (batch_.status_[i] != OK) next_ = const_cast<token_id_t*>(start);
                task.lengths.push_back(static_cast<std::size_t>(next_ - start));
            }
        }

        template <class Rules>
        Status encode_text(Rules rules, std::size_t text) {
            const byte_t *begin, *end;
            if (!view(batch_.texts_[text], buffer_, begin, end)) return NOT_TEXT;
            if (!split(batch_.pipeline_, begin, end, stretches_)) return UNSURE;
            for (const Stretch& stretch : stretches_) append(rules, stretch, end, text, begin);
            return OK;
        }

        // A stretch of the text that begins at `begin`. Bytes up to `readable` may be read.
        template <class Rules>
        void append(
            Rules rules, const Stretch& stretch, const byte_t* readable, std::size_t text, const byte_t* begin) {
            if (stretch.id != NO_ID) {
                *next_++ = stretch.id;
                return;
            }
            if (batch_.dropout_.p > 0) {
                append_dropping(rules, stretch, batch_.dropout_.streams[text], begin);
                return;
            }
            scan_some(rules, stretch.begin, stretch.end, [&](const byte_t* const* bounds, std::size_t n) {
                cache_.keys_of(bounds, n, readable, keys_.data());
                for (std::size_t i = 0;; ++i) {
                    i += cache_.find(bounds + i, keys_.data() + i, n - i, next_);
                    if (i == n) break;
                    append_new(bounds[i], static_cast<std::size_t>(bounds[i + 1] - bounds[i]), keys_[i]);
                }
            });
        }

        // Each pre-token anew: where it stands is what its chances depend on.
        template <class Rules>
        void append_dropping(Rules rules, const Stretch& stretch, std::uint64_t stream, const byte_t* begin) {
            for (const byte_t* at = stretch.begin; at != stretch.end;) {
                const byte_t* stop = rules.next(at, stretch.end);
                const Dice dice(batch_.dropout_.p, stream, static_cast<std::uint64_t>(at - begin));
                ids_.clear();
                batch_.pipeline_.bpe->encode(at, static_cast<std::size_t>(stop - at), work_, ids_, dice);
                next_ = std::copy(ids_.begin(), ids_.end(), next_);
                at = stop;
            }
        }

        void append_new(const byte_t* bytes, std::size_t length, const IdCache::Key& key) {
            ids_.clear();
            batch_.pipeline_.bpe->encode(bytes, length, work_, ids_);
            next_ = std::copy(ids_.begin(), ids_.end(), next_);
            cache_.add(bytes, length, key, ids_.data(), ids_.size());
        }

        // Room for the ids of so many bytes: no more ids than bytes.
        void reserve(std::size_t n_bytes) {
            const std::size_t needed = n_bytes + IdCache::SPARE;
            if (static_cast<std::size_t>(end_ - next_) >= needed) return;
            const std::size_t size = std::max(needed, std::min(BLOCK, batch_.n_units_));
            LargeArray<token_id_t> block = make_large_array<token_id_t>(size);
            next_ = block.get();
            end_ = next_ + size;
            const std::lock_guard<std::mutex> lock(batch_.blocks_mutex_);
            batch_.blocks_.push_back(std::move(block));
        }

        Batch& batch_;
        IdCache& cache_;
        BpeEncoder::Work work_;
        std::vector<token_id_t> ids_;
        std::vector<byte_t> buffer_;
        std::vector<Stretch> stretches_;
        std::array<IdCache::Key, AT_MOST_SOME> keys_;
        token_id_t* next_ = nullptr;
        token_id_t* end_ = nullptr;
    };

    Pipeline pipeline_;
    std::size_t n_threads_;
    Dropout dropout_;
    std::vector<Text> texts_;
    std::size_t n_units_ = 0;
    std::vector<Status> status_;
    std::vector<std::vector<byte_t>> buffers_;  // of long texts
    std::vector<Stretch> stretches_;            // of long texts, cut
    std::vector<Task> tasks_;
    std::atomic<std::size_t> next_{0};
    std::mutex blocks_mutex_;
    std::vector<LargeArray<token_id_t>> blocks_;
};

}  // namespace hf_scaffold
