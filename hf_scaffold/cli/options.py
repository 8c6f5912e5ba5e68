"""The arguments and options of the commands: their names, and what --help says of each."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_scaffold._utils.urls import STDIN, Place, place
from hf_scaffold.cli import terminal
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.parts import Part
from hf_scaffold.text.presets import ENTRIES

DEFAULT_EOS = "<|endoftext|>"


@contextmanager
def about(name: str) -> Iterator[None]:
    """Errors inside say which option they are about."""
    try:
        yield
    except OSError as error:
        raise ConfigurationError(f"{name}: {error.filename}: {error.strerror}") from None
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None


def refuse_with(option: str, **others: Any) -> None:
    """Refuse options that say what another one says, by the names of their arguments."""
    given = [f"--{name.replace('_', '-')}" for name, value in others.items() if value]
    if given:
        raise typer.BadParameter(f"{option} says what {' and '.join(given)} would say; give one of them")


def command_line(context: Any, without: Container[str] = ()) -> str:
    """The command at hand as a line for a shell, with files named without their folders.

    Args:
        without: Parameters to leave out.
    """
    words = [terminal.NAME, context.info_name]
    for parameter in context.command.params:
        given = context.get_parameter_source(parameter.name).name == "COMMANDLINE"
        if not given or parameter.name in without:
            continue
        value = context.params[parameter.name]
        for each in value if isinstance(value, list | tuple) else [value]:
            words += parameter.opts[:1] if parameter.param_type_name == "option" else []
            words += [] if each is True else [_word(each)]
    return os.fsencode(shlex.join(words)).decode(errors="replace")


def _word(value: Any) -> str:
    """A value as on a command line; of a place, the name alone."""
    if value == STDIN:
        return "-"
    return Path(str(value)).name if isinstance(value, Place) else str(value)


class Form(str, Enum):
    """What `tokenize` writes: a line for each text, or training shards."""

    tokens = "tokens"
    ids = "ids"
    jsonl = "jsonl"
    bin = "bin"
    npy = "npy"
    parquet = "parquet"
    arrow = "arrow"

    @property
    def is_of_shards(self) -> bool:
        return self not in (Form.tokens, Form.ids, Form.jsonl)


def number(text: str | int) -> int:
    """A whole number, which may end in k, M or G."""
    match = re.fullmatch(r"(\d+)([kmg]?)", str(text).lower())
    if not match:
        raise typer.BadParameter(f"{text!r} is not a whole number, such as 500 or 32k")
    units = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
    return int(match[1]) * units[match[2]]


def positive(text: str | int) -> int:
    """A number from 1 on."""
    found = number(text)
    if found < 1:
        raise typer.BadParameter(f"{found} is too small; give at least 1")
    return found


def form(text: str) -> Form:
    """What to write."""
    try:
        return Form(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is unknown; choose {', '.join(form.value for form in Form)}"
        ) from None


def _among(*names: str) -> Callable[[str], list[str]]:
    """What a shell proposes for an option's value."""

    def starting_with(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return starting_with


def part(text: str) -> Part:
    """Which part of a corpus, such as 3/64."""
    try:
        return Part.checked(text)
    except (TypeError, ConfigurationError) as error:
        wanted = error if isinstance(error, ConfigurationError) else f"{text!r} is not a part, such as 3/64"
        raise typer.BadParameter(str(wanted)) from None


def file(text: str) -> Place:
    """A path or URL."""
    try:
        return place(text)
    except ConfigurationError as error:
        raise typer.BadParameter(str(error)) from None


def text_file(text: str) -> Place:
    """A path or URL of text; `-` is standard input."""
    if text != "-":
        return file(text)
    if sys.stdin is None:
        raise typer.BadParameter("standard input is closed")
    return STDIN


def local_folder(text: str) -> Path:
    """A path; not a URL."""
    found = file(text)
    if not isinstance(found, Path):
        raise typer.BadParameter(
            f"{found}: tokenizers are saved to local folders; `push` sends one to the Hub"
        )
    return found


_OF_CHARACTERS = "metaspace", "metaspace-unsplit", "whitespace", "whitespace-split", "bert"

_NORMALIZERS = "nfc", "nfd", "nfkc", "nfkd", "lowercase", "strip-accents"

# ---- of several commands; what is Any is a Place, which Typer can't name

Corpus = Annotated[
    list[Any],
    typer.Argument(
        parser=text_file,
        metavar="CORPUS",
        help="Files, URLs such as s3://bucket/key, or glob patterns of them: plain text or .jsonl, also as "
        ".gz, .xz or .zst; .parquet. `-` is plain text from standard input.",
        show_default=False,
    ),
]
PreTokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--pre-tokenizer",
        metavar="NAME",
        autocompletion=_among(*ENTRIES, *_OF_CHARACTERS),
        help="What splits text: gpt2-digits (the default), gpt2, llama3 or gpt4o; with --alphabet chars, "
        "metaspace (the default), metaspace-unsplit, whitespace, whitespace-split or bert.",
        show_default=False,
    ),
]
AlphabetOption = Annotated[
    str | None,
    typer.Option(
        "--alphabet",
        metavar="NAME",
        autocompletion=_among("bytes", "chars"),
        help="What merges start from: bytes (the default) or chars.",
        show_default=False,
    ),
]
NormalizerOption = Annotated[
    list[str] | None,
    typer.Option(
        "--normalizer",
        metavar="NAME",
        autocompletion=_among(*_NORMALIZERS),
        help=f"What text goes through first: {', '.join(_NORMALIZERS[:-1])} or {_NORMALIZERS[-1]}. May be "
        "repeated, in this order. [default: text stays as it is]",
        show_default=False,
    ),
]
FieldOption = Annotated[
    str,
    typer.Option(
        "--text-field", metavar="NAME", help="The JSONL field or Parquet column that holds the text."
    ),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--num-workers",
        parser=positive,
        metavar="N",
        help="Threads that count. [default: one a CPU]",
        show_default=False,
    ),
]
LongestOption = Annotated[
    int,
    typer.Option(
        "--max-pretoken-length",
        parser=number,
        metavar="BYTES",
        help="Leave out pre-tokens that are longer; 0 keeps all.",
    ),
]
PartOption = Annotated[
    Part | None,
    typer.Option(
        "--part",
        parser=part,
        metavar="K/N",
        help="Only this part of the corpus, divided by bytes: 0/64 to 63/64, say, one each on 64 machines.",
        show_default=False,
    ),
]
SampleOption = Annotated[
    int, typer.Option("--sample", "-n", parser=number, metavar="N", help="Scaffold tokens to show.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")]

