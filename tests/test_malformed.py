"""Files from strangers: whatever is in them, a tokenizer either loads and works, or is refused by name."""

import contextlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import malformed
import pytest
import toys
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import AutoTokenizer

import hf_scaffold as hs
from hf_scaffold.errors import ArtifactError
from hf_scaffold.text.symbols import Affixes
from hf_scaffold.tokenization_scaffold import FREE_IDS, ScaffoldTokenizerFast
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.parts import derive_demolish_map

COUNTS = {"Arizona": 50, "zone": 3, "Ari": 4, "zon": 2, "banana": 20, "hugs": 5, "hug": 9}
SETTINGS = [
    "add_bos_token", "added_tokens_decoder", "additional_special_tokens", "chat_template",
    "fast_tokenizer_files", "extra_special_tokens", "gguf_file", "init_inputs",
    "merges", "model_input_names", "model_max_length",
    "model_specific_special_tokens", "padding_side", "post_processor", "scaffold", "scaffold_file",
    "some_token", "split_special_tokens", "tokenizer_file", "tokenizer_object", "tokenizer_padding",
    "tokenizer_truncation", "truncation_side", "vocab",
]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path / "toy")
    return tmp_path / "toy"


@pytest.fixture
def characters(tmp_path):
    counts = hs.PreTokenCounts.from_mapping(
        {"banana": 20, "nab": 3, "banan": 4, "cabana": 5}, pre_tokenizer="bert", alphabet="chars"
    )
    bpe = hs.train(
        counts, 12, continuing_subword_prefix="##", special_tokens=["<unk>"], unk_token="<unk>", log=True
    )
    bpe.save(tmp_path / "artifact")
    bpe.to_tokenizer().save_pretrained(tmp_path / "characters")
    return tmp_path / "characters"


def use(tokenizer, folder):
    """All that a loaded tokenizer is for."""
    text = "Arizona banana zona nabanana<|eos|> é"
    encoded = tokenizer(text, return_offsets_mapping=True)
    assert encoded["input_ids"] == tokenizer(text)["input_ids"]
    assert all(start <= end <= len(text) for start, end in encoded["offset_mapping"])
    assert max(encoded["input_ids"], default=0) < len(tokenizer) + FREE_IDS
    tokenizer.decode(encoded["input_ids"])
    tokenizer.save_pretrained(folder)
    ScaffoldTokenizerFast.from_pretrained(folder)


def assert_refused_or_right(path, variants, tmp_path):
    """Of each variant of a file; returns how many were refused."""
    n_refused = 0
    for what, data in variants:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        try:
            try:
                tokenizer = ScaffoldTokenizerFast.from_pretrained(path.parent)
            except ValueError:
                n_refused += 1
                continue
            use(tokenizer, tmp_path / "again")
        except BaseException as error:
            raise AssertionError(f"{path.name}: {what}: {error!r}") from error
    return n_refused


def no_json(data=b""):
    return ((repr(part[:9]), part) for part in (*malformed.NO_JSON, b"\xef\xbb\xbf" + data))


@pytest.mark.parametrize("kind", ["folder", "characters"])
def test_whatever_is_in_scaffold_json(request, tmp_path, kind):
    path = request.getfixturevalue(kind) / "scaffold.json"
    content = json.loads(path.read_bytes()) | {"training": {"sources": ["a.txt"]}, "unused": []}
    variants = [*no_json(), *malformed.variants(content)]
    assert assert_refused_or_right(path, variants, tmp_path) > 400


def test_whatever_is_in_tokenizer_json(folder, tmp_path):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_bytes())
    values = [None, True, -1, 2**31, 2**32, "x", [], ["a"], {}, {"a": 1}, float("nan")]
    variants = [*no_json(), *malformed.variants(content, values)]
    assert assert_refused_or_right(path, variants, tmp_path) > 400


