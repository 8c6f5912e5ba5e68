"""Models of SentencePiece: pieces with scores, and how text is normalized, as a message of protobuf."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from hf_scaffold._utils.strict_json import shown
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.formats.tiktoken import LONGEST
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.symbols import BYTE_TOKENS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

SPACE = "▁"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # types of pieces
_BPE = 2
_MODEL_TYPES = {1: "unigram", 3: "a model of words", 4: "a model of characters"}


def messages() -> Any:
    """The module that knows the messages."""
    return import_extra("sentencepiece.sentencepiece_model_pb2", "sentencepiece")


# ---- reading


def read(path: Path) -> PreTrainedTokenizerFast:
    """The tokenizer in a BPE model; its ids are those that SentencePiece gives.

    Raises:
        ConfigurationError: the file is truncated, isn't BPE, or does what no tokenizer.json can say.
    Cost: a look at each way to cut each piece in two.
    """
    from transformers import PreTrainedTokenizerFast

    proto = _parsed(path)
    if violation := next(_violations(proto), None):
        raise ConfigurationError(f"{path} can't be read as a tokenizer: {violation}")
    backend = Tokenizer(_model_of(proto))
    try:
        backend.normalizer = _normalizer_of(proto.normalizer_spec)
    except Exception as error:  # of no narrower class
        raise ConfigurationError(f"{path} can't be read as a tokenizer: its charsmap: {error}") from None
    backend.pre_tokenizer = _pre_tokenizer_of([p.piece for p in proto.pieces if p.type == NORMAL])
    backend.decoder = _decoder_of(proto)
    backend.add_tokens(
        [
            AddedToken(piece.piece, normalized=False, special=piece.type == CONTROL)
            for piece in proto.pieces
            if piece.type in (CONTROL, USER_DEFINED)
        ]
    )
    roles: Any = dict(_roles_of(proto))
    return PreTrainedTokenizerFast(tokenizer_object=backend, **roles)  # type: ignore[no-untyped-call]


def _parsed(path: Path) -> Any:
    known, faults = messages(), import_extra("google.protobuf.message", "sentencepiece")
    try:
        return known.ModelProto.FromString(path.read_bytes())
    except faults.DecodeError as error:
        raise ConfigurationError(
            f"{path} can't be read as a tokenizer: it is no model of SentencePiece, or truncated ({error})"
        ) from None


def _violations(proto: Any) -> Iterator[str]:
    """What keeps a model from being a tokenizer.json."""
    if not (proto.pieces and proto.HasField("trainer_spec") and proto.HasField("normalizer_spec")):
        yield "it lacks pieces or settings; it may be truncated"
    kind = proto.trainer_spec.model_type
    if kind != _BPE:
        yield f"it is {_MODEL_TYPES.get(kind, 'of an unknown kind')}; only BPE has merges"
    if proto.trainer_spec.treat_whitespace_as_suffix:
        yield "it marks the ends of words (treat_whitespace_as_suffix)"
    if not proto.normalizer_spec.escape_whitespaces:
        yield "it leaves spaces as they are (escape_whitespaces is false)"
    yield from _violations_of_pieces(proto)


def _violations_of_pieces(proto: Any) -> Iterator[str]:
    seen: dict[str, int] = {}
    scores: dict[float, str] = {}
    for number, piece in enumerate(proto.pieces):
        text, named = piece.piece, f"the piece {shown(piece.piece)} with the id {number}"
        if isinstance(text, bytes):
            yield f"{named} is not UTF-8"
        if text in seen:
            yield f"{named} is that with the id {seen[text]}, too"
        seen[text] = number
        if not 0 < len(text.encode()) <= LONGEST:
            yield f"{named} has {len(text.encode()):,} bytes; up to {LONGEST:,} are read"
        if piece.type == UNUSED:
            yield f"{named} is marked as unused, which tokenizer.json can't say"
        if piece.type == USER_DEFINED and SPACE in text:
            yield f"{named} is defined by the user and has a space"
        if piece.type == NORMAL and len(text) > 1:
            if not math.isfinite(piece.score):
                yield f"{named} has the score {piece.score}"
            if piece.score in scores:
                yield f"{named} has the score of {shown(scores[piece.score])}: neither is merged first"
            scores[piece.score] = text
    types = [piece.type for piece in proto.pieces]
    if types.count(UNKNOWN) != 1:
        yield f"it has {types.count(UNKNOWN)} unknown pieces; there must be one"
    found = {piece.piece for piece in proto.pieces if piece.type == BYTE}
    if found != ({*BYTE_TOKENS} if proto.trainer_spec.byte_fallback else set()):
        yield "its pieces of bytes are not those that byte_fallback takes"


def _model_of(proto: Any) -> BPE:
    from transformers.convert_slow_tokenizer import generate_merges

    normal = {p.piece: token_id for token_id, p in enumerate(proto.pieces) if p.type == NORMAL}
    merges = generate_merges(normal, {p.piece: p.score for p in proto.pieces if p.type == NORMAL})
    return BPE(
        {piece.piece: token_id for token_id, piece in enumerate(proto.pieces)},
        merges,
        unk_token=next(piece.piece for piece in proto.pieces if piece.type == UNKNOWN),
        fuse_unk=True,
        byte_fallback=proto.trainer_spec.byte_fallback,
    )


def _normalizer_of(spec: Any) -> normalizers.Normalizer | None:
    steps: list[normalizers.Normalizer] = []
    if spec.precompiled_charsmap:
        steps.append(normalizers.Precompiled(spec.precompiled_charsmap))
    if spec.remove_extra_whitespaces:
        steps += [
            normalizers.Replace(Regex(rf"\A +|[ {SPACE}]+\z"), ""),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    if spec.add_dummy_prefix:
        steps.append(normalizers.Prepend(SPACE))
    return normalizers.Sequence(steps) if steps else None


def _pre_tokenizer_of(pieces: list[str]) -> pre_tokenizers.PreTokenizer:
    """SentencePiece splits nothing: here text is cut where no piece goes on."""
    if any(re.search(f"[^{SPACE}]{SPACE}", piece) for piece in pieces):
        return pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    if any(SPACE * 2 in piece for piece in pieces):
        marked = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
        by_runs = pre_tokenizers.Split(Regex(f"{SPACE}+[^{SPACE}]*"), "isolated")
        return pre_tokenizers.Sequence([marked, by_runs])
    return pre_tokenizers.Metaspace(prepend_scheme="never")


def _decoder_of(proto: Any) -> decoders.Decoder:
    steps: list[decoders.Decoder] = [decoders.Replace(SPACE, " ")]
    if proto.trainer_spec.byte_fallback:
        steps.append(decoders.ByteFallback())
    steps.append(decoders.Fuse())
    if proto.normalizer_spec.add_dummy_prefix or proto.normalizer_spec.remove_extra_whitespaces:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def _roles_of(proto: Any) -> Iterator[tuple[str, str]]:
    control = {piece.piece for piece in proto.pieces if piece.type in (CONTROL, UNKNOWN)}
    for role in ("unk", "bos", "eos", "pad"):
        if (token := getattr(proto.trainer_spec, f"{role}_piece")) in control:
            yield f"{role}_token", token
