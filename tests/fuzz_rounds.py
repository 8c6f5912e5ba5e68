"""What the fuzzer does with one random tokenizer: calls, many texts on every way to ids, and decoding.

The right answer is the Rust backend's with the expanded model; of short texts it is the oracle's, too.
"""

import faulthandler
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from native_cases import (
    Call,
    Tokenizer,
    are_answered_alike,
    form,
    is_native,
    outcome,
    random_call,
    random_text,
    random_tokenizer,
    report,
    short_texts,
    twins,
)
from slow_tokenizer import SlowTokenizer

from hf_scaffold.engine.dropout import stream
from hf_scaffold.tokenization_scaffold import FIRST_SCAFFOLD_ID, ExpandedModel

Arrays = tuple[Any, Any]
# Options whose calls are counted.
COUNTED = {
    "offsets": "return_offsets_mapping",
    "overflow": "return_overflowing_tokens",
    "words": "is_split_into_words",
    "truncation": "truncation",
    "padding": "padding",
    "tensors": "return_tensors",
}


class Rust:
    """The general path's ids, without the Encodings around them."""

    def __init__(self, tokenizer: Any) -> None:
        public = tokenizer.backend_tokenizer
        expanded = ExpandedModel(tokenizer.scaffold, public, None)
        self.pipeline = expanded.pipelines_of(public, (), tokenizer.split_special_tokens).framing
        pieces = [[token_id for token_id, _ in parts] for parts in expanded.pieces.values()]
        self.pieces = np.array([*chain.from_iterable(pieces)], np.int64)
        self.n_pieces = np.array([*map(len, pieces)], np.int64)

    def encode(self, texts: list[str], add_special_tokens: bool) -> Arrays:
        """The ids of all texts one after another, and where each text's begin and the last one's end."""
        encodings = self.pipeline.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
        rows = [encoding.ids for encoding in encodings]
        return self.demolished(*joined(rows))

    def demolished(self, ids: Any, ends: Any) -> Arrays:
        """With pieces in place of scaffold tokens."""
        places = np.flatnonzero(ids >= FIRST_SCAFFOLD_ID)
        scaffolds = ids[places] - FIRST_SCAFFOLD_ID
        n = np.ones(len(ids), np.int64)
        n[places] = self.n_pieces[scaffolds]
        after = starts_of(n)
        made = np.repeat(ids, n)
        first, length = starts_of(self.n_pieces)[scaffolds], n[places]
        within = np.arange(length.sum()) - np.repeat(starts_of(length)[:-1], length)
        made[np.repeat(after[places], length) + within] = self.pieces[np.repeat(first, length) + within]
        return made, after[ends]

    def encodes(self, text: str) -> bool:
        """Not where an added token's white space reaches over the next one: that ends in a panic."""
        try:
            self.encode([text], False)
        except BaseException as error:
            if type(error).__name__ != "PanicException":
                raise
            return False
        return True


class Patience(NamedTuple):
    """Seconds after which a question to the backend, or all up to the next one, ends the process."""

    backend: float
    ours: float


