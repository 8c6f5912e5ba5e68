"""Every public name of a tokenizer and of BatchEncoding, on texts whose encoding holds demolished tokens.

Plain BPE over the public vocabulary happens to encode these texts as Scaffold-BPE does. So a stock tokenizer
knows every right answer, and each name is asked of both.
"""

import copy
import json
import pickle
from operator import attrgetter

import numpy as np
import oracle
import pytest
import toys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_tokenizer import describe, plain
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import DecodeStream
from transformers import BatchEncoding, PreTrainedTokenizerFast
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils import PaddingStrategy, TensorType

from hf_scaffold.native.encodings import LazyEncodings
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

SIZE = 282
TEXT = "zona ernat bana téz"
PAIR = "ationa <|eos|> Ariz"
LONG = " ".join([TEXT] * 8)
MESSAGES = [
    {"role": "user", "content": "zona ernat"},
    {"role": "assistant", "content": "bana téz<|eos|>"},
    {"role": "user", "content": "ationa"},
]
TEMPLATE = (
    "{% for m in messages %}{{ m['role'] }}: {% generation %}{{ m['content'] }}{% endgeneration %}"
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
REPLY = {"start_anchor": "assistant: ", "fields": {"content": {"close": "<|eos|>"}}}
MADE = {"post_processor": "bos and eos", "chat_template": TEMPLATE, "response_template": REPLY}


def both(**options):
    """Ours, and a stock tokenizer over the same public vocabulary."""
    result = toys.trained(SIZE)
    made = {**MADE, **options}
    return toys.tokenizer(result, **made), toys.tokenizer(result, PreTrainedTokenizerFast, **made)


def comparable(value):
    """Everything a name may return, in a form that compares; classes, but for the tokenizer's, included."""
    if isinstance(value, str):
        return value.replace("ScaffoldTokenizerFast", "TokenizersBackend")
    if isinstance(value, BatchEncoding):
        return comparable([value.data, value.encodings, value.n_sequences])
    if hasattr(value, "word_ids") and hasattr(value, "overflowing"):
        return describe(value)
    if hasattr(value, "tolist"):
        return type(value), plain(value)
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    if isinstance(value, LazyEncodings):
        value = list(value)
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [comparable(item) for item in value]
    if isinstance(value, Tokenizer) or type(value).__module__.startswith("tokenizers."):
        return type(value), str(value)
    return value


def answer(ask, subject):
    try:
        return comparable(ask(subject))
    except BaseException as error:  # what stock refuses is to be refused alike; its panics are no Exceptions
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        return type(error), comparable(str(error))


def assert_same(ask, ours, stock):
    expected = answer(ask, stock)
    assert answer(ask, ours) == expected


def test_every_text_has_demolished_tokens_and_a_stock_tokenizer_that_agrees():
    ours, stock = both()
    result = toys.trained(SIZE)
    for text in (TEXT, PAIR.replace("<|eos|>", ""), *(message["content"] for message in MESSAGES)):
        words = [oracle.scaffolding(part, result.merges) for part in toys.split(text)]
        assert any(result.scaffolds & {*tokens} for tokens in words)
    for text in (TEXT, PAIR, LONG):
        assert ours(text).data == stock(text).data


# ---- the tokenizer: what is read

READ = """
    SPECIAL_TOKENS_ATTRIBUTES add_bos_token add_eos_token add_prefix_space added_tokens_decoder
    added_tokens_encoder all_special_ids all_special_tokens backend chat_control_tokens chat_template
    clean_up_tokenization_spaces clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output
    decoder deprecation_warnings extra_special_tokens extra_special_tokens_ids files_loaded init_inputs
    init_kwargs is_fast max_len_sentences_pair max_len_single_sentence model model_input_names name_or_path
    model_max_length
    pad_token_type_id padding_side pretrained_vocab_files_map response_template slow_tokenizer_class
    special_tokens_map split_special_tokens truncation_side verbose vocab vocab_size
    bos_token bos_token_id eos_token eos_token_id unk_token unk_token_id sep_token sep_token_id
    pad_token pad_token_id cls_token cls_token_id mask_token mask_token_id image_token image_token_id
    __len__ __bool__ __repr__
"""


@pytest.mark.parametrize("name", READ.split())
def test_what_is_read_is_stocks(name):
    ask = (lambda t: getattr(t, name)()) if name.startswith("__") else attrgetter(name)
    assert_same(ask, *both())
    assert_same(ask, *both(extra_special_tokens=["zona"], image_token="<|image|>", model_max_length=9))
    assert_same(ask, *map(copy.copy, both()))


# ---- the tokenizer: what is called

TENSORS = {"return_tensors": "np"}
SPLIT = {"is_split_into_words": True}
CALLED = {
    "add_special_tokens": [
        lambda t: (t.add_special_tokens({"sep_token": "zona", "extra_special_tokens": ["é"]}), t(TEXT)),
        lambda t: t.add_special_tokens({"my_token": "x"}),
        lambda t: (t.add_special_tokens({"pad_token": "<|eos|>"}), t([TEXT, PAIR], padding=True)),
    ],
    "add_tokens": [
        lambda t: (t.add_tokens(["zona", AddedToken("ernat", lstrip=True)]), t(TEXT), t.get_added_vocab()),
        lambda t: (t.add_tokens("té", special_tokens=True), t(TEXT), t.decode(t.encode(TEXT), True)),
        lambda t: t.add_tokens(["banana", "<|eos|>", ""]),
    ],
    "apply_chat_template": [
        lambda t: t.apply_chat_template(MESSAGES),
        lambda t: t.apply_chat_template(MESSAGES, tokenize=False, add_generation_prompt=True),
        lambda t: t.apply_chat_template([MESSAGES, MESSAGES[:1]], padding=True, **TENSORS),
        lambda t: t.apply_chat_template(MESSAGES, truncation=True, max_length=9, return_dict=False),
        lambda t: t.apply_chat_template(MESSAGES, return_assistant_tokens_mask=True),
        lambda t: t.apply_chat_template([MESSAGES] * 2, return_assistant_tokens_mask=True, **TENSORS),
        lambda t: t.apply_chat_template(MESSAGES, tokenizer_kwargs={"return_offsets_mapping": True}),
        lambda t: t.apply_chat_template(MESSAGES[:2], continue_final_message=True),
        lambda t: t.apply_chat_template(MESSAGES, sanitize_control_tokens=True),
        lambda t: t.apply_chat_template([MESSAGES] * 2, sanitize_control_tokens=True, padding=True),
        lambda t: t.apply_chat_template([]),
    ],
    "batch_decode": [
        lambda t: t.batch_decode(t([TEXT, LONG])["input_ids"]),
        lambda t: t.batch_decode(t([TEXT, PAIR], padding=True, **TENSORS)["input_ids"], True),
        lambda t: t.batch_decode(t(TEXT)["input_ids"]),
    ],
    "clean_up_tokenization": [lambda t: t.clean_up_tokenization(TEXT + " , n't")],
    "convert_added_tokens": [
        lambda t: t.convert_added_tokens(AddedToken("zona"), save=True),
        lambda t: t.convert_added_tokens([{"__type": "AddedToken", "content": "zona"}]),
    ],
    "convert_ids_to_tokens": [
        lambda t: t.convert_ids_to_tokens(t(TEXT)["input_ids"]),
        lambda t: t.convert_ids_to_tokens(t(PAIR)["input_ids"], skip_special_tokens=True),
        lambda t: t.convert_ids_to_tokens(np.array(t(TEXT)["input_ids"])),
        lambda t: t.convert_ids_to_tokens([len(t), 1 << 31]),
        lambda t: t.convert_ids_to_tokens(4),
        lambda t: t.convert_ids_to_tokens(-1),
    ],
    "convert_tokens_to_ids": [
        lambda t: t.convert_tokens_to_ids(t(LONG).tokens()),
        lambda t: t.convert_tokens_to_ids(["zona", "banana", "no such token"]),
        lambda t: t.convert_tokens_to_ids("zona"),
        lambda t: (setattr(t, "unk_token", "<|pad|>"), t.convert_tokens_to_ids(["zona", "z"])),
    ],
    "convert_tokens_to_string": [
        lambda t: t.convert_tokens_to_string(t.tokenize(LONG)),
        lambda t: t.convert_tokens_to_string([]),
    ],
    "decode": [
        lambda t: t.decode(t(LONG)["input_ids"]),
        lambda t: t.decode(t([TEXT, PAIR])["input_ids"], skip_special_tokens=True),
        lambda t: t.decode(t(TEXT, **TENSORS)["input_ids"]),
        lambda t: t.decode(np.array(t(TEXT)["input_ids"]), clean_up_tokenization_spaces=True),
        lambda t: t.decode(t("zona , bana")["input_ids"], clean_up_tokenization_spaces=True),
        lambda t: t.decode(t(TEXT)),
        lambda t: [t.decode([]), t.decode(7), t.decode([[]]), t.decode(np.int64(7))],
        lambda t: t.decode([len(t), 1 << 31]),
        lambda t: t.decode([-1]),
    ],
    "encode": [
        lambda t: t.encode(TEXT),
        lambda t: t.encode(TEXT, PAIR, add_special_tokens=False),
        lambda t: t.encode(TEXT.split(), **SPLIT),
        lambda t: t.encode([TEXT, PAIR]),
        lambda t: t.encode(LONG, truncation=True, max_length=7, padding="max_length", padding_side="left"),
        lambda t: t.encode(TEXT, **TENSORS),
        lambda t: t.encode(TEXT, max_length=4),
        lambda t: t.encode([5, 6]),
    ],
    "encode_message_with_chat_template": [
        lambda t: t.encode_message_with_chat_template(MESSAGES[0]),
        lambda t: t.encode_message_with_chat_template(MESSAGES[1], MESSAGES[:1]),
        lambda t: t.encode_message_with_chat_template(MESSAGES[0], add_generation_prompt=True),
    ],
    "get_added_vocab": [lambda t: t.get_added_vocab()],
    "get_chat_template": [
        lambda t: t.get_chat_template(),
        lambda t: t.get_chat_template("{{ messages }}"),
        lambda t: (setattr(t, "chat_template", {"a": "x", "b": "y"}), t.get_chat_template()),
    ],
    "get_response_parser": [
        lambda t: (parser := t.get_response_parser(prefix=t.encode("assistant: ")))
        and [parser.feed(piece) for piece in ("zona ", "ernat<|eos|>")] + [parser.finalize()],
        lambda t: t.get_response_parser(),
    ],
    "get_special_tokens_mask": [
        lambda t: t.get_special_tokens_mask(t(PAIR)["input_ids"], already_has_special_tokens=True),
        lambda t: t.get_special_tokens_mask(t(PAIR)["input_ids"]),
        lambda t: t.get_special_tokens_mask([1], [2], already_has_special_tokens=True),
    ],
    "get_vocab": [lambda t: t.get_vocab(), lambda t: (t.add_tokens("zona"), t.get_vocab()["zona"])],
    "num_special_tokens_to_add": [
        lambda t: [t.num_special_tokens_to_add(), t.num_special_tokens_to_add(pair=True)]
    ],
    "pad": [
        lambda t: t.pad(t([TEXT, PAIR])),
        lambda t: t.pad([t(TEXT), t(PAIR)], padding="max_length", max_length=32),
        lambda t: t.pad([{"input_ids": t.encode(s)} for s in (TEXT, "")], pad_to_multiple_of=8, **TENSORS),
        lambda t: t.pad(t(TEXT), padding="max_length", max_length=40, padding_side="left"),
        lambda t: t.pad(t([TEXT, PAIR], return_token_type_ids=True, return_special_tokens_mask=True)),
        lambda t: t.pad(t(TEXT, **TENSORS), pad_to_multiple_of=16, return_attention_mask=False),
        lambda t: t.pad({"input_ids": t(LONG)["input_ids"]}, padding=False),
        lambda t: t.pad({"ids": [1]}),
        lambda t: t.pad({"input_ids": ["zona"]}),
        lambda t: t.pad({"input_ids": []}, return_attention_mask=True),
        lambda t: t.pad(t([TEXT, PAIR]), padding_side="up"),
    ],
    "parse_response": [
        lambda t: t.parse_response(t("zona ernat<|eos|>")["input_ids"], prefix="assistant: "),
        lambda t: t.parse_response(["bana téz<|eos|>", "ationa<|eos|>"], prefix=t.encode("assistant: ")),
        lambda t: t.parse_response("zona"),
    ],
    "set_truncation_and_padding": [
        lambda t: (
            t.set_truncation_and_padding(
                PaddingStrategy.MAX_LENGTH, TruncationStrategy.LONGEST_FIRST, 9, 1, None, "left"
            ),
            t.backend_tokenizer.truncation,
            t.backend_tokenizer.padding,
            t(LONG),  # a call's own settings hold, none here
        ),
    ],
    "tokenize": [
        lambda t: t.tokenize(TEXT),
        lambda t: t.tokenize(TEXT, PAIR),
        lambda t: t.tokenize(TEXT, pair=PAIR, add_special_tokens=True),
        lambda t: t.tokenize(PAIR, split_special_tokens=True),
        lambda t: t.tokenize(TEXT.split(), **SPLIT),
        lambda t: t.tokenize(None),
    ],
    "update_post_processor": [
        lambda t: (t.update_post_processor(), t(TEXT, PAIR)),
        lambda t: (setattr(t, "add_bos_token", True), t(TEXT, PAIR), t.backend_tokenizer.post_processor),
        lambda t: (setattr(t, "add_eos_token", True), t([TEXT, LONG], padding=True)),
        lambda t: (setattr(t, "bos_token", None), setattr(t, "add_bos_token", True), t.add_bos_token),
    ],
    "__call__": [
        lambda t: t(TEXT, text_target=PAIR),
        lambda t: t(text_target=[TEXT, LONG], padding=True, **TENSORS),
        lambda t: t(TEXT, text_target=LONG, text_pair_target=PAIR, max_target_length=9, truncation=True),
        lambda t: t(),
        lambda t: t([TEXT, LONG], tokenizer_kwargs={"padding": "max_length", "max_length": 64}),
        lambda t: t(TEXT, padding=PaddingStrategy.MAX_LENGTH, max_length=32),
        lambda t: t(TEXT, return_tensors=TensorType.NUMPY, return_length=True),
        lambda t: t(LONG, PAIR, truncation=TruncationStrategy.ONLY_FIRST, max_length=16),
        lambda t: (setattr(t, "model_max_length", 5), t(LONG), t.deprecation_warnings),
        lambda t: (setattr(t, "model_max_length", 5), t(LONG, truncation=True, padding="max_length")),
        lambda t: t([LONG, TEXT], [PAIR, PAIR], truncation="only_first", max_length=20, stride=3,
                    return_overflowing_tokens=True, return_offsets_mapping=True),
        lambda t: t(LONG, truncation=True, max_length=12, truncation_side="left"),
        lambda t: t(LONG, no_such_option=1),
        lambda t: t([TEXT, LONG], **TENSORS),
        lambda t: t(PAIR, split_special_tokens=True),
        lambda t: t(TEXT, return_tensors="no such kind"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLED)
def test_what_is_called_answers_as_stock(name):
    for ask in CALLED[name]:
        assert_same(ask, *both())


# ---- the tokenizer: what is set, by an attribute or at the start

SET = [
    ("bos_token", "<|pad|>"),
    ("bos_token_id", 1),
    ("eos_token", AddedToken("zona")),
    ("pad_token", "<|eos|>"),
    ("pad_token", None),
    ("pad_token_id", 0),
    ("mask_token", "é"),
    ("mask_token", 3),
    ("extra_special_tokens", ["<|pad|>"]),
    ("extra_special_tokens", "<|pad|>"),
    ("extra_special_tokens_ids", [4]),
    ("padding_side", "left"),
    ("truncation_side", "left"),
    ("model_max_length", 6),
    ("max_len_single_sentence", 3),
    ("max_len_sentences_pair", 3),
    ("model_input_names", ["input_ids", "token_type_ids"]),
    ("split_special_tokens", True),
    ("clean_up_tokenization_spaces", True),
    ("add_bos_token", True),
    ("add_eos_token", True),
    ("chat_template", "{{ messages[0].content }}"),
    ("chat_control_tokens", ["zona"]),
    ("verbose", True),
    ("name_or_path", "zona"),
    ("vocab_size", 3),
]


def use(tokenizer):
    """Calls that show any setting."""
    yield tokenizer([TEXT, PAIR], [PAIR, LONG], padding=tokenizer.pad_token is not None, truncation=True)
    yield tokenizer(LONG, truncation=True, max_length=12)
    yield tokenizer.apply_chat_template(MESSAGES)
    yield tokenizer.decode(tokenizer.encode(TEXT + " , <|eos|>"), skip_special_tokens=True)
    yield repr(tokenizer)
    yield tokenizer.all_special_tokens


@pytest.mark.parametrize(("name", "value"), SET)
def test_what_is_set_counts_as_in_stock(name, value):
    assert_same(lambda t: (setattr(t, name, value), *use(t)), *both())


@pytest.mark.parametrize(
    "options",
    [
        {"split_special_tokens": True},
        {"padding_side": "left", "truncation_side": "left", "model_max_length": 16},
        {"padding_side": "up"},
        {"truncation_side": "up"},
        {"clean_up_tokenization_spaces": True},
        {
            "clean_up_tokenization_spaces": True,
            "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True,
        },
        {"model_input_names": ["input_ids"]},
        {"extra_special_tokens": ["zona", AddedToken("ernat", lstrip=True)]},
        {"extra_special_tokens": {"image_token": "zona"}},
        {"extra_special_tokens": "zona"},
        {"additional_special_tokens": ["zona"]},
        {"image_token": "zona"},
        {"chat_template": [{"name": "default", "template": "{{ messages[0].content }}"}]},
        {"chat_control_tokens": "zona"},
        {"add_bos_token": True, "add_eos_token": True, "post_processor": "none"},
        {"add_prefix_space": True},
        {"tokenizer_padding": {"length": 20, "pad_token": "<|eos|>", "pad_id": 1, "direction": "left"}},
        {
            "tokenizer_truncation": {
                "max_length": 9,
                "direction": "left",
                "stride": 2,
                "strategy": "only_first",
            }
        },
        {"max_len": 12},
        {"pad_token": 3},
        {"tokenize": True},
        {"verbose": True},
    ],
    ids=lambda options: ", ".join(options),
)
def test_what_is_given_at_the_start_counts_as_in_stock(options):
    expected = answer(lambda made: list(use(both(**made)[1])), options)
    assert answer(lambda made: list(use(both(**made)[0])), options) == expected


# ---- the tokenizer: what is ours


def test_scaffold_strings_are_unknown_tokens():
    tokenizer = both()[0]
    scaffolds = sorted(toys.trained(SIZE).scaffolds)
    assert not tokenizer.get_vocab().keys() & set(scaffolds)
    assert tokenizer.convert_tokens_to_ids(scaffolds) == [None] * len(scaffolds)
    tokenizer.unk_token = "<|pad|>"
    assert tokenizer.convert_tokens_to_ids(scaffolds) == [2] * len(scaffolds)


def test_streams_decode_as_a_whole():
    tokenizer = both()[0]
    stream = DecodeStream(skip_special_tokens=True)
    ids = tokenizer(LONG)["input_ids"]
    assert "".join(stream.step(tokenizer.backend_tokenizer, i) or "" for i in ids) == LONG


def test_save_vocabulary_writes_the_scaffold(tmp_path):
    tokenizer = both()[0]
    assert tokenizer.vocab_files_names == {
        "tokenizer_file": "tokenizer.json",
        "scaffold_file": "scaffold.json",
    }
    (path,) = tokenizer.save_vocabulary(str(tmp_path), filename_prefix="x")
    assert path == str(tmp_path / "x-scaffold.json")
    assert json.loads((tmp_path / "x-scaffold.json").read_bytes()) == tokenizer.scaffold
    assert tokenizer.can_save_slow_tokenizer is False


def test_saved_and_loaded_every_call_answers_as_before(tmp_path):
    tokenizer = both()[0]
    tokenizer.save_pretrained(tmp_path)
    loaded = ScaffoldTokenizerFast.from_pretrained(tmp_path)
    for ask in (ask for name in ("__call__", "pad", "apply_chat_template", "decode") for ask in CALLED[name]):
        assert_same(ask, loaded, both()[0])


def test_chat_templates_are_saved_as_in_stock(tmp_path):
    for tokenizer, folder in zip(both(chat_template={"default": "a", "b": "{{ c }}"}), "ab", strict=True):
        (tmp_path / folder).mkdir()
        tokenizer.save_chat_templates(str(tmp_path / folder), {}, None, True)
    found, expected = (
        {str(p.relative_to(tmp_path / folder)): p.read_text() for p in (tmp_path / folder).rglob("*.jinja")}
        for folder in "ab"
    )
    assert found == expected == {"chat_template.jinja": "a", "additional_chat_templates/b.jinja": "{{ c }}"}


def test_it_can_be_registered_for_another_auto_class(monkeypatch, tmp_path):
    monkeypatch.setattr(ScaffoldTokenizerFast, "_auto_class", None)
    with pytest.raises(ValueError, match="AutoNothing is not a valid auto class"):
        ScaffoldTokenizerFast.register_for_auto_class("AutoNothing")
    ScaffoldTokenizerFast.register_for_auto_class()
    both()[0].save_pretrained(tmp_path)
    assert ScaffoldTokenizerFast.from_pretrained(tmp_path)(TEXT).data == both()[0](TEXT).data


def test_the_start_has_no_parameter_that_init_kwargs_lack():
    """Libraries read the parameters of a tokenizer class, and look each up in init_kwargs."""
    tokenizer = both()[0]
    assert not {"scaffold", "scaffold_file"} & tokenizer.init_kwargs.keys()


OURS = {
    "backend_tokenizer": "the raw-safe model: tokenizer/test_tokenizer.py",
    "can_save_slow_tokenizer": "test_save_vocabulary_writes_the_scaffold",
    "convert_to_native_format": "loading, test_saved_and_loaded_every_call_answers_as_before",
    "from_pretrained": "loading, test_saved_and_loaded_every_call_answers_as_before",
    "push_to_hub": "save_pretrained(push_to_hub=True) and push_to_hub share one way",
    "register_for_auto_class": "test_it_can_be_registered_for_another_auto_class",
    "save_chat_templates": "test_chat_templates_are_saved_as_in_stock",
    "save_pretrained": "test_saved_and_loaded_every_call_answers_as_before",
    "save_vocabulary": "test_save_vocabulary_writes_the_scaffold",
    "train_new_from_iterator": "tokenizer/test_retrain.py",
    "vocab_files_names": "test_save_vocabulary_writes_the_scaffold",
}


def public_names(subject):
    return {name for name in dir(subject) if not name.startswith("_")}


def test_no_public_name_of_the_tokenizer_is_left_out():
    new = public_names(both()[1]) - {*READ.split(), *CALLED, *OURS}
    assert not new, f"transformers has names nobody has looked at here: {sorted(new)}"


GONE = """
    as_target_tokenizer batch_encode_plus build_inputs_with_special_tokens encode_plus prepare_for_model
    create_token_type_ids_from_sequences prepare_for_tokenization prepare_seq2seq_batch
    sanitize_special_tokens special_tokens_map_extended truncate_sequences
"""


@pytest.mark.parametrize("name", GONE.split())
def test_what_stock_no_longer_has_is_refused_by_name(name):
    ours, stock = both()
    if hasattr(stock, name):
        assert_same(lambda t: getattr(t, name)(t.encode(TEXT)), ours, stock)
    else:
        with pytest.raises(AttributeError, match=f"ScaffoldTokenizerFast has no attribute {name}"):
            getattr(ours, name)


# ---- BatchEncoding

BATCHES = {
    "one": lambda t: t(TEXT),
    "pair": lambda t: t(TEXT, PAIR, return_token_type_ids=True),
    "batch": lambda t: t([TEXT, "", LONG], return_offsets_mapping=True),
    "padded": lambda t: t([TEXT, LONG], [PAIR, TEXT], padding=True, padding_side="left"),
    "overflowing": lambda t: t(
        [LONG, TEXT], truncation=True, max_length=20, stride=4, return_overflowing_tokens=True
    ),
    "words": lambda t: t([TEXT.split(), ["zona", "", "ernat bana"]], **SPLIT),
    "arrays": lambda t: t([TEXT, LONG], padding=True, **TENSORS),
}  # fmt: skip
POSITIONS = (0, 1, 5, -1, -2, 17, 400)


def lookups(name):
    """Asks a method about positions in and out of range, in all its forms."""
    forms = [
        lambda e, i: getattr(e, name)(i),
        *(lambda e, i, b=b: getattr(e, name)(b, i) for b in (0, 1, -1, 7)),
    ]
    if name in {"word_to_tokens", "char_to_token", "word_to_chars", "char_to_word"}:
        forms += [lambda e, i, s=s: getattr(e, name)(0, i, sequence_index=s) for s in (0, 1, 2)]
    return [lambda e, form=form, i=i: form(e, i) for form in forms for i in POSITIONS]


def taken(batch, change):
    change(batch)
    return batch


ASKED = {
    "tokens": [lambda e: e.tokens(), lambda e: e.tokens(1), lambda e: e.tokens(-1), lambda e: e.tokens(7)],
    "word_ids": [lambda e: e.word_ids(), lambda e: e.word_ids(1), lambda e: e.word_ids(batch_index=-1)],
    "sequence_ids": [lambda e: e.sequence_ids(), lambda e: e.sequence_ids(1)],
    **{
        name: lookups(name)
        for name in (
            "token_to_sequence", "token_to_word", "token_to_chars",
            "word_to_tokens", "word_to_chars", "char_to_token", "char_to_word",
        )
    },
    "encodings": [lambda e: e.encodings, lambda e: [len(encoding) for encoding in e.encodings]],
    "is_fast": [lambda e: e.is_fast],
    "n_sequences": [lambda e: e.n_sequences],
    "items": [lambda e: dict(e.items())],
    "keys": [lambda e: list(e.keys())],
    "values": [lambda e: list(e.values())],
    "get": [lambda e: e.get("input_ids"), lambda e: e.get("labels", 3)],
    "pop": [lambda e: (e.pop("input_ids"), e), lambda e: e.pop("labels")],
    "popitem": [lambda e: (e.popitem(), e)],
    "setdefault": [lambda e: (e.setdefault("labels", e["input_ids"]), e)],
    "update": [lambda e: taken(e, lambda e: e.update(labels=e["input_ids"]))],
    "clear": [lambda e: taken(e, lambda e: e.clear())],
    "copy": [lambda e: e.copy(), copy.copy, lambda e: copy.deepcopy(e).encodings],
    "fromkeys": [lambda e: type(e).fromkeys(["input_ids"], e["input_ids"])],
    "convert_to_tensors": [
        lambda e: e.convert_to_tensors("np"),
        lambda e: e.convert_to_tensors("np", prepend_batch_axis=True),
        lambda e: e.convert_to_tensors(),
        lambda e: e.convert_to_tensors("no such kind"),
    ],
    "__getitem__": [
        lambda e: e["input_ids"], lambda e: e[0], lambda e: e[-1], lambda e: e[0:1], lambda e: e[7],
        lambda e: e["labels"], lambda e: e[0].ids + e[0].ids, lambda e: e[0].char_to_token(4),
    ],
    "__getattr__": [lambda e: e.input_ids, lambda e: e.labels],
    "__contains__": [lambda e: ["input_ids" in e, "labels" in e], lambda e: [*e], lambda e: len(e)],
    "__repr__": [repr, lambda e: repr(e.encodings[0])],
    "__reduce__": [lambda e: vars(pickle.loads(pickle.dumps(e)))],
    "__or__": [lambda e: e | {"labels": 3}],
}  # fmt: skip


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("name", ASKED)
def test_batch_encodings_answer_as_in_stock(kind, name):
    ours, stock = map(BATCHES[kind], both())
    for ask in ASKED[name]:
        assert_same(ask, *copied(ours, stock))


def copied(*batches):
    """Batches to change, with encodings that may not have been computed yet."""
    return [taken(copy.copy(batch), lambda b: setattr(b, "data", dict(b.data))) for batch in batches]


def test_no_public_name_of_batch_encoding_is_left_out():
    new = public_names(BatchEncoding) - ASKED.keys() - {"to"}  # which needs torch: models/test_tensors.py
    assert not new, f"transformers has names nobody has looked at here: {sorted(new)}"


ENCODING_CHANGES = {
    "truncate": lambda e: e.truncate(3),
    "truncate with stride": lambda e: e.truncate(5, stride=2, direction="left"),
    "pad": lambda e: e.pad(40, pad_id=2, pad_token="<|pad|>"),
    "set_sequence_id": lambda e: e.set_sequence_id(1),
}


@pytest.mark.parametrize("change", ENCODING_CHANGES)
def test_encodings_can_be_changed_in_place(change):
    ours, stock = (tokenizer(TEXT)[0] for tokenizer in both())
    for encoding in (ours, stock):
        ENCODING_CHANGES[change](encoding)
    assert describe(ours) == describe(stock)
    assert len(ours) == len(stock)


# ---- any combination of settings and calls

SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "padding_side": st.sampled_from(["left", "right"]),
        "truncation_side": st.sampled_from(["left", "right"]),
        "model_max_length": st.sampled_from([8, 30]),
        "split_special_tokens": st.booleans(),
        "add_bos_token": st.just(True),
        "post_processor": st.sampled_from(list(toys.POST_PROCESSORS)),
        "model_input_names": st.sampled_from([["input_ids"], ["input_ids", "token_type_ids"]]),
    },
)
ASKS = st.lists(
    st.sampled_from([ask for name in ("__call__", "encode", "pad", "tokenize") for ask in CALLED[name]])
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(SETTINGS, ASKS)
def test_calls_after_one_another_answer_as_stock(options, asks):
    ours, stock = both(**options)
    for ask in asks:
        assert_same(ask, ours, stock)


# ---- the questions


def is_refusal(found):
    return isinstance(found, tuple) and isinstance(found[0], type) and issubclass(found[0], BaseException)


def test_no_name_is_only_asked_what_stock_refuses():
    """Written for the newest transformers: older ones lack some names and arguments."""
    stock = both()[1]
    batch = BATCHES["batch"](stock)
    refused = {name for name, asks in CALLED.items() if all(is_refusal(answer(a, both()[1])) for a in asks)}
    refused |= {
        name for name, asks in ASKED.items() if all(is_refusal(answer(a, *copied(batch))) for a in asks)
    }
    assert refused <= {"to"}  # for which torch may be missing
