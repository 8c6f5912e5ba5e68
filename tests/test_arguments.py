"""Arguments that can't be right are refused at once, by name; those that are right work in any spelling."""

import copy
import io
import json
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from tokenizers import AddedToken
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoTokenizer

import hf_scaffold as hs

TEXTS = ["Arizona zone banana hugs pugs buns"] * 9
LIMIT = "ids are 32-bit"


@pytest.fixture(scope="module")
def counts():
    return hs.count(TEXTS)


def unread():
    """A corpus that no one may touch."""
    raise AssertionError("the corpus was read")
    yield ""


# ---- numbers of NumPy


def test_numbers_of_numpy_are_as_good_as_pythons(counts, tmp_path):
    numbers = {"min_frequency": 2, "limit_alphabet": 300, "max_token_length": 5}
    expected = hs.train(counts, 264, **numbers)
    for kind in (np.int64, np.uint16, np.int32):
        made = hs.train(counts, kind(264), **{name: kind(value) for name, value in numbers.items()})
        assert made == expected
        made.save(tmp_path)
        assert hs.ScaffoldBPE.load(tmp_path) == expected
        assert json.dumps(made.training) == json.dumps(expected.training)
    assert hs.train_sizes(counts, np.array([260, 264])) == hs.train_sizes(counts, [260, 264])
    assert hs.train(counts, np.array(264)) == hs.train(counts, 264)
    assert hs.train(counts, 264, scaffold=np.True_) == hs.train(counts, 264)


def test_tokenizers_trained_with_them_can_be_saved(tmp_path):
    made = hs.train_tokenizer(
        TEXTS, np.int64(264), min_frequency=np.int64(2), model_max_length=np.int64(99), eos_token="<|eos|>"
    )
    made.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path).model_max_length == 99
    made.train_new_from_iterator(TEXTS, np.int64(264), show_progress=False).save_pretrained(tmp_path)
    assert len(AutoTokenizer.from_pretrained(tmp_path)) == 264


def test_shards_of_a_size_of_numpys_can_be_indexed(tmp_path):
    Path(tmp_path, "text.txt").write_text("hugs and buns", encoding="utf-8")
    tokenizer = hs.train_tokenizer(TEXTS, 264)
    index = hs.write_shards(tmp_path / "text.txt", tokenizer, tmp_path, shard_size=np.int64(4))
    assert hs.ShardIndex.load(tmp_path) == index


def test_counts_and_reports_take_them():
    counts = hs.count(TEXTS, num_workers=np.int64(2), max_pretoken_length=np.int64(9))
    assert counts == hs.count(TEXTS)
    report = hs.make_report(TEXTS, np.int64(264), baselines=[], num_workers=np.int32(1))
    assert json.loads(report.to_json())["settings"]["vocab_size"] == 264
    assert hs.train_baseline("bpe", counts, np.int64(264)).vocab_size == 264


# ---- what can't be right

SIZES = {
    "a string": (
        "300",
        TypeError,
        "vocab_size must be a whole number, not the string '300'; leave out the quotes",
    ),
    "words": ("books/*.txt", TypeError, r"vocab_size must be a whole number, not the string 'books/\*.txt'"),
    "a float": (32e3, TypeError, r"vocab_size .* the float 32000.0; write 32000"),
    "a fraction": (300.5, TypeError, r"vocab_size .* the float 300.5$"),
    "NaN": (float("nan"), TypeError, "the float nan"),
    "a bool": (True, TypeError, "not True"),
    "a bool of NumPy": (np.True_, TypeError, "vocab_size must be a whole number"),
    "bytes": (b"300", TypeError, "the bytes b'300'"),
    "a set": ({300, 400}, TypeError, "not a set"),
    "a mapping": ({300: 1}, TypeError, "not a dict"),
    "negative": (-1, hs.ConfigurationError, "vocab_size is -1; it must be at least 0"),
    "too small": (5, hs.VocabSizeError, "vocab_size is 5, .* need 256"),
    "too large for ids": (2**31, hs.ConfigurationError, f"at most 2147483647: {LIMIT}"),
    "huge": (10**30, hs.ConfigurationError, LIMIT),
}


