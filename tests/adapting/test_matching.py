"""Tokens of two tokenizers match if they stand for the same text, however they spell it."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.adapting.matching import Tokens, match_tokens, pieces_of
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE

BYTES = [*SYMBOL_TO_BYTE]
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def bpe(tokens, merges=(), **options):
    return models.BPE({token: i for i, token in enumerate(tokens)}, list(merges), **options)


def tokens_of(model, added=(), normalizer=None, pre_tokenizer=None, decoder=None, **roles):
    backend = Tokenizer(model)
    if normalizer is not None:
        backend.normalizer = normalizer
    if pre_tokenizer is not None:
        backend.pre_tokenizer = pre_tokenizer
    if decoder is not None:
        backend.decoder = decoder
    backend.add_tokens([AddedToken(token, normalized=False) for token in added])
    return Tokens.of(PreTrainedTokenizerFast(tokenizer_object=backend, **roles))


def byte_level(tokens, merges=(), added=(), **roles):
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokens_of(
        bpe([*BYTES, *tokens], merges), added, None, level, decoder=decoders.ByteLevel(), **roles
    )


def llama(tokens, merges=(), added=(), **roles):
    """As Llama 2: a space before the first word, unknown characters as bytes."""
    return tokens_of(
        bpe([*BYTE_TOKENS, *tokens], merges, byte_fallback=True),
        added,
        normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
        decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]),
        **roles,
    )


def names(tokens, ids):
    return [tokens.tokenizer.convert_ids_to_tokens(int(i)) for i in ids]


def matched(old, new):
    """Old token to new token."""
    remap = match_tokens(old, new)
    return {
        token: names(new, [remap[old_id]])[0] for token, old_id in old.vocab.items() if remap[old_id] >= 0
    }


def test_tokens_of_one_alphabet_match_by_their_strings():
    old = byte_level(["Ġa", "ab", "Ã©"], added=["<eos>", "<gone>"])
    new = byte_level(["ab", "Ġa", "Ġb"], added=["<new>", "<eos>"])
    assert matched(old, new) == {token: token for token in [*BYTES, "Ġa", "ab", "<eos>"]}


def test_tokens_of_two_alphabets_match_by_their_bytes():
    old = llama(["▁", "a", "▁a", "é", "▁é"], added=["<eos>"])
    new = byte_level(["Ġa", "Ã©", "ĠÃ©", "b."], added=["<eos>"])
    found = matched(old, new)
    assert (found["▁a"], found["é"], found["▁é"], found["<eos>"]) == ("Ġa", "Ã©", "ĠÃ©", "<eos>")
    assert (found["▁"], found["a"], found["<0x0A>"], found["<0xC3>"]) == ("Ġ", "a", "Ċ", "Ã")
    assert {"<0x61>", "<0x20>"}.isdisjoint(found)  # the characters themselves are tokens
    back = matched(new, old)
    assert back == {token: before for before, token in found.items()}


def test_added_tokens_match_added_ones_first():
    old = byte_level(["Ġx"], added=[" x", "<tool>"])
    new = byte_level(["Ġx", "<tool>"], added=[" x"])
    assert matched(old, new) == {token: token for token in [*BYTES, "Ġx", " x", "<tool>"]}
    assert matched(byte_level([], added=[" x"]), byte_level(["Ġx"]))[" x"] == "Ġx"


def pieces(old, new):
    """New token to the old tokens that it is made of."""
    taken = {*match_tokens(old, new).tolist()}
    fresh = [i for i in sorted(new.vocab.values()) if i not in taken]
    return {names(new, [i])[0]: names(old, found) for i, found in pieces_of(old, new, fresh).items()}


def test_pieces_are_what_the_old_tokenizer_makes_of_the_text():
    old = byte_level(["Ġa", "Ġab"], [("Ġ", "a"), ("Ġa", "b")], added=["<eos>"])
    new = byte_level(["Ġabba", "ba", "Ġa"], added=["<|ab|>"])
    assert pieces(old, new) == {
        "Ġabba": ["Ġab", "b", "a"],
        "ba": ["b", "a"],
        "<|ab|>": ["<", "|", "a", "b", "|", ">"],
    }


def test_no_space_is_put_before_pieces():
    old = llama(["▁", "a", "b", "ab", "▁ab"], [("a", "b"), ("▁", "ab")])
    found = pieces(old, byte_level(["Ġabb", "abb", "aÃ©"]))
    assert (found["Ġabb"], found["abb"], found["aÃ©"]) == (
        ["▁ab", "b"],
        ["ab", "b"],
        ["a", "<0xC3>", "<0xA9>"],
    )
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="first")
    old = tokens_of(bpe("▁ab"), pre_tokenizer=metaspace, decoder=decoders.Metaspace())
    new = tokens_of(bpe(["▁ab", "ab"]), pre_tokenizer=metaspace, decoder=decoders.Metaspace())
    assert pieces(old, new) == {"▁ab": ["▁", "a", "b"], "ab": ["a", "b"]}


def test_pieces_of_characters_cut_in_two_are_bytes():
    old, new = byte_level(["Ã©"], [("Ã", "©")]), byte_level(["Ã©Ã", "©Ã©a"])
    assert pieces(old, new) == {"Ã©Ã": ["Ã©", "Ã"], "©Ã©a": ["©", "Ã©", "a"]}
    assert pieces(llama(["a", "é"]), new)["©Ã©a"] == ["<0xA9>", "é", "a"]
    assert pieces(tokens_of(bpe("aé")), new)["©Ã©a"] == ["é", "a"]


def test_what_the_old_tokenizer_does_not_know_has_no_pieces():
    old = tokens_of(bpe(["a", "<unk>"], unk_token="<unk>"), unk_token="<unk>")
    assert pieces(old, tokens_of(bpe(["aa", "b", "ab"]))) == {"aa": ["a", "a"], "b": [], "ab": ["a"]}


def test_marks_of_the_model_are_no_text():
    old = tokens_of(bpe("ab"))
    wordpiece = models.WordPiece({"[UNK]": 0, "##ab": 1, "ab": 2}, unk_token="[UNK]")
    assert pieces(old, tokens_of(wordpiece))["##ab"] == ["a", "b"]
    assert pieces(old, tokens_of(bpe(["ab</w>"], end_of_word_suffix="</w>"))) == {"ab</w>": ["a", "b"]}


def test_tokens_take_over_roles():
    old = byte_level([], added=["</s>", "<pad>"], eos_token="</s>", pad_token="<pad>")
    new = byte_level([], added=["<|end|>", "<pad>", "<x>"], eos_token="<|end|>", pad_token="<x>")
    assert pieces(old, new) == {"<|end|>": ["</s>"], "<x>": ["<pad>"]}


@pytest.mark.parametrize("scaffold", [True, False])
def test_demolished_tokens_have_the_pieces_of_a_call(scaffold, english_text):
    old = hs.train_tokenizer([english_text], 600)
    plain = hs.train_tokenizer([english_text], 700, scaffold=scaffold)
    found = pieces(Tokens.of(old), Tokens.of(plain))
    assert len(found) > 90
    for token, parts in found.items():
        text = plain.convert_tokens_to_string([token])
        assert "\ufffd" in text or parts == old.tokenize(text), token
    assert scaffold or old.scaffold["demolish"].keys() & found.keys()
