# The presets' scanners, as Cython sees them; scan.hpp defines them.
cdef extern from "scan.hpp" namespace "hf_scaffold" nogil:
    cdef enum class Preset(int):
        gpt2
        gpt2_digits
        llama3
        gpt4o
        whole
        metaspace
        metaspace_runs


cdef inline Preset preset_of(str name) except *:
    cdef dict presets = {
        "gpt2": <int>Preset.gpt2,
        "gpt2-digits": <int>Preset.gpt2_digits,
        "llama3": <int>Preset.llama3,
        "gpt4o": <int>Preset.gpt4o,
        "whole": <int>Preset.whole,
        "metaspace": <int>Preset.metaspace,
        "metaspace-runs": <int>Preset.metaspace_runs,
    }
    if name not in presets:
        from hf_scaffold.errors import ConfigurationError

        raise ConfigurationError(f"no native scanner for pre-tokenizer {name!r}; there are: {', '.join(presets)}")
    return <Preset><int>presets[name]
