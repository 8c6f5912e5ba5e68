"""Random tokenizers, texts and calls, and what is made of them natively and by the Rust backend."""
# ruff: noqa: RUF001  (look-alike letters of many scripts are what is tested)

import json
import random
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import islice
from typing import Any

import character_models
import split_cases
import tokenizers
import toys
from tokenizers import AddedToken
from tokenizers.pre_tokenizers import ByteLevel, Sequence

from hf_scaffold.native.encodings import LazyEncodings
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.pre_tokenizers import PRESETS, get_pre_tokenizer
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

BYTES = ByteLevel(add_prefix_space=False, use_regex=False)
# What splits text besides the presets, by compiled patterns.
DIGITS_THEN_GPT2 = "digits, then gpt2"  # the only one that ends in bytes already
SPLITS = {
    **{
        name: Sequence([split, BYTES])
        for name, split in split_cases.PRE_TOKENIZERS.items()
        if name not in PRESETS
    },
    DIGITS_THEN_GPT2: split_cases.PRE_TOKENIZERS[DIGITS_THEN_GPT2],
    "prefix space": ByteLevel(add_prefix_space=True),
}
COMMON = ("qwen2", "deepseek", "cl100k", "o200k removed", "quoted", "removed, thrice", "bert", "prefix space")
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
# Strings of scaffolds and of bytes' stand-ins, beginnings of each other, white space, and what isn't ASCII.
ADDED = ["zona", "ana", "an", "na na", " b", "'s", "é", "語", "Ġ", "<|eos|>x", "_", "[w]", "\n", "🙂"]

