"""The native scanners against the pipelines they stand for, and the counting on top of them."""
# ruff: noqa: RUF001  (look-alike letters of many scripts are what is tested)

import importlib.util
import itertools
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_scaffold._core.counter import PretokenCounter, last_cut, pretoken_offsets
from hf_scaffold.errors import ConfigurationError, CountOverflowError
from hf_scaffold.text.pre_tokenizers import PRESETS, get_pre_tokenizer

# A character for each way the patterns may treat one, and the traps: the long s (an s in (?i:'s)), the Kelvin
# sign, title case, letters of no case, marks, numbers that are no decimal digits, white space, unassigned.
NASTY = [
    *"aABsStTlLreRvVmd",
    *"''''/!_’",
    *"019½Ⅷ²٣一",
    *" \u00a0\u3000\u0085\u2028\t\v\r\n",
    *" \n",
    *"ſKéßǅʰªあ字ё𝔘",
    *"\u0301\u0903\u200d\u200b😀",
    "\u0378",
    "\U000e0001",
    "\0",
]
# One character for each distinct role in the patterns.
ROLES = [*"as", "A", "あ", "\u0301", "'", "!", "/", "1", "\u3007", " ", "\t", "\n"]

# Own sentences, for their scripts, punctuation, digits and line ends.
SAMPLE = """\
The ship's log says: "we'll sail at 06:45, won't we?"  They'd paid £1,250.50 -- I'VE NO IDEA why.
Der Große Bär, 17½ km², kostet 3.000 €; l'été à Orléans n'est pas fini... ¿Qué más? ¡Nada!\r
Ёжик в тумане, №5 — «кто там?»\tДевочка пела в церковном хоре (1905).
Η θάλασσα είναι ήρεμη σήμερα· ὁ ἄνθρωπος ΣΊΣΥΦΟΣ.
الكتاب على الطاولة، والقلم ١٢٣ تحتها؟  כל הזכויות שמורות, תשפ״ד׳.
हिन्दी में लिखा हुआ वाक्य। १२ किताबें   தமிழ் எழுத்து, ภาษาไทยไม่มีช่องว่าง ๓๔๕
天气很好，我们去公园吧。\n　第２章「はじめに」カタカナー、한국어 문장입니다. ｱｲｳ㍿㊙
Việt Nam: tiếng Việt có dấu; e\u0301te\u0301 ŉ ǅungla ǈ ʰʷ ﬁn İstanbul'da IŞIK'tan.
𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 👩‍👩‍👧‍👦🏳️‍🌈 ქართული ᲥᲐᲠᲗᲣᲚᲘ ᏣᎳᎩ አማርኛ ᠮᠣᠩᠭᠣᠯ ⅣⅧ ½¼ ①②

def f(x):\r\n\t\treturn {"a": x**2}  # it's camelCase, HTTPServer2, snake_case_9\n\n\n    // https://example.org/a//b?c=1
   \u00a0 \u3000\x85trailing   """


def natively(text: bytes, preset: str) -> list[bytes]:
    return [text[start:end] for start, end in pretoken_offsets(text, preset).tolist()]


def counted(counter: PretokenCounter) -> dict[bytes, int]:
    text, offsets, counts = counter.table()
    ends = itertools.pairwise(offsets.tolist())
    return {text[start:end]: count for (start, end), count in zip(ends, counts.tolist(), strict=True)}


# The scanners


@pytest.mark.parametrize("preset", PRESETS)
def test_scanner_equals_pipeline_on_many_scripts(preset):
    text = SAMPLE * 2
    assert natively(text.encode(), preset) == get_pre_tokenizer(preset).pre_tokenize(text)


@pytest.mark.parametrize("preset", PRESETS)
def test_scanner_equals_pipeline_on_every_code_point_of_the_first_two_planes(preset):
    codes = [*range(0xD800), *range(0xE000, 0x20000)]
    text = "".join(f"a{c}a {c}\n'{c}" for c in map(chr, codes))
    assert natively(text.encode(), preset) == get_pre_tokenizer(preset).pre_tokenize(text)


