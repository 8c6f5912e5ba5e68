"""Every code block and command of the README and docs/ runs as printed, beside the files it speaks of.

A page's blocks run in order, in one folder and one process: without torch unless they need it, and with a
Hub on this machine.
"""

import base64
import json
import os
import random
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
from hub_server import HubServer

import hf_scaffold as hs
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.files import import_zstd

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
if (ROOT / "SECURITY.md").exists():
    PAGES.append(ROOT / "SECURITY.md")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

# Pages that show nothing to run, and why. That such a page has no block is a test, too.
WITHOUT_EXAMPLES = {
    "algorithm.md": "it defines a method; its example by hand is in tests/training/test_trainer.py",
    "reference.md": "its examples are those of the docstrings, which tests/test_doctests.py runs",
    "security.md": "it makes promises, each with the name of the test that keeps it",
    "SECURITY.md": "it says whom to write to",
    "why.md": "it gives reasons",
    "transformers.md": "it lists what there is; the tutorial shows it",
}
# Blocks that are no code, by the words they begin with.
NO_CODE = {"algorithm.md": ("n a · z o · A r",), "export.md": ("{",)}
# Commands that are checked, not run, and why.
NOT_RUN = {
    "make": "it builds the environment that this suite runs in, or runs for minutes to hours",
    "pip": "it needs a network",
    "python": "a benchmark, an experiment or an engine's example; tests of their own run them",
    "ray": "it needs a cluster",
    "sbatch": "it needs a cluster; the commands that it starts are checked",
    "spark-submit": "it needs a cluster; tests/scale runs the same script on one of this machine",
}
# Pages that need torch, or datasets, which would trip over its being hidden: tests/models runs them.
WITH_TORCH = {"adapting.md", "tutorial.md"}
# Pages whose code needs what only `make scale-test` installs: it is that of scripts, which tests/scale runs.
OF_SCRIPTS = {"engines.md": ROOT / "examples" / "scale"}


@dataclass(frozen=True)
class Block:
    """A piece of a page: kind is "python", "session" or "shell"."""

    kind: str
    line: int
    text: str


def blocks_of(page):
    """The fenced and indented blocks, in order; an indented one is a block only after an empty line."""
    lines = page.read_text(encoding="utf-8").splitlines()
    i = 0
    while i < len(lines):
        start = i
        if lines[i].startswith("```"):
            language = lines[i].removeprefix("```").strip()
            i = lines.index("```", i + 1)
            text = "\n".join(lines[start + 1 : i])
            kind = "session" if language == "python" and ">>> " in text else language
            yield Block({"sh": "shell", "console": "shell"}.get(kind, kind), start + 2, text)
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                i += 1
            text = "\n".join(line[4:] for line in lines[start:i]).rstrip()
            if not text.startswith(NO_CODE.get(page.name, ("\0",))):
                yield Block("shell", start + 1, text)
            continue
        i += 1


def commands_of(block):
    """The commands of a block in the shell, with the numbers of their lines."""
    text = block.text.replace("\\\n", "  ")
    for number, line in enumerate(text.splitlines(), block.line):
        if line.strip():
            yield number, line


# ---- what is there to run


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_examples(page):
    assert bool([*blocks_of(page)]) == (page.name not in WITHOUT_EXAMPLES)


def test_the_site_leads_to_every_page():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    leads_to = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", settings, re.MULTILINE)
    assert sorted(leads_to) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def test_the_site_is_not_built_quietly():
    """MkDocs' strict mode counts the warnings that it prints: with --quiet it passes over all of them."""
    assert re.findall(r"mkdocs build(.*)", MAKEFILE) == [""]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_there_is_no_other_kind_of_block(page):
    for block in blocks_of(page):
        assert block.kind in ("python", "session", "shell"), f"{page.name}:{block.line}"
        if block.kind == "shell":
            for number, line in commands_of(block):
                program = Path(shlex.split(line, comments=True)[0]).name
                assert program in {"hf-scaffold", *NOT_RUN}, f"{page.name}:{number}: {line}"


def test_reasons_are_needed():
    pages = {page.name: page for page in PAGES}
    for name, starts in NO_CODE.items():
        text = pages[name].read_text(encoding="utf-8")
        assert all(f"\n    {start}" in text for start in starts)
    programs = {
        Path(shlex.split(line, comments=True)[0]).name
        for page in PAGES
        for block in blocks_of(page)
        if block.kind == "shell"
        for _, line in commands_of(block)
    }
    assert programs == {"hf-scaffold", *NOT_RUN}


# ---- what is checked only


def checked_only():
    for page in PAGES:
        for block in blocks_of(page):
            if block.kind == "shell":
                for number, line in commands_of(block):
                    words = shlex.split(line, comments=True)
                    if Path(words[0]).name in NOT_RUN:
                        yield pytest.param(words, id=f"{page.name}:{number}")


