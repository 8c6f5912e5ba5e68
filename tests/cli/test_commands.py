"""The commands: what they write and show, and that whatever fails says so in one line and loses nothing."""

import errno
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import pytest
from tokenizers import normalizers
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.adapting import embeddings
from hf_scaffold.cli import commands, demo, errors, terminal, workflow
from hf_scaffold.evaluation import inspection
from hf_scaffold.methods.surplus import METHODS
from hf_scaffold.shards.files import FORMATS as SHARD_FORMATS
from hf_scaffold.tables.parts import Parts
from hf_scaffold.text.pre_tokenizers import PRESETS
from hf_scaffold.training.agreement import percent_down
from hf_scaffold.training.parts import every_split

TEXT = demo.TEXT.read_text(encoding="utf-8")[:30_000] + (
    "\nEs war die beste und die schönste Zeit — naïve, 日本語, 12,5 %: 1775.\n"
    "日本語の本、日本語の木。\r\nქართული ენა, ქართული — Ørsted, Ångström.\n"
)
SIZE = 700


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A corpus and a tokenizer trained on it, not to be modified."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "text.txt").write_bytes(TEXT.encode())
    arguments = [
        "train",
        str(folder / "text.txt"),
        "--vocab-size",
        str(SIZE),
        "-o",
        str(folder / "tokenizer"),
    ]
    assert commands.main(arguments) == 0
    return folder


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode())
    return path


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def trained(**kwargs):
    counts = hs.count([TEXT])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return counts, hs.train(counts, kwargs.pop("vocab_size", SIZE), **kwargs)


# ---- count


def test_count_writes_the_table_of_the_api(corpus, tmp_path, succeed):
    screen = succeed("count", corpus, "-o", tmp_path / "counts.parquet", "--num-workers", 1)
    counts = hs.PreTokenCounts.load(tmp_path / "counts.parquet")
    assert counts == hs.count([TEXT])
    assert f"{counts.total:,}; {len(counts):,} distinct" in screen


def test_count_takes_files_patterns_and_fields(corpus, tmp_path, succeed):
    (tmp_path / "more.txt.gz").write_bytes(gzip.compress(b"more text"))
    (tmp_path / "rows.jsonl").write_text('{"body": "a row"}\n', encoding="utf-8")
    succeed(
        "count", tmp_path / "*.txt", tmp_path / "more.txt.gz", tmp_path / "rows.jsonl",
        "--text-field", "body", "--pre-tokenizer", "llama3", "-o", tmp_path / "counts.parquet",
    )  # fmt: skip
    expected = hs.count([TEXT, "more text", "a row"], pre_tokenizer="llama3")
    assert hs.PreTokenCounts.load(tmp_path / "counts.parquet") == expected


def test_merge_counts_writes_the_table_of_all_the_text(tmp_path, succeed, fail):
    for name, text in (("a", "the cat"), ("b", "the dog")):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
        succeed("count", tmp_path / f"{name}.txt", "-o", tmp_path / f"{name}.parquet")
    screen = succeed("merge-counts", tmp_path / "?.parquet", "-o", tmp_path / "all.parquet")
    assert "4; 3 distinct" in screen
    assert hs.PreTokenCounts.load(tmp_path / "all.parquet") == hs.count(["the cat", "the dog"])
    arguments = "merge-counts", tmp_path / "a.parquet", "-o", tmp_path / "c.parquet"
    assert "--max-memory is 1048576; it must be at least" in fail(*arguments, "--max-memory", "1M")
    assert "--max-memory is 'much'; write a number" in fail(*arguments, "--max-memory", "much")
    assert "c.txt must end in .parquet" in fail(*arguments[:3], tmp_path / "c.txt")


def test_mix_counts_writes_the_weighted_table(tmp_path, succeed, fail):
    for name, text in (("a", "the cat"), ("b=1", "the dog")):
        hs.count([text]).save(tmp_path / f"{name}.parquet")
    a, b, out = tmp_path / "a.parquet", tmp_path / "b=1.parquet", tmp_path / "mixed.parquet"
    screen = succeed("mix-counts", f"{a}=1", f"{b}=0.5", "-o", out)
    assert "6; 3 distinct" in screen
    assert dict(hs.PreTokenCounts.load(out)) == {b"the": 3, b" cat": 2, b" dog": 1}
    assert "a.parquet has no weight; write" in fail("mix-counts", a, "-o", out)
    assert "a.parquet is given twice" in fail("mix-counts", f"{a}=1", f"{a}=2", "-o", out)
    assert "a.parquet is the string 'much'; weights are numbers above 0" in fail(
        "mix-counts", f"{a}=much", "-o", out
    )
    assert "must end in .parquet" in fail("mix-counts", f"{a}=1", "-o", tmp_path / "out.txt")


def test_train_leaves_out_rare_pretokens(tmp_path, corpus, run):
    result = run("train", corpus, "-o", tmp_path / "tok", "--vocab-size", "260", "--min-count", "2")
    with pytest.warns(UserWarning, match="left out"):
        counts = hs.count(corpus).at_least(2)
    bpe = hs.ScaffoldBPE.load(tmp_path / "tok" / "artifact")
    assert bpe.merges == hs.train(counts, 260, special_tokens=["<|endoftext|>"]).merges
    assert bpe.training["distinct_pretokens"] == len(counts)
    assert re.search(r"left out [\d,]+ of [\d,]+ distinct pre-tokens, those below --min-count 2", result.err)


def test_merge_counts_says_which_parts_are_missing(tmp_path, succeed):
    counts = hs.count(["the cat"])
    parts = [Parts("corpus", 64, (3, 5))]
    table = hs.PreTokenCounts(counts.data, counts.offsets, counts.counts, counts.pre_tokenizer, parts)
    table.save(tmp_path / "some.parquet")
    screen = succeed("merge-counts", tmp_path / "some.parquet", "-o", tmp_path / "all.parquet")
    assert "0,1,2,4,6,7,8,9,10,11,… of 64" in screen


