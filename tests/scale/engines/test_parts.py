"""Parts without any engine: the table, merges and ids of one run, of every format."""

import itertools
from pathlib import Path

import corpora
import pyarrow.parquet
import pytest
from transformers import AutoTokenizer

import hf_scaffold as hs


@pytest.fixture(
    params=itertools.product(corpora.FORMATS, corpora.PARTS), ids=lambda given: f"{given[0]}-{given[1]}"
)
def divided(request, corpus):
    """A pattern of files, and into how many parts they are divided."""
    form, of = request.param
    return f"{corpus[form]}/*", of


def test_counts_and_merges_are_those_of_one_run(divided, same, tmp_path):
    pattern, of = divided
    tables = [tmp_path / f"{number}.parquet" for number in range(of)]
    for number, table in enumerate(tables):
        hs.count(pattern, part=(number, of)).save(table)
    hs.merge_counts(tables, tmp_path / "counts.parquet")
    same(tmp_path / "counts.parquet")


def test_shards_have_the_ids_of_one_run(divided, saved, corpus, texts, tmp_path):
    pattern, of = divided
    tokenizer = AutoTokenizer.from_pretrained(saved)
    whole = tmp_path / "whole"
    options = {"format": "parquet", "shard_size": max(20_000, sum(map(len, texts)) // 60)}
    hs.write_shards(pattern, tokenizer, whole, **options)
    parts = [tmp_path / f"part-{number}" for number in range(of)]
    for number, part in enumerate(parts):
        hs.write_shards(pattern, tokenizer, part, part=(number, of), **options)
    if of > 1:  # a single part is all
        hs.join_shards(parts, tmp_path / "joined")
    joined = tmp_path / "joined" if of > 1 else parts[0]
    assert rows_of(joined) == rows_of(whole)
    expected = tokenizer([text for text in texts if text], add_special_tokens=False)["input_ids"]
    assert sorted(rows_of(whole)) == sorted([*row, tokenizer.eos_token_id] for row in expected)


def rows_of(folder):
    """The ids of each document, of all shards."""
    shards = [Path(folder, shard.name) for shard in hs.ShardIndex.load(folder).shards]
    return [row for path in shards for row in pyarrow.parquet.read_table(path)["input_ids"].to_pylist()]
