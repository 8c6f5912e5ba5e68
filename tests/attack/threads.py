"""Threads that use a tokenizer while others change it: each result is one of a state that was in force.

Each of eight threads does one thing after another, at random: most calls encode or decode a short text; some
pad, truncate, pickle, copy or save; a few change something: they add tokens, set the pad token, the sides,
the post-processor, the chat template or dropout, switch the native encoder off and on, read the backend. What
a call may return is one of a few results, computed before for every state there can be; or it is a documented
error.
"""

import argparse
import copy
import os
import pickle
import random
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import toys
from tokenizers import AddedToken

N_THREADS = 8
CALLS_EACH = 8000  # on one tokenizer
TEXTS = ["Arizona", " banana zona", "hug<x>s", "international", "日本語 été", "", "ab<y> ab", "x<z>zona"]
PAIR = ("zona<x>", "banana")
# What may be added, in this order: so the ids depend on how many there are. The second comes as a pad token.
ADDED = ["<x>", "<p>", "<y>", "<z>"]
PADS = ["<|pad|>", "<|eos|>", "<p>"]
FRAMES = ["none", "bos and eos"]
DOCUMENTED = (ValueError, OSError)
Results = dict[str, set[Any]]


def new_tokenizer(frame: str = FRAMES[0], added: tuple[str, ...] = ()) -> Any:
    tok = toys.tokenizer(post_processor=frame)
    for content in added:
        tok.add_tokens([AddedToken(content)], special_tokens=content == "<p>")
    return tok


def hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return tuple(map(hashable, value)) if isinstance(value, (list, tuple)) else value


# Each takes the tokenizer and returns what is to be in the set of its name.
CALLS: dict[str, Callable[[Any], Any]] = {
    **{f"encode {i}": (lambda tok, text=text: tok(text)["input_ids"]) for i, text in enumerate(TEXTS)},
    **{f"ids {i}": (lambda tok, text=text: tok.encode(text)) for i, text in enumerate(TEXTS[:4])},
    "mask": lambda tok: [*map(tuple, tok(TEXTS[1], return_token_type_ids=True).values())],
    "batch": lambda tok: tok(TEXTS)["input_ids"],
    "arrays": lambda tok: [part.tolist() for part in tok.encode_batch_to_arrays(TEXTS)],
    "pair": lambda tok: tok(*PAIR)["input_ids"],
    "padded": lambda tok: [*tok(TEXTS[:4], padding=True).values()],
    "matrix": lambda tok: [*tok(TEXTS[:4], padding=True, return_tensors="np").values()],
    "cut": lambda tok: tok(TEXTS[3] + TEXTS[1], truncation=True, max_length=4)["input_ids"],
    "tokens": lambda tok: tok(TEXTS[2]).tokens(),
    "offsets": lambda tok: tok(TEXTS[4], return_offsets_mapping=True)["offset_mapping"],
    "pickled": lambda tok: pickle.loads(pickle.dumps(tok))(TEXTS[2])["input_ids"],
    "copied": lambda tok: copy.deepcopy(tok)(TEXTS[2])["input_ids"],
    "chat": lambda tok: tok.apply_chat_template([{"role": "user", "content": "hug"}], tokenize=False),
}
# Their texts hold no token that may be added, and the ids are those of a plain vocabulary.
DECODED = ["Arizona banana", "日本語 hugs", "<|eos|>zona"]
RARE = {"pickled", "copied", "offsets", "tokens", "chat"}
# What pad token, sides and chat template matter to.
PADDED = {"padded", "matrix", "cut", "chat"}


def change_nothing(tok: Any, rng: random.Random) -> None:
    tok.backend_tokenizer.get_vocab_size()


def add_token(tok: Any, rng: random.Random) -> None:
    """The next one of the list; or one there is, once more."""
    added = tok.added_tokens_encoder.keys()
    missing = [content for content in ADDED if content not in added]
    content = missing[0] if missing else rng.choice(ADDED)
    if content == "<p>":
        tok.add_special_tokens({"pad_token": content})
    else:
        tok.add_tokens([AddedToken(content)])


def set_pad_token(tok: Any, rng: random.Random) -> None:
    added = tok.added_tokens_encoder.keys()
    tok.pad_token = rng.choice([pad for pad in PADS if pad in added])


def set_side(tok: Any, rng: random.Random) -> None:
    setattr(tok, rng.choice(["padding_side", "truncation_side"]), rng.choice(["left", "right"]))


def set_frame(tok: Any, rng: random.Random) -> None:
    tok.backend_tokenizer.post_processor = toys.POST_PROCESSORS[rng.choice(FRAMES)]


def set_chat_template(tok: Any, rng: random.Random) -> None:
    tok.chat_template = rng.choice(["a{{ messages[0]['content'] }}", "b{{ messages[0]['content'] }}"])


