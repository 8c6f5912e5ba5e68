"""The model card that goes to the Hub with a tokenizer: what it is, how to load it, what it was trained on.

A card is a README.md of YAML metadata and Markdown. What hf_scaffold writes stands between two marks and is
written anew at every push. Everything else in a repository's README.md belongs to its owner and stays; a
README.md without the marks is left alone altogether.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import ModelCard, ModelCardData, hf_hub_download
from huggingface_hub.errors import RemoteEntryNotFoundError, RevisionNotFoundError

from hf_scaffold._utils.files import write_files
from hf_scaffold.training.agreement import percent_down

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

BEGIN = "<!-- hf_scaffold: down to the end mark every push writes this anew; what is outside stays yours. -->"
END = "<!-- hf_scaffold: end -->"
MAX_VALUES = 20  # names of files shown
TAGS = ["tokenizer", "bpe", "scaffold-bpe"]


def write_card(
    tokenizer: ScaffoldTokenizerFast,
    folder: str | os.PathLike[str],
    repo_id: str,
    *,
    revision: str | None = None,
    token: bool | str | None = None,
    tags: Sequence[str] | None = None,
) -> None:
    """Write the README.md of a push to this repository into a folder, unless the old one stays as it is.

    Args:
        tokenizer: What is pushed.
        folder: Where the push gathers its files.
        repo_id: The repository's name, user/name.
        revision: The branch that is pushed to; one that doesn't exist yet begins as the main one.
        token: As for `huggingface_hub.hf_hub_download`.
        tags: To be among the card's tags, whoever wrote it.
    Raises:
        HfHubHTTPError, OSError: the repository can't be read.
    """
    old = _card_in_repository(repo_id, revision, token)
    new = update_card(old, make_card(tokenizer, repo_id), tags or ())
    if new != old:
        write_files(folder, {"README.md": new.encode(errors="surrogateescape")})


def _card_in_repository(repo_id: str, revision: str | None, token: bool | str | None) -> str | None:
    # A cache of its own, since the user's may hold an older card, which would be taken if the Hub is down.
    with tempfile.TemporaryDirectory() as cache:
        try:
            path = hf_hub_download(repo_id, "README.md", revision=revision, token=token, cache_dir=cache)
        except RemoteEntryNotFoundError:
            return None
        except RevisionNotFoundError:
            # A repository without a commit has no main branch either.
            return None if revision is None else _card_in_repository(repo_id, None, token)
        return Path(path).read_bytes().decode(errors="surrogateescape")


def update_card(old: str | None, card: str, tags: Sequence[str] = ()) -> str:
    """The old card with the part between the marks from the new one; the new one if there is no old one.

    Args:
        old: A repository's README.md, or None.
        card: What `make_card` gave.
        tags: Added to the tags in the metadata, where they aren't among them yet.
    Example:
        >>> old = f"# Mine\\n{BEGIN}\\n10 tokens\\n{END}\\nmore of mine\\n"
        >>> card = f"# Written\\n{BEGIN}\\n20 tokens\\n{END}\\n"
        >>> update_card(old, card) == old.replace("10", "20")
        True
        >>> update_card("# Mine alone", card)
        '# Mine alone'
    """
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    written = marked.search(card)
    if written is None:
        raise ValueError("the card has no part between marks")
    updated = card if old is None else marked.sub(lambda _: written[0], old, count=1)
    return _with_tags(updated, tags)


def _with_tags(card: str, tags: Sequence[str]) -> str:
    if not tags:
        return card  # to the byte, which parsing doesn't promise
    parsed = ModelCard(card, ignore_metadata_errors=True)
    present = parsed.data.get("tags") or []
    parsed.data["tags"] = [*present, *(tag for tag in dict.fromkeys(tags) if tag not in present)]
    return str(parsed)


def make_card(tokenizer: ScaffoldTokenizerFast, repo_id: str) -> str:
    """A model card for a tokenizer, as Markdown with metadata that the Hub knows.

    The same tokenizer gives the same card.

    Args:
        tokenizer: Its scaffold.json tells what it was trained on, unless an older release made it.
        repo_id: The repository's name, for the lines that load the tokenizer.
    Example:
        >>> import hf_scaffold as hs
        >>> card = make_card(hs.train_tokenizer(["some text"], vocab_size=258), "me/words")
        >>> card.splitlines()[:3]
        ['---', 'library_name: transformers', 'tags:']
        >>> 'AutoTokenizer.from_pretrained("me/words")' in card
        True
    """
    scaffold = tokenizer.scaffold
    training = scaffold.get("training") or {}
    size = tokenizer._tokenizer.get_vocab_size(with_added_tokens=False)
    n_scaffolds = len(scaffold["demolish"])
    metadata = ModelCardData(library_name="transformers", tags=TAGS if n_scaffolds else TAGS[:-1])
    sections = [
        _introduction(repo_id, size, n_scaffolds),
        _loading(repo_id, scaffold["raw_agreement"]),
        _sizes(tokenizer, size, n_scaffolds, scaffold),
        _training(training),
    ]
    body = "\n\n".join([BEGIN, *sections, END])
    return f"---\n{metadata.to_yaml()}\n---\n\n{body}\n"


def _introduction(repo_id: str, size: int, n_scaffolds: int) -> str:
    title = f"# {repo_id.rpartition('/')[2]}\n\n"
    if not n_scaffolds:
        return (
            f"{title}A BPE tokenizer of {size:,} tokens, without scaffold tokens, trained with hf_scaffold."
        )
    return f"""{title}A Scaffold-BPE tokenizer of {size:,} tokens, trained with hf_scaffold.

