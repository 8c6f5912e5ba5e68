"""Tokenizer calls on the native encoder: which it can take, and what they return.

`ScaffoldTokenizerFast` asks here first. The answer is exactly that of the general path, the Rust backend,
where a preset splits the text, and ids, masks and lengths are wanted; anything else is left to it. All that
is derived from a tokenizer is kept in its `cache`, and made anew once the backend's parts have changed.
"""

from __future__ import annotations

import copy
import multiprocessing
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE, WordLevel
from transformers import BatchEncoding
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy, TensorType
from transformers.utils.import_utils import is_torch_available

from hf_scaffold._core.text_encoder import (
    AddedTokenFinder,
    TextEncoder,
    constant_lists,
    fill_rows,
    framed,
    rows_as_lists,
    rules_of,
)
from hf_scaffold._core.token_decoder import TokenDecoder
from hf_scaffold._utils.cpus import n_cpus
from hf_scaffold.engine.dropout import Dropout, encoding_of
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.byte_level import BYTE_TO_SYMBOL, SYMBOL_TO_BYTE, symbols_to_bytes
from hf_scaffold.text.pretokenizers import get_pretokenizer

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import CallBackend, ScaffoldTokenizerFast

__all__ = [
    "INTERFACE",
    "NotNativeError",
    "decoding_of",
    "draw",
    "encode_plus",
    "encode_to_arrays",
    "reason_against",
]

Ids = NDArray[np.int32]
Ends = NDArray[np.int64]

# What tokenization_scaffold.py calls here, as it may be older or newer than this.
INTERFACE = 1
# Ids that no token has, to tell sequences by.
FIRST_MARK = 1 << 31
# Below so many characters starting a thread costs more than it saves.
LEAST_FOR_THREADS = 1 << 17
# More are not started, whatever RAYON_NUM_THREADS asks for.
MOST_THREADS = 256
# The core's ids are 32 bits wide.
LARGEST_ID = (1 << 31) - 1


class NotNativeError(Exception):
    """The call is for the general path; the message says why."""


# ---- what a tokenizer is, as far as encoding goes


@dataclass
class Session:
    """A tokenizer between two changes of its backend."""

    encoder: TextEncoder
    added: list[tuple[Any, ...]]  # as AddedTokenFinder takes them, but special in place of ignored
    frame: Tokenizer  # the backend with an empty model
    n_ids: int
    n_tokens: int
    finders: dict[bool, AddedTokenFinder] = field(default_factory=dict)
    templates: dict[tuple[int, bool], Template] = field(default_factory=dict)
    kept_numbers: list[int] | None = None
    kept_state: tuple[Any, ...] | None = None

    # No cached_property here: before Python 3.12 it has a lock, which a fork can leave taken.
    @property
    def numbers(self) -> list[int]:
        """The ids as objects, in order; not those far above the number of tokens."""
        if self.kept_numbers is None:
            self.kept_numbers = list(range(min(self.n_ids, 2 * self.n_tokens + 1024)))
        return self.kept_numbers

    def frame_state(self, tokenizer: ScaffoldTokenizerFast) -> tuple[Any, ...]:
        """What the general path knows the frame by."""
        if self.kept_state is None:
            self.kept_state = tokenizer._state_of(self.frame)
        return self.kept_state

    def finder(self, split_special_tokens: bool) -> AddedTokenFinder:
        if split_special_tokens not in self.finders:
            self.finders[split_special_tokens] = AddedTokenFinder(
                [(*token, special and split_special_tokens) for *token, special in self.added]
            )
        return self.finders[split_special_tokens]

    def stretches(self, split_special_tokens: bool) -> Tokenizer:
        """Finds added tokens as the backend does, and makes one token of what stands between two of them."""
        from hf_scaffold.tokenization_scaffold import AddedTokens, with_model

        model = WordLevel({"": FIRST_MARK}, unk_token="")
        finder = with_model(model, self.frame, AddedTokens.of(self.frame))
        finder.pre_tokenizer = None
        finder.encode_special_tokens = split_special_tokens
        return finder

    def template(self, n_sequences: int, add_special_tokens: bool) -> Template:
        key = n_sequences, add_special_tokens
        if key not in self.templates:
            template = template_of(self.frame, *key)
            if template.ids.max() >= self.n_ids:
                raise NotNativeError("the post-processor adds ids that no token has")
            self.templates[key] = template
        return self.templates[key]


