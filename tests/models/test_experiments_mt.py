"""experiments/mt.py finds sentences that pair, trains what it is asked for, repeats itself and goes on."""

import importlib
import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parents[2] / "experiments"
HEADER = """Marked up to the level of chapter and verse.
\t\t\t\t</segmentation>
\t\t\t<langUsage>
\t\t\t\t<language id="{0}" iso639="{0}x">
\t\t\t\t\tThe name of {0}
\t\t\t\t</language>
\t\t\t</langUsage>
\t</cesHeader>
\t<seg id="b.MAT.1.1" type="verse">
\t\t\t\t\t\t"""
N_VERSES = 1_150


@pytest.fixture(scope="module")
def verses():
    """The same sentences in five languages, word by word, and other ones; `gap` and `short` lack a verse."""
    draw = random.Random(0)
    sentences = [[draw.randrange(40) for _ in range(draw.randint(2, 10))] for _ in range(N_VERSES)]
    others = [[draw.randrange(40) for _ in range(draw.randint(2, 10))] for _ in range(N_VERSES)]

    def written(sentences):
        words = ["".join(draw.choices("abcdefghiklmnoprstuvwz", k=draw.randint(1, 5))) for _ in range(40)]
        return [" ".join(words[i] for i in sentence) for sentence in sentences]

    found = {name: written(sentences) for name in ("one", "two", "all", "gap", "short")}
    found["one"] = found["one"][:1_040]
    found["two"][30] = ""
    del found["gap"][1_005]
    del found["short"][505]
    return found | {"other": written(others)}


