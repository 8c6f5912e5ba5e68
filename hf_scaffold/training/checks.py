"""What an artifact must be: the first violation is refused by name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import NoneType
from typing import Any

import numpy as np

from hf_scaffold._utils.strict_json import shown, why_not_json
from hf_scaffold.errors import ArtifactError
from hf_scaffold.methods.steps import Removed, step_violations
from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.text.symbols import NO_AFFIXES, Pair
from hf_scaffold.training.log import TrainingLog
from hf_scaffold.training.parts import AGREEMENTS, CHARACTER_SETTINGS, Parts, derive_demolish_map


def check(bpe: Parts) -> None:
    """Refuse parts that contradict each other.

    Raises:
        ArtifactError: names the part and its entry.
    """
    _check_types(bpe)
    _check_symbols(bpe)
    _check_vocab(bpe)
    _check_demolish_map(bpe)
    _check_merges(bpe)
    _check_demolished_as_merged(bpe)
    _check_raw_splits(bpe)
    _check_raw_merges(bpe)
    _check_raw_agreements(bpe)
    _check_steps(bpe)
    _check_training(bpe)
    _check_log(bpe)


def _check_types(bpe: Parts) -> None:
    """Refuse what no later check could be asked about; a field's annotation says what it must be."""
    is_right = {
        "merges": isinstance(bpe.merges, list) and are_tokens(bpe.merges, pairs=True),
        "vocab": isinstance(bpe.vocab, dict)
        and _are_all(bpe.vocab, str)
        and {*map(type, bpe.vocab.values())} <= {int},
        "demolish": _maps_to_tokens(bpe.demolish_map),
        "special_tokens": isinstance(bpe.special_tokens, list) and _are_all(bpe.special_tokens, str),
        "pre_tokenizer": isinstance(bpe.pre_tokenizer, PreTokenizer),
        "raw_splits": _maps_to_tokens(bpe.raw_splits, pairs=True),
        "raw_merges": bpe.raw_merges is None
        or (isinstance(bpe.raw_merges, list) and are_tokens(bpe.raw_merges, pairs=True)),
        **{name: type(getattr(bpe, name)) in (int, float, NoneType) for name in AGREEMENTS},
        "steps": bpe.steps is None or _are_steps(bpe.steps),
        "stop_reason": isinstance(bpe.stop_reason, str | None),
        "unk_token": isinstance(bpe.unk_token, str | None),
        "fuse_unk": isinstance(bpe.fuse_unk, bool),
        "byte_fallback": isinstance(bpe.byte_fallback, bool),
        "continuing_subword_prefix": isinstance(bpe.continuing_subword_prefix, str | None),
        "end_of_word_suffix": isinstance(bpe.end_of_word_suffix, str | None),
        "log": isinstance(bpe.log, TrainingLog | None),
    }
    for name, is_so in is_right.items():
        if not is_so:
            part = next(part for part in fields(bpe) if part.name in (name, f"{name}_map"))
            raise ArtifactError(
                f"{name}: {shown(getattr(bpe, part.name))} is not of the form {part.type} that it must have"
            )


def _maps_to_tokens(value: object, pairs: bool = False) -> bool:
    return isinstance(value, dict) and _are_all(value, str) and are_tokens([*value.values()], pairs)


def _are_steps(steps: object) -> bool:
    if not isinstance(steps, list):
        return False
    removals = [step for step in steps if isinstance(step, Removed)]
    merges = [step for step in steps if not isinstance(step, Removed)]
    are_removed = all(isinstance(step.token, str) and step.parts for step in removals)
    return are_removed and are_tokens(merges, pairs=True) and are_tokens([step.parts for step in removals])


def are_tokens(rows: list[Any], pairs: bool = False) -> bool:
    """Whether these are tuples of tokens, or pairs of them. They are many: no loop in Python."""
    if not _are_all(rows, tuple) or (pairs and not {*map(len, rows)} <= {2}):
        return False
    tokens = itertools.chain.from_iterable
    return _are_all(tokens(rows), str) and "" not in tokens(rows)


def _are_all(values: Iterable[object], kind: type) -> bool:
    return all(issubclass(found, kind) for found in {*map(type, values)})


def _check_symbols(bpe: Parts) -> None:
    for name in CHARACTER_SETTINGS:
        if getattr(bpe, name) and not bpe.by_character:
            raise ArtifactError(f"{name} is {getattr(bpe, name)!r}, but the alphabet is bytes")
    if bpe.unk_token is not None and bpe.unk_token not in bpe.special_tokens:
        raise ArtifactError(f"unk_token: {bpe.unk_token!r} is no special token")
    if bpe.byte_fallback and (bpe.affixes != NO_AFFIXES or bpe.pre_tokenizer.writes_bytes):
        raise ArtifactError(
            "byte_fallback goes neither with affixes nor with a pre-tokenizer that writes bytes"
        )


