"""What a folder of shards holds, and what it was made of: index.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hf_scaffold._utils.files import settle, write_files
from hf_scaffold._utils.strict_json import parse, shown
from hf_scaffold._utils.urls import Source, Url, place
from hf_scaffold.errors import ArtifactError
from hf_scaffold.shards.files import FORMATS, Shard, is_shard_name

INDEX_FILE = "index.json"
INDEX_VERSION = 1


@dataclass(frozen=True)
class ShardIndex:
    """The content of index.json.

    Args:
        format, shard_size, lines, field: As given to `write_shards`.
        dtype: Of the ids: "uint16", or "uint32" for a vocabulary of more than 65,536.
        vocab_size: One more than the largest id the tokenizer can give.
        eos_token_id: Ends each document; None: nothing does.
        tokenizer_sha256: Of all that ids depend on.
        corpus: Name and bytes of each file.
        part, n_parts: The number of the part of the corpus, and of how many; joined parts have no number.
        shards: The finished ones, in order: name, n_documents, n_tokens, n_bytes, sha256, and idx_sha256, of
            the `.idx` beside a `.bin`.
        complete: Whether these are all.
    """

    format: str
    dtype: str
    vocab_size: int
    eos_token_id: int | None
    shard_size: int
    lines: bool
    field: str
    tokenizer_sha256: str
    corpus: tuple[tuple[str, int], ...]
    part: int | None = None
    n_parts: int = 1
    shards: tuple[Shard, ...] = ()
    complete: bool = False

    @property
    def n_documents(self) -> int:
        """Of all shards."""
        return sum(shard.n_documents for shard in self.shards)

    @property
    def n_tokens(self) -> int:
        """Of all shards, EOS included."""
        return sum(shard.n_tokens for shard in self.shards)

    @property
    def n_bytes(self) -> int:
        """Of all shards."""
        return sum(shard.n_bytes for shard in self.shards)

    def save(self, folder: Source) -> None:
        """Write index.json: its version, these facts, n_documents and n_tokens."""
        where = place(folder)
        if isinstance(where, Url):
            (where / INDEX_FILE).write(self.to_json())
        else:
            write_files(where, {INDEX_FILE: self.to_json()})

    def to_json(self) -> bytes:
        """What `save` writes: each file of the corpus and each shard on a line of its own."""
        content = {"version": INDEX_VERSION, **vars(self)}
        if self.n_parts == 1:  # as ever, so that other releases read it
            del content["part"], content["n_parts"]
        content |= {"n_documents": self.n_documents, "n_tokens": self.n_tokens}
        fields = ",\n".join(f' "{name}": {_written(value)}' for name, value in content.items())
        return f"{{\n{fields}\n}}\n".encode()

    @classmethod
    def load(cls, folder: Source) -> ShardIndex:
        """Read the index of a folder of shards.

        Args:
            folder: Or its URL.
        Raises:
            FileNotFoundError: it doesn't exist.
            ArtifactError: it is invalid or of another version.
        """
        where = place(folder)
        path = where / INDEX_FILE
        if isinstance(path, Url):
            data = path.read()
        else:
            settle(str(where))  # of joined shards that are not all in their places
            data = path.read_bytes()
        try:
            content = parse(data)
            version = content.pop("version")
            if version == INDEX_VERSION:
                del content["n_documents"], content["n_tokens"]
                shards = tuple(Shard(**shard) for shard in content.pop("shards"))
                corpus = tuple((name, size) for name, size in content.pop("corpus"))
                index = cls(**content, corpus=corpus, shards=shards)
                index._check()
                return index
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"{path} is not an index of shards: {error!r:.300}") from error
        raise ArtifactError(f"{path} has version {shown(version)}, not {INDEX_VERSION}; update hf_scaffold")

    def _check(self) -> None:
        """Refuse entries of other types; names of shards are those of files in the folder."""
        sizes = [self.vocab_size, self.shard_size, *(size for _, size in self.corpus)]
        names = [self.tokenizer_sha256, self.field, *(name for name, _ in self.corpus)]
        for shard in self.shards:
            if not is_shard_name(shard.name):
                raise ValueError(f"{shown(shard.name)} is not a shard's name")
            sizes += [shard.n_documents, shard.n_tokens, shard.n_bytes]
            names += [shard.sha256, "" if shard.idx_sha256 is None else shard.idx_sha256]
        sizes += [self.n_parts, *(each for each in (self.eos_token_id, self.part) if each is not None)]
        if self.format not in FORMATS or self.dtype not in ("uint16", "uint32"):
            raise ValueError(f"there is no format {shown(self.format)} of {shown(self.dtype)}")
        if not all(type(size) is int and 0 <= size < 1 << 63 for size in sizes):
            raise ValueError("a size or id is not a whole number")
        if self.n_parts < 1 or (self.part is not None and self.part >= self.n_parts):
            raise ValueError(f"there is no part {shown(self.part)} of {shown(self.n_parts)}")
        if not all(isinstance(name, str) for name in names):
            raise ValueError("a name or digest is not a string")
        if type(self.lines) is not bool or type(self.complete) is not bool:
            raise ValueError("lines or complete is neither true nor false")


# The index is written after each shard, and `json` is several times as slow where it indents.
_encode = json.JSONEncoder(ensure_ascii=False).encode


def _written(value: Any) -> str:
    if not isinstance(value, tuple):
        return _encode(value)
    items = [_encode(item if isinstance(item, tuple) else vars(item)) for item in value]
    return "[\n  {}\n ]".format(",\n  ".join(items)) if items else "[]"
