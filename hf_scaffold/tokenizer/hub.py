"""From a folder to the Hub, for the command line: checks first, then errors that say what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # exported, unannounced

from hf_scaffold._utils.files import settle
from hf_scaffold.errors import ConfigurationError, HubError
from hf_scaffold.tokenizer.loading import load_scaffold


@dataclass(frozen=True)
class Push:
    """What a push left on the Hub: the repository's name and address, and the commit's or pull request's."""

    repo_id: str
    url: str
    commit_url: str


def push_folder(
    folder: Path,
    repo_id: str,
    *,
    private: bool | None = None,
    revision: str | None = None,
    message: str | None = None,
) -> Push:
    """Push a saved tokenizer, with its model card, to a repository, made if needed.

    Files of the repository that are none of the tokenizer's stay, and so does a README.md of its owner's.

    Args:
        folder: A tokenizer that was saved there.
        repo_id: user/name, or a name among one's own.
        private: Whether a new repository is private. None: what the account's settings say.
        revision: The branch, made if needed; None is the main one.
        message: Of the commit; None: "Upload tokenizer".
    Raises:
        OSError, ValueError: the folder holds no tokenizer of this package.
        ConfigurationError: the repository's name is malformed, or there is no token.
        HubError: the Hub can't be reached, or refuses.
    """
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ConfigurationError(f"{repo_id!r} can't name a repository (user/name): {error}") from None
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder", str(folder))
    settle(str(folder))
    if not (folder / "scaffold.json").is_file():
        raise ConfigurationError(f"{folder} holds no tokenizer of hf_scaffold: there is no scaffold.json")
    tokenizer = load_scaffold(str(folder.absolute()))
    if get_token() is None:
        raise ConfigurationError(
            "there is no token for the Hub: log in with `hf auth login`, or set HF_TOKEN"
        )
    with _hub_errors(repo_id):
        commit = tokenizer.push_to_hub(repo_id, private=private, revision=revision, commit_message=message)
    return Push(commit.repo_url.repo_id, str(commit.repo_url), commit.commit_url)


@contextmanager
def _hub_errors(repo_id: str) -> Iterator[None]:
    """What goes wrong between here and the Hub, as a HubError."""
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        hint = {
            401: "; is the token right? `hf auth login` sets another",
            403: "; the token must have write access to the repository or its namespace",
        }.get(status, "")
        said = error.server_message or str(error).strip().splitlines()[-1]
        raise HubError(f"the Hub refuses to take {repo_id} ({status}): {said}{hint}") from error
    except Exception as error:
        # Of httpx or of httpx2, whichever this release of huggingface_hub has.
        if not any(kind.__name__ == "TransportError" for kind in type(error).__mro__):
            raise
        raise HubError(
            f"can't reach the Hub at {constants.ENDPOINT}: {error}; check the network and HF_ENDPOINT"
        ) from error
