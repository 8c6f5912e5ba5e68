"""The commands, run in this process and as the installed program."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

from hf_scaffold.cli import commands


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def __repr__(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = commands.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def succeed(run):
    def succeed(*arguments):
        result = run(*arguments)
        assert result.code == 0, result
        assert result.err == "", result
        return result.out

    return succeed


@pytest.fixture
def fail(run):
    """The error's line of a command that must fail."""

    def fail(*arguments):
        result = run(*arguments)
        assert (result.code, result.out) == (2, ""), result
        assert re.fullmatch(r"hf-scaffold: error: [^\n]+\n", result.err), result
        return result.err

    return fail


@pytest.fixture(scope="session")
def program():
    """Runs the installed program; `program.path` is where it is."""

    def program(*arguments, **kwargs):
        return subprocess.run(
            [program.path, *map(str, arguments)],
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            **kwargs,
        )

    program.path = Path(sysconfig.get_path("scripts"), "hf-scaffold")
    return program