def set_native(tok: Any, rng: random.Random) -> None:
    tok.native = rng.random() < 0.8


def set_no_dropout(tok: Any, rng: random.Random) -> None:
    tok.dropout = rng.choice([None, 0.0])


CHANGES = [
    *(
        change_nothing,
        add_token,
        add_token,
        set_pad_token,
        set_side,
        set_frame,
        set_chat_template,
        set_native,
    ),
    set_no_dropout,
]


def possible() -> Results:
    """Every result of every call, over all states."""
    results: Results = {name: set() for name in CALLS}
    added = [tuple(ADDED[:n]) for n in range(len(ADDED) + 1)]
    for frame, tokens in product(FRAMES, added):
        tok = new_tokenizer(frame, tokens)
        pads = [pad for pad in PADS if pad in tok.added_tokens_encoder]
        for pad, left, cut, template in product(pads, ("left", "right"), ("left", "right"), "ab"):
            tok.pad_token, tok.padding_side, tok.truncation_side = pad, left, cut
            tok.chat_template = template + "{{ messages[0]['content'] }}"
            for name, call in CALLS.items():
                if name in PADDED or (pad, left, cut, template) == (PADS[0], "left", "left", "a"):
                    results[name].add(hashable(call(tok)))
    return results


@dataclass
class Traffic:
    """Threads on one tokenizer until each has made its calls."""

    tok: Any
    results: Results
    n_calls: int  # of each thread
    folder: Path
    seen: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)

    def run(self, seed: str) -> None:
        barrier = threading.Barrier(N_THREADS)
        works = [partial(self.work, random.Random(f"{seed}.{i}"), i, barrier) for i in range(N_THREADS)]
        threads = [threading.Thread(target=work) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, rng: random.Random, number: int, barrier: threading.Barrier) -> None:
        seen: Counter[str] = Counter()
        decoded = [(new_tokenizer()(text)["input_ids"], text) for text in DECODED]
        common = [(name, call) for name, call in CALLS.items() if name not in RARE]
        rare = [(name, call) for name, call in CALLS.items() if name in RARE]
        barrier.wait(60)
        for i in range(self.n_calls):
            draw = rng.random()
            try:
                if draw < 0.4:
                    ids, text = decoded[i % len(decoded)]
                    name, found, allowed = "decode", self.tok.decode(ids), {text}
                elif draw < 0.997:
                    name, call = rng.choice(common if draw < 0.99 else rare)
                    found, allowed = hashable(call(self.tok)), self.results[name]
                elif draw < 0.999 or number:
                    rng.choice(CHANGES)(self.tok, rng)
                    seen["changes"] += 1
                    continue
                else:  # one thread saves: two savers of one folder are each other's concern
                    self.tok.save_pretrained(self.folder)
                    seen["saves"] += 1
                    continue
            except Exception as error:
                seen[f"raised {type(error).__name__}"] += 1
                if not isinstance(error, DOCUMENTED):
                    self.findings.append(f"{type(error).__name__}: {error}")
                    raise
                continue
            seen["calls"] += 1
            if found not in allowed:
                self.findings.append(f"{name}: {found!r}"[:500])
        self.seen += seen


def run(n_calls: int, seed: str) -> Traffic:
    """Traffic of so many calls in all, on new tokenizers every now and then: tokens are added but once."""
    results = possible()
    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # so that threads meet in the middle of calls
    total = Traffic(None, results, 0, Path())
    with tempfile.TemporaryDirectory() as folder:
        for number in range(max(1, n_calls // CALLS_EACH)):
            each = min(n_calls, CALLS_EACH) // N_THREADS
            traffic = Traffic(new_tokenizer(), results, each, Path(folder, "saved"))
            traffic.tok.chat_template = "a{{ messages[0]['content'] }}"
            traffic.run(f"{seed}.{number}")
            total.seen += traffic.seen
            total.findings += traffic.findings
    sys.setswitchinterval(switch_interval)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--n", type=int, help="so many calls, however long it takes")
    parser.add_argument("--seed", default=str(int(time.time())))
    arguments = parser.parse_args()
    os.environ.update(RUST_BACKTRACE="0")
    warnings.simplefilter("ignore")
    start, seen, findings, number = time.monotonic(), Counter[str](), Counter[str](), 0
    while seen["calls"] < arguments.n if arguments.n else time.monotonic() - start < arguments.seconds:
        traffic = run(min(200_000, arguments.n or 200_000), f"{arguments.seed}.{number}")
        seen += traffic.seen
        findings.update(traffic.findings)
        number += 1
        print(f"{time.monotonic() - start:.0f} s: {dict(seen)}, {len(findings)} findings", flush=True)
        for finding, n in findings.most_common(10):
            print(f"{n:8}  {finding}", flush=True)
        if findings:
            break
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
