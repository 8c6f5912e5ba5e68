"""What the whole process shares: its processors, its open files, the search for garbage."""

import contextlib
import gc
import os
import sys
from collections.abc import Iterator


def n_cpus() -> int:
    """Those this process may run on, which can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def most_open_files() -> int:
    """How many files this process may have open at a time, all of it together."""
    try:
        import resource
    except ImportError:  # Windows
        return 512
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """For a moment in which many small objects are made and none is garbage: looking for it doubles the time.

    Where several threads are in such blocks, the first to come is the one that turns the search on again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
