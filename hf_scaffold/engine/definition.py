"""What encodes a tokenizer's text, read from tokenizer.json and scaffold.json and checked."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from hf_scaffold._core.text_encoder import rules_of
from hf_scaffold._utils.strict_json import parse, shown
from hf_scaffold.errors import ArtifactError

# Above every public id: scaffold tokens have ids from here up where `tokenizers` merges.
FIRST_SCAFFOLD_ID = 1 << 31
# Ids that a vocabulary of any size may use; beyond them they must stay below the length of its JSON.
FREE_IDS = 1 << 16
MODEL_SETTINGS = ("unk_token", "fuse_unk", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")

Entry = dict[str, Any]


class AddedToken(NamedTuple):
    """A token that is found in text before anything else, as in tokenizer.json."""

    id: int
    content: str
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class _Fields(NamedTuple):
    vocab: dict[str, int]
    merges: list[list[str]]
    demolish: dict[str, list[str]]
    added_tokens: list[AddedToken]
    model: Entry
    normalizer: Entry | None
    pre_tokenizer: Entry | None
    decoder: Entry | None
    before: list[int]
    after: list[int]


class Definition(_Fields):
    """A tokenizer as far as ids and text go, checked when it was read.

    Args:
        vocab: Public token to id.
        merges: Pairs of tokens in rank order, scaffold tokens included.
        demolish: Scaffold token to the public tokens that replace it.
        added_tokens: In the order of tokenizer.json.
        model: The BPE settings that say how text becomes symbols; those that aren't set are left out.
        normalizer, pre_tokenizer, decoder: Their entries in tokenizer.json.
        before, after: The ids of the special tokens that frame a text.
    """

    @classmethod
    def parse(cls, tokenizer_json: str | bytes, scaffold_json: str | bytes) -> Definition:
        """The definition in the contents of both files.

        Raises:
            ArtifactError: one of them is malformed, or they don't fit; names the file and the violation.
        Cost: linear in their size.
        """
        tokenizer = _object("tokenizer.json", tokenizer_json)
        _refuse("tokenizer.json can't be used", _tokenizer_violations(tokenizer))
        model = tokenizer["model"]
        model.pop("merges", None)  # the plain BPE's: those of scaffold.json take their memory
        scaffold = _object("scaffold.json", scaffold_json)
        _refuse("scaffold.json can't be used", _scaffold_violations(scaffold))
        before, after = _frame(tokenizer.get("post_processor"))
        definition = cls(
            vocab=model["vocab"],
            merges=scaffold["merges"],
            demolish=scaffold["demolish"],
            added_tokens=[AddedToken(**entry) for entry in tokenizer.get("added_tokens") or []],
            model={name: model[name] for name in MODEL_SETTINGS if model.get(name)},
            normalizer=tokenizer.get("normalizer"),
            pre_tokenizer=tokenizer.get("pre_tokenizer"),
            decoder=tokenizer.get("decoder"),
            before=before,
            after=after,
        )
        if not _fits(definition):
            _refuse("scaffold.json can't be used", _form_violations(scaffold))
            _refuse("scaffold.json does not fit tokenizer.json", _misfits(definition))
        return definition

    def to_bytes(self) -> bytes:
        """For `from_bytes`, in this release; some 500 KB at 32,000 tokens."""
        fields = {**self._asdict(), "added_tokens": [token._asdict() for token in self.added_tokens]}
        return zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Definition:
        """The definition that `to_bytes` wrote."""
        fields = json.loads(zlib.decompress(data))
        fields["added_tokens"] = [AddedToken(**entry) for entry in fields["added_tokens"]]
        return cls(**fields)

    @property
    def first_scaffold(self) -> int:
        """The first scaffold token's id in the compiled encoder, where they follow the public ones."""
        return max(self.vocab.values(), default=-1) + 1

    @property
    def rules(self) -> memoryview:
        """The merges as rows of left, right and merged token: their ids. Tokens must have no prefix.

        Raises:
            KeyError: a token is neither public nor a scaffold.
        """
        kept: memoryview | None = vars(self).get("_rules")
        if kept is None:
            scaffold_ids = {token: i for i, token in enumerate(self.demolish, self.first_scaffold)}
            kept = vars(self)["_rules"] = rules_of(self.merges, self.vocab, scaffold_ids)
        return kept

    @property
    def n_ids(self) -> int:
        """One more than the largest id."""
        return max([self.first_scaffold, *(token.id + 1 for token in self.added_tokens)])

    @property
    def ids(self) -> dict[str, int]:
        """Every public token's id, the added ones included."""
        return self.vocab | {token.content: token.id for token in self.added_tokens}


