"""ScaffoldTokenizerFast against the oracle, and call by call against stock PreTrainedTokenizerFast."""

import copy
import errno
import json
import multiprocessing
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import oracle
import pytest
import toys
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Encoding, Tokenizer, models
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from hf_scaffold import tokenization_scaffold
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

fuzz = settings(suppress_health_check=list(HealthCheck))

WORDS = list(toys.WORDS)
ODD = [" ", "  ", "\n", "\t", "7", "42", "zon", "É", "e\u0301", "ﬁ", "ŉ", "\u3000", "zz"]
plain_texts = st.lists(st.sampled_from(WORDS + ODD) | st.text(max_size=3), max_size=8).map("".join)
texts = st.lists(plain_texts | st.sampled_from(["<|eos|>", "<|pad|>"]), max_size=4).map("".join)
made_tokenizers = st.fixed_dictionaries(
    {
        "post_processor": st.sampled_from(list(toys.POST_PROCESSORS)),
        "normalizer": st.sampled_from(list(toys.NORMALIZERS)),
        "pre_tokenizer": st.sampled_from(list(toys.PRE_TOKENIZERS)),
    },
    optional={
        "truncation_side": st.just("left"),
        "padding_side": st.just("left"),
        "model_max_length": st.sampled_from([7, 20]),
        "model_input_names": st.just(["input_ids", "token_type_ids", "attention_mask"]),
    },
)


# ---- against the oracle


@pytest.mark.parametrize("native", [True, False])
@fuzz
@given(plain_texts, st.sampled_from(toys.SIZES))
def test_tokens_are_the_oracles(native, text, size):
    result = toys.trained(size)
    tokenizer = toys.tokenizer(result)
    tokenizer.native = native
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == toys.exact_tokens(result, text)
    assert ids == tokenizer.encode(text) == tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
    assert all(token_id < len(tokenizer) for token_id in ids)


@fuzz
@given(texts | st.text())
def test_decoding_gives_the_text_back(text):
    tokenizer = toys.tokenizer(clean_up_tokenization_spaces=True)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert tokenizer.batch_decode([ids, ids]) == [text, text]


@fuzz
@given(
    plain_texts,
    st.sampled_from(toys.SIZES),
    st.sampled_from(list(toys.NORMALIZERS)),
    st.sampled_from(list(toys.PRE_TOKENIZERS)),
    st.booleans(),
)
@example("xbana", 282, "same text", "digits", False)
def test_every_offset_is_that_of_the_tokens_symbols(text, size, normalizer, pre_tokenizer, is_split):
    result = toys.trained(size)
    text = text.split(" ") if is_split else text
    made = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    encoding = toys.tokenizer(result, **made)(
        text, is_split_into_words=is_split, return_offsets_mapping=True
    ).encodings[0]
    by_symbol = toys.tokenizer(result, PreTrainedTokenizerFast, **made)
    vocab = by_symbol.backend_tokenizer.get_vocab(with_added_tokens=False)
    by_symbol.backend_tokenizer.model = models.BPE(vocab, [])
    symbols = by_symbol(text, is_split_into_words=is_split).encodings[0]
    assert "".join(encoding.tokens) == "".join(symbols.tokens)
    at = 0
    for token, offsets, word in zip(encoding.tokens, encoding.offsets, encoding.word_ids, strict=True):
        stop = at + len(token)
        assert offsets == (symbols.offsets[at][0], symbols.offsets[stop - 1][1])
        assert {word} == set(symbols.word_ids[at:stop])
        at = stop


def test_offsets_of_demolished_tokens_slice_the_text_they_stand_for():
    result = toys.trained(326)
    assert {"nati", "æĹ¥æľ¬"} <= result.scaffolds
    text = "a nati 日本"
    encoded = toys.tokenizer(result)(text, return_offsets_mapping=True)
    slices = [text[start:stop] for start, stop in encoded["offset_mapping"]]
    assert slices == ["a", " ", "n", "a", "t", "i", " ", "日", "日", "日", "本", "本", "本"]
    assert encoded.char_to_token(8) == 10
    assert encoded.token_to_chars(5) == (5, 6)
    assert encoded.word_ids() == [0, *[1] * 5, *[2] * 7]


# ---- against stock


