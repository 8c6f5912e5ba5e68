"""datatrove with eight ranks: the table and ids of one machine, in files as DocumentTokenizer writes them."""

import json
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import corpora
import processes
import pytest
from datatrove.data import Document
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.base import PipelineStep
from datatrove.pipeline.readers import JsonlReader, ParquetReader
from datatrove.pipeline.tokens import DocumentTokenizer
from datatrove.utils.stats import MetricStats
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


@pytest.mark.parametrize("tasks", [*corpora.PARTS, N_RANKS])
@pytest.mark.parametrize("form", corpora.FORMATS)
def test_counts_and_ids_are_those_of_one_machine(form, tasks, corpus, same, saved, ids, tmp_path):
    """Of 64 ranks most have no file."""
    reader = READERS[form](corpus[form])
    tokenize = ScaffoldTokenizer(str(tmp_path / "ids"), str(saved))
    run(tmp_path / "logs", [reader, CountPretokens(str(tmp_path / "ranks")), tokenize], tasks)
    run(tmp_path / "merge-logs", [MergeCounts(str(tmp_path / "ranks"), str(tmp_path))], 1, 1)
    assert len(list((tmp_path / "ranks").glob("*_counts.parquet"))) == tasks
    same(tmp_path / "counts.parquet")
    expected = sorted(row for text, row in ids.items() if text or form == "plain")  # readers drop empty ones
    assert sorted(corpora.ids_in(tmp_path / "ids")) == expected


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


def counted_by(folder, n_ranks):
    """The table of each rank."""
    for rank in range(n_ranks):
        consumed(CountPretokens(str(folder))([Document(text=f"a b{rank}", id="0")], rank, n_ranks))
    return sorted(folder.iterdir())


def test_tables_that_are_cut_off_or_foreign_are_named(tmp_path):
    first, *_ = tables = counted_by(tmp_path / "ranks", 3)
    whole = first.read_bytes()
    hs.PreTokenCounts.from_mapping({b"a": 1}).save(tmp_path / "foreign.parquet")
    for content, error, problem in [
        (whole[:-9], hs.ArtifactError, "00000_counts.parquet"),
        (whole[:20], hs.ArtifactError, "00000_counts.parquet"),
        (tables[1].read_bytes(), hs.ConfigurationError, "00001_counts.parquet"),
        ((tmp_path / "foreign.parquet").read_bytes(), hs.ConfigurationError, "1 of the 3 ranks: 0"),
    ]:
        first.write_bytes(content)
        with pytest.raises(error, match=problem):
            consumed(MergeCounts(str(tmp_path / "ranks"), str(tmp_path))())
        assert not (tmp_path / "counts.parquet").exists()
    first.write_bytes(whole)
    consumed(MergeCounts(str(tmp_path / "ranks"), str(tmp_path))())


def test_two_mergers_write_one_table(tmp_path):
    counted_by(tmp_path, 8)
    merged = [MergeCounts(str(tmp_path), save_filename="all") for _ in range(4)]
    threads = [threading.Thread(target=lambda step=step: consumed(step())) for step in merged]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = dict(hs.PreTokenCounts.load(tmp_path / "all"))
    assert counts == {b"a": 8} | {b" b": 8} | {b"%d" % rank: 1 for rank in range(8)}
    assert len([*tmp_path.iterdir()]) == 9


def test_a_full_disk_leaves_no_table(texts, tmp_path):
    documents = [Document(text=text, id="0") for text in texts]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, before[1]))  # Python ignores its signal
    try:
        with pytest.raises(OSError, match="File too large"):
            consumed(CountPretokens(str(tmp_path))(documents))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not [*tmp_path.iterdir()]
    consumed(CountPretokens(str(tmp_path))(documents))
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


def test_ids_are_those_of_the_tokenizer(corpus, saved, ids, tmp_path):
    run(tmp_path / "logs", [All(corpus["jsonl"]), ScaffoldTokenizer(str(tmp_path / "ids"), str(saved))])
    assert len(list((tmp_path / "ids").glob("*.ds.metadata"))) == N_RANKS
    assert sorted(corpora.ids_in(tmp_path / "ids")) == sorted(rows_of(ids, corpus))


def rows_of(ids, corpus):
    documents = (
        json.loads(line) for path in corpus["jsonl"].iterdir() for line in path.open(encoding="utf-8")
    )
    return [ids[document["text"]] for document in documents]


