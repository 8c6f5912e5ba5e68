"""The report: what Scaffold-BPE does to a vocabulary on one's own text, against other tokenizers.

A `Report` holds the facts; page, Markdown and JSON are made from nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import count as count_from
from itertools import islice
from pathlib import Path
from typing import Any

from hf_scaffold._utils.arguments import (
    LARGEST_ID,
    knows_its_arguments,
    progress,
    string,
    strings,
    warn,
    whole,
)
from hf_scaffold._utils.files import write_files
from hf_scaffold._utils.version import __version__
from hf_scaffold.counting.counting import count
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.evaluation.baselines import (
    BASELINES,
    load_tokenizer,
    require_kind,
    require_vocab_size,
    train_baseline,
)
from hf_scaffold.evaluation.comparison import Standalone, compare_vocabularies, standalone_share
from hf_scaffold.evaluation.inspection import scaffold_uses
from hf_scaffold.evaluation.metrics import Evaluation, EvaluationText
from hf_scaffold.evaluation.tables import HELD_OUT, TRAIN, compare_tokenizers
from hf_scaffold.report.facts import PLAIN, SCAFFOLD, Facts, ReportText, Run, ScaffoldFacts
from hf_scaffold.report.html import html_of, report_html
from hf_scaffold.report.markdown import markdown_of
from hf_scaffold.report.passages import choose_passage, differing_share, split_passage
from hf_scaffold.report.words import TEXT_NAMES
from hf_scaffold.text.byte_level import bytes_to_symbols, symbols_to_bytes
from hf_scaffold.text.corpus import Corpus, corpus_names, describe_corpus, shared_files
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.settings import DEFAULT_VOCAB_SIZE
from hf_scaffold.training.trainer import train

BASELINE_NAMES = {
    "bpe": PLAIN,
    "wordpiece": "WordPiece",
    "unigram": "Unigram",
    "sentencepiece-bpe": "SentencePiece BPE",
    "sentencepiece-unigram": "SentencePiece Unigram",
    "trimmed": "Trimmed BPE",
    "leaf": "Leaf pruning",
    "residue": "Residue removal",
    "picky": "PickyBPE",
}
DEFAULT_BASELINES: tuple[str, ...] = ("bpe", "wordpiece", "unigram")

FIGURE_TOKENS = 8  # of each kind in Figure 1
SHORTEST_SHOWN = 3  # letters
SPACE = bytes_to_symbols(b" ")
GIVEN = "given"  # the origin of a passage that the caller chose

Step = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class Report(Facts):
    """What `make_report` found.

    Args:
        run: When it was made, by what and how.
        settings: vocab_size, special_tokens and pre_tokenizer of both BPEs.
        texts: The training text, then the held-out text if there is one.
        table: All tokenizers by metric.
        raw_agreements: How far a plain BPE engine encodes as Scaffold-BPE does, by name as in `ScaffoldBPE`;
            `table` has what was measured on each text.
        expanded_vocab_size: Normal and scaffold tokens.
        stop_reason: Why training ended before vocab_size, if it did.
        changes: Text to the tokens removed and those added, with frequencies in that text.
        scaffolds: All scaffold tokens; those whose bytes occur most in the training text come first.
        standalone: Normal and scaffold tokens that occur often inside words, for Figure 1.
        passage: A passage as both BPEs encode it.
        scaffold_bpe, plain_bpe: Both as trained; the page has their merges, to encode what a reader types.
    """

    def to_json(self) -> str:
        """All facts as one JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"

    def to_markdown(self) -> str:
        """The facts as GitHub-flavoured Markdown, long lists cut short."""
        return markdown_of(self)

    def to_html(self) -> str:
        """The facts as one page that needs no other file.

        Raises:
            ConfigurationError: jinja2 is not installed.
        """
        return html_of(self)

    def _repr_html_(self) -> str:
        return report_html(self)

    def save(self, *paths: str | os.PathLike[str]) -> None:
        """Write files, each in the form its suffix names: .html, .md or .json.

        Raises:
            ConfigurationError: another suffix, or jinja2 is not installed.
            OSError: a file can't be written.
        """
        check_forms(paths)
        contents = {Path(path): FORMS[Path(path).suffix](self).encode() for path in paths}
        for folder in dict.fromkeys(path.parent for path in contents):
            write_files(folder, {path.name: data for path, data in contents.items() if path.parent == folder})


