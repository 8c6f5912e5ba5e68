"""Every writer, killed at random moments and failing at every call: the old is there after it, or the new.

A child saves over what another save left. It is killed at a random moment, or at one of its calls of the
system; or one of these fails, as on a full disk; or another child saves as well. What is loaded then has to
be the old or the new, and whole; and after one more save, nothing but the files of that one may be there.
"""

import argparse
import errno
import importlib
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import toys

import hf_scaffold as hs
from hf_scaffold._utils import files
from hf_scaffold.cli import workflow
from hf_scaffold.counting import counting
from hf_scaffold.report.report import FORMS
from hf_scaffold.shards import files as shard_files
from hf_scaffold.shards import writing
from hf_scaffold.tables import merging

Files = dict[str, bytes]
TEXTS = [" ".join(toys.WORDS) * 3, "it's the cats' hats that sat on the mats, as cats do " * 20]
OTHERS = {"README.md": b"another's", "shard-1.bin": b"another's, too"}  # no writer's
CALLS = ("open", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "makedirs")
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
LEFT = (".saving", ".merging")  # by a kill, until the next save
WAIT = 120  # seconds that no save and no load takes


@dataclass
class Writer:
    """Something that is saved into a folder, in several versions.

    Args:
        save: Writes a version into a folder.
        load: Raises where a folder can't be loaded; what it returns is not looked at.
    """

    name: str
    n_versions: int
    save: Callable[[int, Path], object]
    load: Callable[[Path], object]
    files: list[Files] = field(default_factory=list)  # of each version
    seconds: float = 0  # that a save takes, about
    n_calls: int = 0

    def prepare(self, folder: Path) -> None:
        for version in range(self.n_versions):
            clean = folder / self.name / str(version)
            start = time.perf_counter()
            end_of(child_that(lambda version=version, clean=clean: self.counted(version, clean, folder)))
            self.seconds = max(self.seconds, time.perf_counter() - start)
            self.n_calls = max(self.n_calls, int((folder / "calls").read_text()))
            self.files.append(content(clean))
        assert all(self.files), self.name
        assert all(files not in self.files[:i] for i, files in enumerate(self.files)), self.name

    def counted(self, version: int, clean: Path, folder: Path) -> None:
        made = at_call(0, die)
        self.save(version, clean)
        n_calls = len(made)
        (folder / "calls").write_text(str(n_calls))

    def found(self, folder: Path) -> int:
        """The version that is in a folder; asserts that it is one, and alone but for what a kill leaves."""
        files.settle(str(folder))
        self.load(folder)
        here = {name: data for name, data in content(folder).items() if not name.startswith(LEFT)}
        here = {name: data for name, data in here.items() if name not in OTHERS}
        assert here in self.files, f"{sorted(here)} are of no version"
        return self.files.index(here)


class ShardsWriter(Writer):
    """Shards come one after another: those in the index are whole, and the same call goes on from there."""

    def found(self, folder: Path) -> int:
        if not (folder / writing.INDEX_FILE).exists():
            index, version = None, 0
        else:
            index = writing.ShardIndex.load(folder)
            version = int(index.corpus[0][0][-5])
        for shard in index.shards if index else ():
            data = (folder / shard.name).read_bytes()
            assert data == self.files[version][shard.name], f"{shard.name} is of no version"
        self.save(version, folder)
        return version


def content(folder: Path) -> Files:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


# ---- the writers


