"""Texts that make for the most work, and random ones on all paths.

The first must cost no more than a few dozen times what ordinary text of the same size costs, in time and
memory, in every operation that reads a stranger's text. The others are encoded natively, by the Rust backend
and, where there is no added token in them, by the oracle: all must say the same.
"""

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from native_cases import Call, Tokenizer, form, outcome, random_text, random_tokenizer, twins
from slow_tokenizer import SlowTokenizer

from attack import forks
from hf_scaffold.errors import ScaffoldError

SIZE = 1_000_000  # characters
TIMES = 40  # as much as ordinary text, at most
ADDED = (
    *(("<w0>", {}), ("<w1>", {"lstrip": True}), ("<w2>", {"rstrip": True}), ("<w3>", {"single_word": True})),
    *(("zona", {"single_word": True, "lstrip": True}), ("ab" * 50, {}), ("a" * 2000 + "b", {})),
)


def fibonacci(n: int) -> str:
    one, other = "a", "ab"
    while len(other) < n:
        one, other = other, other + one
    return other[:n]


def letters(n: int, length: int) -> str:
    """Distinct words of so many letters."""
    rng = random.Random(length)
    words = ("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=length)) for _ in range(n // (length + 1)))
    return " ".join(words)


def all_code_points(n: int) -> str:
    points = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    return points[:n]


TEXTS: dict[str, Callable[[int], str]] = {
    "one letter, as a long added token begins": lambda n: "a" * n,
    "two letters": lambda n: "ab" * (n // 2),
    "Fibonacci's word": fibonacci,
    "random letters": lambda n: "".join(random.Random(0).choices("abn", k=n)),
    "merges up to a scaffold": lambda n: "zona" * (n // 4),
    "merges up to a token": lambda n: "international" * (n // 13),
    "spaces": lambda n: " " * n,
    "lines": lambda n: "\n" * n,
    "all white space": lambda n: "\t \n\r\u00a0\u3000\u2028\x85" * (n // 8),
    "spaces before a word": lambda n: (" " * 999 + "a") * (n // 1000),
    "spaces before added tokens": lambda n: (" " * 996 + "<w1>") * (n // 1000),
    "spaces behind added tokens": lambda n: ("<w2>" + " " * 996) * (n // 1000),
    "added tokens": lambda n: "<w0><w1><w2><w3>" * (n // 16),
    "almost added tokens": lambda n: "<w" * (n // 2),
    "almost another long one": lambda n: "ab" * 49 * (n // 98),
    "digits": lambda n: "1" * n,
    "apostrophes": lambda n: "'" * n,
    "contractions": lambda n: "'s'LL'\u017f" * (n // 7),
    "combining marks": lambda n: "e" + "\u0301" * (n - 1),
    "joined emoji": lambda n: "👩\u200d" * (n // 2),
    "Chinese": lambda n: "日本語" * (n // 3),
    "NUL": lambda n: "\0" * n,
    "all code points": all_code_points,
    "distinct words of 8": lambda n: letters(n, 8),
    "distinct words of 100": lambda n: letters(n, 100),
    "distinct words of 10,000": lambda n: letters(n, 10_000),
}


@cache
def ordinary(n: int) -> str:
    novel = (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8")
    return (novel * (n // len(novel) + 1))[:n]


# ---- operations


@cache
def tokenizer(preset: str, native: bool = True) -> Any:
    made = twins(Tokenizer(preset=preset, added=ADDED))[not native]
    made("a")
    return made


def decode(tok: Any, text: str) -> None:
    tok.decode(tok.encode_batch_to_arrays([text])[0].tolist())


def count(preset: str, text: str) -> None:
    import hf_scaffold as hs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hs.count([text], pre_tokenizer=preset, num_workers=1)


def train(text: str) -> None:
    """On one pre-token, and on as many as there are words."""
    import hf_scaffold as hs

    for counts in ({text: 1}, dict.fromkeys(text.split(), 1)):
        if counts:
            hs.train(hs.PreTokenCounts.from_mapping(counts), 300)


def operations() -> Iterator[tuple[str, int, Callable[[str], Any]]]:
    """Name, the characters it is given, and the operation."""
    for preset in ("gpt2-digits", "llama3", "gpt4o"):
        native = tokenizer(preset)
        yield f"{preset}: lists", SIZE, native
        yield f"{preset}: UTF-8", SIZE, lambda text, tok=native: tok.encode_batch_to_arrays([text.encode()])
        yield f"{preset}: count", SIZE, partial(count, preset)
    native, general = tokenizer("gpt2-digits"), tokenizer("gpt2-digits", native=False)
    yield "decode", SIZE, partial(decode, native)
    yield "dropout", SIZE // 4, lambda text: native(text, dropout=0.1, seed=1)
    yield "train", SIZE // 4, train
    yield "general path", SIZE // 10, general
    yield "offsets", SIZE // 10, lambda text: native(text, return_offsets_mapping=True)


def usage(job: tuple[Callable[[str], Any], str]) -> None:
    operation, text = job
    with contextlib.suppress(ScaffoldError):  # no word in it, for instance
        operation(text)


def measured(jobs: list[tuple[Callable[[str], Any], str]], limits: forks.Limits) -> list[forks.Outcome]:
    return list(forks.run(jobs, usage, lambda job: limits, batch=8))


def check_costs(part: float = 1.0) -> Iterator[str]:
    """What every operation takes for every text; yields those that take too much."""
    for name, size, operation in operations():
        n = int(size * part)
        [normal] = measured([(operation, ordinary(n))], forks.Limits(100, 4 << 30))
        if normal.death:
            yield f"{name}, ordinary text: {normal.death}\n{normal.errors}"
            continue
        limits = forks.Limits(0.5 + TIMES * normal.seconds, (128 << 20) + TIMES * max(normal.peak, 4 * n))
        jobs = [(operation, make(n)) for make in TEXTS.values()]
        worst = 0.0
        for text, outcome_ in zip(TEXTS, measured(jobs, limits), strict=True):
            if outcome_.death:
                spent = f"{limits.seconds:.2f} s, {limits.memory >> 20} MB"
                yield f"{name}, {text}, {n} characters: {outcome_.death} ({spent})\n{outcome_.errors[-1500:]}"
            worst = max(worst, outcome_.seconds)
        ratio = worst / max(normal.seconds, 1e-3)
        print(
            f"{name}: ordinary {normal.seconds * 1e3:.1f} ms, worst {worst * 1e3:.1f} ms ({ratio:.1f} x)",
            flush=True,
        )


# ---- invalid text


def check_invalid() -> Iterator[str]:
    """What can't be text is refused by name, natively and generally, and the next call is right."""
    for native in (True, False):
        tok = tokenizer("gpt2-digits", native)
        expected = tok("Arizona")["input_ids"]
        for bad in ("\ud800", "a\udfffb" * 100, ["a", "\ud800"], [("a", "\udc00")]):
            if type(error := raised(tok, bad)) is not ValueError:
                yield f"native={native}, {bad!r:.40}: {error!r}"
        for bad in (b"\xff", b"a\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80" * 1000):
            if type(error := raised(tok.encode_batch_to_arrays, [b"a", bad])) is not UnicodeDecodeError:
                yield f"native={native}, {bad!r:.40}: {error!r}"
        if tok("Arizona")["input_ids"] != expected:
            yield f"native={native}: other ids after errors"


def raised(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        return error


# ---- differential


def check_round(name: str, n_texts: int = 2000) -> str:
    """Random texts for a random tokenizer on all paths; what differs, if anything does."""
    rng = random.Random(name)
    made = random_tokenizer(rng)
    native, general = twins(made)
    texts = [random_text(rng, made) for _ in range(n_texts)]
    ids, ends = native.encode_batch_to_arrays(texts)
    rows = [ids[a:b].tolist() for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
    lists = native(texts, return_token_type_ids=False)["input_ids"]
    expected = general(texts, return_token_type_ids=False)["input_ids"]
    for text, *found in zip(texts, rows, lists, expected, strict=True):
        if found[0] != found[2] or found[1] != found[2]:
            return f"{made}\n{text!r}: arrays {found[0]}, lists {found[1]}, general path {found[2]}"
    return against_oracle(made, native, texts) or against_dropout_off(native, general, texts[:50])


def against_oracle(made: Tokenizer, native: Any, texts: list[str]) -> str:
    """What differs from the slow twin, which knows no added tokens."""
    slow = SlowTokenizer(native)
    bare = [text for text in texts if len(text) < 1000 and slow.knows(text)]
    rows = native(bare, add_special_tokens=False)["input_ids"] if bare else []
    for text, found in zip(bare, rows, strict=True):
        expected = slow.encode(text)
        if found != expected:
            return f"{made}\n{text!r}: native {found}, oracle {expected}"
        if made.characters is None and slow.keeps(text) and native.decode(found) != text:
            return f"{made}\n{text!r} is decoded to {native.decode(found)!r}"
    return ""


def against_dropout_off(native: Any, general: Any, texts: list[str]) -> str:
    """Encodings, with all that they hold."""
    call = Call(texts, options={"return_special_tokens_mask": True})
    found, expected = form(outcome(native, call)), form(outcome(general, call))
    return "" if found == expected else f"encodings differ\n{found}\n{expected}"[:3000]


def rounds(names: list[str]) -> str:
    return next((f"seed {name}: {found}" for name in names if (found := check_round(name))), "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--n", type=int, help="so many random texts, however long it takes")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--part", type=float, default=1.0, help="of the size that costs are measured at")
    arguments = parser.parse_args()
    prepare()
    start = time.monotonic()
    found = [*check_costs(arguments.part), *check_invalid()]
    print("\n".join(found), end="\n" if found else "", flush=True)
    n, number = 0, arguments.first
    while n < arguments.n if arguments.n else time.monotonic() - start < arguments.seconds:
        names = [f"{arguments.seed}.{i}" for i in range(number, number + 20)]
        # In a child: the backend keeps some 9 MB for each tokenizer that there ever was.
        [outcome_] = forks.run([names], rounds, lambda _: forks.Limits(600, 8 << 30))
        if outcome_.death or outcome_.value:
            found.append(outcome_.death + str(outcome_.value or names))
            print(found[-1], flush=True)
        n, number = n + 20 * 2000, number + 20
    print(f"{n:,} texts on all paths in {time.monotonic() - start:.0f} s, seed {arguments.seed}")
    return bool(found)


def prepare() -> None:
    os.environ.update(TOKENIZERS_PARALLELISM="false", RUST_BACKTRACE="0")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a").write_text("a")  # so that what is imported late is there before the first fork
        for _, _, operation in operations():
            operation("a banana")


if __name__ == "__main__":
    sys.exit(main())