def test_class_table_is_what_the_installed_tokenizers_gives_on_every_code_point():
    path = Path(__file__).parents[2] / "cython_core" / "make_unicode_classes.py"
    spec = importlib.util.spec_from_file_location("make_unicode_classes", path)
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    committed = generator.HEADER.read_text(encoding="utf-8").splitlines()
    assert (
        generator.render(generator.probe()).splitlines()[1:] == committed[1:]
    )  # the first names the version


@settings(max_examples=400)
@given(st.text(st.sampled_from(NASTY)))
def test_scanner_equals_pipeline_on_nasty_text(text):
    for preset in PRESETS:
        assert natively(text.encode(), preset) == get_pre_tokenizer(preset).pre_tokenize(text), preset


@pytest.mark.parametrize("preset", PRESETS)
def test_scanner_equals_pipeline_on_all_short_texts(preset):
    pre_tokenizer = get_pre_tokenizer(preset)
    for characters in itertools.product(ROLES, repeat=3):
        text = "".join(characters)
        assert natively(text.encode(), preset) == pre_tokenizer.pre_tokenize(text)


@pytest.mark.parametrize("preset", PRESETS)
def test_scanner_equals_pipeline_on_long_texts_of_few_characters(preset):
    """A scanner may look at dozens of bytes at once: every role in every place, runs across borders."""
    rng = random.Random(preset)
    pre_tokenizer = get_pre_tokenizer(preset)
    for _ in range(1500):
        few = rng.choices([*NASTY, "'s", "'ll", "'re"], k=rng.randint(1, 6))
        text = ""
        while len(text) < 200:
            text += rng.choice(few) * (1 if rng.random() < 0.8 else rng.randint(2, 70))
        assert natively(text.encode(), preset) == pre_tokenizer.pre_tokenize(text)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "tail",
    ["", " ", "  ", "\n", "\u3000", "\u00a0 ", "'", "'s", "1", " 1", "é", "字", "😀", "A", "\u0301", "/"],
)
def test_scanner_equals_pipeline_wherever_the_text_ends(preset, tail):
    text = (
        "It isn't 'so', we'd say:\u3000« ça va ? »  日本語 \n\n1234 😀 they'll've ½'s //\n/ 字ABC!\u0301" * 3
    )
    pre_tokenizer = get_pre_tokenizer(preset)
    for n in range(len(text)):
        cut = text[:n] + tail
        assert natively(cut.encode(), preset) == pre_tokenizer.pre_tokenize(cut)


@pytest.mark.parametrize("preset", PRESETS)
def test_contractions(preset):
    endings = [*"sStTmdſßK", "re", "rE", "Re", "ve", "VE", "ll", "lL", "le", "rr", "ſs", ""]
    text = " ".join(
        f"{before}'{ending}{after}" for ending in endings for before in ["", "x", "X"] for after in ["", "y"]
    )
    assert natively(text.encode(), preset) == get_pre_tokenizer(preset).pre_tokenize(text)


@pytest.mark.parametrize("preset", PRESETS)
def test_offsets_of_nothing(preset):
    offsets = pretoken_offsets(b"", preset)
    assert offsets.shape == (0, 2)
    assert offsets.dtype == np.int64


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "run", ["a", "A", "あ", "\u0301", " ", "\n", "!", "/", "7", "'", "Aあ", "あA", "!\u0301", "\n/", "a's"]
)
def test_long_runs_take_linear_time(preset, run):
    text = (run * 500_000).encode()
    offsets = pretoken_offsets(text, preset)
    assert offsets[0, 0] == 0
    assert offsets[-1, 1] == len(text)
    assert (offsets[1:, 0] == offsets[:-1, 1]).all()


# Cutting


def read_in_blocks(text: bytes, block_size: int, preset: str) -> list[bytes]:
    """The pieces that a reader of blocks of this size hands on."""
    pieces, pending = [], b""
    for start in range(0, len(text), block_size):
        pending += text[start : start + block_size]
        cut = last_cut(pending, preset)
        if cut:
            pieces.append(pending[:cut])
            pending = pending[cut:]
    return [*pieces, pending]


