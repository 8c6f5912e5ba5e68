"""Pre-tokenizers: the named presets, and any `tokenizers` normalizer and pre-tokenizer.

A pre-tokenizer splits text into pre-tokens, which merges never cross, and says what their symbols are: bytes
or characters. The presets for bytes also have native scanners (`hf_scaffold._core.counter`), which give the
same pre-tokens many times faster.
"""

import functools
import json
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import (
    BertPreTokenizer,
    ByteLevel,
    Metaspace,
    Sequence,
    Whitespace,
    WhitespaceSplit,
)
from tokenizers.pre_tokenizers import (
    PreTokenizer as StockPreTokenizer,
)

from hf_scaffold._utils.arguments import knows_its_arguments
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE, symbols_to_bytes
from hf_scaffold.text.presets import ENTRIES

ALPHABETS = ("bytes", "chars")
PRESETS: tuple[str, ...] = tuple(ENTRIES)
DEFAULT_PRESET = PRESETS[0]

_CHARACTER_PRESETS: dict[str, Callable[[], StockPreTokenizer]] = {
    "metaspace": Metaspace,
    "metaspace-unsplit": lambda: Metaspace(split=False),
    "whitespace": Whitespace,
    "whitespace-split": WhitespaceSplit,
    "bert": BertPreTokenizer,
}
CHARACTER_PRESETS: tuple[str, ...] = tuple(_CHARACTER_PRESETS)


class PreTokenizer:
    """What turns a text into pre-tokens: a normalizer, if any, and a pre-tokenizer; see `get_pre_tokenizer`.

    Immutable: it holds copies of the objects it is given. Two with the same JSON are equal and hash alike.

    Args:
        normalizer: Applied to the text first, if given.
        pre_tokenizer: Splits the text; None leaves it whole.
        alphabet: "bytes": the symbols are bytes. If neither object has a `ByteLevel`, one that splits no
            further is appended, so that pre-tokens are always written in the byte-level alphabet. "chars":
            the symbols are the characters that the pre-tokenizer writes.
    Raises:
        ConfigurationError: an object is written in Python, so it can't be stored with the counts; or there is
            no such alphabet.
    Example:
        >>> get_pre_tokenizer("gpt2").pre_tokenize("it's 2 cafés")
        [b'it', b"'s", b' 2', b' caf\xc3\xa9s']
    """

    def __init__(
        self,
        normalizer: Normalizer | None,
        pre_tokenizer: StockPreTokenizer | None,
        alphabet: str = "bytes",
    ) -> None:
        if alphabet not in ALPHABETS:
            raise ConfigurationError(f"alphabet is {alphabet!r}; it must be one of {', '.join(ALPHABETS)}")
        parts = _parts_of(normalizer, pre_tokenizer)
        self.writes_bytes = alphabet == "bytes" or _has_byte_level(parts)
        if alphabet == "bytes" and not _has_byte_level(parts):
            given = [] if pre_tokenizer is None else [pre_tokenizer]
            byte_level = ByteLevel(add_prefix_space=False, use_regex=False)
            parts = _parts_of(normalizer, Sequence([*given, byte_level]))
        self._pipeline = _pipeline_of(parts)
        # Files from before there was another alphabet don't name "bytes".
        marked = parts if alphabet == "bytes" else {"alphabet": alphabet, **parts}
        self._json = json.dumps(marked, sort_keys=True)
        self.alphabet = alphabet

    @classmethod
    def from_json(cls, text: str) -> "PreTokenizer":
        """The pre-tokenizer that `to_json` wrote.

        Raises:
            ConfigurationError: the text isn't such JSON, or names something this `tokenizers` doesn't know.
        """
        try:
            parts = json.loads(text)
            pipeline = _pipeline_of({name: parts[name] for name in ("normalizer", "pre_tokenizer")})
        except BaseException as error:  # `tokenizers` raises bare Exceptions, and panics, which are none
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ConfigurationError(f"not the JSON of a pre-tokenizer: {error}: {text[:200]!r}") from error
        return cls(pipeline.normalizer, pipeline.pre_tokenizer, parts.get("alphabet", "bytes"))

    def to_json(self) -> str:
        """`{"normalizer": …, "pre_tokenizer": …}` as in tokenizer.json, keys sorted.

        For characters, `"alphabet": "chars"` comes first.
        """
        return self._json

    @property
    def preset(self) -> str | None:
        """The preset this is, if any: a native scanner can stand for it."""
        return _preset_names().get(self._json)

    @property
    def normalizer(self) -> Normalizer | None:
        """Applied to the text first."""
        normalizer: Normalizer | None = self._pipeline.normalizer
        return normalizer

    @property
    def pre_tokenizer(self) -> StockPreTokenizer | None:
        """Splits the normalized text and, for bytes, writes them in the byte-level alphabet.

        None, for characters only, leaves it whole.
        """
        pre_tokenizer: StockPreTokenizer | None = self._pipeline.pre_tokenizer
        return pre_tokenizer

    def pre_tokenize(self, text: str) -> list[bytes]:
        """The text's pre-tokens in order, by the `tokenizers` objects themselves: exact, and slow.

        For bytes, they are bytes of the text; for characters, the UTF-8 form of what the pre-tokenizer
        writes.

        Raises:
            ConfigurationError: the pre-tokenizer writes a character that stands for no byte.
        """
        if self.alphabet == "chars":
            return [pretoken.encode() for pretoken in self._pretokens(text)]
        try:
            return [symbols_to_bytes(pretoken) for pretoken in self._pretokens(text)]
        except KeyError as error:
            raise ConfigurationError(
                f"the pre-tokenizer writes {error.args[0]!r}, which stands for no byte; put ByteLevel last"
            ) from None

    def _pretokens(self, text: str) -> list[str]:
        if self.normalizer is not None:
            text = self.normalizer.normalize_str(text)
        if self.pre_tokenizer is None:
            return [text] if text else []
        return [pretoken for pretoken, _ in self.pre_tokenizer.pre_tokenize_str(text)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PreTokenizer) and self._json == other._json

    def __hash__(self) -> int:
        return hash(self._json)

    def __reduce__(self) -> tuple[Callable[[str], "PreTokenizer"], tuple[str]]:
        return PreTokenizer.from_json, (self._json,)

    def __repr__(self) -> str:
        return f"PreTokenizer({self.preset or self._json})"


