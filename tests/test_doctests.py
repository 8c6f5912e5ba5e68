"""The examples in the docstrings are right, and every module has one unless there is a reason."""

import doctest
import importlib
import pkgutil

import pytest

import hf_scaffold

MODULES = sorted(
    module.name for module in pkgutil.walk_packages(hf_scaffold.__path__, "hf_scaffold.") if not module.ispkg
)
# Importing these takes packages that only `make scale-test` installs.
MODULES.remove("hf_scaffold.scale.datatrove")

ELSEWHERE = "what calls it has the example: "
WITHOUT_EXAMPLES = {
    "splitting.kinds": "it is generated: tables only",
    "__main__": "it runs the command line when imported",
    "adapting.adapting": "it needs torch; docs/adapting.md has the example, which tests/models run",
    "_core.pretoken_encoder": f"{ELSEWHERE}ScaffoldBPE.encode",
    "_core.spans": f"{ELSEWHERE}Encoder.encode_with_offsets",
    "_core.text_encoder": f"{ELSEWHERE}encode_batch_to_arrays",
    "_core.model_reader": f"{ELSEWHERE}Encoder",
    "_core.text_reader": f"{ELSEWHERE}iter_documents",
    "_core.trainer": f"{ELSEWHERE}train",
    "_registration": f"{ELSEWHERE}AutoTokenizer, which tests/test_import.py asks",
    "_utils.child": "its work is a process of its own",
    "_utils.process": "the answers are the machine's",
    "_utils.version": "the answer is the release's",
    "cli.commands": "commands, whose examples are in their --help and in the README",
    "cli.errors": "messages, which tests/cli/test_commands.py asks for",
    "cli.options": "declarations, which --help shows",
    "cli.demo": "a tour, which tests/cli/test_demo.py takes",
    "cli.terminal": "it draws on a terminal",
    "cli.usage": "what --help shows, which tests/cli/test_commands.py asks for",
    "cli.views": "it draws on a terminal",
    "tables.files": f"{ELSEWHERE}PreTokenCounts.save, which tests/counting has",
    "counting.workers": f"{ELSEWHERE}count",
    "engine.bare": f"{ELSEWHERE}Encoder",
    "engine.model": f"{ELSEWHERE}Encoder",
    "engine.general": f"{ELSEWHERE}Encoder",
    "counting.characters": f"{ELSEWHERE}train",
    "errors": "names alone",
    "formats.reading": "it needs files, which tests/formats has",
    "lifecycle.plain_engines": f"{ELSEWHERE}export",
    "model_card": "a name that stays",
    "native.calls": f"{ELSEWHERE}ScaffoldTokenizerFast",
    "native.contract": "names alone",
    "native.decoding": f"{ELSEWHERE}ScaffoldTokenizerFast",
    "native.encodings": f"{ELSEWHERE}ScaffoldTokenizerFast",
    "native.plan": f"{ELSEWHERE}ScaffoldTokenizerFast.explain_path",
    "native.rows": f"{ELSEWHERE}ScaffoldTokenizerFast",
    "native.sessions": f"{ELSEWHERE}ScaffoldTokenizerFast",
    "report.facts": f"{ELSEWHERE}make_report",
    "report.svg": f"{ELSEWHERE}figure_gain",
    "retrain": "a name that stays",
    "scale.ray": "it needs Ray, which examples/scale has",
    "scale.spark": "it needs Spark, which examples/scale has",
    "shards.index": f"{ELSEWHERE}write_shards",
    "tokenizer.hub": "it needs a Hub, which tests/tokenizer/test_hub.py has",
    "tokenizer.like": f"{ELSEWHERE}train_tokenizer",
    "tokenizer.loading": "it needs a Hub, or its absence, as tests have",
    "training.checks": f"{ELSEWHERE}ScaffoldBPE",
    "training.files": f"{ELSEWHERE}ScaffoldBPE",
}


@pytest.mark.parametrize("name", ["hf_scaffold", *(name for name in MODULES if "__main__" not in name)])
def test_examples(name):
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert bool(attempted) == (name.removeprefix("hf_scaffold.") not in WITHOUT_EXAMPLES)


def test_reasons_are_those_of_modules():
    assert {f"hf_scaffold.{name}" for name in WITHOUT_EXAMPLES} <= {*MODULES}
