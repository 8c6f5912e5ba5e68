"""ScaffoldTokenizerFast: exact Scaffold-BPE inside transformers.

This file is saved beside every tokenizer and runs from there on machines without hf_scaffold, so it imports
nothing but the standard library, transformers and tokenizers.

A saved tokenizer holds two models over one public vocabulary. `tokenizer.json` is a plain BPE that any
program can read: public ids only, nearly exact. `scaffold.json` holds what makes the ids exact: the merges
over the expanded vocabulary, scaffold tokens included, and the public tokens each scaffold token demolishes
to. Encoding takes two steps: the expanded model, in which scaffold tokens have ids from FIRST_SCAFFOLD_ID up,
then demolishing, after which no such id is left. Everything else (added tokens, decoding, truncation,
templates, padding) is stock code.
"""

import contextlib
import copy
import errno
import glob
import importlib
import json
import os
import re
import reprlib
import tempfile
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from functools import cache, partial
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import tokenizers
import transformers

# The lowest release, and the first one beyond; as in pyproject.toml.
SUPPORTED = {transformers: ("5.0", "6.0"), tokenizers: ("0.22", "1.0")}


def check_version(package: ModuleType, lowest: str, beyond: str) -> None:
    found = package.__version__
    if not release(lowest) <= release(found) < release(beyond):
        needed = f"{package.__name__}>={lowest},<{beyond}"
        raise ImportError(
            f"ScaffoldTokenizerFast needs {needed}, but {package.__name__} {found} is installed. "
            f"Run: pip install '{needed}'"
        )


