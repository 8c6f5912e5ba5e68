"""Tokenizers in `datasets`: the same ids whatever maps them, fingerprints only a change changes, Arrow."""

import copy
import json
import multiprocessing
import os
import pickle
import subprocess
import sys

import pyarrow as pa
import pytest
import toys
from datasets import Dataset, DatasetDict, Value, load_from_disk
from datasets.fingerprint import Hasher
from tokenizers import processors

import hf_scaffold as hs
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

TEXTS = [
    "international zona ationa 日本 naïve",
    "",
    "<|eos|>Arizona\n bana\t🙂",
    " ".join(toys.WORDS),
    "zonazona <|pad|>",
] * 7
COLUMNS = ("input_ids", "attention_mask")


@pytest.fixture
def tokenizer():
    return toys.tokenizer(post_processor="bos and eos", model_max_length=64, truncation_side="left")


@pytest.fixture
def dataset(tmp_path):
    """On disk, so that what is mapped is cached."""
    Dataset.from_dict({"text": TEXTS, "id": list(range(len(TEXTS)))}).save_to_disk(tmp_path / "dataset")
    return load_from_disk(str(tmp_path / "dataset"))


def columns(dataset):
    return {name: dataset[name][:] for name in COLUMNS}


def files_of(dataset):
    return [file["filename"] for file in dataset.cache_files]


# ---- map

CALLS = {
    "plain": {},
    "truncated": {"truncation": True, "max_length": 7},
    "padded": {"padding": "max_length", "max_length": 150, "padding_side": "left"},
    "offsets": {"return_offsets_mapping": True, "return_special_tokens_mask": True},
}


@pytest.mark.parametrize("options", CALLS.values(), ids=CALLS)
def test_two_processes_map_to_what_one_call_gives(dataset, tokenizer, options):
    expected = tokenizer(TEXTS, **options)
    for n_processes in (None, 1, 2):
        mapped = dataset.map(
            lambda batch: tokenizer(batch["text"], **options),
            batched=True,
            batch_size=4,
            num_proc=n_processes,
            load_from_cache_file=False,
        )
        for name, column in expected.items():
            assert json.dumps(mapped[name][:]) == json.dumps(column), (n_processes, name)
        assert mapped.features["input_ids"].feature == Value("int32")


def test_one_text_at_a_time_is_mapped_too(dataset, tokenizer):
    mapped = dataset.map(lambda row: tokenizer(row["text"]), num_proc=2)
    assert columns(mapped) == {name: tokenizer(TEXTS)[name] for name in COLUMNS}
    by_column = dataset.map(tokenizer, input_columns="text", batched=True)
    assert columns(by_column) == columns(mapped)


def test_every_split_is_mapped(tokenizer):
    splits = DatasetDict(
        train=Dataset.from_dict({"text": TEXTS}), test=Dataset.from_dict({"text": TEXTS[:2]})
    ).map(lambda batch: tokenizer(batch["text"]), batched=True, remove_columns="text")
    assert splits["train"][:]["input_ids"] == tokenizer(TEXTS)["input_ids"]
    assert splits["test"][:]["input_ids"] == tokenizer(TEXTS[:2])["input_ids"]


def test_streams_are_mapped_as_they_are_read(dataset, tokenizer):
    stream = dataset.to_iterable_dataset(num_shards=3)
    mapped = stream.map(lambda batch: tokenizer(batch["text"]), batched=True, batch_size=4)
    rows = list(mapped.shuffle(seed=0, buffer_size=10))
    assert [row["text"] for row in rows] != TEXTS
    rows.sort(key=lambda row: row["id"])
    assert [row["input_ids"] for row in rows] == tokenizer(TEXTS)["input_ids"]


def test_transforms_encode_what_is_asked_for(dataset, tokenizer):
    def encode(batch):
        return tokenizer(batch["text"], padding="longest", return_tensors="np")

    by_copy = dataset.with_transform(encode)
    dataset.set_transform(encode)
    for transformed in (dataset, by_copy):
        rows = transformed[2:5]
        assert rows["input_ids"].tolist() == tokenizer(TEXTS[2:5], padding="longest")["input_ids"]
        assert transformed[0]["input_ids"].tolist() == tokenizer(TEXTS[0])["input_ids"]


# ---- fingerprints


def fingerprints(tokenizer):
    """Of a tokenizer, and of what holds one."""

    class Encode:
        def __init__(self):
            self.tokenizer = tokenizer

        def __call__(self, batch):
            return self.tokenizer(batch["text"])

    return [
        Hasher.hash(tokenizer),
        Hasher.hash(lambda batch: tokenizer(batch["text"], truncation=True)),
        Hasher.hash(tokenizer.encode_to_arrow),
        Hasher.hash(Encode()),
    ]


