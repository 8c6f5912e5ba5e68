"""Encode the same documents with hf_scaffold and its peers, in turn, and print tables of speed and memory.

    python benchmarks/encode.py my-text.txt
    python benchmarks/encode.py my-text.txt --documents 4000 --tasks encode --peers "transformers;tiktoken"
    python benchmarks/encode.py big-text.txt --map --docs docs/benchmarks.md --json runs.json

Two tokenizers are trained on the text, Scaffold-BPE and plain BPE of the same size; the peers load the plain
one. Every measurement runs in a process of its own, and the peers take turns. All documents go into one call.
"cold" is the first call there; the other columns are of those after it. Speeds are medians over the rounds.
"peak" is the memory of the process, "added" what of it came with the calls.

Who loads the same merges must find the same ids, and decoding must give the text back. Where that fails, this
says so and exits with 1.
"""

import codecs
import hashlib
import importlib.util
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from encode_tables import SENTENCE, agreement, goals, restored, table
from encoders import ENCODERS, Encoder, Rows, Setting, write_tokenizers
from harness import (
    Run,
    environment,
    fetch,
    installed,
    measure,
    megabytes,
    save,
    surroundings,
    take_turns,
    versions,
)

WARM_S = 2.0  # warm calls go on for so long,
WARM_CALLS = 5  # but are no more than these
SENTENCES, SENTENCE_REPEATS = 200, 50  # so many calls are timed together, so often


# ---- the child's side: one measurement in a process of its own


def prepare(
    text: str,
    folder: str,
    vocab_size: int,
    pre_tokenizer: str,
    corpora: Mapping[str, Sequence[float]],
    threads: int,
) -> Run:
    """Train the tokenizers, and write the text as JSON Lines: path to size in bytes and limit in MB."""
    write_tokenizers(Path(text), vocab_size, pre_tokenizer, Path(folder))
    for path, (document_size, limit_mb) in corpora.items():
        with open(path, "w", encoding="utf-8") as stream:
            for document in cut(Path(text), int(document_size), limit_mb):
                stream.write(json.dumps({"text": document}, ensure_ascii=False) + "\n")
    return {}


def cut(text: Path, document_size: int, limit_mb: float) -> Iterator[str]:
    """Documents of so many bytes, cut between characters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with text.open("rb") as stream:
        while stream.tell() < limit_mb * 10**6 and (block := stream.read(document_size)):
            yield decoder.decode(block)


def run_task(task: str, peer: str, folder: str, corpus: str, document_size: int, threads: int) -> Run:
    """Load a peer's tokenizer and measure it."""
    with open(corpus, encoding="utf-8") as stream:
        texts = [json.loads(line)["text"] for line in stream]
    load_s, _, encoder = timed(ENCODERS[peer].load, Setting(Path(folder), Path(corpus), threads))
    n_bytes = sum(len(text.encode()) for text in texts)
    return {"load_s": load_s, "n_bytes": n_bytes, **TASKS[task](encoder, texts)}


def encode(encoder: Encoder, texts: list[str]) -> Run:
    """The times of the calls, and a digest of the ids."""
    run, encoded = time_calls(encoder.encode, texts, texts)
    return run | digest(encoder.rows(encoded))


def decode(encoder: Encoder, texts: list[str]) -> Run:
    """The times of the calls, and whether they gave the texts."""
    encoded = encoder.encode(texts)
    run, decoded = time_calls(encoder.decode, encoded, encoded)
    return run | {"is_exact": decoded == texts}


def encode_sentence(encoder: Encoder, texts: list[str]) -> Run:
    """The times of one short text's calls, those after the first taken together."""

    def calls(n: int) -> None:
        for _ in range(n):
            encoder.one(SENTENCE)

    run, _ = time_calls(calls, 1, SENTENCES, repeat=SENTENCE_REPEATS)
    warm = {key: [seconds / SENTENCES for seconds in run[key]] for key in ("warm_s", "warm_cpu_s")}
    return run | warm