def test_parts_of_a_corpus_are_counted_one_by_one(tmp_path, corpus, succeed, fail):
    for number in range(3):
        screen = succeed("count", corpus, "--part", f"{number}/3", "-o", tmp_path / f"part-{number}.parquet")
        assert re.search(rf"part +{number}/3\n", screen)
    screen = succeed("merge-counts", tmp_path / "part-[02].parquet", "-o", tmp_path / "some.parquet")
    assert re.search(r"missing parts +1 of 3\n", screen)
    succeed("merge-counts", tmp_path / "part-?.parquet", "-o", tmp_path / "all.parquet")
    succeed("count", corpus, "-o", tmp_path / "whole.parquet")
    assert (tmp_path / "all.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    arguments = "count", corpus, "-o", tmp_path / "x.parquet", "--part"
    assert "there is no part 3/3: they are numbered 0/3 to 2/3" in fail(*arguments, "3/3")
    assert "'3 of 4' is not a part, such as 3/64" in fail(*arguments, "3 of 4")
    table = tmp_path / "all.parquet"
    assert "all.parquet holds counts; parts are of text" in fail(*arguments[:1], table, *arguments[2:], "0/2")
    assert not (tmp_path / "x.parquet").exists()


def test_shards_of_parts_are_joined(tmp_path, shared, corpus, succeed, fail):
    corpus = corpus.rename(corpus.with_name("corpus.txt"))
    arguments = "tokenize", corpus, "--lines", "-t", shared / "tokenizer", "--to", "npy"
    for number in range(3):
        succeed(*arguments, "--part", f"{number}/3", "-o", tmp_path / f"part-{number}")
    assert "of 3 parts, these are missing: 1" in fail(
        "join-shards", tmp_path / "part-[02]", "-o", tmp_path / "all"
    )
    screen = succeed("join-shards", tmp_path / "part-*", "-o", tmp_path / "all")
    succeed(*arguments, "-o", tmp_path / "whole")
    joined, whole = hs.ShardIndex.load(tmp_path / "all"), hs.ShardIndex.load(tmp_path / "whole")
    assert (joined.n_documents, joined.n_tokens) == (whole.n_documents, whole.n_tokens)
    assert f"{joined.n_tokens:,}" in screen
    assert "--part is for shards" in fail("tokenize", "a text", "-t", shared / "tokenizer", "--part", "0/3")
    assert "holds other shards" in fail("join-shards", tmp_path / "part-*", "-o", tmp_path / "whole")
    succeed("join-shards", tmp_path / "part-*", "-o", tmp_path / "whole", "--overwrite")
    assert hs.ShardIndex.load(tmp_path / "whole") == joined


def test_counting_in_bounded_memory_writes_the_same_table(tmp_path, corpus, succeed, fail):
    screen = succeed("count", corpus, "-o", tmp_path / "free.parquet")
    bounded = succeed("count", corpus, "--max-memory", "1G", "-o", tmp_path / "bounded.parquet")
    assert (tmp_path / "bounded.parquet").read_bytes() == (tmp_path / "free.parquet").read_bytes()
    assert re.findall(r"[\d,]+; [\d,]+ distinct", bounded) == re.findall(r"[\d,]+; [\d,]+ distinct", screen)
    arguments = "count", "--max-memory", "1G", "-o", tmp_path / "x.parquet"
    assert "free.parquet holds counts; merge-counts adds up" in fail(*arguments, tmp_path / "free.parquet")
    assert "--max-memory is 1024; it must be at least" in fail(*arguments, corpus, "--max-memory", "1K")


def test_help_shows_what_looks_like_html(succeed):
    assert "</w>" in succeed("train", "--help")


COMMANDS = [command.callback.__name__.replace("_", "-") for command in commands.app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example_and_what_each_value_is(command, succeed):
    text = succeed(command, "--help")
    assert f"hf-scaffold {command}" in text.partition("Example:")[2]
    # …as a user would say it: no types of Python, nor typer's braces and ranges
    assert not re.findall(r"<(?:int|bool|str|path|list).*?>|[{}]|x>=|\bNone\b|\bTEXT\.\.\.", text)


def test_help_tells_the_exit_codes(succeed):
    assert "0 done, 1 nobody reads the output, 2 error, 130 Ctrl-C" in " ".join(succeed("--help").split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("hf-scaffold tok", ["tokenize"]),
        ("hf-scaffold train --vocab", ["--vocab-size"]),
        ("hf-scaffold train --pre-tokenizer ", [*PRESETS, *hs.CHARACTER_PRESETS]),
        ("hf-scaffold extend --pre-tokenizer ", [*PRESETS, *hs.CHARACTER_PRESETS]),
        ("hf-scaffold report --pre-tokenizer g", ["gpt2-digits", "gpt2", "gpt4o"]),
        ("hf-scaffold count --alphabet ", ["bytes", "chars"]),
        ("hf-scaffold train --normalizer ", [*workflow.NORMALIZERS]),
        ("hf-scaffold tokenize --to ", ["tokens", "ids", "jsonl", *SHARD_FORMATS]),
        ("hf-scaffold export --format ", ["sentencepiece", "tiktoken", "gguf", "raw"]),
        ("hf-scaffold adapt --init ", [*embeddings.INITIALIZERS]),
        ("hf-scaffold report --baseline ", [*hs.BASELINES]),
        ("hf-scaffold train --method ", [*METHODS]),
    ],
)
def test_shells_complete_the_last_word(line, expected, program):
    words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    result = program(env={**os.environ, "_HF_SCAFFOLD_COMPLETE": "complete_bash", **words})
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == expected


def test_a_shell_is_given_its_script(program):
    result = program("--show-completion", "bash")
    assert (result.returncode, result.stderr) == (0, "")
    assert "_HF_SCAFFOLD_COMPLETE" in result.stdout


@pytest.mark.parametrize("preset", PRESETS)
def test_help_names_every_preset(preset, succeed):
    assert preset in succeed("train", "--help")


# ---- train


def test_train_writes_what_the_api_trains(shared):
    counts, bpe = trained(special_tokens=["<|endoftext|>"])
    folder = shared / "tokenizer"
    saved = hs.ScaffoldBPE.load(folder / "artifact")
    assert (saved.merges, saved.vocab, saved.demolish_map) == (bpe.merges, bpe.vocab, bpe.demolish_map)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert isinstance(tokenizer, hs.ScaffoldTokenizerFast)
    assert len(tokenizer) == bpe.vocab_size == SIZE
    assert (tokenizer.eos_token, tokenizer.eos_token_id) == ("<|endoftext|>", 0)
    expected = [token_id for ids in bpe.encode(counts.pre_tokenizer.pre_tokenize(TEXT)) for token_id in ids]
    assert tokenizer(TEXT)["input_ids"] == expected


def test_scaffold_ids_are_in_no_file_beside_the_tokenizer(shared):
    names = {path.name for path in (shared / "tokenizer").iterdir()}
    assert names == {
        "artifact", "scaffold.json", "tokenization_scaffold.py", "tokenizer.json", "tokenizer_config.json",
    }  # fmt: skip
    vocab = json.loads((shared / "tokenizer" / "tokenizer.json").read_bytes())["model"]["vocab"]
    assert sorted(vocab.values()) == list(range(SIZE))


def test_train_shows_the_facts(corpus, tmp_path, succeed):
    screen = succeed("train", corpus, "--vocab-size", SIZE, "-o", tmp_path / "tokenizer")
    counts, bpe = trained(special_tokens=["<|endoftext|>"])
    n_tokens = sum(
        len(ids) * n for ids, n in zip(bpe.encode(list(counts)), counts.counts.tolist(), strict=True)
    )
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in screen.splitlines())
    assert facts["tokens"] == f"{SIZE}"
    assert facts["scaffold tokens"].startswith(f"{len(bpe.scaffold_tokens)}, ")
    assert facts["scaffold tokens"].endswith(f" of {len(bpe.vocab)} in all")
    assert facts["bytes per token"] == f"{len(TEXT.encode()) / n_tokens:.4f} on the training text"
    shares = [percent_down(share).replace(" ", "") for share in bpe.raw_agreements.values()]
    assert facts["raw agreement"] == f"{shares[0]} of pre-tokens"
    assert facts["… merges only"] == f"{shares[1]} without ignore_merges"
    assert facts["… other text"] == f"{shares[2]} if like the training text: an estimate"


def test_training_on_tables_equals_training_on_their_text(shared, tmp_path, succeed):
    lines = TEXT.splitlines(keepends=True)
    for name, part in (("a", lines[:9]), ("b", lines[9:])):
        (tmp_path / f"{name}.txt").write_bytes("".join(part).encode())
        succeed("count", tmp_path / f"{name}.txt", "-o", tmp_path / f"{name}.parquet")
    succeed(
        "train", tmp_path / "a.parquet", tmp_path / "b.parquet", "--vocab-size", SIZE, "-o", tmp_path / "ab"
    )
    succeed("train", tmp_path / "a.txt", tmp_path / "b.txt", "--vocab-size", SIZE, "-o", tmp_path / "text")
    of_tables = {
        path: data.replace(b'.parquet"', b'.txt"') for path, data in contents(tmp_path / "ab").items()
    }
    assert of_tables == contents(tmp_path / "text")  # but for the names of what was trained on