def make_writers(folder: Path) -> list[Writer]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        logged = hs.train(hs.count(TEXTS), 300, log=True, special_tokens=["<|endoftext|>"])
        plain = hs.train(hs.count(TEXTS[:1]), 290, scaffold=False)
        counts = hs.count(TEXTS, alphabet="chars", pre_tokenizer="metaspace-unsplit")
        by_character = hs.train(counts, 60)
    bpes = [logged, plain, by_character]
    templates: list[Any] = [None, "{{ 1 }}", {"default": "{{ 1 }}", "tools": "{{ 2 }}", "more": "{{ 3 }}"}]
    tokenizers = [
        bpe.to_tokenizer(**({} if template is None else {"chat_template": template}))
        for bpe, template in zip(bpes, templates, strict=True)
    ]
    for module in ("pandas", "pyarrow.parquet", "transformers.models.auto.tokenization_auto"):
        importlib.import_module(module)  # else each child would
    tables = [hs.count(TEXTS[: i + 1]) for i in range(2)]
    reports = [hs.make_report(TEXTS[: i + 1], 270, baselines=[]) for i in range(2)]
    for form, write in list(FORMS.items()):  # a page takes longer to make than to save
        FORMS[form] = cache(write)
        for report in reports:
            FORMS[form](report)
    found = [
        Writer("tokenizer", 3, lambda i, to: tokenizers[i].save_pretrained(to), workflow_load),
        Writer("prefixed", 3, lambda i, to: tokenizers[i].save_pretrained(to, filename_prefix="x"), exists),
        Writer("artifact", 3, lambda i, to: bpes[i].save(to), hs.ScaffoldBPE.load),
        Writer("train", 3, lambda i, to: workflow.save_tokenizer(bpes[i], to), load_both),
        Writer("counts", 2, lambda i, to: tables[i].save(to / "counts.parquet"), load_counts),
        Writer("report", 2, lambda i, to: reports[i].save(*(to / f"r{form}" for form in FORMS)), exists),
    ]
    found += make_counters(folder)
    shard_files.ROW_GROUP, writing.BATCH_SIZE = 60, 1000
    corpora = [folder / f"corpus{i}.txt" for i in range(2)]
    for path, text in zip(corpora, TEXTS, strict=True):
        path.write_text(text * 3, encoding="utf-8")
    for form in writing.FORMATS:

        def write(version: int, to: Path, form: str = form) -> None:
            try:
                writing.write_shards(corpora[version], tokenizers[1], to, format=form, shard_size=300)
            except hs.ConfigurationError:  # the other's are there
                writing.write_shards(
                    corpora[version], tokenizers[1], to, format=form, shard_size=300, overwrite=True
                )

        found.append(ShardsWriter(f"shards.{form}", 2, write, exists))
    return found


def make_counters(folder: Path) -> list[Writer]:
    """What counts to a file, and what adds up tables on disk: of two corpora, some files at a time."""
    corpora = [folder / f"counted{i}.txt" for i in range(2)]
    tables: list[list[Path]] = []
    for path, text in zip(corpora, TEXTS, strict=True):
        path.write_text(text * 300, encoding="utf-8")
        tables.append([path.with_suffix(f".{number}.parquet") for number in range(5)])
        for number, table in enumerate(tables[-1]):
            hs.count(path, part=(number, 5), output=table)
    counting.memory_for_rows = lambda _: 1 << 16  # so that it goes to the disk
    merging._MOST_FILES = 2

    def table_of(write: Callable[[int, Path], object]) -> Callable[[int, Path], object]:
        return lambda version, to: write(version, to / "counts.parquet")

    writes: dict[str, Callable[[int, Path], object]] = {
        "part": lambda i, to: hs.count(corpora[i], part=(1, 3), output=to),
        "spilled": lambda i, to: hs.count(corpora[i], output=to, max_memory="1G"),
        "merged": lambda i, to: hs.merge_counts(tables[i], to),
        "mixed": lambda i, to: hs.mix_counts(dict.fromkeys(tables[1 - i], 1 + i) | {tables[i][0]: 3}, to),
    }
    return [Writer(name, 2, table_of(write), load_counts) for name, write in writes.items()]


def exists(folder: Path) -> None:
    assert folder.is_dir()


def workflow_load(folder: Path) -> None:
    workflow.load_scaffold(str(folder))


def load_both(folder: Path) -> None:
    workflow_load(folder)
    hs.ScaffoldBPE.load(folder / workflow.ARTIFACT_FOLDER)


