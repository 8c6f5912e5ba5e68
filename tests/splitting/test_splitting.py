"""Pre-tokenizers split natively, beside `tokenizers`; what can't be split so is refused with its reason."""

import random

import pytest
from split_cases import BEHAVIORS, ODD, PRE_TOKENIZERS, check, isolated, levels_of, native, random_text, stock
from tokenizers import Regex
from tokenizers.pre_tokenizers import (
    BertPreTokenizer,
    ByteLevel,
    Digits,
    FixedLength,
    Metaspace,
    Punctuation,
    Sequence,
    Split,
    UnicodeScripts,
    Whitespace,
    WhitespaceSplit,
)

from hf_scaffold._core.counter import PretokenCounter, last_cut
from hf_scaffold._core.text_encoder import check_splitting
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.splitting import kinds
from hf_scaffold.splitting.alphabet import CODE_POINTS, Alphabet, kind_runs
from hf_scaffold.splitting.automaton import MOST_STATES, compiled
from hf_scaffold.splitting.entries import splitting_of, writes_bytes
from hf_scaffold.splitting.levels import ALWAYS, Level
from hf_scaffold.splitting.patterns import RefusedError

EVERY_CHARACTER = "".join(chr(code) for code in range(CODE_POINTS) if not 0xD800 <= code < 0xE000)
# The first and the last of each run of characters of one kind.
ENDS = [chr(code) for run in kind_runs() for code in (run[0], run[1] - 1) if not 0xD800 <= code < 0xE000]
CATEGORIES = [name for name in kinds.HAVE if len(name) == 2 and name.isalpha()]


# ---- by hand


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("qwen2", "It's 2024:\n\n  x", "It|'s| |2|0|2|4|:\n\n| | x"),
        ("deepseek", "It's 2024年,ab", "It|'s| |202|4|年|,ab"),
        ("whitespace", "naïve, yes!?", "naïve|,|yes|!?"),
        ("bert", "naïve, yes!?", "naïve|,|yes|!|?"),
        ("digits", "ab12", "ab|1|2"),
        ("runs of digits", "ab12", "ab|12"),
        ("string", "it's so's", "it's| so's"),
    ],
)
def test_by_hand(name, text, expected):
    data = text.encode()
    pretokens = [data[begin:end].decode() for begin, end in native(levels_of(PRE_TOKENIZERS[name]), text)]
    assert pretokens == expected.split("|")


# ---- against `tokenizers`


@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_random_texts_are_split_alike(name):
    rng = random.Random(name)
    splitting = levels_of(PRE_TOKENIZERS[name])
    for _ in range(150):
        check(PRE_TOKENIZERS[name], splitting, random_text(rng), rng.choice(ODD))


@pytest.mark.parametrize(
    "name", ["qwen2", "deepseek", "cl100k", "o200k", "bert", "whitespace", "punctuation", "digits"]
)
@pytest.mark.parametrize("before", ["a", " ", "1", "!"])
def test_each_kind_of_character_is_split_alike(name, before):
    text = "".join(before + character for character in ENDS)
    assert native(levels_of(PRE_TOKENIZERS[name]), text) == stock(PRE_TOKENIZERS[name], text)


