"""Where the ids of rows stand in their texts, as what tokenizer calls return."""

from cpython.list cimport PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from rows cimport piece_size
from widths cimport token_id_t


cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
    void PyObject_GC_UnTrack(PyObject*)


cdef extern from "span.hpp" namespace "hf_scaffold" nogil:
    cppclass Span:
        int32_t begin, end, leading, trailing, word, is_added

    cdef enum class Trim(int):
        NONE
        ALL
        ALL_BUT_PREFIX

    Span trimmed(Span, Trim, bint)


cdef dict TRIMS = {"none": <int>Trim.NONE, "all": <int>Trim.ALL, "all but prefix": <int>Trim.ALL_BUT_PREFIX}
cdef str CHANGED = "the arrays were changed while they were read"


cdef class RowSpans:
    """Where the ids of rows stand in their texts.

    Other threads may change the arrays meanwhile, so values are checked where they are used.

    Args:
        spans: int32, (ids, 6), of `TextEncoder.locate`.
        rows, template, padding: As spans, template and padding of `rows_as_lists`.
        trim: How white space is trimmed off: "none", "all", or "all but prefix", where a token that is first, in its row
            or in its text, keeps a single space.
    Raises:
        ValueError: an array is of another shape. KeyError: no such trim.
        ValueError in methods: there is no such row or sequence, or a row reaches beyond the ids.
    """

    cdef const int32_t[:, ::1] spans
    cdef const int64_t[:, :, ::1] rows
    cdef const token_id_t[::1] template
    cdef const int64_t[:, ::1] padding
    cdef Trim trim

    def __cinit__(self, spans, rows, template, padding, str trim not None):
        self.spans, self.rows, self.template, self.padding = spans, rows, template, padding
        cdef Py_ssize_t n = self.rows.shape[0]
        if self.spans.shape[1] != 6:
            raise ValueError(f"spans has {self.spans.shape[1]} columns instead of 6")
        if self.rows.shape[2] != 2 or self.padding.shape[0] != n or self.padding.shape[1] != 2:
            raise ValueError(f"rows must be of shape {n}, sequences, 2; padding of {n}, 2")
        self.trim = <Trim><int>TRIMS[trim]

    # ---- of all ids

    def offsets(self, Py_ssize_t first, Py_ssize_t last, list numbers not None):
        """The characters that each id covers, as a list of (first, one past the last) for each row from first to last.

        Special tokens and padding cover (0, 0).

        Args:
            numbers: As in `rows_as_lists`.
        """
        cdef list result = self.lists_for(first, last)
        cdef Py_ssize_t row
        cdef bint had_gc = PyGC_Disable()  # it would traverse the half-built lists again and again
        try:
            for row in range(first, last):
                result[row - first] = self.offsets_of(row, numbers, (0, 0))
        finally:
            if had_gc:
                PyGC_Enable()
        return result

    def words(self, Py_ssize_t first, Py_ssize_t last):
        """The word of each id, as a list for each row from first to last; None of special tokens and padding."""
        cdef list result = self.lists_for(first, last)
        cdef Py_ssize_t row
        for row in range(first, last):
            result[row - first] = self.words_of(row)
        return result

    def fill(self, int64_t[:, :, ::1] out):
        """Write the offsets of all rows into a matrix, prefilled with zeros.

        Args:
            out: int64, (rows, width, 2).
        Raises:
            ValueError: a row doesn't fit, or there are more or fewer.
        """
        if out.shape[0] != self.rows.shape[0] or out.shape[2] != 2:
            raise ValueError(f"{self.rows.shape[0]} rows, but {out.shape[0]} to fill")
        with nogil:
            self.fill_all(out)

    # ---- of one

    def chars_of(self, Py_ssize_t row, Py_ssize_t sequence, int64_t token):
        """The characters that a token of a sequence covers, as in `offsets`."""
        cdef Span span = self.span(self.place(row, sequence, token), token == 0)
        return span.begin, span.end

    def word_of(self, Py_ssize_t row, Py_ssize_t sequence, int64_t token):
        """The word of a token of a sequence."""
        return self.spans[self.place(row, sequence, token), 4]

    def token_at(self, Py_ssize_t row, Py_ssize_t sequence, int64_t character):
        """The first token of a sequence that covers a character; None if none does."""
        cdef int64_t begin = 0, i, size = self.size(self.piece(row, sequence), row, &begin)
        cdef Span span
        for i in range(size):
            span = self.span(begin + i, i == 0)
            if span.begin <= character < span.end:
                return i
        return None

    def tokens_of(self, Py_ssize_t row, Py_ssize_t sequence, int64_t word):
        """The first token of a word in a sequence, and one past the last; None if the word isn't there."""
        cdef int64_t begin = 0, first = 0, stop, size = self.size(self.piece(row, sequence), row, &begin)
        while first < size and self.spans[begin + first, 4] < word:  # words ascend
            first += 1
        stop = first
        while stop < size and self.spans[begin + stop, 4] == word:
            stop += 1
        return (first, stop) if first < stop else None

    # ----

    cdef list lists_for(self, Py_ssize_t first, Py_ssize_t last):
        if not 0 <= first <= last <= self.rows.shape[0]:
            raise ValueError(f"rows {first} to {last} of {self.rows.shape[0]}")
        return [None] * (last - first)

    cdef token_id_t piece(self, Py_ssize_t row, Py_ssize_t sequence) except 0:
        if not (0 <= row < self.rows.shape[0] and 0 <= sequence < self.rows.shape[1]):
            raise ValueError(f"sequence {sequence} of row {row}, of {self.rows.shape[0]} rows")
        return <token_id_t>(-1 - sequence)

    cdef int64_t place(self, Py_ssize_t row, Py_ssize_t sequence, int64_t token) except -1:
        cdef int64_t begin = 0, size = self.size(self.piece(row, sequence), row, &begin)
        if not 0 <= token < size:
            raise ValueError(f"token {token} of {size}")
        return begin + token

    cdef int64_t size(self, token_id_t piece, Py_ssize_t row, int64_t* begin) except -1 nogil:
        return piece_size(piece, self.rows, row, self.spans.shape[0], begin)

    cdef int64_t length(self, Py_ssize_t row) except -1:
        cdef int64_t begin = 0, total = sum_of(row, self.padding[row, 0], self.padding[row, 1])
        cdef Py_ssize_t i
        for i in range(self.template.shape[0]):
            total = sum_of(row, total, self.size(self.template[i], row, &begin))
        return total

    cdef Span span(self, int64_t i, bint is_first) noexcept nogil:
        return trimmed((<const Span*>&self.spans[i, 0])[0], self.trim, is_first)

    cdef list offsets_of(self, Py_ssize_t row, list numbers, tuple nowhere):
        cdef Py_ssize_t i, at, n_numbers = PyList_GET_SIZE(numbers)
        cdef int64_t begin = 0, size, j
        cdef token_id_t piece
        cdef Span span
        cdef list items = PyList_New(self.length(row))
        at = put_many(items, 0, nowhere, self.padding[row, 0])
        for i in range(self.template.shape[0]):
            piece = self.template[i]
            size = self.size(piece, row, &begin)
            if piece >= 0:
                put(items, at, nowhere)
            else:
                for j in range(size):
                    span = self.span(begin + j, j == 0)
                    put(items, at + j, pair(number(numbers, n_numbers, span.begin), number(numbers, n_numbers, span.end)))
            at += size
        return full(items, put_many(items, at, nowhere, self.padding[row, 1]))

    cdef list words_of(self, Py_ssize_t row):
        cdef Py_ssize_t i, at
        cdef int64_t begin = 0, size, j
        cdef token_id_t piece
        cdef int32_t last = 0
        cdef object word = 0
        cdef list items = PyList_New(self.length(row))
        at = put_many(items, 0, None, self.padding[row, 0])
        for i in range(self.template.shape[0]):
            piece = self.template[i]
            size = self.size(piece, row, &begin)
            if piece >= 0:
                put(items, at, None)
            else:
                for j in range(size):
                    if self.spans[begin + j, 4] != last:  # many words have several tokens
                        last = self.spans[begin + j, 4]
                        word = last
                    put(items, at + j, word)
            at += size
        return full(items, put_many(items, at, None, self.padding[row, 1]))

    cdef int fill_all(self, int64_t[:, :, ::1] out) except -1 nogil:
        cdef Py_ssize_t row, i
        cdef int64_t at, begin = 0, size, j
        cdef token_id_t piece
        cdef Span span
        for row in range(out.shape[0]):
            at = self.padding[row, 0]
            for i in range(self.template.shape[0]):
                piece = self.template[i]
                size = self.size(piece, row, &begin)
                if not 0 <= at <= out.shape[1] - size:
                    with gil:
                        raise ValueError(f"row {row} needs more than {out.shape[1]} columns")
                if piece < 0:
                    for j in range(size):
                        span = self.span(begin + j, j == 0)
                        out[row, at + j, 0], out[row, at + j, 1] = span.begin, span.end
                at += size
        return 0


