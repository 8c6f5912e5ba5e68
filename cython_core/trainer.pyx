# distutils: language = c++
"""Scaffold-BPE's training loop over pre-tokens as integer symbols.

Tokens are numbered in the order of their creation: special tokens, alphabet, merged tokens. A token's
creation id never changes. `MergeLoop._run` is the algorithm; what it calls stands below it, in the
order of use. Files, presets and defaults are none of this module's business.

Three facts keep the code short. They hold where no two sequences of symbols spell the same string; for the rare
corpora where affixes make that happen there is `AmbiguousMergeLoop`, at the end.

1. A string is only ever built in one way. Take two places that hold the same base symbols between two
   boundaries that still stand: no merge has crossed those boundaries, so every replacement so far, going
   left to right, began afresh at the left one and did the same to both. So a token comes into being
   everywhere at once, through one pair; a pair comes into being everywhere at once, when the later of
   its two tokens does; and a merged pair never comes back.
2. So a pair's frequency and a scaffold token's frequency never rise. The queue holds each candidate
   once, and a queued frequency that is no longer current is too high: the candidate only has to sink.
3. No frequency can overflow once the symbols are counted: a token or a pair occurs at most as often as
   its first base symbol.

A pre-token is stored as one cell for each base symbol. A token that spans several cells has its id in
the first and in the last of them, so both neighbours of any token are one step away and a merge
writes at most four cells. Cells of BOUNDARY stand between pre-tokens and at both ends.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool
from libcpp.algorithm cimport sort, unique
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from interrupt cimport Interrupt
from widths cimport checked_add, count_t, position_t, token_id_t

from operator import index

from hf_scaffold.errors import CorpusError, CountOverflowError

cdef extern from * nogil:
    """
    #include <chrono>
    static inline double seconds_now() {
        using namespace std::chrono;
        return duration<double>(steady_clock::now().time_since_epoch()).count();
    }
    static inline void prefetch(const void* address) {
    #if defined(__GNUC__)
        __builtin_prefetch(address);
    #else
        (void)address;
    #endif
    }
    template <class Map, class Key, class Value>
    static inline void put(Map& map, const Key& key, const Value& value) {
        map.insert_or_assign(key, value);
    }
    """
    double seconds_now()
    void prefetch(const void*)
    void put[Map, Key, Value](Map&, const Key&, const Value&) except +  # unlike operator[], as Cython declares it

cdef extern from "candidate_queue.hpp" namespace "hf_scaffold" nogil:
    const token_id_t NO_TOKEN

    cppclass Candidate:
        count_t frequency
        token_id_t left
        token_id_t right
        token_id_t scaffold
        uint32_t pair

    cppclass CandidateQueue:
        bool empty()
        const Candidate& top()
        void push(const Candidate&) except +
        void pop()
        void requeue_top(count_t)

cdef extern from "pair_index.hpp" namespace "hf_scaffold" nogil:
    cppclass Pair:
        count_t frequency
        position_t* cells
        position_t size

    cppclass PairIndex:
        size_t size()
        Pair* at(uint32_t)
        Pair* find(token_id_t, token_id_t)
        uint32_t find_or_add(token_id_t, token_id_t) except +
        position_t* allocate_cells(uint32_t, position_t) except +
        size_t longest_probe()

    cppclass TallyEntry "hf_scaffold::NeighbourTally::Entry":
        TallyEntry()
        count_t weight
        position_t size
        position_t* out

    cppclass NeighbourTally:
        void add(token_id_t, count_t) except +
        void add_cell(token_id_t, count_t, position_t) except +
        vector[token_id_t]& neighbours()
        TallyEntry* at(token_id_t)
        void file_cells()
        void clear()

cdef extern from "hash_seed.hpp" namespace "hf_scaffold" nogil:
    cppclass KeyedHash:
        pass

cdef extern from "pair_key.hpp" namespace "hf_scaffold" nogil:
    uint64_t pair_key(token_id_t, token_id_t)

cdef enum:
    BOUNDARY = -1  # the cell between two pre-tokens
    INSIDE = -2    # a cell inside a token where a shorter token once began or ended
    AHEAD = 8      # places of a pair fetched into the cache before their turn
    OFTEN = 1 << 14  # cells or places between two looks at the clock, a power of two

cdef enum Outcome:
    FAILED = -1
    RUNNING
    REACHED_SIZE
    NO_CANDIDATE
    BELOW_MIN_FREQUENCY

cdef enum EventKind:
    MERGED
    MARKED
    REINSTATED

cdef struct Event:
    EventKind kind
    token_id_t token
    count_t frequency       # of the token, now
    token_id_t head_left    # the queue's head that decided it: a pair, or a scaffold with NO_TOKEN behind it
    token_id_t head_right
    count_t head_frequency

EVENT_NAMES = {MERGED: "merged", MARKED: "marked", REINSTATED: "reinstated"}

cdef double SLICE_SECONDS = 0.1  # how long the loop runs between two calls of progress
MAX_COUNT, MAX_POSITION = 2**63 - 1, 2**32 - 1
cdef enum:
    MAX_TOKENS = 2147483647


cdef in_range(str name, value, low, high):
    value = index(value)
    if not low <= value <= high:
        raise ValueError(f"{name} is {value}; it must be from {low} to {high}")
    return value


cdef class MergeLoop:
    """One training run: symbols in, merges and scaffold tokens out.

    Args:
        symbols: int32, the base symbols of all pre-tokens one after another, as creation ids.
        offsets: int64, n_pretokens + 1 offsets into `symbols`.
        counts: int64 > 0, n_pretokens > 0.
        tokens: The fixed tokens' strings as UTF-8, special tokens first, then the alphabet. No two
            sequences of alphabet symbols in the corpus may spell the same string.
        n_special: How many of `tokens` are special.
        min_frequency: Stop once the head of the queue occurs fewer times than this.
        max_token_length: Base symbols a merged token may have; 0 for any number.
        scaffold: False trains plain BPE.
        prefix_length: Bytes that the right token loses when it is merged: those of the
            continuing_subword_prefix, with which every right token begins.
        log: Whether to keep `events`.
    Raises:
        CountOverflowError: a symbol occurs more than 2**63 - 1 times.
        CorpusError: more than 2**32 - 2 symbols and pre-tokens together.
        ValueError: a symbol is no token, offsets don't ascend, a count is below 1, a number is out of range, or a
            token that is not the first of a pre-token is shorter than the prefix.
    Cost: 12 bytes a symbol of the distinct pre-tokens at first, up to 20 in the course of a run, and
        about 80 bytes a distinct pair.
    """

    cdef:
        # The corpus.
        vector[token_id_t] cells
        vector[uint32_t] owner         # cell -> pre-token
        vector[count_t] counts         # pre-token -> count
        # The tokens, by creation id.
        vector[string] strings
        vector[position_t] length      # in base symbols
        vector[count_t] frequency
        vector[bool] is_scaffold
        vector[token_id_t] left_of     # the pair that created the token; NO_TOKEN for fixed tokens
        vector[token_id_t] right_of
        # The candidates.
        PairIndex pairs
        CandidateQueue queue
        unordered_set[string, KeyedHash] specials
        vector[bool] some_special_has_length  # in bytes
        # Scratch space of _replace, kept to avoid allocation.
        vector[position_t] merged_cells
        NeighbourTally gone_left, gone_right, new_left, new_right
        vector[Event] log              # in the order in which they happened
        # The settings and the size reached.
        size_t n_fixed
        size_t n_scaffolds
        bool is_whole                  # set up, and not in the middle of a merge
        bool is_at_work                # without the GIL
        Interrupt* interrupt           # of the call at work
        size_t prefix_length
        count_t min_frequency
        position_t max_token_length
        bool scaffold
        bool keeps_log

    def __init__(
        self,
        const token_id_t[::1] symbols,
        const long long[::1] offsets,
        const long long[::1] counts,
        list tokens not None,
        n_special,
        min_frequency,
        max_token_length,
        bool scaffold,
        prefix_length=0,
        bool log=False,
    ):
        self._claim_setup()
        self.prefix_length = in_range("prefix_length", prefix_length, 0, MAX_POSITION)
        self.keeps_log = log
        cdef Interrupt interrupt
        self.interrupt = &interrupt
        self.min_frequency = max(1, in_range("min_frequency", min_frequency, 0, MAX_COUNT))
        self.max_token_length = in_range("max_token_length", max_token_length, 0, MAX_POSITION)
        self.scaffold = scaffold
        n_special = in_range("n_special", n_special, 0, len(tokens))
        for token in tokens:
            self._add_token(token, 1, NO_TOKEN, NO_TOKEN)
        for token in tokens[:n_special]:
            self._note_special(token)
        self.n_fixed = self.strings.size()
        self._load(symbols, offsets, counts)
        self.is_whole = True

    cdef int _claim_setup(self) except -1:
        if self.interrupt != NULL:
            raise RuntimeError("a loop is set up once; make another one")

    def run(self, vocab_size, progress=None):
        """Train until |V| = vocab_size or candidates run out; returns why it stopped.

        Args:
            vocab_size: |V| to reach, fixed tokens included.
            progress: Called with |V| about ten times a second; what it raises ends the run.
        Returns:
            "vocab_size", "candidates" (none is left) or "min_frequency" (the head is below it).
        Raises:
            ValueError: vocab_size is below 0 or above 2**63 - 1.
            KeyboardInterrupt: within some tenths of a second. The loop can go on, unless that was in the middle of
                one merge of millions of places.
            RuntimeError: an earlier call ended in the middle of a merge (for lack of memory, say), or another
                thread runs this loop.
        """
        cdef size_t size = in_range("vocab_size", vocab_size, 0, MAX_COUNT)
        cdef Outcome outcome = RUNNING
        while outcome == RUNNING:
            outcome = self._run_slice(size)
            PyErr_CheckSignals()
            if progress is not None:
                progress(self._vocab_size())
        return {
            REACHED_SIZE: "vocab_size",
            NO_CANDIDATE: "candidates",
            BELOW_MIN_FREQUENCY: "min_frequency",
        }[outcome]

    cdef Outcome _run_slice(self, size_t vocab_size) except FAILED:
        cdef Interrupt interrupt
        if self.is_at_work:
            raise RuntimeError("another thread runs this loop")
        if not self.is_whole:
            raise RuntimeError("this loop was left in the middle of its work; make another one")
        self.interrupt = &interrupt
        self.is_at_work = True
        try:
            with nogil:
                return self._run(vocab_size, seconds_now() + SLICE_SECONDS)
        finally:
            self.is_at_work = False

    # ---- the algorithm

    cdef Outcome _run(self, size_t vocab_size, double deadline) except FAILED nogil:
        """Runs until |V| = vocab_size, another reason to stop, or the deadline."""
        cdef Candidate head
        cdef token_id_t merged
        while self._vocab_size() < vocab_size:
            if seconds_now() > deadline:
                return RUNNING
            if self._head_frequency() == 0:
                return NO_CANDIDATE
            head = self.queue.top()
            if head.frequency < self.min_frequency:
                return BELOW_MIN_FREQUENCY

            self.is_whole = False
            self.queue.pop()
            if head.scaffold != NO_TOKEN:
                self._reinstate(head.scaffold, head)
            else:
                merged = self._create(head)
                self._replace(head.left, head.right, merged, self.pairs.at(head.pair))
                self._log(MERGED, merged, head)
                if self.scaffold:
                    self._mark_if_rare(head.left)
                    self._mark_if_rare(head.right)  # changes nothing where left is right
            self.is_whole = True
        return REACHED_SIZE

    cdef size_t _vocab_size(self) noexcept nogil:
        """|V|: the tokens created so far that are not scaffolds."""
        return self.strings.size() - self.n_scaffolds

    cdef count_t _head_frequency(self) noexcept nogil:
        """The frequency of the candidate that comes first, now at the queue's top; 0 if there is none."""
        cdef Candidate top
        cdef count_t current
        while not self.queue.empty():
            top = self.queue.top()
            current = self._frequency_of(top)
            if current == top.frequency:
                return current
            if current == 0:
                self.queue.pop()
            else:
                self.queue.requeue_top(current)
        return 0

    cdef count_t _frequency_of(self, const Candidate& candidate) noexcept nogil:
        """The candidate's current frequency; 0 for what is none any more."""
        if candidate.scaffold == NO_TOKEN:
            return self.pairs.at(candidate.pair).frequency
        return self.frequency[candidate.scaffold]

    cdef int _reinstate(self, token_id_t token, const Candidate& head) except -1 nogil:
        """The scaffold token is a normal token again, with its old id and merge rank."""
        self.is_scaffold[token] = False
        self.n_scaffolds -= 1
        self._log(REINSTATED, token, head)

    cdef token_id_t _create(self, const Candidate& pair) except -2 nogil:
        """The new normal token that the pair merges into. Its rule's rank is its place among merged tokens."""
        cdef string text
        self._spell(pair.left, pair.right, &text)
        return self._add_token(text, self.length[pair.left] + self.length[pair.right], pair.left, pair.right)

    cdef int _spell(self, token_id_t left, token_id_t right, string* text) except -1 nogil:
        """The string of the token that (left, right) merges into."""
        text.assign(self.strings[left])
        text.append(self.strings[right], self.prefix_length, self.strings[right].size())

    cdef int _replace(self, token_id_t left, token_id_t right, token_id_t merged, Pair* pair) except -1 nogil:
        """Replaces (left, right) by merged everywhere, left to right, without overlap."""
        self._rewrite_cells(left, right, merged, pair)
        self._tally_new_neighbours(merged)
        self._lower_frequencies(left, right)
        pair.frequency = 0
        self._add_pairs(merged)

    cdef int _mark_if_rare(self, token_id_t token) except -1 nogil:
        """The token becomes a scaffold if it is now rarer than the head; fixed tokens never do."""
        cdef count_t frequency = self.frequency[token]
        if <size_t>token < self.n_fixed or self.is_scaffold[token] or frequency >= self._head_frequency():
            return 0
        self.is_scaffold[token] = True
        self.n_scaffolds += 1
        self._log(MARKED, token, self.queue.top())
        if frequency > 0:
            self._push(frequency, self.left_of[token], self.right_of[token], token, 0)

    cdef int _log(self, EventKind kind, token_id_t token, const Candidate& head) except -1 nogil:
        """Notes what has happened, if a log is kept: one look at a flag for each merge if it isn't."""
        cdef Event event
        if not self.keeps_log:
            return 0
        event.kind = kind
        event.token = token
        event.frequency = self.frequency[token]
        event.head_left = head.left if head.scaffold == NO_TOKEN else head.scaffold
        event.head_right = head.right if head.scaffold == NO_TOKEN else NO_TOKEN
        event.head_frequency = head.frequency
        self.log.push_back(event)

    # ---- one merge

    cdef int _rewrite_cells(
        self, token_id_t left, token_id_t right, token_id_t merged, const Pair* pair
    ) except -1 nogil:
        """Writes `merged` over every place of the pair that still stands; tallies the pairs that go.

        Between two occurrences that touch, as in `a b a b`, the pair (b, a) is tallied by the first.
        """
        cdef token_id_t* cells = self.cells.data()
        cdef position_t left_length = self.length[left]
        cdef position_t right_length = self.length[right]
        cdef position_t i, start, middle, end, previous_end = 0
        cdef count_t weight, total = 0
        self.merged_cells.clear()
        self.gone_left.clear()
        self.gone_right.clear()
        for i in range(pair.size):
            if i % OFTEN == 0:
                self.interrupt.poll()
            if i + AHEAD < pair.size:
                prefetch(&cells[pair.cells[i + AHEAD]])
                prefetch(&self.owner[pair.cells[i + AHEAD]])
            start = pair.cells[i]
            middle = start + left_length
            if cells[start] != left or cells[middle] != right:
                continue
            end = middle + right_length
            weight = self.counts[self.owner[start]]
            total += weight
            if cells[start - 1] != BOUNDARY and start != previous_end:
                self.gone_left.add(cells[start - 1], weight)
            if cells[end] != BOUNDARY:
                self.gone_right.add(cells[end], weight)
            cells[middle - 1] = INSIDE
            cells[middle] = INSIDE
            cells[start] = merged
            cells[end - 1] = merged
            self.merged_cells.push_back(start)
            previous_end = end
        self.frequency[left] -= total
        self.frequency[right] -= total
        self.frequency[merged] = total

    cdef int _tally_new_neighbours(self, token_id_t merged) except -1 nogil:
        """Tallies the pairs that came into being: (neighbour, merged) and (merged, neighbour).

        Where two new tokens touch, their pair is tallied by the right one.
        """
        cdef token_id_t* cells = self.cells.data()
        cdef position_t length = self.length[merged]
        cdef position_t start
        cdef token_id_t neighbour
        cdef count_t weight
        cdef size_t i
        self.new_left.clear()
        self.new_right.clear()
        for i in range(self.merged_cells.size()):
            if i % OFTEN == 0:
                self.interrupt.poll()
            start = self.merged_cells[i]
            weight = self.counts[self.owner[start]]
            neighbour = cells[start - 1]
            if neighbour != BOUNDARY:
                self.new_left.add_cell(neighbour, weight, start - self.length[neighbour])
            neighbour = cells[start + length]
            if neighbour != BOUNDARY and neighbour != merged:
                self.new_right.add_cell(neighbour, weight, start)

    cdef void _lower_frequencies(self, token_id_t left, token_id_t right) noexcept nogil:
        """Subtracts what the merge took from (neighbour, left) and (right, neighbour)."""
        cdef token_id_t neighbour
        for neighbour in self.gone_left.neighbours():
            self.pairs.find(neighbour, left).frequency -= self.gone_left.at(neighbour).weight
        for neighbour in self.gone_right.neighbours():
            self.pairs.find(right, neighbour).frequency -= self.gone_right.at(neighbour).weight

    cdef int _add_pairs(self, token_id_t merged) except -1 nogil:
        """Files the tallied pairs, which are all new."""
        cdef token_id_t neighbour
        for neighbour in self.new_left.neighbours():
            self._add_pair(neighbour, merged, self.new_left.at(neighbour))
        self.new_left.file_cells()
        for neighbour in self.new_right.neighbours():
            self._add_pair(merged, neighbour, self.new_right.at(neighbour))
        self.new_right.file_cells()

    cdef int _add_pair(self, token_id_t left, token_id_t right, TallyEntry* tally) except -1 nogil:
        """Indexes and queues a new pair; its cells are to be written where tally.out points."""
        cdef uint32_t pair = self.pairs.find_or_add(left, right)
        tally.out = self.pairs.allocate_cells(pair, tally.size)
        self.pairs.at(pair).frequency = tally.weight
        if self._may_merge(left, right):
            self._push(tally.weight, left, right, NO_TOKEN, pair)

    cdef bint _may_merge(self, token_id_t left, token_id_t right) except -1 nogil:
        """Is the pair a candidate at all: not too long, and not the string of a special token?"""
        if self.max_token_length and self.length[left] + self.length[right] > self.max_token_length:
            return False
        cdef size_t n_bytes = self.strings[left].size() + self.strings[right].size() - self.prefix_length
        if n_bytes >= self.some_special_has_length.size() or not self.some_special_has_length[n_bytes]:
            return True
        cdef string text
        self._spell(left, right, &text)
        return self.specials.count(text) == 0

    cdef int _push(
        self, count_t frequency, token_id_t left, token_id_t right, token_id_t scaffold, uint32_t pair
    ) except -1 nogil:
        cdef Candidate candidate
        candidate.frequency = frequency
        candidate.left = left
        candidate.right = right
        candidate.scaffold = scaffold
        candidate.pair = pair
        self.queue.push(candidate)

    # ---- setting up

    cdef token_id_t _add_token(
        self, const string& text, position_t length, token_id_t left, token_id_t right
    ) except -2 nogil:
        if self.strings.size() >= <size_t>MAX_TOKENS:
            raise OverflowError("more than 2**31 - 1 tokens")
        self.strings.push_back(text)
        self.length.push_back(length)
        self.frequency.push_back(0)
        self.is_scaffold.push_back(False)
        self.left_of.push_back(left)
        self.right_of.push_back(right)
        return <token_id_t>(self.strings.size() - 1)

    cdef int _note_special(self, const string& text) except -1 nogil:
        self.specials.insert(text)
        if text.size() >= self.some_special_has_length.size():
            self.some_special_has_length.resize(text.size() + 1, False)
        self.some_special_has_length[text.size()] = True

    cdef int _load(
        self, const token_id_t[::1] symbols, const long long[::1] offsets, const long long[::1] counts
    ) except -1:
        """Copies the pre-tokens into cells, counts their symbols and indexes their pairs."""
        cdef size_t n_pretokens = counts.shape[0], n_cells = symbols.shape[0] + n_pretokens + 1
        cdef token_id_t overflown
        if n_cells >= 2**32:
            raise CorpusError(
                f"{symbols.shape[0]:,} symbols in {n_pretokens:,} distinct pre-tokens are more than one run "
                f"can hold (2**32 - 2 together); leave out the rarest pre-tokens"
            )
        if <size_t>offsets.shape[0] != n_pretokens + 1 or offsets[0] != 0 or offsets[n_pretokens] != symbols.shape[0]:
            raise ValueError(
                f"offsets must be {n_pretokens + 1} positions from 0 to {symbols.shape[0]}, one more than counts"
            )
        self.cells.reserve(n_cells)
        self.owner.reserve(n_cells)
        self.counts.reserve(n_pretokens)
        with nogil:
            overflown = self._append_pretokens(symbols, offsets, counts)
        if overflown != NO_TOKEN:
            text = self.strings[overflown].decode(errors="replace")
            raise CountOverflowError(f"the symbol {text!r} occurs more than 2**63 - 1 times in the corpus")
        with nogil:
            self._index_pairs()

    cdef token_id_t _append_pretokens(
        self, const token_id_t[::1] symbols, const long long[::1] offsets, const long long[::1] counts
    ) except -2 nogil:
        """Returns the symbol whose frequency overflows, or NO_TOKEN."""
        cdef Py_ssize_t pretoken
        cdef long long i, begin, end = 0
        cdef count_t count
        cdef token_id_t symbol
        for pretoken in range(counts.shape[0]):
            begin, end, count = end, offsets[pretoken + 1], counts[pretoken]
            if end < begin or end > symbols.shape[0]:
                raise ValueError(f"offset {pretoken + 1} is {end}, after {begin}; offsets must ascend")
            if count < 1:
                raise ValueError(f"count {pretoken} is {count}; counts are from 1")
            self.counts.push_back(count)
            self._append_cell(BOUNDARY, pretoken)
            for i in range(begin, end):
                symbol = symbols[i]
                self._check_symbol(i, symbol, i != begin)
                if not checked_add(self.frequency[symbol], count, &self.frequency[symbol]):
                    return symbol
                self._append_cell(symbol, pretoken)
        self._append_cell(BOUNDARY, 0)
        return NO_TOKEN

    cdef int _check_symbol(self, Py_ssize_t place, token_id_t symbol, bool continues) except -1 nogil:
        if symbol < 0 or <size_t>symbol >= self.strings.size():
            raise ValueError(f"symbol {place} is {symbol}; the tokens are 0 to {self.strings.size() - 1}")
        if continues and self.strings[symbol].size() < self.prefix_length:
            raise ValueError(f"symbol {place} continues a pre-token, but token {symbol} has no prefix")

    cdef int _append_cell(self, token_id_t token, Py_ssize_t pretoken) except -1 nogil:
        if self.cells.size() % OFTEN == 0:
            self.interrupt.poll()
        self.cells.push_back(token)
        self.owner.push_back(<uint32_t>pretoken)

    cdef int _index_pairs(self) except -1 nogil:
        """Fills the index and the queue with the pairs of base symbols."""
        cdef vector[TallyEntry] tally  # by pair
        cdef vector[position_t] example  # a cell where the pair stands
        cdef position_t cell, n = <position_t>self.cells.size()
        cdef uint32_t pair
        for cell in range(1, n):
            if cell % OFTEN == 0:
                self.interrupt.poll()
            if self.cells[cell - 1] != BOUNDARY and self.cells[cell] != BOUNDARY:
                pair = self.pairs.find_or_add(self.cells[cell - 1], self.cells[cell])
                if pair == tally.size():
                    tally.push_back(TallyEntry())
                    example.push_back(cell)
                tally[pair].size += 1
                tally[pair].weight += self.counts[self.owner[cell]]
        for pair in range(tally.size()):
            cell = example[pair]
            self._add_pair(self.cells[cell - 1], self.cells[cell], &tally[pair])
        for cell in range(1, n):
            if cell % OFTEN == 0:
                self.interrupt.poll()
            if self.cells[cell - 1] != BOUNDARY and self.cells[cell] != BOUNDARY:
                pair = self.pairs.find_or_add(self.cells[cell - 1], self.cells[cell])
                tally[pair].out[0] = cell - 1
                tally[pair].out += 1

    # ---- the result

    @property
    def tokens(self):
        """list[bytes]: every token's string as UTF-8, in creation order."""
        return list(self.strings)

    @property
    def scaffolds(self):
        """list[bool]: for every token in creation order, whether it is a scaffold."""
        return list(self.is_scaffold)

    @property
    def frequencies(self):
        """list[int]: for every token in creation order, its occurrences at this point."""
        return list(self.frequency)

    @property
    def head_frequency(self):
        """int: the frequency of the candidate that comes next; 0 if there is none."""
        return self._head_frequency()

    @property
    def longest_probe(self):
        """int: the most entries that one look-up of a pair compares: a few dozen at most, whatever the corpus is."""
        return self.pairs.longest_probe()

    @property
    def events(self):
        """list[tuple[str, int, int, int, int, int]]: kind, token, its frequency, left, right, their frequency.

        In the order in which they happened, with the frequencies of that moment. (left, right) was the head of the
        queue: a pair; or a scaffold token, and -1.
        """
        return [
            (EVENT_NAMES[event.kind], event.token, event.frequency,
             event.head_left, event.head_right, event.head_frequency)
            for event in self.log
        ]

    @property
    def merges(self):
        """list[tuple[int, int]]: the rules as creation ids, in rank order."""
        return list(zip(self.left_of, self.right_of, strict=True))[self.n_fixed :]


