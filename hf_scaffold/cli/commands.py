"""The command line: it parses arguments, calls the library and shows the result."""

import errno
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_scaffold._utils.version import __version__
from hf_scaffold.cli import terminal
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.corpus import MAX_PRETOKEN_LENGTH

# Whatever takes longer to import is imported by the command that needs it: --help is there at once.

__all__ = ["app", "main"]

TRACEBACK = "HF_SCAFFOLD_TRACEBACK"
DEFAULT_EOS = "<|endoftext|>"

app = typer.Typer(
    name=terminal.NAME,
    help="Train Scaffold-BPE tokenizers for transformers, use them and look inside.",
    epilog=f"Errors are one line and exit code 2; {TRACEBACK}=1 shows the whole traceback.",
    add_completion=False,
    rich_markup_mode="markdown",  # "rich" would take [default: …] for a tag
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Args:
        arguments: Those after the program's name; None takes the process's own.
    Returns:
        The exit code: 0, 2 after an error, 130 after Ctrl-C, 1 when nobody reads the output any more.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")  # advice about torch has no place here
    terminal.use_utf8()
    command: Any = typer.main.get_command(app)  # of click, wherever typer has its click from
    code: int
    try:
        with terminal.one_line_warnings():
            code = command.main(args=arguments, prog_name=terminal.NAME, standalone_mode=False) or 0
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # the reader, such as `head`, has enough
        code = 1
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        terminal.message(f"error: {_in_options(_describe(error), command, arguments)}")
        code = 2
    if code == 130:
        terminal.message("interrupted")
    try:
        sys.stdout.flush()
    except OSError:  # Python would try again at exit, and fail with a code of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _describe(error: Exception) -> str:
    if hasattr(error, "format_message"):  # click's, wherever typer has its click from
        command = getattr(getattr(error, "ctx", None), "command_path", terminal.NAME)
        return f"{error.format_message().rstrip('.')}; see {command} --help"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        return f"stdout: {error.strerror}"  # whatever is written elsewhere is named
    if isinstance(error, OSError | ValueError | OverflowError):
        return str(error)
    return f"unexpected {type(error).__name__}: {error} ({TRACEBACK}=1 shows where)"


def _in_options(message: str, command: Any, arguments: Sequence[str] | None) -> str:
    """The library's messages name arguments of Python; here they are options."""
    given = sys.argv[1:] if arguments is None else arguments
    chosen = command.commands.get(next(iter(given), None))
    options = {param.name: max(param.opts, key=len) for param in chosen.params} if chosen else {}
    # Names in one word may be words of the sentence, or parts of a path, except where a value follows.
    longer = {f"{name}{end}": option for name, option in options.items() if "_" in name for end in ("", "s")}
    message = re.sub(
        rf"(?<![\w/.'-])({'|'.join(longer) or '(?!)'})(\[\d+\])?(?![\w/.'=])",
        lambda found: longer[found[1]],
        message,
    )
    return re.sub(
        rf"(?<![\w/.'-])({'|'.join(options) or '(?!)'})='(\w+)'",
        lambda found: f"{options[found[1]]} {found[2]}",
        message,
    )


# ---- arguments that several commands share

Corpus = Annotated[
    list[Path],
    typer.Argument(
        metavar="CORPUS",
        help="Files or glob patterns of them: plain text or .jsonl, also as .gz, .xz or .zst; .parquet.",
        show_default=False,
    ),
]
PretokenizerOption = Annotated[
    str | None,
    typer.Option(
        "--pretokenizer",
        metavar="NAME",
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
        help="What merges start from: bytes (the default) or chars.",
        show_default=False,
    ),
]
FieldOption = Annotated[
    str,
    typer.Option("--field", metavar="NAME", help="The JSONL field or Parquet column that holds the text."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--num-workers",
        min=1,
        metavar="N",
        help="Threads that count. [default: one a CPU]",
        show_default=False,
    ),
]
LongestOption = Annotated[
    int,
    typer.Option(
        "--max-pretoken-length",
        min=0,
        metavar="BYTES",
        help="Leave out pre-tokens that are longer; 0 keeps all.",
    ),
]
SampleOption = Annotated[
    int, typer.Option("--sample", "-n", min=0, metavar="N", help="Scaffold tokens to show.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write one JSON object instead.")]


@contextmanager
def _option(name: str) -> Iterator[None]:
    """Errors inside say which option they are about."""
    try:
        yield
    except OSError as error:
        raise typer.BadParameter(f"{name}: {error.filename}: {error.strerror}") from None
    except ConfigurationError as error:
        raise typer.BadParameter(f"{name}: {error}") from None


def _show_version(wanted: bool) -> None:
    if wanted:
        terminal.line(f"{terminal.NAME} {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


# ---- commands


def _example(arguments: str) -> str:
    return f"Example: `{terminal.NAME} {arguments}`"


@app.command(epilog=_example("count books/*.txt -o books.parquet"))
def count(
    corpus: Corpus,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The table of counts, a .parquet file.")
    ],
    pretokenizer: PretokenizerOption = None,
    alphabet: AlphabetOption = None,
    field: FieldOption = "text",
    num_workers: WorkersOption = None,
    max_pretoken_length: LongestOption = MAX_PRETOKEN_LENGTH,
) -> None:
    """Count the pre-tokens of a corpus, to train on them later; or add up tables of such counts.

    An existing FILE is replaced once the new one is complete.
    """
    from hf_scaffold.cli import views, workflow

    if output.suffix != ".parquet":
        raise typer.BadParameter(f"--output {output} must end in .parquet, by which `train` knows a table")
    with _option("--output"):
        workflow.require_parquet()
        workflow.require_writable_file(output)
    start = time.perf_counter()
    with terminal.progress_bar("Counting", "bytes") as progress:
        counts = workflow.read_counts(
            corpus,
            pretokenizer=pretokenizer,
            alphabet=alphabet,
            field=field,
            num_workers=num_workers,
            max_pretoken_length=max_pretoken_length or None,
            progress=progress,
        )
    counts.save(output)
    views.show_counts(counts, output, time.perf_counter() - start)


@app.command(epilog=_example("train books/*.txt --vocab-size 32000 -o my-tokenizer"))
def train(
    corpus: Corpus,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="DIR", help="The tokenizer's folder.")],
    vocab_size: Annotated[
        list[int] | None,
        typer.Option(
            "--vocab-size",
            min=1,
            metavar="SIZE",
            help="Tokens with an id: special tokens, alphabet and merged tokens. May be repeated: one run "
            "then trains all sizes, each into DIR/SIZE. [default: 30000]",
            show_default=False,
        ),
    ] = None,
    pretokenizer: PretokenizerOption = None,
    alphabet: AlphabetOption = None,
    special_token: Annotated[
        list[str] | None,
        typer.Option(
            "--special-token",
            metavar="TOKEN",
            help="May be repeated; these get the first ids.",
            show_default=False,
        ),
    ] = None,
    bos_token: Annotated[
        str | None, typer.Option("--bos-token", metavar="TOKEN", help="Start of text.")
    ] = None,
    eos_token: Annotated[
        str | None,
        typer.Option(
            "--eos-token",
            metavar="TOKEN",
            help=f"End of text. [default: `{DEFAULT_EOS}`, unless --special-token is given]",
            show_default=False,
        ),
    ] = None,
    pad_token: Annotated[str | None, typer.Option("--pad-token", metavar="TOKEN", help="Padding.")] = None,
    min_frequency: Annotated[
        int,
        typer.Option(
            "--min-frequency",
            min=0,
            metavar="N",
            help="Stop when no pair of tokens occurs this often any more.",
        ),
    ] = 0,
    max_token_length: Annotated[
        int | None,
        typer.Option("--max-token-length", min=1, metavar="N", help="Bytes or characters a token may have."),
    ] = None,
    limit_alphabet: Annotated[
        int | None,
        typer.Option(
            "--limit-alphabet",
            min=1,
            metavar="N",
            help="Keep only the most frequent of the bytes or characters that occur; the others vanish from "
            "text. [default: all stay]",
            show_default=False,
        ),
    ] = None,
    unk_token: Annotated[
        str | None,
        typer.Option(
            "--unk-token", metavar="TOKEN", help="For characters that are not kept. (--alphabet chars)"
        ),
    ] = None,
    byte_fallback: Annotated[
        bool,
        typer.Option("--byte-fallback", help="Encode such characters to bytes instead. (--alphabet chars)"),
    ] = False,
    continuing_subword_prefix: Annotated[
        str | None,
        typer.Option(
            "--continuing-subword-prefix",
            metavar="PREFIX",
            help="Marks tokens inside a word, such as `##`. (--alphabet chars)",
        ),
    ] = None,
    end_of_word_suffix: Annotated[
        str | None,
        typer.Option(
            "--end-of-word-suffix",
            metavar="SUFFIX",
            help="Marks tokens at the end of a word, such as `</w>`. (--alphabet chars)",
        ),
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Train plain BPE, without scaffold tokens.")] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Keep the training log, in DIR/artifact; see `inspect --history`.")
    ] = False,
    field: FieldOption = "text",
    num_workers: WorkersOption = None,
    max_pretoken_length: LongestOption = MAX_PRETOKEN_LENGTH,
) -> None:
    """Train a tokenizer on a corpus, or on tables of counts that `count` wrote.

    AutoTokenizer loads DIR; DIR/artifact holds vocab.json, merges.txt and demolish.json. Existing files of
    the same names are replaced once the new ones are complete.
    """
    from hf_scaffold.cli import views, workflow
    from hf_scaffold.training import trainer

    sizes = list(dict.fromkeys(vocab_size or [trainer.DEFAULT_VOCAB_SIZE]))
    folders = [output] if len(sizes) == 1 else [output / str(size) for size in sizes]
    with _option("--output"):
        for folder in folders:
            workflow.require_tokenizer_folder(folder)
    if eos_token is None and not special_token:
        eos_token = DEFAULT_EOS
    named = {"bos_token": bos_token, "eos_token": eos_token, "pad_token": pad_token}
    roles = {role: token for role, token in named.items() if token is not None}
    special_tokens = special_token or []
    special_tokens += [token for token in dict.fromkeys(roles.values()) if token not in special_tokens]

    start = time.perf_counter()
    with terminal.progress_bar("Counting", "bytes") as progress:
        counts = workflow.read_counts(
            corpus,
            pretokenizer=pretokenizer,
            alphabet=alphabet,
            field=field,
            num_workers=num_workers,
            max_pretoken_length=max_pretoken_length or None,
            progress=progress,
        )
    with terminal.progress_bar("Training", "tokens") as progress:
        artifacts = trainer.train(
            counts,
            sizes,
            min_frequency=min_frequency,
            special_tokens=special_tokens,
            initial_alphabet=None if limit_alphabet is None else (),
            limit_alphabet=limit_alphabet,
            max_token_length=max_token_length,
            unk_token=unk_token,
            byte_fallback=byte_fallback,
            continuing_subword_prefix=continuing_subword_prefix,
            end_of_word_suffix=end_of_word_suffix,
            scaffold=not plain,
            log=log,
            progress=progress,
        )
    for folder, bpe in zip(folders, artifacts, strict=True):
        bpe = bpe.with_sources(corpus)
        workflow.save_tokenizer(bpe, folder, **roles)
        views.show_training(bpe, counts, folder, time.perf_counter() - start)


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