@pytest.mark.parametrize("case", SIZES)
def test_sizes_that_cannot_be(counts, case):
    size, error, message = SIZES[case]
    with pytest.raises(error, match=message):
        hs.train(counts, size)
    if error is not hs.VocabSizeError:  # which takes the alphabet to tell
        with pytest.raises(error, match=message):
            hs.train_tokenizer(unread(), size)


@pytest.mark.parametrize(
    ("size", "error", "message"),
    [
        (None, TypeError, "vocab_size must be a whole number, not None"),
        *(case for name, case in SIZES.items() if name != "too small"),
    ],
)
def test_sizes_that_cannot_be_elsewhere(counts, size, error, message):
    tokenizer = hs.train_tokenizer(TEXTS, 264)
    with pytest.raises(error, match=message):
        tokenizer.train_new_from_iterator(unread(), size)
    with pytest.raises(error, match=message):
        hs.make_report(unread(), size)
    with pytest.raises(error, match=message):
        hs.train_baseline("bpe", counts, size)


SEVERAL_SIZES = {
    "a float": ([300, 1e3], TypeError, r"vocab_sizes\[1\] .* 1000.0; write 1000"),
    "none": ([], hs.ConfigurationError, "vocab_sizes is an empty list"),
    "negative": ([300, -5], hs.ConfigurationError, r"vocab_sizes\[1\] is -5"),
    "too large": ([300, 2**31], hs.ConfigurationError, LIMIT),
    "one size": (300, TypeError, "vocab_sizes must be a list of whole numbers, not the int 300"),
    "an array of one": (np.array(300), TypeError, "vocab_sizes must be a list"),
    "a set": ({300, 400}, TypeError, "vocab_sizes must be a list of whole numbers, not a set"),
    "a mapping": ({300: 1}, TypeError, "vocab_sizes must be a list of whole numbers, not a dict"),
    "a string": ("300", TypeError, "vocab_sizes must be a list of whole numbers, not the string '300'"),
}


@pytest.mark.parametrize("case", SEVERAL_SIZES)
def test_several_sizes_that_cannot_be(counts, case):
    sizes, error, message = SEVERAL_SIZES[case]
    with pytest.raises(error, match=message):
        hs.train_sizes(counts, sizes)
    with pytest.raises(error, match=message):
        hs.train_tokenizer_sizes(unread(), sizes)


def test_where_one_size_is_meant_a_list_is_none(counts):
    for call in (lambda: hs.train(counts, [300, 400]), lambda: hs.train_tokenizer(unread(), [300, 400])):
        with pytest.raises(
            TypeError, match=r"not the list \[300, 400\]; .* train_sizes or train_tokenizer_sizes"
        ):
            call()
    with pytest.raises(TypeError, match=r"vocab_size must be a whole number, not the list \[300, 400\]"):
        hs.make_report(TEXTS, [300, 400])
    with pytest.raises(TypeError, match="vocab_size"):
        hs.train_tokenizer(TEXTS, 264).train_new_from_iterator(TEXTS, [300, 400])


