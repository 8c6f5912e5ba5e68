"""The native paths against the general one, the Rust backend, in everything that a caller can see.

`native_cases` makes tokenizers and calls at random; `fuzz_native.py` goes on with it for as long as you like.
"""

import copy
import importlib.util
import itertools
import multiprocessing
import os
import pickle
import random
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
import toys
from fuzz_rounds import Round
from native_cases import (
    FLAGS,
    ODD,
    Call,
    Tokenizer,
    are_answered_alike,
    describe,
    form,
    is_native,
    outcome,
    random_text,
    report,
    smallest,
    twins,
)
from tokenizers import AddedToken, Regex, normalizers, pre_tokenizers, processors
from tokenizers.decoders import ByteFallback

import hf_scaffold as hs
from hf_scaffold import tokenization_scaffold
from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder
from hf_scaffold._core.token_decoder import TokenDecoder
from hf_scaffold._utils.process import n_cpus
from hf_scaffold.engine.inputs import LEAST_FOR_THREADS, n_threads
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.native.decoding import shown_bytes
from hf_scaffold.native.encodings import LazyEncodings
from hf_scaffold.text.pre_tokenizers import PRESETS

torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None

# The largest a cache gets, and what threads may add to it meanwhile.
MOST_CACHED = (3 << 19) + 64

EVERYTHING = {
    "return_token_type_ids": True,
    "return_special_tokens_mask": True,
    "return_length": True,
}


def assert_alike(made, call, native=True, with_encodings=True):
    """Both paths answer alike; the first, unless it isn't meant to, natively."""
    ours, general = (outcome(tokenizer, call) for tokenizer in twins(made))
    assert form(ours, with_encodings) == form(general, with_encodings), report(made, call)
    assert is_native(ours) == native, (made, call)
    assert not is_native(general)


def assert_same_ids(made, texts, **options):
    assert_alike(made, Call(texts, options=options), with_encodings=False)


# ---- at random


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
def test_random_calls_and_texts(seed):
    fuzzed = Round().run(random.Random(f"0.{seed}"), n_texts=300, n_calls=12)
    assert not fuzzed.failure, f"seed 0.{seed}: {fuzzed.failure}"


@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
def test_most_random_calls_are_native():
    fuzzed = Round()
    for seed in range(4):
        fuzzed.run(random.Random(f"1.{seed}"), n_texts=1, n_calls=20)
    assert fuzzed.n_native > fuzzed.n_calls / 3


def test_a_wrong_answer_is_found_and_made_small(monkeypatch):
    class Wrong:
        def __init__(self, encoder):
            self.encoder = encoder

        def encode(self, texts, *args):
            return self.encoder.encode([text.replace("zo\t", "z\t") for text in texts], *args)

        def encode_to_lists(self, texts, *args):
            return self.encoder.encode_to_lists([text.replace("zo\t", "z\t") for text in texts], *args)

        def locate(self, *args):
            return self.encoder.locate(*args)

    monkeypatch.setattr("hf_scaffold.engine.bare.TextEncoder", lambda *args: Wrong(TextEncoder(*args)))
    made = Tokenizer(preset="llama3", added=(("é", {"lstrip": True}),), settings={"padding_side": "left"})
    call = Call(["some text", "more of zo\t it", ""], options={"padding": True, "return_length": True})
    assert not are_answered_alike(made, call)
    assert smallest(made, call) == (Tokenizer(), Call(["zo\t"]))
    assert "['zo\\t']" in report(made, call)


# ---- presets and added tokens

AROUND = ["", "x", " ", "  ", "\n", "_", "é", "\u3000", "zo", "[w", "[w]", "<|eos|>", "'", "1", "\0"]


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("special", [False, True])
def test_added_tokens_with_any_flags_next_to_anything(preset, special):
    texts = [f"{before}[w]{after}" for before in AROUND for after in AROUND]
    for flags in itertools.product([False, True], repeat=4):
        flags = dict(zip(FLAGS, (*flags, special), strict=True))
        made = Tokenizer(preset=preset, added=(("[w]", flags), ("zo", {"lstrip": True})))
        for split in (False, True):
            assert_same_ids(made, texts, split_special_tokens=split)


@pytest.mark.parametrize("preset", PRESETS)
def test_added_tokens_that_begin_alike(preset):
    added = [
        ("an", {}),
        ("ana", {"single_word": True}),
        ("anaN", {"special": True}),
        ("ana N", {"lstrip": True}),
    ]
    added += [("na", {"normalized": False}), (" b", {"rstrip": True}), ("  ", {"normalized": False})]
    texts = ["".join(t) for t in itertools.product(["an", "ana", "N", " ", "b", "a"], repeat=3)]
    for n in range(1, len(added) + 1):
        assert_same_ids(Tokenizer(preset=preset, added=tuple(added[:n])), texts)


def test_an_added_token_takes_the_space_that_begins_another():
    made = Tokenizer(added=(("a", {"rstrip": True}), (" b", {}), ("c", {"lstrip": True})))
    assert_alike(made, Call(["a b", "a  b", "a c", " bc", "a\u3000 b c", "aa bb cc"]))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_odd_character_between_words(preset):
    texts = [f"{a}{b}{c}" for a in ("zo", " ", "") for b in ODD for c in ("na", " ", *ODD)]
    assert_same_ids(Tokenizer(preset=preset), [*texts, "".join(texts)])


@pytest.mark.parametrize("preset", PRESETS)
def test_texts_of_every_length_and_width(preset):
    """What is read in blocks ends at every place in them, in strings of 1, 2 and 4 bytes a character."""
    texts = []
    for n in [*range(70), *range(120, 136), *range(250, 262)]:
        for end in ("", " ", "é", "語", "🙂", "'s"):
            texts += ["ab c1"[n % 5] * n + end, (" zo'll 7" * 40)[:n] + end, end + ("na " * 99)[:n]]
    assert_same_ids(Tokenizer(preset=preset), texts)


