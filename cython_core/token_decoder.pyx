"""From token ids to text."""

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "Python.h":
    long long PyLong_AsLongLong(object) except? -1
    str PyUnicode_DecodeUTF8(const char*, Py_ssize_t, const char*)


cdef class TokenDecoder:
    """Text of token ids: the bytes of the tokens, read as UTF-8. Immutable.

    Args:
        tokens: The bytes of each id's token, in order; empty where the text shows nothing.
    """

    cdef string data
    cdef vector[size_t] offsets

    def __init__(self, tokens):
        cdef bytes token
        self.offsets.push_back(0)
        for token in tokens:
            self.data.append(<string>token)
            self.offsets.push_back(self.data.size())

    def decode(self, list ids not None):
        """The text; U+FFFD stands for what is no UTF-8, ids beyond the last token for nothing.

        Raises:
            OverflowError: an id is below 0 or above 2**32 - 1.
            TypeError: an id is no integer.
        Example:
            >>> TokenDecoder([b"caf", b"\\xc3", b"\\xa9"]).decode([0, 1, 2, 1])
            'café\\ufffd'
        """
        cdef string text
        cdef Py_ssize_t i
        cdef long long token_id
        cdef size_t n = self.offsets.size() - 1
        text.reserve(4 * PyList_GET_SIZE(ids))
        # A number's own __index__ may change the list, so its size is read again.
        i = 0
        while i < PyList_GET_SIZE(ids):
            number = <object>PyList_GET_ITEM(ids, i)
            token_id = PyLong_AsLongLong(number)
            if token_id < 0 or token_id > 0xFFFFFFFFLL:
                raise OverflowError(f"id {token_id} is out of range")
            if <size_t>token_id < n:
                text.append(self.data, self.offsets[token_id], self.offsets[token_id + 1] - self.offsets[token_id])
            i += 1
        return PyUnicode_DecodeUTF8(text.data(), text.size(), "replace")
