"""The examples in docs/ run and show what they say."""

import doctest
import re
from pathlib import Path

import pytest

import hf_scaffold as hs

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))


@pytest.mark.parametrize("path", DOCS, ids=[path.name for path in DOCS])
def test_sessions(path):
    failed, _ = doctest.testfile(str(path), module_relative=False, encoding="utf-8")
    assert failed == 0


def test_every_public_name_is_described():
    text = next(path for path in DOCS if path.name == "python.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`(\w+)", text))
    assert set(hs.__all__) <= described


def test_shards_are_made_as_described(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("corpus").mkdir()
    Path("corpus", "a.jsonl").write_text('{"text": "a document"}\n', encoding="utf-8")
    page = next(path for path in DOCS if path.name == "shards.md").read_text(encoding="utf-8")
    code = re.search("```python\n(.*?)```", page, re.DOTALL)[1].replace(".jsonl.zst", ".jsonl")
    names = {"tokenizer": hs.train_tokenizer(["a document"], vocab_size=258)}
    exec(code, names)
    assert names["index"].n_documents == 1
    assert hs.ShardIndex.load("shards") == names["index"]
