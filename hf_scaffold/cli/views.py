"""What each command shows of its result, on stdout."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from hf_scaffold._utils.urls import Place
from hf_scaffold.cli import demo, terminal
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.evaluation.inspection import Inspection, bytes_per_token, readable, scaffold_uses
from hf_scaffold.lifecycle.audit import Audit
from hf_scaffold.shards.index import ShardIndex
from hf_scaffold.tables.merging import TableSize
from hf_scaffold.tables.parts import Parts, some_missing
from hf_scaffold.training.agreement import percent_down
from hf_scaffold.training.artifact import ScaffoldBPE

if TYPE_CHECKING:
    from hf_scaffold.adapting.adapting import Adaptation
    from hf_scaffold.lifecycle.exporting import Export
    from hf_scaffold.report.report import Report
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast
    from hf_scaffold.tokenizer.hub import Push


def show_table(size: TableSize, path: Place, seconds: float) -> None:
    """After `count` and `merge-counts`: the table's size, and which part it is, or which it lacks."""
    terminal.facts(
        [
            ("counts", str(path)),
            ("pre-tokens", f"{size.n_pretokens:,}; {size.n_distinct:,} distinct"),
            ("bytes", f"{size.n_bytes:,}"),
            *map(_parts, size.parts),
            ("time", f"{seconds:.1f} s"),
        ]
    )


def _parts(parts: Parts) -> tuple[str, str]:
    if len(parts.numbers) == 1:
        return "part", f"{parts.numbers[0]}/{parts.of}"
    return "missing parts", f"{some_missing(parts.numbers, parts.of, ',')} of {parts.of}"


def show_training(bpe: ScaffoldBPE, counts: PreTokenCounts, folder: Path, seconds: float) -> None:
    """After `train`: sizes, and how well it does on its own text."""
    terminal.facts(
        [
            ("tokenizer", str(folder)),
            ("tokens", f"{bpe.vocab_size:,}"),
            ("scaffold tokens", _scaffolds(len(bpe.scaffold_tokens), len(bpe.vocab))),
            ("bytes per token", f"{bytes_per_token(bpe, counts):.4f} on the training text"),
            *_agreements(bpe),
            ("time", f"{seconds:.1f} s"),
        ]
    )


def show_derived(tokenizer: "ScaffoldTokenizerFast", folder: Path, seconds: float) -> None:
    """After `extend` and `prune`: sizes."""
    n_scaffolds = len(tokenizer.scaffold["demolish"])
    terminal.facts(
        [
            ("tokenizer", str(folder)),
            ("tokens", f"{len(tokenizer):,}"),
            ("scaffold tokens", _scaffolds(n_scaffolds, len(tokenizer) + n_scaffolds)),
            ("time", f"{seconds:.1f} s"),
        ]
    )


def show_export(exported: "Export", seconds: float) -> None:
    """After `export`: files, and how many ids are exact."""
    share = exported.agreement
    agreement = "not measured; give CORPUS" if share is None else percent_down(share)
    first, *others = exported.paths
    terminal.facts(
        [
            ("written", str(first)),
            *(("", str(path)) for path in others),
            ("ids", "exact" if exported.exact else f"not exact: agreement {agreement}"),
            ("time", f"{seconds:.1f} s"),
        ]
    )


def show_shards(index: ShardIndex, folder: Place, seconds: float) -> None:
    """After `tokenize` into shards: their sizes."""
    terminal.facts(
        [
            ("shards", f"{len(index.shards):,} in {folder}"),
            ("documents", f"{index.n_documents:,}"),
            ("tokens", f"{index.n_tokens:,}, {index.dtype}"),
            ("bytes", f"{index.n_bytes:,}"),
            ("time", f"{seconds:.1f} s"),
        ]
    )


