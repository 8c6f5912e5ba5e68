"""The tables and the figure of docs/models.md, from the logs of lm.py and mt.py.

    python experiments/tables.py experiments/logs/*.jsonl --docs docs/models.md --figure docs/models.svg

A difference is from plain BPE, by pairs of runs with the same seed, with its 95 % interval by Student's t:
of three seeds that is 4.3 standard errors each way. An asterisk: the interval does not contain 0.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pandas as pd
import typer
from scipy.stats import ttest_1samp

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # for what tables of both need

from harness import markdown, surroundings

PARTS = ["same", "other"]
CHANGED = ["replaced", "demolished"]
CLASSES = ["kept", *CHANGED]
EMBEDDINGS = ["uniformity", "uniformity_rare", "frequency_r2", "norm_by_frequency"]
Cells = list[list[str]]


class Difference(NamedTuple):
    """Of one method from plain BPE: the mean over seeds, and half the width of its interval.

    Args:
        base: Plain BPE's mean.
        noise: Standard deviation of plain BPE's runs.
    """

    base: float
    noise: float
    mean: float
    half: float
    n_seeds: int

    def __str__(self) -> str:
        mark = " *" if abs(self.mean) > self.half else ""
        return f"{self.mean:+.4f} ± {self.half:.4f}{mark}"


def read(logs: Sequence[Path]) -> pd.DataFrame:
    """A row for each run; plain BPE's runs count for both budgets.

    `held_out.….changed` is what the classes that are not encoded alike take, in bits per byte of all text.
    """
    runs = [json.loads(line) for log in logs for line in log.read_text(encoding="utf-8").splitlines()]
    found = pd.json_normalize(runs).rename(columns=lambda name: name.removeprefix("asked."))
    for part in PARTS:
        stem = f"held_out.{part}"
        if f"{stem}.n_bytes" in found:
            classes = (f"{stem}.classes.{name}" for name in CHANGED)
            bits = sum(found[f"{name}.bits_per_byte"] * found[f"{name}.n_bytes"] for name in classes)
            found[f"{stem}.changed"] = bits / found[f"{stem}.n_bytes"]
    return found


def difference(runs: pd.DataFrame, where: dict[str, object], column: str) -> Difference | None:
    """Of the runs of one setting from those of plain BPE; None where there are no two seeds of both."""
    base = dict(where) | {"method": "bpe"} | ({"budget": "bytes"} if "budget" in where else {})
    both = [
        runs[(runs[list(each)] == pd.Series(each)).all(axis=1)].set_index("seed")[column]
        for each in (base, where)
    ]
    pairs = pd.concat(both, axis=1, keys=["base", "other"], join="inner").dropna()
    if len(pairs) < 2:
        return None
    apart = pairs["other"] - pairs["base"]
    low, high = ttest_1samp(apart, 0).confidence_interval(0.95)
    half = float(high - low) / 2
    return Difference(pairs["base"].mean(), pairs["base"].std(), apart.mean(), half, len(pairs))


def settings(runs: pd.DataFrame, names: Sequence[str]) -> Iterator[dict[str, object]]:
    """What there are runs of, but plain BPE, each once and in order."""
    for row in runs[runs["method"] != "bpe"][list(names)].drop_duplicates().sort_values(list(names)).values:
        yield dict(zip(names, row, strict=True))


# ---- tables


LM = ["corpus", "size", "megabytes", "vocab_size", "budget", "method"]


def language_models(runs: pd.DataFrame) -> tuple[list[str], Cells]:
    columns = ["corpus", "model", "MB", "tokens", "equal", "method", "seeds"]
    columns += ["same text: BPE", "noise", "difference", "other text: BPE", "noise", "difference"]
    rows = []
    for where in settings(runs, LM):
        found = [difference(runs, where, f"held_out.{part}.bits_per_byte") for part in PARTS]
        if found[0] is None or found[1] is None:
            continue
        row = [where["corpus"], where["size"], f"{where['megabytes']:g}", f"{where['vocab_size']:,}"]
        row += [where["budget"], where["method"], str(found[0].n_seeds)]
        for each in found:
            row += [f"{each.base:.4f}", f"{each.noise:.4f}", str(each)]
        rows.append(row)
    return columns, rows


def by_class(runs: pd.DataFrame) -> tuple[list[str], Cells]:
    columns = ["corpus", "model", "tokens", "equal", "method", "held-out text"]
    columns += [part for name in CLASSES for part in (name, "BPE", "difference")]
    columns += ["last two, of all bytes"]
    rows = []
    for where in settings(runs, LM):
        for part in PARTS:
            stem = f"held_out.{part}"
            found = [difference(runs, where, f"{stem}.classes.{name}.bits_per_byte") for name in CLASSES]
            if None in found:
                continue
            mine = runs[(runs[LM] == pd.Series(where)).all(axis=1)].iloc[0]
            row = [where["corpus"], where["size"], f"{where['vocab_size']:,}", where["budget"]]
            row += [where["method"], part]
            for name, each in zip(CLASSES, found, strict=True):
                share = mine[f"{stem}.classes.{name}.n_bytes"] / mine[f"{stem}.n_bytes"]
                row += [f"{share:.1%}", f"{each.base:.3f}", str(each)]
            row.append(str(difference(runs, where, f"{stem}.changed")))
            rows.append(row)
    return columns, rows


def embeddings(runs: pd.DataFrame) -> tuple[list[str], Cells]:
    columns = ["corpus", "model", "tokens", "equal", "method"]
    columns += [part for name in ("uniformity", "of rare tokens", "frequency R²", "norm, frequency")
                for part in (f"{name}: BPE", "difference")]  # fmt: skip
    rows = []
    for where in settings(runs, LM):
        found = [difference(runs, where, f"embeddings.{name}") for name in EMBEDDINGS]
        if None in found:
            continue
        row = [where["corpus"], where["size"], f"{where['vocab_size']:,}", where["budget"], where["method"]]
        for each in found:
            row += [f"{each.base:.4f}", str(each)]
        rows.append(row)
    return columns, rows


def translation(runs: pd.DataFrame) -> tuple[list[str], Cells]:
    columns = ["corpus", "model", "tokens", "dropout", "method", "seeds"]
    columns += ["BLEU: BPE", "noise", "difference", "chrF: BPE", "noise", "difference"]
    rows = []
    for where in settings(runs, ["corpus", "size", "vocab_size", "dropout", "method"]):
        found = [difference(runs, where, column) for column in ("bleu", "chrf")]
        if found[0] is None or found[1] is None:
            continue
        row = [where["corpus"], where["size"], f"{where['vocab_size']:,}", f"{where['dropout']:g}"]
        row += [where["method"], str(found[0].n_seeds)]
        for each in found:
            row += [f"{each.base:.2f}", f"{each.noise:.2f}", f"{each.mean:+.2f} ± {each.half:.2f}"]
        rows.append(row)
    return columns, rows


def compute(runs: pd.DataFrame) -> tuple[list[str], Cells]:
    rows = []
    for key, group in runs.groupby(["corpus", "size", "hardware"]):
        rows.append([*key, str(len(group)), f"{group['seconds'].sum() / 3600:.2f}"])
    return ["corpus", "model", "hardware", "runs", "hours"], rows


def tables(runs: pd.DataFrame) -> Iterator[str]:
    is_model = runs.get("held_out.same.bits_per_byte", pd.Series(np.nan, runs.index)).notna()
    models, translations = runs[is_model], runs[~is_model]
    for title, part, make in (
        ("Language models: bits per byte", models, language_models),
        ("Language models: by class of pre-token", models, by_class),
        ("Embeddings", models, embeddings),
        ("Translation", translations, translation),
        ("Compute used", runs, compute),
    ):
        columns, rows = make(part) if len(part) else ([], [])
        if rows:
            yield from (f"### {title}", "", *markdown(columns, rows), "")


def draw(runs: pd.DataFrame, path: Path) -> None:
    """Differences in bits per byte with their intervals, one line a setting."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "models", "font.size": 9})
    from matplotlib import pyplot

    shown = [
        (where, part, difference(runs, where, f"held_out.{part}.bits_per_byte"))
        for where in settings(runs, LM)
        for part in PARTS
    ]
    shown = [each for each in shown if each[2] is not None]
    figure, axes = pyplot.subplots(figsize=(7, 1 + 0.22 * len(shown)), layout="constrained")
    for y, (_, part, found) in enumerate(shown):
        axes.errorbar(
            found.mean, y, xerr=found.half, fmt="o", ms=4, color={"same": "C0", "other": "C1"}[part]
        )
        noise = found.noise
        axes.barh(y, 2 * noise, left=-noise, height=0.8, color="0.9", zorder=0)
    names = [
        f"{w['corpus']}, {w['size']}, {w['vocab_size']:,}, {w['method']}, equal {w['budget']}, {part} text"
        for w, part, _ in shown
    ]
    axes.set_yticks(range(len(shown)), names)
    axes.invert_yaxis()
    axes.axvline(0, color="0.4", lw=0.8)
    axes.set_xlabel("bits per byte, difference from plain BPE (left: fewer); grey: noise of seeds")
    figure.savefig(path, metadata={"Date": None})


def main(
    logs: Annotated[list[Path], typer.Argument(help="Of lm.py and mt.py.")],
    docs: Annotated[Path | None, typer.Option(help="A page to put the tables into.")] = None,
    figure: Annotated[Path | None, typer.Option(help="An SVG file.")] = None,
) -> None:
    runs = read(logs)
    lines = list(tables(runs))
    if docs is None:
        print("\n".join(lines))
    else:
        before, after = surroundings(docs, "tables.py")
        docs.write_text("\n".join([before, *lines, after]), encoding="utf-8")
    if figure is not None:
        draw(runs[runs["held_out.same.bits_per_byte"].notna()], figure)


if __name__ == "__main__":
    typer.run(main)
