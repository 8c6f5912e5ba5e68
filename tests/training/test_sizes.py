"""Several vocabulary sizes from one run: each as a run of its own gives it."""

import warnings

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_alphabets import runs as character_runs
from test_alphabets import train as train_on_characters
from test_trainer import ARIZONA, runs, table, train
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.cli import commands
from hf_scaffold.errors import ConfigurationError, VocabSizeError

smaller = st.lists(st.integers(0, 40), max_size=4)


@given(runs(), smaller)
@settings(max_examples=100)
def test_each_size_equals_a_run_of_its_own(run, below):
    counts, largest, options = run
    fixed = len(options["special_tokens"]) + len(set("".join(counts)))
    sizes = [max(fixed, largest - n) for n in below] + [largest]
    together = train(counts, sizes, log=True, **options)
    for size, bpe in zip(sizes, together, strict=True):
        alone = train(counts, size, log=True, **options)
        assert bpe == alone
        assert bpe.log == alone.log


@given(character_runs(), smaller)
@settings(max_examples=60)
def test_each_size_equals_a_run_of_its_own_where_text_spells_affixes(run, below):
    counts, largest, prefix, suffix, options = run
    alphabet = oracle.alphabet_of(counts, set("".join(counts)), prefix, suffix)
    fixed = len(options["special_tokens"]) + len(alphabet)
    sizes = [max(fixed, largest - n) for n in below] + [largest]
    together = train_on_characters(counts, sizes, prefix, suffix, **options)
    assert together == [train_on_characters(counts, size, prefix, suffix, **options) for size in sizes]


def test_files_are_equal_byte_for_byte(english_text, tmp_path):
    counts = hs.count([english_text])
    sizes = [600, 1500, 900]
    for size, bpe in zip(sizes, hs.train_sizes(counts, sizes), strict=True):
        assert bpe.vocab_size == size
        bpe.save(tmp_path / f"{size}")
        hs.train(counts, size).save(tmp_path / f"{size} alone")
        for name in ("vocab.json", "merges.txt", "demolish.json"):
            one, other = (tmp_path / folder / name for folder in (f"{size}", f"{size} alone"))
            assert one.read_bytes() == other.read_bytes()


def test_sizes_come_back_in_the_order_asked_for_and_may_be_there_twice():
    assert [bpe.vocab_size for bpe in train(ARIZONA, [20, 18, 24, 18])] == [20, 18, 24, 18]
    assert [bpe.vocab_size for bpe in train(ARIZONA, np.array([20, 18]))] == [20, 18]
    assert train(ARIZONA, (20,)) == [train(ARIZONA, np.int64(20))]


def test_sizes_that_are_not_reached_say_so_each():
    with pytest.warns(UserWarning, match="25 tokens instead of") as warned:
        reached, first, second = hs.train_sizes(table(ARIZONA), [20, 26, 30], initial_alphabet=())
    assert [str(warning.message).split(":")[0] for warning in warned] == [
        "the vocabulary has 25 tokens instead of 26",
        "the vocabulary has 25 tokens instead of 30",
    ]
    assert {warning.filename for warning in warned} == {__file__}
    assert reached.stop_reason is None
    assert first.tokens == second.tokens
    assert "instead of 26" in first.stop_reason
    assert "instead of 30" in second.stop_reason


def test_a_size_below_the_alphabet_is_refused_before_training():
    with pytest.raises(VocabSizeError, match="vocab_size is 255, but"):
        hs.train_sizes(table(ARIZONA), [300, 255])


def test_no_size_at_all_is_refused():
    with pytest.raises(ConfigurationError, match="vocab_sizes is an empty list"):
        hs.train_sizes(table(ARIZONA), [])


def test_progress_runs_once_to_the_largest():
    seen = []
    train(ARIZONA, [24, 18], show_progress=lambda done, total: seen.append((done, total)))
    assert seen == [(18, 24), (24, 24)]


def test_train_tokenizer_sizes_gives_one_tokenizer_a_size(english_text):
    options = {"eos_token": "</s>", "num_workers": 1}
    tokenizers = hs.train_tokenizer_sizes([english_text], [500, 400], **options)
    assert [len(tokenizer) for tokenizer in tokenizers] == [500, 400]
    alone = hs.train_tokenizer([english_text], 400, **options)
    assert tokenizers[1].backend_tokenizer.to_str() == alone.backend_tokenizer.to_str()
    assert tokenizers[1].scaffold == alone.scaffold


def run_cli(capsys, *arguments):
    code = commands.main([str(argument) for argument in arguments])
    return code, capsys.readouterr()


def test_the_command_line_trains_a_folder_for_each_size(english_text, tmp_path, capsys):
    (tmp_path / "text.txt").write_text(english_text[:50_000], encoding="utf-8")
    sizes = ["--vocab-size", 400, "--vocab-size", 300]
    code, screen = run_cli(capsys, "train", tmp_path / "text.txt", *sizes, "-o", tmp_path / "sizes")
    assert code == 0
    assert "sizes/300" in screen.out.replace("\\", "/")
    assert {path.name for path in (tmp_path / "sizes").iterdir()} == {"300", "400"}
    assert len(AutoTokenizer.from_pretrained(tmp_path / "sizes" / "300")) == 300


def test_the_command_line_tells_a_history(english_text, tmp_path, capsys):
    (tmp_path / "text.txt").write_text(english_text[:50_000], encoding="utf-8")
    arguments = ["train", tmp_path / "text.txt", "--vocab-size", 400, "-o", tmp_path / "tokenizer"]
    assert run_cli(capsys, *arguments, "--log")[0] == 0
    code, screen = run_cli(capsys, "inspect", tmp_path / "tokenizer", "--history", " the")
    assert code == 0
    assert screen.out.endswith("in the training text.\n")
    code, screen = run_cli(capsys, "inspect", tmp_path / "tokenizer", "--history", "xyzzy")
    assert code == 2
    assert "'xyzzy' is not in the vocabulary" in screen.err
    assert run_cli(capsys, *arguments)[0] == 0
    code, screen = run_cli(capsys, "inspect", tmp_path / "tokenizer", "--history", " the")
    assert code == 2
    assert "there is no training log" in screen.err


def test_warnings_of_one_size_are_as_ever():
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        hs.train(table(ARIZONA), 26, initial_alphabet=())
    assert [warning.filename for warning in warned] == [__file__]