OPTIONS = {
    "min_frequency=-1": (hs.ConfigurationError, "min_frequency is -1; it must be at least 0"),
    "min_frequency=2**63": (
        hs.ConfigurationError,
        "min_frequency is 9223372036854775808; it must be at most",
    ),
    "min_frequency=2.0": (TypeError, "min_frequency must be a whole number, not the float 2.0; write 2"),
    "min_frequency=True": (TypeError, "min_frequency must be a whole number, not True"),
    "max_token_length=0": (hs.ConfigurationError, "max_token_length is 0; it must be at least 1"),
    "max_token_length=-2**40": (hs.ConfigurationError, "max_token_length"),
    "max_token_length='9'": (TypeError, "max_token_length .* leave out the quotes"),
    "limit_alphabet=-1": (hs.ConfigurationError, "limit_alphabet is -1; it must be at least 0"),
    "limit_alphabet=0.5": (TypeError, "limit_alphabet"),
    "special_tokens='<eos>'": (TypeError, r"special_tokens must be a list of strings, .* write \['<eos>'\]"),
    "special_tokens=AddedToken('<eos>')": (TypeError, "special_tokens must be a list"),
    "special_tokens=[b'<eos>']": (TypeError, r"special_tokens\[0\] must be a string, not the bytes b'<eos>'"),
    "special_tokens=[0]": (TypeError, r"special_tokens\[0\] must be a string, not the int 0"),
    "special_tokens=5": (TypeError, "special_tokens must be a list of strings, not the int 5"),
    "special_tokens=['']": (hs.ConfigurationError, r"special_tokens\[0\] is empty"),
    "initial_alphabet=26": (TypeError, "initial_alphabet must be a list of strings"),
    "initial_alphabet=[97]": (TypeError, r"initial_alphabet\[0\]"),
    "fuse_unk='yes'": (TypeError, "fuse_unk must be True or False, not the string 'yes'"),
    "byte_fallback=1": (TypeError, "byte_fallback must be True or False"),
    "continuing_subword_prefix=True": (TypeError, "continuing_subword_prefix must be a string"),
    "end_of_word_suffix=b'</w>'": (TypeError, "end_of_word_suffix must be a string"),
    "scaffold='no'": (TypeError, "scaffold must be True or False"),
    "scaffold=None": (TypeError, "scaffold must be True or False, not None"),
    "log='training.log'": (TypeError, "log must be True or False, not the string 'training.log'"),
    "show_progress=None": (
        TypeError,
        r"show_progress must be True, False or a function of \(tokens, vocab_size\), not None",
    ),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_cannot_be(counts, case):
    error, message = OPTIONS[case]
    name, _, value = case.partition("=")
    options = {name: eval(value)}
    with pytest.raises(error, match=message):
        hs.train(counts, 300, **options)
    if case != "special_tokens=['']":
        with pytest.raises(error, match=message):
            hs.train_tokenizer(unread(), 300, **options)


def test_limits_beyond_what_there_is_are_none(counts):
    expected = hs.train(counts, 264)
    for limits in ({"max_token_length": 2**40}, {"max_token_length": 2**32}, {"limit_alphabet": 2**70}):
        made = hs.train(counts, 264, **limits)
        assert (made.merges, made.vocab) == (expected.merges, expected.vocab)


def test_an_alphabet_of_nothing_is_refused(counts):
    with pytest.raises(hs.ConfigurationError, match="limit_alphabet is 0 and there is no initial_alphabet"):
        hs.train(counts, 300, limit_alphabet=0, initial_alphabet=())
    by_character = hs.count(TEXTS, alphabet="chars")
    with pytest.raises(hs.ConfigurationError, match="limit_alphabet is 0"):
        hs.train(by_character, 30, limit_alphabet=0, special_tokens=["<|eos|>"])
    assert {"a", "na"} <= hs.train(by_character, 4, limit_alphabet=0, initial_alphabet="ano").vocab.keys()


def test_counting_refuses_what_cannot_be():
    for arguments, error, message in (
        ({"num_workers": 0}, hs.ConfigurationError, "num_workers is 0; it must be at least 1"),
        ({"num_workers": 10**6}, hs.ConfigurationError, "num_workers is 1000000; it must be at most"),
        ({"num_workers": True}, TypeError, "num_workers must be a whole number, not True"),
        ({"num_workers": "4"}, TypeError, "num_workers .* leave out the quotes"),
        ({"max_pretoken_length": 0}, hs.ConfigurationError, "max_pretoken_length is 0; .* None keeps all"),
        ({"max_pretoken_length": 1e6}, TypeError, "write 1000000"),
        ({"text_field": 0}, TypeError, "text_field must be a string, not the int 0"),
        ({"text_field": None}, TypeError, "text_field must be a string, not None"),
        (
            {"show_progress": 1},
            TypeError,
            r"show_progress must be .* function of \(bytes_read, bytes_total\)",
        ),
        ({"pre_tokenizer": 5}, TypeError, "pre_tokenizer must be"),
        ({"normalizer": "nfc"}, TypeError, "normalizer must be"),
        ({"alphabet": "letters"}, hs.ConfigurationError, "alphabet is 'letters'"),
    ):
        with pytest.raises(error, match=message):
            hs.count(unread(), **arguments)


# ---- names

UNKNOWN = {
    "min_freq=5": "min_frequency",
    "minimum_frequency=5": "min_frequency",
    "eos='</s>'": "eos_token",
    "eos_token_id=0": "eos_token",
    "special_token='</s>'": "special_tokens",
    "specials=['</s>']": "special_tokens",
    "padd_token='</s>'": "pad_token",
    "text_column='t'": "text_field",
    "field='t'": "text_field",
    "files=['a.txt']": "corpus",
    "num_proc=4": "num_workers",
    "workers=4": "num_workers",
    "progress=False": "show_progress",
    "verbose=True": "show_progress",
    "pretokenizer='gpt2'": "pre_tokenizer",
    "vocabsize=300": "vocab_size",
    "max_length=5": "model_max_length",
    "pading_side='left'": "padding_side",
    "chat_templat=''": "chat_template",
    "extra_tokens=[]": "extra_special_tokens",
    "scaffolds=False": "scaffold",
    "logs=True": "log",
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_train_tokenizer_names_what_was_meant(case):
    name, _, value = case.partition("=")
    with pytest.raises(
        TypeError, match=rf"train_tokenizer\(\) .* '{name}'. Did you mean '{UNKNOWN[case]}'\?"
    ):
        hs.train_tokenizer(unread(), 300, **{name: eval(value)})


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("add_prefix_space", "ByteLevel"),
        ("dropout", "dropout"),
        ("lowercase", "Lowercase"),
        ("post_processor", "backend"),
    ],
)
def test_what_belongs_elsewhere_is_said_to(name, instead):
    with pytest.raises(TypeError, match=f"'{name}': .*{instead}"):
        hs.train_tokenizer(unread(), 300, **{name: True})