cdef inline int64_t sum_of(Py_ssize_t row, int64_t size, int64_t more) except -1:
    if size < 0 or more < 0:
        raise ValueError(f"row {row} has {min(size, more)} ids of one kind")
    if size > INT64_MAX - more:
        raise MemoryError()
    return size + more


# A list's places are set once each: put, put_many, and full at the end.
cdef inline int put(list items, Py_ssize_t at, object item) except -1:
    if not 0 <= at < PyList_GET_SIZE(items):
        raise ValueError(CHANGED)
    Py_INCREF(item)
    PyList_SET_ITEM(items, at, item)
    return 0


cdef inline Py_ssize_t put_many(list items, Py_ssize_t at, object item, int64_t n) except -1:
    cdef int64_t i
    for i in range(n):
        put(items, at + i, item)
    return at + max(n, 0)


cdef inline list full(list items, Py_ssize_t at):
    if at != PyList_GET_SIZE(items):
        raise ValueError(CHANGED)
    return items


cdef inline object number(list numbers, Py_ssize_t n_numbers, int32_t value):
    return numbers[value] if 0 <= value < n_numbers else value


cdef inline object pair(object first, object second):
    cdef tuple made = PyTuple_New(2)
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    PyObject_GC_UnTrack(<PyObject*>made)  # as the collector does with tuples of ints once it meets them
    return made


