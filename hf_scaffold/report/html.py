"""A report as one HTML page: no other files, no network, readable without JavaScript and on paper."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import numpy as np

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
BUILDS = 8  # tokens that a scaffold token builds
TAIL = 0.1  # the share of the vocabulary that the second chart of frequencies shows


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
        limits={"rows": ROWS, "builds": BUILDS},
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
