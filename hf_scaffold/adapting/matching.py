"""Which token of one tokenizer is which of another, and what the first one makes of the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, symbols_to_bytes

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

# In the order in which a token of several roles is taken for one of them.
ROLES = ("eos", "bos", "unk", "sep", "pad", "cls", "mask")

_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_LONE_BYTE = re.compile("([\udc80-\udcff])")  # of bytes that are no UTF-8, decoded by "surrogateescape"


@dataclass(frozen=True)
class Tokens:
    """The tokens of a fast tokenizer, and the bytes that they stand for.

    Args:
        tokenizer: Not modified.
        state: Its tokenizer.json.
        vocab: Token to id, added tokens included.
        added: The ids of added tokens, which text holds as they are spelled.
    """

    tokenizer: PreTrainedTokenizerFast
    state: dict[str, Any]
    vocab: dict[str, int]
    added: frozenset[int]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerFast) -> Tokens:
        from hf_scaffold.tokenization_scaffold import backend_of

        state = json.loads(backend_of(tokenizer).to_str())
        added = frozenset(token["id"] for token in state["added_tokens"])
        return cls(tokenizer, state, tokenizer.get_vocab(), added)

    @cached_property
    def n_ids(self) -> int:
        """One more than the largest id."""
        return max(self.vocab.values(), default=-1) + 1

    @cached_property
    def alphabet(self) -> str:
        """How tokens spell text: "bytes" in GPT-2's alphabet, "metaspace" with ▁ for a space, or "plain"."""
        steps = [self.state[step] for step in ("normalizer", "pre_tokenizer", "decoder")]
        spelled = json.dumps(steps, ensure_ascii=False)
        return "bytes" if '"ByteLevel"' in spelled else "metaspace" if "▁" in spelled else "plain"

    @cached_property
    def contents(self) -> dict[tuple[bool, bytes], int]:
        """Whether a token is an added one, and its bytes, to its id; of several the first one spelled out."""
        found: dict[tuple[bool, bytes], int] = {}
        for token, token_id in self.in_order:
            found.setdefault((token_id in self.added, self.content(token, token_id)), token_id)
        return found

    @cached_property
    def in_order(self) -> list[tuple[str, int]]:
        """Tokens by id, but those of single bytes, `<0x0A>`, last."""
        return sorted(self.vocab.items(), key=lambda item: (bool(_BYTE_TOKEN.fullmatch(item[0])), item[1]))

    def content(self, token: str, token_id: int) -> bytes:
        """The bytes of text that a token stands for."""
        if token_id in self.added:
            return token.encode()
        if self.alphabet == "bytes" and SYMBOL_TO_BYTE.keys() >= set(token):
            return symbols_to_bytes(token)
        if self.alphabet == "metaspace":
            if match := _BYTE_TOKEN.fullmatch(token):
                return bytes.fromhex(match[1])
            return token.replace("▁", " ").encode()
        return token.encode()

    def text(self, token: str, token_id: int) -> str:
        """A token's text, without `##` and `</w>`; bytes that are no UTF-8 are surrogates."""
        if token_id not in self.added:
            model = self.state["model"]
            token = token.removeprefix(model.get("continuing_subword_prefix") or "")
            token = token.removesuffix(model.get("end_of_word_suffix") or "")
        return self.content(token, token_id).decode("utf-8", "surrogateescape")

    def role(self, name: str) -> int | None:
        """The id of the token that has a role, such as "eos"."""
        token = getattr(self.tokenizer, f"{name}_token")
        return None if token is None else self.vocab.get(str(token))


