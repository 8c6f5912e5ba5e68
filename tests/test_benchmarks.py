"""The benchmarks run, and find merges and ids of `tokenizers` equal to ours; they say so if they are not."""

import argparse
import importlib
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import toys

import hf_scaffold as hs

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def encode(monkeypatch):
    """The module of the script."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module("encode")


def run(script, *arguments):
    command = [sys.executable, FOLDER / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_trainers_are_compared(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:100_000], encoding="utf-8")
    peers = "hf_scaffold;hf_scaffold, scaffold=False;tokenizers;a peer that is not there"
    options = ["--vocab-size", "600", "--rounds", "2", "--slow-rounds", "1", "--peers", peers]
    output = run("train.py", text, *options, "--json", tmp_path / "runs.json")
    assert "a peer that is not there is not installed and left out" in output
    assert "tokenizers: 343 of 343 merges equal ours at scaffold=False, rank by rank\n" in output
    assert output.count("| hf_scaffold") == 2
    runs = json.loads((tmp_path / "runs.json").read_text())["runs"]
    assert [run["peer"] for run in runs] == [*peers.split(";")[:3], *peers.split(";")[:2]]
    assert all(run["train_s"] > 0 and run["cpu_s"] > 0 and run["peak_mb"] > 0 for run in runs)


def test_what_rare_pretokens_teach(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:100_000], encoding="utf-8")
    output = run("min_count.py", text, "--vocab-size", "600", "--min-counts", "1,2,9")
    first, *others = output.splitlines()[2:]
    cells = [cell.strip() for cell in first.split("|")[1:-1]]
    assert cells[2] == "0.00 %"
    same, n_merges = cells[3].split(" of ")
    assert same == n_merges
    assert cells[4] == "600"
    assert len(others) == 2
    assert all(cells[4] not in other for other in others)


def test_raw_models_agree_as_often_as_possible_at_most(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:200_000], encoding="utf-8")
    _, _, *rows = run("raw_models.py", text, "--vocab-sizes", "3000").splitlines()
    assert len(rows) == 3
    for row in rows:
        _, _, size, *cells = [cell.strip() for cell in row.split("|")[1:-1]]
        shares = [[float(share.removesuffix(" %")) for share in cell.split(" / ")] for cell in cells]
        assert size == "3,000"
        for column in (0, 1):
            with_wholes, by_merges = ([row[column] for row in part] for part in (shares[:3], shares[3:]))
            assert 90 < with_wholes[0] <= with_wholes[1] <= with_wholes[2] <= 100
            assert by_merges[0] < by_merges[1] < by_merges[2] < with_wholes[2]


def test_methods_are_compared(english_text, tmp_path):
    text, figures, page = tmp_path / "text.txt", tmp_path / "figures.jsonl", tmp_path / "page.md"
    text.write_text(english_text[:200_000], encoding="utf-8")
    page.write_text("before\n<!-- methods.py -->\n<!-- end -->\nafter\n", encoding="utf-8")
    run("methods.py", text, "--vocab-size", "1000", "--json", figures, "--docs", page)
    found = {row["method"]: row for row in map(json.loads, figures.read_text().splitlines())}
    assert list(found) == ["bpe", "scaffold", "picky", "trimmed", "residue", "leaf"]
    for method, row in found.items():
        assert row["n_tokens"] == 1000
        assert row["bytes_per_token"]["trained"] > row["bytes_per_token"]["other"] > 2
        assert 1 < row["bits_per_byte"][4] < row["bits_per_byte"][0] < 4
        assert (row["gain"] is None) == (method == "bpe")
    assert found["scaffold"]["gain"]["trained"] > 0
    assert sum(line.startswith("| text |") for line in page.read_text().splitlines()) == 6


def test_the_page_on_methods_shows_what_was_measured(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    methods = importlib.import_module("methods")
    found = [json.loads(line) for line in (FOLDER / "methods.jsonl").read_text().splitlines()]
    page = (FOLDER.parent / "docs" / "methods.md").read_text(encoding="utf-8")
    assert len(found) == 54
    for row in found:
        assert f"| {' | '.join(methods.row_of(row))} |" in page


def test_large_tables_are_made_and_trained_on(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:100_000], encoding="utf-8")
    row = run("large_table.py", text, "--rows", "5000", "--vocab-size", "600").splitlines()[-1]
    assert row.startswith("| 5,000 | ")
    assert 4 < float(row.split("|")[2]) < 20


def test_large_tables_are_merged(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:100_000], encoding="utf-8")
    output = run("merge_tables.py", text, "--tables", "3", "--rows", "5000", "--max-memory", "512M,1G")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in output.splitlines()[-2:]]
    assert [row[4] for row in rows] == ["512M", "1G"]
    for row in rows:
        assert row[0] == "3 of 5,000 rows"
        assert 1000 + 3 * 3000 < int(row[2].replace(",", "")) < 1000 + 3 * 4000


def test_a_cluster_is_simulated(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:100_000], encoding="utf-8")
    output = run("simulate_parts.py", text, "--parts", "60", "--kills", "1", "--files", "40", "--seed", "3")
    found = dict(re.findall(r"^\| (.+?) \| (.+?) \|$", output, re.MULTILINE))
    for wrong in ("another corpus", "another pre-tokenizer", "cut off", "doubled", "later version"):
        assert found[f"refused: {wrong}"] == "1"
    assert found["missing, and named"] == "2"
    assert found["the same after 1 kills"] == "the bytes of one run, nothing left over"


def test_growth_by_a_law_goes_on_by_it(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    growth = importlib.import_module("growth")
    sizes = [round(1e7 * 10 ** (step / growth.STEPS)) for step in range(growth.DECADES * growth.STEPS + 1)]

    def curve(exponent):
        """It is given for the common logarithm of a size, over that of the first."""
        logs = [(exponent(x / growth.STEPS), x / growth.STEPS) for x in range(len(sizes))]
        return growth.Curve(sizes, [round(10 ** (4 + value)) for value, _ in logs])

    steady = curve(lambda x: 0.6 * x)
    assert [round(steady.fit(decade).exponent, 3) for decade in range(3)] == [0.6] * 3
    assert steady.fit(0).error < 1e-3
    assert steady.foretold() == pytest.approx(1, rel=1e-3)
    for guess in (steady.least, steady.most):
        assert guess(1e13) == pytest.approx(10 ** (4 + 0.6 * 6), rel=0.02)

    ratio = 0.8  # of the exponent, from each tenfold to the next
    falling = curve(lambda x: 0.7 * (ratio**x - 1) / math.log(ratio))
    exponents = [falling.fit(decade).exponent for decade in (2, 1, 0)]
    assert exponents == sorted(exponents, reverse=True)
    assert falling.foretold() > 1.1
    truth = 10 ** (4 + 0.7 * (ratio**6 - 1) / math.log(ratio))
    assert falling.least(1e13) == pytest.approx(truth, rel=0.02)
    assert falling.most(1e13) > 2 * truth


def test_what_terabytes_take_is_measured(english_text, tmp_path):
    text, found, page = (tmp_path / name for name in ("text.txt", "found.json", "page.md"))
    text.write_text(english_text[:400_000], encoding="utf-8")
    page.write_text("Before\n<!-- terabytes.py -->\nold tables\n<!-- end -->\nAfter\n")
    options = ["--json", found, "--docs", page, "--rows", "16000", "--vocab-size", "600"]
    output = run("terabytes.py", f"one={text}", f"two={text}", *options)
    assert page.read_text() == f"Before\n<!-- terabytes.py -->\n\n{output}\n<!-- end -->\nAfter\n"
    measured = json.loads(found.read_text())
    assert [*measured["curves"]] == ["one", "two", "all of it"]
    assert all(value > 0 for value in measured.values() if isinstance(value, float))
    assert run("terabytes.py", *options) == output  # from the measurements


def test_the_page_on_scale_follows_from_what_was_measured():
    page = FOLDER.parent / "docs" / "scale.md"
    output = run("terabytes.py", "--json", FOLDER / "terabytes.json")
    _, begin, rest = page.read_text(encoding="utf-8").partition("<!-- terabytes.py -->\n\n")
    tables, end, _ = rest.partition("\n<!-- end -->\n")
    assert begin
    assert end
    assert tables == output


def test_the_start_is_measured(tmp_path):
    toys.tokenizer().save_pretrained(tmp_path)
    output = run("start.py", tmp_path, "--rounds", "2")
    names = ("import", "module of Encoder", "load", "all", "`BatchEncoding`", "ours")
    assert all(f"\n| {name} | " in output for name in names)


def test_encoders_are_compared(english_text, tmp_path):
    text, page, runs = (tmp_path / name for name in ("text.txt", "page.md", "runs.json"))
    text.write_text(english_text[:100_000], encoding="utf-8")
    page.write_text("Before\n<!-- encode.py -->\nold tables\n<!-- end -->\nAfter\n")
    ours = ["hf_scaffold, arrays", "hf_scaffold, Rust path"]
    plain = ["hf_scaffold, scaffold=False", "tokenizers"]
    options = ["--vocab-size", "600", "--pre-tokenizer", "gpt4o", "--documents", "1000", "--limit-mb", "0.05"]
    options += ["--threads", "2", "--rounds", "1", "--slow-rounds", "1", "--tasks", "encode"]
    options += ["--docs", page, "--json", runs]
    output = run(
        "encode.py", text, *options, "--peers", ";".join([*ours, *plain, "a peer that is not there"])
    )

    assert "a peer that is not there is not installed and left out" in output
    assert f"ids from {'; '.join(ours)}." in output
    assert f"ids from {'; '.join(plain)}." in output
    assert "OTHER" not in output
    assert page.read_text() == f"Before\n<!-- encode.py -->\n\n{output}<!-- end -->\nAfter\n"
    found = json.loads(runs.read_text())["runs"]
    assert [run["peer"] for run in found] == [*ours, *plain]
    for one in found:
        assert one["n_bytes"] == 50_000
        assert min(one["cold_s"], *one["warm_s"], one["peak_mb"], one["n_ids"]) > 0


def test_encoders_are_compared_on_text_seen_once(english_text, tmp_path):
    text, runs = tmp_path / "text.txt", tmp_path / "runs.json"
    text.write_text(english_text[:100_000], encoding="utf-8")
    kinds = ["numbers", "logs", "base64", "tables"]  # the others are downloaded
    options = ["--kinds", ";".join(kinds), "--limit-mb", "0.03", "--rounds", "1", "--vocab-size", "600"]
    output = run("fresh.py", text, *options, "--cache", tmp_path / "cache", "--json", runs)
    assert [*map(output.count, ("One pass", "The first call", "A second pass"))] == [2, 2, 2]
    assert "All ids agree." in output
    found = json.loads(runs.read_text())["runs"]
    assert {(run["form"], run["kind"]) for run in found} == {
        (f, k) for f in ("arrays", "lists") for k in kinds
    }
    assert {run["peer"] for run in found} >= {"hf_scaffold", "tokenizers"}
    for one in found:
        assert sum(one["n_bytes"]) >= 60_000
        assert min(one["seconds"]) > 0


def test_pipelines_are_compared_with_the_stock_class(english_text, tmp_path):
    text, runs = tmp_path / "text.txt", tmp_path / "runs.json"
    text.write_text(english_text[:150_000], encoding="utf-8")
    options = [
        "--pipelines",
        "Gemma;;Gemma; trained on words;;Falcon",
        "--kinds",
        text,
        "--vocab-size",
        "600",
    ]
    options += ["--limit-mb", "0.08", "--rounds", "1", "--cache", tmp_path / "cache", "--json", runs]
    output = run("published_pipelines.py", text, *options)
    names = [line.split(" | ")[0] for line in output.splitlines()[4:]]
    assert names == ["| Gemma", "| Gemma; trained on words", "| Falcon (general path)"]
    found = json.loads(runs.read_text())["runs"]
    assert [(one["name"], one["peer"]) for one in found[:2]] == [
        ("Gemma", "hf_scaffold"),
        ("Gemma", "transformers"),
    ]
    assert len(found) == 6
    assert all(one["first"] > 0 and one["later"] > 0 for one in found)


def test_documents_are_whole_characters_and_not_the_same_twice(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    texts = importlib.import_module("fresh_texts")
    kind = texts.Kind("made up", lambda folder: (f"{i} 語é🙂" * 7 for i in range(1000)))
    found = texts.documents(kind, 100, 5000, tmp_path)
    assert "".join(found) == "".join(kind.pieces(tmp_path))[: len("".join(found))]
    assert all(97 <= len(document.encode()) <= 100 for document in found)
    assert 5000 <= sum(len(document.encode()) for document in found) < 5100
    for kind in (texts.table_of_numbers, texts.log, texts.encoded_bytes, texts.aligned_table):
        made = [texts.documents(kind, 500, 20_000, tmp_path) for _ in range(2)]
        assert made[0] == made[1]
        assert len({*made[0]}) == len(made[0]) == 40


@pytest.mark.parametrize(
    ("peer", "finding", "verdict"),
    [
        ("gigatoken, lists", {"digest": "other"}, "OTHER ids, 7, from gigatoken, lists"),
        ("gigatoken, lists", {"is_exact": False}, "gigatoken, lists: decoding gives OTHER texts"),
        ("tiktoken", {"digest": "other"}, None),
    ],
)
def test_other_ids_and_texts_fail(encode, monkeypatch, tmp_path, capsys, peer, finding, verdict):
    def measure(script, spec, env=None):
        right = {"warm_s": [1.0], "warm_cpu_s": [1.0], "cold_s": 1.0, "load_s": 1.0, "peak_mb": 1.0}
        right |= {"added_mb": 1.0, "n_bytes": 30, "n_ids": 7, "digest": "same", "is_exact": True}
        return {**spec, **right, **(finding if spec.get("peer") == peer else {})}

    monkeypatch.setattr(encode, "measure", measure)
    peers = ["transformers", "tokenizers", peer]
    monkeypatch.setattr(encode, "available", peers.__contains__)
    monkeypatch.setattr(encode, "versions", lambda peers: {})
    arguments = {"text": [str(tmp_path)], "tasks": "encode", "documents": "10", "peers": ";".join(peers)}
    if verdict is None:
        encode.main(**arguments)
        assert "OTHER ids, 7, from tiktoken, which loads no merges." in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit):
            encode.main(**arguments)
        assert verdict in capsys.readouterr().out


def test_documents_are_cut_between_characters(encode, tmp_path):
    path = tmp_path / "text.txt"
    text = "aé€😀\r\n" * 100
    path.write_bytes(text.encode())
    documents = list(encode.cut(path, 7, limit_mb=1))
    assert "".join(documents) == text
    assert all(len(document.encode()) <= 7 + 3 for document in documents)
    assert len("".join(encode.cut(path, 7, limit_mb=0.0005)).encode()) in range(500 - 3, 500 + 7)


def test_a_page_without_a_place_for_tables_is_refused_at_once(encode, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- encode.py -->\nno end\n")
    with pytest.raises(SystemExit, match=r"page\.md has no lines <!-- encode\.py --> and <!-- end -->"):
        encode.main(text=[str(tmp_path)], docs=page)
    assert page.read_text() == "<!-- encode.py -->\nno end\n"


def test_shards_are_compared_with_arrays(english_text, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(english_text[:50_000], encoding="utf-8")
    toys.tokenizer().save_pretrained(tmp_path / "tokenizer")
    output = run("shards.py", text, "--tokenizer", tmp_path / "tokenizer", "--rounds", "1")
    rows = [line.split(" | ") for line in output.splitlines()[2:]]
    assert [row[0] for row in rows] == ["| plain text", "| lines", "| JSON Lines", "| Parquet"]
    assert all(float(row[2]) > 0 for row in rows)  # so small a text is hardly worth starting shards


def test_ways_to_new_tokens_are_compared(english_text, tmp_path):
    old, new = tmp_path / "novel.txt", tmp_path / "code.txt"
    old.write_text(english_text[:200_000], encoding="utf-8")
    new.write_text(Path(json.decoder.__file__).read_text() + Path(argparse.__file__).read_text())
    output = run("extending.py", old, new, "--vocab-size", "600", "--larger", "800")
    rows = {cells[0]: cells[1:] for cells in (row[2:-2].split(" | ") for row in output.splitlines()[2:])}
    assert {cells[0] for cells in rows.values()} == {"600", "800"}
    reachable = {name: cells[1] for name, cells in rows.items()}
    assert reachable["`hs.extend`"] == reachable["BPE continued: `scaffold=False`"] == "100.00%"
    assert reachable["another tokenizer's tokens appended"] < "99"
    of_code = {name: float(cells[3]) for name, cells in rows.items()}
    assert (
        of_code["the old tokenizer"] < of_code["another tokenizer's tokens appended"] < of_code["`hs.extend`"]
    )


def test_leaves_are_pruned_from_the_rarest_on(english_text, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    extending = importlib.import_module("extending")
    old = extending.plain(hs.count([english_text[:50_000]], pre_tokenizer="gpt2"), 400)
    counts = hs.count([Path(argparse.__file__).read_text()], pre_tokenizer="gpt2")
    pruned, larger = extending.leaf_pruned(old, counts, 430), hs.extend(old, counts, 460, scaffold=False)
    vocab, merges = larger.get_vocab(), [(left, right) for left, right in larger.scaffold["merges"]]
    for _ in range(30):  # everything is encoded anew before each goes
        one = extending.with_model(old, {token: i for i, token in enumerate(vocab)}, merges)
        evaluation = hs.evaluate(one, counts)
        parts = {part for pair in merges for part in pair}
        leaves = [token for token in vocab if token not in parts and token not in old.get_vocab()]
        gone = min(leaves, key=lambda token: (evaluation.frequency(token), token))
        del vocab[gone]
        merges = [pair for pair in merges if "".join(pair) != gone]
    assert pruned.convert_ids_to_tokens(range(430)) == sorted(vocab, key=vocab.__getitem__)
