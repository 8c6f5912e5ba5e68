"""Language models on the tokens of Scaffold-BPE and of other methods: bits per byte of held-out text.

    python experiments/lm.py novels-de.txt multilingual.txt --size 1m --jobs 2

Models of Llama's shape are trained from scratch on the same documents in the same order, once for each seed:
the same bytes for all methods, or as many tokens as plain BPE makes of these bytes. Each text is cut into
documents of some 4 kB. The last tenth is *other* text: other books, other languages. Of the rest every tenth
document is held out, too: the *same* text, but not seen. The tokenizer is trained on all that remains.

Bits per byte count each byte of held-out text once, as part of one pre-token, which is *kept*, if plain BPE
and Scaffold-BPE encode it alike; *demolished*, if Scaffold-BPE takes a scaffold token apart in it; else
*replaced*. These classes are the same for all methods of a vocabulary size.

Finished runs go to a log, a line each, and are not run again. `--minutes 10` stops after ten minutes; the
same command goes on from the checkpoints.
"""

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
from embeddings import measured
from loop import (
    IGNORED,
    LARGE,
    Batch,
    Folder,
    Jobs,
    Log,
    Minutes,
    Place,
    Run,
    SaveEvery,
    facts,
    fit,
    loss_of,
    run_all,
)
from numpy.typing import NDArray
from tokenizers.models import BPE
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

import hf_scaffold as hs

END = "<|endoftext|>"
DOCUMENT = 4_000  # bytes of a document, at least
WINDOW = 512  # tokens a model sees at once
HELD_OUT = ["same", "other"]
CLASSES = ["kept", "replaced", "demolished"]


class Size(NamedTuple):
    """A model, its parameters without embeddings in its name, and what it is trained on.

    Args:
        batch: Windows in a step.
        megabytes: Of text.
        held_out: Bytes of each held-out part.
    """

    hidden: int
    layers: int
    heads: int
    rate: float
    batch: int
    megabytes: float
    held_out: int

    def config(self, vocab_size: int, end: int) -> LlamaConfig:
        return LlamaConfig(
            vocab_size=vocab_size,
            hidden_size=self.hidden,
            intermediate_size=round(self.hidden * 8 / 3 / 32) * 32,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads,
            max_position_embeddings=WINDOW,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=end,
        )


SIZES = {
    "toy": Size(32, 2, 2, 3e-3, 2, 0.02, 4_000),
    "1m": Size(128, 5, 4, 3e-3, 2, 2, 200_000),
    "10m": Size(320, 8, 5, 1e-3, 32, 100, 2_000_000),
    "30m": Size(512, 10, 8, 6e-4, 64, 300, 2_000_000),
}


# ---- text


def documents(path: Path) -> Iterator[str]:
    """Whole lines, as many as make a document."""
    lines: list[str] = []
    n_bytes = 0
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            lines.append(line)
            n_bytes += len(line.encode())
            if n_bytes >= DOCUMENT:
                yield "".join(lines)
                lines, n_bytes = [], 0


def parts_of(path: Path) -> dict[str, list[str]]:
    """The documents that are trained on, those of the same text that aren't, and those of other text."""
    all_of_them = list(documents(path))
    cut = len(all_of_them) * 9 // 10
    seen = all_of_them[:cut]
    train = [document for i, document in enumerate(seen) if i % 10]
    return {"train": train, "same": seen[::10], "other": all_of_them[cut:]}


def sample(texts: list[str], n_bytes: int) -> list[str]:
    """Documents in random order until there are so many bytes, or all."""
    chosen: list[str] = []
    for i in np.random.default_rng(0).permutation(len(texts)):
        if sum(len(text.encode()) for text in chosen) >= n_bytes:
            break
        chosen.append(texts[i])
    return chosen


def classes_of(texts: list[str], plain: hs.ScaffoldBPE, scaffold: hs.ScaffoldBPE) -> NDArray[Any]:
    """For each byte of some text the class of its pre-token."""
    pretokens = [pretoken for text in texts for pretoken in plain.pre_tokenizer.pre_tokenize(text)]
    distinct = sorted(set(pretokens))
    undemolished = BPE(scaffold.vocab, scaffold.merges)
    classes = {}
    for pretoken, before, after in zip(
        distinct, plain.encode(distinct), scaffold.encode(distinct), strict=True
    ):
        tokens = [scaffold.tokens[token_id] for token_id in after]
        if [plain.tokens[token_id] for token_id in before] == tokens:
            name = "kept"
        elif any(token.value in scaffold.demolish_map for token in undemolished.tokenize("".join(tokens))):
            name = "demolished"
        else:
            name = "replaced"
        classes[pretoken] = CLASSES.index(name)
    codes = np.array([classes[pretoken] for pretoken in pretokens], np.uint8)
    return np.repeat(codes, [len(pretoken) for pretoken in pretokens])


