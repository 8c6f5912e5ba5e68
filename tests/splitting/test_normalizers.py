"""Compiled normalizers beside those of `tokenizers`."""

import importlib
import json
import random
from functools import cache
from pathlib import Path

import pytest
from tokenizers import Regex, normalizers

from hf_scaffold._core.text_encoder import Normalizer
from hf_scaffold.engine.bare import compiled_step
from hf_scaffold.splitting.normalizers import steps_of

KNOWN = {
    "prepend": normalizers.Prepend("▁"),
    "prepend nothing": normalizers.Prepend(""),
    "byte by character": normalizers.Replace(" ", "▁"),
    "byte by nothing": normalizers.Replace("a", ""),
    "byte by many": normalizers.Replace("a", "many bytes"),
    "overlapping itself": normalizers.Replace("aa", "b"),
    "characters": normalizers.Replace("é\u0301", "e"),
    "literal expression": normalizers.Replace(Regex("na "), "_"),
    "expression": normalizers.Replace(Regex("a|na|[^\\x00-\u3fff]b?"), "xy"),
    "spaces": normalizers.Replace(Regex(r"\s+"), " "),
    "some spaces": normalizers.Replace(Regex(" {2,}"), "▁"),
    "letters by nothing": normalizers.Replace(Regex(r"\p{L}"), ""),
    "CLIP": normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    ),
    "strip": normalizers.Strip(),
    "strip left": normalizers.Strip(right=False),
    "strip right": normalizers.Strip(left=False),
    "strip neither": normalizers.Strip(left=False, right=False),
    "Llama": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    "nested": normalizers.Sequence(
        [normalizers.Strip(), normalizers.Sequence([normalizers.Replace("b", " ")]), normalizers.Strip()]
    ),
    "none": normalizers.Sequence([]),
    "NFC": normalizers.NFC(),
    "NFD": normalizers.NFD(),
    "NFKC": normalizers.NFKC(),
    "NFKD": normalizers.NFKD(),
    "lowercase": normalizers.Lowercase(),
    "strip accents": normalizers.StripAccents(),
    "NMT": normalizers.Nmt(),
    "BERT": normalizers.BertNormalizer(),
    "BERT, cased": normalizers.BertNormalizer(lowercase=False),
    "BERT, lower case with accents": normalizers.BertNormalizer(strip_accents=False),
    "BERT, clean text": normalizers.BertNormalizer(handle_chinese_chars=False, lowercase=False),
    "BERT, Chinese": normalizers.BertNormalizer(clean_text=False, lowercase=False),
    "BERT, accents": normalizers.BertNormalizer(False, False, True, False),
    "BERT, nothing": normalizers.BertNormalizer(False, False, False, False),
    "ALBERT": normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()]
    ),
}
PIECES = [
    *["", " ", "  ", "\n", "\u00a0", "\u3000", "\x85", "\u200b", "\x00", "\x7f"],
    *["a", "b", "aa", "aaa", "na", "e", "É", "é", "é\u0301", "e\u0301", "▁", "語", "🙂", "many bytes"],
    # Marks of several classes, one of which decomposes; initial, medial and final of Hangul, and syllables.
    *["\u0301", "\u0323", "\u0327", "\u0344", "\u0345", "\u1100", "\u1161", "\u11a8", "가", "각", "ﾊﾞ"],
    *["İ", "ẞ", "ﬃ", "ﷺ", "\u0bc6", "\u0bbe", "\u093c", "क\u093c", "\u0958", "\u00ad", "\ufffd"],
]
SCALARS = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]
FORMS = [normalizers.NFC(), normalizers.NFD(), normalizers.NFKC(), normalizers.NFKD()]


def entry_of(normalizer):
    return json.loads(normalizer.__getstate__())


def compiled(normalizer):
    return Normalizer([*map(compiled_step, steps_of(entry_of(normalizer)))])


@pytest.mark.parametrize("normalizer", KNOWN.values(), ids=KNOWN)
def test_of_random_texts_it_makes_the_same(normalizer):
    rng, ours = random.Random(5), compiled(normalizer)
    for _ in range(3000):
        text = "".join(rng.choices(PIECES, k=rng.choice([0, 1, 2, 3, 5, 20])))
        assert ours.normalize(text) == normalizer.normalize_str(text), ascii(text)


@cache
def interacting():
    """The characters that some form changes, next to a mark of the highest class, too."""
    text = "".join(f"\n\u0345{chr(code)}" for code in SCALARS if code != ord("\n"))
    made = [form.normalize_str(text).split("\n")[1:] for form in FORMS]
    codes = [code for code in SCALARS if code != ord("\n")]
    return [code for code, *found in zip(codes, *made, strict=True) if {*found} != {f"\u0345{chr(code)}"}]


