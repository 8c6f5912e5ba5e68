"""`-` is standard input wherever text is read from a file."""

import json
import subprocess
import sys

import pytest

import hf_scaffold as hs

TEXT = "it was the best of times, it was the worst of times\n" * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A text and a tokenizer trained on it, not to be modified."""
    folder = tmp_path_factory.mktemp("stdin")
    (folder / "text.txt").write_text(TEXT, encoding="utf-8")
    hs.train_tokenizer(folder / "text.txt", 265, eos_token="<e>").save_pretrained(folder / "tokenizer")
    return folder


@pytest.fixture
def piped(program):
    """What a command writes that gets a text through a pipe."""

    def piped(*arguments, text=TEXT):
        result = program(*arguments, input=text)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    return piped


@pytest.mark.parametrize("options", [[], ["--alphabet", "chars"], ["--max-memory", "1G"]])
def test_counting(options, folder, tmp_path, piped):
    for corpus in ("-", folder / "text.txt"):
        piped("count", corpus, "-o", tmp_path / f"{len(str(corpus))}.parquet", *options)
    one, other = tmp_path.glob("*.parquet")
    assert one.read_bytes() == other.read_bytes()


def test_a_file_is_read_from_where_it_stands(folder, tmp_path, program):
    with open(folder / "text.txt", "rb") as text:
        text.seek(26)
        subprocess.run([program.path, "count", "-", "-o", tmp_path / "c.parquet"], stdin=text, check=True)
    assert hs.PreTokenCounts.load(tmp_path / "c.parquet") == hs.count([TEXT[26:]])


def test_training(folder, tmp_path, piped):
    piped("train", "-", "--vocab-size", 265, "--eos-token", "<e>", "-o", tmp_path / "out")
    names = "tokenizer.json", "tokenizer_config.json"
    assert [(tmp_path / "out" / name).read_bytes() for name in names] == [
        (folder / "tokenizer" / name).read_bytes() for name in names
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "-", "--vocab-size", 265, "--baseline", "bpe"],
        ["report", "{text}", "--vocab-size", 265, "--baseline", "bpe", "--held-out", "-"],
    ],
)
def test_what_is_read_more_than_once(arguments, folder, tmp_path, piped):
    arguments = [str(argument).format(text=folder / "text.txt") for argument in arguments]
    piped(*arguments, "-o", tmp_path / "report.json", text=TEXT[: len(TEXT) // 2])
    found = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert found["texts"][-1]["n_bytes"] == len(TEXT) // 2


def test_shards(folder, tmp_path, piped):
    piped("tokenize", "-", "-t", folder / "tokenizer", "--to", "npy", "--lines", "-o", tmp_path / "out")
    assert hs.ShardIndex.load(tmp_path / "out").n_documents == 40


@pytest.mark.parametrize("arguments", [[], ["-"], ["-f", "-"]])
def test_lines(arguments, folder, piped):
    out = piped("tokenize", *arguments, "-t", folder / "tokenizer", "--to", "jsonl", text="it was\n- \n-")
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["it was", "- ", "-"]


def test_tokenizers_made_of_others(folder, tmp_path, piped):
    tokenizer = folder / "tokenizer"
    piped("extend", tokenizer, "-", "--vocab-size", 266, "-o", tmp_path / "larger")
    piped("prune", tokenizer, "-", "--vocab-size", 262, "-o", tmp_path / "smaller")
    screen = piped("export", tokenizer, "-", "--format", "tiktoken", "--raw", "-o", tmp_path / "x.tiktoken")
    assert "not measured" not in screen


def test_what_is_wrong_is_one_line(folder, tmp_path, program):
    out = "-o", tmp_path / "out.parquet"
    assert program("count", "-", *out, input="").stderr == (
        "hf-scaffold: error: nothing to count in '/dev/stdin': it gave no pre-tokens\n"
    )
    assert "has no parts" in program("count", "-", *out, "--part", "0/2", input=TEXT).stderr
    code = "import os, sys; os.close(0); os.execv(sys.argv[1], sys.argv[1:])"
    for arguments in (["count", "-", *out], ["tokenize", "-t", folder / "tokenizer"]):
        command = [sys.executable, "-c", code, program.path, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert result.returncode == 2
        assert "standard input" in result.stderr
        assert result.stderr.count("\n") == 1


def test_there_is_one_standard_input(tmp_path, program):
    result = program("count", "-", "-", "-o", tmp_path / "out.parquet", input=TEXT)
    assert result.stderr == ("hf-scaffold: error: standard input is given twice; it can be read only once\n")