@pytest.mark.parametrize(
    "pre_tokenizer",
    [
        isolated("|".join(rf"\p{{{name}}}+" for name in CATEGORIES)),
        isolated(r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+|\p{Hangul}+|\d+|\w+|\s+"),
        Digits(individual_digits=False),
        Punctuation("contiguous"),
        Whitespace(),
        WhitespaceSplit(),
        BertPreTokenizer(),
    ],
)
def test_every_character_is_of_the_same_kind(pre_tokenizer):
    assert native(levels_of(pre_tokenizer), EVERY_CHARACTER) == stock(pre_tokenizer, EVERY_CHARACTER)


@pytest.mark.parametrize(
    "atom",
    [
        *(rf"\p{{{name}}}" for name in CATEGORIES),
        *(
            rf"\p{{{name}}}"
            for name in ("L", "M", "N", "P", "S", "Z", "C", "Han", "Hiragana", "Katakana", "Hangul")
        ),
        r"\s",
        r"\S",
        r"\w",
        r"\W",
        r"\d",
        r"\D",
        r"\h",
        r"\H",
        ".",
        r"\P{L}",
        r"\p{^Lu}",
        r"[^\s\p{L}\p{N}]",
        "[a-z&&[^aeiou]]",
        r"[[a-f]\d]",
        "[一-龥]",
        r"[\x{41}-\u00e9\-]",
        "[a-]",
        "[-a]",
        "[^-a]",
        "(?i:[sdk])",
        "(?i:s)",
        "(?i:K)",
        r"(?i:\t)",
        r"\x41",
        r"\.",
        "[&a]",
        r"[\]\[]",
    ],
)
def test_a_class_has_the_same_characters(atom):
    pre_tokenizer = Split(Regex(atom), "contiguous")
    text = "".join(ENDS)
    assert native(levels_of(pre_tokenizer), text) == stock(pre_tokenizer, text)


def test_the_table_of_kinds_holds_every_code_point():
    runs = kind_runs()
    assert runs[0][0] == 0
    assert runs[-1][1] == CODE_POINTS
    assert {kind for _, _, kind in runs} == {*range(kinds.N_KINDS)}
    assert len(Alphabet()._atoms) == kinds.N_KINDS


# ---- random patterns


def random_class(rng):
    atoms = [
        r"\p{L}",
        r"\p{N}",
        r"\s",
        r"\S",
        r"\w",
        r"\d",
        r"\p{Lu}",
        r"\p{Ll}",
        r"\p{M}",
        r"\P{L}",
        r"\p{^P}",
        r"\p{S}",
        r"\p{Han}",
        r".",
        r"\W",
        r"\D",
        r"\h",
        r"\p{Z}",
    ]
    if rng.random() < 0.25:
        return rng.choice(atoms)
    if rng.random() < 0.4:
        return rng.choice([*"abcdxA s'12\n", r"\n", "▁", "é", "字", r"\x{4e00}", r"\u0301", r"\.", r"\t"])
    items = [
        "a",
        "b",
        "a-d",
        "A-Z",
        r"\p{L}",
        r"\s",
        r"\r\n",
        "0-9",
        "'",
        r"\p{M}",
        "一-龥",
        r"\d",
        r"\-",
        "[a-c]",
    ]
    inner = "".join(rng.choices(items, k=rng.choice([1, 2, 3])))
    if rng.random() < 0.1:
        inner += "&&" + rng.choice(["[^a]", r"\p{L}", "a-z"])
    return f"[{rng.choice(['', '', '^'])}{inner}]"


def random_pattern(rng, depth):
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return random_class(rng)
    if kind < 0.5:
        return "".join(random_pattern(rng, depth - 1) for _ in range(rng.choice([2, 2, 3])))
    if kind < 0.65:
        return f"(?:{'|'.join(random_pattern(rng, depth - 1) for _ in range(rng.choice([2, 3])))})"
    if kind < 0.9:
        item = random_class(rng) if rng.random() < 0.7 else f"(?:{random_pattern(rng, depth - 1)})"
        return item + rng.choice(
            ["*", "+", "?", "*?", "+?", "??", "{1,3}", "{2}", "{,2}", "{1,}", "++", "*+", "?+", "{1,2}+"]
        )
    if kind < 0.96:
        ahead = [r"(?!\S)", r"(?=\s)", "(?=a|b)", r"(?!\p{L}|\d)", "$", "(?=$|a)", "(?=[ab])", "(?!$)", r"\z"]
        return random_pattern(rng, depth - 1) + rng.choice(ahead)
    return rng.choice(["(?i:'s|'t|ll|k)", "(?i:[sdk])", "(?i:x)"])


@pytest.mark.parametrize("seed", range(8))
def test_random_patterns_find_what_oniguruma_finds(seed):
    rng = random.Random(seed)
    n_compiled = 0
    for _ in range(60):
        pattern = "|".join(random_pattern(rng, 3) for _ in range(rng.choice([1, 2, 3, 4])))
        pre_tokenizer = Split(Regex(pattern), rng.choice(BEHAVIORS), rng.random() < 0.3)
        try:
            splitting = levels_of(pre_tokenizer)
        except RefusedError:
            continue
        n_compiled += 1
        for _ in range(8):
            text = random_text(rng) if rng.random() < 0.5 else "".join(rng.choices("abcdx A1'\ns", k=30))
            check(pre_tokenizer, splitting, text, rng.choice(ODD))
    assert n_compiled > 15


# ---- refused


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a)\1", "has a backreference"),
        ("(?<=a)b", "looks behind"),
        (r"\bfoo", "has \\b, a word boundary"),
        ("^a", "has ^, the start of a line"),
        ("a*", "matches the empty text"),
        ("a|", "matches the empty text"),
        ("(?:a?)+b", "repeats what may be empty"),
        ("(?>ab)c", "has an atomic group"),
        ("(?:ab)++", "has a possessive group"),
        ("(?=ab)c", "looks ahead by more than one character"),
        ("(?i)a", "sets an option"),
        ("(?i:ss)", "ignores the case of 's' and what follows"),
        ("(?i:s(?:t))", "ignores the case of 's' and what follows"),
        ("(?i:é)", "ignores the case of 'é'"),
        (r"\p{Foo}", r"has \p{Foo}, which is not known natively"),
        ("[[:alpha:]]", "has a POSIX bracket"),
        ("a{2}?", "has a lazy count"),
        ("a{0,100000}", "is longer than 4000 steps once its counts are written out"),
        ("((a{99}){99}){99}", "is longer than 4000 steps once its counts are written out"),
        ("(" * 2000 + "a" + ")" * 2000, "nests more than 40 groups"),
        ("|".join(f"x{i}.*" for i in range(2000)), "has more than 5000 characters"),
        ("(?:a|b)*a(?:a|b){12}", f"needs more than {MOST_STATES} states"),
        (
            "|".join(f"{chr(0x4E00 + i)}a" for i in range(600)),
            "tells more than 250 classes of characters",
        ),
    ],
)
def test_refused_patterns_and_why(pattern, reason):
    with pytest.raises(RefusedError) as refused:
        compiled(pattern)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    "pattern", ["a*b|a", "11+2|1", r"x[^y]*y|\s", "(?:ab)*c|a|b", "(?:aa)+1", "a+b|ac+", "aaa+[12]|a2"]
)
def test_patterns_that_take_quadratic_time_are_refused(pattern):
    with pytest.raises(RefusedError, match="may read far ahead again and again"):
        levels_of(Split(Regex(pattern), "isolated"))