# One for each way the scanners, the added tokens and UTF-8 may treat a character.
ODD = [
    *" '!/_<|1a\n\t\0",
    *[
        "  ",
        "   ",
        "\r\n",
        "'s",
        "'LL",
        "'\u017f",
        "<|eos|>",
        "<|pad|>",
        "<|bos|",
        "|>",
        "42",
        "\x7f",
        "\x80",
    ],
    *"²½Ⅷ٣〇ßǅʰªſKあ字ё\u0301\u0903\u200d\u200b\u00a0\u3000\u0085\u2028\u0378\ufffd\ufeff",
    *["\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "👩‍👩‍👧", "𝔘", "don’t"],
]
PLANES = [
    range(0x80),
    range(0x800),
    range(0xD800),
    range(0xE000, 0x10000),
    *(range(0x10000 * i, 0x10000 * (i + 1)) for i in range(1, 17)),
]


@dataclass(frozen=True)
class Tokenizer:
    """A toy, in the words that make it.

    Args:
        characters: The seed of a random model of characters, with a pipeline of its own; None for bytes.
    """

    size: int = toys.SIZES[0]
    characters: int | None = None
    preset: str = "gpt2-digits"
    post_processor: str = "none"
    normalizer: str = "none"
    added: tuple[tuple[str, dict[str, bool]], ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def kinds(self) -> dict[str, str]:
        """What splits text, and what normalizes it, by name."""
        if self.characters is None:
            kind = "preset" if self.preset in PRESETS else "pattern"
            return {kind: self.preset, "normalizer": self.normalizer, "template": self.post_processor}
        content = json.loads(files(self.characters)[0])
        kinds = {"characters": content["pre_tokenizer"], "their normalizer": content["normalizer"]}
        return {
            **{part: name_of(entry) for part, entry in kinds.items()},
            "template": self.post_processor,
        }

    def made(self) -> Any:
        tokenizer = self.made_of_bytes() if self.characters is None else self.made_of_files()
        for content, flags in self.added:
            tokenizer.add_tokens([AddedToken(content, **flags)])
        return tokenizer

    def made_of_files(self) -> Any:
        tokenizer_json, scaffold_json = files(self.characters)
        backend = tokenizers.Tokenizer.from_str(tokenizer_json)
        backend.post_processor = toys.POST_PROCESSORS[self.post_processor]
        scaffold = json.loads(scaffold_json)
        return ScaffoldTokenizerFast(tokenizer_object=backend, scaffold=scaffold, **self.settings)

    def made_of_bytes(self) -> Any:
        tokenizer = toys.tokenizer(
            toys.trained(self.size),
            post_processor=self.post_processor,
            normalizer=self.normalizer,
            **self.settings,
        )
        tokenizer.backend_tokenizer.pre_tokenizer = (
            SPLITS.get(self.preset) or get_pre_tokenizer(self.preset).pre_tokenizer
        )
        return tokenizer


@dataclass(frozen=True)
class Call:
    """The arguments of a tokenizer call."""

    text: Any
    text_pair: Any = None
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, tokenizer: Any) -> Any:
        return tokenizer(self.text, self.text_pair, verbose=False, **self.options)


def name_of(entry: dict[str, Any] | None) -> str:
    """What a part of tokenizer.json is."""
    if entry is None:
        return "none"
    if entry["type"] == "Sequence":
        return " + ".join(map(name_of, entry["normalizers"]))
    split = {True: ", split", False: ", whole"}.get(entry.get("split"), "")
    return " ".join([entry["type"], *filter(None, [entry.get("prepend_scheme")])]) + split


# ---- at random


@cache
def files(seed: int) -> tuple[str, str]:
    """Those of a model of characters."""
    return character_models.random_model(random.Random(seed))


@cache
def pieces(size: int) -> list[bytes]:
    """The bytes of all tokens, scaffolds included: glued together they are often no UTF-8."""
    return [
        symbols_to_bytes(token) for token in toys.trained(size).expanded if token not in toys.SPECIAL_TOKENS
    ]


def random_tokenizer(rng: random.Random) -> Tokenizer:
    normalizer = rng.choice(["none"] * len(toys.NORMALIZERS) + list(toys.NORMALIZERS))
    normalized = toys.NORMALIZERS[normalizer]
    # Where nothing is left of an added token, `tokenizers` finds it everywhere, until the memory is full.
    may_be_added = [a for a in ADDED if normalized is None or normalized.normalize_str(a)]
    added = rng.sample(may_be_added, rng.choice([0, 0, 1, 2, 6]))
    settings = {
        "truncation_side": ["right", "left"],
        "padding_side": ["right", "left"],
        "split_special_tokens": [False, False, True],
        "model_input_names": [
            ["input_ids", "attention_mask"],
            ["input_ids", "token_type_ids", "attention_mask"],
        ],
        "model_max_length": [1000, 20],
    }
    return Tokenizer(
        size=rng.choice(toys.SIZES),
        characters=rng.choice([None, None, rng.randrange(1 << 32)]),
        preset=rng.choice([*PRESETS, *COMMON, *rng.choices([*SPLITS], k=4)]),
        post_processor=rng.choice(list(toys.POST_PROCESSORS)),
        normalizer=normalizer,
        added=tuple((content, {flag: rng.random() < 0.4 for flag in FLAGS}) for content in added),
        settings={name: rng.choice(values) for name, values in settings.items()},
    )


def random_text(rng: random.Random, tokenizer: Tokenizer) -> str:
    n = rng.choice([0, 1, 2, 3, 5, 8, 13, 13, 30, 100])
    kind = rng.random()
    if tokenizer.characters is not None and kind < 0.8:
        return character_models.random_text(rng, *files(tokenizer.characters))
    if kind < 0.35:
        glued = b"".join(rng.choices(pieces(tokenizer.size), k=n))
        return glued.decode("utf-8", rng.choice(["ignore", "replace"]))
    if kind < 0.45:
        planes = rng.choices(PLANES, k=n)
        return "".join(chr(rng.choice(plane)) for plane in planes)
    if kind < 0.55:  # few characters, much repeated: long runs, and their ends at every place
        few = rng.choices(ODD, k=rng.choice([1, 2, 3]))
        return "".join(rng.choices(few, weights=[20, 2, 1][: len(few)], k=2 * n))
    added = [content for content, _ in tokenizer.added]
    return "".join(rng.choices([*toys.WORDS, *ODD, *added, *added], k=n))


def random_input(rng: random.Random, tokenizer: Tokenizer) -> str:
    """A text; seldom one with a lone surrogate."""
    text = random_text(rng, tokenizer)
    if rng.random() > 0.005:
        return text
    at = rng.randrange(len(text) + 1)
    return text[:at] + chr(rng.randrange(0xD800, 0xE000)) + text[at:]


def short_texts(rng: random.Random, tokenizer: Tokenizer, n: int) -> list[str]:
    """As `random_text`'s, in a fifth of the time: stretches of them are glued from the same pieces."""
    made: list[str] = []
    while len(made) < n:
        pieces = rng.choice(piles(rng, tokenizer))
        lengths = rng.choices([0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8], k=min(100, n - len(made)))
        dealt = iter(rng.choices(pieces, k=sum(lengths)))
        glued = [pieces[0][:0].join(islice(dealt, length)) for length in lengths]
        errors = rng.choice(["ignore", "replace"])
        made += [text if isinstance(text, str) else text.decode("utf-8", errors) for text in glued]
    return made


def piles(rng: random.Random, tokenizer: Tokenizer) -> list[list[Any]]:
    """What texts are glued from, all strings or all bytes in each."""
    added = [content for content, _ in tokenizer.added]
    words = [*toys.WORDS, *ODD, *added, *added]
    if tokenizer.characters is None:
        tokens: list[Any] = pieces(tokenizer.size)
    else:
        tokens = [*character_models.pieces(*files(tokenizer.characters)), *character_models.STRANGE]
    few = rng.choices([*ODD, *added], k=rng.choice([1, 2, 3]))
    apart = rng.choices(split_cases.ODD, k=rng.choice([2, 3, 6, 60]))
    planes = [chr(rng.choice(plane)) for plane in rng.choices(PLANES, k=100)]
    return [tokens, tokens, words, words, apart, few * 7 + apart[:1], planes]


OPTIONS = {
    "add_special_tokens": [True, False],
    "padding": [False, True, "longest", "max_length"],
    "truncation": [False, True, "only_first", "only_second", "longest_first"],
    "max_length": [None, 1, 3, 5, 8, 20, 40],
    "stride": [0, 0, 1, 2, 5],
    "pad_to_multiple_of": [None, 4, 8],
    "padding_side": [None, "left", "right"],
    "return_tensors": [None, "np", "pt"],
    "return_token_type_ids": [None, True, False],
    "return_attention_mask": [None, True, False],
    "return_overflowing_tokens": [False, True],
    "return_special_tokens_mask": [False, True],
    "return_offsets_mapping": [False, True],
    "return_length": [False, True],
    "split_special_tokens": [None, True, False],
}


def random_call(rng: random.Random, tokenizer: Tokenizer) -> Call:
    def one() -> Any:
        if "is_split_into_words" not in options:
            return random_input(rng, tokenizer)
        return [random_input(rng, tokenizer) for _ in range(rng.choice([0, 1, 2, 2, 5]))]

    n = rng.choice([0, 1, 2, 3, 5])
    n_options = rng.choice([0, 1, 2, 4, len(OPTIONS)])
    options = {name: rng.choice(OPTIONS[name]) for name in rng.sample(list(OPTIONS), n_options)}
    if rng.random() < 0.2:  # what overflows, with strides that fit more often
        few = ["truncation", "padding", "return_tensors", "return_token_type_ids"]
        options = {name: rng.choice(OPTIONS[name]) for name in few}
        options |= {"return_overflowing_tokens": True, "return_offsets_mapping": True}
        options |= {"max_length": rng.choice([6, 8, 12, 20]), "stride": rng.choice([0, 1, 2, 3])}
    if rng.random() < 0.2:
        options["is_split_into_words"] = True
    first, second = [one() for _ in range(n)], [one() for _ in range(n)]
    text, text_pair = rng.choice(
        [
            (one(), None),
            (one(), one()),
            (first, None),
            (tuple(first), None),
            (first, second),
            (list(zip(first, second, strict=True)), None),
        ]
    )
    return Call(text, text_pair, options)


# ---- compared


def describe(encoding: Any) -> dict[str, Any]:
    """All that an Encoding holds."""
    names = ("ids", "type_ids", "tokens", "word_ids", "sequence_ids", "offsets", "special_tokens_mask")
    return {name: getattr(encoding, name) for name in (*names, "attention_mask", "n_sequences")}


def found(encoding: Any) -> list[Any]:
    """What an Encoding finds of the first tokens, words and characters, and some beyond the last."""
    places = [*range(min(len(encoding), 12) + 3), len(encoding), 10**6]
    of_tokens = [
        (encoding.token_to_sequence(i), encoding.token_to_chars(i), encoding.token_to_word(i)) for i in places
    ]
    of_sequences = [
        (
            encoding.char_to_token(i, sequence),
            encoding.char_to_word(i, sequence),
            encoding.word_to_tokens(i, sequence),
            encoding.word_to_chars(i, sequence),
        )
        for i in places
        for sequence in range(encoding.n_sequences)
    ]
    return [*of_tokens, *of_sequences, len(encoding), encoding.char_to_token(0)]


def plain(value: Any) -> Any:
    """Tensors and arrays, ragged ones too, as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    is_nested = isinstance(value, list) and value and not isinstance(value[0], int)
    return [plain(item) for item in value] if is_nested else value


def outcome(tokenizer: Any, call: Call) -> Any:
    """What a call returns or raises."""
    try:
        return call(tokenizer)
    except BaseException as error:
        # The backend panics where a stride does not fit into what is left, or an added token's white space
        # reaches over the next one.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        return error


def form(outcome: Any, with_encodings: bool = True) -> Any:
    """An outcome in a form that compares; encodings are made where they are asked for."""
    if isinstance(outcome, BaseException):
        return type(outcome), str(outcome)
    columns = [
        (name, type(value), str(getattr(value, "dtype", "")), plain(value)) for name, value in outcome.items()
    ]
    encodings = [(describe(e), found(e)) for e in outcome.encodings] if with_encodings else None
    return columns, outcome.n_sequences, encodings


def is_native(outcome: Any) -> bool:
    return isinstance(getattr(outcome, "encodings", None), LazyEncodings)


def twins(made: Tokenizer) -> tuple[Any, Any]:
    """The tokenizer twice; the second one's calls are answered by the Rust backend."""
    native, general = made.made(), made.made()
    general.native = False
    return native, general


def are_answered_alike(made: Tokenizer, call: Call) -> bool:
    native, general = (form(outcome(tokenizer, call)) for tokenizer in twins(made))
    return bool(native == general)


def report(made: Tokenizer, call: Call) -> str:
    if are_answered_alike(made, call):
        return f"{made}\n{call}\nafter other calls of this round; alone it is answered rightly"
    made, call = smallest(made, call)
    native, general = (form(outcome(tokenizer, call)) for tokenizer in twins(made))
    return f"{made}\n{call}\nnative:  {native}\ngeneral: {general}"


# ---- made smaller


def smallest(made: Tokenizer, call: Call) -> tuple[Tokenizer, Call]:
    """A tokenizer and a call of which nothing can be left out without the paths agreeing again."""
    while True:
        for smaller in simpler(made, call):
            if not are_answered_alike(*smaller):
                made, call = smaller
                break
        else:
            return made, call


def simpler(made: Tokenizer, call: Call) -> Any:
    """Pairs of tokenizer and call with a little less in them."""
    for part in fields(Call):
        for value in less(getattr(call, part.name)):
            yield made, replace(call, **{part.name: value})
    for part in fields(Tokenizer):
        default = Tokenizer() if part.name in ("size", "preset", "post_processor", "normalizer") else None
        given = getattr(made, part.name)
        values = less(given) if default is None else {getattr(default, part.name)} - {given}
        for value in values:
            yield replace(made, **{part.name: value}), call


def less(value: Any) -> Any:
    """Without a half, a quarter, … an item; then with less in one of the items."""
    if isinstance(value, dict):
        for name in value:
            yield {other: value[other] for other in value if other != name}
    elif isinstance(value, (str, list, tuple)):
        size = len(value) // 2
        while size:
            for start in range(0, len(value), size):
                yield value[:start] + value[start + size :]
            size //= 2
        if len(value) == 1:
            yield value[:0]
        if not isinstance(value, str):
            for i, item in enumerate(value):
                for simpler_item in less(item):
                    yield value[:i] + type(value)([simpler_item]) + value[i + 1 :]