def _number(text: str) -> int:
    """A whole number, which may end in k, M or G."""
    match = re.fullmatch(r"(\d+)([kmg]?)", text.lower())
    if not match:
        raise typer.BadParameter(f"{text!r} is no number such as 500k, 100M or 1G")
    units = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
    return int(match[1]) * units[match[2]]


@app.command(epilog=_example('tokenize "What the devil is the matter?" -t my-tokenizer'))
def tokenize(
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer", "-t", metavar="TOKENIZER", help="A saved tokenizer: folder or name on the Hub."
        ),
    ],
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT|CORPUS",
            help="One text; for shards, files or glob patterns. [default: each line of stdin is a text]",
            show_default=False,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A file of texts; each line of plain text is one."),
    ] = None,
    to: Annotated[
        Form,
        typer.Option(
            "--to",
            metavar="FORM",
            help="A line of tokens, ids or jsonl for each text; or shards: bin, npy, parquet, arrow.",
        ),
    ] = Form.tokens,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="The shards' folder.", show_default=False),
    ] = None,
    shard_size: Annotated[
        int,
        typer.Option(
            "--shard-size",
            parser=_number,
            metavar="TOKENS",
            help="Tokens from which on a shard is full. k, M and G are 1000, a million, a billion.",
        ),
    ] = "100M",  # type: ignore[assignment]  # parsed like any other
    eos: Annotated[
        bool | None,
        typer.Option(
            "--eos/--no-eos",
            help="For shards: end each document with the EOS token. [default: if there is one]",
            show_default=False,
        ),
    ] = None,
    lines: Annotated[
        bool,
        typer.Option("--lines", help="For shards: each line of plain text is a document, not each file."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="For shards: start anew, whatever is there.")
    ] = False,
    field: FieldOption = "text",
) -> None:
    """Encode text to lines of tokens, ids or JSON; or a corpus to shards for training.

    Shards come with an index.json of counts and checksums. Run the same command again to go on where one
    was stopped: finished shards are not done again.
    """
    from hf_scaffold.cli import workflow

    if to.is_of_shards:
        if not inputs or file is not None or output is None:
            raise typer.BadParameter(f"--to {to.value} takes CORPUS and --output")
        from hf_scaffold.cli import views
        from hf_scaffold.shards.writing import write_shards

        with _option("--output"):
            workflow.require_writable(output)
        loaded = workflow.load_tokenizer(tokenizer)
        start = time.perf_counter()
        with terminal.progress_bar("Tokenizing", "bytes") as progress:
            index = write_shards(
                inputs,
                loaded,
                output,
                format=to.value,
                shard_size=shard_size,
                add_eos=eos,
                lines=lines,
                field=field,
                overwrite=overwrite,
                progress=progress,
            )
        views.show_shards(index, output, time.perf_counter() - start)
        return
    if output is not None:
        raise typer.BadParameter("--output is for shards: --to bin, npy, parquet or arrow")
    if inputs and len(inputs) > 1:
        raise typer.BadParameter("give one TEXT in quotes, or --file")
    text = inputs[0] if inputs else None
    if text is not None and file is not None:
        raise typer.BadParameter("give TEXT or --file, not both")
    if text is None and file is None and sys.stdin.isatty():
        raise typer.BadParameter("give TEXT, --file, or text on stdin")
    loaded = workflow.load_tokenizer(tokenizer)
    with terminal.progress_bar("Tokenizing", "bytes", hidden=sys.stdout.isatty()) as progress:
        if text is not None:
            texts = iter([text])
        elif file is not None:
            texts = workflow.read_texts(file, field=field, progress=progress)
        else:
            texts = workflow.read_lines(sys.stdin.buffer, "stdin")
        for encoded in workflow.tokenize(texts, loaded, to.value):
            terminal.line(encoded)


