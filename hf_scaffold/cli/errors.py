"""Errors as the command line shows them: one line, of options in place of Python's arguments."""

import errno
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hf_scaffold.cli import terminal

TRACEBACK = "HF_SCAFFOLD_TRACEBACK"

# Arguments and calls of Python that options don't have by the same name.
_INSTEAD = {
    "; read it with hs.ScaffoldBPE.load": "; give the tokenizer's folder",
    ", or started by a script that calls count() outside `if __name__ == '__main__':`": "",
}


def describe(error: Exception) -> str:
    """What to say of an error."""
    if hasattr(error, "format_message"):  # click's, wherever typer has its click from
        command = getattr(getattr(error, "ctx", None), "command_path", terminal.NAME)
        message = error.format_message().removeprefix("Invalid value: ").rstrip(".")
        return f"{message}; see {command} --help"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return f"stdout: {error.strerror}"  # whatever is written elsewhere is named
    if isinstance(error, OSError | ValueError | OverflowError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} ({TRACEBACK}=1 shows where)"


def in_options(message: str, command: Any, arguments: Sequence[str] | None) -> str:
    """A message of the library with options in place of arguments.

    Args:
        message: It names arguments by themselves, "vocab_size is 5" or "vocab_sizes[1] …", or with a value:
            "alphabet='chars'", "num_workers=1", "log=True".
        command: The group of commands.
        arguments: Those given, whose first one is the command; None: those of the process.
    """
    given = sys.argv[1:] if arguments is None else arguments
    chosen = command.commands.get(next(iter(given), None))
    others = [each for each in command.commands.values() if each is not chosen]
    # Of an option that several commands have, the name is the same.
    options = {name: option for each in [*others, chosen] if each for name, option in _options(each).items()}
    for python, instead in _INSTEAD.items():
        message = message.replace(python, instead)
    return _named(_with_values(message, options), _options(chosen) if chosen else {})


def _options(command: Any) -> dict[str, str]:
    return {param.name: max(param.opts, key=len) for param in command.params}


def _with_values(message: str, options: Mapping[str, str]) -> str:
    def as_option(found: re.Match[str]) -> str:
        value = found[2].strip("'")
        return options[found[1]] if value == "True" else f"{options[found[1]]} {value}"

    return re.sub(rf"(?<![\w/.'-])({'|'.join(options)})=('[\w-]+'|True|\d+)(?![\w/.'])", as_option, message)


def _named(message: str, options: Mapping[str, str]) -> str:
    # Names in one word may be words of the sentence, or parts of a path.
    longer = {f"{name}{end}": option for name, option in options.items() if "_" in name for end in ("", "s")}
    return re.sub(
        rf"(?<![\w/.'-])({'|'.join(longer) or '(?!)'})(\[\d+\])?(?![\w/.'=])",
        lambda found: longer[found[1]],
        message,
    )