@pytest.mark.parametrize("normalizer", KNOWN.values(), ids=KNOWN)
def test_of_every_character_it_makes_the_same(normalizer):
    text = "\n".join(map(chr, SCALARS))
    assert compiled(normalizer).normalize(text) == normalizer.normalize_str(text)


@pytest.mark.parametrize("normalizer", KNOWN.values(), ids=KNOWN)
def test_of_characters_that_interact_it_makes_the_same(normalizer):
    rng, ours, codes = random.Random(7), compiled(normalizer), interacting()
    assert len(codes) > 10_000
    texts = [f"a{chr(code)}e\u0301\u0323\n\u0323\u0301{chr(code)}\u0327x\u0345{chr(code)}" for code in codes]
    for n in (2, 3, 5, 10, 40):
        texts += ["".join(map(chr, rng.choices([*codes, *range(128)], k=n))) for _ in range(1000)]
    for text in texts:
        assert ours.normalize(text) == normalizer.normalize_str(text), ascii(text)


def test_marks_without_end_are_put_in_order():
    text = "a" + "\u0345\u0301\u0323\u0334" * 20_000
    for form in FORMS:
        assert compiled(form).normalize(text) == form.normalize_str(text)


def test_the_tables_are_those_of_tokenizers(monkeypatch):
    folder = Path(__file__).parents[2] / "cython_core"
    monkeypatch.syspath_prepend(folder)
    make = importlib.import_module("make_normalization_tables")
    assert make.render().split("\n")[1:] == make.HEADER.read_text(encoding="utf-8").split("\n")[1:]


@pytest.mark.parametrize("normalizer", KNOWN.values(), ids=KNOWN)
@pytest.mark.parametrize("piece", ["a", "é\u0301", " ", "na ", "aab", "words and é "])
def test_of_long_texts_it_makes_the_same(normalizer, piece):
    ours = compiled(normalizer)
    for n in (4093, 4094, 4095, 4096, 4097, 9001):  # around the blocks that it works in
        text = (piece * n)[:n]
        assert ours.normalize(text) == normalizer.normalize_str(text)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"type": "Precompiled", "precompiled_charsmap": ""}, "none that is compiled"),
        ({"type": "Sequence", "normalizers": [{"type": "Unheard-of"}]}, "none that is compiled"),
        (entry_of(normalizers.Replace(Regex("(?<=a)b"), "")), "the normalizer's pattern looks behind"),
        (entry_of(normalizers.Replace(Regex("a*"), "")), "matches the empty text"),
        (entry_of(normalizers.Replace("", "a")), "1 to 64 bytes only"),
        (entry_of(normalizers.Replace("é" * 33, "a")), "1 to 64 bytes only"),
        ({"type": "BertNormalizer", "lowercase": True}, "none that is compiled"),
        (entry_of(normalizers.BertNormalizer()) | {"clean_text": 1}, "none that is compiled"),
        ({"type": "Prepend"}, "none that is compiled"),
        ({"type": "Prepend", "prepend": 1}, "can't be read"),
        ({"type": "Replace", "pattern": "a", "content": "b"}, "none that is compiled"),
        ({"type": "Replace", "pattern": {"String": "\ud800"}, "content": "b"}, "none that is compiled"),
        ([], "none that is compiled"),
    ],
)
def test_others_are_left_to_tokenizers(entry, reason):
    with pytest.raises(LookupError, match=reason):
        [*map(compiled_step, steps_of(entry))]


def test_steps_are_checked_by_the_core():
    for steps, error in (
        ([("replace", "", "a")], ValueError),
        ([("replace", "a" * 65, "a")], ValueError),
        ([("replace", "a")], ValueError),
        ([("replace_dropped", "gpt2", "a")], AttributeError),
        ([("strip",)], ValueError),
        ([("guess", "a")], LookupError),
        ([("named", "NFX")], ValueError),
        ([()], ValueError),
    ):
        with pytest.raises(error):
            Normalizer(steps)
    with pytest.raises(UnicodeEncodeError):
        Normalizer([]).normalize("\ud800")


def test_a_prefix_may_depend_on_what_is_there():
    if_missing = Normalizer([("prepend", "▁", True, False)])
    assert [*map(if_missing.normalize, ["a", "▁a", "", "\u2580"])] == ["▁a", "▁a", "", "▁\u2580"]
