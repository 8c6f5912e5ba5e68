"""The artifact: what it refuses, what it writes, and that others can read it."""

import dataclasses
import errno
import json
import os
import pickle
import subprocess
import sys

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

import hf_scaffold as hs
from hf_scaffold.errors import ArtifactError
from hf_scaffold.text.byte_level import bytes_to_symbols, symbols_to_bytes
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.parts import derive_demolish_map

COUNTS = {
    "Arizona": 50, "zone": 3, "Ari": 4, "zon": 2, "banana": 20, "na": 60,
    "hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5,
}  # fmt: skip


@pytest.fixture(scope="module")
def bpe():
    counts = hs.PreTokenCounts.from_mapping({text.encode(): n for text, n in COUNTS.items()})
    return hs.train(counts, 266, special_tokens=["<|endoftext|>", "<|user says|>"])


@pytest.fixture
def folder(bpe, tmp_path):
    bpe.save(tmp_path)
    return tmp_path


def test_stand_ins_are_those_of_tokenizers():
    everything = bytes(range(256))
    assert sorted(bytes_to_symbols(everything)) == sorted(pre_tokenizers.ByteLevel.alphabet())
    assert symbols_to_bytes(bytes_to_symbols(everything)) == everything
    text = " né\n中"
    [(symbols, _)] = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    assert bytes_to_symbols(text.encode()) == symbols


def test_save_and_load_give_the_same_artifact_and_the_same_bytes(bpe, folder, tmp_path_factory):
    loaded = ScaffoldBPE.load(folder)
    assert loaded == bpe
    again = tmp_path_factory.mktemp("again")
    loaded.save(again)
    assert sorted(os.listdir(folder)) == ["demolish.json", "merges.txt", "vocab.json"]
    for name in os.listdir(folder):
        assert (again / name).read_bytes() == (folder / name).read_bytes()
    assert pickle.loads(pickle.dumps(bpe)) == bpe


