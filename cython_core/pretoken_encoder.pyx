# distutils: language = c++
"""Encoding of pre-tokens: merge by rank, then replace the scaffold tokens."""

from cython cimport critical_section
from libc.stdint cimport INT32_MAX
from libcpp cimport bool
from libcpp.vector cimport vector

from bpe_encoder cimport MUCH, BpeEncoder, CharacterTable, EncoderWork, add_rules, checked, set_bytes, set_history, set_replacements, set_rules_again
from encoded_rows cimport encoded_rows
from interrupt cimport Interrupt
from widths cimport token_id_t


cdef class PretokenEncoder:
    """Ordinary BPE over pre-tokens, then replacement of tokens. Immutable; calls may run concurrently.

    Args:
        symbols: How to read a pre-token. 256 int32: as bytes, with the token of each, or -1 for a byte that has
            none and is dropped. A dict: as characters, from (the character as UTF-8, whether it continues a
            pre-token, whether it ends one) to its token.
        rules: int32, (n, 3): left, right and merged token, in rank order.
        replacements: From a token to the tokens that replace it in the output.
        wholes: From pre-tokens that become one token without merging to that token.
        unknown: The token of characters without one of their own; -1 to drop them.
        fuse_unknown: Whether a run of characters without a token becomes a single one.
        history: Two int32 arrays that decide in place of the rules, as `set_history` in bpe_encoder.pxd takes them.
        again: More rules, which apply to what is there once tokens are replaced.
        first_byte: The token of byte 0; byte b has the token first_byte + b. Characters without a token become the
            tokens of their bytes. -1 if there are none.
    Raises:
        ValueError: an id is negative, `symbols` or `rules` has the wrong shape, or a symbol is not one character.
        OverflowError: an id is above 2**31 - 1.
    """

    cdef BpeEncoder* encoder

    def __cinit__(
        self,
        symbols,
        const token_id_t[:, ::1] rules,
        dict replacements not None,
        dict wholes not None,
        token_id_t unknown=-1,
        bool fuse_unknown=False,
        token_id_t first_byte=-1,
        tuple history=None,
        const token_id_t[:, ::1] again=None,
    ):
        cdef bytes pretoken
        self.encoder = new BpeEncoder(rules.shape[0])
        if isinstance(symbols, dict):
            self._set_characters(symbols, unknown, fuse_unknown, first_byte)
        else:
            set_bytes(self.encoder, symbols, "symbols")
        add_rules(self.encoder, rules)
        if history is not None:
            set_history(self.encoder, history)
        if again is not None:
            set_rules_again(self.encoder, again)
        set_replacements(self.encoder, replacements)
        for pretoken, token in tuple(wholes.items()):
            self.encoder.add_whole(<const unsigned char*>pretoken, len(pretoken), checked(token))

    def __dealloc__(self):
        del self.encoder

    cdef int _set_characters(
        self, dict tokens, token_id_t unknown, bool fuse_unknown, token_id_t first_byte
    ) except -1:
        cdef CharacterTable* characters = &self.encoder.characters()
        cdef bytes utf8
        for (utf8, continues, ends), token in tuple(tokens.items()):
            characters.set(<const unsigned char*>utf8, len(utf8), continues, ends, checked(token))
        characters.set_unknown(checked(unknown, True), fuse_unknown)
        if checked(first_byte, True) >= 0:
            if first_byte > INT32_MAX - 255:
                raise OverflowError(f"no ids are left for all bytes from {first_byte} on")
            for byte in range(256):
                characters.set_byte(<unsigned char>byte, first_byte + byte)

    @property
    def longest_probe(self):
        """The most entries one look-up compares: a few dozen at most, whatever the merges."""
        return self.encoder.longest_probe()

    def prepare(self):
        """Make encoding faster from now on. `encode` does so itself if given much."""
        with critical_section(self):
            self.encoder.prepare()

    def encode(self, const unsigned char[::1] data, const long long[::1] offsets, *, bool prepare=True):
        """Encode the pre-tokens data[offsets[i] : offsets[i + 1]]; releases the GIL.

        Args:
            prepare: Whether to prepare() first if this is much.
        Returns:
            int32 ids of all pre-tokens, concatenated, and n + 1 int64 offsets into them.
        Raises:
            ValueError: the offsets don't ascend from 0 to the length of data.
        """
        cdef Py_ssize_t n = offsets.shape[0] - 1
        cdef vector[token_id_t] ids
        cdef vector[long long] ends
        if n < 0 or offsets[0] != 0 or offsets[n] != data.shape[0]:
            raise ValueError("offsets must ascend from 0 to the length of data")
        if prepare and data.shape[0] >= MUCH:
            self.prepare()
        with nogil:
            encode_all(self.encoder, data, offsets, ids, ends)
        return encoded_rows(ids, ends)


# Other threads may change the offsets meanwhile, so each is checked where it is used.
cdef int encode_all(
    BpeEncoder* encoder,
    const unsigned char[::1] data,
    const long long[::1] offsets,
    vector[token_id_t]& ids,
    vector[long long]& ends,
) except -1 nogil:
    cdef const unsigned char* first = &data[0] if data.shape[0] else NULL
    cdef Py_ssize_t i
    cdef long long start = 0, stop
    cdef Interrupt interrupt
    cdef EncoderWork work
    work.interrupt = &interrupt
    ends.push_back(0)
    for i in range(1, offsets.shape[0]):
        if i % 1024 == 0:
            interrupt.poll()
        stop = offsets[i]
        if not start <= stop <= data.shape[0]:
            with gil:
                raise ValueError("offsets must ascend from 0 to the length of data")
        encoder.encode(first + start, <size_t>(stop - start), work, ids)
        ends.push_back(<long long>ids.size())
        start = stop
    return 0
