"""Several files are saved all of them or none."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import toys

import hf_scaffold as hs
from hf_scaffold import tokenization_scaffold
from hf_scaffold._utils import files
from hf_scaffold.cli import workflow
from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

OLD = {"a.json": "old a", "b.json": "old b", "sub/c.txt": "same", "stale.jinja": "of the old one"}
NEW = {"a.json": "new a", "b.json": "new b", "sub/c.txt": "same", "d.py": "code"}
NAMES = ("a.json", "b.json", "sub/c.txt", "stale.jinja", "d.py")
STALE = ("*.jinja",)
# Every call by which a save may fail or be cut off.
CALLS = ("open", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "makedirs", "close")


def content(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in Path(folder).rglob("*")
        if path.is_file()
    }


def save(folder, contents, stale=STALE):
    with files.saving(str(folder), stale) as staging:
        for name, text in contents.items():
            Path(staging, name).parent.mkdir(exist_ok=True)
            Path(staging, name).write_text(text, encoding="utf-8")


def load(folder):
    return files.read_unmixed(
        str(folder), NAMES, lambda: {n: t for n, t in content(folder).items() if n in NAMES}
    )


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    save(folder, OLD)
    (folder / "README.md").write_text("another's")
    return folder


def save_old_again(folder):
    save(folder, OLD)
    (folder / "d.py").unlink(missing_ok=True)


def failing(monkeypatch, at, failure):
    """Let the call of this number fail; returns the list of those that were made."""
    made = []

    def wrap(name):
        call = getattr(os, name)

        def wrapped(*args, **kwargs):
            made.append(name)
            if len(made) == at:
                failure()
            return call(*args, **kwargs)

        return wrapped

    for name in CALLS:
        monkeypatch.setattr(os, name, wrap(name))
    return made


def named_by(folder, save):
    """The path in the error of a save into a folder; the folder's where there is no error."""
    try:
        save()
    except OSError as error:
        return error.filename
    except KeyboardInterrupt:
        pass
    return str(folder)


def raising(number):
    def fail():
        raise OSError(number, os.strerror(number))

    return fail


def interrupt():
    raise KeyboardInterrupt


def test_files_are_replaced_together(folder):
    unchanged = os.stat(folder / "sub" / "c.txt")
    save(folder, NEW)
    assert content(folder) == {**NEW, "README.md": "another's"}
    assert os.stat(folder / "sub" / "c.txt") == unchanged
    save(folder, OLD)
    assert content(folder) == {**OLD, "README.md": "another's"} | {"d.py": "code"}


@pytest.mark.parametrize(
    "failure",
    [raising(errno.ENOSPC), raising(errno.EIO), interrupt],
    ids=["full", "broken", "Ctrl-C"],
)
def test_whichever_call_fails_all_files_are_old_or_new(failure, folder, monkeypatch):
    outcomes, at, n_calls = set(), 0, 0
    while at <= n_calls:
        at += 1
        save_old_again(folder)
        with monkeypatch.context() as patched:
            made = failing(patched, at, failure)
            named = named_by(folder, lambda: save(folder, NEW))
            n_calls = len(made)
        assert named.startswith(str(folder))
        assert ".saving" not in named
        found = load(folder)
        assert found in (OLD, NEW), (at, made[at - 1])
        outcomes.add(found == NEW)
        assert content(folder)["README.md"] == "another's"
    assert outcomes == {True, False}
    assert n_calls > 20
    save(folder, NEW)
    assert content(folder) == {**NEW, "README.md": "another's"}