@pytest.fixture(scope="module")
def text(verses, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "bibles.txt"
    parts = [HEADER.format(name) + "\n".join(lines) + "\n" for name, lines in verses.items()]
    path.write_text("".join(parts) + "\n    Artikel 1\n    All human beings\n", encoding="utf-8")
    return path


@pytest.fixture
def mt(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("mt")
    torch.use_deterministic_algorithms(False)


ASKED = {"size": "toy", "vocab_size": [400], "pairs": 40, "seeds": 1}


@pytest.fixture(scope="module")
def ran(text, tmp_path_factory):
    """A folder in which both methods have run with dropout and without."""
    folder = tmp_path_factory.mktemp("experiment")
    options = ["--size", "toy", "--vocab-size", "400", "--pairs", "40", "--seeds", "1"]
    options += ["--folder", folder / "large", "--log", folder / "mt.jsonl"]
    subprocess.run([sys.executable, FOLDER / "mt.py", text, *options], check=True, capture_output=True)
    return folder


def logged(folder):
    runs = [json.loads(line) for line in (folder / "mt.jsonl").read_text().splitlines()]
    return [{name: value for name, value in each.items() if name != "seconds"} for each in runs]


def test_lines_pair_as_long_as_their_lengths_go_together(mt, text, verses):
    found = mt.translations(text.read_text())
    assert [each.language for each in found] == list(verses)
    assert all(each.verses == verses[each.language] for each in found[:-1])
    lengths = {each.language: each.log_lengths for each in found}
    paired = [mt.n_paired(lengths[name], lengths["all"]) for name in lengths]
    assert paired == [1_000, 1_100, 1_100, 1_000, 500, 0]


def test_what_is_held_out_is_held_out_from_all_sources(mt, text, verses):
    target, pairs = mt.paired(text.read_text())
    assert target.language == "two"  # the first of two alike
    held_out = verses["two"][::20]
    sources = {"one": 1_000, "all": 1_100, "gap": 1_000}
    expected = {"train": [], "test": []}
    for name, n_lines in sources.items():
        for i, (source, verse) in enumerate(zip(verses[name][:n_lines], verses["two"], strict=False)):
            if verse and (i % 20 == 0 or verse not in held_out):
                expected["train" if i % 20 else "test"].append((name, source, verse))
    assert pairs == expected
    assert len(pairs["test"]) == 155


def test_each_epoch_has_every_pair_once(mt):
    pairs = [mt.Pair("x", "a" * (i % 7), "b" * (i % 11)) for i in range(50)]
    orders = [mt.order_of(pairs, 8, seed, epoch) for seed, epoch in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert all(sorted(i for batch in order for i in batch) == list(range(50)) for order in orders)
    assert max(len(batch) for batch in orders[0]) <= 8
    as_lists = [[list(batch) for batch in order] for order in orders]
    assert as_lists[0] == as_lists[1]
    assert as_lists[0] not in as_lists[2:]


def test_dropout_encodes_a_sentence_anew_and_a_seed_repeats_it(mt, ran, text):
    tokenizer = mt.AutoTokenizer.from_pretrained(ran / "large/mt-toy/bibles/400-scaffold")
    _, pairs = mt.paired(text.read_text())
    some = pairs["train"][:8]
    plain, dropping = mt.Encoding(tokenizer, 0.0), mt.Encoding(tokenizer, 0.3)
    batches = [encoding.batch(some, seed) for encoding, seed in ((plain, 0), (dropping, 0), (dropping, 1))]
    assert not torch.equal(batches[1]["labels"], batches[2]["labels"])
    again = dropping.batch(some, 1)
    assert all(torch.equal(part, again[name]) for name, part in batches[2].items())
    assert torch.equal(plain.batch(some, 5)["labels"], batches[0]["labels"])
    for batch in batches:
        for i, pair in enumerate(some):
            assert batch["input_ids"][i, 0] == tokenizer.convert_tokens_to_ids("<one>")
            assert tokenizer.decode(batch["input_ids"][i], skip_special_tokens=True) == pair.source
            labels = batch["labels"][i][batch["labels"][i] != mt.IGNORED].tolist()
            assert labels[-1] == tokenizer.eos_token_id
            assert tokenizer.decode(labels, skip_special_tokens=True) == pair.target
            seen = batch["decoder_input_ids"][i, : len(labels)].tolist()
            assert seen == [tokenizer.pad_token_id, *labels[:-1]]


class Echo:
    """A model whose translation of a sentence is the sentence."""

    def eval(self):
        pass

    def generate(self, input_ids, attention_mask, generation_config):
        assert input_ids.shape == attention_mask.shape
        return input_ids


def test_translations_are_in_the_order_of_the_pairs(mt, ran):
    folder = ran / "large/mt-toy/bibles"
    pairs = [mt.Pair(*pair) for pair in json.loads((folder / "pairs.json").read_text())["test"]]
    encoding = mt.Encoding(mt.AutoTokenizer.from_pretrained(folder / "400-bpe"), 0.0)
    found = mt.translated(Echo(), encoding, pairs, 1, "cpu")
    assert found == [pair.source for pair in pairs]


def test_what_was_asked_for_is_in_the_log(ran):
    runs = logged(ran)
    asked = [(run["asked"]["method"], run["asked"]["dropout"]) for run in runs]
    assert asked == [("bpe", 0), ("scaffold", 0), ("bpe", 0.1), ("scaffold", 0.1)]
    for run in runs:
        assert run["losses"][-1] < run["losses"][0]
        assert 0 <= run["bleu"] < run["chrf"] < 100
        assert run["sources"] == ["all", "gap", "one"]
        assert run["n_steps"] == 5
    tokens = [run["n_tokens"] for run in runs]
    assert tokens[2] > tokens[0]
    assert tokens[3] > tokens[1]


def test_runs_cut_off_after_every_step_come_to_the_same_figures(mt, ran, text, tmp_path):
    options = ASKED | {"folder": tmp_path / "large", "log": tmp_path / "mt.jsonl"}
    for n_steps in range(1, 4):
        mt.main(text, minutes=0, **options)
        (checkpoint,) = tmp_path.glob("large/mt-toy/checkpoints/*.pt")
        assert len(torch.load(checkpoint)["losses"]) == n_steps
    assert not (tmp_path / "mt.jsonl").exists()
    mt.main(text, **options)
    assert logged(tmp_path) == logged(ran)
    before = (tmp_path / "mt.jsonl").read_bytes()
    mt.main(text, **options)
    assert (tmp_path / "mt.jsonl").read_bytes() == before
