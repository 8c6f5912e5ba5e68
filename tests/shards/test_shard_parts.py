"""The shards of all parts of a corpus, joined: its documents once each, in order, whoever wrote the parts."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import toys

import hf_scaffold as hs
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.shards import joining, writing
from hf_scaffold.shards.files import FORMATS


@pytest.fixture(scope="module")
def tokenizer():
    return toys.tokenizer()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> str:
    """Files of all formats; returns their pattern."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)

    def text() -> str:
        return " ".join(
            rng.choices(["hugs", "été", "日本", "nation\n", "zone\r\n", "12"], k=rng.randrange(1, 20))
        )

    rows = [text() for _ in range(150)]
    lines = "".join(json.dumps({"text": row}) + "\n" for row in rows[:50]).encode()
    (folder / "a.jsonl").write_bytes(lines)
    (folder / "b.txt").write_text(text() * 20, encoding="utf-8", newline="")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(lines))
    pyarrow.parquet.write_table(pyarrow.table({"text": rows[50:]}), folder / "d.parquet")
    (folder / "e.txt").write_text(text() * 9, encoding="utf-8", newline="")
    return f"{folder}/*"


def write_parts(corpus, tokenizer, folder: Path, of: int, **options) -> list[Path]:
    folders = [folder / f"part-{number}" for number in range(of)]
    for number in random.Random(of).sample(range(of), of):
        hs.write_shards(corpus, tokenizer, folders[number], part=(number, of), **options)
    return folders


def ids_in(folder: Path) -> list[int]:
    index = hs.ShardIndex.load(folder)
    return [i for shard in index.shards for i in np.fromfile(folder / shard.name, index.dtype).tolist()]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("of", [1, 2, 7, 64])
@pytest.mark.parametrize("lines", [False, True])
def test_joined_parts_have_the_documents_of_one_run(corpus, tokenizer, tmp_path, of, lines):
    options = {"lines": lines, "shard_size": 300}
    whole = hs.write_shards(corpus, tokenizer, tmp_path / "whole", **options)
    if of == 1:
        (folder,) = write_parts(corpus, tokenizer, tmp_path, 1, **options)
        assert contents(folder) == contents(tmp_path / "whole")
        hs.join_shards(folder, tmp_path / "joined")
        assert contents(tmp_path / "joined") == contents(tmp_path / "whole")
        return
    folders = write_parts(corpus, tokenizer, tmp_path, of, **options)
    joined = hs.join_shards(folders[::-1], tmp_path / "joined")
    assert ids_in(tmp_path / "joined") == ids_in(tmp_path / "whole")
    assert (joined.n_documents, joined.n_tokens) == (whole.n_documents, whole.n_tokens)
    assert joined == hs.ShardIndex.load(tmp_path / "joined")
    assert (joined.part, joined.n_parts, joined.complete) == (None, of, True)
    assert sum(hs.ShardIndex.load(folder).n_documents > 0 for folder in folders) >= min(of, 5)


@pytest.mark.parametrize("format", FORMATS)
def test_shards_are_those_of_the_parts_in_order(corpus, tokenizer, tmp_path, format):
    folders = write_parts(corpus, tokenizer, tmp_path, 3, format=format, shard_size=300)
    index = hs.join_shards(f"{tmp_path}/part-*", tmp_path / "joined")
    expected = [path for folder in folders for path in sorted(folder.glob(f"*.{format}"))]
    assert len(expected) > 5
    for number, (path, shard) in enumerate(zip(expected, index.shards, strict=True)):
        assert shard.name == f"shard-{number:05d}.{format}"
        joined = tmp_path / "joined" / shard.name
        assert joined.read_bytes() == path.read_bytes()
        assert joined.with_suffix(".idx").exists() == (format == "bin")
        if format == "bin":
            assert joined.with_suffix(".idx").read_bytes() == path.with_suffix(".idx").read_bytes()
    assert {*contents(tmp_path / "joined")} == {
        "index.json", *(name for shard in index.shards for name in joining.names_of(shard))
    }  # fmt: skip


