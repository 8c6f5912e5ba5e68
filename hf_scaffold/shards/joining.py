"""The shards of all parts of a corpus in one folder."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hf_scaffold._utils.arguments import flag, knows_its_arguments, strings
from hf_scaffold._utils.files import made, naming, saving
from hf_scaffold._utils.strict_json import shown
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.shards.files import Shard, find_shard_files
from hf_scaffold.shards.index import INDEX_FILE, ShardIndex
from hf_scaffold.shards.writing import is_whole, sole_writer
from hf_scaffold.tables.parts import some_missing


@knows_its_arguments
def join_shards(
    folders: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    output_dir: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> ShardIndex:
    """Join the shards of all parts of a corpus, in the order of the parts.

    The shards are those of the parts, numbered anew. So the result depends on the corpus, the tokenizer, the
    settings and the number of parts alone, not on the machines or their order. The folder gets all of it or
    nothing.

    Args:
        folders: A folder or glob pattern, or several, that `write_shards` filled with a part each. They are
            not modified.
        output_dir: Made if needed. Shards are hard links where the system has them, else copies.
        overwrite: Replace other shards that are there.
    Returns:
        The index of the joined shards.
    Raises:
        ConfigurationError: a part is missing, there twice, not finished, of another tokenizer, corpus or
            other settings; or output_dir holds other shards. Names the folders.
        ArtifactError: an index can't be read, or a shard is missing or truncated.
        OSError: a file can't be read or written.
    Example:
        >>> import hf_scaffold as hs, tempfile
        >>> tokenizer = hs.train_tokenizer(["the cat sat"], 258, special_tokens=["</s>"], eos_token="</s>")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "text.jsonl").write_text('{"text": "the cat"}\\n{"text": "sat"}\\n')
        ...     for i in range(2):
        ...         _ = hs.write_shards(f"{folder}/*.jsonl", tokenizer, f"{folder}/part-{i}", part=(i, 2))
        ...     index = join_shards(f"{folder}/part-*", f"{folder}/shards")
        >>> index.n_documents, [shard.name for shard in index.shards]
        (2, ['shard-00000.bin', 'shard-00001.bin'])
    """
    kinds = (str, os.PathLike)
    names = [folders] if isinstance(folders, kinds) else strings("folders", folders, kinds)
    parts = _in_order([folder for name in names for folder in _matching_folders(os.fspath(name))])
    old = [(folder, shard) for folder, index in parts for shard in index.shards]
    for folder, shard in old:
        if not is_whole(folder / shard.name, shard):
            raise ArtifactError(f"{folder / shard.name} is missing or not whole; tokenize that part again")
    new = [_renamed(shard, number) for number, (_, shard) in enumerate(old)]
    joined = replace(parts[0][1], part=None, shards=tuple(new), complete=True)
    output = Path(output_dir)
    with made(str(output)), sole_writer(output):
        if not flag("overwrite", overwrite) and _holds(output, joined):
            return joined
        with saving(str(output), ["shard-*"]) as staging, naming(output):
            for (folder, shard), renamed in zip(old, new, strict=True):
                for source, target in zip(_files_of(shard), _files_of(renamed), strict=True):
                    _link(folder / source, Path(staging, target))
            Path(staging, INDEX_FILE).write_bytes(joined.to_json())
    return joined


def _matching_folders(name: str) -> list[Path]:
    if os.path.lexists(name):
        return [Path(name)]
    found = [Path(match) for match in sorted(glob.glob(name, recursive=True)) if os.path.isdir(match)]
    if not found:
        raise ConfigurationError(f"there is no folder {name}")
    return found


def _in_order(folders: Sequence[Path]) -> list[tuple[Path, ShardIndex]]:
    """The folder and index of each part; refuses parts that don't go together."""
    found: dict[int, tuple[Path, ShardIndex]] = {}
    wanted: tuple[Path, ShardIndex] | None = None
    for folder in folders:
        try:
            index = ShardIndex.load(folder)
        except FileNotFoundError:
            raise ConfigurationError(f"{folder} has no {INDEX_FILE}, so no part was written there") from None
        if index.part is None:
            raise ConfigurationError(f"{folder} holds no part of a corpus, but shards of all of it")
        wanted = wanted or (folder, index)
        _refuse_foreign(folder, index, *wanted)
        if not index.complete:
            raise ConfigurationError(f"{folder} is not finished; run the same command for it again")
        if index.part in found:
            raise ConfigurationError(
                f"{found[index.part][0]} and {folder} both hold part {index.part}/{index.n_parts}; "
                "leave one of them out"
            )
        found[index.part] = folder, index
    if wanted is None:
        raise ConfigurationError("there are no folders to join")
    n_parts = wanted[1].n_parts
    if len(found) < n_parts:
        raise ConfigurationError(f"of {n_parts} parts, these are missing: {some_missing(found, n_parts)}")
    return [found[number] for number in range(n_parts)]


def _refuse_foreign(folder: Path, index: ShardIndex, first: Path, wanted: ShardIndex) -> None:
    for name, value in vars(wanted).items():
        if name not in ("part", "shards", "complete") and getattr(index, name) != value:
            raise ConfigurationError(
                f"{folder} holds a part of another run than {first}: its {name} is "
                f"{shown(getattr(index, name))}, not {shown(value)}"
            )


def _renamed(shard: Shard, number: int) -> Shard:
    return replace(shard, name=f"shard-{number:05d}{Path(shard.name).suffix}")


def _files_of(shard: Shard) -> Iterator[str]:
    yield shard.name
    if shard.idx_sha256 is not None:
        yield str(Path(shard.name).with_suffix(".idx"))


def _holds(folder: Path, joined: ShardIndex) -> bool:
    """Whether the folder holds these shards; refuses one with others."""
    try:
        found = ShardIndex.load(folder)
    except FileNotFoundError:
        found = None
    if found == joined and all(is_whole(folder / shard.name, shard) for shard in joined.shards):
        return True
    if found != joined and (found or any(find_shard_files(folder))):
        raise ConfigurationError(f"{folder} holds other shards; choose another folder, or overwrite")
    return False


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another device, or a system without links
        shutil.copyfile(source, target)
