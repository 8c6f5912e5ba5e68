"""The command line: it parses arguments, calls the library and shows the result."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from hf_scaffold._utils.files import require_writable, require_writable_file
from hf_scaffold._utils.urls import STDIN, Place, require_writable_folder, require_writable_place
from hf_scaffold._utils.version import __version__
from hf_scaffold.cli import options, terminal
from hf_scaffold.cli.errors import TRACEBACK, describe, in_options
from hf_scaffold.cli.usage import Command, Group
from hf_scaffold.text.parts import Part
from hf_scaffold.text.presets import MAX_PRETOKEN_LENGTH

# Whatever takes longer to import is imported by the command that needs it: --help is there at once.

app = typer.Typer(
    name=terminal.NAME,
    help="Train Scaffold-BPE tokenizers for transformers, use them and look inside.",
    epilog="Exit codes: 0 done, 1 nobody reads the output, 2 error, 130 Ctrl-C. An error is one line; "
    f"{TRACEBACK}=1 shows all of it.",
    cls=Group,
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
        with terminal.one_line_warnings(lambda text: in_options(text, command, arguments)):
            code = command.main(args=arguments, prog_name=terminal.NAME, standalone_mode=False) or 0
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:  # the reader, such as `head`, has enough
        code = 1
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        terminal.message(f"error: {in_options(describe(error), command, arguments)}")
        code = 2
    if code == 130:
        terminal.message("interrupted")
    try:
        sys.stdout.flush()
    except OSError:  # Python would try again at exit, and fail with a code of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


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


def _command(example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command of the program, with what to write after its name as an example."""
    return app.command(cls=Command, epilog=f"Example: `{terminal.NAME} {example}`")


def _require_table_file(output: Place) -> None:
    from hf_scaffold.cli import workflow

    if output.suffix != ".parquet":
        raise typer.BadParameter(f"--output {output} must end in .parquet, by which `train` knows a table")
    with options.about("--output"):
        workflow.require_parquet()
        require_writable_place(output)


@_command("count books/*.txt -o books.parquet")
def count(
    corpus: options.Corpus,
    output: options.CountsFile,
    pre_tokenizer: options.PreTokenizerOption = None,
    alphabet: options.AlphabetOption = None,
    normalizer: options.NormalizerOption = None,
    text_field: options.FieldOption = "text",
    num_workers: options.WorkersOption = None,
    max_pretoken_length: options.LongestOption = MAX_PRETOKEN_LENGTH,
    part: options.PartOption = None,
    max_memory: options.CountingMemory = None,
) -> None:
    """Count the pre-tokens of a corpus, to train on them later; or add up tables of such counts.

    `merge-counts` makes the table of the corpus from those of all its parts. An existing FILE is
    replaced once the new one is complete.
    """
    from hf_scaffold.cli import views, workflow
    from hf_scaffold.counting.counts import save_table

    _require_table_file(output)
    start = time.perf_counter()
    settings = {
        "pre_tokenizer": pre_tokenizer,
        "normalizer": workflow.normalizer_of(normalizer),
        "alphabet": alphabet,
        "text_field": text_field,
        "num_workers": num_workers,
        "max_pretoken_length": max_pretoken_length or None,
        "part": part,
    }
    if max_memory is not None:
        size = workflow.count_to_file(corpus, output, max_memory, **settings)
    else:
        size = save_table(workflow.count_with_bar(corpus, **settings), output)
    views.show_table(size, output, time.perf_counter() - start)


@_command("merge-counts part-*.parquet -o all.parquet --max-memory 4G")
def merge_counts(
    tables: options.Tables,
    output: options.CountsFile,
    max_memory: options.MaxMemory = "1G",
) -> None:
    """Add up tables of counts on disk, in bounded memory.

    Parts of a corpus give the table of the whole, byte for byte. An existing FILE is replaced once the new
    one is complete.
    """
    from hf_scaffold.cli import views, workflow

    _require_table_file(output)
    start = time.perf_counter()
    size = workflow.merge_with_bar(tables, output, max_memory)
    views.show_table(size, output, time.perf_counter() - start)


@_command("mix-counts web.parquet=1 code.parquet=0.5 -o mixed.parquet")
def mix_counts(
    tables: options.WeightedTables,
    output: options.CountsFile,
    max_memory: options.MaxMemory = "1G",
) -> None:
    """Add up tables of counts on disk, each with a weight, in bounded memory.

    Nothing is rounded: counts are multiplied by the smallest whole numbers in proportion to the weights. An
    existing FILE is replaced once the new one is complete.
    """
    from hf_scaffold.cli import views, workflow

    _require_table_file(output)
    start = time.perf_counter()
    size = workflow.mix_with_bar(tables, output, max_memory)
    views.show_table(size, output, time.perf_counter() - start)