def prepare(path: Path, vocab_sizes: list[int], methods: list[str], held_out: int, folder: Path) -> None:
    """Tokenizers, shards of what is trained on, and what is held out."""
    parts = parts_of(path)
    counts = hs.count(parts["train"])
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "lengths.npy", [len(text.encode()) for text in parts["train"]])
    parts |= {part: sample(parts[part], held_out) for part in HELD_OUT}
    for part, texts in parts.items():
        rows = (json.dumps({"text": text}) + "\n" for text in texts)
        (folder / f"{part}.jsonl").write_text("".join(rows), encoding="utf-8")
    for size in vocab_sizes:
        trained = {
            method: hs.train(counts, size, method=method, special_tokens=[END])
            for method in dict.fromkeys(["bpe", "scaffold", *methods])
        }
        for part in HELD_OUT:
            classes = classes_of(parts[part], trained["bpe"], trained["scaffold"])
            np.save(folder / f"{size}-{part}.npy", classes)
        for method, bpe in trained.items():
            tokenizer = bpe.to_tokenizer(eos_token=END)
            tokenizer.save_pretrained(folder / f"{size}-{method}")
            for part in parts:
                shards = folder / f"{size}-{method}" / part
                hs.write_shards(folder / f"{part}.jsonl", tokenizer, shards, overwrite=True)


class Text:
    """What one tokenizer makes of one part: the ids, and where each document ends."""

    def __init__(self, folder: Path, part: str, end: int) -> None:
        shards = hs.ShardIndex.load(folder / part)
        ids = [np.fromfile(folder / part / shard.name, shards.dtype) for shard in shards.shards]
        self.ids = np.concatenate(ids).astype(np.int64)
        self.ends = np.flatnonzero(self.ids == end) + 1
        self.end = end

    def stream(self, order: NDArray[Any]) -> NDArray[Any]:
        """The documents in some order, each between two ends of text."""
        begins = [0, *self.ends[:-1]]
        return np.concatenate([[self.end], *(self.ids[begins[i] : self.ends[i]] for i in order)])


def order_of(lengths: NDArray[Any], n_bytes: float, seed: int) -> NDArray[Any]:
    """Documents that have so many bytes together: all of them in random order, as often as need be."""
    random = np.random.default_rng(seed)
    n_rounds = math.ceil(n_bytes / lengths.sum())
    order = np.concatenate([random.permutation(len(lengths)) for _ in range(n_rounds)])
    return order[: np.searchsorted(np.cumsum(lengths[order]), n_bytes) + 1]


def windows(stream: NDArray[Any], n_windows: int, number: int) -> Batch:
    """Some windows of a stream and what follows each of their tokens; padded where the stream ends."""
    begin = number * n_windows * WINDOW
    piece = stream[begin : begin + n_windows * WINDOW + 1]
    n_rows = math.ceil((len(piece) - 1) / WINDOW)
    inputs = np.full(n_rows * WINDOW, stream[0])
    targets = np.full(n_rows * WINDOW, IGNORED)
    inputs[: len(piece) - 1], targets[: len(piece) - 1] = piece[:-1], piece[1:]
    shape = (n_rows, WINDOW)
    return {
        "input_ids": torch.from_numpy(inputs.reshape(shape)),
        "labels": torch.from_numpy(targets.reshape(shape)),
    }


def n_batches(stream: NDArray[Any], n_windows: int) -> int:
    return math.ceil((len(stream) - 1) / (n_windows * WINDOW))


# ---- runs


