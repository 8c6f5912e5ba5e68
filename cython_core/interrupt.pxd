# interrupt.hpp as Cython sees it, with Python's signals.

cdef extern from * nogil:
    """
    #include <Python.h>
    #include "interrupt.hpp"
    #ifdef __linux__
    #include <sys/syscall.h>
    #include <unistd.h>
    #elif defined(__APPLE__)
    #include <pthread.h>
    #endif

    // Python runs handlers on the main thread only. Other threads must not even ask for the GIL inside C++: at shutdown
    // the interpreter may end a thread that waits for it, without running destructors.
    static bool is_main_thread() {
    #ifdef __linux__
        return syscall(SYS_gettid) == getpid();
    #elif defined(__APPLE__)
        return pthread_main_np() != 0;
    #else
        return true;
    #endif
    }

    static bool run_signal_handlers() {
        if (!is_main_thread()) return false;
        const PyGILState_STATE state = PyGILState_Ensure();
        const bool raised = PyErr_CheckSignals() != 0;
        PyGILState_Release(state);
        return raised;
    }

    struct CtrlC : hf_scaffold::Interrupt {
        CtrlC() : Interrupt(run_signal_handlers) {}
    };
    """
    cppclass Interrupt "CtrlC":
        Interrupt()
        void poll() except +

    cppclass Steps "hf_scaffold::Steps":
        Steps(Interrupt&)
        void next() except +
