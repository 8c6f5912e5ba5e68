"""The result of training: merges, vocabulary and demolish map, checked and ready to save or use."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers.models import BPE

from hf_scaffold._core.trainer import MergeLoop
from hf_scaffold._utils.arguments import shortened
from hf_scaffold._utils.files import read_unmixed, write_files
from hf_scaffold._utils.provided import provided
from hf_scaffold._utils.strict_json import shown
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.methods.steps import steps_as_json
from hf_scaffold.text.byte_level import bytes_to_symbols
from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.training.agreement import Trained, measure, measure_training_text
from hf_scaffold.training.checks import check
from hf_scaffold.training.files import (
    DEMOLISH_FILE,
    FILES,
    FORMAT_VERSION,
    LOG_FILE,
    MERGES_FILE,
    MERGES_JSON_FILE,
    VERSION_WITH_STEPS,
    VOCAB_FILE,
    merge_list,
    merges_text,
    pairs,
    read_json,
    read_log,
    read_merges,
    read_merges_json,
    read_steps,
    read_vocab,
    token_lists,
)
from hf_scaffold.training.log import life_of
from hf_scaffold.training.parts import AGREEMENTS, CHARACTER_SETTINGS, Encoders, Parts, every_split


@dataclass(frozen=True, repr=False)
class ScaffoldBPE(Encoders):
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
        pre_tokenizer: What splits text into pre-tokens.
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
        raw_merges: All rules of `raw_model` in rank order, in place of raw_splits (see `with_every_split`);
            None where raw_splits decide.
        steps: Of PickyBPE, what `encode` does in place of merging by rank and demolishing: merges, as pairs,
            and removals, as `Removed`, in the order of training. merges are then each token's first rule,
            and removed tokens are in place of scaffold tokens. Else None.
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

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def of_training(cls, **parts: Any) -> ScaffoldBPE:
        """From parts that training has just made, which can't contradict each other: they are not checked."""
        bpe = object.__new__(cls)
        Parts.__init__(bpe, **parts)  # the constructor without __post_init__
        return bpe

    def __getstate__(self) -> dict[str, Any]:
        return {part.name: getattr(self, part.name) for part in fields(self)}

    def __repr__(self) -> str:
        return (
            f"ScaffoldBPE(vocab_size={self.vocab_size}, scaffold_tokens={len(self.demolish_map)}, "
            f"merges={len(self.merges)}, special_tokens={self.special_tokens!r})"
        )

    def _repr_html_(self) -> str:
        found: str = provided("ScaffoldBPE._repr_html_")(self)
        return found

    def demolish(self, token: str) -> tuple[str, ...]:
        """The normal tokens that a token becomes: itself, unless it is a scaffold.

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
        """What happened to a token in training, in words: a line for each event and one for the end.

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
        ids, ends = self.pretoken_encoder.encode(data, offsets)
        return [ids[begin:end].tolist() for begin, end in itertools.pairwise(ends)]

    def raw_model(self) -> BPE:
        """The plain BPE over normal tokens alone, for programs that know nothing of demolishing.

        An approximation: it agrees with `encode` on the share `raw_agreement` of pre-tokens. A token keeps
        its own rule where both parts are normal tokens, else it gets the one in `raw_splits`, if any; but
        all rules are those in `raw_merges`, where there are some. A pre-token that is a token as a whole is
        taken whole, unless tokens have a suffix.
        """
        public = {token: token_id for token_id, token in enumerate(self.tokens)}
        names = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix")
        settings = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return BPE(
            vocab=public,
            merges=self._raw_merges,
            ignore_merges=self.affixes.takes_wholes,
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

    def with_raw_agreement(
        self,
        counts: PreTokenCounts,
        frequencies: Mapping[str, int],
        loop: MergeLoop | None = None,
        hidden: NDArray[np.bool_] | None = None,
    ) -> ScaffoldBPE:
        """This artifact with its agreement on these counts, as `raw_agreement` and what follows it.

        Args:
            counts: What it was trained on.
            frequencies: How often each token occurs there once all merges are done.
            loop: The loop that has just learned it, if that has encoded all of the counts.
            hidden: With a loop: which of its tokens have no id.
        """
        measured = copy.copy(self)
        trained = None if loop is None or hidden is None else Trained(self, counts, loop, hidden)
        found: Iterable[float | None] = (
            measure_training_text(self, counts, frequencies, trained)
            if self.steps is None
            else measure(self, counts, trained)
        )
        for name, share in zip(AGREEMENTS, found, strict=True):
            object.__setattr__(measured, name, share)
        return measured

    def with_every_split(self) -> ScaffoldBPE:
        """This artifact with a `raw_model` that agrees with `encode` more often.

        There, a token that needs scaffold tokens has a rule for every split into two tokens, not for the
        strongest alone (docs/algorithm.md). `encode` stays as it is. Agreement is unknown then: measure it
        with `agreement`; or train with every_split=True, which does.

        Example:
            >>> import hf_scaffold as hs
            >>> counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "hugs": 5, "hu": 3})
            >>> bpe = hs.train(counts, vocab_size=260)
            >>> bpe.scaffold_tokens, bpe.with_every_split().raw_merges
            (['ug'], [('hu', 'g'), ('hug', 's'), ('h', 'u')])
        """
        unknown: dict[str, Any] = dict.fromkeys(AGREEMENTS)
        rules = every_split(self.merges, self.tokens, self.affixes)
        return replace(self, raw_splits={}, raw_merges=rules, **unknown)

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

    # ---- use in programs

    def encoder(self) -> Any:
        """The exact encoder and decoder of text, without transformers.

        Returns:
            A `hf_scaffold.Encoder`: what `Encoder.from_pretrained` makes of the saved tokenizer.
        Example:
            >>> import hf_scaffold as hs
            >>> encoder = hs.train(hs.count(["hug hugs pug"]), vocab_size=258).encoder()
            >>> encoder.decode(encoder.encode("hugs"))
            'hugs'
        """
        return provided("ScaffoldBPE.encoder")(self)

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
            "version": FORMAT_VERSION if self.steps is None else VERSION_WITH_STEPS,
            "special_tokens": self.special_tokens,
            "pretokenizer": json.loads(self.pre_tokenizer.to_json()),
            "raw_agreement": None,
            **self.raw_agreements,
            "stop_reason": self.stop_reason,
            "training": self.training,
            "demolish": self.demolish_map,
            "raw_splits": self.raw_splits,
        }
        if self.raw_merges is not None:
            demolish["raw_merges"] = self.raw_merges
        if self.steps is not None:
            demolish["steps"] = steps_as_json(self.steps)
        if self.by_character:
            demolish |= {name: getattr(self, name) for name in CHARACTER_SETTINGS}
        merges_file, merges = MERGES_FILE, merges_text(self.merges)
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
        demolish = read_json(path)
        expected = VERSION_WITH_STEPS if "steps" in demolish else FORMAT_VERSION
        if (version := demolish.get("version")) != expected:
            raise ArtifactError(
                f"{path}: format version {shown(version)} is unknown; this release reads {expected}"
            )
        as_json = demolish.get("merges_file") == MERGES_JSON_FILE
        try:
            return cls(
                merges=read_merges_json(folder) if as_json else read_merges(folder / MERGES_FILE),
                vocab=read_vocab(folder / VOCAB_FILE),
                demolish_map=token_lists(demolish, "demolish"),
                special_tokens=demolish["special_tokens"],
                pre_tokenizer=PreTokenizer.from_json(json.dumps(demolish["pretokenizer"])),
                raw_splits=pairs(demolish, "raw_splits"),
                raw_merges=merge_list(demolish["raw_merges"], f"{path}: raw_merges")
                if "raw_merges" in demolish
                else None,
                raw_agreement=demolish["raw_agreement"],
                raw_agreement_merges_only=demolish.get("raw_agreement_merges_only"),  # not measured by 0.1.0
                raw_agreement_unseen=demolish.get("raw_agreement_unseen"),
                stop_reason=demolish["stop_reason"],
                **{name: demolish[name] for name in CHARACTER_SETTINGS if name in demolish},
                training=demolish.get("training"),  # files of older releases have none
                log=read_log(folder) if demolish.get("log_file") == LOG_FILE else None,
                steps=read_steps(demolish, path),
            )
        except KeyError as error:
            raise ArtifactError(f"{path}: the entry {error} is missing") from None
        except (ArtifactError, ConfigurationError) as error:
            raise ArtifactError(f"{folder}: {error}") from None
