"""`Encoder`: ids and text as the tokenizer class gives them, without transformers."""

import gc
import json
import pickle
import random
import re
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from multiprocessing import get_context

import malformed
import native_cases
import pyarrow as pa
import pytest
import toys
from attack.seeds import TOKENIZERS
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.engine import definition
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.text.pre_tokenizers import PRESETS, get_pre_tokenizer
from hf_scaffold.text.presets import preset_of

TEXTS = [
    "", "a", " Arizona banana", "international<|eos|> zona", "<w3> x<w4>ana<|call|>", "日本語 été\u0301 🙂🙃",
    "\x00\ufeff\n\n \t 42's", "abab" * 40, "<unk> </s><|bos|><|tool|>", "nationality'LL  hugs", "▁##a</w>",
    "zon" * 3, "zona zonazona azona", "<s>", "<|pad|><|eos|",
]  # fmt: skip


@pytest.fixture(scope="module", params=TOKENIZERS)
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "tokenizer"
    TOKENIZERS[request.param](folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(saved):
    return AutoTokenizer.from_pretrained(saved)


@pytest.fixture(scope="module")
def encoder(saved):
    return hs.Encoder.from_pretrained(saved)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    toys.tokenizer(post_processor="bos and eos").save_pretrained(folder)
    return hs.Encoder.from_pretrained(folder)


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_ids_are_those_of_the_tokenizer(encoder, tokenizer, framed, split):
    options = {
        "allowed_special": () if split else "all",
        "disallowed_special": (),
        "add_special_tokens": framed,
    }
    expected = [
        tokenizer(text, add_special_tokens=framed, split_special_tokens=split).input_ids for text in TEXTS
    ]
    assert [encoder.encode(text, **options) for text in TEXTS] == expected
    assert encoder.encode_batch(TEXTS, **options) == expected
    assert encoder.encode_batch(iter(TEXTS), **options) == expected
    assert encoder.encode_batch([], **options) == []
    for texts in (TEXTS, [text.encode() for text in TEXTS], pa.array(TEXTS), pa.chunked_array([TEXTS])):
        ids, offsets = encoder.encode_batch_to_arrays(texts, **options)
        assert (ids.dtype, offsets.dtype) == ("int32", "int64")
        assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == expected
        assert encoder.encode_to_arrow(texts, **options).to_pylist() == expected


@pytest.mark.parametrize("framed", [False, True])
@pytest.mark.parametrize("split", [False, True])
def test_offsets_and_words_are_those_of_the_tokenizer(encoder, tokenizer, framed, split):
    for text in TEXTS:
        expected = tokenizer(text, add_special_tokens=framed, split_special_tokens=split).encodings[0]
        located = encoder.encode_with_offsets(
            text,
            add_special_tokens=framed,
            allowed_special=() if split else "all",
            disallowed_special=(),
        )
        assert located.ids == expected.ids
        assert located.word_ids == expected.word_ids
        assert trims_offsets(tokenizer) or located.offsets == expected.offsets


def trims_offsets(tokenizer):
    """Whether a post-processor takes leading spaces out of offsets; an Encoder has none."""
    return '"trim_offsets": true' in json.dumps(
        json.loads(tokenizer.backend_tokenizer.to_str())["post_processor"]
    )


@pytest.mark.parametrize("split", [False, True])
def test_dropout_is_that_of_the_tokenizer(encoder, tokenizer, split):
    options = {"allowed_special": () if split else "all", "disallowed_special": ()}
    if encoder.why_general is not None:
        with pytest.raises(ConfigurationError, match=f"no dropout here: {encoder.why_general}"):
            encoder.encode("a", dropout=0.1)
        return
    for seed, p in ((1, 0.1), (2, 0.5), (3, 1.0)):
        expected = tokenizer(
            TEXTS, dropout=p, seed=seed, add_special_tokens=False, split_special_tokens=split
        )
        drawn = {"dropout": p, "seed": seed, **options}
        assert encoder.encode_batch(TEXTS, **drawn) == expected.input_ids
        for i, text in enumerate(TEXTS):
            located = encoder.encode_with_offsets(text, **drawn)
            assert located.ids == encoder.encode(text, **drawn) == expected.input_ids[i]
            assert trims_offsets(tokenizer) or located.offsets == expected.encodings[i].offsets
        ids, offsets = encoder.encode_batch_to_arrays([text.encode() for text in TEXTS], **drawn)
        assert [ids[a:b].tolist() for a, b in pairwise(offsets)] == expected.input_ids
    assert encoder.encode_batch([], dropout=0.5) == []
    ids, offsets = tokenizer.encode_batch_to_arrays([], dropout=0.5)
    assert (ids.tolist(), offsets.tolist()) == ([], [0])
    random.seed(1)
    one = encoder.encode("international zona", dropout=0.5)
    random.seed(1)
    assert encoder.encode("international zona", dropout=0.5) == one
    with pytest.raises(ValueError, match="Dropout should be between 0 and 1, inclusive, but is 2"):
        encoder.encode("a", dropout=2)


@pytest.mark.parametrize("name", ["gpt2", "llama3", "bert", "metaspace"])
def test_the_encoder_of_an_artifact_is_that_of_its_saved_tokenizer(name, tmp_path):
    alphabet = "bytes" if name in PRESETS else "chars"
    counts = hs.count(
        ["the cat sat on the mat, the hat", "naïve 日本"] * 3, pre_tokenizer=name, alphabet=alphabet
    )
    special = ["<unk>", "<s>"]
    unknown = {"unk_token": "<unk>"} if alphabet == "chars" else {}
    bpe = hs.train(counts, 280, special_tokens=special, **unknown)
    bpe.to_tokenizer().save_pretrained(tmp_path)
    saved, made = hs.Encoder.from_pretrained(tmp_path), bpe.encoder()
    assert saved.special_tokens == made.special_tokens == {"<unk>": 0, "<s>": 1}
    for text in [*TEXTS, "the hat sat"]:
        ids = made.encode(text, disallowed_special=())
        assert ids == saved.encode(text, disallowed_special=())
        assert made.decode(ids) == saved.decode(ids)


@pytest.mark.parametrize("skip", [False, True])
def test_text_is_that_of_the_tokenizer(encoder, tokenizer, skip):
    rows = [tokenizer(text).input_ids for text in TEXTS]
    rows += [random.Random(seed).choices(range(len(tokenizer)), k=20) for seed in range(50)]
    expected = [tokenizer.decode(row, skip_special_tokens=skip) for row in rows]
    assert [encoder.decode(row, skip_special_tokens=skip) for row in rows] == expected
    assert encoder.decode_batch(rows, skip_special_tokens=skip) == expected
    parts = json.loads(tokenizer.backend_tokenizer.to_str())
    if parts["decoder"]["type"] != "ByteLevel" or parts["normalizer"]:
        with pytest.raises(ConfigurationError, match="only byte-level tokens can be streamed; here "):
            encoder.decode_stream(skip_special_tokens=skip)
    else:
        for row, text in zip(rows, expected, strict=True):
            stream = encoder.decode_stream(skip_special_tokens=skip)
            assert "".join([*map(stream.step, row), stream.finish()]) == text


def test_it_knows_its_tokens(encoder, tokenizer):
    assert (encoder.vocab_size, len(encoder)) == (tokenizer.vocab_size, len(tokenizer))
    added = tokenizer.added_tokens_decoder.items()
    assert encoder.special_tokens == {token.content: i for i, token in added if token.special}
    for token, token_id in tokenizer.get_vocab().items():
        assert encoder.token_to_id(token) == token_id
        assert encoder.id_to_token(token_id) == token
    assert encoder.token_to_id("no such") is encoder.id_to_token(1 << 40) is None


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="without a GIL, the collector knows no generations",
)
def test_lists_are_not_left_for_the_next_garbage_collection(toy):
    """It would traverse them, with all their ids."""
    gc.collect()
    rows = toy.encode_batch(["zona banana"] * 20_000)
    young = {*map(id, gc.get_objects(generation=0))}
    assert sum(id(row) in young for row in rows) <= gc.get_threshold()[0]


