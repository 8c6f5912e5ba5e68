"""Pre-tokenizers, patterns and texts for the tests of splitting, and the slow twin: `tokenizers` itself."""

import json
from itertools import accumulate

from tokenizers import Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import (
    BertPreTokenizer,
    ByteLevel,
    CharDelimiterSplit,
    Digits,
    Punctuation,
    Sequence,
    Split,
    Whitespace,
    WhitespaceSplit,
)

from hf_scaffold._core.counter import last_cut, pretoken_offsets
from hf_scaffold.splitting.entries import splitting_of
from hf_scaffold.text.presets import GPT2_PATTERN, GPT4O_PATTERN, LLAMA3_PATTERN

# As in Qwen/Qwen2.5-7B's and deepseek-ai/DeepSeek-V3's tokenizer.json; cl100k_base as tiktoken has it.
QWEN2 = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
DEEPSEEK = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ\u30a0-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)
BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]


def isolated(pattern):
    return Split(Regex(pattern), "isolated")


PRE_TOKENIZERS = {
    "qwen2": isolated(QWEN2),
    "deepseek": Sequence([*map(isolated, DEEPSEEK)]),
    "cl100k": isolated(CL100K),
    "o200k": isolated(GPT4O_PATTERN.replace("(?i:", "(?:")),
    "o200k removed": Split(Regex(GPT4O_PATTERN), "removed", invert=True),
    "gpt2": isolated(GPT2_PATTERN),
    "llama3": isolated(LLAMA3_PATTERN),
    "digits": Digits(individual_digits=True),
    "runs of digits": Digits(individual_digits=False),
    "punctuation": Punctuation(),
    "runs of punctuation": Punctuation("contiguous"),
    "whitespace": Whitespace(),
    "whitespace split": WhitespaceSplit(),
    "bert": BertPreTokenizer(),
    "delimiter": CharDelimiterSplit("a"),
    "string": Split("'s", "merged_with_previous"),
    "quoted": isolated('"[^"]*"'),
    "a bracket in a class": isolated(" ?[^(\\s|[.,!?\u2026\u3002])]+"),
    "digits, then gpt2": Sequence([Digits(individual_digits=False), ByteLevel(add_prefix_space=False)]),
}
for behavior in BEHAVIORS:
    for invert in (False, True):
        name = f"{behavior}{', inverted' if invert else ''}"
        PRE_TOKENIZERS[name] = Split(Regex(r"\s|[b-d]x?|1{1,3}2"), behavior, invert)
        words = Split(Regex(r"\p{Lu}?\p{Ll}+|[\p{P}\p{S}]"), behavior, not invert)
        spaces = Split(Regex(r"\s+"), behavior, invert)
        PRE_TOKENIZERS[f"{name}, thrice"] = Sequence([Digits(individual_digits=invert), spaces, words])

# One for each way a pattern may treat a character.
ODD = [
    *" '!/_<|1a\n\t\0\r\f\v\x1c\x1f\x85bcdxAB▁\"s",
    *["  ", "\r\n", "'s", "'LL", "'\u017f", "\u212a", "ß", "ﬁ", "ﬆ", "12", "123", "112", "ab", "Ab"],
    *"²½Ⅷ٣\u3007ǅʰª\u017fKあ字ё\u0301\u0903\u200d\u200b\u00a0\u3000\u2028\u0378\ufffd\ufeff๑",
    *["👩‍👩‍👧", "\U0001d518", "don\u2019t", "漢字", "アア", "\u07ff", "\u0800", "\ue000", "\U0010ffff"],
]


def random_text(rng):
    few = rng.choices(ODD, k=rng.choice([2, 3, 6, 60]))
    return "".join(rng.choices(few, k=rng.choice([1, 3, 10, 30, 100, 1000])))


def entry_of(pre_tokenizer):
    """As in tokenizer.json."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    return json.loads(tokenizer.to_str())["pre_tokenizer"]


def levels_of(pre_tokenizer):
    return splitting_of(entry_of(pre_tokenizer))


def native(splitting, text):
    """Where pre-tokens begin and end, in bytes."""
    return [tuple(row) for row in pretoken_offsets(text.encode(), splitting).tolist()]


def stock(pre_tokenizer, text):
    """As `native`, by `tokenizers`."""
    ends = [0, *accumulate(len(character.encode()) for character in text)]
    return [(ends[begin], ends[end]) for _, (begin, end) in pre_tokenizer.pre_tokenize_str(text)]


def check(pre_tokenizer, splitting, text, continuation):
    """Splits a text both ways; then cuts it, and splits both parts."""
    assert native(splitting, text) == stock(pre_tokenizer, text), repr(text)
    cut = last_cut(text.encode(), splitting)
    if cut == 0:
        return
    head, tail = text.encode()[:cut].decode(), text.encode()[cut:].decode() + continuation
    parts = native(splitting, head) + [(cut + begin, cut + end) for begin, end in native(splitting, tail)]
    assert native(splitting, head + tail) == parts, (head, tail)