def test_every_function_names_what_was_meant(counts, tmp_path):
    bpe = hs.train(counts, 264)
    tokenizer = bpe.to_tokenizer()
    for call, arguments, meant in (
        (hs.count, {"corpus": [], "text_column": "t"}, "text_field"),
        (hs.count, {"corpse": []}, "corpus"),
        (hs.train, {"counts": counts, "min_freq": 5}, "min_frequency"),
        (hs.train, {"counts": counts, "eos_token": "</s>"}, "unk_token"),
        (hs.train_sizes, {"counts": counts, "vocab_size": [300]}, "vocab_sizes"),
        (hs.train_tokenizer_sizes, {"corpus": [], "vocab_sizes": [300], "min_freq": 5}, "min_frequency"),
        (hs.TrainingSettings, {"min_freq": 5}, "min_frequency"),
        (bpe.to_tokenizer, {"eos": "</s>"}, "eos_token"),
        (bpe.to_tokenizer, {"max_len": 5}, "model_max_length"),
        (hs.write_shards, {"corpus": [], "tokenizer": tokenizer, "folder": "x"}, "output_dir"),
        (
            hs.write_shards,
            {"corpus": [], "tokenizer": tokenizer, "output_dir": "x", "formt": "bin"},
            "format",
        ),
        (hs.make_report, {"corpus": [], "heldout": []}, "held_out"),
        (hs.evaluate, {"tokenizer": bpe, "text": counts, "feild": "t"}, "text_field"),
        (hs.train_baseline, {"kind": "bpe", "counts": counts, "vocabsize": 300}, "vocab_size"),
        (hs.compare_vocabularies, {"plain": bpe, "scafold": bpe}, "scaffold"),
        (hs.compare_tokenizers, {"tokenizers": {}, "heldout": counts}, "held_out"),
        (hs.audit_tokenizer, {"tokenizer": tokenizer, "corpus": [], "workers": 2}, "num_workers"),
        (hs.convert_tokenizer, {"tokenizer": tokenizer, "corpus": [], "compct": True}, "compact"),
        (hs.adapt, {"model_dir": "x", "tokenizer": tokenizer, "folder": "y"}, "output_dir"),
        (hs.get_pre_tokenizer, {"pretokeniser": "gpt2"}, "pre_tokenizer"),
        (hs.standalone_share, {"tokenizer": bpe, "counts": counts, "token": []}, "tokens"),
        (hs.load_tokenizer, {"sourc": "x"}, "source"),
        (
            tokenizer.train_new_from_iterator,
            {"text_iterator": [], "vocab_size": 9, "min_freq": 2},
            "min_frequency",
        ),
    ):
        with pytest.raises(TypeError, match=rf"unexpected keyword argument .*Did you mean '{meant}'\?"):
            call(**arguments)


