# Here rather than in cython_core/, as other modules import the class from the package.

cdef class Utf8:
    cdef const unsigned char[::1] data
