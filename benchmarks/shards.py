"""How fast `write_shards` is, beside arrays of ids of the same documents.

    python benchmarks/shards.py my-text.txt --tokenizer my-tokenizer

The text is written as plain text, of which documents are blocks or, with `lines`, lines; and as JSON Lines
and Parquet of documents of some size. Arrays and shards take turns, so that a slow minute hits both. The
page cache holds the files; shards are flushed to the disk.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from transformers import AutoTokenizer

import hf_scaffold as hs

BATCH = 1 << 21  # bytes of text for which arrays are made at a time


def in_batches(documents: list[bytes]) -> list[list[bytes]]:
    batches, n_bytes = [[]], 0
    for document in documents:
        if n_bytes >= BATCH:
            batches.append([])
            n_bytes = 0
        batches[-1].append(document)
        n_bytes += len(document)
    return batches


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock and of processors."""
    start, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - cpu


def written(text: str, size: int, folder: Path) -> dict[str, tuple[Path, list[bytes], bool]]:
    """Of each form its file, its documents, and whether lines are documents."""
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    documents = [piece.encode() for piece in pieces]
    plain, rows, table = (folder / f"text.{suffix}" for suffix in ("txt", "jsonl", "parquet"))
    plain.write_text(text, encoding="utf-8", newline="")
    rows.write_text("".join(json.dumps({"text": piece}) + "\n" for piece in pieces), encoding="utf-8")
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"text": pieces}), table)
    lines = [line + b"\n" for line in text.encode().split(b"\n")]
    return {
        "plain text": (plain, documents, False),
        "lines": (plain, lines, True),
        "JSON Lines": (rows, documents, False),
        "Parquet": (table, documents, False),
    }


def main(
    text: Annotated[Path, typer.Argument(help="A file of plain text.")],
    tokenizer: Annotated[str, typer.Option(help="A saved tokenizer.")],
    size: Annotated[int, typer.Option(help="Characters of a document.")] = 2500,
    rounds: Annotated[int, typer.Option(min=1)] = 5,
) -> None:
    """Print MB/s of text, the best of all rounds; the second figures are per second of a processor."""
    loaded = AutoTokenizer.from_pretrained(tokenizer)
    print("| form | MB | arrays | shards | shards to arrays | arrays, CPU | shards, CPU | in CPU time |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        forms = written(text.read_text(encoding="utf-8", errors="ignore"), size, folder)
        for name, (path, documents, lines) in forms.items():
            batches, n_bytes = in_batches(documents), sum(map(len, documents))

            def arrays(batches: list[list[bytes]] = batches) -> None:
                for batch in batches:
                    loaded.encode_batch_to_arrays(batch, add_special_tokens=False)

            def shards(path: Path = path, lines: bool = lines) -> None:
                hs.write_shards(path, loaded, folder / "shards", lines=lines)

            seconds = {"arrays": [], "shards": []}
            for _ in range(rounds):
                seconds["arrays"].append(timed(arrays))
                shutil.rmtree(folder / "shards", ignore_errors=True)
                seconds["shards"].append(timed(shards))
            (wall, cpu), (shard_wall, shard_cpu) = (
                map(min, zip(*seconds[of], strict=True)) for of in seconds
            )
            rates = [n_bytes / 1e6 / each for each in (wall, shard_wall, cpu, shard_cpu)]
            print(
                f"| {name} | {n_bytes / 1e6:.0f} | {rates[0]:.0f} | {rates[1]:.0f} | {wall / shard_wall:.2f} "
                f"| {rates[2]:.0f} | {rates[3]:.0f} | {cpu / shard_cpu:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    typer.run(main)
