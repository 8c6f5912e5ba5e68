"""Tables added up on disk: the bytes of one run, whatever was divided and merged how; nothing twice."""

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import hf_scaffold as hs
from hf_scaffold.errors import ArtifactError, ConfigurationError, CorpusError, CountOverflowError
from hf_scaffold.tables import files, merging
from hf_scaffold.tables.parts import Parts

MAX = 2**63 - 1


@pytest.fixture
def few_rows(monkeypatch):
    """Tables of some hundred rows take several groups, reads and files."""
    monkeypatch.setattr(files, "ROWS_PER_GROUP", 64)
    monkeypatch.setattr(merging, "_ROWS", 16)
    monkeypatch.setattr(merging, "_LEAST_ROWS", 5)


def random_counts(rng: random.Random, n: int) -> hs.PreTokenCounts:
    alphabet = ["a", "b", "\x00", "é", b"\xff"]
    words = (b"".join(x if isinstance(x, bytes) else x.encode() for x in rng.choices(alphabet, k=k)) for k in
             rng.choices(range(1, 6), k=n))  # fmt: skip
    return hs.PreTokenCounts.from_mapping({word: rng.choice([1, 2, 2**40]) for word in words})


def write_parts(folder: Path, tables: list[hs.PreTokenCounts], corpus: str = "books") -> list[Path]:
    paths = []
    for i, table in enumerate(tables):
        rows = table.data, table.offsets, table.counts
        part = hs.PreTokenCounts(*rows, table.pre_tokenizer, [Parts(corpus, len(tables), (i,))])
        paths.append(folder / f"part-{i}.parquet")
        part.save(paths[-1])
    return paths


