"""The shards of all parts of a corpus in one folder."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hf_scaffold._utils.arguments import flag, knows_its_arguments, strings
from hf_scaffold._utils.files import naming, saving
from hf_scaffold._utils.strict_json import shown
from hf_scaffold._utils.urls import Place, Source, Url, copy_file, place
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.shards.files import Shard, find_shard_files, is_whole, names_of, sizes_in
from hf_scaffold.shards.index import INDEX_FILE, ShardIndex
from hf_scaffold.shards.writing import sole_writer
from hf_scaffold.tables.parts import some_missing


@knows_its_arguments
def join_shards(
    folders: Source | Iterable[Source],
    output_dir: Source,
    *,
    overwrite: bool = False,
) -> ShardIndex:
    """Join the shards of all parts of a corpus, in the order of the parts.

    The shards are those of the parts, numbered anew. So the result depends on the corpus, the tokenizer, the
    settings and the number of parts alone, not on the machines or their order. A local folder gets all of it
    or nothing; in a store, the index says so once all is there.

    Args:
        folders: A folder, URL or glob pattern, or several, that `write_shards` filled with a part each. They
            are not modified.
        output_dir: Made if needed; or a URL. Shards are hard links where the system has them, else copies,
            which a store makes by itself of its own files.
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
    kinds = (str, os.PathLike, Url)
    names = [folders] if isinstance(folders, kinds) else strings("folders", folders, kinds)
    parts = _in_order([folder for name in names for folder in _matching_folders(place(name))])
    old = [(folder, shard) for folder, index in parts for shard in index.shards]
    for folder, index in parts:
        sizes = sizes_in(folder)
        for shard in index.shards:
            if not is_whole(shard, sizes):
                raise ArtifactError(
                    f"{folder / shard.name} is missing or not whole; tokenize that part again"
                )
    new = [_renamed(shard, number) for number, (_, shard) in enumerate(old)]
    joined = replace(parts[0][1], part=None, shards=tuple(new), complete=True)
    output = place(output_dir)
    sources = [folder / name for folder, shard in old for name in names_of(shard)]
    targets = [name for shard in new for name in names_of(shard)]
    with sole_writer(output) as check:
        if not flag("overwrite", overwrite) and _holds(output, joined):
            return joined
        if isinstance(output, Url):
            _copy_to_store(sources, targets, output, joined, check)
        else:
            with saving(str(output), ["shard-*"]) as staging, naming(output):
                for source, target in zip(sources, targets, strict=True):
                    _link(source, Path(staging, target))
                Path(staging, INDEX_FILE).write_bytes(joined.to_json())
    return joined


def _copy_to_store(
    sources: Sequence[Place],
    targets: Sequence[str],
    output: Url,
    joined: ShardIndex,
    check: Callable[[], None],
) -> None:
    """Copy shards into a store. Until all are there, the index has none; a later call begins anew."""
    replace(joined, shards=(), complete=False).save(output)
    for path, _, _ in [*find_shard_files(output)]:
        if path.name not in targets:
            path.unlink()
    for source, target in zip(sources, targets, strict=True):
        check()
        if isinstance(source, Url):
            copy_file(source, output / target)
        else:
            (output / target).upload(source)
    check()
    joined.save(output)


def _matching_folders(name: Place) -> list[Place]:
    if isinstance(name, Url):
        found: list[Place] = [*name.folders()]
    elif os.path.lexists(name):
        return [name]
    else:
        matches = sorted(glob.glob(str(name), recursive=True))
        found = [Path(match) for match in matches if os.path.isdir(match)]
    if not found:
        raise ConfigurationError(f"there is no folder {name}")
    return found


def _in_order(folders: Sequence[Place]) -> list[tuple[Place, ShardIndex]]:
    """The folder and index of each part; refuses parts that don't go together."""
    found: dict[int, tuple[Place, ShardIndex]] = {}
    wanted: tuple[Place, ShardIndex] | None = None
    for folder in folders:
        try:
            index = ShardIndex.load(folder)
        except FileNotFoundError:
            raise ConfigurationError(f"{folder} has no {INDEX_FILE}, so no part was written there") from None
        number = index.part
        if len(folders) == 1 and index.n_parts == 1:
            number = 0  # a job array of one
        if number is None:
            raise ConfigurationError(f"{folder} holds no part of a corpus, but shards of all of it")
        wanted = wanted or (folder, index)
        _refuse_foreign(folder, index, *wanted)
        if not index.complete:
            raise ConfigurationError(f"{folder} is not finished; run the same command for it again")
        if number in found:
            raise ConfigurationError(
                f"{found[number][0]} and {folder} both hold part {number}/{index.n_parts}; "
                "leave one of them out"
            )
        found[number] = folder, index
    if wanted is None:
        raise ConfigurationError("there are no folders to join")
    n_parts = wanted[1].n_parts
    if len(found) < n_parts:
        raise ConfigurationError(f"of {n_parts} parts, these are missing: {some_missing(found, n_parts)}")
    return [found[number] for number in range(n_parts)]


def _refuse_foreign(folder: Place, index: ShardIndex, first: Place, wanted: ShardIndex) -> None:
    for name, value in vars(wanted).items():
        if name not in ("part", "shards", "complete") and getattr(index, name) != value:
            raise ConfigurationError(
                f"{folder} holds a part of another run than {first}: its {name} is "
                f"{shown(getattr(index, name))}, not {shown(value)}"
            )


def _renamed(shard: Shard, number: int) -> Shard:
    return replace(shard, name=f"shard-{number:05d}{Path(shard.name).suffix}")


def _holds(folder: Place, joined: ShardIndex) -> bool:
    """Whether the folder holds these shards; refuses one with others."""
    try:
        found = ShardIndex.load(folder)
    except FileNotFoundError:
        found = None
    if found == joined:
        sizes = sizes_in(folder)
        return all(is_whole(shard, sizes) for shard in joined.shards)
    if found == replace(joined, shards=(), complete=False):
        return False  # in a store, what a call has left that was cut off
    if found or any(find_shard_files(folder)):
        raise ConfigurationError(f"{folder} holds other shards; choose another folder, or overwrite")
    return False


def _link(source: Place, target: Path) -> None:
    if isinstance(source, Url):
        copy_file(source, target)
        return
    try:
        os.link(source, target)
    except OSError:  # another device, or a system without links
        shutil.copyfile(source, target)
