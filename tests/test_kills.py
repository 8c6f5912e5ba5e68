"""A few dozen kills of every writer; `make attack` goes on."""

import subprocess
import sys
from pathlib import Path


def test_after_a_kill_the_old_is_there_or_the_new():
    command = [sys.executable, "-m", "attack.kills", "--kills", "40", "--seconds", "100", "--no-calls"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout
    assert not done.stdout.splitlines()[-1].startswith("0 kills")
