# distutils: language = c++
"""Encoding of pre-tokens by merge rank, with the scaffold tokens replaced on the way out."""

from libc.string cimport memcpy
from libcpp cimport bool
from libcpp.string cimport string
from libcpp.vector cimport vector

from widths cimport token_id_t

import numpy as np

cdef extern from "bpe_encoder.hpp" namespace "hf_scaffold" nogil:
    cppclass EncoderWork "hf_scaffold::BpeEncoder::Work":
        pass

    cppclass CharacterTable:
        void set(const string&, bool, bool, token_id_t) except +
        void set_unknown(token_id_t, bool)
        void set_bytes(token_id_t)

    cppclass BpeEncoder:
        BpeEncoder(size_t) except +
        void set_byte(unsigned char, token_id_t)
        CharacterTable& characters()
        void add_rule(token_id_t, token_id_t, token_id_t)
        void add_whole(const string&, token_id_t) except +
        void set_replacement(token_id_t, const vector[token_id_t]&) except +
        void encode(const unsigned char*, size_t, EncoderWork&, vector[token_id_t]&) except +
        size_t longest_probe()


cdef class PretokenEncoder:
    """Ordinary BPE over pre-tokens, then replacement of tokens. Immutable; calls may run concurrently.

    Args:
        symbols: What a pre-token is before merging. A row of 256 int32: bytes, and the token of each, -1 where
            it has none and is dropped. A dict: characters, and (character as UTF-8, whether it continues a
            pre-token, whether it ends one) to its token.
        rules: int32, (n, 3): left, right and merged token, in rank order.
        replacements: Token to the tokens that replace it in the output.
        wholes: Pre-tokens that become one token without merging.
        unknown: The token of characters without one; -1 if there is none, and they are dropped.
        fuse_unknown: Whether characters in a row without a token become one token together.
        first_byte: The token of byte 0, with those of the others behind it: characters without a token become
            these. -1 if there are none.
    """

    cdef BpeEncoder* encoder

    def __cinit__(
        self,
        symbols,
        const token_id_t[:, ::1] rules,
        dict replacements,
        dict wholes,
        token_id_t unknown=-1,
        bool fuse_unknown=False,
        token_id_t first_byte=-1,
    ):
        cdef Py_ssize_t i
        self.encoder = new BpeEncoder(rules.shape[0])
        if isinstance(symbols, dict):
            self._set_characters(symbols, unknown, fuse_unknown, first_byte)
        else:
            self._set_bytes(symbols)
        for i in range(rules.shape[0]):
            self.encoder.add_rule(rules[i, 0], rules[i, 1], rules[i, 2])
        for token, tokens in replacements.items():
            self.encoder.set_replacement(token, tokens)
        for pretoken, token in wholes.items():
            self.encoder.add_whole(pretoken, token)

    def __dealloc__(self):
        del self.encoder

    cdef int _set_bytes(self, const token_id_t[::1] tokens) except -1:
        cdef Py_ssize_t i
        if tokens.shape[0] != 256:
            raise ValueError(f"symbols has {tokens.shape[0]} entries instead of 256")
        for i in range(256):
            self.encoder.set_byte(<unsigned char>i, tokens[i])

    cdef int _set_characters(
        self, dict tokens, token_id_t unknown, bool fuse_unknown, token_id_t first_byte
    ) except -1:
        cdef CharacterTable* characters = &self.encoder.characters()
        for (character, continues, ends), token in tokens.items():
            characters.set(character, continues, ends, token)
        characters.set_unknown(unknown, fuse_unknown)
        characters.set_bytes(first_byte)

    @property
    def longest_probe(self):
        """The most entries that one look-up compares: a few dozen at most, whatever the merges are."""
        return self.encoder.longest_probe()

    def encode(self, const unsigned char[::1] data, const long long[::1] offsets):
        """Encode the pre-tokens data[offsets[i] : offsets[i + 1]]; releases the GIL.

        Returns:
            int32 ids of all pre-tokens one after another, and int64 offsets into them, one more than
            there are pre-tokens.
        Raises:
            ValueError: the offsets don't ascend from 0 to the length of data.
        """
        cdef Py_ssize_t i, n = offsets.shape[0] - 1
        cdef vector[token_id_t] ids
        cdef vector[long long] ends
        cdef EncoderWork work
        if n < 0 or offsets[0] != 0 or offsets[n] != data.shape[0] or np.any(np.diff(offsets) < 0):
            raise ValueError("offsets must ascend from 0 to the length of data")
        cdef const unsigned char* start = &data[0] if data.shape[0] else NULL
        with nogil:
            ends.push_back(0)
            for i in range(n):
                self.encoder.encode(start + offsets[i], <size_t>(offsets[i + 1] - offsets[i]), work, ids)
                ends.push_back(<long long>ids.size())
        cdef token_id_t[::1] id_array = np.empty(ids.size(), np.int32)
        cdef long long[::1] end_array = np.empty(ends.size(), np.int64)
        if ids.size():
            memcpy(&id_array[0], ids.data(), ids.size() * sizeof(token_id_t))
        memcpy(&end_array[0], ends.data(), ends.size() * sizeof(long long))
        return np.asarray(id_array), np.asarray(end_array)