@pytest.mark.parametrize("name", SETTINGS)
def test_whatever_is_in_tokenizer_config_json(folder, tmp_path, name):
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_bytes())
    variants = [(repr(value), json.dumps({**content, name: value})) for value in malformed.WRONG]
    assert_refused_or_right(path, [*no_json(), *variants], tmp_path)


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "scaffold.json"])
def test_a_file_that_is_no_json_is_named(folder, name):
    for data in (b"", b"{", b"\xff", malformed.NESTED.encode()):
        (folder / name).write_bytes(data)
        with pytest.raises(ValueError, match=r"is not valid JSON|can't read") as raised:
            ScaffoldTokenizerFast.from_pretrained(folder)
        assert str(folder / name) in str(raised.value)


def test_a_panic_of_tokenizers_is_a_value_error(tmp_path):
    model = {
        "type": "BPE",
        "continuing_subword_prefix": "##",
        "vocab": {"a": 0, "b": 1},
        "merges": [["a", "b"]],
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"added_tokens": [], "model": model}))
    with pytest.raises(ValueError, match=r"can't read .*tokenizer\.json.*save or fetch it again"):
        ScaffoldTokenizerFast(tokenizer_file=str(path), scaffold={"version": 1, "merges": [], "demolish": {}})


@pytest.mark.parametrize("right", ["日", "é", "##日", "_"])
@pytest.mark.parametrize("key", ["continuing_subword_prefix", "\\u0063ontinuing_subword_prefix"])
def test_a_merge_that_would_end_the_process_is_refused(tmp_path, right, key):
    """`tokenizers` takes the prefix off by bytes, and aborts where that cuts a character in two."""
    vocab = {token: i for i, token in enumerate(["a", "##", right, "a" + right.removeprefix("##")])}
    model = {"type": "BPE", "PREFIX": "#" if right == "é" else "##", "vocab": vocab, "merges": [["a", right]]}
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"added_tokens": [], "model": model}).replace("PREFIX", key))
    load = f"ScaffoldTokenizerFast(tokenizer_file={str(path)!r}, scaffold={{}})"
    script = f"from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast\n{load}"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    refused = "does not fit the tokenizer" if right == "##日" else "can't read"
    assert refused in done.stderr.splitlines()[-1]


# ---- ids


def with_ids(**vocab):
    scaffold = {"version": 1, "merges": [], "demolish": {}}
    return ScaffoldTokenizerFast(tokenizer_object=Tokenizer(BPE(vocab, [])), scaffold=scaffold)


def test_two_tokens_with_one_id_are_refused():
    with pytest.raises(ValueError, match="'b' and 'c' share the id 1"):
        with_ids(a=0, c=1, b=1)


def test_an_added_token_never_takes_the_id_of_another(tmp_path):
    backend = Tokenizer(BPE({"a": 0, "x": 2}, []))
    backend.add_special_tokens(["<s>"])
    with pytest.raises(ValueError, match="'x' and the added token '<s>' share the id 2"):
        ScaffoldTokenizerFast(tokenizer_object=backend, scaffold={"version": 1, "merges": [], "demolish": {}})
    tokenizer = with_ids(a=0, x=2)
    with pytest.raises(ValueError, match=r"can't add '<s>': .* share the id 2 with 'x'"):
        tokenizer.add_tokens(["<s>"])
    assert tokenizer.get_vocab() == {"a": 0, "x": 2}
    assert tokenizer.add_tokens(["x", "a"]) == 2  # known to the model, so with its ids
    tokenizer = with_ids(a=0, x=9)
    assert tokenizer.add_tokens(["<s>"]) == 1
    assert tokenizer.convert_tokens_to_ids("<s>") == 2


