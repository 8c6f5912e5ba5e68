"""Training settings: one object, whose arguments every function that trains takes by keyword, too."""

import inspect
from dataclasses import FrozenInstanceError, fields, replace

import pytest

import hf_scaffold as hs
from hf_scaffold.training.settings import DEFAULT_VOCAB_SIZE, TrainingOptions

FIELDS = [field.name for field in fields(hs.TrainingSettings)]
TEXTS = ["Arizona zone banana hugs pugs buns"] * 9


@pytest.fixture(scope="module")
def counts():
    return hs.count(TEXTS)


def test_the_typed_keywords_are_the_fields():
    types = {field.name: field.type for field in fields(hs.TrainingSettings)}
    typed = {name: hint.__forward_arg__ for name, hint in TrainingOptions.__annotations__.items()}
    assert {"vocab_size": "int", **typed} == types


@pytest.mark.parametrize("function", [hs.train, hs.train_sizes, hs.train_tokenizer, hs.train_tokenizer_sizes])
def test_signatures_show_every_setting_with_its_default(function):
    shown, defaults = (
        inspect.signature(function).parameters,
        inspect.signature(hs.TrainingSettings).parameters,
    )
    names = [name for name in FIELDS if name != "vocab_size" or "vocab_sizes" not in shown]
    assert {name: shown[name].default for name in names} == {name: defaults[name].default for name in names}
    assert shown["settings"].default is None


def test_settings_are_what_keywords_are(counts):
    options = {"min_frequency": 2, "special_tokens": ["<a>"], "max_token_length": 4, "log": True}
    by_keyword = hs.train(counts, 262, **options)
    made = hs.train(counts, settings=hs.TrainingSettings(262, **options))
    assert (made, made.log, made.training) == (by_keyword, by_keyword.log, by_keyword.training)
    assert made.training["settings"] == {
        "vocab_size": 262,
        "min_frequency": 2,
        "limit_alphabet": None,
        "max_token_length": 4,
        "scaffold": True,
    }


def test_keywords_replace_what_settings_say(counts):
    settings = hs.TrainingSettings(264, scaffold=False)
    assert hs.train(counts, 260, settings=settings) == hs.train(counts, 260, scaffold=False)
    assert hs.train(counts, settings=settings, scaffold=True) == hs.train(counts, 264)
    assert hs.train_sizes(counts, [260], settings=settings) == [hs.train(counts, 260, scaffold=False)]
    assert hs.train(counts, 260, settings=None) == hs.train(counts, 260)


def test_tokenizers_take_settings():
    settings = hs.TrainingSettings(264, special_tokens=["<a>"], min_frequency=2)
    made = hs.train_tokenizer(TEXTS, settings=settings, eos_token="<b>")
    expected = hs.train_tokenizer(TEXTS, 264, special_tokens=["<a>"], min_frequency=2, eos_token="<b>")
    assert made.backend_tokenizer.to_str() == expected.backend_tokenizer.to_str()
    assert made.scaffold == expected.scaffold
    [small] = hs.train_tokenizer_sizes(TEXTS, [262], settings=settings)
    assert len(small) == 262
    assert small.convert_tokens_to_ids("<a>") == 0


def test_the_unknown_token_of_settings_is_the_tokenizer_s():
    settings = hs.TrainingSettings(40, unk_token="<unk>")
    with pytest.warns(UserWarning, match="24 tokens instead of 40"):
        made = hs.train_tokenizer(TEXTS, settings=settings, alphabet="chars")
    assert (made.unk_token, made.tokenize("?")) == ("<unk>", ["▁", "<unk>"])
    with pytest.raises(hs.ConfigurationError, match="unk_token come from like"):
        hs.train_tokenizer(TEXTS, settings=settings, like=made)


@pytest.mark.parametrize("given", [{"vocab_size": 300}, 300, "settings"])
def test_what_are_no_settings(counts, given):
    for call in (
        lambda: hs.train(counts, settings=given),
        lambda: hs.train_sizes(counts, [300], settings=given),
        lambda: hs.train_tokenizer(TEXTS, settings=given),
    ):
        with pytest.raises(TypeError, match="settings must be TrainingSettings, not"):
            call()


def test_settings_stay_as_they_are():
    specials = ["<a>"]
    settings = hs.TrainingSettings(special_tokens=specials)
    specials.append("<b>")
    assert settings == hs.TrainingSettings(DEFAULT_VOCAB_SIZE, special_tokens=("<a>",))
    with pytest.raises(FrozenInstanceError):
        settings.vocab_size = 5
    with pytest.raises(hs.ConfigurationError, match="min_frequency is -1"):
        replace(settings, min_frequency=-1)