def test_statistics_are_those_of_documents_one_by_one(texts, saved, ids, tmp_path):
    step = ScaffoldTokenizer(str(tmp_path), str(saved), batch_size=7, shuffle_documents=False)
    step.run(Document(text=text, id=str(i)) for i, text in enumerate(texts))
    expected = MetricStats()
    for text in texts:
        expected.update(len(ids[text]))
    found = step.stats["tokens"].to_dict()
    assert found.keys() == expected.to_dict().keys()
    assert found == pytest.approx(expected.to_dict())


@pytest.mark.parametrize(("given", "num_threads"), [("3", 3), ("-1", None)])
def test_a_rank_takes_as_many_threads_as_it_has_processors(given, num_threads, saved, monkeypatch, tmp_path):
    step = ScaffoldTokenizer(str(tmp_path), str(saved), shuffle_documents=False)
    monkeypatch.setenv("DATATROVE_CPUS_PER_TASK", given)
    asked = []

    class Asked:
        def __getattr__(self, name):
            return getattr(encoder, name)

        def encode_batch_to_arrays(self, texts, **options):
            asked.append(options["num_threads"])
            return encoder.encode_batch_to_arrays(texts, **options)

    encoder, step.encoder = step.encoder, Asked()
    step.run(iter([Document(text="a b", id="0")]))
    assert asked == [num_threads]


def test_datatroves_own_step_gives_raw_ids(saved, tmp_path):
    """As docs/engines.md says."""
    text = "international Arizona zone, nationality bananas"
    exact = AutoTokenizer.from_pretrained(saved)(text, add_special_tokens=False)["input_ids"]
    path = str(saved / "tokenizer.json")
    for step in (DocumentTokenizer, ScaffoldTokenizer):
        folder = tmp_path / step.__name__
        step(str(folder), path, eos_token="<|eos|>").run(iter([Document(text=text, id="0")]))
        [[*found, eos]] = corpora.ids_in(folder)
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
import time
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.readers import JsonlReader
from hf_scaffold.scale.datatrove import CountPretokens, ScaffoldTokenizer

def look(data, rank, world_size):
    for document in data:
        time.sleep(0.02)  # there is time to kill it
        yield document
    assert not {"transformers", "torch", "ray", "pyspark"} & {*sys.modules}

if __name__ == "__main__":
    corpus, saved, folder = sys.argv[1:]
    count = CountPretokens(f"{folder}/ranks")
    tokenize = ScaffoldTokenizer(f"{folder}/ids", saved, shuffle_documents=False)
    pipeline = [JsonlReader(corpus), count, look, tokenize]
    LocalPipelineExecutor(pipeline, tasks=8, workers=2, logging_dir=f"{folder}/logs").run()
"""


@pytest.fixture(scope="module")
def files(corpus, saved, tmp_path_factory):
    """What a run that nobody kills writes."""
    folder = tmp_path_factory.mktemp("whole")
    step = ScaffoldTokenizer(str(folder / "ids"), str(saved), shuffle_documents=False)
    run(folder / "logs", [JsonlReader(str(corpus["jsonl"])), step])
    return contents(folder / "ids")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.long
@pytest.mark.parametrize("seed", processes.SEEDS)
def test_runs_that_are_killed_go_on(seed, corpus, counted, saved, files, tmp_path):
    chance = random.Random(seed)
    script = tmp_path / "pipeline.py"
    script.write_text(PIPELINE, encoding="utf-8")
    n_killed = n_runs = 0
    while n_killed < processes.N_KILLS:
        folder, n_runs = tmp_path / str(n_runs), n_runs + 1
        command = [sys.executable, script, *map(str, (corpus["jsonl"], saved, folder))]
        while was_killed(command, folder, chance if n_killed < processes.N_KILLS else None):
            n_killed += 1
        consumed(MergeCounts(str(folder / "ranks"), str(folder))())
        assert (folder / "counts.parquet").read_bytes() == counted
        assert contents(folder / "ids") == files
        processes.results["datatrove"] += 2
    processes.kills["datatrove"] += n_killed


def was_killed(command, folder, chance):
    """Run the pipeline; whether it was killed once ranks were at work, if by chance it was, or ended."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if chance is not None:
        n_logs = len([*folder.glob("logs/logs/*")])
        while process.poll() is None and len([*folder.glob("logs/logs/*")]) == n_logs:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 3))
        running = process.poll() is None
        for pid in [process.pid, *processes.descendants(process.pid)] if running else ():
            processes.kill(pid)
    output = process.communicate()[0]
    assert process.returncode in (0, -signal.SIGKILL), output[-3000:].decode()
    return process.returncode != 0
