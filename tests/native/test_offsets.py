"""Offsets, words, what overflows, and texts given in words: natively and by the Rust backend."""

import copy
import itertools
import pickle
import random
import unicodedata

import numpy as np
import pytest
import toys
from native_cases import (
    COMMON,
    ODD,
    Call,
    Tokenizer,
    describe,
    form,
    found,
    is_native,
    outcome,
    random_text,
    report,
    twins,
)
from tokenizers import Encoding, normalizers, processors

import hf_scaffold as hs
from hf_scaffold.native.encodings import NativeEncoding
from hf_scaffold.text.pre_tokenizers import PRESETS

OFFSETS = {"return_offsets_mapping": True}
OVERFLOWING = {"return_overflowing_tokens": True, "return_token_type_ids": True, **OFFSETS}
# Characters of 1 to 4 bytes that tokens split, white space of all kinds, scaffolds, added tokens.
TEXTS = [
    *["", " ", "a", "\0", "Arizona zona hug", "  hug \t\n hugs  ", "été naïve日本語🙂🙃 x", "🙂" * 5],
    *["\u3000\u00a0 a\u2028b\u0085", "<|bos|> hug<|eos|>", " <|pad|>  x", "don't 1234", "banana" * 9],
    "👩\u200d👩\u200d👧 e\u0301 Ġ Ġa",
]
ADDED = (
    ("zona", {}),
    ("[w]", {"lstrip": True, "rstrip": True}),
    (" b", {"rstrip": True}),
    ("Ġ", {"lstrip": True}),
    ("é", {"normalized": True}),
    ("\n", {"special": True}),
)


def assert_alike(twins, call, native=True):
    ours, general = (outcome(tokenizer, call) for tokenizer in twins)
    assert form(ours) == form(general), call
    if native is not None and not isinstance(general, BaseException):
        assert is_native(ours) == native, call


@pytest.mark.parametrize("post_processor", toys.POST_PROCESSORS)
@pytest.mark.parametrize("added", [(), ADDED], ids=["none added", "added"])
def test_offsets_and_words(post_processor, added):
    both = twins(Tokenizer(toys.SIZES[1], post_processor=post_processor, added=added))
    texts = [*TEXTS, *[f"{a}[w]{b}zona{a} b" for a in ("", " ", "\u3000", "x") for b in ("", "  ", "Ġ", "é")]]
    for special, split in itertools.product([True, False], repeat=2):
        options = {"add_special_tokens": special, "split_special_tokens": split, **OFFSETS}
        assert_alike(both, Call(texts, None, options))
        assert_alike(both, Call(texts, texts[::-1], options))
        assert_alike(both, Call(texts[2], None, options))


@pytest.mark.parametrize("preset", PRESETS)
def test_every_odd_character(preset):
    both = twins(Tokenizer(preset=preset))
    texts = [f"{a}{b}{c}" for a in ("zo", " ", "") for b in ODD for c in ("na", " ", "語")]
    assert_alike(both, Call([*texts, "".join(texts)], None, OFFSETS))


@pytest.mark.parametrize("name", COMMON)
@pytest.mark.parametrize("added", [(), ADDED], ids=["none added", "added"])
def test_compiled_patterns_and_prefixes(name, added):
    both = twins(Tokenizer(toys.SIZES[1], preset=name, post_processor="roberta", added=added))
    texts = [f"{a}{b}{c}" for a in ("zo", " ", "") for b in ODD for c in ("na", " ", "語")]
    for given in (TEXTS, texts, "".join(texts)):
        assert_alike(both, Call(given, None, OFFSETS))
    options = {"truncation": True, "max_length": 7, "stride": 2, **OVERFLOWING}
    assert_alike(both, Call(TEXTS, None, options))
    if not added:
        assert_alike(both, Call(WORDS, None, {"is_split_into_words": True, **OFFSETS}))


