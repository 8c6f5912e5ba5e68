"""Puts small faults into the code, one at a time, and asks whether the tests notice.

    python tests/mutants/run.py [--only WORDS] [--jobs N] [--resume] [--quick]

Each fault goes into a copy of the tree, with a virtual environment that has this one's packages and the
copy's hf_scaffold. First the tests that should notice run; if none does, the whole suite. Where that passes,
too, the fault is a survivor: it shows a test that is missing, unless survivors.txt says why no test can tell.

The faults are in faults/*.txt, a block each, a blank line between two:

    queue: a tie goes to the larger left part
    cython_core/candidate_queue.hpp: training/test_trainer.py training/test_alphabets.py::test_affixes
    -   if (x.left != y.left) return x.left < y.left;
    +   if (x.left != y.left) return x.left > y.left;

the name; the file, or files with these same lines, and the tests that should notice; lines to take out, to
put in, and to find around them (with a blank in front). They must be found in one place only, whatever the
indentation. Comments begin with "#".
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "mutants"
RESULTS = BUILD / "results.jsonl"
NOT_COPIED = (
    ".git",
    ".venv*",
    ".mutant",
    "build",
    "dist",
    "*.egg-info",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "*.so",
)
SELECTION_LIMIT, SUITE_LIMIT, BUILD_LIMIT = 900, 5400, 1800  # seconds, many times what they take
MEMORY_LIMIT = 24 << 30  # bytes of addresses, most of them never touched: an endless loop may allocate
GOOD = ("killed", "equivalent")


# ---- the faults


class FaultError(Exception):
    """A fault that can't be put into the code as it is."""


@dataclass(frozen=True)
class Fault:
    """One change to a file, or to files that have a part in common, and the tests that should notice."""

    name: str
    files: tuple[str, ...]
    tests: tuple[str, ...]
    lines: tuple[str, ...]  # "-", "+" or " " and a line each

    @classmethod
    def parse(cls, block: str) -> Fault:
        name, where, *lines = block.splitlines()
        files, _, tests = where.partition(":")
        if not tests.split() or not lines or any(line[0] not in "-+ " for line in lines):
            raise FaultError(
                f"{name}: not a name, a file with its tests, and lines that begin with -, + or a blank"
            )
        return cls(name, tuple(files.split()), tuple(tests.split()), tuple(lines))

    @property
    def is_native(self) -> bool:
        """Whether it needs a compiler."""
        return self.files[0].startswith("cython_core/")

    @property
    def key(self) -> str:
        return hashlib.sha256("\n".join([*self.files, *self.tests, *self.lines]).encode()).hexdigest()[:16]

    def put_into(self, text: str) -> str:
        """The file's content with the fault in it."""
        found = text.splitlines()
        old = [line[1:] for line in self.lines if line[0] != "+"]
        bare = [line.strip() for line in old]
        places = [
            i
            for i in range(len(found) - len(old) + 1)
            if [line.strip() for line in found[i : i + len(old)]] == bare
        ]
        if len(places) != 1:
            raise FaultError(
                f"{self.name}: {self.files[0]} has its lines in {len(places)} places, not in one"
            )
        at = places[0]
        shift = indentation(found[at]) - indentation(old[0])
        new, kept = [], iter(found[at : at + len(old)])
        for line in self.lines:
            if line[0] == "+":
                new.append(" " * max(0, indentation(line[1:]) + shift) + line[1:].strip())
            else:
                original = next(kept)
                if line[0] == " ":
                    new.append(original)
        return "\n".join([*found[:at], *new, *found[at + len(old) :]]) + "\n"


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def blocks(text: str) -> Iterator[str]:
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return filter(None, (block.strip("\n") for block in re.split(r"\n\s*\n", kept)))


def all_faults() -> list[Fault]:
    return [
        Fault.parse(block)
        for path in sorted((HERE / "faults").glob("*.txt"))
        for block in blocks(path.read_text(encoding="utf-8"))
    ]


def equivalents() -> dict[str, str]:
    """The survivors that no test can tell, by name, and why."""
    named = (block.partition("\n") for block in blocks((HERE / "survivors.txt").read_text(encoding="utf-8")))
    return {name: " ".join(why.split()) for name, _, why in named}