def test_wherever_ctrl_c_falls_nothing_is_left_over(folder, monkeypatch):
    """Python raises it as a function begins and when one that is written in C is back."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # this many take seconds
    outcomes, at, n_moments = set(), 0, 0
    while at <= n_moments:
        at += 1
        save_old_again(folder)
        n_moments = 0

        def count(frame, event, argument, at=at):
            nonlocal n_moments
            if event in ("call", "c_return"):
                n_moments += 1
                if n_moments == at:
                    raise KeyboardInterrupt

        try:
            sys.setprofile(count)
            save(folder, NEW)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        found = content(folder)
        outcomes.add("d.py" in found)
        assert found in [{**each, "README.md": "another's"} for each in (OLD, NEW)], at
        assert not [name for name in os.listdir(folder) if name.startswith(".")], at
    assert outcomes == {True, False}
    assert at > 100


def test_wherever_it_is_killed_all_files_are_old_or_new(folder, monkeypatch):
    outcomes, at, code = set(), 0, -signal.SIGKILL
    while code:
        at += 1
        save_old_again(folder)
        child = os.fork()
        if not child:
            failing(monkeypatch, at, lambda: os.kill(os.getpid(), signal.SIGKILL))
            save(folder, NEW)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL)
        found = load(folder)
        assert found in (OLD, NEW), at
        outcomes.add(found == NEW)
        assert not [name for name in os.listdir(folder) if name.startswith(".saved-")]
        save(folder, found)
        assert content(folder) == {**found, "README.md": "another's"}
    assert outcomes == {True, False}
    assert at > 20


def test_what_is_committed_is_on_the_disk(folder, monkeypatch):
    """A rename may survive a power failure that the renamed file's bytes don't."""
    synced, committed = set(), []
    plain = {name: getattr(os, name) for name in ("fsync", "rename")}

    def fsync(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        plain["fsync"](descriptor)

    def rename(old, new):
        if ".saved-" in new:
            below = [Path(old), *Path(old).rglob("*")]
            committed.extend(path.name for path in below if path.is_file())
            assert [path for path in below if path.stat().st_ino not in synced] == []
        plain["rename"](old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    save(folder, NEW)
    assert sorted(committed) == [".removed", "a.json", "b.json", "d.py"]


def test_a_first_save_that_fails_leaves_no_folder(tmp_path, monkeypatch):
    outcomes, at, n_calls = set(), 0, 0
    while at <= n_calls:
        at += 1
        with monkeypatch.context() as patched:
            made = failing(patched, at, raising(errno.EDQUOT))
            with suppress(OSError):
                save(tmp_path / "new" / "folder", NEW)
            n_calls = len(made)
        found = {} if not (tmp_path / "new").exists() else load(tmp_path / "new" / "folder")
        if at <= n_calls and made[at - 1] not in ("rmdir", "close", "unlink"):
            assert found in ({}, NEW)
            assert found or not (tmp_path / "new").exists(), (at, made[at - 1])
        outcomes.add(bool(found))
        shutil.rmtree(tmp_path / "new", ignore_errors=True)
    assert outcomes == {True, False}


# ---- more than one at a time


@contextmanager
def stopped_while_writing(folder):
    """Another process that has half of NEW written; it ends when the block does."""
    code = f"""
import sys, time
from hf_scaffold._utils import files
with files.saving({str(folder)!r}) as staging:
    open(staging + "/a.json", "w").write("half of")
    print("writing", flush=True)
    sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-I", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "writing\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()


def test_a_save_waits_for_another_and_a_load_does_not(folder):
    with stopped_while_writing(folder) as other:
        assert load(folder) == OLD  # at once
        saved = threading.Thread(target=save, args=(folder, NEW))
        saved.start()
        saved.join(0.3)
        assert saved.is_alive()
        assert len([name for name in os.listdir(folder) if name.startswith(".saving-")]) == 1  # the other's
        other.stdin.close()
        saved.join(60)
        assert not saved.is_alive()
        assert other.wait(60) == 0
    assert content(folder) == {**NEW, "README.md": "another's"}


def test_what_a_killed_process_left_goes(folder):
    with stopped_while_writing(folder) as other:
        other.kill()
        other.wait()
        assert {name for name in content(folder) if name.startswith(".saving")}
    assert load(folder) == OLD
    save(folder, NEW)
    assert content(folder) == {**NEW, "README.md": "another's"}


