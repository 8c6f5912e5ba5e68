# BPE of pre-tokens, as Cython sees it; bpe_encoder.hpp defines it.
#
# No argument is a C++ container: Cython copies those where an exception would terminate the process.
from libc.stdint cimport INT32_MAX, int64_t
from libcpp cimport bool
from libcpp.vector cimport vector

from interrupt cimport Interrupt
from widths cimport token_id_t

cdef extern from "replacements.hpp" namespace "hf_scaffold" nogil:
    cppclass Replacements:
        void begin(token_id_t) except +
        void add(token_id_t) except +
        void finish() except +

cdef extern from "linear_bpe.hpp" namespace "hf_scaffold" nogil:
    cppclass Rule "hf_scaffold::LinearBpe::Rule":
        token_id_t left
        token_id_t right
        token_id_t merged

cdef extern from "bpe_encoder.hpp" namespace "hf_scaffold" nogil:
    cppclass EncoderWork "hf_scaffold::BpeEncoder::Work":
        Interrupt* interrupt

    cppclass CharacterTable:
        void set(const unsigned char*, size_t, bool, bool, token_id_t) except +
        void set_unknown(token_id_t, bool)
        void set_byte(unsigned char, token_id_t)
        void add_prefix_byte(unsigned char) except +
        void add_suffix_byte(unsigned char) except +

    cppclass Chronicle:
        void add_merge(token_id_t, token_id_t, token_id_t) except +
        void add_removal(token_id_t, const token_id_t*, size_t) except +

    cppclass RuleTable:
        void add(const Rule&) except +

    cppclass BpeEncoder:
        BpeEncoder(size_t) except +
        void set_byte(unsigned char, token_id_t)
        CharacterTable& characters()
        void write_bytes()
        void add_rule(token_id_t, token_id_t, token_id_t) except +
        void prepare() except +
        void add_whole(const unsigned char*, size_t, token_id_t) except +
        Replacements& replacements()
        RuleTable& rules_again(size_t) except +
        Chronicle& chronicle() except +
        void encode(const unsigned char*, size_t, EncoderWork&, vector[token_id_t]&) except +
        size_t longest_probe()


# So much text makes prepare() worth its time.
cdef enum:
    MUCH = 1 << 15


# A token's id; or, if allowed, -1 for none.
cdef inline token_id_t checked(token_id_t token, bool may_be_none=False) except? -1:
    if token < (-1 if may_be_none else 0):
        raise ValueError(f"{token} is no token's id: those count up from 0")
    return token


cdef inline int set_bytes(BpeEncoder* bpe, const token_id_t[::1] tokens, str name) except -1:
    cdef Py_ssize_t i
    if tokens.shape[0] != 256:
        raise ValueError(f"{name} has {tokens.shape[0]} entries instead of 256")
    for i in range(256):
        bpe.set_byte(<unsigned char>i, checked(tokens[i], True))


cdef inline int add_rules(BpeEncoder* bpe, const token_id_t[:, ::1] rules) except -1:
    cdef Py_ssize_t i
    check_columns(rules)
    for i in range(rules.shape[0]):
        bpe.add_rule(checked(rules[i, 0]), checked(rules[i, 1]), checked(rules[i, 2]))


cdef inline int check_columns(const token_id_t[:, ::1] rules) except -1:
    if rules.shape[1] != 3:
        raise ValueError(f"rules has {rules.shape[1]} columns instead of 3: left, right and merged token")


# Rules that apply once tokens are replaced, to what is there then.
cdef inline int set_rules_again(BpeEncoder* bpe, const token_id_t[:, ::1] rules) except -1:
    cdef Rule rule
    cdef Py_ssize_t i
    check_columns(rules)
    cdef RuleTable* table = &bpe.rules_again(rules.shape[0])
    for i in range(rules.shape[0]):
        rule.left, rule.right, rule.merged = checked(rules[i, 0]), checked(rules[i, 1]), checked(rules[i, 2])
        table.add(rule)


