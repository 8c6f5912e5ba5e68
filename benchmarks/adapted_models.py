"""A tiny Llama goes on with another language: bits per byte with its tokenizer extended, or in other ways.

    python benchmarks/adapted_models.py novels-en.txt novels-de.txt

A model is trained on the first text, adapted to several tokenizers, and with each trained for the same few
steps on the second text. Bits per byte are of the ends of both texts, which are not trained on. All is done
once for each seed, on one thread, so that a machine finds the same figures again; it takes twenty minutes of
an idle core. The table has means over seeds, and half of how far they lie apart; kB are of the second text,
as each sees the same number of tokens of it.
"""

import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import torch
import typer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from extending import Text, appended, plain
from harness import markdown

import hf_scaffold as hs

SIZES = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 672,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
RATE = 1e-3
BATCH, WINDOW = 4, 256  # windows in a step, tokens in a window
READ = 4_000_000  # characters of a text that windows are taken from
MEASURED, PIECE = 20_000, 400  # characters of held-out text, and of what a model sees of it at once


class Way(NamedTuple):
    """A way to go on with another language.

    Args:
        tokenizer: None for the old one.
        init: As for `hs.adapt`; None: all rows are drawn anew.
    """

    name: str
    tokenizer: PreTrainedTokenizerFast | None = None
    init: str | None = None


def ways(old: PreTrainedTokenizerFast, counts: hs.PreTokenCounts, larger: int) -> list[Way]:
    extended, new = hs.extend(old, counts, larger), plain(counts, larger)
    return [
        Way("the old tokenizer"),
        Way("`hs.extend`, `hs.adapt`", extended, "pieces"),
        Way("the same, rows as by `resize_token_embeddings`", extended, "normal"),
        Way("another tokenizer's tokens appended, `hs.adapt`", appended(old, counts, larger), "pieces"),
        Way("a new tokenizer, `hs.adapt`", new, "pieces"),
        Way("a new tokenizer, all rows random", new),
    ]  # fmt: skip


def adapted(folder: Path, way: Way, output: Path) -> LlamaForCausalLM:
    if way.tokenizer is None:
        return LlamaForCausalLM.from_pretrained(folder)
    hs.adapt(folder, way.tokenizer, output, init=way.init or "random")
    model = LlamaForCausalLM.from_pretrained(output)
    if way.init is None:
        torch.nn.init.normal_(model.get_input_embeddings().weight, std=model.config.initializer_range)
    return model


def train(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, text: Text, n_steps: int, seed: int
) -> int:
    """Train a model for some steps; returns how many bytes of the text it has seen."""
    rows = tokenizer("".join(text.training)[:READ].splitlines(keepends=True), add_special_tokens=False)
    ids = torch.tensor([token_id for row in rows["input_ids"] for token_id in row])
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.1)
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, n_steps, pct_start=0.1, cycle_momentum=False)
    random, n_bytes = torch.Generator().manual_seed(seed), 0
    model.train()
    for _ in range(n_steps):
        starts = torch.randint(len(ids) - WINDOW, (BATCH, 1), generator=random)
        windows = ids[starts + torch.arange(WINDOW)]
        n_bytes += sum(len(tokenizer.decode(window).encode()) for window in windows)
        windows[:, 0] = tokenizer.eos_token_id
        model(input_ids=windows, labels=windows).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
    return n_bytes


@torch.no_grad()
def bits_per_byte(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, text: Text) -> float:
    """What a model takes to write held-out text, in pieces that each begin after an end of text."""
    held_out = "".join(text.held_out)[:MEASURED]
    pieces = [held_out[i : i + PIECE] for i in range(0, len(held_out), PIECE)]
    rows = sorted(tokenizer(pieces, add_special_tokens=False)["input_ids"], key=len)
    end, nats = tokenizer.eos_token_id, 0.0
    model.eval()
    for begin in range(0, len(rows), BATCH):
        batch = rows[begin : begin + BATCH]
        width = max(map(len, batch))
        ids = torch.tensor([[end, *row, *[end] * (width - len(row))] for row in batch])
        targets = torch.tensor([[*row, *[-100] * (width - len(row))] for row in batch])
        logits = model(input_ids=ids).logits[:, :-1].flatten(0, 1)
        nats += torch.nn.functional.cross_entropy(logits, targets.flatten(), reduction="sum").item()
    return nats / math.log(2) / len(held_out.encode())


class Run(NamedTuple):
    """What one seed has found of one way: bits per byte of both texts, and kB of the new text trained on."""

    before: list[float]
    after: list[float]
    seen: float


def runs(
    old: PreTrainedTokenizerFast,
    chosen: Sequence[Way],
    texts: Sequence[Text],
    steps: Sequence[int],
    seed: int,
) -> Iterator[Run]:
    """Each way, from a model of this seed."""
    torch.manual_seed(seed)
    config = LlamaConfig(**SIZES, vocab_size=len(old), bos_token_id=None, eos_token_id=old.eos_token_id)
    model = LlamaForCausalLM(config)
    train(model, old, texts[0], steps[0], seed)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(Path(folder, "old"))
        old.save_pretrained(Path(folder, "old"))
        for number, way in enumerate(chosen):
            torch.manual_seed(seed)
            model, tokenizer = (
                adapted(Path(folder, "old"), way, Path(folder, f"{number}")),
                way.tokenizer or old,
            )
            before = [bits_per_byte(model, tokenizer, text) for text in texts]
            seen = train(model, tokenizer, texts[1], steps[1], seed)
            after = [bits_per_byte(model, tokenizer, text) for text in texts]
            print(f"seed {seed}, {way.name}: {before} to {after}", file=sys.stderr)
            yield Run(before, after, seen / 1000)


def table(names: Sequence[str], chosen: Sequence[Way], found: Sequence[Sequence[Run]]) -> Iterator[str]:
    """Means over seeds, and how far the seeds lie apart.

    Args:
        found: By seed and way.
    """
    columns = [
        "tokenizer",
        *(f"{name}, {when}" for name in reversed(names) for when in ("at once", "after training")),
        "kB",
    ]
    rows = []
    for way, of_way in zip(chosen, zip(*found, strict=True), strict=True):
        figures = [[r.before[1], r.after[1], r.before[0], r.after[0]] for r in of_way]
        cells = [f"{x.mean():.3f} ± {np.ptp(x) / 2:.3f}" for x in np.array(figures).T]
        rows.append([way.name, *cells, f"{np.mean([run.seen for run in of_way]):.0f}"])
    yield from markdown(columns, rows)


def main(
    corpora: Annotated[list[Path], typer.Argument(help="The text to begin with, and the one to go on with.")],
    vocab_size: int = 8_000,
    larger: Annotated[int, typer.Option(help="The vocabulary to go on with.")] = 12_000,
    steps: Annotated[tuple[int, int], typer.Option(help="On the first text and on the second.")] = (600, 40),
    seeds: int = 3,
) -> None:
    """Train a tiny Llama on a text and adapt it to another in several ways."""
    torch.set_num_threads(1)
    logging.disable_progress_bar()
    texts = [Text.read(corpus) for corpus in corpora]
    counts = [hs.count(text.training, pre_tokenizer="gpt2") for text in texts]
    old = plain(counts[0], vocab_size)
    chosen = ways(old, counts[1], larger)
    found = [list(runs(old, chosen, texts, steps, seed)) for seed in range(seeds)]
    print("\n".join(table([corpus.stem for corpus in corpora], chosen, found)))


if __name__ == "__main__":
    typer.run(main)
