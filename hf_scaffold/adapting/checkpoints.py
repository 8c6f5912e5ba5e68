"""Safetensors files copied byte for byte but for some tensors, in the memory of a part of one."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO, Any

from hf_scaffold._utils.strict_json import parse, shown
from hf_scaffold.errors import ArtifactError, ConfigurationError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"

_OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack", "*.gguf", "*.safetensors")
_COPIED_AT_ONCE = 1 << 24  # bytes


@dataclass(frozen=True)
class Tensor:
    """A tensor's place in a file: `begin` and `end` count from the first byte of data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class Replacement:
    """What is written in place of a tensor: its shape, and its bytes in parts."""

    shape: tuple[int, ...]
    parts: Iterable[bytes]


@dataclass(frozen=True)
class Weights:
    """A safetensors file's header, checked: its tensors in the order of their data, and its metadata."""

    path: Path
    start: int
    tensors: tuple[Tensor, ...]
    metadata: dict[str, str] | None

    @classmethod
    def read(cls, path: Path) -> Weights:
        """Read the header alone.

        Raises:
            ArtifactError: the file is no safetensors, or truncated.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np"):  # which checks that tensors fill the file, in order
                pass
            with open(path, "rb") as stream:
                size = int.from_bytes(stream.read(8), "little")
                header = parse(stream.read(size))
        except (SafetensorError, ValueError) as error:
            raise ArtifactError(f"{path} can't be read as safetensors: {error}. Fetch it again") from error
        metadata = header.pop("__metadata__", None)
        tensors = [
            Tensor(name, entry["dtype"], tuple(entry["shape"]), *entry["data_offsets"])
            for name, entry in header.items()
        ]
        return cls(path, 8 + size, tuple(sorted(tensors, key=lambda each: (each.begin, each.end))), metadata)

    def write(self, target: Path, replaced: Mapping[str, Replacement]) -> Iterator[int]:
        """Write the file with other tensors in place of some; all else keeps its bytes.

        Yields:
            The old tensors' bytes that are done, as it goes on.
        """
        with open(self.path, "rb") as source, open(target, "wb") as stream:
            stream.write(self._header(replaced))
            for tensor in self.tensors:
                if tensor.name in replaced:
                    for part in replaced[tensor.name].parts:
                        stream.write(part)
                        yield tensor.begin
                    yield tensor.end
                else:
                    source.seek(self.start + tensor.begin)
                    for left in _copy(source, stream, tensor.end - tensor.begin):
                        yield tensor.end - left

    def _header(self, replaced: Mapping[str, Replacement]) -> bytes:
        header: dict[str, Any] = {} if self.metadata is None else {"__metadata__": self.metadata}
        end = 0
        for tensor in self.tensors:
            begin, shape, size = end, tensor.shape, tensor.end - tensor.begin
            if tensor.name in replaced:
                shape = replaced[tensor.name].shape
                size = size // math.prod(tensor.shape) * math.prod(shape)
            end = begin + size
            header[tensor.name] = {"dtype": tensor.dtype, "shape": shape, "data_offsets": [begin, end]}
        data = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
        data += b" " * (-len(data) % 8)  # so that tensors are aligned
        return len(data).to_bytes(8, "little") + data


@dataclass(frozen=True)
class Checkpoint:
    """The weights of a model's folder: one file, or several with an index."""

    files: tuple[Weights, ...]
    index: dict[str, Any] | None

    @classmethod
    def read(cls, folder: Path) -> Checkpoint:
        """Read all headers.

        Raises:
            ConfigurationError: there are no safetensors, or they are in another format.
            ArtifactError: a file is malformed, missing or doesn't hold what the index says.
        """
        if (folder / WEIGHTS).is_file():
            return cls((Weights.read(folder / WEIGHTS),), None)
        if not (folder / INDEX).is_file():
            raise ConfigurationError(_no_weights(folder))
        try:
            index = parse((folder / INDEX).read_bytes())
            places = {str(name): str(file) for name, file in index["weight_map"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"{folder / INDEX} is no index of safetensors: {error!r}") from error
        for file in {*places.values()}:
            if os.path.basename(file) != file or not (folder / file).is_file():
                raise ArtifactError(f"{folder / INDEX} names {shown(file)}, which is no file beside it")
        files = tuple(Weights.read(folder / file) for file in sorted({*places.values()}))
        held = {tensor.name: weights.path.name for weights in files for tensor in weights.tensors}
        for name in sorted(held.keys() | places.keys()):
            if held.get(name) != places.get(name):
                raise ArtifactError(f"{folder / INDEX} and its files don't agree on where {shown(name)} is")
        return cls(files, index)

    @property
    def tensors(self) -> Iterator[Tensor]:
        """All of them, file after file."""
        return (tensor for weights in self.files for tensor in weights.tensors)

    def write(
        self, folder: Path, replaced: Mapping[str, Replacement], update: Callable[[int, int], object]
    ) -> None:
        """Write all files, and the index with the new sizes, if there is one.

        Args:
            update: Called with the bytes that are done, and all of them.
        """
        sizes = [max((tensor.end for tensor in weights.tensors), default=0) for weights in self.files]
        for before, weights in zip(accumulate(sizes, initial=0), self.files, strict=False):
            for done in weights.write(folder / weights.path.name, replaced):
                update(before + done, sum(sizes))
        if self.index is not None:
            index = self._index(self.index, replaced)
            (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")

    def _index(self, index: dict[str, Any], replaced: Mapping[str, Replacement]) -> dict[str, Any]:
        metadata = {**(index.get("metadata") or {})}
        for tensor in self.tensors:
            if tensor.name in replaced:
                before = math.prod(tensor.shape)
                grown = math.prod(replaced[tensor.name].shape) - before
                width = (tensor.end - tensor.begin) // before
                for name, more in (("total_parameters", grown), ("total_size", grown * width)):
                    if name in metadata:
                        metadata[name] += more
        return {**index, "metadata": metadata}


def _no_weights(folder: Path) -> str:
    others = sorted(path.name for pattern in _OTHER_FORMATS for path in folder.glob(pattern))
    if not others:
        return f"{folder} has no {WEIGHTS}, nor {INDEX}; give a model's folder as save_pretrained writes it"
    return (
        f"{folder} has {others[0]}, but no {WEIGHTS}; convert it first: "
        "AutoModel….from_pretrained(folder).save_pretrained(another)"
    )


def is_weights(path: Path) -> bool:
    """Whether a file holds weights in any format, or is an index of such files.

    Example:
        >>> [is_weights(Path(name)) for name in ("model.safetensors", "tf_model.h5", "config.json")]
        [True, True, False]
    """
    return path.name.endswith(".index.json") or any(path.match(pattern) for pattern in _OTHER_FORMATS)


def _copy(source: IO[bytes], target: IO[bytes], n_bytes: int) -> Iterator[int]:
    """Copy bytes from where the files are; yields how many are left."""
    while n_bytes:
        part = source.read(min(n_bytes, _COPIED_AT_ONCE))
        if not part:
            raise ArtifactError(f"{source.name} became shorter while it was read")
        target.write(part)
        n_bytes -= len(part)
        yield n_bytes