MESSAGES = [{"role": "user", "content": "zona"}]
USES = {
    "encode": lambda t: (t("zona banana"), t.encode("zona"), t.tokenize("zona")),
    "truncate": lambda t: t(TEXTS, truncation=True, max_length=5),
    "pad": lambda t: t(TEXTS, padding="max_length", max_length=70, padding_side="left"),
    "pad later": lambda t: t.pad({"input_ids": [[3], [3, 4]]}),
    "too long": lambda t: t("zona" * 100),
    "offsets": lambda t: t(TEXTS, return_offsets_mapping=True),
    "encodings": lambda t: t(TEXTS).encodings[0].tokens,
    "pairs": lambda t: t(TEXTS, TEXTS, truncation="longest_first", max_length=20, padding=True),
    "without the native encoder": lambda t: (setattr(t, "native", False), t(TEXTS), delattr(t, "native")),
    "arrays": lambda t: (t.encode_batch_to_arrays(TEXTS), t.encode_to_arrow(TEXTS), t.explain_path("zona")),
    "decode": lambda t: (t.decode([260, 1], skip_special_tokens=True), t.batch_decode([[260], []])),
    "chat": lambda t: t.apply_chat_template(MESSAGES, chat_template="{{ messages[0].content }}"),
    "look up": lambda t: (t.get_vocab(), len(t), t.convert_ids_to_tokens([260]), t.all_special_ids, repr(t)),
    "scaffold": lambda t: t.scaffold,
    "hash": lambda t: Hasher.hash(t),
}


@pytest.mark.parametrize("use", USES)
def test_use_leaves_the_fingerprint(tokenizer, use):
    before = fingerprints(tokenizer)
    USES[use](tokenizer)
    assert fingerprints(tokenizer) == before


def test_use_leaves_the_fingerprint_of_a_large_tokenizer(tmp_path, english_text):
    tokenizer = hs.train(hs.count([english_text]), 1500).to_tokenizer()
    before = fingerprints(tokenizer)
    tokenizer(english_text)
    tokenizer.encode_to_arrow([english_text])
    assert fingerprints(tokenizer) == before


def test_saving_and_copies_leave_the_fingerprint(tokenizer, tmp_path):
    before = fingerprints(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    for same in (tokenizer, copy.copy(tokenizer), copy.deepcopy(tokenizer), pickled(tokenizer)):
        assert fingerprints(same) == before
    loaded = ScaffoldTokenizerFast.from_pretrained(tmp_path)
    before = fingerprints(loaded)
    loaded(TEXTS, truncation=True)
    loaded.save_pretrained(tmp_path)
    for same in (loaded, ScaffoldTokenizerFast.from_pretrained(tmp_path), pickled(loaded)):
        assert fingerprints(same) == before


def pickled(tokenizer):
    return pickle.loads(pickle.dumps(tokenizer))


CHANGES = {
    "token": lambda t: t.add_tokens(["zonazona"]),
    "special token": lambda t: t.add_special_tokens({"mask_token": "<|mask|>"}),
    "dropout": lambda t: setattr(t.backend_tokenizer.model, "dropout", 0.5),
    "template": lambda t: setattr(t.backend_tokenizer, "post_processor", processors.ByteLevel()),
    "padding side": lambda t: setattr(t, "padding_side", "left"),
    "length": lambda t: setattr(t, "model_max_length", 7),
    "name": lambda t: setattr(t, "pad_token", "<|eos|>"),
    "chat template": lambda t: setattr(t, "chat_template", "{{ messages[0].content }}"),
}


def test_every_change_changes_the_fingerprint(tokenizer):
    found = [fingerprints(tokenizer), fingerprints(toys.tokenizer()), fingerprints(other_scaffold())]
    for change in CHANGES.values():
        changed = copy.deepcopy(tokenizer)
        changed(TEXTS)
        change(changed)
        found.append(fingerprints(changed))
    for kind in zip(*found, strict=True):
        assert len({*kind}) == len(found)


def other_scaffold():
    """The same public vocabulary, but another scaffold."""
    tokenizer = toys.tokenizer()
    scaffold = {**tokenizer.scaffold, "raw_agreement": 0.25}
    return ScaffoldTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, scaffold=scaffold, **toys.NAMED
    )


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_other_processes_find_the_same_fingerprint(tokenizer, start):
    before = Hasher.hash(tokenizer)
    tokenizer(TEXTS)
    with multiprocessing.get_context(start).Pool(1) as pool:
        assert pool.apply(Hasher.hash, (tokenizer,)) == before
        assert pool.apply(tokenizer, (TEXTS,)).data == tokenizer(TEXTS).data


