# How text is split, as Cython sees it; scan.hpp and splitter.hpp define it.
from libc.stdint cimport int16_t, uint32_t
from libcpp.memory cimport make_shared, shared_ptr


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


cdef extern from "splitter.hpp" namespace "hf_scaffold" nogil:
    cppclass Automaton:
        size_t n_states, n_classes, n_runs
        const uint32_t* starts
        const unsigned char* classes
        const int16_t* transitions
        const unsigned char* accepts

    cppclass Behavior:
        bint cuts[2][2]
        bint drops[2]

    cppclass Splitter:
        Splitter() except +
        void add(const Automaton&, Behavior) except +

    cppclass Splitting:
        Preset preset
        shared_ptr[const Splitter] splitter


# The splitting that a preset's name or `hf_scaffold.splitting.levels.Level`s mean.
cdef inline Splitting splitting_of(object given) except *:
    cdef Splitting splitting
    cdef shared_ptr[Splitter] splitter
    if isinstance(given, str):
        splitting.preset = preset_of(given)
        return splitting
    splitter = make_shared[Splitter]()
    for level in given:
        add_level(splitter.get(), level.automaton, level.cuts, level.drops)
    splitting.splitter = splitter
    return splitting


cdef inline int add_level(Splitter* splitter, automaton, int cuts, int drops) except -1:
    cdef const uint32_t[::1] starts = automaton.starts
    cdef const unsigned char[::1] classes = automaton.classes
    cdef const int16_t[::1] transitions = automaton.transitions
    cdef const unsigned char[::1] accepts = automaton.accepts
    cdef Automaton view
    cdef Behavior behavior
    cdef int i
    view.n_classes = automaton.n_classes
    view.n_runs = starts.shape[0]
    view.n_states = transitions.shape[0] // view.n_classes if view.n_classes else 0
    if view.n_states == 0 or view.n_runs == 0 or classes.shape[0] != starts.shape[0]:
        raise ValueError("the automaton has no states, no runs, or not one class for each run")
    if transitions.shape[0] != view.n_states * view.n_classes or accepts.shape[0] != transitions.shape[0] + view.n_states:
        raise ValueError(f"the automaton's tables don't fit {view.n_classes} classes")
    view.starts, view.classes = &starts[0], &classes[0]
    view.transitions, view.accepts = &transitions[0], &accepts[0]
    for i in range(4):
        behavior.cuts[i // 2][i % 2] = cuts >> i & 1
    for i in range(2):
        behavior.drops[i] = drops >> i & 1
    splitter.add(view, behavior)
    return 0