def describe(encoding):
    """All that an Encoding holds."""
    return {
        "ids": encoding.ids,
        "type_ids": encoding.type_ids,
        "tokens": encoding.tokens,
        "word_ids": encoding.word_ids,
        "sequence_ids": encoding.sequence_ids,
        "offsets": encoding.offsets,
        "special_tokens_mask": encoding.special_tokens_mask,
        "attention_mask": encoding.attention_mask,
        "n_sequences": encoding.n_sequences,
        "overflowing": [describe(part) for part in encoding.overflowing],
    }


def plain(value):
    """Tensors and arrays, ragged ones too, as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def outcome(call):
    """What a call returns or raises, in a form that compares."""
    try:
        batch = call()
    except (ValueError, TypeError, IndexError, ImportError) as error:  # ImportError: tensors without torch
        return type(error), str(error)
    except BaseException as error:
        # The backend raises a bare Exception where nothing is left to truncate, and panics where the stride
        # does not fit into what is left.
        if "Truncation error" not in str(error) and "`stride` must be strictly less" not in str(error):
            raise
        return type(error), str(error)
    kinds = {name: type(value) for name, value in batch.items()}
    return plain(dict(batch)), kinds, [describe(encoding) for encoding in batch.encodings]


def batches(inputs):
    """Single inputs, pairs and batches of both, as (text, text_pair)."""
    several = st.lists(st.tuples(inputs, inputs), max_size=4)
    return st.one_of(
        st.tuples(inputs, st.none() | inputs),
        several.map(lambda pairs: ([first for first, _ in pairs], None)),
        several.map(lambda pairs: ([first for first, _ in pairs], [second for _, second in pairs])),
        several.map(lambda pairs: (pairs, None)),
    )


def calls(inputs):
    """((text, text_pair), options) of a tokenizer call."""
    options = {
        "add_special_tokens": st.booleans(),
        "padding": st.sampled_from([True, "max_length", "longest", False]),
        "truncation": st.sampled_from([True, False, "only_first", "only_second", "longest_first"]),
        "max_length": st.integers(8, 40),
        "stride": st.integers(0, 2),
        "pad_to_multiple_of": st.sampled_from([None, 4, 8]),
        "padding_side": st.sampled_from([None, "left", "right"]),
        "return_tensors": st.sampled_from([None, "np", "pt"]),
        "return_token_type_ids": st.booleans(),
        "return_attention_mask": st.booleans(),
        "return_overflowing_tokens": st.booleans(),
        "return_special_tokens_mask": st.booleans(),
        "return_offsets_mapping": st.booleans(),
        "return_length": st.booleans(),
        "split_special_tokens": st.booleans(),
    }
    call = st.tuples(batches(inputs), st.fixed_dictionaries({"verbose": st.just(False)}, optional=options))
    words = batches(st.lists(inputs, max_size=4))
    split = st.fixed_dictionaries({"is_split_into_words": st.just(True)}, optional=options)
    return call | st.tuples(words, split)


@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@fuzz
@given(made_tokenizers, calls(texts))
def test_without_scaffolds_every_call_is_stock(made, call):
    (text, text_pair), options = call
    result = toys.trained(scaffold=False)
    stock = toys.tokenizer(result, PreTrainedTokenizerFast, **made)
    ours = toys.tokenizer(result, **made)
    expected = outcome(lambda: stock(text, text_pair, **options))
    assert outcome(lambda: ours(text, text_pair, **options)) == expected


@cache
def agreeing_words(size):
    """Words in which scaffold tokens occur, and which plain BPE over V happens to encode exactly.

    On them a stock tokenizer must agree with ours in everything, offsets and overflow included.
    """
    result = toys.trained(size)
    public = toys.backend(result)

    def has_scaffold(text):
        return any(result.scaffolds & {*oracle.scaffolding(p, result.merges)} for p in toys.split(text))

    def variants(word):
        for normalizer in toys.NORMALIZERS.values():
            normalized = normalizer.normalize_str(word) if normalizer else word
            yield from (normalized, f" {normalized}")

    parts = {word[i:j] for word in WORDS for i in range(len(word)) for j in range(i + 1, len(word) + 1)}
    return [
        part
        for part in sorted(parts)
        if any(map(has_scaffold, variants(part)))
        and all(toys.exact_tokens(result, text) == public.encode(text).tokens for text in variants(part))
    ]


def agreeing_texts(size):
    words = st.sampled_from([*agreeing_words(size), "<|eos|>", "<|pad|>", "  ", "\n", "7"])
    texts = st.lists(words, max_size=6).map(" ".join)
    return texts | texts.map(lambda text: " ".join([text] * 8))  # longer than a window


@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
@fuzz
@given(
    made_tokenizers,
    st.sampled_from(toys.SIZES).flatmap(lambda s: st.tuples(st.just(s), calls(agreeing_texts(s)))),
)
def test_with_scaffolds_every_call_is_what_stock_makes_of_the_same_tokens(made, drawn):
    size, ((text, text_pair), options) = drawn
    stock = toys.tokenizer(toys.trained(size), PreTrainedTokenizerFast, **made)
    ours = toys.tokenizer(toys.trained(size), **made)
    expected = outcome(lambda: stock(text, text_pair, **options))
    assert outcome(lambda: ours(text, text_pair, **options)) == expected


def test_scaffolds_occur_in_what_is_compared_with_stock():
    assert {"ati", "zona", "ona"} & toys.trained(282).scaffolds
    assert len(agreeing_words(282)) > 30
    assert any(not word.isascii() for word in agreeing_words(326))


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ((None,), {}),
        ((3,), {}),
        (([1],), {}),
        ((["a", None],), {}),
        (([("a", None)],), {}),
        (([("a", "b", "c")],), {}),
        (([["a"], ["b"]],), {}),
        (([["a", "b"]],), {}),
        ((["a", "b"], ["c"]), {}),
        ((["a", "b"], "c"), {}),
        ((["a", "b"], ["c", None]), {}),
        (([],), {}),
        ((["a"], [["b"]]), {}),
        ((["a"], [["b"]]), {"return_offsets_mapping": True}),
        (([["a", 1]],), {"is_split_into_words": True}),
        ((["a"], "b"), {"is_split_into_words": True}),
        ((["a"], ["b", 3]), {"is_split_into_words": True}),
        (([["a"]], ["b"]), {"is_split_into_words": True}),
        (([["a"], ["b"]], [["c"], [None]]), {"is_split_into_words": True}),
        (([(["a"], "b")],), {"is_split_into_words": True}),
        (("a",), {"truncation": "only_second", "max_length": 1}),
        (("Arizona Ari",), {"truncation": True, "max_length": 2, "stride": 3}),
        (("a",), {"padding": "longer"}),
        (("a",), {"padding": True, "truncation": True, "max_length": 5, "pad_to_multiple_of": 4}),
    ],
)
@pytest.mark.parametrize("scaffold", [False, True])
def test_what_stock_refuses_is_refused_in_its_words(arguments, options, scaffold):
    result = toys.trained(scaffold=scaffold)
    expected = outcome(lambda: toys.tokenizer(result, PreTrainedTokenizerFast)(*arguments, **options))
    assert outcome(lambda: toys.tokenizer(result)(*arguments, **options)) == expected


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_goes_to_the_longest_row_once_it_is_demolished(native, side):
    tokenizer = toys.tokenizer(toys.trained(326), native=native)  # where nati is a scaffold
    nati, a = (tokenizer(text)["input_ids"] for text in ("nati", "a"))
    padding = [tokenizer.pad_token_id] * (len(nati) - 1)
    expected = [nati, [*padding, *a] if side == "left" else [*a, *padding]]
    for options in ({}, {"return_offsets_mapping": True}, {"pad_to_multiple_of": len(nati)}):
        batch = tokenizer(["nati", "a"], padding=True, padding_side=side, **options)
        assert batch["input_ids"] == [encoding.ids for encoding in batch.encodings] == expected


def test_padding_without_a_pad_token_is_refused():
    with pytest.raises(ValueError, match="does not have a padding token"):
        toys.tokenizer(pad_token=None)(["a", "bb"], padding=True)


# ---- the pieces users change


def test_a_post_processor_set_later_is_honoured():
    tokenizer = toys.tokenizer()
    before = tokenizer("ationa")["input_ids"]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<|bos|> $A <|eos|>", special_tokens=[toys.BOS, toys.EOS]
    )
    assert tokenizer("ationa")["input_ids"] == [0, *before, 1]
    assert tokenizer("ationa", add_special_tokens=False)["input_ids"] == before
    assert tokenizer("ationa", truncation=True, max_length=4)["input_ids"] == [0, *before[:2], 1]


def test_add_eos_token_adds_one():
    tokenizer = toys.tokenizer(add_eos_token=True)
    assert tokenizer("ationa")["input_ids"][-1] == tokenizer.eos_token_id
    tokenizer.add_eos_token = False
    assert tokenizer("ationa")["input_ids"][-1] != tokenizer.eos_token_id


def test_a_normalizer_and_a_pre_tokenizer_set_later_are_honoured():
    tokenizer = toys.tokenizer()
    tokenizer("ARIZONA 1")
    tokenizer.backend_tokenizer.normalizer = toys.NORMALIZERS["lowercase"]
    assert tokenizer.tokenize("ARIZONA") == toys.exact_tokens(toys.trained(), "arizona")
    tokenizer.backend_tokenizer.pre_tokenizer = toys.PRE_TOKENIZERS["prefix space"]
    assert tokenizer.tokenize("ARIZONA") == toys.exact_tokens(toys.trained(), " arizona")


def test_dropout_leaves_no_scaffold_behind():
    tokenizer = toys.tokenizer()
    tokenizer.backend_tokenizer.model.dropout = 0.5
    for text in ["international Arizona", "日本語 naïve"] * 10:
        encoded = tokenizer(text)
        assert max(encoded["input_ids"]) < len(tokenizer)
        assert tokenizer.decode(encoded["input_ids"]) == text
        assert tokenizer.convert_tokens_to_ids(encoded.tokens()) == encoded["input_ids"]


def test_only_public_tokens_are_in_the_vocabulary():
    tokenizer, result = toys.tokenizer(), toys.trained()
    assert tokenizer.vocab_size == len(tokenizer) == len(result.vocab)
    assert tokenizer.get_vocab() == {token: token_id for token_id, token in enumerate(result.vocab)}
    assert tokenizer.convert_tokens_to_ids("zona") is None
    assert tokenizer.scaffold == toys.scaffold(result)


def test_an_added_token_may_have_the_string_of_a_scaffold():
    tokenizer, result = toys.tokenizer(), toys.trained()
    assert "zona" in result.scaffolds
    tokenizer("fill the cache")
    assert tokenizer.add_tokens([AddedToken("zona", single_word=True)]) == 1
    assert tokenizer("zona")["input_ids"] == [len(result.vocab)] == [len(tokenizer) - 1]
    assert tokenizer.decode([len(result.vocab)]) == "zona"
    # Inside a word it isn't the added token but a scaffold, as before.
    assert tokenizer.tokenize("zonax") == toys.exact_tokens(result, "zonax") == ["z", "o", "na", "x"]


def test_added_tokens_count_from_the_next_call_on():
    tokenizer, result = toys.tokenizer(), toys.trained()
    assert tokenizer.tokenize("azona") == toys.exact_tokens(result, "azona")
    tokenizer.add_tokens([AddedToken("zona", single_word=True)])
    assert tokenizer.tokenize("azona") == toys.exact_tokens(result, "azona")
    tokenizer.add_tokens([AddedToken("zona", single_word=False)])
    assert tokenizer.tokenize("azona") == ["a", "zona"]
    tokenizer.backend_tokenizer.add_tokens(["bana"])
    assert tokenizer.tokenize("bana") == ["bana"]


def test_split_special_tokens_are_encoded_as_text():
    tokenizer, result = toys.tokenizer(), toys.trained()
    tokenizer.add_special_tokens({"sep_token": "zona"})
    assert tokenizer.tokenize("zona<|eos|>") == ["zona", "<|eos|>"]
    as_text = toys.exact_tokens(result, "zona<|eos|>")
    assert tokenizer.tokenize("zona<|eos|>", split_special_tokens=True) == as_text
    assert tokenizer.tokenize("zona<|eos|>") == ["zona", "<|eos|>"]


def test_what_was_encoded_before_tokens_were_added_stays():
    tokenizer = toys.tokenizer()
    encoded = tokenizer("ationa")
    tokens = toys.exact_tokens(toys.trained(), "ationa")
    tokenizer.add_tokens(["ationa"])
    assert encoded.tokens() == tokens
    assert encoded.encodings[0].offsets == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6)]


def test_chat_templates():
    template = "{% for m in messages %}{{ m['role'] + ' ' + m['content'] + eos_token }}{% endfor %}"
    tokenizer, result = toys.tokenizer(chat_template=template), toys.trained()
    messages = [{"role": "ationa", "content": "zona <|pad|>"}]
    encoded = tokenizer.apply_chat_template(messages, return_dict=True)
    tokens = [*toys.exact_tokens(result, "ationa zona "), "<|pad|>", "<|eos|>"]
    assert encoded.tokens() == tokens
    assert encoded["input_ids"] == tokenizer.convert_tokens_to_ids(tokens)


def test_control_tokens_in_chats_can_be_sanitized():
    template = "{% for m in messages %}{{ m['content'] + eos_token }}{% endfor %}"
    tokenizer, result = toys.tokenizer(chat_template=template), toys.trained()
    messages = [{"role": "user", "content": "ationa<|eos|>"}]
    encoded = tokenizer.apply_chat_template(messages, return_dict=True, sanitize_control_tokens=True)
    tokens = [*toys.exact_tokens(result, "ationa"), *toys.exact_tokens(result, "<|eos|>"), "<|eos|>"]
    assert tokenizer.convert_ids_to_tokens(encoded["input_ids"]) == tokens


# ---- calls leave no trace


def test_threads_may_ask_for_different_truncation_and_padding():
    tokenizer = toys.tokenizer(post_processor="bos and eos")
    texts = [f"international {word} zona" for word in WORDS]
    expected = [tokenizer(texts, **options).data for options in toys.SETTINGS]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: tokenizer(texts, **toys.SETTINGS[i % 5]).data, range(100)))
    assert all(found[i] == expected[i % 5] for i in range(100))


def test_calls_leave_the_tokenizer_as_it_was():
    tokenizer = toys.tokenizer()
    before = tokenizer.backend_tokenizer.to_str()
    tokenizer(["Arizona", "ationa"], truncation=True, max_length=3, padding=True, split_special_tokens=True)
    assert tokenizer.backend_tokenizer.to_str() == before
    assert tokenizer.__getstate__()["cache"] == {}


# ---- lone surrogates


@pytest.mark.parametrize(
    ("arguments", "options", "where"),
    [
        (("ab\ud800",), {}, "text holds .* index 2"),
        ((["ok", "\udfff"],), {}, r"text\[1\] holds .* index 0"),
        ((["ok", "ok"], ["ok", "a\ud83d"]), {}, r"text_pair\[1\] holds .* index 1"),
        (([["ok"], ["ok", "b\udc00"]],), {"is_split_into_words": True}, r"text\[1\]\[1\] holds .* index 1"),
    ],
)
def test_lone_surrogates_are_refused(arguments, options, where):
    with pytest.raises(ValueError, match=where):
        toys.tokenizer()(*arguments, **options)


# ---- copies


def same_tokenizer(first, second):
    text = "international zona 日本 ationa<|eos|>"
    return (
        type(first) is type(second)
        and first.scaffold == second.scaffold
        and first.backend_tokenizer.to_str() == second.backend_tokenizer.to_str()
        and first(text).data == second(text).data
    )


def test_pickle_and_deepcopy():
    tokenizer = toys.tokenizer()
    tokenizer.add_tokens(["zona"])
    tokenizer("fill the cache")
    for other in (pickle.loads(pickle.dumps(tokenizer)), copy.deepcopy(tokenizer), copy.copy(tokenizer)):
        assert same_tokenizer(tokenizer, other)


def encode_elsewhere(tokenizer, text):
    return tokenizer(text).data


def test_pickle_to_a_spawned_process():
    tokenizer = toys.tokenizer()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(encode_elsewhere, (tokenizer, "ationa zona")) == tokenizer("ationa zona").data


def test_encodings_are_pickled_as_encodings():
    encoded = toys.tokenizer()(["ationa", "Arizona"])
    for other in (pickle.loads(pickle.dumps(encoded)), copy.deepcopy(encoded)):
        assert [type(encoding) for encoding in other.encodings] == [Encoding, Encoding]
        assert [describe(e) for e in other.encodings] == [describe(e) for e in encoded.encodings]
    assert len(encoded.encodings[0]) == 5
    assert repr(encoded.encodings[0]).startswith("Encoding(num_tokens=5")


# ---- files

FILES = ["scaffold.json", "tokenization_scaffold.py", "tokenizer.json", "tokenizer_config.json"]


def content(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_saved_and_loaded_it_is_the_same_to_the_byte(tmp_path):
    tokenizer = toys.tokenizer(
        post_processor="bos and eos",
        normalizer="NFC",
        model_max_length=64,
        padding_side="left",
        chat_template="{{ messages }}",
        extra_special_tokens=["<|tool|>"],
        image_token="<|image|>",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids"],
    )
    saved = tokenizer.save_pretrained(tmp_path / "first")
    assert sorted(map(os.path.basename, saved)) == sorted([*FILES, "chat_template.jinja"])
    assert all(os.path.isfile(path) for path in saved)
    loaded = ScaffoldTokenizerFast.from_pretrained(tmp_path / "first")
    assert same_tokenizer(tokenizer, loaded)
    assert loaded.image_token == "<|image|>"
    loaded(["Arizona", "a"], truncation=True, max_length=3, padding=True)
    loaded.save_pretrained(tmp_path / "second")
    again = ScaffoldTokenizerFast.from_pretrained(tmp_path / "second", local_files_only=True)
    again.save_pretrained(tmp_path / "third")
    assert content(tmp_path / "first") == content(tmp_path / "second") == content(tmp_path / "third")


@pytest.mark.parametrize("settings", [{}, {"clean_up_tokenization_spaces": True}])
def test_whether_decoding_cleans_up_is_always_saved(settings, tmp_path):
    """Where it isn't, transformers.js decodes "a ," as "a,"."""
    toys.tokenizer(**settings).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_bytes())
    assert config["clean_up_tokenization_spaces"] is bool(settings)
    assert ScaffoldTokenizerFast.from_pretrained(tmp_path).clean_up_tokenization_spaces is bool(settings)