@dataclass
class Template:
    """What the post-processor makes of a row: special tokens, type ids, special_tokens_mask."""

    ids: Ids  # -1 and -2 stand for the sequences
    types: list[int]
    specials: list[int]
    n_shown: int  # what BatchEncoding.n_sequences says; one more after a template of a template
    pieces: list[int] = field(init=False)  # ids, as a list
    before: list[int] = field(init=False)
    after: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.pieces = self.ids.tolist()
        first = self.pieces.index(-1)
        self.before, self.after = self.pieces[:first], self.pieces[first + 1 :]

    @property
    def n_sequences(self) -> int:
        return sum(piece < 0 for piece in self.pieces)

    @property
    def n_specials(self) -> int:
        return len(self.pieces) - self.n_sequences


def template_of(frame: Tokenizer, n_sequences: int, add_special_tokens: bool) -> Template:
    """The template, read off what the backend makes of sequences of one token each."""
    marks = [FIRST_MARK, FIRST_MARK + 1][:n_sequences]
    sequences = [one_token(mark) for mark in marks]
    first, second = (*sequences, None)[:2]
    framed = frame.post_process(first, second, add_special_tokens)  # type: ignore[arg-type]  # wrong stub
    ids = [-1 - marks.index(token_id) if token_id in marks else token_id for token_id in framed.ids]
    if sorted(token_id for token_id in ids if token_id < 0) != sorted(-1 - i for i in range(n_sequences)):
        raise NotNativeError("the post-processor leaves out a sequence, or repeats one")
    if max(ids) >= FIRST_MARK:
        raise NotNativeError("the post-processor adds ids that no token has")
    return Template(np.array(ids, np.int32), framed.type_ids, framed.special_tokens_mask, framed.n_sequences)


def one_token(token_id: int) -> Encoding:
    from hf_scaffold.tokenization_scaffold import encoding_from

    tokenizer = Tokenizer(BPE({"a": 0}, []))
    state = tokenizer.encode("a").__getstate__()
    return encoding_from(state.replace(b'"ids":[0]', b'"ids":[%d]' % token_id))


def session_of(tokenizer: ScaffoldTokenizerFast) -> Session:
    """The tokenizer's session as its backend is now.

    Raises:
        NotNativeError: the native encoder doesn't know such a backend.
    """
    # Another thread may put another backend in place, whose cache is another, too.
    backend, cache = tokenizer._public, tokenizer.cache
    state = tokenizer._state_of(backend)
    kept: tuple[Any, Any, Session | str] | None = cache.get("native")
    if kept is None or kept[0] is not backend or kept[1] != state:
        kept = cache["native"] = backend, state, session_or_reason(tokenizer, backend)
    session = kept[2]
    if isinstance(session, str):
        raise NotNativeError(session)
    return session


def session_or_reason(tokenizer: ScaffoldTokenizerFast, backend: Tokenizer) -> Session | str:
    """A new session, or why there can't be one."""
    try:
        return make_session(tokenizer, backend)
    except NotNativeError as error:
        return str(error)


def make_session(tokenizer: ScaffoldTokenizerFast, backend: Tokenizer) -> Session:
    from hf_scaffold.tokenization_scaffold import AddedTokens, with_model

    model = backend.model
    if model.unk_token is not None or model.byte_fallback:
        raise NotNativeError("the model has an unk_token or byte_fallback")
    if model.continuing_subword_prefix or model.end_of_word_suffix:
        raise NotNativeError("the model marks parts of words")
    if backend.normalizer is not None:
        raise NotNativeError("there is a normalizer")
    preset = preset_of(backend)
    encoders = tokenizer.cache.setdefault("native encoders", {})
    kept = encoders.get(preset)
    if kept is None or kept[0] is not backend:
        vocab = backend.get_vocab(with_added_tokens=False)
        encoder = make_encoder(preset, tokenizer.scaffold, vocab)
        kept = encoders[preset] = backend, encoder, max(vocab.values()) + 1, len(vocab)
    _, encoder, n_ids, n_tokens = kept
    added = AddedTokens.of(backend)
    if max(added.by_id, default=0) > LARGEST_ID:
        raise NotNativeError(f"an added token's id is above {LARGEST_ID}")
    frame = with_model(BPE(), backend, added)
    frame.post_processor = copy.deepcopy(backend.post_processor)
    return Session(
        encoder=encoder,
        added=[
            (t.content, i, t.single_word, t.lstrip, t.rstrip, t.normalized, t.content in added.special)
            for i, t in added.by_id.items()
        ],
        frame=frame,
        n_ids=max([n_ids, *(token_id + 1 for token_id in added.by_id)]),
        n_tokens=n_tokens + len(added.by_id),
    )


def preset_of(backend: Tokenizer) -> str:
    try:
        preset = get_pretokenizer(backend).preset if backend.pre_tokenizer is not None else None
    except ConfigurationError as error:
        raise NotNativeError(str(error)) from None
    if preset is None:
        raise NotNativeError("the pre-tokenizer is none of the presets")
    return preset


