# The core's integer widths, as Cython sees them; widths.hpp defines them.
from libcpp cimport bool

cdef extern from "widths.hpp" namespace "hf_scaffold" nogil:
    ctypedef int token_id_t
    ctypedef long long count_t
    ctypedef unsigned int position_t

    const token_id_t NO_ID

    bool checked_add(count_t a, count_t b, count_t* sum)