def test_files_do_not_depend_on_the_order_of_a_scaffolds_entries(tmp_path):
    tokenizer = toys.tokenizer()
    scaffold = {**tokenizer.scaffold, "demolish": dict(reversed(tokenizer.scaffold["demolish"].items()))}
    other = ScaffoldTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, scaffold=dict(reversed(scaffold.items())), **toys.NAMED
    )
    tokenizer.save_pretrained(tmp_path / "one")
    other.save_pretrained(tmp_path / "other")
    assert content(tmp_path / "one") == content(tmp_path / "other")


def test_the_config_names_the_class_and_no_machine(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path / "a")
    ScaffoldTokenizerFast.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    config = json.loads((tmp_path / "b" / "tokenizer_config.json").read_bytes())
    assert config == {
        **toys.NAMED,
        "auto_map": {"AutoTokenizer": [None, "tokenization_scaffold.ScaffoldTokenizerFast"]},
        "backend": "tokenizers",
        "clean_up_tokenization_spaces": False,
        "model_max_length": config["model_max_length"],
        "tokenizer_class": "ScaffoldTokenizerFast",
    }
    assert not any(str(tmp_path).encode() in data for data in content(tmp_path / "b").values())


def test_the_raw_safe_model_is_readable_by_tokenizers_alone(tmp_path):
    tokenizer = toys.tokenizer()
    tokenizer.save_pretrained(tmp_path)
    raw = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert raw.get_vocab() == tokenizer.get_vocab()
    assert raw.decode(raw.encode("international zona 日本").ids) == "international zona 日本"