def pieces_as_lists(list values not None, const int64_t[::1] kinds, const int64_t[:, ::1] sizes):
    """Rows in which each piece repeats one value.

    Args:
        values: For each kind of row a list with the value of each piece.
        kinds: int64: each row's place in `values`.
        sizes: int64, (rows, pieces): how often a piece repeats its value.
    Raises:
        ValueError: there is no such kind, a size is negative, or the numbers of rows or pieces differ.
    """
    cdef Py_ssize_t row, i, at, n_rows = sizes.shape[0], n_pieces = sizes.shape[1]
    cdef int64_t total, kind
    cdef list of, items, result = [None] * n_rows
    if kinds.shape[0] != n_rows:
        raise ValueError(f"{kinds.shape[0]} kinds of {n_rows} rows")
    cdef bint had_gc = PyGC_Disable()  # as above
    try:
        for row in range(n_rows):
            kind, total = kinds[row], 0
            of = list(values[kind]) if 0 <= kind < len(values) else []
            if len(of) != n_pieces:
                raise ValueError(f"row {row} is of kind {kind}, of which there are no {n_pieces} values")
            for i in range(n_pieces):
                total = sum_of(row, total, sizes[row, i])
            at, items = 0, PyList_New(total)
            for i in range(n_pieces):
                at = put_many(items, at, of[i], sizes[row, i])
            result[row] = full(items, at)
    finally:
        if had_gc:
            PyGC_Enable()
    return result