Ordinary BPE keeps every token it ever merges. A token like `zona`, which exists only on the way to `Arizona`,
then sits in the vocabulary, rare and badly learned. Scaffold-BPE
([Lian et al., 2024](https://arxiv.org/abs/2404.17808)) keeps such *scaffold tokens* as merge steps only: they
have no id, and frequent tokens take their place. One that is left over after merging is *demolished* into its
parts."""


def _loading(repo_id: str, agreement: float | None) -> str:
    share = "nearly all" if agreement is None else percent_down(agreement)
    return f"""## How to load it

With hf_scaffold installed (`pip install hf_scaffold`):

```python
import hf_scaffold  # from here on AutoTokenizer knows the class
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo_id}")
```

Without it, transformers can run the class that lies in this repository (`tokenization_scaffold.py`), with the
same ids:

```python
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{repo_id}", trust_remote_code=True)
```

A program that reads `tokenizer.json` alone knows nothing of demolishing. It finds a plain BPE over the same
ids there: every id it gives exists, and what it decodes is right. But of the training text's pre-tokens it
splits {share} as the exact tokenizer does (the *raw agreement*), the others differently. Of other text it
splits fewer alike, and far fewer if it doesn't know the setting `ignore_merges`. A model should get its text
through the tokenizer that it was trained with."""


def _sizes(tokenizer: ScaffoldTokenizerFast, size: int, n_scaffolds: int, scaffold: Mapping[str, Any]) -> str:
    special = [
        token for token in tokenizer.added_tokens_decoder.items() if token[0] < size and token[1].special
    ]
    n_made = size + n_scaffolds
    rows = [
        ("tokens", f"{size:,}"),
        ("special tokens among them", f"{len(special):,}"),
        ("scaffold tokens, on top and without id", f"{n_scaffolds:,}"),
        ("their share of all tokens made", f"{100 * n_scaffolds / n_made:.1f} % of {n_made:,}"),
        ("raw agreement", _agreement(scaffold, "raw_agreement")),
        ("raw agreement without `ignore_merges`", _agreement(scaffold, "raw_agreement_merges_only")),
        ("raw agreement on text not trained on, estimated", _agreement(scaffold, "raw_agreement_unseen")),
    ]
    if added := len(tokenizer) - size:
        rows.append(("tokens added after training", f"{added:,}"))
    return _table("Sizes", rows)


def _agreement(scaffold: Mapping[str, Any], name: str) -> str:
    share = scaffold.get(name)
    return "not measured" if share is None else f"{percent_down(share)} of pre-tokens"


def _training(training: Mapping[str, Any]) -> str:
    known = [(name, training.get(key)) for name, key in _TRAINING]
    rows = [(name, _value(value)) for name, value in known if value is not None]
    return _table("Training", rows) if rows else "## Training\n\nThe corpus is not on record."


_TRAINING = [
    ("corpus", "sources"),
    ("bytes", "bytes"),
    ("pre-tokens", "pretokens"),
    ("distinct pre-tokens", "distinct_pretokens"),
    ("pre-tokenizer", "pretokenizer"),
    ("merges start from", "alphabet"),
    ("settings", "settings"),
]


def _value(value: Any) -> str:
    """A recorded value as Markdown that fits into a table's cell."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Mapping):
        value = [f"{name}={setting}" for name, setting in value.items() if setting is not None]
    values = value if isinstance(value, list) else [value]
    more = f" and {len(values) - MAX_VALUES:,} more" if len(values) > MAX_VALUES else ""
    return ", ".join(map(_code, values[:MAX_VALUES])) + more


def _code(value: Any) -> str:
    """A value as Markdown code; what would end code or cell becomes a question mark.

    Example:
        >>> _code("a|b.txt")
        '`a?b.txt`'
    """
    return f"`{''.join(c if c.isprintable() and c not in '`|<>' else '?' for c in str(value))}`"


def _table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| {name} | {value} |" for name, value in rows]
    return "\n".join([f"## {title}", "", "| | |", "|---|---|", *lines])
