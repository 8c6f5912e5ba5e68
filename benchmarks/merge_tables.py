"""Merge large tables of counts: time, and the peak of memory.

    python benchmarks/merge_tables.py novels.txt --tables 64 --rows 5000000 --max-memory 1G

The pre-tokens are made of a text's (made_tables.py); a fifth of a table's are in all tables. The peak is that
of the whole process. The disk holds the tables, the result, and what is merged twice if there are too many to
be read at a time.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

import made_tables
from harness import Run, environment, fetch, markdown, measure

import hf_scaffold as hs


def make_tables(text: str, rows: int, tables: int, folder: str) -> Run:
    """A child's side: writes the tables."""
    words = made_tables.words_of(Path(text))
    for number in range(tables):
        path = Path(folder, f"part-{number}.parquet")
        numbers = made_tables.numbers_of(words, rows, number)
        made_tables.write(path, words, numbers, made_tables.counts_of(rows, number))
    return {}


def merge(tables: str, output: str, max_memory: str) -> Run:
    """A child's side: processor time of the merge."""
    begin = time.process_time()
    size = hs.merge_counts(tables, output, max_memory=max_memory)
    return {"n_distinct": size.n_distinct, "merge_s": time.process_time() - begin}


STEPS = {"make": make_tables, "merge": merge}


def main(
    text: Annotated[list[str] | None, typer.Argument(help="Files, or hub:dataset:config.")] = None,
    tables: int = 64,
    rows: Annotated[int, typer.Option(help="Of each table.")] = 5_000_000,
    max_memory: Annotated[str, typer.Option(help="Several, joined by commas, are measured in turn.")] = "1G",
    folder: Annotated[Path | None, typer.Option(help="For the tables; a temporary one without.")] = None,
    child: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Measure the merging of large tables."""
    if child is not None:
        spec = json.loads(child)
        print(json.dumps(STEPS[spec["step"]](**spec["arguments"])))
        return
    lines = []
    with tempfile.TemporaryDirectory(dir=folder) as place:
        source = str(fetch(text or [], place))
        made = {"text": source, "rows": rows, "tables": tables, "folder": place}
        measure(__file__, {"step": "make", "arguments": made, "threads": 1})
        n_bytes = sum(path.stat().st_size for path in Path(place).glob("part-*.parquet"))
        for memory in max_memory.split(","):
            output = Path(place, "all.parquet")
            arguments = {"tables": f"{place}/part-*.parquet", "output": str(output), "max_memory": memory}
            run = measure(__file__, {"step": "merge", "arguments": arguments, "threads": 1})
            lines.append(
                [
                    *(f"{tables} of {rows:,} rows", f"{n_bytes / 1e6:,.0f}"),
                    *(f"{run['n_distinct']:,}", f"{output.stat().st_size / 1e6:,.0f}", memory),
                    *(f"{run['merge_s']:,.0f}", f"{run['peak_mb']:,.0f}"),
                    f"{tables * rows / run['merge_s']:,.0f}",
                ]
            )
    print(environment(), end="\n\n")
    columns = "tables, MB, rows merged, MB merged, max_memory, CPU s, peak MiB, rows a CPU s"
    print("\n".join(markdown(columns.split(", "), lines)))


if __name__ == "__main__":
    typer.run(main)