def test_whoever_joins_them_the_bytes_are_alike(corpus, tokenizer, tmp_path, monkeypatch):
    folders = write_parts(corpus, tokenizer, tmp_path, 3, shard_size=300)
    hs.join_shards(folders, tmp_path / "linked")

    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    hs.join_shards(folders[::-1], tmp_path / "copied")
    assert contents(tmp_path / "copied") == contents(tmp_path / "linked")
    before = [path.stat().st_ino for path in sorted((tmp_path / "copied").iterdir())]
    hs.join_shards(folders, tmp_path / "copied")  # is there already
    assert [path.stat().st_ino for path in sorted((tmp_path / "copied").iterdir())] == before


def test_a_part_that_was_stopped_goes_on(corpus, tokenizer, tmp_path):
    (tmp_path / "x").mkdir()
    folders = write_parts(corpus, tokenizer, tmp_path, 2, shard_size=300)
    index = hs.ShardIndex.load(folders[1])
    before = contents(folders[1])
    for shard in index.shards[2:]:
        for name in joining.names_of(shard):
            (folders[1] / name).unlink()
    replace(index, shards=index.shards[:2], complete=False).save(folders[1])
    with pytest.raises(
        ConfigurationError, match=r"part-1 is not finished; run the same command for it again"
    ):
        hs.join_shards(folders, tmp_path / "joined")
    with pytest.raises(ConfigurationError, match=r"holds other shards: their part is 1, not 0"):
        hs.write_shards(corpus, tokenizer, folders[1], shard_size=300, part=(0, 2))
    hs.write_shards(corpus, tokenizer, folders[1], shard_size=300, part=(1, 2))
    assert contents(folders[1]) == before


def test_parts_that_do_not_go_together_are_refused_by_name(corpus, tokenizer, tmp_path):
    folders = write_parts(corpus, tokenizer, tmp_path, 12)
    output = tmp_path / "joined"

    def refused(folders, message):
        with pytest.raises(ConfigurationError, match=message):
            hs.join_shards(folders, output)
        assert not output.exists()

    refused([*folders[:4], folders[2]], r"part-2 and .*part-2 both hold part 2/12; leave one")
    refused(folders[2:3], r"of 12 parts, these are missing: 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, …")
    refused(folders[:11], r"of 12 parts, these are missing: 11$")
    refused([], "there are no folders to join")
    refused(f"{tmp_path}/nowhere-*", "there is no folder .*nowhere")
    (tmp_path / "empty").mkdir()
    refused([*folders, tmp_path / "empty"], r"empty has no index.json")
    hs.write_shards(corpus, tokenizer, tmp_path / "whole")
    refused([*folders, tmp_path / "whole"], r"whole holds no part of a corpus")
    other = tmp_path / "other"
    for options, name in (
        ({"part": (1, 3)}, "n_parts is 3, not 12"),
        ({"part": (1, 12), "add_eos": False}, "eos_token_id is None, not 1"),
        ({"part": (1, 12), "shard_size": 7}, "shard_size is 7"),
    ):
        hs.write_shards(corpus, tokenizer, other, overwrite=True, **options)
        refused([folders[0], other], rf"other holds a part of another run than .*part-0: its {name}")
    changed = toys.tokenizer()
    changed.split_special_tokens = True
    hs.write_shards(corpus, changed, other, overwrite=True, part=(1, 12))
    refused([folders[0], other], "its tokenizer_sha256 is ")


def test_shards_that_are_truncated_or_missing_are_refused(corpus, tokenizer, tmp_path):
    folders = write_parts(corpus, tokenizer, tmp_path, 2)
    shard = folders[1] / "shard-00000.bin"
    data = shard.read_bytes()
    for damage in (lambda: shard.write_bytes(data[:-2]), shard.unlink):
        damage()
        with pytest.raises(ArtifactError, match=r"part-1/shard-00000.bin is missing or not whole"):
            hs.join_shards(folders, tmp_path / "joined")
        shard.write_bytes(data)
    shard.with_suffix(".idx").unlink()
    with pytest.raises(ArtifactError, match=r"shard-00000.bin is missing or not whole"):
        hs.join_shards(folders, tmp_path / "joined")