@app.command(epilog=_example("inspect my-tokenizer"))
def inspect(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TOKENIZER",
            help="A saved tokenizer (folder or name on the Hub) or an artifact's folder.",
            show_default=False,
        ),
    ],
    sample: SampleOption = 10,
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="TOKEN",
            help="Tell what became of this token in training instead; for `train --log`.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a tokenizer's sizes, its share of scaffold tokens, and some of them with what they are for."""
    from hf_scaffold.cli import views, workflow
    from hf_scaffold.evaluation import inspection

    if history is not None:
        terminal.line(workflow.load_history(source, history))
        return
    found = inspection.inspect_artifact(workflow.load_artifact(source), sample)
    if as_json:
        terminal.line(found.to_json())
    else:
        views.show_inspection(found)


@app.command(epilog=_example("push my-tokenizer user/my-tokenizer --private"))
def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A saved tokenizer.", show_default=False)],
    repository: Annotated[
        str, typer.Argument(metavar="USER/NAME", help="Made if there is none.", show_default=False)
    ],
    private: Annotated[
        bool, typer.Option("--private", help="Make a new repository private; an old one stays as it is.")
    ] = False,
    revision: Annotated[
        str | None,
        typer.Option("--revision", metavar="BRANCH", help="Made if there is none. [default: main]"),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", metavar="TEXT", help="Of the commit.")
    ] = None,
) -> None:
    """Push a tokenizer to the Hub, with a model card.

    Other files in the repository stay, and so does a README.md that hf_scaffold didn't write.
    """
    from hf_scaffold.cli import views
    from hf_scaffold.tokenizer import hub

    views.show_push(
        hub.push_folder(folder, repository, private=private or None, revision=revision, message=message),
        revision,
    )