@pytest.mark.parametrize("preset", PRESETS)
def test_reading_in_blocks_of_any_size_changes_no_pretoken(preset):
    text = SAMPLE.encode()
    whole = natively(text, preset)
    for block_size in [*range(1, 40), 64, 100, 999, len(text)]:
        pieces = read_in_blocks(text, block_size, preset)
        assert [pretoken for piece in pieces for pretoken in natively(piece, preset)] == whole


@settings(max_examples=300)
@given(st.text(st.sampled_from(NASTY), min_size=1), st.integers(1, 12))
def test_reading_nasty_text_in_blocks_changes_no_pretoken(text, block_size):
    for preset in PRESETS:
        pieces = read_in_blocks(text.encode(), block_size, preset)
        whole = natively(text.encode(), preset)
        assert [pretoken for piece in pieces for pretoken in natively(piece, preset)] == whole, preset


@pytest.mark.parametrize("preset", PRESETS)
def test_a_cut_holds_for_all_short_continuations(preset):
    for characters in itertools.product(ROLES, repeat=4):
        text = "".join(characters).encode()
        whole = natively(text, preset)
        for known in range(1, len(characters)):
            cut = last_cut("".join(characters[:known]).encode(), preset)
            assert cut == 0 or natively(text[:cut], preset) + natively(text[cut:], preset) == whole


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "line",
    [
        "plain words without an end\n",
        "One sentence, a second one.\r\n",
        "天气很好我们去公园吧\n",
        "天气很好。\n",
        "「天气很好」\n\n",
        "ภาษาไทยไม่มีช่องว่าง ",
        "अनुच्छेद।\n",
        "x = 12345; // done\n",
        '\t\t"key": [1, 2],\n',
    ],
)
def test_a_cut_is_near_in_text_of_any_script(preset, line):
    text = line.encode() * 5
    for end in range(3 * len(line.encode()), len(text)):
        assert last_cut(text[:end], preset) > end - 2 * len(line.encode())


def test_cuts_by_hand():
    assert last_cut("one two\u00e9".encode(), "gpt2") == 3
    assert last_cut(b"one two \xc3", "gpt2") == 7
    assert last_cut(b"one 1234", "gpt2-digits") == 7
    assert last_cut(b"x 1234", "gpt4o") == 1
    assert last_cut("好。\n好".encode(), "llama3") == len("好。\n".encode())
    assert last_cut(b"!\n/", "gpt4o") == 0  # [\r\n/]*
    assert last_cut(b"it's", "gpt4o") == 0  # a contraction stays with its letters
    assert last_cut(b"it's", "gpt2") == 2
    for preset in PRESETS:
        assert last_cut(b"", preset) == 0
        assert last_cut(b"letters", preset) == 0
        assert last_cut(b"    ", preset) == 0


@given(st.binary())
def test_a_cut_of_any_bytes_is_inside_and_before_a_character(text):
    for preset in PRESETS:
        cut = last_cut(text, preset)
        assert 0 <= cut < max(1, len(text))
        assert cut == 0 or text[cut] & 0xC0 != 0x80


# Invalid text

INVALID = [
    b"\x80",
    b"\xbf",
    b"\xc0\xaf",
    b"\xc1\xbf",
    b"\xc3",
    b"\xe0\x9f\xbf",
    b"\xe4\xb8",
    b"\xe4a\x80",
    b"\xed\xa0\x80",
    b"\xf0\x8f\xbf\xbf",
    b"\xf0\x9f\x98",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\x80\x80",
    b"\xff",
]


@pytest.mark.parametrize("invalid", INVALID)
@pytest.mark.parametrize("before", ["", "text ", "sixteen letters 字"])
@pytest.mark.parametrize("after", [b"", b" and more of it"])
def test_invalid_utf8_is_refused_with_its_offset(invalid, before, after):
    text = before.encode() + invalid + after
    counter = PretokenCounter("gpt2")
    with pytest.raises(UnicodeDecodeError) as refused:
        counter.add([b"valid", text, b"valid"])
    assert refused.value.object == text
    assert refused.value.start == len(before.encode())
    assert len(counter) == 0
    with pytest.raises(UnicodeDecodeError):
        pretoken_offsets(text, "gpt4o")


