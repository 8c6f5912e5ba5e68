"""Modules import downwards only, in the order of CONTRIBUTING.md's table."""

import ast
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import hf_scaffold

PACKAGE = Path(hf_scaffold.__file__).parent
MODULES = sorted(path.name for path in PACKAGE.glob("*.py") if not path.name.startswith("__"))
GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"
ROWS = [
    re.findall(r"`([\w*]+\.py)`", line.split("|")[1])
    for line in GUIDE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]
# The one module that goes to the Hub calls what needs the package where there is one.
LOOKS_UP = {"tokenization_scaffold.py": {"model_card.py", "native.py", "retrain.py"}}


def row_of(module):
    """The number of a module's row. A name in full goes before a pattern."""
    rows = [i for i, names in enumerate(ROWS) if module in names]
    rows += [i for i, names in enumerate(ROWS) for name in names if fnmatch(module, name)]
    return rows[0] if rows else None


def imported(path):
    """The package's modules that a module imports, at the top or inside functions, but for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    names = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node in for_types:
            continue
        if node.module == "hf_scaffold":
            names |= {f"{alias.name}.py" for alias in node.names}
        elif (node.module or "").startswith("hf_scaffold."):
            names.add(f"{node.module.removeprefix('hf_scaffold.')}.py")
    return names & set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_its_row(module):
    assert row_of(module) is not None


@pytest.mark.parametrize("module", MODULES)
def test_modules_import_downwards_only(module):
    needed = imported(PACKAGE / module) - LOOKS_UP.get(module, set())
    upwards = {name for name in needed if row_of(name) > row_of(module)}
    assert not upwards


def test_what_goes_to_the_hub_needs_nothing_of_ours():
    tree = ast.parse((PACKAGE / "tokenization_scaffold.py").read_text(encoding="utf-8"))
    in_try = {node for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
    ours = {
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "hf_scaffold"
    }
    assert ours
    assert ours <= in_try