cdef struct TokenPair:
    token_id_t left
    token_id_t right


cdef class AmbiguousMergeLoop(MergeLoop):
    """The loop for a corpus in which different sequences of symbols may spell the same string.

    They are one token, then. With the prefix `##`, say, `###` is what `#` is inside a pre-token, and also what the
    three symbols of a pre-token `###` make. So a token can have several rules and lengths, be made again when it
    is long there, and pairs that were merged come back: none of the three facts above holds. Here a cell leads to
    its token's neighbours by links instead of lengths, a pair gathers its places as they come, and is queued again
    whenever it may have become more frequent. For any other corpus the result is MergeLoop's, in one and a half
    times its time.

    Args: as for `MergeLoop`.
    Raises: also CountOverflowError where all symbols together occur more than 2**63 - 1 times.
    """

    cdef:
        unordered_map[string, token_id_t, KeyedHash] ids
        vector[uint32_t] rules         # pairs in rank order
        # By pair.
        vector[TokenPair] tokens_of
        vector[bool] is_rule
        vector[vector[position_t]] places  # first cells of left tokens; some are stale or there twice
        # By cell, for the first cell of a token: the first cells of its neighbours, or the boundary.
        vector[position_t] previous_cell
        vector[position_t] next_cell
        # Scratch space of _replace.
        vector[uint32_t] raised

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.is_whole = False
        cdef size_t token
        cdef count_t total = 0
        cdef Interrupt interrupt
        self.interrupt = &interrupt
        for token in range(self.strings.size()):
            put(self.ids, self.strings[token], <token_id_t>token)
            if not checked_add(total, self.frequency[token], &total):
                raise CountOverflowError("the corpus has more than 2**63 - 1 symbols")
        with nogil:
            self._link()
        self.is_whole = True

    cdef int _link(self) except -1 nogil:
        cdef position_t cell
        cdef uint32_t pair
        cdef Pair* known
        cdef TokenPair tokens
        for cell in range(<position_t>self.cells.size()):
            if cell % OFTEN == 0:
                self.interrupt.poll()
            self.previous_cell.push_back(cell - 1)  # of the first cell, a boundary, none is ever asked for
            self.next_cell.push_back(cell + 1)
        self.is_rule.resize(self.pairs.size(), False)
        self.places.resize(self.pairs.size())
        for pair in range(<uint32_t>self.pairs.size()):
            if pair % OFTEN == 0:
                self.interrupt.poll()
            known = self.pairs.at(pair)
            tokens.left = self.cells[known.cells[0]]
            tokens.right = self.cells[known.cells[0] + 1]
            self.tokens_of.push_back(tokens)
            self.places[pair].assign(known.cells, known.cells + known.size)

    cdef count_t _frequency_of(self, const Candidate& candidate) noexcept nogil:
        """A token that a merge reinstated is no candidate any more, but may still be queued."""
        if candidate.scaffold != NO_TOKEN and not self.is_scaffold[candidate.scaffold]:
            return 0
        return MergeLoop._frequency_of(self, candidate)

    cdef token_id_t _create(self, const Candidate& pair) except -2 nogil:
        """The normal token that the pair merges into: new, reinstated or there all along."""
        if not self.is_rule[pair.pair]:
            self.is_rule[pair.pair] = True
            self.rules.push_back(pair.pair)
        cdef string text
        self._spell(pair.left, pair.right, &text)
        cdef token_id_t merged
        if self.ids.count(text) == 0:
            merged = MergeLoop._create(self, pair)
            put(self.ids, text, merged)
        merged = self.ids[text]
        if self.is_scaffold[merged]:
            self._reinstate(merged, pair)
        return merged

    cdef int _replace(self, token_id_t left, token_id_t right, token_id_t merged, Pair* pair) except -1 nogil:
        """Replaces (left, right) by merged everywhere, left to right, without overlap.

        Every pair's frequency is exact after each single replacement.
        """
        cdef size_t i
        self._find_places(left, right)
        self.raised.clear()
        for i in range(self.merged_cells.size()):
            if i % OFTEN == 0:
                self.interrupt.poll()
            self._replace_at(self.merged_cells[i], merged)
        sort(self.raised.begin(), self.raised.end())
        self.raised.erase(unique(self.raised.begin(), self.raised.end()), self.raised.end())
        for i in range(self.raised.size()):
            self._queue_again(self.raised[i])

    cdef int _find_places(self, token_id_t left, token_id_t right) except -1 nogil:
        """Writes the first cells of the places to replace to merged_cells, in ascending order."""
        cdef vector[position_t] known
        cdef position_t start, right_cell = 0
        known.swap(self.places[self.pairs.find_or_add(left, right)])
        sort(known.begin(), known.end())
        known.erase(unique(known.begin(), known.end()), known.end())
        self.merged_cells.clear()
        for start in known:
            if start == right_cell or self.cells[start] != left or self.cells[self.next_cell[start]] != right:
                continue
            self.merged_cells.push_back(start)
            right_cell = self.next_cell[start]

    cdef int _replace_at(self, position_t start, token_id_t merged) except -1 nogil:
        cdef position_t before = self.previous_cell[start]
        cdef position_t middle = self.next_cell[start]
        cdef position_t end = self.next_cell[middle]
        cdef token_id_t left = self.cells[start], right = self.cells[middle]
        cdef token_id_t left_neighbour = self.cells[before], right_neighbour = self.cells[end]
        cdef count_t weight = self.counts[self.owner[start]]
        self.frequency[left] -= weight
        self.frequency[right] -= weight
        self.frequency[merged] += weight
        self.pairs.find(left, right).frequency -= weight
        if left_neighbour != BOUNDARY:
            self.pairs.find(left_neighbour, left).frequency -= weight
            self._add_place(left_neighbour, merged, weight, before)
        if right_neighbour != BOUNDARY:
            self.pairs.find(right, right_neighbour).frequency -= weight
            self._add_place(merged, right_neighbour, weight, start)
        self.cells[start] = merged
        self.cells[middle] = INSIDE
        self.next_cell[start] = end
        self.previous_cell[end] = start

    cdef int _add_place(
        self, token_id_t left, token_id_t right, count_t weight, position_t cell
    ) except -1 nogil:
        cdef uint32_t pair = self.pairs.find_or_add(left, right)
        cdef TokenPair tokens
        if pair == self.places.size():
            tokens.left = left
            tokens.right = right
            self.tokens_of.push_back(tokens)
            self.is_rule.push_back(False)
            self.places.resize(pair + 1)
        self.pairs.at(pair).frequency += weight
        self.places[pair].push_back(cell)
        self.raised.push_back(pair)

    cdef int _queue_again(self, uint32_t pair) except -1 nogil:
        """Queues a pair at its frequency now. It may be queued already: what comes up later finds it merged."""
        cdef count_t frequency = self.pairs.at(pair).frequency
        cdef TokenPair tokens = self.tokens_of[pair]
        if frequency > 0 and self._may_merge(tokens.left, tokens.right):
            self._push(frequency, tokens.left, tokens.right, NO_TOKEN, pair)

    @property
    def merges(self):
        """list[tuple[int, int]]: the rules as creation ids, in rank order."""
        return [(self.tokens_of[pair].left, self.tokens_of[pair].right) for pair in self.rules]


