"""A few dozen kills of every writer, and of workers on parts; `make attack` and `make kills` go on."""

import subprocess
import sys
from pathlib import Path


def run(module, *options):
    command = [sys.executable, "-m", module, *options]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout
    assert not done.stdout.splitlines()[-1].startswith("0 kills")


def test_after_a_kill_the_old_is_there_or_the_new():
    run("attack.kills", "--kills", "40", "--seconds", "100", "--no-calls")


def test_workers_are_run_again_to_the_same_table_and_shards():
    run("attack.workers", "--kills", "20", "--seconds", "60")
