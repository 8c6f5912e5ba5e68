"""Chains of changes to tokenizers of published shapes: each keeps what it should, whatever came before it."""

import json

import numpy as np
import oracle
import pytest
import shapes
from chains import CHAINS, is_reserved, names
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs

MESSAGES = [{"role": "user", "content": "Guten Tag"}, {"role": "assistant", "content": "Grüß Gott"}]


def merges_of(tokenizer):
    if isinstance(tokenizer, hs.ScaffoldTokenizerFast):
        return [tuple(pair) for pair in tokenizer.scaffold["merges"]]
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    return [tuple(pair) for pair in model["merges"]]


def exact_tokens(tokenizer, text):
    """What the slow reference makes of a text without added tokens."""
    backend = tokenizer.backend_tokenizer
    if backend.normalizer is not None:
        text = backend.normalizer.normalize_str(text)
    pretokens = [text]
    if backend.pre_tokenizer is not None:
        pretokens = [pretoken for pretoken, _ in backend.pre_tokenizer.pre_tokenize_str(text)]
    known, has_bytes = {*tokenizer.get_vocab()}, backend.model.byte_fallback
    merges, scaffolds = merges_of(tokenizer), {*tokenizer.scaffold["demolish"]}
    return [
        token
        for pretoken in pretokens
        for token in oracle.encode(
            oracle.known_symbols(pretoken, known, byte_fallback=has_bytes), scaffolds, merges
        )
    ]


def check(before, after, remap, folder):
    """All that a step must keep, of a tokenizer saved and loaded again."""
    after.save_pretrained(folder)
    loaded = AutoTokenizer.from_pretrained(folder)
    assert loaded.get_vocab() == after.get_vocab()
    assert loaded.scaffold == after.scaffold
    assert loaded.explain_path("a") == "native"
    assert merges_of(loaded)[: len(merges_of(before))] == merges_of(before)
    old, new = before.get_vocab(), after.get_vocab()
    for token, token_id in old.items():
        if not (is_reserved(token) and remap[token_id] < 0):
            assert new.get(token, -1) == remap[token_id], token
    texts = [*shapes.LANGUAGES.values(), *shapes.text()[-2000:].splitlines()]
    rows, pairs = (loaded(*given)["input_ids"] for given in ([texts], [texts, texts]))
    loaded.native = False
    assert rows == loaded(texts)["input_ids"] == after(texts)["input_ids"]
    assert pairs == loaded(texts, texts)["input_ids"] == after(texts, texts)["input_ids"]
    for text in (shapes.LANGUAGES[name] for name in ("de", "ja", "other")):
        assert loaded.tokenize(text) == exact_tokens(loaded, text)
    reserved = {token_id for token, token_id in new.items() if is_reserved(token)}
    for row, was in zip(rows, before(texts)["input_ids"], strict=True):
        assert loaded.decode(row) == before.decode(was)
        assert loaded.decode(row, skip_special_tokens=True) == before.decode(was, skip_special_tokens=True)
        assert not reserved & {*row}
    check_special_tokens(before, loaded, remap)


def check_special_tokens(before, after, remap):
    flags = {token.content: token for token in after.added_tokens_decoder.values()}
    for token_id, token in before.added_tokens_decoder.items():
        assert flags[token.content] == token
        assert after.convert_tokens_to_ids(token.content) == remap[token_id]
        text = f"so {token.content} so"
        kept = [i for i in after(text)["input_ids"] if i in after.added_tokens_decoder]
        assert kept == [remap[i] for i in before(text)["input_ids"] if i in before.added_tokens_decoder]
    assert after.special_tokens_map == before.special_tokens_map
    assert after.model_max_length == before.model_max_length
    for made, was in (
        (after("a", "b"), before("a", "b")),
        (after.apply_chat_template(MESSAGES), before.apply_chat_template(MESSAGES)),
    ):
        old, new = (
            [i for i in row["input_ids"] if i in tokenizer.added_tokens_decoder]
            for row, tokenizer in ((was, before), (made, after))
        )
        assert new == [remap[i] for i in old]
    assert after.num_special_tokens_to_add() == before.num_special_tokens_to_add()


@pytest.mark.parametrize("chain", CHAINS, ids=names)
@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_each_step_of_a_chain_keeps_what_it_should(shape, chain, tmp_path):
    tokenizer = shapes.SHAPES[shape]()
    for number, step in enumerate(chain):
        after, remap = step(tokenizer)
        check(tokenizer, after, remap, tmp_path / str(number))
        tokenizer = after


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_an_audit_finds_what_a_conversion_takes_out(shape):
    tokenizer = shapes.SHAPES[shape]()
    audit = hs.audit_tokenizer(tokenizer, shapes.text().splitlines())
    assert audit.scaffolds
    conversion = hs.convert_tokenizer(tokenizer, shapes.text().splitlines())
    assert conversion.audit == audit
    assert np.flatnonzero(conversion.remap < 0).tolist() == [token.id for token in audit.scaffolds]
    with pytest.raises(hs.ConfigurationError, match="is a Scaffold-BPE already"):
        hs.audit_tokenizer(conversion.tokenizer, shapes.text().splitlines())


@pytest.mark.parametrize("kind", ["WordPiece", "Unigram"])
def test_other_models_are_refused_by_name(kind, tmp_path):
    model = {
        "WordPiece": models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"),
        "Unigram": models.Unigram([("<unk>", 0.0), ("a", -1.0)], unk_id=0),
    }[kind]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(model))
    tokenizer.save_pretrained(tmp_path)
    for given in (tokenizer, tokenizer.backend_tokenizer, tmp_path):
        for refuses in (
            lambda given: hs.extend(given, ["a"], 9),
            lambda given: hs.prune(given, ["a"], 1),
            lambda given: hs.convert_tokenizer(given, ["a"]),
            lambda given: hs.audit_tokenizer(given, ["a"]),
        ):
            with pytest.raises(hs.ConfigurationError, match=f"is {kind}; only BPE has merges"):
                refuses(given)
