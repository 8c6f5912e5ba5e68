"""What encoding takes of tokenizer.json and scaffold.json, without a Python object for each token."""

from cython cimport view
from libc.stdint cimport int64_t
from libc.string cimport memcpy
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from widths cimport token_id_t


cdef extern from *:
    """
    #include <string_view>
    """
    cppclass string_view "std::string_view":
        string_view()
        string_view(const char*, size_t)
        const char* data()
        size_t size()


cdef extern from "model_reader.hpp" namespace "hf_scaffold" nogil:
    cppclass Reader "hf_scaffold::ModelReader":
        @staticmethod
        unique_ptr[Reader] read(string_view, string_view) except +
        const string& tokenizer()
        const string& scaffold()
        string_view vocab()
        token_id_t first_scaffold()
        size_t n_tokens()
        const vector[token_id_t]& rules()
        const vector[token_id_t]& parts()
        const vector[int64_t]& ends()
        token_id_t public_id(string_view)
        bint fill(const vector[token_id_t]&) except +


cdef string_view view_of(bytes data):
    return string_view(<const char*>data, len(data))


cdef class ModelReader:
    """The vocabulary, merges and demolish map of both files as ids, where all of them fit.

    Scaffold tokens have the ids after the public ones, in the order of the demolish map.

    Args:
        tokenizer_json, scaffold_json: The files' contents.
    Raises:
        ValueError: they don't fit, are malformed, or aren't spelled as usual: the message doesn't say.
    Cost: linear in their size.
    """

    cdef bytes tokenizer_json  # the vocabulary's text is there
    cdef unique_ptr[Reader] reader

    def __cinit__(self, bytes tokenizer_json not None, bytes scaffold_json not None):
        self.tokenizer_json = tokenizer_json
        cdef string_view tokenizer = view_of(tokenizer_json), scaffold = view_of(scaffold_json)
        with nogil:
            self.reader = Reader.read(tokenizer, scaffold)
        if self.reader.get() is NULL:
            raise ValueError("not as usual")

    @property
    def rest(self):
        """Both documents with null in place of the vocabulary, the merges and the demolish map."""
        cdef bytes tokenizer = self.reader.get().tokenizer(), scaffold = self.reader.get().scaffold()
        return tokenizer, scaffold

    @property
    def vocab_json(self):
        """The vocabulary as the document has it."""
        cdef string_view vocab = self.reader.get().vocab()
        return vocab.data()[:vocab.size()]

    @property
    def n_tokens(self):
        """How many public tokens the vocabulary has."""
        return self.reader.get().n_tokens()

    @property
    def first_scaffold(self):
        """The id after the largest of the vocabulary."""
        return self.reader.get().first_scaffold()

    @property
    def rules(self):
        """The ids of left, right and merged token, int32, in rank order."""
        cdef const vector[token_id_t]* rules = &self.reader.get().rules()
        cdef Py_ssize_t n = rules.size() // 3
        cdef token_id_t[:, ::1] rows = view.array((max(n, 1), 3), sizeof(token_id_t), "i", mode="c")
        if n:
            memcpy(&rows[0, 0], rules.data(), 3 * n * sizeof(token_id_t))
        return memoryview(rows[:n])

    @property
    def replacements(self):
        """Of all scaffold tokens, as `TextEncoder` takes them: the first id, where the parts of each end, the parts."""
        cdef const vector[int64_t]* ends = &self.reader.get().ends()
        cdef const vector[token_id_t]* parts = &self.reader.get().parts()
        cdef Py_ssize_t n = ends.size(), n_parts = parts.size()
        cdef int64_t[::1] all_ends = view.array((max(n, 1),), sizeof(int64_t), "q", mode="c")
        cdef token_id_t[::1] all_parts = view.array((max(n_parts, 1),), sizeof(token_id_t), "i", mode="c")
        if n:  # then each has parts
            memcpy(&all_ends[0], ends.data(), n * sizeof(int64_t))
            memcpy(&all_parts[0], parts.data(), n_parts * sizeof(token_id_t))
        return self.first_scaffold, memoryview(all_ends[:n]), memoryview(all_parts[:n_parts])

    def public_id(self, str token not None):
        """A public token's id; None if there is none.

        Raises:
            UnicodeEncodeError: it holds a lone surrogate.
        """
        cdef token_id_t found = self.reader.get().public_id(view_of(token.encode()))
        return found if found >= 0 else None

    def fill(self, others):
        """Whether the public tokens' ids and these are all numbers from 0 on, each once.

        Raises:
            OverflowError: an id is above 2**31 - 1.
        """
        return self.reader.get().fill(others)