cdef class MergeReplay(AmbiguousMergeLoop):
    """The loop with rules that are given: next comes the rule of lowest rank, not the most frequent pair.

    Run it without a size to reach, and it ends when no rule applies any more. What `Candidate` calls frequency
    is the number of rules from this one on, here; the pair index holds frequencies as ever.

    Args:
        symbols, offsets, counts: As for `MergeLoop`.
        tokens: All tokens' strings as UTF-8; a symbol is the number of its token here.
        rules: int32, (n, 3): left, right and merged token, in rank order. No pair is there twice.
    """

    cdef:
        unordered_map[uint64_t, uint32_t, KeyedHash] rank_of  # pair_key -> rank
        vector[token_id_t] makes       # rank -> merged token
        vector[count_t] found          # rank -> occurrences of the pair when its turn came

    def __init__(
        self,
        const token_id_t[::1] symbols,
        const long long[::1] offsets,
        const long long[::1] counts,
        list tokens not None,
        const token_id_t[:, ::1] rules,
    ):
        cdef Py_ssize_t rank, i
        if rules.shape[1] != 3 or rules.shape[0] > MAX_POSITION:
            raise ValueError(f"rules of shape {(rules.shape[0], rules.shape[1])}; they are rows of three tokens")
        self._claim_setup()
        for rank in range(rules.shape[0]):  # before any pair is queued
            for i in range(3):
                if not 0 <= rules[rank, i] < len(tokens):
                    raise ValueError(f"rule {rank} names token {rules[rank, i]} of {len(tokens)}")
            put(self.rank_of, pair_key(rules[rank, 0], rules[rank, 1]), <uint32_t>rank)
            self.makes.push_back(rules[rank, 2])
        self.found.resize(self.makes.size(), 0)
        super().__init__(symbols, offsets, counts, tokens, 0, 1, 0, False)

    def replay(self):
        """Apply the rules wherever they apply.

        Returns:
            list[int]: for each rule, how often its pair stood in the corpus when its turn came.
        """
        self.run(self.strings.size() + 1)
        return list(self.found)

    cdef int _push(
        self, count_t frequency, token_id_t left, token_id_t right, token_id_t scaffold, uint32_t pair
    ) except -1 nogil:
        cdef uint64_t key = pair_key(left, right)
        if self.rank_of.count(key):
            MergeLoop._push(
                self, <count_t>(self.makes.size() - self.rank_of[key]), left, right, scaffold, pair
            )

    cdef count_t _frequency_of(self, const Candidate& candidate) noexcept nogil:
        return candidate.frequency if self.pairs.at(candidate.pair).frequency > 0 else 0

    cdef token_id_t _create(self, const Candidate& pair) except -2 nogil:
        cdef uint32_t rank = self.rank_of[pair_key(pair.left, pair.right)]
        self.found[rank] += self.pairs.at(pair.pair).frequency
        return self.makes[rank]
