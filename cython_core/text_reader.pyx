"""Documents in blocks of files: lines, the texts of JSON Lines, and whether bytes are UTF-8."""

from cpython.buffer cimport PyBuffer_FillInfo
from libc.stdint cimport int64_t
from libcpp.vector cimport vector

import numpy as np

from interrupt cimport Interrupt


cdef extern from *:
    """
    #include <string_view>
    """
    cppclass string_view "std::string_view":
        string_view()
        string_view(const char*, size_t)


cdef extern from "utf8.hpp" namespace "hf_scaffold" nogil:
    const unsigned char* end_of_valid_utf8(const unsigned char*, const unsigned char*)


cdef extern from "json_lines.hpp" namespace "hf_scaffold" nogil:
    void find_line_ends(const char*, size_t, vector[int64_t]&) except +

    cppclass JsonLines:
        JsonLines(const char*, size_t, string_view, char*) except +
        void run(Interrupt&) except +
        const char* at()
        size_t n_lines()
        const vector[int64_t]& ends()

    const size_t SPARE "hf_scaffold::JsonLines::SPARE"


# For views of nothing, whose first byte can't be pointed at.
cdef const unsigned char NOTHING = 0


cdef const unsigned char* first_of(const unsigned char[::1] data):
    return &data[0] if data.shape[0] else &NOTHING


cdef bounds_of(const vector[int64_t]& ends):
    bounds = np.zeros(ends.size() + 1, np.int64)
    cdef int64_t[::1] view = bounds
    cdef size_t i
    for i in range(ends.size()):
        view[i + 1] = ends[i]
    return bounds


cdef class Utf8:
    """Bytes that were found to be UTF-8, as a read-only buffer: who takes them need not look once more.

    Only this module makes any but empty ones.
    """

    def __cinit__(self):
        self.data = b""

    def __len__(self):
        return self.data.shape[0]

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, <void*>first_of(self.data), self.data.shape[0], True, flags)


cdef Utf8 utf8_of(const unsigned char[::1] data):
    cdef Utf8 made = Utf8()
    made.data = data
    return made


# The bytes, or a copy if they can be written to: another thread might change them after they are checked.
cdef constant(data):
    return data if memoryview(data).readonly else bytes(data)


def checked_utf8(data not None):
    """The bytes as `Utf8`, or None if they are something else. Copies what is writable. Releases the GIL."""
    cdef const unsigned char[::1] kept = constant(data)
    return utf8_of(kept) if n_valid(kept) == kept.shape[0] else None


def n_valid(const unsigned char[::1] data not None):
    """How many bytes come before the first that begins no whole character of UTF-8; releases the GIL."""
    cdef const unsigned char* begin = first_of(data)
    cdef const unsigned char* end
    with nogil:
        end = end_of_valid_utf8(begin, begin + data.shape[0])
    return end - begin


def line_bounds(const unsigned char[::1] data not None):
    """Where lines begin, and where the last one ends; releases the GIL.

    Returns:
        int64: line i is data[bounds[i]:bounds[i + 1]], its line end included.
    """
    cdef const char* begin = <const char*>first_of(data)
    cdef vector[int64_t] ends
    with nogil:
        find_line_ends(begin, data.shape[0], ends)
    return bounds_of(ends)


def json_texts(data not None, bytes field not None):
    """The texts in one field of JSON Lines, up to the first line that Python's reader must take; releases the GIL.

    Args:
        data: Whole lines; the last may lack its line end. Copied if writable.
        field: Its name in UTF-8.
    Returns:
        The texts that aren't empty, one after another, as `Utf8`; int64 bounds of them; how many lines and how many
        bytes were read.
    """
    cdef const unsigned char[::1] kept = constant(data)
    cdef Py_ssize_t size = kept.shape[0]
    cdef const char* begin = <const char*>first_of(kept)
    cdef string_view name = string_view(<const char*>field, len(field))
    made = np.empty(size + SPARE, np.uint8)
    cdef unsigned char[::1] out = made
    cdef Interrupt interrupt
    cdef JsonLines* lines = new JsonLines(begin, size, name, <char*>&out[0])
    try:
        with nogil:
            lines.run(interrupt)
        bounds = bounds_of(lines.ends())
        return utf8_of(out[: bounds[lines.ends().size()]]), bounds, lines.n_lines(), lines.at() - begin
    finally:
        del lines
