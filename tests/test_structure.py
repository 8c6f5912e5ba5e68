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
    return {f"{name}.py" for name in ours_in(path.read_text(encoding="utf-8"))} & set(MODULES)


def ours_in(code):
    """The names of the package's modules that code of one of them imports, however it spells that."""
    tree = ast.parse(code)
    for_types = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    names = set()
    for node in ast.walk(tree):
        if node not in for_types:
            names |= {*modules_of(node)}
    return {name.removeprefix("hf_scaffold.") for name in names if name.startswith("hf_scaffold.")}


def modules_of(node):
    """The modules that a statement or call may import, by their full names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        # The package is flat: one dot is the package itself.
        parts = ["hf_scaffold" if node.level else None, node.module]
        module = ".".join(filter(None, parts))
        yield module
        yield from (f"{module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        name = getattr(node.args[0], "value", "")  # where it isn't a constant, this can't tell
        yield f"hf_scaffold{name}" if name.startswith(".") else name


@pytest.mark.parametrize(
    "code",
    [
        "from hf_scaffold.report.report import Report",
        "from hf_scaffold import report",
        "import hf_scaffold.report.report",
        "import hf_scaffold.report.report as r",
        "from .report import Report",
        "from . import report",
        "def late():\n    from . import report as r",
        "import importlib\nimportlib.import_module('hf_scaffold.report.report')",
        "import importlib\nimportlib.import_module('.report', 'hf_scaffold')",
    ],
)
def test_no_spelling_of_an_import_is_missed(code):
    assert ours_in(code) == {"report"} | ({"report.Report"} if "Report" in code else set())


def test_imports_for_types_and_of_others_do_not_count():
    assert ours_in("if TYPE_CHECKING:\n    from .report import Report") == set()
    assert ours_in("import report, json\nfrom reports import report") == set()


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
        if any(name.split(".")[0] == "hf_scaffold" for name in modules_of(node))
    }
    assert ours
    assert ours <= in_try
