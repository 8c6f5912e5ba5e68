"""Mutated folders and files: each is read, used and saved again, or refused with the documented error.

Documented are ValueError (so ArtifactError) and OSError, of the package's own checks with the file's name.
What transformers and `tokenizers` raise is theirs, where their own class raises the same for the same file;
it is counted apart. Anything else is a finding: a crash, a hang, more time or memory than `limits` gives for
the size of files, an id that no token has, native and general path at odds, a text that doesn't survive.
"""

import argparse
import contextlib
import copy
import json
import os
import pickle
import random
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from attack import forks
from attack.mutations import Files, mutate
from attack.seeds import CORPUS, TOKENIZERS, make_seeds

TEXTS = [
    "", "a", " Arizona banana", "international<|eos|> zona", "<w3> x<w4>ana<|call|>", "日本語 été\u0301 🙂🙃",
    "\x00\ufeff\n\n \t 42's", "abab" * 40, "<unk> </s><|bos|><|tool|>", "nationality'LL  hugs", "▁##a</w>",
    "zon" * 3,
]  # fmt: skip
PAIRS = list(zip(TEXTS[:6], TEXTS[6:], strict=True))
FILE_NAMES = ("mutant-", "scaffold", "tokenizer")  # the folder's name, or a file's


def limits(files: Files) -> forks.Limits:
    """What a folder may cost in load, a few dozen short calls, save and reload."""
    size = size_of(files)
    return forks.Limits(seconds=2 + 50e-6 * size, memory=(256 << 20) + 300 * size)


def size_of(files: Files) -> int:
    return sum(len(content or b"") for content in files.values())


@dataclass
class Finding(Exception):  # noqa: N818  # no error of the program's
    """What must not be; `what` is the same for the same fault, mostly."""

    phase: str
    what: str
    details: str = ""


class NotOursError(Exception):
    """Another class has loaded the folder, or refused it."""


# ---- one folder


def examine(folder: Path, kind: str) -> str:
    """How a folder was taken: "right", "refused", "as stock: …" or "not ours".

    Raises:
        Finding: anything else.
    """
    readers: dict[str, Callable[[Path], None]] = {
        "artifact": use_artifact,
        "counts": use_counts,
        "shards": use_shards,
    }
    reader = readers.get(kind.split("-")[-1], use_tokenizer)
    if kind in TOKENIZERS:
        reader = use_tokenizer
    marker = Path(os.environ["ATTACK_MARKER"])
    try:
        reader(folder)
    except Refusal as refusal:
        return refusal.verdict
    except NotOursError:
        return "not ours"
    finally:
        if marker.exists():
            marker.unlink()
            raise Finding("load", "the folder's own code was run")
        if not (folder.parent / "canary").exists():
            raise Finding("load", "a file outside of the folder is gone")
    return "right"


class Refusal(Exception):  # noqa: N818
    def __init__(self, verdict: str) -> None:
        self.verdict = verdict


def attempt(phase: str, call: Callable[[], Any], *stock: Callable[[], Any]) -> Any:
    """call(), which may refuse the folder; undocumented errors are findings, unless stock raises the same."""
    try:
        return call()
    except (Finding, NotOursError):
        raise
    except BaseException as error:
        if type(error).__name__ == "SystemExit" or is_documented(phase, error):
            raise Refusal("refused") from None
        if any(type(raised(theirs)) is type(error) for theirs in stock):
            raise Refusal(f"as stock: {phase}: {type(error).__name__}") from None
        raise Finding(phase, f"{type(error).__name__} at {origin(error)}", traceback_of(error)) from None


def raised(call: Callable[[], Any]) -> BaseException | None:
    try:
        call()
    except BaseException as error:
        return error
    return None


def is_documented(phase: str, error: BaseException) -> bool:
    if isinstance(error, OSError):
        return True
    if type(error).__name__ not in ("ValueError", "ArtifactError", "ConfigurationError", "CorpusError"):
        return False
    # Only loading has a file, or a folder, to name.
    return phase != "load" or any(name in str(error) for name in FILE_NAMES)


