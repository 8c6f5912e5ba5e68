"""The tables of all parts of a corpus are, merged, the bytes of one run; a wrong set of them is refused."""

import gzip
import json
import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.pre_tokenizers import Digits, Metaspace, Sequence, Split, Whitespace

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.tables.parts import Parts
from hf_scaffold.text.files import import_zstd

WORDS = [
    "the", " cat", "'s", "  ", "\t", "\n", "\r\n", " 1234", "!?", "//x", "é", "e\u0301", "漢字", "。", "😀",
    "HTMLParser", " \u00a0 ", "\u2028", "a" * 32, " " * 40,
]  # fmt: skip
PRE_TOKENIZERS = {
    "gpt2": {"pre_tokenizer": "gpt2"},
    "gpt2-digits": {},
    "llama3": {"pre_tokenizer": "llama3"},
    "gpt4o": {"pre_tokenizer": "gpt4o"},
    "compiled": {"pre_tokenizer": Sequence([Digits(), Whitespace()]), "alphabet": "chars"},
    "Python": {"pre_tokenizer": Split("aa", "removed"), "alphabet": "chars", "num_workers": 1},
    "characters": {"pre_tokenizer": Metaspace(), "num_workers": 1},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """Files of all formats, some of them empty; nothing begins where another kind of document ends."""
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)

    def text(n: int) -> str:
        return "".join(rng.choices(WORDS, k=n))

    def rows(n: int) -> bytes:
        return "".join(
            json.dumps({"text": text(9), "id": i}, ensure_ascii=i % 2 == 0) + "\n" for i in range(n)
        ).encode()

    files = {
        "a.txt": b"\xef\xbb\xbf" + text(3000).encode(),
        "b.jsonl": rows(300),
        "c.txt": b"",
        "d.txt": text(900).encode(),
        "e.txt.gz": gzip.compress(text(900).encode()),
        "f.jsonl.zst": import_zstd().compress(rows(200)),
        "h.txt": text(1).encode(),
        "i.jsonl": rows(200).rstrip(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    pyarrow.parquet.write_table(pyarrow.table({"text": [text(9) for _ in range(300)]}), folder / "g.parquet")
    return folder


def save_parts(corpus: object, of: int, folder: Path, **options: object) -> list[Path]:
    paths = []
    for number in range(of):
        paths.append(folder / f"part-{number}.parquet")
        hs.count(corpus, part=(number, of), **options).save(paths[-1])
    return paths


@pytest.mark.parametrize("of", [1, 2, 7, 64])
@pytest.mark.parametrize("name", PRE_TOKENIZERS)
def test_merged_parts_have_the_bytes_of_one_run(corpus, tmp_path, name, of):
    options = PRE_TOKENIZERS[name]
    whole = hs.count(f"{corpus}/*", **options)
    whole.save(tmp_path / "whole.parquet")
    paths = save_parts(f"{corpus}/*", of, tmp_path, **options)
    size = hs.merge_counts(paths, tmp_path / "all.parquet")
    assert size == (len(whole), whole.total, whole.n_bytes, ())
    assert (tmp_path / "all.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    tables = [*map(hs.PreTokenCounts.load, paths)]
    assert sum(table.total > 0 for table in tables) >= min(of, 20)
    if of > 1:
        assert [table.parts[0].numbers for table in tables] == [(number,) for number in range(of)]
        tables[0].merge(*tables[1:])


def test_a_part_is_the_same_whoever_counts_it_and_how(corpus, tmp_path):
    table = hs.count(f"{corpus}/*", part=(3, 7))
    paths = [*corpus.iterdir()]
    random.Random(1).shuffle(paths)
    assert hs.count(paths, part="3/7", num_workers=3) == table
    for path in paths:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert hs.count(f"{tmp_path}/*", part=[3, 7]) == table


@given(
    texts=st.lists(st.lists(st.sampled_from(WORDS), max_size=12).map("".join), max_size=4),
    of=st.integers(1, 90),
    preset=st.sampled_from(["gpt2", "llama3", "gpt4o"]),
)
@settings(max_examples=30)
def test_random_files_have_the_counts_of_their_parts(tmp_path_factory, texts, of, preset):
    folder = tmp_path_factory.mktemp("texts")
    for i, text in enumerate(["x", *texts]):
        (folder / f"{i}.txt").write_text(text, encoding="utf-8", newline="")
    tables = [hs.count(f"{folder}/*", part=(number, of), pre_tokenizer=preset) for number in range(of)]
    assert tables[0].merge(*tables[1:]) == hs.count(f"{folder}/*", pre_tokenizer=preset)


def test_more_parts_than_bytes_are_empty_or_not(tmp_path):
    (tmp_path / "a.txt").write_text("the cat", encoding="utf-8")
    tables = [hs.count(tmp_path / "a.txt", part=(number, 50)) for number in range(50)]
    assert sum(map(bool, tables)) == 2
    assert tables[0].merge(*tables[1:]) == hs.count(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes(b"")
    assert not hs.count(tmp_path / "b.txt", part=(0, 2))
    with pytest.raises(CorpusError, match="it gave no pre-tokens"):
        hs.count(tmp_path / "b.txt", part=(0, 1))  # the whole


def test_pretokens_too_long_are_left_out_of_parts_as_of_the_whole(tmp_path):
    (tmp_path / "a.txt").write_text(" ".join(["aa" * n for n in range(1, 90)]), encoding="utf-8")

    def counted(part: tuple[int, int] | None) -> hs.PreTokenCounts:
        with pytest.warns(UserWarning, match="left out"):
            return hs.count(tmp_path / "a.txt", max_pretoken_length=20, part=part)

    tables = [counted((number, 3)) for number in range(3)]
    assert [table.parts[0].numbers for table in tables] == [(0,), (1,), (2,)]
    assert tables[0].merge(*tables[1:]) == counted(None)


# Wrong sets


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda path: path.write_text("the cat sat there", encoding="utf-8"), {}),
        (lambda path: path.rename(path.with_name("c.txt")), {}),
        (lambda path: write(path.with_name("c.txt"), "more"), {}),
        (lambda path: None, {"max_pretoken_length": 20}),
        (lambda path: None, {"text_field": "body"}),
    ],
)
def test_a_corpus_or_settings_that_change_between_parts_are_refused(tmp_path, change, options):
    path = write(tmp_path / "a.txt", "the cat sat")
    write(tmp_path / "b.txt", "the dog sat")
    first = hs.count(f"{tmp_path}/*", part=(0, 2))
    change(path)
    second = hs.count(f"{tmp_path}/*", part=(1, 2), **options)
    with pytest.raises(
        ConfigurationError, match="table 0 and table 1 count parts of different corpora: names or"
    ):
        first.merge(second)
    again = hs.count(f"{tmp_path}/*", part=(0, 2), **options)
    assert again.merge(second) == hs.count(f"{tmp_path}/*", **options)


def test_parts_counted_twice_or_divided_otherwise_are_refused_and_missing_ones_known(tmp_path):
    write(tmp_path / "a.txt", "the cat sat on the mat")
    (tmp_path / "tables").mkdir()
    paths = save_parts(f"{tmp_path}/*.txt", 4, tmp_path / "tables")
    twice = tmp_path / "tables" / "twice.parquet"
    twice.write_bytes(paths[2].read_bytes())
    output = tmp_path / "all.parquet"
    with pytest.raises(ConfigurationError, match=r"part-2.parquet and .*twice.parquet both count part 2/4"):
        hs.merge_counts(f"{tmp_path}/tables/*", output)
    hs.count(f"{tmp_path}/*.txt", part=(2, 3)).save(twice)
    with pytest.raises(ConfigurationError, match=r"a part of 4, .* a part of 3 of the same corpus"):
        hs.merge_counts(f"{tmp_path}/tables/*", output)
    assert not output.exists()
    size = hs.merge_counts([paths[0], paths[3]], output)
    (some,) = size.parts
    assert (some.numbers, [*some.missing]) == ((0, 3), [1, 2])
    assert hs.PreTokenCounts.load(output).parts == (some,)


def test_texts_in_memory_have_no_parts():
    def texts() -> Iterable[str]:
        while True:
            yield "the cat"

    for corpus in (["the cat"], texts()):
        with pytest.raises(
            ConfigurationError, match=r"has no parts; give a path, a glob pattern, or pathlib"
        ):
            hs.count(corpus, part=(0, 2))
    with pytest.raises(ConfigurationError, match="there is no part 2/2: they are numbered 0/2 to 1/2"):
        hs.count("nowhere", part=(2, 2))


def test_training_on_some_of_the_parts_says_so(tmp_path):
    write(tmp_path / "a.txt", "the cat sat on the mat " * 9)
    table = hs.count(tmp_path / "a.txt", part=(0, 2))
    assert table.parts == (Parts(table.parts[0].corpus, 2, (0,)),)
    with pytest.warns(UserWarning, match="only 1 of 2 parts of a corpus are counted"):
        hs.train(table, 257)