@pytest.mark.parametrize("widest", ["", "語", "🙂"])
def test_one_odd_character_among_many_that_are_ascii(widest):
    """Characters are read sixteen at a time, of the width that the widest needs."""
    odd = "\x7f\x80ÿ\u07ff\u0800\uffff\U00010000"
    texts = [f"{'n' * n}{character}{'a' * 40}{widest}" for n in range(17) for character in odd]
    assert_same_ids(Tokenizer(), texts)


# ---- options

STRATEGIES = [False, "longest_first", "only_first", "only_second"]


@pytest.mark.parametrize("post_processor", toys.POST_PROCESSORS)
@pytest.mark.parametrize("truncation_side", ["right", "left"])
@pytest.mark.parametrize("truncation", STRATEGIES)
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
def test_truncation_padding_and_templates(post_processor, truncation_side, truncation):
    settings = {"truncation_side": truncation_side}
    made = Tokenizer(post_processor=post_processor, settings=settings)
    native, general = twins(made)
    first, second = ["Arizona zona", "hug", "", "international"], ["pug", "banana ana", "a", ""]
    inputs = [("ationa", None), ("ationa", "zone"), (first, None), (first, second)]
    for (text, pair), padding, max_length, add_special_tokens, padding_side in itertools.product(
        inputs, [False, True, "max_length"], [4, 7, 12, 40], [True, False], ["right", "left"]
    ):
        options = {
            "truncation": truncation,
            "padding": padding,
            "max_length": max_length,
            "add_special_tokens": add_special_tokens,
            "padding_side": padding_side,
            **EVERYTHING,
        }
        call = Call(text, pair, options)
        assert form(outcome(native, call), False) == form(outcome(general, call), False), report(made, call)


@pytest.mark.parametrize("return_tensors", [None, "np", *(["pt"] if torch else [])])
@pytest.mark.parametrize("pair", [False, True])
def test_tensors(return_tensors, pair):
    made = Tokenizer(post_processor="bos and eos")
    texts = ["Arizona zona", "hug", "banana"]
    for text, padding, multiple in itertools.product(
        ["ationa", texts, texts[:1], tuple(texts)], [False, True], [None, 8]
    ):
        second = (text if isinstance(text, str) else list(text)) if pair else None
        options = {"padding": padding, "pad_to_multiple_of": multiple, "return_tensors": return_tensors}
        is_refused = return_tensors == "pt" and not padding and len(text) == len(texts)  # ragged rows
        assert_alike(made, Call(text, second, {**options, **EVERYTHING}), native=not is_refused)


def test_torch_tensors_are_refused_without_torch(monkeypatch, native):
    for module in ("hf_scaffold.native.rows", "transformers.tokenization_utils_base"):
        monkeypatch.setattr(f"{module}.is_torch_available", lambda: False)
    tokenizer = toys.tokenizer(native=native)
    with pytest.raises(ImportError, match="Unable to convert output to PyTorch tensors"):
        tokenizer("Arizona zona", return_tensors="pt")


@pytest.mark.parametrize(
    "options",
    [
        {"truncation": True, "max_length": 1},
        {"truncation": "only_first", "max_length": 3},
        {"truncation": "only_second", "max_length": 20},
        {"padding": True, "truncation": True, "max_length": 5, "pad_to_multiple_of": 4},
        {"return_tensors": "np"},
        {"return_tensors": "no"},
        {"padding": "max_length"},
        {"max_length": 0, "truncation": True},
    ],
)
@pytest.mark.parametrize("pair", [None, ["a", "bbbbbb"]])
@pytest.mark.filterwarnings("ignore:`max_length` is ignored")
def test_what_is_refused_is_refused_in_the_same_words(options, pair):
    made = Tokenizer(post_processor="bos and eos")
    for call in (Call(["Arizona", "ationa zona"], pair, options), Call("Arizona", pair and pair[0], options)):
        native, general = (form(outcome(tokenizer, call)) for tokenizer in twins(made))
        assert native == general


@pytest.mark.parametrize(
    ("text", "text_pair"),
    [
        ("", None),
        ("", ""),
        ("", "a"),
        ("a", ""),
        ([""], None),
        (["", ""], ["", ""]),
        ([("", "")], None),
        (["\0", "a\0b"], None),
        (["é", "語", "🙂", "a"], None),
    ],
)
def test_empty_texts_and_nul(text, text_pair):
    for post_processor in toys.POST_PROCESSORS:
        made = Tokenizer(post_processor=post_processor, added=(("\0", {"lstrip": True}),))
        assert_alike(made, Call(text, text_pair))
        assert_alike(made, Call(text, text_pair, {"padding": True, "return_tensors": "np", **EVERYTHING}))


@pytest.mark.parametrize(
    ("text", "text_pair"),
    [
        ([], None),
        (None, None),
        (3, None),
        ([1], None),
        (["a", None], None),
        ([("a", None)], None),
        ([("a", "b", "c")], None),
        (["a", "b"], ["c"]),
        (["a", "b"], "c"),
        (["a", ["b", "c"]], None),
        ("a", ["b"]),
        (b"a", None),
        ({"a": 1}, None),
    ],
)
def test_what_is_no_text_is_refused_in_the_same_words(text, text_pair):
    assert_alike(Tokenizer(), Call(text, text_pair), native=False)


