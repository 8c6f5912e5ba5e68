"""Threads that begin together."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier


def at_once(work, n=8):
    """work(0) … work(n - 1), each on its own thread, begun together."""
    barrier = Barrier(n)

    def begin(i):
        barrier.wait(60)
        return work(i)

    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(begin, range(n)))