def check(faults: list[Fault]) -> list[str]:
    """What is wrong with the list itself."""
    wrong = [f"{name}: there twice" for name, n in Counter(fault.name for fault in faults).items() if n > 1]
    names = {fault.name for fault in all_faults()}
    wrong += [f"{name}: in survivors.txt, but no fault" for name in equivalents().keys() - names]
    for fault in faults:
        try:
            for name in fault.files:
                fault.put_into((ROOT / name).read_text(encoding="utf-8"))
        except (FaultError, OSError) as error:
            wrong.append(str(error))
        for test in fault.tests:
            file, _, function = test.partition("::")
            path = ROOT / "tests" / file
            text = path.read_text(encoding="utf-8") if path.is_file() else ""
            if f"def {function.partition('[')[0]}" not in text:
                wrong.append(f"{fault.name}: there is no tests/{test}")
    return wrong


# ---- trees to put them into


def files_below(root: Path) -> Iterator[Path]:
    """The files of a checkout that are its own."""
    ignored = shutil.ignore_patterns(*NOT_COPIED)
    for folder, folders, names in os.walk(root):
        folders[:] = sorted({*folders} - ignored(folder, folders))
        for name in sorted({*names} - ignored(folder, names)):
            yield Path(folder, name)


def source_files() -> list[Path]:
    return [path.relative_to(ROOT) for path in files_below(ROOT)]


def content_for_copy(path: Path) -> bytes:
    content = (ROOT / path).read_bytes()
    # It compiles in half the time, and what it does is the same.
    return content.replace(b'"-O3"', b'"-O1"') if path.name == "setup.py" else content


def affected_extensions(file: str) -> set[str]:
    """The extension modules that are built from a file of cython_core."""
    core = ROOT / "cython_core"
    sources = [path for path in core.iterdir() if path.suffix in (".hpp", ".pyx", ".pxd", ".pxi")]
    texts = {path.name: path.read_text(encoding="utf-8") for path in sources}
    reached, new = set(), {Path(file).name}
    while new:
        reached |= new
        named = [
            f'"{name}"' if name.endswith((".hpp", ".pxi")) else f"from {Path(name).stem} cimport"
            for name in new
        ]
        new = {name for name, text in texts.items() if any(each in text for each in named)} - reached
    return {Path(name).stem for name in reached if name.endswith(".pyx")}


@dataclass(frozen=True)
class Tree:
    """A copy of the repository, and a virtual environment in it that has its hf_scaffold."""

    root: Path

    @property
    def python(self) -> Path:
        return self.root / ".mutant" / ("Scripts" if os.name == "nt" else "bin") / "python"

    @cached_property
    def packages(self) -> Path:
        [found] = (self.root / ".mutant").rglob("site-packages")
        return found

    @classmethod
    def pristine(cls, root: Path) -> Tree:
        """The repository as it is; of an earlier one there, what is built and up to date stays."""
        tree = cls(root)
        wanted = {path: content_for_copy(path) for path in source_files()}
        extensions = root / ".mutant" / "extensions"
        names = "\n".join(sorted(path.stem for path in wanted if path.suffix == ".pyx"))
        if not extensions.is_file() or extensions.read_text(encoding="utf-8") != names:
            shutil.rmtree(root, ignore_errors=True)
            venv.create(root / ".mutant", with_pip=False, symlinks=os.name != "nt")
            paths = [path for path in sys.path if "site-packages" in path]
            (tree.packages / "packages.pth").write_text("\n".join(paths) + "\n", encoding="utf-8")
            extensions.write_text(names, encoding="utf-8")
        for path in {path.relative_to(root) for path in files_below(root)} - wanted.keys():
            (root / path).unlink()
        for path, content in wanted.items():
            copy = root / path
            if not copy.is_file() or copy.read_bytes() != content:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(content)
        for path in (tree.packages / "hf_scaffold").rglob("*.py*"):
            path.unlink()  # a module may have gone
        tree.install()
        return tree

    def copied(self, root: Path) -> Tree:
        """With all times as they are, so that what was built needn't be built again."""
        shutil.copytree(self.root, root, symlinks=True)
        tree = Tree(root)
        tree.write_scripts()
        return tree

    def with_fault(self, fault: Fault) -> None:
        for path in (self.root / name for name in fault.files):
            path.write_text(fault.put_into(path.read_text(encoding="utf-8")), encoding="utf-8")
        if fault.is_native:
            stale = affected_extensions(fault.files[0])
            for built in (self.packages / "hf_scaffold" / "_core").glob("*.so"):
                if built.name.partition(".")[0] not in stale:
                    os.utime(built)  # setup.py builds everything anew for any header
        self.install()

    def install(self) -> None:
        """Builds what is out of date, straight into the environment."""
        command = [sys.executable, "setup.py", "-q", "build", "--build-lib", str(self.packages)]
        built = run(command, self.root, BUILD_LIMIT)
        if built.code != 0:
            raise FaultError(
                "does not build: " + "".join(re.findall(r".*error.*\n", built.output)[:3] or built.output)
            )
        self.write_scripts()

    def write_scripts(self) -> None:
        """What is run by name; `python -m pytest` would find the sources in the working folder first."""
        programs = {
            "pytest": "from pytest import main",
            "hf-scaffold": "from hf_scaffold.cli.commands import main",
        }
        for name, line in programs.items():
            script = self.python.with_name(name)
            # A process that is spawned imports the script.
            start = 'if __name__ == "__main__":\n    sys.exit(main())'
            script.write_text(f"#!{self.python}\nimport sys\n{line}\n{start}\n", encoding="utf-8")
            script.chmod(0o755)

    def test(self, arguments: Iterable[str], limit: float) -> Outcome:
        """Runs tests in a fixed order, to the first that fails."""
        options = ["-x", "-v", "-rf", "--no-header", "-p", "no:cacheprovider"]
        options += ["--randomly-seed=0", "--randomly-dont-reorganize"]
        return run([str(self.python.with_name("pytest")), *options, *arguments], self.root, limit)


