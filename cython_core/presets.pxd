# The presets' scanners, as Cython sees them; scan.hpp holds the definitions.
cdef extern from "scan.hpp" namespace "hf_scaffold" nogil:
    cdef enum class Preset(int):
        gpt2
        gpt2_digits
        llama3
        gpt4o