@pytest.mark.parametrize("surrogate", ["\ud800", chr(0xDFFF), "\ud83d\ude00"])
def test_lone_surrogates_are_refused_wherever_they_are(surrogate):
    texts = [surrogate, f"a{surrogate}", f"{surrogate}é", f"語{surrogate}🙂", "ab " * 150_000 + surrogate]
    texts.append(f"{'a' * 20}{surrogate}{'b' * 20}")
    for text in texts:
        for call in (Call(text), Call(["ok", text]), Call("ok", text), Call([("ok", text)])):
            assert_alike(Tokenizer(), call, native=False)
        for tokenizer in twins(Tokenizer()):
            with pytest.raises(ValueError, match=r"text\[1\] holds a lone surrogate"):
                tokenizer.encode_batch_to_arrays(["ok", text])


def test_str_subclasses_are_texts():
    class Text(str):
        pass

    assert_alike(Tokenizer(), Call(Text("Arizona")))
    assert_alike(Tokenizer(), Call([Text("Arizona"), "é"], [Text("a"), Text("語")]))


def test_special_tokens_that_are_in_no_vocabulary():
    """A template may give any id, which then isn't one that lists are made of."""
    for token_id in (330, 100_000, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
        native, general = twins(Tokenizer())
        for tokenizer in (native, general):
            tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                single="<|bos|> $A", pair="<|bos|> $A $B", special_tokens=[("<|bos|>", token_id)]
            )
        for call in (
            Call("a"),
            Call(["a", "bb"]),
            Call(["a"], ["b"]),
            Call("a", None, {"return_tensors": "np"}),
        ):
            assert form(outcome(native, call)) == form(outcome(general, call))


def test_templates_that_repeat_or_drop_a_sequence():
    for single, pair in [("$A $A", "$A $B $A"), ("<|bos|>", "$B:1 $A"), ("$A:1", "$B $A <|bos|> $B")]:
        native, general = twins(Tokenizer())
        for tokenizer in (native, general):
            tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                single=single, pair=pair, special_tokens=[toys.BOS]
            )
        for call in (Call("ab", None, EVERYTHING), Call(["a"], ["bc"], EVERYTHING)):
            assert form(outcome(native, call)) == form(outcome(general, call))


# ---- long texts


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "piece", ["ab", "zona", "A", "é", "語", "🙂", "'", " ", "\n", "'s", "Aé", "\u0301", "/\n"]
)
def test_a_megabyte_without_a_break_takes_no_quadratic_time(preset, piece):
    """10**12 steps would never end; on the general path some of these don't."""
    tokenizer = Tokenizer(preset=preset, added=(("x" * 50, {}), (f"{piece * 3}!", {"lstrip": True}))).made()
    text = piece * (1_000_000 // len(piece.encode()))
    ids, _ = tokenizer.encode_batch_to_arrays([text])
    assert tokenizer.decode(ids) == text


def test_space_that_tokens_strip_takes_no_quadratic_time():
    flags = {"lstrip": True, "rstrip": True, "single_word": True}
    made = Tokenizer(added=(("[w]", flags), ("zo", flags)))
    for text in (
        " " * 10**6 + "[w]",
        "[w]" + " " * 10**6,
        "  [w]  " * 10**5,
        " zoo" * 10**5,
        " [w]zo" * 10**5,
    ):
        native, general = twins(made)
        assert native(text)["input_ids"] == general(text)["input_ids"]


@pytest.mark.parametrize("preset", PRESETS)
def test_long_texts_are_cut_where_it_makes_no_difference(preset, english_text):
    rng = random.Random(preset)
    made = Tokenizer(preset=preset, added=(("the", {"lstrip": True}), ("語", {"single_word": True})))
    nasty = "".join(random_text(rng, made) for _ in range(5000))
    text = english_text[:280_000]
    texts = [text, nasty * (280_000 // len(nasty) + 1), "no break" * 40_000, "a", "é" + text]
    texts += [
        "x" * n + " Arizona" * 35_000 for n in range(3)
    ]  # blocks of 2**16 bytes end in one token and the next
    native, general = twins(made)
    expected = [general(text)["input_ids"] for text in texts]
    assert native(texts)["input_ids"] == expected
    assert [native(text)["input_ids"] for text in texts] == expected


# ---- answers that are made later


def lazily(made, text, text_pair=None, **options):
    native, general = (tokenizer(text, text_pair, **options) for tokenizer in twins(made))
    assert isinstance(native.encodings, LazyEncodings)
    return native, general


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("pair", [None, ["a zona", "ationa <|eos|>", "", "語"]])
def test_questions_about_tokens_are_answered_later(preset, pair):
    texts = ["Arizona zona 日本語", " naïve\n", "", "🙂🙃 don't"]
    made = Tokenizer(preset=preset, post_processor="bos and eos", added=(("ona", {"lstrip": True}),))
    native, general = lazily(made, texts, pair, padding=True, truncation=True, max_length=14)
    assert len(native.encodings) == len(texts) == len(native["input_ids"])
    for i in range(len(texts)):
        assert native.tokens(i) == general.tokens(i)
        assert native.word_ids(i) == general.word_ids(i)
        assert native.sequence_ids(i) == general.sequence_ids(i)
        assert describe(native[i]) == describe(general[i])
        for at in range(len(native["input_ids"][i])):
            assert native.token_to_chars(i, at) == general.token_to_chars(i, at)
            assert native.token_to_word(i, at) == general.token_to_word(i, at)
            if native.token_to_chars(i, at) is not None:
                assert native.token_to_sequence(i, at) == general.token_to_sequence(i, at)
        for at, sequence in itertools.product(range(len(texts[i])), range(1 if pair is None else 2)):
            assert native.char_to_token(i, at, sequence) == general.char_to_token(i, at, sequence)
            assert native.char_to_word(i, at, sequence) == general.char_to_word(i, at, sequence)


def test_later_answers_are_those_of_the_call():
    """Whatever has become of the tokenizer and of the list of texts in between."""
    made = Tokenizer(
        post_processor="bos and eos", settings={"padding_side": "left", "truncation_side": "left"}
    )
    texts = ["Arizona zona", "hug"]
    native, general = lazily(made, texts, padding=True, truncation=True, max_length=6)
    tokenizer = made.made()
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=6)
    texts[:] = ["x", "y", "z"]
    tokenizer.padding_side = tokenizer.truncation_side = "right"
    tokenizer.add_tokens(["Arizona", AddedToken("<|pad|>", lstrip=True)])
    tokenizer.pad_token = "<|eos|>"
    tokenizer.backend_tokenizer.post_processor = None
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    expected = [describe(encoding) for encoding in general.encodings]
    assert [describe(encoding) for encoding in encoded.encodings] == expected
    assert [describe(encoding) for encoding in native.encodings] == expected


def test_encodings_not_yet_made_are_copied_and_pickled_as_a_list():
    made = Tokenizer(post_processor="bos and eos")
    for copied in (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))):
        native, general = lazily(made, ["Arizona zona", "hug"])
        other = copied(native)
        assert other.data == native.data
        assert other.is_fast
        assert [describe(e) for e in other.encodings] == [describe(e) for e in general.encodings]
    native, general = lazily(made, ["ab"])
    assert repr(native.encodings) == repr(general.encodings)
    assert [len(encoding) for encoding in native.encodings] == [3]
    assert native.encodings[:1] == native.encodings