@pytest.mark.parametrize("name", ["NFC", "NFD", "NFKC", "NFKD"])
def test_what_has_its_normal_form_is_located(name):
    normalizer = getattr(normalizers, name)()
    both = twins(Tokenizer(preset="qwen2"))
    for tokenizer in both:
        tokenizer.backend_tokenizer.normalizer = normalizer
    # Composed and simple characters, with marks of all ranks after them.
    characters = [
        chr(code) for code in [*range(0x20, 0x3400), *range(0x3400, 0xD800, 50), *range(0xE000, 0x30000, 7)]
    ]
    marks = {unicodedata.combining(character): character for character in characters}
    marked = [a + b for a in "aéạắ가각ゔ🙂" for b in marks.values()]
    marked += [a + b + c for a in "aé" for b in marks.values() for c in marks.values()]
    n_native = []
    for strings in (characters, marked):
        kept = [string for string in strings if normalizer.normalize_str(string) == string]
        for i in range(0, len(kept), 100):
            call = Call("x".join(kept[i : i + 100]), None, OFFSETS)
            assert_alike(both, call, native=None)
            n_native.append(is_native(outcome(both[0], call)))
    assert sum(n_native) > 0.6 * len(n_native)
    assert_alike(both, Call(["abc", "\uff21e\u0301\u0323 가 ﬁ"], None, OFFSETS), native=False)


@pytest.mark.parametrize("trims", [True, False])
@pytest.mark.parametrize("keeps_prefix", [True, False])
@pytest.mark.parametrize("kind", [processors.ByteLevel, processors.RobertaProcessing])
@pytest.mark.parametrize("preset", ["gpt2", "prefix space"])
def test_white_space_is_trimmed_as_the_post_processor_says(trims, keeps_prefix, kind, preset):
    """Where it keeps a prefix, the first token of each row and text keeps a space."""
    framing = () if kind is processors.ByteLevel else (toys.EOS, toys.BOS)
    both = twins(Tokenizer(toys.SIZES[1], preset=preset, added=ADDED))
    for tokenizer in both:
        tokenizer.backend_tokenizer.post_processor = kind(
            *framing, trim_offsets=trims, add_prefix_space=keeps_prefix
        )
    texts = [*TEXTS, "    ", " a", "  a", "hug  hug   hug \n hug    ", "   [w]   "]
    assert_alike(both, Call(texts, None, OFFSETS))
    for side in ("right", "left"):
        for tokenizer in both:
            tokenizer.truncation_side = side
        options = {"truncation": True, "max_length": 4 + len(framing), "stride": 1, **OVERFLOWING}
        assert_alike(both, Call(texts, None, options))


def test_offsets_that_are_trimmed_after_framing_are_for_the_backend():
    both = twins(Tokenizer(post_processor="sequence"))
    for tokenizer in both:
        steps = [toys.POST_PROCESSORS["bos and eos"], processors.ByteLevel(trim_offsets=True)]
        tokenizer.backend_tokenizer.post_processor = processors.Sequence(steps)
    call = Call(TEXTS, None, OFFSETS)  # where the sequences are depends on the order of a hash map there
    ours, general = (outcome(tokenizer, call) for tokenizer in both)
    assert form(ours, False) == form(general, False)
    assert not is_native(ours)
    path = both[0].explain_path("a", return_offsets_mapping=True)
    assert path == "general: the post-processor trims offsets in ways of its own"


def test_after_a_normalizer_the_backend_knows_offsets():
    both = twins(Tokenizer(normalizer="Llama", added=ADDED[:2]))
    assert_alike(both, Call(TEXTS, None, OFFSETS), native=False)
    assert_alike(both, Call(TEXTS))
    path = both[0].explain_path("a", return_offsets_mapping=True)
    assert path == "general: offsets are asked for, and the normalizer makes more than normal forms"


def test_where_only_the_backend_finds_an_added_token_it_knows_offsets():
    both = twins(Tokenizer(added=(("zona", {"single_word": True}),)))
    assert_alike(both, Call(["a zona", "ézona"], None, OFFSETS), native=False)
    assert_alike(both, Call(["a zona", "ézona"]))  # but not ids


STRATEGIES = [True, "longest_first", "only_first", "only_second"]


@pytest.mark.parametrize("post_processor", toys.POST_PROCESSORS)
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("truncation", STRATEGIES)
def test_what_overflows(post_processor, side, truncation):
    both = twins(Tokenizer(post_processor=post_processor, settings={"truncation_side": side}))
    first, second = (
        ["Arizona zona", "hug", "", "international 12 34"],
        ["pug", "banana ana été", "a", "x y z hug"],
    )
    inputs = [
        (first, None),
        (first, second),
        ("international zone hugs", None),
        ("aaaa bb", "hug hug hug hug"),
    ]
    for (text, pair), length, stride, special in itertools.product(
        inputs, [6, 9, 12], [0, 1, 2, 4, 5], [True, False]
    ):
        options = {"truncation": truncation, "max_length": length, "stride": stride, **OVERFLOWING}
        options["add_special_tokens"] = special
        assert_alike(both, Call(text, pair, options), native=None)  # some are refused


