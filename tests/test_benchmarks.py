"""The benchmark runs, and finds the merges of `tokenizers` equal to ours."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "train.py"


def test_trainers_are_compared(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:100_000], encoding="utf-8")
    peers = "hf_scaffold;hf_scaffold, scaffold=False;tokenizers;a peer that is not there"
    options = ["--vocab-size", "600", "--rounds", "2", "--slow-rounds", "1", "--peers", peers]
    result = subprocess.run(
        [sys.executable, BENCHMARK, text, *options, "--json", tmp_path / "runs.json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "a peer that is not there is not installed and left out" in result.stdout
    assert "tokenizers: 343 of 343 merges equal ours at scaffold=False, rank by rank\n" in result.stdout
    assert result.stdout.count("| hf_scaffold") == 2
    runs = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert [run["peer"] for run in runs] == [*peers.split(";")[:3], *peers.split(";")[:2]]
    assert all(run["train_s"] > 0 and run["cpu_s"] > 0 and run["peak_mb"] > 0 for run in runs)