def test_encodings_are_not_made_before_they_are_asked_for():
    native, _ = lazily(Tokenizer(), ["Arizona zona", "hug"])
    list(native.items()), native.keys(), native.n_sequences, len(native.encodings)
    assert vars(native.encodings)["_each"] is None
    assert len(native.tokens()) == len(native.word_ids()) == len(native["input_ids"][0])
    assert vars(native.encodings)["_made"] is None  # the backend's
    assert native.encodings[1].overflowing == []
    assert vars(native.encodings)["_made"]


# ---- which path


@pytest.fixture
def tokenizer():
    return toys.tokenizer()


@pytest.mark.parametrize(
    ("arguments", "options", "path"),
    [
        (("a",), {}, "native"),
        ((["a"], ["b"]), {"padding": True, "truncation": True, "max_length": 9}, "native"),
        (("a",), {"return_tensors": "np"}, "native"),
        ((["a"],), {"is_split_into_words": True}, "native"),
        (
            ("a",),
            {"is_split_into_words": True},
            "general: neither words nor a batch of words or pairs of them",
        ),
        (("a",), {"return_overflowing_tokens": True}, "native"),
        (("a",), {"return_offsets_mapping": True}, "native"),
        (("a",), {"sanitize_control_tokens": True}, "general: sanitize_control_tokens is set"),
        (
            ("a",),
            {"truncation": True, "max_length": 9, "stride": 10},
            "general: the stride is for the backend to refuse",
        ),
        (
            ("aaaaaaaaaa",),
            {"truncation": "only_second", "max_length": 3},
            "general: truncation is for the backend to refuse",
        ),
        (("a\ud800",), {}, "general: a lone surrogate"),
        ((3,), {}, "general: neither a text nor a batch of texts or pairs of texts"),
    ],
)
def test_explain_path_of_a_call(tokenizer, arguments, options, path):
    assert tokenizer.explain_path(*arguments, **options) == path


def without_pad_token(tokenizer):
    tokenizer.pad_token = None


def with_dropout(tokenizer):
    tokenizer.backend_tokenizer.model.dropout = 0.1


def with_normalizer(tokenizer):
    tokenizer.backend_tokenizer.normalizer = toys.NORMALIZERS["Llama"]


def with_unknown_normalizer(tokenizer):
    tokenizer.backend_tokenizer.normalizer = toys.NORMALIZERS["not compiled"]


def with_prefix_space(tokenizer):
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)


def with_backreference(tokenizer):
    split = pre_tokenizers.Split(Regex(r"(a)\1"), "isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])


def without_pre_tokenizer(tokenizer):
    tokenizer.backend_tokenizer.pre_tokenizer = None


def with_repeating_template(tokenizer):
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing("$A $A", "$A $B")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_pad_token, None),
        (with_dropout, None),
        (with_normalizer, None),
        (with_unknown_normalizer, "the normalizer's pattern looks behind"),
        (with_prefix_space, None),
        (with_backreference, "the pre-tokenizer's pattern has a backreference"),
        (without_pre_tokenizer, None),
        (with_repeating_template, "the post-processor leaves out a sequence, or repeats one"),
    ],
)
def test_explain_path_of_a_tokenizer(tokenizer, change, reason):
    assert tokenizer.explain_path("a") == "native"
    change(tokenizer)
    for _ in range(2):
        assert tokenizer.explain_path("a") == (f"general: {reason}" if reason else "native")
    assert is_native(tokenizer("a")) == (reason is None)


def test_changes_that_are_undone_are_native_again(tokenizer):
    pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    with_backreference(tokenizer)
    assert not is_native(tokenizer("a"))
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizer
    assert is_native(tokenizer("a"))


def test_the_attribute_turns_it_off(tokenizer):
    tokenizer.native = False
    assert tokenizer.explain_path("a") == "general: `native` is False"
    assert not is_native(tokenizer("a"))
    assert not pickle.loads(pickle.dumps(tokenizer)).native
    tokenizer.native = True
    assert is_native(tokenizer("a"))