def test_retraining_keeps_its_special_tokens():
    tokenizer = hs.train_tokenizer(TEXTS, 264, eos_token="<|eos|>")
    with pytest.raises(TypeError, match=r"'special_tokens': .* new_special_tokens"):
        tokenizer.train_new_from_iterator(unread(), 300, special_tokens=["<|x|>"])
    with pytest.raises(TypeError, match=r"new_special_tokens must be a list .* write \['<\|x\|>'\]"):
        tokenizer.train_new_from_iterator(unread(), 300, new_special_tokens="<|x|>")


# ---- what is known

SETTINGS = {
    "bos_token": "<|bos|>",
    "eos_token": AddedToken("<|eos|>", rstrip=True),
    "image_token": "<|image|>",
    "extra_special_tokens": ["<|a|>", "<|b|>"],
    "model_max_length": 77,
    "padding_side": "left",
    "truncation_side": "left",
    "chat_template": "{{ messages }}",
    "clean_up_tokenization_spaces": True,
    "model_input_names": ["input_ids"],
    "split_special_tokens": True,
    "pad_token": None,
}


def test_settings_that_are_known_are_those_of_the_tokenizer(tmp_path):
    made = hs.train_tokenizer(TEXTS, 262, **SETTINGS)
    made.save_pretrained(tmp_path)
    for tokenizer in (made, AutoTokenizer.from_pretrained(tmp_path)):
        for name, value in SETTINGS.items():
            expected = value.content if isinstance(value, AddedToken) else value
            assert getattr(tokenizer, name) == expected, name
        assert tokenizer.convert_tokens_to_ids(["<|bos|>", "<|eos|>", "<|image|>", "<|a|>", "<|b|>"]) == [
            *range(5)
        ]


def test_additional_special_tokens_get_the_first_ids_too():
    made = hs.train_tokenizer(TEXTS, 260, additional_special_tokens=["<|a|>"], eos_token="<|eos|>")
    assert made.convert_tokens_to_ids(["<|eos|>", "<|a|>"]) == [0, 1]
    assert len(made) == 260


def test_templates_of_stock_can_be_asked_for():
    made = hs.train_tokenizer(TEXTS, 262, bos_token="<|bos|>", eos_token="<|eos|>", add_eos_token=True)
    assert made("hugs")["input_ids"][-1] == made.eos_token_id


def test_a_pre_tokenizer_may_add_a_space():
    made = hs.train_tokenizer(TEXTS, 262, pre_tokenizer=ByteLevel(add_prefix_space=True))
    assert made.tokenize("hugs")[0].startswith("Ġ")


# ---- log and progress


def test_a_log_of_train_tokenizer_tells_each_tokens_life(counts, tmp_path):
    made = hs.train_tokenizer(TEXTS, 264, log=True)
    bpe = hs.train(counts, 264, log=True)
    first = bpe.merged_tokens[0]
    assert made.artifact.history(first) == bpe.history(first)
    made.artifact.save(tmp_path)
    assert hs.ScaffoldBPE.load(tmp_path).log == bpe.log
    several = hs.train_tokenizer_sizes(TEXTS, [260, 264], log=True)
    assert [each.artifact.vocab_size for each in several] == [260, 264]


