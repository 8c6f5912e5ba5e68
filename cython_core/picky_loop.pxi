# The loop of PickyBPE, which takes tokens out again while it trains; part of trainer.pyx.

cdef extern from "later_cells.hpp" namespace "hf_scaffold" nogil:
    cppclass LaterCells:
        LaterCells()
        void add(uint32_t, position_t) except +
        position_t* make_room(uint32_t, size_t) except +
        bool take(uint32_t, const position_t*, size_t, vector[position_t]&) except +
        void clear()

cdef count_t MAX_FREQUENCY = 2**63 - 1


cdef struct Step:
    token_id_t left   # of a merge; or the token that is removed
    token_id_t right  # NO_ID of a removal
    token_id_t made   # by a merge; of a removal, where its parts end among all


cdef class PickyMergeLoop(MergeLoop):
    """PickyBPE (Chizhov et al. 2024): a token that one merge nearly uses up is removed, and what is left of it split.

    After the merge of a pair, each of its tokens whose share of occurrences that went into the merge is above the
    threshold is removed: first the left one, then the right one. Its other occurrences become what it was made of, as
    far as that is there. A removed token comes back when a pair that spells it is merged.

    So two of MergeLoop's facts fail: merged pairs come back, and frequencies rise. A pair that rises has cells besides
    those of the index, in `later_cells`. A pair that was too rare to be indexed, and rises, has some of its cells
    there; the others are found when it reaches the queue's head, where all pairs are indexed anew. Until then its
    place in the queue is that of the most occurrences it can have.

    Args: as for `MergeLoop`, and
        threshold: From 0 to 1; at 1 no token is ever removed.
    """

    cdef:
        unordered_map[string, token_id_t, KeyedHash] ids  # of merged tokens
        LaterCells later_cells             # by pair
        vector[vector[position_t]] places  # token -> first cells where it came into being; some stale
        vector[Step] steps                 # in order
        vector[token_id_t] parts_of_steps
        double threshold
        # Scratch space.
        vector[position_t] gathered
        vector[token_id_t] parts
        unordered_map[uint32_t, TokenPair] raised  # by pair

    def __init__(self, *args, double threshold, **kwargs):
        self.threshold = threshold
        self.tokens_split = True
        super().__init__(*args, **kwargs)

    # ---- the candidates

    cdef count_t _frequency_of(self, const Candidate& candidate) noexcept nogil:
        """Of a pair that lacks cells, the most that it can be."""
        cdef const Pair* pair = self.pairs.at(candidate.pair)
        if pair.is_filed:
            return pair.frequency
        if pair.frequency > MAX_FREQUENCY - self.rare_below:
            return MAX_FREQUENCY
        return max(<count_t>0, pair.frequency + self.rare_below - 1)

    cdef count_t _head_frequency(self) except -1 nogil:
        cdef count_t frequency = MergeLoop._head_frequency(self)
        while frequency > 0 and not self.pairs.at(self.queue.top().pair).is_filed:
            self._index_rarer_pairs()
            frequency = MergeLoop._head_frequency(self)
        return frequency

    cdef int _index_rarer_pairs(self) except -1 nogil:
        self.later_cells.clear()
        MergeLoop._index_rarer_pairs(self)

    cdef int _queue_again(self, uint32_t number, token_id_t left, token_id_t right) except -1 nogil:
        """Queues a pair that has risen. An older entry, if any, comes up later and is then as frequent."""
        cdef Candidate candidate
        candidate.scaffold = NO_ID
        candidate.pair = number
        cdef count_t frequency = self._frequency_of(candidate)
        if frequency > 0 and self._may_merge(left, right):
            self._push(frequency, left, right, NO_ID, number)

    cdef uint32_t _raised(self, token_id_t left, token_id_t right, count_t by) except? 0 nogil:
        """Adds to the pair's frequency; returns its number."""
        cdef size_t known = self.pairs.size()
        cdef uint32_t number = self.pairs.find_or_add(left, right)
        cdef Pair* pair = self.pairs.at(number)
        if self.pairs.size() > known:
            pair.is_filed = self.rare_below == 1  # else it may occur elsewhere, too
        pair.frequency += by
        return number

    # ---- one merge

    cdef token_id_t _create(self, const Candidate& pair) except -2 nogil:
        """The normal token that the pair merges into: new, one that was removed, or already there."""
        cdef string text
        cdef token_id_t merged
        self._spell(pair.left, pair.right, &text)
        if self.ids.count(text) == 0:
            merged = MergeLoop._create(self, pair)
            put(self.ids, text, merged)
        merged = self.ids[text]
        if self.is_scaffold[merged]:
            self.is_scaffold[merged] = False
            self.n_scaffolds -= 1
        self._add_step(pair.left, pair.right, merged)
        return merged

    cdef int _replace(self, token_id_t left, token_id_t right, token_id_t merged, Pair* pair) except -1 nogil:
        cdef uint32_t number = self.pairs.find_or_add(left, right)
        cdef Pair gathered = pair[0]
        if self.later_cells.take(number, pair.cells, pair.size, self.gathered):
            gathered.cells = self.gathered.data()
            gathered.size = <position_t>self.gathered.size()
        self._rewrite_cells(left, right, merged, &gathered)
        self._keep_places(merged)
        self._tally_new_neighbours(merged)
        self._lower_frequencies(left, right)
        pair.frequency = 0
        self.pairs.release_cells(pair)
        self._add_pairs(merged)

    cdef int _keep_places(self, token_id_t merged) except -1 nogil:
        if self.places.size() <= <size_t>merged:
            self.places.resize(merged + 1)
        cdef vector[position_t]* places = &self.places[merged]
        places.insert(places.end(), self.merged_cells.begin(), self.merged_cells.end())

    cdef int _add_new_pair(self, token_id_t left, token_id_t right, TallyEntry* tally, bint is_new) except -1 nogil:
        """Also for a pair that is there already; is_new: whether the merged token wasn't there before."""
        if not self.pairs.has(left, right) and (is_new or self.rare_below == 1):
            return self._add_pair(left, right, tally)
        cdef uint32_t number = self._raised(left, right, tally.weight)
        tally.out = self.later_cells.make_room(number, tally.size)
        self._queue_again(number, left, right)

    # ---- what becomes of the merged tokens

    cdef int _judge_parts(self, token_id_t left, token_id_t right) except -1 nogil:
        """Removes those of the pair's tokens that its merge has nearly used up."""
        cdef count_t merged = self.merged_weight
        self._remove_if_used_up(left, merged)
        if right != left:
            self._remove_if_used_up(right, merged)

    cdef int _remove_if_used_up(self, token_id_t token, count_t merged) except -1 nogil:
        cdef double whole = <double>self.frequency[token] + <double>merged
        if self.left_of[token] == NO_ID or not <double>merged / whole > self.threshold:
            return 0
        self.is_scaffold[token] = True
        self.n_scaffolds += 1
        self.parts.clear()
        self._append_present(token)
        self.parts_of_steps.insert(self.parts_of_steps.end(), self.parts.begin(), self.parts.end())
        if self.parts_of_steps.size() > <size_t>MAX_TOKENS:
            raise OverflowError("the removed tokens have more than 2**31 - 1 parts")
        self._add_step(token, NO_ID, <token_id_t>self.parts_of_steps.size())
        self._split(token)

    cdef int _append_present(self, token_id_t token) except -1 nogil:
        """Appends to `parts` the token; or, if it is removed, what it was made of."""
        self.unmade.push_back(token)
        while not self.unmade.empty():
            token = self.unmade.back()
            self.unmade.pop_back()
            if not self.is_scaffold[token]:
                self.parts.push_back(token)
            else:
                self.unmade.push_back(self.right_of[token])
                self.unmade.push_back(self.left_of[token])

    cdef int _add_step(self, token_id_t left, token_id_t right, token_id_t made) except -1 nogil:
        cdef Step step
        step.left = left
        step.right = right
        step.made = made
        self.steps.push_back(step)

    cdef int _split(self, token_id_t token) except -1 nogil:
        """Writes the parts over every occurrence of the token. After each, every frequency is exact."""
        cdef vector[position_t] places
        cdef size_t i
        places.swap(self.places[token])
        sort(places.begin(), places.end())
        self.raised.clear()
        for i in range(places.size()):
            if i % POLL_EVERY == 0:
                self.interrupt.poll()
            if self.cells[places[i]] == token and self._begins(places[i], token):
                self._split_at(places[i], token)
        for raised in self.raised:
            self._queue_again(raised.first, raised.second.left, raised.second.right)

    cdef int _split_at(self, position_t start, token_id_t token) except -1 nogil:
        cdef token_id_t* cells = self.cells.data()
        cdef position_t end = start + self.length[token], cell = start
        cdef token_id_t before = cells[start - 1], after = cells[end], part
        cdef count_t weight = self._count_at(start)
        cdef size_t i
        if before != BOUNDARY:
            self.pairs.lower(before, token, weight)
        if after != BOUNDARY:
            self.pairs.lower(token, after, weight)
        self.frequency[token] -= weight
        for i in range(self.parts.size()):
            part = self.parts[i]
            cells[cell] = part
            cells[cell + self.length[part] - 1] = part
            self.frequency[part] += weight
            if self.left_of[part] != NO_ID:
                self.places[part].push_back(cell)
            if before != BOUNDARY:
                self._raise(before, part, weight, cell - self.length[before])
            before = part
            cell += self.length[part]
        if after != BOUNDARY:
            self._raise(before, after, weight, end - self.length[before])

    cdef int _raise(self, token_id_t left, token_id_t right, count_t by, position_t cell) except -1 nogil:
        cdef uint32_t number = self._raised(left, right, by)
        cdef TokenPair pair
        pair.left = left
        pair.right = right
        self.later_cells.add(number, cell)
        put(self.raised, number, pair)

    # ---- the result

    cdef int _forget_candidates(self) except -1:
        MergeLoop._forget_candidates(self)
        self.ids = unordered_map[string, token_id_t, KeyedHash]()
        self.later_cells = LaterCells()
        self.places = vector[vector[position_t]]()
        self.gathered = vector[position_t]()
        self.raised = unordered_map[uint32_t, TokenPair]()

    @property
    def history(self):
        """tuple of int32 arrays, (n, 3) and (n_parts,): each step's left, right and merged token; and parts.

        A step merges a pair; or, where there is no right token, removes the left one, and has in place of the merged
        token the place where its parts end among all parts.
        """
        cdef size_t i, n = self.steps.size()
        rows, parts = np.empty((n, 3), np.int32), np.empty(self.parts_of_steps.size(), np.int32)
        cdef token_id_t[:, ::1] row = rows
        cdef token_id_t[::1] part = parts
        for i in range(n):
            row[i, 0], row[i, 1] = self.steps[i].left, self.steps[i].right
            row[i, 2] = self.steps[i].made
        for i in range(self.parts_of_steps.size()):
            part[i] = self.parts_of_steps[i]
        return rows, parts