def test_ids_may_have_gaps_but_none_that_costs_more_than_the_file():
    assert with_ids(a=0, b=FREE_IDS - 1)("ab")["input_ids"] == [0, FREE_IDS - 1]
    for token_id in (FREE_IDS, 10**8, 2**31 - 1, 2**31, 2**32 - 1):
        with pytest.raises(ValueError, match=f"the id of 'b' is {token_id}, too large for 2 tokens"):
            with_ids(a=0, b=token_id)
    many = {chr(0x4E00 + i): i for i in range(20_000)}
    assert with_ids(**many, b=119_999)("b")["input_ids"] == [119_999]
    with pytest.raises(ValueError, match="the id of 'b' is 120006, too large for 20,001 tokens"):
        with_ids(**many, b=120_006)


def test_a_model_of_shared_ids_put_in_later_is_refused_too():
    tokenizer = with_ids(a=0, b=1)
    tokenizer.backend_tokenizer.model = BPE({"a": 0, "b": 1, "c": 1}, [])
    with pytest.raises(ValueError, match="'b' and 'c' share the id 1"):
        tokenizer("abc")


@pytest.mark.parametrize("token_id", [-1, 2**32])
def test_ids_that_are_no_ids_are_refused_with_the_file(folder, token_id):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_bytes())
    content["model"]["vocab"]["Arizona"] = token_id
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=f"can't read .*{path.name}.*expected u32"):
        ScaffoldTokenizerFast.from_pretrained(folder)


# ---- what counts


def test_a_scaffold_inside_tokenizer_config_json_counts_for_nothing(folder, tmp_path):
    expected = toys.tokenizer()("Arizona zona")["input_ids"]
    path = folder / "tokenizer_config.json"
    inline = json.loads((folder / "scaffold.json").read_bytes())
    other = tmp_path / "other.json"
    other.write_text("{}")
    content = {**json.loads(path.read_bytes()), "scaffold": inline, "scaffold_file": str(other)}
    path.write_text(json.dumps(content))
    tokenizer = ScaffoldTokenizerFast.from_pretrained(folder)
    assert tokenizer("Arizona zona")["input_ids"] == expected
    assert not {"scaffold", "scaffold_file"} & tokenizer.init_kwargs.keys()
    (folder / "scaffold.json").unlink()
    for cls in (ScaffoldTokenizerFast, AutoTokenizer):
        with pytest.raises(ValueError, match=r"scaffold\.json is missing"):
            cls.from_pretrained(folder)
        for given in ({"scaffold": inline}, {"scaffold_file": str(other)}):
            if "scaffold" in given:  # what the caller says is meant
                assert cls.from_pretrained(folder, **given)("Arizona zona")["input_ids"] == expected
            else:
                with pytest.raises(
                    ValueError, match=r"other\.json does not fit the tokenizer: version is None"
                ):
                    cls.from_pretrained(folder, **given)


def test_a_record_of_training_that_could_not_be_saved_is_refused(folder, tmp_path):
    scaffold = toys.scaffold(toys.trained())
    for value in ("\ud800", float("nan"), {1, 2}, json.loads("[" * 900 + "]" * 900), {"a": 1, 2: 3}):
        for name in ("training", "remark"):
            with pytest.raises(ValueError, match=f"{name}.* can't be saved"):
                ScaffoldTokenizerFast(
                    tokenizer_object=toys.backend(toys.trained()), scaffold={**scaffold, name: {"x": [value]}}
                )