def make_encoder(preset: str, scaffold: dict[str, Any], vocab: dict[str, int]) -> TextEncoder:
    first_scaffold = max(vocab.values()) + 1
    if first_scaffold + len(scaffold["demolish"]) > LARGEST_ID:
        raise NotNativeError(f"ids go beyond {LARGEST_ID}, scaffold tokens included")
    ids = vocab | {token: first_scaffold + i for i, token in enumerate(scaffold["demolish"])}
    byte_ids = [vocab.get(symbol, -1) for _, symbol in sorted(BYTE_TO_SYMBOL.items())]
    replacements = {
        ids[token]: [vocab[part] for part in parts] for token, parts in scaffold["demolish"].items()
    }
    rules = rules_of(scaffold["merges"], ids)
    return TextEncoder(preset, np.array(byte_ids, np.int32), rules, replacements)


def n_threads(n_characters: int) -> int:
    """As the backend's: TOKENIZERS_PARALLELISM and RAYON_NUM_THREADS count; a worker process has one."""
    if n_characters < LEAST_FOR_THREADS or multiprocessing.parent_process() is not None:
        return 1
    if os.environ.get("TOKENIZERS_PARALLELISM", "").lower() in ("off", "false", "f", "no", "n", "0"):
        return 1
    wanted = os.environ.get("RAYON_NUM_THREADS", "")
    number = int(wanted) if re.fullmatch(r"\+?[0-9]{1,19}", wanted) else 0
    return min(number, MOST_THREADS) or n_cpus()


# ---- the call


def encode_plus(
    tokenizer: ScaffoldTokenizerFast,
    text: Any,
    text_pair: Any = None,
    add_special_tokens: bool = True,
    padding_strategy: PaddingStrategy = PaddingStrategy.DO_NOT_PAD,
    truncation_strategy: TruncationStrategy = TruncationStrategy.DO_NOT_TRUNCATE,
    max_length: int | None = None,
    stride: int = 0,
    is_split_into_words: bool = False,
    pad_to_multiple_of: int | None = None,
    padding_side: str | None = None,
    return_tensors: Any = None,
    return_token_type_ids: bool | None = None,
    return_attention_mask: bool | None = None,
    return_overflowing_tokens: bool = False,
    return_special_tokens_mask: bool = False,
    return_offsets_mapping: bool = False,
    return_length: bool = False,
    verbose: bool = True,
    split_special_tokens: bool | None = None,
    dropout: float | None = None,
    seed: int | None = None,
    **kwargs: Any,
) -> BatchEncoding:
    """What the general path returns for this call of `_encode_plus`; its encodings are made when asked for.

    Raises:
        NotNativeError: the general path must take the call.
    """
    if is_split_into_words:
        raise NotNativeError("is_split_into_words is set")
    if return_overflowing_tokens:
        raise NotNativeError("overflowing tokens are asked for")
    if return_offsets_mapping:
        raise NotNativeError("offsets are asked for")
    if kwargs.get("sanitize_control_tokens"):
        raise NotNativeError("sanitize_control_tokens is set")
    # All that the call depends on is read once, here, as other threads may change the tokenizer meanwhile:
    # first what is the tokenizer's own, then the backend, so that this has every token that the former names.
    state = settings_of(tokenizer)
    pads = padding_strategy is not PaddingStrategy.DO_NOT_PAD
    pad_id = twin_of(type(tokenizer), state).pad_token_id if pads else None
    session = session_of(tokenizer)
    if return_token_type_ids is None:
        return_token_type_ids = "token_type_ids" in tokenizer.model_input_names
    if return_attention_mask is None:
        return_attention_mask = "attention_mask" in tokenizer.model_input_names
    if split_special_tokens is None:
        split_special_tokens = tokenizer.split_special_tokens
    texts, n_sequences, is_batched = sequences_of(text, text_pair)
    template = session.template(n_sequences, bool(add_special_tokens))
    options = Options(
        add_special_tokens,
        split_special_tokens,
        padding_strategy,
        truncation_strategy,
        max_length,
        stride,
        pad_to_multiple_of,
        padding_side,
    )
    chance = Dropout(dropout, seed) if dropout else None
    drawn = None

    rows: Row | Rows
    if is_batched or n_sequences == 2 or options.truncates or options.pads or return_tensors or chance:
        flat, ends = encode_sequences(tokenizer, session, texts, split_special_tokens, chance)
        drawn = partial(encodings_of, flat, ends) if chance else None
        now = twin_of(type(tokenizer), state)
        rows = rows_of(flat, ends, template, options, session, now, pad_id)
        rows.is_matrix = makes_matrices(return_tensors) and rows.are_equally_long
    else:
        rows = Row(encode_text(tokenizer, session, text, split_special_tokens), template)

    data: dict[str, Any] = {"input_ids": rows.input_ids()}
    if return_token_type_ids:
        data["token_type_ids"] = rows.token_type_ids()
    if return_attention_mask:
        data["attention_mask"] = rows.attention_mask()
    if return_special_tokens_mask:
        data["special_tokens_mask"] = rows.special_tokens_mask()
    if return_length:
        data["length"] = rows.length()
    if isinstance(rows, Rows):
        data = in_form(data, rows, is_batched, return_tensors)
    # As stock does for each row; only the length of a row counts.
    tokenizer._eventual_warn_about_too_long_sequence(range(rows.longest), max_length, verbose)  # type: ignore[arg-type]

    texts_now = listed(text), listed(text_pair)
    n_rows = len(texts) // n_sequences
    encodings = LazyEncodings(type(tokenizer), state, session.frame, texts_now, options, drawn, n_rows)
    return BatchEncoding(data, encodings, tensor_type=return_tensors, n_sequences=template.n_shown)


