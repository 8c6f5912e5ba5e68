import signal
from importlib.resources import files
from importlib.util import find_spec

import pytest

MISSING = [name for name in ("torch", "accelerate") if find_spec(name) is None]
collect_ignore = ["models"] if MISSING else []

# A shell's background jobs ignore Ctrl-C, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter):
    if MISSING:
        missing = " and ".join(MISSING)
        terminalreporter.write_line(f"tests/models left out: no {missing} (make test-all installs it)")


@pytest.fixture(scope="session")
def english_text():
    """A novel, as the package carries it."""
    return (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8")
