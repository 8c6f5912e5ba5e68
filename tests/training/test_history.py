"""The training log: against the slow reference, on disk, and a token's life in words."""

import json
import pickle
import re
import warnings
from collections import Counter

import oracle
import pytest
from hypothesis import example, given, settings
from test_alphabets import oracle_train
from test_alphabets import runs as character_runs
from test_alphabets import train as train_on_characters
from test_trainer import ARIZONA, runs, train

import hf_scaffold as hs
from hf_scaffold.errors import ArtifactError, ConfigurationError


def told(log):
    """The events as the slow reference tells them: without the merge before."""
    return [tuple(event[:5]) for event in log.events]


@given(runs())
@settings(max_examples=60)
def test_logs_what_the_slow_reference_logs(run):
    counts, vocab_size, options = run
    bpe = train(counts, vocab_size, log=True, **options)
    reference = oracle.train({tuple(text): n for text, n in counts.items()}, vocab_size, **options)
    assert told(bpe.log) == reference.events
    frequencies = oracle.token_frequencies(reference.sequences)
    assert bpe.log.frequencies == {token: frequencies[token] for token in reference.expanded}
    assert bpe == train(counts, vocab_size, **options)


# Here a pair comes again, as often as the scaffold token that it once made.
@example(({"###aa#": 6, "####": 4, "a####aa": 2}, 10, "##", "", {}))
@example(({"#a#": 5, "#####": 4, "####": 4, "a#a": 3}, 13, "##", "", {}))
@given(character_runs())
@settings(max_examples=60)
def test_logs_what_the_slow_reference_logs_where_text_spells_affixes(run):
    counts, vocab_size, prefix, suffix, options = run
    bpe = train_on_characters(counts, vocab_size, prefix, suffix, log=True, **options)
    reference = oracle_train(counts, vocab_size, prefix, suffix, **options)
    assert told(bpe.log) == reference.events


def test_the_worked_example_by_hand():
    bpe = train(ARIZONA, 26, log=True)
    marked = [event for event in bpe.log.events if event.kind == "marked"]
    assert [(event.token, event.frequency, event.head_frequency) for event in marked[:5]] == [
        ("Ar", 0, 50), ("zo", 5, 50), ("na", 40, 50), ("Ari", 4, 40), ("zona", 0, 40),
    ]  # fmt: skip
    assert marked[1].merge == ("zo", "na")
    assert marked[1].head == ("Ari", "zona")
    assert marked[3].head == ("na",)
    assert [event.kind for event in bpe.log.of("zo")] == ["merged", "marked", "reinstated", "marked"]
    assert Counter(event.kind for event in bpe.log.events)["merged"] == len(bpe.merges)


def test_history_tells_a_life_in_words():
    bpe = train(ARIZONA, 26, log=True)
    assert bpe.history("zo") == (
        "Merge 1: z o, 55 occurrences, became zo.\n"
        "After merge 4 (zo na): marked as a scaffold: 5 occurrences left, while Ari zona had 50.\n"
        "After merge 15 (p ug): reinstated: nothing else was as frequent as its 5 occurrences.\n"
        "After merge 16 (zo n): marked as a scaffold: 0 occurrences left, while hug s had 5.\n"
        "At the end: a scaffold token, 0 occurrences in the training text; demolished to z o."
    )
    assert bpe.history("zone").endswith("At the end: a normal token, 3 occurrences in the training text.")
    assert bpe.history("z") == (
        "z is a symbol of the alphabet.\nAt the end: a normal token, 0 occurrences in the training text."
    )


def test_history_takes_text_as_well():
    counts = hs.PreTokenCounts.from_mapping({" café": 9, "é": 3})
    bpe = hs.train(counts, 260, special_tokens=["<s>"], log=True)
    assert bpe.history(" café") == bpe.history("ĠcafÃ©")
    assert "is a symbol" in bpe.history("é")  # the stand-in of byte 0xE9
    assert bpe.history("<s>") == "<s> is a special token: text never merges into it."
    with pytest.raises(KeyError, match="' tea' is not in the vocabulary"):
        bpe.history(" tea")


def test_without_a_log_there_is_no_history():
    bpe = train(ARIZONA, 26)
    assert bpe.log is None
    with pytest.raises(ConfigurationError, match="train with log=True"):
        bpe.history("zo")


# ---- on disk


def test_the_log_is_saved_with_the_artifact(tmp_path):
    bpe = train(ARIZONA, 26, log=True)
    bpe.save(tmp_path)
    loaded = hs.ScaffoldBPE.load(tmp_path)
    assert loaded == bpe
    assert loaded.log == bpe.log == pickle.loads(pickle.dumps(bpe)).log
    assert loaded.history("zo") == bpe.history("zo")


def test_a_log_changes_no_other_file(tmp_path):
    train(ARIZONA, 26, log=True).save(tmp_path / "with")
    train(ARIZONA, 26).save(tmp_path / "without")
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / "with" / name).read_bytes() == (tmp_path / "without" / name).read_bytes()
    with_log = json.loads((tmp_path / "with" / "demolish.json").read_text())
    assert with_log.pop("log_file") == "log.jsonl"
    assert with_log == json.loads((tmp_path / "without" / "demolish.json").read_text())


def test_a_log_that_was_there_before_is_not_taken_for_this_run(tmp_path):
    train(ARIZONA, 26, log=True).save(tmp_path)
    train(ARIZONA, 20).save(tmp_path)
    assert hs.ScaffoldBPE.load(tmp_path).log is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "log.jsonl: truncated: the last line must hold"),
        (lambda lines: [*lines[:-1], lines[-1][:50]], "log.jsonl: truncated"),
        (lambda lines: [lines[0].replace("merged", "melted"), *lines[1:]], "line 1.*the event is 'melted'"),
        (lambda lines: [lines[0].replace('"na"', '"nope"'), *lines[1:]], "event 0: 'nope' is not in vocab"),
        (lambda lines: [lines[0].replace('["n", "a"]', '["a", "n"]'), *lines[1:]], "not among the merges"),
        (lambda lines: [*lines[:-1], lines[-1].replace('"na"', '"nope"')], "'na' is only in one of"),
        (lambda lines: [*lines[:-1], re.sub('"na": [0-9]+, ', "", lines[-1])], "'na' is only in one of"),
    ],
    ids=["cut after a line", "cut within one", "event", "token", "pair", "frequencies", "no frequency"],
)
def test_a_log_that_does_not_fit_is_refused(tmp_path, change, message):
    train(ARIZONA, 26, log=True).save(tmp_path)
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(change(path.read_text(encoding="utf-8").splitlines())) + "\n", encoding="utf-8")
    with pytest.raises(ArtifactError, match=message):
        hs.ScaffoldBPE.load(tmp_path)


def test_real_text_logs_every_scaffold(english_text):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bpe = hs.train(hs.count([english_text]), 2000, log=True)
    last = {event.token: event.kind for event in bpe.log.events}
    assert {token for token, kind in last.items() if kind == "marked"} == set(bpe.scaffold_tokens)