def test_other_shards_are_replaced_only_if_asked(corpus, tokenizer, tmp_path):
    folders = write_parts(corpus, tokenizer, tmp_path, 2)
    output = tmp_path / "joined"
    hs.write_shards(corpus, tokenizer, output, shard_size=10)
    before = contents(output)
    for target in (output, folders[0]):
        with pytest.raises(
            ConfigurationError, match="holds other shards; choose another folder, or overwrite"
        ):
            hs.join_shards(folders, target)
    assert contents(output) == before
    hs.join_shards(folders, output, overwrite=True)
    hs.join_shards(folders, tmp_path / "new")
    assert contents(output) == contents(tmp_path / "new")
    with pytest.raises(ConfigurationError, match="their n_parts is 2, not 1"):
        hs.write_shards(corpus, tokenizer, output)


@pytest.mark.parametrize(
    "change", [{"part": 2}, {"part": -1}, {"part": True}, {"part": "0"}, {"n_parts": 0}, {"n_parts": None}]
)
def test_an_index_with_no_such_part_is_refused(corpus, tokenizer, tmp_path, change):
    hs.write_shards(corpus, tokenizer, tmp_path, part=(0, 2))
    path = tmp_path / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    with pytest.raises(ArtifactError, match="is not an index of shards"):
        hs.ShardIndex.load(tmp_path)


def test_an_enormous_number_of_parts_costs_nothing(corpus, tokenizer, tmp_path):
    hs.write_shards(corpus, tokenizer, tmp_path, part=(1, 2))
    path = tmp_path / "index.json"
    index = {**json.loads(path.read_text(encoding="utf-8")), "n_parts": 10**18}
    path.write_text(json.dumps(index), encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"of 10{18} parts, these are missing: 0, 2, 3, .*10, …"):
        hs.join_shards(tmp_path, tmp_path / "joined")


@pytest.mark.parametrize("moment", [1, 2, 4])
def test_a_join_that_is_killed_leaves_all_or_nothing(corpus, tokenizer, tmp_path, moment):
    folders = write_parts(corpus, tokenizer, tmp_path, 3, shard_size=300)
    program = (
        "import os, signal, sys\n"
        "import hf_scaffold as hs\n"
        "from hf_scaffold.shards import joining\n"
        "link, n = os.link, int(sys.argv[1])\n"
        "def links(*paths):\n"
        "    global n\n"
        "    n -= 1\n"
        "    if not n:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    link(*paths)\n"
        "os.link = links\n"
        "hs.join_shards(sys.argv[3:], sys.argv[2])\n"
    )
    output = tmp_path / "joined"
    arguments = [sys.executable, "-I", "-c", program, str(moment), output, *folders]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    assert not [path for path in output.iterdir() if not path.name.startswith(".")]
    hs.join_shards(folders, output)
    hs.join_shards(folders, tmp_path / "new")
    assert contents(output) == contents(tmp_path / "new")


def test_a_second_join_into_one_folder_waits_its_turn(corpus, tokenizer, tmp_path):
    folders = write_parts(corpus, tokenizer, tmp_path, 2)
    (tmp_path / "joined").mkdir()
    with (
        writing.sole_writer(tmp_path / "joined"),
        pytest.raises(ConfigurationError, match="another run is writing shards into"),
    ):
        hs.join_shards(folders, tmp_path / "joined")


@pytest.mark.parametrize("moment", [1, 2, 4])
def test_an_index_is_there_only_with_its_shards(corpus, tokenizer, tmp_path, moment):
    """Where a join is killed as it moves shards to their places, over others."""
    folders = write_parts(corpus, tokenizer, tmp_path, 3)
    output = tmp_path / "joined"
    hs.write_shards(corpus, tokenizer, output, shard_size=1000)
    program = (
        "import os, signal, sys\n"
        "import hf_scaffold as hs\n"
        "replace, n = os.replace, int(sys.argv[1])\n"
        "def replaces(*paths):\n"
        "    global n\n"
        "    n -= '.saved-' in str(paths[0])\n"
        "    if not n:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "    replace(*paths)\n"
        "os.replace = replaces\n"
        "hs.join_shards(sys.argv[3:], sys.argv[2], overwrite=True)\n"
    )
    arguments = [sys.executable, "-I", "-c", program, str(moment), output, *folders]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    assert not (output / "index.json").exists()
    index = hs.ShardIndex.load(output)
    hs.join_shards(folders, tmp_path / "new")
    (output / ".lock").unlink()  # of the run that was killed
    assert contents(output) == contents(tmp_path / "new")
    assert index == hs.ShardIndex.load(tmp_path / "new")
