"""Importing the package: what it registers and when, and what it says where it can't work."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import toys

import hf_scaffold

AUTO = "transformers.models.auto.tokenization_auto"
LOADS = """
from transformers import AutoTokenizer
print(type(AutoTokenizer.from_pretrained(sys.argv[1])).__name__)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    toys.tokenizer().save_pretrained(folder)
    return folder


def run(code, *arguments, cwd=None, safe="-I"):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONSAFEPATH": ""}
    command = [sys.executable, *([safe] if safe else []), "-c", f"import sys\n{code}", *map(str, arguments)]
    return subprocess.run(
        command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def assert_registered(folder, code):
    done = run(f"{code}\n{LOADS}", folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ScaffoldTokenizerFast"


LOOK = f"""
import hf_scaffold, importlib.util
spec = importlib.util.find_spec("{AUTO}")
assert spec is not None and "{AUTO}" not in sys.modules
"""


def test_a_mere_look_for_the_module_changes_nothing(folder):
    assert_registered(folder, LOOK)
    assert_registered(
        folder, f"{LOOK}\nassert importlib.util.find_spec('{AUTO}').loader.get_source('{AUTO}')"
    )


def test_a_copy_made_by_hand_is_not_taken_for_the_module(folder):
    copy = "\ncopy = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(copy)\n"
    assert_registered(folder, LOOK + copy)


def test_the_module_does_not_know_of_it(folder):
    code = f"""
    import hf_scaffold, importlib
    auto = importlib.import_module("{AUTO}")
    assert type(auto.__loader__) is importlib.machinery.SourceFileLoader
    assert auto.__spec__.loader is auto.__loader__
    """
    assert_registered(folder, "\n".join(map(str.strip, code.splitlines())))


def test_after_a_reload_of_either(folder):
    assert_registered(
        folder, f"import hf_scaffold, importlib\nimportlib.reload(importlib.import_module('{AUTO}'))"
    )
    reload = "import hf_scaffold, importlib\nimportlib.reload(hf_scaffold)\n"
    once = "assert sum(type(f).__name__ == '_RegisterAfterImport' for f in sys.meta_path) == 1"
    assert_registered(folder, reload + once)


def test_after_an_import_that_failed(folder):
    assert_registered(
        folder,
        f"""
import hf_scaffold, importlib
class Break:
    def find_spec(self, name, path=None, target=None):
        if name == "transformers.models.auto.configuration_auto":
            raise ImportError("not now")
broken = Break()
sys.meta_path.insert(0, broken)
try:
    importlib.import_module("{AUTO}")
except ImportError as error:
    assert "not now" in str(error), error
else:
    raise AssertionError("imported all the same")
sys.meta_path.remove(broken)
""",
    )


OTHER = f"""
import importlib, importlib.abc, importlib.util
class Wrapper(importlib.abc.Loader):
    def __init__(self, loader):
        self.loader = loader
    def create_module(self, spec):
        return self.loader.create_module(spec)
    def exec_module(self, module):
        self.loader.exec_module(module)
        module.seen = True
class Asking(importlib.abc.MetaPathFinder):
    busy = False
    def find_spec(self, name, path=None, target=None):
        if name != "{AUTO}" or self.busy:
            return None
        self.busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.busy = False
        spec.loader = Wrapper(spec.loader)
        return spec
"""


@pytest.mark.parametrize("order", ["before", "after"])
def test_beside_finders_that_ask_all_others(folder, order):
    insert, load = "sys.meta_path.insert(0, Asking())", "import hf_scaffold"
    steps = [insert, load] if order == "before" else [load, insert]
    seen = f"assert importlib.import_module('{AUTO}').seen"
    assert_registered(folder, "\n".join([OTHER, *steps, seen]))


def test_from_many_threads_at_once(folder):
    assert_registered(
        folder,
        f"""
import importlib, threading
import transformers.tokenization_utils_tokenizers  # what transformers itself can't import in several threads
start, errors = threading.Barrier(8), []
def load(name):
    start.wait()
    try:
        importlib.import_module(name)
    except BaseException as error:
        errors.append(error)
names = ["hf_scaffold", "{AUTO}", "hf_scaffold.tokenization_scaffold", "{AUTO}"] * 2
threads = [threading.Thread(target=load, args=(name,)) for name in names]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not errors, errors
""",
    )


def test_from_sources_without_extensions_it_says_what_to_do(tmp_path):
    package = Path(hf_scaffold.__file__).parent
    compiled = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
    shutil.copytree(package, tmp_path / "hf_scaffold", ignore=compiled)
    done = run("import hf_scaffold", cwd=tmp_path, safe=None)
    assert done.returncode == 1
    [message] = done.stderr.splitlines()[-1:]
    assert message.startswith("ImportError: hf_scaffold is imported from its sources")
    assert f"pip install {tmp_path}" in message
    assert "from another folder" in message
    assert run("import hf_scaffold", cwd=tmp_path).returncode == 0
