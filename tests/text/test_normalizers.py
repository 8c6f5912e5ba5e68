"""Compiled normalizers beside those of `tokenizers`."""

import json
import random

import pytest
from tokenizers import Regex, normalizers

from hf_scaffold._core.text_encoder import Normalizer
from hf_scaffold.text.normalizers import steps_of

KNOWN = {
    "prepend": normalizers.Prepend("▁"),
    "prepend nothing": normalizers.Prepend(""),
    "byte by character": normalizers.Replace(" ", "▁"),
    "byte by nothing": normalizers.Replace("a", ""),
    "byte by many": normalizers.Replace("a", "many bytes"),
    "overlapping itself": normalizers.Replace("aa", "b"),
    "characters": normalizers.Replace("é\u0301", "e"),
    "literal expression": normalizers.Replace(Regex("na "), "_"),
    "strip": normalizers.Strip(),
    "strip left": normalizers.Strip(right=False),
    "strip right": normalizers.Strip(left=False),
    "strip neither": normalizers.Strip(left=False, right=False),
    "Llama": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    "nested": normalizers.Sequence(
        [normalizers.Strip(), normalizers.Sequence([normalizers.Replace("b", " ")]), normalizers.Strip()]
    ),
    "none": normalizers.Sequence([]),
}
PIECES = [
    *["", " ", "  ", "\n", "\u00a0", "\u3000", "\x85", "\u200b", "\x00", "\x7f"],
    *["a", "b", "aa", "aaa", "na", "e", "É", "é", "é\u0301", "e\u0301", "▁", "語", "🙂", "many bytes"],
]


def entry_of(normalizer):
    return json.loads(normalizer.__getstate__())


def compiled(normalizer):
    return Normalizer(steps_of(entry_of(normalizer)))


@pytest.mark.parametrize("normalizer", KNOWN.values(), ids=KNOWN)
def test_of_random_texts_it_makes_the_same(normalizer):
    rng, ours = random.Random(5), compiled(normalizer)
    for _ in range(3000):
        text = "".join(rng.choices(PIECES, k=rng.choice([0, 1, 2, 3, 5, 20])))
        assert ours.normalize(text) == normalizer.normalize_str(text), ascii(text)


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
        (entry_of(normalizers.Replace(Regex("a|b"), "")), "a regular expression"),
        (entry_of(normalizers.Replace("", "a")), "1 to 64 bytes only"),
        (entry_of(normalizers.Replace("é" * 33, "a")), "1 to 64 bytes only"),
        ({"type": "Prepend"}, "none that is compiled"),
        ({"type": "Prepend", "prepend": 1}, "can't be read"),
        ({"type": "Replace", "pattern": "a", "content": "b"}, "none that is compiled"),
        ({"type": "Replace", "pattern": {"String": "\ud800"}, "content": "b"}, "none that is compiled"),
        ([], "none that is compiled"),
    ],
)
def test_others_are_left_to_tokenizers(entry, reason):
    with pytest.raises(LookupError, match=reason):
        steps_of(entry)


def test_steps_are_checked_by_the_core():
    for steps, error in (
        ([("replace", "", "a")], ValueError),
        ([("replace", "a" * 65, "a")], ValueError),
        ([("replace", "a")], ValueError),
        ([("strip",)], ValueError),
        ([("guess", "a")], LookupError),
        ([()], ValueError),
    ):
        with pytest.raises(error):
            Normalizer(steps)
    with pytest.raises(UnicodeEncodeError):
        Normalizer([]).normalize("\ud800")


def test_a_prefix_may_depend_on_what_is_there():
    if_missing = Normalizer([("prepend", "▁", True, False)])
    assert [*map(if_missing.normalize, ["a", "▁a", "", "\u2580"])] == ["▁a", "▁a", "", "▁\u2580"]
