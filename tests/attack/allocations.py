"""Every allocation of the native code fails once: MemoryError, and the same call is right afterwards.

Run as `python tests/attack/allocations.py [--at-most N] [NAME …]`. It compiles tests/failing_malloc.cpp,
starts itself again with that preloaded and prints a line for each call. The exit status is not 0 on errors.
In the calls of the core, allocations of Python's objects fail, too, where CPython has `_testcapi`.
"""

import argparse
import ctypes
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "failing_malloc.cpp"
AT_MOST = 5000
CORE = ("counter", "loop", "pretoken encoder", "text encoder")
TEXT = "all the king's horses and all the king's men couldn't put Humpty together again; a1b2 çöé 日本語 " * 3
# So many distinct pre-tokens that tables and caches grow.
WORDS = " ".join("".join("abcdefghij"[int(digit)] for digit in str(n * 7919)) for n in range(9000))

Calls = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]


def compiled(folder: str) -> str:
    library = os.path.join(folder, "failing_malloc.so")
    command = ["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", library, str(SOURCE)]
    subprocess.run(command, check=True)
    return library


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """This script with the allocator that fails."""
    return run_preloaded(str(Path(__file__).resolve()), *arguments)


def run_preloaded(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Python with the allocator that fails."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "LD_PRELOAD": compiled(folder), "FAILING_MALLOC": "1"}
        return subprocess.run(
            [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, cwd=folder
        )


def calls() -> Calls:
    """By name: what is to be done before each call, and the call."""
    import numpy as np

    import hf_scaffold as hs
    from hf_scaffold._core.counter import PretokenCounter
    from hf_scaffold._core.pretoken_encoder import PretokenEncoder
    from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder
    from hf_scaffold._core.trainer import AmbiguousMergeLoop

    counts = hs.count([TEXT, WORDS[:3000]])
    bpe = hs.train(counts, 400, special_tokens=["<s>"])
    tokenizer = bpe.to_tokenizer(bos_token="<s>")
    ids = tokenizer(TEXT).input_ids
    texts = [TEXT, WORDS[:9000], "<s> a", ""]
    rules = np.array([(i, i, i + 1) for i in range(97, 105)], np.int32)
    symbols = np.frombuffer(WORDS.encode(), np.uint8).astype(np.int32)
    byte_ids = np.arange(256, dtype=np.int32)
    letters = [bytes([byte]) for byte in range(256)]
    folder = tempfile.mkdtemp()

    def nothing() -> None:
        pass

    def forget() -> None:
        """A tokenizer that has neither a native encoder nor a cache yet."""
        nonlocal tokenizer
        tokenizer = bpe.to_tokenizer(bos_token="<s>")

    def core() -> Any:
        encoder = TextEncoder("gpt2", byte_ids, rules, {98: [97, 97]})
        made, offsets, _ = encoder.encode([TEXT, WORDS], AddedTokenFinder([("<s>", 5, *[False] * 5)]), 2)
        return made.tolist(), offsets.tolist()

    def loop() -> Any:
        made = AmbiguousMergeLoop(
            symbols, np.array([0, len(symbols)]), np.array([1]), letters, 0, 0, 0, True, log=True
        )
        return made.run(300), made.merges, made.scaffolds, made.events

    def counter() -> Any:
        made, other = PretokenCounter("gpt2"), PretokenCounter("gpt2")
        made.add([WORDS.encode()])
        other.add([TEXT.encode()])
        made.merge(other)
        text, offsets, numbers = made.table()
        return text, offsets.tolist(), numbers.tolist()

    def pretokens() -> Any:
        encoder = PretokenEncoder(
            {(b"a", False, False): 0, (b"b", True, False): 1}, rules, {97: [1, 2]}, {b"ab": 7}, 3
        )
        made, ends = encoder.encode(b"aabab" * 30, np.array([0, 2, 4, 150]))
        return made.tolist(), ends.tolist()

    def save() -> Any:
        bpe.save(folder)
        return sorted((path.name, path.read_bytes()) for path in Path(folder).iterdir() if path.is_file())

    def load() -> Any:
        return hs.ScaffoldBPE.load(folder).encode([b"king", b" horses"])

    save()
    return {
        "counter": (nothing, counter),
        "loop": (nothing, loop),
        "pretoken encoder": (nothing, pretokens),
        "text encoder": (nothing, core),
        "count": (nothing, lambda: dict(hs.count([TEXT, WORDS[:9000]], num_workers=2))),
        "train": (nothing, lambda: hs.train(counts, 400, log=True)),
        "encode": (forget, lambda: tokenizer(texts).input_ids),
        "encode to arrays": (forget, lambda: [a.tolist() for a in tokenizer.encode_batch_to_arrays(texts)]),
        "decode": (forget, lambda: tokenizer.decode(ids)),
        "save": (nothing, save),
        "load": (nothing, load),
    }


class Allocator:
    """The preloaded library, which watches the extension modules' allocations."""

    def __init__(self) -> None:
        self.shim = ctypes.CDLL(None)
        self.shim.disarm.restype = ctypes.c_bool
        maps = Path("/proc/self/maps").read_text().splitlines()
        for pattern, own in ((r"/hf_scaffold/_core/[^/]*\.so$", True), (r"/libstdc\+\+\.so[^/]*$", False)):
            for line in maps:
                if re.search(pattern, line) and " r-xp " in line:
                    begin, end = (int(number, 16) for number in line.split()[0].split("-"))
                    self.shim.watch(ctypes.c_size_t(begin), ctypes.c_size_t(end), own)

    def arm(self, n: int) -> None:
        self.shim.arm(ctypes.c_long(n))

    def disarm(self) -> bool:
        """Whether there was an n-th allocation."""
        return bool(self.shim.disarm())


class PythonAllocator:
    """CPython's own, which fails for objects, buffers and lists."""

    def __init__(self) -> None:
        self.api = importlib.import_module("_testcapi")

    def arm(self, n: int) -> None:
        self.api.set_nomemory(n, n + 1)

    def disarm(self) -> bool:
        self.api.remove_mem_hooks()
        return True  # nobody knows


def attack(
    name: str,
    allocator: Allocator | PythonAllocator,
    prepare: Callable[[], Any],
    call: Callable[[], Any],
    at_most: int,
) -> bool:
    prepare()
    expected = call()
    errors: list[str] = []
    n_failed = n_refused = 0
    for n in range(at_most):
        prepare()
        result = None
        allocator.arm(n)
        try:
            result = call()
        except MemoryError:
            n_refused += 1
        except Exception as error:
            errors.append(f"allocation {n}: {error!r}")
        finally:
            failed = allocator.disarm()
        if result is not None and result != expected:
            errors.append(f"allocation {n}: a wrong result")
        if call() != expected:
            errors.append(f"allocation {n}: a wrong result on the next call")
        if not failed:
            break
        n_failed += 1
    summary = f"{name}: {n_failed} allocations failed, {n_refused} MemoryErrors, {len(errors)} errors"
    print(summary, *errors[:5], sep="\n  ", flush=True)
    return not errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the calls to attack; all by default")
    parser.add_argument("--at-most", type=int, default=AT_MOST, help="allocations of each call")
    options = parser.parse_args()
    if "FAILING_MALLOC" not in os.environ:
        result = run(*sys.argv[1:])
        print(result.stdout, end="")
        return result.returncode
    sys.path[0] = str(Path(__file__).parents[1])
    warnings.simplefilter("ignore")
    known = calls()
    names = options.names or list(known)
    succeeded = [attack(name, Allocator(), *known[name], options.at_most) for name in names]
    if importlib.util.find_spec("_testcapi") is not None:
        succeeded += [
            attack(f"{name}, objects", PythonAllocator(), *known[name], min(options.at_most, 500))
            for name in names
            if name in CORE
        ]
    return int(not all(succeeded))


if __name__ == "__main__":
    sys.exit(main())