@pytest.mark.parametrize("words", [*checked_only()])
def test_commands_that_are_not_run_would_be_found(words):
    program, *arguments = words
    match Path(program).name:
        case "make":
            target, *settings = arguments
            assert target in re.search(r"^\.PHONY:(.*)$", MAKEFILE, re.MULTILINE)[1].split()
            for setting in settings:
                assert f"$({setting.partition('=')[0]})" in MAKEFILE
        case "pip":
            assert arguments == ["install", "."] or re.fullmatch(r"hf_scaffold\[.+\]", arguments[1])
        case "sbatch":
            _, command, *options = shlex.split(arguments[arguments.index("--wrap") + 1])
            shown = subprocess.run(
                [Path(sys.executable).with_name("hf-scaffold"), command, "--help"],
                **{"capture_output": True, "text": True, "check": True},
            ).stdout
            assert {option for option in options if option.startswith("-")} <= {
                *re.findall(r"-[-\w]+", shown)
            }
        case "python" | "ray" | "spark-submit":
            n_before = next(i for i, word in enumerate(arguments) if word.endswith(".py"))
            script, *options = arguments[n_before:]
            shown = subprocess.run(
                [sys.executable, ROOT / script, "--help"], capture_output=True, text=True, check=True
            ).stdout
            for option in options:
                assert not option.startswith("-") or option in shown


@pytest.mark.parametrize("name", OF_SCRIPTS)
def test_code_of_scripts_is_quoted_as_it_is(name):
    scripts = [path.read_text(encoding="utf-8") for path in OF_SCRIPTS[name].glob("*.py")]
    lines = {line.strip() for script in scripts for line in script.splitlines()}
    blocks = [block for block in blocks_of(ROOT / "docs" / name) if block.kind == "python"]
    assert blocks
    for block in blocks:
        assert {line.strip() for line in block.text.splitlines()} <= lines


def test_extras_that_pages_name_are_there():
    named = {
        extra.strip()
        for page in PAGES
        for found in re.findall(r"hf_scaffold\[([^\]]+)\]|extras: (.*)", page.read_text(encoding="utf-8"))
        for extra in re.findall(r"\w+", found[0]) + re.findall(r"\[(\w+)\]", found[1])
    }
    assert {"all", "baselines", "report"} <= named
    for extra in named:
        assert re.search(rf"^{extra} = \[", PROJECT, re.MULTILINE), extra


# ---- what is run

DRIVER = """
import doctest, json, subprocess, sys, traceback

page, blocks, needs_torch = json.load(sys.stdin)
if not needs_torch:
    sys.modules["torch"] = None
names = {"__name__": "__main__"}
for kind, line, text in blocks:
    print(f"---- {page}:{line}", flush=True)
    if kind == "python":
        exec(compile("\\n" * (line - 1) + text, page, "exec"), names)
    elif kind == "session":
        test = doctest.DocTestParser().get_doctest(text, names, f"{page}:{line}", page, line)
        if doctest.DocTestRunner().run(test, clear_globs=False).failed:
            sys.exit(1)
        names.update(test.globs)
    else:
        subprocess.run(text, shell=True, check=True)
"""

NOVEL = (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8").splitlines()


def text_of(seed, n_lines=400):
    return "\n".join(random.Random(seed).choices(NOVEL, k=n_lines)) + "\n"


def write(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def make_books(folder):
    for seed, name in enumerate(["emma", "middlemarch", "villette"]):
        write(folder / "books" / f"{name}.txt", text_of(seed))


def make_corpus(folder):
    rows = "".join(json.dumps({"text": text_of(seed, 20)}) + "\n" for seed in range(9))
    (folder / "corpus").mkdir()
    (folder / "corpus" / "a.jsonl.zst").write_bytes(import_zstd().compress(rows.encode()))


def save_counts(folder):
    for name in ("web", "code"):
        hs.count([text_of(name)]).save(folder / f"{name}.parquet")


def save_trained(path):
    hs.train_tokenizer([text_of("tokenizer")], 400, eos_token="<|endoftext|>").save_pretrained(path)


def save_stock(path):
    counts = hs.count([text_of("stock")], pre_tokenizer="gpt2")
    hs.train_baseline("bpe", counts, 400).save_pretrained(path)


def save_characters(folder):
    given = {"alphabet": "chars", "unk_token": "<unk>", "byte_fallback": True}
    hs.train_tokenizer([text_of("characters")], 600, **given).save_pretrained(
        folder / "my-metaspace-tokenizer"
    )


def save_files_of_others(folder):
    import sentencepiece

    tokens = hs.train(hs.count([text_of("others")]), 1000, scaffold=False).tokens
    lines = [base64.b64encode(symbols_to_bytes(token)) + b" %d\n" % i for i, token in enumerate(tokens)]
    (folder / "cl100k_base.tiktoken").write_bytes(b"".join(lines))
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text_of("others").splitlines()),
        model_prefix=str(folder / "their"),
        model_type="bpe",
        vocab_size=600,
        minloglevel=2,
    )