def test_what_changes_while_it_is_read_is_read_again(folder):
    contents = [NEW, OLD]

    def read():
        first = (folder / "a.json").read_text()
        if contents:
            save(folder, contents.pop())
        return first, (folder / "b.json").read_text()

    save(folder, NEW)
    assert files.read_unmixed(str(folder), NAMES, read) == (NEW["a.json"], NEW["b.json"])


def test_many_writers_and_readers_at_once(folder):
    """Each save is seen whole: no reader finds a file of one and a file of another."""
    versions = [{name: f"{name} {i}" * 1000 for name in ("a.json", "b.json")} for i in range(4)]
    save(folder, versions[0])
    end, wrong = time.monotonic() + 1.5, []

    def write(version):
        while time.monotonic() < end:
            save(folder, version)

    def read():
        while time.monotonic() < end:
            found = files.read_unmixed(
                str(folder),
                ("a.json", "b.json"),
                lambda: [(folder / n).read_text() for n in ("a.json", "b.json")],
            )
            if found not in [[*version.values()] for version in versions]:
                wrong.append(found)

    threads = [threading.Thread(target=write, args=(version,)) for version in versions]
    threads += [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert not [name for name in os.listdir(folder) if name.startswith(".sav")]


def test_a_lock_whose_file_is_gone_is_no_lock(folder, monkeypatch):
    """Whoever had the lock removed its file in the end; the next one makes another, and locks that."""
    plain, taken = files.take_lock, []

    def after_the_other_removed_it(descriptor):
        if not taken:
            os.unlink(folder / ".saving.lock")
        taken.append(descriptor)
        return plain(descriptor)

    monkeypatch.setattr(files, "take_lock", after_the_other_removed_it)
    with (
        files.locked(str(folder / files.LOCK), 60),
        open(folder / ".saving.lock", "ab") as another,
        pytest.raises(BlockingIOError),
    ):
        plain(another.fileno())


def test_one_that_never_ends_is_named(folder, monkeypatch):
    now = iter([0, 61])
    with stopped_while_writing(folder):
        monkeypatch.setattr(files.time, "monotonic", lambda: next(now))
        with pytest.raises(TimeoutError, match="another process has been saving here for too long") as raised:
            save(folder, NEW)
    assert raised.value.filename == str(folder)


def refuse_locks(*_):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def test_file_systems_without_locks_will_do(folder, monkeypatch):
    """There, what is another's can't be told from what is left over, and stays."""
    monkeypatch.setattr("fcntl.flock", refuse_locks)
    (folder / ".saving-another").mkdir()
    save(folder, NEW)
    assert content(folder) == {**NEW, "README.md": "another's"}
    assert (folder / ".saving-another").is_dir()


# ---- folders of all kinds


def committed(folder, contents, removed=""):
    """As a process leaves it that is killed right after it has committed."""
    for name, text in {**contents, ".removed": removed}.items():
        (folder / ".saved-x" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / ".saved-x" / name).write_text(text)


def test_a_folder_that_is_a_link(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    save(tmp_path / "link", NEW)
    assert content(folder) == {**NEW, "README.md": "another's"}
    assert (tmp_path / "link").is_symlink()


def test_what_can_not_be_replaced_is_refused_while_all_is_old(folder, tmp_path):
    (folder / "d.py").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        save(folder, NEW)
    assert raised.value.filename == str(folder / "d.py")
    assert load(folder) == OLD
    (folder / "d.py").rmdir()
    with pytest.raises(NotADirectoryError):
        save(folder, {"b.json/c": "below a file"})
    (folder / "sub" / "c.txt").unlink()
    (folder / "sub").rmdir()
    (folder / "sub").symlink_to(tmp_path)
    with pytest.raises(OSError, match="leads out of the folder"):
        save(folder, {"sub/c.txt": "new", "a.json": "new"})
    assert (folder / "a.json").read_text() == "old a"
    assert not (tmp_path / "c.txt").exists()


def test_a_stranger_s_folder_moves_nothing_out_of_it(folder, tmp_path):
    """A folder that was downloaded may hold what looks like a save that was cut off."""
    (tmp_path / "mine.txt").write_text("mine")
    for name in ("../mine.txt", str(tmp_path / "mine.txt"), "link/mine.txt"):
        (folder / "link").unlink(missing_ok=True)
        (folder / "link").symlink_to(tmp_path)
        committed(folder, {"link/mine.txt": "evil"} if name.startswith("link") else {"a.json": "a"}, name)
        with pytest.raises(OSError, match="leads out of the folder"):
            files.settle(str(folder))
        assert (tmp_path / "mine.txt").read_text() == "mine"
        for path in sorted((folder / ".saved-x").rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (folder / ".saved-x").rmdir()
    (folder / ".saved-x").symlink_to(tmp_path)
    files.settle(str(folder))
    save(folder, NEW)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_folder_that_can_not_be_written_to_says_what_to_do(folder, monkeypatch):
    assert load(folder) == OLD
    committed(folder, NEW)

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "x")

    with monkeypatch.context() as patched:
        patched.setattr(files, "open", refuse, raising=False)
        with pytest.raises(
            OSError, match=r"cut off.*Read-only.*load it once where it can be written"
        ) as raised:
            load(folder)
    assert raised.value.filename == str(folder)
    assert load(folder) == NEW | {"stale.jinja": OLD["stale.jinja"]}


# ---- tokenizers and artifacts


@pytest.fixture(scope="module")
def bpes():
    text = "it's the cat's that sat, the hats that fit and the cats' mats"
    logged = hs.train(hs.count([text]), 269, log=True, special_tokens=["<|endoftext|>"])
    by_character = hs.train(hs.count([text], alphabet="chars", pre_tokenizer="metaspace-unsplit"), 17)
    return logged, by_character


def test_an_artifact_leaves_no_file_of_the_one_before(bpes, tmp_path):
    logged, by_character = bpes
    logged.save(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    by_character.save(tmp_path)
    expected = {"vocab.json", "merges.json", "demolish.json", "notes.txt"}
    found = set(os.listdir(tmp_path))
    assert found == (
        expected if (tmp_path / "merges.json").exists() else {*expected} ^ {"merges.json", "merges.txt"}
    )
    assert hs.ScaffoldBPE.load(tmp_path) == by_character
    logged.save(tmp_path)
    assert set(os.listdir(tmp_path)) == {
        "vocab.json",
        "merges.txt",
        "demolish.json",
        "log.jsonl",
        "notes.txt",
    }
    assert hs.ScaffoldBPE.load(tmp_path).log == logged.log


def test_a_tokenizer_leaves_no_file_of_the_one_before(tmp_path):
    """Stock would read them as the new one's: a chat template that it hasn't, another tokenizer's tokens."""
    templates = {"default": "{{ 1 }}", "tools": "{{ 2 }}"}
    toys.tokenizer(chat_template=templates).save_pretrained(tmp_path)
    (tmp_path / "special_tokens_map.json").write_text('{"eos_token": "<|pad|>"}')
    (tmp_path / "added_tokens.json").write_text('{"<x>": 7}')
    (tmp_path / "README.md").write_text("mine")
    tokenizer = toys.tokenizer()
    saved = tokenizer.save_pretrained(tmp_path)
    loaded = ScaffoldTokenizerFast.from_pretrained(tmp_path)
    assert loaded.chat_template is None
    assert loaded.eos_token == tokenizer.eos_token
    assert {path.name for path in tmp_path.iterdir()} == {*map(os.path.basename, saved), "README.md"}
    toys.tokenizer(chat_template=templates).save_pretrained(tmp_path, filename_prefix="x")
    toys.tokenizer().save_pretrained(tmp_path)
    assert (tmp_path / "x-additional_chat_templates" / "tools.jinja").exists()
    toys.tokenizer().save_pretrained(tmp_path, filename_prefix="x")
    assert not (tmp_path / "x-additional_chat_templates").exists()


def test_without_the_package_it_saves_as_stock_and_mixes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(tokenization_scaffold, "native_encoder", lambda: None)
    toys.tokenizer(chat_template={"default": "{{ 1 }}", "tools": "{{ 2 }}"}).save_pretrained(tmp_path / "new")
    toys.tokenizer().save_pretrained(tmp_path / "new")
    assert ScaffoldTokenizerFast.from_pretrained(tmp_path / "new").chat_template is None
    (tmp_path / "new" / ".saved-x").mkdir()
    with pytest.raises(OSError, match="cut off; load it once where hf_scaffold is installed") as raised:
        ScaffoldTokenizerFast.from_pretrained(tmp_path / "new")
    assert Path(raised.value.filename) == tmp_path / "new"


KINDS = {
    "tokenizer": lambda bpe, folder: bpe.to_tokenizer(chat_template=str(bpe.vocab_size)).save_pretrained(
        folder
    ),
    "artifact": lambda bpe, folder: bpe.save(folder),
    "train": lambda bpe, folder: workflow.save_tokenizer(bpe, folder),
}


def loaded(kind, folder):
    if kind == "artifact":
        return hs.ScaffoldBPE.load(folder)
    tokenizer = ScaffoldTokenizerFast.from_pretrained(folder)
    facts = (tokenizer.backend_tokenizer.to_str(), tokenizer.scaffold, tokenizer.chat_template)
    return facts if kind == "tokenizer" else (facts, hs.ScaffoldBPE.load(folder / "artifact"))


@pytest.mark.parametrize("kind", KINDS)
def test_whichever_call_fails_the_old_one_loads_or_the_new_one(kind, bpes, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    expected = []
    for i, bpe in enumerate(bpes):
        KINDS[kind](bpe, tmp_path / str(i))
        expected.append(loaded(kind, tmp_path / str(i)))
    outcomes, at, n_calls = set(), 0, 0
    while at <= n_calls:
        at += 1
        KINDS[kind](bpes[0], folder)
        with monkeypatch.context() as patched:
            made = failing(patched, at, raising(errno.ENOSPC))
            named = named_by(folder, lambda: KINDS[kind](bpes[1], folder))
            n_calls = len(made)
        assert named.startswith(str(folder))
        outcomes.add(expected.index(loaded(kind, folder)))
        KINDS[kind](bpes[1], folder)
        assert content(folder) == content(tmp_path / "1")
    assert outcomes == {0, 1}


def test_a_full_disk_is_an_oserror_with_the_path(tmp_path):
    """Also for tokenizer.json, which is written in Rust, and without the name of the file."""
    code = f"""
import resource, signal
import toys
tokenizer = toys.tokenizer()
tokenizer.save_pretrained({str(tmp_path / "whole")!r})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
for limit in (0, 1000, 5000, 9000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        tokenizer.save_pretrained({str(tmp_path / "out")!r})
    except OSError as error:
        assert error.errno == 27, error
        assert error.filename.startswith({str(tmp_path / "out")!r}), error
        print(limit)
"""
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(toys.__file__)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300, cwd="/"
    )
    assert done.stdout.split() == ["0", "1000", "5000", "9000"], done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_auto_tokenizer_finishes_what_was_cut_off(bpes, tmp_path):
    from transformers import AutoTokenizer

    for bpe in bpes:
        bpe.to_tokenizer().save_pretrained(tmp_path / str(bpe.vocab_size))
    old, new = (tmp_path / str(bpe.vocab_size) for bpe in bpes)
    (new / ".removed").write_text("")
    new.rename(old / ".saved-x")
    tokenizer = AutoTokenizer.from_pretrained(old)
    assert tokenizer.get_vocab() == bpes[1].to_tokenizer().get_vocab()
    assert not list(old.glob(".sav*"))
