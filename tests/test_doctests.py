"""The examples in the docstrings are right, and every module has one unless there is a reason."""

import doctest
import importlib
import pkgutil

import pytest

import hf_scaffold

MODULES = sorted(module.name for module in pkgutil.iter_modules(hf_scaffold.__path__, "hf_scaffold."))

ELSEWHERE = "what calls it has the example: "
WITHOUT_EXAMPLES = {
    "__main__": "it runs the command line when imported",
    "_child": "its work is a process of its own",
    "_cpus": "the answer is the machine's",
    "_encoder": f"{ELSEWHERE}ScaffoldBPE.encode",
    "_text_encoder": f"{ELSEWHERE}encode_batch_to_arrays",
    "_trainer": f"{ELSEWHERE}train",
    "agreement": f"{ELSEWHERE}train, whose artifacts have a raw_agreement",
    "cli": "commands, whose examples are in their --help and in the README",
    "demo": "a tour, which tests/cli/test_demo.py takes",
    "errors": "names alone",
    "hub": "it needs a Hub, which tests/tokenizer/test_hub.py has",
    "like": f"{ELSEWHERE}train_tokenizer",
    "native": f"{ELSEWHERE}ScaffoldTokenizerFast",
    "pretrained": "it needs a Hub, or its absence, as tests have",
    "report_html": f"{ELSEWHERE}make_report",
    "retrain": f"{ELSEWHERE}ScaffoldTokenizerFast.train_new_from_iterator",
    "shard_files": f"{ELSEWHERE}write_shards",
    "svg": f"{ELSEWHERE}figure_gain",
    "terminal": "it draws on a terminal",
    "views": "it draws on a terminal",
}


@pytest.mark.parametrize("name", ["hf_scaffold", *(name for name in MODULES if "__main__" not in name)])
def test_examples(name):
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert bool(attempted) == (name.removeprefix("hf_scaffold.") not in WITHOUT_EXAMPLES)


def test_reasons_are_those_of_modules():
    assert {f"hf_scaffold.{name}" for name in WITHOUT_EXAMPLES} <= {*MODULES}
