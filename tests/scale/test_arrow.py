"""What workers do with Arrow, without any engine."""

import importlib
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
import toys
from tokenizers.pre_tokenizers import Whitespace

import hf_scaffold as hs
from hf_scaffold.scale import arrow
from hf_scaffold.scale.arrow import Counting, Encoding, count_batches, encode_batch
from hf_scaffold.scale.tallies import save_counts

TEXTS = ["international bananas", "été 日本語", "", "hugs <|eos|> pug", "Arizona zone " * 9, " \n"]


def counting_of(pre_tokenizer=None, max_pretoken_length=None):
    return Counting.of(pre_tokenizer, None, None, max_pretoken_length)


def saved_counts(texts, path, **options):
    hs.count(texts, **options).save(path)
    return path.read_bytes()


# ---- counting


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
@pytest.mark.parametrize("pre_tokenizer", ["gpt2", Whitespace()], ids=["native", "general"])
@pytest.mark.parametrize("most", [1, 5, 1 << 20])
def test_tables_are_those_of_one_machine(kind, pre_tokenizer, most, monkeypatch, tmp_path):
    monkeypatch.setattr(arrow, "_MOST_DISTINCT", most)
    monkeypatch.setattr(arrow, "_ROWS", 2)
    counting = counting_of(pre_tokenizer, 5)
    column = pa.chunked_array([pa.array([text.encode()]).cast(kind) for text in TEXTS], kind)
    batches = pa.table({"n": range(len(TEXTS)), "text": column}).to_batches()
    counted = [*count_batches(batches, "text", counting)]
    assert all(0 < len(table) <= 2 for table in counted)
    with pytest.warns(UserWarning, match=r"left out \d+ pre-tokens of more than 5 bytes"):
        save_counts(counted, tmp_path / "a", counting)
    with pytest.warns(UserWarning, match="left out"):
        expected = saved_counts(TEXTS, tmp_path / "b", pre_tokenizer=pre_tokenizer, max_pretoken_length=5)
    assert (tmp_path / "a").read_bytes() == expected


def test_parts_of_columns_and_empty_ones():
    texts = ["the", "the cat", "", "日本語", "nobody's"]
    column = pa.array(texts)
    empty = [pa.array([], pa.string()), pa.array([], pa.large_binary()), pa.array(["", ""])]
    given = [column[1:3], *empty, column[3:4], column[5:], pa.chunked_array([column[:1], column[2:2]])]
    for pre_tokenizer in ("gpt2", Whitespace()):
        batches = [pa.table({"text": each}) for each in given]
        [table] = [*count_batches(batches, "text", counting_of(pre_tokenizer))]
        expected = dict(hs.count(texts[:4], pre_tokenizer=pre_tokenizer))
        assert dict(zip(table["pretoken"].to_pylist(), table["count"].to_pylist(), strict=True)) == expected


