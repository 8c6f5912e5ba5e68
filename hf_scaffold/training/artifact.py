"""The result of training: merges, vocabulary and demolish map, checked and ready to save or use."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, fields
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import BPE

from hf_scaffold._core.encoder import PretokenEncoder
from hf_scaffold._utils.arguments import shortened
from hf_scaffold._utils.files import read_unmixed, write_files
from hf_scaffold._utils.provided import provided
from hf_scaffold._utils.strict_json import parse, shown, why_not_json
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.text.byte_level import (
    BYTE_TO_SYMBOL,
    SYMBOL_TO_BYTE,
    all_symbols_to_bytes,
    bytes_to_symbols,
    symbols_to_bytes,
)
from hf_scaffold.text.pretokenizers import Pretokenizer, get_pretokenizer
from hf_scaffold.text.symbols import BYTE_TOKENS, NO_AFFIXES, Affixes
from hf_scaffold.training.agreement import measure, measure_training_text
from hf_scaffold.training.log import TrainingLog, life_of

__all__ = ["AGREEMENTS", "Pair", "ScaffoldBPE", "derive_demolish_map"]

FORMAT_VERSION = 1
VOCAB_FILE, MERGES_FILE, DEMOLISH_FILE = "vocab.json", "merges.txt", "demolish.json"
LOG_FILE = "log.jsonl"
MERGES_JSON_FILE = "merges.json"
FILES = (VOCAB_FILE, MERGES_FILE, MERGES_JSON_FILE, DEMOLISH_FILE, LOG_FILE)
MERGES_HEADER = "#version: 0.2"
CHARACTER_SETTINGS = (
    "unk_token",
    "fuse_unk",
    "byte_fallback",
    "continuing_subword_prefix",
    "end_of_word_suffix",
)

AGREEMENTS = ("raw_agreement", "raw_agreement_merges_only", "raw_agreement_unseen")
Pair = tuple[str, str]


@dataclass(frozen=True, repr=False)
class ScaffoldBPE:
    """A trained Scaffold-BPE: what the encoder needs, in token strings.

    These are in the byte-level alphabet; or, where the pre-tokenizer's alphabet is characters, in those, with
    continuing_subword_prefix and end_of_word_suffix where they belong.

    An instance is always consistent: the constructor checks everything and names the first violation.

    Args:
        merges: All merge rules (left, right) in rank order.
        vocab: Every token to its id: the |V| normal tokens have 0..|V|-1 (special tokens, alphabet, merged
            tokens), scaffold tokens follow, both in the order of creation.
        demolish_map: Scaffold token to the normal tokens that stand for it.
        special_tokens: Control tokens; they have the first ids.
        pretokenizer: What splits text into pre-tokens.
        raw_splits: For normal tokens whose own rule needs a scaffold token: the two normal tokens that a
            plain BPE engine merges instead (see `raw_model`).
        raw_agreement: Share of the training corpus' pre-tokens that `raw_model` encodes as `encode` does,
            weighted by counts; None if never measured.
        stop_reason: Why training ended before vocab_size tokens; None if it reached them.
        unk_token: The special token for characters without a token; None if they are dropped.
        fuse_unk: Whether several of them in a row are one unk_token.
        byte_fallback: Whether they become the tokens of their bytes instead, "<0x00>" to "<0xFF>", which
            follow the special tokens.
        continuing_subword_prefix: Begins every token that doesn't begin a pre-token.
        end_of_word_suffix: Ends every token that ends a pre-token.
        training: What it was trained on, for its model card: pretokens, distinct_pretokens, bytes, alphabet,
            pretokenizer, settings, and sources (see `with_sources`); None if unknown.
        log: What happened in training, if it was asked for; no matter for equality.
        raw_agreement_merges_only: As raw_agreement, of an engine that doesn't know `ignore_merges`.
        raw_agreement_unseen: As raw_agreement, for text like the corpus that was not trained on: an estimate
            (docs/algorithm.md).
    Raises:
        ArtifactError: the parts contradict each other.
    Example:
        >>> import hf_scaffold as hs
        >>> counts = hs.PreTokenCounts.from_mapping({"Arizona": 50, "zone": 3, "banana": 20})
        >>> bpe = hs.train(counts, vocab_size=260)
        >>> bpe.merges[:3]
        [('n', 'a'), ('z', 'o'), ('A', 'r')]
        >>> bpe.demolish("bana")
        ('b', 'a', 'n', 'a')
    """

    merges: list[Pair]
    vocab: dict[str, int]
    demolish_map: dict[str, tuple[str, ...]]
    special_tokens: list[str] = field(default_factory=list)
    pretokenizer: Pretokenizer = field(default_factory=get_pretokenizer)
    raw_splits: dict[str, Pair] = field(default_factory=dict)
    raw_agreement: float | None = None
    stop_reason: str | None = None
    unk_token: str | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    training: dict[str, Any] | None = None
    log: TrainingLog | None = field(default=None, compare=False)
    raw_agreement_merges_only: float | None = None
    raw_agreement_unseen: float | None = None

    def __post_init__(self) -> None:
        _check_types(self)
        _check_symbols(self)
        _check_vocab(self)
        _check_demolish_map(self)
        _check_merges(self)
        _check_demolished_as_merged(self)
        _check_raw_splits(self)
        _check_training(self)
        _check_log(self)

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def __repr__(self) -> str:
        return (
            f"ScaffoldBPE(vocab_size={self.vocab_size}, scaffold_tokens={len(self.demolish_map)}, "
            f"merges={len(self.merges)}, special_tokens={self.special_tokens!r})"
        )

    # ---- what is in it

    @property
    def vocab_size(self) -> int:
        """|V|: the tokens with a public id."""
        return len(self.vocab) - len(self.demolish_map)

    @cached_property
    def affixes(self) -> Affixes:
        """How tokens are spelled: the prefix and the suffix, empty for None."""
        return Affixes(self.continuing_subword_prefix or "", self.end_of_word_suffix or "")

    @property
    def by_character(self) -> bool:
        """Whether the alphabet is characters rather than bytes."""
        return self.pretokenizer.alphabet == "chars"

    @cached_property
    def merged_tokens(self) -> list[str]:
        """The token that each rule makes, in rank order."""
        return self.affixes.join_all(self.merges)

    @property
    def fixed_tokens(self) -> list[str]:
        """What text never merges into: the special tokens, and those of bytes with byte_fallback."""
        return [*self.special_tokens, *(BYTE_TOKENS if self.byte_fallback else ())]

    @cached_property
    def symbols(self) -> Set[str]:
        """The tokens that are one symbol; where text spells affixes, a merged token may look like one."""
        if not self.by_character:
            return self.vocab.keys() & SYMBOL_TO_BYTE.keys()
        return {token for token in self.vocab if self.affixes.readings(token)}

    @cached_property
    def tokens(self) -> list[str]:
        """The normal tokens; the position is the public id."""
        return list(self.vocab)[: self.vocab_size]

    @cached_property
    def scaffold_tokens(self) -> list[str]:
        """The scaffold tokens in the order of creation."""
        return list(self.vocab)[self.vocab_size :]

    def demolish(self, token: str) -> tuple[str, ...]:
        """The normal tokens that stand for a token: itself, unless it is a scaffold.

        Raises:
            KeyError: the token is not in the vocabulary.
        """
        self._require_token(token)
        return self.demolish_map.get(token, (token,))

    def _require_token(self, token: str) -> None:
        if token not in self.vocab:
            spelled = "with the affixes of their place" if self.by_character else "in the byte-level alphabet"
            raise KeyError(f"{token!r} is not in the vocabulary; token strings are {spelled}")

    def history(self, token: str) -> str:
        """What became of a token in training, in words: a line for each event and one for the end.

        Args:
            token: As it stands in the vocabulary ("Ġhippopot"); or, where the alphabet is bytes, as text
                (" hippopot"). What is both, such as "é", means the former.
        Raises:
            ConfigurationError: training kept no log.
            KeyError: no such token was ever made.
        Example:
            >>> import hf_scaffold as hs
            >>> counts = hs.PreTokenCounts.from_mapping({" Arizona": 50, "zone": 3, "banana": 20})
            >>> bpe = hs.train(counts, vocab_size=260, log=True)
            >>> print(bpe.history("zo"))
            Merge 1: z o, 53 occurrences, became zo.
            After merge 3 (i zo): marked as a scaffold: 3 occurrences left, while Ġ Ar had 50.
            After merge 10 (n e): reinstated: nothing else was as frequent as its 3 occurrences.
            At the end: a normal token, 3 occurrences in the training text.
        """
        if self.log is None:
            raise ConfigurationError("there is no training log; train with log=True to keep one")
        if token not in self.vocab and not self.by_character:
            as_text = bytes_to_symbols(token.encode(errors="surrogatepass"))
            token = as_text if as_text in self.vocab else token
        self._require_token(token)
        if token in self.fixed_tokens:
            return f"{token} is a special token: text never merges into it."
        ranks = {pair: rank for rank, pair in enumerate(self.merges)}
        return life_of(token, self.log, ranks, self.demolish_map.get(token))

    # ---- encoding

    def encode(self, pretokens: Sequence[bytes]) -> list[list[int]]:
        """Public ids of each pre-token: ordinary BPE over all merges, then demolishing.

        Args:
            pretokens: UTF-8 or any other bytes, each encoded for itself: nothing is split or normalized.
        Returns:
            One list of ids a pre-token. Bytes and characters outside the alphabet are dropped where there is
            no unk_token, as `tokenizers` does.
        Cost: O(n log n) for a pre-token of n bytes; releases the GIL.
        Example:
            >>> import hf_scaffold as hs
            >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "hugs": 5})
            >>> bpe = hs.train(counts, vocab_size=258)
            >>> [bpe.tokens[token_id] for token_id in bpe.encode([b"hugs"])[0]]
            ['hug', 's']
        """
        try:
            offsets = np.cumsum([0, *map(len, pretokens)], dtype=np.int64)
            data = b"".join(pretokens)
        except TypeError:
            raise TypeError(
                "encode takes a list of pre-tokens as bytes, such as [b'hugs'], not "
                f"{shortened(pretokens)}; for text, call the tokenizer that to_tokenizer() makes"
            ) from None
        ids, ends = self.encoder.encode(data, offsets)
        return [ids[begin:end].tolist() for begin, end in itertools.pairwise(ends)]

    @cached_property
    def encoder(self) -> PretokenEncoder:
        """The exact encoder, over arrays of pre-tokens."""
        return self._pretoken_encoder(self.rules, self._demolished_ids, {}, self.vocab)

    @cached_property
    def expanded_encoder(self) -> PretokenEncoder:
        """The first step alone, over arrays of pre-tokens: the ids in `vocab`, scaffold tokens included."""
        return self._pretoken_encoder(self.rules, {}, {}, self.vocab)

    @cached_property
    def raw_encoder(self) -> PretokenEncoder:
        """The encoder that a plain BPE engine makes of `raw_model`, over arrays of pre-tokens."""
        return self._pretoken_encoder(self._raw_rules, {}, self._raw_wholes, self.tokens)

    @cached_property
    def raw_merging_encoder(self) -> PretokenEncoder:
        """The same of an engine that doesn't know `ignore_merges`."""
        return self._pretoken_encoder(self._raw_rules, {}, {}, self.tokens)

    def encoders_without_last_rules(self, n_rules: int) -> tuple[PretokenEncoder, PretokenEncoder]:
        """`encoder` and `raw_encoder` as they would be had no rule been learned after the first n_rules.

        What a scaffold token is demolished to stays the same.
        """
        learned, later = self.rules[:n_rules], self.rules[n_rules:]
        lost = np.setdiff1d(later[:, 2], learned[:, 2])
        # Normal tokens are in the order of creation: those that are left come first.
        n_tokens = self.vocab_size - np.count_nonzero(lost < self.vocab_size)
        raw_rules = self._raw_rules[self._raw_rules[:, 2] < n_tokens]
        wholes = {whole: token_id for whole, token_id in self._raw_wholes.items() if token_id < n_tokens}
        return (
            self._pretoken_encoder(learned, self._demolished_ids, {}, self.vocab),
            self._pretoken_encoder(raw_rules, {}, wholes, self.tokens),
        )

    @cached_property
    def rules(self) -> NDArray[np.int32]:
        """The merges as rows of ids in `vocab`: left, right and merged token."""
        return self._as_ids(self.merges, self.merged_tokens)

    @cached_property
    def _raw_rules(self) -> NDArray[np.int32]:
        return self._as_ids(self._raw_merges, self.affixes.join_all(self._raw_merges))

    def _as_ids(self, merges: Sequence[Pair], made: Sequence[str]) -> NDArray[np.int32]:
        """Rules as rows of left, right and merged token."""
        rows = np.empty((len(merges), 3), np.int32)
        for column, tokens in enumerate(((left for left, _ in merges), (right for _, right in merges), made)):
            rows[:, column] = [*map(self.vocab.__getitem__, tokens)]
        return rows

    @cached_property
    def _demolished_ids(self) -> dict[int, list[int]]:
        return {
            self.vocab[token]: [self.vocab[part] for part in parts]
            for token, parts in self.demolish_map.items()
        }

    @cached_property
    def _raw_wholes(self) -> dict[bytes, int]:
        """The pre-tokens that a plain BPE engine takes whole."""
        if not self._takes_wholes:
            return {}
        if self.by_character:
            return {token.encode(): token_id for token_id, token in enumerate(self.tokens)}
        first = len(self.special_tokens)  # what follows them is in the byte-level alphabet
        others = all_symbols_to_bytes(self.tokens[first:])
        spelled = [token for token in self.special_tokens if SYMBOL_TO_BYTE.keys() >= set(token)]
        return {
            **{symbols_to_bytes(token): self.vocab[token] for token in spelled},
            **{whole: token_id for token_id, whole in enumerate(others, first)},
        }

    @property
    def _takes_wholes(self) -> bool:
        """Whether a plain BPE engine may take a pre-token that is a token whole (`ignore_merges`).

        It compares the bare text, so with a suffix it would find the token of the same text inside a word.
        """
        return not self.affixes.suffix

    def _pretoken_encoder(
        self,
        rows: NDArray[np.int32],
        replacements: dict[int, list[int]],
        wholes: dict[bytes, int],
        tokens: Iterable[str],
    ) -> PretokenEncoder:
        vocab = self.vocab
        if not self.by_character:
            byte_ids = [vocab.get(symbol, -1) for _, symbol in sorted(BYTE_TO_SYMBOL.items())]
            return PretokenEncoder(np.array(byte_ids, np.int32), rows, replacements, wholes)
        characters = {
            (character.encode(), continues, ends): vocab[token]
            for token in tokens
            for character, continues, ends in self.affixes.readings(token)
        }
        unknown = -1 if self.unk_token is None else vocab[self.unk_token]
        first_byte = len(self.special_tokens) if self.byte_fallback else -1
        return PretokenEncoder(characters, rows, replacements, wholes, unknown, self.fuse_unk, first_byte)

    @cached_property
    def _raw_merges(self) -> list[Pair]:
        rules = dict(zip(self.merged_tokens[::-1], self.merges[::-1], strict=True)) | self.raw_splits
        normal = set(self.tokens)
        chosen = (rules[token] for token in self.tokens if token in rules)
        return [(left, right) for left, right in chosen if left in normal and right in normal]

    def raw_model(self) -> BPE:
        """The plain BPE over normal tokens alone, for programs that know nothing of demolishing.

        An approximation: it agrees with `encode` on the share `raw_agreement` of pre-tokens. A token keeps
        its own rule where both parts are normal tokens, else it gets the one in `raw_splits`, if any;
        a pre-token that is a token as a whole is taken whole, unless tokens have a suffix.
        """
        public = {token: token_id for token_id, token in enumerate(self.tokens)}
        names = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
        settings = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return BPE(
            vocab=public,
            merges=self._raw_merges,
            ignore_merges=self._takes_wholes,
            fuse_unk=self.fuse_unk,
            byte_fallback=self.byte_fallback,
            **settings,
        )

    def agreement(self, counts: PreTokenCounts, *, ignore_merges: bool = True) -> float:
        """Share of pre-tokens, weighted by counts, that `raw_model` encodes as `encode` does.

        Args:
            counts: Of any text.
            ignore_merges: False: by an engine that merges every pre-token, also one that is a token.
        """
        measured = measure(self, counts)
        return measured.measured if ignore_merges else measured.merges_only

    def with_raw_agreement(self, counts: PreTokenCounts, frequencies: Mapping[str, int]) -> ScaffoldBPE:
        """This artifact with its agreement on these counts, as `raw_agreement` and what follows it.

        Args:
            counts: What it was trained on.
            frequencies: How often each token occurs there once all merges are done.
        """
        measured = copy.copy(self)
        found = measure_training_text(self, counts, frequencies)
        for name, share in zip(AGREEMENTS, found, strict=True):
            object.__setattr__(measured, name, share)
        return measured

    @property
    def raw_agreements(self) -> dict[str, float]:
        """raw_agreement and what follows it by name, but those that were never measured."""
        shares = {name: getattr(self, name) for name in AGREEMENTS}
        return {name: share for name, share in shares.items() if share is not None}

    def with_sources(self, names: Iterable[str | os.PathLike[str]]) -> ScaffoldBPE:
        """This artifact with the names of its training text's files in `training`, without their folders.

        The names go wherever the tokenizer goes: into its scaffold.json and its model card.

        Example:
            >>> import hf_scaffold as hs
            >>> bpe = hs.train(hs.PreTokenCounts.from_mapping({"hug": 10}), vocab_size=257)
            >>> bpe.with_sources(["/home/me/hugs.txt"]).training["sources"]
            ['hugs.txt']
        """
        named = copy.copy(self)
        sources = [os.fsencode(Path(name).name).decode(errors="replace") for name in names]
        training = {**(self.training or {}), "sources": sources}
        object.__setattr__(named, "training", training)
        return named

    # ---- use in transformers

    def to_tokenizer(self, **kwargs: Any) -> Any:
        """A transformers tokenizer with this vocabulary.

        Args:
            **kwargs: As for `PreTrainedTokenizerFast`: eos_token, bos_token, unk_token, pad_token,
                model_max_length, chat_template, …. A special token that is not in the vocabulary gets the
                next free id, from |V| on. unk_token is the artifact's where none is named.
        Returns:
            A `ScaffoldTokenizerFast`.
        Raises:
            TypeError: an argument of an unknown name; the message has the nearest known one.
        """
        return provided("ScaffoldBPE.to_tokenizer")(self, **kwargs)

    # ---- files

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write vocab.json, merges.txt, demolish.json and, if there is a log, log.jsonl; returns their paths.

        `tokenizers.models.BPE.from_file` reads the first two. The same artifact gives the same bytes.
        Whatever ends it, a full disk, Ctrl-C or a kill: the folder loads as the old artifact or the new one.

        Characters may be spaces or line ends, which merges.txt can't hold; then it is merges.json, a list of
        [left, right], and demolish.json says so.
        """
        demolish = {
            "version": FORMAT_VERSION,
            "special_tokens": self.special_tokens,
            "pretokenizer": json.loads(self.pretokenizer.to_json()),
            "raw_agreement": None,
            **self.raw_agreements,
            "stop_reason": self.stop_reason,
            "training": self.training,
            "demolish": self.demolish_map,
            "raw_splits": self.raw_splits,
        }
        if self.by_character:
            demolish |= {name: getattr(self, name) for name in CHARACTER_SETTINGS}
        merges_file, merges = MERGES_FILE, _merges_text(self.merges)
        if merges is None:
            merges_file, merges = MERGES_JSON_FILE, json.dumps(self.merges, ensure_ascii=False, indent=0)
            demolish["merges_file"] = merges_file
        if self.log is not None:
            demolish["log_file"] = LOG_FILE
        contents = {
            VOCAB_FILE: json.dumps(self.vocab, ensure_ascii=False),
            merges_file: merges,
            DEMOLISH_FILE: json.dumps(demolish, ensure_ascii=False, indent=1) + "\n",
        }
        if self.log is not None:
            contents[LOG_FILE] = self.log.to_jsonl()
        return write_files(folder, {name: text.encode() for name, text in contents.items()}, stale=FILES)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ScaffoldBPE:
        """Read what `save` wrote.

        Raises:
            FileNotFoundError: one of the files isn't there; or the folder is a tokenizer's.
            NotADirectoryError: a file is given.
            ArtifactError: a file is truncated or they contradict each other; names file and entry.
        """
        folder = Path(folder)
        if folder.is_file():
            raise NotADirectoryError(errno.ENOTDIR, "an artifact is a folder, not a file", str(folder))
        if (folder / "tokenizer.json").is_file() and not (folder / DEMOLISH_FILE).is_file():
            hint = "a tokenizer's folder, for AutoTokenizer.from_pretrained"
            if (folder / "artifact" / DEMOLISH_FILE).is_file():
                hint += "; its artifact is in the folder artifact there"
            raise FileNotFoundError(errno.ENOENT, hint, str(folder))
        # `train` saves an artifact beside a tokenizer, and together with it.
        parent, name = os.path.split(os.path.realpath(folder))
        names = tuple(os.path.join(name, file) for file in FILES)
        artifact: ScaffoldBPE = read_unmixed(parent, names, lambda: cls._read(folder))
        return artifact

    @classmethod
    def _read(cls, folder: Path) -> ScaffoldBPE:
        path = folder / DEMOLISH_FILE
        demolish = _read_json(path)
        if (version := demolish.get("version")) != FORMAT_VERSION:
            raise ArtifactError(
                f"{path}: format version {shown(version)} is unknown; this release reads {FORMAT_VERSION}"
            )
        as_json = demolish.get("merges_file") == MERGES_JSON_FILE
        try:
            return cls(
                merges=_read_merges_json(folder) if as_json else _read_merges(folder / MERGES_FILE),
                vocab=_read_vocab(folder / VOCAB_FILE),
                demolish_map=_token_lists(demolish, "demolish"),
                special_tokens=demolish["special_tokens"],
                pretokenizer=Pretokenizer.from_json(json.dumps(demolish["pretokenizer"])),
                raw_splits=_pairs(demolish, "raw_splits"),
                raw_agreement=demolish["raw_agreement"],
                raw_agreement_merges_only=demolish.get("raw_agreement_merges_only"),  # not measured by 0.1.0
                raw_agreement_unseen=demolish.get("raw_agreement_unseen"),
                stop_reason=demolish["stop_reason"],
                **{name: demolish[name] for name in CHARACTER_SETTINGS if name in demolish},
                training=demolish.get("training"),  # files of older releases have none
                log=_read_log(folder) if demolish.get("log_file") == LOG_FILE else None,
            )
        except KeyError as error:
            raise ArtifactError(f"{path}: the entry {error} is missing") from None
        except (ArtifactError, ConfigurationError) as error:
            raise ArtifactError(f"{folder}: {error}") from None


def derive_demolish_map(
    merges: Sequence[Pair], scaffold_tokens: Iterable[str], affixes: Affixes = NO_AFFIXES
) -> dict[str, tuple[str, ...]]:
    """For each scaffold token, in the order given, the normal tokens that stand for it.

    A scaffold token is replaced by what its two parts are replaced by; of several rules for it, the one
    with the shortest result counts, then the one of lowest rank. A result spells the token: all of it but
    the first begins with the prefix.

    Example:
        >>> derive_demolish_map([("n", "a"), ("z", "o"), ("zo", "na")], ["zo", "zona"])
        {'zo': ('z', 'o'), 'zona': ('z', 'o', 'na')}
    """
    scaffolds = list(scaffold_tokens)
    rules: dict[str, list[Pair]] = {token: [] for token in scaffolds}
    for token, pair in zip(affixes.join_all(merges), merges, strict=True):
        if token in rules:
            rules[token].append(pair)
    kinds = _demolished_lengths(rules, affixes.prefix)
    for token in scaffolds:
        if kinds[0][token] == math.inf:
            raise ArtifactError(f"no merge makes the scaffold token {token!r}")
    demolished: list[dict[str, tuple[str, ...]]] = [{} for _ in kinds]
    for kind in reversed(range(len(kinds))):  # what stands first needs what stands later, not the other way
        lengths, results = kinds[kind], demolished[kind]
        for token in sorted(scaffolds, key=lengths.__getitem__):  # parts are shorter, so they come before
            if lengths[token] == math.inf:
                break
            pairs = rules[token]
            if len(pairs) > 1:
                pairs = [min(pairs, key=lambda pair: lengths.get(pair[0], 1) + kinds[-1].get(pair[1], 1))]
            left, right = pairs[0]
            results[token] = results.get(left, (left,)) + demolished[-1].get(right, (right,))
    return {token: demolished[0][token] for token in scaffolds}


def _demolished_lengths(rules: Mapping[str, Sequence[Pair]], prefix: str) -> list[dict[str, float]]:
    """How many normal tokens stand for a scaffold token: as a first part and, with a prefix, as a later one.

    Where text spells the prefix, a token may have rules for both; else they don't differ. Parts that are not
    in a dict count 1; infinity means that the part can't stand there.

    Cost: one look at each rule. Rules come in any order, but what a token adds to a spelling, all of it as a
    first part and all but the prefix as a later one, is longer than what its parts add; so the shorter ones
    go first. Where a part adds nothing, the other one is the token itself: such a rule shortens nothing.
    """
    first: dict[str, float] = dict.fromkeys(rules, math.inf)
    later = first
    if prefix:
        parts = {left for pairs in rules.values() for left, _ in pairs}
        later = {**first, **dict.fromkeys((part for part in parts if not part.startswith(prefix)), math.inf)}
    kinds = [first, later] if prefix else [first]
    places = [(len(token) - kind * len(prefix), kind, token) for token in rules for kind in range(len(kinds))]
    for _, kind, token in sorted(places, key=itemgetter(0)):
        lengths, least = kinds[kind], math.inf
        for left, right in rules[token]:
            length = lengths.get(left, 1) + later.get(right, 1)
            if length < least:
                least = length
        lengths[token] = least
    return kinds


# ---- consistency


def _check_types(bpe: ScaffoldBPE) -> None:
    """Refuse what no later check could be asked about; a field's annotation says what it must be."""
    is_right = {
        "merges": isinstance(bpe.merges, list) and _are_tokens(bpe.merges, pairs=True),
        "vocab": isinstance(bpe.vocab, dict)
        and _are_all(bpe.vocab, str)
        and {*map(type, bpe.vocab.values())} <= {int},
        "demolish": _maps_to_tokens(bpe.demolish_map),
        "special_tokens": isinstance(bpe.special_tokens, list) and _are_all(bpe.special_tokens, str),
        "pretokenizer": isinstance(bpe.pretokenizer, Pretokenizer),
        "raw_splits": _maps_to_tokens(bpe.raw_splits, pairs=True),
        **{name: type(getattr(bpe, name)) in (int, float, NoneType) for name in AGREEMENTS},
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
    return isinstance(value, dict) and _are_all(value, str) and _are_tokens([*value.values()], pairs)


def _are_tokens(rows: list[Any], pairs: bool = False) -> bool:
    """Whether these are tuples of tokens, or pairs of them. They are many: no loop in Python."""
    if not _are_all(rows, tuple) or (pairs and not {*map(len, rows)} <= {2}):
        return False
    tokens = itertools.chain.from_iterable
    return _are_all(tokens(rows), str) and "" not in tokens(rows)


def _are_all(values: Iterable[object], kind: type) -> bool:
    return all(issubclass(found, kind) for found in {*map(type, values)})


def _check_symbols(bpe: ScaffoldBPE) -> None:
    for name in CHARACTER_SETTINGS:
        if getattr(bpe, name) and not bpe.by_character:
            raise ArtifactError(f"{name} is {getattr(bpe, name)!r}, but the alphabet is bytes")
    if bpe.unk_token is not None and bpe.unk_token not in bpe.special_tokens:
        raise ArtifactError(f"unk_token: {bpe.unk_token!r} is no special token")
    if bpe.byte_fallback and (bpe.affixes != NO_AFFIXES or bpe.pretokenizer.writes_bytes):
        raise ArtifactError(
            "byte_fallback goes neither with affixes nor with a pre-tokenizer that writes bytes"
        )


def _check_vocab(bpe: ScaffoldBPE) -> None:
    for position, (token, token_id) in enumerate(bpe.vocab.items()):
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


def _check_merges(bpe: ScaffoldBPE) -> None:
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


def _check_demolish_map(bpe: ScaffoldBPE) -> None:
    for token in bpe.demolish_map:
        if bpe.vocab.get(token, -1) < bpe.vocab_size:
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


def _check_demolished_as_merged(bpe: ScaffoldBPE) -> None:
    derived = derive_demolish_map(bpe.merges, bpe.scaffold_tokens, bpe.affixes)
    if derived != bpe.demolish_map:
        token = next(token for token in derived if derived[token] != bpe.demolish_map[token])
        raise ArtifactError(
            f"demolish: {shown(token)} is {shown(bpe.demolish_map[token])}; "
            f"its merges give {shown(derived[token])}"
        )


def _check_raw_splits(bpe: ScaffoldBPE) -> None:
    for token, split in bpe.raw_splits.items():
        if bpe.affixes.spell(split) != token:
            raise ArtifactError(f"raw_splits: {shown(split)} doesn't spell {shown(token)}")
        for part in (token, *split):
            if bpe.vocab.get(part, bpe.vocab_size) >= bpe.vocab_size:
                raise ArtifactError(
                    f"raw_splits: {shown(part)}, in the split of {shown(token)}, is not a normal token"
                )
    for name, share in bpe.raw_agreements.items():
        if not 0 <= share <= 1:
            raise ArtifactError(f"{name}: {share} is not a share between 0 and 1")


def _check_training(bpe: ScaffoldBPE) -> None:
    if bpe.training is not None and not isinstance(bpe.training, Mapping):
        raise ArtifactError(f"training: must be a JSON object or null, not {type(bpe.training).__name__}")
    for name in ("training", "stop_reason"):
        if reason := why_not_json(getattr(bpe, name)):
            raise ArtifactError(f"{name} can't be saved as JSON: {reason}")


def _check_log(bpe: ScaffoldBPE) -> None:
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


# ---- reading


def _read_json(path: Path) -> dict[str, Any]:
    content = _parse_json(path)
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: holds a {type(content).__name__}, not a JSON object")
    return content


def _parse_json(path: Path) -> Any:
    text = _read_text(path)
    try:
        return parse(text)
    except ValueError as error:
        raise ArtifactError(f"{path}: truncated or not JSON: {error}") from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: not UTF-8 at byte {error.start}") from None
    except IsADirectoryError:
        raise ArtifactError(f"{path}: is a folder, not a file") from None


def _read_log(folder: Path) -> TrainingLog:
    path = folder / LOG_FILE
    return TrainingLog.from_jsonl(_read_text(path), str(path))


def _token_lists(content: Mapping[str, Any], name: str) -> dict[str, tuple[str, ...]]:
    """An entry of demolish.json that maps tokens to lists of tokens."""
    lists = content[name]
    if not isinstance(lists, dict) or not all(isinstance(tokens, list) for tokens in lists.values()):
        raise ArtifactError(f"{name}: {shown(lists)} doesn't map tokens to lists of tokens")
    return {token: tuple(tokens) for token, tokens in lists.items()}


def _pairs(content: Mapping[str, Any], name: str) -> dict[str, Pair]:
    lists = _token_lists(content, name)
    for token, pair in lists.items():
        if len(pair) != 2:
            raise ArtifactError(f"{name}: {shown(pair)}, for {shown(token)}, is not two tokens")
    return {token: (left, right) for token, (left, right) in lists.items()}


def _read_vocab(path: Path) -> dict[str, int]:
    vocab = _read_json(path)
    for token, token_id in vocab.items():
        if type(token_id) is not int:
            raise ArtifactError(f"{path}: the id of {shown(token)} is {shown(token_id)}, not a whole number")
    return dict(sorted(vocab.items(), key=itemgetter(1)))


def _merges_text(merges: Sequence[Pair]) -> str | None:
    """The content of merges.txt; None where a token has a space or line end."""
    lines = [MERGES_HEADER]
    for left, right in merges:
        if any(character in left or character in right for character in " \n\r"):
            return None
        lines.append(f"{left} {right}")
    return "\n".join(lines) + "\n"


def _read_merges_json(folder: Path) -> list[Pair]:
    path = folder / MERGES_JSON_FILE
    merges = _parse_json(path)
    if not isinstance(merges, list):
        raise ArtifactError(f"{path}: holds a {type(merges).__name__}, not a list of merges")
    for number, pair in enumerate(merges):
        if not isinstance(pair, list) or not _are_tokens([tuple(pair)], pairs=True):
            raise ArtifactError(f"{path}: merge {number}, {shown(pair)}, is not two tokens")
    return [(left, right) for left, right in merges]


def _read_merges(path: Path) -> list[Pair]:
    lines = _read_text(path).removesuffix("\n").split("\n")
    merges: list[Pair] = []
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith("#version"):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise ArtifactError(
                f"{path}, line {number}: {shown(line)} is not two tokens and a space between them"
            )
        merges.append((left, right))
    return merges
