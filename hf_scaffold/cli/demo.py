"""The demo: plain BPE and Scaffold-BPE trained on one novel, compared, saved and reloaded."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hf_scaffold.cli.workflow import save_tokenizer
from hf_scaffold.counting.counts import PreTokenCounts, count
from hf_scaffold.errors import ArtifactError
from hf_scaffold.evaluation.adapters import weighted
from hf_scaffold.evaluation.inspection import bytes_per_token
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.trainer import train

__all__ = [
    "EOS_TOKEN",
    "TEXT",
    "VOCAB_SIZE",
    "Demo",
    "Reload",
    "Splits",
    "TokenUse",
    "check_reload",
    "run_demo",
]

TEXT = Path(__file__).parents[1] / "data" / "wuthering-heights.txt"
TITLE = "Wuthering Heights by Emily Brontë (1847)"
VOCAB_SIZE = 4000
EOS_TOKEN = "<|endoftext|>"
RARE = 5  # occurrences up to which a token counts as rare


@dataclass(frozen=True)
class TokenUse:
    """A token and its occurrences in the encoded text."""

    token: str
    occurrences: int


@dataclass(frozen=True)
class Splits:
    """A pre-token, its count and its tokens under both."""

    pretoken: bytes
    count: int
    plain: tuple[str, ...]
    scaffold: tuple[str, ...]


@dataclass(frozen=True)
class Demo:
    """Two artifacts of one size, trained on the same counts, and how they differ."""

    counts: PreTokenCounts
    plain: ScaffoldBPE
    scaffold: ScaffoldBPE
    seconds: float

    @cached_property
    def bytes_per_token(self) -> tuple[float, float]:
        """Of plain BPE and of Scaffold-BPE, on the text that both were trained on."""
        return bytes_per_token(self.plain, self.counts), bytes_per_token(self.scaffold, self.counts)

    @cached_property
    def rare_tokens(self) -> tuple[int, int]:
        """Merged tokens that occur at most `RARE` times in the encoded text."""
        plain, scaffold = (
            sum(use.occurrences <= RARE for use in self._uses(bpe) if len(use.token) > 1)
            for bpe in (self.plain, self.scaffold)
        )
        return plain, scaffold

    def left(self) -> list[TokenUse]:
        """Tokens of plain BPE that are scaffold tokens here; those that plain BPE uses least come first."""
        uses = [use for use in self._uses(self.plain) if use.token in self.scaffold.demolish_map]
        return sorted(uses, key=lambda use: use.occurrences)

    def came(self) -> list[TokenUse]:
        """Tokens that plain BPE of this size doesn't have; the most frequent come first, then the longest."""
        uses = [use for use in self._uses(self.scaffold) if use.token not in self.plain.vocab]
        return sorted(uses, key=lambda use: (-use.occurrences, -len(use.token)))

    def splits(self) -> list[Splits]:
        """Pre-tokens that the two split differently: from most tokens saved in the text to most lost."""
        rows = zip(self.counts.items(), self._encoded(self.plain), self._encoded(self.scaffold), strict=True)
        splits = [
            Splits(pretoken, n, plain, scaffold)
            for (pretoken, n), plain, scaffold in rows
            if plain != scaffold
        ]
        return sorted(splits, key=lambda split: (len(split.scaffold) - len(split.plain)) * split.count)

    def _encoded(self, bpe: ScaffoldBPE) -> list[tuple[str, ...]]:
        return [tuple(bpe.tokens[token_id] for token_id in ids) for ids in bpe.encode(list(self.counts))]

    def _uses(self, bpe: ScaffoldBPE) -> Iterator[TokenUse]:
        """Every token of the vocabulary but the special ones, in the order of ids."""
        ids, ends = bpe.encoder.encode(self.counts.data, self.counts.offsets)
        occurrences = weighted(ids, ends, self.counts, bpe.vocab_size)
        fixed = len(bpe.special_tokens)
        yield from map(TokenUse, bpe.tokens[fixed:], occurrences[fixed:].tolist())


def run_demo(progress: Callable[[int, int], object] | None = None) -> Demo:
    """Train plain BPE and Scaffold-BPE of `VOCAB_SIZE` tokens on the text in the package.

    Args:
        progress: Called as progress(tokens_done, tokens_total) over both.
    Cost: a second or two.
    """
    start = time.perf_counter()
    counts = count(TEXT)

    def train_one(scaffold: bool, done_before: int) -> ScaffoldBPE:
        return train(
            counts,
            VOCAB_SIZE,
            special_tokens=[EOS_TOKEN],
            scaffold=scaffold,
            progress=progress and (lambda done, _: progress(done_before + done, 2 * VOCAB_SIZE)),
        )

    plain, scaffold = train_one(False, 0), train_one(True, VOCAB_SIZE)
    return Demo(counts, plain, scaffold, time.perf_counter() - start)


@dataclass(frozen=True)
class Reload:
    """What came back from the folder, and over how many ids it proved exact."""

    class_name: str
    n_tokens: int
    n_ids: int


def check_reload(bpe: ScaffoldBPE, folder: Path) -> Reload:
    """Save a tokenizer, load it with AutoTokenizer and hold it against the artifact, over the whole text.

    Raises:
        ArtifactError: the loaded tokenizer gives other ids than the artifact, or doesn't decode to the text.
    """
    save_tokenizer(bpe, folder, eos_token=EOS_TOKEN)
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = TEXT.read_bytes().decode()
    ids = tokenizer(text)["input_ids"]
    expected = [token_id for part in bpe.encode(bpe.pretokenizer.pretokenize(text)) for token_id in part]
    if ids != expected:
        raise ArtifactError(f"{folder}: AutoTokenizer gives other ids than training did")
    if tokenizer.decode(ids) != text:
        raise ArtifactError(f"{folder}: the ids don't decode to the text")
    return Reload(type(tokenizer).__name__, len(tokenizer), len(ids))