@dataclass
class Round:
    """What one random tokenizer after another is asked, and what became of it.

    Args:
        patience: None has no end.
        counts: Texts and calls by what they are for, "group: name", and those encoded natively, with
            " natively" after it.
        failure: The first wrong answer.
    """

    patience: Patience | None = None
    n_texts: int = 0
    n_calls: int = 0
    n_native: int = 0
    failure: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def run(self, rng: random.Random, n_texts: int, n_calls: int) -> "Round":
        made = random_tokenizer(rng)
        native, general = twins(made)
        for _ in range(n_calls):
            self.check_call(rng, made, native, general, random_call(rng, made))
        texts = random_texts(rng, made, n_texts)
        self.check_texts(rng, made, native, general, texts)
        self.check_oracle(rng, made, native, texts)
        self.check_decoding(rng, native, general)
        return self

    def fail(self, failure: str) -> None:
        self.failure = self.failure or failure

    def count(self, name: str, n: int, is_native: bool) -> None:
        self.counts[name] += n
        self.counts[f"{name} natively"] += n * is_native

    def ask_the_backend(self, question: Callable[..., Any], *args: Any) -> Any:
        """Its answer. `fuzz_native` looks for this name in the stack of what took too long."""
        if self.patience is None:
            return question(*args)
        faulthandler.dump_traceback_later(self.patience.backend, exit=True)
        try:
            return question(*args)
        finally:
            faulthandler.dump_traceback_later(self.patience.ours, exit=True)

    # ---- calls

    def check_call(self, rng: random.Random, made: Tokenizer, native: Any, general: Any, call: Call) -> None:
        """Both paths answer alike; a third of the time the encodings are looked into."""
        with_encodings = rng.random() < 0.3
        # First the backend, on which what isn't native falls back: it alone may take long.
        expected = self.ask_the_backend(outcome, general, call)
        found = outcome(native, call)
        self.n_native += is_native(found)
        self.n_calls += 1
        for name, option in COUNTED.items():
            if call.options.get(option) and not isinstance(expected, BaseException):
                self.count(f"calls: {name}", 1, is_native(found))
        if form(found, with_encodings) != form(expected, with_encodings):
            self.fail(report(made, call))

    # ---- many texts

    def check_texts(
        self, rng: random.Random, made: Tokenizer, native: Any, general: Any, texts: list[str]
    ) -> None:
        """Every way to ids gives those of the Rust backend."""
        self.check_call(
            rng, made, native, general, Call(texts[:100], options={"return_token_type_ids": False})
        )
        reason, adds, rust = native.explain_path(texts), rng.random() < 0.5, Rust(general)
        if reason != "native":  # there the ways differ little, and take long
            texts = texts[::10]
        try:
            ids, ends = self.ask_the_backend(rust.encode, texts, adds)
        except BaseException:  # a panic, of which `encodes` tells
            refused = {text for text in texts if not self.ask_the_backend(rust.encodes, text)}
            for text in sorted(refused):
                self.check_call(rng, made, native, general, Call(text))
            texts = [text for text in texts if text not in refused]
            ids, ends = self.ask_the_backend(rust.encode, texts, adds)
        for way, n, (found, found_ends) in ways(native, texts, adds):
            self.count(f"way: {way}", n, reason == "native")
            if not (np.array_equal(found_ends, ends[: n + 1]) and np.array_equal(found, ids[: ends[n]])):
                rows = zip(texts, cut(found, found_ends), cut(ids, ends), strict=False)
                wrong = (difference(made, way, *row) for row in rows if row[1] != row[2])
                self.fail(next(wrong, f"{made}\n{way}: {len(found_ends) - 1} rows for {n} texts"))
        for group, name in made.kinds.items():
            self.count(f"{group}: {name}", len(texts), reason == "native")
        self.counts[f"path: {reason}"] += len(texts)
        self.n_texts += len(texts)

    def check_oracle(self, rng: random.Random, made: Tokenizer, native: Any, texts: list[str]) -> None:
        """A part of the short texts, without and with dropout."""
        slow = SlowTokenizer(native)
        known = [text for text in texts[::8] if len(text) < 40 and slow.knows(text)]
        flat, ends = native.encode_batch_to_arrays(known, add_special_tokens=False)
        self.count("way: beside the oracle", len(known), True)
        for text, found in zip(known, cut(flat, ends), strict=True):
            expected = slow.encode(text)
            if found != expected:
                return self.fail(difference(made, "arrays beside the oracle", text, found, expected))
        p, seed = rng.choice([0.1, 0.5, 1.0]), rng.randrange(100)
        if native.explain_path("a", dropout=p, seed=seed) != "native":
            return
        for text in filter(slow.keeps, known[:30]):
            self.count("way: dropout beside the oracle", 1, True)
            [found] = native([text], dropout=p, seed=seed, add_special_tokens=False)["input_ids"]
            expected = slow.encode_with_dropout(text, p, stream(seed, text))
            if found != expected:
                return self.fail(difference(made, f"dropout={p}, seed={seed}", text, found, expected))

    # ---- back to text

    def check_decoding(self, rng: random.Random, native: Any, general: Any) -> None:
        for _ in range(20):
            ids = rng.choices(range(len(native) + 2), k=rng.choice([0, 1, 2, 5, 50]))
            skip = rng.random() < 0.5
            found, expected = (
                tokenizer.decode(ids, skip_special_tokens=skip) for tokenizer in (native, general)
            )
            if found != expected:
                self.fail(f"decode({ids}, skip_special_tokens={skip}): {found!r}, not {expected!r}")


def random_texts(rng: random.Random, made: Tokenizer, n: int) -> list[str]:
    """An eighth of any length; seldom one so long that several threads share it."""
    texts = [random_text(rng, made) for _ in range(-(-n // 8))]
    texts += short_texts(rng, made, n - len(texts))
    if rng.random() < 0.02:
        long = "".join(texts[:100]) or "a"
        texts[-1] = long * (300_000 // len(long) + 1)
    return texts


def ways(native: Any, texts: list[str], adds: bool) -> Any:
    """All ways to a batch's ids, how many of the texts take them, and what they give."""
    lists = native(texts, add_special_tokens=adds, return_attention_mask=True, return_token_type_ids=False)
    assert lists["attention_mask"] == [[1] * len(row) for row in lists["input_ids"]]
    yield "lists", len(texts), joined(lists["input_ids"])
    yield "arrays", len(texts), native.encode_batch_to_arrays(texts, adds)
    utf8 = [text.encode() for text in texts]
    yield "UTF-8", len(texts), native.encode_batch_to_arrays(utf8, adds)
    alone = [native(text, add_special_tokens=adds)["input_ids"] for text in texts[:50]]
    yield "one by one", len(alone), joined(alone)


def joined(rows: list[list[int]]) -> Arrays:
    ends = starts_of([*map(len, rows)])
    return np.fromiter(chain.from_iterable(rows), np.int64, int(ends[-1])), ends


def starts_of(lengths: Any) -> Any:
    """Where each of these begins if they lie one after another, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def cut(ids: Any, ends: Any) -> list[list[int]]:
    flat, places = ids.tolist(), ends.tolist()
    return [flat[begin:end] for begin, end in pairwise(places)]


def difference(made: Tokenizer, way: str, text: str, found: list[int], expected: list[int]) -> str:
    call = Call(text)
    if not are_answered_alike(made, call):
        return report(made, call)
    return f"{made}\n{way}, {text!r}:\n{found}, not\n{expected}"
