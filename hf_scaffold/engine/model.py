"""A BPE model with scaffold tokens: as its files spell it, and as numbers."""

from __future__ import annotations

import json
from array import array
from typing import Any, NamedTuple

from hf_scaffold._core.model_reader import ModelReader
from hf_scaffold._core.text_encoder import rules_of
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, ids_of_bytes


class Numbers(NamedTuple):
    """What the compiled encoder takes.

    Args:
        byte_ids: The id of each byte's token, or -1.
        rules: The merges as int32 rows of left, right and merged token.
        replacements: From a scaffold token to the public tokens that replace it.
    """

    byte_ids: array[int]
    rules: memoryview
    replacements: dict[int, list[int]]


class Model:
    """The tokens, the merges and what becomes of scaffold tokens.

    Args:
        vocab: Public token to id.
        merges: Pairs of tokens in rank order, scaffold tokens included.
        demolish: Scaffold token to the public tokens that replace it.
        settings: How text becomes symbols, as in tokenizer.json; those that aren't set are left out.
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
    ) -> None:
        self.vocab, self.merges, self.demolish, self.settings = vocab, merges, demolish, settings
        self.n_tokens, self.n_scaffolds = len(vocab), len(demolish)
        # The first scaffold token's id where ids are numbers: they follow the public ones.
        self.first_scaffold = max(vocab.values(), default=-1) + 1
        self._numbers: Numbers | None = None

    @property
    def numbers(self) -> Numbers:
        """The same as numbers. Tokens must have no prefix.

        Raises:
            KeyError: a token is neither public nor a scaffold.
        """
        if self._numbers is None:
            scaffold_ids = {token: i for i, token in enumerate(self.demolish, self.first_scaffold)}
            public = ([self.vocab[part] for part in parts] for parts in self.demolish.values())
            self._numbers = Numbers(
                byte_ids=ids_of_bytes(self.vocab),
                rules=rules_of(self.merges, self.vocab, scaffold_ids),
                replacements=dict(enumerate(public, self.first_scaffold)),
            )
        return self._numbers


class ModelOfFiles(Model):
    """A model whose numbers were read from its files. Its tokens are made when they are asked for.

    Args:
        reader: Of both files.
    """

    def __init__(self, reader: ModelReader, scaffold_json: bytes, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.n_tokens, self.first_scaffold = reader.n_tokens, reader.first_scaffold
        replacements = reader.replacements
        self.n_scaffolds = len(replacements)
        bytes_in_vocab = {
            symbol: i for symbol in SYMBOL_TO_BYTE if (i := reader.public_id(symbol)) is not None
        }
        self._numbers = Numbers(ids_of_bytes(bytes_in_vocab), reader.rules, replacements)
        self._vocab_json, self._scaffold_json = reader.vocab_json, scaffold_json

    def __getattr__(self, name: str) -> Any:
        if name == "vocab":
            self.vocab = json.loads(self._vocab_json)
        elif name in ("merges", "demolish"):
            scaffold = json.loads(self._scaffold_json)
            self.merges, self.demolish = scaffold["merges"], scaffold["demolish"]
        return object.__getattribute__(self, name)
