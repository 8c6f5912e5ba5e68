"""What `hf_scaffold` exports is there, says what it is, and shows how it is used."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import hf_scaffold as hs
from hf_scaffold import errors

FUNCTIONS = sorted(name for name in hs.__all__ if inspect.isfunction(getattr(hs, name)))
CLASSES = sorted(name for name in hs.__all__ if inspect.isclass(getattr(hs, name)))
ERRORS = {name for name in CLASSES if issubclass(getattr(hs, name), hs.ScaffoldError)}


def test_every_name_is_there_once():
    assert len(set(hs.__all__)) == len(hs.__all__)
    assert set(hs.__all__) <= set(dir(hs))
    assert all(hasattr(hs, name) for name in hs.__all__)


def test_every_error_is_exported():
    assert set(errors.__all__) == ERRORS


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(hs.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert all(alias.name == alias.asname for alias in imports)  # else they are not exported
    assert sorted(alias.name for alias in imports) == sorted(hs.__all__)


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"load_tokenizer"}))
def test_functions_show_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(hs, name)).partition("Example:")[2]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_mention_every_argument(name):
    function = getattr(hs, name)
    described = inspect.getdoc(function).partition("Args:")[2]
    for other in (hs.train, hs.train_tokenizer, hs.TrainingSettings):  # where a description may refer to
        described += inspect.getdoc(other) if f"`{other.__name__}`" in described else ""
    for argument in inspect.signature(function).parameters:
        assert argument in described, f"{name} does not describe {argument}"


@pytest.mark.parametrize("name", sorted(set(CLASSES) - ERRORS))
def test_classes_say_what_they_hold(name):
    assert "Args:" in inspect.getdoc(getattr(hs, name)), name


def test_importing_the_package_is_quick(tmp_path):
    """Neither transformers nor numpy is imported before something needs it."""
    command = "import hf_scaffold, sys; print({'numpy', 'transformers', 'tokenizers'} & {*sys.modules})"
    output = subprocess.check_output([sys.executable, "-c", command], text=True, cwd=tmp_path)
    assert output == "set()\n"


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="attribute trane"):
        _ = hs.trane
