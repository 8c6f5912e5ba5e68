"""experiments/lm.py trains what it is asked for, repeats itself and goes on where it was cut off."""

import importlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "experiments"
OPTIONS = ["--size", "toy", "--vocab-size", "600", "--megabytes", "0.05", "--save-every", "0"]


@pytest.fixture(scope="module")
def text(english_text, tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "novel.txt"
    path.write_text(english_text[:400_000], encoding="utf-8")
    return path


@pytest.fixture
def module(monkeypatch):
    """A script of the folder, as a module."""
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


def command(text, folder, *more):
    options = [*OPTIONS, "--folder", folder / "large", "--log", folder / "lm.jsonl", *more]
    return [sys.executable, str(FOLDER / "lm.py"), str(text), *map(str, options)]


def run(text, folder, *more):
    subprocess.run(command(text, folder, *more), check=True, capture_output=True)
    return logged(folder)


def logged(folder):
    return [json.loads(line) for line in (folder / "lm.jsonl").read_text().splitlines()]


def without_time(runs):
    return [{name: value for name, value in each.items() if name != "seconds"} for each in runs]


@pytest.fixture(scope="module")
def ran(text, tmp_path_factory):
    """A folder in which two seeds of both methods have run."""
    folder = tmp_path_factory.mktemp("experiment")
    run(text, folder, "--seeds", "2")
    return folder


def test_what_was_asked_for_is_in_the_log(ran):
    runs = logged(ran)
    asked = [(r["asked"]["seed"], r["asked"]["method"], r["asked"]["budget"]) for r in runs]
    each_seed = [("bpe", "bytes"), ("scaffold", "bytes"), ("scaffold", "tokens")]
    assert asked == [(seed, *rest) for seed in range(2) for rest in each_seed]
    for plain, _, equal in (runs[:3], runs[3:]):
        assert equal["n_tokens"] == plain["n_tokens"]
    assert all(r["losses"][-1] < r["losses"][0] for r in runs)


def test_classes_of_pretokens_are_the_same_for_all_and_make_up_the_whole(ran):
    runs = logged(ran)
    for part in ("same", "other"):
        found = [r["held_out"][part] for r in runs]
        sizes = {tuple(c["n_bytes"] for c in each["classes"].values()) for each in found}
        assert len(sizes) == 1
        assert min(*sizes) > 0
        for each in found:
            bits = sum(c["bits_per_byte"] * c["n_bytes"] for c in each["classes"].values())
            assert bits == pytest.approx(each["bits_per_byte"] * each["n_bytes"])


def test_held_out_text_is_counted_once(text, module, tmp_path):
    lm = module("lm")
    parts = lm.parts_of(text)
    lm.prepare(text, [600], ["bpe"], 4_000, tmp_path)
    tokenizer = lm.AutoTokenizer.from_pretrained(tmp_path / "600-bpe")
    model = lm.LlamaForCausalLM(lm.SIZES["toy"].config(600, tokenizer.eos_token_id)).eval()
    held_out = lm.sample(parts["same"], 4_000)
    assert sum(len(document.encode()) for document in held_out) >= 4_000
    ids = [tokenizer.eos_token_id]
    for document in held_out:
        ids += [*tokenizer(document, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    nats = 0.0
    for begin in range(0, len(ids) - 1, lm.WINDOW):
        window = lm.torch.tensor(ids[begin : begin + lm.WINDOW + 1])
        logits = model(input_ids=window[None, :-1]).logits[0].log_softmax(-1)
        written = window[1:] != tokenizer.eos_token_id
        nats -= logits.gather(1, window[1:, None])[:, 0][written].sum().item()
    lengths = np.array([len(token) for token in tokenizer.convert_ids_to_tokens(range(600))])
    seen = lm.Text(tmp_path / "600-bpe", "same", tokenizer.eos_token_id)
    found = lm.bits_per_byte(model, seen, lengths, np.load(tmp_path / "600-same.npy"), 2, "cpu")
    expected = nats / np.log(2) / len("".join(held_out).encode())
    assert found["bits_per_byte"] == pytest.approx(expected, rel=1e-5)


def test_a_pretoken_is_demolished_where_scaffold_bpe_takes_a_token_apart(module):
    lm = module("lm")
    counts = {"Arizona": 50, "zone": 3, "Ari": 4, "zon": 2, "banana": 20, "aaaa": 7}
    counts |= {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
    table = lm.hs.PreTokenCounts.from_mapping(counts)
    plain, scaffold = (lm.hs.train(table, 268, method=method) for method in ("bpe", "scaffold"))
    codes = lm.classes_of(["zona", "hug", "Arizona"], plain, scaffold)
    names = [lm.CLASSES[code] for code in codes]
    assert names == ["demolished"] * 4 + ["replaced"] * 3 + ["kept"] * 7


def test_documents_are_the_same_for_all_until_the_bytes_are_reached(module):
    lm = module("lm")
    lengths = np.array([10, 20, 30, 40])
    order = lm.order_of(lengths, 250, seed=1)
    assert lengths[order].sum() >= 250 > lengths[order[:-1]].sum()
    assert sorted(order[:4]) == [0, 1, 2, 3] == sorted(order[4:8])
    assert list(order) != list(lm.order_of(lengths, 250, seed=2))


def test_a_run_repeats_itself_to_the_digit_whatever_runs_beside_it(ran, text, tmp_path):
    again = run(text, tmp_path, "--seeds", "2", "--jobs", "2")
    by_key = [sorted(without_time(runs), key=lambda r: str(r["asked"])) for runs in (again, logged(ran))]
    assert by_key[0] == by_key[1]


def test_what_was_killed_goes_on_from_its_checkpoint(ran, text, tmp_path):
    process = subprocess.Popen(command(text, tmp_path, "--seeds", "1"), stderr=subprocess.DEVNULL)
    while not list(tmp_path.glob("large/*/checkpoints/*.pt")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    log = tmp_path / "lm.jsonl"
    with log.open("a") as stream:
        stream.write('{"asked": {"corp')  # a line that was cut off
    assert without_time(run(text, tmp_path, "--seeds", "1")) == without_time(logged(ran)[:3])
    assert not list(tmp_path.glob("*.part"))


def test_time_is_up_at_once_and_no_run_is_done_twice(ran, text, tmp_path):
    assert subprocess.run(command(text, tmp_path, "--minutes", "0"), capture_output=True).returncode == 0
    assert not (tmp_path / "lm.jsonl").exists()
    before = (ran / "lm.jsonl").read_bytes()
    run(text, ran, "--seeds", "2")
    assert (ran / "lm.jsonl").read_bytes() == before


@pytest.mark.parametrize(("size", "n_parameters"), [("1m", 1e6), ("10m", 10e6), ("30m", 30e6)])
def test_models_have_the_size_that_they_are_called_by(size, n_parameters, module):
    lm = module("lm")
    with lm.torch.device("meta"):
        model = lm.LlamaForCausalLM(lm.SIZES[size].config(8_000, 0))
    found = sum(parameter.numel() for parameter in model.model.layers.parameters())
    assert found == pytest.approx(n_parameters, rel=0.1)


def test_figures_of_embeddings_are_their_definitions(module):
    embeddings = module("embeddings")
    rows = np.random.default_rng(0).normal(size=(40, 5))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    pairs = [np.exp(-2 * ((u - v) ** 2).sum()) for i, u in enumerate(unit) for v in unit[:i]]
    assert embeddings.uniformity(rows) == pytest.approx(np.log(np.mean(pairs)))
    assert embeddings.explained(rows, rows @ np.arange(5) + 3) == pytest.approx(1)
    assert embeddings.explained(rows, np.random.default_rng(1).normal(size=40)) < 0.3
    frequencies = np.exp(np.linalg.norm(rows, axis=1))
    assert embeddings.measured(rows, frequencies)["norm_by_frequency"] == pytest.approx(1)


def test_tables_have_what_the_logs_have(ran, module, tmp_path):
    tables = module("tables")
    page, figure = tmp_path / "page.md", tmp_path / "figure.svg"
    page.write_text("Before.\n<!-- tables.py -->\n<!-- end -->\nAfter.\n")
    tables.main([ran / "lm.jsonl"], page, figure)
    runs = {tuple(r["asked"][name] for name in ("seed", "method", "budget")): r for r in logged(ran)}
    apart = [
        runs[seed, "scaffold", "bytes"]["held_out"]["same"]["bits_per_byte"]
        - runs[seed, "bpe", "bytes"]["held_out"]["same"]["bits_per_byte"]
        for seed in range(2)
    ]
    half = 12.7062 * np.std(apart, ddof=1) / np.sqrt(2)  # Student's t of one degree of freedom
    mark = " *" if abs(np.mean(apart)) > half else ""
    assert f"| {np.mean(apart):+.4f} ± {half:.4f}{mark} |" in page.read_text()
    assert page.read_text().startswith("Before.\n<!-- tables.py -->\n\n### Language models")
    drawn = figure.read_bytes()
    assert drawn.startswith(b"<?xml")
    tables.draw(tables.read([ran / "lm.jsonl"]), figure)
    assert figure.read_bytes() == drawn


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_jobs_end_with_the_process_that_began_them(number, text, tmp_path):
    started = command(text, tmp_path, "--jobs", "2", "--megabytes", "50")
    process = subprocess.Popen(started, stderr=subprocess.PIPE)
    while not list(tmp_path.glob("large/*/checkpoints/*.pt")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    process.communicate(timeout=60)  # the jobs hold the other end of the pipe
    assert process.returncode != 0
    assert not (tmp_path / "lm.jsonl").exists()


def test_the_page_has_the_tables_of_the_logs_that_are_kept(module):
    tables = module("tables")
    page = (FOLDER.parent / "docs" / "models.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("<!-- tables.py -->\n")
    shown, _, _ = rest.partition("<!-- end -->\n")
    assert shown.strip() == "\n".join(tables.tables(tables.read(sorted(FOLDER.glob("logs/*.jsonl"))))).strip()
