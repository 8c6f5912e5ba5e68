"""The files of an artifact: their names, and reading them entry by entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from hf_scaffold._utils.strict_json import parse, shown
from hf_scaffold.errors import ArtifactError
from hf_scaffold.methods.steps import Step, steps_from_json
from hf_scaffold.text.symbols import Pair
from hf_scaffold.training.checks import are_tokens
from hf_scaffold.training.log import TrainingLog

FORMAT_VERSION = 1
VERSION_WITH_STEPS = 2  # which releases that know no steps refuse
VOCAB_FILE, MERGES_FILE, DEMOLISH_FILE = "vocab.json", "merges.txt", "demolish.json"
LOG_FILE = "log.jsonl"
MERGES_JSON_FILE = "merges.json"
FILES = (VOCAB_FILE, MERGES_FILE, MERGES_JSON_FILE, DEMOLISH_FILE, LOG_FILE)
MERGES_HEADER = "#version: 0.2"


def read_json(path: Path) -> dict[str, Any]:
    content = _parse_json(path)
    if not isinstance(content, dict):
        raise ArtifactError(f"{path}: holds a {type(content).__name__}, not a JSON object")
    return content


def _parse_json(path: Path) -> Any:
    text = _read_text(path)
    try:
        return parse(text)
    except ValueError as error:
        raise ArtifactError(f"{path}: truncated or not JSON: {error}") from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path}: not UTF-8 at byte {error.start}") from None
    except IsADirectoryError:
        raise ArtifactError(f"{path}: is a folder, not a file") from None


def read_log(folder: Path) -> TrainingLog:
    path = folder / LOG_FILE
    return TrainingLog.from_jsonl(_read_text(path), str(path))


def token_lists(content: Mapping[str, Any], name: str) -> dict[str, tuple[str, ...]]:
    """An entry of demolish.json that maps tokens to lists of tokens."""
    lists = content[name]
    if not isinstance(lists, dict) or not all(isinstance(tokens, list) for tokens in lists.values()):
        raise ArtifactError(f"{name}: {shown(lists)} doesn't map tokens to lists of tokens")
    return {token: tuple(tokens) for token, tokens in lists.items()}


def pairs(content: Mapping[str, Any], name: str) -> dict[str, Pair]:
    lists = token_lists(content, name)
    for token, pair in lists.items():
        if len(pair) != 2:
            raise ArtifactError(f"{name}: {shown(pair)}, for {shown(token)}, is not two tokens")
    return {token: (left, right) for token, (left, right) in lists.items()}


def read_vocab(path: Path) -> dict[str, int]:
    vocab = read_json(path)
    for token, token_id in vocab.items():
        if type(token_id) is not int:
            raise ArtifactError(f"{path}: the id of {shown(token)} is {shown(token_id)}, not a whole number")
    return dict(sorted(vocab.items(), key=itemgetter(1)))


def merges_text(merges: Sequence[Pair]) -> str | None:
    """The content of merges.txt; None where a token has a space or line end."""
    lines = [MERGES_HEADER]
    for left, right in merges:
        if any(character in left or character in right for character in " \n\r"):
            return None
        lines.append(f"{left} {right}")
    return "\n".join(lines) + "\n"


def read_merges_json(folder: Path) -> list[Pair]:
    path = folder / MERGES_JSON_FILE
    return merge_list(_parse_json(path), str(path))


def merge_list(merges: Any, where: str) -> list[Pair]:
    """Merges as JSON has them, from a file or entry."""
    if not isinstance(merges, list):
        raise ArtifactError(f"{where}: holds a {type(merges).__name__}, not a list of merges")
    for number, pair in enumerate(merges):
        if not isinstance(pair, list) or not are_tokens([tuple(pair)], pairs=True):
            raise ArtifactError(f"{where}: merge {number}, {shown(pair)}, is not two tokens")
    return [(left, right) for left, right in merges]


def read_merges(path: Path) -> list[Pair]:
    lines = _read_text(path).removesuffix("\n").split("\n")
    merges: list[Pair] = []
    for number, line in enumerate(lines, start=1):
        if number == 1 and line.startswith("#version"):
            continue
        left, _, right = line.partition(" ")
        if not left or not right or " " in right:
            raise ArtifactError(
                f"{path}, line {number}: {shown(line)} is not two tokens and a space between them"
            )
        merges.append((left, right))
    return merges


def read_steps(demolish: dict[str, Any], path: Path) -> list[Step] | None:
    """The steps in demolish.json, if there are any.

    Raises:
        ArtifactError: one is of another form.
    """
    if "steps" not in demolish:
        return None
    try:
        return steps_from_json(demolish["steps"])
    except ValueError as error:
        raise ArtifactError(f"{path}: {error}") from None
