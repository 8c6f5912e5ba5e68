"""The examples in the docstrings are right."""

import doctest
import importlib
import pkgutil

import pytest

import hf_scaffold

MODULES = sorted(module.name for module in pkgutil.iter_modules(hf_scaffold.__path__, "hf_scaffold."))


@pytest.mark.parametrize("name", ["hf_scaffold", *(name for name in MODULES if "__main__" not in name)])
def test_examples(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples():
    examples = {
        name: doctest.testmod(importlib.import_module(name)).attempted
        for name in ("hf_scaffold._counter", "hf_scaffold.trainer")
    }
    assert all(examples.values()), examples
