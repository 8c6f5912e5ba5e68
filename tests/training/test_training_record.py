"""What a tokenizer was trained on is recorded with it: sizes, settings, names; no folders, no dates."""

import json
import os
from pathlib import Path

import pytest

import hf_scaffold as hs
from hf_scaffold.cli import commands, workflow

TEXTS = ["the cat and the hat", "the bat sat 12 times"]
RECORD = {
    "pretokens": 12,  # each digit is one, and so is the space before them
    "distinct_pretokens": 11,
    "bytes": 39,
    "alphabet": "bytes",
    "pretokenizer": "gpt2-digits",
    "settings": {
        "vocab_size": 262,
        "min_frequency": 1,
        "limit_alphabet": None,
        "max_token_length": None,
        "scaffold": True,
    },
}


@pytest.fixture(scope="module")
def counts():
    return hs.count(TEXTS)


@pytest.fixture
def bpe(counts):
    return hs.train(counts, 262, min_frequency=1)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "private folder" / "words.txt"
    path.parent.mkdir()
    path.write_text("\n".join(TEXTS))
    return path


def test_training_records_counts_and_settings(bpe, counts):
    assert bpe.training == RECORD
    assert RECORD["pretokens"] == sum(counts.values())
    assert RECORD["bytes"] == sum(len(pretoken) * n for pretoken, n in counts.items())
    assert hs.train(counts, 262, min_frequency=1, scaffold=False).training["settings"]["scaffold"] is False
    raw = hs.count(TEXTS, pre_tokenizer=hs.get_pre_tokenizer("gpt2").pre_tokenizer)
    assert hs.train(raw, 260).training["pretokenizer"] == "gpt2"
    of_characters = hs.train(hs.count(TEXTS, alphabet="chars"), 24).training
    assert (of_characters["alphabet"], of_characters["pretokenizer"]) == ("chars", None)


def test_the_record_goes_with_artifact_and_tokenizer(bpe, tmp_path):
    bpe = bpe.with_sources(["words.txt"])
    bpe.save(tmp_path / "artifact")
    assert hs.ScaffoldBPE.load(tmp_path / "artifact").training == {**RECORD, "sources": ["words.txt"]}
    bpe.to_tokenizer().save_pretrained(tmp_path / "tokenizer")
    loaded = hs.ScaffoldTokenizerFast.from_pretrained(tmp_path / "tokenizer")
    assert loaded.scaffold["training"] == bpe.training
    assert workflow.load_artifact(str(tmp_path / "tokenizer")) == bpe


def test_files_of_older_releases_have_none(bpe, tmp_path):
    bpe.to_tokenizer().save_pretrained(tmp_path)
    bpe.save(tmp_path)
    for name in ("scaffold.json", "demolish.json"):
        content = json.loads((tmp_path / name).read_bytes())
        del content["training"]
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    assert hs.ScaffoldBPE.load(tmp_path).training is None
    tokenizer = hs.ScaffoldTokenizerFast.from_pretrained(tmp_path)
    assert tokenizer("the cat") == bpe.to_tokenizer()("the cat")
    tokenizer.save_pretrained(tmp_path / "again")
    assert "training" not in json.loads((tmp_path / "again" / "scaffold.json").read_bytes())


@pytest.mark.parametrize("as_source", [str, Path, lambda path: [path], lambda path: f"{path.parent}/w*.txt"])
def test_sources_are_named_without_their_folders(as_source, file):
    training = hs.train_tokenizer(as_source(file), 258).scaffold["training"]
    assert training["sources"] in (["words.txt"], ["w*.txt"])
    assert "private folder" not in json.dumps(training)


def test_texts_in_memory_have_no_name(file):
    for source in (TEXTS, iter(TEXTS), iter([file])):
        assert "sources" not in hs.train_tokenizer(source, 258).scaffold["training"]


def test_the_command_names_its_corpora(file, capsys):
    arguments = ["train", str(file), str(file), "--vocab-size", "258", "-o", str(file.parent / "t")]
    assert commands.main(arguments) == 0
    saved = hs.ScaffoldBPE.load(file.parent / "t" / "artifact")
    assert saved.training["sources"] == ["words.txt", "words.txt"]
    assert "private folder" not in json.dumps(saved.training)


def test_a_file_name_that_is_not_utf8_can_be_saved(bpe, tmp_path):
    bpe.with_sources([os.fsdecode(b"caf\xe9.txt")]).to_tokenizer().save_pretrained(tmp_path)
    training = hs.ScaffoldTokenizerFast.from_pretrained(tmp_path).scaffold["training"]
    assert training["sources"] == ["caf\ufffd.txt"]