def _check_vocab(bpe: Parts) -> None:
    is_dense = [*bpe.vocab.values()] == [*range(len(bpe.vocab))] and "" not in bpe.vocab
    for position, (token, token_id) in enumerate(() if is_dense else bpe.vocab.items()):
        if token_id != position:
            raise ArtifactError(
                f"vocab: {shown(token)} has id {shown(token_id)} where {position} was expected; ids are dense"
            )
        if not token:
            raise ArtifactError(f"vocab: the token with id {token_id} is empty")
    for position, token in enumerate(bpe.fixed_tokens):
        if bpe.vocab.get(token) != position:
            where = "special_tokens" if position < len(bpe.special_tokens) else "byte_fallback"
            raise ArtifactError(f"{where}: {token!r} must have id {position}, not {bpe.vocab.get(token)}")


def _check_merges(bpe: Parts) -> None:
    if not _are_made_in_order(bpe):
        _refuse_merges(bpe)


def _are_made_in_order(bpe: Parts) -> bool:
    """Whether `_refuse_merges` would find nothing to refuse, in a tenth of the time."""
    vocab, merges, prefix = bpe.vocab, bpe.merges, bpe.affixes.prefix
    try:
        rules = bpe.rules
    except KeyError:  # a token is not in the vocabulary
        return False
    pairs = rules[:, 0].astype(np.int64) << 32 | rules[:, 1]
    if len(np.unique(pairs)) < len(merges) or not (
        not prefix or all(right.startswith(prefix) for _, right in merges)
    ):
        return False
    n_fixed, n_rules = len(bpe.fixed_tokens), len(merges)
    ranks = np.arange(n_rules)
    made_at = np.full(len(vocab), n_rules)
    made_at[rules[::-1, 2]] = ranks[::-1]  # of several rules for a token the first
    is_symbol = np.fromiter(map(bpe.symbols.__contains__, vocab), bool, len(vocab))
    others = np.flatnonzero(~is_symbol[n_fixed:]) + n_fixed
    normal, scaffolds = np.split(made_at[others], [np.searchsorted(others, bpe.vocab_size)])
    return bool(
        np.all(rules >= n_fixed)
        and all(np.all(is_symbol[part] | (made_at[part] < ranks)) for part in (rules[:, 0], rules[:, 1]))
        and np.all(made_at[others] < n_rules)
        and np.all(np.diff(normal) > 0)
        and np.all(np.diff(scaffolds) > 0)
    )


def _refuse_merges(bpe: Parts) -> None:
    fixed = bpe.fixed_tokens
    mergeable = bpe.vocab.keys() - set(fixed)
    first_rank: dict[str, int] = {}
    seen: set[Pair] = set()
    prefix, symbols = bpe.affixes.prefix, bpe.symbols
    for rank, (pair, merged) in enumerate(zip(bpe.merges, bpe.merged_tokens, strict=True)):
        for part in pair:
            if part not in mergeable:
                raise ArtifactError(
                    f"merge {rank} {shown(pair)}: {shown(part)} is not a token that a merge can start from"
                )
            if part not in first_rank and part not in symbols:
                raise ArtifactError(f"merge {rank} {shown(pair)}: no merge before it makes {shown(part)}")
        if prefix and not pair[1].startswith(prefix):
            raise ArtifactError(
                f"merge {rank} {shown(pair)}: {shown(pair[1])} doesn't begin with {shown(prefix)}"
            )
        if merged not in mergeable:
            raise ArtifactError(f"merge {rank} {shown(pair)}: {shown(merged)} is not in the vocab")
        if pair in seen:
            raise ArtifactError(f"merge {rank} {shown(pair)} is there twice")
        seen.add(pair)
        first_rank.setdefault(merged, rank)
    vocab_size = bpe.vocab_size
    made_last: dict[bool, str] = {}
    for token, token_id in list(bpe.vocab.items())[len(fixed) :]:
        if token in symbols:
            continue
        if token not in first_rank:
            if len(token) > 1:
                raise ArtifactError(f"vocab: no merge makes {shown(token)} (id {token_id})")
            raise ArtifactError(f"vocab: {shown(token)} (id {token_id}) is not in the byte-level alphabet")
        hidden = token_id >= vocab_size
        if hidden in made_last and first_rank[made_last[hidden]] > first_rank[token]:
            raise ArtifactError(
                f"vocab: {shown(token)} (id {token_id}) was made before {shown(made_last[hidden])}"
            )
        made_last[hidden] = token


def _check_demolish_map(bpe: Parts) -> None:
    vocab_size = bpe.vocab_size
    for token in bpe.demolish_map:
        if bpe.vocab.get(token, -1) < vocab_size:
            raise ArtifactError(
                f"demolish: {shown(token)} is not among the last {len(bpe.demolish_map)} ids of vocab"
            )
    normal = bpe.vocab.keys() - bpe.demolish_map.keys()
    for token, parts in bpe.demolish_map.items():
        if not normal.issuperset(parts):
            part = next(part for part in parts if part not in normal)
            what = "is itself a scaffold token" if part in bpe.vocab else "is not in vocab"
            raise ArtifactError(f"demolish: {shown(token)} holds {shown(part)}, which {what}")
        if not parts or bpe.affixes.spell(parts) != token:
            raise ArtifactError(f"demolish: the parts {shown(parts)} don't spell {shown(token)}")


