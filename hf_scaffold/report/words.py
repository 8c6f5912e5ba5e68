"""What page and Markdown share: headline facts, captions, and what the metrics mean."""

from __future__ import annotations

from collections.abc import Iterator

from hf_scaffold.evaluation.inspection import readable
from hf_scaffold.evaluation.tables import HELD_OUT, TRAIN
from hf_scaffold.report.facts import Facts, ReportText
from hf_scaffold.report.passages import Passage
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.training.agreement import percent_down

TITLE = "What Scaffold-BPE does to a vocabulary"
SPELLING = "Ġ stands for the space before a word."
TEXT_NAMES = {TRAIN: "Training text", HELD_OUT: "Held-out text"}
DIRECTIONS = {True: ("↑", "higher is better"), False: ("↓", "lower is better"), None: ("", "")}
MARKS = "★ marks the best; ↑ means that higher is better, ↓ that lower is."

# By the part of a metric's name before its colon; {at} is the part after it.
MEANINGS = {
    "vocab_size": "Tokens with an id. Tokenizers of different sizes are hard to compare: a larger vocabulary "
    "alone gives more bytes per token, and rarer tokens.",
    "bytes_per_token": "Mean bytes of text that a token stands for, the paper's compression rate.",
    "n_tokens": "Tokens of the whole text.",
    "tokens_per_word": "Fertility. A word is what white space separates.",
    "entropy": "−Σ p log₂ p over the shares p of the tokens. More: tokens are used more evenly.",  # noqa: RUF001
    "redundancy": "1 − entropy / log₂ of the vocabulary's size.",  # noqa: RUF001
    "renyi_efficiency": "Rényi entropy as a share of log₂ of the vocabulary's size (Zouhar et al. 2023).",
    "vocab_used": "Tokens that occur at all.",
    "frequency_percentile": "The most frequent {at} % of the vocabulary occur at least this often.",
    "share_under": "Share of the vocabulary that occurs fewer times than {at}.",
}


def percent(share: float, digits: int = 1, sign: bool = False) -> str:
    """A share as percent.

    Example:
        >>> percent(0.0523), percent(0.5, 0, sign=True)
        ('5.2 %', '+50 %')
    """
    return f"{100 * share:{'+' if sign else ''}.{digits}f} %"


def headline(report: Facts) -> Iterator[tuple[str, str]]:
    """The main facts: value and label."""
    measured = report.texts[-1]
    yield (
        f"{len(report.scaffolds):,}",
        f"scaffold tokens, {percent(report.scaffold_share)} of the {report.expanded_vocab_size:,} made: they "
        "build others and have no id",
    )
    change = report.changes[TRAIN]
    if change.gain is not None:
        yield (
            percent(change.gain, sign=True),
            f"frequency: the {len(change.added):,} added tokens occur {change.mean_added:,.1f} times on "
            f"average, the {len(change.removed):,} removed ones {change.mean_removed:,.1f} times",
        )
    where = f"the {TEXT_NAMES[measured.name].lower()}"
    yield (
        percent(report.bytes_per_token_gain(measured.name), 2, sign=True),
        f"bytes per token on {where}, against plain BPE of the same size",
    )
    yield percent(measured.differing), f"of the pre-tokens of {where} are encoded differently"
    yield _agreement(report)


def _agreement(report: Facts) -> tuple[str, str]:
    """How far a plain BPE engine that reads tokenizer.json encodes alike."""
    measured, merges_only, unseen = map(percent_down, report.raw_agreements.values())
    other = report.table.evaluations.get(HELD_OUT, {}).get(report.tokenizers[0])
    found = f"; {percent_down(other.raw_agreement or 0)} of the held-out text, measured" if other else ""
    return (
        unseen,
        "raw agreement: what a plain BPE engine that reads tokenizer.json encodes alike, of text like the "
        f"training text, by estimate{found}; {measured} of the training text, {merges_only} where "
        "ignore_merges isn't known",
    )


def size_of(text: ReportText) -> str:
    """A text and its size, in words."""
    return f"{', '.join(text.sources) or 'texts in memory'}: {text.n_bytes:,} bytes, {text.n_words:,} words"


def metric_texts(report: Facts) -> Iterator[tuple[str, list[str]]]:
    """Each text in the table, with the metrics measured on it."""
    for text in report.table.evaluations:
        yield text, [row.metric for row in report.table.rows if row.text == text]


def meanings(report: Facts) -> Iterator[tuple[str, str]]:
    """Each metric's label and what it means."""
    for row in report.table.rows:
        if row.text == TRAIN:
            name, _, at = row.metric.partition(":")
            yield row.label, MEANINGS[name].format(at=at)


def passage_note(passage: Passage) -> str:
    """Where the passage is from, and how many pre-tokens differ."""
    origin = TEXT_NAMES.get(passage.origin)
    place = f"Near its start, the {origin.lower()} differs most here: " if origin else ""
    return f"{place}{passage.n_differing:,} of {len(passage.pieces):,} pre-tokens are encoded differently."


def running_text(token: str) -> str:
    """A token as in text, with a sign for each line end; part of a character as in `readable`.

    Example:
        >>> running_text("ĠnaÃ¯ve"), running_text("Ċ"), running_text("Ã")
        (' naïve', '⏎\\n', 'Ã')
    """
    try:
        text = symbols_to_bytes(token).decode()
    except (KeyError, UnicodeDecodeError):
        return readable(token)
    shown = "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
    return shown.replace("\n", "⏎\n")