def settings_of(tokenizer: ScaffoldTokenizerFast) -> dict[str, Any]:
    """The tokenizer's settings and named tokens as they are now, with the same backend."""
    state = vars(tokenizer).copy()
    state["_special_tokens_map"] = state["_special_tokens_map"].copy()
    return state


def twin_of(kind: type[ScaffoldTokenizerFast], state: dict[str, Any]) -> ScaffoldTokenizerFast:
    """A tokenizer with such settings."""
    twin = object.__new__(kind)
    object.__setattr__(twin, "__dict__", state)
    return twin


@dataclass
class Options:
    """The arguments of `_encode_plus` that a call's encodings depend on."""

    add_special_tokens: bool
    split_special_tokens: bool
    padding_strategy: PaddingStrategy
    truncation_strategy: TruncationStrategy
    max_length: int | None
    stride: int
    pad_to_multiple_of: int | None
    padding_side: str | None

    @property
    def truncates(self) -> bool:
        return self.truncation_strategy is not TruncationStrategy.DO_NOT_TRUNCATE

    @property
    def pads(self) -> bool:
        return self.padding_strategy is not PaddingStrategy.DO_NOT_PAD

    def limit(self, template: Template, session: Session) -> int:
        """How many ids a truncated row may have besides its special tokens."""
        # The backend checks lengths and stride for the template, whether it is asked for or not.
        max_length, least = self.max_length or 0, max(session.template(n, True).n_specials for n in (1, 2))
        if self.stride or not least < max_length < 1 << 62:
            raise NotNativeError("the truncation is for the backend to refuse, or has a stride")
        return max_length - template.n_specials

    def width(self, longest: int) -> int:
        """How many ids a padded row has at least; the longest one has so many without padding."""
        width = longest
        if self.padding_strategy is PaddingStrategy.MAX_LENGTH and self.max_length is not None:
            width = self.max_length
        return width + -width % self.pad_to_multiple_of if self.pad_to_multiple_of else width


def sequences_of(text: Any, text_pair: Any) -> tuple[list[str], int, bool]:
    """The sequences of all rows in turn, how many a row has, and whether it is a batch."""
    if isinstance(text, str):
        if not text_pair:
            return [text], 1, False
        if isinstance(text_pair, str):
            return [text, text_pair], 2, False
    elif isinstance(text, (list, tuple)) and text and not isinstance(text_pair, str):
        if text_pair is None and are_texts(text):
            return list(text), 1, True
        if text_pair is None or len(text_pair) == len(text):
            rows = list(text if text_pair is None else zip(text, text_pair, strict=True))
            if all(isinstance(row, (tuple, list)) and len(row) == 2 for row in rows):
                texts = [item for row in rows for item in row]
                if are_texts(texts):
                    return texts, 2, True
    raise NotNativeError("neither a text nor a batch of texts or pairs of texts")


def are_texts(items: Iterable[Any]) -> bool:
    return all(issubclass(kind, str) for kind in {*map(type, items)})


def encode_text(
    tokenizer: ScaffoldTokenizerFast, session: Session, text: str, split_special_tokens: bool
) -> list[int]:
    """Ids of a text without special tokens around them."""
    ids = session.encoder.encode_one(text, session.finder(bool(split_special_tokens)))
    return encode_generally(tokenizer, session, text, split_special_tokens) if ids is None else ids


def encode_sequences(
    tokenizer: ScaffoldTokenizerFast,
    session: Session,
    texts: Sequence[str],
    split_special_tokens: bool,
    dropout: Dropout | None = None,
) -> tuple[Ids, Ends]:
    """Ids of all texts without special tokens around them, and offsets."""
    p, streams = (dropout.p, dropout.streams(texts)) if dropout else (0, None)
    flat, ends, unsure = session.encoder.encode(
        texts, session.finder(bool(split_special_tokens)), n_threads(sum(map(len, texts))), p, streams
    )
    if unsure:
        made = [
            drop_between_added_tokens(session, texts[i], split_special_tokens, p, streams[i])
            if streams is not None
            else encode_generally(tokenizer, session, texts[i], split_special_tokens)
            for i in unsure
        ]
        return with_rows(flat, ends, unsure, made)
    return flat, ends