# ---- running


@dataclass(frozen=True)
class Outcome:
    """How a program ended; `code` is None where it took too long."""

    code: int | None
    output: str

    @property
    def test(self) -> str:
        """The test that failed, or was running when the program died."""
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", self.output, re.MULTILINE)
        running = re.findall(
            r"^(?:\[gw\d+\].*? )?(tests/\S+::[^\n]+?)(?: [A-Z]+ .*| Fatal Python error.*)?$",
            self.output,
            re.MULTILINE,
        )
        return [*failed, *running[-1:], "?"][0].strip()


def run(command: list[str], folder: Path, limit: float) -> Outcome:
    """Runs a program in a process group of its own, all of which ends with it."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=limit_memory,
        )
        RUNNING.add(process.pid)
        try:
            code: int | None = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            kill(process.pid)
            process.wait()
            RUNNING.discard(process.pid)
        output.seek(0)
        return Outcome(code, output.read())


RUNNING: set[int] = set()  # process groups


def kill(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def limit_memory() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    limit = MEMORY_LIMIT if most == resource.RLIM_INFINITY else min(MEMORY_LIMIT, most)
    resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def paths_of(tests: Iterable[str]) -> list[str]:
    return [f"tests/{test}" for test in tests]


@dataclass(frozen=True)
class Result:
    """What became of a fault: killed, survived, equivalent as survivors.txt has it, or wrong in itself."""

    name: str
    file: str
    verdict: str
    by: str
    seconds: float


def judge(fault: Fault, pristine: Tree, folder: Path, is_quick: bool) -> Result:
    """Puts the fault into a tree of its own and runs the tests."""
    start = time.monotonic()

    def result(verdict: str, by: str) -> Result:
        return Result(fault.name, fault.files[0], verdict, by, round(time.monotonic() - start, 1))

    try:
        tree = pristine.copied(folder)
        tree.with_fault(fault)
        selected = tree.test(paths_of(fault.tests), SELECTION_LIMIT)
        if selected.code != 0:
            return result("killed", how(selected))
        if not is_quick:
            suite = tree.test(["-n", "auto"], SUITE_LIMIT)
            if suite.code != 0:
                return result("killed", how(suite))
    except FaultError as error:
        return result("wrong", str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if why := equivalents().get(fault.name):
        return result("equivalent", why)
    passes = "its own tests pass; the suite has not been run" if is_quick else "the whole suite passes"
    return result("survived", passes)


def how(outcome: Outcome) -> str:
    """In what way tests noticed; refuses what is no verdict of theirs."""
    if outcome.code is None:
        return f"{outcome.test} (hangs)"
    if outcome.code < 0:
        return f"{outcome.test} ({signal.Signals(-outcome.code).name})"
    if outcome.code in (1, 2):  # tests failed; a test file can't be imported
        return outcome.test
    raise FaultError(f"pytest ends with {outcome.code}:\n{outcome.output[-2000:]}")


# ---- results


def digest_of_tree() -> str:
    """Of all that a verdict depends on."""
    hashed = hashlib.sha256()
    for path in source_files():
        if path.parts[0] not in ("docs", "notebooks", "benchmarks") and path.parts[:2] != (
            "tests",
            "mutants",
        ):
            hashed.update(f"{path}\n".encode() + (ROOT / path).read_bytes())
    return hashed.hexdigest()[:16]


def earlier_results(tree: str) -> dict[str, Result]:
    """The results for this tree, by the faults' keys."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.is_file() else []
    records = map(json.loads, lines)
    return {record["key"]: Result(**record["result"]) for record in records if record["tree"] == tree}


