"""A table of tokenizers by metric, with the best of each marked."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hf_scaffold._utils.arguments import knows_its_arguments, shortened, whole
from hf_scaffold._utils.provided import provided
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.evaluation.baselines import load_tokenizer
from hf_scaffold.evaluation.metrics import Evaluation, EvaluationText, evaluate
from hf_scaffold.evaluation.ngrams import NgramBits, ngram_bits_per_byte
from hf_scaffold.evaluation.robustness import NoisyText, Robustness, robustness_on
from hf_scaffold.text.corpus import Corpus

Text = Corpus | EvaluationText | PreTokenCounts
TRAIN, HELD_OUT = "train", "held-out"


@dataclass(frozen=True)
class Metric:
    """One line of a table.

    Args:
        name: As in `Evaluation.to_dict`, then any argument after a colon.
        label: For people.
        higher_is_better: None if a value is neither good nor bad.
        of: The value of what was measured, if it has one: of an evaluation in `METRICS`.
    """

    name: str
    label: str
    higher_is_better: bool | None
    of: Callable[[Any], float | None]


METRICS: tuple[Metric, ...] = (
    Metric("vocab_size", "vocabulary", None, lambda e: e.vocab_size),
    Metric("bytes_per_token", "bytes per token", True, lambda e: e.bytes_per_token),
    Metric("n_tokens", "tokens", False, lambda e: e.n_tokens),
    Metric("tokens_per_word", "tokens per word", False, lambda e: e.tokens_per_word),
    Metric("entropy", "Shannon entropy, bits", True, lambda e: e.entropy),
    Metric("redundancy", "redundancy", False, lambda e: e.redundancy),
    Metric("renyi_efficiency", "Rényi efficiency, α = 2.5", True, Evaluation.renyi_efficiency),  # noqa: RUF001
    Metric("vocab_used", "tokens used", True, lambda e: e.vocab_used),
    Metric("frequency_percentile:50", "median frequency", True, lambda e: e.frequency_percentile(50)),
    Metric("frequency_percentile:95", "frequency at 95 %", True, lambda e: e.frequency_percentile(95)),
    Metric("share_under:1", "share never used", False, lambda e: e.share_under(1)),
    Metric("share_under:100", "share under 100 times", False, lambda e: e.share_under(100)),
)
# Of `Robustness`.
ROBUSTNESS: tuple[Metric, ...] = (
    Metric("share_added:misspelled", "tokens added by misspelling", False, lambda r: r.misspelled),
    Metric("share_added:recased", "tokens added by other case", False, lambda r: r.recased),
)


@dataclass(frozen=True)
class MetricRow:
    """The tokenizers' values of one metric on one text.

    Args:
        text: "train" or "held-out".
        metric, label, higher_is_better: See `Metric`.
        values: Name of the tokenizer to value, if it has one.
        best: Names of those with the best value, in their order; () if all are alike, or none is better.
    """

    text: str
    metric: str
    label: str
    higher_is_better: bool | None
    values: dict[str, float | None]
    best: tuple[str, ...]

    def shown(self, name: str) -> str:
        """A tokenizer's value, for people.

        Example:
            >>> row = MetricRow("train", "share_under:1", "share never used", False, {"BPE": 0.125}, ())
            >>> row.shown("BPE")
            '12.50 %'
        """
        value = self.values[name]
        if value is None:
            return "–"  # noqa: RUF001
        if isinstance(value, int):
            return f"{value:,}"
        return f"{100 * value:.2f} %" if self.metric.startswith("share_") else f"{value:.4f}"


@dataclass(frozen=True)
class TokenizerComparison:
    """Tokenizers by metric.

    Args:
        rows: By text, then in the order of `METRICS`; then what was asked for besides.
        evaluations: Text to name to evaluation.
        ngrams: Name to bits per byte of the held-out text, if they were asked for.
        robustness: Name to tokens of misspelled text, likewise.
    """

    rows: tuple[MetricRow, ...]
    evaluations: dict[str, dict[str, Evaluation]]
    ngrams: dict[str, NgramBits] = field(default_factory=dict)
    robustness: dict[str, Robustness] = field(default_factory=dict)

    def row(self, metric: str, text: str = TRAIN) -> MetricRow:
        """The row of a metric.

        Raises:
            KeyError: an unknown metric or text.
        """
        for row in self.rows:
            if (row.text, row.metric) == (text, metric):
                return row
        raise KeyError(f"no metric {metric!r} of the text {text!r}")

    def to_dict(self) -> dict[str, Any]:
        """For JSON: the rows, and all metrics of each tokenizer."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "evaluations": {
                text: {name: evaluation.to_dict() for name, evaluation in evaluations.items()}
                for text, evaluations in self.evaluations.items()
            },
            "ngrams": {name: asdict(found) for name, found in self.ngrams.items()},
            "robustness": {name: asdict(found) for name, found in self.robustness.items()},
        }

    def _repr_html_(self) -> str:
        found: str = provided("TokenizerComparison._repr_html_")(self)
        return found