@given(st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_exactly_what_python_decodes_is_accepted(text):
    if text == text.decode("utf-8", "ignore").encode():
        for preset in PRESETS:
            assert b"".join(natively(text, preset)) == text
    else:
        with pytest.raises(UnicodeDecodeError) as expected:
            text.decode()
        with pytest.raises(UnicodeDecodeError) as refused:
            PretokenCounter("llama3").add([text])
        assert refused.value.args == expected.value.args


# Counting


@pytest.mark.parametrize("preset", PRESETS)
def test_counts_are_those_of_the_pipeline(preset):
    texts = [SAMPLE, "", *SAMPLE.splitlines(), SAMPLE]
    counter = PretokenCounter(preset)
    counter.add([text.encode() for text in texts[:3]])
    counter.add([])
    counter.add(tuple(text.encode() for text in texts[3:]))
    expected = Counter(
        pretoken for text in texts for pretoken in get_pre_tokenizer(preset).pre_tokenize(text)
    )
    assert counted(counter) == expected
    assert len(counter) == len(expected)


def test_the_table_is_sorted_whatever_the_order():
    texts = [b"b", b"a", b"ab", b"\xc3\xa9", b"a" * 17, b"a" * 40, b"a" * 16, b"\0", b"B"]
    tables = []
    for order in (texts, texts[::-1]):
        counter = PretokenCounter("gpt2")
        counter.add(order)
        tables.append(counter.table())
    text, offsets, counts = tables[0]
    assert text == b"".join(sorted(texts))
    assert offsets.tolist() == [0, *itertools.accumulate(map(len, sorted(texts)))]
    assert counts.tolist() == [1] * len(texts)
    assert offsets.dtype == counts.dtype == np.int64
    assert tables[1][0] == text
    assert (tables[1][1] == offsets).all()


@given(st.lists(st.text(st.sampled_from(NASTY), max_size=9)), st.integers(0, 3), st.booleans())
def test_joined_texts_are_counted_as_texts(texts, n_before, writable):
    one_by_one, joined = PretokenCounter("gpt2"), PretokenCounter("gpt2")
    utf8 = [text.encode() for text in texts]
    offsets = n_before + np.cumsum([0, *map(len, utf8)])
    data = b"\xff" * n_before + b"".join(utf8) + b"more"
    one_by_one.add(utf8)
    joined.add_utf8(np.frombuffer(bytearray(data), np.uint8) if writable else data, offsets)
    assert counted(joined) == counted(one_by_one)


def test_joined_texts_are_each_utf8():
    counter = PretokenCounter("gpt2")
    data = "aé".encode()
    for offsets, text, start in ([0, 1, 2, 3], data[1:2], 0), ([0, 0, 2], data[:2], 1):
        with pytest.raises(UnicodeDecodeError) as refused:
            counter.add_utf8(data, np.array(offsets))
        assert (refused.value.object, refused.value.start) == (text, start)
    assert not len(counter)


@pytest.mark.parametrize("offsets", [[0, 5], [0, 3, 2], [-1, 0], [2, 1]])
def test_joined_texts_stay_within_their_data(offsets):
    with pytest.raises(ValueError, match="in data of 4 bytes"):
        PretokenCounter("gpt2").add_utf8(b"abcd", np.array(offsets))


@pytest.mark.parametrize("preset", PRESETS)
def test_an_empty_counter(preset):
    counter = PretokenCounter(preset)
    counter.add([b"", b""])
    text, offsets, counts = counter.table()
    assert (len(counter), text, offsets.tolist(), counts.tolist()) == (0, b"", [0], [])


@pytest.mark.parametrize("colliding", [False, True])
def test_pretokens_of_every_length_keep_apart(colliding):
    """Around the table's inline size, at the end of a text and before it; zero bytes are bytes like any."""
    expected = Counter()
    texts = []
    for length in range(1, 70):
        for character in ["\0", "!", "¿"]:
            texts.append((character * length).encode())
            texts.append((character * length + " word").encode())
            expected.update({(character * length).encode(): 2, b" word": 1})
    counter = PretokenCounter("gpt2", _colliding=colliding)
    counter.add(texts)
    assert counted(counter) == expected


def test_more_than_a_million_distinct_pretokens():
    n = 1_100_000
    numbers = np.arange(n)
    letters = np.stack([numbers // 26**i % 26 + ord("a") for i in range(5)], axis=1).astype(np.uint8)
    spaced = np.concatenate([np.full((n, 1), ord(" "), np.uint8), letters], axis=1).tobytes()
    long = spaced[:60_000].replace(b" ", b" longer" + b"x" * 20)
    counter = PretokenCounter("llama3")
    counter.add([spaced, spaced, long])
    assert len(counter) == n + 10_000
    text, offsets, counts = counter.table()
    assert int(counts.sum()) == 2 * n + 10_000
    assert text[: int(offsets[2])] == b" aaaaa aaaab"
    pretokens = text.split(b" ")[1:]
    assert pretokens == sorted(pretokens)
    assert len(set(pretokens)) == n + 10_000

    other = PretokenCounter("llama3")
    other.add([b" aaaaa" * 1000, b" yes"])
    other.merge(counter)
    merged = counted(other)
    assert merged.pop(b" aaaaa") == 1002
    assert merged.pop(b" yes") == 1
    assert len(merged) == n + 9_999
    assert len(counter) == n + 10_000


@pytest.mark.parametrize("preset", PRESETS)
def test_counters_of_several_threads_merge_to_one(preset):
    texts = [SAMPLE[i : i + 300].encode() for i in range(0, len(SAMPLE), 7)]
    alone = PretokenCounter(preset)
    alone.add(texts)

    def count(part: int) -> PretokenCounter:
        counter = PretokenCounter(preset)
        for text in texts[part::4]:
            counter.add([text])
        return counter

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(count, range(4)))
    for order in (parts, parts[::-1]):
        merged = PretokenCounter(preset)
        for counter in order:
            merged.merge(counter)
        assert counted(merged) == counted(alone)
        assert merged.table()[0] == alone.table()[0]


def test_a_count_beyond_int64_is_an_error():
    counter = PretokenCounter("gpt2")
    counter.add([b"a"])
    one = PretokenCounter("gpt2")
    one.merge(counter)
    for _ in range(62):
        counter.merge(counter)
    almost = PretokenCounter("gpt2")
    almost.merge(counter)
    assert counted(counter) == {b"a": 2**62}
    with pytest.raises(CountOverflowError, match=r"2\*\*63 - 1"):
        counter.merge(counter)
    assert counted(counter) == {b"a": 2**62}
    for power in range(62):
        if power:
            one.merge(one)
        almost.merge(one)
    assert counted(almost) == {b"a": 2**63 - 1}
    with pytest.raises(OverflowError):
        almost.add([b"a"])
    assert counted(almost) == {b"a": 2**63 - 1}


def test_counters_of_different_presets_do_not_merge():
    with pytest.raises(ConfigurationError, match="don't merge"):
        PretokenCounter("gpt2").merge(PretokenCounter("llama3"))


def test_unknown_presets_are_answered_with_the_known():
    for call in (PretokenCounter, lambda name: last_cut(b"", name), lambda name: pretoken_offsets(b"", name)):
        with pytest.raises(ConfigurationError, match=r"'gpt3'.*gpt2, gpt2-digits, llama3, gpt4o"):
            call("gpt3")


@pytest.mark.parametrize("texts", [["text"], [bytearray(b"text")], [None], b"text"])
def test_texts_that_are_no_bytes_are_refused(texts):
    with pytest.raises(TypeError, match="expected UTF-8 text as bytes"):
        PretokenCounter("gpt2").add(texts)
