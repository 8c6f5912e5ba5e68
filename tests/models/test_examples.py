"""The scripts of examples/ do at toy size what their README says."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import HubServer
from test_docs import ROOT, make_books, save_trained

EXAMPLES = ROOT / "examples"
PRETRAINING = [
    "--vocab-size",
    "600",
    "--hidden-size",
    "32",
    "--layers",
    "1",
    "--block-size",
    "64",
    "--steps",
    "2",
]


def run(script, *arguments, folder, **environment):
    """What it prints."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *map(str, arguments)],
        env={**bare, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A folder with books, and a model that was trained on them."""
    folder = tmp_path_factory.mktemp("reader")
    make_books(folder)
    run("pretrain.py", "my-model", *sorted(folder.glob("books/*.txt")), *PRETRAINING, folder=folder)
    return folder


def test_a_pretrained_model_has_its_tokenizer(reader):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(reader / "my-model")
    assert type(tokenizer).__name__ == "ScaffoldTokenizerFast"
    assert (
        AutoModelForCausalLM.from_pretrained(reader / "my-model").config.vocab_size == len(tokenizer) == 600
    )


def test_blocks_are_the_text(reader):
    from datasets import load_from_disk
    from transformers import AutoTokenizer

    books = sorted(reader.glob("books/*.txt"))
    run("prepare_dataset.py", "my-model", "blocks", *books, "--block-size", 32, folder=reader)
    blocks = load_from_disk(reader / "blocks")["input_ids"]
    tokenizer = AutoTokenizer.from_pretrained(reader / "my-model")
    ids = [i for book in books for i in [*tokenizer(book.read_text())["input_ids"], tokenizer.eos_token_id]]
    made = [i for block in blocks for i in block]
    assert {len(block) for block in blocks} == {32}
    assert made == ids[: len(ids) // 32 * 32]


def test_a_model_learns_to_chat(reader):
    chat = [{"role": "user", "content": "Who is it?"}, {"role": "assistant", "content": "Heathcliff."}]
    (reader / "chats.jsonl").write_text(f"{json.dumps({'messages': chat})}\n" * 8)
    run(
        "finetune.py",
        "my-model",
        "chats.jsonl",
        "my-chat-model",
        "--steps",
        1,
        "--max-length",
        64,
        folder=reader,
    )
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(reader / "my-chat-model")
    assert tokenizer.apply_chat_template(chat, tokenize=False).startswith("<|user|>Who is it?<|assistant|>")


def test_a_pushed_tokenizer_gives_the_same_ids(tmp_path):
    save_trained(tmp_path / "my-tokenizer")
    with HubServer({"token-of-me": "me"}) as hub:
        there = hub.environment(tmp_path / "home", token="token-of-me")
        shown = run(
            "push_and_load.py", "my-tokenizer", "me/mine", folder=tmp_path, **{"HF_HUB_OFFLINE": "0", **there}
        )
    assert "me/mine: pushed, and loaded with the same ids" in shown


def test_the_space_shows_every_token(tmp_path):
    from transformers import AutoTokenizer

    save_trained(tmp_path / "my-tokenizer")
    space = runpy.run_path(str(EXAMPLES / "space" / "app.py"))
    text = "The <b>hippopotamus</b> of Arizona"
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "my-tokenizer")
    page = space["cut"](str(tmp_path / "my-tokenizer"), text)
    assert str(tokenizer(text)["input_ids"]) in page
    assert str(tokenizer.backend_tokenizer.encode(text).ids) in page
    assert "<b>" not in page
    assert "Traceback" not in space["cut"](str(tmp_path / "none"), text)
    assert len(space["app"]().fns) == 1


def test_every_script_says_what_it_takes():
    listed = set((EXAMPLES / "README.md").read_text(encoding="utf-8").split("`"))
    for script in EXAMPLES.glob("*.py"):
        assert script.name in listed
        shown = subprocess.run([sys.executable, script, "--help"], capture_output=True, text=True, check=True)
        assert script.name in shown.stdout
    assert Path(EXAMPLES / "space" / "requirements.txt").read_text().split() == ["gradio>=6", "hf_scaffold"]