@torch.no_grad()
def bits_per_byte(
    model: LlamaForCausalLM,
    text: Text,
    lengths: NDArray[Any],
    classes: NDArray[Any],
    n_windows: int,
    device: str,
) -> Run:
    """What a model takes to write held-out text, a byte: in all, and in each class of pre-tokens.

    Args:
        lengths: Bytes of each token.
        classes: Of each byte of the text.
    """
    stream = text.stream(np.arange(len(text.ends)))
    model.eval()
    batches = (windows(stream, n_windows, i) for i in range(n_batches(stream, n_windows)))
    nats = torch.cat([loss_of(model, batch, device).double().cpu() for batch in batches]).numpy()
    tokens = stream[1:]
    written = tokens != text.end
    begins = np.cumsum(lengths[tokens[written]]) - lengths[tokens[written]]
    n_bytes = np.bincount(classes, minlength=len(CLASSES))
    bits = np.bincount(classes[begins], nats[written], len(CLASSES)) / math.log(2)
    of_classes = {
        name: {"bits_per_byte": float(b / n) if n else None, "n_bytes": int(n)}
        for name, b, n in zip(CLASSES, bits, n_bytes, strict=True)
    }
    return {
        "bits_per_byte": float(bits.sum() / n_bytes.sum()),
        "n_bytes": len(classes),
        "classes": of_classes,
    }


def do(asked: Run, place: Place) -> Run:
    """One run: train a model and measure it."""
    place.set_up(asked["seed"])
    size = SIZES[asked["size"]]
    folder = place.folder / asked["corpus"]
    name = f"{asked['vocab_size']}-{asked['method']}"
    tokenizer = AutoTokenizer.from_pretrained(folder / name)
    end = tokenizer.eos_token_id
    order = order_of(np.load(folder / "lengths.npy"), asked["megabytes"] * 1e6, asked["seed"])
    text = Text(folder / name, "train", end)
    stream = text.stream(order)
    if asked["budget"] == "tokens":
        n_tokens = len(Text(folder / f"{asked['vocab_size']}-bpe", "train", end).stream(order))
        stream = np.resize(stream, n_tokens)  # what is lacking is read again, from the beginning
    model = LlamaForCausalLM(size.config(len(tokenizer), end))
    losses, seconds = fit(
        model,
        lambda step: windows(stream, size.batch, step),
        n_batches(stream, size.batch),
        rate=size.rate,
        seed=asked["seed"],
        place=place,
        checkpoint=place.checkpoint(asked),
    )
    lengths = np.array([len(token) for token in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))])
    held_out = {
        part: bits_per_byte(
            model,
            Text(folder / name, part, end),
            lengths,
            np.load(folder / f"{asked['vocab_size']}-{part}.npy"),
            size.batch,
            place.device,
        )
        for part in HELD_OUT
    }
    weights = model.get_input_embeddings().weight.detach().float().cpu().numpy()
    return {
        "asked": asked,
        "held_out": held_out,
        "embeddings": measured(weights, np.bincount(text.ids, minlength=len(weights))),
        "n_parameters": sum(p.numel() for p in model.model.layers.parameters()),
        "n_tokens": len(stream) - 1,
        "last_loss": losses[-1],
        **facts(losses, seconds, place),
    }


def main(
    texts: Annotated[list[Path], typer.Argument(help="Files of text.")],
    size: Annotated[str, typer.Option(help=f"Of the model: {', '.join(SIZES)}.")] = "1m",
    vocab_size: Annotated[list[int], typer.Option()] = [8_000, 16_000],  # noqa: B006  # never changed
    method: Annotated[list[str], typer.Option(help="Of training the tokenizer.")] = ["bpe", "scaffold"],  # noqa: B006
    budget: Annotated[list[str], typer.Option(help="What is equal.")] = ["bytes", "tokens"],  # noqa: B006
    megabytes: Annotated[float | None, typer.Option(help="Of text to train on; as fits the size.")] = None,
    seeds: int = 3,
    jobs: Jobs = 1,
    device: str = "cpu",
    minutes: Minutes = math.inf,
    save_every: SaveEvery = 60,
    folder: Folder = LARGE,
    log: Log = None,
) -> None:
    place = Place(folder / f"lm-{size}", device, time.time() + minutes * 60, save_every)

    def prepare_all() -> None:
        for path in texts:
            prepare(path, vocab_size, method, SIZES[size].held_out, place.folder / path.stem)

    asked = [
        {
            "corpus": path.stem,
            "corpus_bytes": path.stat().st_size,
            "size": size,
            "vocab_size": each_size,
            "method": each_method,
            "budget": each_budget,
            "megabytes": SIZES[size].megabytes if megabytes is None else megabytes,
            "seed": seed,
        }
        for seed in range(seeds)
        for path in texts
        for each_size in vocab_size
        for each_budget in budget
        for each_method in method
        if (each_method, each_budget) != ("bpe", "tokens")  # the same run as for bytes
    ]
    run_all(asked, prepare_all, do, place, log, jobs)


if __name__ == "__main__":
    typer.run(main)
