"""Where two tokenizers that cut text alike encode it differently: how often, and a passage to show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.training.agreement import rows_alike
from hf_scaffold.training.artifact import ScaffoldBPE

SEARCHED = 300_000  # characters at the start of a text that are searched for a passage
SHORTEST, LONGEST = 400, 800  # characters of a passage; a text may be shorter
EXCERPT = 24  # pre-tokens of a passage that stand in the box of a page at first

_CUTS = re.compile(rf"\S.{{0,{LONGEST - 1}}}(?=\s|\Z)|\S.{{{LONGEST - 1}}}", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """A pre-token as plain BPE and as Scaffold-BPE encodes it, spelled as in their vocabularies."""

    plain: tuple[str, ...]
    scaffold: tuple[str, ...]

    @property
    def differs(self) -> bool:
        """Whether the tokens are not the same."""
        return self.plain != self.scaffold

    @property
    def text(self) -> str:
        """The pre-token; U+FFFD stands for bytes that are no UTF-8."""
        return symbols_to_bytes("".join(self.scaffold)).decode(errors="replace")

    @property
    def is_word(self) -> bool:
        """Whether it has a letter or digit: not a run of white space or of signs."""
        return any(char.isalnum() for char in self.text)


@dataclass(frozen=True)
class Passage:
    """A passage of a text, pre-token by pre-token.

    Args:
        origin: The text that it is from, or "given".
    """

    text: str
    origin: str
    pieces: tuple[Piece, ...]

    @property
    def n_tokens(self) -> tuple[int, int]:
        """Tokens of plain BPE and of Scaffold-BPE."""
        return sum(len(piece.plain) for piece in self.pieces), sum(len(p.scaffold) for p in self.pieces)

    @property
    def n_words(self) -> int:
        """Pre-tokens that are words."""
        return sum(piece.is_word for piece in self.pieces)

    @property
    def n_differing(self) -> int:
        """Words that the two encode differently."""
        return sum(piece.differs and piece.is_word for piece in self.pieces)

    def excerpt(self, n_pieces: int = EXCERPT) -> str:
        """So many pre-tokens in a row, among which most words differ; on a tie the first."""
        differing = [piece.differs and piece.is_word for piece in self.pieces]
        begins = range(max(1, len(differing) - n_pieces + 1))
        begin = max(begins, key=lambda begin: sum(differing[begin : begin + n_pieces]))
        return "".join(piece.text for piece in self.pieces[begin : begin + n_pieces]).strip()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        counted = {"n_tokens": self.n_tokens, "n_words": self.n_words, "n_differing": self.n_differing}
        return {**asdict(self), **counted}


def split_passage(text: str, origin: str, plain: ScaffoldBPE, scaffold: ScaffoldBPE) -> Passage:
    """Encode a passage with both.

    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({b"hug": 10, b"pug": 5, b"hugs": 5, b"on": 7})
        >>> plain, scaffold = (hs.train(counts, vocab_size=258, scaffold=kind) for kind in (False, True))
        >>> split_passage("bug", "given", plain, scaffold).pieces
        (Piece(plain=('b', 'ug'), scaffold=('b', 'u', 'g')),)
    """
    pretokens = scaffold.pre_tokenizer.pre_tokenize(text)
    rows = zip(_encoded(plain, pretokens), _encoded(scaffold, pretokens), strict=True)
    return Passage(text, origin, tuple(Piece(*row) for row in rows))


def _encoded(bpe: ScaffoldBPE, pretokens: list[bytes]) -> Iterator[tuple[str, ...]]:
    return (tuple(bpe.tokens[token_id] for token_id in ids) for ids in bpe.encode(pretokens))


def choose_passage(documents: Iterable[str], plain: ScaffoldBPE, scaffold: ScaffoldBPE) -> str:
    """The passage near the start of a text in which most words differ; on a tie the first."""
    best, most = "", -1
    for passage in _passages(documents):
        differing = split_passage(passage, "", plain, scaffold).n_differing
        if differing > most:
            best, most = passage, differing
    return best


def _passages(documents: Iterable[str]) -> Iterator[str]:
    """Passages of whole lines unless these are too long; none spans documents."""
    searched = 0
    for document in documents:
        passage = ""
        for line in document.splitlines(keepends=True):
            passage += line
            if len(passage) >= SHORTEST:
                yield from _CUTS.findall(passage)
                passage = ""
            searched += len(line)
            if searched >= SEARCHED:
                return
        yield from _CUTS.findall(passage)


def differing_share(plain: ScaffoldBPE, scaffold: ScaffoldBPE, counts: PreTokenCounts) -> float:
    """Share of pre-tokens, weighted by counts, that the two encode differently.

    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({b"hug": 10, b"pug": 5, b"hugs": 5, b"on": 7})
        >>> plain, scaffold = (hs.train(counts, vocab_size=258, scaffold=kind) for kind in (False, True))
        >>> differing_share(plain, scaffold, counts)  # "pug" and "on": 12 of 27
        0.4444444444444444
    """
    ids, ends = plain.pretoken_encoder.encode(counts.data, counts.offsets)
    alike = rows_alike(
        (_renumbered(plain, scaffold)[ids], ends),
        scaffold.pretoken_encoder.encode(counts.data, counts.offsets),
    )
    differing: int = sum(counts.counts[~alike].tolist())
    return differing / counts.total


def _renumbered(bpe: ScaffoldBPE, other: ScaffoldBPE) -> NDArray[np.int32]:
    """For each id the other's id of the same token, or -1."""
    ids = {token: token_id for token_id, token in enumerate(other.tokens)}
    return np.array([ids.get(token, -1) for token in bpe.tokens], np.int32)
