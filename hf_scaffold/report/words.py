"""What page and Markdown share: headline facts, captions, and what the metrics mean."""

from __future__ import annotations

from collections.abc import Iterator

from hf_scaffold.evaluation.comparison import VocabularyChange
from hf_scaffold.evaluation.tables import HELD_OUT, TRAIN
from hf_scaffold.report.facts import Facts, ReportText
from hf_scaffold.report.passages import Passage
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.training.agreement import percent_down

TITLE = "What Scaffold-BPE does to a vocabulary"
SPELLING = (
    "In tokens, ␣ is a space, ⏎ a line end, ⇥ a tab; ⟨E2⟩ is one byte, in hexadecimal, of a character that "
    "the token holds only part of."
)
PRACTICALLY_ALIKE = 0.005  # a share of a text's tokens
SIGNS = {" ": "␣", "\n": "⏎", "\t": "⇥"}
CHANGED = (
    "Removed tokens are those that only plain BPE has, counted in the text as plain BPE encodes it; added "
    "tokens are those that only Scaffold-BPE has, counted in the text as Scaffold-BPE encodes it."
)
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
    "ngram_bits_per_byte": "Bits per byte of the held-out text for {at}-gram models of its tokens (modified "
    "Kneser-Ney), which learn from the training text: how predictable text is in these tokens.",
    "share_added": "More tokens of about 1 MB of the text if every word of four letters or more is {at}: "
    "misspelled by one random edit inside, or recased, its first letter written in the other case.",
    "share_under": "Share of the vocabulary that occurs fewer times than {at}.",
}


def percent(share: float, digits: int = 1, sign: bool = False) -> str:
    """A share as percent.

    Example:
        >>> percent(0.0523), percent(0.5, 0, sign=True)
        ('5.2 %', '+50 %')
    """
    return f"{100 * share:{'+' if sign else ''}.{digits}f} %"


def scaffolds_explained(report: Facts) -> str:
    """What a scaffold token is, with one of this text."""
    explained = (
        "Byte pair encoding (BPE) builds a tokenizer's vocabulary by merging, again and again, the two "
        "neighbouring tokens that occur together most often. Some of the tokens it makes are mere steps on "
        "the way to longer ones: scaffold tokens. "
    )
    shown = {row.token for row in report.standalone["scaffold tokens"]}
    facts = [fact for fact in report.scaffolds if fact.token in shown]
    if facts:
        fact = next((fact for fact in facts if len(fact.builds) > 1), facts[0])
        longer = " and ".join(f"“{token_text(token)}”" for token in fact.builds[:2])
        explained += (
            f"Here, “{token_text(fact.token)}” helps to build {longer}; of the {fact.occurrences:,} places "
            f"that spell it, only {fact.alone:,} keep it as a token of its own. "
        )
    return explained + (
        "Scaffold-BPE still merges through them, but leaves them out of the vocabulary and gives their "
        "places to tokens that are used more. Where merging ends on a scaffold token, the smaller tokens "
        "that it was made of stand for it."
    )


def verdict(report: Facts) -> tuple[str, str]:
    """What was found in this text, and what to conclude."""
    change = report.changes[TRAIN]
    if not change.removed:
        return (
            "On this text, Scaffold-BPE and plain BPE have the same vocabulary.",
            "There is nothing to gain.",
        )
    measured = report.texts[-1].name
    where = TEXT_NAMES[measured].lower()
    means = f"{change.mean_added:,.1f} times on average instead of {change.mean_removed:,.1f}"
    if measured != TRAIN:
        other = report.changes[measured]
        means += f" (in the {where}, {other.mean_added:,.1f} instead of {other.mean_removed:,.1f})"
    saved = report.tokens_saved(measured)
    n_tokens = report.plain_bpe.vocab_size
    return (
        f"On this text, Scaffold-BPE replaces {len(change.removed):,} of plain BPE's {n_tokens:,} tokens. In "
        f"the training text, the new ones occur {means}. The {where} takes {percent(abs(saved), 2)} "
        f"{'fewer' if saved >= 0 else 'more'} tokens.",
        f"{_conclusion(_gain(change), _gain(report.changes[measured]), saved)}.",
    )


def _gain(change: VocabularyChange) -> float:
    """How much more often the added tokens occur; if the removed ones never do, as if twice as often."""
    return (change.gain or 0) if change.mean_removed else float(change.mean_added > 0)


def _conclusion(trained: float, gain: float, saved: float) -> str:
    """What follows from the gain in the training text, the gain in the text measured, and what that saves."""
    if trained <= 0:
        return "There is nothing to gain in how evenly tokens are used"
    used = "A model sees rare tokens more often"
    if gain <= 0:
        used = "Only in the training text are rare tokens seen more often, not in the held-out text"
    if abs(saved) < PRACTICALLY_ALIKE:
        return f"{used}, and sequences stay practically as long"
    return f"{used}, {'and sequences get shorter' if saved > 0 else 'but sequences get longer'}"


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
            f"average in the training text, the {len(change.removed):,} removed ones "
            f"{change.mean_removed:,.1f} times",
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
    for metric, label in {row.metric: row.label for row in report.table.rows}.items():
        name, _, at = metric.partition(":")
        yield label, MEANINGS[name].format(at=at)


def passage_note(passage: Passage) -> str:
    """Where the passage is from, and how many words differ."""
    origin = TEXT_NAMES.get(passage.origin)
    place = f"Near its start, the {origin.lower()} differs most here: " if origin else ""
    return f"{place}{passage.n_differing:,} of {passage.n_words:,} words are encoded differently."


def run_notes(report: Facts) -> Iterator[tuple[str, str]]:
    """When the report was made, by what and how: labels and values."""
    run = report.run
    if run.command:
        yield "Command", run.command
    yield "Versions", ", ".join(f"{name} {version}" for name, version in run.versions.items())
    yield "Date", run.date


def token_text(token: str) -> str:
    """A token as a reader sees it, spelled as `SPELLING` says.

    Example:
        >>> token_text("ĠnaÃ¯ve"), token_text("Ċ"), token_text("aÃ"), token_text("<s> ")
        ('␣naïve', '⏎', 'a⟨C3⟩', '<s> ')
    """
    try:
        data = symbols_to_bytes(token)
    except KeyError:  # a special token
        return token
    try:
        return "".join(map(_sign, data.decode()))
    except UnicodeDecodeError:
        return "".join(_sign(chr(byte)) if byte < 0x80 else f"⟨{byte:02X}⟩" for byte in data)


def _sign(char: str) -> str:
    return SIGNS.get(char) or (char if char.isprintable() else f"⟨U+{ord(char):04X}⟩")


def running_text(token: str) -> str:
    """A token as in text: as `token_text`, but with spaces and tabs as they are, and lines that end.

    Example:
        >>> running_text("ĠnaÃ¯ve"), running_text("Ċ"), running_text("Ã")
        (' naïve', '⏎\\n', '⟨C3⟩')
    """
    return token_text(token).replace("␣", " ").replace("⇥", "\t").replace("⏎", "⏎\n")