def test_added_tokens_are_saved(tmp_path):
    tokenizer = toys.tokenizer()
    tokenizer.add_tokens(["zona"])
    tokenizer.add_special_tokens({"sep_token": "<|sep|>"})
    tokenizer.save_pretrained(tmp_path)
    loaded = ScaffoldTokenizerFast.from_pretrained(tmp_path)
    assert same_tokenizer(tokenizer, loaded)
    assert loaded.sep_token_id == len(loaded) - 1


def test_filename_prefix_as_in_stock(tmp_path):
    saved = toys.tokenizer().save_pretrained(tmp_path, filename_prefix="x")
    expected = ["tokenization_scaffold.py", "x-scaffold.json", "x-tokenizer.json", "x-tokenizer_config.json"]
    assert sorted(map(os.path.basename, saved)) == sorted(content(tmp_path)) == expected
    tokenizer = ScaffoldTokenizerFast(
        tokenizer_file=str(tmp_path / "x-tokenizer.json"),
        scaffold_file=str(tmp_path / "x-scaffold.json"),
        **toys.NAMED,
    )
    assert same_tokenizer(toys.tokenizer(), tokenizer)


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def ctrl_c(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("failure", [no_space, ctrl_c])
@pytest.mark.parametrize(
    "step", [(ScaffoldTokenizerFast, "save_vocabulary"), (tokenization_scaffold.os, "fsync")]
)
def test_a_failed_save_leaves_the_old_files_whole(tmp_path, monkeypatch, failure, step):
    tokenizer = toys.tokenizer()
    tokenizer.save_pretrained(tmp_path)
    before = content(tmp_path)
    tokenizer.add_tokens(["new"])
    with monkeypatch.context() as patched:
        patched.setattr(*step, failure)
        with pytest.raises((OSError, KeyboardInterrupt)):
            tokenizer.save_pretrained(tmp_path)
    assert content(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    assert same_tokenizer(ScaffoldTokenizerFast.from_pretrained(tmp_path), toys.tokenizer())
    tokenizer.save_pretrained(tmp_path)
    assert same_tokenizer(ScaffoldTokenizerFast.from_pretrained(tmp_path), tokenizer)


def test_a_missing_scaffold_file_is_never_passed_over(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    (tmp_path / "scaffold.json").unlink()
    with pytest.raises(ValueError, match=r"scaffold\.json is missing") as raised:
        ScaffoldTokenizerFast.from_pretrained(tmp_path)
    assert str(tmp_path) in str(raised.value)
    with pytest.raises(ValueError, match=r"scaffold\.json is missing"):
        ScaffoldTokenizerFast(tokenizer_object=toys.backend(toys.trained()))


def test_a_truncated_scaffold_file_is_refused(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    whole = (tmp_path / "scaffold.json").read_bytes()
    for length in [0, 1, *range(10, len(whole) - 1, 97), len(whole) - 2]:
        (tmp_path / "scaffold.json").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"scaffold\.json is not valid JSON"):
            ScaffoldTokenizerFast.from_pretrained(tmp_path)


def drop(name):
    return lambda scaffold: scaffold.pop(name)


def put(name, value):
    return lambda scaffold: scaffold.__setitem__(name, value)


def demolish(token, pieces):
    return lambda scaffold: scaffold["demolish"].__setitem__(token, pieces)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (put("version", 2), "version is 2, not 1"),
        (drop("version"), "version is None"),
        (drop("merges"), r"merges must be a list of \[left, right\]"),
        (put("merges", [["a"]]), r"merges must be a list of \[left, right\]"),
        (put("merges", "ab"), r"merges must be a list of \[left, right\]"),
        (drop("demolish"), "demolish must map"),
        (demolish("zona", "zona"), "demolish must map"),
        (put("raw_agreement", 2), "raw_agreement is 2"),
        (put("training", "a corpus"), "training must be a JSON object, not str"),
        (lambda s: s["merges"].append(["q", "?q"]), r"merges\[\d+\], \('q', '\?q'\): '\?q' is neither"),
        (lambda s: s["merges"].append(["q", "q"]), r"merges\[\d+\], \('q', 'q'\): 'qq' is neither"),
        (lambda s: s["merges"].append(s["merges"][0]), r"merges\[\d+\], .* is there twice"),
        (lambda s: s["merges"].pop(), "no merge makes the .* token"),
        (lambda s: s["demolish"].pop("zona"), "'zona' is neither public nor a scaffold"),
        (demolish("zona", ["zo", "na"]), "'zona' is demolished to 'zo', which is no public token"),
        (demolish("zona", ["z", "o"]), "'zona' is demolished to .* spells something else"),
        (demolish("zona", []), "'zona' is demolished to .* spells something else"),
        (demolish("Arizona", ["A"]), "'Arizona' is demolished, though it is a public token"),
        (demolish("qq", ["q", "q"]), "no merge makes the scaffold token 'qq'"),
    ],
)
def test_an_inconsistent_scaffold_is_refused(tmp_path, damage, message):
    toys.tokenizer().save_pretrained(tmp_path)
    path = tmp_path / "scaffold.json"
    scaffold = json.loads(path.read_bytes())
    damage(scaffold)
    path.write_text(json.dumps(scaffold))
    with pytest.raises(ValueError, match=message) as raised:
        ScaffoldTokenizerFast.from_pretrained(tmp_path)
    assert str(path) in str(raised.value)


def test_only_bpe_will_do():
    wrong = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    with pytest.raises(ValueError, match="the model is WordLevel, not BPE"):
        ScaffoldTokenizerFast(tokenizer_object=wrong, scaffold=toys.scaffold(toys.trained()))
    with pytest.raises(ValueError, match="a JSON object is needed, not list"):
        ScaffoldTokenizerFast(tokenizer_object=toys.backend(toys.trained()), scaffold=[])
