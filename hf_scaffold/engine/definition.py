"""What encodes a tokenizer's text, read from tokenizer.json and scaffold.json and checked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, NamedTuple

from hf_scaffold._core.model_reader import ModelReader
from hf_scaffold._utils.strict_json import parse, shown
from hf_scaffold.engine.model import Model, ModelOfFiles
from hf_scaffold.errors import ArtifactError
from hf_scaffold.methods.steps import Step, step_violations, steps_as_json, steps_from_json

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


class Definition(NamedTuple):
    """A tokenizer as far as ids and text go, checked when it was read.

    Args:
        model: The BPE model.
        added_tokens: In the order of tokenizer.json.
        normalizer, pre_tokenizer, decoder: Their entries in tokenizer.json.
        before, after: The ids of the special tokens that frame a text.
    """

    model: Model
    added_tokens: list[AddedToken]
    normalizer: Entry | None
    pre_tokenizer: Entry | None
    decoder: Entry | None
    before: list[int]
    after: list[int]

    @classmethod
    def parse(cls, tokenizer_json: str | bytes, scaffold_json: str | bytes) -> Definition:
        """The definition in the contents of both files.

        Raises:
            ArtifactError: one of them is malformed, or they don't fit; names the file and the violation.
        Cost: linear in their size.
        """
        usual = cls._parse_usual(tokenizer_json, scaffold_json)
        return cls._parse_any(tokenizer_json, scaffold_json) if usual is None else usual

    @classmethod
    def _parse_usual(cls, tokenizer_json: str | bytes, scaffold_json: str | bytes) -> Definition | None:
        """What nearly all files take; None if these don't, and may have anything wrong."""
        try:
            contents = [
                content.encode() if isinstance(content, str) else bytes(content)
                for content in (tokenizer_json, scaffold_json)
            ]
            reader = ModelReader(*contents)
            tokenizer, scaffold = (_object("", content) for content in reader.rest)
            _refuse("", _tokenizer_violations(tokenizer))
            _refuse("", _scaffold_violations(scaffold))
            if "steps" in scaffold:
                return None
            settings = _settings(tokenizer["model"])
            others = [i for token, i in _added_ids(tokenizer) if reader.public_id(token) != i]
            framing = chain(*_frame(tokenizer.get("post_processor")))
            if (
                "continuing_subword_prefix" not in settings
                and reader.fill(others)
                and all(0 <= i < reader.n_tokens + len(others) for i in framing)
            ):
                return cls._of(ModelOfFiles(reader, contents[1], settings), tokenizer)
        except (ValueError, OverflowError):  # ArtifactError included
            pass
        return None

    @classmethod
    def _parse_any(cls, tokenizer_json: str | bytes, scaffold_json: str | bytes) -> Definition:
        tokenizer = _object("tokenizer.json", tokenizer_json)
        _refuse("tokenizer.json can't be used", _tokenizer_violations(tokenizer))
        _refuse("tokenizer.json can't be used", _id_violations(tokenizer))
        tokenizer["model"].pop("merges", None)  # the plain BPE's: those of scaffold.json take their memory
        scaffold = _object("scaffold.json", scaffold_json)
        _refuse("scaffold.json can't be used", _scaffold_violations(scaffold))
        _refuse("scaffold.json can't be used", _form_violations(scaffold))
        entry = tokenizer["model"]
        model = Model(
            entry["vocab"], scaffold["merges"], scaffold["demolish"], _settings(entry), _steps(scaffold)
        )
        _refuse("scaffold.json does not fit tokenizer.json", _misfits(model))
        return cls._of(model, tokenizer)

    @classmethod
    def _of(cls, model: Model, tokenizer: Entry) -> Definition:
        before, after = _frame(tokenizer.get("post_processor"))
        return cls(
            model=model,
            added_tokens=[AddedToken(**entry) for entry in tokenizer.get("added_tokens") or []],
            normalizer=tokenizer.get("normalizer"),
            pre_tokenizer=tokenizer.get("pre_tokenizer"),
            decoder=tokenizer.get("decoder"),
            before=before,
            after=after,
        )

    def to_bytes(self) -> bytes:
        """For `from_bytes`, in this release; some 500 KB at 32,000 tokens."""
        import zlib

        model = [self.model.vocab, self.model.merges, self.model.demolish, self.model.settings]
        if self.model.steps is not None:
            model.append(steps_as_json(self.model.steps))
        fields = [model, [*map(list, self.added_tokens)], *self[2:]]
        return zlib.compress(json.dumps(fields, separators=(",", ":")).encode(), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Definition:
        """The definition that `to_bytes` wrote."""
        import zlib

        model, added_tokens, *others = json.loads(zlib.decompress(data))
        model[4:] = map(steps_from_json, model[4:])
        return cls(Model(*model), [AddedToken(*token) for token in added_tokens], *others)

    @property
    def n_ids(self) -> int:
        """One more than the largest id."""
        return max([self.model.first_scaffold, *(token.id + 1 for token in self.added_tokens)])

    @property
    def ids(self) -> dict[str, int]:
        """Every public token's id, the added ones included."""
        return self.model.vocab | {token.content: token.id for token in self.added_tokens}


# ---- the files


def _object(source: str, content: str | bytes) -> Entry:
    try:
        text = content if isinstance(content, str) else bytes(content).decode()
        value = parse(text)
        # A lone surrogate is no text.
        (json.dumps(value, ensure_ascii=False) if "\\u" in text else text).encode()
    except (ValueError, RecursionError) as error:
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
    added = content.get("added_tokens") or []
    if not isinstance(added, list) or not all(map(_is_added_token, added)):
        yield "added_tokens must be a list of objects with id, content, single_word, lstrip, rstrip, …"
    contents = Counter(token for token, _ in _added_ids(content))
    if twice := next((token for token, n in contents.items() if n > 1), None):
        yield f"the added token {shown(twice)} is there twice"
    for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        if not isinstance(content.get(name), dict | None):
            yield f"{name} must be an object or null"
    for name in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix"):
        if not isinstance(model.get(name), str | None):
            yield f"model.{name} must be a string or null"
    try:
        _frame(content.get("post_processor"))
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        yield f"post_processor can't be read: {type(error).__name__}: {error}"


def _settings(model: Entry) -> Entry:
    return {name: model[name] for name in MODEL_SETTINGS if model.get(name)}


def _added_ids(content: Entry) -> list[tuple[str, int]]:
    return [(entry["content"], entry["id"]) for entry in content.get("added_tokens") or []]


def _is_added_token(entry: Any) -> bool:
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    return (
        isinstance(entry, dict)
        and entry.keys() == {"id", "content", *flags}
        and type(entry["id"]) is int
        and isinstance(entry["content"], str)
        and all(isinstance(entry[flag], bool) for flag in flags)
    )


def _id_violations(content: Entry) -> Iterator[str]:
    """Ids that two tokens share, that are far above the number of tokens, or that no token has."""
    vocab = content["model"].get("vocab")
    if not isinstance(vocab, dict) or not {int}.issuperset(map(type, vocab.values())):
        yield "model.vocab must map tokens to ids"
        return
    others = [(token, token_id) for token, token_id in _added_ids(content) if vocab.get(token) != token_id]
    owners: dict[int, str] = {}
    for token, token_id in chain(vocab.items(), others):
        if owners.setdefault(token_id, token) != token:
            yield f"{shown(owners[token_id])} and {shown(token)} share the id {token_id}"
    limit = min(max(FREE_IDS, sum(map(len, vocab)) + 5 * len(vocab)), FIRST_SCAFFOLD_ID)
    for token_id in (min(owners), max(owners)) if owners else ():
        if not 0 <= token_id < limit:
            yield f"the id of {shown(owners[token_id])} is {token_id}: it must be from 0 to {limit - 1:,}"
    if unknown := {*chain(*_frame(content.get("post_processor")))} - owners.keys():
        yield f"the post-processor adds the id {min(unknown)}, which no token has"


def _scaffold_violations(content: Entry) -> Iterator[str]:
    expected = 2 if "steps" in content else 1
    if content.get("version") != expected or type(content["version"]) is not int:
        yield f"version is {shown(content.get('version'))}, not {expected}; update hf_scaffold"
    for name in ("merges", "demolish"):
        if name not in content:
            yield f"{name} is missing"


def _form_violations(content: Entry) -> Iterator[str]:
    merges, demolish = content["merges"], content["demolish"]
    if not isinstance(merges, list) or not _are_tokens(merges) or not {2}.issuperset(map(len, merges)):
        yield "merges must be a list of [left, right]"
    if not isinstance(demolish, dict) or not _are_tokens(demolish.values()):
        yield "demolish must map scaffold tokens to lists of tokens"


def _steps(content: Entry) -> list[Step] | None:
    try:
        return steps_from_json(content["steps"]) if "steps" in content else None
    except ValueError as error:
        raise ArtifactError(f"scaffold.json can't be used: {error}") from None


def _are_tokens(rows: Collection[Any]) -> bool:
    """Whether each is a list of strings, none of them empty."""
    if not {list}.issuperset(map(type, rows)):
        return False
    return {str}.issuperset(map(type, chain.from_iterable(rows))) and all(chain.from_iterable(rows))


def _misfits(model: Model) -> Iterator[str]:
    """What in scaffold.json names a token that isn't there, or spells something else."""
    vocab, merges, demolish = model.vocab, model.merges, model.demolish
    prefix = model.settings.get("continuing_subword_prefix", "")
    n = len(prefix)
    made = [left + right[n:] for left, right in merges]
    known = vocab.keys() | demolish.keys()
    seen = set()
    for rank, (left, right) in enumerate(merges):
        if (left, right) in seen:
            yield f"merges[{rank}], ({shown(left)}, {shown(right)}), is there twice"
        seen.add((left, right))
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
    yield from step_violations(model.steps or (), known, n)


# ---- the post-processor


def _frame(entry: Mapping[str, Any] | None) -> tuple[list[int], list[int]]:
    """The ids that a post-processor puts before and after a single text.

    Raises:
        LookupError, TypeError, ValueError, AttributeError, RecursionError: it is none that `tokenizers`
            knows, or leaves the text out.
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
