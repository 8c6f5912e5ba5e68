// From a batch of texts to token ids, on all cores.
//
// text → UTF-8 → normalized stretches between added tokens → pre-tokens → ids. Tasks of similar size hold several texts,
// or part of a long one, cut where pre-tokens are sure to end. Threads take the tasks in turn.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "added_tokens.hpp"
#include "bpe_encoder.hpp"
#include "crew.hpp"
#include "id_cache.hpp"
#include "id_list.hpp"
#include "interrupt.hpp"
#include "large_array.hpp"
#include "splitter.hpp"
#include "stretches.hpp"
#include "transcode.hpp"

namespace hf_scaffold {

// How to encode a text; without state.
struct Pipeline {
    Splitting splitting;
    const BpeEncoder* bpe;
    Finder finder;
};

// BPE-dropout: its probability, and each text's seed.
struct Dropout {
    float p = 0;
    const std::uint64_t* streams = nullptr;
};

// An id to put after some of the texts.
struct Ending {
    token_id_t id = NO_ID;
    const byte_t* is_due = nullptr;  // for each text, whether it gets one; null if none does
};

// A text of `length` units: ASCII if width is 0; characters of 1, 2 or 4 bytes; or bytes that may be, or are, UTF-8.
constexpr int MAYBE_UTF8 = -1, SURELY_UTF8 = -2;
struct Text {
    const void* data;
    std::size_t length;
    int width;
};

// The UTF-8 of a text: its own bytes, or a copy in a buffer that the next text reuses.
class Utf8 {
public:
    // False for text with a lone surrogate, which UTF-8 can't express, and for bytes that are not UTF-8.
    bool hold(const Text& text) {
        if (text.width <= 0) {
            begin_ = static_cast<const byte_t*>(text.data);
            end_ = begin_ + text.length;
            return text.width != MAYBE_UTF8 || is_valid_utf8(begin_, end_);
        }
        begin_ = copy_.room_for(most_bytes(text) + AT_ONCE);
        end_ = text.width == 1   ? convert<std::uint8_t>(text)
               : text.width == 2 ? convert<std::uint16_t>(text)
                                 : convert<std::uint32_t>(text);
        return end_ != nullptr;
    }

    const byte_t* begin() const { return begin_; }
    const byte_t* end() const { return end_; }

    static std::size_t most_bytes(const Text& text) {
        return text.length * (text.width <= 0 ? 1 : most_utf8_bytes(static_cast<std::size_t>(text.width)));
    }

private:
    template <class Unit>
    const byte_t* convert(const Text& text) {
        const Unit* at = static_cast<const Unit*>(text.data);
        return to_utf8(at, at + text.length, copy_.get());
    }

    Scratch<byte_t> copy_;
    const byte_t* begin_ = nullptr;
    const byte_t* end_ = nullptr;
};

class Batch {
public:
    Batch(Pipeline pipeline, std::size_t n_threads, Dropout dropout = {})
        : pipeline_(std::move(pipeline)),
          n_threads_(std::clamp<std::size_t>(n_threads, 1, MOST_THREADS)),
          dropout_(dropout) {}
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    ~Batch() { skip_rest(); }

    void add(Text text) {
        texts_.push_back(text);
        n_units_ += text.length;
    }

    // Before anything runs: what follows texts, and whether ids() has to be short.
    void set_form(Ending ending, bool is_short) {
        ending_ = ending;
        if (is_short) list_.ids().make_short();
    }

    std::size_t n_units() const { return n_units_; }

    // How many pre-tokens the cache may hold once all is encoded: as text gets longer, new words get rarer.
    std::size_t n_expected(const IdCache& cache) const {
        const std::size_t before = std::min(n_cached_before_, cache.size());
        if (n_left() == tasks_.size()) return before;
        const double part = 1 - static_cast<double>(n_left()) / static_cast<double>(tasks_.size());
        return before + static_cast<std::size_t>(static_cast<double>(cache.size() - before) * std::pow(part, -0.75));
    }

