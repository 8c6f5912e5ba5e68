"""What the benchmarks share: the text, a process for every measurement, turns, and tables.

A script that measures takes `--child SPEC`, does what the SPEC in JSON says and prints its findings as one
line of JSON. The peers take turns, so that a slow minute of the machine hits all alike.
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Run = dict[str, Any]


# ---- the text


def fetch(sources: Sequence[str], folder: str) -> Path:
    """One text file from paths and hub:dataset:config; without any, Python's standard library."""
    if len(sources) == 1 and not sources[0].startswith("hub:"):
        return Path(sources[0])
    text = Path(folder, "text.txt")
    with text.open("wb") as stream:
        for source in sources or sorted(map(str, Path(sysconfig.get_path("stdlib")).rglob("*.py"))):
            if source.startswith("hub:"):
                import datasets

                _, name, *config = source.split(":")
                for row in datasets.load_dataset(name, *config, split="train", streaming=True):
                    stream.write(row["text"].encode() + b"\n")
            else:
                # Some of Python's own tests are not UTF-8 on purpose.
                stream.write(Path(source).read_bytes().decode(errors="ignore").encode())
    return text


# ---- measuring


def distribution(peer: str) -> str:
    """A peer is called by the package it comes from and, behind a comma, how it is used."""
    return peer.split(",")[0]


def installed(peer: str) -> bool:
    try:
        importlib.metadata.version(distribution(peer))
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def measure(
    script: str, spec: Mapping[str, Any], env: Mapping[str, str] | None = None, python: str = sys.executable
) -> Run:
    """Run a script's child in a process of its own: what it found, its time, CPU time and peak memory.

    Linux counts the parent's own peak memory as the child's, so this process has to stay small.
    """
    threads = {"RAYON_NUM_THREADS": str(spec["threads"]), "TOKENIZERS_PARALLELISM": "true"}
    command = [python, script, "--child", json.dumps(spec)]
    with tempfile.TemporaryFile() as log:
        start = time.perf_counter()
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env={**os.environ, **threads, **(env or {})}
        )
        output = child.stdout.read() if child.stdout else b""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - start
        if child.returncode:
            log.seek(0)
            raise RuntimeError(f"{spec} failed:\n{log.read().decode(errors='replace')[-2000:]}")
    return {
        **spec,
        "process_s": wall,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": megabytes(usage.ru_maxrss),
        "load": os.getloadavg()[0],
        **json.loads(output.splitlines()[-1]),
    }


def megabytes(maxrss: int) -> float:
    """getrusage's peak memory: kilobytes, on macOS bytes."""
    return maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def take_turns(rounds: Mapping[str, int], measure_peer: Callable[[str], Run]) -> Iterator[Run]:
    """All rounds: how many each peer gets, and what measures one."""
    for number in range(max(rounds.values())):
        for peer, n_rounds in rounds.items():
            if number < n_rounds:
                yield {"round": number, **measure_peer(peer)}


# ---- showing


def environment() -> str:
    return f"{os.cpu_count()} CPUs, Python {platform.python_version()}, {platform.machine()}"


def versions(peers: Sequence[str]) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in dict.fromkeys(map(distribution, peers))}


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table, line by line."""
    yield f"| {' | '.join(columns)} |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def surroundings(page: Path, script: str) -> tuple[str, str]:
    """What stands before and behind a script's tables on a page."""
    begin_line, end_line = f"<!-- {script} -->\n", "<!-- end -->\n"
    before, begin, rest = page.read_text(encoding="utf-8").partition(begin_line)
    _, end, after = rest.partition(end_line)
    if not end:
        lines = f"{begin_line.strip()} and {end_line.strip()}"
        raise SystemExit(f"{page} has no lines {lines} to put the tables between")
    return before + begin, end + after


def save(json_file: Path, peers: Sequence[str], runs: Sequence[Run], without: Sequence[str]) -> None:
    """Every single run, but for what is too large, or of no use elsewhere."""
    rows = [{key: value for key, value in run.items() if key not in without} for run in runs]
    json_file.write_text(json.dumps({"versions": versions(peers), "runs": rows}, indent=1) + "\n")