# The steps of a training that took tokens out again: rows of left, right and merged token; of a removal the token, -1
# and where its parts end among all parts.
cdef inline int set_history(BpeEncoder* bpe, tuple history) except -1:
    cdef Chronicle* chronicle = &bpe.chronicle()
    cdef const token_id_t[:, ::1] steps
    cdef const token_id_t[::1] parts
    cdef Py_ssize_t i, end, begin = 0
    steps, parts = history
    if steps is None or parts is None or steps.shape[1] != 3:
        raise ValueError("history must be rows of three numbers, and parts")
    for i in range(parts.shape[0]):
        checked(parts[i])
    for i in range(steps.shape[0]):
        if steps[i, 1] >= 0:
            chronicle.add_merge(checked(steps[i, 0]), steps[i, 1], checked(steps[i, 2]))
            continue
        end = steps[i, 2]
        if not begin < end <= parts.shape[0]:
            raise ValueError(f"step {i} has the parts from {begin} to {end} of {parts.shape[0]}")
        chronicle.add_removal(checked(steps[i, 0]), &parts[begin], end - begin)
        begin = end


# From a token to the tokens that replace it; or, of tokens whose ids follow each other, the first id, where the parts of
# each end, and all parts.
cdef inline int set_replacements(BpeEncoder* bpe, replacements) except -1:
    if isinstance(replacements, tuple):
        first, ends, parts = replacements
        set_rows(bpe, first, ends, parts)
    else:
        for token, parts in tuple((<dict?>replacements).items()):
            bpe.replacements().begin(checked(token))
            for part in parts:
                bpe.replacements().add(checked(part))
    bpe.replacements().finish()


cdef inline int set_rows(
    BpeEncoder* bpe, token_id_t token, const int64_t[::1] ends, const token_id_t[::1] parts
) except -1:
    cdef Py_ssize_t row
    cdef int64_t at = 0
    if ends is None or parts is None:
        raise TypeError("replacements in rows lack an array")
    if ends.shape[0] > INT32_MAX - checked(token):
        raise OverflowError(f"{ends.shape[0]} tokens from {token} on: ids go up to 2**31 - 1")
    for row in range(ends.shape[0]):
        bpe.replacements().begin(token + <token_id_t>row)
        if not at <= ends[row] <= parts.shape[0]:
            raise ValueError(f"row {row} goes from {at} to {ends[row]} of {parts.shape[0]} parts")
        while at < ends[row]:
            bpe.replacements().add(checked(parts[at]))
            at += 1


# A model's characters, as `Characters` in engine/model.py has them; its tokens may be any, those that are no symbol too.
cdef inline int set_characters(BpeEncoder* bpe, tuple characters) except -1:
    cdef CharacterTable* table = &bpe.characters()
    cdef dict tokens
    cdef str token, prefix, suffix
    cdef Py_ssize_t n_prefix, n_suffix, n, first
    cdef bint continues, ends
    cdef bytes character
    cdef const token_id_t[::1] byte_ids
    tokens, prefix, suffix, unknown, fuse, all_byte_ids, writes_bytes = characters
    n_prefix, n_suffix = len(prefix), len(suffix)
    for token, token_id in tuple(tokens.items()):
        n = len(token)
        for continues in range(2):
            first = n_prefix if continues else 0
            for ends in range(2):
                if n != first + 1 + (n_suffix if ends else 0):
                    continue
                if (continues and not token.startswith(prefix)) or (ends and not token.endswith(suffix)):
                    continue
                character = token[first].encode()
                table.set(<const unsigned char*>character, len(character), continues, ends, checked(token_id))
    table.set_unknown(checked(unknown, True), fuse)
    byte_ids = all_byte_ids
    if byte_ids.shape[0] != 256:
        raise ValueError(f"byte_ids has {byte_ids.shape[0]} entries instead of 256")
    for n in range(256):
        table.set_byte(<unsigned char>n, checked(byte_ids[n], True))
    for byte in prefix.encode():
        table.add_prefix_byte(<unsigned char>byte)
    for byte in suffix.encode():
        table.add_suffix_byte(<unsigned char>byte)
    if writes_bytes:
        bpe.write_bytes()


# What a pre-token is before merging: the token of each byte; or a tuple for set_characters().
cdef inline int set_symbols(BpeEncoder* bpe, symbols, str name) except -1:
    if isinstance(symbols, tuple):
        set_characters(bpe, symbols)
    else:
        set_bytes(bpe, symbols, name)
