"""datatrove with eight ranks: the table and ids of one machine, in files as DocumentTokenizer writes them."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import corpora
import numpy as np
import processes
import pytest
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.readers import JsonlReader, ParquetReader
from datatrove.pipeline.tokens import DocumentTokenizer
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.scale.datatrove import CountPretokens, MergeCounts, ScaffoldTokenizer

N_RANKS = 8


class PlainReader(PipelineStep):
    """A document a file."""

    type = "📖 - READER"
    name = "plain"

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def run(self, data=None, rank=0, world_size=1):
        for path in sorted(Path(self.folder).glob("*.txt"))[rank::world_size]:
            yield Document(text=path.read_bytes().decode(), id=path.name)


class All(PipelineStep):
    """Documents of a JSON Lines file, empty ones too, which datatrove's readers leave out."""

    type = "📖 - READER"
    name = "all"

    def __init__(self, folder):
        super().__init__()
        self.folder = str(folder)

    def run(self, data=None, rank=0, world_size=1):
        for path in sorted(Path(self.folder).glob("*.jsonl"))[rank::world_size]:
            for line in path.read_text(encoding="utf-8").splitlines():
                yield Document(**json.loads(line))


READERS = {
    "plain": PlainReader,
    "jsonl": lambda folder: JsonlReader(str(folder)),
    "parquet": lambda folder: ParquetReader(str(folder)),
}


def run(logs, pipeline, tasks=N_RANKS, workers=2):
    LocalPipelineExecutor(pipeline, tasks=tasks, workers=workers, logging_dir=str(logs)).run()


def count(folder, reader, tasks=N_RANKS, **options):
    """The bytes of the merged table."""
    run(folder / "logs", [reader, CountPretokens(str(folder / "ranks"), **options)], tasks)
    run(folder / "merge-logs", [MergeCounts(str(folder / "ranks"), str(folder))], 1, 1)
    return (folder / "counts.parquet").read_bytes()


@pytest.mark.parametrize("form", corpora.FORMATS)
def test_counts_are_those_of_one_machine(form, corpus, counted, tmp_path):
    assert count(tmp_path, READERS[form](corpus[form])) == counted
    assert len(list((tmp_path / "ranks").glob("*_counts.parquet"))) == N_RANKS


@pytest.mark.parametrize("tasks", [1, 64])
def test_however_many_ranks_there_are(tasks, corpus, counted, tmp_path):
    """At 64 most have no file."""
    assert count(tmp_path, READERS["parquet"](corpus["parquet"]), tasks) == counted


def test_settings_are_those_of_count(corpus, texts, tmp_path):
    options = {"pre_tokenizer": "whitespace-split", "alphabet": "chars", "max_pretoken_length": 5}
    made = count(tmp_path, All(corpus["jsonl"]), **options)
    with pytest.warns(UserWarning, match="left out"):
        assert made == corpora.counts_of(texts, tmp_path / "expected", **options)


def test_counts_pass_documents_on_and_may_go_anywhere(texts, tmp_path):
    documents = [Document(text=text, id=str(i)) for i, text in enumerate(texts)]
    remote = "memory://counts"
    step = CountPretokens(remote, save_filename="web")
    assert [*step(documents)] == documents
    consumed(MergeCounts(remote, remote, "all.parquet")())
    MergeCounts(remote).input_folder.get_file("all.parquet", str(tmp_path / "all.parquet"))
    assert (tmp_path / "all.parquet").read_bytes() == corpora.counts_of(texts, tmp_path / "expected")


def consumed(documents):
    return [*documents]


def test_missing_ranks_are_named(texts, tmp_path):
    documents = [Document(text="a b", id="0")]
    for rank in (0, 2):
        consumed(CountPretokens(str(tmp_path))(documents, rank, 4))
    with pytest.raises(hs.ConfigurationError, match="no tables of 2 of the 4 ranks: 1, 3; run the pipeline"):
        consumed(MergeCounts(str(tmp_path))())
    consumed(CountPretokens(str(tmp_path))(documents, 1, 3))
    with pytest.raises(hs.ConfigurationError, match=r"counts a part of 4, .* a part of 3"):
        consumed(MergeCounts(str(tmp_path))())
    for rank in (1, 3):
        consumed(CountPretokens(str(tmp_path), pre_tokenizer="gpt2")(documents, rank, 4))
    with pytest.raises(hs.ConfigurationError, match="different pre-tokenizers"):
        consumed(MergeCounts(str(tmp_path))())
    for rank in range(4):  # run again
        consumed(CountPretokens(str(tmp_path))(documents, rank, 4))
    consumed(MergeCounts(str(tmp_path))())
    assert dict(hs.PreTokenCounts.load(tmp_path / "counts.parquet")) == {b" b": 4, b"a": 4}