@pytest.mark.parametrize("seed", range(40))
def test_random_tokenizers_and_texts(seed, tmp_path):
    rng = random.Random(f"engine.{seed}")
    made = native_cases.random_tokenizer(rng)
    tokenizer = made.made()
    tokenizer.save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)  # what is saved tells no order of additions
    encoder = hs.Encoder.from_pretrained(tmp_path)
    texts = [native_cases.random_text(rng, made) for _ in range(100)]
    for split in (False, True):
        options = {"allowed_special": () if split else "all", "disallowed_special": ()}
        expected = tokenizer(texts, split_special_tokens=split).input_ids
        assert encoder.encode_batch(texts, add_special_tokens=True, **options) == expected
        for text, ids in zip(texts[:20], expected, strict=False):
            assert encoder.encode(text, add_special_tokens=True, **options) == ids
            assert encoder.decode(ids) == tokenizer.decode(ids)


# ---- special tokens


def test_a_special_token_in_text_is_an_error_unless_it_is_allowed(toy):
    text = "hug<|eos|> pug<|pad|>"
    eos, pad = toy.token_to_id("<|eos|>"), toy.token_to_id("<|pad|>")
    with pytest.raises(ValueError, match=r"the text spells the special token '<\|eos\|>' at character 3"):
        toy.encode(text)
    with pytest.raises(ValueError, match=r"text 1 spells the special token '<\|pad\|>' at character 14"):
        toy.encode_batch(["hug", text], allowed_special={"<|eos|>"})
    with pytest.raises(ValueError, match=r"text 0 spells"):
        toy.encode_batch_to_arrays([text.encode(), b""])
    some = toy.encode(text, allowed_special={"<|eos|>"}, disallowed_special=())
    assert eos in some
    assert pad not in some
    assert toy.encode(text, allowed_special="all").count(pad) == 1
    assert not {eos, pad} & {*toy.encode(text, disallowed_special=())}
    assert toy.encode(text, disallowed_special={"<|bos|>"}) == toy.encode(text, disallowed_special=())
    assert toy.decode(some) == text


