"""Files of tiktoken: each line has a token in base64 and its rank, which is its id.

How text is split, and which tokens are special, tiktoken is told in Python. Here a file beside it says so:
`NAME.tiktoken.json` has these arguments of `tiktoken.Encoding`.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.pre_tokenizers import PreTokenizer as StockPreTokenizer

from hf_scaffold._utils.arguments import LARGEST_ID
from hf_scaffold._utils.strict_json import parse, shown
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer
from hf_scaffold.text.presets import GPT2_PATTERN, GPT4O_PATTERN, LLAMA3_PATTERN

LONGEST = 256  # bytes of a token: a rule is looked for at each cut of it, so this bounds the cost of a file

# As `tokenizers` reads them: without possessive quantifiers, which mean something else there, and by \z
# for what tiktoken means by $.
_CL100K_PATTERN = LLAMA3_PATTERN.replace(r"|\s*[\r\n]+", r"|\s+\z|\s*[\r\n]+")
_SPELLINGS = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": GPT2_PATTERN,
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": GPT2_PATTERN,
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s": _CL100K_PATTERN,
}
# By the beginnings of the names that tiktoken's own files have.
_KNOWN = {
    "gpt2": GPT2_PATTERN,
    "r50k": GPT2_PATTERN,
    "p50k": GPT2_PATTERN,
    "cl100k": _CL100K_PATTERN,
    "o200k": GPT4O_PATTERN,
}
# One pattern in place of the preset's two steps: digits are cut off first, so that white space before one is
# at the end of what is left.
_GPT2_DIGITS_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+"
_PATTERNS = {
    "gpt2-digits": _GPT2_DIGITS_PATTERN,
    "gpt2": GPT2_PATTERN,
    "llama3": LLAMA3_PATTERN,
    "gpt4o": GPT4O_PATTERN,
}
_PRESETS = {pattern: preset for preset, pattern in _PATTERNS.items()}


def settings_path(path: Path) -> Path:
    """Where the settings of a file are.

    Example:
        >>> settings_path(Path("mine.tiktoken")).name
        'mine.tiktoken.json'
    """
    return path.with_name(f"{path.name}.json")


# ---- reading


def read(path: Path) -> Tokenizer:
    """The tokenizer in a file; its ids are those that tiktoken gives.

    A pattern and special tokens come from the file beside it; without one, the pattern from a name that
    begins as those of tiktoken's own files.

    Raises:
        ConfigurationError: a line is malformed, with its number; a byte has no token; or no pattern is known.
    Cost: a look at each way to cut each token in two.
    """
    ranks = _parsed(path)
    pattern, special_tokens = _settings_of(path, ranks)
    backend = _converted(ranks, special_tokens)
    backend.pre_tokenizer = _splitting_by(pattern, path)
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in special_tokens])
    return backend


def looks_alike(data: bytes) -> bool:
    """Whether a file that begins so is one of tiktoken, whatever its name: Llama 3's is tokenizer.model."""
    return re.match(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n", data) is not None


def _parsed(path: Path) -> dict[bytes, int]:
    """Tokens and ranks, each there once; with a token for each byte."""
    ranks: dict[bytes, int] = {}
    lines: dict[int, int] = {}  # of each rank
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path} can't be read as a tokenizer: line {number}"
        try:
            token, rank = _entry(line)
        except ValueError as error:
            raise ConfigurationError(f"{where} {error}: {shown(line)}") from None
        if token in ranks:
            raise ConfigurationError(f"{where} has the token of line {lines[ranks[token]]}: {shown(line)}")
        if rank in lines:
            raise ConfigurationError(f"{where} has the rank of line {lines[rank]}: {shown(line)}")
        ranks[token], lines[rank] = rank, number
    for byte in range(256):
        if bytes([byte]) not in ranks:
            raise ConfigurationError(
                f"{path} can't be read as a tokenizer: no line has the byte 0x{byte:02x} alone; it may be "
                "truncated"
            )
    return ranks


def _entry(line: bytes) -> tuple[bytes, int]:
    words = line.split()
    if len(words) != 2:
        raise ValueError("is not a token and a rank")
    try:
        token = b64decode(words[0], validate=True)
    except ValueError:
        raise ValueError("doesn't begin with a token in base64") from None
    if not 0 < len(token) <= LONGEST:
        raise ValueError(f"has a token of {len(token):,} bytes; up to {LONGEST:,} are read")
    if not words[1].isdigit() or len(words[1]) > len(str(LARGEST_ID)) or int(words[1]) > LARGEST_ID:
        raise ValueError(f"has a rank that is no number from 0 to {LARGEST_ID}")
    return token, int(words[1])


def _settings_of(path: Path, ranks: Mapping[bytes, int]) -> tuple[str, dict[str, int]]:
    """The pattern and the special tokens."""
    beside = settings_path(path)
    if not beside.is_file():
        family = path.name.partition(".")[0].partition("_")[0]
        if family not in _KNOWN:
            raise ConfigurationError(
                f"{path} doesn't say how text is split, as no file of tiktoken does; write "
                '{"pat_str": "…", "special_tokens": {"<|endoftext|>": …}} into '
                f"{beside}, as for tiktoken.Encoding"
            )
        return _KNOWN[family], {}
    try:
        content = parse(beside.read_bytes())
        return _checked(content, {*ranks.values()})
    except ValueError as error:
        raise ConfigurationError(f"{beside} can't be read: {error}") from None