def test_what_can_not_be_counted_or_merged(tmp_path):
    for text in (None, 7):
        with pytest.raises(hs.CorpusError, match="document x-7: expected a str"):
            consumed(CountPretokens(str(tmp_path))([Document(text=text, id="x-7")]))
    with pytest.raises(hs.CorpusError, match=r"document x-8: lone surrogate U\+D800"):
        consumed(CountPretokens(str(tmp_path))([Document(text="a\ud800", id="x-8")]))
    with pytest.raises(hs.ConfigurationError, match="has no tables; run a pipeline with CountPretokens"):
        consumed(MergeCounts(str(tmp_path))())
    with pytest.raises(hs.ConfigurationError, match="one task, not 3"):
        consumed(MergeCounts(str(tmp_path))(None, 0, 3))
    consumed(CountPretokens(str(tmp_path))([]))
    with pytest.raises(hs.CorpusError, match="nothing to count"):
        consumed(MergeCounts(str(tmp_path))())


# ---- ids


class Stock(DocumentTokenizer):
    """datatrove's own step, given exact ids by transformers."""

    class Encoding:
        def __init__(self, ids, offsets):
            self.ids, self.offsets = ids, offsets

        def char_to_token(self, place):
            return next((i for i, (begin, end) in enumerate(self.offsets) if begin <= place < end), None)

    class Tokenizer:
        def __init__(self, folder, eos):
            self.made, self.eos = AutoTokenizer.from_pretrained(folder), eos

        def get_vocab_size(self):
            return len(self.made)

        def encode_batch(self, texts):
            for text in texts:
                found = self.made(text, return_offsets_mapping=True, add_special_tokens=not self.eos)
                ids, offsets = found["input_ids"], found["offset_mapping"]
                end = [self.made.convert_tokens_to_ids(self.eos)] if self.eos else []
                yield Stock.Encoding([*ids, *end], [*offsets, *[(0, 0)] * len(end)])

    @property
    def tokenizer(self):
        return self.Tokenizer(self.tokenizer_name_or_path, self.eos_token)


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle_documents": False},
        {"seed": 1, "eos_token": "<|eos|>", "batch_size": 7},
        {"seed": 2, "max_tokens_per_file": 5000, "save_filename": "web"},
        {"seed": 3, "shuffle_chunk_size": 512, "save_index": False},
        {"seed": 4, "save_loss_metadata": True, "eos_token": "<|eos|>"},
        {"seed": 5, "save_loss_metadata": True, "shuffle_documents": False, "save_final_metadata": False},
    ],
    ids=lambda options: "-".join(map(str, options)),
)
def test_files_are_those_of_document_tokenizer(options, texts, saved, tmp_path):
    documents = [Document(text=text, id=str(i)) for i, text in enumerate(texts)]
    for document in documents[::3]:
        document.metadata["no_loss_ranges"] = [(0, 3), (5, len(document.text) // 2)]
    for place in ("a", "b"):
        (tmp_path / f"work-{place}").mkdir()
        step = {"a": Stock, "b": ScaffoldTokenizer}[place]
        working = {"local_working_dir": str(tmp_path / f"work-{place}")} if "seed" in options else {}
        step(str(tmp_path / place), str(saved), **working, **options).run(iter(documents), 3, 8)
    expected, found = (
        {path.name: path.read_bytes() for path in (tmp_path / place).iterdir()} for place in ("a", "b")
    )
    assert len(expected) >= 1
    assert found == expected


def ids_in(folder):
    """Each document's ids, of all files."""
    for path in sorted(Path(folder).glob("*.ds")):
        ids = np.fromfile(path, "<u2")
        ends = np.fromfile(f"{path}.index", "<u8")
        yield from (row.tolist() for row in np.split(ids, ends[:-1].astype(int)))


def test_ids_are_those_of_the_tokenizer(corpus, saved, ids, tmp_path):
    run(tmp_path / "logs", [All(corpus["jsonl"]), ScaffoldTokenizer(str(tmp_path / "ids"), str(saved))])
    assert len(list((tmp_path / "ids").glob("*.ds.metadata"))) == N_RANKS
    assert sorted(ids_in(tmp_path / "ids")) == sorted(rows_of(ids, corpus))


def rows_of(ids, corpus):
    documents = (
        json.loads(line) for path in corpus["jsonl"].iterdir() for line in path.open(encoding="utf-8")
    )
    return [ids[document["text"]] for document in documents]


def test_datatroves_own_step_gives_raw_ids(saved, tmp_path):
    """As docs/engines.md says."""
    text = "international Arizona zone, nationality bananas"
    exact = AutoTokenizer.from_pretrained(saved)(text, add_special_tokens=False)["input_ids"]
    path = str(saved / "tokenizer.json")
    for step in (DocumentTokenizer, ScaffoldTokenizer):
        folder = tmp_path / step.__name__
        step(str(folder), path, eos_token="<|eos|>").run(iter([Document(text=text, id="0")]))
        [[*found, eos]] = ids_in(folder)
        assert eos == 1
        assert (found == exact) == (step is ScaffoldTokenizer)


def test_what_can_not_be_encoded(saved, tmp_path):
    with pytest.raises(TypeError, match="not a ScaffoldTokenizerFast: workers load it"):
        ScaffoldTokenizer(str(tmp_path), AutoTokenizer.from_pretrained(saved))
    documents = [Document(text="a", id="0"), Document(text=None, id="x-7")]
    with pytest.raises(hs.CorpusError, match="document 'x-7' has no text, but NoneType"):
        ScaffoldTokenizer(str(tmp_path), str(saved)).run(iter(documents))
    with pytest.raises(hs.ConfigurationError, match=r"has no token '</s>' for eos_token.*<\|bos\|>"):
        ScaffoldTokenizer(str(tmp_path), str(saved), eos_token="</s>").run(iter(documents[:1]))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ScaffoldTokenizer(str(tmp_path), str(tmp_path / "nowhere")).run(iter(documents[:1]))


# ---- what ranks cost, and their deaths

PIPELINE = """
import sys
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from hf_scaffold.scale.datatrove import CountPretokens, ScaffoldTokenizer

def look(data, rank, world_size):
    yield from data
    assert not {"transformers", "torch", "ray", "pyspark"} & {*sys.modules}

if __name__ == "__main__":
    corpus, saved, folder = sys.argv[1:]
    count = CountPretokens(f"{folder}/ranks")
    tokenize = ScaffoldTokenizer(f"{folder}/ids", saved, shuffle_documents=False)
    pipeline = [JsonlReader(corpus), count, look, tokenize]
    LocalPipelineExecutor(pipeline, tasks=8, workers=2, logging_dir=f"{folder}/logs").run()
"""


@pytest.mark.parametrize("seed", range(4))
def test_runs_that_are_killed_go_on(seed, corpus, counted, saved, tmp_path):
    chance = random.Random(seed)
    script = tmp_path / "pipeline.py"
    script.write_text(PIPELINE, encoding="utf-8")
    command = [sys.executable, script, *map(str, (corpus["jsonl"], saved, tmp_path))]
    for _ in range(4):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(chance.uniform(0, 5))
        for pid in [process.pid, *processes.descendants(process.pid)]:
            processes.kill(pid)
        process.communicate()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    consumed(MergeCounts(str(tmp_path / "ranks"), str(tmp_path))())
    assert (tmp_path / "counts.parquet").read_bytes() == counted
    run(
        tmp_path / "whole-logs",
        [
            JsonlReader(str(corpus["jsonl"])),
            ScaffoldTokenizer(str(tmp_path / "whole"), str(saved), shuffle_documents=False),
        ],
    )
    files = [
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("ids", "whole")
    ]
    assert files[0] == files[1]
