"""`Encoder`: text to exact ids and back, without transformers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hf_scaffold._core.text_encoder import framed
from hf_scaffold._core.token_decoder import TokenDecoder
from hf_scaffold._utils.files import read_bytes, read_unmixed, refuse_missing_folder
from hf_scaffold._utils.process import no_garbage_collection
from hf_scaffold._utils.provided import provided
from hf_scaffold.engine import general
from hf_scaffold.engine.bare import BareEncoder
from hf_scaffold.engine.definition import Definition
from hf_scaffold.engine.dropout import Dropout
from hf_scaffold.engine.general import Located
from hf_scaffold.engine.inputs import (
    Special,
    chosen,
    pattern,
    refuse_no_batch,
    refuse_spelled,
    strings_of,
    utf8_of,
)
from hf_scaffold.engine.streaming import DecodeStream
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, symbols_to_bytes
from hf_scaffold.text.presets import preset_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Offsets = NDArray[np.int64]

FILES = ("tokenizer.json", "scaffold.json")


class Encoder:
    """The exact encoder and decoder of a saved Scaffold-BPE tokenizer, on its own.

    Its ids are those of the `ScaffoldTokenizerFast` in the same folder. It needs neither transformers nor,
    unless `why_general` says so, `tokenizers`. It never changes; threads may share it.

    Special tokens that a text spells follow tiktoken's rule: those in `allowed_special` are read as such;
    those in `disallowed_special`, by default all others, are an error; the rest is ordinary text. Added
    tokens that aren't special are always found.

    A saved BPE-dropout is not applied: without `dropout` a text always gets the same ids. With it, each merge
    is passed over with that probability; a seed makes that repeatable, and without one Python's `random`
    decides.

    Args:
        tokenizer_json, scaffold_json: The contents of the two files.
    Raises:
        ArtifactError: one is malformed, or they don't fit; names the file and the violation.
    Cost: some 12 ms at 32,000 tokens, ten times that for files not written as usual. Pickles take some
        500 KB; a process that is sent the same one again and again, as by a pool, builds it once.
    Example:
        >>> import tempfile
        >>> import hf_scaffold as hs
        >>> folder = tempfile.mkdtemp()
        >>> tokenizer = hs.train_tokenizer(["hug hugs pug"], vocab_size=262, special_tokens=["<s>"])
        >>> _ = tokenizer.save_pretrained(folder)
        >>> encoder = hs.Encoder.from_pretrained(folder)
        >>> encoder.decode(encoder.encode("hugs"))
        'hugs'
        >>> encoder.encode("<s>", allowed_special={"<s>"})
        [0]
    """

    def __init__(self, tokenizer_json: str | bytes, scaffold_json: str | bytes) -> None:
        with no_garbage_collection():
            self._set_up(Definition.parse(tokenizer_json, scaffold_json))

    def _set_up(self, definition: Definition) -> None:
        self._definition = definition
        self._bare = BareEncoder(definition)
        self._special = self._bare.special
        self._ordinary: Callable[[str], list[int] | None] | None = None
        # Built on first use, as in BareEncoder.
        self._public_ids: dict[str, int] | None = None
        self._tokens: dict[int, str] | None = None
        self._pickled: bytes | None = None
        self._decoders: dict[bool, Callable[[list[int]], str]] = {}  # by skip_special_tokens

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | os.PathLike[str],
        *,
        cache_dir: str | os.PathLike[str] | None = None,
        local_files_only: bool = False,
        token: str | bool | None = None,
        revision: str = "main",
        subfolder: str = "",
    ) -> Encoder:
        """The encoder of a saved tokenizer.

        Args: As for `AutoTokenizer.from_pretrained`: a folder, or a name on the Hub and what finds it there.
        Raises:
            FileNotFoundError: there is no such folder, or it lacks one of the two files.
            ArtifactError: a file is malformed, or they don't fit; names the folder, file and violation.
            OSError: the Hub can't be reached or has no such repository.
        """
        folder = source = os.fspath(pretrained_model_name_or_path)
        refuse_missing_folder(source)
        if not os.path.isdir(source):
            from huggingface_hub import snapshot_download

            folder = snapshot_download(
                source,
                revision=revision,
                cache_dir=os.fspath(cache_dir) if cache_dir else None,
                token=token,
                local_files_only=local_files_only,
                allow_patterns=[
                    os.path.normpath(os.path.join(subfolder, name)).replace(os.sep, "/") for name in FILES
                ],
            )
        folder = os.path.join(folder, subfolder)
        paths = [os.path.join(folder, name) for name in FILES]
        contents = read_unmixed(folder, FILES, lambda: [*map(read_bytes, paths)])
        try:
            return cls(*contents)
        except ArtifactError as error:
            raise ArtifactError(f"{folder}: {error}") from error

    # ---- what it is

    @property
    def vocab_size(self) -> int:
        """How many public tokens there are besides added ones."""
        return self._definition.model.n_tokens

    def __len__(self) -> int:
        """How many public tokens there are, added ones included."""
        return len(self._ids)

    @property
    def n_ids(self) -> int:
        """One more than the largest id; there may be gaps before those of added tokens."""
        return self._bare.n_ids

    @property
    def special_tokens(self) -> dict[str, int]:
        """Each special token's id."""
        return {token.content: token.id for token in self._definition.added_tokens if token.special}

    @property
    def why_general(self) -> str | None:
        """Why text goes through `tokenizers`, which is exact but slower; None where native code takes it."""
        return self._bare.why_general

    @property
    def _ids(self) -> dict[str, int]:
        if self._public_ids is None:
            self._public_ids = self._definition.ids
        return self._public_ids

    def token_to_id(self, token: str) -> int | None:
        """The id of a public token, as written in tokenizer.json."""
        return self._ids.get(token)

    def id_to_token(self, token_id: int) -> str | None:
        """The public token of an id, as written in tokenizer.json."""
        if self._tokens is None:
            self._tokens = {token_id: token for token, token_id in self._ids.items()}
        return self._tokens.get(token_id)

    # ---- encoding

    def encode(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: Special = (),
        disallowed_special: Special = "all",
        dropout: float | None = None,
        seed: int | None = None,
    ) -> list[int]:
        """The ids of a text.

        Args:
            add_special_tokens: Whether the tokenizer's template frames them: its beginning and end tokens.
            allowed_special: Special tokens that are read as such where the text spells them; "all" for all.
            disallowed_special: Special tokens that must not be spelled; "all" are all that aren't allowed.
            dropout, seed: BPE-dropout, as above.
        Raises:
            ValueError: the text spells a disallowed special token, or holds a lone surrogate.
            ConfigurationError: dropout is asked for where `why_general` is not None.
            TypeError: text is no str.
        """
        if dropout is None and disallowed_special == "all" and not (allowed_special or add_special_tokens):
            # Most calls, at a third of what the general way takes for a short text.
            ordinary = self._ordinary or self._make_ordinary()
            if type(text) is str and (found := ordinary(text)) is not None:
                return found
        allowed = self._allowed(text, allowed_special, disallowed_special)
        ids = self._ids_of(text, allowed, Dropout.of(dropout, seed))
        return [*self._definition.before, *ids, *self._definition.after] if add_special_tokens else ids

    def encode_with_offsets(
        self,
        text: str,
        *,
        add_special_tokens: bool = False,
        allowed_special: Special = (),
        disallowed_special: Special = "all",
        dropout: float | None = None,
        seed: int | None = None,
    ) -> Located:
        """The ids of a text, the characters that each covers and the word that it is part of.

        Args: As for `encode`.
        Returns:
            A named tuple of ids, offsets and word_ids, lists of one length. Offsets include leading spaces.
        Raises: As `encode`.
        Cost: as `encode`; after a normalizer, or where `why_general` is set, it takes `tokenizers`, which is
            slower.
        Example:
            >>> import hf_scaffold as hs
            >>> encoder = hs.train(hs.count(["hug hugs pug"]), vocab_size=258).encoder()
            >>> encoder.encode_with_offsets("hugs é").offsets
            [(0, 3), (3, 4), (4, 5), (5, 6), (5, 6)]
        """
        allowed = self._allowed(text, allowed_special, disallowed_special)
        located = self._bare.locate(text, self._ids_of(text, allowed, Dropout.of(dropout, seed)), allowed)
        if not add_special_tokens:
            return located
        before, after = self._definition.before, self._definition.after
        return Located(
            [*before, *located.ids, *after],
            [*[(0, 0)] * len(before), *located.offsets, *[(0, 0)] * len(after)],
            [*[None] * len(before), *located.word_ids, *[None] * len(after)],
        )

    def _allowed(self, text: Any, allowed: Special, disallowed: Special) -> frozenset[str]:
        """The special tokens that are read as such in a text, which must spell none that isn't allowed."""
        if not isinstance(text, str):
            raise TypeError(f"text is a {type(text).__name__}, not a str; for several, call encode_batch")
        special = chosen(allowed, self._special)
        refuse_spelled([text], chosen(disallowed, self._special) - special)
        return special

    def _make_ordinary(self) -> Callable[[str], list[int] | None]:
        """The ids of a text that spells no special token; None for others, and where they aren't compiled."""
        self._ordinary = self._bare.ordinary(pattern(self._special).search if self._special else None)
        return self._ordinary

    def _ids_of(self, text: str, allowed: frozenset[str], dropout: Dropout | None) -> list[int]:
        if dropout is None:
            return self._bare.encode(text, allowed)
        ids: list[int] = self._bare.encode_batch([text], allowed, dropout)[0].tolist()
        return ids

    def encode_batch(
        self,
        texts: Iterable[str],
        *,
        add_special_tokens: bool = False,
        allowed_special: Special = (),
        disallowed_special: Special = "all",
        dropout: float | None = None,
        seed: int | None = None,
    ) -> list[list[int]]:
        """The ids of each text.

        Args: As for `encode`; texts may be any iterable of strings, but not a string.
        Raises: As `encode`.
        """
        strings = strings_of(texts)
        allowed = chosen(allowed_special, self._special)
        refuse_spelled(strings, chosen(disallowed_special, self._special) - allowed)
        before, after = (self._definition.before, self._definition.after) if add_special_tokens else ((), ())
        drop = Dropout.of(dropout, seed)
        if drop is None:
            return self._bare.encode_batch_to_lists(strings, allowed, before, after)
        ids, offsets = self._bare.encode_batch(strings, allowed, drop)
        return [[*before, *ids[begin:end].tolist(), *after] for begin, end in pairwise(offsets.tolist())]

    def encode_batch_to_arrays(
        self,
        texts: Any,
        *,
        add_special_tokens: bool = False,
        allowed_special: Special = (),
        disallowed_special: Special = "all",
        dropout: float | None = None,
        seed: int | None = None,
        num_threads: int | None = None,
    ) -> tuple[Ids, Offsets]:
        """The ids of all texts in one array: the fastest way, as no Python object is made of any id.

        Args:
            texts: As for `encode_batch`; also UTF-8 as bytes, or a column of an Arrow table, of which no
                string is made unless special tokens are looked for.
            add_special_tokens, allowed_special, disallowed_special, dropout, seed: As for `encode`.
            num_threads: At most. None: one a CPU, unless TOKENIZERS_PARALLELISM or RAYON_NUM_THREADS say
                otherwise, or this is a worker process.
        Returns:
            int32 ids of all texts one after another, and len(texts) + 1 int64 offsets into them.
        Raises: As `encode`; UnicodeDecodeError: bytes are no UTF-8.
        """
        import numpy as np

        refuse_no_batch(texts)
        if num_threads is not None:
            from hf_scaffold._utils.arguments import whole  # most calls don't need it

            num_threads = whole("num_threads", num_threads, 1)
        given = texts if hasattr(texts, "to_pylist") else list(texts)
        allowed = chosen(allowed_special, self._special)
        refused = chosen(disallowed_special, self._special) - allowed
        drop = Dropout.of(dropout, seed)  # what is dropped depends on the texts as strings
        utf8 = None if refused or drop or self.why_general else utf8_of(given)
        if utf8 is not None:
            ids, offsets = self._bare.encode_utf8(*utf8, allowed, num_threads=num_threads)
        else:
            strings = strings_of(given)
            refuse_spelled(strings, refused)
            ids, offsets = self._bare.encode_batch(strings, allowed, drop, num_threads)
        before, after = self._definition.before, self._definition.after
        if add_special_tokens and (before or after):
            return framed(ids, offsets, np.array(before, np.int32), np.array(after, np.int32))
        return ids, offsets

    def encode_to_arrow(self, texts: Any, **options: Any) -> Any:
        """The ids of each text as a pyarrow array of lists of int32, without a copy of the ids.

        Args: As for `encode_batch_to_arrays`.
        Returns:
            A ListArray; a LargeListArray where there are more than 2**31 - 1 ids.
        """
        import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

        ids, offsets = self.encode_batch_to_arrays(texts, **options)
        if offsets[-1] >= 1 << 31:
            return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(ids))
        return pa.ListArray.from_arrays(pa.array(offsets.astype("int32")), pa.array(ids))

    # ---- decoding

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ids; U+FFFD stands for bytes that are no UTF-8.

        Raises:
            OverflowError: an id is negative, or above 2**32 - 1. Others that no token has show nothing.
            TypeError: an id is no integer.
        """
        return self._decoder(skip_special_tokens)(listed(ids))

    def decode_batch(self, batch: Iterable[Iterable[int]], *, skip_special_tokens: bool = False) -> list[str]:
        """The text of each row of ids, as `decode` gives it."""
        decode = self._decoder(skip_special_tokens)
        return [decode(listed(ids)) for ids in batch]

    def decode_stream(self, *, skip_special_tokens: bool = False) -> DecodeStream:
        """What gives the text of ids as they come.

        Raises:
            ConfigurationError: the decoder isn't byte-level, so that later ids may change earlier text; or
                there are both a normalizer and added tokens.
        """
        if not self._decodes_bytes:
            kind = (self._definition.decoder or {}).get("type")
            why = "a normalizer changes added tokens" if kind == "ByteLevel" else f"the decoder is {kind}"
            raise ConfigurationError(f"only byte-level tokens can be streamed; here {why}")
        return DecodeStream(self._bytes_of(skip_special_tokens))

    def _decoder(self, skip_special_tokens: bool) -> Callable[[list[int]], str]:
        key = bool(skip_special_tokens)
        if key not in self._decoders:
            if self._decodes_bytes:
                self._decoders[key] = TokenDecoder(self._bytes_of(key)).decode
            else:
                self._decoders[key] = partial(
                    general.decoder(self._definition).decode, skip_special_tokens=key
                )
        return self._decoders[key]

    @property
    def _decodes_bytes(self) -> bool:
        # A normalizer may change how added tokens are shown.
        definition = self._definition
        return (definition.decoder or {}).get("type") == "ByteLevel" and not (
            definition.normalizer and definition.added_tokens
        )

    def _bytes_of(self, skip_special_tokens: bool) -> dict[int, bytes]:
        """What each id adds to the text."""
        return {
            token_id: symbols_to_bytes(token) if SYMBOL_TO_BYTE.keys() >= {*token} else token.encode()
            for token, token_id in self._ids.items()
            if not (skip_special_tokens and token in self._special)
        }

    # ---- pickling

    def __reduce__(self) -> tuple[Callable[[bytes], Encoder], tuple[bytes]]:
        if self._pickled is None:
            self._pickled = self._definition.to_bytes()
        return _from_bytes, (self._pickled,)

    def __repr__(self) -> str:
        how = self.why_general or preset_of(self._definition.pre_tokenizer) or "native"
        return f"Encoder({len(self):,} tokens; {how})"

    def _repr_html_(self) -> str:
        found: str = provided("Encoder._repr_html_")(self)
        return found


def listed(ids: Any) -> list[int]:
    """Ids as a list, whose elements decoders check."""
    return ids if isinstance(ids, list) else ids.tolist() if hasattr(ids, "tolist") else list(ids)


@lru_cache(maxsize=4)
def _from_bytes(data: bytes) -> Encoder:
    encoder = Encoder.__new__(Encoder)
    encoder._set_up(Definition.from_bytes(data))
    return encoder
