"""The demo: plain BPE and Scaffold-BPE trained on one novel, compared, saved and reloaded."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hf_scaffold.cli.workflow import save_tokenizer
from hf_scaffold.counting.counting import count
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ArtifactError
from hf_scaffold.evaluation.comparison import VocabularyChange, compare_vocabularies
from hf_scaffold.evaluation.metrics import Evaluation, evaluate
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.trainer import train

TEXT = Path(__file__).parents[1] / "data" / "wuthering-heights.txt"
TITLE = "Wuthering Heights by Emily Brontë (1847)"
VOCAB_SIZE = 4000
EOS_TOKEN = "<|endoftext|>"
RARE = 5  # occurrences up to which a token counts as rare


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
    def evaluations(self) -> tuple[Evaluation, Evaluation]:
        """Of plain BPE and of Scaffold-BPE, on the text that both were trained on."""
        return evaluate(self.plain, self.counts), evaluate(self.scaffold, self.counts)

    @cached_property
    def change(self) -> VocabularyChange:
        """The tokens that Scaffold-BPE removes from the vocabulary and those it adds."""
        return compare_vocabularies(*self.evaluations)

    @property
    def rare_tokens(self) -> tuple[int, int]:
        """Merged tokens that occur at most `RARE` times in the encoded text."""
        plain, scaffold = (
            sum(
                n <= RARE and len(token) > 1 and token != EOS_TOKEN
                for token, n in zip(found.tokens, found.token_frequencies.tolist(), strict=True)
            )
            for found in self.evaluations
        )
        return plain, scaffold

    def removed(self) -> list[tuple[str, int]]:
        """The removed tokens, with their uses; those that plain BPE uses least come first."""
        uses = zip(self.change.removed, self.change.removed_frequencies.tolist(), strict=True)
        return sorted(uses, key=lambda use: use[1])

    def added(self) -> list[tuple[str, int]]:
        """The added tokens, with their uses; the most frequent come first, then the longest."""
        uses = zip(self.change.added, self.change.added_frequencies.tolist(), strict=True)
        return sorted(uses, key=lambda use: (-use[1], -len(use[0])))

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


def run_demo(progress: Callable[[int, int], object] = lambda done, total: None) -> Demo:
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
            show_progress=lambda done, _: progress(done_before + done, 2 * VOCAB_SIZE),
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
    expected = [token_id for part in bpe.encode(bpe.pre_tokenizer.pre_tokenize(text)) for token_id in part]
    if ids != expected:
        raise ArtifactError(f"{folder}: AutoTokenizer gives other ids than training did")
    if tokenizer.decode(ids) != text:
        raise ArtifactError(f"{folder}: the ids don't decode to the text")
    return Reload(type(tokenizer).__name__, len(tokenizer), len(ids))
