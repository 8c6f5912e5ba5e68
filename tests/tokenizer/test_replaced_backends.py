"""Libraries that put a backend of their own in place of ours. tests/programs has the real ones."""

import pytest
import toys
from transformers import PreTrainedTokenizerFast

from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast


class OtherBackend:
    """A backend that reads tokenizer.json alone."""

    def __init__(self, public):
        self.public = public

    def __getattr__(self, name):
        return getattr(self.public, name)


def patch_transformers(monkeypatch, module):
    """As fastokens does it: what `from_pretrained` returns gets another backend."""
    load = PreTrainedTokenizerFast.from_pretrained

    def from_pretrained(cls, *args, **kwargs):
        tokenizer = load.__func__(cls, *args, **kwargs)
        tokenizer._tokenizer = OtherBackend(tokenizer._tokenizer)
        return tokenizer

    from_pretrained.__module__ = module
    patched = classmethod(from_pretrained)
    monkeypatch.setattr(PreTrainedTokenizerFast, "from_pretrained", patched, raising=False)


@pytest.fixture
def folder(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    return tmp_path


def test_a_patch_that_is_known_is_passed_by(folder, monkeypatch):
    patch_transformers(monkeypatch, "fastokens")
    with pytest.warns(UserWarning, match=r"has no effect .* call fastokens.unpatch_transformers\(\) first"):
        tokenizer = ScaffoldTokenizerFast.from_pretrained(folder)
    assert type(PreTrainedTokenizerFast.from_pretrained(folder)._tokenizer) is OtherBackend
    text = "Arizona international"
    assert tokenizer.tokenize(text) == toys.tokenizer().tokenize(text)
    assert tokenizer.explain_path(text) == "native"


def test_any_other_is_named(folder, monkeypatch):
    patch_transformers(monkeypatch, "another_patch")
    with pytest.raises(TypeError, match=r"by a test_replaced_backends.OtherBackend, .* load the tokenizer"):
        ScaffoldTokenizerFast.from_pretrained(folder)("Arizona")


@pytest.mark.parametrize("native", [True, False])
def test_a_backend_put_in_place_later_is_named(native):
    tokenizer = toys.tokenizer()
    tokenizer.native = native
    tokenizer._tokenizer = OtherBackend(tokenizer._tokenizer)
    with pytest.raises(TypeError, match=r"no tokenizers\.Tokenizer and knows nothing of scaffold tokens"):
        tokenizer("Arizona")