def encode_utf8(
    tokenizer: ScaffoldTokenizerFast, session: Session, data: Any, offsets: Ends, split_special_tokens: bool
) -> tuple[Ids, Ends]:
    """`encode_sequences` of texts that lie one after another as UTF-8, text i from offsets[i] on.

    Raises:
        UnicodeDecodeError: a text is no UTF-8.
    """
    finder = session.finder(bool(split_special_tokens))
    n_bytes = int(offsets[-1] - offsets[0])
    flat, ends, unsure = session.encoder.encode_utf8(data, offsets, finder, n_threads(n_bytes))
    if unsure:
        texts = (bytes(data[offsets[i] : offsets[i + 1]]).decode() for i in unsure)
        made = [encode_generally(tokenizer, session, text, split_special_tokens) for text in texts]
        return with_rows(flat, ends, unsure, made)
    return flat, ends


def with_rows(flat: Ids, ends: Ends, places: list[int], made: list[list[int]]) -> tuple[Ids, Ends]:
    """The ids and offsets with other rows in some places."""
    rows = [flat[begin:end] for begin, end in pairwise(ends.tolist())]
    for i, ids in zip(places, made, strict=True):
        rows[i] = np.array(ids, np.int32)
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64)


def encode_generally(
    tokenizer: ScaffoldTokenizerFast, session: Session, text: str, split_special_tokens: bool
) -> list[int]:
    refuse_lone_surrogate(text)
    expanded = tokenizer._expanded()
    state = session.frame_state(tokenizer)
    bare = expanded.pipelines_of(session.frame, state, bool(split_special_tokens)).bare
    return expanded.demolish_ids(bare.encode(text, add_special_tokens=False).ids)


def refuse_lone_surrogate(text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise NotNativeError("a lone surrogate")


# ---- dropout


def draw(tokenizer: ScaffoldTokenizerFast, p: float, seed: int | None) -> Callable[..., list[Encoding]]:
    """What makes encodings of a call's sequences under dropout, in place of the backend's model.

    Raises:
        NotNativeError: the native encoder doesn't know the backend.
    """
    return partial(draw_encodings, tokenizer, session_of(tokenizer), Dropout(p, seed))


def draw_encodings(
    tokenizer: ScaffoldTokenizerFast,
    session: Session,
    dropout: Dropout,
    backend: CallBackend,
    sequences: list[Any],
    is_pretokenized: bool,
) -> list[Encoding]:
    symbols = symbols_of(backend, sequences, is_pretokenized)  # refuses first what is no text
    words = [sequence if is_pretokenized else [sequence] for sequence in sequences]
    flat, ends = encode_sequences(
        tokenizer, session, [*chain.from_iterable(words)], backend.encode_special_tokens, dropout
    )
    return with_ids(symbols, flat, ends[np.cumsum([0, *map(len, words)])], backend)


def encodings_of(
    flat: Ids, ends: Ends, backend: CallBackend, sequences: list[Any], is_pretokenized: bool
) -> list[Encoding]:
    """The encodings of sequences whose ids have been drawn."""
    return with_ids(symbols_of(backend, sequences, is_pretokenized), flat, ends, backend)


def with_ids(symbols: list[Encoding], flat: Ids, ends: Ends, backend: CallBackend) -> list[Encoding]:
    """The encodings of sequences in ids, made of those in symbols."""
    return [
        encoding_of(flat[begin:end].tolist(), each, backend.expanded.model)
        for each, (begin, end) in zip(symbols, pairwise(ends.tolist()), strict=True)
    ]


def symbols_of(backend: CallBackend, sequences: list[Any], is_pretokenized: bool) -> list[Encoding]:
    from hf_scaffold.tokenization_scaffold import encode_all

    return encode_all(backend.pipelines.symbols, sequences, is_pretokenized, False)


def drop_between_added_tokens(
    session: Session, text: str, split_special_tokens: bool, p: float, stream: np.uint64
) -> list[int]:
    """The ids of a text in which only `tokenizers` finds the added tokens."""
    refuse_lone_surrogate(text)
    finder = session.stretches(split_special_tokens)
    found = finder.encode(text, add_special_tokens=False)
    ids: list[int] = []
    for token_id, (start, stop) in zip(found.ids, found.offsets, strict=True):
        if token_id == FIRST_MARK:
            # Another place, another stream: it wraps.
            place = np.array([(int(stream) + start) % (1 << 64)], np.uint64)
            stretch, _, _ = session.encoder.encode([text[start:stop]], AddedTokenFinder([]), 1, p, place)
            ids += stretch.tolist()
        else:
            ids.append(token_id)
    return ids


# ---- rows


def rows_of(
    flat: Ids,
    ends: Ends,
    template: Template,
    options: Options,
    session: Session,
    now: ScaffoldTokenizerFast,
    pad_id: Any,
) -> Rows:
    """The rows of encoded sequences, truncated and padded."""
    spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, template.n_sequences, 2)
    if options.truncates:
        limit = options.limit(template, session)
        truncate(spans, options.truncation_strategy, limit, now.truncation_side)
    rows = Rows(flat, spans, template, session)
    if options.pads:
        if not isinstance(pad_id, int) or pad_id > LARGEST_ID:
            raise NotNativeError("there is no padding token, or its id is for the backend to refuse")
        side = options.padding_side or now.padding_side
        rows.pad(options.width(rows.longest), side, pad_id, now.pad_token_type_id)
    return rows


