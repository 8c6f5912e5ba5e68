# What stands for tokens that have lost their rule; part of trainer.pyx.

from libcpp.memory cimport unique_ptr

from interrupt cimport Steps

cdef extern from "token_splits.hpp" namespace "hf_scaffold" nogil:
    const size_t NO_TOKEN

    cppclass TokenSplit:
        size_t left
        size_t right

    cppclass TokenSplitter:
        TokenSplitter(const vector[string]&, const count_t*, const string&, const string&) except +
        TokenSplit split(const string&, Steps&) except +


def strongest_splits(
    list tokens not None,
    const count_t[::1] frequencies,
    const long long[::1] rows,
    bytes prefix not None,
    bytes suffix not None,
):
    """Where to cut tokens, so that the rarer of both parts is as frequent as can be.

    Args:
        tokens: As UTF-8, all different.
        frequencies: int64, one a token; below 0 for what is no part.
        rows: int64, the numbers of those to cut.
        prefix, suffix: The affixes that tokens are spelled with.
    Returns:
        int64, (n, 2): the numbers of the left and the right part, at the first such place; -1 if there is none.
    Raises:
        ValueError: there is no such token, or not one frequency a token.
    Cost: for each token to cut, a look-up for each distinct length of a token; releases the GIL.
    """
    cdef vector[string] kept = tokens
    cdef string before = prefix, after = suffix
    if <size_t>frequencies.shape[0] != kept.size():
        raise ValueError(f"{frequencies.shape[0]} frequencies of {kept.size()} tokens")
    found = np.empty((rows.shape[0], 2), np.int64)
    cdef long long[:, ::1] parts = found
    with nogil:
        _split(kept, &frequencies[0] if kept.size() else NULL, rows, before, after, parts)
    return found


cdef int _split(
    const vector[string]& tokens,
    const count_t* frequencies,
    const long long[::1] rows,
    const string& prefix,
    const string& suffix,
    long long[:, ::1] parts,
) except -1 nogil:
    cdef Interrupt interrupt
    cdef unique_ptr[Steps] steps = unique_ptr[Steps](new Steps(interrupt))
    cdef unique_ptr[TokenSplitter] splitter
    cdef TokenSplit split
    cdef Py_ssize_t i
    cdef long long row
    splitter.reset(new TokenSplitter(tokens, frequencies, prefix, suffix))
    for i in range(rows.shape[0]):
        row = rows[i]
        if not 0 <= row < <long long>tokens.size():
            raise ValueError(f"there is no token {row}; there are {tokens.size()}")
        split = splitter.get().split(tokens[row], steps.get()[0])
        parts[i, 0] = <long long>split.left if split.left != NO_TOKEN else -1
        parts[i, 1] = <long long>split.right if split.right != NO_TOKEN else -1