def test_the_environment_turns_it_off(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    script = """
import sys
from hf_scaffold import ScaffoldTokenizerFast
tokenizer = ScaffoldTokenizerFast.from_pretrained(sys.argv[1])
print(tokenizer.explain_path("a"))
print(tokenizer("Arizona ationa")["input_ids"])
tokenizer.native = True
print(tokenizer.explain_path("a"))
"""
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, tmp_path],
        env={**os.environ, "HF_SCAFFOLD_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = tokenizer("Arizona ationa")["input_ids"]
    assert done.stdout.splitlines() == ["general: HF_SCAFFOLD_NATIVE is 0", str(expected), "native"]


def test_without_the_package_or_with_another_release_of_it(tokenizer, monkeypatch):
    monkeypatch.setattr("hf_scaffold.native.INTERFACE", 0)
    tokenization_scaffold.native_encoder.cache_clear()
    assert tokenizer.explain_path("a") == "general: hf_scaffold isn't installed, or of another release"
    assert not is_native(tokenizer("a"))
    tokenization_scaffold.native_encoder.cache_clear()


# ---- threads and processes


def distinct_texts(n, start=0):
    """Words that no other text has, so that the cache grows."""
    return [" ".join(f"w{hex(i * 131 + j)[2:]}x" for j in range(131)) for i in range(start, start + n)]


def test_threads_that_fill_the_cache_together():
    native, general = twins(Tokenizer())
    batches = [distinct_texts(20, start=20 * (i % 6)) for i in range(24)]
    expected = [general(batch)["input_ids"] for batch in batches[:6]]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda batch: native(batch)["input_ids"], batches))
    assert found == expected * 4


def test_threads_share_a_batch():
    """Above the size from which a call has threads of its own."""
    native, general = twins(Tokenizer(added=(("w7", {"lstrip": True}),)))
    texts = [*distinct_texts(300), "é", "", "語"]
    assert native(texts)["input_ids"] == general(texts)["input_ids"]


@pytest.mark.parametrize("variable", ["TOKENIZERS_PARALLELISM", "RAYON_NUM_THREADS"])
@pytest.mark.parametrize("value", ["0", "1", "false", "5", "no number", "²", "99999999999"])
def test_the_number_of_threads_changes_nothing(monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    test_threads_share_a_batch()


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        *[("3", 3), ("+3", 3), ("256", 256), ("257", 256), ("99999999999", 256), ("9" * 19, 256)],
        *[(odd, None) for odd in ("", "0", "²", "٣", "-1", "1.5", " 2", "1_0", "9" * 20, "9" * 5000, "x")],
    ],
)
def test_the_number_of_threads_that_is_asked_for(monkeypatch, wanted, number):
    """As the backend reads it; where it can't, or there is none, each processor has one."""
    monkeypatch.setenv("RAYON_NUM_THREADS", wanted)
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    monkeypatch.setattr("multiprocessing.process.parent_process", lambda: None)
    assert n_threads(LEAST_FOR_THREADS) == (number or n_cpus())
    assert n_threads(LEAST_FOR_THREADS - 1) == 1


@pytest.mark.parametrize("package", ["multiprocessing", "multiprocess"])
def test_worker_processes_have_one_thread(monkeypatch, package):
    """`multiprocess` is what `datasets` and datatrove start theirs with."""
    monkeypatch.delenv("TOKENIZERS_PARALLELISM", raising=False)
    monkeypatch.setenv("RAYON_NUM_THREADS", "3")
    module = ModuleType(f"{package}.process")
    module.parent_process = lambda: None
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert n_threads(LEAST_FOR_THREADS) == 3
    module.parent_process = lambda: "the parent"
    assert n_threads(LEAST_FOR_THREADS) == 1
    assert n_threads(LEAST_FOR_THREADS, 2) == 2


