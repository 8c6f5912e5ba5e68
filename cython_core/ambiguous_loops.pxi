# The loops for corpora in which different sequences of symbols may spell the same string; part of trainer.pyx.

from libc.stdint cimport uint64_t
from libcpp.algorithm cimport sort, unique
from libcpp.unordered_map cimport unordered_map

cdef extern from "pair_key.hpp" namespace "hf_scaffold" nogil:
    uint64_t pair_key(token_id_t, token_id_t)

cdef extern from * nogil:
    """
    template <class Map, class Key, class Value>
    static inline void put(Map& map, const Key& key, const Value& value) {
        map.insert_or_assign(key, value);
    }
    """
    void put[Map, Key, Value](Map&, const Key&, const Value&) except +  # Cython declares operator[] without it


cdef struct TokenPair:
    token_id_t left
    token_id_t right


cdef class AmbiguousMergeLoop(MergeLoop):
    """The loop for a corpus in which different sequences of symbols may spell the same string.

    They are then one token. With the prefix `##`, for example, `###` is the symbol `#` inside a pre-token, and also
    the three symbols of a pre-token `###` merged. So a token can have several rules and lengths and be made again
    long after it first was, and merged pairs come back: none of MergeLoop's three facts holds. Here cells link to
    the neighbouring tokens instead of relying on lengths, and a pair collects its places as they appear and is
    queued again whenever it may have become more frequent. For any other corpus the result is MergeLoop's, in one
    and a half times the time, and three or four times where most pairs are rare.

    Args: as for `MergeLoop`, but all pairs are indexed, whatever `rare_below` says: a rare one may become frequent.
    Raises: also CountOverflowError if all symbols together occur more than 2**63 - 1 times.
    """

    cdef:
        unordered_map[string, token_id_t, KeyedHash] ids
        vector[uint32_t] rules         # pairs in rank order
        # By pair.
        vector[TokenPair] tokens_of
        vector[bool] is_rule
        vector[vector[position_t]] places  # first cells of left tokens; some stale or repeated
        # By first cell of a token: the first cells of its neighbours, or a boundary.
        vector[position_t] previous_cell
        vector[position_t] next_cell
        # Scratch space of _replace.
        vector[uint32_t] raised

    def __init__(self, *args, **kwargs):
        kwargs["rare_below"] = 1
        super().__init__(*args, **kwargs)
        self.is_consistent = False
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
        self.is_consistent = True

    cdef int _link(self) except -1 nogil:
        cdef position_t cell
        cdef uint32_t pair
        cdef Pair* known
        cdef TokenPair tokens
        for cell in range(<position_t>self.cells.size()):
            if cell % POLL_EVERY == 0:
                self.interrupt.poll()
            self.previous_cell.push_back(cell - 1)  # cell 0 is a boundary: its own is never read
            self.next_cell.push_back(cell + 1)
        self.is_rule.resize(self.pairs.size(), False)
        self.places.resize(self.pairs.size())
        for pair in range(<uint32_t>self.pairs.size()):
            if pair % POLL_EVERY == 0:
                self.interrupt.poll()
            known = self.pairs.at(pair)
            tokens.left = self.cells[known.cells[0]]
            tokens.right = self.cells[known.cells[0] + 1]
            self.tokens_of.push_back(tokens)
            self.places[pair].assign(known.cells, known.cells + known.size)

    cdef count_t _frequency_of(self, const Candidate& candidate) noexcept nogil:
        """A token that a merge reinstated is no longer a candidate, but may still be queued."""
        if candidate.scaffold != NO_ID and not self.is_scaffold[candidate.scaffold]:
            return 0
        return MergeLoop._frequency_of(self, candidate)

    cdef token_id_t _create(self, const Candidate& pair) except -2 nogil:
        """The normal token that the pair merges into: new, reinstated or already there."""
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
            if i % POLL_EVERY == 0:
                self.interrupt.poll()
            self._replace_at(self.merged_cells[i], merged)
        sort(self.raised.begin(), self.raised.end())
        self.raised.erase(unique(self.raised.begin(), self.raised.end()), self.raised.end())
        for i in range(self.raised.size()):
            self._queue_again(self.raised[i])

    cdef int _find_places(self, token_id_t left, token_id_t right) except -1 nogil:
        """Sets merged_cells to the first cells of the places to replace, in ascending order."""
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
        cdef count_t weight = self._count_at(start)
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
        """Queues a pair at its current frequency. An older entry, if any, comes up later and finds it merged."""
        cdef count_t frequency = self.pairs.at(pair).frequency
        cdef TokenPair tokens = self.tokens_of[pair]
        if frequency > 0 and self._may_merge(tokens.left, tokens.right):
            self._push(frequency, tokens.left, tokens.right, NO_ID, pair)

    cdef int _forget_candidates(self) except -1:
        MergeLoop._forget_candidates(self)
        self.places = vector[vector[position_t]]()
        self.previous_cell = vector[position_t]()
        self.next_cell = vector[position_t]()

    @property
    def merges(self):
        """list[tuple[int, int]]: the rules as creation ids, in rank order."""
        return [(self.tokens_of[pair].left, self.tokens_of[pair].right) for pair in self.rules]

    def encoded(self, rows, n_merges=MAX_COUNT):
        """Refuses: pairs may come back after later merges, so the cells are no encoding."""
        raise RuntimeError("where symbols are ambiguous, the loop's cells are no encoding")


cdef class MergeReplay(AmbiguousMergeLoop):
    """The loop with given rules: the rule of lowest rank comes next, not the most frequent pair.

    It ends when no rule applies. A `Candidate`'s frequency is here the number of rules from its own to the last; the
    pair index holds frequencies as usual.

    Args:
        symbols, offsets, counts: As for `MergeLoop`.
        tokens: All tokens' strings as UTF-8; a symbol is the number of its token here.
        rules: int32, (n, 3): left, right and merged token, in rank order. Each pair once.
    """

    cdef:
        unordered_map[uint64_t, uint32_t, KeyedHash] rank_of  # pair_key -> rank
        vector[token_id_t] makes       # rank -> merged token
        vector[count_t] found          # rank -> occurrences of the pair at its turn

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
            list[int]: for each rule, how often its pair occurred when its turn came.
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
