"""A report as GitHub-flavoured Markdown, long lists cut short."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from hf_scaffold.evaluation.tables import TRAIN
from hf_scaffold.report import words
from hf_scaffold.report.facts import Facts
from hf_scaffold.report.figures import figure_standalone

ROWS = 50  # of a long table


def markdown_of(report: Facts) -> str:
    """The report, in the page's sections."""
    sections = (_head, _metrics, _frequencies, _passage, _gained, _scaffolds, _run)
    return "\n".join(line for section in sections for line in section(report))


def _head(report: Facts) -> Iterator[str]:
    yield f"# {words.TITLE}\n"
    yield _plain(words.scaffolds_explained(report)) + "\n"
    found, conclusion = map(_plain, words.verdict(report))
    yield f"{found} **{conclusion}**\n"
    for text in report.texts:
        yield f"- {words.TEXT_NAMES[text.name]}: {_plain(words.size_of(text))}"
    settings = report.settings
    pre_tokenizer = _plain(settings["pre_tokenizer"])
    yield f"- Vocabulary: {settings['vocab_size']:,} tokens, pre-tokenizer {pre_tokenizer}"
    if settings["special_tokens"]:
        yield f"- Special tokens: {_tokens(settings['special_tokens'])}"
    if report.stop_reason:
        yield f"- Stopped early: {_plain(report.stop_reason)}"
    yield ""
    for value, label in words.headline(report):
        yield f"- **{value}** {_plain(label)}"
    yield ""


def _metrics(report: Facts) -> Iterator[str]:
    yield "## Tokenizers by metric\n"
    yield words.MARKS + "\n"
    for text, metrics in words.metric_texts(report):
        yield f"### {words.TEXT_NAMES[text]}\n"
        yield from _table(["Metric", *map(_plain, report.tokenizers)], _metric_rows(report, text, metrics))
    yield from (f"- {label}: {_plain(meaning)}" for label, meaning in words.meanings(report))
    yield ""


def _metric_rows(report: Facts, text: str, metrics: Iterable[str]) -> Iterator[list[str]]:
    for metric in metrics:
        row = report.table.row(metric, text)
        arrow, _ = words.DIRECTIONS[row.higher_is_better]
        values = [
            f"**{row.shown(name)}** ★" if name in row.best else row.shown(name) for name in report.tokenizers
        ]
        yield [f"{row.label} {arrow}".strip(), *values]


def _frequencies(report: Facts) -> Iterator[str]:
    yield "## Frequencies\n"
    yield words.CHANGED + "\n"
    rows = (
        [
            words.TEXT_NAMES[text],
            f"{len(change.removed):,}",
            f"{change.mean_removed:,.1f}",
            f"{len(change.added):,}",
            f"{change.mean_added:,.1f}",
            "–" if change.gain is None else words.percent(change.gain, sign=True),  # noqa: RUF001
        ]
        for text, change in report.changes.items()
    )
    yield from _table(["", "removed", "mean frequency", "added", "mean frequency", "gain"], rows)
    yield f"{figure_standalone(report.standalone).title}:\n"
    shares = (
        [kind, _code(row.token), words.percent(row.share), f"{row.alone:,}", f"{row.occurrences:,}"]
        for kind, rows in report.standalone.items()
        for row in rows
    )
    yield from _table(["", "token", "share", "alone", "occurrences"], shares)


def _passage(report: Facts) -> Iterator[str]:
    yield "## A passage, token by token\n"
    yield f"{words.passage_note(report.passage)} {words.SPELLING}\n"
    plain, scaffold = report.passage.n_tokens
    pieces = ((_tokens(p.plain), _tokens(p.scaffold)) for p in report.passage.pieces if p.differs)
    yield from _table([f"BPE: {plain:,} tokens", f"Scaffold-BPE: {scaffold:,} tokens"], pieces)


def _gained(report: Facts) -> Iterator[str]:
    change = report.changes[TRAIN]
    yield "## Tokens gained\n"
    yield f"Occurrences in the training text. {words.SPELLING}\n"
    for title, tokens, frequencies in (
        ("Added", change.added, change.added_frequencies),
        ("Removed", change.removed, change.removed_frequencies),
    ):
        shown = (f"{_code(t)} {n:,}" for t, n in zip(tokens[:ROWS], frequencies.tolist(), strict=False))
        yield f"{title}{_limited(tokens)}: {', '.join(shown)}\n"


def _scaffolds(report: Facts) -> Iterator[str]:
    yield "## Scaffold tokens\n"
    rows = (
        [
            _code(fact.token),
            _tokens(fact.parts),
            _tokens(fact.demolished),
            f"{fact.occurrences:,}",
            f"{fact.alone:,}",
            _tokens(fact.builds),
        ]
        for fact in report.scaffolds[:ROWS]
    )
    yield f"Of the training text{_limited(report.scaffolds)}.\n"
    yield from _table(["Scaffold token", "Merged from", "Stands as", "Occurs", "By itself", "Builds"], rows)


def _run(report: Facts) -> Iterator[str]:
    yield "## How it was made\n"
    for label, value in words.run_notes(report):
        yield f"- {label}: {_code(value) if label == 'Command' else _plain(value)}"


def _limited(rows: Sequence[object]) -> str:
    return f", the first {ROWS} of {len(rows):,}" if len(rows) > ROWS else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for cells in (header, ["---"] * len(header), *rows):
        escaped = (cell.replace("|", "\\|") for cell in cells)
        yield f"| {' | '.join(escaped)} |"
    yield ""


def _plain(text: str) -> str:
    """Text with all markup escaped."""
    return re.sub(r"([\\`*_{}\[\]<>#&~])", r"\\\1", text)


def _code(token: str) -> str:
    """A token as a code span.

    Example:
        >>> _code("zona"), _code("`")
        ('`zona`', '`` ` ``')
    """
    text = words.token_text(token)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    padding = " " if "`" in (text[:1], text[-1:]) else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def _tokens(tokens: Iterable[str]) -> str:
    return " ".join(map(_code, tokens))
