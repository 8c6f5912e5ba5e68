"""HTML: a report as one page, and what notebooks show of the public classes.

The page needs no other files and no network; it is readable without JavaScript and on paper.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from hf_scaffold.evaluation.inspection import inspect_artifact, readable
from hf_scaffold.evaluation.tables import TRAIN
from hf_scaffold.report import words
from hf_scaffold.report.facts import Facts
from hf_scaffold.report.figures import figure_frequencies, figure_gain, figure_standalone
from hf_scaffold.report.svg import Figure
from hf_scaffold.splitting.levels import Level, levels_of_json
from hf_scaffold.splitting.patterns import RefusedError
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.files import import_extra

# What keeps the page of a large vocabulary small enough to open at once; JSON has all.
ROWS = 4000  # of a long list
ROWS_ON_PAPER = 60  # as report.css has it
BUILDS = 8  # tokens that a scaffold token builds
TAIL = 0.1  # the share of the vocabulary that the second chart of frequencies shows

if TYPE_CHECKING:
    from hf_scaffold.engine.encoder import Encoder
    from hf_scaffold.evaluation.comparison import VocabularyChange
    from hf_scaffold.evaluation.tables import TokenizerComparison
    from hf_scaffold.training.artifact import ScaffoldBPE

SAMPLE = "What the devil is the matter?"
_COLORS = "#cfe8fc", "#d5f0d0", "#fdeeb8", "#f3d9f5"
_SCAFFOLD = "#f8c8c4"
_MOST = 12  # tokens of a list


def html_of(report: Facts) -> str:
    """The page; the template engine escapes every text in it."""
    jinja2 = import_extra("jinja2", "report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hf_scaffold", "data"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["token"] = words.token_text
    environment.filters["percent"] = words.percent
    environment.filters["running"] = words.running_text
    box, why_no_box = None, None
    try:
        box = _box(report)
    except RefusedError as error:
        why_no_box = str(error)
    page: str = environment.get_template("report.html.jinja").render(
        report=report,
        words=words,
        figures=_figures(report),
        box=box,
        why_no_box=why_no_box,
        limits={"rows": ROWS, "rows_on_paper": ROWS_ON_PAPER, "builds": BUILDS},
    )
    return page


def _figures(report: Facts) -> dict[str, Figure]:
    return {
        "standalone": figure_standalone(report.standalone),
        "frequencies": figure_frequencies(report.table.evaluations[TRAIN].values()),
        "tail": figure_frequencies(report.table.evaluations[TRAIN].values(), tail=TAIL),
        "gain": figure_gain({words.TEXT_NAMES[text]: change for text, change in report.changes.items()}),
    }


def _box(report: Facts) -> dict[str, Any]:
    """What report_encoder.js encodes with, where readers type text.

    Scaffold marking changes no frequency of a pair, so Scaffold-BPE's merges begin with all of plain BPE's.

    Raises:
        RefusedError: only `tokenizers` can split text so.
    """
    bpe = report.scaffold_bpe
    pre_tokenizer = json.loads(bpe.pre_tokenizer.to_json())
    if pre_tokenizer["normalizer"] is not None:
        raise RefusedError("a normalizer changes the text first")
    levels = levels_of_json(json.dumps(pre_tokenizer["pre_tokenizer"], sort_keys=True))
    n_special = len(bpe.special_tokens)
    alphabet = bpe.tokens[n_special : len(bpe.vocab) - len(bpe.merges)]
    created = {token: i for i, token in enumerate([*bpe.special_tokens, *alphabet, *bpe.merged_tokens])}
    width = 2 if len(created) <= 1 << 16 else 3
    return {
        "special_tokens": bpe.special_tokens,
        "alphabet": [symbols_to_bytes(symbol)[0] for symbol in alphabet],
        "merges": _packed((created[part] for pair in bpe.merges for part in pair), width),
        "width": width,
        "plain_merges": len(report.plain_bpe.merges),
        "scaffolds": _packed(map(created.__getitem__, bpe.scaffold_tokens), width),
        "levels": [*map(_level, levels)],
    }


def _packed(numbers: Iterable[int], width: int) -> str:
    """Numbers in base64, each of `width` bytes, the lowest first."""
    lowest_first = np.fromiter(numbers, "<u4").view(np.uint8).reshape(-1, 4)
    return base64.b64encode(lowest_first[:, :width].tobytes()).decode()


def _level(level: Level) -> dict[str, Any]:
    automaton = level.automaton
    return {
        "n_classes": automaton.n_classes,
        "starts": [*automaton.starts],
        "classes": [*automaton.classes],
        "transitions": [*automaton.transitions],
        "accepts": [*automaton.accepts],
        "cuts": level.cuts,
        "drops": level.drops,
    }


# ---- in notebooks


def tokens_html(tokens: Iterable[str], colors: Iterable[str] = _COLORS) -> str:
    """Tokens, spelled as in a vocabulary, side by side on coloured ground.

    Example:
        >>> tokens_html(["Ġ<"], ["red"])
        '<span style="background:red;color:#111;padding:0 2px">Ġ&lt;</span>'
    """
    return "".join(
        f'<span style="background:{color};color:#111;padding:0 2px">{escape(readable(token))}</span>'
        for token, color in zip(tokens, cycle(colors), strict=False)
    )


def encoder_html(encoder: Encoder) -> str:
    """An `Encoder`: its size, and a sentence as it encodes it."""
    tokens = [str(encoder.id_to_token(i)) for i in encoder.encode(SAMPLE, disallowed_special=())]
    specials = tokens_html(encoder.special_tokens, [_SCAFFOLD]) or "none"
    return _titled(
        "Encoder",
        _facts(
            [("tokens", f"{len(encoder):,}"), ("special tokens", specials), (SAMPLE, tokens_html(tokens))]
        ),
    )


def artifact_html(bpe: ScaffoldBPE) -> str:
    """A `ScaffoldBPE`: its sizes, and some scaffold tokens with what becomes of them."""
    found = inspect_artifact(bpe, _MOST)
    facts = [
        ("tokens", f"{found.vocab_size:,}"),
        ("special tokens", tokens_html(found.special_tokens, [_SCAFFOLD]) or "none"),
        ("scaffold tokens", f"{found.scaffold_tokens:,}, {words.percent(found.scaffold_share)} of all"),
        ("pre-tokenizer", escape(found.pre_tokenizer)),
    ]
    rows = [
        [tokens_html([use.token], [_SCAFFOLD]), tokens_html(use.demolished), _some(use.builds)]
        for use in found.sample
    ]
    return _titled(
        "Scaffold-BPE", _facts(facts) + _table(["scaffold token", "demolished to", "builds"], rows)
    )


def comparison_html(comparison: TokenizerComparison) -> str:
    """A `TokenizerComparison`: the metrics on each text, the best in bold."""
    tables = []
    for text, evaluations in comparison.evaluations.items():
        rows = [
            [
                escape(row.label),
                *(
                    f"<b>{row.shown(name)}</b>" if name in row.best else row.shown(name)
                    for name in row.values
                ),
            ]
            for row in comparison.rows
            if row.text == text
        ]
        tables.append(_titled(f"On the {text} text", _table(["", *map(escape, evaluations)], rows)))
    return "".join(tables)


def change_html(change: VocabularyChange) -> str:
    """A `VocabularyChange`: the most frequent tokens removed and added."""
    rows = [
        ("removed", change.removed, change.mean_removed, _SCAFFOLD),
        ("added", change.added, change.mean_added, _COLORS[1]),
    ]
    return _titled(
        "Vocabulary change",
        _table(
            ["", "tokens", "mean frequency", "the most frequent"],
            [
                [name, f"{len(tokens):,}", f"{mean:,.1f}", _some(tokens, [color, "#eee"])]
                for name, tokens, mean, color in rows
            ],
        ),
    )


def report_html(report: Facts) -> str:
    """A `Report`: its headlines, the metrics, and the passage as both BPEs encode it."""
    passage = [
        ("BPE", tokens_html(token for piece in report.passage.pieces for token in piece.plain)),
        ("Scaffold-BPE", tokens_html(token for piece in report.passage.pieces for token in piece.scaffold)),
    ]
    facts = [(value, escape(meaning)) for value, meaning in words.headline(report)]
    return (
        _titled("Report", _facts(facts))
        + comparison_html(report.table)
        + _titled("A passage", _facts(passage))
    )


def _some(tokens: Sequence[str], colors: Iterable[str] = _COLORS) -> str:
    return tokens_html(tokens[:_MOST], colors) + (" …" if len(tokens) > _MOST else "")


def _titled(title: str, body: str) -> str:
    return f"<div><b>{escape(title)}</b>{body}</div>"


def _facts(rows: Iterable[tuple[str, str]]) -> str:
    return _table([], [[escape(name), value] for name, value in rows])


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; what is in it is HTML."""
    head = f"<tr>{_cells(columns, 'th')}</tr>" if columns else ""
    return f"<table>{head}{''.join(f'<tr>{_cells(row)}</tr>' for row in rows)}</table>"


def _cells(cells: Iterable[str], kind: str = "td") -> str:
    return "".join(f'<{kind} style="text-align:left">{cell}</{kind}>' for cell in cells)