@pytest.mark.parametrize("seed", range(8))
def test_however_tables_are_grouped_the_bytes_are_those_of_one_run(tmp_path, monkeypatch, few_rows, seed):
    rng = random.Random(seed)
    tables = [random_counts(rng, rng.choice([0, 1, 30, 400])) for _ in range(rng.randint(1, 12))]
    whole = tables[0].merge(*tables[1:])
    whole.save(tmp_path / "whole.parquet")
    paths = write_parts(tmp_path, tables)
    monkeypatch.setattr(merging, "_MOST_FILES", rng.randint(2, 5))
    if len(paths) > 2:  # some of them first
        some = rng.sample(paths, 2)
        size = hs.merge_counts(some, tmp_path / "some.parquet")
        numbers = tuple(sorted(paths.index(path) for path in some))
        assert size.parts == hs.PreTokenCounts.load(tmp_path / "some.parquet").parts
        assert size.parts == (Parts("books", len(paths), numbers),)
        paths = [tmp_path / "some.parquet", *(path for path in paths if path not in some)]
    rng.shuffle(paths)
    size = hs.merge_counts(paths, tmp_path / "all.parquet")
    assert size == (len(whole), whole.total, whole.n_bytes, ())
    assert (tmp_path / "all.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert hs.PreTokenCounts.load(tmp_path / "all.parquet") == whole
    assert not list(tmp_path.glob(".*"))


def test_the_output_may_have_any_name(tmp_path, monkeypatch):
    """Also one that a table might get which is merged again."""
    monkeypatch.setattr(merging, "_MOST_FILES", 2)
    tables = [random_counts(random.Random(i), 400) for i in range(4)]
    paths = write_parts(tmp_path, tables)
    for name in ("0.parquet", "1.parquet", "merged"):
        hs.merge_counts(paths, tmp_path / name)
        assert hs.PreTokenCounts.load(tmp_path / name) == tables[0].merge(*tables[1:])


def test_a_table_in_memory_is_merged_likewise(tmp_path):
    paths = write_parts(tmp_path, [hs.PreTokenCounts.from_mapping({"a": i + 1}) for i in range(3)])
    first, second, third = map(hs.PreTokenCounts.load, paths)
    assert first != second
    assert first.merge(third).parts == (Parts("books", 3, (0, 2)),)
    assert second.merge(first.merge(third)) == hs.PreTokenCounts.from_mapping({"a": 6})
    with pytest.raises(ConfigurationError, match="table 0 and table 1 both count part 2/3"):
        third.merge(first.merge(third))


def test_a_part_is_never_added_twice(tmp_path):
    paths = write_parts(tmp_path, [hs.PreTokenCounts.from_mapping({"a": 1})] * 3)
    again = tmp_path / "again.parquet"
    again.write_bytes(paths[1].read_bytes())  # speculative execution
    output = tmp_path / "all.parquet"
    with pytest.raises(ConfigurationError, match=r"part-1\.parquet and .*again\.parquet both count part 1/3"):
        hs.merge_counts([*paths, again], output)
    hs.merge_counts(paths[:2], tmp_path / "two.parquet")
    with pytest.raises(ConfigurationError, match=r"two\.parquet and .*again\.parquet both count part 1/3"):
        hs.merge_counts([tmp_path / "two.parquet", paths[2], again], output)
    link = tmp_path / "link.parquet"
    link.symlink_to(paths[0])
    for given in ([paths[0], paths[0]], [paths[0], link]):
        with pytest.raises(ConfigurationError, match="are one file, whose counts would be added twice"):
            hs.merge_counts(given, output)
    link.unlink()
    hs.merge_counts(paths, output)
    with pytest.raises(ConfigurationError, match=r"all\.parquet and .*all\.parquet are one file"):
        hs.merge_counts(tmp_path / "*.parquet", output)
    assert hs.PreTokenCounts.load(output)["a"] == 3


def test_parts_of_two_divisions_or_pre_tokenizers_are_refused(tmp_path):
    table = hs.PreTokenCounts.from_mapping({"a": 1})
    (tmp_path / "other").mkdir()
    first = write_parts(tmp_path, [table] * 2)[0]
    second = write_parts(tmp_path / "other", [table] * 3)[1]
    with pytest.raises(ConfigurationError, match=r"counts a part of 2, .* a part of 3 of the same corpus"):
        hs.merge_counts([first, second], tmp_path / "all.parquet")
    hs.PreTokenCounts.from_mapping({"a": 1}, pre_tokenizer="llama3").save(second)
    with pytest.raises(ConfigurationError, match=r"part-0\.parquet and .*part-1.* different pre-tokenizers"):
        hs.merge_counts([first, second], tmp_path / "all.parquet")
    assert not (tmp_path / "all.parquet").exists()


@pytest.mark.filterwarnings("ignore:left out")
def test_a_table_without_its_rare_pretokens_says_so_for_good(tmp_path):
    whole = hs.PreTokenCounts.from_mapping({"a": 9, "b": 2, "c": 1})
    whole.at_least(3).save(tmp_path / "lossy.parquet")
    whole.save(tmp_path / "whole.parquet")
    lossy = hs.PreTokenCounts.load(tmp_path / "lossy.parquet")
    assert (whole.min_count, lossy.min_count, lossy.at_least(1).min_count) == (1, 3, 3)
    assert lossy == whole.at_least(3) == hs.PreTokenCounts.load(tmp_path / "whole.parquet", min_count=3)
    assert lossy != hs.PreTokenCounts.from_mapping({"a": 9})
    assert whole.at_least(1) == hs.PreTokenCounts.load(tmp_path / "whole.parquet", min_count=1) == whole
    message = r"lossy\.parquet lacks pre-tokens that occur less than 3 times .* may come out too small"
    with pytest.warns(UserWarning, match=message):
        hs.merge_counts([tmp_path / "whole.parquet", tmp_path / "lossy.parquet"], tmp_path / "all.parquet")
    merged = hs.PreTokenCounts.load(tmp_path / "all.parquet")
    assert (merged["a"], merged["b"], merged.min_count) == (18, 2, 3)
    with pytest.warns(UserWarning, match=r"table 1 lacks .* 3 times"):
        assert whole.merge(lossy) == merged
    hs.merge_counts(tmp_path / "lossy.parquet", tmp_path / "alone.parquet")  # nothing is added to it
    assert hs.PreTokenCounts.load(tmp_path / "alone.parquet") == lossy


@pytest.mark.parametrize("min_count", [b"", b"0", b"-1", b"3.0", b"x", b"1" * 5000])
def test_a_min_count_that_is_none_is_refused(tmp_path, min_count):
    path = table_that_says(tmp_path / "a.parquet", files.MIN_COUNT_KEY, min_count)
    with pytest.raises(ArtifactError, match=r"a\.parquet: the min_count in its metadata is b'.*not a number"):
        hs.PreTokenCounts.load(path)


def test_as_many_files_are_open_as_the_system_allows(tmp_path):
    tables = [hs.PreTokenCounts.from_mapping({f"{i}": 1, "a": 1}) for i in range(300)]
    write_parts(tmp_path, tables)
    program = (
        "import resource, sys\n"
        "import hf_scaffold as hs\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "print(hs.merge_counts(sys.argv[1] + '/part-*.parquet', sys.argv[1] + '/all.parquet').n_distinct)\n"
    )
    command = [sys.executable, "-I", "-c", program, tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) == 301
    tables[0].merge(*tables[1:]).save(tmp_path / "whole.parquet")
    assert (tmp_path / "all.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_parts_of_two_corpora_go_together(tmp_path):
    (tmp_path / "web").mkdir()
    books = write_parts(tmp_path, [hs.PreTokenCounts.from_mapping({"a": 1})] * 2)
    web = write_parts(tmp_path / "web", [hs.PreTokenCounts.from_mapping({"b": 1})] * 2, "web")
    size = hs.merge_counts([*books, web[1]], tmp_path / "all.parquet")
    assert size.parts == (Parts("web", 2, (1,)),)


# Refusals


def table_file(path: Path, pretokens: list[bytes | None], counts: list[int | None]) -> Path:
    """A file that may break the rules of rows."""
    with files.TableWriter(path, hs.get_pre_tokenizer("gpt2")) as writer:
        pretoken, count = (pyarrow.array(x, kind) for x, (_, kind) in zip(
            (pretokens, counts), files.columns(), strict=True))  # fmt: skip
        writer.write(pyarrow.table({"pretoken": pretoken, "count": count}))
    return path


def table_that_says(path: Path, key: bytes, value: bytes) -> Path:
    """A file with something of one's own in its metadata."""
    table = pyarrow.parquet.read_table(table_file(path, [b"a"], [1]))
    metadata = {**table.schema.metadata, key: value}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((70, b"0", 1), "row 70: pre-token b'0' is not sorted: it follows b'0069'"),
        ((70, b"0069", 1), "row 70: pre-token b'0069' appears twice"),
        ((70, b"", 1), "row 70: the pre-token is empty"),
        ((70, b"0070", 0), "row 70: pre-token b'0070' has count 0, not 1 or more"),
        ((70, None, 1), "row 70: pretoken is null"),
        ((70, b"0070", None), "row 70: count is null"),
        ((0, b"", 1), "row 0: the pre-token is empty"),
    ],
)
def test_rows_that_no_table_has_are_named(tmp_path, few_rows, change, message):
    row, pretoken, count = change
    pretokens: list[bytes | None] = [b"%04d" % i for i in range(100)]
    counts: list[int | None] = [1] * 100
    pretokens[row], counts[row] = pretoken, count
    broken = table_file(tmp_path / "broken.parquet", pretokens, counts)
    good = table_file(tmp_path / "good.parquet", [b"0"], [1])
    with pytest.raises(ArtifactError, match=rf"broken\.parquet: {message}"):
        hs.merge_counts([good, broken], tmp_path / "all.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.parquet", "good.parquet"]


