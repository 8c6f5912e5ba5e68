"""The facts that a report holds and its forms are made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hf_scaffold.evaluation.comparison import Standalone, VocabularyChange
from hf_scaffold.evaluation.tables import TRAIN, TokenizerComparison
from hf_scaffold.report.figures import frequency_curve
from hf_scaffold.report.passages import Passage
from hf_scaffold.training.artifact import ScaffoldBPE

SCAFFOLD, PLAIN = "Scaffold-BPE", "BPE"


@dataclass(frozen=True)
class ReportText:
    """A text that was measured.

    Args:
        name: "train" or "held-out".
        sources: Names of its files, or patterns, without folders; none for texts in memory.
        n_bytes, n_words: Its size; see `Evaluation`.
        differing: Share of its pre-tokens that plain BPE and Scaffold-BPE encode differently.
    """

    name: str
    sources: tuple[str, ...]
    n_bytes: int
    n_words: int
    differing: float


@dataclass(frozen=True)
class ScaffoldFacts:
    """A scaffold token.

    Args:
        token: As the vocabulary spells it.
        parts: The pair that it was merged from.
        demolished: The normal tokens that stand for it.
        alone, occurrences: See `Standalone`; in the training text.
        builds: The normal tokens that it helps to build, in the order of creation.
    """

    token: str
    parts: tuple[str, str]
    demolished: tuple[str, ...]
    alone: int
    occurrences: int
    builds: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """How a report was made.

    Args:
        date: The day, in UTC, as YYYY-MM-DD.
        versions: Of what decides its figures, by name.
        command: What gives the same report, if the command line made it; files are named without folders.
    """

    date: str
    versions: dict[str, str]
    command: str | None


@dataclass(frozen=True, eq=False)
class Facts:
    """What a report shows; the arguments are those of `Report`."""

    run: Run
    settings: dict[str, Any]
    texts: tuple[ReportText, ...]
    table: TokenizerComparison
    raw_agreements: dict[str, float]
    expanded_vocab_size: int
    stop_reason: str | None
    changes: dict[str, VocabularyChange]
    scaffolds: tuple[ScaffoldFacts, ...]
    standalone: dict[str, tuple[Standalone, ...]]
    passage: Passage
    scaffold_bpe: ScaffoldBPE
    plain_bpe: ScaffoldBPE

    @property
    def tokenizers(self) -> tuple[str, ...]:
        """Their names, in the order of the table."""
        return tuple(self.table.evaluations[TRAIN])

    @property
    def scaffold_share(self) -> float:
        """Share of scaffold tokens among all that were made."""
        return len(self.scaffolds) / self.expanded_vocab_size

    def bytes_per_token_gain(self, text: str) -> float:
        """How many more bytes a token of Scaffold-BPE stands for than one of plain BPE: 0.01 for 1 %."""
        values = self.table.row("bytes_per_token", text).values
        return (values[SCAFFOLD] or 0) / (values[PLAIN] or 1) - 1

    def tokens_saved(self, text: str) -> float:
        """Share of plain BPE's tokens of a text that Scaffold-BPE does without."""
        values = self.table.row("n_tokens", text).values
        return 1 - (values[SCAFFOLD] or 0) / (values[PLAIN] or 1)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "run": asdict(self.run),
            "settings": self.settings,
            "texts": [asdict(text) for text in self.texts],
            "tokenizers": list(self.tokenizers),
            **self.raw_agreements,
            "expanded_vocab_size": self.expanded_vocab_size,
            "n_scaffolds": len(self.scaffolds),
            "scaffold_share": self.scaffold_share,
            "bytes_per_token_gain": {text.name: self.bytes_per_token_gain(text.name) for text in self.texts},
            "stop_reason": self.stop_reason,
            **self.table.to_dict(),
            "changes": {text: change.to_dict() for text, change in self.changes.items()},
            "standalone": {
                kind: [{**asdict(row), "share": row.share} for row in rows]
                for kind, rows in self.standalone.items()
            },
            "passage": self.passage.to_dict(),
            "scaffolds": [asdict(scaffold) for scaffold in self.scaffolds],
            "frequency_curves": {
                text: {name: frequency_curve(evaluation) for name, evaluation in evaluations.items()}
                for text, evaluations in self.table.evaluations.items()
            },
        }
