"""BPE-dropout: chances as in `tokenizers`, repeated by a seed, and never a scaffold token out."""

import pickle
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracle
import pytest
import toys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast, set_seed

from hf_scaffold import tokenization_scaffold
from hf_scaffold.engine.dropout import stream
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

fuzz = settings(max_examples=50, suppress_health_check=list(HealthCheck))
texts = st.lists(st.sampled_from([*toys.WORDS, " ", "  ", "7", "\n"]) | st.text(max_size=3), max_size=8).map(
    "".join
)
TEXT = "international nationality Arizona banana 日本語 naïve étéz "


def dropped_tokens(result, text, p, seed):
    """The oracle's tokens for a text without added tokens."""
    return dropped_stretch(result, text, p, stream(seed, text))


def dropped_stretch(result, stretch, p, number, at=0):
    """The oracle's tokens for text between added tokens, `at` bytes from where chances are counted."""
    tokens = []
    for pre_token in toys.split(stretch):
        drops = oracle.dice(p, number, at)
        for token in oracle.scaffolding_with_dropout(pre_token, result.merges, drops):
            tokens += oracle.demolish(token, result.scaffolds, result.merges)
        at += len(pre_token)
    return tokens


# ---- what it is


@fuzz
@given(texts, st.sampled_from(toys.SIZES), st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), st.integers())
def test_tokens_are_the_oracles(text, size, p, seed):
    result = toys.trained(size)
    tokenizer = toys.tokenizer(result)
    tokens = dropped_tokens(result, text, p, seed)
    ids = tokenizer(text, dropout=p, seed=seed)["input_ids"]
    assert ids == tokenizer.convert_tokens_to_ids(tokens)
    assert tokenizer.tokenize(text, dropout=p, seed=seed) == tokens
    assert tokenizer.decode(ids) == text


@fuzz
@given(
    st.lists(texts | st.sampled_from(["[w]", "<|eos|>"]), max_size=6),
    st.sampled_from([0.1, 0.5]),
    st.integers(),
)
def test_places_are_counted_from_the_start_of_the_text_over_added_tokens(parts, p, seed):
    result, text = toys.trained(), "".join(parts)
    tokenizer = toys.tokenizer(result)
    tokenizer.add_tokens(["[w]"])
    tokens, at = [], 0
    for stretch in re.split(r"(\[w\]|<\|eos\|>)", text):
        is_added = stretch in ("[w]", "<|eos|>")
        tokens += [stretch] if is_added else dropped_stretch(result, stretch, p, stream(seed, text), at)
        at += len(stretch.encode())
    assert tokenizer.tokenize(text, dropout=p, seed=seed) == tokens
    many = [text, TEXT * 20_000 + text]  # the second is cut into parts
    assert tokenizer(many, dropout=p, seed=seed)["input_ids"][0] == tokenizer.convert_tokens_to_ids(tokens)


def test_between_added_tokens_that_only_the_backend_finds_each_stretch_has_its_own_chances():
    """From the text's number and the character where the stretch begins, so that like stretches differ."""
    result, stretch = toys.trained(), "é nationality international Arizona "
    tokenizer = toys.tokenizer(result)
    tokenizer.add_tokens([AddedToken("[w]", single_word=True)])
    text = f"{stretch}é[w] [w] {stretch}[w] {stretch}"  # beside é there is no telling for the native encoder
    pieces = re.split(r"(?<!é)(\[w\])(?!é)", text)
    assert pieces[1::2] == ["[w]", "[w]"]
    tokens, at = [], 0
    for piece in pieces:
        number = (stream(7, text) + at) % 2**64
        tokens += ["[w]"] if piece == "[w]" else dropped_stretch(result, piece, 0.4, number)
        at += len(piece)
    assert tokenizer.tokenize(text, dropout=0.4, seed=7) == tokens


def test_a_long_pretoken_is_dropped_as_a_short_one():
    result, word = toys.trained(), "internationality" * 50
    tokens = dropped_tokens(result, word, 0.3, 7)
    assert toys.tokenizer(result).tokenize(word, dropout=0.3, seed=7) == tokens


