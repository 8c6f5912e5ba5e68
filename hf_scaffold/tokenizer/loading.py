"""Loading a tokenizer from a folder, or by its name on the Hub; where there is neither, a quick answer."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import constants
from huggingface_hub.utils import get_session  # type: ignore[attr-defined]  # exported, unannounced
from tokenizers import Tokenizer

from hf_scaffold._utils.files import refuse_missing_folder
from hf_scaffold.errors import ArtifactError, ConfigurationError

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast


def load_pretrained(source: str, load: Callable[..., Any]) -> Any:
    """Load a folder, or a name on the Hub, by some `from_pretrained`.

    If the Hub can't be reached, only its cache is searched: retrying would take a minute or more.

    Args:
        source: The folder or name.
        load: Takes the source and local_files_only.
    Raises:
        FileNotFoundError: there is neither.
        ValueError: a file is malformed; names it.
    """
    from hf_scaffold.tokenization_scaffold import read_or_name_the_file

    refuse_missing_folder(source)
    if Path(source).exists():
        try:
            return read_or_name_the_file(partial(load, source), source)
        except ValueError as error:
            if "Couldn't instantiate the backend" not in str(error):
                raise
            raise ConfigurationError(
                f"{source} holds no tokenizer of transformers: no tokenizer.json"
            ) from error
    reason = _why_no_hub()
    from_cache = {} if reason is None else {"local_files_only": True}
    try:
        return read_or_name_the_file(partial(load, source, **from_cache), source)
    except (OSError, ValueError) as error:
        if reason is None and isinstance(error, ValueError):
            raise
        where = f"on the Hub: {error}" if reason is None else f"in the Hub's cache, and {reason}"
        raise FileNotFoundError(
            f"there is no folder {source} here, and no tokenizer of that name {where}"
        ) from error


def load_scaffold(source: str) -> ScaffoldTokenizerFast:
    """A saved tokenizer, from a folder or the Hub.

    Raises:
        OSError: there is none.
        ArtifactError, ValueError: a file is truncated, or this is no Scaffold-BPE tokenizer.
    """
    if Path(source).is_file():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), source)
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

    try:
        tokenizer: ScaffoldTokenizerFast = load_pretrained(source, ScaffoldTokenizerFast.from_pretrained)
    except (OSError, ValueError) as error:
        if Path(source).is_dir():
            _refuse_broken_json(Path(source))
        if Path(source).is_dir() or isinstance(error, OSError):
            raise
        raise FileNotFoundError(
            f"there is no folder {source} here, and what the Hub has is no Scaffold-BPE tokenizer: {error}"
        ) from error
    return tokenizer


def _refuse_broken_json(folder: Path) -> None:
    """Name the file that is truncated, where transformers says only at which character."""
    for path in sorted(folder.glob("*.json")):
        try:
            json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ArtifactError(
                f"{path} is not valid JSON ({error}); it may be truncated. Save or fetch it again"
            ) from error


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return True


def load_json(path: Path) -> Tokenizer:
    """A tokenizer.json.

    Raises:
        ConfigurationError: it is none that `tokenizers` can read.
    """
    from hf_scaffold.tokenization_scaffold import is_of_backend

    try:
        return Tokenizer.from_file(str(path))
    except BaseException as error:
        if not is_of_backend(error):
            raise
        reason = str(error) if _is_json(path) else "it is not JSON, or truncated"
        raise ConfigurationError(f"{path} can't be read as a tokenizer: {reason}") from error


def require_ids(backend: Tokenizer, name: str) -> None:
    """Refuse ids that don't tell tokens apart, or that would cost far more than their file.

    Raises:
        ConfigurationError: two tokens share an id, or one is very large; names them.
    """
    from hf_scaffold.tokenization_scaffold import id_violations

    if violation := next(id_violations(backend), None):
        raise ConfigurationError(f"{name} can't be used: {violation}")


def _why_no_hub() -> str | None:
    """Why the Hub can't be asked; None if it answers."""
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        session: Any = get_session()
        status = session.head(constants.ENDPOINT, timeout=constants.HF_HUB_ETAG_TIMEOUT).status_code
    except Exception as error:  # of httpx or httpx2, whichever this release of huggingface_hub has
        return f"the Hub at {constants.ENDPOINT} can't be reached ({error})"
    return f"the Hub at {constants.ENDPOINT} is down ({status})" if status >= 500 else None
