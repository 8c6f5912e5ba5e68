"""The steps behind the commands: files to counts, a tokenizer into its folder and back, text to lines."""

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import normalizers
from tokenizers.normalizers import Normalizer

from hf_scaffold._utils.files import require_writable, require_writable_file, saving, settle
from hf_scaffold._utils.urls import Place, Url, open_place
from hf_scaffold.cli import terminal
from hf_scaffold.cli.options import DEFAULT_EOS
from hf_scaffold.counting.counting import count
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.tables.merging import TableSize, merge_counts
from hf_scaffold.tables.mixing import mix_counts
from hf_scaffold.text.corpus import Progress, iter_documents
from hf_scaffold.text.files import find_files, holds_lines, import_extra
from hf_scaffold.text.parts import Part
from hf_scaffold.text.pre_tokenizers import PreTokenizer, get_pre_tokenizer
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH
from hf_scaffold.tokenizer.building import artifact_of, build_tokenizer
from hf_scaffold.tokenizer.like import Shell, empty_like, fill
from hf_scaffold.tokenizer.like import symbol_options as symbol_options
from hf_scaffold.tokenizer.loading import load_pretrained
from hf_scaffold.tokenizer.loading import load_scaffold as load_scaffold
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.files import DEMOLISH_FILE
from hf_scaffold.training.files import FILES as ARTIFACT_FILES

if TYPE_CHECKING:
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

NORMALIZERS = {
    "nfc": normalizers.NFC,
    "nfd": normalizers.NFD,
    "nfkc": normalizers.NFKC,
    "nfkd": normalizers.NFKD,
    "lowercase": normalizers.Lowercase,
    "strip-accents": normalizers.StripAccents,
}

# Not beside tokenizer.json: this vocab.json gives scaffold tokens ids from |V| on, and programs that go for
# vocab.json and merges.txt by name (GPT2Tokenizer of transformers, without a tokenizer.json) would use them.
ARTIFACT_FOLDER = "artifact"

Join = Callable[[Sequence[str]], str]

_BATCH_SIZE = 1000  # texts encoded at a time


# ---- into counts


def read_counts(
    paths: Sequence[Place],
    *,
    pre_tokenizer: str | PreTokenizer | None = None,
    normalizer: Normalizer | None = None,
    alphabet: str | None = None,
    text_field: str = "text",
    num_workers: int | None = None,
    max_pretoken_length: int | None = MAX_PRETOKEN_LENGTH,
    part: Part | None = None,
    show_progress: bool | Progress = False,
) -> PreTokenCounts:
    """Count text files, or read and add up tables of counts.

    Args:
        paths: Files, URLs or glob patterns of text, as for `count`; or of tables of counts.
        pre_tokenizer, normalizer, alphabet: As for `count`. None: the default for text, and whatever made the
            tables for tables.
        text_field, num_workers, max_pretoken_length, part, show_progress: As for `count`.
    Raises:
        ConfigurationError: text and tables are mixed, a part is to be counted of tables, or a table was
            made with another pre-tokenizer.
        CorpusError, ArtifactError, CountOverflowError: as `count` and `PreTokenCounts` raise them.
    """
    found = find_files(paths)
    tables = [path for path in found if _holds_counts(path)]
    if not tables:
        return count(
            paths,
            pre_tokenizer=pre_tokenizer,
            normalizer=normalizer,
            alphabet=alphabet,
            text_field=text_field,
            num_workers=num_workers,
            max_pretoken_length=max_pretoken_length,
            part=part,
            show_progress=show_progress,
        )
    for path in found:
        if path not in tables:
            raise ConfigurationError(
                f"{tables[0]} holds counts, {path} doesn't; count it first, then give the tables together"
            )
    if part is not None:
        raise ConfigurationError(f"{tables[0]} holds counts; parts are of text")
    first, *others = map(PreTokenCounts.load, tables)
    counts = first.merge(*others)
    made_with = counts.pre_tokenizer
    if alphabet not in (None, made_with.alphabet):
        raise ConfigurationError(
            f"{tables[0]} was counted with an alphabet of {made_with.alphabet}, not {alphabet}; "
            "count the text again"
        )
    asked = made_with if pre_tokenizer is None else pre_tokenizer
    if get_pre_tokenizer(asked, normalizer, made_with.alphabet) != made_with:
        name = pre_tokenizer if isinstance(pre_tokenizer, str) and normalizer is None else "what is asked for"
        raise ConfigurationError(
            f"{tables[0]} was counted with {made_with.preset or 'another pre-tokenizer or normalizer'}, "
            f"not {name}; count the text again"
        )
    return counts