def release(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


# Before importing names that other releases may lack.
for _package, _limits in SUPPORTED.items():
    check_version(_package, *_limits)

from tokenizers import AddedToken, Encoding, Tokenizer  # noqa: E402  # after the check
from tokenizers.models import BPE  # noqa: E402
from tokenizers.pre_tokenizers import ByteLevel  # noqa: E402
from transformers import BatchEncoding, PreTrainedTokenizerFast  # noqa: E402

__all__ = ["ScaffoldTokenizerFast", "register"]

VOCAB_FILES_NAMES = {"tokenizer_file": "tokenizer.json", "scaffold_file": "scaffold.json"}
# Files of a tokenizer that is being overwritten, which stock would still read. The last two, from older
# releases, would even override the new config.
STALE = (
    "chat_template.jinja",
    os.path.join("additional_chat_templates", "*.jinja"),
    "special_tokens_map.json",
    "added_tokens.json",
)
# For tokenizer_config.json: given trust_remote_code, AutoTokenizer finds the class without hf_scaffold.
AUTO_MAP = {"AutoTokenizer": [None, "tokenization_scaffold.ScaffoldTokenizerFast"]}
SCAFFOLD_VERSION = 1
VERSION_WITH_STEPS = 2  # of PickyBPE
# The contract with hf_scaffold.native, which may come from another release than this file.
NATIVE_INTERFACE = 1
# Above every public id, now or after add_tokens, so that one comparison tells a scaffold token.
FIRST_SCAFFOLD_ID = 1 << 31
# A vocabulary of any size may use these ids. Larger ones must be below the length of the vocabulary's JSON,
# so that no table indexed by id outgrows the file it is built from.
FREE_IDS = 1 << 16
# How deep other entries of scaffold.json may nest, so that any program can read them.
MAX_NESTING = 100
# Tokens rebuilt around a scaffold token. Encodings can only be built from JSON, at about 2 µs a token.
WINDOW = 32
# Kept per tokenizer. In practice few settings alternate; each has its own table of added tokens.
MAX_PIPELINES = 16

# The settings of a BPE model that decide how text becomes symbols.
MODEL_SETTINGS = ("unk_token", "fuse_unk", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")

settings_of_bpe = attrgetter(*MODEL_SETTINGS)

# Attributes that stock doesn't have.
INTERNAL = ("cache", "_scaffold_json", "_checked_model")

DERIVED_FROM_MODEL = ("expanded", "expanded, with dropout", "native", "native model", "native decoding")

# The arguments of `save_pretrained`: its own, those of `push_to_hub`, and those for models that pipelines
# pass on to it.
SAVING = (
    *("legacy_format", "filename_prefix", "push_to_hub", "save_format", "save_jinja_files", "repo_id"),
    *("commit_message", "commit_description", "private", "token", "revision", "create_pr", "tags"),
    *("max_shard_size", "safe_serialization", "variant", "is_main_process", "state_dict", "save_function"),
    *("save_peft_format", "save_original_format"),
)

# What it patches is stock's `from_pretrained`, and `tokenizers.decoders.DecodeStream`.
FASTOKENS = (
    "fastokens.patch_transformers() has no effect on a ScaffoldTokenizerFast: its encoder would give other "
    "ids. But the DecodeStream it puts into tokenizers.decoders takes only tokenizers of its own; to stream "
    "decoded text, call fastokens.unpatch_transformers() first"
)

# Text to the byte-level stand-ins of its UTF-8, unsplit.
STAND_INS = ByteLevel(add_prefix_space=False, use_regex=False)

Offsets = tuple[int, int]
Piece = tuple[int, str]  # public id, token
LocatedPiece = tuple[int, str, Offsets]  # with the characters it stands for


class ScaffoldTokenizerFast(PreTrainedTokenizerFast):
    """A fast tokenizer whose ids are exactly those of Scaffold-BPE.

    Used like any `PreTrainedTokenizerFast`. Only public ids leave it: every id is below `len(tokenizer)`.
    Calls never change the tokenizer, so threads may share it, whatever truncation and padding each asks for.

    Args:
        tokenizer_object: Plain BPE over the public vocabulary; or tokenizer_file, the path of its JSON.
        scaffold: `{"version": 1, "merges": [[left, right], …], "demolish": {scaffold token: [tokens]},
            "raw_agreement": share or None, "raw_agreement_merges_only": likewise, "raw_agreement_unseen":
            likewise, "training": {…} or None}`, merges in rank order, all from raw_agreement on optional; or
            scaffold_file, the path of its JSON.
        kwargs: As for `PreTrainedTokenizerFast`: eos_token, pad_token, model_max_length, …
    Raises:
        ValueError: there is no scaffold, it does not fit the vocabulary, or a file is malformed; the message
            names the file and the violation.
    Cost: `from_pretrained` compiles the encoder, in some 40 ms at 32,000 tokens; else the first call does.
    Example:
        >>> vocab = {"a": 0, "b": 1, "c": 2, "abc": 3}
        >>> scaffold = {"version": 1, "merges": [["a", "b"], ["ab", "c"]], "demolish": {"ab": ["a", "b"]}}
        >>> tokenizer = ScaffoldTokenizerFast(tokenizer_object=Tokenizer(BPE(vocab, [])), scaffold=scaffold)
        >>> tokenizer("abcab").tokens()
        ['abc', 'a', 'b']
    """

    vocab_files_names = VOCAB_FILES_NAMES
    _auto_map = AUTO_MAP
    _tokenizer: Tokenizer  # the public backend
    # False turns hf_scaffold's native encoder off, as HF_SCAFFOLD_NATIVE=0 does for all tokenizers. Read only
    # here, since reading the environment takes as long as encoding a short text.
    native = os.environ.get("HF_SCAFFOLD_NATIVE") != "0"
    # The ScaffoldBPE with its training log, if `hf_scaffold.train_tokenizer(log=True)` made this. Neither
    # saved nor pickled.
    artifact: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Not in the signature, since stock saves what is there in tokenizer_config.json.
        scaffold, scaffold_file = kwargs.pop("scaffold", None), kwargs.pop("scaffold_file", None)
        source = "scaffold"
        if scaffold is None:
            source = scaffold_file or "scaffold.json"
            scaffold = read_scaffold(scaffold_file, kwargs.get("name_or_path"))
        # Stock would save where the files were found; and, in place of an entry named like an attribute of
        # this class, the attribute.
        for key in ("is_local", "local_files_only", *INTERNAL):
            kwargs.pop(key, None)
        # from_pretrained gathers the user's own named tokens. Undo that, so that they are saved as they came.
        specific = kwargs.get("model_specific_special_tokens") or {}
        if specific and all(name.endswith("_token") for name in specific):
            kwargs.update(kwargs.pop("model_specific_special_tokens"))
        check_settings(kwargs)
        if isinstance(backend := kwargs.get("tokenizer_object"), Tokenizer):
            check_ids(backend, "tokenizer_object")  # before stock copies it, at a cost that follows the ids
        if path := kwargs.get("tokenizer_file"):
            check_prefix(path)
        # Whatever is derived from the backend. Shared with shallow copies; never pickled or fingerprinted.
        self.cache: dict[str, Any] = {}
        with backend_errors(kwargs.get("tokenizer_file") or "tokenizer_object"):
            super().__init__(*args, **kwargs)  # type: ignore[no-untyped-call]  # stock has no annotations there
        check_scaffold(scaffold, self._tokenizer, source)
        self._checked_model = model_state(self._tokenizer)
        self.cache = {"backend": self._tokenizer}
        # One string, not 100,000 small objects: pickling and fingerprints stay fast.
        self._scaffold_json = json.dumps(
            {"raw_agreement": None, **scaffold}, ensure_ascii=False, sort_keys=True, separators=(",", ":")
        )

    @property
    def scaffold(self) -> dict[str, Any]:
        """The content of scaffold.json: version, merges, demolish, raw_agreement, …, training. A copy."""
        content: dict[str, Any] = json.loads(self._scaffold_json)
        return content

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The public backend, which may be changed at any time: its parts, its added tokens, its settings.

        A model of another vocabulary is refused by the next call, unless it has exactly as many tokens.
        Once this was read, each call compares all added tokens, at a microsecond or two for each.
        """
        self.cache["backend is known"] = True
        return self._tokenizer

    @property
    def dropout(self) -> float | None:
        """BPE-dropout for training: the probability of passing over a merge; None or 0, the default, is off.

        Saved with the tokenizer, in tokenizer.json. A call may override it: `tokenizer(text, dropout=0.1)`.
        `tokenizer(text, seed=7)` gives a text the same tokens again, in whatever batch, thread or process.
        Without a seed, Python's `random` decides. Both take the native encoder (see `explain_path`);
        elsewhere the backend's own dropout takes its place, with the same chances, but not to be repeated.
        """
        # The backend keeps 32 bits.
        dropout = getattr(self._tokenizer.model, "dropout", None)
        return None if dropout is None else float(f"{dropout:.7g}")

    @dropout.setter
    def dropout(self, dropout: float | None) -> None:
        self._tokenizer.model.dropout = checked_dropout(dropout)

    # ---- encoding ----

    def _switch_to_input_mode(self) -> None:
        """Nothing, as without it: stock asks each call for it, and what is missing takes 2 µs to find out."""

    def _encode_plus(  # type: ignore[override]  # stock's other options pass through
        self,
        text: Any,
        text_pair: Any = None,
        dropout: float | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        dropout = self.dropout if dropout is None else checked_dropout(dropout)
        native = native_encoder() if self.native else None
        if native is not None:
            try:
                encoded: BatchEncoding = native.encode_plus(self, text, text_pair, dropout, seed, **kwargs)
                return encoded
            except native.NotNativeError:
                pass
        draw = self._draw(dropout, seed, kwargs) if dropout else None
        return self._encode_generally(self._tokenizer, text, text_pair, dropout, draw, **kwargs)

    def _draw(self, dropout: float, seed: int | None, kwargs: Mapping[str, Any]) -> "Draw | None":
        """Native dropout, where there is one for this tokenizer; else None, for the backend's."""
        native = native_encoder() if self.native else None
        reason = self._why_not_native() if native is None else "sanitize_control_tokens is set"
        if native is not None and not kwargs.get("sanitize_control_tokens"):
            try:
                draw: Draw = native.draw(self, dropout, seed)
                return draw
            except native.NotNativeError as error:
                reason = str(error)
        if seed is not None:
            raise ValueError(
                f"only the native encoder's dropout takes a seed, and here it can't be used: {reason}. "
                "Leave out seed, and the backend's dropout takes its place"
            )
        return None

    def _why_not_native(self) -> str:
        if self.native:
            return "hf_scaffold isn't installed, or of another release"
        return "`native` is False" if ScaffoldTokenizerFast.native else "HF_SCAFFOLD_NATIVE is 0"

    def _encode_generally(
        self,
        public: Tokenizer,
        text: Any,
        text_pair: Any = None,
        dropout: float | None = None,
        draw: "Draw | None" = None,
        **kwargs: Any,
    ) -> BatchEncoding:
        """`_encode_plus` by the backend, which may be another one with the same added tokens."""
        # Stock code runs on a twin with a backend of its own, so a call changes nothing of self. Copy names
        # before the backend: then the backend has every token that is named, whatever other threads do.
        call = self._twin(_special_tokens_map=self._special_tokens_map.copy())
        state = self._state_of(public)
        expanded = self._expanded(None if draw else dropout)
        pipelines = partial(expanded.pipelines_of, public, state)
        backend = CallBackend(public, expanded, pipelines, self._asks_for_ids_only(kwargs), draw)
        call.__dict__.update(_tokenizer=backend, native=False)
        try:
            return super(ScaffoldTokenizerFast, call)._encode_plus(text, text_pair, **kwargs)
        except TypeError:
            refuse_lone_surrogates("text", text)
            refuse_lone_surrogates("text_pair", text_pair)
            raise

    def _asks_for_ids_only(self, kwargs: Mapping[str, Any]) -> bool:
        return "token_type_ids" not in self.model_input_names and not (
            kwargs.get("return_token_type_ids")
            or kwargs.get("return_offsets_mapping")
            or kwargs.get("return_special_tokens_mask")
            or kwargs.get("return_overflowing_tokens")
        )

    def _encode_without_added_tokens(self, text: str) -> list[int]:
        backend: Any = self._tokenizer
        if isinstance(backend, CallBackend):
            expanded = backend.expanded
        else:
            self._state_of(backend)
            expanded = self._expanded(self.dropout)
        tokenizer = Tokenizer(expanded.model)
        tokenizer.normalizer = self._tokenizer.normalizer
        tokenizer.pre_tokenizer = self._tokenizer.pre_tokenizer
        return expanded.demolish_ids(tokenizer.encode(text, add_special_tokens=False).ids)

    def _expanded(self, dropout: float | None = None) -> "ExpandedModel":
        # Only two are kept, without dropout and with the latest: schedules change it at every step.
        key = "expanded, with dropout" if dropout else "expanded"
        expanded: ExpandedModel | None = self.cache.get(key)
        if expanded is None or expanded.dropout != (dropout or None):
            expanded = self.cache[key] = ExpandedModel(self.scaffold, self._tokenizer, dropout or None)
        return expanded

    def _state_of(self, public: Tokenizer) -> tuple[Any, ...]:
        """Compares equal as long as the backend encodes as before.

        Comparing added tokens takes a microsecond or two each. Counting them will do as long as only
        `add_tokens`, which leaves a mark, can have changed them.
        """
        parts = (
            part_state(public.normalizer),
            part_state(public.pre_tokenizer),
            part_state(public.post_processor),
        )
        if public is not self._tokenizer:
            return (AddedTokens.of(public).state, *parts)
        cache, model = self.cache, model_state(public)
        if cache.get("backend") is not public:  # put in place from outside, where it is known
            refuse_other_backends(public)
            cache = self.cache = {"backend": public, "backend is known": True}
        if model != self._checked_model:
            check_scaffold(self.scaffold, public, "scaffold.json")
            self._checked_model = model
            for name in DERIVED_FROM_MODEL:
                cache.pop(name, None)
        is_known = "backend is known" in cache
        added = AddedTokens.of(public).state if is_known else cache.get("last addition")
        return (model, added, public.get_vocab_size(), *parts)

    def add_special_tokens(self, *args: Any, **kwargs: Any) -> int:
        """As stock, but adds tokens before it names them: no thread ever sees a name without an id."""
        unnamed = copy.copy(self)
        for name in ("_special_tokens_map", "_extra_special_tokens"):
            unnamed.__dict__[name] = copy.copy(self.__dict__[name])
        added: int = super(ScaffoldTokenizerFast, unnamed).add_special_tokens(*args, **kwargs)
        super().add_special_tokens(*args, **kwargs)
        return added

    def _add_tokens(self, new_tokens: Any, special_tokens: bool = False) -> int:
        refuse_ids_in_gaps(self._tokenizer, new_tokens)
        added = super()._add_tokens(new_tokens, special_tokens=special_tokens)
        self.cache["last addition"] = object()  # a number could be counted twice by threads that add
        return added

    # ---- training ----

    def train_new_from_iterator(
        self,
        text_iterator: Iterable[str] | Iterable[Sequence[str]],
        vocab_size: int,
        length: int | None = None,
        new_special_tokens: Sequence[str | AddedToken] | None = None,
        special_tokens_map: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> "ScaffoldTokenizerFast":
        """Train a new vocabulary; method, pipeline, special tokens, templates and settings stay.

        Args:
            text_iterator: Texts, or batches of texts.
            vocab_size: Tokens of the new vocabulary, special ones included. As in stock, special tokens and
                alphabet are there whatever the size, here with a warning.
            length: Number of texts, for the progress bar.
            new_special_tokens: Special tokens behind those there are.
            special_tokens_map: Special tokens to rename, old to new.
            kwargs: As for `hf_scaffold.train`: min_frequency, max_token_length, …; and show_progress. The
                method, with its surplus, threshold or scaffold_below, is that recorded with this tokenizer;
                Scaffold-BPE if there is none. method or scaffold chooses another.
        Returns:
            A new tokenizer. Added tokens that are not special stay, with ids from vocab_size on.
        Raises:
            ImportError: hf_scaffold is not installed: encoding needs this file alone, training the package.
            ValueError: the corpus is empty.
        """
        retrain = installed("retrain")
        if retrain is None:
            raise ImportError("train_new_from_iterator needs hf_scaffold: pip install hf_scaffold")
        trained: ScaffoldTokenizerFast = retrain.train_new_from_iterator(
            self, text_iterator, vocab_size, length, new_special_tokens, special_tokens_map, **kwargs
        )
        return trained

    def explain_path(self, text: Any, text_pair: Any = None, **kwargs: Any) -> str:
        """Whether a call with these arguments runs on the native encoder, and if not, why.

        Returns:
            "native", or "general: " and the reason. The general path is the Rust backend, with the same ids.
            Where dropout is on, and is the backend's own, which takes no seed, it says that, too.
        """
        native = native_encoder() if self.native else None
        if native is None:
            return f"general: {self._why_not_native()}"
        dropout, seed = kwargs.pop("dropout", None), kwargs.pop("seed", None)
        dropout = self.dropout if dropout is None else checked_dropout(dropout)
        for name in ("padding", "truncation"):
            kwargs.setdefault(name, None if name == "truncation" else False)
        strategies: Any = self._get_padding_truncation_strategies  # stock has no annotations there
        padding, truncation, max_length, _ = strategies(
            kwargs.pop("padding"), kwargs.pop("truncation"), kwargs.pop("max_length", None), **kwargs
        )
        kwargs |= {"padding_strategy": padding, "truncation_strategy": truncation, "max_length": max_length}
        reason = native.reason_against(
            self, text, text_pair, {**kwargs, "dropout": dropout, "seed": seed or 0}
        )
        if reason is not None and dropout and self._draw(dropout, None, kwargs) is None:
            reason += "; dropout is the backend's, without a seed"
        return "native" if reason is None else f"general: {reason}"

    # ---- to arrays ----

    def encode_batch_to_arrays(
        self,
        texts: Iterable[str] | Iterable[bytes],
        add_special_tokens: bool = True,
        split_special_tokens: bool | None = None,
        dropout: float | None = None,
        seed: int | None = None,
    ) -> tuple[Any, Any]:
        """The ids of all texts in one array: the fastest way, as no Python object is made of any id.

        Args:
            texts: Strings, UTF-8 as bytes, or a column of an Arrow table. From the last two no string is made
                where the native encoder takes them.
            add_special_tokens, split_special_tokens, dropout, seed: As in a call.
        Raises:
            TypeError: texts is a single text, or a row of it none: a null, a number.
            UnicodeDecodeError: bytes are no UTF-8.
        Returns:
            int32 ids of all texts one after another, and len(texts) + 1 int64 offsets into them.
        Example:
            >>> vocab = {"a": 0, "b": 1, "ab": 2}
            >>> scaffold = {"version": 1, "merges": [["a", "b"]], "demolish": {}}
            >>> plain = Tokenizer(BPE(vocab, []))
            >>> tokenizer = ScaffoldTokenizerFast(tokenizer_object=plain, scaffold=scaffold)
            >>> ids, offsets = tokenizer.encode_batch_to_arrays(["aab", "", "b"])
            >>> ids.tolist(), offsets.tolist()
            ([0, 2, 1], [0, 2, 2, 3])
        """
        import numpy as np

        refuse_no_batch(texts)
        if split_special_tokens is None:
            split_special_tokens = self.split_special_tokens
        options = {
            "add_special_tokens": add_special_tokens,
            "split_special_tokens": split_special_tokens,
            "dropout": self.dropout if dropout is None else checked_dropout(dropout),
            "seed": seed,
        }
        given: Any = texts if hasattr(texts, "to_pylist") else list(texts)
        native = native_encoder() if self.native else None
        if native is not None:
            with contextlib.suppress(native.NotNativeError):
                arrays: tuple[Any, Any] = native.encode_to_arrays(self, given, **options)
                return arrays
        strings = strings_of(given)
        refuse_no_text(strings)
        rows = self(strings, return_attention_mask=False, **options)["input_ids"] if strings else []
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return np.fromiter(chain.from_iterable(rows), np.int32, offsets[-1]), offsets

    def encode_to_arrow(
        self,
        texts: Iterable[str] | Iterable[bytes],
        add_special_tokens: bool = True,
        split_special_tokens: bool | None = None,
        dropout: float | None = None,
        seed: int | None = None,
    ) -> Any:
        """The ids of each text as a pyarrow array of lists of int32, without a copy of the ids.

        In `datasets`, map to tables; then no id is ever a Python object:

            dataset.map(
                lambda batch: pa.table({"input_ids": tokenizer.encode_to_arrow(batch["text"])}),
                batched=True, remove_columns=dataset.column_names,
            )

        Args: As for `encode_batch_to_arrays`.
        Returns:
            A ListArray; a LargeListArray where there are more than 2**31 - 1 ids.
        """
        try:  # a plain import would have to succeed before transformers loads this file from the Hub
            import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types
        except ImportError as error:
            raise ImportError("encode_to_arrow needs pyarrow: pip install pyarrow") from error
        ids, offsets = self.encode_batch_to_arrays(
            texts, add_special_tokens, split_special_tokens, dropout, seed
        )
        if offsets[-1] >= 1 << 31:
            return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
        return pa.ListArray.from_arrays(pa.array(offsets.astype("int32")), pa.array(ids))

    # ---- decoding ----

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **kwargs: Any) -> Any:
        """As stock, but takes lists of ids, and lists of those, without looking at each id in Python."""
        if type(token_ids) is list and token_ids and self.native:
            kinds = {*map(type, token_ids)}
            if kinds == {int}:
                return self._decode(token_ids, skip_special_tokens, **kwargs)
            if kinds == {list}:
                return [self._decode(ids, skip_special_tokens, **kwargs) for ids in token_ids]
        return super().decode(token_ids, skip_special_tokens, **kwargs)

    def _decode(self, token_ids: Any, *args: Any, **kwargs: Any) -> str:
        native = native_encoder() if self.native else None
        twin = self._twin()
        if native is None or not isinstance(token_ids, list):
            return super(ScaffoldTokenizerFast, twin)._decode(token_ids, *args, **kwargs)
        with contextlib.suppress(native.NotNativeError):
            twin.__dict__["_tokenizer"] = native.decoding_of(self)
        return super(ScaffoldTokenizerFast, twin)._decode(token_ids, *args, **kwargs)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        string: str = super(ScaffoldTokenizerFast, self._twin()).convert_tokens_to_string(tokens)
        return string

    # ---- loading, saving, copying ----

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, *args: Any, **kwargs: Any) -> Any:
        """As stock, but never mixes two saves: what it loads is all old or all new.

        Args: As in stock; a scaffold, or a scaffold_file, takes the place of the folder's scaffold.json.
        Raises:
            ValueError: a file is missing, malformed or doesn't fit the others.
            OSError: there is no such folder, nor a tokenizer of that name on the Hub; or a save was cut off
                in a folder that can't be written to, so that it can't be finished.
        """
        folder = os.path.join(str(pretrained_model_name_or_path), kwargs.get("subfolder") or "")
        load = super().from_pretrained
        if load.__module__ == "fastokens":
            warnings.warn(FASTOKENS, stacklevel=2)
            load = super(PreTrainedTokenizerFast, cls).from_pretrained
        stock = partial(load, pretrained_model_name_or_path, *args, **kwargs)
        read = partial(read_or_name_the_file, stock, pretrained_model_name_or_path)
        if os.path.isdir(folder):
            templates = ("chat_template.jinja", "additional_chat_templates")
            names = (*cls.vocab_files_names.values(), "tokenizer_config.json", *templates)
            tokenizer = read_unmixed(folder, names, read)
        else:
            tokenizer = read()
        if tokenizer.native and (native := native_encoder()) is not None:
            native.prepare(tokenizer)
        return tokenizer

    @classmethod
    def _from_pretrained(cls, resolved_vocab_files: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        # The caller's, or else the folder's scaffold.json; whatever tokenizer_config.json says is ignored.
        kwargs.setdefault("scaffold", None)
        kwargs["scaffold_file"] = kwargs.get("scaffold_file") or resolved_vocab_files.get("scaffold_file")
        return super()._from_pretrained(resolved_vocab_files, *args, **kwargs)  # type: ignore[no-untyped-call]

    @classmethod
    def convert_to_native_format(cls, trust_remote_code: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Leave tokenizer.json whole. Stock takes it apart for classes that have their own `__init__`."""
        return kwargs

    @classmethod
    def _patch_mistral_regex(cls, tokenizer: Tokenizer, *args: Any, **kwargs: Any) -> Tokenizer:
        """Keep the trained pre-tokenizer, also beside the config of a Mistral model."""
        return tokenizer

    @property
    def can_save_slow_tokenizer(self) -> bool:
        return False

    def save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
        push_to_hub: bool = False,
        save_format: str | None = None,
        **kwargs: Any,
    ) -> tuple[str, ...]:
        """Save as stock does, with scaffold.json and this class; returns the paths of the files.

        Whatever ends it, a full disk, Ctrl-C or a kill: where hf_scaffold is installed, the folder loads as
        the old tokenizer or the new one, and the next save removes what was left. A chat template of the old
        one goes; other files stay. The same tokenizer gives the same bytes, also after loading.
        With push_to_hub=True further arguments are those of `push_to_hub`, which follows.
        """
        refuse_unknown("save_pretrained", kwargs, SAVING)
        save_directory = os.fspath(save_directory)
        options: dict[str, Any] = {"legacy_format": legacy_format, "filename_prefix": filename_prefix}
        if save_format is not None:  # unknown to the first releases of transformers 5
            options["save_format"] = save_format
        if "save_jinja_files" in kwargs:
            options["save_jinja_files"] = kwargs.pop("save_jinja_files")
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        # Stock's default, but without it transformers.js removes spaces before punctuation.
        settings = {"clean_up_tokenization_spaces": False, **self.init_kwargs}
        stock: Any = super(ScaffoldTokenizerFast, self._twin(init_kwargs=settings))
        with saving(save_directory, [prefix + name for name in STALE]) as folder:
            saved = stock.save_pretrained(folder, **options, **kwargs)
        if push_to_hub:
            self.push_to_hub(kwargs.pop("repo_id", Path(save_directory).name), saving=options, **kwargs)
        return tuple(os.path.join(save_directory, os.path.relpath(path, folder)) for path in saved)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        commit_message: str | None = None,
        commit_description: str | None = None,
        private: bool | None = None,
        token: bool | str | None = None,
        revision: str | None = None,
        create_pr: bool = False,
        max_shard_size: int | str | None = None,
        tags: list[str] | None = None,
        saving: Mapping[str, Any] | None = None,
    ) -> Any:
        """Push as stock does, with a model card that hf_scaffold writes; returns the commit's CommitInfo.

        Where hf_scaffold is not installed no card is written. A README.md that is the owner's own stays.

        Args: As in stock, where max_shard_size means nothing for a tokenizer, either; and
            saving: Arguments for `save_pretrained`.
        """
        from huggingface_hub import create_repo

        card = installed("model_card")
        if tags and card is None:
            raise ImportError("tags are part of the model card, which needs hf_scaffold")
        repo_id = create_repo(repo_id, private=private, token=token, exist_ok=True).repo_id
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder, **(saving or {}))
            if card is not None:
                card.write_card(self, folder, repo_id, revision=revision, token=token, tags=tags)
            return self._upload_modified_files(
                folder,
                repo_id,
                files_timestamps={},
                commit_message=commit_message,
                token=token,
                create_pr=create_pr,
                revision=revision,
                commit_description=commit_description,
            )

    def _save_pretrained(
        self,
        save_directory: str | os.PathLike[str],
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        try:
            saved = super(ScaffoldTokenizerFast, self._twin())._save_pretrained(
                save_directory, file_names, legacy_format, filename_prefix
            )
        except Exception as error:  # tokenizers has no narrower class, not even for a full disk
            if found := re.search(r"\(os error (\d+)\)$", str(error)):
                raise OSError(int(found[1]), os.strerror(int(found[1]))) from error
            raise
        module = Path(save_directory, "tokenization_scaffold.py")
        module.write_bytes(Path(__file__).read_bytes())
        return (*saved, *self.save_vocabulary(os.fspath(save_directory), filename_prefix), str(module))

    def save_vocabulary(self, save_directory: str, filename_prefix: str | None = None) -> tuple[str]:
        """Write scaffold.json; returns its path. The public vocabulary is part of tokenizer.json."""
        name = self.vocab_files_names["scaffold_file"]
        path = Path(save_directory, f"{filename_prefix}-{name}" if filename_prefix else name)
        path.write_bytes(self._scaffold_json.encode() + b"\n")
        return (str(path),)

    def __getstate__(self) -> dict[str, Any]:
        # Other threads may set anything meanwhile: `copy` can't be interrupted.
        state = self.__dict__.copy()
        state.pop("artifact", None)
        state["cache"] = {}
        return {name: value.copy() if type(value) in (dict, list) else value for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, cache={"backend": state["_tokenizer"]})

    def __copy__(self) -> "ScaffoldTokenizerFast":
        # As in stock, copies share the backend; so they share what is derived from it.
        return self._twin(cache=self.cache)

    def _twin(self, **others: Any) -> "ScaffoldTokenizerFast":
        """A copy for stock code to run on; what it sets, and that it reads the backend, stays there."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__, **{"cache": {}, **others})
        return twin


def is_scaffold(tokenizer: Any) -> bool:
    """Whether this is a ScaffoldTokenizerFast: of this file, or of the copy beside a saved tokenizer."""
    return any(kind.__name__ == ScaffoldTokenizerFast.__name__ for kind in type(tokenizer).__mro__)


def backend_of(tokenizer: Any) -> Any:
    """A fast tokenizer's backend, only to look at: `backend_tokenizer` means that it may change."""
    return tokenizer._tokenizer if is_scaffold(tokenizer) else getattr(tokenizer, "backend_tokenizer", None)


def model_state(public: Tokenizer) -> tuple[Any, ...]:
    """What tells models apart, unless they have equally many tokens: comparing those takes milliseconds."""
    model = public.model
    if isinstance(model, BPE):
        return public.get_vocab_size(with_added_tokens=False), *settings_of_bpe(model)
    return (type(model).__name__,)


def part_state(part: Any) -> Any:
    """What a part of a backend compares by."""
    try:
        return None if part is None else part.__getstate__()
    except Exception:  # of no narrower class
        return object()  # a part written in Python may change at any time


def refuse_other_backends(public: Any) -> None:
    if not isinstance(public, (Tokenizer, CallBackend)):
        kind = type(public)
        raise TypeError(
            f"the backend of this tokenizer was replaced by a {kind.__module__}.{kind.__qualname__}, "
            "which is no tokenizers.Tokenizer and knows nothing of scaffold tokens. Undo what replaced it "
            "(fastokens.unpatch_transformers(), say), and load the tokenizer again"
        )


def refuse_no_batch(texts: Any) -> None:
    kind = type(texts).__name__
    if isinstance(texts, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"texts is a single {kind}, not a batch of texts; put it into a list: [text]")
    if isinstance(texts, Mapping) or hasattr(texts, "column_names"):
        raise TypeError(f"texts is a {kind}, not a batch of texts; give one of its columns")


def refuse_no_text(strings: Iterable[Any]) -> None:
    for i, item in enumerate(strings):
        if item is None:
            raise TypeError(f"texts[{i}] is null; drop such rows, or fill them: column.fill_null('')")
        if not isinstance(item, str):
            raise TypeError(f"texts[{i}] is a {type(item).__name__}, not a str or UTF-8 as bytes")


def strings_of(texts: Any) -> list[Any]:
    """A column of an Arrow table, or a list with UTF-8 in it, as strings; other items stay as they are."""
    items = texts.to_pylist() if hasattr(texts, "to_pylist") else texts
    return [item.decode() if isinstance(item, bytes) else item for item in items]


@cache
def native_encoder() -> Any:
    """The module `hf_scaffold.native`, if this file can use it; else None."""
    native = installed("native")
    return native if native is not None and native.INTERFACE == NATIVE_INTERFACE else None


def installed(name: str) -> Any:
    """A module of hf_scaffold, which this file works without; None if the package isn't installed."""
    try:
        return importlib.import_module(f"hf_scaffold.{name}")
    except ImportError:
        return None


class ExpandedModel:
    """BPE over the expanded vocabulary, and what each of its scaffold tokens demolishes to."""

    def __init__(self, scaffold: Mapping[str, Any], public: Tokenizer, dropout: float | None) -> None:
        if "steps" in scaffold:
            # Not left undone: the models of `tokenizers` can't take a token out again once it is merged.
            raise NotImplementedError(
                "only hf_scaffold's own encoder takes tokens out, as PickyBPE and residue do, and it can't "
                "serve this call; `explain_path` says why"
            )
        vocab = public.get_vocab(with_added_tokens=False)
        demolish = scaffold["demolish"]
        scaffold_ids = {token: FIRST_SCAFFOLD_ID + i for i, token in enumerate(demolish)}
        self.pieces = {
            scaffold_ids[token]: [(vocab[piece], piece) for piece in pieces]
            for token, pieces in demolish.items()
        }
        merges = [(left, right) for left, right in scaffold["merges"]]
        self.dropout = dropout
        settings = {name: getattr(public.model, name) for name in MODEL_SETTINGS}
        settings = {name: value for name, value in settings.items() if value is not None}
        self.model = BPE({**vocab, **scaffold_ids}, merges, dropout=self.dropout, **settings)
        # Makes a token of every symbol: for the offsets of a token's pieces.
        self.symbols = BPE({**vocab, **scaffold_ids}, [], **settings)
        self.prefix = public.model.continuing_subword_prefix or ""
        self.pipelines: dict[Any, Pipelines] = {}

    def demolish_ids(self, ids: list[int]) -> list[int]:
        """Token ids with the pieces in place of every scaffold token."""
        demolished: list[int] = []
        start = 0
        for position in scaffold_positions(ids):
            demolished += ids[start:position]
            demolished += [piece_id for piece_id, _ in self.pieces[ids[position]]]
            start = position + 1
        return demolished + ids[start:]

    def demolish_lazily(
        self, encoding: Encoding, encode: Callable[[], list[Encoding]]
    ) -> "Encoding | LazyEncoding":
        ids = encoding.ids
        if not has_scaffold(ids):
            return encoding
        return LazyEncoding(self.demolish_ids(ids), encoding.n_sequences, encode)

    def pipelines_of(
        self, public: Tokenizer, state: tuple[Any, ...], encode_special_tokens: bool
    ) -> "Pipelines":
        """The pipelines for this state of the backend. Calls share them, so they are never changed."""
        key = (encode_special_tokens, state)
        # Other threads may add tokens, or clear, at any point. So look once, and build everything from that.
        pipelines = self.pipelines.get(key)
        if pipelines is None:
            if len(self.pipelines) >= MAX_PIPELINES:
                self.pipelines.clear()
            added = AddedTokens.of(public)
            framing, bare, symbols = (
                with_model(model, public, added) for model in (self.model, self.model, self.symbols)
            )
            framing.post_processor = copied_part(public.post_processor)
            for pipeline in (framing, bare, symbols):
                pipeline.encode_special_tokens = encode_special_tokens
            pipelines = self.pipelines[key] = Pipelines(framing, bare, symbols)
        return pipelines


class Pipelines(NamedTuple):
    """The public backend with another model; no truncation, no padding."""

    framing: Tokenizer  # the expanded model, with post-processor
    bare: Tokenizer  # the expanded model, without
    symbols: Tokenizer  # every symbol its own token, without


class AddedTokens(NamedTuple):
    """The added tokens of a backend at one moment."""

    by_id: dict[int, AddedToken]
    # A token once added as special stays special, even if it is added again as a common one. Only decoding
    # shows it, by skipping the token; where the normalizer changes the token's text, nothing does.
    special: frozenset[str]

    @classmethod
    def of(cls, public: Tokenizer) -> "AddedTokens":
        by_id = public.get_added_tokens_decoder()
        special = (
            token.content
            for i, token in by_id.items()
            if token.special or (not public.decode([i]) and public.decode([i], skip_special_tokens=False))
        )
        return cls(by_id, frozenset(special))

    @property
    def state(self) -> tuple[str, frozenset[str]]:
        """Hashable; differs if anything does."""
        return repr(self.by_id), self.special


def with_model(model: Any, public: Tokenizer, added: AddedTokens) -> Tokenizer:
    """A tokenizer with this model and added tokens, and the public backend's normalizer and pre-tokenizer."""
    # An added token takes its id from the model in place when it is added. Here that gives its public id,
    # even if the final model has a scaffold token with the same string: found in text it is the added token,
    # merged from parts it is the scaffold.
    tokens = added.by_id.values()
    tokenizer = Tokenizer(BPE({token.content: token_id for token_id, token in added.by_id.items()}, []))
    tokenizer.normalizer = copied_part(public.normalizer)
    tokenizer.add_special_tokens([token for token in tokens if token.content in added.special])
    tokenizer.add_tokens([token for token in tokens if not token.special])
    tokenizer.model = model
    tokenizer.pre_tokenizer = copied_part(public.pre_tokenizer)
    return tokenizer


def copied_part(part: Any) -> Any:
    """The part as it is now: changing it in place must not change what is kept for this state."""
    try:
        return copy.deepcopy(part)
    except Exception:  # of no narrower class
        return part  # some can't be copied: what is written in Python, Replace


def has_scaffold(ids: list[int]) -> bool:
    return max(ids, default=0) >= FIRST_SCAFFOLD_ID


def scaffold_positions(ids: list[int]) -> list[int]:
    return [position for position, token_id in enumerate(ids) if token_id >= FIRST_SCAFFOLD_ID]


class CallBackend:
    """The backend tokenizer that stock `_encode_plus` sees in one call.

    Truncation and padding belong to the call: they live in a `frame`, a backend with an empty model. What is
    not about encoding is answered by the public backend.
    """

    def __init__(
        self,
        public: Tokenizer,
        expanded: ExpandedModel,
        pipelines_of: Callable[[bool], Pipelines],
        ids_only: bool,
        draw: "Draw | None",
    ) -> None:
        self.public = public
        self.expanded = expanded
        self.pipelines_of = pipelines_of
        self.ids_only = ids_only and draw is None
        self.draw = draw
        self.encode_special_tokens: bool = public.encode_special_tokens
        self.frame = Tokenizer(BPE())
        self.frame.post_processor = public.post_processor
        self.enable_truncation = self.frame.enable_truncation
        self.no_truncation = self.frame.no_truncation
        self.enable_padding = self.frame.enable_padding
        self.no_padding = self.frame.no_padding
        self._pipelines: Pipelines | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.public, name)

    @property
    def truncation(self) -> dict[str, Any] | None:
        truncation: dict[str, Any] | None = self.frame.truncation
        return truncation

    @property
    def padding(self) -> dict[str, Any] | None:
        padding: dict[str, Any] | None = self.frame.padding
        return padding

    # No cached_property in this file: before Python 3.12 it has a lock, and in the copies of a Hub class that
    # datasets sends to its processes by dill, that lock is never released.
    @property
    def pipelines(self) -> Pipelines:
        if self._pipelines is None:
            self._pipelines = self.pipelines_of(self.encode_special_tokens)
        return self._pipelines

    def encode_batch(
        self, inputs: list[Any], add_special_tokens: bool = True, is_pretokenized: bool = False
    ) -> "Sequence[Encoding | LazyEncoding]":
        """As `Tokenizer.encode_batch`, demolished."""
        samples = [as_sequences(item, is_pretokenized) for item in inputs]
        encode = partial(
            self.encode_exactly, is_pretokenized=is_pretokenized, add_special_tokens=add_special_tokens
        )
        no_length_matters = self.ids_only and not (is_pretokenized or self.truncation or self.padding)
        if no_length_matters and not self.expanded.dropout:
            # So the template may come before demolishing. The batch is then final for texts without scaffold
            # tokens; for others it gives the ids, usually all that is wanted.
            encodings = encode_all(self.pipelines.framing, inputs, False, add_special_tokens)
            return [
                self.expanded.demolish_lazily(encoding, partial(encode, [sample]))
                for sample, encoding in zip(samples, encodings, strict=True)
            ]
        try:
            return self.drop_lazily(samples, add_special_tokens) if no_length_matters else encode(samples)
        except TypeError:
            # Sequences of a pair, encoded one by one, are refused in other words than the pair would be.
            self.frame.encode_batch(inputs, add_special_tokens=False, is_pretokenized=is_pretokenized)
            raise

    def drop_lazily(
        self, samples: list[tuple[Any, ...]], add_special_tokens: bool
    ) -> "list[Encoding | LazyEncoding]":
        """Ids of the backend's dropout, kept because encoding again would draw again."""
        drawn = iter(encode_all(self.pipelines.bare, list(chain.from_iterable(samples)), False, False))
        rows = [[next(drawn) for _ in sample] for sample in samples]

        def demolish(sample: tuple[Any, ...], row: list[Encoding]) -> list[Encoding]:
            # Several threads may get here, and `demolish` uses up its argument.
            copies = (Encoding.merge([encoding], growing_offsets=False) for encoding in row)
            return self.frame_rows([list(map(self.demolish, copies, sample))], add_special_tokens)

        return [
            self.expanded.demolish_lazily(framed, partial(demolish, sample, row))
            for sample, row, framed in zip(
                samples, rows, self.frame_rows(rows, add_special_tokens), strict=True
            )
        ]

    def encode_exactly(
        self, samples: list[tuple[Any, ...]], is_pretokenized: bool, add_special_tokens: bool
    ) -> list[Encoding]:
        """Encode each sequence and demolish; then truncate, add the template and pad, natively."""
        encodings = iter(self.encode_sequences(list(chain.from_iterable(samples)), is_pretokenized))
        return self.frame_rows([[next(encodings) for _ in sample] for sample in samples], add_special_tokens)

    def frame_rows(self, rows: list[list[Encoding]], add_special_tokens: bool) -> list[Encoding]:
        framed = []
        for first, *rest in rows:
            second = rest[0] if rest else None
            if second is not None and self.truncation:
                second = with_type_id_1(second)  # the frame sets type ids, except in what overflows
            framed.append(self.frame.post_process(first, second, add_special_tokens))
        if self.padding and self.padding["length"] is None:
            pad_to_longest(framed, self.padding)
        return framed

    def encode_sequences(self, sequences: list[Any], is_pretokenized: bool) -> Iterable[Encoding]:
        if self.draw is not None:
            return self.draw(self, sequences, is_pretokenized)
        encodings = encode_all(self.pipelines.bare, sequences, is_pretokenized, False)
        return map(self.demolish, encodings, sequences)

    def demolish(self, encoding: Encoding, sequence: Any) -> Encoding:
        """The encoding of one sequence with the pieces in place of every scaffold token; uses it up."""
        ids = encoding.ids
        if not has_scaffold(ids):
            return encoding
        pieces = {position: self.expanded.pieces[ids[position]] for position in scaffold_positions(ids)}
        return replace_tokens(encoding, self.locate_pieces(encoding, pieces, sequence))

    def locate_pieces(
        self, encoding: Encoding, pieces: dict[int, list[Piece]], sequence: Any
    ) -> dict[int, list[LocatedPiece]]:
        """The pieces at these positions, each with the characters it stands for.

        A normalizer or a prefix space hides which character a byte came from. Then the offsets are those of
        the symbols, as the backend itself gives them.
        """
        symbols: Symbols | None = None
        located = {}
        tokens, offsets, words = encoding.tokens, encoding.offsets, encoding.word_ids
        for position, parts in pieces.items():
            text = sequence if isinstance(sequence, str) else sequence[words[position]]
            names = [token for _, token in parts]
            found = None
            if self.pipelines.bare.normalizer is None:
                first, end = whole_characters(position, offsets, words)
                spelled = [*tokens[first:position], *names, *tokens[position + 1 : end]]
                start, stop = offsets[first][0], offsets[end - 1][1]
                found = walk_characters(text[start:stop], start, spelled)
            if found is not None:
                found = found[position - first :][: len(parts)]
            else:
                symbols = symbols or self.locate_symbols(encoding, sequence)
                found = symbols.offsets_of(position, names)
            located[position] = [(*part, at) for part, at in zip(parts, found, strict=True)]
        return located

    def locate_symbols(self, encoding: Encoding, sequence: Any) -> "Symbols":
        is_pretokenized = not isinstance(sequence, str)
        symbols = self.pipelines.symbols.encode(sequence, None, is_pretokenized, add_special_tokens=False)
        return Symbols(encoding, symbols, self.expanded.prefix)


# Encodes a call's sequences under native dropout, given whether they are split into words.
Draw = Callable[[CallBackend, list[Any], bool], list[Encoding]]


class Symbols:
    """Where each symbol of a sequence stands in the text, found by the position of its token.

    Args:
        encoding: The sequence in tokens.
        symbols: The same, every symbol its own token. An added or unknown token is the same on both sides.
        prefix: What a token loses behind another one.
    """

    def __init__(self, encoding: Encoding, symbols: Encoding, prefix: str) -> None:
        self.offsets = symbols.offsets
        self.symbols = symbols.tokens
        self.prefix = prefix
        self.first_symbol = []
        at = 0
        for token in encoding.tokens:
            self.first_symbol.append(at)
            length, at = len(self.symbols[at]), at + 1
            while length < len(token):
                length, at = length + len(self.symbols[at]) - len(prefix), at + 1
        self.first_symbol.append(at)

    def offsets_of(self, position: int, parts: list[str]) -> list[Offsets]:
        """A part that begins or ends inside a symbol covers it; that takes text that spells affixes."""
        first, end = self.first_symbol[position : position + 2]
        ends = [stop for _, stop in spans(self.symbols[first:end], self.prefix)]
        return [
            (
                self.offsets[first + bisect_right(ends, i)][0],
                self.offsets[first + bisect_right(ends, j - 1)][1],
            )
            for i, j in spans(parts, self.prefix)
        ]


class LazyEncoding:
    """An Encoding whose ids are known; everything else is computed when it is first asked for.

    Rebuilding Encodings would take a large part of the time of encoding long texts, and mostly for nothing:
    who prepares training data takes the ids. Pickled or copied, it is a plain Encoding.
    """

    def __init__(self, ids: list[int], n_sequences: int, encode: Callable[[], list[Encoding]]) -> None:
        self._ids = ids
        self._n_sequences = n_sequences
        self._encode = encode
        self._encoding: Encoding | None = None

    # Once computed, the Encoding decides: pad, truncate and set_sequence_id change it in place.

    @property
    def ids(self) -> list[int]:
        return self.encoding.ids if self._is_computed else self._ids.copy()

    @property
    def attention_mask(self) -> list[int]:
        return self.encoding.attention_mask if self._is_computed else [1] * len(self._ids)

    @property
    def n_sequences(self) -> int:
        return self.encoding.n_sequences if self._is_computed else self._n_sequences

    def __len__(self) -> int:
        return len(self.encoding) if self._is_computed else len(self._ids)

    @property
    def _is_computed(self) -> bool:
        return self._encoding is not None

    @property
    def encoding(self) -> Encoding:
        if self._encoding is None:
            self._encoding = self._encode()[0]
        return self._encoding

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoding, name)

    def __repr__(self) -> str:
        return repr(self.encoding)

    def __reduce__(self) -> tuple[Any, ...]:
        return copy.copy, (self.encoding,)


# ---- Encodings ----


def as_sequences(item: Any, is_pretokenized: bool) -> tuple[Any, ...]:
    """One or two sequences, as `Tokenizer.encode_batch` reads an input; it refuses everything else."""
    is_pair = isinstance(item, (tuple, list)) and len(item) == 2
    if is_pair and not (is_pretokenized and isinstance(item[0], str)):
        return tuple(item)
    return (item,)


def encode_all(
    tokenizer: Tokenizer, inputs: list[Any], is_pretokenized: bool, add_special_tokens: bool
) -> list[Encoding]:
    """As `encode_batch`, which in a forked process would wait forever for threads left behind."""
    if os.getpid() == first_process():
        start_threads()
        return tokenizer.encode_batch(inputs, is_pretokenized, add_special_tokens)
    return [
        tokenizer.encode(first, rest[0] if rest else None, is_pretokenized, add_special_tokens)
        for first, *rest in (as_sequences(item, is_pretokenized) for item in inputs)
    ]


# Not a constant: datasets would copy it with a Hub class and count it in fingerprints.
@cache
def first_process() -> int:
    """The id of the process that imported this; a forked one has another."""
    return os.getpid()


first_process()


@cache
def start_threads() -> None:
    """Let the backend start its threads before `encode_batch` does.

    That releases the GIL; a process forked at this very moment would wait for them forever. `pad` keeps it.
    """
    Encoding().pad(1)


def pad_to_longest(encodings: list[Encoding], padding: dict[str, Any]) -> None:
    longest = max(map(len, encodings), default=0)
    for encoding in encodings:
        encoding.pad(
            longest,
            direction=padding["direction"],
            pad_id=padding["pad_id"],
            pad_type_id=padding["pad_type_id"],
            pad_token=padding["pad_token"],
        )


def replace_tokens(encoding: Encoding, located: dict[int, list[LocatedPiece]]) -> Encoding:
    """One sequence as the model left it, with the pieces in place of the tokens at these positions.

    Uses up the encoding. It is cut into windows, and only those that change go through JSON.
    """
    # Truncating cuts only what follows the first window into windows, so let padding fill the first.
    encoding.pad(len(encoding) + WINDOW, direction="left")
    encoding.truncate(WINDOW)
    windows = encoding.overflowing
    states: dict[int, dict[str, list[Any]]] = {}
    for position in sorted(located, reverse=True):  # from the right: what is still to do keeps its position
        index, at = divmod(position, WINDOW)
        if index not in states:
            states[index] = json.loads(windows[index].__getstate__())
        state, pieces = states[index], located[position]
        for name in ("type_ids", "words", "special_tokens_mask", "attention_mask"):
            state[name][at : at + 1] *= len(pieces)
        for name, column in zip(("ids", "tokens", "offsets"), zip(*pieces, strict=True), strict=True):
            state[name][at : at + 1] = column
    for index, state in states.items():
        windows[index] = encoding_from(json.dumps(state).encode())
    return Encoding.merge(windows, growing_offsets=False)


def with_type_id_1(encoding: Encoding) -> Encoding:
    state = encoding.__getstate__()
    return encoding_from(
        re.sub(rb'"type_ids":\[[0,]*\]', lambda found: found[0].replace(b"0", b"1"), state, count=1)
    )


def encoding_from(state: bytes) -> Encoding:
    encoding = Encoding()
    encoding.__setstate__(state)
    return encoding


def whole_characters(position: int, offsets: list[Offsets], words: list[int | None]) -> tuple[int, int]:
    """The range of tokens that share characters with this one."""
    first, end = position, position + 1
    while first and words[first - 1] == words[position] and offsets[first - 1][1] > offsets[first][0]:
        first -= 1
    while end < len(words) and words[end] == words[position] and offsets[end - 1][1] > offsets[end][0]:
        end += 1
    return first, end


def walk_characters(text: str, start: int, tokens: list[str]) -> list[Offsets] | None:
    """Offsets of tokens, given in stand-ins; None unless they spell the text.

    A token that begins or ends inside a character covers it, as in the backend's own offsets.
    Example:
        >>> walk_characters("né", 5, ["nÃ", "©"])
        [(5, 7), (6, 7)]
    """
    if [spelled for spelled, _ in STAND_INS.pre_tokenize_str(text)] != ["".join(tokens)]:
        return None
    ends = list(accumulate(len(character.encode()) for character in text))
    return [(start + bisect_right(ends, i), start + bisect_right(ends, j - 1) + 1) for i, j in spans(tokens)]


def spans(parts: list[str], prefix: str = "") -> Iterator[Offsets]:
    """(start, stop) of each part in the token that they make, where only the first keeps its prefix."""
    lengths = [len(part) - (len(prefix) if i else 0) for i, part in enumerate(parts)]
    return pairwise(accumulate(lengths, initial=0))


# ---- text and files ----


def checked_dropout(dropout: float | None) -> float | None:
    if dropout is not None and not 0 <= dropout <= 1:
        raise ValueError(f"Dropout should be between 0 and 1, inclusive, but is {dropout}")
    return dropout


def refuse_unknown(function: str, given: Iterable[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            [meant] = get_close_matches(name, known, 1, cutoff=0)
            raise TypeError(
                f"{function}() got an unexpected keyword argument {name!r}. Did you mean {meant!r}?"
            )


def refuse_lone_surrogates(name: str, text: Any) -> None:
    if isinstance(text, (list, tuple)):
        for i, item in enumerate(text):
            refuse_lone_surrogates(f"{name}[{i}]", item)
    elif isinstance(text, str) and (found := re.search("[\ud800-\udfff]", text)):
        raise ValueError(
            f"{name} holds a lone surrogate, {found[0]!r} at index {found.start()}; UTF-8 can't express it. "
            "Replace it, for instance with text.encode('utf-8', 'replace').decode()"
        ) from None


def refuse_ids_in_gaps(public: Tokenizer, new_tokens: Iterable[str | AddedToken]) -> None:
    """The backend numbers added tokens from the vocabulary's size on; if ids have gaps, some are taken."""
    new = {str(token) for token in new_tokens if public.token_to_id(str(token)) is None}
    first, model = public.get_vocab_size(), public.model
    for token_id in range(first, first + len(new)):
        if (taken := model.id_to_token(token_id)) is not None:
            raise ValueError(
                f"can't add {shown(min(new))}: the ids of the vocabulary have gaps, and the token would "
                f"share the id {token_id} with {shown(taken)}. Number the tokens without gaps"
            )


# ---- malformed content


@contextlib.contextmanager
def backend_errors(source: Any) -> Iterator[None]:
    """Turn what `tokenizers` raises on content it can't read into a ValueError that names the source."""
    try:
        yield
    except BaseException as error:
        if not is_of_backend(error):
            raise
        raise ValueError(
            f"tokenizers {tokenizers.__version__} can't read {source}: {error}. It may be truncated, or "
            "made by a later release; save or fetch it again"
        ) from error


def check_prefix(path: str) -> None:
    """Refuse merges that make `tokenizers` abort the process.

    It cuts as many bytes off the right token as the prefix has, whatever they are. If the cut falls inside a
    character, it panics while panicking.
    """
    try:
        data = Path(path).read_bytes()
        # The name may be spelled with escapes.
        if not re.search(rb'continuing_subword_prefix"\s*:\s*"[^"]|\\u00[4-7]', data):
            return
        model = json.loads(data)["model"]
        n = len(model["continuing_subword_prefix"].encode())
        rights = [merge.split(" ", 1)[1] if isinstance(merge, str) else merge[1] for merge in model["merges"]]
        cut = next((right for right in rights if n and not starts_character(right.encode(), n)), None)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OSError):
        return  # the backend says what is wrong
    if cut is not None:
        raise ValueError(
            f"tokenizers {tokenizers.__version__} can't read {path}: a merge ends with {shown(cut)}, which "
            "has no continuing_subword_prefix. Save or fetch it again"
        )


def starts_character(data: bytes, position: int) -> bool:
    """Whether a cut there falls between characters."""
    return position >= len(data) or data[position] & 0xC0 != 0x80


def read_or_name_the_file(read: Callable[[], Any], source: Any) -> Any:
    """The result of `read`; if stock stumbles over the source, a ValueError that names the file."""
    try:
        return read()
    except BaseException as error:
        if not is_of_malformed_content(error):
            raise
        raise ValueError(
            f"{malformed_file(source)}: {type(error).__name__}: {error}. Save or fetch the tokenizer again"
        ) from error


def is_of_backend(error: BaseException) -> bool:
    """Whether `tokenizers` raised it. Its panics are no Exceptions, and their class can't be imported."""
    return type(error) is Exception or type(error).__name__ == "PanicException"


def is_of_malformed_content(error: BaseException) -> bool:
    """Whether stock code stumbled over content of the wrong type, or over endless nesting."""
    kinds = (AttributeError, TypeError, LookupError, ArithmeticError, RecursionError, UnicodeError)
    return is_of_backend(error) or isinstance(error, (*kinds, json.JSONDecodeError))


def malformed_file(source: Any) -> str:
    """Which file of a folder isn't JSON; if all are, what else may be wrong."""
    folder = Path(os.fsdecode(source) if isinstance(source, (str, bytes, os.PathLike)) else "")
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            json.loads(path.read_bytes())
        except (ValueError, RecursionError, OSError):
            return f"{path} is not valid JSON"
    return f"{source} can't be loaded; an entry of its tokenizer_config.json may be of the wrong type"


def shown(value: Any) -> str:
    """The repr of a value, shortened, so that no file can make a message long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = 80
    return short.repr(value)


def check_settings(settings: Mapping[str, Any]) -> None:
    """Refuse settings that stock accepts but stumbles over later, in a call or when saving."""
    longest, chat = settings.get("model_max_length"), settings.get("chat_template")
    folder = settings.get("name_or_path")
    where = f"{os.path.join(folder, 'tokenizer_config.json')}: " if isinstance(folder, str) and folder else ""
    if longest is not None and not isinstance(longest, (int, float)):
        raise ValueError(f"{where}model_max_length is {shown(longest)}, not a number")
    if isinstance(chat, Mapping):
        for name, template in chat.items():  # written to files of these names
            if not isinstance(template, str) or not isinstance(name, str) or {*name} & {*"/\\\0"}:
                raise ValueError(
                    f"{where}chat_template holds {shown({name: template})}, not templates by name"
                )
    for name in settings.keys() - {"tokenizer_object"}:
        try:
            json.dumps({name: settings[name]}, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise ValueError(f"{where}{name} holds a lone surrogate, which UTF-8 can't express") from None
        except (TypeError, ValueError, RecursionError):
            continue  # whatever it is, it is not from JSON


def read_scaffold(path: str | None, folder: str | None) -> Any:
    # Always a ValueError, since from_pretrained replaces the message of any OSError.
    if path is None or not os.path.isfile(path):
        missing = path or os.path.join(folder or "", "scaffold.json")
        raise ValueError(
            f"{missing} is missing, and without it the ids would be those of plain BPE. Save the tokenizer "
            "again with save_pretrained; or, where nearly exact ids will do, load tokenizer.json with "
            "PreTrainedTokenizerFast"
        )
    try:
        return json.loads(
            Path(path).read_bytes(), object_pairs_hook=distinct_entries, parse_constant=refuse_constant
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"{path} is not valid JSON ({error}); it may be truncated. Save or fetch it again"
        ) from error
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error}") from error


def distinct_entries(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"the entry {shown(twice)} is there twice")
    return entries


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def check_scaffold(scaffold: Any, backend: Tokenizer, source: str) -> None:
    violation = next(violations(scaffold, backend), None)
    if violation is not None:
        raise ValueError(f"{source} does not fit the tokenizer: {violation}")


def violations(scaffold: Any, backend: Tokenizer) -> Iterator[str]:
    """Why this scaffold doesn't fit this backend. Only the first reason is reliable.

    Cost: linear in the size of both.
    """
    if not isinstance(backend.model, BPE):
        yield f"the model is {type(backend.model).__name__}, not BPE"
    yield from form_violations(scaffold)
    merges, demolish = scaffold["merges"], scaffold["demolish"]
    vocab = backend.get_vocab(with_added_tokens=False)
    added = {token.content for token in backend.get_added_tokens_decoder().values()}
    yield from id_violations(backend)
    prefix, suffix = backend.model.continuing_subword_prefix or "", backend.model.end_of_word_suffix or ""
    merged = {join(left, right, prefix) for left, right in merges}
    yield from merge_violations(merges, vocab.keys() | demolish.keys(), prefix)
    yield from demolish_violations(demolish, vocab, merged, prefix)
    yield from step_violations(scaffold.get("steps", ()), vocab.keys() | demolish.keys(), prefix)
    ids = {*vocab.values(), *backend.get_added_tokens_decoder()}
    for token_id in framing_ids(backend.post_processor):
        if token_id not in ids:
            yield f"the post-processor adds the id {token_id}, which no token has"
    unused = set(scaffold.get("unused") or ())  # by text; their ids are reserved
    for token in unused - vocab.keys():
        yield f"unused holds {shown(token)}, which is no public token"
    for token in vocab:
        if not (
            token in merged
            or token in added
            or token == backend.model.unk_token
            or (backend.model.byte_fallback and re.fullmatch("<0x[0-9A-F]{2}>", token))
            or is_symbol(token, prefix, suffix)
            or token in unused
        ):
            yield f"no merge makes the public token {shown(token)}"


def framing_ids(post_processor: Any) -> list[int]:
    """The ids that a post-processor may add to a text."""
    if post_processor is None:
        return []
    state = part_state(post_processor)
    entries, ids = [json.loads(state)] if isinstance(state, bytes) else [], []
    for entry in entries:
        entries += entry.get("processors", ())
        ids += [entry[name][1] for name in ("sep", "cls") if name in entry]
        pieces = [*entry.get("single", ()), *entry.get("pair", ())]
        used = {piece["SpecialToken"]["id"] for piece in pieces if "SpecialToken" in piece}
        ids += [i for name in sorted(used) for i in entry["special_tokens"][name]["ids"]]
    return ids


def form_violations(scaffold: Any) -> Iterator[str]:
    """Entries of the wrong type, or that JSON can't hold."""
    if not isinstance(scaffold, Mapping):
        yield f"a JSON object is needed, not {type(scaffold).__name__}"
    version = scaffold.get("version")
    expected = VERSION_WITH_STEPS if "steps" in scaffold else SCAFFOLD_VERSION
    if type(version) is not int or version != expected:
        yield f"version is {shown(version)}, not {expected}; update hf_scaffold"
    merges, demolish = scaffold.get("merges"), scaffold.get("demolish")
    if not isinstance(merges, (list, tuple)) or not all(map(is_pair, merges)):
        yield "merges must be a list of [left, right]"
    if not isinstance(demolish, Mapping) or not all(map(is_token_list, demolish.values())):
        yield "demolish must map scaffold tokens to lists of tokens"
    steps = scaffold.get("steps", [])
    if not isinstance(steps, (list, tuple)):
        yield f"steps must be a list, not {shown(steps)}"
    for number, step in enumerate(steps):
        if not is_pair(step) and not is_removal(step):
            yield f"steps[{number}] is {shown(step)}, neither a merge nor a removal"
    if not is_token_list(scaffold.get("unused") or []):
        yield "unused must be a list of tokens"
    for name in ("raw_agreement", "raw_agreement_merges_only", "raw_agreement_unseen"):
        share = scaffold.get(name)
        if share is not None and not (type(share) in (int, float) and 0 <= share <= 1):
            yield f"{name} is {shown(share)}, not a share from 0 to 1"
    training = scaffold.get("training")
    if training is not None and not isinstance(training, Mapping):
        yield f"training must be a JSON object, not {type(training).__name__}"
    for name in scaffold:  # no set of names: datasets hashes this code, and a set's order differs by process
        if name in ("version", "merges", "demolish", "unused", "steps"):
            continue
        if reason := why_not_json({name: scaffold[name]}):
            yield f"{shown(name)} can't be saved: {reason}"


def why_not_json(content: Any) -> str | None:
    """Why this can't be written as JSON in UTF-8: NaN, a lone surrogate, nesting without end, …"""
    try:
        json.dumps(content, ensure_ascii=False, allow_nan=False, sort_keys=True).encode()
    except (ValueError, TypeError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    level: list[Any] = [[content]]
    for _ in range(MAX_NESTING):  # a scaffold that only just loads would not where the stack is deeper
        parts = (x.values() if isinstance(x, Mapping) else x for x in level)
        level = [part for within in parts for part in within if isinstance(part, (Mapping, list, tuple))]
    return "it is nested too deeply" if level else None


def check_ids(backend: Tokenizer, source: str) -> None:
    violation = next(id_violations(backend), None)
    if violation is not None:
        raise ValueError(f"{source} can't be used: {violation}")


def id_violations(backend: Tokenizer) -> Iterator[str]:
    """Ids that two tokens share, or with gaps so large that tables indexed by id outgrow the vocabulary."""
    vocab = backend.get_vocab(with_added_tokens=False)
    added = {token_id: token.content for token_id, token in backend.get_added_tokens_decoder().items()}
    if len({*vocab.values()}) < len(vocab):
        tokens: dict[int, str] = {}
        for token in sorted(vocab, key=lambda token: (vocab[token], token)):
            if vocab[token] in tokens:
                yield f"{shown(tokens[vocab[token]])} and {shown(token)} share the id {vocab[token]}"
            tokens[vocab[token]] = token
    taken = {token_id for token_id, token in added.items() if vocab.get(token) != token_id}
    for token, token_id in vocab.items():
        if token_id in taken:
            yield f"{shown(token)} and the added token {shown(added[token_id])} share the id {token_id}"
    limit = min(max(FREE_IDS, sum(map(len, vocab)) + 5 * len(vocab)), FIRST_SCAFFOLD_ID)
    if max(vocab.values(), default=0) >= limit:
        token = max(vocab, key=vocab.__getitem__)
        yield (
            f"the id of {shown(token)} is {vocab[token]}, too large for {len(vocab):,} tokens: it must be "
            f"below {limit:,}. Number the tokens with smaller gaps"
        )


def join(left: str, right: str, prefix: str) -> str:
    """The token that two merge into. The right one continues a pre-token, so it begins with the prefix."""
    return left + right[len(prefix) :]


def is_symbol(token: str, prefix: str, suffix: str) -> bool:
    """Whether this is one character, or one with affixes."""
    return any(
        len(token) == len(start) + 1 + len(end) and token.startswith(start) and token.endswith(end)
        for start in {"", prefix}
        for end in {"", suffix}
    )


def is_pair(value: Any) -> bool:
    return is_token_list(value) and len(value) == 2


def is_removal(value: Any) -> bool:
    """Whether this is a step of PickyBPE that takes a token out: {"removed": token, "parts": [...]}."""
    if not isinstance(value, Mapping) or sorted(value) != ["parts", "removed"] or not value["parts"]:
        return False
    return is_token_list(value["parts"]) and is_token_list([value["removed"]])


def is_token_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(token, str) and token for token in value)


def merge_violations(merges: Iterable[Iterable[str]], expanded: Set[str], prefix: str) -> Iterator[str]:
    seen = set()
    for rank, (left, right) in enumerate(merges):
        problem = None
        if not right.startswith(prefix):
            problem = f": {shown(right)} does not begin with {shown(prefix)}"
        for token in (left, right, join(left, right, prefix)):
            if token not in expanded:
                problem = problem or f": {shown(token)} is neither public nor a scaffold"
        if (left, right) in seen:
            problem = problem or ", is there twice"
        if problem is not None:
            yield f"merges[{rank}], ({shown(left)}, {shown(right)}){problem}"
        seen.add((left, right))


def demolish_violations(
    demolish: Mapping[str, Sequence[str]], vocab: Mapping[str, int], merged: Set[str], prefix: str
) -> Iterator[str]:
    for token, pieces in demolish.items():
        if token in vocab:
            yield f"{shown(token)} is demolished, though it is a public token"
        if token not in merged:
            yield f"no merge makes the scaffold token {shown(token)}"
        for piece in pieces:
            if piece not in vocab:
                yield f"{shown(token)} is demolished to {shown(piece)}, which is no public token"
        if not pieces or "".join([pieces[0], *(piece[len(prefix) :] for piece in pieces[1:])]) != token:
            yield f"{shown(token)} is demolished to {shown(list(pieces))}, which spells something else"
        # This way every piece stands for at least one character.
        for piece in pieces[1:]:
            if not piece.startswith(prefix) or piece == prefix != "":
                yield (
                    f"{shown(token)} is demolished to {shown(list(pieces))}, but {shown(piece)} does not "
                    f"begin with {shown(prefix)} and go on"
                )


def step_violations(steps: Iterable[Any], tokens: Set[str], prefix: str) -> Iterator[str]:
    for number, step in enumerate(steps):
        is_removal = isinstance(step, Mapping)
        parts = step["parts"] if is_removal else step
        spelled = "".join([parts[0], *(part[len(prefix) :] for part in parts[1:])])
        for token in (*parts, spelled):
            if token not in tokens:
                yield f"steps[{number}] names or makes {shown(token)}, which is no token"
        if is_removal and spelled != step["removed"]:
            yield f"steps[{number}] splits {shown(step['removed'])} into what spells {shown(spelled)}"


# ---- files ----


@contextlib.contextmanager
def saving(folder: str, stale: Iterable[str]) -> Iterator[str]:
    """A new folder, whose files take their places in `folder` when the block ends; after an error, none does.

    Where hf_scaffold isn't installed it is `folder` itself, as in stock.

    Args:
        stale: Patterns of files in `folder` that go unless they are written again.
    """
    if (saving_together := getattr(native_encoder(), "saving", None)) is not None:  # 0.1.0 has none
        with saving_together(folder, stale) as staging:
            yield staging
        return
    for pattern in stale:
        for path in glob.glob(os.path.join(glob.escape(folder), pattern)):
            os.unlink(path)
    yield folder


def read_unmixed(folder: str, names: tuple[str, ...], read: Callable[[], Any]) -> Any:
    """What `read` makes of these files, all of them of one save."""
    if (read_together := getattr(native_encoder(), "read_unmixed", None)) is not None:
        return read_together(folder, names, read)
    if any(name.startswith(".saved-") for name in os.listdir(folder)):
        why = "a save into it was cut off; load it once where hf_scaffold is installed"
        raise OSError(errno.EBUSY, why, folder)
    return read()


# ---- AutoTokenizer ----


def register() -> None:
    """Let AutoTokenizer build a ScaffoldTokenizerFast without trust_remote_code. Idempotent."""
    # Imported here because it imports torch, if installed, which mere tokenizing needn't wait for.
    from transformers.models.auto.tokenization_auto import AutoTokenizer

    AutoTokenizer.register(  # type: ignore[no-untyped-call]  # stock has no annotations there
        config_class(), fast_tokenizer_class=ScaffoldTokenizerFast, exist_ok=True
    )


@cache
def config_class() -> Any:
    """A config class without a model: AutoTokenizer registers tokenizer classes only with one."""
    from transformers import PretrainedConfig

    class ScaffoldTokenizerConfig(PretrainedConfig):  # type: ignore[no-untyped-call]  # stock's __init_subclass__
        """How AutoTokenizer knows ScaffoldTokenizerFast."""

        model_type = "scaffold_tokenizer"

    return ScaffoldTokenizerConfig
