"""Work done in forked processes that may crash, hang or eat memory, without a new interpreter for each.

The parent has everything imported; a child does one job after another, with limits on its time and its
addresses set anew for each. When it dies, the job it died of is done once more alone, which shows why.
"""

import faulthandler
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

BATCH = 50
WALL_SECONDS = 60  # without a sign of life, and without using up its processor time: it waits for something


@dataclass(frozen=True)
class Limits:
    seconds: float  # of processor time
    memory: int  # bytes beside what the process has before


@dataclass(frozen=True)
class Outcome:
    """How a job ended: what it returned; or, where `death` isn't empty, how it died."""

    value: Any = None
    seconds: float = 0
    peak: int = 0  # bytes beside what the process had before
    death: str = ""
    errors: str = ""  # what it wrote there, once run alone


def run(
    jobs: Sequence[Any], work: Callable[[Any], Any], limits: Callable[[Any], Limits], batch: int = BATCH
) -> Iterator[Outcome]:
    """work(job) of every job, in order; the values must be JSON."""
    done = 0
    while done < len(jobs):
        outcomes = run_child(jobs[done : done + batch], work, limits)
        for outcome in outcomes:
            if not outcome.death:
                yield outcome
                continue
            [alone] = run_child([jobs[done + len(outcomes) - 1]], work, limits)
            note = "" if alone.death else " after other jobs, not alone"
            yield replace(alone, death=(alone.death or outcome.death) + note)
        done += len(outcomes)


def run_child(
    jobs: Sequence[Any], work: Callable[[Any], Any], limits: Callable[[Any], Limits]
) -> list[Outcome]:
    """The outcomes up to the first death, which is the last one then."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors:
        sys.stdout.flush()
        child = os.fork()
        if not child:
            os.close(reading)
            os.dup2(errors.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nobody answers whether remote code may run
            be_child(jobs, work, limits, writing)
        os.close(writing)
        lines, is_silent = read_lines(reading, child)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        outcomes = [Outcome(**json.loads(line)) for line in lines]
        if len(outcomes) < len(jobs):
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-3000:]
            outcomes.append(Outcome(death="hangs" if is_silent else cause_of_death(status), errors=said))
        return outcomes


def read_lines(reading: int, child: int) -> tuple[list[bytes], bool]:
    """What a child writes until it ends; whether it had to be killed for its silence."""
    data = bytearray()
    while True:
        ready, _, _ = select.select([reading], [], [], WALL_SECONDS)
        if not ready:
            os.kill(child, signal.SIGKILL)
            return data.split(b"\n")[:-1], True
        new = os.read(reading, 1 << 16)
        if not new:
            return data.split(b"\n")[:-1], False
        data += new


def cause_of_death(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return "too much time" if number == signal.SIGPROF else signal.Signals(number).name
    return f"exit code {os.WEXITSTATUS(status)}"


def be_child(
    jobs: Sequence[Any], work: Callable[[Any], Any], limits: Callable[[Any], Limits], writing: int
) -> None:
    code = 3
    try:
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # whatever it was in the parent
        faulthandler.enable(sys.stderr, all_threads=False)
        # Shows where, then dies.
        faulthandler.register(signal.SIGPROF, sys.stderr, all_threads=False, chain=True)
        for job in jobs:
            limit = limits(job)
            before = begin(limit)
            start = time.process_time()
            value = work(job)
            seconds = time.process_time() - start
            outcome = {"value": value, "seconds": seconds, "peak": end(before)}
            os.write(writing, json.dumps(outcome).encode() + b"\n")
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)  # of the parent's exit handlers none is the child's


def begin(limit: Limits) -> int:
    """Set the limits; returns the memory there is now."""
    reset_peak()
    resident = memory("VmRSS")
    if not IS_SANITIZED:  # its shadow takes terabytes of addresses
        set_address_space(memory("VmSize") + limit.memory)
    signal.setitimer(signal.ITIMER_PROF, limit.seconds * (20 if IS_SANITIZED else 1))
    return resident


def end(before: int) -> int:
    """Lift the limits; returns the peak beside what there was before."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    set_address_space(resource.RLIM_INFINITY)
    return max(0, memory("VmHWM") - before)


def set_address_space(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(
        resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard)
    )


def memory(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    with open("/proc/self/status") as stream:
        for line in stream:
            if line.startswith(name + ":"):
                return int(line.split()[1]) << 10
    return 0


def reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
    except OSError:  # some containers don't let it; then peaks are those of the process
        pass


IS_SANITIZED = memory("VmSize") > 1 << 42
