"""Training shards: a corpus as files of token ids that training programs map into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from hf_scaffold._core.counter import last_cut
from hf_scaffold._utils.arguments import (
    flag,
    knows_its_arguments,
    progress,
    progress_shown,
    shortened,
    string,
    strings,
    whole,
)
from hf_scaffold._utils.files import locked, made, saving
from hf_scaffold._utils.process import no_garbage_collection
from hf_scaffold._utils.strict_json import shown
from hf_scaffold._utils.urls import Place, Source, Url, place, size_of, temporary_folder
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.shards.encoding import encoder_for
from hf_scaffold.shards.files import (
    FORMATS,
    Shard,
    ShardWriter,
    Tokens,
    find_shard_files,
    is_whole,
    names_of,
    open_shard,
    sizes_in,
)
from hf_scaffold.shards.fingerprint import fingerprint, fingerprint_of_0_1, n_ids
from hf_scaffold.shards.index import INDEX_FILE, ShardIndex
from hf_scaffold.text.corpus import Progress, describe_corpus, iter_texts
from hf_scaffold.text.files import find_files, import_extra
from hf_scaffold.text.parts import Part
from hf_scaffold.text.presets import preset_of
from hf_scaffold.text.texts import Texts, joined

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

LOCK_FILE = ".lock"
SHARD_SIZE = 100_000_000  # tokens
BATCH_SIZE = 1 << 21  # bytes of text read and encoded at a time
CUT_WINDOW = 1 << 14  # bytes at a block's end that are searched for a place to cut

_Item = TypeVar("_Item")


@knows_its_arguments
def write_shards(
    corpus: Source | Iterable[Source],
    tokenizer: ScaffoldTokenizerFast,
    output_dir: Source,
    *,
    format: str = "bin",
    shard_size: int = SHARD_SIZE,
    add_eos: bool | None = None,
    lines: bool = False,
    text_field: str = "text",
    part: tuple[int, int] | str | None = None,
    overwrite: bool = False,
    show_progress: bool | Progress = False,
) -> ShardIndex:
    """Encode a corpus into shards of token ids, in the corpus' order; resume where an earlier run stopped.

    A shard has whole documents: the next ones until there are shard_size tokens or more. Only a complete one
    gets its name, and isn't written again. The same corpus, tokenizer and settings give the same bytes,
    however often the run was stopped.

    Args:
        corpus: A file, URL or glob pattern, or several; formats and order as for `count`. A plain-text file
            is one document. A corpus counts as the same if its files' names and sizes are.
        tokenizer: Encodes each document as it would in a call, but adds no special token except EOS.
        output_dir: Made if needed; gets `shard-00000.bin`, `shard-00001.bin`, … and `index.json`. Of a URL, a
            shard lies in the system's temporary folder until it is complete.
        format: "bin": the ids alone, little-endian, for np.memmap; beside it an `.idx` that Megatron reads.
            "npy": an array, for np.load(mmap_mode="r"). "parquet", "arrow": a row a document, `input_ids`.
            The ids are uint16 up to a vocabulary of 65,536, else uint32.
        shard_size: Tokens that make a shard full.
        add_eos: End each document with the EOS token. None: if the tokenizer has one.
        lines: Each line of plain text is a document, with its line end.
        text_field: As for `count`.
        part: Encode only this part of the corpus, such as (3, 64) or "3/64", as for `count`, but of whole
            documents: a plain-text file that is one is in the part where it begins. Each part takes a folder
            of its own; `join_shards` joins them.
        overwrite: Start anew, whatever shards are there.
        show_progress: As for `count`; called from another thread.
    Returns:
        The complete index.
    Raises:
        ConfigurationError: an unknown format, no EOS token, another run that is writing into the folder, or
            the folder holds other shards: the message says what differs.
        CorpusError: the corpus is empty, or can't be read. Finished shards stay.
        ArtifactError: the folder's index can't be read.
    Cost: some 100 to 200 MB of memory; if documents can't be cut (the pre-tokenizer is no preset, or an added
        token takes white space) also the longest one's text, and for rows some 30 bytes for each of its
        tokens. A batch of 2 MB is encoded while the next is read and the last written.
    Example:
        >>> import hf_scaffold as hs, tempfile
        >>> tokenizer = hs.train_tokenizer(["the cat sat"], 258, special_tokens=["</s>"], eos_token="</s>")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Path(folder, "text.txt").write_text("the cat")
        ...     index = write_shards(Path(folder, "text.txt"), tokenizer, folder)
        ...     tokenizer.decode(np.memmap(Path(folder, index.shards[0].name), np.uint16, "r"))
        'the cat</s>'
    """
    if not hasattr(tokenizer, "encode_batch_to_arrays"):
        raise TypeError(
            f"tokenizer must be a ScaffoldTokenizerFast, not {shortened(tokenizer)}; for a folder or "
            "a name on the Hub, take AutoTokenizer.from_pretrained(…)"
        )
    kinds = (str, os.PathLike, Url)
    names = [corpus] if isinstance(corpus, kinds) else strings("corpus", corpus, kinds)
    folder = place(output_dir)
    string("text_field", text_field)
    shard_size = whole("shard_size", shard_size, least=1)
    lines, overwrite = flag("lines", lines), flag("overwrite", overwrite)
    add_eos = None if add_eos is None else flag("add_eos", add_eos)
    chosen = None if part is None else Part.checked(part)
    show_progress = progress(show_progress, "bytes_read, bytes_total")
    paths = find_files(map(place, names))
    cut = None if lines else _cut_for(tokenizer)
    with progress_shown(show_progress, "Tokenizing", "B") as report:
        texts = iter_texts(
            paths,
            text_field=text_field,
            cut=cut,
            block_size=BATCH_SIZE,
            part=chosen,
            progress=report,
        )
        with no_garbage_collection():
            plan = _plan(paths, tokenizer, format, shard_size, add_eos, lines, text_field, chosen)
        # Complete or foreign shards need no lock, and may lie in a folder that can't be written to.
        if not overwrite and (index := _resume(plan, folder, paths, tokenizer)).complete:
            _tidy(folder)
            return index
        with sole_writer(folder) as check:
            # Another run may have ended meanwhile.
            index = plan if overwrite else _resume(plan, folder, paths, tokenizer)
            return index if index.complete else _complete(index, folder, texts, tokenizer, paths, check)


def _complete(
    index: ShardIndex,
    folder: Place,
    texts: Iterator[Texts],
    tokenizer: ScaffoldTokenizerFast,
    paths: Sequence[Place],
    check: Callable[[], None],
) -> ShardIndex:
    """Write the missing shards; the index with all of them."""
    index.save(folder)
    _remove_others(folder, index.shards)
    batches = _ahead(joined(_after(texts, index.n_documents), BATCH_SIZE // 2))
    encode = encoder_for(tokenizer, index.eos_token_id, index.dtype)
    parts = _ahead(map(encode, batches))
    try:
        with closing(_write(parts, index, folder, check)) as shards:
            for shard in shards:
                check()
                index = replace(index, shards=(*index.shards, shard))
                index.save(folder)
        if not index.shards and index.part is None:
            raise CorpusError(f"there is nothing to encode in {describe_corpus(paths)}")
    except BaseException:
        check()
        finished = ShardIndex.load(folder).shards  # Ctrl-C may come before or after the save
        _remove_others(folder, finished)
        if not finished:  # there is nothing to go on from
            (folder / INDEX_FILE).unlink(missing_ok=True)
        raise
    index = replace(index, complete=True)
    check()
    index.save(folder)
    return index


def _tidy(folder: Place) -> None:
    """Remove what a run left that was killed at the very end; best effort."""
    if isinstance(folder, Url):
        return
    if (folder / LOCK_FILE).exists() or any(folder.glob(".saving*")):
        with suppress(OSError, ConfigurationError), sole_writer(folder), saving(str(folder)):
            pass


@contextmanager
def sole_writer(folder: Place) -> Iterator[Callable[[], None]]:
    """Refuse a second run, which would write the same files. A killed run holds no lock.

    A store has no locks. There, the run that starts last goes on, and an earlier one is refused.

    Yields:
        What is to be called before anything is written.
    """
    if isinstance(folder, Url):
        with _last_writer(folder) as check:
            yield check
        return
    path = str(folder / LOCK_FILE)
    try:
        with made(str(folder)), locked(path, 0):
            yield lambda: None
    except TimeoutError as error:
        if error.filename != path:
            raise
        raise ConfigurationError(
            f"another run is writing shards into {folder}; wait until it has ended, or choose another folder"
        ) from None


@contextmanager
def _last_writer(folder: Url) -> Iterator[Callable[[], None]]:
    lock, token = folder / LOCK_FILE, os.urandom(16).hex().encode()

    def is_ours() -> bool:
        try:
            return lock.read() == token
        except FileNotFoundError:
            return False

    def check() -> None:
        if not is_ours():
            raise ConfigurationError(
                f"another run has begun to write shards into {folder}, so this one has stopped; choose "
                "another folder for one of them"
            )

    lock.write(token)
    try:
        yield check
    finally:
        with suppress(OSError):
            if is_ours():
                lock.unlink()


def _plan(
    paths: Sequence[Place],
    tokenizer: ScaffoldTokenizerFast,
    format: str,
    shard_size: int,
    add_eos: bool | None,
    lines: bool,
    field: str,
    part: Part | None,
) -> ShardIndex:
    if format not in FORMATS:
        raise ConfigurationError(f"unknown format {format!r}; choose {', '.join(FORMATS)}")
    if format in ("parquet", "arrow"):
        import_extra("pyarrow.parquet", "parquet")
    if add_eos and tokenizer.eos_token_id is None:
        raise ConfigurationError("the tokenizer has no eos_token to end documents with; set one, or add none")
    vocab_size = n_ids(tokenizer)
    return ShardIndex(
        format=format,
        dtype="uint16" if vocab_size <= 1 << 16 else "uint32",
        vocab_size=vocab_size,
        eos_token_id=None if add_eos is False else tokenizer.eos_token_id,
        shard_size=shard_size,
        lines=lines,
        field=field,
        tokenizer_sha256=fingerprint(tokenizer),
        corpus=tuple((path.name, size_of(path) or 0) for path in paths),
        part=None if part is None or part.of == 1 else part.number,
        n_parts=1 if part is None else part.of,
    )


def _resume(
    plan: ShardIndex, folder: Place, paths: Sequence[Place], tokenizer: ScaffoldTokenizerFast
) -> ShardIndex:
    """The plan with the shards that an earlier run finished; refuses to touch those of another plan."""
    try:
        found = ShardIndex.load(folder)
    except FileNotFoundError:
        is_there = isinstance(folder, Url) or folder.is_dir()
        if is_there and any(is_finished for _, _, is_finished in find_shard_files(folder)):
            raise ConfigurationError(
                f"{folder} holds shards, but no {INDEX_FILE}; choose another folder, or overwrite"
            ) from None
        return plan
    if not found.shards:
        return plan
    for path in paths:
        if isinstance(path, Path) and not path.is_file():
            raise ConfigurationError(
                f"{folder} holds shards, and {path} is a pipe, which may give another text than theirs; "
                "choose another folder, or overwrite"
            )
    if plan.tokenizer_sha256 != found.tokenizer_sha256 == fingerprint_of_0_1(tokenizer):
        plan = replace(plan, tokenizer_sha256=found.tokenizer_sha256)
    for name, wanted in vars(plan).items():
        was = getattr(found, name)
        if name not in ("shards", "complete") and was != wanted:
            raise ConfigurationError(
                f"{folder} holds other shards: their {name} is {shown(was)}, not {shown(wanted)}; "
                "choose another folder, or overwrite"
            )
    sizes = sizes_in(folder)
    are_whole = [is_whole(shard, sizes) for shard in found.shards]
    if all(are_whole):
        return found
    return replace(found, shards=found.shards[: are_whole.index(False)], complete=False)


def _remove_others(folder: Place, shards: Sequence[Shard]) -> None:
    """Remove what is left of a run that was stopped or is overwritten."""
    kept = {Path(shard.name).stem for shard in shards}
    for path, stem, is_finished in list(find_shard_files(folder)):
        if stem not in kept or not is_finished:
            path.unlink()


def _cut_for(tokenizer: ScaffoldTokenizerFast) -> Callable[[bytes], int]:
    """Finds where a document can be cut without changing an id, for `iter_texts`."""
    from hf_scaffold.native.sessions import entry_of

    added = tokenizer.added_tokens_decoder.values()
    cross_white_space = any(t.lstrip or t.rstrip or len(t.content.split()) != 1 for t in added)
    preset = preset_of(entry_of(tokenizer._tokenizer.pre_tokenizer))
    if preset is None or cross_white_space:
        return lambda text: 0
    return lambda text: _last_cut_at_white_space(text, preset)


def _last_cut_at_white_space(text: bytes, preset: str) -> int:
    """A cut of the preset's before white space, where no added token is cut either.

    Example:
        >>> last_cut(b"one <|end", "gpt2"), _last_cut_at_white_space(b"one <|end", "gpt2")
        (6, 3)
    """
    position = len(text)
    least = max(position - CUT_WINDOW, 1)
    while (position := max(text.rfind(space, least, position) for space in (b" ", b"\n"))) > 0:
        start = max(position - 4, 0)  # a character before is enough
        if last_cut(text[start : position + 1], preset) == position - start:
            return position
    return 0


def _after(texts: Iterable[Texts], n_documents: int) -> Iterator[Texts]:
    """What comes after so many documents."""
    for some in texts:
        ends = np.flatnonzero(some.is_end)
        n = min(n_documents, len(ends))
        n_documents -= n
        rest = some.after(ends[n - 1] + 1) if n else some
        if n_documents == 0 and len(rest):
            yield rest
    if n_documents:
        raise CorpusError("the corpus has fewer documents than its shards, so it has changed; overwrite")


def _ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """The same, with the next one made in another thread meanwhile."""
    with ThreadPoolExecutor(1) as executor:
        coming = executor.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = executor.submit(next, items, None)
            yield item


def _write(
    parts: Iterable[Tokens], index: ShardIndex, folder: Place, check: Callable[[], None]
) -> Generator[Shard, None, None]:
    """Fill shard after shard; each is yielded once it has its name."""
    if isinstance(folder, Url):
        with temporary_folder() as local, closing(_fill(parts, index, Path(local))) as shards:
            for shard in shards:
                check()
                for name in names_of(shard):
                    (folder / name).upload(Path(local, name))
                    Path(local, name).unlink()
                yield shard
    else:
        yield from _fill(parts, index, folder)


def _fill(parts: Iterable[Tokens], index: ShardIndex, folder: Path) -> Generator[Shard, None, None]:
    number = len(index.shards)
    writer: ShardWriter | None = None
    try:
        for part in parts:
            while part:
                writer = writer or open_shard(folder, number, index.format, index.dtype)
                first, part, is_full = part.split(index.shard_size - writer.n_tokens)
                writer.add(first)
                if is_full:
                    yield writer.finish()
                    number, writer = number + 1, None
        if writer is not None:
            yield writer.finish()
    finally:  # of a finished shard nothing is discarded
        if writer is not None:
            writer.discard()
