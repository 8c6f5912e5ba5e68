import os
import signal
from importlib.resources import files
from importlib.util import find_spec
from shutil import which

import pytest
from hypothesis import settings

# The same examples in every run, however long they take, so that a change is refused for what it does;
# `make explore` draws new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile("repeatable")

MISSING = [name for name in ("torch", "accelerate") if find_spec(name) is None]
ENGINES = any(find_spec(name) is not None for name in ("datatrove", "pyspark", "ray"))
PROGRAMS = find_spec("gigatoken") is not None and find_spec("xllamacpp") is not None
STORES = all(find_spec(name) is not None for name in ("moto", "s3fs"))
BROWSER = next(filter(None, map(which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
collect_ignore = [
    *(["models"] if MISSING else []),
    *([] if PROGRAMS else ["programs"]),
    *([] if ENGINES else ["scale/engines"]),
    *([] if STORES else ["scale/stores"]),
    *(["report/test_report_in_browser.py"] if BROWSER is None else []),
]

# A shell's background jobs ignore Ctrl-C, and so would the programs that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter):
    if MISSING:
        missing = " and ".join(MISSING)
        terminalreporter.write_line(f"tests/models left out: no {missing} (make test-all installs it)")
    for folder, is_there in (("engines", ENGINES), ("stores", STORES)):
        if not is_there:
            terminalreporter.write_line(f"tests/scale/{folder} left out (make scale-test runs them)")
    if not PROGRAMS:
        terminalreporter.write_line("tests/programs left out (make programs runs them)")
    if BROWSER is None:
        terminalreporter.write_line(
            "tests/report/test_report_in_browser.py left out: no Chromium (your system's package)"
        )


@pytest.fixture(autouse=True)
def the_environment_stays():
    """`Dataset.map` puts a copy in place of os.environ, while rich, once imported, reads the old one."""
    environ = os.environ
    yield
    os.environ = environ  # noqa: B003  # the same object again


@pytest.fixture(scope="session")
def browser():
    """The path of a Chromium; tests that ask for it are left out where there is none."""
    return BROWSER


@pytest.fixture(scope="session")
def english_text():
    """A novel, as the package carries it."""
    return (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8")


@pytest.fixture(params=[True, False], ids=["native", "general"])
def native(request):
    """Whether the native encoder may take calls, or all are for the general path."""
    return request.param