def show(results: list[Result]) -> None:
    table: dict[str, Counter[str]] = {}
    for result in results:
        table.setdefault(result.file, Counter())[result.verdict] += 1
    columns = ("killed", "equivalent", "survived", "wrong")
    print(f"\n{'':45}" + "".join(f"{column:>12}" for column in columns))
    for file, verdicts in [*sorted(table.items()), ("all", sum(table.values(), Counter()))]:
        print(f"{file:45}" + "".join(f"{verdicts[column]:12}" for column in columns))
    for result in results:
        if result.verdict != "killed":
            print(f"\n{result.verdict}: {result.name}\n  {result.file}: {result.by}")


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", default=[], help="faults with these words in name or file")
    parser.add_argument("--jobs", type=int, default=1, help="how many faults at a time")
    parser.add_argument(
        "--resume", action="store_true", help="keep the results that there are for this very tree"
    )
    parser.add_argument(
        "--quick", action="store_true", help="no whole suite: what its own tests miss survives"
    )
    parser.add_argument(
        "--check", action="store_true", help="only look whether each fault still fits the code"
    )
    options = parser.parse_args()

    faults = [
        f
        for f in all_faults()
        if not options.only or any(o in f"{f.name} {f.files[0]}" for o in options.only)
    ]
    if wrong := check(faults):
        print(*wrong, sep="\n", file=sys.stderr)
        return 2
    if options.check:
        native = sum(fault.is_native for fault in faults)
        print(f"{len(faults)} faults, {native} of them in C++ or Cython, fit the code")
        return 0
    tree = digest_of_tree()
    known = earlier_results(tree) if options.resume else {}
    results = [known[fault.key] for fault in faults if fault.key in known]
    left = [fault for fault in faults if fault.key not in known]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        results += judge_all(left, Path(folder), options.jobs, tree, options.quick)
    mistaken = failing_without_faults({killer(r) for r in results if r.verdict == "killed"})
    results = [
        replace(r, verdict="wrong", by=f"{r.by} fails anyway") if killer(r) in mistaken else r
        for r in results
    ]
    show(results)
    listed = equivalents()
    for result in results:
        if result.verdict == "killed" and result.name in listed:
            print(f"\nkilled, though survivors.txt says that no test can tell: {result.name}")
    is_good = all(r.verdict in GOOD and not (r.verdict == "killed" and r.name in listed) for r in results)
    return 0 if is_good else 1


def killer(result: Result) -> str:
    """The test that noticed, for all its parameters."""
    return re.sub(r"(\[| \().*", "", result.by)


def failing_without_faults(tests: set[str]) -> set[str]:
    """Those of the tests that noticed faults which have noticed nothing, as they fail without any, too."""
    tree, failing = Tree(BUILD / "tree"), set()
    while tests - failing:
        outcome = tree.test(sorted(tests - failing), SUITE_LIMIT)
        if outcome.code == 0:
            break
        name = re.sub(r"\[.*", "", outcome.test)
        if name not in tests - failing:
            raise SystemExit(f"the tests don't run without any fault:\n{outcome.output[-2000:]}")
        failing.add(name)
        print(f"fails without any fault: {outcome.test}\n{outcome.output[-2000:]}")
    return failing


def judge_all(faults: list[Fault], folder: Path, jobs: int, tree: str, is_quick: bool) -> list[Result]:
    if not faults:
        return []
    results = []
    pristine = Tree.pristine(BUILD / "tree")
    with ThreadPoolExecutor(jobs) as pool, RESULTS.open("a", encoding="utf-8") as stream:
        running = {
            pool.submit(judge, fault, pristine, folder / str(i), is_quick): fault
            for i, fault in enumerate(faults)
        }
        try:
            for future in as_completed(running):
                result = future.result()
                results.append(result)
                print(f"{result.verdict:10} {result.seconds:6.0f} s  {result.name}: {result.by}", flush=True)
                if result.verdict != "wrong" and not (is_quick and result.verdict == "survived"):
                    record = {"tree": tree, "key": running[future].key, "result": vars(result)}
                    print(json.dumps(record), file=stream, flush=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for group in [*RUNNING]:
                kill(group)
    return results


if __name__ == "__main__":
    sys.exit(main())