# ---- the files


def _object(source: str, content: str | bytes) -> Entry:
    try:
        value = parse(content)
    except ValueError as error:  # UnicodeDecodeError included
        raise ArtifactError(f"{source} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{source} holds no JSON object")
    return value


def _refuse(what: str, violations: Iterator[str]) -> None:
    if violation := next(violations, None):
        raise ArtifactError(f"{what}: {violation}")


def _tokenizer_violations(content: Entry) -> Iterator[str]:
    """What keeps a tokenizer.json from being read: after the first one, nothing is certain."""
    model = content.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE":
        yield f"the model is {shown(model.get('type') if isinstance(model, dict) else model)}, not BPE"
        return
    vocab: Any = model.get("vocab")
    added = content.get("added_tokens") or []
    if not isinstance(vocab, dict) or not {int}.issuperset(map(type, vocab.values())):
        yield "model.vocab must map tokens to ids"
    if not isinstance(added, list) or not all(map(_is_added_token, added)):
        yield "added_tokens must be a list of objects with id, content, single_word, lstrip, rstrip, …"
    yield from _id_violations(vocab, added)
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if not isinstance(content.get(name), dict | None):
            yield f"{name} must be an object or null"
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if not isinstance(model.get(name), str | None):
            yield f"model.{name} must be a string or null"
    try:
        framing = {token_id for side in _frame(content.get("post_processor")) for token_id in side}
    except (KeyError, TypeError, ValueError) as error:
        yield f"post_processor can't be read: {type(error).__name__}: {error}"
    else:
        if unknown := framing and framing - {*vocab.values()} - {entry["id"] for entry in added}:
            yield f"the post-processor adds the id {min(unknown)}, which no token has"


def _is_added_token(entry: Any) -> bool:
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return (
        isinstance(entry, dict)
        and entry.keys() == {"id", "content", *flags}
        and type(entry["id"]) is int
        and isinstance(entry["content"], str)
        and all(isinstance(entry[flag], bool) for flag in flags)
    )


def _id_violations(vocab: dict[str, int], added: list[Entry]) -> Iterator[str]:
    """Ids that two tokens share, or that are far above the number of tokens."""
    others = [(entry["content"], entry["id"]) for entry in added]
    others = [(token, token_id) for token, token_id in others if vocab.get(token) != token_id]
    ids = [*vocab.values(), *(token_id for _, token_id in others)]
    if sorted(ids) == [*range(len(ids))]:  # nearly always
        return
    owners: dict[int, str] = {}
    for token, token_id in chain(vocab.items(), others):
        if owners.setdefault(token_id, token) != token:
            yield f"{shown(owners[token_id])} and {shown(token)} share the id {token_id}"
    limit = min(max(FREE_IDS, sum(map(len, vocab)) + 5 * len(vocab)), FIRST_SCAFFOLD_ID)
    for token_id in (min(owners), max(owners)):
        if not 0 <= token_id < limit:
            yield f"the id of {shown(owners[token_id])} is {token_id}: it must be from 0 to {limit - 1:,}"


def _scaffold_violations(content: Entry) -> Iterator[str]:
    if content.get("version") != 1 or type(content["version"]) is not int:
        yield f"version is {shown(content.get('version'))}, not 1; update hf_scaffold"
    for name in ("merges", "demolish"):
        if name not in content:
            yield f"{name} is missing"


def _form_violations(content: Entry) -> Iterator[str]:
    merges, demolish = content["merges"], content["demolish"]
    if not isinstance(merges, list) or not _are_tokens(merges) or not {2}.issuperset(map(len, merges)):
        yield "merges must be a list of [left, right]"
    if not isinstance(demolish, dict) or not _are_tokens(demolish.values()):
        yield "demolish must map scaffold tokens to lists of tokens"