def count_with_bar(corpus: Sequence[Place], **kwargs: Any) -> PreTokenCounts:
    """What `read_counts` gives, with a bar meanwhile."""
    with terminal.progress_bar("Counting", "bytes") as progress:
        return read_counts(corpus, **kwargs, show_progress=progress)


def count_to_file(corpus: Sequence[Place], output: Place, max_memory: str, **kwargs: Any) -> TableSize:
    """What `count_with_bar` gives, of text, into a file, in bounded memory."""
    files = find_files(corpus)
    for path in filter(_holds_counts, files):
        raise ConfigurationError(f"{path} holds counts; merge-counts adds up tables in bounded memory")
    with terminal.progress_bar("Counting", "bytes") as progress:
        return count(files, **kwargs, output=output, max_memory=max_memory, show_progress=progress)


def normalizer_of(names: Sequence[str] | None) -> Normalizer | None:
    """The normalizer of `tokenizers` that these names mean, in their order.

    Raises:
        ConfigurationError: a name is unknown.
    Example:
        >>> normalizer_of(["nfd", "strip-accents"]).normalize_str("déjà")
        'deja'
    """
    for name in names or ():
        if name not in NORMALIZERS:
            raise ConfigurationError(f"--normalizer is {name!r}; it must be one of {', '.join(NORMALIZERS)}")
    chosen = [NORMALIZERS[name]() for name in names or ()]
    return normalizers.Sequence(chosen) if len(chosen) > 1 else chosen[0] if chosen else None


def merge_with_bar(tables: Sequence[Place], output: Place, max_memory: str) -> TableSize:
    """What `merge_counts` does, with a bar meanwhile."""
    with terminal.progress_bar("Merging", "rows") as progress:
        return merge_counts(tables, output, max_memory=max_memory, show_progress=progress)


def mix_with_bar(tables: Sequence[str], output: Place, max_memory: str) -> TableSize:
    """What `mix_counts` does, with a bar meanwhile.

    Args:
        tables: Each as a path or glob pattern, `=`, and its weight.
    """
    weights: dict[str, str] = {}
    for table in tables:
        name, _, weight = table.rpartition("=")
        if not name:
            raise ConfigurationError(f"{table} has no weight; write {table}=1")
        if name in weights:
            raise ConfigurationError(f"{name} is given twice")
        weights[name] = weight
    with terminal.progress_bar("Mixing", "rows") as progress:
        return mix_counts(weights, output, max_memory=max_memory, show_progress=progress)


def _holds_counts(path: Place) -> bool:
    """Whether this is a table of counts rather than a corpus, which may be Parquet too."""
    if path.suffix != ".parquet" or not (isinstance(path, Url) or path.is_file()):
        return False
    pyarrow = import_extra("pyarrow", "parquet")
    parquet = import_extra("pyarrow.parquet", "parquet")
    try:
        with open_place(path) as stream:
            metadata = parquet.read_schema(stream).metadata or {}
    except pyarrow.ArrowException:
        return False  # not Parquet at all: reading it as a corpus says what is wrong
    return any(key.startswith(b"hf_scaffold.") for key in metadata)


def require_parquet() -> None:
    """Refuse early, rather than after counting, where tables can't be saved.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """
    import_extra("pyarrow.parquet", "parquet")


# ---- a tokenizer's folder


