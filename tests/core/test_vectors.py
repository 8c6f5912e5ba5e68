"""Vectors of every processor give what plain loops give: SSE2 here, NEON in an emulator."""

import json
import random
import shutil
import struct
import subprocess
from pathlib import Path

import native_cases
import numpy as np
import pytest

import hf_scaffold as hs

DRIVER = Path(__file__).with_name("vectors.cpp")
HEADERS = Path(__file__).parents[2] / "cython_core"
# The package was built from source, so there is one.
COMPILER = next(filter(shutil.which, ("c++", "g++", "clang++")), "c++")
ARM_COMPILER, ARM = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
WORDS = [
    "the",
    "cats",
    " sat",
    " it's",
    "don't",
    " I'LL",
    " été",
    " 日本語",
    "1234567",
    "/",
    "\n\n",
    "aB",
    "!?",
]
ODD = [chr(code) for code in (0x149, 0x17F, 0x301, 0x2003, 0x2581, 0x3000, 0x1D4B3)]
EDGES = [chr(code) for code in b"\x08\t\r\x0e\x1f !./:;@A[`az{\x7f"]  # of the ranges that are told apart


def texts_of(dice):
    """Glued from all that scanners tell apart, of every length around those of vectors and windows."""
    pieces = [*native_cases.ODD, *WORDS, *ODD, *EDGES]
    texts = ["", *(c * n for c in "a é語\n'1" for n in (1, 15, 16, 17, 58, 59, 62, 63, 64, 65, 300))]
    texts += ["".join(dice.choices(pieces, k=dice.randrange(1, 200))) for _ in range(1500)]
    # Few kinds of pieces, so that rare neighbours meet.
    texts += ["".join(dice.choices(dice.choices(pieces, k=3), k=120)) for _ in range(1500)]
    return [text.encode() for text in texts]


def lines_of(dice, texts):
    for text in texts:
        record = {"id": dice.random(), "text": text.decode(), "more": [text.decode()[:20], None]}
        line = json.dumps(record, ensure_ascii=dice.random() < 0.5).encode()
        at = dice.randrange(len(line))
        yield (
            line
            if dice.random() < 0.8
            else line[:at] + dice.choice([b'"', b"\\", b"\x01", b"", b"e"]) + line[at:]
        )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, dice = tmp_path_factory.mktemp("vectors"), random.Random(0)
    texts = texts_of(dice)
    bpe = hs.train(hs.count([text.decode() for text in texts]), 2000)
    byte_ids, rules, *_ = bpe.encoder()._definition.model.numbers
    (folder / "texts").write_bytes(b"".join(struct.pack("<I", len(text)) + text for text in texts))
    (folder / "model").write_bytes(np.array(byte_ids, "<i4").tobytes() + np.array(rules, "<i4").tobytes())
    (folder / "lines").write_bytes(b"\n".join(lines_of(dice, texts)))
    return folder


def shown(folder, compiler, *options, by=()):
    """What the driver shows, built so and run by an emulator."""
    program = folder / "vectors"
    command = [
        compiler,
        "-std=c++17",
        "-O1",
        "-pthread",
        f"-I{HEADERS}",
        *options,
        str(DRIVER),
        "-o",
        str(program),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    arguments = [str(folder / name) for name in ("texts", "model", "lines")]
    return subprocess.run([*by, str(program), *arguments], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def expected(files):
    """By plain loops."""
    found = shown(files, COMPILER, "-DHF_SCAFFOLD_NO_VECTORS")
    assert len(found.splitlines()) > 3000
    assert "OTHERS" not in found
    assert "ELSEWHERE" not in found
    return found


def test_vectors_of_this_processor_give_what_plain_loops_give(files, expected):
    assert shown(files, COMPILER) == expected


# Cross-compiler and emulator are Debian packages, which not every machine has; `make lint` says so where NEON
# is not checked.
@pytest.mark.skipif(not (ARM_COMPILER and ARM), reason="needs g++-aarch64-linux-gnu and qemu-user")
def test_neon_gives_what_plain_loops_give(files, expected):
    assert shown(files, ARM_COMPILER, "-static", by=[ARM]) == expected