@pytest.mark.parametrize(
    "pattern",
    [
        '"[^"]*"',
        r"\s*[\r\n]+|\s+(?!\S)|\s+",
        "a++|b",
        "[a-z]+(?!1)|[a-z]",
        # These have no match in most of the text.
        r"\s+$",
        "a+1",
        "(?:a |a)+1",
        " *a+1| +2",
        r"\s+$|\p{L}",
    ],
)
def test_long_runs_take_linear_time(pattern):
    splitting = levels_of(Split(Regex(pattern), "isolated"))
    counter = PretokenCounter(splitting)
    counter.add(
        [b"a" * 3_000_000, b" " * 3_000_000, b'"' + b"a " * 1_000_000, b"\n" + b" " * 2_000_000 + b"x"]
    )


@pytest.mark.parametrize("pattern", [r"\s+$", r"\s\s+$|x", r" +\n|\s+$", "a+1|b+$", "(?:ab)+1", "[ab]+1|a+1"])
@pytest.mark.parametrize("behavior", BEHAVIORS)
def test_attempts_in_vain_leave_no_match_out(pattern, behavior):
    rng = random.Random(pattern)
    pre_tokenizer = Split(Regex(pattern), behavior)
    splitting = levels_of(pre_tokenizer)
    for _ in range(300):
        check(pre_tokenizer, splitting, "".join(rng.choices("aab12 \n", k=rng.randrange(1, 40))), "a")