    // Encodes until all is done, and returns true; or until the cache is full or retired, and returns false: call it
    // again with its successor. A cache that can't be replaced yet serves some more tasks though full. Don't call it
    // again after it threw.
    bool run(IdCache& cache, bool is_replaceable, Interrupt& interrupt) {
        if (tasks_.empty()) plan(cache, interrupt);
        list_.expect(tasks_.size());
        run_on_threads(std::min(n_threads_, n_left()), interrupt, [&] {
            Worker(*this, cache, is_replaceable, interrupt).encode_until([] { return false; });
        });
        return n_left() == 0;
    }

    // The same, but it also returns once take() has something to give, while other threads go on; then call it again.
    enum Progress : std::uint8_t { DONE, STOPPED, READY };
    Progress run_until_ready(
        const std::shared_ptr<IdCache>& cache, bool is_replaceable, const std::shared_ptr<Interrupt>& interrupt) {
        if (tasks_.empty()) plan(*cache, *interrupt);
        if (shift_ == nullptr) {
            list_.keep_apart();
            shift_ = std::make_unique<Shift>(*this, cache, is_replaceable, interrupt);
        }
        bool is_ready = false;
        shift_->crew.guard([&] { shift_->worker.encode_until([&] { return is_ready = list_.is_ready(); }); });
        if (is_ready) return READY;
        shift_->crew.finish(*interrupt);
        shift_.reset();
        return n_left() == 0 ? DONE : STOPPED;
    }

    // Consecutive texts and their ids.
    struct Taken {
        std::size_t first_text = 0;
        std::vector<std::size_t> lengths = {};
        const token_id_t* ids = nullptr;
    };

    // Gives the next texts that are encoded, as run_until_ready() goes on; false if there are none yet. The ids stay until
    // the next call.
    bool take(Taken& taken) {
        if (is_long_text_taken_) of_long_text_.clear();
        is_long_text_taken_ = false;
        while (list_.take(taken_)) {
            Task& task = tasks_[n_taken_++];
            taken.first_text = task.text;
            if (task.of == nullptr) {
                taken.lengths.swap(task.lengths);
                taken.ids = taken_.data();
                return true;
            }
            of_long_text_.insert(of_long_text_.end(), taken_.begin(), taken_.end());
            is_long_text_taken_ = n_taken_ == tasks_.size() || tasks_[n_taken_].text != task.text;
            if (is_long_text_taken_) {
                taken.lengths.assign(1, of_long_text_.size());
                taken.ids = of_long_text_.data();
                return true;
            }
        }
        return false;
    }

    // The outcome for a text. NOT_TEXT: it has no UTF-8. UNSURE: only `tokenizers` can find the added tokens.
    enum Status : std::uint8_t { OK, NOT_TEXT, UNSURE };
    Status status(std::size_t text) const { return status_[text]; }

    // Writes where each text's ids end in ids().
    void ends(std::int64_t* out) const {
        std::fill_n(out, texts_.size(), 0);
        std::int64_t end = 0;
        for (const Task& task : tasks_) {
            for (std::size_t i = 0; i < task.lengths.size(); ++i) {
                end += static_cast<std::int64_t>(task.lengths[i]);
                out[task.text + i] = end;
            }
        }
    }

    // The ids of all texts.
    IdBuffer& ids() { return list_.ids(); }

private:
    static constexpr std::size_t TASK = std::size_t{1} << 16;  // units of text
    static constexpr std::size_t FEW_TASKS = 16;
    static constexpr std::size_t MOST_THREADS = 256;

    // A text for all threads, cut into pieces: added tokens, and stretches of text of limited length.
    struct LongText {
        std::size_t text;
        Utf8 utf8 = {};
        Stretches stretches = {};
        std::vector<Stretch> pieces = {};
    };

    // Consecutive texts, or consecutive pieces of a long one.
    struct Task {
        std::size_t text;
        std::size_t n_texts;
        const LongText* of = nullptr;
        std::size_t first_piece = 0, n_pieces = 0;
        bool has_end = true;                    // of its last text
        std::vector<std::size_t> lengths = {};  // of the texts
    };