def test_pieces_after_the_first_go_on_with_a_character(characters):
    content = json.loads((characters / "scaffold.json").read_bytes())
    token, pieces = next((t, p) for t, p in content["demolish"].items() if not t.startswith("##"))
    for damaged in ([*pieces, "##"], [*pieces[:-1], pieces[-1][2:]]):
        content["demolish"][token] = damaged
        (characters / "scaffold.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"scaffold\.json does not fit the tokenizer"):
            ScaffoldTokenizerFast.from_pretrained(characters)


# ---- artifacts


def assert_artifact_refused_or_right(path, variants, tmp_path):
    n_refused = 0
    for what, data in variants:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        try:
            try:
                bpe = ScaffoldBPE.load(path.parent)
            except ArtifactError:
                n_refused += 1
                continue
            bpe.encode([b"banana", b"x"])
            bpe.save(tmp_path / "again")
            assert ScaffoldBPE.load(tmp_path / "again") == bpe
        except BaseException as error:
            raise AssertionError(f"{path.name}: {what}: {error!r}") from error
    return n_refused


@pytest.fixture
def artifact(tmp_path):
    counts = hs.PreTokenCounts.from_mapping(COUNTS)
    hs.train(counts, 262, special_tokens=["<s>"], log=True).save(tmp_path / "artifact")
    return tmp_path / "artifact"


@pytest.mark.parametrize("name", ["demolish.json", "vocab.json"])
@pytest.mark.parametrize("kind", ["artifact", "characters"])
def test_whatever_is_in_an_artifact(request, tmp_path, kind, name):
    path = request.getfixturevalue(kind).parent / "artifact" / name
    content = json.loads(path.read_bytes())
    variants = [*no_json(path.read_bytes()), *malformed.variants(content, depth=2)]
    assert assert_artifact_refused_or_right(path, variants, tmp_path) > 60


def test_whatever_is_in_merges(artifact, tmp_path):
    path = artifact / "merges.txt"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    variants = [("cut", whole[:n]) for n in range(1, len(whole), 7)]
    variants += [
        ("swapped", b"".join([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]])) for i in (1, 3, 5)
    ]
    variants += [("more", whole + more) for more in (b" ", b"a  b\n", b"a b c\n", b"\xff", b"\x00 \x00\n")]
    assert assert_artifact_refused_or_right(path, [*no_json(), *variants], tmp_path) > 30


def test_whatever_is_in_a_list_of_merges(tmp_path):
    counts = hs.PreTokenCounts.from_mapping({"a b": 9, "b a": 4}, pre_tokenizer="metaspace", alphabet="chars")
    bpe = hs.train(counts, 5)
    bpe.save(tmp_path / "artifact")
    path = tmp_path / "artifact" / "merges.json"
    variants = [*no_json(), *malformed.variants(json.loads(path.read_bytes()))]
    assert assert_artifact_refused_or_right(path, variants, tmp_path) > 40


def test_whatever_is_in_a_log(artifact, tmp_path):
    path = artifact / "log.jsonl"
    lines = path.read_text().splitlines()
    variants = [
        (what, "\n".join([*lines[:at], line, *lines[at:][1:]]) + "\n")
        for at in (0, len(lines) - 1)
        for what, line in malformed.variants(json.loads(lines[at]))
    ]
    assert assert_artifact_refused_or_right(path, [*no_json(), *variants], tmp_path) > 100


@pytest.mark.parametrize("name", ["demolish.json", "vocab.json", "merges.txt", "log.jsonl"])
def test_a_folder_in_place_of_an_artifacts_file(artifact, name):
    (artifact / name).unlink()
    (artifact / name).mkdir()
    with pytest.raises(ArtifactError, match=name):
        ScaffoldBPE.load(artifact)


def test_an_artifact_whose_fields_are_of_other_types_is_refused(artifact):
    parts = ScaffoldBPE.load(artifact).__getstate__()
    for name in parts:
        for value in (5, "ab", b"ab", [1], ["ab"], {1: 2}, {"a": None}, object()):
            if name == "special_tokens" and value == ["ab"]:
                continue
            if name == "training" and isinstance(value, dict):
                continue
            if name == "stop_reason" and isinstance(value, str):
                continue
            with pytest.raises(ArtifactError):
                ScaffoldBPE(**{**parts, name: value})


# ---- cost


