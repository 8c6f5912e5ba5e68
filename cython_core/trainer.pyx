# distutils: language = c++
"""Scaffold-BPE's training loop over pre-tokens as integer symbols.

Tokens are numbered in creation order: special tokens, alphabet, merged tokens. A token keeps its creation id for
good. `MergeLoop._run` is the algorithm; the functions it calls follow in the order of use. No files, presets or
defaults here.

Three facts keep the code short. They hold as long as no two sequences of symbols spell the same string;
`AmbiguousMergeLoop`, in ambiguous_loops.pxi, handles the rare corpora where affixes break that.

1. A string is only ever built in one way. Take two places with the same base symbols between two boundaries that
   still stand: no merge has crossed those boundaries, so every replacement so far, going left to right, started
   afresh at the left one and did the same to both. So a token appears everywhere at once, through one pair; a pair
   appears everywhere at once, with the later of its two tokens; and a merged pair never comes back.
2. So the frequency of a pair or a scaffold token never rises. The queue holds each candidate once; a stale
   frequency there is too high, and the candidate only has to sink.
   Therefore pairs that are too rare to merge soon can wait: they are not indexed at all until the queue's head is
   as rare, and then all pairs are indexed anew. Most pairs that a merge makes are that rare, and most runs end first.
3. Once the symbols are counted, no frequency can overflow: a token or a pair occurs at most as often as its first
   base symbol.

A pre-token takes one cell for each base symbol. A token that spans several cells has its id in the first and the
last of them, so both neighbours of a token are one step away and a merge writes at most four cells. Cells of
BOUNDARY separate the pre-tokens and enclose them all.
"""

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport uint32_t
from libcpp cimport bool
from libcpp.atomic cimport atomic
from libcpp.string cimport string
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from encoded_rows cimport encoded_rows
from interrupt cimport Interrupt
from widths cimport NO_ID, checked_add, count_t, position_t, token_id_t

from operator import index

import numpy as np

from hf_scaffold.errors import CorpusError, CountOverflowError

cdef extern from * nogil:
    """
    #include <chrono>
    static inline double seconds_now() {
        using namespace std::chrono;
        return duration<double>(steady_clock::now().time_since_epoch()).count();
    }
    """
    double seconds_now()

cdef extern from "simd.hpp" namespace "hf_scaffold" nogil:
    void prefetch(const void*)

cdef extern from "free_memory.hpp" namespace "hf_scaffold" nogil:
    void return_free_memory()

cdef extern from "cells.hpp" namespace "hf_scaffold" nogil:
    const token_id_t BOUNDARY
    const token_id_t INSIDE

    cppclass Cells:
        void make_room(size_t) except +
        void append(token_id_t) except +
        size_t size()
        token_id_t* data()
        token_id_t& operator[](size_t)
        uint32_t pretoken_of(position_t)
        void prefetch_cell(position_t)
        position_t boundary_before(uint32_t)

cdef extern from "candidate_queue.hpp" namespace "hf_scaffold" nogil:
    cppclass Candidate:
        count_t frequency
        token_id_t left
        token_id_t right
        token_id_t scaffold
        uint32_t pair

    cppclass CandidateQueue:
        CandidateQueue()
        bool empty()
        const Candidate& top()
        void push(const Candidate&) except +
        void pop()
        void requeue_top(count_t)
        void drop_pairs() except +

cdef extern from "pair_index.hpp" namespace "hf_scaffold" nogil:
    cppclass Pair:
        count_t frequency
        position_t* cells
        position_t size
        bool is_filed

    cppclass PairIndex:
        PairIndex()
        size_t size()
        Pair* at(uint32_t)
        Pair* find(token_id_t, token_id_t)
        bool has(token_id_t, token_id_t)
        void lower(token_id_t, token_id_t, count_t)
        uint32_t find_or_add(token_id_t, token_id_t) except +
        void prefetch_pair(token_id_t, token_id_t)
        position_t* allocate_cells(uint32_t, position_t) except +
        void release_cells(Pair*)
        void clear()
        size_t longest_probe()

    cppclass TallyEntry "hf_scaffold::NeighbourTally::Entry":
        TallyEntry()
        count_t weight
        position_t size
        position_t* out

    cppclass NeighbourTally:
        NeighbourTally()
        void add(token_id_t, count_t) except +
        void add_cell(token_id_t, count_t, position_t) except +
        vector[token_id_t]& neighbours()
        TallyEntry* at(token_id_t)
        void file_cells()
        void clear()