def test_training_on_tables_of_a_pattern(shared, tmp_path, succeed):
    succeed("count", shared / "text.txt", "-o", tmp_path / "a.parquet")
    succeed("train", tmp_path / "*.parquet", "--vocab-size", SIZE, "-o", tmp_path / "tokenizer")
    trained_on_text = (shared / "tokenizer" / "artifact" / "merges.txt").read_bytes()
    assert (tmp_path / "tokenizer" / "artifact" / "merges.txt").read_bytes() == trained_on_text


def test_training_again_gives_the_same_bytes(shared, corpus, tmp_path, succeed):
    succeed("train", corpus, "--vocab-size", SIZE, "-o", tmp_path / "deep" / "again", "--num-workers", 2)
    assert contents(tmp_path / "deep" / "again") == contents(shared / "tokenizer")


def test_training_over_another_tokenizer_replaces_it(corpus, tmp_path, succeed):
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "config.json").write_text("{}", encoding="utf-8")
    succeed("train", corpus, "--vocab-size", 300, "-o", tmp_path / "tokenizer")
    succeed("train", corpus, "--vocab-size", SIZE, "-o", tmp_path / "tokenizer")
    assert len(AutoTokenizer.from_pretrained(tmp_path / "tokenizer")) == SIZE
    assert (tmp_path / "tokenizer" / "config.json").read_text(encoding="utf-8") == "{}"
    assert not list(tmp_path.rglob(".*"))


@pytest.mark.parametrize(
    ("options", "special_tokens", "roles"),
    [
        ([], ["<|endoftext|>"], {"eos_token": "<|endoftext|>"}),
        (["--special-token", "<s>", "--special-token", "</s>"], ["<s>", "</s>"], {}),
        (
            ["--special-token", "<a>", "--pad-token", "<pad>", "--eos-token", "<a>", "--bos-token", "<a>"],
            ["<a>", "<pad>"],
            {"eos_token": "<a>", "bos_token": "<a>", "pad_token": "<pad>"},
        ),
    ],
)
def test_special_tokens(options, special_tokens, roles, corpus, tmp_path, succeed):
    succeed("train", corpus, "--vocab-size", SIZE, "-o", tmp_path / "tokenizer", *options)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    assert tokenizer.convert_ids_to_tokens(list(range(len(special_tokens)))) == special_tokens
    names = ("bos_token", "eos_token", "pad_token", "unk_token")
    assert {name: getattr(tokenizer, name) for name in names if getattr(tokenizer, name)} == roles
    assert len(tokenizer) == SIZE


@pytest.mark.parametrize(
    ("options", "kwargs"),
    [
        (["--no-scaffold"], {"scaffold": False}),
        (["--min-frequency", 200], {"min_frequency": 200}),
        (["--max-token-length", 3], {"max_token_length": 3}),
        (["--limit-alphabet", 20], {"limit_alphabet": 20, "initial_alphabet": ()}),
    ],
)
def test_training_options(options, kwargs, corpus, tmp_path, run):
    result = run("train", corpus, "--vocab-size", 320, "-o", tmp_path / "tokenizer", *options)
    _, bpe = trained(special_tokens=["<|endoftext|>"], vocab_size=320, **kwargs)
    assert result.code == 0, result
    saved = hs.ScaffoldBPE.load(tmp_path / "tokenizer" / "artifact")
    assert (saved.merges, saved.vocab) == (bpe.merges, bpe.vocab)
    expected = f"hf-scaffold: warning: {bpe.stop_reason}\n" if bpe.stop_reason else ""
    assert result.err == expected
    assert bool(bpe.stop_reason) == ("min_frequency" in kwargs)


def test_normalizers_are_those_of_the_api(corpus, tmp_path, succeed, fail):
    names = "--normalizer", "nfd", "--normalizer", "strip-accents", "--normalizer", "lowercase"
    normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    succeed("train", corpus, "--vocab-size", 300, *names, "-o", tmp_path / "tokenizer")
    expected = hs.train_tokenizer(corpus, 300, normalizer=normalizer, eos_token="<|endoftext|>")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    assert tokenizer.backend_tokenizer.to_str() == expected.backend_tokenizer.to_str()
    assert tokenizer.tokenize("ÉTÉ") == tokenizer.tokenize("ete")
    succeed("count", corpus, *names, "-o", tmp_path / "counts.parquet")
    assert hs.PreTokenCounts.load(tmp_path / "counts.parquet") == hs.count(corpus, normalizer=normalizer)
    arguments = "train", tmp_path / "counts.parquet", "--vocab-size", 300, "-o", tmp_path / "of-table"
    succeed(*arguments, *names)
    assert contents(tmp_path / "of-table")[Path("tokenizer.json")] == (
        (tmp_path / "tokenizer" / "tokenizer.json").read_bytes()
    )
    assert "another pre-tokenizer or normalizer, not what is asked for" in fail(*arguments, *names[:2])
    assert "--normalizer is 'nfx'; it must be one of nfc, nfd" in fail(*arguments, "--normalizer", "nfx")


@pytest.mark.parametrize("alphabet", ["bytes", "chars"])
def test_like_is_that_of_the_api(alphabet, corpus, tmp_path, run, succeed):
    characters = alphabet == "chars"
    model = hs.train_tokenizer(
        corpus, 400, alphabet=alphabet, normalizer=normalizers.NFC(), bos_token="<s>", eos_token="</s>",
        unk_token="<unk>" if characters else None, add_bos_token=True, model_max_length=99,
    )  # fmt: skip
    model.chat_template = "{{ messages[0].content }}"
    model.save_pretrained(tmp_path / "model")
    options = "--special-token", "<more>", "--pad-token", "</s>", "--vocab-size", 380
    screen = succeed("train", corpus, "--like", tmp_path / "model", *options, "-o", tmp_path / "out")
    assert re.search(r"tokens +380\n", screen)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out")
    expected = hs.train_tokenizer(
        corpus, 380, like=AutoTokenizer.from_pretrained(tmp_path / "model"), special_tokens=["<more>"],
        pad_token="</s>",
    )  # fmt: skip
    assert tokenizer.backend_tokenizer.to_str() == expected.backend_tokenizer.to_str()
    assert tokenizer.chat_template == model.chat_template
    assert (tokenizer.pad_token, tokenizer.model_max_length) == ("</s>", 99)
    assert tokenizer("it was")["input_ids"] == expected("it was")["input_ids"]


def test_like_goes_with_nothing_that_says_the_same(shared, corpus, tmp_path, fail):
    arguments = "train", corpus, "--like", shared / "tokenizer", "-o", tmp_path / "out"
    assert "--like says what --pre-tokenizer and --alphabet would say; give one of them" in fail(
        *arguments, "--pre-tokenizer", "gpt2", "--alphabet", "chars"
    )
    assert "what --byte-fallback would" in fail(*arguments, "--byte-fallback")
    assert "no such folder" in fail(*arguments[:3], tmp_path / "nothing", *arguments[4:])
    assert "text.txt: Not a directory" in fail(*arguments[:3], corpus, *arguments[4:])


# ---- tokenize


def test_tokenize_text(shared, succeed):
    tokenizer = hs.ScaffoldTokenizerFast.from_pretrained(shared / "tokenizer")
    text = "it was the schönste wisdom"
    ids, tokens = tokenizer(text)["input_ids"], tokenizer.tokenize(text)
    arguments = ("tokenize", text, "--tokenizer", shared / "tokenizer")
    assert succeed(*arguments) == " ".join(tokens) + "\n"
    assert succeed(*arguments, "--to", "ids") == " ".join(map(str, ids)) + "\n"
    assert json.loads(succeed(*arguments, "--to", "jsonl")) == {"text": text, "ids": ids, "tokens": tokens}


