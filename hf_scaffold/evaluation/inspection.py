"""What is in a trained artifact: sizes, the share of scaffold tokens, what a scaffold token is for."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from operator import mul

import numpy as np

from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.training.artifact import ScaffoldBPE


@dataclass(frozen=True)
class ScaffoldUse:
    """A scaffold token, the normal tokens that stand for it, and those it helps to build."""

    token: str
    demolished: tuple[str, ...]
    builds: tuple[str, ...]


@dataclass(frozen=True)
class Inspection:
    """The facts of an artifact. Tokens are spelled as in it."""

    vocab_size: int
    special_tokens: tuple[str, ...]
    alphabet_size: int
    expanded_vocab_size: int
    scaffold_tokens: int
    scaffold_share: float
    merges: int
    longest_token: str
    pre_tokenizer: str
    raw_agreement: float | None
    raw_agreement_merges_only: float | None
    raw_agreement_unseen: float | None
    stop_reason: str | None
    sample: tuple[ScaffoldUse, ...]

    def to_json(self) -> str:
        """All facts as one JSON object."""
        return json.dumps(asdict(self), ensure_ascii=False, indent=2)


def inspect_artifact(bpe: ScaffoldBPE, sample_size: int = 10) -> Inspection:
    """Collect an artifact's sizes and a sample of its scaffold tokens.

    Args:
        sample_size: Scaffold tokens in the sample, which is spread evenly over the order of creation.
    Raises:
        ConfigurationError: sample_size is negative.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
        >>> inspect_artifact(hs.train(counts, vocab_size=261)).sample[0]
        ScaffoldUse(token='ug', demolished=('u', 'g'), builds=('hug', 'pug'))
    """
    if sample_size < 0:
        raise ConfigurationError(f"sample_size is {sample_size}; it must be 0 or more")
    n_scaffolds = len(bpe.scaffold_tokens)
    return Inspection(
        vocab_size=bpe.vocab_size,
        special_tokens=tuple(bpe.special_tokens),
        alphabet_size=sum(token in bpe.symbols for token in bpe.tokens[len(bpe.special_tokens) :]),
        expanded_vocab_size=len(bpe.vocab),
        scaffold_tokens=n_scaffolds,
        scaffold_share=n_scaffolds / len(bpe.vocab),
        merges=len(bpe.merges),
        longest_token=max(bpe.tokens[len(bpe.special_tokens) :], key=len, default=""),
        pre_tokenizer=bpe.pre_tokenizer.preset or bpe.pre_tokenizer.to_json(),
        raw_agreement=bpe.raw_agreement,
        raw_agreement_merges_only=bpe.raw_agreement_merges_only,
        raw_agreement_unseen=bpe.raw_agreement_unseen,
        stop_reason=bpe.stop_reason,
        sample=scaffold_uses(bpe, _sample(bpe.scaffold_tokens, sample_size)),
    )


def _sample(scaffolds: list[str], size: int) -> list[str]:
    size = min(size, len(scaffolds))
    return [scaffolds[i * len(scaffolds) // size] for i in range(size)]


def scaffold_uses(bpe: ScaffoldBPE, tokens: Iterable[str]) -> tuple[ScaffoldUse, ...]:
    """What scaffold tokens are demolished to and what they build, in the order given.

    A scaffold token builds each normal token that a rule makes from it, directly or through further scaffold
    tokens; they are in the order of creation.
    """
    makes = _made_from_scaffolds(bpe)
    return tuple(ScaffoldUse(token, bpe.demolish(token), _builds(token, bpe, makes)) for token in tokens)


def _made_from_scaffolds(bpe: ScaffoldBPE) -> dict[str, list[str]]:
    makes: dict[str, list[str]] = defaultdict(list)
    for pair, token in zip(bpe.merges, bpe.merged_tokens, strict=True):
        for part in bpe.demolish_map.keys() & set(pair):
            makes[part].append(token)
    return makes


def _builds(token: str, bpe: ScaffoldBPE, makes: dict[str, list[str]]) -> tuple[str, ...]:
    reached, pending = {token}, [token]
    while pending:
        for made in makes.get(pending.pop(), ()):
            if made not in reached:
                reached.add(made)
                pending.append(made)
    return tuple(sorted(reached - bpe.demolish_map.keys(), key=bpe.vocab.__getitem__))


def bytes_per_token(bpe: ScaffoldBPE, counts: PreTokenCounts) -> float:
    """Mean bytes a token when the counted corpus is encoded.

    Cost: encodes each distinct pre-token once.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({b"hug": 3, b"pug": 1})
        >>> bytes_per_token(hs.train(counts, vocab_size=257), counts)
        1.5
    """
    _, ends = bpe.pretoken_encoder.encode(counts.data, counts.offsets)
    n_tokens: int = sum(map(mul, np.diff(ends).tolist(), counts.counts.tolist()))  # int64 might overflow
    return counts.n_bytes / n_tokens


def readable(token: str) -> str:
    """A token as printable text, with Ġ for a space; failing that, in the byte-level alphabet or escaped.

    Example:
        >>> readable("ĠnaÃ¯ve"), readable("Ã"), readable("Ċ"), readable("▁so\\n")
        ('Ġnaïve', 'Ã', 'Ċ', '▁so\\\\n')
    """
    try:
        text = symbols_to_bytes(token).decode().replace(" ", "Ġ")
    except (KeyError, UnicodeDecodeError):  # a special token, or part of a character
        text = token
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in token)