def match_tokens(old: Tokens, new: Tokens) -> NDArray[np.int64]:
    """Old id to new id, -1 for those that have none: tokens match if they stand for the same bytes.

    An added token matches an added one first, a byte in `<0x0A>` itself. Each new token matches one old one.

    Example:
        >>> from tokenizers import Tokenizer, models
        >>> from transformers import PreTrainedTokenizerFast
        >>> def tokens(*vocab):
        ...     model = models.BPE({token: i for i, token in enumerate(vocab)}, [])
        ...     return Tokens.of(PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model)))
        >>> match_tokens(tokens("a", "b", "c"), tokens("c", "a", "ä")).tolist()
        [1, -1, 0]
    """
    remap = np.full(old.n_ids, -1, np.int64)
    same_alphabet = old.alphabet == new.alphabet
    left: list[tuple[bytes, bool, int]] = []
    for token, new_id in new.in_order:
        content, is_added = new.content(token, new_id), new_id in new.added
        if same_alphabet or is_added:
            old_id = old.vocab.get(token, -1)
        else:
            old_id = old.contents.get((False, content), -1)
        if old_id >= 0 and (old_id in old.added) == is_added and remap[old_id] < 0:
            remap[old_id] = new_id
        else:
            left.append((content, is_added, new_id))
    for content, is_added, new_id in left:
        old_id = old.contents.get((not is_added, content), -1)
        if old_id >= 0 and remap[old_id] < 0:
            remap[old_id] = new_id
    return remap


def pieces_of(old: Tokens, new: Tokens, ids: Iterable[int]) -> dict[int, list[int]]:
    """What the old tokenizer makes of new tokens: new id to old ids; none where it knows nothing of the text.

    A new token that takes over a role from an old one that is gone has that one as its only piece.

    Args:
        ids: Those of new tokens without an old one.
    Cost: the old tokenizer encodes the text of each token.
    """
    spelled = {token_id: token for token, token_id in new.vocab.items()}
    heirs = {heir: [old_id] for old_id, heir in heirs_of(old, new).items()}
    encoder = _without_prefixes(old)
    unknown = old.role("unk")
    normal = {content: token_id for (is_added, content), token_id in old.contents.items() if not is_added}
    texts = {i: _LONE_BYTE.split(new.text(spelled[i], i)) for i in ids if i not in heirs}
    parts = sorted({part for split in texts.values() for part in split[::2] if part})
    rows = encoder(parts, add_special_tokens=False)["input_ids"] if parts else []
    encoded = dict(zip(parts, rows, strict=True))

    def pieces(split: list[str]) -> Iterator[int]:
        for number, part in enumerate(split):
            if number % 2:
                byte = part.encode("utf-8", "surrogateescape")
                yield from [normal[byte]] if byte in normal else []
            elif part:
                yield from (i for i in encoded[part] if i != unknown)

    found = {token_id: list(pieces(split)) for token_id, split in texts.items()}
    return found | {i: heirs[i] for i in ids if i in heirs}


def heirs_of(old: Tokens, new: Tokens) -> dict[int, int]:
    """Old id to new id where one token takes over the role of another that has another text."""
    roles = ((old.role(name), new.role(name)) for name in reversed(ROLES))
    spelled = {token_id: token for token, token_id in old.vocab.items()}
    return {
        before: after
        for before, after in roles
        if before is not None and after is not None and new.vocab.get(spelled[before]) != after
    }


def _without_prefixes(old: Tokens) -> Any:
    """A tokenizer that encodes as the old one does inside a text: it puts no space before the first word."""
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import is_scaffold

    def inside(part: Any) -> Any:
        if isinstance(part, list):
            return [inside(each) for each in part if each is None or each["type"] != "Prepend"]
        if not isinstance(part, dict):
            return part
        never = {"add_prefix_space": False, "prepend_scheme": "never"}
        return {name: never.get(name, inside(value)) for name, value in part.items()}

    state = {**old.state, "post_processor": None, "truncation": None, "padding": None}
    for step in ("normalizer", "pre_tokenizer"):
        (state[step],) = inside([state[step]]) or [None]
    settings: dict[str, Any] = {"tokenizer_object": Tokenizer.from_str(json.dumps(state))}
    if is_scaffold(old.tokenizer):
        return type(old.tokenizer)(**settings, scaffold=old.tokenizer.scaffold)
    return PreTrainedTokenizerFast(**settings)  # type: ignore[no-untyped-call]  # it has no annotations