def _are_tokens(rows: Collection[Any]) -> bool:
    """Whether each is a list of strings, none of them empty."""
    if not {list}.issuperset(map(type, rows)):
        return False
    return {str}.issuperset(map(type, chain.from_iterable(rows))) and all(chain.from_iterable(rows))


def _fits(definition: Definition) -> bool:
    """Whether the merges and the demolish map are sure to be well-formed, and to fit the vocabulary.

    This takes a third of the time of the checks that name what is wrong, which are for whatever fails here.
    """
    vocab, merges, demolish = definition.vocab, definition.merges, definition.demolish
    if definition.model.get("continuing_subword_prefix"):
        return False
    try:
        first_scaffold = definition.first_scaffold
        # No rule makes the id of a scaffold token that is public, too: it makes the public one.
        made = definition.rules.cast("B").cast("i")[2::3] if merges else ()
        return (
            {list}.issuperset(map(type, chain(merges, demolish.values())))
            and "" not in vocab
            and len({token_id for token_id in made if token_id >= first_scaffold}) == len(demolish)
            and vocab.keys() >= {*chain.from_iterable(demolish.values())}
            and [*map("".join, demolish.values())] == [*demolish]
        )
    except (AttributeError, LookupError, OverflowError, TypeError, ValueError):
        return False


def _misfits(definition: Definition) -> Iterator[str]:
    """What in scaffold.json names a token that isn't there, or spells something else."""
    vocab, merges, demolish = definition.vocab, definition.merges, definition.demolish
    prefix = definition.model.get("continuing_subword_prefix", "")
    n = len(prefix)
    made = [left + right[n:] for left, right in merges]
    known = vocab.keys() | demolish.keys()
    for rank, (left, right) in enumerate(merges):
        if not (known >= {left, right, made[rank]} and right.startswith(prefix)):
            pair = f"({shown(left)}, {shown(right)})"
            yield f"merges[{rank}], {pair}, names or makes a token that is neither public nor a scaffold"
    if unmade := demolish.keys() - made:
        yield f"no merge makes the scaffold token {shown(min(unmade))}"
    if public := demolish.keys() & vocab.keys():
        yield f"{shown(min(public))} is demolished, though it is a public token"
    for token, parts in demolish.items():
        if not vocab.keys() >= {*parts}:
            yield f"{shown(token)} is demolished to {shown(parts)}, and not all of these are public tokens"
        if not parts or parts[0] + "".join([part[n:] for part in parts[1:]]) != token:
            yield f"{shown(token)} is demolished to {shown(parts)}, which spells something else"


# ---- the post-processor


def _frame(entry: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """The ids that a post-processor puts before and after a single text.

    Raises:
        KeyError, TypeError, ValueError: it is none that `tokenizers` knows, or leaves the text out.
    Example:
        >>> _frame({"type": "BertProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]})
        ([0], [2])
    """
    if entry is None or entry["type"] == "ByteLevel":
        return [], []
    if entry["type"] in ("BertProcessing", "RobertaProcessing"):
        return [_token_id(entry["cls"][1])], [_token_id(entry["sep"][1])]
    if entry["type"] == "Sequence":
        before: list[int] = []
        after: list[int] = []
        for part in entry["processors"]:
            outer_before, outer_after = _frame(part)
            before, after = outer_before + before, after + outer_after
        return before, after
    if entry["type"] != "TemplateProcessing":
        raise ValueError(f"unknown type {shown(entry['type'])}")
    pieces = entry["single"]
    places = [i for i, piece in enumerate(pieces) if "Sequence" in piece]
    if len(places) != 1 or pieces[places[0]]["Sequence"]["id"] != "A":
        raise ValueError("the template must have the text once")
    specials = entry["special_tokens"]
    before, after = (
        [_token_id(i) for piece in side for i in specials[piece["SpecialToken"]["id"]]["ids"]]
        for side in (pieces[: places[0]], pieces[places[0] + 1 :])
    )
    return before, after


def _token_id(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"an id is {shown(value)}")
    return value
