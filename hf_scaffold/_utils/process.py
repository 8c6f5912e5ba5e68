"""The processors this process may use."""

import os


def n_cpus() -> int:
    """Those this process may run on, which can be fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