def test_both_sequences_of_a_pair_may_overflow():
    for pieces in ("$A $B:1 <|eos|>:1", "<|bos|> $B:1 $A:2"):
        both = twins(Tokenizer())
        for tokenizer in both:
            tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
                single="$A", pair=pieces, special_tokens=[toys.BOS, toys.EOS]
            )
        options = {"truncation": True, "max_length": 7, "stride": 1, "padding": True, **OVERFLOWING}
        call = Call(["a b c d e f g h", "1"], ["h u g p u g", "1 2 3 4 5 6 7 8"], options)
        assert_alike(both, call)
        rows = both[0](call.text, call.text_pair, **options)
        assert rows["overflow_to_sample_mapping"].count(0) > 8


def test_a_template_that_frames_overflow_in_ways_of_its_own_is_for_the_backend(monkeypatch):
    monkeypatch.setattr("hf_scaffold.native.sessions.is_of_kind", lambda *args: False)
    both = twins(Tokenizer(post_processor="bert"))
    options = {"truncation": True, "max_length": 7, **OVERFLOWING}
    assert_alike(both, Call(TEXTS, None, options), native=False)
    assert_alike(both, Call(TEXTS, None, {"return_token_type_ids": True}))


@pytest.mark.parametrize("padding", [True, "max_length"])
@pytest.mark.parametrize("padding_side", ["right", "left"])
@pytest.mark.parametrize("return_tensors", [None, "np"])
@pytest.mark.parametrize("pair", [False, True])
def test_padding_and_matrices(padding, padding_side, return_tensors, pair):
    both = twins(Tokenizer(post_processor="roberta", added=ADDED))
    options = {"padding": padding, "padding_side": padding_side, "return_tensors": return_tensors}
    options |= {"truncation": "only_first", "max_length": 12, "stride": 2, **OVERFLOWING}
    options["return_special_tokens_mask"] = options["return_length"] = True
    assert_alike(both, Call(TEXTS[2:], ["hug été"] * len(TEXTS[2:]) if pair else None, options))
    assert_alike(both, Call([""], None, {"return_tensors": return_tensors, **OVERFLOWING}))
    del options["truncation"], options["return_overflowing_tokens"]
    assert_alike(both, Call([TEXTS[3], TEXTS[3]], None, {**options, "padding": False}))


def test_rows_without_ids_have_no_offsets_in_matrices():
    for return_tensors in (None, "np"):
        assert_alike(
            twins(Tokenizer()), Call(["", ""], None, {"return_tensors": return_tensors, **OVERFLOWING})
        )


@pytest.mark.parametrize("stride", [True, "1", 1.0, -1, 1 << 70, 4, 9, 10, None])
def test_strides_that_are_refused_are_so_in_the_same_words(stride):
    both = twins(Tokenizer(post_processor="bos and eos"))
    options = {"truncation": True, "max_length": 6, "stride": stride, **OVERFLOWING}
    for call in (Call("Arizona hug zona", None, options), Call("a", None, options)):
        ours, general = (form(outcome(tokenizer, call)) for tokenizer in both)
        assert ours == general


WORDS = [
    *[["Arizona", " hug", "", "été"], ["a"], [], ["", " "], ["zona zona", "<|eos|>", "日本語", "x\n"]],
    ["a", "b"],
]


@pytest.mark.parametrize("post_processor", ["none", "trimmed offsets", "roberta", "sequence"])
@pytest.mark.parametrize("added", [(), ADDED], ids=["none added", "added"])
def test_texts_in_words(post_processor, added):
    both = twins(Tokenizer(post_processor=post_processor, added=added))
    inputs = [(WORDS, None), (WORDS, WORDS[::-1]), (WORDS[0], None), (WORDS[0], WORDS[4])]
    inputs += [([(a, b) for a, b in zip(WORDS, WORDS[::-1], strict=True)], None), ([[], []], None)]
    inputs += [(tuple(WORDS[0]), ()), (WORDS[0], [])]
    for (text, pair), more in itertools.product(
        inputs, [{}, {"truncation": True, "max_length": 8, "stride": 1, "padding": True, **OVERFLOWING}]
    ):
        assert_alike(both, Call(text, pair, {"is_split_into_words": True, **OFFSETS, **more}), native=None)
    assert is_native(both[0](WORDS, is_split_into_words=True))


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        ("a b", None),
        (["a", 1], None),
        ([["a"], "b"], None),
        ([["a"], [["b"], ["c"]]], None),
        ([["a"]], ["b"]),
        ([["a"]], [["b"], ["c"]]),
        (["a"], "b"),
        ([(["a"], "b")], None),
        (3, None),
    ],
)
def test_what_is_not_in_words_is_refused_in_the_same_words(text, pair):
    assert_alike(twins(Tokenizer()), Call(text, pair, {"is_split_into_words": True}), native=False)