def test_bytes_on_disk_do_not_depend_on_the_hash_seed(tmp_path):
    script = (
        "import sys, hf_scaffold as hs\n"
        "counts = hs.PreTokenCounts.from_mapping({'banana': 5, 'bandana': 4, 'an': 9, 'x' * 9: 2})\n"
        "hs.train(counts, 265, special_tokens=['<s>']).save(sys.argv[1])\n"
    )
    for seed in "01":
        subprocess.run(
            [sys.executable, "-c", script, tmp_path / seed],
            check=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
    for name in os.listdir(tmp_path / "0"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "1" / name).read_bytes()


def test_tokenizers_reads_the_pair(bpe, folder):
    model = models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer(model)
    assert tokenizer.get_vocab() == bpe.vocab
    assert tokenizer.encode("Arizona").tokens == ["Arizona"]


def test_public_ids_come_first_and_are_dense(bpe):
    assert list(bpe.vocab.values()) == list(range(len(bpe.vocab)))
    assert bpe.tokens[:2] == ["<|endoftext|>", "<|user says|>"]
    assert len(bpe.tokens) == bpe.vocab_size == 266
    assert set(bpe.scaffold_tokens) == set(bpe.demolish_map)
    assert len(bpe.vocab) == 266 + len(bpe.scaffold_tokens)


def test_raw_model_holds_public_tokens_only(bpe):
    model = Tokenizer(bpe.raw_model())
    assert model.get_vocab() == {token: token_id for token, token_id in bpe.vocab.items() if token_id < 266}
    for pretoken in COUNTS:
        assert model.decode(model.encode(pretoken).ids).replace(" ", "") == pretoken


def test_demolish_of_an_unknown_token_says_so(bpe):
    with pytest.raises(KeyError, match="not in the vocabulary"):
        bpe.demolish("nowhere")


def test_the_shortest_of_several_rules_demolishes_then_the_first():
    rules = [("a", "b"), ("c", "d"), ("b", "c"), ("ab", "cd"), ("a", "bc"), ("abc", "d")]
    assert derive_demolish_map(rules, ["ab", "abcd"])["abcd"] == ("abc", "d")
    assert derive_demolish_map(rules[:5], ["abcd", "ab", "cd"])["abcd"] == ("a", "b", "c", "d")
    same_length = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")]
    assert derive_demolish_map(same_length, ["abc"])["abc"] == ("ab", "c")
    assert derive_demolish_map(same_length[::-1], ["abc"])["abc"] == ("a", "bc")


def change(bpe, **changes):
    return dataclasses.replace(bpe, **changes)


def swapped(vocab, first, second):
    """The vocab with two tokens' ids exchanged."""
    tokens = list(vocab)
    i, j = tokens.index(first), tokens.index(second)
    tokens[i], tokens[j] = tokens[j], tokens[i]
    return {token: token_id for token_id, token in enumerate(tokens)}


CONTRADICTIONS = {
    "ids with a hole": (
        lambda b: {"vocab": {**b.vocab, b.scaffold_tokens[-1]: 9999}},
        r"has id 9999 where \d+ was expected",
    ),
    "an empty token": (lambda b: {"vocab": {**b.vocab, "": len(b.vocab)}}, "is empty"),
    "a special token elsewhere": (lambda b: {"special_tokens": ["<|user says|>"]}, "must have id 0, not 1"),
    "a part that is no token": (
        lambda b: {"merges": [*b.merges, ("qq", "z")]},
        r"merge \d+ \('qq', 'z'\): 'qq' is not a token that a merge can start from",
    ),
    "a special token merged": (
        lambda b: {"merges": [*b.merges, ("<|endoftext|>", "z")]},
        "is not a token that a merge can start from",
    ),
    "merges out of order": (lambda b: {"merges": b.merges[::-1]}, "no merge before it makes"),
    "a merged string that is no token": (
        lambda b: {"merges": [*b.merges, ("q", "q")]},
        "'qq' is not in the vocab",
    ),
    "a merge twice": (lambda b: {"merges": [*b.merges, b.merges[0]]}, "is there twice"),
    "a token without a merge": (lambda b: {"merges": b.merges[:-1]}, r"no merge makes '.*' \(id \d+\)"),
    "a character that is no stand-in": (
        lambda b: {"vocab": {token.replace("~", "中"): i for token, i in b.vocab.items()}},
        "'中' .* is not in the byte-level alphabet",
    ),
    "tokens not in the order of their rules": (
        lambda b: {"vocab": swapped(b.vocab, b.tokens[-1], b.tokens[-2])},
        "was made before",
    ),
    "a normal token demolished": (
        lambda b: {"demolish_map": {**b.demolish_map, "z": ("z",)}},
        "not among the last",
    ),
    "a demolish map with an unknown part": (
        lambda b: {"demolish_map": {**b.demolish_map, b.scaffold_tokens[0]: ("qqq",)}},
        "'qqq', which is not in vocab",
    ),
    "a scaffold on a right side": (
        lambda b: {"demolish_map": {**b.demolish_map, b.scaffold_tokens[0]: (b.scaffold_tokens[0],)}},
        "which is itself a scaffold token",
    ),
    "a demolish map that changes bytes": (
        lambda b: {"demolish_map": {**b.demolish_map, b.scaffold_tokens[0]: ("z", "z", "z")}},
        "don't spell",
    ),
    "a demolish map that isn't the merges'": (
        lambda b: {"demolish_map": {**b.demolish_map, "bana": tuple("bana")}},
        "its merges give",
    ),
    "a scaffold not in the demolish map": (
        lambda b: {"demolish_map": dict(list(b.demolish_map.items())[1:])},
        r"is not among the last|which is itself|no merge makes|was made before",
    ),
    "a raw split that changes bytes": (lambda b: {"raw_splits": {"Arizona": ("A", "z")}}, "doesn't spell"),
    "a raw split of a scaffold": (
        lambda b: {"raw_splits": {b.scaffold_tokens[0]: tuple(b.scaffold_tokens[0])}},
        "is not a normal token",
    ),
    "a raw merge of a scaffold": (
        lambda b: {"raw_splits": {}, "raw_merges": [tuple(b.scaffold_tokens[0])]},
        "raw_merges: .*, in rule 0, is not a normal token",
    ),
    "a raw merge of a special token": (
        lambda b: {"raw_splits": {}, "raw_merges": [("<|endoftext|>", "a")]},
        "raw_merges: '<|endoftext|>', in rule 0, is not a normal token",
    ),
    "the same raw merge again": (
        lambda b: {"raw_splits": {}, "raw_merges": b._raw_merges[:1] * 2},
        "raw_merges: rule 1, .* is there twice",
    ),
    "raw merges that are no pairs": (lambda b: {"raw_merges": [("z",)]}, "raw_merges: .* is not of the form"),
    "raw splits beside raw merges": (
        lambda b: {"raw_splits": {"".join(b._raw_merges[0]): b._raw_merges[0]}, "raw_merges": []},
        "raw_splits: must be empty beside raw_merges",
    ),
    "an impossible agreement": (lambda b: {"raw_agreement": 1.5}, "not a share between 0 and 1"),
    "a training that is no object": (lambda b: {"training": ["text"]}, "training: must be a JSON object"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_contradictions_are_named(bpe, name):
    changes, message = CONTRADICTIONS[name]
    with pytest.raises(ArtifactError, match=message):
        change(bpe, **changes(bpe))


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "demolish.json"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_truncated_files_are_refused(folder, name, share):
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ArtifactError) as raised:
        ScaffoldBPE.load(folder)
    assert str(folder) in str(raised.value)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "demolish.json"])