# Maps a dataset with the tokenizer of a folder, as a clean process does.
MAP = """
import json, sys
from datasets import load_from_disk
from datasets.fingerprint import Hasher
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
dataset = load_from_disk(sys.argv[2])
encode = lambda batch: tokenizer(batch["text"])
mapped = dataset.map(encode, batched=True)
tokenizer(["zona", "zona banana"], padding=True, truncation=True, max_length=7)
shared = dataset.map(encode, batched=True, num_proc=2)
outcome = [Hasher.hash(tokenizer), mapped._fingerprint, mapped[:]["input_ids"], shared[:]["input_ids"]]
print(json.dumps(outcome))
"""


@pytest.mark.parametrize("preamble", ["import hf_scaffold", "import sys; sys.modules['hf_scaffold'] = None"])
def test_clean_processes_share_the_cache(dataset, tokenizer, tmp_path, preamble):
    tokenizer.save_pretrained(tmp_path / "saved")
    outcomes, written = [], []
    for seed in ("0", "1"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(tmp_path / "home"),
            "USE_TORCH": "0",
        }
        process = subprocess.run(
            [sys.executable, "-c", f"{preamble}\n{MAP}", str(tmp_path / "saved"), str(tmp_path / "dataset")],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert process.returncode == 0, process.stderr
        outcomes.append(json.loads(process.stdout.splitlines()[-1]))
        written.append(sorted((p.name, p.stat().st_mtime_ns) for p in tmp_path.glob("dataset/cache-*")))
    assert outcomes[0] == outcomes[1]
    assert written[0] == written[1] != []  # the second process only read
    assert outcomes[0][2:] == [tokenizer(TEXTS)["input_ids"]] * 2


# ---- the cache


@pytest.mark.parametrize("n_processes", [None, 2])
def test_a_second_map_makes_no_call(dataset, tokenizer, n_processes, monkeypatch):
    def encode():
        return dataset.map(
            lambda batch: tokenizer(batch["text"], truncation=True), batched=True, num_proc=n_processes
        )

    first = encode()
    tokenizer(TEXTS, padding=True, truncation=True, max_length=9)
    tokenizer.encode_to_arrow(TEXTS)
    with monkeypatch.context() as patch:
        patch.setattr(ScaffoldTokenizerFast, "_encode_plus", None)  # a call would be a TypeError
        again = encode()
        assert files_of(again) == files_of(first)
        assert columns(again) == columns(first)
        tokenizer.add_tokens(["zonazona"])
        with pytest.raises(TypeError, match="not callable"):
            encode()
    grown = encode()
    assert files_of(grown) != files_of(first)
    assert columns(grown)["input_ids"] != columns(first)["input_ids"]


# ---- Arrow

RECIPES = {
    "from Python": lambda dataset, encode, n: dataset.map(
        lambda batch: pa.table({"input_ids": encode(batch["text"])}),
        batched=True,
        remove_columns=dataset.column_names,
        num_proc=n,
    ),
    "from Arrow": lambda dataset, encode, n: (
        dataset.with_format("arrow")
        .map(
            lambda table: table.append_column("input_ids", encode(table["text"])),
            batched=True,
            batch_size=4,
            num_proc=n,
        )
        .with_format(None)
    ),
}


@pytest.mark.parametrize("n_processes", [None, 2])
@pytest.mark.parametrize("recipe", RECIPES)
def test_tables_are_mapped_to_tables(dataset, tokenizer, recipe, n_processes):
    lists = dataset.map(
        lambda batch: tokenizer(batch["text"], return_attention_mask=False),
        batched=True,
        remove_columns=dataset.column_names,
    )
    mapped = RECIPES[recipe](dataset, tokenizer.encode_to_arrow, n_processes)
    assert mapped["input_ids"][:] == lists["input_ids"][:] == tokenizer(TEXTS)["input_ids"]
    assert mapped.features["input_ids"] == lists.features["input_ids"]
    files = files_of(mapped)
    tokenizer.encode_to_arrow(TEXTS)
    assert files_of(RECIPES[recipe](dataset, tokenizer.encode_to_arrow, n_processes)) == files


@pytest.mark.parametrize("options", [{}, {"add_special_tokens": False}, {"split_special_tokens": True}])
def test_arrow_holds_what_lists_hold(tokenizer, native, options):
    tokenizer.native = native
    for texts in (TEXTS, [], [""]):
        expected = tokenizer(texts, **options)["input_ids"] if texts else []
        for form in (
            texts,
            iter(texts),
            pa.array(texts, pa.string()),
            pa.chunked_array([texts], pa.string()),
        ):
            array = tokenizer.encode_to_arrow(form, **options)
            assert array.to_pylist() == expected
            assert array.type == pa.list_(pa.int32())
            array.validate(full=True)


def test_arrow_refuses_what_is_no_text_as_a_call_does(tokenizer):
    for texts in (["zona", None], pa.array(["zona", None])):
        with pytest.raises(TypeError):
            tokenizer.encode_to_arrow(texts)
    with pytest.raises(TypeError):
        tokenizer(["zona", None])