def _check_demolished_as_merged(bpe: Parts) -> None:
    if not bpe.affixes.prefix and _are_parts_of_best_rules(bpe):
        return
    derived = derive_demolish_map(bpe.merges, bpe.scaffold_tokens, bpe.affixes)
    if derived != bpe.demolish_map:
        token = next(token for token in derived if derived[token] != bpe.demolish_map[token])
        raise ArtifactError(
            f"demolish: {shown(token)} is {shown(bpe.demolish_map[token])}; "
            f"its merges give {shown(derived[token])}"
        )


def _are_parts_of_best_rules(bpe: Parts) -> bool:
    """Whether each scaffold token is demolished to the parts of its shortest rule, the first of them.

    Parts are shorter than what they make. So if this holds of all, each is what `derive_demolish_map` gives.
    """
    demolished = bpe.demolish_map
    n_parts = {token: len(parts) for token, parts in demolished.items()}
    best: dict[str, tuple[int, Pair]] = {}
    for token, pair in zip(bpe.merged_tokens, bpe.merges, strict=True):
        if token in n_parts:
            length = n_parts.get(pair[0], 1) + n_parts.get(pair[1], 1)
            if token not in best or length < best[token][0]:
                best[token] = length, pair
    return best.keys() == demolished.keys() and all(
        demolished.get(left, (left,)) + demolished.get(right, (right,)) == demolished[token]
        for token, (_, (left, right)) in best.items()
    )


def _check_raw_splits(bpe: Parts) -> None:
    normal = set(bpe.tokens)
    for token, split in bpe.raw_splits.items():
        if bpe.affixes.spell(split) != token:
            raise ArtifactError(f"raw_splits: {shown(split)} doesn't spell {shown(token)}")
        if not normal.issuperset((token, *split)):
            part = next(part for part in (token, *split) if part not in normal)
            raise ArtifactError(
                f"raw_splits: {shown(part)}, in the split of {shown(token)}, is not a normal token"
            )


def _check_raw_merges(bpe: Parts) -> None:
    if (merges := bpe.raw_merges) is None:
        return
    if bpe.raw_splits:
        raise ArtifactError("raw_splits: must be empty beside raw_merges, which hold all rules")
    normal, known = {*bpe.tokens} - {*bpe.fixed_tokens}, set[Pair]()
    for rank, (pair, token) in enumerate(zip(merges, bpe.affixes.join_all(merges), strict=True)):
        for part in (*pair, token):
            if part not in normal:
                raise ArtifactError(f"raw_merges: {shown(part)}, in rule {rank}, is not a normal token")
        if not pair[1].startswith(bpe.affixes.prefix):
            raise ArtifactError(f"raw_merges: {shown(pair[1])}, in rule {rank}, doesn't continue a pre-token")
        if pair in known:
            raise ArtifactError(f"raw_merges: rule {rank}, {shown(pair)}, is there twice")
        known.add(pair)


def _check_raw_agreements(bpe: Parts) -> None:
    for name, share in bpe.raw_agreements.items():
        if not 0 <= share <= 1:
            raise ArtifactError(f"{name}: {share} is not a share between 0 and 1")


def _check_steps(bpe: Parts) -> None:
    if bpe.steps is None:
        return
    mergeable = bpe.vocab.keys() - {*bpe.fixed_tokens}
    for violation in step_violations(bpe.steps, mergeable, len(bpe.affixes.prefix)):
        raise ArtifactError(violation)


def _check_training(bpe: Parts) -> None:
    if bpe.training is not None and not isinstance(bpe.training, Mapping):
        raise ArtifactError(f"training: must be a JSON object or null, not {type(bpe.training).__name__}")
    for name in ("training", "stop_reason"):
        if reason := why_not_json(getattr(bpe, name)):
            raise ArtifactError(f"{name} can't be saved as JSON: {reason}")


def _check_log(bpe: Parts) -> None:
    if bpe.log is None:
        return
    if bpe.log.frequencies.keys() != bpe.vocab.keys():
        token = min(bpe.log.frequencies.keys() ^ bpe.vocab.keys())
        raise ArtifactError(f"log: {shown(token)} is only in one of vocab and the log's frequencies")
    merges = set(bpe.merges)
    for number, event in enumerate(bpe.log.events):
        for token in (event.token, *event.head):
            if token not in bpe.vocab:
                raise ArtifactError(f"log, event {number}: {shown(token)} is not in vocab")
        if event.kind == "merged" and event.head not in merges:
            raise ArtifactError(f"log, event {number}: {shown(event.head)} is not among the merges")