def _checked(content: Any, ranks: set[int]) -> tuple[str, dict[str, int]]:
    if not isinstance(content, dict) or not isinstance(content.get("pat_str"), str):
        raise ValueError('there is no "pat_str", the pattern that text is split by')
    special_tokens = content.get("special_tokens", {})
    if not isinstance(special_tokens, dict):
        raise ValueError('"special_tokens" must be an object: token to id')
    taken = set(ranks)
    for token, token_id in special_tokens.items():
        if not token or type(token_id) is not int or not 0 <= token_id <= LARGEST_ID:
            raise ValueError(f"{shown(token)} can't be a special token with the id {shown(token_id)}")
        if token_id in taken:
            raise ValueError(f"another token has the id of {shown(token)}, {token_id}")
        taken.add(token_id)
    return content["pat_str"], special_tokens


def _converted(ranks: dict[bytes, int], special_tokens: Mapping[str, int]) -> Tokenizer:
    """Model and decoder, by the converter of transformers: a rule for each way to cut a token in two."""
    from transformers.convert_slow_tokenizer import TikTokenConverter

    class Converter(TikTokenConverter):
        """It would ask tiktoken, which keeps each file it has read in a folder of its own, by its path."""

        @staticmethod
        def load_tiktoken_bpe(tiktoken_url: str) -> dict[bytes, int]:
            return ranks

        def extract_vocab_merges_from_model(self, tiktoken_url: str) -> tuple[dict[str, int], Any]:
            vocab, merges = super().extract_vocab_merges_from_model(tiktoken_url)
            for token, token_id in special_tokens.items():
                if vocab.setdefault(token, token_id) != token_id:
                    raise ConfigurationError(f"the special token {shown(token)} is a token of text, too")
            return vocab, merges

    converter: Any = Converter
    backend: Tokenizer = converter().converted()
    return backend


def _splitting_by(pattern: str, path: Path) -> StockPreTokenizer | None:
    pattern = _SPELLINGS.get(pattern, pattern)
    if pattern in _PRESETS:
        return get_pre_tokenizer(_PRESETS[pattern]).pre_tokenizer
    bare = re.sub(r"\[[^\]]*\]", "", re.sub(r"\\[pP]\{[^}]*\}|\\.", "", pattern))
    if found := next((sign for sign in ("}+", "$", "^") if sign in bare), None):
        raise ConfigurationError(
            f"{settings_path(path)}: {found!r} in a pattern means one thing to tiktoken and another to "
            "tokenizers; write it in another way"
        )
    try:
        by_matches = Split(Regex(pattern), "removed", invert=True)  # what it doesn't match vanishes
    except Exception as error:  # of no narrower class
        raise ConfigurationError(f"{settings_path(path)}: {shown(pattern)} is no pattern: {error}") from None
    return Sequence([by_matches, ByteLevel(add_prefix_space=False, use_regex=False)])


# ---- writing


def contents(
    name: str, ranks: Mapping[bytes, int], pattern: str, special_tokens: Mapping[str, int]
) -> dict[str, bytes]:
    """A file of this name and the one beside it."""
    lines = [b"%s %d\n" % (b64encode(token), rank) for token, rank in sorted(ranks.items(), key=_rank_of)]
    beside = {"name": Path(name).stem, "pat_str": pattern, "special_tokens": dict(special_tokens)}
    text = json.dumps(beside, ensure_ascii=False, indent=2) + "\n"
    return {name: b"".join(lines), settings_path(Path(name)).name: text.encode()}


def _rank_of(item: tuple[bytes, int]) -> int:
    return item[1]


def pattern_for(pre_tokenizer: PreTokenizer) -> str:
    """The pattern by which tiktoken splits as a pre-tokenizer does.

    Raises:
        ConfigurationError: there is none.
    Example:
        >>> pattern_for(get_pre_tokenizer("gpt2")) == GPT2_PATTERN
        True
    """
    pattern = _PATTERNS.get(pre_tokenizer.preset or "")
    entry = json.loads(pre_tokenizer.to_json())
    if pattern is None and entry["normalizer"] is None and pre_tokenizer.alphabet == "bytes":
        pattern = _pattern_in(entry["pre_tokenizer"])
    if pattern is None:
        raise ConfigurationError(
            f"tiktoken splits text by one pattern, without a normalizer; not as {pre_tokenizer} does"
        )
    return pattern


def _pattern_in(entry: Any) -> str | None:
    """That of a `Split`, with a `ByteLevel` that splits no further; what it doesn't match must vanish."""
    split, *others = entry.get("pretokenizers", [entry])
    pattern: str | None = split.get("pattern", {}).get("Regex")
    names = ("type", "add_prefix_space", "use_regex")
    rest = [[step.get(name) for name in names] for step in others]
    if pattern is None or rest != [["ByteLevel", False, False]]:
        return None
    if split["behavior"] == "Removed" and split["invert"]:
        return pattern
    return pattern if split["behavior"] == "Isolated" and _covers(pattern) else None


def _covers(pattern: str) -> bool:
    """Whether it matches all of a text of all characters."""
    text = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return not Split(Regex(pattern), "removed").pre_tokenize_str(text)
