"""A BPE model with scaffold tokens: as its files spell it, and as numbers."""

from __future__ import annotations

import json
from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from hf_scaffold._core.model_reader import ModelReader
from hf_scaffold._core.text_encoder import rules_of
from hf_scaffold.methods.steps import Step, compiled_steps
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, ids_of_bytes
from hf_scaffold.text.symbols import BYTE_TOKENS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

METASPACE = "▁"


class Characters(NamedTuple):
    """How a model of characters makes symbols of a pre-token, as the compiled encoder takes it.

    Args:
        ids: Every token's id, scaffold tokens included.
        prefix, suffix: What marks a character that continues a pre-token, and one that ends it.
        unknown: The id of characters without a token, or -1.
        fuse: Whether a run of these gets a single id.
        byte_ids: The id of each byte of such characters, or -1.
        writes_bytes: Whether characters are those that the byte-level alphabet has for a pre-token's bytes.
    """

    ids: dict[str, int]
    prefix: str
    suffix: str
    unknown: int
    fuse: bool
    byte_ids: array[int]
    writes_bytes: bool = False


class Numbers(NamedTuple):
    """What the compiled encoder takes.

    Args:
        byte_ids: The id of each byte's token, or -1.
        rules: The merges as int32 rows of left, right and merged token.
        replacements: From a scaffold token to the public tokens that replace it; or the first scaffold token,
            where the parts of each end, and all parts.
        history, again: As `CompiledSteps` has them.
    """

    byte_ids: array[int]
    rules: NDArray[np.int32] | memoryview
    replacements: dict[int, list[int]] | tuple[int, memoryview, memoryview]
    history: Any = None
    again: Any = None


class Model:
    """The tokens, the merges and what becomes of scaffold tokens.

    Args:
        vocab: Public token to id.
        merges: Pairs of tokens in rank order, scaffold tokens included.
        demolish: Scaffold token to the public tokens that replace it.
        settings: How text becomes symbols, as in tokenizer.json; those that aren't set are left out.
        steps: What decides in place of merging and demolishing, as in PickyBPE; None for most methods.
    """

    vocab: dict[str, int]
    merges: list[list[str]]
    demolish: dict[str, list[str]]

    def __init__(
        self,
        vocab: dict[str, int],
        merges: list[list[str]],
        demolish: dict[str, list[str]],
        settings: dict[str, Any],
        steps: list[Step] | None = None,
    ) -> None:
        self.vocab, self.merges, self.demolish, self.settings = vocab, merges, demolish, settings
        self.steps = steps
        self.n_tokens, self.n_scaffolds = len(vocab), len(demolish)
        # The first scaffold token's id where ids are numbers: they follow the public ones.
        self.first_scaffold = max(vocab.values(), default=-1) + 1
        self._numbers: Numbers | None = None
        self._lengths: array[int] | None = None

    @property
    def lengths(self) -> array[int]:
        """How many symbols the token of each public id has; 0 of an id that no token has."""
        if self._lengths is None:
            lengths = array("i", bytes(4 * self.first_scaffold))
            for token, token_id in self.vocab.items():
                lengths[token_id] = len(token)
            self._lengths = lengths
        return self._lengths

    @property
    def numbers(self) -> Numbers:
        """The same as numbers.

        Raises:
            KeyError: a token is neither public nor a scaffold.
        """
        if self._numbers is None:
            n_prefix = len(self.settings.get("continuing_subword_prefix", ""))
            if self.steps is not None:
                steps = compiled_steps(self.steps, self.vocab | self._scaffold_ids, n_prefix)
                self._numbers = Numbers(ids_of_bytes(self.vocab), *steps)
                return self._numbers
            public = ([self.vocab[part] for part in parts] for parts in self.demolish.values())
            self._numbers = Numbers(
                byte_ids=ids_of_bytes(self.vocab),
                rules=rules_of(self.merges, self.vocab, self._scaffold_ids, n_prefix),
                replacements=dict(enumerate(public, self.first_scaffold)),
            )
        return self._numbers

    @property
    def characters(self) -> Characters:
        """How pre-tokens become symbols where these are characters, not bytes.

        Raises:
            KeyError: the unk_token has no id.
        """
        ids, settings = self.vocab | self._scaffold_ids, self.settings
        unk_token = settings.get("unk_token")
        return Characters(
            ids=ids,
            prefix=settings.get("continuing_subword_prefix", ""),
            suffix=settings.get("end_of_word_suffix", ""),
            unknown=-1 if unk_token is None else ids[unk_token],
            fuse=bool(settings.get("fuse_unk")),
            byte_ids=array("i", [ids.get(token, -1) for token in BYTE_TOKENS])
            if settings.get("byte_fallback")
            else array("i", [-1]) * 256,
        )

    @property
    def parts_at_metaspaces(self) -> bool:
        """Whether text may be encoded in parts, each from a run of "▁" to the next one: no token joins them.

        Nor may characters vanish, which would make others neighbours, or "▁" be the unknown token.
        """
        ids, settings = self.vocab.keys() | self.demolish.keys(), self.settings
        if settings.get("byte_fallback"):
            all_stay = ids >= {*BYTE_TOKENS}
        else:
            all_stay = not settings.get("unk_token", METASPACE).endswith(METASPACE)
        has_affixes = settings.get("continuing_subword_prefix") or settings.get("end_of_word_suffix")
        if has_affixes or not all_stay or METASPACE not in ids:
            return False
        return not any(METASPACE in token and METASPACE in token.lstrip(METASPACE) for token in ids)

    @property
    def _scaffold_ids(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self.demolish, self.first_scaffold)}


class ModelOfFiles(Model):
    """A model whose numbers were read from its files. Its tokens are made when they are asked for.

    Args:
        reader: Of both files.
    """

    def __init__(self, reader: ModelReader, scaffold_json: bytes, settings: dict[str, Any]) -> None:
        self.settings, self.steps = settings, None
        self.n_tokens, self.first_scaffold = reader.n_tokens, reader.first_scaffold
        replacements = reader.replacements
        self.n_scaffolds = len(replacements[1])
        bytes_in_vocab = {
            symbol: i for symbol in SYMBOL_TO_BYTE if (i := reader.public_id(symbol)) is not None
        }
        self._numbers = Numbers(ids_of_bytes(bytes_in_vocab), reader.rules, replacements)
        self._lengths = None
        self._vocab_json, self._scaffold_json = reader.vocab_json, scaffold_json

    def __getattr__(self, name: str) -> Any:
        if name == "vocab":
            self.vocab = json.loads(self._vocab_json)
        elif name in ("merges", "demolish"):
            scaffold = json.loads(self._scaffold_json)
            self.merges, self.demolish = scaffold["merges"], scaffold["demolish"]
        return object.__getattribute__(self, name)