def show_inspection(found: Inspection) -> None:
    """`inspect`: the facts, then the sample of scaffold tokens."""
    terminal.facts(
        [
            ("tokens", f"{found.vocab_size:,}"),
            ("special tokens", " ".join(found.special_tokens) or "none"),
            ("alphabet", f"{found.alphabet_size:,}"),
            ("merges", f"{found.merges:,}"),
            ("scaffold tokens", _scaffolds(found.scaffold_tokens, found.expanded_vocab_size)),
            ("longest token", readable(found.longest_token)),
            *_agreements(found),
            ("pre-tokenizer", found.pre_tokenizer),
            *([("stopped early", found.stop_reason)] if found.stop_reason else []),
        ]
    )
    if found.sample:
        terminal.heading("Scaffold tokens, in the order of creation (Ġ is a space)")
        terminal.table(
            ["scaffold token", "demolished to", "builds"],
            [(_scaffold(use.token), _tokens(use.demolished), _tokens(use.builds, 5)) for use in found.sample],
        )


def show_audit(found: Audit, sample: int) -> None:
    """`audit`: the facts, then the scaffolds that occur most and the quantiles of the other tokens."""
    n_merged = len(found.scaffolds) + len(found.others)
    terminal.facts(
        [
            ("tokens", f"{found.n_tokens:,}; {n_merged:,} merged"),
            ("text", f"{found.n_pretokens:,} pre-tokens"),
            ("worth a place", f"{found.head_frequency:,} occurrences and more"),
            ("scaffold tokens", f"{len(found.scaffolds):,}, {found.scaffold_share:.1%} of merged tokens"),
            ("others, rarer", f"{found.fewer_than(found.head_frequency):,}; unused {found.fewer_than(1):,}"),
            ("unreachable", f"{len(found.unreachable):,}, which no text is encoded to"),
        ]
    )
    terminal.line("This goes beyond the paper, which has no word on tokenizers that exist.")
    if found.scaffolds[:sample]:
        rows = sorted(found.scaffolds, key=lambda use: -use.occurrences)[:sample]
        terminal.heading("Scaffold tokens that occur most (Ġ is a space)")
        terminal.table(
            ["scaffold token", "id", "parts", "occurrences"],
            [(_scaffold(use.token), f"{use.id}", _tokens(use.parts), f"{use.occurrences:,}") for use in rows],
            numbers=["id", "occurrences"],
        )
    terminal.heading("How often the other merged tokens occur")
    terminal.table(
        ["share of tokens", "occurrences, at most"],
        [(f"{share:.0%}", f"{n:,}") for share, n in found.quantiles.items()],
        numbers=["share of tokens", "occurrences, at most"],
    )


def show_adaptation(adapted: "Adaptation", folder: Path, seconds: float) -> None:
    """After `adapt`: what became of tokens and ids."""
    terminal.facts(
        [
            ("model", str(folder)),
            ("rows", f"{adapted.n_rows:,} in each of {', '.join(adapted.embeddings)}"),
            ("tokens", f"{adapted.n_kept:,} kept, {adapted.n_new:,} new, {adapted.n_gone:,} gone"),
            *((name, f"{before} → {after}") for name, (before, after) in adapted.changed_ids.items()),
            ("time", f"{seconds:.1f} s"),
        ]
    )


def show_push(pushed: "Push", revision: str | None) -> None:
    """After `push`: where it is, and how to load it from there."""
    name = f'"{pushed.repo_id}"' + (f', revision="{revision}"' if revision else "")
    terminal.facts(
        [
            ("repository", pushed.url),
            ("commit", pushed.commit_url),
            ("load with", f"AutoTokenizer.from_pretrained({name})"),
            ("without hf_scaffold", f"AutoTokenizer.from_pretrained({name}, trust_remote_code=True)"),
        ]
    )


def show_report(report: "Report", paths: Iterable[Path], seconds: float) -> None:
    """After `report`: its main facts."""
    from hf_scaffold.report.words import headline

    terminal.facts(
        [
            ("report", " ".join(map(str, paths))),
            *headline(report),
            ("time", f"{seconds:.1f} s"),
        ]
    )


def show_demo(outcome: demo.Demo) -> None:
    """`demo`: before and after."""
    terminal.line(
        f"{demo.TITLE}: {outcome.counts.n_bytes:,} bytes, trained on twice in {outcome.seconds:.1f} s"
    )
    _show_sizes(outcome)
    _show_exchange(outcome)
    _show_splits(outcome)