def test_at_1_nothing_is_merged_and_at_0_everything(native):
    tokenizer = toys.tokenizer(native=native)
    symbols = [symbol for pre_token in toys.split(TEXT) for symbol in pre_token]
    assert tokenizer.tokenize(TEXT, dropout=1.0) == symbols
    assert tokenizer.tokenize(TEXT, dropout=0) == toys.exact_tokens(toys.trained(), TEXT)


@pytest.mark.parametrize("seed", range(5))
def test_what_shows_exactly_p_is_not_dropped(seed):
    """The dice show 0, 1, … 2**24 - 1, each as likely, times 2**-24; what is less than p is dropped."""
    result = toys.trained()
    shown, above = 0.0, 1.0
    while above - shown > 2**-24:
        middle = (shown + above) / 2
        drops = oracle.dice(middle, stream(seed, "ab"), 0)()
        shown, above = (shown, middle) if drops else (middle, above)
    tokenizer = toys.tokenizer(result)
    assert tokenizer.tokenize("ab", dropout=shown, seed=seed) == ["ab"]
    assert tokenizer.tokenize("ab", dropout=above, seed=seed) == ["a", "b"]


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_no_scaffold_comes_out(native, p):
    tokenizer = toys.tokenizer(native=native)
    tokenizer.add_tokens(["zona"])
    tokenizer.dropout = p
    seen = Counter()
    for _ in range(100):
        encoded = tokenizer(TEXT)
        assert max(encoded["input_ids"]) < len(tokenizer)
        assert tokenizer.decode(encoded["input_ids"]) == TEXT
        seen.update(encoded.tokens())
    assert not seen.keys() & (toys.trained().scaffolds - {"zona"})


def frequencies(encode, word, n):
    return {tokens: count / n for tokens, count in Counter(map(tuple, encode([word] * n))).items()}


@pytest.mark.parametrize("word", ["nationality", "Arizona", "ababab"])
@pytest.mark.parametrize("p", [0.1, 0.4])
def test_chances_are_those_of_tokenizers(word, p):
    result, n = toys.trained(scaffold=False), 20_000
    ours = toys.tokenizer(result)
    vocab = {token: i for i, token in enumerate(result.vocab)}
    backend = Tokenizer(models.BPE(vocab, result.merges, dropout=p))
    set_seed(1)
    found = frequencies(lambda batch: ours(batch, dropout=p)["input_ids"], word, n)
    expected = frequencies(lambda batch: [e.ids for e in backend.encode_batch(batch)], word, n)
    # Six standard deviations of the difference.
    for tokens in found.keys() | expected.keys():
        one, other = found.get(tokens, 0), expected.get(tokens, 0)
        share = (one + other) / 2
        assert abs(one - other) <= 6 * (2 * share * (1 - share) / n) ** 0.5 + 1e-9, tokens
    assert len(found) > 10


def test_the_backends_chances_are_the_same_with_scaffolds():
    ours, n = toys.tokenizer(), 20_000
    set_seed(2)
    found = frequencies(lambda batch: ours(batch, dropout=0.3)["input_ids"], "nationality", n)
    ours.native = False
    expected = frequencies(lambda batch: ours(batch, dropout=0.3)["input_ids"], "nationality", n)
    for tokens in found.keys() | expected.keys():
        one, other = found.get(tokens, 0), expected.get(tokens, 0)
        share = (one + other) / 2
        assert abs(one - other) <= 6 * (2 * share * (1 - share) / n) ** 0.5 + 1e-9, tokens


# ---- the property


def test_it_is_off_until_it_is_set():
    tokenizer = toys.tokenizer()
    assert tokenizer.dropout is None
    exact = tokenizer(TEXT)["input_ids"]
    tokenizer.dropout = 0.1
    assert tokenizer.dropout == 0.1
    assert {len(tokenizer(TEXT)["input_ids"]) for _ in range(20)} != {len(exact)}
    assert tokenizer(TEXT, dropout=0)["input_ids"] == exact
    for off in (0, 0.0, None):
        tokenizer.dropout = off
        assert not tokenizer.dropout
        assert tokenizer(TEXT)["input_ids"] == exact


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan"), float("inf")])
def test_what_is_no_probability_is_refused_in_stocks_words(p):
    tokenizer = toys.tokenizer()
    with pytest.raises(Exception, match="Dropout should be between 0 and 1, inclusive"):
        models.BPE(dropout=p)
    with pytest.raises(ValueError, match="Dropout should be between 0 and 1, inclusive"):
        tokenizer.dropout = p
    with pytest.raises(ValueError, match="Dropout should be between 0 and 1, inclusive"):
        tokenizer("a", dropout=p)
    assert tokenizer.dropout is None
    with pytest.raises(TypeError):
        tokenizer("a", dropout="much")