@app.command(epilog=_example("audit openai-community/gpt2 books/*.txt"))
def audit(
    tokenizer: Annotated[
        str,
        typer.Argument(
            metavar="TOKENIZER",
            help="Any BPE tokenizer: a tokenizer.json, a folder, or a name on the Hub.",
            show_default=False,
        ),
    ],
    corpus: Corpus,
    sample: SampleOption = 20,
    as_json: JsonOption = False,
    field: FieldOption = "text",
    num_workers: WorkersOption = None,
) -> None:
    """Show which tokens of an existing BPE tokenizer are scaffolds on a corpus, and how rare the others are.

    Its merges are replayed on the corpus; each of its tokens is put to the test of Scaffold-BPE's training.
    This goes beyond the paper.
    """
    from hf_scaffold.cli import views
    from hf_scaffold.evaluation.audit import audit_tokenizer

    found = audit_tokenizer(tokenizer, corpus, field=field, num_workers=num_workers)
    if as_json:
        terminal.line(found.to_json())
    else:
        views.show_audit(found, sample)


@app.command(epilog=_example("report books/*.txt --vocab-size 32000 -o report.html"))
def report(
    corpus: Corpus,
    output: Annotated[
        list[Path],
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A page (.html), Markdown (.md) or JSON (.json). May be repeated, for several forms.",
        ),
    ],
    vocab_size: Annotated[
        int | None,
        typer.Option(
            "--vocab-size",
            min=1,
            metavar="SIZE",
            help="Of all that is trained. [default: 30000]",
            show_default=False,
        ),
    ] = None,
    held_out: Annotated[
        list[Path] | None,
        typer.Option(
            "--held-out",
            metavar="FILE",
            help="Text to measure apart, which nothing is trained on; as CORPUS. May be repeated.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            metavar="KIND",
            help="Train and compare bpe, wordpiece, unigram, sentencepiece-bpe or sentencepiece-unigram. "
            "May be repeated; bpe is always there. [default: those without sentencepiece]",
            show_default=False,
        ),
    ] = None,
    all_baselines: Annotated[
        bool, typer.Option("--all-baselines", help="Train and compare all of them.")
    ] = False,
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="NAME",
            help="Compare an existing tokenizer: a folder or name on the Hub, a tokenizer.json, .model or "
            ".tiktoken file. May be repeated.",
            show_default=False,
        ),
    ] = None,
    passage: Annotated[
        str | None,
        typer.Option(
            "--passage",
            metavar="TEXT",
            help="Show how this is encoded. [default: where plain BPE and Scaffold-BPE differ most at the "
            "start of the held-out text]",
            show_default=False,
        ),
    ] = None,
    special_token: Annotated[
        list[str] | None,
        typer.Option(
            "--special-token",
            metavar="TOKEN",
            help=f"May be repeated; these get the first ids. [default: `{DEFAULT_EOS}`]",
            show_default=False,
        ),
    ] = None,
    pretokenizer: Annotated[
        str | None,
        typer.Option(
            "--pretokenizer",
            metavar="NAME",
            help="What splits text: gpt2-digits (the default), gpt2, llama3 or gpt4o.",
            show_default=False,
        ),
    ] = None,
    field: FieldOption = "text",
    num_workers: WorkersOption = None,
) -> None:
    """Show what Scaffold-BPE does to a vocabulary on a text, against other tokenizers, as one page.

    It trains Scaffold-BPE, plain BPE and other baselines of one size and measures them. The page opens
    offline; all forms hold the same facts.
    """
    from hf_scaffold.cli import views, workflow
    from hf_scaffold.evaluation import baselines
    from hf_scaffold.report import report as reports
    from hf_scaffold.training import trainer

    with _option("--output"):
        reports.check_forms(output)
        for path in output:
            workflow.require_writable_file(path)
    if all_baselines and baseline:
        raise typer.BadParameter("give --baseline or --all-baselines, not both")
    kinds = baselines.BASELINES if all_baselines else baseline or reports.DEFAULT_BASELINES
    start = time.perf_counter()
    with terminal.status() as on_step:
        found = reports.make_report(
            corpus,
            vocab_size or trainer.DEFAULT_VOCAB_SIZE,
            held_out=held_out,
            baselines=kinds,
            compare_with=compare or (),
            special_tokens=special_token or [DEFAULT_EOS],
            pretokenizer=pretokenizer,
            passage=passage,
            field=field,
            num_workers=num_workers,
            on_step=on_step,
        )
    found.save(*output)
    views.show_report(found, output, time.perf_counter() - start)


@app.command(epilog=_example("demo"))
def demo(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Keep the tokenizer here. [default: a temporary folder, removed at the end]",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train plain BPE and Scaffold-BPE on a novel, compare them, save and reload: all in a few seconds."""
    from hf_scaffold.cli import demo as tour
    from hf_scaffold.cli import views, workflow

    if output is not None:
        with _option("--output"):
            workflow.require_tokenizer_folder(output)
    with terminal.progress_bar("Training", "tokens") as progress:
        outcome = tour.run_demo(progress)
    views.show_demo(outcome)
    with workflow.folder_or_temporary(output) as folder:
        views.show_reload(tour.check_reload(outcome.scaffold, folder), output)