def load_counts(folder: Path) -> None:
    hs.PreTokenCounts.load(folder / "counts.parquet")


# ---- harm


def at_call(number: int, harm: Callable[[Any], None]) -> list[str]:
    """In this process, do harm at the call of this number; returns the calls that are made."""
    made: list[str] = []

    def wrap(call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            if len(made) == number:
                harm(args[0])
            return call(*args, **kwargs)

        return wrapped

    for name in CALLS:
        setattr(os, name, wrap(getattr(os, name), name))
    return made


def die(_: Any = None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(number: int) -> Callable[[Any], None]:
    def raise_it(subject: Any) -> None:
        path = None if isinstance(subject, int) else os.fspath(subject)  # as the system's calls do
        raise OSError(number, os.strerror(number), path)

    return raise_it


def interrupt(_: Any = None) -> None:
    raise KeyboardInterrupt


def expect_harm(save: Callable[[], object]) -> None:
    """A save that may fail, if it says where."""
    try:
        save()
    except OSError as error:
        if not error.filename:
            raise ValueError(f"{error!r} has no path") from error
    except KeyboardInterrupt:
        pass


def under_limit(n_bytes: int, save: Callable[[], object]) -> None:
    """A save with no room for files of more than so many bytes: writes fail half-way, in C and in Rust."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, resource.RLIM_INFINITY))
    expect_harm(save)


def child_that(work: Callable[[], object]) -> int:
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.alarm(WAIT)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def end_of(child: int) -> int:
    """The exit code of a child; minus the number of the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Attack:
    """Rounds on a folder for each writer; what was found there last is what the next round saves over."""

    def __init__(self, folder: Path, dice: random.Random, writers: str = "") -> None:
        self.folder, self.dice = folder, dice
        self.writers = [
            writer for writer in make_writers(folder) if not writers or writer.name in writers.split(",")
        ]
        self.kills: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.findings: list[str] = []
        for writer in self.writers:
            writer.prepare(folder / "clean")
            self.renew(writer)

    def renew(self, writer: Writer) -> None:
        place = self.place(writer)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for name, data in OTHERS.items():
            (place / name).write_bytes(data)
        end_of(child_that(lambda: writer.save(0, place)))

    def place(self, writer: Writer) -> Path:
        return self.folder / "saved" / writer.name

    def check(self, writer: Writer, versions: set[int], what: str) -> None:
        """In another child: load, see that it is one of these, save it, see that nothing else is left."""
        place = self.place(writer)

        def look() -> None:
            version = writer.found(place)
            assert version in versions, f"version {version} was never to be here"
            writer.save(version, place)
            here, wanted = content(place), {**writer.files[version], **OTHERS}
            assert here == wanted, f"left over: {sorted(here.keys() ^ wanted.keys())}"
            assert not [path for path in place.iterdir() if path.name.startswith(LEFT)]
            (self.folder / "version").write_text(str(version))

        (self.folder / "version").write_text("")
        code = end_of(child_that(look))
        self.outcomes[writer.name, (self.folder / "version").read_text() or "wrong"] += 1
        if code:
            self.findings.append(f"{writer.name}, {what}: exit code {code}")
            print(f"FINDING {self.findings[-1]}", flush=True)
            self.renew(writer)

    def count(self, writer: Writer, code: int, what: str) -> None:
        self.kills[writer.name] += code == -signal.SIGKILL
        if code not in (0, -signal.SIGKILL):
            self.findings.append(f"{writer.name}, {what}: the save ended with exit code {code}")
            print(f"FINDING {self.findings[-1]}", flush=True)

    def present(self, writer: Writer) -> int:
        here = {name: data for name, data in content(self.place(writer)).items() if name not in OTHERS}
        return writer.files.index(here)

    def every_call(self, writer: Writer) -> None:
        """Each call of a save is where it is killed, where it fails, and where Ctrl-C comes."""
        harms = {"killed": die, "Ctrl-C": interrupt, **{os.strerror(n): fail(n) for n in ERRORS[:1]}}
        for what, harm in harms.items():
            number, n_calls = 0, 1
            while number < n_calls:
                number += 1
                old = self.present(writer)
                new = (old + 1) % writer.n_versions

                def work(new: int = new, number: int = number, harm: Callable[[Any], None] = harm) -> None:
                    made = at_call(number, harm)
                    expect_harm(lambda: writer.save(new, self.place(writer)))
                    (self.folder / "calls").write_text(str(len(made)))

                (self.folder / "calls").write_text("")
                self.count(writer, end_of(child_that(work)), f"{what} at call {number}")
                told = (self.folder / "calls").read_text()
                n_calls = int(told) if told else number + 1
                self.check(writer, {old, new}, f"{what} at call {number}")

    def at_random(self, writer: Writer) -> None:
        """One round: one child or two, which are killed sooner or later, or have no room."""
        place, dice = self.place(writer), self.dice
        old = self.present(writer)
        n_children = (
            1 if isinstance(writer, ShardsWriter) else dice.choice((1, 1, 1, 2))
        )  # no two runs at once
        room = dice.choice((None, None, None, None, dice.randrange(1 << dice.randrange(17))))
        news, children, waits = [], [], []
        for _ in range(n_children):
            new, number = dice.randrange(writer.n_versions), dice.randrange(2 * writer.n_calls)

            def work(new: int = new, number: int = number) -> None:
                if room is not None:
                    under_limit(room, lambda: writer.save(new, place))
                else:
                    at_call(number if number < writer.n_calls else 0, die)
                    writer.save(new, place)

            news.append(new)
            waits.append(writer.seconds * dice.uniform(0, 2))
            children.append(child_that(work))
        start = time.monotonic()
        for child, wait in sorted(zip(children, waits, strict=True), key=lambda row: row[1]):
            while (ended := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < start + wait:
                time.sleep(0.0005)
            if ended[0] == 0:
                os.kill(child, signal.SIGKILL)
                ended = os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(ended[1])
            # The machine may be busy now and then: keep to the time that saves take of late.
            writer.seconds *= 0.9 if code == 0 else 1.1
            self.count(writer, code, f"after {wait:.4f} s, room {room}")
        self.check(writer, {old, *news}, f"killed after {max(waits):.4f} s, room {room}")

    def run(self, kills: int, seconds: float, calls: bool = True) -> None:
        end = time.monotonic() + seconds
        for writer in self.writers if calls else ():
            if time.monotonic() < end:
                self.every_call(writer)
        while time.monotonic() < end and sum(self.kills.values()) < kills:
            self.at_random(self.dice.choice(self.writers))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, help="until so many have been killed in the middle of a save")
    parser.add_argument("--seconds", type=float, help="or until then")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--writers", default="", help="comma-separated; all without")
    parser.add_argument("--no-calls", action="store_true", help="only random moments, not every call")
    options = parser.parse_args()
    kills = options.kills if options.kills is not None else (sys.maxsize if options.seconds else 300)
    with tempfile.TemporaryDirectory() as folder:
        attack = Attack(Path(folder), random.Random(options.seed), options.writers)
        attack.run(kills, options.seconds or sys.maxsize, calls=not options.no_calls)
    for writer in attack.writers:
        outcomes = {what: n for (name, what), n in attack.outcomes.items() if name == writer.name}
        shown = ", ".join(f"{what} {n}" for what, n in sorted(outcomes.items()))
        print(f"{writer.name:16} {attack.kills[writer.name]:6,} kills; versions found: {shown}")
    print(f"{sum(attack.kills.values()):,} kills, {sum(attack.outcomes.values()):,} rounds: ", end="")
    print(f"{len(attack.findings)} findings, seed {options.seed}")
    return bool(attack.findings)


if __name__ == "__main__":
    sys.exit(main())