def test_tokenize_gives_a_line_for_each_line(shared, tmp_path, succeed):
    text = "it was\r\n\nthe age\nof wisdom"
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress(text.encode()))
    out = succeed(
        "tokenize", "--file", tmp_path / "lines.txt.gz", "--to", "jsonl", "-t", shared / "tokenizer"
    )
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["it was", "", "the age", "of wisdom"]


def test_tokenize_keeps_documents_whole(shared, tmp_path, succeed):
    texts = ["two\nlines\n", "one"]
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps({"body": text}) + "\n" for text in texts), encoding="utf-8"
    )
    out = succeed(
        "tokenize",
        "-f",
        tmp_path / "rows.jsonl",
        "--text-field",
        "body",
        "--to",
        "jsonl",
        "-t",
        shared / "tokenizer",
    )
    assert [json.loads(line)["text"] for line in out.splitlines()] == texts


def test_tokenize_more_texts_than_a_batch(shared):
    tokenizer = hs.ScaffoldTokenizerFast.from_pretrained(shared / "tokenizer")
    texts = [f"it was {n}" for n in range(2500)]
    lines = list(workflow.tokenize(iter(texts), tokenizer, "ids"))
    assert lines == [" ".join(map(str, tokenizer(text)["input_ids"])) for text in texts]


# ---- tokenize into shards


@pytest.mark.parametrize("form", ["bin", "npy", "parquet", "arrow"])
def test_shards_are_those_of_the_api(form, shared, tmp_path, succeed):
    (tmp_path / "rows.jsonl").write_text('{"body": "a row"}\n', encoding="utf-8")
    screen = succeed(
        "tokenize", shared / "*.txt", tmp_path / "rows.jsonl", "--text-field", "body",
        "-t", shared / "tokenizer", "--to", form, "-o", tmp_path / "deep" / "out", "--shard-size", "2k",
    )  # fmt: skip
    tokenizer = hs.ScaffoldTokenizerFast.from_pretrained(shared / "tokenizer")
    paths = [shared / "text.txt", tmp_path / "rows.jsonl"]
    index = hs.write_shards(
        paths, tokenizer, tmp_path / "api", format=form, shard_size=2000, text_field="body"
    )
    assert contents(tmp_path / "deep" / "out") == contents(tmp_path / "api")
    assert len(index.shards) == 2
    facts = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in screen.splitlines())
    assert facts["shards"] == f"2 in {tmp_path / 'deep' / 'out'}"
    assert facts["documents"] == "2"
    assert facts["tokens"] == f"{index.n_tokens:,}, uint16"


def test_shards_of_lines_without_eos(shared, corpus, tmp_path, succeed):
    arguments = ("tokenize", corpus, "-t", shared / "tokenizer", "--to", "bin", "-o", tmp_path / "out")
    succeed(*arguments, "--lines", "--no-eos")
    index = hs.ShardIndex.load(tmp_path / "out")
    n_lines = len(corpus.read_bytes().splitlines())
    assert (index.n_documents, index.eos_token_id, index.lines) == (n_lines, None, True)
    before = (tmp_path / "out" / "shard-00000.bin").stat()
    succeed(*arguments, "--lines", "--no-eos")
    assert (tmp_path / "out" / "shard-00000.bin").stat() == before


def test_other_shards_are_overwritten_only_when_asked(shared, corpus, tmp_path, succeed, fail):
    arguments = ("tokenize", corpus, "-t", shared / "tokenizer", "-o", tmp_path / "out", "--to")
    succeed(*arguments, "bin")
    before = contents(tmp_path / "out")
    assert "their format is 'bin', not 'npy'" in fail(*arguments, "npy")
    assert contents(tmp_path / "out") == before
    succeed(*arguments, "npy", "--overwrite")
    assert {path.suffix for path in contents(tmp_path / "out")} == {".json", ".npy"}


@pytest.mark.parametrize(
    ("text", "number"), [("7", 7), ("20k", 20_000), ("100M", 10**8), ("3G", 3 * 10**9), ("1m", 10**6)]
)
def test_shard_size_has_suffixes(text, number, shared, corpus, tmp_path, succeed):
    succeed(
        "tokenize", corpus, "-t", shared / "tokenizer", "--to", "npy", "-o", tmp_path / "out",
        "--shard-size", text,
    )  # fmt: skip
    assert hs.ShardIndex.load(tmp_path / "out").shard_size == number


BAD_SHARDS = {
    "no corpus": (["--to", "bin", "-o", "out"], "takes CORPUS and --output-dir"),
    "no output": (["text.txt", "--to", "bin"], "takes CORPUS and --output-dir"),
    "a file to print": (["--file", "text.txt", "--to", "npy", "-o", "out"], "takes CORPUS and --output-dir"),
    "output without shards": (["text.txt", "-o", "out"], "--to bin, npy, parquet or arrow"),
    "two texts": (["one", "two"], "give one TEXT"),
    "size no number": (
        ["text.txt", "--to", "bin", "-o", "out", "--shard-size", "1.5M"],
        "'1.5M' is not a whole number",
    ),
    "size of nothing": (
        ["text.txt", "--to", "bin", "-o", "out", "--shard-size", "0"],
        "--shard-size is 0; it must be",
    ),
    "missing file": (["missing.txt", "--to", "bin", "-o", "out"], "missing.txt"),
    "empty": (["empty.txt", "--to", "bin", "-o", "out"], "nothing to encode in 'empty.txt'"),
    "not UTF-8": (["latin1.txt", "--to", "bin", "-o", "out"], "latin1.txt is not UTF-8: byte 0xef"),
    "directory": ([".", "--to", "bin", "-o", "out"], "is a directory"),
    "output is a file": (["text.txt", "--to", "bin", "-o", "text.txt"], "text.txt: Not a directory"),
    "no EOS token": (["text.txt", "--to", "bin", "-o", "out", "--eos", "-t", "bare"], "no eos_token"),
}


@pytest.mark.parametrize("case", BAD_SHARDS)
def test_bad_shards(case, shared, corpus, tmp_path, monkeypatch, fail):
    arguments, expected = BAD_SHARDS[case]
    monkeypatch.chdir(tmp_path)
    make_bad_corpora(tmp_path)
    trained(vocab_size=300)[1].to_tokenizer().save_pretrained("bare")
    before = contents(tmp_path)
    assert expected in fail("tokenize", "-t", shared / "tokenizer", *arguments)
    assert contents(tmp_path) == before


# ---- inspect


def test_inspect_json_is_true_of_the_artifact(shared, succeed):
    bpe = hs.ScaffoldBPE.load(shared / "tokenizer" / "artifact")
    found = json.loads(succeed("inspect", shared / "tokenizer", "--json", "-n", len(bpe.scaffold_tokens)))
    assert found["vocab_size"] == SIZE
    assert found["expanded_vocab_size"] == len(bpe.vocab)
    assert found["scaffold_tokens"] == len(bpe.scaffold_tokens) > 10
    assert found["scaffold_share"] == len(bpe.scaffold_tokens) / len(bpe.vocab)
    assert found["merges"] == len(bpe.merges)
    assert found["special_tokens"] == ["<|endoftext|>"]
    assert found["alphabet_size"] == 256
    assert {name: found[name] for name in bpe.raw_agreements} == bpe.raw_agreements
    assert len(bpe.raw_agreements) == 3
    screen = succeed("inspect", shared / "tokenizer")
    for share in bpe.raw_agreements.values():
        assert percent_down(share).replace(" ", "") in screen
    assert found["pre_tokenizer"] == "gpt2-digits"
    assert [use["token"] for use in found["sample"]] == bpe.scaffold_tokens
    for use in found["sample"]:
        assert tuple(use["demolished"]) == bpe.demolish(use["token"])
        assert use["builds"] == built_by(use["token"], bpe)


