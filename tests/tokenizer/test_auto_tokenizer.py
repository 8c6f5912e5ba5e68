"""AutoTokenizer.from_pretrained in clean processes: hf_scaffold imported, remote code trusted, or neither."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import toys
from transformers import Wav2Vec2FeatureExtractor, Wav2Vec2Processor
from transformers.dynamic_module_utils import get_imports

from hf_scaffold import tokenization_scaffold

TEXTS = ["international zona ationa 日本 naïve", "<|eos|>Arizona\n bana\t🙂", "", " ", "\x00é\U0010ffff"]

FILES = ["scaffold.json", "tokenization_scaffold.py", "tokenizer.json", "tokenizer_config.json"]

# A tokenizer often lies beside a model's config, which has a say in what class AutoTokenizer takes.
CONFIGS = {"none": None, **{name: {"model_type": name} for name in ("gpt2", "llama", "qwen2", "mistral")}}

IMPORTED = "import hf_scaffold"
IMPORTED_LATER = "from transformers import AutoTokenizer; import hf_scaffold"
NOT_INSTALLED = "import sys; sys.modules['hf_scaffold'] = None"  # importing it is a ModuleNotFoundError now

# Encodes the texts with each folder's tokenizer, or processor's; its own errors are part of the outcome.
LOAD = """
import json, sys, transformers

arguments = json.loads(sys.argv[1])
outcome = {}
for name, folder in arguments["folders"].items():
    try:
        loaded = getattr(transformers, arguments["auto"]).from_pretrained(folder, **arguments["options"])
    except ValueError as error:
        outcome[name] = {"error": str(error)}
        continue
    tokenizer = getattr(loaded, "tokenizer", loaded)
    ids = [tokenizer(text)["input_ids"] for text in arguments["texts"]]
    outcome[name] = {
        "class": type(tokenizer).__name__,
        "module": type(tokenizer).__module__,
        "ids": ids,
        "decoded": [tokenizer.decode(part) for part in ids],
        "length": len(tokenizer),
    }
    if "save" in arguments:
        tokenizer.save_pretrained(arguments["save"] + "/" + name)
print("\\n" + json.dumps(outcome))  # after any question
"""


@pytest.fixture
def folders(tmp_path):
    paths = {}
    for name, config in CONFIGS.items():
        toys.tokenizer().save_pretrained(tmp_path / name)
        if config:
            (tmp_path / name / "config.json").write_text(json.dumps(config))
        paths[name] = str(tmp_path / name)
    return paths


@pytest.fixture
def expected():
    tokenizer = toys.tokenizer()
    return [tokenizer(text)["input_ids"] for text in TEXTS]


@pytest.fixture
def load(tmp_path, folders):
    def load(preamble, **arguments):
        options = {"auto": "AutoTokenizer", "folders": folders, "texts": TEXTS, "options": {}, **arguments}
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "home"),
            "HF_MODULES_CACHE": str(tmp_path / "modules"),
        }
        process = subprocess.run(
            [sys.executable, "-I", "-c", f"{preamble}\n{LOAD}", json.dumps(options)],
            env=environment,
            stdin=subprocess.DEVNULL,  # a question whether to trust remote code would end in an error
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout.splitlines()[-1])

    return load


def assert_exact(outcome, expected):
    assert outcome.keys() == CONFIGS.keys()
    for name, loaded in outcome.items():
        assert loaded.get("class") == "ScaffoldTokenizerFast", (name, loaded)
        assert loaded["ids"] == expected, name
        assert loaded["decoded"] == TEXTS, name


@pytest.mark.parametrize("preamble", [IMPORTED, IMPORTED_LATER])
def test_exact_after_the_import_without_trusting_remote_code(load, expected, preamble):
    outcome = load(preamble)
    assert_exact(outcome, expected)
    assert {loaded["module"] for loaded in outcome.values()} == {"hf_scaffold.tokenization_scaffold"}


@pytest.mark.parametrize("preamble", ["", IMPORTED, NOT_INSTALLED])
def test_exact_with_remote_code_and_saved_again_to_the_byte(load, expected, folders, tmp_path, preamble):
    outcome = load(preamble, options={"trust_remote_code": True}, save=str(tmp_path / "again"))
    assert_exact(outcome, expected)
    for name, folder in folders.items():
        again = tmp_path / "again" / name
        assert sorted(path.name for path in again.iterdir()) == FILES
        for file in FILES:
            assert (again / file).read_bytes() == Path(folder, file).read_bytes(), (name, file)


@pytest.mark.parametrize(
    ("preamble", "options"), [("", {}), (NOT_INSTALLED, {}), ("", {"trust_remote_code": False})]
)
def test_with_neither_the_ids_are_safe_or_trust_is_asked_for(load, preamble, options):
    outcome = load(preamble, options=options)
    loaded = {name: part for name, part in outcome.items() if "error" not in part}
    assert {"gpt2", "qwen2", "mistral"} <= loaded.keys()
    for name in outcome.keys() - loaded.keys():
        assert "trust_remote_code=True" in outcome[name]["error"]
    for name, part in loaded.items():
        assert part["class"] != "ScaffoldTokenizerFast"
        assert all(token_id < part["length"] for ids in part["ids"] for token_id in ids), name
        assert part["decoded"] == TEXTS, name


@pytest.mark.parametrize(
    ("preamble", "options"), [(IMPORTED, {}), (NOT_INSTALLED, {"trust_remote_code": True})]
)
def test_exact_in_a_processor(load, expected, tmp_path, preamble, options):
    folder = tmp_path / "processor"
    Wav2Vec2Processor(Wav2Vec2FeatureExtractor(), toys.tokenizer()).save_pretrained(folder)
    outcome = load(preamble, auto="AutoProcessor", folders={"processor": str(folder)}, options=options)
    assert outcome["processor"].get("class") == "ScaffoldTokenizerFast", outcome
    assert outcome["processor"]["ids"] == expected
    assert outcome["processor"]["decoded"] == TEXTS


def test_a_missing_scaffold_file_is_never_passed_over(load, folders):
    for folder in folders.values():
        os.unlink(f"{folder}/scaffold.json")
    for part in load(NOT_INSTALLED, options={"trust_remote_code": True}).values():
        assert "scaffold.json is missing" in part["error"]


def test_as_remote_code_the_file_needs_nothing_that_transformers_does_not():
    packages = {*get_imports(tokenization_scaffold.__file__)} - sys.stdlib_module_names
    assert packages == {"huggingface_hub", "numpy", "tokenizers", "transformers"}