def require_tokenizer_folder(folder: Path) -> None:
    """Refuse a folder that `save_tokenizer` can't write to, before long work rather than after it.

    Raises:
        IsADirectoryError, NotADirectoryError, PermissionError: with the path that is in the way.
    """
    names = ["tokenizer.json", "scaffold.json", "tokenizer_config.json", "tokenization_scaffold.py"]
    for path in (folder, folder / ARTIFACT_FOLDER):
        require_writable(path)
    for path in [folder / name for name in names] + [
        folder / ARTIFACT_FOLDER / name for name in ARTIFACT_FILES
    ]:
        require_writable_file(path)


def tokenizer_folders(output_dir: Path, sizes: Sequence[int]) -> list[Path]:
    """A folder for the tokenizer of each size, all of which `save_tokenizer` can write to.

    Raises:
        OSError: as `require_tokenizer_folder`.
    """
    folders = [output_dir] if len(sizes) == 1 else [output_dir / str(size) for size in sizes]
    for folder in folders:
        require_tokenizer_folder(folder)
    return folders


def special_tokens_and_roles(
    special_tokens: Sequence[str] | None, with_eos: bool = True, **roles: str | None
) -> tuple[list[str], dict[str, str]]:
    """The special tokens to train with, and what to name them for.

    Args:
        special_tokens: Those to come first.
        with_eos: Have an end of text where there are none of these, and roles don't say which.
        **roles: bos_token, eos_token, pad_token; None for none.
    Example:
        >>> special_tokens_and_roles(None, eos_token=None, pad_token="<pad>")
        (['<|endoftext|>', '<pad>'], {'eos_token': '<|endoftext|>', 'pad_token': '<pad>'})
    """
    if with_eos and not special_tokens and roles["eos_token"] is None:
        roles["eos_token"] = DEFAULT_EOS
    first = special_tokens or []
    named = {role: token for role, token in roles.items() if token is not None}
    return [*first, *(token for token in dict.fromkeys(named.values()) if token not in first)], named


def shell_like(like: str, special_tokens: Sequence[str], roles: Mapping[str, str]) -> Shell:
    """All but the vocabulary of a tokenizer, with more special tokens and other roles.

    Args:
        like: A folder, or a name on the Hub.
        special_tokens, roles: As `special_tokens_and_roles` gives them.
    Raises:
        OSError: there is none.
        ConfigurationError: it has no BPE model, or can't be followed otherwise.
    """
    if Path(like).is_file():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), like)
    from transformers import AutoTokenizer

    return empty_like(load_pretrained(like, AutoTokenizer.from_pretrained), special_tokens, roles=roles)


def save_tokenizer(
    bpe: ScaffoldBPE, folder: Path, shell: Shell | None = None, **kwargs: Any
) -> "ScaffoldTokenizerFast":
    """Write a transformers tokenizer into a folder, the artifact into its subfolder `artifact`.

    Files of the same names are replaced, others stay. Whatever ends it, the folder loads as the old tokenizer
    or the new one.

    Args:
        bpe: What training gave.
        folder: Made if needed.
        shell: What the tokenizer has besides the vocabulary; None: the usual.
        **kwargs: As for `ScaffoldBPE.to_tokenizer`: eos_token, pad_token, …
    Returns:
        The tokenizer.
    Raises:
        OSError: the folder or a file can't be written.
    """
    tokenizer = build_tokenizer(bpe, **kwargs) if shell is None else fill(shell, bpe, **kwargs)
    from hf_scaffold.tokenization_scaffold import STALE

    stale = [*STALE, *(os.path.join(ARTIFACT_FOLDER, name) for name in ARTIFACT_FILES)]
    with saving(str(folder), stale) as staging:
        tokenizer.save_pretrained(staging)
        bpe.save(Path(staging, ARTIFACT_FOLDER))
    return tokenizer


def load_artifact(source: str) -> ScaffoldBPE:
    """The artifact in a folder that `ScaffoldBPE.save` wrote, or the one inside a saved tokenizer.

    Args:
        source: A folder, or a tokenizer's name on the Hub.
    Raises:
        OSError: there is nothing of the kind.
        ArtifactError, ValueError: a file is truncated, or the files contradict each other.
    """
    settle(source)
    if Path(source, DEMOLISH_FILE).is_file():
        return ScaffoldBPE.load(source)
    return artifact_of(load_scaffold(source))