def test_a_log_makes_no_tokenizer_heavier(tmp_path):
    plain, logged = (hs.train_tokenizer(TEXTS, 264, log=log) for log in (False, True))
    assert plain.artifact is None
    assert len(pickle.dumps(logged)) == len(pickle.dumps(plain))
    assert pickle.loads(pickle.dumps(logged)).artifact is None
    assert copy.deepcopy(logged)("hugs") == plain("hugs")
    for name, tokenizer in (("plain", plain), ("logged", logged)):
        tokenizer.save_pretrained(tmp_path / name)
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("plain", "logged")
    ]
    assert files[0] == files[1]


def test_retraining_may_keep_a_log():
    tokenizer = hs.train_tokenizer(TEXTS, 264)
    assert tokenizer.train_new_from_iterator(TEXTS, 264, show_progress=False).artifact is None
    logged = tokenizer.train_new_from_iterator(TEXTS, 264, log=True, show_progress=False)
    assert logged.artifact.history(logged.artifact.merged_tokens[0])


def test_progress_of_train_tokenizer_is_that_of_training():
    calls = []
    hs.train_tokenizer_sizes(TEXTS, [260, 264], show_progress=lambda done, total: calls.append((done, total)))
    assert calls
    assert all(done <= total == 264 for done, total in calls)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_true_shows_bars_on_terminals_alone(kind, counts, tmp_path, monkeypatch):
    tokenizer = hs.train_tokenizer(TEXTS, 264)
    Path(tmp_path, "text.txt").write_text("hugs and buns", encoding="utf-8")
    for call, shown in (
        (lambda: hs.count(TEXTS, show_progress=True), ["Counting"]),
        (lambda: hs.train(counts, 264, show_progress=True), ["Training"]),
        (lambda: hs.train_tokenizer(TEXTS, 264, show_progress=True), ["Counting", "Training"]),
        (lambda: tokenizer.train_new_from_iterator(TEXTS, 264), ["Pre-tokens", "Training"]),
        (
            lambda: hs.write_shards(tmp_path / "text.txt", tokenizer, tmp_path, show_progress=True),
            ["Tokenizing"],
        ),
    ):
        monkeypatch.setattr("sys.stderr", kind())
        call()
        screen = sys.stderr.getvalue()
        assert [name for name in shown if name in screen] == (shown if kind is Terminal else [])


def test_steps_of_a_report_are_named(monkeypatch):
    monkeypatch.setattr("sys.stderr", io.StringIO())
    hs.make_report(TEXTS, 264, baselines=[])
    assert sys.stderr.getvalue() == ""
    steps = []
    hs.make_report(TEXTS, 264, baselines=[], show_progress=steps.append)
    hs.make_report(TEXTS, 264, baselines=[], show_progress=True)
    assert sys.stderr.getvalue() == "".join(f"{step} …\n" for step in steps)
    assert steps[0] == f"1 of {len(steps)}: Counting"


def test_warnings_name_the_line_that_called(counts):
    tokenizer = hs.train_tokenizer(TEXTS, 264)
    for call in (
        lambda: hs.train(counts, 3000),
        lambda: hs.train_tokenizer(TEXTS, 3000),
        lambda: hs.train_tokenizer(TEXTS, 3000, like=tokenizer),
        lambda: tokenizer.train_new_from_iterator(TEXTS, 3000, show_progress=False),
        lambda: tokenizer.train_new_from_iterator(TEXTS, 3, show_progress=False),
        lambda: hs.count(TEXTS, max_pretoken_length=5),
    ):
        with pytest.warns(UserWarning, match="vocab|pre-tokens") as warned:
            call()
        assert {each.filename for each in warned if each.category is UserWarning} == {__file__}