@pytest.mark.parametrize("load", [ScaffoldTokenizerFast, AutoTokenizer])
def test_it_is_saved_in_tokenizer_json(tmp_path, load):
    tokenizer = toys.tokenizer()
    tokenizer.dropout = 0.25
    tokenizer.save_pretrained(tmp_path)
    loaded = load.from_pretrained(tmp_path)
    assert loaded.dropout == 0.25
    assert PreTrainedTokenizerFast.from_pretrained(tmp_path).backend_tokenizer.model.dropout == 0.25
    assert loaded(TEXT, seed=3)["input_ids"] == tokenizer(TEXT, seed=3)["input_ids"]
    assert pickle.loads(pickle.dumps(tokenizer)).dropout == 0.25
    loaded.dropout = None
    loaded.save_pretrained(tmp_path)
    assert load.from_pretrained(tmp_path).dropout is None


def test_a_schedule_keeps_no_model_for_each_step():
    tokenizer = toys.tokenizer(native=False)
    for step in range(20):
        tokenizer(TEXT, dropout=step / 20)
    assert len(tokenizer.cache) < 5


# ---- seeds


def test_a_seed_repeats_a_text_in_any_batch():
    tokenizer = toys.tokenizer()
    batch = [f"{TEXT}{i}" for i in range(50)]
    rows = tokenizer(batch, dropout=0.2, seed=5)["input_ids"]
    assert tokenizer(batch[::-1], dropout=0.2, seed=5)["input_ids"] == rows[::-1]
    assert [tokenizer(text, dropout=0.2, seed=5)["input_ids"] for text in batch] == rows
    assert tokenizer(batch, dropout=0.2, seed=6)["input_ids"] != rows
    assert len({tuple(row[:9]) for row in rows}) > 9  # texts that begin alike have chances of their own
    tokenizer.dropout = 0.2
    assert tokenizer(batch, seed=5)["input_ids"] == rows
    ids, offsets = tokenizer.encode_batch_to_arrays(batch, seed=5)
    assert [part.tolist() for part in np.split(ids, offsets[1:-1])] == rows
    assert tokenizer.encode_to_arrow(batch, dropout=0.2, seed=5).to_pylist() == rows


def test_a_seed_repeats_a_text_on_any_number_of_threads(monkeypatch):
    tokenizer = toys.tokenizer()
    batch = [TEXT * 8000, *[f"{TEXT}{i}" for i in range(2000)]]  # the first one is cut into parts
    monkeypatch.setenv("RAYON_NUM_THREADS", "1")
    rows = tokenizer(batch, dropout=0.2, seed=5)["input_ids"]
    monkeypatch.setenv("RAYON_NUM_THREADS", "7")
    assert tokenizer(batch, dropout=0.2, seed=5)["input_ids"] == rows
    with ThreadPoolExecutor(8) as pool:
        calls = pool.map(lambda i: tokenizer(batch[i], dropout=0.2, seed=5)["input_ids"], range(300))
        assert list(calls) == rows[:300]


def test_a_pretoken_is_dropped_anew_wherever_it_stands():
    tokenizer = toys.tokenizer()
    tokens = tokenizer("nationality " * 40, dropout=0.3, seed=1).tokens()
    assert len({*" ".join(tokens).split("Ġ")}) > 5


def test_without_a_seed_pythons_random_decides():
    tokenizer = toys.tokenizer()
    tokenizer.dropout = 0.3
    set_seed(11)
    rows = [tokenizer([TEXT, TEXT])["input_ids"] for _ in range(3)]
    assert len({tuple(ids) for row in rows for ids in row}) == 6
    random.seed(11)
    assert [tokenizer([TEXT, TEXT])["input_ids"] for _ in range(3)] == rows