def test_truncated_and_foreign_files_are_named(tmp_path):
    good = table_file(tmp_path / "good.parquet", [b"%05d" % i for i in range(9999)], [1] * 9999)
    data = good.read_bytes()
    bad = tmp_path / "bad.parquet"
    for size in (0, 4, len(data) // 2, len(data) - 1):
        bad.write_bytes(data[:size])
        with pytest.raises(ArtifactError, match=r"bad\.parquet is not a Parquet file, or is truncated"):
            hs.merge_counts([good, bad], tmp_path / "all.parquet")
    bad.write_bytes(data[:9] + bytes(200) + data[209:])
    with pytest.raises(ArtifactError, match=r"bad\.parquet is not a Parquet file, or is truncated"):
        hs.merge_counts([good, bad], tmp_path / "all.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a"]}), bad)
    with pytest.raises(ArtifactError, match=r"bad\.parquet: not a table of pre-token counts"):
        hs.merge_counts([good, bad], tmp_path / "all.parquet")
    with pytest.raises(CorpusError, match="nowhere"):
        hs.merge_counts(tmp_path / "nowhere*", tmp_path / "all.parquet")


@pytest.mark.parametrize(
    "parts",
    [b"{", b"7", b'[{"corpus":"x","of":2}]', b'[{"corpus":"x","of":2,"numbers":[2]}]', b"[" * 99999,
     b'[{"corpus":"x","of":2,"numbers":[1,0]}]', b'[{"corpus":"x","of":"2","numbers":[0]}]'],
)  # fmt: skip
def test_parts_that_are_none_are_refused(tmp_path, parts):
    path = table_that_says(tmp_path / "a.parquet", files.PARTS_KEY, parts)
    with pytest.raises(ArtifactError, match=r"a\.parquet: the parts in its metadata can't be read"):
        hs.PreTokenCounts.load(path)