def encoded(tokenizer, texts):
    return tokenizer(texts)["input_ids"]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_after_use():
    native, general = twins(Tokenizer())
    texts = distinct_texts(200)
    expected = general([*texts, "new zona"])["input_ids"]
    native(texts)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        jobs = [pool.apply_async(encoded, (native, [*texts, "new zona"])) for _ in range(4)]
        assert all(job.get(60) == expected for job in jobs)
    assert native([*texts, "new zona"])["input_ids"] == expected


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_while_other_threads_encode():
    native, general = twins(Tokenizer())
    stop = threading.Event()

    def work():
        n = 0
        while not stop.is_set():
            native(distinct_texts(20, start=n))
            n += 20

    expected = general(["Arizona zona", "ationa"])["input_ids"]
    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                os._exit(0 if native(["Arizona zona", "ationa"])["input_ids"] == expected else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


# ---- the cache


def test_a_full_cache_makes_room_and_gives_no_wrong_ids():
    rules = np.array([(ord("a"), ord("b"), 256), (256, ord("c"), 257), (257, ord("d"), 258)], np.int32)
    encoder = TextEncoder("gpt2", np.arange(256, dtype=np.int32), rules, {257: [256, ord("c")]})
    none = AddedTokenFinder([])
    letters = "abcdefghijk"
    words = ["".join(word) for n in range(1, 7) for word in itertools.product(letters, repeat=n)]
    random.Random(0).shuffle(words)

    def right(text):
        tokens = {258: "abcd", 256: "ab"}
        return "".join(tokens.get(i, chr(i)) for i in text)

    assert len(words) > MOST_CACHED
    seen = 0
    for at in range(0, len(words), 20_000):
        part = words[at : at + 20_000]
        for texts in (part, [" ".join(part)], part[::-1]):
            ids, ends, unsure = encoder.encode(texts, none, 2)
            assert unsure == []
            flat = [right(ids[a:b].tolist()) for a, b in itertools.pairwise(ends.tolist())]
            assert flat == texts
            assert 257 not in ids
            seen = max(seen, encoder.n_cached)
            assert encoder.n_cached <= MOST_CACHED
    assert seen > len(letters) ** 5


def test_pretokens_of_every_length_are_cached_rightly():
    """Around 15 bytes and 3 ids, up to which they lie in a slot, and well beyond."""
    native, general = twins(Tokenizer())
    rng = random.Random(0)
    words = ["".join(rng.choices("zonaéx", k=n)) for n in range(1, 300) for _ in range(3)]
    expected = general(words)["input_ids"]
    for _ in range(3):
        assert native(words)["input_ids"] == expected
        assert native([" ".join(words)])["input_ids"] == general([" ".join(words)])["input_ids"]


def test_bytes_without_a_token_are_dropped():
    bpe = hs.train(hs.PreTokenCounts.from_mapping({"ab": 3, "b": 1}), 3, initial_alphabet=())
    tokenizer = bpe.to_tokenizer()
    for text in ("axb", "", "x", "x" * 300, "éabé"):
        native = tokenizer(text)
        assert is_native(native)
        tokenizer.native = False
        assert native.data == tokenizer(text).data
        tokenizer.native = True


def test_the_encoder_refuses_what_it_does_not_know():
    rules = np.zeros((0, 3), np.int32)
    with pytest.raises(ConfigurationError, match="no native scanner for pre-tokenizer 'bert'"):
        TextEncoder("bert", np.zeros(256, np.int32), rules, {})
    with pytest.raises(ValueError, match="byte_ids has 3 entries instead of 256"):
        TextEncoder("gpt2", np.zeros(3, np.int32), rules, {})
    encoder = TextEncoder("gpt2", np.arange(256, dtype=np.int32), rules, {})
    with pytest.raises(TypeError, match="expected str, not bytes"):
        encoder.encode(["a", b"b"], AddedTokenFinder([]))


# ---- to arrays


@pytest.mark.parametrize("post_processor", toys.POST_PROCESSORS)
def test_arrays_and_arrow_hold_the_ids_of_a_call(post_processor):
    made = Tokenizer(post_processor=post_processor, added=(("é", {"single_word": True}),))
    texts = ["Arizona zona", "", "語 éx é <|eos|>", "hug"]
    for tokenizer, add, split in itertools.product(twins(made), [True, False], [None, True, False]):
        rows = tokenizer(texts, add_special_tokens=add, split_special_tokens=split)["input_ids"]
        options = {"add_special_tokens": add, "split_special_tokens": split}
        ids, offsets = tokenizer.encode_batch_to_arrays(texts, **options)
        assert (ids.dtype, offsets.dtype) == (np.int32, np.int64)
        assert [ids[a:b].tolist() for a, b in itertools.pairwise(offsets.tolist())] == rows
        arrow = tokenizer.encode_to_arrow(texts, **options)
        assert str(arrow.type) == "list<item: int32>"
        assert arrow.to_pylist() == rows
        for given in utf8_forms(texts):
            same_ids, same_offsets = tokenizer.encode_batch_to_arrays(given, **options)
            assert (same_ids.tolist(), same_offsets.tolist()) == (ids.tolist(), offsets.tolist())


KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view(), pa.binary_view()]
KINDS.append(pa.dictionary(pa.int8(), pa.string()))


def utf8_forms(texts):
    """The texts as bytes, and as columns of Arrow tables: whole, in chunks, and as slices of others."""
    yield [text.encode() for text in texts]
    for kind in KINDS:
        yield pa.array(texts, pa.string()).cast(kind)
        yield pa.array(["before", *texts, "after"], pa.string()).cast(kind)[1:-1]
        yield pa.array([None, *texts, "after"], pa.string()).cast(kind)[1:-1]
        yield pa.chunked_array([texts[:1], [], texts[1:]], pa.string()).cast(kind)
        yield pa.chunked_array([["before", *texts]], pa.string()).cast(kind)[1:]
        yield pa.chunked_array([[None, "before"], texts[:2], texts[2:]], pa.string()).cast(kind)[2:]


def test_long_utf8_is_encoded_as_strings_are():
    rng = random.Random(0)
    texts = ["".join(rng.choices(["zona ", "é", "語", "hug", "\n"], k=k)) for k in (1, 150_000, 0, 3, 20_000)]
    for tokenizer in twins(Tokenizer()):
        ids, offsets = tokenizer.encode_batch_to_arrays(texts)
        for given in utf8_forms(texts):
            same_ids, same_offsets = tokenizer.encode_batch_to_arrays(given)
            assert np.array_equal(same_ids, ids)
            assert np.array_equal(same_offsets, offsets)


@pytest.mark.parametrize("invalid", [b"\xff", b"zona \xe8\xaa", b"\xed\xa0\x80", b"\xc0\x80"])
def test_bytes_that_are_no_utf8_are_refused(invalid):
    for tokenizer in twins(Tokenizer()):
        for texts in ([invalid], [b"zona", invalid], pa.array([b"hug", invalid]).view(pa.string())):
            with pytest.raises(UnicodeDecodeError):
                tokenizer.encode_batch_to_arrays(texts)


def test_dropout_is_the_same_for_utf8():
    tokenizer, _ = twins(Tokenizer())
    ids, _ = tokenizer.encode_batch_to_arrays(["Arizona zona"] * 9, dropout=0.5, seed=3)
    same_ids, _ = tokenizer.encode_batch_to_arrays([b"Arizona zona"] * 9, dropout=0.5, seed=3)
    assert same_ids.tolist() == ids.tolist()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_dropout_needs_a_stream_for_each_text(n):
    encoder = TextEncoder("gpt2", np.arange(256, dtype=np.int32), np.empty((0, 3), np.int32), {})
    for streams in (None, np.zeros(n, np.uint64)):
        with pytest.raises(ValueError, match="dropout needs 2 streams, one for each text"):
            encoder.encode(["a", "b"], AddedTokenFinder([]), 1, 0.5, streams)


@pytest.mark.parametrize(("n", "kind"), [((1 << 31) - 1, "list"), (1 << 31, "large_list")])
def test_arrow_gets_offsets_that_hold_the_number_of_ids(tokenizer, monkeypatch, n, kind):
    class Ids:
        def __arrow_array__(self, type=None):
            return pa.nulls(n)  # so many take no memory

    monkeypatch.setattr(tokenizer, "encode_batch_to_arrays", lambda *args: (Ids(), np.array([0, n])))
    arrow = tokenizer.encode_to_arrow(["…"])
    assert str(arrow.type) == f"{kind}<item: null>"
    assert arrow.offsets.to_pylist() == [0, n]


