"""Processes that a test started, found and killed by their ids."""

import contextlib
import os
import signal
import threading
from collections import Counter
from pathlib import Path

N_KILLS = 3  # a test; where machines are busy, no worker would last if it went on
# A test has a seed. KILLS=200 asks for so many kills, spread over three engines.
SEEDS = range(-(-int(os.environ.get("KILLS", 27)) // (3 * N_KILLS)))

# For each engine, how many workers were killed, and how many results were compared meanwhile.
kills: Counter[str] = Counter()
results: Counter[str] = Counter()


def descendants(pid):
    """The ids of all processes below one, as far as Linux says."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            after_name = path.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(after_name[1]), []).append(int(path.parent.name))
    found, new = [], [pid]
    while new:
        new = [child for parent in new for child in children.get(parent, ())]
        found += new
    return found


def titled(pid, words):
    """The descendants whose command line has one of the words in front."""
    for child in descendants(pid):
        with contextlib.suppress(OSError):
            title = Path(f"/proc/{child}/cmdline").read_text(errors="replace").partition("\0")[0]
            if any(word in title for word in words):
                yield child


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def killing(engine, find, chance):
    """Kill one of the processes that find() gives now and then. Yields the list of those killed."""
    over, killed = threading.Event(), []

    def kill_some():
        while len(killed) < N_KILLS and not over.wait(chance.uniform(0.5, 4)):
            if running := [*find()]:
                killed.append(chance.choice(running))
                kill(killed[-1])

    thread = threading.Thread(target=kill_some)
    thread.start()
    try:
        yield killed
    finally:
        over.set()
        thread.join()
        kills[engine] += len(killed)