def origin(error: BaseException) -> str:
    """The innermost place in the package, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "hf_scaffold" in frame.filename and "attack" not in frame.filename]
    last = frames[-1]
    inner = f"{Path(last.filename).name}:{last.name}"
    if not ours or ours[-1] is last:
        return inner
    return f"{Path(ours[-1].filename).name}:{ours[-1].name} ({inner})"


def traceback_of(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-3000:]


# ---- tokenizers


def use_tokenizer(folder: Path) -> None:
    from transformers import AutoTokenizer

    import hf_scaffold as hs

    check_encoder(folder)
    stock = cache(partial(load_stock, folder))
    with_auto_map = partial(load_stock, folder, with_auto_map=True)
    tok = attempt("load", lambda: AutoTokenizer.from_pretrained(str(folder)), stock, with_auto_map)
    if not isinstance(tok, hs.ScaffoldTokenizerFast):
        raise NotOursError
    if tok.dropout:  # a draw can't be compared
        attempt("encode", lambda: tok(TEXTS))
        tok.dropout = None
    check_calls(tok, stock)
    check_texts(tok, stock)
    again = folder / "again"
    attempt("save", lambda: tok.save_pretrained(again), lambda: stock().save_pretrained(again))
    reloaded = attempt("reload", lambda: AutoTokenizer.from_pretrained(str(again)))
    copied = attempt("pickle", lambda: pickle.loads(pickle.dumps(tok)))
    expected = attempt("encode", lambda: tok(TEXTS)["input_ids"])
    for name, other in (("reload", reloaded), ("pickle", copied)):
        if attempt(name, lambda other=other: other(TEXTS)["input_ids"]) != expected:
            raise Finding(name, "other ids than before")


def check_encoder(folder: Path) -> None:
    """What `Encoder` reads gives the ids of `tokenizers` with the same model."""
    import hf_scaffold as hs
    from hf_scaffold.engine import general

    try:
        encoder = attempt("load", lambda: hs.Encoder.from_pretrained(folder))
    except Refusal:
        return
    allowed = frozenset(encoder.special_tokens)
    for text in TEXTS:
        theirs = partial(lambda text: general.encoder(encoder._definition, allowed)(text), text)
        found = attempt("encode", partial(encoder.encode, text, allowed_special="all"), theirs)
        if raised(theirs) is None and found != theirs():
            raise Finding("encode", "Encoder differs from tokenizers", f"{text!r}: {found}\n{theirs()}")
        in_general = partial(lambda ids: general.decoder(encoder._definition).decode(ids), found)
        attempt("decode", partial(encoder.decode, found), in_general)


def load_stock(folder: Path, with_auto_map: bool = False) -> Any:
    """The folder as the stock class reads it, which has no use for an auto_map but looks at it."""
    from transformers import AutoTokenizer

    theirs = folder / "stock"
    theirs.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.is_file() and path.name != "scaffold.json":
            content = path.read_bytes()
            content = content.replace(b"ScaffoldTokenizerFast", b"PreTrainedTokenizerFast")
            content = content if with_auto_map else content.replace(b"auto_map", b"no_map")
            (theirs / path.name).write_bytes(content)
    return AutoTokenizer.from_pretrained(str(theirs))


def calls_of(tok: Any) -> Iterator[tuple[Any, Any, dict[str, Any]]]:
    short = {"truncation": True, "max_length": 6}
    yield TEXTS, None, {}
    yield TEXTS[2], None, {"return_token_type_ids": True, "return_special_tokens_mask": True}
    yield PAIRS, None, {"add_special_tokens": False, "return_token_type_ids": True}
    yield TEXTS, None, {**short, "split_special_tokens": True, "return_length": True}
    yield [first for first, _ in PAIRS], [second for _, second in PAIRS], short
    yield TEXTS, None, {**short, "padding": True, "return_tensors": "np"}
    yield TEXTS[:4], None, {"padding": "max_length", "max_length": 4, "pad_to_multiple_of": 8}
    yield TEXTS, None, {"return_offsets_mapping": True}


def check_calls(tok: Any, stock: Callable[[], Any]) -> None:
    """Every call: native and general path agree; ids that tokens have, offsets within the text."""
    from native_cases import Call, form, outcome

    general = copy.copy(tok)
    general.native = False
    known = set(tok.get_vocab().values())
    for number, (text, pair, options) in enumerate(calls_of(tok)):
        call = Call(text, pair, options)
        found, expected = outcome(tok, call), outcome(general, call)
        if isinstance(found, BaseException):
            attempt("encode", partial(throw, found), lambda call=call: call(stock()))
        with_encodings = number in (1, 3, 5)
        if (one := form(found, with_encodings)) != (other := form(expected, with_encodings)):
            raise Finding(
                "encode", f"paths differ in call {number}", f"{call}\nnative:  {one}\ngeneral: {other}"[:3000]
            )
        rows = found["input_ids"]
        rows = [rows] if len(rows) and not hasattr(rows[0], "__len__") else rows
        unknown = {int(i) for row in rows for i in row} - known
        if unknown:
            raise Finding("encode", "ids that no token has", f"{call}: {sorted(unknown)}")
        if "offset_mapping" in found and (beyond := offsets_beyond(found)):
            if offsets_beyond(call(stock())):
                raise Refusal("as stock: offsets beyond the text")
            raise Finding("encode", "offsets beyond the text", beyond)


def offsets_beyond(encoded: Any) -> str:
    """The first text with offsets outside of it, and these."""
    for text, offsets in zip(TEXTS, encoded["offset_mapping"], strict=True):
        if any(not 0 <= start <= stop <= len(text) for start, stop in offsets):
            return f"{text!r}: {offsets}"
    return ""


def throw(error: BaseException) -> None:
    raise error


def check_texts(tok: Any, stock: Callable[[], Any]) -> None:
    """Arrays and lists say the same; decoding restores what the stock class restores, on both paths."""
    general = copy.copy(tok)
    general.native = False
    rows = attempt("encode", lambda: tok(TEXTS, add_special_tokens=False)["input_ids"])
    ids, ends = attempt("encode", lambda: tok.encode_batch_to_arrays(TEXTS, add_special_tokens=False))
    if [ids[a:b].tolist() for a, b in pairwise(ends)] != rows:
        raise Finding("encode", "arrays differ from lists")
    for text, row in zip(TEXTS, rows, strict=True):
        for skip in (False, True):
            theirs = partial(decode_stock, stock, row, skip)
            decoded = attempt("decode", partial(tok.decode, row, skip_special_tokens=skip), theirs)
            if decoded != general.decode(row, skip_special_tokens=skip):
                raise Finding("decode", "paths differ", f"{row}: {decoded!r}")
        kept = attempt("decode", partial(tok.decode, row, clean_up_tokenization_spaces=False), theirs)
        if kept != text and restores(stock, text):
            raise Finding("decode", "a text doesn't survive", f"{text!r}: {kept!r}")


def decode_stock(stock: Callable[[], Any], row: list[int], skip: bool) -> Any:
    return stock().decode(row, skip_special_tokens=skip)


def restores(stock: Callable[[], Any], text: str) -> bool:
    """Whether the stock class, on the nearly exact ids of tokenizer.json, gives the text back.

    Words that are tokens must be merged, as ours are: taken whole, they escape what a suffix does to them.
    """
    try:
        stock().backend_tokenizer.model.ignore_merges = False
        row = stock()(text, add_special_tokens=False)["input_ids"]
        return bool(stock().decode(row, clean_up_tokenization_spaces=False) == text)
    except Exception:
        return False


# ---- artifacts, counts, shards


def use_artifact(folder: Path) -> None:
    import hf_scaffold as hs

    bpe = attempt("load", lambda: hs.ScaffoldBPE.load(folder))
    pretokens = [piece.encode() for text in TEXTS for piece in text.split()] + [b"\xff\x00", b"zona" * 50]
    rows = attempt("encode", lambda: bpe.encode(pretokens))
    if any(not 0 <= i < bpe.vocab_size for row in rows for i in row):
        raise Finding("encode", "ids that no token has")
    attempt("use", lambda: [bpe.history(token) for token in list(bpe.vocab)[-40:]] if bpe.log else None)
    again = folder / "again"
    attempt("save", lambda: bpe.save(again))
    if attempt("reload", lambda: hs.ScaffoldBPE.load(again)) != bpe:
        raise Finding("reload", "another artifact than before")
    if attempt("pickle", lambda: pickle.loads(pickle.dumps(bpe))) != bpe:
        raise Finding("pickle", "another artifact than before")
    tok = attempt("to_tokenizer", lambda: bpe.to_tokenizer())
    found, expected = tok(TEXTS)["input_ids"], in_general(tok)(TEXTS)["input_ids"]
    if found != expected:
        raise Finding("to_tokenizer", "paths differ", f"{found}\n{expected}")


def in_general(tok: Any) -> Any:
    tok = copy.copy(tok)
    tok.native = False
    return tok


def use_counts(folder: Path) -> None:
    import hf_scaffold as hs

    counts = attempt("load", lambda: hs.PreTokenCounts.load(folder / "counts.parquet"))
    attempt("use", lambda: (counts.total, counts.n_bytes, dict(counts), counts.merge(counts)))
    attempt("train", lambda: hs.train(counts, 300))
    attempt("save", lambda: counts.save(folder / "again.parquet"))
    if attempt("reload", lambda: hs.PreTokenCounts.load(folder / "again.parquet")) != counts:
        raise Finding("reload", "other counts than before")


def use_shards(folder: Path) -> None:
    import toys

    import hf_scaffold as hs
    from hf_scaffold.shards.files import FORMATS

    index = attempt("load", lambda: hs.ShardIndex.load(folder))
    attempt("use", lambda: (index.n_documents + 0, index.n_tokens + 0, index.n_bytes + 0, hash(index)))
    text = folder.with_suffix(".txt")
    text.write_text(CORPUS[0], encoding="utf-8")
    tok = toys.tokenizer()
    if index.format not in FORMATS:
        raise Finding("use", "an unknown format was taken", repr(index.format))
    attempt("go on", lambda: hs.write_shards(text, tok, folder, format=index.format, shard_size=50))


# ---- many of them


@dataclass
class Campaign:
    """Mutants by seed, each put on the disk and examined in a child of its own."""

    work: Path
    seeds: dict[str, Files]
    verdicts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, list[str]] = field(default_factory=dict)
    slowest: float = 0
    largest: float = 0
    n: int = 0

    def mutant(self, name: str) -> tuple[str, Files]:
        rng = random.Random(name)
        kind = rng.choice(list(self.seeds))
        return kind, mutate(rng, self.seeds[kind], list(self.seeds.values()))

    def run(self, names: list[str]) -> None:
        jobs = [(name, *self.mutant(name)) for name in names]
        outcomes = forks.run(jobs, self.examine_job, lambda job: limits(job[2]))
        for (name, kind, files), outcome in zip(jobs, outcomes, strict=True):
            verdict = self.verdict(kind, outcome)
            self.n += 1
            self.verdicts[verdict.splitlines()[0]] += 1
            if verdict.startswith("FINDING"):
                self.findings.setdefault(verdict.splitlines()[0], []).append(name)
                if len(self.findings[verdict.splitlines()[0]]) == 1:
                    print(f"{name} {kind}: {verdict}\n{outcome.errors[-1500:]}", flush=True)
            self.slowest = max(self.slowest, outcome.seconds / limits(files).seconds)
            self.largest = max(self.largest, outcome.peak / limits(files).memory)

    def examine_job(self, job: tuple[str, str, Files]) -> str:
        _, kind, files = job
        folder = self.work / f"mutant-{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            put(files, folder)
            return examine(folder, kind)
        except Finding as finding:
            return f"FINDING: {finding.phase}: {finding.what}\n{finding.details}"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def verdict(self, kind: str, outcome: forks.Outcome) -> str:
        return f"FINDING: {outcome.death}" if outcome.death else outcome.value

    def examine_alone(self, kind: str, files: Files) -> str:
        [outcome] = forks.run([("", kind, files)], self.examine_job, lambda job: limits(job[2]))
        return self.verdict(kind, outcome)

    def smallest(self, kind: str, files: Files) -> Files:
        """With as few files changed as keep the finding."""
        sought = self.examine_alone(kind, files).splitlines()[0]
        for name in list(files):
            smaller = {**files, name: self.seeds[kind].get(name)}
            if smaller != files and self.examine_alone(kind, smaller).splitlines()[0] == sought:
                files = smaller
        return files


def put(files: Files, folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        with contextlib.suppress(
            FileExistsError, NotADirectoryError, IsADirectoryError
        ):  # one in the other's place
            path.parent.mkdir(exist_ok=True)
            path.mkdir() if content is None else path.write_bytes(content)


def prepare(work: Path) -> Campaign:
    """Import all that the children need, and make the seeds."""
    os.environ.update(
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        RUST_BACKTRACE="0",
        ATTACK_MARKER=str(work / "marker"),
    )
    warnings.simplefilter("ignore")
    import native_cases  # noqa: F401
    import pyarrow.parquet  # type: ignore[import-untyped]  # noqa: F401
    import transformers

    import hf_scaffold.counting.counting
    import hf_scaffold.native.calls
    import hf_scaffold.shards.writing  # noqa: F401

    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # transformers may ask whether to trust code
    (work / "canary").touch()
    seeds: dict[str, Files] = dict(make_seeds(work / "seeds"))
    return Campaign(work, seeds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--n", type=int, help="so many mutants, however long it takes")
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--show", help="SEED.N: write the mutant, made small, into this folder")
    arguments = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as work:
        campaign = prepare(Path(work))
        if arguments.show:
            return show(campaign, arguments.show)
        number = arguments.first
        while campaign.n < arguments.n if arguments.n else time.monotonic() - start < arguments.seconds:
            campaign.run([f"{arguments.seed}.{i}" for i in range(number, number + 200)])
            number += 200
        print(f"{campaign.n} mutants in {time.monotonic() - start:.0f} s, seed {arguments.seed}")
        print(f"at most {campaign.slowest:.0%} of the time and {campaign.largest:.0%} of the memory allowed")
        for verdict, n in campaign.verdicts.most_common():
            print(f"{n:8}  {verdict}  {' '.join(campaign.findings.get(verdict, [])[:5])}")
    return bool(campaign.findings)


def show(campaign: Campaign, name: str) -> int:
    kind, files = campaign.mutant(name)
    files = campaign.smallest(kind, files)
    print(f"{kind}\n{campaign.examine_alone(kind, files)}")
    for path, content in files.items():
        before = campaign.seeds[kind].get(path)
        if content != before:
            print(f"--- {path}: {difference(before, content)}")
    put(files, Path(f"mutant-{name}"))
    return 0


def common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def difference(before: bytes | None, after: bytes | None) -> str:
    """Where two files differ; JSON as JSON."""
    if before is None or after is None:
        return repr(after)[:300]
    try:
        one, other = (json.dumps(json.loads(data)) for data in (before, after))
    except (ValueError, RecursionError):
        one, other = before.decode("latin-1"), after.decode("latin-1")
    start = common(one, other)
    end = common(one[start:][::-1], other[start:][::-1])
    context = other[max(0, start - 80) : start]
    return (
        f"…{context} [[{one[start : len(one) - end][:300]}]] -> [[{other[start : len(other) - end][:300]}]]"
    )


if __name__ == "__main__":
    sys.exit(main())