def map_dataset(encoder: Encoder, texts: list[str]) -> Run:
    """The time to read a dataset in Arrow files and write its ids into another."""
    import datasets

    with tempfile.TemporaryDirectory() as folder:
        datasets.Dataset.from_dict({"text": texts}).save_to_disk(f"{folder}/texts")
        dataset = datasets.load_from_disk(f"{folder}/texts")
        run, encoded = time_calls(
            lambda name: encoder.map(dataset, f"{folder}/{name}.arrow"), "cold", "warm", 1
        )
        ids = encoded.data.column("input_ids").combine_chunks()
        return run | digest((ids.flatten(), np.cumsum([0, *ids.value_lengths()], dtype=np.int64)))


TASKS: dict[str, Callable[[Encoder, list[str]], Run]] = {
    "encode": encode,
    "decode": decode,
    "sentence": encode_sentence,
    "map": map_dataset,
}


def time_calls(function: Any, cold: Any, warm: Any, repeat: int = WARM_CALLS) -> tuple[Run, Any]:
    """Times of the first call and of some after it, with their arguments; memory; and the last result."""
    before_mb = peak_mb()
    cold_s, _, result = timed(function, cold)
    warm_s: list[float] = []
    warm_cpu_s: list[float] = []
    while len(warm_s) < repeat and sum(warm_s) < WARM_S:
        del result  # not while the next call is timed
        seconds, cpu_seconds, result = timed(function, warm)
        warm_s.append(seconds)
        warm_cpu_s.append(cpu_seconds)
    memory = {"peak_mb": peak_mb(), "added_mb": peak_mb() - before_mb}
    return {"cold_s": cold_s, "warm_s": warm_s, "warm_cpu_s": warm_cpu_s, **memory}, result


def timed(function: Any, argument: Any) -> tuple[float, float, Any]:
    """Seconds, seconds of CPU time of all threads, and the result."""
    start, cpu_start = time.perf_counter(), time.process_time()
    result = function(argument)
    return time.perf_counter() - start, time.process_time() - cpu_start, result