    void plan(const IdCache& cache, Interrupt& interrupt) {
        n_cached_before_ = cache.size();
        status_.assign(texts_.size(), OK);
        const std::size_t longest = std::clamp(n_units_ / (4 * n_threads_), 4 * TASK, 64 * TASK);
        for (std::size_t i = 0; i < texts_.size(); ++i) {
            if (texts_[i].length > longest) long_texts_.push_back({i});
        }
        std::atomic<std::size_t> next{0};
        run_on_threads(std::min(n_threads_, long_texts_.size()), interrupt, [&] {
            for (std::size_t i; (i = next.fetch_add(1)) < long_texts_.size();) prepare(long_texts_[i], interrupt);
        });
        const LongText* next_long = long_texts_.data();
        std::size_t units = TASK;
        for (std::size_t i = 0; i < texts_.size(); ++i) {
            if (texts_[i].length > longest) {
                plan_long(*next_long++);
                units = TASK;
                continue;
            }
            if (units >= TASK) {
                tasks_.push_back({i, 0});
                units = 0;
            }
            tasks_.back().n_texts += 1;
            units += texts_[i].length;
        }
    }

    std::size_t n_left() const { return tasks_.size() - std::min(tasks_.size(), next_.load()); }
    void skip_rest() { next_ = tasks_.size(); }

    void prepare(LongText& text, Interrupt& interrupt) {
        interrupt.poll();
        if (!text.utf8.hold(texts_[text.text])) {
            status_[text.text] = NOT_TEXT;
        } else if (!text.stretches.find(pipeline_.finder, text.utf8.begin(), text.utf8.end(), &interrupt)) {
            status_[text.text] = UNSURE;
        } else {
            for (const Stretch& stretch : text.stretches.all()) cut(stretch, text.pieces, interrupt);
        }
    }

    void cut(const Stretch& stretch, std::vector<Stretch>& pieces, Interrupt& interrupt) const {
        Steps steps(interrupt);
        for (const byte_t* at = stretch.begin; at != stretch.end;) {
            const byte_t* stop = stretch.end;
            if (stretch.id == NO_ID && static_cast<std::size_t>(stop - at) > 2 * TASK) {
                if (const std::size_t length = last_cut(pipeline_.splitting, at, at + TASK)) stop = at + length;
            }
            pieces.push_back({at, stop, stretch.id});
            steps.next();
            at = stop;
        }
    }

    void plan_long(const LongText& text) {
        std::size_t size = TASK;
        for (std::size_t i = 0; i < text.pieces.size(); ++i) {
            if (size >= TASK) {
                if (i != 0) tasks_.back().has_end = false;
                tasks_.push_back({text.text, 1, &text, i});
                size = 0;
            }
            tasks_.back().n_pieces += 1;
            size += static_cast<std::size_t>(text.pieces[i].end - text.pieces[i].begin);
        }
        if (text.pieces.empty()) tasks_.push_back({text.text, 1, &text});
    }

    class Worker {
    public:
        Worker(Batch& batch, IdCache& cache, bool is_replaceable, Interrupt& interrupt)
            : batch_(batch), cache_(cache), is_replaceable_(is_replaceable), interrupt_(interrupt), steps_(interrupt) {
            work_.interrupt = &interrupt;
        }

        Worker(const Worker&) = delete;
        Worker& operator=(const Worker&) = delete;
        ~Worker() { cache_.count(share_); }

        // Encodes tasks in turn, until there are none, the cache is to be replaced, or is_due().
        template <class IsDue>
        void encode_until(IsDue is_due) {
            try {
                for (; !is_due() && may_go_on(); ++n_done_) {
                    const std::size_t i = batch_.next_.fetch_add(1);
                    if (i >= batch_.tasks_.size()) return;
                    encode(i);
                }
            } catch (...) {
                batch_.skip_rest();
                throw;
            }
        }

    private:
        bool may_go_on() const {
            return !cache_.is_retired() && (is_replaceable_ ? !cache_.is_full() : n_done_ < FEW_TASKS);
        }

        void encode(std::size_t i) {
            interrupt_.poll();
            Task& task = batch_.tasks_[i];
            with_rules(batch_.pipeline_.splitting, [&](auto rules) {
                task.of ? encode_pieces(rules, task) : encode_texts(rules, task);
            });
            batch_.list_.put(i, out_.get(), n_made());
        }

