# The integer widths of the core, as Cython sees them. The C++ side is widths.hpp.
cdef extern from "widths.hpp" namespace "hf_scaffold" nogil:
    ctypedef int token_id_t
    ctypedef long long count_t
    ctypedef unsigned int position_t