def test_files_that_are_not_utf8_or_missing_are_named(folder, name):
    (folder / name).write_bytes(b"{\xff")
    with pytest.raises(ArtifactError, match=rf"{name}: not UTF-8 at byte 1"):
        ScaffoldBPE.load(folder)
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        ScaffoldBPE.load(folder)


def test_a_vocabulary_may_stand_in_any_order_and_merges_without_a_header(bpe, folder):
    vocab = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    (folder / "vocab.json").write_text(json.dumps(dict(reversed(vocab.items()))), encoding="utf-8")
    header, _, merges = (folder / "merges.txt").read_text(encoding="utf-8").partition("\n")
    assert header == "#version: 0.2"
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    assert ScaffoldBPE.load(folder) == bpe
    assert list(ScaffoldBPE.load(folder).vocab) == list(bpe.vocab)


def test_every_line_lost_from_merges_is_noticed(bpe, folder):
    lines = (folder / "merges.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    for gone in range(1, len(lines)):
        (folder / "merges.txt").write_text("".join(lines[:gone] + lines[gone + 1 :]), encoding="utf-8")
        with pytest.raises(ArtifactError):
            ScaffoldBPE.load(folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("vocab.json", "[1, 2]", "holds a list, not a JSON object"),
        ("vocab.json", '{"a": "b"}', "the id of 'a' is 'b', not a whole number"),
        ("demolish.json", '{"version": 99}', "format version 99 is unknown; this release reads 1"),
        ("demolish.json", '{"version": 1}', "the entry 'demolish' is missing"),
        ("merges.txt", "#version: 0.2\nn a\nzo\n", r"merges.txt, line 3: 'zo' is not two tokens"),
    ],
)
def test_files_of_another_shape_are_refused(folder, name, content, message):
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(ArtifactError, match=message):
        ScaffoldBPE.load(folder)


def test_other_errors_in_demolish_json_name_the_file(folder):
    demolish = json.loads((folder / "demolish.json").read_text(encoding="utf-8"))
    demolish["pretokenizer"] = {"normalizer": None, "pre_tokenizer": {"type": "Nothing"}}
    (folder / "demolish.json").write_text(json.dumps(demolish), encoding="utf-8")
    with pytest.raises(ArtifactError, match=str(folder)):
        ScaffoldBPE.load(folder)


def test_a_full_disk_leaves_the_old_files_whole(bpe, folder, monkeypatch):
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    other = hs.train(hs.PreTokenCounts.from_mapping({"entirely": 3, "different": 2}), 260)
    calls = []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        other.save(folder)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before


def test_interrupt_while_saving_leaves_the_old_files_whole(bpe, folder, monkeypatch):
    before = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    other = hs.train(hs.PreTokenCounts.from_mapping({"entirely": 3, "different": 2}), 260)

    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        other.save(folder)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before


def test_the_flags_of_special_tokens_reach_the_tokenizer():
    tokenizer = hs.train_tokenizer(
        ["a corpus of words"],
        vocab_size=262,
        special_tokens=[AddedToken("<|a|>", lstrip=True), "<|b|>"],
        eos_token=AddedToken("<|eos|>", rstrip=True, normalized=False),
        extra_special_tokens=[AddedToken("<|x|>", single_word=True)],
    )
    a, b, eos, x = (tokenizer.added_tokens_decoder[token_id] for token_id in range(4))
    assert (a.content, b.content, eos.content, x.content) == ("<|a|>", "<|b|>", "<|eos|>", "<|x|>")
    assert (a.lstrip, b.lstrip, eos.rstrip, x.single_word) == (True, False, True, True)
    assert tokenizer("of <|a|><|eos|> a")["input_ids"] == tokenizer("of<|a|><|eos|>a")["input_ids"]