def save_model(folder):
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    save_stock(folder / "my-model")
    tokenizer = AutoTokenizer.from_pretrained(folder / "my-model")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes)).save_pretrained(folder / "my-model")


# What a page speaks of as the reader's own.
READERS = {
    "books/": make_books,
    "corpus/": make_corpus,
    "web.parquet": save_counts,
    "other.txt": lambda folder: write(folder / "other.txt", text_of("other")),
    "held-out.txt": lambda folder: write(folder / "held-out.txt", text_of("held-out")),
    "my-tokenizer": lambda folder: save_trained(folder / "my-tokenizer"),
    "my-old-tokenizer": lambda folder: save_stock(folder / "my-old-tokenizer"),
    "my-model": save_model,
    "my-metaspace-tokenizer": save_characters,
    "their.model": save_files_of_others,
    "gpt2-like-folder": lambda folder: save_stock(folder / "gpt2-like-folder"),
}
NEEDS = {
    "adapting.md": ["my-model", "my-tokenizer"],
    "coming-from.md": ["books/"],
    "commands.md": ["books/", "other.txt", "gpt2-like-folder", "my-tokenizer"],
    "counting.md": ["corpus/", "web.parquet"],
    "export.md": ["books/", "my-tokenizer", "my-metaspace-tokenizer", "their.model"],
    "programs.md": ["my-tokenizer"],
    "index.md": ["books/"],
    "python.md": ["books/", "held-out.txt", "my-old-tokenizer"],
    "README.md": ["books/", "other.txt"],
    "report.md": ["books/", "other.txt"],
    "shards.md": ["corpus/", "my-tokenizer"],
    "tutorial.md": ["books/"],
}
# And what the reader has at the end.
MADE = {
    "adapting.md": ["my-adapted-model/model.safetensors", "my-adapted-model/scaffold.json"],
    "commands.md": [
        *("my-tokenizer/scaffold.json", "shards/shard-00000.bin", "shards/index.json"),
        *("my-larger-tokenizer/scaffold.json", "my-smaller-tokenizer/scaffold.json"),
    ],
    "counting.md": ["parts/1.parquet", "all.parquet", "mixed.parquet"],
    "python.md": ["my-bpe/log.jsonl", "books.parquet"],
    "README.md": ["my-tokenizer/scaffold.json", "report.html"],
    "export.md": [
        "longer/scaffold.json",
        "my.model",
        "my.gguf",
        "longer.model",
        "my-raw-tokenizer/tokenizer.json",
    ],
    "programs.md": ["for-transformers-js/scaffold.json"],
    "report.md": ["report.html"],
    "shards.md": ["shards/shard-00000.bin", "joined/index.json"],
}


def steps_of(page):
    """The blocks to run, as the driver takes them."""
    for block in blocks_of(page):
        if block.kind != "shell" and page.name in OF_SCRIPTS:
            continue
        if block.kind != "shell":
            yield block.kind, block.line, block.text
            continue
        for number, line in commands_of(block):
            # tests/scale/stores runs commands with such URLs.
            if Path(shlex.split(line, comments=True)[0]).name not in NOT_RUN and "s3://" not in line:
                yield "shell", number, line


def run_as_printed(page, tmp_path):
    folder, home = tmp_path / "reader", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    for need in NEEDS.get(page.name, ()):
        READERS[need](folder)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "HUGGING"))}
    with HubServer({"token-of-me": "me"}) as hub:
        environment = {
            **bare,
            **hub.environment(home, token="token-of-me"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONWARNINGS": "ignore",  # the texts are small, so that vocabularies are, too
        }
        done = subprocess.run(
            [sys.executable, "-I", "-c", DRIVER],
            input=json.dumps([page.name, [*steps_of(page)], page.name in WITH_TORCH]),
            env=environment,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for name in MADE.get(page.name, ()):
        assert (folder / name).is_file(), name


RUN_HERE = [page for page in PAGES if page.name not in WITH_TORCH and [*steps_of(page)]]


@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.name)
def test_pages_run_as_printed(page, tmp_path):
    run_as_printed(page, tmp_path)


def test_every_public_name_is_described():
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`(\w+)", text))
    assert set(hs.__all__) <= described
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: hf_scaffold\.(\w+)$", reference, re.MULTILINE)) == sorted(hs.__all__)
