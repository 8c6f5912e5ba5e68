"""A folder that 0.1.0 saved loads as it did then: by today's class, and by the copy of 0.1.0's beside it.

That copy finds the package by the names `native`, `retrain` and `model_card`, which stay for it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

FOLDER = Path(__file__).with_name("saved_by_0.1.0")
THEN = json.loads((FOLDER / "ids.json").read_text(encoding="utf-8"))  # what 0.1.0 gave, with seed=7
CHECK = """
import json, pathlib, sys
folder, then = pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
assert type(tokenizer).__module__.startswith("transformers_modules."), type(tokenizer).__module__
assert pathlib.Path(sys.modules[type(tokenizer).__module__].__file__).read_bytes() == (
    folder / "tokenization_scaffold.py"
).read_bytes()
texts = list(then["ids"])
path = tokenizer.explain_path(texts[0])
assert tokenizer(texts)["input_ids"] == list(then["ids"].values())
for text, ids in then["ids"].items():
    assert tokenizer(text)["input_ids"] == ids
    assert tokenizer.decode(ids) == text
    if path == "native":
        assert tokenizer(text, dropout=0.3, seed=7)["input_ids"] == then["with dropout"][text]
arrays, ends = tokenizer.encode_batch_to_arrays(texts)
assert arrays.tolist() == [i for ids in then["ids"].values() for i in ids]
"""
WITH_THE_PACKAGE = """
assert path == "native", path
assert "hf_scaffold.native.calls" in sys.modules
new = tokenizer.train_new_from_iterator(["hugs and pugs"] * 9, 259)
assert len(new) == 260  # with "new word"
from unittest import mock
import hf_scaffold.tokenizer.model_card
with mock.patch("huggingface_hub.create_repo") as repo, mock.patch.object(
    hf_scaffold.tokenizer.model_card, "_card_in_repository", return_value=None
), mock.patch.object(type(tokenizer), "_upload_modified_files") as upload:
    repo.return_value.repo_id = "me/hugs"
    upload.side_effect = lambda folder, *_, **__: pathlib.Path(folder, "README.md").read_text()
    assert tokenizer.push_to_hub("me/hugs").startswith("---")
"""
WITHOUT_IT = """
assert path.startswith("general: "), path
assert {name for name in sys.modules if name.startswith("hf_scaffold")} == {"hf_scaffold"}  # which is None
"""


@pytest.mark.parametrize("text", THEN["ids"])
def test_todays_class_gives_the_ids_of_then(text):
    tokenizer = ScaffoldTokenizerFast.from_pretrained(FOLDER)
    assert tokenizer.explain_path(text) == "native"
    assert tokenizer(text)["input_ids"] == THEN["ids"][text]
    assert tokenizer(text, dropout=0.3, seed=7)["input_ids"] == THEN["with dropout"][text]
    tokenizer.native = False
    assert tokenizer(text)["input_ids"] == THEN["ids"][text]


@pytest.mark.parametrize(
    ("before", "after"),
    [("", WITH_THE_PACKAGE), ("import sys\nsys.modules['hf_scaffold'] = None\n", WITHOUT_IT)],
    ids=["with the package", "without it"],
)
def test_its_own_copy_gives_the_ids_of_then(before, after, tmp_path):
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", before + CHECK + after, FOLDER, json.dumps(THEN)]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