@_command("train books/*.txt --vocab-size 32k -o my-tokenizer")
def train(
    corpus: options.Corpus,
    output_dir: options.TokenizerFolder,
    vocab_size: options.VocabSizes = None,
    pre_tokenizer: options.PreTokenizerOption = None,
    alphabet: options.AlphabetOption = None,
    normalizer: options.NormalizerOption = None,
    like: options.Like = None,
    special_token: options.SpecialTokens = None,
    bos_token: options.BosToken = None,
    eos_token: options.EosToken = None,
    pad_token: options.PadToken = None,
    min_count: options.MinCount = 1,
    min_frequency: options.MinFrequency = 0,
    max_token_length: options.MaxTokenLength = None,
    limit_alphabet: options.LimitAlphabet = None,
    unk_token: options.UnkToken = None,
    byte_fallback: options.ByteFallback = False,
    continuing_subword_prefix: options.ContinuingPrefix = None,
    end_of_word_suffix: options.WordSuffix = None,
    scaffold: options.Scaffold = True,
    method: options.Method = "scaffold",
    surplus: options.Surplus = 0.1,
    scaffold_below: options.ScaffoldBelow = 1.0,
    threshold: options.Threshold = 0.9,
    every_split: options.EverySplit = False,
    log: options.Log = False,
    text_field: options.FieldOption = "text",
    num_workers: options.WorkersOption = None,
    max_pretoken_length: options.LongestOption = MAX_PRETOKEN_LENGTH,
) -> None:
    """Train a tokenizer on a corpus, or on tables of counts that `count` wrote.

    AutoTokenizer loads DIR; DIR/artifact holds vocab.json, merges.txt and demolish.json. Existing files of
    the same names are replaced once the new ones are complete.
    """
    from hf_scaffold.cli import views, workflow
    from hf_scaffold.training.settings import DEFAULT_VOCAB_SIZE, TrainingSettings, checked_sizes
    from hf_scaffold.training.trainer import train_sizes

    sizes = checked_sizes([*dict.fromkeys(vocab_size or [DEFAULT_VOCAB_SIZE])])
    with options.about("--output-dir"):
        folders = workflow.tokenizer_folders(output_dir, sizes)
    shell = None
    cut: dict[str, Any] = {"pre_tokenizer": pre_tokenizer, "alphabet": alphabet, "normalizer": normalizer}
    symbols: dict[str, Any] = {
        "unk_token": unk_token,
        "byte_fallback": byte_fallback,
        "continuing_subword_prefix": continuing_subword_prefix,
        "end_of_word_suffix": end_of_word_suffix,
    }
    special_tokens: list[Any]
    special_tokens, roles = workflow.special_tokens_and_roles(
        special_token, like is None, bos_token=bos_token, eos_token=eos_token, pad_token=pad_token
    )
    if like is None:
        cut["normalizer"] = workflow.normalizer_of(normalizer)
    else:
        options.refuse_with("--like", **cut, **symbols)
        shell = workflow.shell_like(like, special_tokens, roles)
        cut, symbols = {"pre_tokenizer": shell.pre_tokenizer}, workflow.symbol_options(shell)
        special_tokens = [*shell.special_tokens]
    if limit_alphabet is not None:
        symbols["initial_alphabet"] = ()
    settings = TrainingSettings(
        min_frequency=min_frequency,
        special_tokens=special_tokens,
        limit_alphabet=limit_alphabet,
        max_token_length=max_token_length,
        scaffold=scaffold,
        method=method,
        surplus=surplus,
        scaffold_below=scaffold_below,
        threshold=threshold,
        every_split=every_split,
        log=log,
        **symbols,
    )
    start = time.perf_counter()
    counts = workflow.count_with_bar(
        corpus,
        **cut,
        text_field=text_field,
        num_workers=num_workers,
        max_pretoken_length=max_pretoken_length or None,
    )
    if min_count > 1:
        counts = counts.at_least(min_count)
    with terminal.progress_bar("Training", "tokens") as progress:
        artifacts = train_sizes(counts, sizes, settings=replace(settings, show_progress=progress))
    for folder, bpe in zip(folders, artifacts, strict=True):
        with terminal.status(f"Saving {folder}"):
            workflow.save_tokenizer(bpe.with_sources(map(str, corpus)), folder, shell, **roles)
        views.show_training(bpe, counts, folder, time.perf_counter() - start)


