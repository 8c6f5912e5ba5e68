"""Every program in benchmarks/program_readers.py that is installed sees what is said there.

`make programs` runs these with all programs, but for those that have no wheel for the machine.
"""

import importlib
import json
import sys
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import ByteLevel, Metaspace, Sequence, Split
from transformers.convert_slow_tokenizer import generate_merges

import hf_scaffold as hs

FOLDER = Path(__file__).parents[2] / "benchmarks"
TOKENIZERS_1 = FOLDER.parent / ".venv-tokenizers-1" / "bin" / "python"
sys.path.insert(0, str(FOLDER))
programs = importlib.import_module("programs")
readers = importlib.import_module("program_readers")
sys.path.remove(str(FOLDER))

LINES = 300


@pytest.fixture(scope="module")
def scratch(tmp_path_factory, english_text):
    """Tokenizers of every preset, and lines of text, some of them not trained on."""
    folder = tmp_path_factory.mktemp("programs")
    lines = [line for line in english_text.splitlines() if line]
    for preset in readers.PRESETS:
        programs.train([*lines[LINES // 2 : 3000], *["  1"] * 100], preset, 1500, folder / preset)
    texts = [*lines[:LINES], "it cost 12 or  345 of\t67 ,  he said .", "naïve café, 日本語 🙂"]
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    return folder


@pytest.fixture
def texts(scratch):
    return json.loads((scratch / "texts.json").read_bytes())


@cache
def read(name, scratch):
    python = str(TOKENIZERS_1) if TOKENIZERS_1.exists() else None
    folders = [scratch / preset for preset in readers.PRESETS]
    return programs.read_in_child(name, folders, scratch / "texts.json", python)


def skip_where_missing(runs):
    if "missing" in runs:
        pytest.skip(f"needs {', '.join(runs['missing'])}")


def known(kind, folder, texts):
    """The ids that a program of this kind gives."""
    if kind == readers.EXACT:
        return list(map(hs.Encoder.from_pretrained(folder).encode, texts))
    content = json.loads((folder / "tokenizer.json").read_bytes())
    content["model"]["ignore_merges"] = kind == readers.RAW
    if kind == readers.STRINGS:
        added = {token["content"] for token in content["added_tokens"]}
        vocab = {token: i for token, i in content["model"]["vocab"].items() if token not in added}
        content["model"]["merges"] = generate_merges(vocab, None)
        content["model"]["ignore_merges"] = folder.name in readers.BYTES  # tiktoken's
    return [encoding.ids for encoding in Tokenizer.from_str(json.dumps(content)).encode_batch(texts)]


@pytest.mark.parametrize("preset", readers.PRESETS)
@pytest.mark.parametrize("name", readers.PROGRAMS)
def test_a_program_sees_what_is_known(name, preset, scratch, texts):
    runs, kind = read(name, scratch), readers.PROGRAMS[name].sees[preset]
    skip_where_missing(runs)
    found = runs[preset]
    assert ("refused" in found) == (kind == readers.REFUSED), found.get("refused")
    if kind != readers.REFUSED:
        assert found["ids"] == known(kind, scratch / preset, texts)
        # llama.cpp leaves the space that it puts before pieces of SentencePiece.
        lead = " " if (name, preset) == ("llama.cpp", "metaspace") else ""
        assert found["texts"] == [f"{lead}{text}" for text in texts]


@pytest.mark.parametrize("preset", readers.PRESETS)
def test_the_kinds_are_told_apart_by_these_texts(preset, scratch, texts):
    kinds = readers.EXACT, readers.RAW, readers.MERGES_ONLY, readers.STRINGS
    ids = [known(kind, scratch / preset, texts) for kind in kinds]
    assert all(one != other for one, other in combinations(ids, 2))


@pytest.mark.parametrize("preset", readers.PRESETS)
def test_backend_tokenizer_is_raw(preset, scratch, texts):
    backend = readers.auto_tokenizer(scratch / preset).backend_tokenizer
    rows = [encoding.ids for encoding in backend.encode_batch(texts)]
    assert rows == known(readers.RAW, scratch / preset, texts)


def test_gigatoken_would_drop_the_digits_of_another_form(scratch, texts):
    """So the default preset is not written with a pattern that gigatoken knows: it splits by that alone."""
    gigatoken = importlib.import_module("gigatoken")
    content = json.loads((scratch / "gpt2-digits" / "tokenizer.json").read_bytes())
    digits, byte_level = content["pre_tokenizer"]["pretokenizers"]
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    content["pre_tokenizer"]["pretokenizers"] = [digits, split, {**byte_level, "use_regex": False}]
    form = json.dumps(content)
    rows = [encoding.ids for encoding in Tokenizer.from_str(form).encode_batch(texts)]
    assert rows == known(readers.RAW, scratch / "gpt2-digits", texts)
    assert gigatoken.Tokenizer.from_json(form).encode_batch_list(texts) != rows


def test_transformers_js_takes_ascii_digits_alone_for_digits(scratch, tmp_path):
    texts = ["  3", "  ٣"]
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    folder = scratch / "gpt2-digits"
    runs = programs.read_in_child("transformers.js", [folder], tmp_path / "texts.json", None)
    skip_where_missing(runs)
    found = runs[folder.name]
    raw = known(readers.RAW, folder, texts)
    assert found["ids"][0] == raw[0]
    assert found["ids"][1] != raw[1]
    assert found["texts"] == texts


@pytest.mark.parametrize(
    ("preset", "form"),
    [
        ("gpt2-digits", Sequence([Split(Regex(r"\p{N}"), "isolated"), ByteLevel(add_prefix_space=False)])),
        ("metaspace", Sequence([Metaspace(split=False), Split(Regex("▁[^▁]*"), "isolated")])),
    ],
)
def test_transformers_js_reads_another_form(preset, form, scratch, texts, tmp_path):
    """As docs/programs.md says how to save it."""
    texts = [*texts, "  ٣ ½ ", " a\n b", "▁"]
    (tmp_path / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    tokenizer = readers.auto_tokenizer(scratch / preset)
    tokenizer.backend_tokenizer.pre_tokenizer = form
    assert tokenizer(texts)["input_ids"] == known(readers.EXACT, scratch / preset, texts)
    tokenizer.save_pretrained(tmp_path / preset)
    runs = programs.read_in_child("transformers.js", [tmp_path / preset], tmp_path / "texts.json", None)
    skip_where_missing(runs)
    assert runs[preset]["ids"] == known(readers.RAW, scratch / preset, texts)


# ---- fastokens' patch


def test_streaming_under_fastokens_patch_needs_its_own_tokenizers(scratch):
    """As the warning says that loading gives then."""
    fastokens = importlib.import_module("fastokens")
    from tokenizers import decoders

    tokenizer = readers.auto_tokenizer(scratch / "gpt2")
    fastokens.patch_transformers()
    try:
        with pytest.warns(UserWarning, match=r"call fastokens.unpatch_transformers\(\) first"):
            patched = readers.auto_tokenizer(scratch / "gpt2")
        with pytest.raises(AttributeError):
            decoders.DecodeStream(ids=[], skip_special_tokens=True).step(patched._tokenizer, 300)
    finally:
        fastokens.unpatch_transformers()
    stream = decoders.DecodeStream(ids=[], skip_special_tokens=True)
    assert stream.step(patched._tokenizer, 300) == tokenizer.decode([300])
    assert patched("an unfinished sentence") == tokenizer("an unfinished sentence")


# ---- the table


def test_a_table_is_not_of_lines_that_begin_with_a_space(tmp_path):
    """SentencePiece would not be exact on them."""
    text = tmp_path / "text.txt"
    text.write_text("".join(f"line {i}\n a space before line {i}\n\n" for i in range(20)), encoding="utf-8")
    trained_on, inside, outside = programs.parts_of(text, 10_000)
    assert trained_on == inside
    assert sorted(inside + outside) == sorted(f"line {i}" for i in range(20))


def test_agreement_counts_pretokens(scratch):
    agreement = programs.Agreement(scratch / "gpt2")
    exact = agreement.encoder.encode("a cat sat")
    assert agreement.of(["a cat sat"], [exact]) == 1
    others = [agreement.encoder.token_to_id(symbol) for symbol in "aĠcatĠsat"]
    wrong = sum(len(agreement.encoder.encode(word)) > 1 or len(word) > 1 for word in ("a", " cat", " sat"))
    assert agreement.of(["a cat sat"], [others]) == pytest.approx(1 - wrong / 3)
    assert programs.percent(0.99999) == "99.99 %"


def test_the_table_names_what_is_not_as_known(scratch, english_text, tmp_path, monkeypatch, capsys):
    corpus = tmp_path / "text.txt"
    corpus.write_text(english_text[:60_000], encoding="utf-8")
    exact = readers.Program(readers.tokenizers, ("tokenizers",), reads=readers.JSON)
    monkeypatch.setitem(readers.PROGRAMS, "tokenizers, backend_tokenizer", exact)
    names = ["transformers", "tokenizers, backend_tokenizer"]
    wrong = programs.compare(corpus, 800, 5000, names, None, tmp_path)
    table = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert table[2].startswith("| transformers |")
    assert table[2].count(" exact ") == len(readers.PRESETS) + 1
    assert wrong
    assert all(line.startswith("text, tokenizers, backend_tokenizer, ") for line in wrong)