# ---- of one command each

TokenizerFolder = Annotated[
    Path,
    typer.Option("--output-dir", "-o", parser=local_folder, metavar="DIR", help="The tokenizer's folder."),
]
VocabSizes = Annotated[
    list[int] | None,
    typer.Option(
        "--vocab-size",
        parser=positive,
        metavar="SIZE",
        help="Tokens with an id: special tokens, alphabet and merged tokens; 32k is 32000. May be repeated: "
        "one run then trains all sizes, each into DIR/SIZE. [default: 30000]",
        show_default=False,
    ),
]
Like = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="TOKENIZER",
        help="Take all but the vocabulary from a BPE tokenizer, a folder or name on the Hub: how it splits "
        "text, special tokens, templates. --special-token adds more.",
        show_default=False,
    ),
]
SpecialTokens = Annotated[
    list[str] | None,
    typer.Option(
        "--special-token",
        metavar="TOKEN",
        help="May be repeated; these get the first ids.",
        show_default=False,
    ),
]
BosToken = Annotated[str | None, typer.Option("--bos-token", metavar="TOKEN", help="Start of text.")]
EosToken = Annotated[
    str | None,
    typer.Option(
        "--eos-token",
        metavar="TOKEN",
        help=f"End of text. [default: `{DEFAULT_EOS}`, unless --special-token is given]",
        show_default=False,
    ),
]
PadToken = Annotated[str | None, typer.Option("--pad-token", metavar="TOKEN", help="Padding.")]
MinCount = Annotated[
    int,
    typer.Option(
        "--min-count",
        parser=positive,
        metavar="N",
        help="Leave out pre-tokens that occur less often: less memory, for results that may differ.",
    ),
]
MinFrequency = Annotated[
    int,
    typer.Option(
        "--min-frequency",
        parser=number,
        metavar="N",
        help="Stop when no pair of tokens occurs this often any more.",
    ),
]
MaxTokenLength = Annotated[
    int | None,
    typer.Option(
        "--max-token-length", parser=positive, metavar="N", help="Bytes or characters a token may have."
    ),
]
LimitAlphabet = Annotated[
    int | None,
    typer.Option(
        "--limit-alphabet",
        parser=positive,
        metavar="N",
        help="Keep only the most frequent of the bytes or characters that occur; the others vanish from "
        "text. [default: all stay]",
        show_default=False,
    ),
]
UnkToken = Annotated[
    str | None,
    typer.Option("--unk-token", metavar="TOKEN", help="For characters that are not kept. (--alphabet chars)"),
]
ByteFallback = Annotated[
    bool,
    typer.Option("--byte-fallback", help="Encode such characters to bytes instead. (--alphabet chars)"),
]
ContinuingPrefix = Annotated[
    str | None,
    typer.Option(
        "--continuing-subword-prefix",
        metavar="PREFIX",
        help="Marks tokens inside a word, such as `##`. (--alphabet chars)",
    ),
]
WordSuffix = Annotated[
    str | None,
    typer.Option(
        "--end-of-word-suffix",
        metavar="SUFFIX",
        help="Marks tokens at the end of a word, such as `</w>`. (--alphabet chars)",
    ),
]
Scaffold = Annotated[
    bool,
    typer.Option("--scaffold/--no-scaffold", help="Train Scaffold-BPE, or plain BPE.", show_default=False),
]
Method = Annotated[
    str,
    typer.Option(
        metavar="METHOD",
        autocompletion=_among("scaffold", "bpe", "trimmed", "leaf", "residue", "picky"),
        help="Chooses the vocabulary: `scaffold`, `bpe`, `trimmed`, `leaf`, `residue` or `picky`; "
        "see docs/methods.md.",
    ),
]
Surplus = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="How many more tokens to merge; the rarest go. (--method trimmed, leaf, residue)",
    ),
]
ScaffoldBelow = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Make a token a scaffold when it is rarer than this share of the next candidate.",
    ),
]
Threshold = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Remove a token if a merge takes more of its occurrences than this. (--method picky)",
    ),
]
EverySplit = Annotated[
    bool,
    typer.Option(
        "--every-split",
        help="Let programs that read tokenizer.json alone agree more often: with every split of tokens that "
        "need scaffolds.",
    ),
]
Log = Annotated[
    bool, typer.Option("--log", help="Keep the training log, in DIR/artifact; see `inspect --history`.")
]
SavedTokenizer = Annotated[
    str,
    typer.Option(
        "--tokenizer", "-t", metavar="TOKENIZER", help="A saved tokenizer: folder or name on the Hub."
    ),
]
TextOrCorpus = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TEXT|CORPUS",
        help="One text; for shards, files, URLs or glob patterns. [default: `-`, each line of standard input "
        "is a text]",
        show_default=False,
    ),
]
TextFile = Annotated[
    Any,
    typer.Option(
        "--file",
        "-f",
        parser=text_file,
        metavar="FILE",
        help="A file of texts; each line of plain text is one.",
        show_default=False,
    ),
]
ToForm = Annotated[
    Form,
    typer.Option(
        "--to",
        parser=form,
        metavar="FORM",
        autocompletion=_among(*[form.value for form in Form]),
        help="A line of tokens, ids or jsonl for each text; or shards: bin, npy, parquet, arrow.",
    ),
]
ShardFolder = Annotated[
    Any,
    typer.Option(
        "--output-dir",
        "-o",
        parser=file,
        metavar="DIR",
        help="The shards' folder, or its URL.",
        show_default=False,
    ),
]
ShardSize = Annotated[
    int,
    typer.Option(
        "--shard-size",
        parser=number,
        metavar="TOKENS",
        help="Tokens from which on a shard is full. k, M and G are 1000, a million, a billion.",
    ),
]
EndWithEos = Annotated[
    bool | None,
    typer.Option(
        "--eos/--no-eos",
        help="For shards: end each document with the EOS token. [default: if there is one]",
        show_default=False,
    ),
]
LineDocuments = Annotated[
    bool,
    typer.Option("--lines", help="For shards: each line of plain text is a document, not each file."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="For shards: start anew, whatever is there.")]