def truncate(spans: Ends, strategy: TruncationStrategy, limit: int, side: str) -> None:
    """Shorten the sequences in place, so that no row has more than `limit` ids, as the backend does."""
    lengths = spans[:, :, 1] - spans[:, :, 0]
    n_sequences = lengths.shape[1]
    total = lengths.sum(axis=1)
    surplus = np.maximum(total - limit, 0)
    if n_sequences == 1 or strategy is not TruncationStrategy.LONGEST_FIRST:
        target = int(strategy is TruncationStrategy.ONLY_SECOND)
        if target >= n_sequences or np.any((surplus > 0) & (lengths[:, target] <= surplus)):
            raise NotNativeError("truncation is for the backend to refuse")
        lengths[:, target] -= surplus
    else:
        # The longer one pays, until both are as long.
        shorter, longer = lengths.min(axis=1), lengths.max(axis=1)
        longer = np.where(shorter > limit, shorter, np.maximum(shorter, limit - shorter))
        over = shorter + longer > limit
        shorter = np.where(over, limit // 2, shorter)
        longer = np.where(over, limit - limit // 2, longer)
        swapped = lengths[:, 0] > lengths[:, 1]
        kept = np.stack([np.where(swapped, longer, shorter), np.where(swapped, shorter, longer)], axis=1)
        lengths = np.where((surplus > 0)[:, None], np.minimum(lengths, kept), lengths)
    if side == "right":
        spans[:, :, 1] = spans[:, :, 0] + lengths
    else:
        spans[:, :, 0] = spans[:, :, 1] - lengths


class Row:
    """One row of ids with special tokens around them, as lists."""

    def __init__(self, ids: list[int], template: Template) -> None:
        self.ids, self.template = ids, template
        self.longest = len(ids) + len(template.pieces) - 1

    def input_ids(self) -> list[int]:
        template = self.template
        return [*template.before, *self.ids, *template.after] if len(template.pieces) > 1 else self.ids

    def token_type_ids(self) -> list[int]:
        return self.constant(self.template.types)

    def attention_mask(self) -> list[int]:
        return [1] * self.longest

    def special_tokens_mask(self) -> list[int]:
        return self.constant(self.template.specials)

    def length(self) -> list[int]:
        return [self.longest]

    def constant(self, values: list[int]) -> list[int]:
        row: list[int] = []
        for value, piece in zip(values, self.template.pieces, strict=True):
            row += [value] * (1 if piece >= 0 else len(self.ids))
        return row


class Rows:
    """Rows of ids with special tokens around them, and padding, as lists or matrices."""

    def __init__(self, ids: Ids, spans: Ends, template: Template, session: Session) -> None:
        self.ids, self.spans, self.template, self.session = ids, spans, template, session
        sizes = spans[:, :, 1] - spans[:, :, 0]
        self.lengths = sizes.sum(axis=1) + template.n_specials
        self.padding = np.zeros((len(spans), 2), np.int64)
        self.pad_id = self.pad_type_id = 0
        self.is_matrix = False

    def pad(self, width: int, side: str, pad_id: int, pad_type_id: int) -> None:
        missing = np.maximum(width - self.lengths, 0)
        self.padding[:, int(side == "right")] = missing
        self.lengths += missing
        self.pad_id, self.pad_type_id = pad_id, pad_type_id

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    @property
    def are_equally_long(self) -> bool:
        return bool((self.lengths == self.lengths[0]).all())

    def input_ids(self) -> Any:
        if self.is_matrix:
            return self.matrix()
        pieces, numbers = self.template.ids, self.session.numbers
        return rows_as_lists(self.ids, self.spans, pieces, self.padding, self.pad_id, numbers)

    def token_type_ids(self) -> Any:
        return self.constant(self.template.types, self.pad_type_id)

    def attention_mask(self) -> Any:
        return self.constant([1] * len(self.template.pieces), 0)

    def special_tokens_mask(self) -> Any:
        return self.constant(self.template.specials, 1)

    def length(self) -> list[int]:
        lengths: list[int] = self.lengths.tolist()
        return lengths

    def matrix(self) -> Ends:
        out = np.full((len(self.spans), self.lengths[0]), self.pad_id, np.int64)
        fill_rows(out, self.ids, self.spans, self.template.ids, np.ascontiguousarray(self.padding[:, 0]))
        return out

    def constant(self, values: list[int], pad_value: int) -> Any:
        """Rows that say the same of every id of a sequence, of a special token, of the padding."""
        if self.is_matrix:
            return self.constant_matrix(values, pad_value)
        return self.constant_lists(values, pad_value)

    def constant_lists(self, values: list[int], pad_value: int) -> list[list[int]]:
        if len({*values}) == 1 and not self.padding.any():
            return constant_lists(values[0], self.lengths)
        pieces = [pad_value, *values, pad_value]
        return [
            [value for value, n in zip(pieces, sizes, strict=True) for value in [value] * n]
            for sizes in self.piece_sizes().tolist()
        ]

    def constant_matrix(self, values: list[int], pad_value: int) -> Ends:
        pieces = np.array([pad_value, *values, pad_value])
        flat = np.repeat(np.tile(pieces, len(self.spans)), self.piece_sizes().ravel())
        return flat.reshape(len(self.spans), self.lengths[0])

    def piece_sizes(self) -> Ends:
        sizes = np.ones((len(self.spans), len(self.template.pieces) + 2), np.int64)
        sizes[:, 0], sizes[:, -1] = self.padding[:, 0], self.padding[:, 1]
        for column, piece in enumerate(self.template.pieces):
            if piece < 0:
                sizes[:, column + 1] = self.spans[:, -1 - piece, 1] - self.spans[:, -1 - piece, 0]
        return sizes


def makes_matrices(return_tensors: Any) -> bool:
    return return_tensors is not None and TensorType(return_tensors) in (TensorType.NUMPY, TensorType.PYTORCH)


def in_form(data: dict[str, Any], rows: Rows, is_batched: bool, return_tensors: Any) -> dict[str, Any]:
    """Lists of rows, or matrices, as what a call is to return."""
    # Without torch they stay as they are, and BatchEncoding refuses to make tensors of them.
    if rows.is_matrix and TensorType(return_tensors) is TensorType.PYTORCH and is_torch_available():
        import torch

        return data | {name: torch.from_numpy(value) for name, value in data.items() if name != "length"}
    if not is_batched and return_tensors is None:
        return {name: value[0] if isinstance(value[0], list) else value for name, value in data.items()}
    return data


# ---- encodings


def listed(texts: Any) -> Any:
    """A batch as it is now."""
    return texts if texts is None or isinstance(texts, str) else list(texts)


class LazyEncodings(Sequence[Encoding]):
    """The encodings of a batch, made by the general path when the first is asked for.

    Preparing training data asks for none. They are those of the tokenizer as it was at the call. Pickled or
    copied, they are a plain list.
    """

    def __init__(
        self,
        kind: type[ScaffoldTokenizerFast],
        state: dict[str, Any],
        frame: Tokenizer,
        texts: tuple[Any, Any],
        options: Options,
        draw: Callable[..., list[Encoding]] | None,
        n: int,
    ) -> None:
        self._kind, self._state, self._frame, self._texts = kind, state, frame, texts
        self._options, self._draw, self._n = options, draw, n
        self._made: Sequence[Encoding] | None = None

    @property
    def made(self) -> Sequence[Encoding]:
        if self._made is None:
            encoded = twin_of(self._kind, self._state)._encode_generally(
                self._frame,
                *self._texts,
                draw=self._draw,
                return_token_type_ids=True,
                verbose=False,
                **vars(self._options),
            )
            self._made = encoded.encodings or []
        return self._made

    def __getitem__(self, index: Any) -> Any:
        return self.made[index]

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Encoding]:
        return iter(self.made)

    def __eq__(self, other: object) -> bool:
        return self.made == other

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return repr(self.made)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (self.made,)


# ---- other ways in and out


def reason_against(
    tokenizer: ScaffoldTokenizerFast, text: Any, text_pair: Any, kwargs: dict[str, Any]
) -> str | None:
    """Why the general path takes a call of `_encode_plus`; None if the native encoder does."""
    try:
        encode_plus(tokenizer, text, text_pair, **kwargs)
    except NotNativeError as error:
        return str(error)
    return None


def encode_to_arrays(
    tokenizer: ScaffoldTokenizerFast,
    texts: Any,
    add_special_tokens: bool,
    split_special_tokens: bool,
    dropout: float | None,
    seed: int | None,
) -> tuple[Ids, Ends]:
    """Flat ids of a batch of texts, and offsets; texts may also be UTF-8, or a column of an Arrow table.

    Raises:
        NotNativeError: the general path must take the call.
    """
    from hf_scaffold.tokenization_scaffold import strings_of

    session = session_of(tokenizer)
    template = session.template(1, add_special_tokens)
    utf8 = None if dropout else utf8_of(texts)  # what is dropped depends on the texts as strings
    if utf8 is not None:
        flat, ends = encode_utf8(tokenizer, session, *utf8, split_special_tokens)
    else:
        strings = texts if are_texts(texts) else strings_of(texts)
        if not are_texts(strings):
            raise NotNativeError("not all are texts")
        chance = Dropout(dropout, seed) if dropout else None
        flat, ends = encode_sequences(tokenizer, session, strings, split_special_tokens, chance)
    if template.n_specials:
        return framed(flat, ends, np.array(template.before, np.int32), np.array(template.after, np.int32))
    return flat, ends


def utf8_of(texts: Any) -> tuple[Any, Ends] | None:
    """Bytes, or a column of strings, as encode_utf8 takes them; None if they are neither."""
    if not hasattr(texts, "to_pylist"):
        if not texts or not isinstance(texts[0], bytes) or {*map(type, texts)} != {bytes}:
            return None
        return b"".join(texts), np.cumsum([0, *map(len, texts)], dtype=np.int64)
    import pyarrow as pa  # type: ignore[import-untyped]  # it ships no types

    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if texts.type not in kinds or texts.null_count or not len(texts):
        return None
    column = texts.cast(pa.large_binary())
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
    utf8 = np.frombuffer(data or b"", np.uint8)
    utf8.flags.writeable = False  # else it would be copied
    return utf8, ends


# ---- decoding


@dataclass
class Decoding:
    """What the stock class's `_decode` takes for the backend tokenizer."""

    public: Tokenizer
    backend_state: tuple[Any, ...]
    state: tuple[Any, ...]
    decoders: dict[bool, TokenDecoder] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.public, name)

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        skip_special_tokens = bool(skip_special_tokens)
        if skip_special_tokens not in self.decoders:
            shown = dict(shown_bytes(self.public, skip_special_tokens))
            self.decoders[skip_special_tokens] = TokenDecoder(shown)
        try:
            return self.decoders[skip_special_tokens].decode(ids)
        except (OverflowError, TypeError):
            return self.public.decode(
                ids, skip_special_tokens=skip_special_tokens
            )  # refuses them in its words