def _show_sizes(outcome: demo.Demo) -> None:
    bpt_plain, bpt_scaffold = (found.bytes_per_token for found in outcome.evaluations)
    rare_plain, rare_scaffold = outcome.rare_tokens
    terminal.heading("Two tokenizers of one size")
    terminal.table(
        ["", "BPE", "Scaffold-BPE"],
        [
            ("tokens", f"{outcome.plain.vocab_size:,}", f"{outcome.scaffold.vocab_size:,}"),
            (f"merged tokens used {demo.RARE} times or less", f"{rare_plain:,}", f"{rare_scaffold:,}"),
            (
                "bytes per token on this text",
                f"{bpt_plain:.3f}",
                f"{bpt_scaffold:.3f}",
            ),
            ("scaffold tokens, which have no id", "0", f"{len(outcome.scaffold.scaffold_tokens):,}"),
        ],
        numbers=["BPE", "Scaffold-BPE"],
    )


def _show_exchange(outcome: demo.Demo) -> None:
    removed, added = outcome.removed(), outcome.added()
    terminal.heading(
        f"{len(removed):,} tokens are removed: plain BPE needs them to build others, hardly for themselves"
    )
    uses = scaffold_uses(outcome.scaffold, [token for token, _ in removed[:8]])
    terminal.table(
        ["removed (Ġ is a space)", "times used", "builds"],
        [
            (readable(token), f"{n:,}", _tokens(use.builds, 4))
            for (token, n), use in zip(removed[:8], uses, strict=True)
        ],
        numbers=["times used"],
    )
    terminal.heading(f"{len(added):,} tokens are added")
    terminal.table(
        ["added", "times used"],
        [(readable(token), f"{n:,}") for token, n in added[:8]],
        numbers=["times used"],
    )


def _show_splits(outcome: demo.Demo) -> None:
    splits = outcome.splits()
    shorter = sum(len(split.scaffold) < len(split.plain) for split in splits)
    longer = sum(len(split.scaffold) > len(split.plain) for split in splits)
    terminal.heading(
        f"The same words: {shorter:,} have fewer tokens, {longer:,} have more; both ends of the list"
    )
    terminal.table(
        ["BPE", "Scaffold-BPE", "count"],
        [
            (_tokens(split.plain), _tokens(split.scaffold), f"{split.count:,}")
            for split in [*splits[:6], *splits[-3:]]
        ],
        numbers=["count"],
    )


def show_reload(reload: demo.Reload, folder: Path | None) -> None:
    """The end of `demo`: what came back from the folder, and where to go next."""
    terminal.heading("Saved and reloaded")
    terminal.line(f"AutoTokenizer gave a {reload.class_name} of {reload.n_tokens:,} tokens.")
    terminal.line(f"The whole text gave {reload.n_ids:,} ids, all as trained; they decoded to the same text.")
    kept = folder or "my-tokenizer"
    terminal.heading("Next")
    terminal.line(f"{terminal.NAME} train YOUR-TEXT/*.txt --vocab-size 32000 -o my-tokenizer")
    terminal.line(f"{terminal.NAME} inspect {kept}")
    terminal.line(f'{terminal.NAME} tokenize "What the devil is the matter?" --tokenizer {kept}')


def _scaffolds(n_scaffolds: int, n_all: int) -> str:
    return f"{n_scaffolds:,}, {n_scaffolds / n_all:.1%} of {n_all:,} in all"


def _agreements(found: ScaffoldBPE | Inspection) -> Iterator[tuple[str, str]]:
    """How far a plain BPE engine that reads tokenizer.json gives the same ids."""
    yield "raw agreement", _share(found.raw_agreement, "of pre-tokens")
    yield "… merges only", _share(found.raw_agreement_merges_only, "without ignore_merges")
    yield "… other text", _share(found.raw_agreement_unseen, "if like the training text: an estimate")


def _share(share: float | None, of_what: str) -> str:
    return "not measured" if share is None else f"{percent_down(share).replace(' ', '')} {of_what}"


def _tokens(tokens: Iterable[str], limit: int | None = None) -> Text:
    shown = [readable(token) for token in tokens]
    return terminal.colored(shown[:limit], " …" if limit is not None and len(shown) > limit else "")


def _scaffold(token: str) -> Text:
    return Text(readable(token), "red")
