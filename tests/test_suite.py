"""The suite itself ends: a test that hangs, in native code too, ends its process and shows where."""

import subprocess
import sys
from pathlib import Path

import pytest

SETTINGS = Path(__file__).parents[1] / "pyproject.toml"
HANGS = {
    "in Python": "def test_hanging():\n    while True: pass\n",
    "in C, with the interpreter's lock": "def test_hanging():\n    sum(iter(int, 1))\n",
    "asleep": "import time\ndef test_hanging():\n    time.sleep(1000)\n",
    "in a fixture": (
        "import pytest, time\n"
        "@pytest.fixture\ndef slow():\n    time.sleep(1000)\n"
        "def test_hanging(slow):\n    pass\n"
    ),
}


@pytest.mark.parametrize("case", HANGS)
def test_a_test_that_hangs_ends(case, tmp_path):
    path = tmp_path / "test_hangs.py"
    path.write_text(HANGS[case], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", SETTINGS, "-o", "faulthandler_timeout=1", path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 1
    assert "Timeout (0:00:01)!" in done.stderr
    assert "test_hangs.py" in done.stderr


# What `python FILE` runs; the attacks are modules of a package, and go by PYTHONPATH.
SCRIPTS = [
    path
    for folder in ("benchmarks", "cython_core", "notebooks", "tests")
    for path in sorted((SETTINGS.parent / folder).rglob("*.py"))
    if '\nif __name__ == "__main__":\n' in path.read_text(encoding="utf-8")
    and path.parent.name != "attack"
    and not path.name.startswith("test_")
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_find_what_is_beside_them(script):
    """Under PYTHONSAFEPATH, too, which leaves their folder out of where modules are looked for."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='imported')"
    subprocess.run([sys.executable, "-I", "-c", code, script], check=True, timeout=120)


def test_every_test_has_a_limit(pytestconfig):
    assert float(pytestconfig.getini("faulthandler_timeout")) > 0
    assert pytestconfig.getini("faulthandler_exit_on_timeout")