def load_history(source: str, token: str) -> str:
    """What `ScaffoldBPE.history` tells of a token: of an artifact in a folder, or beside a saved tokenizer.

    Raises:
        ConfigurationError: there is no training log, or no such token.
    """
    settle(source)
    beside = Path(source, ARTIFACT_FOLDER)
    bpe = load_artifact(str(beside) if (beside / DEMOLISH_FILE).is_file() else source)
    try:
        return bpe.history(token)
    except KeyError as error:
        raise ConfigurationError(error.args[0]) from None


@contextmanager
def folder_or_temporary(folder: Path | None) -> Iterator[Path]:
    """The folder; or, for None, a temporary one that goes when the block ends."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="hf-scaffold-") as temporary:
        yield Path(temporary)


# ---- text to lines


def read_texts(path: Place, *, text_field: str = "text", progress: Progress | None = None) -> Iterator[str]:
    """The documents of a file or of a glob pattern's files; of plain text the lines, without their ends.

    Args:
        path, text_field, progress: As for `iter_documents`, which also says what is left out.
    Raises:
        CorpusError, ConfigurationError: as `iter_documents`.
    """
    documents = iter_documents(path, text_field=text_field, progress=progress)
    if not holds_lines(path):
        return (document.decode() for document in documents)
    return read_lines(documents, str(path))


def read_lines(lines: Iterable[bytes], source: str) -> Iterator[str]:
    """UTF-8 lines without their line ends.

    Raises:
        CorpusError: a line is not UTF-8; the message names source and line.
    Example:
        >>> list(read_lines([b"one\\n", b"\\n", b"two\\r\\n", b"three"], "stdin"))
        ['one', '', 'two', 'three']
    """
    for number, line in enumerate(lines, start=1):
        try:
            yield line.decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{source}, line {number} is not UTF-8: byte 0x{line[error.start]:02x} at {error.start}"
            ) from None


def tokenize(
    texts: Iterable[str], tokenizer: "ScaffoldTokenizerFast", form: str, join: Join = " ".join
) -> Iterator[str]:
    """One line for each text, in order, without a line end.

    Args:
        texts: Any number of texts; they are encoded as `tokenizer(text)` does.
        tokenizer: A loaded tokenizer.
        form: "tokens" and "ids", with spaces between, or "jsonl": an object of text, ids and tokens.
        join: What makes a line of tokens.
    Cost: memory of some 1000 texts at a time.
    """
    batch: list[str] = []
    for text in texts:
        batch.append(text)
        if len(batch) == _BATCH_SIZE:
            yield from _tokenize_batch(batch, tokenizer, form, join)
            batch = []
    if batch:
        yield from _tokenize_batch(batch, tokenizer, form, join)


def _tokenize_batch(
    texts: list[str], tokenizer: "ScaffoldTokenizerFast", form: str, join: Join
) -> Iterator[str]:
    for text, ids in zip(texts, tokenizer(texts)["input_ids"], strict=True):
        yield format_line(text, ids, list(tokenizer.convert_ids_to_tokens(ids)), form, join)


def format_line(text: str, ids: list[int], tokens: list[str], form: str, join: Join = " ".join) -> str:
    """One encoded text as a line in one of the forms of `tokenize`.

    Example:
        >>> format_line("hugs", [7, 5], ["hug", "s"], "tokens")
        'hug s'
        >>> format_line("hugs", [7, 5], ["hug", "s"], "jsonl")
        '{"text": "hugs", "ids": [7, 5], "tokens": ["hug", "s"]}'
    """
    if form == "tokens":
        return join(tokens)
    if form == "ids":
        return " ".join(map(str, ids))
    if form == "jsonl":
        return json.dumps({"text": text, "ids": ids, "tokens": tokens}, ensure_ascii=False)
    raise ConfigurationError(f"unknown form {form!r}; choose tokens, ids or jsonl")