@_command('tokenize "What the devil is the matter?" -t my-tokenizer')
def tokenize(
    tokenizer: options.SavedTokenizer,
    inputs: options.TextOrCorpus = None,
    file: options.TextFile = None,
    to: options.ToForm = options.Form.tokens,
    output_dir: options.ShardFolder = None,
    shard_size: options.ShardSize = "100M",  # type: ignore[assignment]  # parsed like any other
    eos: options.EndWithEos = None,
    lines: options.LineDocuments = False,
    overwrite: options.Overwrite = False,
    text_field: options.FieldOption = "text",
    part: options.PartOption = None,
) -> None:
    """Encode text to lines of tokens, ids or JSON; or a corpus to shards for training.

    Shards come with an index.json of counts and checksums. Run the same command again to go on where one
    was stopped: finished shards are not done again.
    """
    from hf_scaffold.cli import workflow

    if to.is_of_shards:
        if not inputs or file is not None or output_dir is None:
            raise typer.BadParameter(f"--to {to.value} takes CORPUS and --output-dir")
        _write_shards(
            inputs, tokenizer, output_dir, to.value, shard_size, eos, lines, text_field, overwrite, part
        )
        return
    for name, value in (("--output-dir", output_dir), ("--part", part)):
        if value is not None:
            raise typer.BadParameter(f"{name} is for shards: --to bin, npy, parquet or arrow")
    if inputs and len(inputs) > 1:
        raise typer.BadParameter("give one TEXT in quotes, or --file")
    if inputs and file is not None:
        raise typer.BadParameter("give TEXT or --file, not both")
    if not inputs and file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise typer.BadParameter("give TEXT, --file, or text on standard input")
    text = inputs[0] if inputs else "-" if file in (None, STDIN) else None
    loaded = workflow.load_scaffold(tokenizer)
    with terminal.progress_bar("Tokenizing", "bytes", hidden=sys.stdout.isatty()) as progress:
        if text == "-":
            texts = workflow.read_lines(sys.stdin.buffer, "standard input")
        elif text is not None:
            texts = iter([text])
        else:
            texts = workflow.read_texts(file, text_field=text_field, progress=progress)
        for encoded in workflow.tokenize(texts, loaded, to.value, terminal.joined()):
            terminal.line(encoded)


def _write_shards(
    corpus: list[str],
    tokenizer: str,
    output_dir: Place,
    form: str,
    shard_size: int,
    eos: bool | None,
    lines: bool,
    text_field: str,
    overwrite: bool,
    part: Part | None,
) -> None:
    from hf_scaffold.cli import views, workflow
    from hf_scaffold.shards.writing import write_shards

    with options.about("--output-dir"):
        require_writable_folder(output_dir)
    loaded = workflow.load_scaffold(tokenizer)
    start = time.perf_counter()
    with terminal.progress_bar("Tokenizing", "bytes") as progress:
        index = write_shards(
            [*map(options.text_file, corpus)],
            loaded,
            output_dir,
            format=form,
            shard_size=shard_size,
            add_eos=eos,
            lines=lines,
            text_field=text_field,
            part=part,
            overwrite=overwrite,
            show_progress=progress,
        )
    views.show_shards(index, output_dir, time.perf_counter() - start)


@_command("join-shards part-* -o shards")
def join_shards(
    folders: options.PartFolders,
    output_dir: options.JoinedFolder,
    overwrite: options.Replace = False,
) -> None:
    """Join the shards of all parts of a corpus, which `tokenize --part` wrote, in one folder."""
    from hf_scaffold.cli import views
    from hf_scaffold.shards import joining

    start = time.perf_counter()
    with terminal.status("Joining shards"):
        index = joining.join_shards(folders, output_dir, overwrite=overwrite)
    views.show_shards(index, output_dir, time.perf_counter() - start)