def test_an_enormous_number_of_parts_costs_nothing(tmp_path):
    part = Parts("x", 10**18, (0, 10**18 - 1))
    table = hs.PreTokenCounts.from_mapping({"a": 1})
    hs.PreTokenCounts(table.data, table.offsets, table.counts, "gpt2", [part]).save(tmp_path / "a.parquet")
    size = hs.merge_counts(tmp_path / "a.parquet", tmp_path / "all.parquet")
    assert size.parts == (part,)
    assert next(part.missing) == 1


def test_sums_are_exact_up_to_the_largest_count(tmp_path):
    def table(i: int, count: int) -> Path:
        return table_file(tmp_path / f"{i}.parquet", [b"a", b"b"], [count, 1])

    paths = [table(0, MAX - 2**33 - 1), table(1, 2**33), table(2, 1)]
    size = hs.merge_counts(paths, tmp_path / "all.parquet")
    assert size.n_pretokens == MAX + 3
    assert dict(hs.PreTokenCounts.load(tmp_path / "all.parquet")) == {b"a": MAX, b"b": 3}
    with pytest.raises(CountOverflowError, match=rf"pre-token b'a' has count {MAX + 1}, beyond 2\*\*63 - 1"):
        hs.merge_counts([*paths, table(3, 1)], tmp_path / "all.parquet")
    assert hs.PreTokenCounts.load(tmp_path / "all.parquet")["a"] == MAX


@pytest.mark.parametrize(
    ("max_memory", "message"),
    [("1", "write a number and K, M, G or T"), ("-1G", "write a number"), ("4 GX", "write a number"),
     ("100M", "max_memory is 104857600; it must be at least 536870912: 512 MiB"), (5, "at least 536870912")],
)  # fmt: skip
def test_memory_that_is_none_or_too_little_is_refused(tmp_path, max_memory, message):
    path = table_file(tmp_path / "a.parquet", [b"a"], [1])
    with pytest.raises(ConfigurationError, match=message):
        hs.merge_counts(path, tmp_path / "all.parquet", max_memory=max_memory)


# While it runs


