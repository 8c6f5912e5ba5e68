"""Presets and `tokenizers` objects as pre-tokenizers."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, normalizers
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, Metaspace, PreTokenizer, Sequence, Split, Whitespace

from hf_scaffold.errors import ConfigurationError, ScaffoldError
from hf_scaffold.text.pretokenizers import DEFAULT_PRESET, PRESETS, Pretokenizer, get_pretokenizer

TEXT = "It's 2024:  the naïve DON'T-care\r\n\n\tUser_name42!?"


def test_the_default_is_gpt2_with_single_digits():
    assert DEFAULT_PRESET == "gpt2-digits"
    assert set(PRESETS) == {"gpt2", "gpt2-digits", "llama3", "gpt4o"}
    assert get_pretokenizer().preset == "gpt2-digits"


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
    pretokens = get_pretokenizer(preset).pretokenize(TEXT)
    assert [pretoken.decode() for pretoken in pretokens] == expected.split("|")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_survives_json_pickle_and_copying(preset):
    pretokenizer = get_pretokenizer(preset)
    assert list(json.loads(pretokenizer.to_json())) == ["normalizer", "pre_tokenizer"]
    for twin in (
        Pretokenizer.from_json(pretokenizer.to_json()),
        Pretokenizer.from_json(json.dumps(json.loads(pretokenizer.to_json()), indent=2)),
        pickle.loads(pickle.dumps(pretokenizer)),
        copy.deepcopy(pretokenizer),
        get_pretokenizer(pretokenizer),
        get_pretokenizer(pretokenizer.pre_tokenizer),
    ):
        assert twin == pretokenizer
        assert hash(twin) == hash(pretokenizer)
        assert twin.preset == preset
        assert twin.to_json() == pretokenizer.to_json()
    assert preset in repr(pretokenizer)


def test_presets_differ():
    assert len({get_pretokenizer(preset) for preset in PRESETS}) == len(PRESETS)
    assert get_pretokenizer("gpt2") != "gpt2"


def test_objects_equal_to_a_preset_are_that_preset():
    assert get_pretokenizer(ByteLevel(add_prefix_space=False)).preset == "gpt2"
    digits = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    assert get_pretokenizer(digits).preset == "gpt2-digits"
    assert get_pretokenizer(ByteLevel(add_prefix_space=True)).preset is None


def test_a_normalizer_makes_it_no_preset():
    pretokenizer = get_pretokenizer("gpt2", normalizer=normalizers.Lowercase())
    assert pretokenizer.preset is None
    assert pretokenizer != get_pretokenizer("gpt2")
    assert pretokenizer.pretokenize("It's ÉTÉ") == [b"it", b"'s", " été".encode()]
    assert Pretokenizer.from_json(pretokenizer.to_json()) == pretokenizer
    assert pickle.loads(pickle.dumps(pretokenizer)).pretokenize("AB") == [b"ab"]


def test_a_tokenizer_brings_its_normalizer():
    tokenizer = Tokenizer(BPE())
    assert get_pretokenizer(tokenizer).pretokenize("a b") == [b"a b"]
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    assert get_pretokenizer(tokenizer) == get_pretokenizer("gpt2", normalizers.Lowercase())
    assert get_pretokenizer(tokenizer, normalizers.NFC()) == get_pretokenizer("gpt2", normalizers.NFC())


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
    pretokenizer = get_pretokenizer(given_object)
    assert pretokenizer.preset is None
    assert pretokenizer.to_json().count('"ByteLevel"') == 1
    assert [pretoken.decode() for pretoken in pretokenizer.pretokenize(text)] == expected
    assert get_pretokenizer(pretokenizer) == pretokenizer


def test_byte_level_as_a_normalizer_is_not_repeated():
    pretokenizer = get_pretokenizer(Split("Ġ", "merged_with_next"), normalizers.ByteLevel())
    assert pretokenizer.to_json().count('"ByteLevel"') == 1
    assert pretokenizer.pretokenize("é à") == ["é".encode(), " à".encode()]


def test_every_byte_comes_back():
    every_lead_and_continuation = "".join(map(chr, [*range(0x800), *range(0x800, 0x110000, 0x3F1)]))
    text = every_lead_and_continuation.encode("utf-8", "ignore")
    assert len(set(text)) == 256 - 13  # C0, C1 and F5 to FF are in no UTF-8
    assert b"".join(get_pretokenizer("gpt2").pretokenize(text.decode())) == text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_pretokens_of_presets_tile_the_text(text):
    for preset in PRESETS:
        pretokens = get_pretokenizer(preset).pretokenize(text)
        assert b"".join(pretokens) == text.encode()
        assert b"" not in pretokens


def test_later_changes_of_the_given_object_have_no_effect():
    byte_level = ByteLevel(add_prefix_space=False)
    pretokenizer = get_pretokenizer(byte_level)
    byte_level.add_prefix_space = True
    assert pretokenizer.pretokenize("a") == [b"a"]
    assert pretokenizer.preset == "gpt2"


def test_unknown_presets_are_answered_with_the_known():
    with pytest.raises(
        ConfigurationError, match=r"unknown pre-tokenizer 'gpt3'.*gpt2-digits, gpt2, llama3, gpt4o"
    ):
        get_pretokenizer("gpt3")


class PythonPreTokenizer:
    def pre_tokenize(self, pretok):
        """Splits nothing."""


@pytest.mark.parametrize("nest", [False, True])
def test_objects_written_in_python_are_refused(nest):
    custom = PreTokenizer.custom(PythonPreTokenizer())
    with pytest.raises(ConfigurationError, match="Custom PreTokenizer"):
        get_pretokenizer(Sequence([custom, ByteLevel()]) if nest else custom)


@pytest.mark.parametrize("wrong", [3, b"gpt2", ["gpt2"]])
def test_other_types_are_refused(wrong):
    with pytest.raises(TypeError, match=type(wrong).__name__):
        get_pretokenizer(wrong)


def test_a_normalizer_of_another_type_is_refused():
    with pytest.raises(TypeError, match="ByteLevel"):
        get_pretokenizer("gpt2", normalizer=ByteLevel())


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
        Pretokenizer.from_json(text)


def test_characters_that_stand_for_no_byte_are_refused():
    with pytest.raises(ScaffoldError, match=r"'▁'.*ByteLevel last"):
        get_pretokenizer(Sequence([ByteLevel(), Metaspace()])).pretokenize("a b")
