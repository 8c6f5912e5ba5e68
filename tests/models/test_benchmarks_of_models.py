"""The benchmark that trains models runs on what is small, and finds the same again."""

import argparse
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "adapted_models.py"


def test_ways_to_go_on_with_another_text_are_compared(english_text, tmp_path):
    old, new = tmp_path / "novel.txt", tmp_path / "code.txt"
    old.write_text(english_text[:20_000], encoding="utf-8")
    new.write_text(Path(argparse.__file__).read_text()[:10_000])
    options = ["--vocab-size", "400", "--larger", "500", "--steps", "3", "2", "--seeds", "1"]
    command = [sys.executable, SCRIPT, old, new, *options]
    outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert outputs[0] == outputs[1]
    rows = [row[2:-2].split(" | ") for row in outputs[0].splitlines()[2:]]
    assert len(rows) == 6
    assert rows[0][0] == "the old tokenizer"
    for row in rows:
        before, after = (float(cell.split(" ± ")[0]) for cell in row[1:3])
        assert 0 < after < before < 9