@knows_its_arguments
def compare_tokenizers(
    tokenizers: Mapping[str, Any],
    train: Text | None = None,
    held_out: Text | None = None,
    *,
    ngram_order: int | None = None,
    robustness: bool = False,
) -> TokenizerComparison:
    """Measure tokenizers on the text they were trained on, on other text, or both.

    Args:
        tokenizers: Name to what `evaluate` takes; or to a path or a name on the Hub, for
            `load_tokenizer`.
        train: The text that they were trained on, as for `evaluate`, if any.
        held_out: Other text, if any. The two are never added up.
        ngram_order: Also measure the held-out text in bits per byte, by n-gram models of this order that
            learn from `train`, with `ngram_bits_per_byte`.
        robustness: Also count the tokens that misspelling adds, with `robustness`: to the held-out text, or
            to `train` if there is none.
    Raises:
        ConfigurationError: no tokenizer, or no text, is given, or not both texts for ngram_order; or what
            `evaluate`, `ngram_bits_per_byte` and `robustness` raise.
    Cost: each text is counted once for each way to cut it.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> plain, scaffold = (hs.train(counts, 259, scaffold=kind) for kind in (False, True))
        >>> table = compare_tokenizers({"BPE": plain, "Scaffold-BPE": scaffold}, counts)
        >>> row = table.row("n_tokens")
        >>> row.values, row.best
        ({'BPE': 62, 'Scaffold-BPE': 49}, ('Scaffold-BPE',))
    """
    if not isinstance(tokenizers, Mapping):
        raise TypeError(f"tokenizers must be a mapping of names to tokenizers, not {shortened(tokenizers)}")
    texts = {name: text for name, text in ((TRAIN, train), (HELD_OUT, held_out)) if text is not None}
    if not tokenizers or not texts:
        raise ConfigurationError("give at least one tokenizer, and train or held_out to compare on")
    if ngram_order is not None:
        ngram_order = whole("ngram_order", ngram_order, least=1)
        if len(texts) < 2:
            raise ConfigurationError("n-gram models need two texts: give train and held_out")
    shared = {
        name: text if isinstance(text, PreTokenCounts | EvaluationText) else EvaluationText(text)
        for name, text in texts.items()
    }
    evaluations: dict[str, dict[str, Evaluation]] = {text: {} for text in shared}
    ngrams: dict[str, NgramBits] = {}
    last = [*shared][-1]
    noisy = NoisyText(shared[last]) if robustness else None
    robustnesses: dict[str, Robustness] = {}
    for name, tokenizer in tokenizers.items():
        if isinstance(tokenizer, str | os.PathLike):
            tokenizer = load_tokenizer(tokenizer)
        for text_name, text in shared.items():
            evaluations[text_name][name] = evaluate(tokenizer, text, name=name)
        if ngram_order is not None:
            ngrams[name] = ngram_bits_per_byte(
                tokenizer, shared[TRAIN], shared[HELD_OUT], order=ngram_order, name=name
            )
        if noisy is not None:
            robustnesses[name] = robustness_on(noisy, tokenizer, name)
    rows = [_row(text, metric, evaluations[text]) for text in evaluations for metric in METRICS]
    if ngram_order is not None:
        rows.append(_row(HELD_OUT, ngram_metric(ngram_order), ngrams))
    if robustness:
        rows += [_row(last, metric, robustnesses) for metric in ROBUSTNESS]
    return TokenizerComparison(tuple(rows), evaluations, ngrams, robustnesses)


def ngram_metric(order: int) -> Metric:
    """Bits per byte, of `NgramBits`."""
    label = f"bits per byte, {order}-grams"
    return Metric(f"ngram_bits_per_byte:{order}", label, False, lambda found: found.bits_per_byte)


def _row(text: str, metric: Metric, measured: Mapping[str, Any]) -> MetricRow:
    values = {name: metric.of(found) for name, found in measured.items()}
    known = [value for value in values.values() if value is not None]
    best: tuple[str, ...] = ()
    if metric.higher_is_better is not None and len(set(known)) > 1:
        target = max(known) if metric.higher_is_better else min(known)
        best = tuple(name for name, value in values.items() if value == target)
    return MetricRow(text, metric.name, metric.label, metric.higher_is_better, values, best)
