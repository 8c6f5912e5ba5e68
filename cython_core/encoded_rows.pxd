# Vectors as NumPy arrays of their own.
from libc.string cimport memcpy
from libcpp.vector cimport vector

from widths cimport token_id_t


cdef inline tuple encoded_rows(const vector[token_id_t]& ids, const vector[long long]& ends):
    """int32 ids of all rows, one after another, and the int64 offsets of the rows, of which there is at least one."""
    import numpy as np

    cdef token_id_t[::1] id_array = np.empty(ids.size(), np.int32)
    cdef long long[::1] end_array = np.empty(ends.size(), np.int64)
    if ids.size():
        memcpy(&id_array[0], ids.data(), ids.size() * sizeof(token_id_t))
    memcpy(&end_array[0], ends.data(), ends.size() * sizeof(long long))
    return np.asarray(id_array), np.asarray(end_array)
