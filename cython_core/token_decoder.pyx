"""From token ids to text."""

from cpython.list cimport PyList_GET_SIZE
from cython cimport boundscheck
from libc.stdint cimport uint32_t
from libcpp.algorithm cimport lower_bound
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "Python.h":
    long long PyLong_AsLongLong(object) except? -1
    str PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)


cdef class TokenDecoder:
    """Text of token ids: their tokens' bytes, read as UTF-8. Immutable.

    Args:
        tokens: From an id to its token's bytes; ids left out decode to nothing.
    Raises:
        OverflowError: an id is below 0 or above 2**32 - 1.
    Cost: memory grows with the number of tokens and their lengths, never with the ids.
    """

    # Id i has the token data[offsets[i]:offsets[i + 1]]. An id far above the number of tokens is some high_ids[i], with
    # the token data[high_offsets[i]:high_offsets[i + 1]].
    cdef string data
    cdef vector[size_t] offsets
    cdef vector[uint32_t] high_ids
    cdef vector[size_t] high_offsets

    def __cinit__(self, dict tokens not None):
        cdef size_t most_dense = 2 * len(tokens) + 1024
        cdef uint32_t token_id
        cdef bytes token
        for number in sorted(tokens):
            token_id, token = number, tokens[number]
            if token_id < most_dense:
                self.offsets.resize(token_id + 1, self.data.size())
            else:
                self.high_ids.push_back(token_id)
                self.high_offsets.push_back(self.data.size())
            self.data.append(<const char*>token, <size_t>len(token))
            if token_id < most_dense:
                self.offsets.push_back(self.data.size())
        self.high_offsets.push_back(self.data.size())

    @boundscheck(True)
    def decode(self, list ids not None):
        """The text, with U+FFFD for bytes that are not UTF-8. Ids without a token add nothing.

        Raises:
            OverflowError: an id is below 0 or above 2**32 - 1.
            TypeError: an id is not an integer.
        Example:
            >>> TokenDecoder({0: b"caf", 1: b"\\xc3", 2: b"\\xa9"}).decode([0, 1, 2, 1])
            'café\\ufffd'
        """
        cdef string text
        cdef Py_ssize_t i
        cdef long long token_id
        cdef size_t n = self.offsets.size()
        text.reserve(4 * PyList_GET_SIZE(ids))
        # An item's __index__ may change the list, so read its size anew. Without the GIL another thread may, too, at any
        # time: the bounds check makes `ids[i]` look once more, and take a reference as it does.
        i = 0
        while i < PyList_GET_SIZE(ids):
            number = ids[i]
            token_id = PyLong_AsLongLong(number)
            if token_id < 0 or token_id > 0xFFFFFFFFLL:
                raise OverflowError(f"id {token_id} is out of range")
            if <size_t>token_id + 1 < n:
                text.append(self.data, self.offsets[token_id], self.offsets[token_id + 1] - self.offsets[token_id])
            elif self.high_ids.size() != 0:
                self.append_high(<uint32_t>token_id, text)
            i += 1
        return PyUnicode_DecodeUTF8(text.data(), text.size(), "replace")

    cdef int append_high(self, uint32_t token_id, string& text) except -1:
        cdef size_t i = lower_bound(self.high_ids.begin(), self.high_ids.end(), token_id) - self.high_ids.begin()
        if i < self.high_ids.size() and self.high_ids[i] == token_id:
            text.append(self.data, self.high_offsets[i], self.high_offsets[i + 1] - self.high_offsets[i])
        return 0