def built_by(scaffold, bpe):
    """Normal tokens with the scaffold token as a part, or as a part of a scaffold part, …: by fixed point."""
    reached = {scaffold}
    while True:
        more = {
            left + right
            for left, right in bpe.merges
            if any(part in reached and part in bpe.demolish_map for part in (left, right))
        }
        if more <= reached:
            return [token for token in bpe.tokens if token in reached]
        reached |= more


def test_inspect_takes_a_tokenizer_and_an_artifact_alike(shared, tmp_path, succeed):
    tokenizer = hs.ScaffoldTokenizerFast.from_pretrained(shared / "tokenizer")
    tokenizer.add_tokens(["an added token"])
    tokenizer.save_pretrained(tmp_path)
    of_tokenizer = succeed("inspect", tmp_path)
    assert of_tokenizer == succeed("inspect", shared / "tokenizer" / "artifact")
    assert f"{SIZE}" in of_tokenizer


def test_an_artifact_can_be_taken_out_of_its_tokenizer(shared):
    taken = workflow.load_artifact(str(shared / "tokenizer"))
    saved = hs.ScaffoldBPE.load(shared / "tokenizer" / "artifact")
    assert taken == saved
    assert list(taken.vocab) == list(saved.vocab)
    assert taken.to_tokenizer().backend_tokenizer.to_str() == saved.to_tokenizer().backend_tokenizer.to_str()


def test_inspect_shows_a_sample(shared, succeed):
    bpe = hs.ScaffoldBPE.load(shared / "tokenizer" / "artifact")
    found = inspection.inspect_artifact(bpe, 4)
    rows = [
        re.split(r"\s{2,}", line) for line in succeed("inspect", shared / "tokenizer", "-n", 4).splitlines()
    ]
    show = inspection.readable
    assert [row[:2] for row in rows[-4:]] == [
        [show(use.token), " ".join(map(show, use.demolished))] for use in found.sample
    ]
    assert "Scaffold tokens" not in succeed("inspect", shared / "tokenizer", "-n", 0)


def test_readable_is_one_to_a_line():
    _, bpe = trained()
    for token in bpe.vocab:
        assert inspection.readable(token).isprintable()
        assert " " not in inspection.readable(token)


def test_inspect_plain_bpe(corpus, tmp_path, succeed):
    succeed("train", corpus, "--no-scaffold", "--vocab-size", 300, "-o", tmp_path / "plain")
    assert "0, 0.0% of 300 in all" in succeed("inspect", tmp_path / "plain")


# ---- errors: one line, exit code 2, and old output whole


def make_bad_corpora(folder):
    (folder / "empty.txt").write_bytes(b"")
    (folder / "blank.txt").write_bytes(b" \n\t\n")
    (folder / "latin1.txt").write_bytes(b"good\nna\xefve\n")
    (folder / "cut.txt.gz").write_bytes(gzip.compress(TEXT.encode())[:-20])
    (folder / "cut.parquet").write_bytes(b"PAR1 and no more")
    (folder / "rows.jsonl").write_text('{"text": "a"}\n{"body": "b"}\n', encoding="utf-8")
    (folder / "surrogate.jsonl").write_text('{"text": "\\ud800"}\n', encoding="utf-8")


BAD_TRAINING = {
    "missing file": (["missing.txt"], "missing.txt"),
    "empty": (["empty.txt"], "empty.txt"),
    "blank": (["blank.txt"], "all whitespace"),
    "not UTF-8": (["latin1.txt"], "latin1.txt is not UTF-8: byte 0xef at offset 7"),
    "one bad file among good ones": (["text.txt", "missing.txt", "blank.txt"], "missing.txt"),
    "directory": (["."], "is a directory"),
    "truncated gzip": (["cut.txt.gz"], "cut.txt.gz is truncated"),
    "truncated Parquet": (["cut.parquet"], "cut.parquet"),
    "no such field": (["rows.jsonl"], "line 2: no field 'text'; it has 'body'"),
    "lone surrogate": (["surrogate.jsonl"], "lone surrogate U+D800"),
    "pattern without files": (["*.nothing"], "no file matches"),
    "vocab_size too small": (["text.txt", "--vocab-size", "200"], "--vocab-size is 200, but 1 "),
    "vocab_size no number": (["text.txt", "--vocab-size", "many"], "'many' is not a whole number, such as"),
    "vocab_size zero": (["text.txt", "--vocab-size", "0"], "0 is too small; give at least 1"),
    "vocab_size huge": (["text.txt", "--vocab-size", str(2**31)], "--vocab-size is 2147483648; it must be"),
    "min_frequency huge": (["text.txt", "--min-frequency", str(2**63)], "--min-frequency"),
    "num_workers huge": (["text.txt", "--num-workers", "1000000"], "--num-workers is 1000000"),
    "characters missing": (["text.txt", "--unk-token", "?"], "--unk-token needs an alphabet of characters"),
    "alphabet to ask for": (["text.txt", "--unk-token", "?"], "count the corpus with --alphabet chars"),
    "vocab_size negative": (["text.txt", "--vocab-size", "-5"], "'--vocab-size': '-5' is not a whole number"),
    "doubled special token": (["text.txt", "--special-token", "<a>", "--special-token", "<a>"], "twice"),
    "empty special token": (["text.txt", "--special-token", ""], "--special-token is empty"),
    "special token of the alphabet": (["text.txt", "--eos-token", "x"], "'x' is a character of the alphabet"),
    "unknown preset": (["text.txt", "--pre-tokenizer", "gpt5"], "gpt2-digits, gpt2, llama3, gpt4o"),
    "text among tables": (["counts.parquet", "text.txt"], "counts.parquet holds counts"),
    "text among tables of a pattern": (["count*", "text.txt"], "counts.parquet holds counts"),
    "tables of another pre-tokenizer": (["counts.parquet", "--pre-tokenizer", "gpt2"], "with gpt2-digits"),
    "unknown option": (["text.txt", "--vocabsize", "300"], "--vocabsize"),
    "no corpus": ([], "see hf-scaffold train --help"),
}


@pytest.mark.parametrize("case", BAD_TRAINING)
def test_bad_training_leaves_the_old_tokenizer(case, shared, corpus, tmp_path, monkeypatch, fail):
    arguments, expected = BAD_TRAINING[case]
    monkeypatch.chdir(tmp_path)
    make_bad_corpora(tmp_path)
    hs.count([TEXT]).save("counts.parquet")
    _, bpe = trained(special_tokens=["<|endoftext|>"])
    workflow.save_tokenizer(bpe, tmp_path / "old")
    before = contents(tmp_path)
    assert expected in fail("train", *arguments, "-o", "old")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("case", ["empty.txt", "latin1.txt", "missing.txt", "rows.jsonl"])
def test_bad_counting_leaves_the_old_table(case, corpus, tmp_path, monkeypatch, fail):
    monkeypatch.chdir(tmp_path)
    make_bad_corpora(tmp_path)
    (tmp_path / "counts.parquet").write_bytes(b"the old table")
    assert case in fail("count", case, "-o", "counts.parquet")
    assert (tmp_path / "counts.parquet").read_bytes() == b"the old table"