FORMS: dict[str, Callable[[Report], str]] = {
    ".html": Report.to_html,
    ".md": Report.to_markdown,
    ".json": Report.to_json,
}


def check_forms(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse paths that `Report.save` can't write.

    Raises:
        ConfigurationError: an unknown suffix, or jinja2 is not installed.
    """
    for path in map(Path, paths):
        if path.suffix not in FORMS:
            raise ConfigurationError(f"{path}: a report's name ends in {', '.join(FORMS)}")
        if path.suffix == ".html":
            import_extra("jinja2", "report")


@knows_its_arguments
def make_report(
    corpus: Corpus,
    vocab_size: int = DEFAULT_VOCAB_SIZE,
    *,
    held_out: Corpus | None = None,
    baselines: Sequence[str] = DEFAULT_BASELINES,
    compare_with: Mapping[str, Any] | Sequence[str] = (),
    special_tokens: Sequence[str] = (),
    pre_tokenizer: str | PreTokenizer | None = None,
    passage: str | None = None,
    ngram_order: int | None = None,
    robustness: bool = False,
    text_field: str = "text",
    num_workers: int | None = None,
    show_progress: bool | Step = False,
    command: str | None = None,
) -> Report:
    """Train Scaffold-BPE and what to compare it with on a text, and compare them.

    The same text gives the same report, except for its date, which SOURCE_DATE_EPOCH may set, and for
    WordPiece and Unigram: the trainers of `tokenizers` decide ties by the order of a hash table.

    Args:
        corpus, text_field, num_workers: As for `count`.
        vocab_size, special_tokens: As for `train`; for all that is trained here.
        held_out: Text that nothing is trained on, measured separately.
        baselines: Of `BASELINES`; plain BPE is always among them.
        compare_with: Existing tokenizers: name to what `evaluate` takes, or to a path or a name on the Hub;
            or paths and names alone.
        pre_tokenizer: A preset, or another PreTokenizer, for an alphabet of bytes.
        passage: A text to show as both BPEs encode it. None: where they differ most near the start of the
            held-out text, or of the training text if there is none.
        ngram_order: Also measure the held-out text in bits per byte, by n-gram models of this order; see
            `ngram_bits_per_byte`.
        robustness: Also count the tokens that misspelling adds; see `compare_tokenizers`.
        show_progress: True to name each step on stderr before it, as in "3 of 7: Training BPE"; or a function
            to call with that.
        command: What the report says it was made by.
    Returns:
        Report: `save("report.html")`, or .md or .json.
    Raises:
        ConfigurationError: before anything is counted: an unknown baseline, a package that is not installed,
            two tokenizers of one name, or ngram_order without held_out.
        CorpusError: a text can't be read, or is empty.
        VocabSizeError: vocab_size is below what an alphabet of bytes needs.
    Cost: for 59 MB of novels and 32,000 tokens, under a minute of CPU time; mostly Unigram and WordPiece.
    Example:
        >>> report = make_report(["hugs hugs pugs pugs hug on on on"], 259, baselines=[], passage=" hugs")
        >>> report.tokenizers, [fact.token for fact in report.scaffolds], report.passage.n_tokens
        (('Scaffold-BPE', 'BPE'), ['ug', 'on'], (3, 2))
    """
    vocab_size = whole("vocab_size", vocab_size, most=LARGEST_ID, reason="ids are 32-bit integers")
    special_tokens, baselines = strings("special_tokens", special_tokens), strings("baselines", baselines)
    if not isinstance(compare_with, Mapping):
        compare_with = strings("compare_with", compare_with, (str, os.PathLike))
    if passage is not None and string("passage", passage) != passage.encode(errors="replace").decode():
        raise ConfigurationError("the passage holds a lone surrogate, which is no text")
    if ngram_order is not None:
        ngram_order = whole("ngram_order", ngram_order, least=1)
        if held_out is None:
            raise ConfigurationError("n-gram models are measured on held-out text; give held_out")
    string("text_field", text_field)
    run = Run(_today(), _versions(baselines), command)
    show_progress = progress(show_progress, "name")
    cutter = _byte_level(pre_tokenizer)
    kinds = _checked_kinds(baselines)
    step = _step(show_progress, len(("Counting", SCAFFOLD, PLAIN, *kinds, "Encoding", "Looking")))
    require_vocab_size(["bpe", *kinds], vocab_size, len(special_tokens))
    others = _loaded(compare_with, taken=[SCAFFOLD, PLAIN, *map(BASELINE_NAMES.__getitem__, kinds)])
    texts = _readable_texts(corpus, held_out, text_field)

    step("Counting")
    text = texts[TRAIN]
    counts = count(text.readable, pre_tokenizer=cutter, text_field=text_field, num_workers=num_workers)
    text.add_counts(counts)
    _warn_of_training_text(texts, counts)
    tokenizers = _train_all(kinds, counts, text, vocab_size, special_tokens, step)
    scaffold, plain = tokenizers[SCAFFOLD], tokenizers[PLAIN]
    step("Encoding with all of them")
    table = compare_tokenizers(
        {**tokenizers, **others}, *texts.values(), ngram_order=ngram_order, robustness=robustness
    )

    step("Looking at scaffold tokens")
    scaffolds = _scaffold_facts(scaffold, counts)
    origin = [*texts][-1] if passage is None else GIVEN
    if passage is None:
        passage = choose_passage(texts[origin].documents(), plain, scaffold)
    return Report(
        run=run,
        settings={
            "vocab_size": vocab_size,
            "special_tokens": special_tokens,
            "pre_tokenizer": cutter.preset or cutter.to_json(),
        },
        texts=tuple(
            _text_facts(name, text, differing_share(plain, scaffold, text.counts(cutter)))
            for name, text in texts.items()
        ),
        table=table,
        raw_agreements=scaffold.raw_agreements,
        expanded_vocab_size=len(scaffold.vocab),
        stop_reason=scaffold.stop_reason,
        changes={
            name: compare_vocabularies(evaluations[PLAIN], evaluations[SCAFFOLD])
            for name, evaluations in table.evaluations.items()
        },
        scaffolds=scaffolds,
        standalone=_standalone(scaffold, counts, scaffolds, table.evaluations[TRAIN][SCAFFOLD]),
        passage=split_passage(passage, origin, plain, scaffold),
        scaffold_bpe=scaffold,
        plain_bpe=plain,
    )


def _today() -> str:
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    now = datetime.now(timezone.utc) if not seconds else datetime.fromtimestamp(int(seconds), timezone.utc)
    return now.date().isoformat()


def _versions(baselines: Iterable[str]) -> dict[str, str]:
    """Of hf_scaffold, and of those who train other tokenizers."""
    trainers = ["tokenizers"]
    if any("sentencepiece" in kind for kind in baselines):
        trainers.append("sentencepiece")
    return {
        "hf_scaffold": __version__,
        "Python": platform.python_version(),
        **{name: version(name) for name in trainers},
    }


def _step(show_progress: bool | Step, n_steps: int) -> Step:
    """What is called with the name of each step before it, and counts them."""
    if show_progress is False:
        return lambda name: None
    number = count_from(1)
    show = (lambda name: print(f"{name} …", file=sys.stderr)) if show_progress is True else show_progress
    return lambda name: show(f"{next(number)} of {n_steps}: {name}")


def _byte_level(pre_tokenizer: str | PreTokenizer | None) -> PreTokenizer:
    cutter = get_pre_tokenizer(pre_tokenizer)
    if cutter.alphabet != "bytes":
        raise ConfigurationError(
            f"{pre_tokenizer!r} is for an alphabet of characters; a report compares bytes"
        )
    return cutter


def _checked_kinds(baselines: Sequence[str]) -> list[str]:
    """The baselines to train besides plain BPE, each once and in the order of `BASELINES`."""
    for kind in baselines:
        require_kind(kind)
    return [kind for kind in BASELINES if kind in baselines and kind != "bpe"]


def _loaded(compare_with: Mapping[str, Any] | Sequence[str], taken: Sequence[str]) -> dict[str, Any]:
    if not isinstance(compare_with, Mapping):
        compare_with = {os.fspath(name): name for name in compare_with}
    for name in compare_with:
        if name in taken:
            raise ConfigurationError(
                f"two tokenizers are called {name!r}; give the existing one another name"
            )
    return {
        name: load_tokenizer(tokenizer) if isinstance(tokenizer, str | os.PathLike) else tokenizer
        for name, tokenizer in compare_with.items()
    }


def _readable_texts(corpus: Corpus, held_out: Corpus | None, text_field: str) -> dict[str, EvaluationText]:
    texts = {TRAIN: EvaluationText(corpus, text_field=text_field)}
    if held_out is not None:
        texts[HELD_OUT] = EvaluationText(held_out, text_field=text_field)
    for name, text in texts.items():
        if next(text.documents(), None) is None:
            raise CorpusError(f"the {TEXT_NAMES[name].lower()} is empty")
    return texts


def _warn_of_training_text(texts: Mapping[str, EvaluationText], counts: PreTokenCounts) -> None:
    if HELD_OUT not in texts:
        return
    train, held_out = texts[TRAIN].corpus, texts[HELD_OUT].corpus
    if shared := shared_files(train, held_out):
        warn(f"{shared[0]} is in the held-out text and in the training text")
    elif texts[HELD_OUT].counts(counts.pre_tokenizer) == counts:
        warn(f"the held-out text, {describe_corpus(held_out)}, equals the training text")


def _train_all(
    kinds: Iterable[str],
    counts: PreTokenCounts,
    text: EvaluationText,
    vocab_size: int,
    special_tokens: Sequence[str],
    step: Step,
) -> dict[str, Any]:
    """Scaffold-BPE, plain BPE, and the other baselines, by name."""
    tokenizers: dict[str, Any] = {}
    for name, scaffold in ((SCAFFOLD, True), (PLAIN, False)):
        step(f"Training {name}")
        tokenizers[name] = train(counts, vocab_size, special_tokens=special_tokens, scaffold=scaffold)
    for kind in kinds:
        name = BASELINE_NAMES[kind]
        step(f"Training {name}")
        tokenizers[name] = train_baseline(
            kind, counts, vocab_size, special_tokens=special_tokens, corpus=text
        )
    return tokenizers


def _text_facts(name: str, text: EvaluationText, differing: float) -> ReportText:
    sources = (
        os.fsencode(Path(corpus).name).decode(errors="replace") for corpus in corpus_names(text.corpus)
    )
    return ReportText(name, tuple(sources), text.n_bytes, text.n_words, differing)


def _scaffold_facts(bpe: ScaffoldBPE, counts: PreTokenCounts) -> tuple[ScaffoldFacts, ...]:
    tokens = bpe.scaffold_tokens
    parts = dict(zip(reversed(bpe.merged_tokens), reversed(bpe.merges), strict=True))  # by the first rule
    rows = zip(standalone_share(bpe, counts, tokens), scaffold_uses(bpe, tokens), strict=True)
    facts = [
        ScaffoldFacts(row.token, parts[row.token], use.demolished, row.alone, row.occurrences, use.builds)
        for row, use in rows
    ]
    return tuple(sorted(facts, key=lambda fact: -fact.occurrences))


def _standalone(
    bpe: ScaffoldBPE, counts: PreTokenCounts, scaffolds: Sequence[ScaffoldFacts], evaluation: Evaluation
) -> dict[str, tuple[Standalone, ...]]:
    """Parts of words: the most frequent normal tokens, and the scaffold tokens whose bytes occur most."""
    is_inside = _is_inside_words(bpe)
    normal = (token for token in bpe.merged_tokens if token not in bpe.demolish_map and is_inside(token))
    frequent = sorted(normal, key=evaluation.frequency, reverse=True)[:FIGURE_TOKENS]
    inside = (fact for fact in scaffolds if is_inside(fact.token))
    return {
        "normal tokens": tuple(standalone_share(bpe, counts, frequent)),
        "scaffold tokens": tuple(
            Standalone(fact.token, fact.alone, fact.occurrences) for fact in islice(inside, FIGURE_TOKENS)
        ),
    }


def _is_inside_words(bpe: ScaffoldBPE) -> Callable[[str], bool]:
    """Tells tokens such as "ing": three letters or more, no capitals, not a word by themselves."""

    def is_inside(token: str) -> bool:
        try:
            text = symbols_to_bytes(token).decode()
        except UnicodeDecodeError:  # part of a character
            return False
        letters = len(text) >= SHORTEST_SHOWN and text.isalpha() and text == text.lower()
        return letters and SPACE + token not in bpe.vocab

    return is_inside
