"""A package imports only from floors above its own, in the order of CONTRIBUTING.md; nothing in a circle."""

import ast
import re
from pathlib import Path

import pytest

import hf_scaffold

PACKAGE = Path(hf_scaffold.__file__).parent
GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"
FLOORS = [
    name.rstrip("/").removesuffix(".py").removeprefix("hf_scaffold.")
    for line in GUIDE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
    for name in re.findall(r"`([\w./]+)`", line.split("|")[1])
]
# They know all floors, and no floor knows them.
ROOF = {"", "__main__", "_registration", "retrain", "model_card"}


def name_of(path):
    """The name of a module within the package: "text.corpus"; "" is the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


CORE = {f"_core.{path.stem}" for path in (PACKAGE / "_core").glob("*.pyi")}
PATHS = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = sorted(PATHS)


def floor_of(module):
    return module.partition(".")[0]


def ours_in(code, package=""):
    """The modules of hf_scaffold that code imports, however it spells that, in functions and for types, too.

    Args:
        package: That of the module whose code it is, within hf_scaffold.
    """
    names = {name for node in ast.walk(ast.parse(code)) for name in modules_of(node, package)}
    ours = {name.removeprefix("hf_scaffold").lstrip(".") for name in names if is_ours(name)}
    return {found for name in ours for found in [nearest(name)] if found is not None}


def is_ours(name):
    return name.partition(".")[0] == "hf_scaffold"


def nearest(name):
    """The module that an imported name is, or is in."""
    while name and name not in PATHS and name not in CORE:
        name = name.rpartition(".")[0]
    return name


def modules_of(node, package):
    """The names that a statement or call imports, in full."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = ["hf_scaffold", *filter(None, package.split("."))]
        base = above[: len(above) - node.level + 1] if node.level else []
        module = ".".join([*base, *filter(None, [node.module])])
        yield from (f"{module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        name = getattr(node.args[0], "value", "")  # where it isn't a constant, this can't tell
        yield f"hf_scaffold{name}" if name.startswith(".") else name


IMPORTS = {
    module: ours_in(path.read_text(encoding="utf-8"), name_of(path.parent / "__init__.py")) - {module}
    for module, path in PATHS.items()
}


@pytest.mark.parametrize(
    "code",
    [
        "from hf_scaffold.report.svg import Figure",
        "from hf_scaffold.report import svg",
        "import hf_scaffold.report.svg",
        "import hf_scaffold.report.svg as s",
        "from ..report.svg import Figure",
        "from ..report import svg",
        "def late():\n    from ..report import svg as s",
        "if TYPE_CHECKING:\n    from ..report import svg",
        "import importlib\nimportlib.import_module('hf_scaffold.report.svg')",
        "import importlib\nimportlib.import_module('.report.svg', 'hf_scaffold')",
    ],
)
def test_no_spelling_of_an_import_is_missed(code):
    assert ours_in(code, "text") == {"report.svg"}


def test_imports_of_others_do_not_count():
    assert ours_in("import report, json\nfrom reports import report", "text") == set()


def test_names_of_the_package_itself_are_the_package():
    assert ours_in("from hf_scaffold import count", "text") == {""}
    assert ours_in("from . import corpus\nfrom .symbols import Affixes", "text") == {
        "text.corpus",
        "text.symbols",
    }


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_its_floor(module):
    assert floor_of(module) in {*FLOORS, *ROOF}


@pytest.mark.parametrize("module", sorted({*MODULES} - ROOF))
def test_modules_import_from_floors_above_their_own(module):
    allowed = {*FLOORS[: FLOORS.index(floor_of(module)) + 1]}
    below = {name for name in IMPORTS[module] if floor_of(name) not in allowed}
    assert not below


@pytest.mark.parametrize("module", MODULES)
def test_no_module_imports_itself_by_way_of_others(module):
    reached, new = set(), {module}
    while new:
        needed = {name for each in new for name in IMPORTS.get(each, ())}
        new = needed - reached
        reached |= new
    assert module not in reached


@pytest.mark.parametrize("package", sorted({floor_of(name) for name in MODULES if "." in name} | {"_core"}))
def test_packages_have_few_modules(package):
    assert sum(name.startswith(f"{package}.") for name in {*MODULES, *CORE}) <= 8


@pytest.mark.parametrize("module", sorted(name for name in MODULES if "." in name))
def test_nothing_that_a_worker_needs_knows_transformers(module):
    if FLOORS.index(floor_of(module)) <= FLOORS.index("engine") or floor_of(module) == "scale":
        tree = ast.parse(PATHS[module].read_text(encoding="utf-8"))
        names = {name for node in ast.walk(tree) for name in modules_of(node, "")}
        assert "transformers" not in {name.partition(".")[0] for name in names}


def test_what_goes_to_the_hub_needs_nothing_of_ours():
    """It looks the package up by the names that stay, and can do without."""
    tree = ast.parse(PATHS["tokenization_scaffold"].read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    looked_up = {node.args[0].value for node in calls if ast.unparse(node.func) == "installed"}
    assert looked_up == {"native", "retrain", "model_card"} <= {*MODULES}
    assert not IMPORTS["tokenization_scaffold"]