def test_utf8_beyond_its_memory_is_refused():
    encoder = TextEncoder("gpt2", np.arange(256, dtype=np.int32), np.empty((0, 3), np.int32), {})
    for offsets in ([0, 4], [2, 1], [-1, 2]):
        with pytest.raises(ValueError, match="text 0 from"):
            encoder.encode_utf8(b"abc", np.array(offsets), AddedTokenFinder([]))


@pytest.mark.parametrize("post_processor", ["none", "bos and eos"])
def test_arrays_of_nothing(post_processor):
    for tokenizer in twins(Tokenizer(post_processor=post_processor)):
        ids, offsets = tokenizer.encode_batch_to_arrays([])
        assert (ids.shape, ids.dtype) == ((0,), np.int32)
        assert (offsets.tolist(), offsets.dtype) == ([0], np.int64)
        assert str(tokenizer.encode_to_arrow([]).type) == "list<item: int32>"
        assert len(tokenizer.encode_to_arrow([])) == 0


def test_arrays_take_iterables_and_arrow_columns():
    for tokenizer in twins(Tokenizer()):
        expected = tokenizer.encode_batch_to_arrays(["Arizona", "語"])
        column = pa.chunked_array([["Arizona"], ["語"]])
        for texts in (iter(["Arizona", "語"]), ("Arizona", "語"), column, pa.array(["Arizona", "語"])):
            found = tokenizer.encode_batch_to_arrays(texts)
            assert [a.tolist() for a in found] == [a.tolist() for a in expected]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a", 3], r"texts\[1\] is a int, not a str or UTF-8 as bytes"),
        (["a", b"b", ["c"]], r"texts\[2\] is a list"),
        (["a", bytearray(b"b")], r"texts\[1\] is a bytearray"),
        (["a", None, "b"], r"texts\[1\] is null; drop such rows, or fill them: column.fill_null\(''\)"),
        ([b"a", None], r"texts\[1\] is null"),
        ([None], r"texts\[0\] is null"),
        (pa.nulls(2), r"texts\[0\] is null"),
        (pa.array([1, 2]), r"texts\[0\] is a int"),
        (pa.array([["a"], ["b"]]), r"texts\[0\] is a list"),
        (pa.chunked_array([["a"], [], ["b", "c", None]]), r"texts\[3\] is null"),
        (pa.array(["a", None, "b"])[1:], r"texts\[0\] is null"),
        *[(pa.array(["a", "b", None], pa.string()).cast(kind), r"texts\[2\] is null") for kind in KINDS],
        (pa.DictionaryArray.from_arrays([0, 1, 0], ["a", None]), r"texts\[1\] is null"),
        ("hug", r"texts is a single str, not a batch of texts; put it into a list: \[text\]"),
        (b"hug", "texts is a single bytes"),
        (bytearray(b"hug"), "texts is a single bytearray"),
        (np.str_("hug"), "texts is a single str_"),
        ({"text": ["a"]}, "texts is a dict, not a batch of texts; give one of its columns"),
        (pa.table({"text": ["a"]}), "texts is a Table, not a batch of texts; give one of its columns"),
        (pa.record_batch({"text": ["a"]}), "texts is a RecordBatch, not a batch"),
        (3, "not iterable"),
    ],
)
def test_arrays_of_what_is_no_text_are_refused(texts, words):
    for tokenizer in twins(Tokenizer()):
        for encode in (tokenizer.encode_batch_to_arrays, tokenizer.encode_to_arrow):
            with pytest.raises(TypeError, match=words):
                encode(texts)
            with pytest.raises(TypeError, match=words):
                encode(texts, dropout=0.1)


def test_offsets_of_arrow_columns_are_not_trusted():
    """A file may say anything of where its texts begin."""
    tokenizer, _ = twins(Tokenizer())
    for inner in ([4, 3], [-1, 2], [3, 2], [1 << 30, 3], [0, -(1 << 62)]):
        buffers = [None, pa.py_buffer(np.array([0, *inner, 3], np.int64)), pa.py_buffer(b"abc")]
        column = pa.Array.from_buffers(pa.large_string(), 3, buffers)
        with pytest.raises(ValueError, match=r"text \d from"):
            tokenizer.encode_batch_to_arrays(column)


# ---- decoding


def decoded(tokenizer, ids, **options):
    try:
        return tokenizer.decode(ids, **options)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("clean_up", [False, True])
def test_decoding_random_ids(clean_up):
    added = (("é x", {}), ("Ġq", {"special": True}), ("日本", {"special": True}), ("Ã", {}))
    made = Tokenizer(added=added, settings={"clean_up_tokenization_spaces": clean_up})
    native, general = twins(made)
    rng = random.Random(0)
    for _ in range(1000):
        ids = rng.choices([*range(len(native) + 3), *[len(native) - 1] * 50, 10**6], k=rng.randrange(20))
        skip = rng.random() < 0.5
        assert decoded(native, ids, skip_special_tokens=skip) == decoded(
            general, ids, skip_special_tokens=skip
        )


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [[]],
        [[1], [2, 300]],
        [[1], 2],
        7,
        (1, 2),
        [(1, 2)],
        [True],
        [-1],
        [1 << 32],
        1 << 70,
        ["a"],
        [1.5],
        [None],
        [np.int64(5)],
        np.array([60, 61]),
        np.array([[60, 61], [62, 63]]),
        np.array([], np.int64),
        np.array(60),
        *([torch.tensor([60, 61]), torch.tensor([[60, 1], [62, 63]]), torch.tensor(60)] if torch else []),
    ],
)
def test_decoding_anything(ids):
    native, general = twins(Tokenizer())
    for options in ({}, {"skip_special_tokens": True}, {"clean_up_tokenization_spaces": True}):
        assert decoded(native, ids, **options) == decoded(general, ids, **options)


