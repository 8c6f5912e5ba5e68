# Rows of ids, made of a template's special tokens and of sequences.
from libc.stdint cimport int64_t

from widths cimport token_id_t


# How many ids a piece of a template has in this row; for a sequence, sets *begin to where it begins.
cdef inline int64_t piece_size(
    token_id_t piece, const int64_t[:, :, ::1] spans, Py_ssize_t row, Py_ssize_t n_ids, int64_t* begin
) except -1 nogil:
    cdef int64_t first, end
    if piece >= 0:
        return 1
    if -1 - piece >= spans.shape[1]:
        with gil:
            raise ValueError(f"the template has sequence {-piece}, a row only {spans.shape[1]}")
    first, end = spans[row, -1 - piece, 0], spans[row, -1 - piece, 1]
    if not 0 <= first <= end <= n_ids:
        with gil:
            raise ValueError(f"row {row} goes from {first} to {end} of {n_ids} ids")
    begin[0] = first
    return end - first