@knows_its_arguments
def get_pre_tokenizer(
    pre_tokenizer: str | StockPreTokenizer | PreTokenizer | Tokenizer | None = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
) -> PreTokenizer:
    """The pre-tokenizer that a preset's name or a `tokenizers` object means.

    Args:
        pre_tokenizer: A name in `PRESETS`, for bytes, or in `CHARACTER_PRESETS`, for characters; a
            `tokenizers` pre-tokenizer; a `tokenizers.Tokenizer`, for its normalizer and pre-tokenizer; or a
            `PreTokenizer`. None: "gpt2-digits" for bytes, "metaspace" for characters.
        normalizer: A `tokenizers` normalizer, in place of any that `pre_tokenizer` brings along.
        alphabet: "bytes" or "chars". None: that of a `PreTokenizer`, else "bytes".
    Returns:
        A PreTokenizer; one that equals a preset is that preset.
    Raises:
        ConfigurationError: an unknown preset, or an object written in Python or for another alphabet.
        TypeError: an argument is of another type.
    Example:
        >>> from tokenizers.pre_tokenizers import ByteLevel, Whitespace
        >>> get_pre_tokenizer(ByteLevel(add_prefix_space=False)).preset
        'gpt2'
        >>> get_pre_tokenizer(Whitespace()).pre_tokenize("naïve, yes")
        [b'na\xc3\xafve', b',', b'yes']
        >>> [pretoken.decode() for pretoken in get_pre_tokenizer(alphabet="chars").pre_tokenize("naïve, yes")]
        ['▁naïve,', '▁yes']
    """
    if not isinstance(normalizer, Normalizer | None):
        raise TypeError(f"normalizer must be a tokenizers normalizer, not {type(normalizer).__name__}")
    if isinstance(pre_tokenizer, PreTokenizer):
        if alphabet not in (None, pre_tokenizer.alphabet):
            raise ConfigurationError(f"this PreTokenizer is for {pre_tokenizer.alphabet}, not for {alphabet}")
        alphabet = pre_tokenizer.alphabet
    alphabet = "bytes" if alphabet is None else alphabet
    if pre_tokenizer is None:
        pre_tokenizer = CHARACTER_PRESETS[0] if alphabet == "chars" else DEFAULT_PRESET
    if isinstance(pre_tokenizer, str):
        return PreTokenizer(normalizer, _preset(pre_tokenizer, alphabet), alphabet)
    if isinstance(pre_tokenizer, StockPreTokenizer):
        return PreTokenizer(normalizer, pre_tokenizer, alphabet)
    if isinstance(pre_tokenizer, PreTokenizer | Tokenizer):
        own = pre_tokenizer.normalizer if normalizer is None else normalizer
        return PreTokenizer(own, pre_tokenizer.pre_tokenizer, alphabet)
    raise TypeError(
        "pre_tokenizer must be a preset's name, a tokenizers pre-tokenizer or Tokenizer, or a PreTokenizer, "
        f"not {type(pre_tokenizer).__name__}"
    )