def test_a_string_is_no_set_of_special_tokens(toy):
    with pytest.raises(TypeError, match=r"write \{'<\|eos\|>'\}"):
        toy.encode("hug", allowed_special="<|eos|>")
    assert toy.encode("<|eos|>", allowed_special=["<|eos|>", "no such token"]) == [toy.token_to_id("<|eos|>")]


# ---- refusals


@pytest.mark.parametrize("texts", ["hug", b"hug", {"text": ["hug"]}, pa.table({"text": ["hug"]})])
def test_a_single_text_is_no_batch(toy, texts):
    for call in (toy.encode_batch, toy.encode_batch_to_arrays, toy.encode_to_arrow):
        with pytest.raises(TypeError, match="not a batch of texts"):
            call(texts)


def test_what_is_no_text_is_named(toy):
    for texts in (["hug", None], pa.array(["hug", None])):
        with pytest.raises(TypeError, match=r"texts\[1\] is null"):
            toy.encode_batch_to_arrays(texts, disallowed_special=())
    with pytest.raises(TypeError, match="text is a list, not a str; for several, call encode_batch"):
        toy.encode(["hug"])
    with pytest.raises(UnicodeDecodeError):
        toy.encode_batch_to_arrays([b"hug", b"\xff"], disallowed_special=())
    for call in (toy.encode, lambda text: toy.encode_batch(["hug", text])):
        with pytest.raises(UnicodeEncodeError):
            call("hug\ud800")
    with pytest.raises(OverflowError):
        toy.decode([-1])
    with pytest.raises(TypeError):
        toy.decode(["hug"])
    assert toy.decode([1 << 31]) == ""


def test_malformed_files_are_refused_by_name(saved, tmp_path):
    contents = {name: (saved / name).read_bytes() for name in ("tokenizer.json", "scaffold.json")}
    n_refused = 0
    for name, content in contents.items():
        document = json.loads(content)
        broken = [*malformed.NO_JSON, *(text for text, _ in malformed.variants(document, depth=2))]
        for text in broken:
            files = contents | {
                name: text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
            }
            try:
                encoder = hs.Encoder(*files.values())
            except ArtifactError as error:
                n_refused += ".json" in str(error)
            else:
                encoder.decode(encoder.encode("hug", disallowed_special=()))
    assert n_refused > 50


def changed(rng, content, strings):
    """A copy with a few changes anywhere in it."""
    content = json.loads(json.dumps(content))
    for _ in range(rng.randint(1, 3)):
        inside = content[rng.choice(["merges", "demolish"])]
        while inside and rng.random() < 0.6:  # down to some list, object or string
            key = rng.choice(list(inside) if isinstance(inside, dict) else range(len(inside)))
            if not isinstance(inside[key], list | dict):
                break
            inside = inside[key]
        keys = list(inside) if isinstance(inside, dict) else range(len(inside))
        new = rng.choice([*strings, "", 7, None, True, [], {}, ["a"], ["a", "b", "c"], [1, 2], "ab", strings])
        if keys and rng.random() < 0.3:
            del inside[rng.choice(keys)]
        elif keys and rng.random() < 0.7:
            inside[rng.choice(keys)] = new
        elif isinstance(inside, dict):
            inside[rng.choice(strings)] = [rng.choice(strings), new] if rng.random() < 0.5 else new
        else:
            inside.insert(rng.randint(0, len(inside)), new)
    return content


