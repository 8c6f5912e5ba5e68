"""One corpus in three formats, and what every engine has to make of it."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import toys

import hf_scaffold as hs
from hf_scaffold.text.corpus import iter_documents

FORMATS = ("plain", "jsonl", "parquet")
PARTS = (1, 7, 64)  # into how many a corpus is divided
# One division of each format is enough for each change; clusters take seconds for every one.
DIVIDED = [pytest.param(form, n, marks=[] if n == 7 else pytest.mark.long) for form in FORMATS for n in PARTS]
N_FILES = 14
PAGE = 1 << 14  # bytes


def documents(text):
    """Some 1.2 MB of prose, and texts that might go wrong."""
    size = len(text) // 200
    pages = [text[i * size : (i + 1) * size] for i in range(200)]
    odd = [
        *("", " ", "\n\n\n", "x", "no end<|eos|>", "a\x00b\r\n\tc\u2028d", "1234567" * 99),
        *("日本語本日 " * 50, "été naïve 🙂🙃", "international Arizona zone, nationality bananas " * 9),
    ]
    return [*pages, *odd, *(f"{n} {odd[n % len(odd)]}" for n in range(40))]


def pages(source):
    """The documents of files that `hs.count` reads, long ones in pages."""
    blocks = iter_documents(source, cut=lambda text: text.rfind(b"\n") + 1, block_size=PAGE)
    return [*dict.fromkeys(block.decode() for block in blocks)]


def write(folder, texts):
    """The corpus: a file a document, JSON Lines, Parquet. Returns the folder of each."""
    folders = {name: Path(folder, name) for name in FORMATS}
    for path in folders.values():
        path.mkdir()
    for i, text in enumerate(texts):
        (folders["plain"] / f"{i:04d}.txt").write_bytes(text.encode())
    for i in range(N_FILES):
        part = texts[i::N_FILES]
        rows = "".join(json.dumps({"id": f"{i}-{n}", "text": each}) + "\n" for n, each in enumerate(part))
        (folders["jsonl"] / f"{i:02d}.jsonl").write_text(rows, encoding="utf-8")
        table = pa.table({"id": [f"{i}-{n}" for n in range(len(part))], "text": part})
        pyarrow.parquet.write_table(table, folders["parquet"] / f"{i:02d}.parquet")
    return folders


def counts_of(texts, path, **options):
    """The bytes of the table that `hs.count` makes."""
    hs.count(texts, **options).save(path)
    return Path(path).read_bytes()


def merges_of(path):
    """What is learned from a table."""
    return hs.train(hs.PreTokenCounts.load(path), 400).merges


def save_tokenizer(folder, **options):
    """A tokenizer with special tokens before and after a text, saved."""
    tokenizer = toys.tokenizer(post_processor="bos and eos", **options)
    tokenizer.save_pretrained(folder)
    return tokenizer


def ids_in(folder):
    """The ids of each document in datatrove's files."""
    for path in sorted(Path(folder).glob("*.ds")):
        ids = np.fromfile(path, "<u2")
        ends = np.fromfile(f"{path}.index", "<u8")
        yield from (row.tolist() for row in np.split(ids, ends[:-1].astype(int)) if len(ends))