@pytest.mark.parametrize("command", ["count", "train", "demo"])
def test_an_output_that_cannot_be_is_refused_before_the_work(command, corpus, tmp_path, monkeypatch, fail):
    def work(*args, **kwargs):
        raise AssertionError("too late")

    monkeypatch.setattr(workflow, "count", work)
    monkeypatch.setattr("hf_scaffold.cli.demo.count", work)
    (tmp_path / "file").write_bytes(b"")
    corpora = [] if command == "demo" else [corpus]
    message = fail(command, *corpora, "-o", tmp_path / "file" / "output.parquet")
    option = "--output" if command == "count" else "--output-dir"
    assert f"{option}: {tmp_path / 'file'}: Not a directory\n" in message


@pytest.mark.parametrize(
    "in_the_way", ["artifact", "300/artifact", "300/tokenizer.json/", "artifact/log.jsonl/"]
)
def test_what_is_in_a_tokenizer_s_way_is_said_before_the_work(
    in_the_way, corpus, tmp_path, monkeypatch, fail
):
    def work(*args, **kwargs):
        raise AssertionError("too late")

    monkeypatch.setattr(workflow, "count", work)
    path = tmp_path / "out" / in_the_way
    (path if in_the_way.endswith("/") else path.parent).mkdir(parents=True)
    if not in_the_way.endswith("/"):
        path.touch()
    sizes = ["--vocab-size", 300, "--vocab-size", 400] if in_the_way.startswith("300") else []
    message = fail("train", corpus, *sizes, "-o", tmp_path / "out")
    assert f"--output-dir: {path}: " in message


@pytest.mark.parametrize("form", ["bin", "parquet"])
def test_shards_that_can_not_be_are_refused_before_the_work(
    form, shared, corpus, tmp_path, monkeypatch, fail
):
    (tmp_path / "file").touch()
    monkeypatch.setattr(workflow, "load_scaffold", lambda *_: pytest.fail("too late"))
    message = fail("tokenize", corpus, "-t", shared / "tokenizer", "--to", form, "-o", tmp_path / "file")
    assert f"--output-dir: {tmp_path / 'file'}: Not a directory" in message


@pytest.mark.parametrize("arguments", [["tokenize", "some text", "-t"], ["inspect", "--json"]])
def test_a_full_disk_below_stdout_is_named(arguments, shared):
    command = [sys.executable, "-I", "-m", "hf_scaffold", *arguments, str(shared / "tokenizer")]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, "hf-scaffold: error: stdout: No space left on device\n")


def test_a_table_that_cannot_be_is_refused_before_the_work(corpus, tmp_path, monkeypatch, fail):
    def work(*args, **kwargs):
        raise AssertionError("too late")

    monkeypatch.setattr(workflow, "count", work)
    (tmp_path / "folder.parquet").mkdir()
    assert f"{tmp_path / 'folder.parquet'}: Is a directory" in fail(
        "count", corpus, "-o", tmp_path / "folder.parquet"
    )
    # `train` would take it for plain text
    assert "counts.txt must end in .parquet" in fail("count", corpus, "-o", tmp_path / "counts.txt")


@pytest.mark.parametrize("moment", ["save_pretrained", "save"])
@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, "No space left on device", "a file"), KeyboardInterrupt()]
)
def test_failing_to_save_leaves_the_old_tokenizer(moment, failure, corpus, tmp_path, monkeypatch, run):
    def fail_to_save(self, folder):
        Path(folder).mkdir(exist_ok=True)
        Path(folder, "tokenizer.json").write_text("half of", encoding="utf-8")
        raise failure

    run("train", corpus, "--vocab-size", 300, "-o", tmp_path / "tokenizer")
    before = contents(tmp_path)
    owner = hs.ScaffoldTokenizerFast if moment == "save_pretrained" else hs.ScaffoldBPE
    monkeypatch.setattr(owner, moment, fail_to_save)
    result = run("train", corpus, "--vocab-size", SIZE, "-o", tmp_path / "tokenizer")
    code, message = (
        (130, "interrupted") if isinstance(failure, KeyboardInterrupt) else (2, "error: a file: No space")
    )
    assert (result.code, result.out) == (code, "")
    assert result.err.lstrip().startswith(f"hf-scaffold: {message}")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["scaffold.json", "tokenizer.json", "tokenizer_config.json"])