PartFolders = Annotated[
    list[str],
    typer.Argument(
        metavar="DIRS",
        help="Folders of shards, or glob patterns of them, also as URLs: one for each part, which "
        "`tokenize --part` wrote.",
        show_default=False,
    ),
]
JoinedFolder = Annotated[
    Any,
    typer.Option(
        "--output-dir", "-o", parser=file, metavar="DIR", help="The folder of all shards, or its URL."
    ),
]
Replace = Annotated[bool, typer.Option("--overwrite", help="Replace other shards that are in DIR.")]
ReportFiles = Annotated[
    list[Path],
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="A page (.html), Markdown (.md) or JSON (.json). May be repeated, for several forms.",
    ),
]
VocabSize = Annotated[
    int | None,
    typer.Option(
        "--vocab-size",
        parser=positive,
        metavar="SIZE",
        help="Of all that is trained. [default: 30000]",
        show_default=False,
    ),
]
ExtendedSize = Annotated[
    int,
    typer.Option(
        "--vocab-size",
        parser=positive,
        metavar="SIZE",
        help="Ids to have in the end, added tokens included.",
        show_default=False,
    ),
]
PrunedSize = Annotated[
    int,
    typer.Option(
        "--vocab-size",
        parser=positive,
        metavar="SIZE",
        help="Tokens to keep, added tokens included.",
        show_default=False,
    ),
]
Compact = Annotated[
    bool,
    typer.Option(
        "--compact/--keep-ids",
        help="Close up the ids of tokens that are gone, or keep all ids and reserve those.",
    ),
]
HeldOut = Annotated[
    list[Any] | None,
    typer.Option(
        "--held-out",
        parser=text_file,
        metavar="FILE",
        help="Text to measure apart, which nothing is trained on; as CORPUS. May be repeated.",
        show_default=False,
    ),
]
Baselines = Annotated[
    list[str] | None,
    typer.Option(
        "--baseline",
        metavar="KIND",
        autocompletion=_among(
            *("bpe", "wordpiece", "unigram", "sentencepiece-bpe", "sentencepiece-unigram"),
            *("trimmed", "leaf", "residue", "picky"),
        ),
        help="Train and compare bpe, wordpiece, unigram, sentencepiece-bpe, sentencepiece-unigram, "
        "trimmed, leaf, residue or picky. "
        "May be repeated; bpe is always there. [default: those without sentencepiece]",
        show_default=False,
    ),
]
AllBaselines = Annotated[bool, typer.Option("--all-baselines", help="Train and compare all of them.")]
Compared = Annotated[
    list[str] | None,
    typer.Option(
        "--compare",
        metavar="NAME",
        help="Compare an existing tokenizer: a folder or name on the Hub, a tokenizer.json, .model or "
        ".tiktoken file. May be repeated.",
        show_default=False,
    ),
]
NgramOrder = Annotated[
    int | None,
    typer.Option(
        "--ngram-order",
        parser=number,
        metavar="N",
        help="Also measure the held-out text in bits per byte, by n-gram models of this order; 5 is usual.",
        show_default=False,
    ),
]
RobustnessFlag = Annotated[
    bool,
    typer.Option("--robustness", help="Also count the tokens that misspelled words and other case add."),
]
PassageText = Annotated[
    str | None,
    typer.Option(
        "--passage",
        metavar="TEXT",
        help="Show how this is encoded. [default: where plain BPE and Scaffold-BPE differ most at the "
        "start of the held-out text]",
        show_default=False,
    ),
]
ReportSpecialTokens = Annotated[
    list[str] | None,
    typer.Option(
        "--special-token",
        metavar="TOKEN",
        help=f"May be repeated; these get the first ids. [default: `{DEFAULT_EOS}`]",
        show_default=False,
    ),
]
BytePreTokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--pre-tokenizer",
        metavar="NAME",
        autocompletion=_among(*ENTRIES),
        help="What splits text: gpt2-digits (the default), gpt2, llama3 or gpt4o.",
        show_default=False,
    ),
]
NewCharacters = Annotated[
    int,
    typer.Option(
        "--new-characters",
        parser=number,
        metavar="N",
        help="Give tokens to at most so many characters that have none, the most frequent ones.",
    ),
]
OtherPreTokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--pre-tokenizer",
        metavar="NAME",
        autocompletion=_among(*ENTRIES, *_OF_CHARACTERS),
        help="What splits the text to learn from, if not as the tokenizer does: metaspace keeps new tokens "
        "within words where it doesn't split text, as with Llama 2, Mistral and Gemma.",
        show_default=False,
    ),
]
Tables = Annotated[
    list[Any],
    typer.Argument(
        parser=file,
        metavar="TABLES",
        help="Tables of counts, or glob patterns of them, also as URLs: .parquet files that `count` wrote.",
        show_default=False,
    ),
]
WeightedTables = Annotated[
    list[str],
    typer.Argument(
        metavar="TABLES=WEIGHT",
        help="Tables of counts, or glob patterns of them, each with a number above 0, such as 2, 0.5 or 1/3.",
        show_default=False,
    ),
]
MaxMemory = Annotated[
    str,
    typer.Option("--max-memory", metavar="SIZE", help="Memory to take, such as 4G; 512M at least."),
]
CountingMemory = Annotated[
    str | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        help="Memory to take, such as 4G; 512M at least. What doesn't fit goes beside FILE (of a URL, into "
        "the temporary folder), and is added up at the end. [default: no limit]",
        show_default=False,
    ),
]
CountsFile = Annotated[
    Any,
    typer.Option(
        "--output", "-o", parser=file, metavar="FILE", help="The table of counts, a .parquet file or its URL."
    ),
]
TokenizerOrArtifact = Annotated[
    str,
    typer.Argument(
        metavar="TOKENIZER",
        help="A saved tokenizer (folder or name on the Hub) or an artifact's folder.",
        show_default=False,
    ),
]
History = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="TOKEN",
        help="Tell what became of this token in training instead; for `train --log`.",
        show_default=False,
    ),
]
PushedFolder = Annotated[Path, typer.Argument(metavar="DIR", help="A saved tokenizer.", show_default=False)]
Repository = Annotated[
    str, typer.Argument(metavar="USER/NAME", help="Made if there is none.", show_default=False)
]
Private = Annotated[
    bool, typer.Option("--private", help="Make a new repository private; an old one stays as it is.")
]
Revision = Annotated[
    str | None,
    typer.Option("--revision", metavar="BRANCH", help="Made if there is none. [default: main]"),
]
Message = Annotated[str | None, typer.Option("--message", "-m", metavar="TEXT", help="Of the commit.")]
AnyTokenizer = Annotated[
    str,
    typer.Argument(
        metavar="TOKENIZER",
        help="Any BPE tokenizer: a folder, a name on the Hub, a tokenizer.json, .tiktoken file or "
        "SentencePiece .model.",
        show_default=False,
    ),
]
ExportFormat = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="FORMAT",
        autocompletion=_among("sentencepiece", "tiktoken", "gguf", "raw"),
        help="sentencepiece (a .model), tiktoken, gguf (for llama.cpp), or raw (a folder of the stock "
        "class).",
        show_default=False,
    ),
]
ExportedFile = Annotated[
    Path, typer.Option("--output", "-o", metavar="FILE", help="The file; of --format raw, the folder.")
]
MeasuredCorpus = Annotated[
    list[Any] | None,
    typer.Argument(
        parser=text_file,
        metavar="CORPUS",
        help="Text to measure agreement on, where the program's ids aren't exact. [default: what training "
        "measured, if that is of the same model]",
        show_default=False,
    ),
]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Write the file even if the program gives other ids than this tokenizer."),
]
ModelFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL_DIR",
        help="A model of transformers, with its tokenizer; weights as safetensors.",
        show_default=False,
    ),
]
AdaptedFolder = Annotated[
    Path, typer.Option("--output-dir", "-o", metavar="DIR", help="The new model's folder.")
]
Initializer = Annotated[
    str,
    typer.Option(
        "--init",
        metavar="HOW",
        autocompletion=_among("pieces", "mean", "normal", "random", "zeros"),
        help="What rows of new tokens hold: the mean of those of the old tokenizer's pieces; or mean (of all "
        "rows), normal (drawn around that), random (as before training) or zeros.",
    ),
]
PadToMultiple = Annotated[
    int,
    typer.Option(
        "--pad-to-multiple-of", parser=positive, metavar="N", help="Add rows up to a multiple of this."
    ),
]
Seed = Annotated[int, typer.Option("--seed", parser=number, metavar="N", help="Of --init normal and random.")]
OldTokenizer = Annotated[
    str | None,
    typer.Option(
        "--old-tokenizer",
        metavar="TOKENIZER",
        help="The model's own: folder or name on the Hub. [default: the one in MODEL_DIR]",
        show_default=False,
    ),
]
EmbeddingNames = Annotated[
    list[str] | None,
    typer.Option(
        "--embedding-name",
        metavar="TENSOR",
        help="A tensor with a row for each token. Repeat it for all of them, where they can't be found.",
        show_default=False,
    ),
]
KeptFolder = Annotated[
    Path | None,
    typer.Option(
        "--output-dir",
        "-o",
        metavar="DIR",
        help="Keep the tokenizer here. [default: a temporary folder, removed at the end]",
        show_default=False,
    ),
]