def test_a_seed_that_nothing_can_use_is_refused():
    tokenizer = toys.tokenizer(normalizer="not compiled")
    reason = "the normalizer's pattern looks behind"
    assert tokenizer.explain_path("a", dropout=0.5).startswith(f"general: {reason}; dropout is")
    assert tokenizer(TEXT, dropout=0.5)["input_ids"] != tokenizer(TEXT)["input_ids"]
    assert tokenizer(TEXT, seed=5)["input_ids"] == tokenizer(TEXT)["input_ids"]  # no dropout, no chance
    with pytest.raises(ValueError, match="takes a seed, and here it can't be used: the normalizer's pattern"):
        tokenizer(TEXT, dropout=0.5, seed=5)
    tokenizer = toys.tokenizer()
    assert tokenizer.explain_path("a", dropout=0.5, seed=5) == "native"
    tokenizer.native = False
    with pytest.raises(ValueError, match="here it can't be used: `native` is False"):
        tokenizer(TEXT, dropout=0.5, seed=5)


# ---- all that a call returns is of one draw


OPTIONS = [
    {},
    {"return_offsets_mapping": True},
    {"truncation": True, "max_length": 20, "padding": "max_length"},
    {"truncation": True, "max_length": 20, "stride": 3, "return_overflowing_tokens": True},
    {"padding": True, "pad_to_multiple_of": 8, "padding_side": "left"},
    {"return_tensors": "np", "padding": True},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("pair", [False, True])
def test_encodings_are_those_of_the_ids(native, options, pair):
    tokenizer = toys.tokenizer(post_processor="bos and eos", native=native)
    tokenizer.add_tokens([AddedToken("zona", lstrip=True, single_word=True)])
    tokenizer.dropout = 0.4
    batch = [f"{TEXT} zona, <|eos|>{TEXT}", "xzona hug"]
    encoded = tokenizer(batch, batch[::-1] if pair else None, **options)
    for row, encoding in enumerate(encoded.encodings):
        ids = np.asarray(encoded["input_ids"][row]).tolist()
        assert encoding.ids == encoded.encodings[row].ids == ids
        assert encoding.attention_mask == np.asarray(encoded["attention_mask"][row]).tolist()
        if "offset_mapping" in encoded:
            assert encoding.offsets == encoded["offset_mapping"][row]
        for token_id, token, (start, stop), sequence in zip(
            ids, encoding.tokens, encoding.offsets, encoding.sequence_ids, strict=True
        ):
            if sequence is not None and "stride" not in options:
                text = batch[row] if sequence == 0 else batch[1 - row]
                shown = tokenizer.decode([token_id])
                assert shown == text[start:stop].strip() or shown == text[start:stop] or "\ufffd" in shown
            assert token.strip() == tokenizer.convert_ids_to_tokens(token_id)


def without_native(**made):
    tokenizer = toys.tokenizer(toys.trained(326), native=False, **made)
    tokenizer.dropout = 0.3
    return tokenizer


@pytest.mark.parametrize("batch", [TEXT, [TEXT, "nati"], [(TEXT, "nati zona"), ("", TEXT)]])
def test_ids_of_the_backends_dropout_take_no_encodings(batch, monkeypatch):
    def refuse(*args):
        raise AssertionError("an Encoding is rebuilt")

    tokenizer = without_native(post_processor="bos and eos")
    with monkeypatch.context() as patched:
        patched.setattr(tokenization_scaffold, "replace_tokens", refuse)
        calls = [tokenizer(batch) for _ in range(20)]
    rows = [[encoded["input_ids"]] if isinstance(batch, str) else encoded["input_ids"] for encoded in calls]
    assert any(isinstance(e, tokenization_scaffold.LazyEncoding) for call in calls for e in call.encodings)
    for encoded, ids in zip(calls, rows, strict=True):
        assert [tokenizer.convert_tokens_to_ids(encoding.tokens) for encoding in encoded.encodings] == ids


@pytest.mark.parametrize("wrong", [[("a", 3)], ["a", None], [("a", "b", "c")], 3, [3]])
def test_what_is_no_text_is_refused_in_the_words_of_calls_without_dropout(wrong):
    tokenizer = without_native()
    messages = []
    for dropout in (0, 0.3):
        with pytest.raises((TypeError, ValueError)) as refused:
            tokenizer(wrong, dropout=dropout)
        messages.append((refused.type, str(refused.value)))
    assert messages[0] == messages[1]


def test_threads_that_ask_for_an_encoding_together_get_the_same():
    tokenizer = without_native()
    for _ in range(20):
        encoded = tokenizer(TEXT * 20)
        with ThreadPoolExecutor(4) as pool:
            tokens = list(pool.map(lambda i, encoded=encoded: encoded.encodings[0].tokens, range(4)))
        assert tokens == [tokenizer.convert_ids_to_tokens(encoded["input_ids"])] * 4


@fuzz
@given(texts, st.sampled_from(["none", "NFKD"]), st.booleans(), st.booleans())
def test_every_offset_is_that_of_the_tokens_symbols(text, normalizer, is_split, ids_first):
    """A draw leaves many tokens that begin or end inside a character, next to scaffold tokens."""
    tokenizer = without_native(normalizer=normalizer)
    text = text.split(" ") if is_split else text
    symbols = tokenizer(text, is_split_into_words=is_split, dropout=1).encodings[0]
    encoded = tokenizer(text, is_split_into_words=is_split, return_offsets_mapping=not ids_first)
    encoding, at = encoded.encodings[0], 0
    for token, offsets, word in zip(encoding.tokens, encoding.offsets, encoding.word_ids, strict=True):
        stop = at + len(token)
        assert offsets == (symbols.offsets[at][0], symbols.offsets[stop - 1][1])
        assert {word} == {*symbols.word_ids[at:stop]}
        at = stop
    assert at == len(symbols)


def test_split_characters_are_located_without_encoding_the_text_again(monkeypatch):
    monkeypatch.delattr(tokenization_scaffold, "Symbols")
    tokenizer = without_native()
    for _ in range(50):
        offsets = tokenizer("日本語naïve 本日étéz", return_offsets_mapping=True)["offset_mapping"]
        assert {at for start, stop in offsets for at in range(start, stop)} == {*range(15)}


@pytest.mark.parametrize("options", OPTIONS)
def test_a_seed_gives_the_same_ids_whatever_is_asked_for(options):
    tokenizer = toys.tokenizer()
    text = f"{TEXT} <|eos|>"
    ids = tokenizer(text, dropout=0.4, seed=9)["input_ids"]
    encoded = tokenizer([text], dropout=0.4, seed=9, **options)
    found = [i for i in np.asarray(encoded["input_ids"][0]).tolist() if i != tokenizer.pad_token_id]
    assert len(found) >= 20
    assert found == ids[: len(found)]


def test_words_may_be_given():
    tokenizer = toys.tokenizer()
    words = ["international", " ", "日本語", "Arizona"]
    encoded = tokenizer(words, is_split_into_words=True, dropout=0.5, seed=4)
    again = tokenizer([words, words[:2]], is_split_into_words=True, dropout=0.5, seed=4)
    assert again["input_ids"][0] == encoded["input_ids"]
    assert "".join(encoded.tokens()) == "".join(toys.exact_tokens(toys.trained(), "".join(words)))
    assert sorted({*encoded.word_ids()}) == [0, 1, 2, 3]


def test_added_tokens_beside_other_letters():
    """Only `tokenizers` knows whether such a token stands alone."""
    tokenizer = toys.tokenizer()
    tokenizer.add_tokens([AddedToken("zona", single_word=True, rstrip=True)])
    text = "étéz zona 日本zona naïve«zona»"
    exact = tokenizer.tokenize(text)
    encoded = tokenizer([text], dropout=0.4, seed=8)
    assert tokenizer.explain_path([text], dropout=0.4, seed=8) == "native"
    assert encoded.tokens().count("zona") + encoded.tokens().count("zona ") == sum("zona" in t for t in exact)
    assert tokenizer([text], dropout=0.4, seed=8)["input_ids"] == encoded["input_ids"]
    assert "".join(encoded.tokens()) == "".join(exact)
    with pytest.raises(ValueError, match="text holds a lone surrogate"):
        tokenizer("zona \ud800", dropout=0.4, seed=8)
