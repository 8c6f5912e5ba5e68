from importlib.resources import files

import pytest


@pytest.fixture(scope="session")
def english_text():
    """A novel, as the package carries it."""
    return (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8")