def peak_mb() -> float:
    return megabytes(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def digest(rows: Rows) -> Run:
    ids, offsets = np.asarray(rows[0], np.int32), np.asarray(rows[1], np.int64)
    return {"n_ids": len(ids), "digest": hashlib.sha256(ids.tobytes() + offsets.tobytes()).hexdigest()}


# ---- the command


def available(peer: str) -> bool:
    if peer not in ENCODERS or not installed(peer):
        return False
    module = ENCODERS[peer].module
    return not module or importlib.util.find_spec(module) is not None


@dataclass(frozen=True)
class Measurement:
    """A task in one setting, for all peers that can do it."""

    task: str
    document_size: int
    threads: int
    limit_mb: float

    def corpus(self, folder: str) -> str:
        return f"{folder}/{self.document_size}-{self.limit_mb}.jsonl"

    def run(self, peer: str, folder: str) -> Run:
        spec = {"task": self.task, "peer": peer, "folder": folder, "corpus": self.corpus(folder)}
        spec |= {"document_size": self.document_size, "threads": self.threads}
        run = measure(__file__, spec, ENCODERS[peer].env)
        print(f"  {self.task}, {peer}: {statistics.median(run['warm_s']):.3g} s", file=sys.stderr)
        return run


def plan(
    tasks: Sequence[str], sizes: Sequence[int], threads: Sequence[int], limit_mb: float, map_mb: float
) -> Iterator[Measurement]:
    """Encoding in all sizes, in the first one with all numbers of threads; the rest in the first one."""
    for task in tasks:
        yield Measurement(task, sizes[0], max(threads), map_mb if task == "map" else limit_mb)
        if task == "encode":
            yield from (Measurement(task, sizes[0], n, limit_mb) for n in threads if n != max(threads))
            yield from (Measurement(task, size, max(threads), limit_mb) for size in sizes[1:])


def main(
    text: Annotated[list[str] | None, typer.Argument(help="Files, or hub:dataset:config.")] = None,
    vocab_size: int = 32_000,
    pre_tokenizer: Annotated[
        Literal["gpt2", "llama3", "gpt4o"], typer.Option(help="A preset that all peers have.")
    ] = "gpt2",
    documents: Annotated[str, typer.Option(help="Bytes of a document.")] = "4000,100,1000000",
    threads: Annotated[
        str, typer.Option(help="All with the first size of documents, else the most.")
    ] = "2,1",
    limit_mb: Annotated[float, typer.Option(help="So much of the text is encoded.")] = 16,
    rounds: int = 3,
    slow_rounds: Annotated[int, typer.Option(help="Rounds of those that take some seconds.")] = 2,
    tasks: Annotated[str, typer.Option(help=f"Of {', '.join(TASKS)}.")] = "encode,decode,sentence",
    with_map: Annotated[bool, typer.Option("--map", help="The task map as well.")] = False,
    map_mb: Annotated[float, typer.Option(help="So much of the text for it.")] = 100,
    peers: Annotated[str, typer.Option(help="Some of them, joined by ';'.")] = ";".join(ENCODERS),
    json_file: Annotated[Path | None, typer.Option("--json", help="Every single run.")] = None,
    docs: Annotated[Path | None, typer.Option(help="A page to put the tables into.")] = None,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare encoders on a text."""
    if child is not None:
        spec = json.loads(child)
        print(json.dumps(prepare(**spec) if "corpora" in spec else run_task(**spec)))
        return
    before, after = ("", "") if docs is None else surroundings(docs, "encode.py")
    wanted = peers.split(";")
    present = [peer for peer in wanted if available(peer)]
    turns = {peer: slow_rounds if ENCODERS[peer].is_slow else rounds for peer in present}
    counts = [int(count) for count in threads.split(",")]
    measurements = list(
        plan(
            [*filter(None, tasks.split(",")), *(["map"] if with_map else [])],
            [int(size) for size in documents.split(",")],
            counts,
            limit_mb,
            map_mb,
        )
    )
    page: list[str] = []

    def show(line: str) -> None:
        print(line, flush=True)
        page.append(line)

    with tempfile.TemporaryDirectory() as folder:
        source = fetch(text or [], folder)
        for peer in wanted:
            if peer not in present:
                show(f"{peer} is not installed and left out\n")
        corpora = {each.corpus(folder): (each.document_size, each.limit_mb) for each in measurements}
        spec = {"text": str(source), "folder": folder, "corpora": corpora, "threads": max(counts)}
        measure(__file__, {**spec, "vocab_size": vocab_size, "pre_tokenizer": pre_tokenizer})
        packages = ", ".join(f"{name} {version}" for name, version in versions(present).items())
        show(f"{vocab_size:,} tokens, preset `{pre_tokenizer}`; {environment()}, {packages}\n")
        runs: list[Run] = []
        for each in measurements:
            able = {peer: n for peer, n in turns.items() if each.task in ENCODERS[peer].tasks}
            runs += (own := list(take_turns(able, partial(each.run, folder=folder))))
            show("\n".join(table(own)))
    verdicts = [*agreement(runs), *restored(runs)]
    show("\n".join(["### Ids", "", *(f"- {sentence}" for _, sentence in verdicts), ""]))
    show("\n".join(["### Goals", "", *goals(runs)]))
    if json_file is not None:
        save(json_file, present, runs, without=["folder", "corpus"])
    if docs is not None:
        docs.write_text("\n".join([before, *page, after]), encoding="utf-8")
    if not all(is_right for is_right, _ in verdicts):
        raise SystemExit(1)


if __name__ == "__main__":
    typer.run(main)