def test_what_is_read_at_once_is_what_is_read_by_name(tmp_path, monkeypatch):
    toys.tokenizer().save_pretrained(tmp_path)
    tokenizer, scaffold = ((tmp_path / f"{name}.json").read_bytes() for name in ("tokenizer", "scaffold"))
    content, rng = json.loads(scaffold), random.Random(7)
    strings = [*content["demolish"], *rng.sample(sorted(json.loads(tokenizer)["model"]["vocab"]), 20)]

    def outcome(document):
        try:
            return definition.Definition.parse(tokenizer, document).to_bytes()
        except ArtifactError as error:
            return str(error)

    documents = [json.dumps(changed(rng, content, strings)) for _ in range(1000)]
    at_once = [outcome(document) for document in [scaffold, *documents]]
    monkeypatch.setattr(definition.Definition, "_parse_usual", lambda *contents: None)
    by_name = [outcome(document) for document in [scaffold, *documents]]
    assert at_once == by_name
    assert 0 < sum(isinstance(found, bytes) for found in at_once) < len(documents)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ({"zona": 5}, "share the id 5"),
        ({"<|a|>": 5}, "share the id 5"),
        ({"<|a|>": 999, "<|b|>": 999}, "'<|a|>' and '<|b|>' share the id 999"),
        ({"<|a|>": -1}, "the id of '<|a|>' is -1: it must be from 0 to 65,535"),
        ({"<|a|>": 65536}, "the id of '<|a|>' is 65536: it must be from 0 to 65,535"),
        ({"<|a|>": 65535}, None),
    ],
    ids=str,
)
def test_ids_that_are_shared_or_out_of_proportion_are_refused(tmp_path, ids, message):
    toys.tokenizer().save_pretrained(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_bytes())
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for token, token_id in ids.items():
        if token.startswith("<|"):
            tokenizer["added_tokens"].append({"id": token_id, "content": token} | dict.fromkeys(flags, False))
        else:
            tokenizer["model"]["vocab"][token] = token_id
    files = json.dumps(tokenizer), (tmp_path / "scaffold.json").read_bytes()
    if message is None:
        assert hs.Encoder(*files).encode("<|a|>") == [65535]
        return
    with pytest.raises(ArtifactError, match=re.escape(message)):
        hs.Encoder(*files)


def test_special_tokens_that_frame_a_text_are_there(tmp_path):
    toys.tokenizer(post_processor="bos and eos").save_pretrained(tmp_path)
    tokenizer = (tmp_path / "tokenizer.json").read_bytes()
    content = json.loads(tokenizer)
    content["post_processor"]["special_tokens"]["<|eos|>"]["ids"] = [9999]
    with pytest.raises(ArtifactError, match="the post-processor adds the id 9999, which no token has"):
        hs.Encoder(json.dumps(content), (tmp_path / "scaffold.json").read_bytes())


LONE = "\ud800"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "tokenizer.json",
            {"post_processor": {"type": "BertProcessing", "sep": ["<|eos|>"], "cls": ["<|bos|>", 0]}},
            "post_processor can't be read: IndexError",
        ),
        ("tokenizer.json", {"added_tokens": [{"id": 0, "content": LONE}]}, "surrogates not allowed"),
        ("tokenizer.json", {"model": {"type": "BPE", "vocab": {LONE: 0}}}, "surrogates not allowed"),
        ("tokenizer.json", {"normalizer": {LONE: 0}}, "surrogates not allowed"),
        ("scaffold.json", {"demolish": {LONE: []}}, "surrogates not allowed"),
        ("scaffold.json", {"training": LONE}, "surrogates not allowed"),
    ],
    ids=str,
)
def test_what_no_text_holds_and_what_no_text_is_framed_by(tmp_path, name, change, message):
    toys.tokenizer().save_pretrained(tmp_path)
    content = json.loads((tmp_path / name).read_bytes())
    (tmp_path / name).write_text(json.dumps(content | change))
    with pytest.raises(ArtifactError, match=rf"{name}.*({message})"):
        hs.Encoder.from_pretrained(tmp_path)


