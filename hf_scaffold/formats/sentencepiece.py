"""Models of SentencePiece: pieces with scores, and how text is normalized, as a message of protobuf."""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from hf_scaffold._utils.strict_json import shown
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.formats.tiktoken import LONGEST
from hf_scaffold.text.files import import_extra
from hf_scaffold.text.pre_tokenizers import PreTokenizer
from hf_scaffold.text.presets import is_metaspace
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


# ---- how text becomes what is merged


class Spacing(NamedTuple):
    """What SentencePiece does to a text, and where `tokenizers` cuts it after that.

    Args:
        charsmap: The table that normalizes it; empty for none.
        removes_extra: Whether spaces at both ends go, and others are made one.
        prefixed: Whether a space is put before it.
        cuts: Before "spaces", before "runs" of spaces, or nowhere.
    """

    charsmap: bytes
    removes_extra: bool
    prefixed: bool
    cuts: str

    def pipeline(self) -> tuple[normalizers.Normalizer | None, pre_tokenizers.PreTokenizer]:
        """The normalizer and the pre-tokenizer for it."""
        steps: list[normalizers.Normalizer] = []
        if self.charsmap:
            steps.append(normalizers.Precompiled(self.charsmap))
        if self.removes_extra:
            steps += [normalizers.Replace(Regex(_ENDS), ""), normalizers.Replace(Regex(_SEVERAL), " ")]
        if self.prefixed:
            steps.append(normalizers.Prepend(SPACE))
        splitting: pre_tokenizers.PreTokenizer = pre_tokenizers.Metaspace(
            prepend_scheme="never", split=self.cuts == "spaces"
        )
        if self.cuts == "runs":
            splitting = pre_tokenizers.Sequence([splitting, pre_tokenizers.Split(Regex(_RUNS), "isolated")])
        return normalizers.Sequence(steps) if steps else None, splitting

    @classmethod
    def of(cls, pre_tokenizer: PreTokenizer) -> Spacing:
        """What a pre-tokenizer and its normalizer do.

        Raises:
            ConfigurationError: SentencePiece can't do that.
        Example:
            >>> from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer
            >>> Spacing.of(get_pre_tokenizer("metaspace", alphabet="chars"))
            Spacing(charsmap=b'', removes_extra=False, prefixed=True, cuts='spaces')
        """
        entry = json.loads(pre_tokenizer.to_json())
        steps, splitting = _flat(entry["normalizer"], "normalizers"), entry["pre_tokenizer"]
        charsmap = b64decode(steps.pop(0)["precompiled_charsmap"]) if _is(steps, "Precompiled") else b""
        removes_extra = steps[:2] == [_replaced({"Regex": _ENDS}, ""), _replaced({"Regex": _SEVERAL}, " ")]
        del steps[: 2 * removes_extra]
        prefixed = steps[:1] == [{"type": "Prepend", "prepend": SPACE}]
        del steps[:prefixed]
        marked = steps[:1] == [_replaced({"String": " "}, SPACE)]
        del steps[:marked]
        scheme, cuts = _cuts_of(splitting, marked)
        if steps or cuts is None or (prefixed and scheme != "never"):
            raise ConfigurationError(f"SentencePiece can't split text as {pre_tokenizer} does")
        return cls(charsmap, removes_extra, prefixed or scheme != "never", cuts)


def spares_first_space(pre_tokenizer: PreTokenizer) -> bool:
    """Whether this puts a space before a text only where there is none; SentencePiece puts it before each.

    Example:
        >>> from hf_scaffold.text.pre_tokenizers import get_pre_tokenizer
        >>> spares_first_space(get_pre_tokenizer("metaspace", alphabet="chars"))
        True
    """
    scheme, _ = _cuts_of(json.loads(pre_tokenizer.to_json())["pre_tokenizer"], marked=False)
    return scheme != "never"


_ENDS, _SEVERAL, _RUNS = rf"\A +|[ {SPACE}]+\z", " {2,}", f"{SPACE}+[^{SPACE}]*"


def _flat(entry: Any, key: str) -> list[Any]:
    return [] if entry is None else list(entry[key]) if entry["type"] == "Sequence" else [entry]


def _is(steps: list[Any], kind: str) -> bool:
    return bool(steps) and steps[0]["type"] == kind


def _replaced(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _cuts_of(entry: Any, marked: bool) -> tuple[str, str | None]:
    """When a pre-tokenizer puts "▁" before a text, and where it cuts; None: elsewhere."""
    if entry is None or entry == _split({"String": SPACE}, "MergedWithNext"):
        return "never", ("nowhere" if entry is None else "spaces") if marked else None
    first, *others = _flat(entry, "pretokenizers")
    if not is_metaspace(first):
        return "never", None
    if others:
        runs = others == [_split({"Regex": _RUNS}, "Isolated")] and not first["split"]
        return first["prepend_scheme"], "runs" if runs else None
    return first["prepend_scheme"], "spaces" if first["split"] else "nowhere"


def _split(pattern: dict[str, str], behavior: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}


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
        backend.normalizer, backend.pre_tokenizer = _spacing_of(proto).pipeline()
    except Exception as error:  # of no narrower class
        raise ConfigurationError(f"{path} can't be read as a tokenizer: its charsmap: {error}") from None
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


def _spacing_of(proto: Any) -> Spacing:
    """SentencePiece cuts nothing: here text is cut where no piece goes on."""
    pieces = [piece.piece for piece in proto.pieces if piece.type == NORMAL]
    cuts = "spaces"
    if any(SPACE * 2 in piece for piece in pieces):
        cuts = "runs"
    if any(re.search(f"[^{SPACE}]{SPACE}", piece) for piece in pieces):
        cuts = "nowhere"
    spec = proto.normalizer_spec
    return Spacing(spec.precompiled_charsmap, spec.remove_extra_whitespaces, spec.add_dummy_prefix, cuts)


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


# ---- writing


def content(
    pieces: Iterable[tuple[str, float, int]],
    spacing: Spacing,
    unknown: str,
    roles: Mapping[str, str],
    byte_fallback: bool,
) -> bytes:
    """A BPE model.

    Args:
        pieces: Text, score and type of each, by id.
        spacing: What is done to text.
        unknown: The one piece of type UNKNOWN.
        roles: "bos", "eos" and "pad" to pieces of type CONTROL.
        byte_fallback: Whether unknown characters become pieces of bytes.
    """
    proto = messages().ModelProto()
    ids = {}
    for token_id, (text, score, kind) in enumerate(pieces):
        proto.pieces.add(piece=text, score=score, type=kind)
        ids[text] = token_id
    spec = proto.trainer_spec
    spec.model_type, spec.vocab_size, spec.byte_fallback = _BPE, len(ids), byte_fallback
    spec.unk_piece, spec.unk_id = unknown, ids[unknown]
    for role in ("bos", "eos", "pad"):
        setattr(spec, f"{role}_id", ids[roles[role]] if role in roles else -1)
        if role in roles:
            setattr(spec, f"{role}_piece", roles[role])
    proto.normalizer_spec.name = "custom" if spacing.charsmap else "identity"
    proto.normalizer_spec.precompiled_charsmap = spacing.charsmap
    proto.normalizer_spec.add_dummy_prefix = spacing.prefixed
    proto.normalizer_spec.remove_extra_whitespaces = spacing.removes_extra
    proto.normalizer_spec.escape_whitespaces = True
    written: bytes = proto.SerializeToString(deterministic=True)
    return written