# Each would take many minutes if a check were quadratic in the file.
CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
from tokenizers import Tokenizer
from tokenizers.models import BPE
from hf_scaffold.text.symbols import Affixes
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.parts import derive_demolish_map
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast, violations
"""


def run(code, seconds=120):
    done = subprocess.run(
        [sys.executable, "-I", "-c", CHILD + textwrap.dedent(code)],
        capture_output=True, text=True, timeout=seconds, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_a_long_token_in_many_pieces_costs_what_the_file_costs():
    run("""
        n = 1 << 20
        long = "a" * n
        merges = [["a" * 2**k, "a" * 2**k] for k in range(20)]
        demolish = {left * 2: ["a"] * 2 * len(left) for left, _ in merges}
        backend = Tokenizer(BPE({"a": 0}, []))
        scaffold = {"version": 1, "merges": merges, "demolish": demolish}
        tokenizer = ScaffoldTokenizerFast(tokenizer_object=backend, scaffold=scaffold)
        assert tokenizer("a" * 5)["input_ids"] == [0] * 5
        encoded = tokenizer("a" * (1 << 18), return_offsets_mapping=True)
        assert encoded["offset_mapping"][-1] == ((1 << 18) - 1, 1 << 18)
    """)


def test_pieces_that_spell_something_else_cost_what_the_file_costs():
    run("""
        n = 3_000_000
        merges = [["a", "b" * n]]
        vocab = {"a": 0, "b": 1, "b" * n: 2}
        demolish = {"a" + "b" * n: ["a"] + ["b"] * (n - 1) + ["a"]}
        backend = Tokenizer(BPE(vocab, []))
        scaffold = {"version": 1, "merges": merges, "demolish": demolish, "unused": ["b" * n]}
        found = list(violations(scaffold, backend))
        assert len(found) == 1 and "spells something else" in found[0] and len(found[0]) < 500, found
    """)


def test_rules_in_the_worst_order_cost_one_look_each():
    """Each rule makes the result of the one before shorter: pass after pass would go through all of them."""
    run("""
        n = 3000
        chain = ["a" * i for i in range(n, 1, -1)]
        merges = [(token[1:], "a") for token in chain]
        fill = [("a", "b" * i) for i in range(1, 2)] * 300_000
        found = derive_demolish_map([*merges, *fill], [*chain, "ab"], Affixes("", ""))
        assert len(found[chain[0]]) == n
        prefixed = [("a" + "##"[2:] + "a" * (i - 2) , "##a") for i in range(n, 1, -1)]
        found = derive_demolish_map(prefixed + [("a", "##b")] * 300_000, [*chain, "ab"], Affixes("##", ""))
        assert len(found[chain[0]]) == n
    """)


def test_long_affixes_cost_once():
    run("""
        affix = "x" * 1_000_000
        affixes = Affixes(affix, affix)
        for i in range(200_000):
            assert affixes.readings("ab") == []
        assert affixes.readings(affix + "a" + affix) == [("a", True, True)]
    """)


def test_a_message_is_short_however_long_the_file(artifact, folder):
    content = json.loads((folder / "scaffold.json").read_bytes())
    content["demolish"]["q" * 100_000] = ["q"] * 100_001
    (folder / "scaffold.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match="no merge makes the scaffold token") as raised:
        ScaffoldTokenizerFast.from_pretrained(folder)
    assert len(str(raised.value)) < 1000
    content = json.loads((artifact / "demolish.json").read_bytes())
    content["demolish"][next(iter(content["demolish"]))] = ["q"] * 100_000
    (artifact / "demolish.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match="demolish: ") as raised:
        ScaffoldBPE.load(artifact)
    assert len(str(raised.value)) < 1000


def test_the_order_of_rules_never_mattered():
    """As the walk that went through all rules until nothing changed."""
    rules = [("a", "##b"), ("ab", "##c"), ("a", "##bc"), ("##b", "##c"), ("##bc", "##d"), ("abc", "##d")]
    affixes = Affixes("##", "")
    scaffolds = ["abcd", "abc", "ab", "##bcd", "##bc"]
    rules.append(("a", "##bcd"))
    found = derive_demolish_map(rules, scaffolds, affixes)
    assert found == {
        "abcd": ("a", "##b", "##c", "##d"), "abc": ("a", "##b", "##c"), "ab": ("a", "##b"),
        "##bcd": ("##b", "##c", "##d"), "##bc": ("##b", "##c"),
    }  # fmt: skip


def test_the_shipped_class_says_the_same(folder, tmp_path):
    code = textwrap.dedent("""
        import sys
        sys.modules["hf_scaffold"] = None
        from transformers import AutoTokenizer
        try:
            AutoTokenizer.from_pretrained(sys.argv[1], trust_remote_code=True)
        except ValueError as error:
            print(error)
    """)
    (folder / "scaffold.json").write_text(malformed.NESTED)
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": str(tmp_path / "modules")}
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, folder],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert f"{Path(folder, 'scaffold.json')} is not valid JSON" in done.stdout


def test_whatever_is_in_an_index_of_shards(tmp_path):
    """What loads is used for going on, which reads the files it names."""
    text, out = tmp_path / "text.txt", tmp_path / "out"
    text.write_text("Arizona banana " * 30, encoding="utf-8")
    tokenizer = toys.tokenizer()
    written = hs.write_shards(text, tokenizer, out, shard_size=50)
    path, refusals = out / "index.json", []
    content = json.loads(path.read_bytes())
    outside = ("elsewhere", json.dumps(malformed.put(content, ("shards", 0, "name"), "../shard-00000.bin")))
    every = [(key, json.dumps({**content, key: value})) for key in content for value in malformed.WRONG]
    for what, data in [*no_json(), outside, *every, *malformed.variants(content)]:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        try:
            index = hs.ShardIndex.load(out)
        except hs.ArtifactError as error:
            refusals.append(str(error))
            continue
        assert index.n_tokens >= 0, what
        assert hash(index) == hash(index), what
        with contextlib.suppress(hs.ConfigurationError):  # other shards, by their settings
            assert hs.write_shards(text, tokenizer, out, shard_size=50) == written, what
    assert len(refusals) > 300
    assert all("index.json" in message and len(message) < 1000 for message in refusals)


@pytest.mark.parametrize(
    "setting", [{"model_max_length": "9"}, {"chat_template": {"a/b": "c"}}, {"x": "\ud800"}]
)
def test_a_setting_that_is_none_is_refused_with_the_file(folder, setting):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | setting))
    with pytest.raises(ValueError, match=re.escape(str(path))):
        ScaffoldTokenizerFast.from_pretrained(folder)


@pytest.mark.parametrize("name", ["cache", "_scaffold_json", "_checked_model"])
def test_a_setting_named_as_a_part_of_the_class_is_not_saved_as_that_part(folder, tmp_path, name):
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {name: 0}))
    tokenizer = ScaffoldTokenizerFast.from_pretrained(folder)
    expected = tokenizer("Arizona")["input_ids"]
    tokenizer.save_pretrained(tmp_path / "again")
    assert name not in json.loads((tmp_path / "again" / "tokenizer_config.json").read_bytes())
    assert ScaffoldTokenizerFast.from_pretrained(tmp_path / "again")("Arizona")["input_ids"] == expected


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("kind", ["roberta", "bos and eos"])
def test_a_post_processor_that_adds_an_id_of_no_token_is_refused(folder, kind, nested):
    path = folder / "tokenizer.json"
    content = json.loads(path.read_bytes())
    backend = toys.tokenizer(post_processor=kind).backend_tokenizer
    entry = json.loads(backend.to_str().replace("[0]", "[9999]"))["post_processor"]
    if "cls" in entry:
        entry["cls"][1] = 9999
    content["post_processor"] = {"type": "Sequence", "processors": [entry]} if nested else entry
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="the post-processor adds the id 9999, which no token has"):
        ScaffoldTokenizerFast.from_pretrained(folder)