def pre_tokenizer_of(backend: Tokenizer) -> PreTokenizer:
    """The pre-tokenizer of a tokenizer with a BPE model, and the alphabet that this model starts from.

    That is bytes if the pre-tokenizer writes them, unless the model adds affixes or lacks some byte.
    """
    characters = PreTokenizer(backend.normalizer, backend.pre_tokenizer, "chars")
    model = backend.model
    affixes = model.continuing_subword_prefix or model.end_of_word_suffix
    lacks_bytes = model.unk_token and any(backend.token_to_id(symbol) is None for symbol in SYMBOL_TO_BYTE)
    if characters.writes_bytes and not affixes and not lacks_bytes:
        return PreTokenizer(backend.normalizer, backend.pre_tokenizer)
    return characters


def _preset(name: str, alphabet: str) -> StockPreTokenizer:
    presets = CHARACTER_PRESETS if alphabet == "chars" else PRESETS
    if name in presets and alphabet == "chars":
        return _CHARACTER_PRESETS[name]()
    if name in presets:
        pre_tokenizer: StockPreTokenizer = _pipeline_of({"pre_tokenizer": ENTRIES[name]}).pre_tokenizer
        return pre_tokenizer
    known = ", ".join(presets)
    if name in (*PRESETS, *CHARACTER_PRESETS):
        raise ConfigurationError(
            f"pre-tokenizer {name!r} does not go with alphabet={alphabet!r}, whose presets are {known}"
        )
    raise ConfigurationError(f"unknown pre-tokenizer {name!r}; the presets are {known}")


def _parts_of(normalizer: Normalizer | None, pre_tokenizer: StockPreTokenizer | None) -> dict[str, Any]:
    """Both objects' entries in a tokenizer.json."""
    pipeline = Tokenizer(BPE())
    pipeline.normalizer = normalizer
    pipeline.pre_tokenizer = pre_tokenizer
    try:
        state = json.loads(pipeline.to_str())
    except Exception as error:  # `tokenizers` raises nothing narrower
        raise ConfigurationError(
            f"only pre-tokenizers and normalizers built from tokenizers' own objects can be stored: {error}"
        ) from error
    return {name: state[name] for name in ("normalizer", "pre_tokenizer")}


def _pipeline_of(parts: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_str(json.dumps(json.loads(Tokenizer(BPE()).to_str()) | parts))


def _has_byte_level(entry: object) -> bool:
    """Whether `ByteLevel` is anywhere in tokenizer.json entries; as a normalizer it writes bytes, too."""
    if isinstance(entry, dict):
        return entry.get("type") == "ByteLevel" or any(map(_has_byte_level, entry.values()))
    return isinstance(entry, list) and any(map(_has_byte_level, entry))


@functools.cache
def _preset_names() -> dict[str, str]:
    return {get_pre_tokenizer(name).to_json(): name for name in PRESETS}