cdef extern from "hash_seed.hpp" namespace "hf_scaffold" nogil:
    cppclass KeyedHash:
        pass

cdef enum:
    PREFETCH_AHEAD = 8  # places
    POLL_EVERY = 1 << 14  # cells or places

ctypedef unsigned char byte_t

ctypedef fused code_t:
    byte_t
    token_id_t

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
    count_t frequency       # of the token, then
    token_id_t head_left    # the queue's head that decided it: a pair; or a scaffold, and NO_ID
    token_id_t head_right
    count_t head_frequency

EVENT_NAMES = {MERGED: "merged", MARKED: "marked", REINSTATED: "reinstated"}

cdef double SLICE_SECONDS = 0.1  # between two calls of progress
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

    One thread at a time may run it; the results are there to be read while none does.

    Args:
        symbols: int32 or uint8, the base symbols of all pre-tokens, concatenated, as creation ids.
        offsets: int64, n_pretokens + 1 offsets into `symbols`.
        counts: int64 > 0, n_pretokens > 0.
        tokens: The fixed tokens' strings as UTF-8, special tokens first, then the alphabet. No two
            sequences of alphabet symbols in the corpus may spell the same string.
        n_special: How many of `tokens` are special.
        min_frequency: Stop once the head of the queue occurs fewer times than this.
        max_token_length: Most base symbols in a merged token; 0 for no limit.
        scaffold: False trains plain BPE.
        prefix_length: Bytes of the continuing_subword_prefix, which every right token starts with and loses when
            merged.
        log: Whether to keep `events`.
        rare_below: Pairs of fewer occurrences wait until the queue's head is as rare. Matters to speed and memory
            alone: best is what the head comes near to in the end, but does not fall below.
        ids: int32; if given, `symbols` are places in it where the creation ids are.
        scaffolds: int32 (n, 3): tokens that are scaffolds from the start, each with the pair that it was made of.
            Like those of this run they may be reinstated, and marked again; the other `tokens` may not.
        scaffold_below: A merged token that has fewer occurrences than this share of the queue's head becomes a
            scaffold.
    Raises:
        CountOverflowError: a symbol occurs more than 2**63 - 1 times.
        CorpusError: more than 2**32 - 2 symbols and pre-tokens together.
        ValueError: a symbol is no token; offsets don't ascend; a count is below 1; a number is out of range; or a
            token that is not the first of its pre-token is shorter than the prefix.
    Cost: for each symbol of the distinct pre-tokens 8 bytes at first, 10 to 13 during a run; for each of these
        pre-tokens 12; and about 80 for each pair that is indexed.
    """

    cdef:
        # The corpus.
        Cells cells
        vector[count_t] counts         # pre-token -> count
        # The tokens, by creation id.
        vector[string] strings
        vector[position_t] length      # in base symbols
        vector[count_t] frequency
        vector[bool] is_scaffold
        vector[token_id_t] left_of     # the pair that created the token; NO_ID for fixed tokens
        vector[token_id_t] right_of
        # The candidates.
        PairIndex pairs
        CandidateQueue queue
        unordered_set[string, KeyedHash] specials
        vector[bool] some_special_has_length  # in bytes
        # Scratch space of _replace, kept to save allocations.
        vector[position_t] merged_cells
        vector[count_t] merged_counts  # of the pre-tokens that these are in
        NeighbourTally gone_left, gone_right, new_left, new_right
        vector[token_id_t] unmade      # scratch space of _append_made
        vector[Event] log              # in order
        # The settings and the size reached.
        size_t n_fixed
        size_t n_scaffolds
        bool is_consistent             # set up, and not in the middle of a merge
        atomic[bool] is_running
        bool is_finished               # without candidates
        Interrupt* interrupt           # of the running call
        size_t prefix_length
        count_t min_frequency
        count_t rare_below             # now; 1 when all pairs are indexed
        position_t max_token_length
        count_t merged_weight          # of the last merge: its occurrences
        double scaffold_below          # a share of the head's frequency
        bool scaffold
        bool tokens_split              # a token may be split into its parts again
        bool keeps_log

    def __init__(
        self,
        symbols not None,
        const long long[::1] offsets,
        const long long[::1] counts,
        list tokens not None,
        n_special,
        min_frequency,
        max_token_length,
        bool scaffold,
        prefix_length=0,
        bool log=False,
        rare_below=1,
        const token_id_t[::1] ids=None,
        const token_id_t[:, ::1] scaffolds=None,
        double scaffold_below=1,
    ):
        self._claim_setup()
        self.prefix_length = in_range("prefix_length", prefix_length, 0, MAX_POSITION)
        self.keeps_log = log
        cdef Interrupt interrupt
        self.interrupt = &interrupt
        self.min_frequency = max(1, in_range("min_frequency", min_frequency, 0, MAX_COUNT))
        self.rare_below = in_range("rare_below", rare_below, 1, MAX_COUNT)
        self.max_token_length = in_range("max_token_length", max_token_length, 0, MAX_POSITION)
        self.scaffold = scaffold
        self.scaffold_below = scaffold_below
        n_special = in_range("n_special", n_special, 0, len(tokens))
        for token in tokens:
            self._add_token(token, 1, NO_ID, NO_ID)
        for token in tokens[:n_special]:
            self._note_special(token)
        self.n_fixed = self.strings.size()
        if memoryview(symbols).itemsize == 1:
            self._load[byte_t](symbols, ids, offsets, counts)
        else:
            self._load[token_id_t](symbols, ids, offsets, counts)
        if scaffolds is not None:
            self._load_scaffolds(scaffolds)
        self.is_consistent = True

    cdef int _claim_setup(self) except -1:
        if self.interrupt != NULL:
            raise RuntimeError("a loop is set up once; make another one")

    def run(self, vocab_size, progress=None):
        """Train until |V| = vocab_size or candidates run out; returns why it stopped.

        Args:
            vocab_size: |V| to reach, fixed tokens included.
            progress: Called with |V| about ten times a second; an exception it raises ends the run.
        Returns:
            "vocab_size", "candidates" (none is left) or "min_frequency" (the head is below it).
        Raises:
            ValueError: vocab_size is below 0 or above 2**63 - 1.
            KeyboardInterrupt: within some tenths of a second. The loop can be resumed, unless it was interrupted
                in the middle of one merge of millions of places, or while it indexed that many.
            RuntimeError: an earlier call ended in the middle of a merge (out of memory, say), or another thread is
                running this loop.
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

    def finish(self):
        """Free what only further runs need, most of the memory. The results stay.

        Raises:
            RuntimeError: as for `run`, which raises it from now on.
        """
        cdef Interrupt interrupt
        self._claim_run(&interrupt)
        self.is_finished = True
        self._forget_candidates()
        with nogil:
            return_free_memory()
        self.is_running.store(False)

    cdef int _forget_candidates(self) except -1:
        self.pairs = PairIndex()
        self.queue = CandidateQueue()
        self.merged_cells = vector[position_t]()
        self.merged_counts = vector[count_t]()
        self.gone_left = NeighbourTally()  # not in one line: that would copy, and keep the room
        self.gone_right = NeighbourTally()
        self.new_left = NeighbourTally()
        self.new_right = NeighbourTally()

    cdef Outcome _run_slice(self, size_t vocab_size) except FAILED:
        cdef Interrupt interrupt
        self._claim_run(&interrupt)
        try:
            with nogil:
                return self._run(vocab_size, seconds_now() + SLICE_SECONDS)
        finally:
            self.is_running.store(False)

    cdef int _claim_run(self, Interrupt* interrupt) except -1:
        """Once this returns, the loop is the caller's alone, until it clears is_running."""
        if self.is_running.exchange(True):
            raise RuntimeError("another thread runs this loop")
        if not self.is_consistent:
            self.is_running.store(False)
            raise RuntimeError("this loop was left in the middle of its work; make another one")
        self.interrupt = interrupt

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

            self.is_consistent = False
            self.queue.pop()
            if head.scaffold != NO_ID:
                self._reinstate(head.scaffold, head)
            else:
                merged = self._create(head)
                self._replace(head.left, head.right, merged, self.pairs.at(head.pair))
                self._log(MERGED, merged, head)
                self._judge_parts(head.left, head.right)
            self.is_consistent = True
        return REACHED_SIZE

    cdef size_t _vocab_size(self) noexcept nogil:
        """|V|: the tokens created so far that are not scaffolds."""
        return self.strings.size() - self.n_scaffolds

    cdef count_t _head_frequency(self) except -1 nogil:
        """The frequency of the next candidate, which it brings to the queue's top; 0 if there is none."""
        cdef count_t frequency = self._queued_head_frequency()
        if self.is_finished:
            raise RuntimeError("this loop has finished; make another one")
        while frequency < self.rare_below and self.rare_below > 1:
            self._index_rarer_pairs()
            frequency = self._queued_head_frequency()
        return frequency

    cdef count_t _queued_head_frequency(self) noexcept nogil:
        """The same among what is queued."""
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
        """The candidate's current frequency; 0 if it is no longer a candidate."""
        if candidate.scaffold == NO_ID:
            return self.pairs.at(candidate.pair).frequency
        return self.frequency[candidate.scaffold]

    cdef int _index_rarer_pairs(self) except -1 nogil:
        """Indexes and queues all pairs anew, and fewer of them count as rare."""
        cdef bint was_consistent = self.is_consistent
        self.is_consistent = False
        self.rare_below = max(<count_t>1, self.rare_below // 8)
        self.pairs.clear()
        self.queue.drop_pairs()
        self._index_pairs()
        self.is_consistent = was_consistent

    cdef int _reinstate(self, token_id_t token, const Candidate& head) except -1 nogil:
        """Makes the scaffold token normal again, with its old id and merge rank."""
        self.is_scaffold[token] = False
        self.n_scaffolds -= 1
        self._log(REINSTATED, token, head)

    cdef token_id_t _create(self, const Candidate& pair) except -2 nogil:
        """Creates the normal token that the pair merges into. Its rule's rank is its place among merged tokens."""
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
        self.pairs.release_cells(pair)
        self._add_pairs(merged)

    cdef int _judge_parts(self, token_id_t left, token_id_t right) except -1 nogil:
        """Decides whether the merged pair's tokens stay normal tokens."""
        if self.scaffold:
            self._mark_if_rare(left)
            self._mark_if_rare(right)  # changes nothing where left is right

    cdef int _mark_if_rare(self, token_id_t token) except -1 nogil:
        """Makes the token a scaffold if it is now rarer than the head. Fixed tokens never become scaffolds."""
        cdef count_t frequency = self.frequency[token]
        if self.left_of[token] == NO_ID or self.is_scaffold[token] or not self._is_rare(frequency):
            return 0
        self.is_scaffold[token] = True
        self.n_scaffolds += 1
        self._log(MARKED, token, self.queue.top())
        if frequency > 0:
            self._push(frequency, self.left_of[token], self.right_of[token], token, 0)

    cdef bint _is_rare(self, count_t frequency) except -1 nogil:
        """Whether so many occurrences are below the share of the head's that keeps a token normal."""
        cdef count_t head = self._head_frequency()
        if self.scaffold_below == 1:  # exact for all counts
            return frequency < head
        return <double>frequency < self.scaffold_below * <double>head

    cdef int _log(self, EventKind kind, token_id_t token, const Candidate& head) except -1 nogil:
        """Logs an event, if a log is kept."""
        cdef Event event
        if not self.keeps_log:
            return 0
        event.kind = kind
        event.token = token
        event.frequency = self.frequency[token]
        event.head_left = head.left if head.scaffold == NO_ID else head.scaffold
        event.head_right = head.right if head.scaffold == NO_ID else NO_ID
        event.head_frequency = head.frequency
        self.log.push_back(event)

    cdef inline count_t _count_at(self, position_t cell) noexcept nogil:
        """The count of the pre-token that the cell is in."""
        return self.counts[self.cells.pretoken_of(cell)]

    # ---- one merge

    cdef int _rewrite_cells(
        self, token_id_t left, token_id_t right, token_id_t merged, const Pair* pair
    ) except -1 nogil:
        """Writes `merged` over every remaining occurrence of the pair; tallies the pairs that disappear.

        Between adjacent occurrences, as in `a b a b`, the first one tallies the pair (b, a).
        """
        cdef token_id_t* cells = self.cells.data()
        cdef position_t left_length = self.length[left]
        cdef position_t right_length = self.length[right]
        cdef position_t i, start, middle, end, previous_end = 0
        cdef count_t weight, total = 0
        self.merged_cells.clear()
        self.merged_counts.clear()
        self.gone_left.clear()
        self.gone_right.clear()
        for i in range(pair.size):
            if i % POLL_EVERY == 0:
                self.interrupt.poll()
            if i + 2 * PREFETCH_AHEAD < pair.size:
                self.cells.prefetch_cell(pair.cells[i + 2 * PREFETCH_AHEAD])
            if i + PREFETCH_AHEAD < pair.size:
                prefetch(&self.counts[self.cells.pretoken_of(pair.cells[i + PREFETCH_AHEAD])])
            start = pair.cells[i]
            middle = start + left_length
            if cells[start] != left or cells[middle] != right:
                continue
            if self.tokens_split and not self._begins(start, left):
                continue
            end = middle + right_length
            weight = self._count_at(start)
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
            self.merged_counts.push_back(weight)
            previous_end = end
        self.frequency[left] -= total
        self.frequency[right] -= total
        self.frequency[merged] += total
        self.merged_weight = total

    cdef bint _begins(self, position_t cell, token_id_t token) noexcept nogil:
        """Whether the token that a cell names begins there, rather than ends.

        Two cells of a token of two may also be the end of one such token and the beginning of the next; then what
        is right of both cells is this token again.
        """
        cdef position_t length = self.length[token]
        return length == 1 or self.cells[cell + 1] == (token if length == 2 else INSIDE)

    cdef int _tally_new_neighbours(self, token_id_t merged) except -1 nogil:
        """Tallies the pairs that appeared: (neighbour, merged) and (merged, neighbour).

        Where two new tokens are adjacent, the right one tallies their pair.
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
            if i % POLL_EVERY == 0:
                self.interrupt.poll()
            start = self.merged_cells[i]
            weight = self.merged_counts[i]
            neighbour = cells[start - 1]
            if neighbour != BOUNDARY:
                self.new_left.add_cell(neighbour, weight, start - self.length[neighbour])
            neighbour = cells[start + length]
            if neighbour != BOUNDARY and (neighbour != merged or not self._merged_next(i, start + length)):
                self.new_right.add_cell(neighbour, weight, start)

    cdef inline bint _merged_next(self, size_t i, position_t cell) noexcept nogil:
        """Whether the next place of this merge, after the i-th, begins in the cell."""
        return i + 1 < self.merged_cells.size() and self.merged_cells[i + 1] == cell

    cdef void _lower_frequencies(self, token_id_t left, token_id_t right) noexcept nogil:
        """Subtracts the occurrences of (neighbour, left) and (right, neighbour) that the merge removed."""
        cdef size_t i, n = self.gone_left.neighbours().size()
        cdef const token_id_t* some = self.gone_left.neighbours().data()
        for i in range(n):
            if i + PREFETCH_AHEAD < n:
                self.pairs.prefetch_pair(some[i + PREFETCH_AHEAD], left)
            self.pairs.lower(some[i], left, self.gone_left.at(some[i]).weight)
        n = self.gone_right.neighbours().size()
        some = self.gone_right.neighbours().data()
        for i in range(n):
            if i + PREFETCH_AHEAD < n:
                self.pairs.prefetch_pair(right, some[i + PREFETCH_AHEAD])
            self.pairs.lower(right, some[i], self.gone_right.at(some[i]).weight)

    cdef int _add_pairs(self, token_id_t merged) except -1 nogil:
        """Files the tallied pairs but for the rare ones."""
        cdef bint is_new = self.frequency[merged] == self.merged_weight
        cdef size_t i, n = self.new_left.neighbours().size()
        cdef const token_id_t* some = self.new_left.neighbours().data()
        for i in range(n):
            if i + PREFETCH_AHEAD < n:
                self.pairs.prefetch_pair(some[i + PREFETCH_AHEAD], merged)
            self._add_new_pair(some[i], merged, self.new_left.at(some[i]), is_new)
        self.new_left.file_cells()
        n = self.new_right.neighbours().size()
        some = self.new_right.neighbours().data()
        for i in range(n):
            if i + PREFETCH_AHEAD < n:
                self.pairs.prefetch_pair(merged, some[i + PREFETCH_AHEAD])
            self._add_new_pair(merged, some[i], self.new_right.at(some[i]), is_new)
        self.new_right.file_cells()

    cdef int _add_new_pair(self, token_id_t left, token_id_t right, TallyEntry* tally, bint is_new) except -1 nogil:
        """Adds a pair with the merged token, which is_new if no other merge has made it."""
        return self._add_pair(left, right, tally)

    cdef int _add_pair(self, token_id_t left, token_id_t right, TallyEntry* tally) except -1 nogil:
        """Indexes and queues a new pair, unless it is rare; the caller writes its cells where tally.out points."""
        if tally.weight < self.rare_below:
            return 0
        cdef uint32_t pair = self.pairs.find_or_add(left, right)
        tally.out = self.pairs.allocate_cells(pair, tally.size)
        self.pairs.at(pair).frequency = tally.weight
        if self._may_merge(left, right):
            self._push(tally.weight, left, right, NO_ID, pair)

    cdef bint _may_merge(self, token_id_t left, token_id_t right) except -1 nogil:
        """Whether the pair is a candidate at all: not too long, and not the string of a special token."""
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
        self,
        const code_t[::1] symbols,
        const token_id_t[::1] ids,
        const long long[::1] offsets,
        const long long[::1] counts,
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
        self.cells.make_room(n_cells)
        self.counts.reserve(n_pretokens)
        with nogil:
            overflown = self._append_pretokens(symbols, ids, offsets, counts)
        if overflown != NO_ID:
            text = self.strings[overflown].decode(errors="replace")
            raise CountOverflowError(f"the symbol {text!r} occurs more than 2**63 - 1 times in the corpus")
        with nogil:
            self._index_pairs()

    cdef token_id_t _append_pretokens(
        self,
        const code_t[::1] symbols,
        const token_id_t[::1] ids,
        const long long[::1] offsets,
        const long long[::1] counts,
    ) except -2 nogil:
        """Returns the symbol whose frequency overflows, or NO_ID if none does."""
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
            self._append_cell(BOUNDARY)
            for i in range(begin, end):
                symbol = symbols[i] if ids is None else self._id_at(symbols[i], ids)
                self._check_symbol(i, symbol, i != begin)
                if not checked_add(self.frequency[symbol], count, &self.frequency[symbol]):
                    return symbol
                self._append_cell(symbol)
        self._append_cell(BOUNDARY)
        return NO_ID

    cdef token_id_t _id_at(self, token_id_t code, const token_id_t[::1] ids) noexcept nogil:
        """NO_ID if there is none."""
        return ids[code] if 0 <= code < ids.shape[0] else NO_ID

    cdef int _check_symbol(self, Py_ssize_t place, token_id_t symbol, bool continues) except -1 nogil:
        if symbol < 0 or <size_t>symbol >= self.strings.size():
            raise ValueError(f"symbol {place} is {symbol}; the tokens are 0 to {self.strings.size() - 1}")
        if continues and self.strings[symbol].size() < self.prefix_length:
            raise ValueError(f"symbol {place} continues a pre-token, but token {symbol} has no prefix")

    cdef int _load_scaffolds(self, const token_id_t[:, ::1] scaffolds) except -1:
        """Marks them, and queues those that occur."""
        cdef Py_ssize_t i, j
        cdef token_id_t token
        if scaffolds.shape[1] != 3:
            raise ValueError(f"scaffolds of shape {(scaffolds.shape[0], scaffolds.shape[1])}; they are rows of three tokens")
        for i in range(scaffolds.shape[0]):
            for j in range(3):
                if not 0 <= scaffolds[i, j] < <token_id_t>self.n_fixed:
                    raise ValueError(f"scaffold {i} names token {scaffolds[i, j]} of {self.n_fixed}")
            token = scaffolds[i, 0]
            if self.is_scaffold[token]:
                raise ValueError(f"token {token} is a scaffold twice")
            self.is_scaffold[token] = True
            self.n_scaffolds += 1
            self.left_of[token], self.right_of[token] = scaffolds[i, 1], scaffolds[i, 2]
            if self.frequency[token] > 0:
                self._push(self.frequency[token], self.left_of[token], self.right_of[token], token, 0)

    cdef int _append_cell(self, token_id_t token) except -1 nogil:
        if self.cells.size() % POLL_EVERY == 0:
            self.interrupt.poll()
        self.cells.append(token)

    cdef int _index_pairs(self) except -1 nogil:
        """Fills the index and the queue with the pairs that the cells hold now; the rare ones have no cells there."""
        cdef vector[TallyEntry] tally  # by pair
        cdef vector[position_t] example  # one of the pair's cells
        cdef position_t left = 0, right = 0
        cdef uint32_t pair
        while self._to_next_pair(&left, &right):
            pair = self.pairs.find_or_add(self.cells[left], self.cells[right])
            if pair == tally.size():
                tally.push_back(TallyEntry())
                example.push_back(left)
            tally[pair].size += 1
            tally[pair].weight += self._count_at(left)
        for pair in range(<uint32_t>tally.size()):
            self.pairs.at(pair).frequency = tally[pair].weight
            left = example[pair]
            self._add_pair(self.cells[left], self.cells[self._next_token(left)], &tally[pair])
        right = 0
        while self._to_next_pair(&left, &right):
            pair = self.pairs.find_or_add(self.cells[left], self.cells[right])
            if tally[pair].out != NULL:
                tally[pair].out[0] = left
                tally[pair].out += 1

    cdef inline int _to_next_pair(self, position_t* left, position_t* right) except -1 nogil:
        """Goes from the pair whose right token begins at `right`, or from 0, to the next; False if there is none."""
        cdef position_t last = <position_t>(self.cells.size() - 1)
        while right[0] < last:
            left[0] = right[0]
            right[0] = self._next_token(left[0])
            if left[0] // POLL_EVERY != right[0] // POLL_EVERY:
                self.interrupt.poll()
            if self.cells[left[0]] != BOUNDARY and self.cells[right[0]] != BOUNDARY:
                return True
        return False

    cdef inline position_t _next_token(self, position_t cell) noexcept nogil:
        """Where the token or boundary ends that begins in the cell."""
        return cell + (1 if self.cells[cell] == BOUNDARY else self.length[self.cells[cell]])

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
        """list[int]: for every token in creation order, its occurrences now."""
        return list(self.frequency)

    @property
    def head_frequency(self):
        """int: the frequency of the next candidate; 0 if there is none."""
        cdef Interrupt interrupt
        self._claim_run(&interrupt)
        try:
            return self._head_frequency()
        finally:
            self.is_running.store(False)

    @property
    def longest_probe(self):
        """int: the most entries one look-up of a pair compares: a few dozen at most, whatever the corpus."""
        return self.pairs.longest_probe()

    @property
    def events(self):
        """list[tuple[str, int, int, int, int, int]]: kind, token, its frequency, left, right, their frequency.

        In order, with the frequencies at that moment. (left, right) was the head of the queue: a pair; or a
        scaffold token, and -1.
        """
        return [
            (EVENT_NAMES[event.kind], event.token, event.frequency,
             event.head_left, event.head_right, event.head_frequency)
            for event in self.log
        ]

    @property
    def merges(self):
        """list[tuple[int, int]]: the rules of this run as creation ids, in rank order."""
        return list(zip(self.left_of, self.right_of, strict=True))[self.n_fixed :]

    @property
    def first_rules(self):
        """int32 (n, 2): for every token in creation order, its first rule as creation ids; NO_ID for fixed tokens."""
        found = np.empty((self.strings.size(), 2), np.int32)
        cdef token_id_t[:, ::1] rules = found
        cdef size_t token
        for token in range(self.strings.size()):
            rules[token, 0] = self.left_of[token]
            rules[token, 1] = self.right_of[token]
        return found

    def made_without(self, hidden):
        """bool array: for every token in creation order, whether it is none of some, and no merge on the way made one.

        Args:
            hidden: bool, one a token: these.
        """
        cdef const unsigned char[::1] is_hidden = np.ascontiguousarray(hidden, np.bool_).view(np.uint8)
        cdef size_t token, n = self.strings.size()
        if <size_t>is_hidden.shape[0] != n:
            raise ValueError(f"{is_hidden.shape[0]} tokens are hidden or not, of {n}")
        found = np.empty(n, np.uint8)
        cdef unsigned char[::1] is_so = found
        for token in range(n):
            is_so[token] = not is_hidden[token]
            if token >= self.n_fixed and not (is_so[self.left_of[token]] and is_so[self.right_of[token]]):
                is_so[token] = False
        return found.view(np.bool_)

    def encoded(self, const long long[::1] rows, n_merges=MAX_COUNT):
        """Pre-tokens as the merges encode them, scaffold tokens included.

        A run replaces pairs in the order of the rules, so its cells are this encoding.

        Args:
            rows: int64, numbers of pre-tokens; fastest if one follows the other.
            n_merges: How many of the merges to apply.
        Returns:
            int32 creation ids, all pre-tokens' one after another, and n + 1 int64 offsets into them.
        Raises:
            ValueError: there is no such pre-token.
        """
        cdef vector[token_id_t] ids
        cdef vector[long long] ends
        cdef size_t n_tokens = self.n_fixed + min(in_range("n_merges", n_merges, 0, MAX_COUNT), <size_t>MAX_TOKENS)
        cdef Interrupt interrupt
        self._claim_run(&interrupt)
        try:
            with nogil:
                self._encode(rows, n_tokens, ids, ends)
        finally:
            self.is_running.store(False)
        return encoded_rows(ids, ends)

    cdef int _encode(
        self, const long long[::1] rows, size_t n_tokens, vector[token_id_t]& ids, vector[long long]& ends
    ) except -1 nogil:
        cdef Py_ssize_t i
        cdef long long row, following = -1
        cdef position_t cell = 0
        ends.push_back(0)
        for i in range(rows.shape[0]):
            if i % 1024 == 0:
                self.interrupt.poll()
            row = rows[i]
            if row < 0 or <size_t>row >= self.counts.size():
                raise ValueError(f"there is no pre-token {row}; there are {self.counts.size()}")
            if row != following:
                cell = self.cells.boundary_before(<uint32_t>row)
            following = row + 1
            cell += 1
            while self.cells[cell] != BOUNDARY:
                self._append_made(self.cells[cell], n_tokens, ids)
                cell += self.length[self.cells[cell]]
            ends.push_back(<long long>ids.size())

    cdef int _append_made(self, token_id_t token, size_t n_tokens, vector[token_id_t]& ids) except -1 nogil:
        """Appends the token; or, if it is not among the first n_tokens, what it was made of."""
        self.unmade.push_back(token)
        while not self.unmade.empty():
            token = self.unmade.back()
            self.unmade.pop_back()
            if <size_t>token < n_tokens:
                ids.push_back(token)
            else:
                self.unmade.push_back(self.right_of[token])
                self.unmade.push_back(self.left_of[token])


include "ambiguous_loops.pxi"
include "picky_loop.pxi"
include "token_splits.pxi"