def test_ids_that_are_no_32_bit_numbers_are_refused():
    decoder = TokenDecoder({0: b"a", 2**32 - 1: b"z"})
    assert decoder.decode([0, 1, 2**32 - 2, 2**32 - 1]) == "az"
    for token_id in (-1, 2**32, 2**70):
        with pytest.raises(OverflowError):
            decoder.decode([token_id])


def test_batches_of_real_text_come_back(english_text):
    native, general = twins(Tokenizer(post_processor="bos and eos"))
    texts = [english_text[at : at + 999] for at in range(0, 200_000, 999)]
    ids = native(texts)["input_ids"]
    assert native.batch_decode(ids, skip_special_tokens=True) == texts
    assert native.batch_decode(ids) == general.batch_decode(ids)
    assert native.batch_decode(np.array(ids[0])[None]) == general.batch_decode(ids[:1])


def test_tokens_added_later_are_decoded(tokenizer):
    assert tokenizer.decode([1, len(tokenizer)]) == "<|eos|>"
    tokenizer.add_tokens([AddedToken("zona", special=True)])
    assert tokenizer.decode([1, len(tokenizer) - 1]) == "<|eos|>zona"
    assert tokenizer.decode([1, len(tokenizer) - 1], skip_special_tokens=True) == ""


def test_an_added_token_of_stand_ins_is_decoded_as_their_bytes(tokenizer):
    """As in `tokenizers`, which decodes added tokens like others."""
    tokenizer.add_tokens(["Ġnaïve"])
    ids = [len(tokenizer) - 1]
    assert tokenizer.decode(ids) == tokenizer.backend_tokenizer.decode(ids) == " na\ufffdve"


def test_another_decoder_is_the_backends(tokenizer):
    ids = tokenizer("Arizona zona")["input_ids"]
    assert tokenizer.decode(ids) == "Arizona zona"
    tokenizer.backend_tokenizer.decoder = ByteFallback()
    assert tokenizer.decode(ids) == tokenizer.backend_tokenizer.decode(ids) != "Arizona zona"


class Shouting:
    """A part of a backend written in Python, of which nothing tells what it does now."""

    def __init__(self):
        self.is_loud = False

    def normalize(self, normalized):
        if self.is_loud:
            normalized.uppercase()

    def pre_tokenize(self, pre_tokenized):
        pre_tokenized.split(lambda i, text: [text])


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer"])
def test_a_part_in_python_does_not_make_decoding_start_anew(part, monkeypatch):
    native, general = twins(Tokenizer(added=(("Zo", {"normalized": True}),)))
    ids = [*range(40, 90), len(native) - 1]
    made = []
    shown = shown_bytes
    monkeypatch.setattr(
        "hf_scaffold.native.decoding.shown_bytes", lambda *args: made.append(args) or shown(*args)
    )
    parts = []
    for tokenizer in (native, general):
        parts.append(Shouting())
        kind = {"normalizer": normalizers.Normalizer, "pre_tokenizer": pre_tokenizers.PreTokenizer}[part]
        setattr(tokenizer.backend_tokenizer, part, kind.custom(parts[-1]))
    for _ in range(5):
        assert native.decode(ids) == general.decode(ids)
    assert len(made) == 1
    for is_loud in (True, False):
        for written in parts:
            written.is_loud = is_loud
        assert native.decode(ids) == general.decode(ids)
        for tokenizer, written in zip((native, general), parts, strict=True):
            setattr(tokenizer.backend_tokenizer, part, kind.custom(written))
        for _ in range(3):
            assert native.decode(ids) == general.decode(ids)
        for tokenizer in (native, general):
            tokenizer.add_tokens([f"new{is_loud}"])
        for _ in range(3):
            assert native.decode([*ids, len(native) - 1]) == general.decode([*ids, len(native) - 1])
    assert len(made) <= 7


def test_the_fuzzer_runs_and_ends():
    path = Path(__file__).parents[1] / "fuzz_native.py"
    done = subprocess.run([sys.executable, path, "0", "7.3"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "seeds 7.3 to 7.3, 10,000 texts, 21 calls" in done.stdout
    for line in ("  way\n", "    arrays  ", "    beside the oracle  ", "  calls\n", "    offsets  "):
        assert line in done.stdout


def test_a_template_of_a_template_has_as_many_sequences_as_with_the_backend():
    template = processors.TemplateProcessing(
        single="<|bos|> $A", pair="<|bos|> $A $B:1", special_tokens=[toys.BOS]
    )
    native, general = toys.tokenizer(), toys.tokenizer(native=False)
    for tokenizer in (native, general):
        tokenizer.backend_tokenizer.post_processor = processors.Sequence([template, template])
    for text in ("hug", ["hug", "pug"]):
        found, expected = native(text), general(text)
        assert found.input_ids == expected.input_ids
        assert found.n_sequences == expected.n_sequences


def test_a_post_processor_that_the_backend_has_no_pairs_for():
    """It ends in a panic there; single texts are as good as any."""
    template = toys.POST_PROCESSORS["sequence"][1]
    native, general = (toys.tokenizer(native=native) for native in (True, False))
    for tokenizer in (native, general):
        tokenizer.backend_tokenizer.post_processor = processors.Sequence([template, template])
    for options in ({}, {"truncation": True, "max_length": 6}, {"padding": "max_length", "max_length": 20}):
        assert native("Arizona banana", **options).data == general("Arizona banana", **options).data
        with pytest.raises(BaseException, match="not yet implemented"):
            general("Arizona", "banana", **options)
        with pytest.raises(BaseException, match="not yet implemented"):
            native("Arizona", "banana", **options)