def test_what_was_left_out_may_be_more_than_a_count(tmp_path):
    tally = arrow.Tally(counting_of("gpt2", 1))
    tally.add([b"ab a"] * 3)
    assert tally.take().to_pylist() == [{"pretoken": b"", "count": 6}]
    assert not len(tally.take())


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, 2]), "column 'text' holds int64, not text"),
        (pa.array(["a", None]), "column 'text' is null in 1 of 2 rows of a batch; first drop these rows"),
        (pa.nulls(2), "column 'text' is null in 2 of 2 rows"),
        (pa.array([["a"], ["b"]]), "column 'text' holds list<.*>, not text"),
        (
            pa.array([b"a", b"some\xff"]),
            "column 'text' has a row that is not UTF-8, at byte 4, after b'some'",
        ),
    ],
)
def test_columns_of_something_else(column, message, tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    table = pa.table({"text": column})
    with pytest.raises(hs.CorpusError, match=message):
        [*count_batches([table], "text", counting_of())]
    with pytest.raises(hs.CorpusError, match=message):
        encode_batch(table, encoding_of(tmp_path))
    with pytest.raises(hs.CorpusError, match="no column 'txt', but 'text'; name one with column="):
        [*count_batches([table], "txt", counting_of())]


# ---- ids


def encoding_of(folder, **options):
    settings = {
        "column": "text",
        "output_column": "input_ids",
        "remove_columns": (),
        "add_special_tokens": True,
    }
    return Encoding.of(folder, **{**settings, "split_special_tokens": None, **options})


@pytest.mark.parametrize("saved_as", [False, True])
@pytest.mark.parametrize("splits", [None, False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_ids_are_those_of_a_call(saved_as, splits, adds, tmp_path):
    made = toys.tokenizer(post_processor="bos and eos", split_special_tokens=saved_as)
    made.save_pretrained(tmp_path)
    encoding = encoding_of(tmp_path, add_special_tokens=adds, split_special_tokens=splits)
    given = {} if splits is None else {"split_special_tokens": splits}
    expected = made(TEXTS, add_special_tokens=adds, **given)["input_ids"]
    found = encode_batch(pa.table({"text": TEXTS, "n": range(len(TEXTS))}), encoding)
    assert found.column_names == ["text", "n", "input_ids"]
    assert found["input_ids"].type == pa.list_(pa.int32())
    assert found["input_ids"].to_pylist() == expected


def test_columns_of_the_result(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    table = pa.table({"text": TEXTS, "n": range(len(TEXTS))})
    encoding = encoding_of(tmp_path, output_column="text", remove_columns=["text", "n"])
    assert encode_batch(table, encoding).column_names == ["text"]
    with pytest.raises(
        hs.ConfigurationError, match="a column 'n' already; name another one with output_column="
    ):
        encode_batch(table, encoding_of(tmp_path, output_column="n"))
    with pytest.raises(hs.CorpusError, match="no column 'm', but 'text', 'n'"):
        encode_batch(table, encoding_of(tmp_path, remove_columns=["m"]))
    with pytest.raises(TypeError, match="remove_columns must be a list of strings"):
        encoding_of(tmp_path, remove_columns="n")


def test_tokenizers_that_do_not_travel(tmp_path):
    made = toys.tokenizer()
    with pytest.raises(TypeError, match="not a ScaffoldTokenizerFast: workers load it from there"):
        encoding_of(made)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        encoding_of(tmp_path / "nowhere")
    made.save_pretrained(tmp_path / "a")
    encoding = encoding_of(tmp_path / "a")
    table = pa.table({"text": TEXTS})
    toys.tokenizer(normalizer="NFC").save_pretrained(tmp_path / "a")
    with pytest.raises(hs.ConfigurationError, match="is not the one that the driver found there"):
        encode_batch(table, encoding)
    gone = encoding._replace(tokenizer=str(tmp_path / "gone"))
    with pytest.raises(hs.ConfigurationError, match=r"has no tokenizer .*gone.* all machines"):
        encode_batch(table, gone)


# ---- engines


def test_workers_import_no_transformers(tmp_path):
    """Nor does importing the package import an engine, or a module of one."""
    toys.tokenizer().save_pretrained(tmp_path)
    code = f"""
import sys
import hf_scaffold
assert "pyarrow" not in sys.modules
assert not any(name.startswith("hf_scaffold.scale") for name in sys.modules)
import pyarrow as pa
from hf_scaffold.scale import arrow
table = pa.table({{"text": ["hugs"]}})
arrow.encode_batch(table, arrow.Encoding.of({str(tmp_path)!r}, "text", "input_ids", (), True, None))
[*arrow.count_batches([table], "text", arrow.Counting.of("gpt2", None, None, None))]
print({{"transformers", "torch", "ray", "pyspark", "datatrove", "datasets"}} & {{*sys.modules}})
"""
    assert subprocess.check_output([sys.executable, "-I", "-c", code], text=True) == "set()\n"


@pytest.mark.parametrize(("module", "engine"), [("datatrove", "datatrove"), ("spark", "pyspark")])
def test_without_its_engine_a_module_says_how_to_install_it(module, engine, monkeypatch, tmp_path):
    """That of Ray needs but the methods of a dataset."""
    monkeypatch.setitem(sys.modules, engine, None)
    name = f"hf_scaffold.scale.{module}"
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(hs.ConfigurationError, match=rf"pip install 'hf_scaffold\[{module}\]'"):
        importlib.import_module(name).count(None, tmp_path / "x")


def test_threads_are_as_many_as_a_task_has(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    encoder = hs.Encoder.from_pretrained(tmp_path)
    texts = ["hugs and bananas " * 999] * 20
    expected = [ids.tolist() for ids in encoder.encode_batch_to_arrays(texts)]
    for num_threads in (1, 3, np.int64(2), 10**6):
        found = encoder.encode_batch_to_arrays(texts, num_threads=num_threads)
        assert [ids.tolist() for ids in found] == expected
    with pytest.raises(hs.ConfigurationError, match="num_threads is 0; it must be at least 1"):
        encoder.encode_batch_to_arrays(texts, num_threads=0)