@_command("inspect my-tokenizer")
def inspect(
    source: options.TokenizerOrArtifact,
    sample: options.SampleOption = 10,
    history: options.History = None,
    as_json: options.JsonOption = False,
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


@_command("push my-tokenizer user/my-tokenizer --private")
def push(
    folder: options.PushedFolder,
    repository: options.Repository,
    private: options.Private = False,
    revision: options.Revision = None,
    message: options.Message = None,
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


@_command("audit openai-community/gpt2 books/*.txt")
def audit(
    tokenizer: options.AnyTokenizer,
    corpus: options.Corpus,
    sample: options.SampleOption = 20,
    as_json: options.JsonOption = False,
    text_field: options.FieldOption = "text",
    num_workers: options.WorkersOption = None,
) -> None:
    """Show which tokens of an existing BPE tokenizer are scaffolds on a corpus, and how rare the others are.

    Its merges are replayed on the corpus; each of its tokens is put to the test of Scaffold-BPE's training.
    This goes beyond the paper.
    """
    from hf_scaffold.cli import views
    from hf_scaffold.lifecycle.audit import audit_tokenizer

    with terminal.status("Replaying merges on the corpus"):
        found = audit_tokenizer(tokenizer, corpus, text_field=text_field, num_workers=num_workers)
    if as_json:
        terminal.line(found.to_json())
    else:
        views.show_audit(found, sample)


@_command("extend my-tokenizer new-books/*.txt --vocab-size 48k -o my-larger-tokenizer")
def extend(
    tokenizer: options.AnyTokenizer,
    corpus: options.Corpus,
    vocab_size: options.ExtendedSize,
    output_dir: options.TokenizerFolder,
    min_frequency: options.MinFrequency = 0,
    scaffold: options.Scaffold = True,
    pre_tokenizer: options.OtherPreTokenizerOption = None,
    new_characters: options.NewCharacters = 0,
    every_split: options.EverySplit = False,
    text_field: options.FieldOption = "text",
    num_workers: options.WorkersOption = None,
) -> None:
    """Go on training a BPE tokenizer on a corpus: ids stay as they are, new tokens have the next ones.

    The old merges come first, and no old token becomes a scaffold. This goes beyond the paper.
    """
    from hf_scaffold.cli import views
    from hf_scaffold.lifecycle import extension

    _require_new_tokenizer_folder(output_dir)
    start = time.perf_counter()
    with terminal.progress_bar("Extending", "tokens") as progress:
        extended = extension.extend(
            tokenizer,
            corpus,
            vocab_size,
            min_frequency=min_frequency,
            scaffold=scaffold,
            pre_tokenizer=pre_tokenizer,
            new_characters=new_characters,
            every_split=every_split,
            text_field=text_field,
            num_workers=num_workers,
            show_progress=progress,
        )
    extended.save_pretrained(output_dir)
    views.show_derived(extended, output_dir, time.perf_counter() - start)


@_command("prune my-tokenizer books/*.txt --vocab-size 24k -o my-smaller-tokenizer")
def prune(
    tokenizer: options.AnyTokenizer,
    corpus: options.Corpus,
    vocab_size: options.PrunedSize,
    output_dir: options.TokenizerFolder,
    compact: options.Compact = False,
    every_split: options.EverySplit = False,
    text_field: options.FieldOption = "text",
    num_workers: options.WorkersOption = None,
) -> None:
    """Take tokens out of a BPE tokenizer: those that are scaffolds on a corpus, then the least used ones.

    Text that became one of them becomes its parts. This goes beyond the paper.
    """
    from hf_scaffold.cli import views
    from hf_scaffold.lifecycle import pruning

    _require_new_tokenizer_folder(output_dir)
    start = time.perf_counter()
    with terminal.status("Counting and pruning"):
        pruned = pruning.prune(
            tokenizer,
            corpus,
            vocab_size,
            compact=compact,
            every_split=every_split,
            text_field=text_field,
            num_workers=num_workers,
        )
    pruned.tokenizer.save_pretrained(output_dir)
    views.show_derived(pruned.tokenizer, output_dir, time.perf_counter() - start)


def _require_new_tokenizer_folder(folder: Path) -> None:
    """Refuse one that can't be written, and one with an artifact, which would be another tokenizer's."""
    with options.about("--output-dir"):
        require_writable(folder)
        if (folder / "artifact").exists():
            raise typer.BadParameter(f"{folder} has the artifact of another tokenizer; give a new folder")


@_command("export my-tokenizer --format tiktoken --raw -o my-tokenizer.tiktoken")
def export(
    tokenizer: options.AnyTokenizer,
    format: options.ExportFormat,
    output: options.ExportedFile,
    corpus: options.MeasuredCorpus = None,
    raw: options.Raw = False,
    text_field: options.FieldOption = "text",
    num_workers: options.WorkersOption = None,
) -> None:
    """Write a BPE tokenizer as another program's file; tokens keep their ids.

    SentencePiece gives the exact ids of a Scaffold-BPE. tiktoken and llama.cpp know nothing of demolishing:
    with --raw they get the plain BPE that comes near. What is there is replaced once all is complete.
    """
    from hf_scaffold.cli import views
    from hf_scaffold.lifecycle import exporting

    with options.about("--output"):
        (require_writable if format == "raw" else require_writable_file)(output)
    start = time.perf_counter()
    with terminal.status("Exporting"):
        exported = exporting.export(
            tokenizer,
            output,
            format,
            raw=raw,
            corpus=corpus,
            text_field=text_field,
            num_workers=num_workers,
        )
    views.show_export(exported, time.perf_counter() - start)


@_command("adapt my-model --tokenizer my-tokenizer -o my-adapted-model")
def adapt(
    model_dir: options.ModelFolder,
    tokenizer: options.SavedTokenizer,
    output_dir: options.AdaptedFolder,
    init: options.Initializer = "pieces",
    pad_to_multiple_of: options.PadToMultiple = 1,
    seed: options.Seed = 0,
    old_tokenizer: options.OldTokenizer = None,
    embedding_name: options.EmbeddingNames = None,
) -> None:
    """Adapt a model to another tokenizer: tokens that both have keep their embeddings, bit for bit.

    Input and output embeddings and their biases get rows for the new tokens, ids in config.json and
    generation_config.json follow, all other tensors are copied. This goes beyond the paper.
    """
    from hf_scaffold.adapting import adapting
    from hf_scaffold.cli import views

    with options.about("--output-dir"):
        require_writable(output_dir)
    start = time.perf_counter()
    with terminal.progress_bar("Adapting", "bytes") as progress:
        adapted = adapting.adapt(
            model_dir,
            tokenizer,
            output_dir,
            init=init,
            pad_to_multiple_of=pad_to_multiple_of,
            seed=seed,
            old_tokenizer=old_tokenizer,
            embedding_names=embedding_name or (),
            show_progress=progress,
        )
    views.show_adaptation(adapted, output_dir, time.perf_counter() - start)


@_command("report books/*.txt --vocab-size 32k -o report.html")
def report(
    context: typer.Context,
    corpus: options.Corpus,
    output: options.ReportFiles,
    vocab_size: options.VocabSize = None,
    held_out: options.HeldOut = None,
    baseline: options.Baselines = None,
    all_baselines: options.AllBaselines = False,
    compare: options.Compared = None,
    ngram_order: options.NgramOrder = None,
    robustness: options.RobustnessFlag = False,
    passage: options.PassageText = None,
    special_token: options.ReportSpecialTokens = None,
    pre_tokenizer: options.BytePreTokenizerOption = None,
    text_field: options.FieldOption = "text",
    num_workers: options.WorkersOption = None,
) -> None:
    """Show what Scaffold-BPE does to a vocabulary on a text, against other tokenizers, as one page.

    It trains Scaffold-BPE, plain BPE and other baselines of one size and measures them. The page opens
    offline; all forms hold the same facts.
    """
    from hf_scaffold.cli import views
    from hf_scaffold.evaluation import baselines
    from hf_scaffold.report import report as reports
    from hf_scaffold.training.settings import DEFAULT_VOCAB_SIZE

    with options.about("--output"):
        reports.check_forms(output)
        for path in output:
            require_writable_file(path)
    if all_baselines and baseline:
        raise typer.BadParameter("give --baseline or --all-baselines, not both")
    kinds = baselines.BASELINES if all_baselines else baseline or reports.DEFAULT_BASELINES
    start = time.perf_counter()
    with terminal.status("Loading") as show_step:
        found = reports.make_report(
            corpus,
            vocab_size or DEFAULT_VOCAB_SIZE,
            held_out=held_out,
            baselines=kinds,
            compare_with=compare or (),
            special_tokens=special_token or [options.DEFAULT_EOS],
            pre_tokenizer=pre_tokenizer,
            passage=passage,
            ngram_order=ngram_order,
            robustness=robustness,
            text_field=text_field,
            num_workers=num_workers,
            show_progress=show_step,
            command=options.command_line(context, without=("output", "num_workers")),
        )
    found.save(*output)
    views.show_report(found, output, time.perf_counter() - start)


@_command("demo")
def demo(
    output_dir: options.KeptFolder = None,
) -> None:
    """Train plain BPE and Scaffold-BPE on a novel, compare them, save and reload: all in a few seconds."""
    from hf_scaffold.cli import demo as tour
    from hf_scaffold.cli import views, workflow

    if output_dir is not None:
        with options.about("--output-dir"):
            workflow.require_tokenizer_folder(output_dir)
    with terminal.progress_bar("Training", "tokens") as progress:
        outcome = tour.run_demo(progress)
    views.show_demo(outcome)
    with workflow.folder_or_temporary(output_dir) as folder:
        views.show_reload(tour.check_reload(outcome.scaffold, folder), output_dir)
