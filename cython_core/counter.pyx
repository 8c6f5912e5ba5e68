"""Counting pre-tokens of UTF-8 text with native scanners."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libcpp cimport bool as bool_t
from libcpp.atomic cimport atomic
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

import numpy as np

from hf_scaffold.errors import ConfigurationError, CountOverflowError

from interrupt cimport Interrupt
from presets cimport Splitting, splitting_of
from widths cimport count_t


cdef extern from "utf8.hpp" namespace "hf_scaffold" nogil:
    ctypedef unsigned char byte_t
    bool_t is_valid_utf8(const byte_t* text, const byte_t* end)


cdef extern from "splitter.hpp" namespace "hf_scaffold" nogil:
    size_t find_last_cut "hf_scaffold::last_cut"(const Splitting& splitting, const byte_t* text, const byte_t* end)


cdef extern from "hash_seed.hpp" namespace "hf_scaffold" nogil:
    cdef cppclass HashKey:
        HashKey()
        @staticmethod
        HashKey colliding()


cdef extern from "pretoken_table.hpp" namespace "hf_scaffold" nogil:
    cdef cppclass CountedPretoken:
        size_t length

    cdef cppclass PretokenTable:
        PretokenTable(HashKey) except +
        size_t longest_probe()
        void merge(const PretokenTable& other, Interrupt&) except +
        size_t size()
        size_t n_bytes()
        vector[CountedPretoken] sorted(Interrupt&) except +


cdef extern from "counter.hpp" namespace "hf_scaffold" nogil:
    void count_pretokens(
        PretokenTable& table, const Splitting& splitting, const byte_t* text, const byte_t* end, Interrupt&
    ) except +
    void append_offsets(
        vector[int64_t]& offsets, const Splitting& splitting, const byte_t* text, const byte_t* end, Interrupt&
    ) except +
    void flatten(
        const vector[CountedPretoken]& pretokens, char* text, int64_t* ends, count_t* counts, Interrupt&
    ) except +


cdef extern from "row_sums.hpp" namespace "hf_scaffold" nogil:
    cdef cppclass PretokenRows:
        PretokenRows()
        PretokenRows(const byte_t* bytes, size_t size, const int64_t* offsets, size_t n) except +

    size_t first_out_of_order_row "hf_scaffold::first_out_of_order"(const PretokenRows&, Interrupt&) except +

    cdef cppclass RowSums:
        RowSums(const PretokenRows&, const count_t* counts, Interrupt&) except +
        size_t size()
        size_t n_bytes()
        size_t overflown()
        void write(char* bytes, int64_t* ends, count_t* counts)


cdef struct Text:
    const byte_t* begin
    const byte_t* end


# A view of the object's bytes; the object must outlive it.
cdef Text text_of(object text) except *:
    if not isinstance(text, bytes):
        raise TypeError(f"expected UTF-8 text as bytes, not {type(text).__name__}")
    cdef const byte_t* begin = <const byte_t*>PyBytes_AS_STRING(text)
    return Text(begin, begin + PyBytes_GET_SIZE(text))


cdef Py_ssize_t first_invalid(const vector[Text]& texts, Interrupt& interrupt) except -2 nogil:
    cdef size_t i
    for i in range(texts.size()):
        interrupt.poll()
        if not is_valid_utf8(texts[i].begin, texts[i].end):
            return i
    return -1


# Lets Python's decoder say what is wrong with the text, and where.
cdef refuse(bytes text):
    text.decode("utf-8")
    raise AssertionError("the native UTF-8 check refuses text that Python decodes")


cdef class PretokenCounter:
    """Counts the pre-tokens of UTF-8 texts with a native scanner.

    The counts depend on the texts alone, not on their order or batches. Give each thread its own counter and `merge`
    them at the end. The length of a counter is its number of distinct pre-tokens. A call that ends early for a reason
    not listed below, such as Ctrl-C or lack of memory, has counted part of its input; the counter stays usable.

    Args:
        splitting: A name in `hf_scaffold.text.presets.ENTRIES`, or the `Level`s of `hf_scaffold.splitting.levels`.
    Raises:
        ConfigurationError: no preset of that name.
        ValueError: the levels are no tables of patterns that take linear time.
    Example:
        >>> counter = PretokenCounter("gpt2")
        >>> counter.add([b"the cat", b"the dog"])
        >>> text, offsets, counts = counter.table()
        >>> text, offsets.tolist(), counts.tolist()
        (b' cat dogthe', [0, 4, 8, 11], [1, 1, 2])
    """

    cdef object given
    cdef Splitting splitting
    cdef unique_ptr[PretokenTable] counts
    cdef atomic[bool_t] is_running

    def __cinit__(self, splitting not None, *, bool_t _colliding=False):
        self.given = splitting
        self.splitting = splitting_of(splitting)
        self.counts.reset(new PretokenTable(HashKey.colliding() if _colliding else HashKey()))

    cdef int claim(self) except -1:
        if self.is_running.exchange(True):
            raise RuntimeError("this counter is at work in another thread; give each thread its own")

    def add(self, texts):
        """Count the pre-tokens of each text: a whole document, or a piece of one, cut at `last_cut`.

        Args:
            texts: Sequence of bytes objects.
        Raises:
            UnicodeDecodeError: a text is not UTF-8: `.object` is that text, `.start` the byte offset in it.
                No text of the batch was counted.
            CountOverflowError: a count passes 2**63 - 1. Part of the batch was counted.
            RuntimeError: the counter is at work in another thread.
        Cost: memory O(bytes of distinct pre-tokens); releases the GIL for the whole batch.
        """
        # The tuple keeps the texts alive, whatever other threads do to the caller's sequence.
        cdef tuple kept = tuple(texts)
        cdef vector[Text] views
        for text in kept:
            views.push_back(text_of(text))
        cdef Py_ssize_t invalid = self.add_views(views)
        if invalid >= 0:
            refuse(kept[invalid])

    def add_utf8(self, data not None, const int64_t[::1] offsets):
        """`add` for concatenated texts.

        Args:
            data: Text i is data[offsets[i]:offsets[i + 1]]. Copied if writable, as another thread might change it.
            offsets: int64, n + 1, ascending.
        Raises:
            As `add`; ValueError: the offsets descend or leave data.
        """
        cdef const unsigned char[::1] utf8 = data if memoryview(data).readonly else bytes(data)
        cdef vector[Text] views
        cdef Py_ssize_t i
        cdef int64_t begin, end
        for i in range(offsets.shape[0] - 1):
            begin, end = offsets[i], offsets[i + 1]
            if not 0 <= begin <= end <= utf8.shape[0]:
                raise ValueError(f"text {i} from {begin} to {end} in data of {utf8.shape[0]} bytes")
            if begin < end:
                views.push_back(Text(&utf8[begin], &utf8[begin] + (end - begin)))
        cdef Py_ssize_t invalid = self.add_views(views)
        if invalid >= 0:
            begin = views[invalid].begin - &utf8[0]
            refuse(bytes(utf8[begin : begin + (views[invalid].end - views[invalid].begin)]))

    cdef Py_ssize_t add_views(self, const vector[Text]& texts) except -2:
        """As `_add`, with the GIL released."""
        self.claim()
        try:
            with nogil:
                return self._add(texts)
        except OverflowError as error:
            raise CountOverflowError(str(error)) from None
        finally:
            self.is_running.store(False)

    cdef Py_ssize_t _add(self, const vector[Text]& texts) except -2 nogil:
        """Counts all and returns -1; or, if some are not UTF-8, counts none and returns the first of these."""
        cdef Interrupt interrupt
        cdef Py_ssize_t invalid = first_invalid(texts, interrupt)
        cdef size_t i
        if invalid < 0:
            for i in range(texts.size()):
                count_pretokens(self.counts.get()[0], self.splitting, texts[i].begin, texts[i].end, interrupt)
        return invalid

    def merge(self, PretokenCounter other not None):
        """Add the other counter's counts to this one's. The other is not modified.

        Raises:
            ConfigurationError: the counters split differently.
            CountOverflowError: a count passes 2**63 - 1. Part of the counts was added.
        """
        if self.given != other.given:
            raise ConfigurationError("counters of different pre-tokenizers don't merge")
        self.claim()
        try:
            if other is not self:
                other.claim()
            try:
                self._merge(other)
            finally:
                other.is_running.store(False)
        finally:
            self.is_running.store(False)

    cdef _merge(self, PretokenCounter other):
        cdef Interrupt interrupt
        try:
            with nogil:
                self.counts.get().merge(other.counts.get()[0], interrupt)
        except OverflowError as error:
            raise CountOverflowError(str(error)) from None

    def __len__(self):
        return self.counts.get().size()

    @property
    def n_bytes(self):
        """The memory it takes; up to three times as much while it grows, and twice as much in `table`."""
        return self.counts.get().n_bytes()

    @property
    def longest_probe(self):
        """The most entries one look-up compares: a few dozen at most, whatever the texts."""
        return self.counts.get().longest_probe()

    def table(self):
        """All pre-tokens with their counts, in the order of their bytes.

        Returns:
            The n pre-tokens' bytes, concatenated; n + 1 int64 offsets into them; n int64 counts.
        """
        self.claim()
        try:
            return self._table()
        finally:
            self.is_running.store(False)

    cdef _table(self):
        cdef vector[CountedPretoken] pretokens
        cdef size_t i, n_bytes = 0
        cdef Interrupt interrupt
        with nogil:
            pretokens = self.counts.get().sorted(interrupt)
            for i in range(pretokens.size()):
                n_bytes += pretokens[i].length
        text = PyBytes_FromStringAndSize(NULL, n_bytes)
        cdef char* text_start = PyBytes_AS_STRING(text)
        offsets = np.zeros(pretokens.size() + 1, dtype=np.int64)
        counts = np.empty(pretokens.size(), dtype=np.int64)
        cdef int64_t[::1] offsets_view = offsets
        cdef count_t[::1] counts_view = counts
        if not pretokens.empty():
            with nogil:
                flatten(pretokens, text_start, &offsets_view[1], &counts_view[0], interrupt)
        return text, offsets, counts


def pretoken_offsets(bytes text not None, splitting not None):
    """Where the pre-tokens of a UTF-8 text start and end.

    Returns:
        An int64 array with a row per pre-token, in order: the byte offsets of its start and its end. The rows tile the
        text, but for what the splitting leaves out.
    Raises:
        UnicodeDecodeError: the text is not UTF-8.
        ConfigurationError: no preset of that name.
    Example:
        >>> pretoken_offsets(b"the cat", "gpt2").tolist()
        [[0, 3], [3, 7]]
    """
    cdef Splitting rules = splitting_of(splitting)
    cdef Text view = text_of(text)
    cdef Interrupt interrupt
    cdef bool_t is_valid
    cdef vector[int64_t] offsets
    with nogil:
        is_valid = is_valid_utf8(view.begin, view.end)
        if is_valid:
            append_offsets(offsets, rules, view.begin, view.end, interrupt)
    if not is_valid:
        refuse(text)
    result = np.empty(offsets.size(), dtype=np.int64)
    cdef int64_t[::1] result_view = result
    if offsets.size():
        memcpy(&result_view[0], offsets.data(), offsets.size() * sizeof(int64_t))
    return result.reshape(-1, 2)


def last_cut(bytes text not None, splitting not None):
    """Where an unfinished text can be cut without changing its pre-tokens, whatever follows.

    For every continuation, the pre-tokens of the whole are those of `text[:cut]`, then those of `text[cut:]`
    with the continuation. The text may start at an earlier cut and end inside a character.

    Returns:
        The largest such offset > 0 that the two characters around it prove; 0 if there is none. Text in any
        script has them where letters meet white space, punctuation or numbers; a run of letters has none.
    Raises:
        ConfigurationError: no preset of that name.
    Cost: reads back from the end as far as the cut.
    Example:
        >>> last_cut(b"one two thr", "gpt2")
        7
    """
    cdef Splitting rules = splitting_of(splitting)
    cdef Text view = text_of(text)
    cdef size_t cut
    with nogil:
        cut = find_last_cut(rules, view.begin, view.end)
    return cut


def first_out_of_order(bytes data not None, const int64_t[::1] offsets):
    """The first row of a table of byte strings that does not sort after the row before it.

    Args:
        data: The strings, concatenated.
        offsets: int64, ascending: row i is data[offsets[i]:offsets[i + 1]].
    Returns:
        The row's number; the number of rows if all are in order.
    Raises:
        ValueError: the offsets descend, or reach beyond data.
    """
    cdef PretokenRows rows
    cdef Interrupt interrupt
    cdef size_t row
    if offsets.shape[0] < 2:
        return 0
    rows = rows_in(data, offsets)
    with nogil:
        row = first_out_of_order_row(rows, interrupt)
    return row


def sum_rows(bytes data not None, const int64_t[::1] offsets, const count_t[::1] counts):
    """Rows of one or several tables added up: in order, each pre-token once, with the sum of its counts.

    Args:
        data, offsets: The pre-tokens, as for `first_out_of_order`, in any order.
        counts: int64, of each row.
    Returns:
        Such rows: bytes, int64 offsets from 0, int64 counts.
    Raises:
        ValueError: the offsets descend, or reach beyond data; counts are of another number, or negative.
        CountOverflowError: a sum is beyond 2**63 - 1; names the pre-token.
    Cost: O(rows · log(n)) for rows of n tables, each in order; memory of 48 bytes a row besides. Releases the GIL.
    Example:
        >>> sum_rows(b"aba", np.array([0, 1, 2, 3]), np.array([1, 2, 3]))
        (b'ab', array([0, 1, 2]), array([4, 2]))
    """
    if offsets.shape[0] != counts.shape[0] + 1:
        raise ValueError(f"there must be one more of offsets than of counts, not {offsets.shape[0]} and {counts.shape[0]}")
    if not counts.shape[0]:
        return b"", np.zeros(1, np.int64), np.zeros(0, np.int64)
    cdef PretokenRows rows = rows_in(data, offsets)
    cdef Interrupt interrupt
    cdef unique_ptr[RowSums] sums
    with nogil:
        sums.reset(new RowSums(rows, &counts[0], interrupt))
    cdef Py_ssize_t row = sums.get().overflown()
    if row < counts.shape[0]:
        refuse_sum(data, offsets, counts, row)
    text = PyBytes_FromStringAndSize(NULL, sums.get().n_bytes())
    cdef char* text_start = PyBytes_AS_STRING(text)
    ends = np.zeros(sums.get().size() + 1, np.int64)
    totals = np.empty(sums.get().size(), np.int64)
    cdef int64_t[::1] ends_view = ends
    cdef count_t[::1] totals_view = totals
    with nogil:
        sums.get().write(text_start, &ends_view[1], &totals_view[0])
    return text, ends, totals


cdef PretokenRows rows_in(bytes data, const int64_t[::1] offsets) except *:
    cdef Text view = text_of(data)
    return PretokenRows(view.begin, view.end - view.begin, &offsets[0], offsets.shape[0] - 1)


cdef refuse_sum(bytes data, const int64_t[::1] offsets, const count_t[::1] counts, Py_ssize_t row):
    pretoken = data[offsets[row]:offsets[row + 1]]
    equal = [int(counts[i]) for i in range(counts.shape[0]) if data[offsets[i]:offsets[i + 1]] == pretoken]
    raise CountOverflowError(f"pre-token {pretoken!r} has count {sum(equal)}, beyond 2**63 - 1")
