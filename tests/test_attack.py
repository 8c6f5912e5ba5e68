"""Short runs of the attacks in tests/attack, which `make attack` goes on with; and that they notice."""

import mmap
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attack import folders, forks, seeds, texts, threads

HERE = Path(__file__).parent
PAGES = [HERE.parent / "SECURITY.md", HERE.parent / "docs" / "security.md"]
LIMITS = forks.Limits(seconds=1, memory=256 << 20)


def attack(part, *options):
    """What an attack prints; it must find nothing. It takes some ten seconds, of ten minutes."""
    command = [sys.executable, "-m", f"attack.{part}", "--seed", "0", *options]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, errors="replace", timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    return done.stdout


def test_mutated_folders_are_read_or_refused():
    output = attack("folders", "--n", "600")
    verdicts = re.findall(r"^ *\d+  (.+?) *$", output, re.MULTILINE)
    assert {"right", "refused"} <= {*verdicts}


def test_hard_texts_cost_what_ordinary_ones_do():
    attack("texts", "--part", "0.02", "--n", "20000")


def test_threads_get_what_some_state_gives():
    output = attack("threads", "--n", "30000")
    assert "'changes'" in output
    assert "'saves'" in output


# ---- they notice


def outcome_of(work):
    [outcome] = forks.run([None], lambda _: work(), lambda _: LIMITS)
    return outcome


def spin():
    while True:
        pass