def test_progress_is_told_row_by_row(tmp_path, monkeypatch, few_rows):
    monkeypatch.setattr(merging, "_MOST_FILES", 2)
    paths = write_parts(tmp_path, [random_counts(random.Random(i), 200) for i in range(5)])
    told: list[tuple[int, int | None]] = []
    hs.merge_counts(paths, tmp_path / "all.parquet", show_progress=lambda *each: told.append(each))
    assert told == sorted(told)
    assert len(told) > 10
    assert told[-1][0] == told[-1][1]


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_merge_cut_off_leaves_the_old_table_and_the_next_tidies_up(tmp_path, sent):
    paths = write_parts(tmp_path, [random_counts(random.Random(i), 400) for i in range(4)])
    output = tmp_path / "all.parquet"
    hs.merge_counts(paths[:3], output)
    before = output.read_bytes()
    program = (
        "import sys, time\n"
        "import hf_scaffold as hs\n"
        "def wait(*_):\n"
        "    print('at work', flush=True)\n"
        "    time.sleep(60)\n"
        "hs.merge_counts(sys.argv[2:], sys.argv[1], show_progress=wait)\n"
    )
    arguments = [sys.executable, "-I", "-c", program, output, *paths]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        hs.merge_counts(paths[:2], tmp_path / "other.parquet")  # leaves the other's alone
        assert len(list(tmp_path.glob(".merging-*"))) == 1
        process.send_signal(sent)
    assert output.read_bytes() == before
    assert len(list(tmp_path.glob(".merging-*"))) == (sent == signal.SIGKILL)
    hs.merge_counts(paths, output)
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_is_said_of_the_output_and_leaves_the_old_table(tmp_path):
    paths = write_parts(tmp_path, [random_counts(random.Random(i), 4000) for i in range(3)])
    output = tmp_path / "all.parquet"
    hs.merge_counts(paths[:1], output)
    before = output.read_bytes()
    program = (
        "import resource, signal, sys\n"
        "import hf_scaffold as hs\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))\n"
        "calls = [lambda: hs.merge_counts(sys.argv[2:], sys.argv[1]),\n"
        "         lambda: hs.PreTokenCounts.load(sys.argv[2]).save(sys.argv[1])]\n"
        "for call in calls:\n"
        "    try:\n"
        "        call()\n"
        "    except OSError as error:\n"
        "        print(error.filename)\n"
    )
    command = [sys.executable, "-I", "-c", program, output, *paths]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.split() == [str(output)] * 2
    assert output.read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_who_saves_does_not_wait_while_others_write(tmp_path, monkeypatch):
    """The workers of a job array end at one time, and their tables take a while."""
    other_is_there, at_work = threading.Event(), threading.Event()
    write = files.TableWriter.write

    def wait(self: files.TableWriter, rows: object) -> None:
        if threading.current_thread() is slow:
            at_work.set()
            assert other_is_there.wait(30)
        write(self, rows)

    monkeypatch.setattr(files.TableWriter, "write", wait)
    table = hs.PreTokenCounts.from_mapping({"a": 1})
    slow = threading.Thread(target=table.save, args=[tmp_path / "slow.parquet"])
    slow.start()
    assert at_work.wait(30)
    table.save(tmp_path / "other.parquet")
    assert not (tmp_path / "slow.parquet").exists()
    other_is_there.set()
    slow.join()
    assert (tmp_path / "slow.parquet").read_bytes() == (tmp_path / "other.parquet").read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_two_merges_into_one_folder_do_not_meet(tmp_path):
    paths = write_parts(tmp_path, [random_counts(random.Random(i), 4000) for i in range(6)])
    errors: list[BaseException] = []

    def merge(output: Path) -> None:
        try:
            hs.merge_counts(paths, output)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=merge, args=[tmp_path / f"all-{i % 2}.parquet"]) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert (tmp_path / "all-0.parquet").read_bytes() == (tmp_path / "all-1.parquet").read_bytes()
    assert not list(tmp_path.glob(".*"))


def test_memory_does_not_grow_with_the_tables(tmp_path):
    rng = np.random.default_rng(0)
    for i in range(12):
        words = np.sort(rng.choice(1 << 22, 300_000, replace=False))
        path = tmp_path / f"{i}.parquet"
        with files.TableWriter(path, hs.get_pre_tokenizer("gpt2")) as writer:
            pretokens = [b"pre-token %09d" % word for word in words.tolist()]
            columns = {"pretoken": pyarrow.array(pretokens, pyarrow.large_binary()), "count": words + 1}
            writer.write(pyarrow.table(columns))
    program = (
        "import sys\n"
        "import hf_scaffold as hs\n"
        "size = hs.merge_counts(sys.argv[1] + '/?*.parquet', sys.argv[1] + '/all', max_memory='512M')\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "print(size.n_distinct, *(int(line.split()[1]) // 1024 for line in lines if line[:5] == 'VmHWM'))\n"
    )
    result = subprocess.run(
        [sys.executable, "-I", "-c", program, tmp_path], capture_output=True, text=True, check=True
    )
    n_distinct, peak = map(int, result.stdout.split())
    assert n_distinct > 2_000_000
    assert peak < 512
