"""The range of transformers and tokenizers: stated once, checked at import, by the shipped file too."""

import os
import runpy
import subprocess
import sys
from importlib.metadata import requires

import pytest
import tokenizers
import toys
import transformers

from hf_scaffold import tokenization_scaffold
from hf_scaffold.tokenization_scaffold import SUPPORTED

OUTSIDE = [
    (transformers, "4.57.6", "transformers>=5.0,<6.0"),
    (transformers, "6.0.0.dev0", "transformers>=5.0,<6.0"),
    (transformers, "10.1", "transformers>=5.0,<6.0"),
    (tokenizers, "0.21.4", "tokenizers>=0.22,<1.0"),
    (tokenizers, "1.0.0rc3", "tokenizers>=0.22,<1.0"),
]
INSIDE = [
    (transformers, "5.0.0"),
    (transformers, "5.100.0.dev0"),
    (tokenizers, "0.22.1"),
    (tokenizers, "0.100"),
]

LOAD = """
import json, sys, {package}
{package}.__version__ = "{version}"
from transformers import AutoTokenizer
AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
"""


@pytest.fixture(params=["package", "shipped"])
def module_file(request, tmp_path):
    if request.param == "package":
        return tokenization_scaffold.__file__
    toys.tokenizer().save_pretrained(tmp_path)
    return str(tmp_path / "tokenization_scaffold.py")


def set_version(monkeypatch, package, version):
    """Of what an import gives now: transformers' first releases put another module in their place."""
    monkeypatch.setattr(sys.modules[package.__name__], "__version__", version)


@pytest.mark.parametrize(("package", "version", "needed"), OUTSIDE)
def test_other_versions_are_refused_at_import(monkeypatch, module_file, package, version, needed):
    set_version(monkeypatch, package, version)
    with pytest.raises(ImportError) as raised:
        runpy.run_path(module_file)
    assert str(raised.value) == (
        f"ScaffoldTokenizerFast needs {needed}, but {package.__name__} {version} is installed. "
        f"Run: pip install '{needed}'"
    )


@pytest.mark.parametrize(("package", "version"), INSIDE)
def test_the_whole_range_is_let_in(monkeypatch, module_file, package, version):
    set_version(monkeypatch, package, version)
    assert "ScaffoldTokenizerFast" in runpy.run_path(module_file)


@pytest.mark.parametrize(("package", "version", "needed"), [OUTSIDE[1], OUTSIDE[4]])
def test_auto_tokenizer_passes_the_message_on(tmp_path, package, version, needed):
    toys.tokenizer().save_pretrained(tmp_path / "toy")
    loaded = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            LOAD.format(package=package.__name__, version=version),
            tmp_path / "toy",
        ],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode == 1
    assert f"ImportError: ScaffoldTokenizerFast needs {needed}, but" in loaded.stderr


def test_the_packages_dependencies_say_the_same():
    stated = {f"{package.__name__}<{beyond},>={lowest}" for package, (lowest, beyond) in SUPPORTED.items()}
    assert stated <= set(requires("hf_scaffold"))