def touch(n_bytes):
    """Take new memory: an object's may be such as this process had before, and gave back to malloc alone."""
    with mmap.mmap(-1, n_bytes) as memory:
        memory[:: mmap.PAGESIZE] = bytes(n_bytes // mmap.PAGESIZE)


def test_a_child_that_dies_is_noticed():
    assert outcome_of(lambda: "done").value == "done"
    assert outcome_of(os.abort).death == "SIGABRT"
    assert outcome_of(spin).death == "too much time"
    assert outcome_of(lambda: bytes(1 << 30) and 1).death == "exit code 3"
    assert "MemoryError" in outcome_of(lambda: bytes(1 << 30) and 1).errors
    assert outcome_of(lambda: touch(1 << 27)).peak >= 1 << 26


def test_a_death_stops_no_other_job():
    jobs = [1, 2, 3, 4, 5]
    outcomes = list(forks.run(jobs, lambda job: os.abort() if job == 3 else job, lambda _: LIMITS, batch=4))
    assert [outcome.value for outcome in outcomes] == [1, 2, None, 4, 5]
    assert outcomes[2].death == "SIGABRT"


def test_a_child_that_waits_for_ever_is_noticed(monkeypatch):
    monkeypatch.setattr(forks, "WALL_SECONDS", 0.5)
    assert outcome_of(lambda: time.sleep(3600)).death == "hangs"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTACK_MARKER", str(tmp_path / "marker"))
    (tmp_path / "canary").touch()
    seeds.byte_level(tmp_path / "seed")
    return tmp_path / "seed"


def break_calls(monkeypatch, broken):
    """Let calls of the native encoder go through this."""
    from hf_scaffold import native

    encode_plus = native.encode_plus
    monkeypatch.setattr(native, "encode_plus", lambda *args, **kwargs: broken(encode_plus(*args, **kwargs)))


def one_id_off(encoded):
    rows = encoded["input_ids"]
    encoded["input_ids"] = [[*row[:-1], 7] if isinstance(row, list) and row else row for row in rows]
    return encoded


@pytest.mark.parametrize(("broken", "what"), [(one_id_off, "paths differ"), (lambda _: {}["x"], "KeyError")])
def test_a_wrong_call_is_noticed(folder, monkeypatch, broken, what):
    assert folders.examine(folder, "byte-level") == "right"
    break_calls(monkeypatch, broken)
    with pytest.raises(folders.Finding, match=what):
        folders.examine(folder, "byte-level")


def test_code_that_runs_and_files_that_go_are_noticed(folder, monkeypatch):
    monkeypatch.setattr(folders, "use_tokenizer", lambda folder: (folder.parent / "marker").touch())
    with pytest.raises(folders.Finding, match="code was run"):
        folders.examine(folder, "byte-level")
    monkeypatch.setattr(folders, "use_tokenizer", lambda folder: (folder.parent / "canary").unlink())
    with pytest.raises(folders.Finding, match="is gone"):
        folders.examine(folder, "byte-level")


def test_a_slow_text_is_noticed(monkeypatch):
    def slow(text):
        while text[:2] == "ab":
            pass

    monkeypatch.setattr(texts, "operations", lambda: iter([("slow", 1000, slow)]))
    monkeypatch.setattr(texts, "TEXTS", {"a": lambda n: "a" * n, "ab": lambda n: "ab" * n})
    [finding] = texts.check_costs()
    assert finding.startswith("slow, ab, 1000 characters: too much time")


def test_a_wrong_id_is_noticed(monkeypatch):
    assert texts.check_round("0.0", 200) == ""
    monkeypatch.setattr(texts.SlowTokenizer, "encode", lambda self, text: [-1])
    assert "oracle" in texts.check_round("0.0", 200)


def test_a_thread_that_gets_something_else_is_noticed(monkeypatch, tmp_path):
    results = {name: set() for name in threads.CALLS}
    traffic = threads.Traffic(threads.new_tokenizer(), results, 20, tmp_path)
    traffic.run("0")
    assert traffic.findings


# ---- what docs/security.md promises beside


def test_code_beside_a_tokenizer_is_not_run(folder):
    (folder / "tokenization_scaffold.py").write_text(seeds.HOSTILE_CODE)
    assert folders.examine(folder, "byte-level") == "right"  # it looks for what that code writes


LOAD = """
import sys
forbidden = (
    *("pickle.find_class", "marshal.load", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"),
    *("socket.connect", "socket.getaddrinfo", "ctypes.dlopen"),
)
from pathlib import Path
from transformers import AutoTokenizer
import hf_scaffold as hs, hf_scaffold.native.calls, pyarrow.parquet
AutoTokenizer.from_pretrained(sys.argv[1] + "/byte-level")("a")  # what is imported late is there from now on
seen = []
sys.addaudithook(lambda event, args: seen.append(event) if event in forbidden else None)
for folder in sorted(Path(sys.argv[1]).iterdir()):
    if (folder / "tokenizer.json").exists():
        tok = AutoTokenizer.from_pretrained(str(folder))
        tok.decode(tok("Arizona")["input_ids"])
    elif (folder / "vocab.json").exists():
        hs.ScaffoldBPE.load(folder).encode([b"Arizona"])
    elif (folder / "index.json").exists():
        hs.ShardIndex.load(folder)
    elif folder.is_dir():
        hs.PreTokenCounts.load(folder / "counts.parquet").total
print(seen)
"""


def test_loading_runs_no_program_no_pickle_and_asks_no_one(tmp_path):
    for name in seeds.make_seeds(tmp_path / "seeds"):
        (tmp_path / "seeds" / name / "tokenization_scaffold.py").write_text(seeds.HOSTILE_CODE)
    command = [sys.executable, "-c", LOAD, str(tmp_path / "seeds")]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "ATTACK_MARKER": str(tmp_path / "marker")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
    assert not (tmp_path / "marker").exists()


def test_chat_templates_run_only_when_asked_for_and_in_a_sandbox(folder):
    from jinja2.exceptions import SecurityError
    from transformers import AutoTokenizer

    template = "{{ messages.append.__globals__ }}{{ ''.__class__.__mro__[1].__subclasses__() }}"
    (folder / "chat_template.jinja").write_text(template)
    tok = AutoTokenizer.from_pretrained(str(folder))
    assert tok.decode(tok("hug")["input_ids"], skip_special_tokens=True) == "hug"
    with pytest.raises(SecurityError):
        tok.apply_chat_template([{"role": "user", "content": "hug"}], tokenize=False)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_each_promise_names_tests_that_exist(page):
    text = page.read_text(encoding="utf-8")
    promises = re.findall(r"^- .*(?:\n  .*)*", text, re.MULTILINE) if page.name == "security.md" else []
    named = re.findall(r"`((?:\w+/)?test_\w+\.py)::(test_\w+)`", text)
    assert all(re.search(r"`(?:\w+/)?test_\w+\.py::test_\w+`", promise) for promise in promises)
    for file, test in named:
        assert f"\ndef {test}(" in (HERE / file).read_text(encoding="utf-8"), f"{file}::{test}"
    assert named or page.name == "SECURITY.md"


def test_the_table_of_costs_is_of_the_script(monkeypatch):
    monkeypatch.syspath_prepend(HERE.parent / "benchmarks")
    import costs

    page = PAGES[1].read_text(encoding="utf-8")
    table = page.split(costs.MARKS[0])[1].split(costs.MARKS[1])[0]
    assert all(f"| {name} |" in table for name, _, _ in texts.operations())