def test_added_tokens_are_there_once(tmp_path):
    """`tokenizers` finds the last of two, the compiled encoder the one that isn't normalized."""
    toys.tokenizer().save_pretrained(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    content["added_tokens"].append(content["added_tokens"][0] | {"id": 9999, "normalized": True})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(
        ArtifactError, match=r"tokenizer.json can't be used: the added token '.*' is there twice"
    ):
        hs.Encoder.from_pretrained(tmp_path)


def test_merges_are_there_once(tmp_path):
    """`tokenizers` takes the last of two, the compiled encoder the first."""
    toys.tokenizer().save_pretrained(tmp_path)
    scaffold = json.loads((tmp_path / "scaffold.json").read_bytes())
    scaffold["merges"].append(scaffold["merges"][0])
    with pytest.raises(ArtifactError, match=r"merges\[\d+\], \(.*\), is there twice"):
        hs.Encoder((tmp_path / "tokenizer.json").read_bytes(), json.dumps(scaffold))


def test_merges_have_the_prefix_of_their_model(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    content = json.loads((tmp_path / "tokenizer.json").read_bytes())
    content["model"]["continuing_subword_prefix"] = "##"
    with pytest.raises(ArtifactError, match="names or makes a token that is neither public nor a scaffold"):
        hs.Encoder(json.dumps(content), (tmp_path / "scaffold.json").read_bytes())


def test_a_folder_without_the_files_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        hs.Encoder.from_pretrained(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        hs.Encoder.from_pretrained(tmp_path)


@pytest.mark.parametrize("subfolder", ["", "sub", "sub/", "./sub"])
def test_of_a_repository_only_the_two_files_are_fetched(tmp_path, monkeypatch, subfolder):
    toys.tokenizer().save_pretrained(tmp_path / subfolder)
    asked = {}

    def snapshot_download(name, **options):
        asked[name] = options["allow_patterns"]
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    assert len(hs.Encoder.from_pretrained("owner/name", subfolder=subfolder))
    inside = "sub/" if subfolder else ""
    assert asked == {"owner/name": [f"{inside}tokenizer.json", f"{inside}scaffold.json"]}


# ---- many hands


def test_threads_share_it(toy):
    texts = [f"{text} {i}" for i in range(50) for text in TEXTS]
    options = {"allowed_special": "all"}
    expected = toy.encode_batch(texts, **options)
    fresh = pickle.loads(pickle.dumps(toy))
    barrier = threading.Barrier(8)

    def work(number):
        barrier.wait()
        if number % 2:
            return fresh.encode_batch(texts, **options)
        return [fresh.encode(text, **options) for text in texts]

    with ThreadPoolExecutor(8) as pool:
        assert all(result == expected for result in pool.map(work, range(8)))


def encode_framed(encoder, text):
    return id(encoder), encoder.encode(text, add_special_tokens=True, allowed_special="all")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_builds_it_once_a_process(toy, method):
    with get_context(method).Pool(1) as pool:
        results = pool.starmap(encode_framed, [(toy, text) for text in TEXTS], chunksize=1)
    assert [ids for _, ids in results] == [encode_framed(toy, text)[1] for text in TEXTS]
    assert len({number for number, _ in results}) == 1


def test_no_lock_that_a_fork_could_leave_taken():
    """Before Python 3.12 a cached_property has one, for all instances."""
    assert not [name for name, value in vars(hs.Encoder).items() if isinstance(value, cached_property)]


def test_pickled_it_is_small_and_the_same(encoder):
    data = pickle.dumps(encoder)
    copied = pickle.loads(data)
    options = {"allowed_special": "all", "add_special_tokens": True}
    assert copied.encode_batch(TEXTS, **options) == encoder.encode_batch(TEXTS, **options)
    assert copied.decode(range(len(encoder))) == encoder.decode(range(len(encoder)))
    assert len(data) < 20_000
    assert repr(copied) == repr(encoder)


def test_it_needs_neither_transformers_nor_tokenizers(tmp_path):
    toys.tokenizer(post_processor="bos and eos").save_pretrained(tmp_path)
    code = f"""
import sys
import hf_scaffold as hs
encoder = hs.Encoder.from_pretrained({str(tmp_path)!r})
ids = encoder.encode_batch(["Arizona", "zona"], add_special_tokens=True)
assert [encoder.decode(row, skip_special_tokens=True) for row in ids] == ["Arizona", "zona"]
print(*sorted({{"transformers", "tokenizers", "pyarrow", "huggingface_hub", "torch"}} & sys.modules.keys()))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_known_by_their_entries(name):
    assert preset_of(json.loads(get_pre_tokenizer(name).to_json())["pre_tokenizer"]) == name
    entry = json.loads(get_pre_tokenizer(name).to_json())["pre_tokenizer"]
    assert preset_of({**entry, "more": True}) is None


def test_a_saved_dropout_is_not_applied(tmp_path):
    tokenizer = toys.tokenizer()
    expected = tokenizer("Arizona nationality").input_ids
    tokenizer.dropout = 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer.save_pretrained(tmp_path)
    assert hs.Encoder.from_pretrained(tmp_path).encode("Arizona nationality") == expected