def test_words_changed_after_the_call_do_not_change_its_encodings():
    tokenizer = toys.tokenizer()
    batch = [["hug", "hug"], ["zona"]]
    encoded = tokenizer(batch, is_split_into_words=True)
    batch[0][0] = "something else"
    batch[1].append("more")
    assert encoded.tokens(0) == ["hug", "hug"]
    assert len(encoded.encodings[1].overflowing) == 0
    assert encoded.encodings[1].made.tokens == encoded.tokens(1)


@pytest.mark.parametrize("words", [False, True])
def test_under_dropout_the_ids_that_were_drawn_are_located(words):
    tokenizer = toys.tokenizer(toys.trained(toys.SIZES[1]), post_processor="roberta")
    text = WORDS if words else TEXTS
    options = {"is_split_into_words": words, "dropout": 0.5, "seed": 3, **OFFSETS}
    encoded = tokenizer(text, **options)
    assert is_native(encoded)
    for i, encoding in enumerate(encoded.encodings):
        assert encoding.ids == encoded["input_ids"][i]
        assert encoding.offsets == encoded["offset_mapping"][i]
        ours = describe(encoding), found(encoding)
        made = encoded.encodings.made[i]
        assert ours == (describe(made), found(made))


# ---- encodings


@pytest.fixture
def encoding():
    tokenizer = toys.tokenizer(post_processor="bos and eos")
    encoded = tokenizer(["Arizona zona", "hug"], ["été", "a b"], padding=True)
    [encoding, _] = encoded.encodings
    assert type(encoding) is NativeEncoding
    return encoding


def test_an_encoding_that_is_changed_is_the_backends(encoding):
    ids = encoding.ids
    encoding.truncate(4)
    assert encoding.ids == ids[:4]
    assert len(encoding) == len(encoding.offsets) == len(encoding.sequence_ids) == 4
    assert encoding.token_to_chars(5) is None
    assert isinstance(encoding.overflowing[0], Encoding)
    assert repr(encoding).startswith("Encoding(num_tokens=4")


def test_lists_belong_to_the_caller(encoding):
    for name in ("ids", "offsets", "word_ids", "sequence_ids", "tokens", "type_ids", "attention_mask"):
        getattr(encoding, name).clear()
        assert len(getattr(encoding, name)) == len(encoding)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_is_an_encoding(encoding, copied):
    expected = describe(encoding)
    other = copied(encoding)
    assert type(other) is Encoding
    assert describe(other) == expected


@pytest.mark.parametrize(
    "arguments",
    [(-1,), ("a",), (1.5,), (1 << 70,), (0, 7), (0, -1), (np.int64(1),), (True,), (None,), (2, 1)],
)
def test_odd_places_are_for_the_backend(arguments):
    """It finds nothing there, or refuses them."""
    encodings = [t("hug zona", "a b").encodings[0] for t in twins(Tokenizer(post_processor="bos and eos"))]
    names = ["char_to_token", "char_to_word", "word_to_tokens", "word_to_chars"]
    if len(arguments) == 1:
        names += ["token_to_chars", "token_to_word", "token_to_sequence"]
    for name in names:
        ours, expected = (found_or_refused(encoding, name, arguments) for encoding in encodings)
        assert ours == expected, name


def found_or_refused(encoding, name, arguments):
    try:
        return getattr(encoding, name)(*arguments)
    except (OverflowError, TypeError) as error:
        return type(error), str(error)


def test_an_encoder_locates_as_the_tokenizer_does(tmp_path):
    rng = random.Random(5)
    made = Tokenizer(toys.SIZES[1], preset="gpt2", added=ADDED)
    tokenizer = made.made()
    tokenizer.save_pretrained(tmp_path)
    tokenizer.native = False
    encoder = hs.Encoder.from_pretrained(tmp_path)
    assert encoder.why_general is None
    for text in [*TEXTS, *(random_text(rng, made) for _ in range(100))]:
        expected = tokenizer(text)
        located = encoder.encode_with_offsets(text, allowed_special="all")
        assert located.ids == expected["input_ids"], report(made, Call(text))
        assert located.offsets == expected.encodings[0].offsets
        assert located.word_ids == expected.encodings[0].word_ids