        template <class Rules>
        void encode_pieces(Rules rules, Task& task) {
            const Stretch* first = task.of->pieces.data() + task.first_piece;
            const Stretch* last = first + task.n_pieces;
            start(first == last ? 0 : static_cast<std::size_t>(last[-1].end - first->begin), 1);
            for (const Stretch* piece = first; piece != last; ++piece)
                append(rules, *piece, task.of->stretches, task.text);
            if (task.has_end) append_ending(task.text);
            task.lengths.push_back(n_made());
        }

        template <class Rules>
        void encode_texts(Rules rules, Task& task) {
            std::size_t n_bytes = 0;
            for (std::size_t i = 0; i < task.n_texts; ++i) n_bytes += Utf8::most_bytes(batch_.texts_[task.text + i]);
            start(n_bytes, task.n_texts);
            task.lengths.reserve(task.n_texts);
            for (std::size_t i = task.text; i < task.text + task.n_texts; ++i) {
                const std::size_t before = n_made();
                if (i + 1 < task.text + task.n_texts) aim_at(batch_.texts_[i + 1]);
                batch_.status_[i] = encode_text(rules, i);
                append_ending(i);
                task.lengths.push_back(n_made() - before);
            }
        }

        void aim_at(const Text& text) {
            next_text_.aim(text.data, text.length * static_cast<std::size_t>(std::max(text.width, 1)));
        }

        template <class Rules>
        Status encode_text(Rules rules, std::size_t text) {
            if (!utf8_.hold(batch_.texts_[text])) return NOT_TEXT;
            if (!stretches_.find(batch_.pipeline_.finder, utf8_.begin(), utf8_.end(), &interrupt_)) return UNSURE;
            const auto n_bytes = static_cast<std::size_t>(stretches_.end() - stretches_.begin());
            const std::size_t n_expected = Utf8::most_bytes(batch_.texts_[text]);
            if (n_bytes > n_expected) make_room(n_bytes - n_expected);
            for (const Stretch& stretch : stretches_.all()) append(rules, stretch, stretches_, text);
            return OK;
        }

        // Appends one of the text's stretches, or a part of it.
        template <class Rules>
        void append(Rules rules, const Stretch& stretch, const Stretches& all, std::size_t text) {
            if (stretch.id != NO_ID) {
                *next_++ = stretch.id;  // there is room: it has at least one byte
            } else if (batch_.dropout_.p > 0) {
                append_dropping(rules, stretch, batch_.dropout_.streams[text], all.begin());
            } else {
                append_text(rules, stretch, all.end());
            }
        }

        // Bytes up to `readable` may be read.
        template <class Rules>
        void append_text(Rules rules, const Stretch& stretch, const byte_t* readable) {
            const auto append_batch = [&](const byte_t* const* bounds, std::size_t n, const byte_t* dropped = nullptr) {
                steps_.next();
                next_text_.advance(48);  // about as many cache lines as this batch of text has
                cache_.keys_of(bounds, n, readable, keys_.data());
                if (dropped != nullptr) {
                    append_kept(bounds, n, dropped);
                    return;
                }
                for (std::size_t i = 0;; ++i) {
                    i += cache_.find(bounds + i, keys_.data() + i, n - i, next_);
                    if (i == n) break;
                    append_new(bounds[i], static_cast<std::size_t>(bounds[i + 1] - bounds[i]), keys_[i]);
                }
            };
            scan_in_batches(rules, stretch.begin, stretch.end, append_batch);
        }

        // Those of n pre-tokens that are not dropped.
        void append_kept(const byte_t* const* bounds, std::size_t n, const byte_t* dropped) {
            for (std::size_t i = 0; i < n; ++i) {
                if (dropped[i] || cache_.find(bounds + i, keys_.data() + i, 1, next_) == 1) continue;
                append_new(bounds[i], static_cast<std::size_t>(bounds[i + 1] - bounds[i]), keys_[i]);
            }
        }

        // Without the cache: what is dropped depends on a pre-token's place.
        template <class Rules>
        void append_dropping(Rules rules, const Stretch& stretch, std::uint64_t stream, const byte_t* begin) {
            scan_by(rules, stretch.begin, stretch.end, [&](const byte_t* at, const byte_t* stop) {
                steps_.next();
                const Dice dice(batch_.dropout_.p, stream, static_cast<std::uint64_t>(at - begin));
                ids_.clear();
                batch_.pipeline_.bpe->encode(at, static_cast<std::size_t>(stop - at), work_, ids_, dice);
                append_ids(static_cast<std::size_t>(stop - at));
            });
        }