def decoding_of(tokenizer: ScaffoldTokenizerFast) -> Decoding:
    """The tokenizer's backend as its decoder is now.

    Raises:
        NotNativeError: the decoder is another one than ByteLevel.
    """
    backend = tokenizer._public
    if not isinstance(backend.decoder, ByteLevel):
        raise NotNativeError("the decoder is not ByteLevel")
    backend_state = tokenizer._state_of(backend)
    decoding: Decoding | None = tokenizer.cache.get("native decoding")
    if decoding is not None and decoding.public is backend and decoding.backend_state == backend_state:
        return decoding
    state = decoding_state(backend, backend_state)
    if decoding is None or decoding.public is not backend or decoding.state != state:
        decoding = Decoding(backend, backend_state, state)
        tokenizer.cache["native decoding"] = decoding
    decoding.backend_state = backend_state  # not all that is in it matters here
    return decoding


def decoding_state(backend: Tokenizer, backend_state: tuple[Any, ...]) -> tuple[Any, ...]:
    """What decoding depends on: the tokens and how they are shown, but not how text is split."""
    *tokens, normalizer, _, _ = backend_state
    if type(normalizer) is object:
        # Written in Python, it compares with nothing. But it only changes how added tokens are spelled.
        added = sorted(backend.get_added_tokens_decoder())
        normalizer = [(token_id, backend.id_to_token(token_id)) for token_id in added]
    return (*tokens, normalizer)


def shown_bytes(backend: Tokenizer, skip_special_tokens: bool) -> Iterator[tuple[int, bytes]]:
    """The bytes that each id adds to the text; as in `tokenizers`, added tokens are decoded like others."""
    vocab = backend.get_vocab(with_added_tokens=True)
    tokens = {token_id: token for token, token_id in vocab.items()}
    added = backend.get_added_tokens_decoder()
    tokens.update({token_id: backend.id_to_token(token_id) or "" for token_id in added})  # as normalized
    for token_id, token in tokens.items():
        if not (skip_special_tokens and token_id in added and not backend.decode([token_id])):
            is_spelled = SYMBOL_TO_BYTE.keys() >= {*token}
            yield token_id, symbols_to_bytes(token) if is_spelled else token.encode()