@pytest.mark.parametrize(
    ("pre_tokenizer", "reason"),
    [
        (Metaspace(), "has a Metaspace"),
        (UnicodeScripts(), "has a UnicodeScripts"),
        (FixedLength(3), "has a FixedLength"),
        (Sequence([ByteLevel(), Digits()]), "goes on after ByteLevel"),
        (Sequence([Digits(), ByteLevel(add_prefix_space=True)]), "adds a space"),
        (ByteLevel(add_prefix_space=False, use_regex=False), "splits nothing"),
        (Split("", "isolated"), "pattern matches the empty text"),
        (Sequence([Digits()] * 17), "too many patterns"),
    ],
)
def test_refused_pre_tokenizers_and_why(pre_tokenizer, reason):
    with pytest.raises(RefusedError, match=reason):
        levels_of(pre_tokenizer)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        3,
        {},
        {"type": "Split"},
        {"type": "Split", "pattern": {"Regex": 3}, "behavior": "Isolated"},
        {"type": "Digits"},
        {"type": "Split", "pattern": {"Regex": "a"}, "behavior": "No", "invert": False},
        {"type": "Sequence", "pretokenizers": [3]},
        {"type": []},
    ],
)
def test_entries_that_make_no_sense_are_refused(entry):
    with pytest.raises(RefusedError):
        splitting_of(entry)


# ---- the core's own checks


def changed(**parts):
    return [Level(compiled("ab|c")._replace(**parts), ALWAYS, 0)]


A = compiled("ab|c")


@pytest.mark.parametrize(
    "parts",
    [
        {"n_classes": 0},
        {"n_classes": 1},
        {"n_classes": 300},
        {"starts": A.starts[:-1]},
        {"starts": A.starts[1:], "classes": A.classes[1:]},
        {"starts": A.starts[:1] + A.starts[:-1]},
        {"starts": A.starts[:-1] + type(A.starts)("I", [CODE_POINTS])},
        {"starts": A.starts[:0], "classes": b""},
        {"classes": b"\xff" * len(A.classes)},
        {"transitions": A.transitions[:-1]},
        {"transitions": A.transitions[:0], "accepts": b""},
        {"transitions": type(A.transitions)("h", [len(A.transitions)] * len(A.transitions))},
        {"transitions": type(A.transitions)("h", [-2] * len(A.transitions))},
        {"accepts": A.accepts[:-1]},
        {"accepts": b"\1" * len(A.accepts)},
    ],
)
def test_tables_that_are_no_automaton_are_refused(parts):
    check_splitting(changed())
    with pytest.raises(ValueError, match=r"automaton|runs|run of|transition|empty text"):
        check_splitting(changed(**parts))


def test_counters_of_other_patterns_do_not_merge():
    one, other = (PretokenCounter(levels_of(Split(Regex(p), "isolated"))) for p in ("a", "b"))
    with pytest.raises(ConfigurationError, match="don't merge"):
        one.merge(other)


# ---- cuts


@pytest.mark.parametrize(
    ("name", "text", "cut"),
    [
        ("qwen2", "one two thr", 7),
        ("deepseek", "one two thr", 7),
        ("deepseek", "12345", 0),
        ("whitespace split", "one two thr", 8),
        ("quoted", 'one "two thr', 0),
    ],
)
def test_where_texts_are_cut(name, text, cut):
    assert last_cut(text.encode(), levels_of(PRE_TOKENIZERS[name])) == cut


def test_what_writes_bytes():
    def entry(kind, **more):
        return {"type": kind, **more}

    assert writes_bytes(entry("ByteLevel"))
    assert writes_bytes(entry("Sequence", pretokenizers=[entry("Digits"), entry("ByteLevel")]))
    assert not writes_bytes(entry("Sequence", pretokenizers=[entry("ByteLevel"), entry("Digits")]))
    assert not writes_bytes(entry("Sequence", pretokenizers=[]))
    assert not writes_bytes(None)