        // Not inlined: the loop over cached pre-tokens stays small, which makes it a twentieth faster.
        [[gnu::noinline]] void append_new(const byte_t* bytes, std::size_t length, const IdCache::Key& key) {
            const std::size_t n_before = n_made();
            ids_.clear();
            batch_.pipeline_.bpe->encode(bytes, length, work_, ids_);
            append_ids(length);
            cache_.add(bytes, length, key, out_.get() + n_before, n_made() - n_before, share_);
        }

        // Once for each text: start() made room.
        void append_ending(std::size_t text) {
            const Ending& ending = batch_.ending_;
            if (ending.is_due != nullptr && ending.is_due[text]) *next_++ = ending.id;
        }

        // Starts a task of `n_bytes`, with no ids and room for one per byte and one per text. From then on there is always
        // room for those still to come; cached pre-tokens have at most one per byte, so they are written unchecked.
        void start(std::size_t n_bytes, std::size_t n_texts) {
            const std::size_t n_ids = n_bytes + n_texts + IdCache::SPARE;
            next_ = out_.room_for(n_ids);
            n_spare_ = out_.size() - n_ids;
        }

        // Appends ids_, the ids of `n_bytes`. Only foreign rules and replacements make more ids than bytes.
        void append_ids(std::size_t n_bytes) {
            if (ids_.size() > n_bytes) make_room(ids_.size() - n_bytes);
            next_ = std::copy(ids_.begin(), ids_.end(), next_);
        }

        void make_room(std::size_t n_more) {
            if (n_more > n_spare_) {
                const std::size_t n = n_made(), growth = std::max(n_more, out_.size());
                next_ = out_.more_room_for(out_.size() + growth, n) + n;
                n_spare_ += growth;
            }
            n_spare_ -= n_more;
        }

        std::size_t n_made() const { return static_cast<std::size_t>(next_ - out_.get()); }

        Batch& batch_;
        IdCache& cache_;
        bool is_replaceable_;
        std::size_t n_done_ = 0;
        IdCache::Share share_;
        Interrupt& interrupt_;
        Steps steps_;
        BpeEncoder::Work work_;
        std::vector<token_id_t> ids_;
        Utf8 utf8_;
        SlowPrefetch next_text_;
        Stretches stretches_;
        std::array<IdCache::Key, MOST_IN_BATCH> keys_;
        Scratch<token_id_t> out_;
        std::size_t n_spare_ = 0;     // room in out_ beyond that for bytes and texts to come
        token_id_t* next_ = nullptr;  // the end of the task's ids
    };

    // Threads at work for run_until_ready(), until the cache is to be replaced.
    struct Shift {
        Shift(Batch& batch, std::shared_ptr<IdCache> with, bool is_replaceable, std::shared_ptr<Interrupt> until)
            : cache(std::move(with)), interrupt(std::move(until)), worker(batch, *cache, is_replaceable, *interrupt) {
            crew.start(
                std::clamp<std::size_t>(batch.n_left(), 1, batch.n_threads_) - 1, [this, &batch, is_replaceable] {
                    Worker(batch, *cache, is_replaceable, *interrupt).encode_until([] { return false; });
                });
        }

        std::shared_ptr<IdCache> cache;
        std::shared_ptr<Interrupt> interrupt;
        Worker worker;
        Crew crew;
    };

    Pipeline pipeline_;
    std::size_t n_threads_;
    Dropout dropout_;
    Ending ending_;
    std::vector<Text> texts_;
    std::size_t n_units_ = 0, n_cached_before_ = 0;
    std::vector<Status> status_;
    std::vector<LongText> long_texts_;
    std::vector<Task> tasks_;
    std::atomic<std::size_t> next_{0};
    IdList list_;
    std::size_t n_taken_ = 0;               // tasks
    IdList::Piece taken_;                   // of the last one
    std::vector<token_id_t> of_long_text_;  // as far as taken
    bool is_long_text_taken_ = false;
    std::unique_ptr<Shift> shift_;  // the last member: ends its threads before what they use
};

}  // namespace hf_scaffold