@pytest.mark.parametrize("command", ["inspect", "tokenize"])
def test_truncated_tokenizer(name, command, shared, tmp_path, fail):
    for path, data in contents(shared / "tokenizer").items():
        if path.parent == Path():
            (tmp_path / path).write_bytes(data[: len(data) // 2] if path.name == name else data)
    arguments = ["inspect", tmp_path] if command == "inspect" else ["tokenize", "text", "-t", tmp_path]
    assert str(tmp_path / name) in fail(*arguments)


@pytest.mark.parametrize("name", ["vocab.json", "merges.txt", "demolish.json"])
def test_truncated_artifact(name, shared, tmp_path, fail):
    for path, data in contents(shared / "tokenizer" / "artifact").items():
        (tmp_path / path).write_bytes(data[: len(data) // 2] if path.name == name else data)
    assert str(tmp_path) in fail("inspect", tmp_path)


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing", "a/b/c"])
def test_missing_tokenizer(name, fail):
    assert f"{name}: no such folder" in fail("inspect", name)
    assert f"{name}: no such folder" in fail("tokenize", "text", "-t", name)
    assert f"{name}: no such folder" in fail("audit", name, demo.TEXT)


@pytest.mark.parametrize("option", [[], ["--every-split"]])
def test_every_split(option, corpus, tmp_path, succeed):
    made, larger, smaller = (tmp_path / name for name in ("made", "larger", "smaller"))
    succeed("train", corpus, "--vocab-size", 900, "-o", made, *option)
    succeed("extend", made, corpus, "--vocab-size", 950, "-o", larger, *option)
    succeed("prune", made, corpus, "--vocab-size", 850, "-o", smaller, *option)
    for folder in (made, larger, smaller):
        model = json.loads((folder / "tokenizer.json").read_bytes())["model"]
        merges = json.loads((folder / "scaffold.json").read_bytes())["merges"]
        expected = every_split([*map(tuple, merges)], model["vocab"])
        assert ([*map(tuple, model["merges"])] == expected) == bool(option)


def test_extend_refuses_before_it_counts(shared, tmp_path, fail):
    text, tokenizer = shared / "text.txt", shared / "tokenizer"
    options = "-o", tmp_path / "larger"
    assert "ids already; raise --vocab-size" in fail("extend", tokenizer, text, "--vocab-size", "9", *options)
    (tmp_path / "larger" / "artifact").mkdir(parents=True)
    found = fail("extend", tokenizer, text, "--vocab-size", "9999", *options)
    assert "larger has the artifact of another tokenizer; give a new folder" in found


def test_a_name_that_is_neither_a_folder_nor_on_the_hub(tmp_path, monkeypatch, fail):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    expected = (
        "no folder nothing-here here, and no tokenizer of that name in the Hub's cache, and HF_HUB_OFFLINE"
    )
    assert expected in fail("inspect", "nothing-here")
    assert expected in fail("tokenize", "text", "-t", "nothing-here")
    assert expected in fail("audit", "nothing-here", demo.TEXT)


INNER_WORDS = {
    "rows.parquet": "can't read {path}: it is not a Parquet file, or is truncated or damaged",
    "text.gz": "can't read {path}: it is not a .gz file, or is damaged",
    "text.xz": "can't read {path}: it is not a .xz file, or is damaged",
    "text.zst": "can't read {path}: it is not a .zst file, or is damaged",
}


@pytest.mark.parametrize("name", INNER_WORDS)
def test_what_another_library_said_is_not_shown(name, tmp_path, fail):
    path = tmp_path / name
    path.write_bytes(b"neither this nor that " * 9)
    expected = INNER_WORDS[name].format(path=path)
    assert fail("count", path, "-o", tmp_path / "c.parquet") == f"hf-scaffold: error: {expected}\n"


def test_no_tokenizer_is_said_in_our_words(corpus, tmp_path, fail):
    path = tmp_path / "tokenizer.json"
    for content in (b"", b"\xff\xfe", b'{"version'):
        path.write_bytes(content)
        assert "be read as a tokenizer: it is not JSON, or truncated\n" in fail("audit", path, corpus)
    (tmp_path / "folder").mkdir()
    assert "folder holds no tokenizer of transformers: no tokenizer.json\n" in fail(
        "audit", tmp_path / "folder", corpus
    )
    assert fail("inspect", "").endswith(": no such folder\n")
    assert "is not a Parquet file, or is truncated or damaged\n" in fail(
        "merge-counts", corpus, "-o", tmp_path / "c.parquet"
    )


def test_a_file_is_no_tokenizer(shared, fail):
    file = shared / "tokenizer" / "tokenizer.json"
    assert f"{file}: Not a directory" in fail("tokenize", "text", "-t", file)


def test_folder_without_a_tokenizer(tmp_path, fail):
    assert f"{tmp_path / 'scaffold.json'} is missing" in fail("inspect", tmp_path)


def test_tokenize_bad_input(shared, tmp_path, fail):
    make_bad_corpora(tmp_path)
    tokenizer = shared / "tokenizer"
    assert "latin1.txt is not UTF-8" in fail("tokenize", "-f", tmp_path / "latin1.txt", "-t", tokenizer)
    assert "surrogate" in fail("tokenize", "\udc80", "-t", tokenizer)
    assert "not both" in fail("tokenize", "text", "-f", tmp_path / "empty.txt", "-t", tokenizer)
    assert "'words' is unknown; choose tokens, ids, jsonl, bin" in fail(
        "tokenize", "text", "--to", "words", "-t", tokenizer
    )


def test_inspect_negative_sample(shared, fail):
    assert "--sample" in fail("inspect", shared / "tokenizer", "-n", -1)


def test_unknown_command(fail):
    assert "see hf-scaffold --help" in fail("tran")


# ---- messages speak of options, not of Python


def test_advice_names_the_option_of_another_command(shared, fail):
    message = fail("inspect", shared / "tokenizer", "--history", "the")
    assert "there is no training log; train with --log to keep one" in message


def test_warnings_name_options(corpus, tmp_path, run):
    corpus.write_text("a word and an extraordinarily long one", encoding="utf-8")
    result = run("count", corpus, "-o", tmp_path / "counts.parquet", "--max-pretoken-length", 10)
    assert result.code == 0, result
    assert result.err == (
        "hf-scaffold: warning: left out 1 pre-tokens of more than 10 bytes (--max-pretoken-length)\n"
    )


def test_an_artifact_is_nothing_to_compare_with(shared, corpus, tmp_path, fail):
    folder = shared / "tokenizer" / "artifact"
    message = fail("report", corpus, "--compare", folder, "-o", tmp_path / "report.md")
    assert f"{folder} is an artifact's folder; give the tokenizer's folder" in message


def test_a_process_that_died_is_told_in_options(corpus, tmp_path, monkeypatch, fail):
    def die(*_):
        raise BrokenProcessPool

    monkeypatch.setattr("hf_scaffold.counting.workers._map", die)
    message = fail("count", corpus, "--alphabet", "chars", "-o", tmp_path / "counts.parquet")
    assert "a counting process died: out of memory; --num-workers 1 needs no processes" in message


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("vocab_size is 5", "--vocab-size is 5"),
        ("vocab_sizes[1] is 5", "--vocab-size is 5"),
        ("special_tokens: '<a>' is there twice", "--special-token: '<a>' is there twice"),
        ("count it with alphabet='chars'", "count it with --alphabet chars"),
        ("pre_tokenizer='metaspace-unsplit' splits", "--pre-tokenizer metaspace-unsplit splits"),
        ("train with log=True", "train with --log"),
        ("log is a word, and so is alphabet", "log is a word, and so is alphabet"),
        ("/tmp/vocab_size.txt is no text", "/tmp/vocab_size.txt is no text"),
        ("field 'text' is missing", "field 'text' is missing"),
    ],
)
def test_arguments_become_options(message, expected):
    command = commands.typer.main.get_command(commands.app)
    assert errors.in_options(message, command, ["train"]) == expected


def test_a_fault_of_ours_is_one_line_too(shared, monkeypatch, fail):
    def fault(*_):
        raise KeyError("broken\nin two")

    monkeypatch.setattr(workflow, "load_artifact", fault)
    assert "unexpected KeyError" in fail("inspect", shared)
    monkeypatch.setenv(commands.TRACEBACK, "1")
    with pytest.raises(KeyError):
        commands.main(["inspect", str(shared)])


def test_missing_pyarrow_is_said_before_counting(corpus, tmp_path, monkeypatch, fail):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert "pip install 'hf_scaffold[parquet]'" in fail("count", corpus, "-o", tmp_path / "counts.parquet")


# ---- what is shown where


def test_version(succeed):
    assert succeed("--version") == f"hf-scaffold {hs.__version__}\n"


def test_no_command_shows_help(succeed):
    out = succeed()
    assert all(command in out for command in ("count", "train", "tokenize", "inspect", "demo"))


class Screen:
    """Stands for a stderr that is a terminal."""

    def __init__(self):
        self.written = ""

    def write(self, text):
        self.written += text

    def flush(self):
        pass

    def isatty(self):
        return True


def test_progress_shows_rate_and_time_left_on_a_terminal(monkeypatch, capsys):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with terminal.progress_bar("Counting", "bytes") as update:
        update(0, None)
        print("data")
        for done in range(1_000_000, 6_000_000, 1_000_000):
            update(done, 10_000_000)
    assert "Counting" in screen.written
    assert "50%" in screen.written
    assert re.search(r"\d [kMGTPEZY]B/s", screen.written)
    assert re.search(r"\d:\d\d:\d\d", screen.written)
    assert capsys.readouterr().out == "data\n"  # not into the terminal


def test_status_tells_the_step_on_a_terminal(monkeypatch, capsys):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    with terminal.status() as update:
        update("Counting")
    assert "Counting" in screen.written
    assert capsys.readouterr().out == ""


def test_a_full_bar_tells_of_last_steps(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    with terminal.progress_bar("Training", "tokens") as update:
        update(199, 200)
        assert "last steps" not in screen.written
        update(200, 200)
    assert "Training, last steps" in screen.written


def test_status_shows_time_and_names_as_they_are(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("COLUMNS", "120")
    with terminal.status("Saving my[bold]folder"):
        pass
    assert "Saving my[bold]folder" in screen.written
    assert re.search(r"\d:\d\d:\d\d", screen.written)


def test_report_counts_its_steps():
    steps = []
    hs.make_report([TEXT], SIZE, baselines=["bpe", "wordpiece"], show_progress=steps.append)
    assert [step.partition(": ")[0] for step in steps] == [f"{number} of 6" for number in range(1, 7)]
    assert steps[3] == "4 of 6: Training WordPiece"


@pytest.fixture
def colored(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_tokens_are_colored_on_terminals_alone(shared, succeed, colored, monkeypatch):
    for arguments in (["tokenize", "it was the age", "-t"], ["inspect"]):
        shown = succeed(*arguments, shared / "tokenizer")
        assert "\x1b[36m" in shown
        assert "\x1b[32m" in shown
        monkeypatch.setenv("NO_COLOR", "1")
        without = succeed(*arguments, shared / "tokenizer")
        assert not re.search(r"\x1b\[3\d", without)
        monkeypatch.delenv("NO_COLOR")
        assert re.sub(r"\x1b\[[\d;]*m", "", shown) == re.sub(r"\x1b\[[\d;]*m", "", without)


@pytest.mark.parametrize("form", ["ids", "jsonl"])
def test_data_is_never_colored(form, shared, succeed, colored):
    assert "\x1b" not in succeed("tokenize", "it was", "-t", shared / "tokenizer", "--to", form)


def test_rate_of_tokens(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    with terminal.progress_bar("Training", "tokens") as update:
        for done in range(0, 200, 50):
            update(done, 200)
    assert re.search(r"[1-9][\d,]* tokens/s", screen.written)


def test_hidden_progress(monkeypatch):
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    with terminal.progress_bar("Tokenizing", "bytes", hidden=True) as update:
        update(100, 200)
    assert "Tokenizing" not in screen.written


def test_table_aligns_wide_characters(capsys):
    terminal.table(["token", "n"], [("日本", "7"), ("abcd", "10")], numbers=["n"])
    assert capsys.readouterr().out.splitlines() == ["token    n", "日本     7", "abcd    10"]


# ---- the installed program


def test_program_reads_lines_from_stdin(shared, program):
    result = program(
        "tokenize", "-t", shared / "tokenizer", "--to", "jsonl", input="it was — 日本\n\nof times",
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == [
        "it was — 日本",
        "",
        "of times",
    ]


def test_program_fails_in_one_line(program):
    result = program("inspect", "/no/such/folder")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "hf-scaffold: error: /no/such/folder: no such folder\n"


def test_module_is_the_program():
    command = [sys.executable, "-I", "-m", "hf_scaffold", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (0, f"hf-scaffold {hs.__version__}\n")


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from hf_scaffold.cli.commands import main; main(['--help']); "
        "sys.exit(bool({'transformers', 'tokenizers', 'numpy', 'pyarrow', 'datasets'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, timeout=120).returncode == 0
    )


def test_ctrl_c(shared, program):
    process = subprocess.Popen(
        [program.path, "tokenize", "-t", shared / "tokenizer"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdin.write(b"it was the age\n" * 3000)
    process.stdin.flush()
    assert process.stdout.readline()  # it is at work, and waits for more
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, b"hf-scaffold: interrupted")


def test_ctrl_c_leaves_whole_shards_to_go_on_from(shared, program, tmp_path):
    (tmp_path / "long.txt").write_bytes(TEXT.encode() * 100)
    folder = tmp_path / "out"
    arguments = [
        "tokenize", tmp_path / "long.txt", "-t", shared / "tokenizer", "--to", "bin", "--lines",
        "--shard-size", "3k", "-o",
    ]  # fmt: skip
    process = subprocess.Popen(
        [program.path, *map(str, arguments), folder],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "HF_SCAFFOLD_TRACEBACK": "1"},
    )  # fmt: skip
    while process.poll() is None and not (folder / "shard-00001.bin").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.strip() == b"hf-scaffold: interrupted", err.decode()
    assert process.returncode == 130
    index = hs.ShardIndex.load(folder)
    assert not index.complete
    # A .bin or .idx that stands under its name is whole, listed or not; there is nothing else.
    assert {Path(shard.name).stem for shard in index.shards} <= {path.stem for path in folder.glob("*.bin")}
    assert not list(folder.glob(".*"))


def test_closed_pipe_is_no_error(shared, program, tmp_path):
    (tmp_path / "long.txt").write_bytes(TEXT.encode() * 100)
    process = subprocess.Popen(
        [program.path, "tokenize", "-t", shared / "tokenizer", "-f", tmp_path / "long.txt"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=60), err) == (1, b"")


# ---- export


def test_export(tmp_path, english_text, succeed, fail):
    corpus, saved, path = tmp_path / "corpus.txt", tmp_path / "saved", tmp_path / "x.tiktoken"
    corpus.write_text(english_text[:60_000], encoding="utf-8")
    succeed("train", corpus, "--vocab-size", "600", "-o", saved)
    as_ranks = "--format", "tiktoken", "-o", path
    assert fail("export", saved, *as_ranks).endswith("--raw writes the file all the same\n")
    assert "not exact: agreement not measured; give CORPUS" in succeed("export", saved, *as_ranks, "--raw")
    out = succeed("export", saved, corpus, *as_ranks, "--raw")
    assert re.search(r"not exact: agreement 9\d\.\d\d %", out)
    assert "x.tiktoken.json" in out
    out = succeed("export", saved, "--format", "raw", "-o", tmp_path / "stock")
    assert re.search(r"not exact: agreement 9\d\.\d\d %", out)
    assert (tmp_path / "stock" / "tokenizer.json").is_file()
    assert "has a Scaffold-BPE tokenizer" in fail("export", saved, "--format", "raw", "-o", saved)
    assert f"--output: {tmp_path}: " in fail("export", saved, "--format", "gguf", "-o", tmp_path)


def test_export_of_plain_bpe_is_exact(tmp_path, english_text, succeed):
    (tmp_path / "corpus.txt").write_text(english_text[:60_000], encoding="utf-8")
    succeed(
        "train", tmp_path / "corpus.txt", "--vocab-size", "600", "--no-scaffold", "-o", tmp_path / "plain"
    )
    for form in ("tiktoken", "gguf"):
        out = succeed("export", tmp_path / "plain", "--format", form, "-o", tmp_path / f"x.{form}")
        assert re.search(r"ids +exact", out)


def test_export_tells_of_a_first_space(tmp_path, run, succeed):
    (tmp_path / "corpus.txt").write_text("a pug hugs\n", encoding="utf-8")
    characters = "--pre-tokenizer", "metaspace", "--alphabet", "chars"
    saved = "--byte-fallback", "--unk-token", "<unk>", "--vocab-size", "270", "-o", tmp_path / "saved"
    succeed("train", tmp_path / "corpus.txt", *characters, *saved)
    result = run("export", tmp_path / "saved", "--format", "sentencepiece", "-o", tmp_path / "x.model")
    assert result.code == 0
    assert re.search(r"ids +not exact: agreement 100 %", result.out)
    assert result.err.startswith("hf-scaffold: warning: SentencePiece puts a space before every text")


# ---- text given twice


def test_a_file_given_twice_is_named_once(corpus, tmp_path, run):
    (tmp_path / "link.txt").symlink_to(corpus)
    for again in (corpus, tmp_path / "*.txt", tmp_path / "link.txt"):
        result = run("train", corpus, again, "--vocab-size", 300, "-o", tmp_path / "out")
        named = tmp_path / "link.txt" if "link" in str(again) or "*" in str(again) else corpus
        assert result.code == 0
        assert result.err == f"hf-scaffold: warning: {named} is given twice, and is read twice\n"


@pytest.mark.parametrize(
    ("held_out", "expected"),
    [
        ("text.txt", "text.txt is in the held-out text and in the training text\n"),
        ("copy.txt", "the held-out text, '{folder}/copy.txt', equals the training text\n"),
    ],
)
def test_held_out_text_that_is_trained_on(held_out, expected, corpus, tmp_path, run):
    (tmp_path / "copy.txt").write_bytes(corpus.read_bytes())
    arguments = "report", corpus, "--baseline", "bpe", "--vocab-size", SIZE, "-o", tmp_path / "r.md"
    result = run(*arguments, "--held-out", tmp_path / held_out)
    assert result.code == 0
    assert result.err.startswith("hf-scaffold: warning: ")
    assert result.err.count("\n") == 1
    assert expected.format(folder=tmp_path) in result.err
