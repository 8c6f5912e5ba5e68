"""Presets and `tokenizers` objects as pre-tokenizers."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Metaspace, Sequence, Split, Whitespace

from hf_scaffold.errors import ConfigurationError, ScaffoldError
from hf_scaffold.text.pre_tokenizers import DEFAULT_PRESET, PRESETS, PreTokenizer, get_pre_tokenizer

TEXT = "It's 2024:  the naïve DON'T-care\r\n\n\tUser_name42!?"


def test_the_default_is_gpt2_with_single_digits():
    assert DEFAULT_PRESET == "gpt2-digits"
    assert set(PRESETS) == {"gpt2", "gpt2-digits", "llama3", "gpt4o"}
    assert get_pre_tokenizer().preset == "gpt2-digits"


# Worked out by hand from the patterns; "|" stands between pre-tokens.
@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("gpt2", "It|'s| 2024|:| | the| naïve| DON|'|T|-|care|\r\n\n|\t|User|_|name|42|!?"),
        ("gpt2-digits", "It|'s| |2|0|2|4|:| | the| naïve| DON|'|T|-|care|\r\n\n|\t|User|_|name|4|2|!?"),
        ("llama3", "It|'s| |202|4|:| | the| naïve| DON|'T|-care|\r\n\n|\tUser|_name|42|!?"),
        ("gpt4o", "It's| |202|4|:| | the| naïve| DON'T|-care|\r\n\n|\tUser|_name|42|!?"),
    ],
)
def test_presets_by_hand(preset, expected):
    pretokens = get_pre_tokenizer(preset).pre_tokenize(TEXT)
    assert [pretoken.decode() for pretoken in pretokens] == expected.split("|")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_survives_json_pickle_and_copying(preset):
    pre_tokenizer = get_pre_tokenizer(preset)
    assert list(json.loads(pre_tokenizer.to_json())) == ["normalizer", "pre_tokenizer"]
    for twin in (
        PreTokenizer.from_json(pre_tokenizer.to_json()),
        PreTokenizer.from_json(json.dumps(json.loads(pre_tokenizer.to_json()), indent=2)),
        pickle.loads(pickle.dumps(pre_tokenizer)),
        copy.deepcopy(pre_tokenizer),
        get_pre_tokenizer(pre_tokenizer),
        get_pre_tokenizer(pre_tokenizer.pre_tokenizer),
    ):
        assert twin == pre_tokenizer
        assert hash(twin) == hash(pre_tokenizer)
        assert twin.preset == preset
        assert twin.to_json() == pre_tokenizer.to_json()
    assert preset in repr(pre_tokenizer)


def test_presets_differ():
    assert len({get_pre_tokenizer(preset) for preset in PRESETS}) == len(PRESETS)
    assert get_pre_tokenizer("gpt2") != "gpt2"


def test_objects_equal_to_a_preset_are_that_preset():
    assert get_pre_tokenizer(ByteLevel(add_prefix_space=False)).preset == "gpt2"
    digits = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    assert get_pre_tokenizer(digits).preset == "gpt2-digits"
    assert get_pre_tokenizer(ByteLevel(add_prefix_space=True)).preset is None


def test_a_normalizer_makes_it_no_preset():
    pre_tokenizer = get_pre_tokenizer("gpt2", normalizer=normalizers.Lowercase())
    assert pre_tokenizer.preset is None
    assert pre_tokenizer != get_pre_tokenizer("gpt2")
    assert pre_tokenizer.pre_tokenize("It's ÉTÉ") == [b"it", b"'s", " été".encode()]
    assert PreTokenizer.from_json(pre_tokenizer.to_json()) == pre_tokenizer
    assert pickle.loads(pickle.dumps(pre_tokenizer)).pre_tokenize("AB") == [b"ab"]


def test_a_tokenizer_brings_its_normalizer():
    tokenizer = Tokenizer(BPE())
    assert get_pre_tokenizer(tokenizer).pre_tokenize("a b") == [b"a b"]
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    assert get_pre_tokenizer(tokenizer) == get_pre_tokenizer("gpt2", normalizers.Lowercase())
    assert get_pre_tokenizer(tokenizer, normalizers.NFC()) == get_pre_tokenizer("gpt2", normalizers.NFC())


@pytest.mark.parametrize(
    ("given_object", "text", "expected"),
    [
        (Whitespace(), "naïve, yes", ["naïve", ",", "yes"]),
        (Split(Regex(r"\s+"), "removed"), "a  ü", ["a", "ü"]),
        (Metaspace(), "a é", ["▁a", "▁é"]),
        (Sequence([Sequence([ByteLevel(add_prefix_space=False)]), Digits()]), "é 42", ["é", " ", "42"]),
    ],
)
def test_byte_level_is_there_exactly_once(given_object, text, expected):
    pre_tokenizer = get_pre_tokenizer(given_object)
    assert pre_tokenizer.preset is None
    assert pre_tokenizer.to_json().count('"ByteLevel"') == 1
    assert [pretoken.decode() for pretoken in pre_tokenizer.pre_tokenize(text)] == expected
    assert get_pre_tokenizer(pre_tokenizer) == pre_tokenizer


def test_byte_level_as_a_normalizer_is_not_repeated():
    pre_tokenizer = get_pre_tokenizer(Split("Ġ", "merged_with_next"), normalizers.ByteLevel())
    assert pre_tokenizer.to_json().count('"ByteLevel"') == 1
    assert pre_tokenizer.pre_tokenize("é à") == ["é".encode(), " à".encode()]


def test_every_byte_comes_back():
    every_lead_and_continuation = "".join(map(chr, [*range(0x800), *range(0x800, 0x110000, 0x3F1)]))
    text = every_lead_and_continuation.encode("utf-8", "ignore")
    assert len(set(text)) == 256 - 13  # C0, C1 and F5 to FF are in no UTF-8
    assert b"".join(get_pre_tokenizer("gpt2").pre_tokenize(text.decode())) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_pretokens_of_presets_tile_the_text(text):
    for preset in PRESETS:
        pretokens = get_pre_tokenizer(preset).pre_tokenize(text)
        assert b"".join(pretokens) == text.encode()
        assert b"" not in pretokens


def test_later_changes_of_the_given_object_have_no_effect():
    byte_level = ByteLevel(add_prefix_space=False)
    pre_tokenizer = get_pre_tokenizer(byte_level)
    byte_level.add_prefix_space = True
    assert pre_tokenizer.pre_tokenize("a") == [b"a"]
    assert pre_tokenizer.preset == "gpt2"


def test_unknown_presets_are_answered_with_the_known():
    with pytest.raises(
        ConfigurationError, match=r"unknown pre-tokenizer 'gpt3'.*gpt2-digits, gpt2, llama3, gpt4o"
    ):
        get_pre_tokenizer("gpt3")


class PythonPreTokenizer:
    def pre_tokenize(self, pretok):
        """Splits nothing."""


@pytest.mark.parametrize("nest", [False, True])
def test_objects_written_in_python_are_refused(nest):
    custom = pre_tokenizers.PreTokenizer.custom(PythonPreTokenizer())
    with pytest.raises(ConfigurationError, match="Custom PreTokenizer"):
        get_pre_tokenizer(Sequence([custom, ByteLevel()]) if nest else custom)


@pytest.mark.parametrize("wrong", [3, b"gpt2", ["gpt2"]])
def test_other_types_are_refused(wrong):
    with pytest.raises(TypeError, match=type(wrong).__name__):
        get_pre_tokenizer(wrong)


def test_a_normalizer_of_another_type_is_refused():
    with pytest.raises(TypeError, match="ByteLevel"):
        get_pre_tokenizer("gpt2", normalizer=ByteLevel())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "{}",
        '{"normalizer": null}',
        '{"normalizer": null, "pre_tokenizer": {"type": "No"}}',
    ],
)
def test_malformed_json_is_refused(text):
    with pytest.raises(ConfigurationError, match="not the JSON of a pre-tokenizer"):
        PreTokenizer.from_json(text)


def test_characters_that_stand_for_no_byte_are_refused():
    with pytest.raises(ScaffoldError, match=r"'▁'.*ByteLevel last"):
        get_pre_tokenizer(Sequence([ByteLevel(), Metaspace()])).pre_tokenize("a b")
