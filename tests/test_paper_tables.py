"""benchmarks/paper_tables.py measures what it says, and finds the paper's figures of one kind with ours."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hf_scaffold as hs

FOLDER = Path(__file__).parents[1] / "benchmarks"
N_BYTES = 100_000


@pytest.fixture(scope="module")
def script():
    """The module of the script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        yield importlib.import_module("paper_tables")


@pytest.fixture(scope="module")
def corpus(english_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("corpus") / "novel.txt"
    path.write_bytes(english_text.encode()[:N_BYTES])
    return path


@pytest.fixture(scope="module")
def ran(corpus, tmp_path_factory):
    """What the script printed, and the JSON it wrote."""
    json_file = tmp_path_factory.mktemp("runs") / "runs.json"
    options = ["--vocab-sizes", "400,800", "--held-out-mb", "0.02", "--first-mb", "0.06,0.07"]
    command = [sys.executable, FOLDER / "paper_tables.py", corpus, *options, "--json", json_file]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return output, json.loads(json_file.read_text())


def test_every_row_is_what_the_package_measures(corpus, ran, script, tmp_path):
    rows = ran[1]["measured"]
    assert [row["vocab_size"] for row in rows] == [400, 400, 800, 800] * 2
    assert [row["text"] for row in rows] == ["train", "held-out"] * 4
    train, held_out = script.parts(corpus, 0.07, 0.02, tmp_path)
    counts = hs.count(train)
    plain, scaffold = (hs.train(counts, 800, scaffold=kind) for kind in (False, True))
    for row, text in zip(rows[-2:], (train, held_out), strict=True):
        before, after = (hs.evaluate(bpe, hs.count(text)) for bpe in (plain, scaffold))
        change = hs.compare_vocabularies(before, after)
        assert row["trained_on_bytes"] == train.stat().st_size
        assert row["gain"] == change.gain
        assert row["raw_agreement"] == after.raw_agreement
        assert row["raw_agreement_merges_only"] == after.raw_agreement_merges_only
        assert row["raw_agreement_unseen"] == scaffold.raw_agreement_unseen
        assert row["removed"] == len(change.removed)
        assert row["share_removed"] == len(change.removed) / 800
        assert row["entropy"] == [before.entropy, after.entropy]
        assert row["redundancy"] == [before.redundancy, after.redundancy]
        assert row["n_tokens"] == [before.n_tokens, after.n_tokens]


def test_the_change_of_entropy_is_explained(ran):
    for row in ran[1]["measured"]:
        before, after = row["entropy"]
        n_before, n_after = row["n_tokens"]
        saved = row["bits_per_saved_token"]
        assert saved == pytest.approx((n_before * before - n_after * after) / (n_before - n_after))
        assert after - before == pytest.approx((n_before - n_after) / n_after * (before - saved))
        assert after - before == pytest.approx(sum(row["entropy_terms"]))


def test_tables_show_all(ran):
    tables = ran[0].split("### ")[1:]
    assert [table.count("\n| novel, 0.1 MB") for table in tables] == [8, 8, 8, 8]
    assert [table.count("\n| novel, 0.1 MB, held-out text") for table in tables] == [4, 4, 4, 4]
    assert [table.count("\n| the Pile (paper)") for table in tables] == [3, 1, 1, 0]
    assert not [line for line in ran[0].splitlines() if line.startswith("| novel") and "|  |" in line]
    assert "| the Pile (paper) | 32,000 | 3.879 → 3.889 | -0.26 % | 11.2382 → 11.2443 | +0.0061 |" in ran[0]


def test_the_notebook_shows_the_same_figures_of_the_paper(script):
    notebook = (FOLDER.parent / "notebooks" / "03_paper_tables.ipynb").read_text(encoding="utf-8")
    shown = [cell for line in script.tables([]) if "(paper)" in line for cell in line.split(" | ")[2:]]
    figures = {figure for cell in shown for figure in re.findall(r"[+-]?\d+\.\d{3,4}|[+]?\d+\.\d\d %", cell)}
    assert len(figures) == 12
    assert {figure for figure in figures if figure not in notebook} == set()


def test_a_size_that_is_not_reached_is_told(script, tmp_path):
    text = tmp_path / "short.txt"
    text.write_text("a short text, a short one\n")
    with pytest.warns(UserWarning, match="tokens instead of 500"):
        [row] = script.measure("short", text, None, [500], "gpt2-digits")
    assert max(row["reached"]) < 500
    assert "| short, 0.0 MB | 500 (reached: " in "\n".join(script.tables([row]))


def test_parts_are_whole_lines_and_apart(script, corpus, tmp_path):
    text = corpus.read_bytes()
    train, held_out = script.parts(corpus, None, 0.02, tmp_path)
    assert train.read_bytes() + held_out.read_bytes() == text
    assert train.read_bytes().endswith(b"\n")
    assert 20_000 <= held_out.stat().st_size < 25_000
    train, held_out = script.parts(corpus, 0.03, 0, tmp_path)
    assert held_out is None
    assert text.startswith(train.read_bytes())
    assert 25_000 < train.stat().st_size <= 30_000
    assert script.parts(corpus, 0.2, 0, tmp_path)[0].read_bytes() == text
    assert script.parts(corpus, None, 0, tmp_path) == (corpus, None)


def test_counts_times_ten_teach_the_same():
    """It is what a text holds that decides, not how much of it there is."""
    counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
    tenfold = hs.PreTokenCounts.from_mapping({pretoken: 10 * n for pretoken, n in counts.items()})
    learned = [hs.train(table, 260) for table in (counts, tenfold)]
    assert learned[0].merges == learned[1].merges
    assert learned[0].scaffold_tokens == learned[1].scaffold_tokens
    entropies = [
        hs.evaluate(bpe, table).entropy for bpe, table in zip(learned, (counts, tenfold), strict=True)
    ]
    assert entropies[0] == pytest.approx(entropies[1])


def test_raw_agreement_on_other_text(english_text, tmp_path):
    path = tmp_path / "novel.txt"
    path.write_text(english_text)
    command = [sys.executable, FOLDER / "raw_agreement.py", path, "--mb", "0.05"]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    )
    assert first == second
    assert [line.split(" | ")[2] for line in first.splitlines()[2:]] == ["that follows", "from elsewhere"]
