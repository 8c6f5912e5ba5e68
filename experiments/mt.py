"""Translation with tokens of plain BPE and of Scaffold-BPE, with and without BPE-dropout: BLEU and chrF.

    python experiments/mt.py multilingual.txt --size small

Models of Marian's shape are trained from scratch on the same pairs of sentences in the same order, once for
each seed. Sources and targets share a tokenizer. With dropout a verse is encoded anew each time it is seen.
Lian et al. 2024 (arXiv:2404.17808, Table 5) do this on WMT.

The text holds Bibles, one after the other, a verse a line without its number. Each begins at a line "Marked
up to the level of chapter and verse", followed by what is left of a header, with the code of its language.
Two translations pair line by line from their first verse on, for as many whole blocks of a hundred lines as
the logarithms of their lengths correlate by more than 0.6. (Off by a line, they correlate by less than 0.5.)
So a missing verse ends it. A source is a translation that pairs for a thousand lines, at least; the target is
the one whose sources have most lines in all. The source's language is the first token of a source. Every
twentieth line of the target is held out, from all sources, and lines that are translated alike with it.

In multilingual.txt 13 sources pair with the Ukrainian Gospels and half of Acts: Swahili, Zulu, Basque,
Coptic, Syriac, Cherokee and seven other languages of America and Africa. That makes 34,010 pairs to train on
and 1,790 to translate. It is weak: there are only 4,077 different targets, and 215 that are held out; the
Gospels repeat each other; no source is close to the target. A model of size small sees a third of the pairs
in three minutes of a core, and comes to a BLEU below 1; with `--pairs 34000` it sees nearly all of them once.

Finished runs go to a log, a line each, and are not run again. `--minutes 10` stops after ten minutes; the
same command goes on from the checkpoints.
"""

import json
import math
import re
import time
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
import typer
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
    run_all,
)
from numpy.typing import NDArray
from sacrebleu.metrics import BLEU, CHRF
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoTokenizer, GenerationConfig, MarianConfig, MarianMTModel, PreTrainedTokenizerFast

import hf_scaffold as hs

MARK = "Marked up to the level of chapter and verse"
BLOCK = 100  # lines that pair or don't
ALIKE = 0.6  # how the lengths of these lines correlate, if they do
ENOUGH = 1_000  # lines of a source
HELD_OUT = 20  # one of so many lines
END, PADDING = "</s>", "<pad>"
LONGEST = 256  # tokens of a sentence; the rest is cut off
AT_ONCE = 256  # sentences translated together


class Size(NamedTuple):
    """A model, and what it is trained on.

    Args:
        layers: Of the encoder, and as many of the decoder.
        dropout: Of activations.
        batch: Pairs in a step.
        pairs: That are seen in all.
        beams: In decoding.
    """

    hidden: int
    layers: int
    heads: int
    dropout: float
    rate: float
    batch: int
    pairs: int
    beams: int

    def config(self, tokenizer: PreTrainedTokenizerFast) -> MarianConfig:
        return MarianConfig(
            vocab_size=len(tokenizer),
            d_model=self.hidden,
            encoder_layers=self.layers,
            decoder_layers=self.layers,
            encoder_attention_heads=self.heads,
            decoder_attention_heads=self.heads,
            encoder_ffn_dim=4 * self.hidden,
            decoder_ffn_dim=4 * self.hidden,
            max_position_embeddings=LONGEST,
            dropout=self.dropout,
            scale_embedding=True,
            init_std=self.hidden**-0.5,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            forced_eos_token_id=None,
            decoder_start_token_id=tokenizer.pad_token_id,
        )


SIZES = {
    "toy": Size(32, 1, 2, 0.1, 3e-3, 8, 200, 1),
    "small": Size(128, 2, 4, 0.1, 3e-3, 32, 12_000, 1),
    "base": Size(256, 4, 4, 0.3, 1e-3, 256, 2_000_000, 4),
}


# ---- pairs of sentences


class Translation(NamedTuple):
    language: str
    verses: list[str]

    @property
    def log_lengths(self) -> NDArray[Any]:
        return np.log([len(verse) + 1 for verse in self.verses])


class Pair(NamedTuple):
    language: str
    source: str
    target: str


def translations(text: str) -> list[Translation]:
    """All translations of a text, in order; the last has everything to its end."""
    found = []
    for part in text.split(MARK)[1:]:
        header, verses = re.split(r"<seg id=[^>]*>\s*", part, maxsplit=1)
        language = re.search(r"<language [^>]*\bid=['\"](\w+)", header)
        assert language, f"no language in {header[:200]!r}"
        found.append(Translation(language[1], [verse.strip() for verse in verses.rstrip().split("\n")]))
    return found


def n_paired(one: NDArray[Any], other: NDArray[Any]) -> int:
    """How many lines of two translations pair, by the logarithms of their lengths."""
    n = 0
    while n + BLOCK <= min(len(one), len(other)):
        if np.corrcoef(one[n : n + BLOCK], other[n : n + BLOCK])[0, 1] <= ALIKE:
            break
        n += BLOCK
    return n


def paired(text: str) -> tuple[Translation, dict[str, list[Pair]]]:
    """The target, and pairs to train on and to translate."""
    all_of_them = translations(text)
    lengths = [each.log_lengths for each in all_of_them]
    lines = np.array([[n_paired(one, other) for other in lengths] for one in lengths])
    np.fill_diagonal(lines, 0)
    lines[lines < ENOUGH] = 0
    chosen = int(lines.sum(axis=1).argmax())
    target = all_of_them[chosen]
    held_out = set(target.verses[::HELD_OUT])
    pairs: dict[str, list[Pair]] = {"train": [], "test": []}
    for source, n_lines in zip(all_of_them, lines[chosen], strict=True):
        for i in range(n_lines):
            pair = Pair(source.language, source.verses[i], target.verses[i])
            if not (pair.source and pair.target):
                continue
            if i % HELD_OUT == 0:
                pairs["test"].append(pair)
            elif pair.target not in held_out:
                pairs["train"].append(pair)
    return target, pairs


def tag(language: str) -> str:
    return f"<{language}>"


def prepare(path: Path, vocab_sizes: list[int], methods: list[str], folder: Path) -> None:
    """Pairs, and tokenizers of the different sentences of those that are trained on."""
    target, pairs = paired(path.read_text(encoding="utf-8"))
    languages = sorted({pair.language for pair in pairs["train"]})
    facts = {"target": target.language, "sources": languages}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pairs.json").write_text(json.dumps(facts | pairs), encoding="utf-8")
    sentences = dict.fromkeys(sentence for pair in pairs["train"] for sentence in (pair.source, pair.target))
    counts = hs.count(list(sentences))
    for size in vocab_sizes:
        for method in methods:
            special = [PADDING, END, *map(tag, languages)]
            bpe = hs.train(counts, size, method=method, special_tokens=special)
            tokenizer = bpe.to_tokenizer(eos_token=END, pad_token=PADDING)
            tokenizer.save_pretrained(folder / f"{size}-{method}")


# ---- batches


def order_of(pairs: list[Pair], n_in_batch: int, seed: int, epoch: int) -> list[NDArray[Any]]:
    """Batches of all pairs in random order; the pairs of one are of about the same length."""
    random = np.random.default_rng([seed, epoch])
    lengths = [len(pair.source) + len(pair.target) for pair in pairs]
    about = np.argsort(lengths * random.uniform(0.95, 1.05, len(pairs)), kind="stable")
    batches = np.array_split(about, math.ceil(len(pairs) / n_in_batch))
    return [batches[i] for i in random.permutation(len(batches))]


class Encoding:
    """A tokenizer and its BPE-dropout, which depends on the seed of a call and on a sentence."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast, dropout: float) -> None:
        self.tokenizer, self.dropout = tokenizer, dropout

    def sentences(self, texts: list[str], seed: int) -> list[list[int]]:
        """The ids of each, with the end."""
        ids = self.tokenizer(texts, dropout=self.dropout, seed=seed, add_special_tokens=False)["input_ids"]
        return [[*row[: LONGEST - 2], self.tokenizer.eos_token_id] for row in ids]

    def sources(self, pairs: list[Pair], seed: int) -> list[list[int]]:
        tags = self.tokenizer.convert_tokens_to_ids([tag(pair.language) for pair in pairs])
        rows = self.sentences([pair.source for pair in pairs], seed)
        return [[first, *row] for first, row in zip(tags, rows, strict=True)]

    def inputs(self, pairs: list[Pair], seed: int) -> Batch:
        rows = self.sources(pairs, seed)
        return {
            "input_ids": padded(rows, self.tokenizer.pad_token_id),
            "attention_mask": padded([[1] * len(row) for row in rows], 0),
        }

    def batch(self, pairs: list[Pair], seed: int) -> Batch:
        """What the model sees and what it is to say: from each token of a target the next."""
        pad = self.tokenizer.pad_token_id
        targets = self.sentences([pair.target for pair in pairs], seed)
        return self.inputs(pairs, seed) | {
            "decoder_input_ids": padded([[pad, *row[:-1]] for row in targets], pad),
            "labels": padded(targets, IGNORED),
        }


def padded(rows: list[list[int]], filler: int) -> torch.Tensor:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=filler)


# ---- runs


@torch.no_grad()
def translated(
    model: MarianMTModel, encoding: Encoding, pairs: list[Pair], beams: int, device: str
) -> list[str]:
    """A translation of each source."""
    tokenizer = encoding.tokenizer
    by_length = sorted(range(len(pairs)), key=lambda i: len(pairs[i].source))
    found = [""] * len(pairs)
    model.eval()
    for begin in range(0, len(pairs), AT_ONCE):
        rows = by_length[begin : begin + AT_ONCE]
        batch = encoding.inputs([pairs[i] for i in rows], seed=0)
        inputs = {name: part.to(device) for name, part in batch.items()}
        config = GenerationConfig(
            num_beams=beams,
            max_length=min(LONGEST, 2 * inputs["input_ids"].shape[1]),
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            decoder_start_token_id=tokenizer.pad_token_id,
        )
        ids = model.generate(**inputs, generation_config=config)
        for i, text in zip(rows, tokenizer.batch_decode(ids, skip_special_tokens=True), strict=True):
            found[i] = text
    return found


def do(asked: Run, place: Place) -> Run:
    """One run: train a model and measure it. n_tokens is what the pairs have, encoded once, with dropout."""
    place.set_up(asked["seed"])
    size = SIZES[asked["size"]]
    folder = place.folder / asked["corpus"]
    saved = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
    train, test = ([Pair(*pair) for pair in saved[part]] for part in ("train", "test"))
    tokenizer = AutoTokenizer.from_pretrained(folder / f"{asked['vocab_size']}-{asked['method']}")
    encoding = Encoding(tokenizer, asked["dropout"])
    n_batches = math.ceil(len(train) / size.batch)

    @lru_cache(maxsize=1)
    def order(epoch: int) -> list[NDArray[Any]]:
        return order_of(train, size.batch, asked["seed"], epoch)

    def batch_of(step: int) -> Batch:
        epoch, number = divmod(step, n_batches)
        rows = order(epoch)[number]
        return encoding.batch([train[i] for i in rows], seed=asked["seed"] * 1_000_003 + step)

    model = MarianMTModel(size.config(tokenizer))
    losses, seconds = fit(
        model,
        batch_of,
        math.ceil(asked["pairs"] / size.batch),
        rate=size.rate,
        seed=asked["seed"],
        place=place,
        checkpoint=place.checkpoint(asked),
    )
    began = time.time()
    found = translated(model, Encoding(tokenizer, 0.0), test, size.beams, place.device)
    bleu, chrf = BLEU(), CHRF()
    seconds += time.time() - began
    scores = [metric.corpus_score(found, [[pair.target for pair in test]]).score for metric in (bleu, chrf)]
    rows = encoding.sources(train, seed=0) + encoding.sentences([pair.target for pair in train], seed=0)
    layers = [*model.model.encoder.layers.parameters(), *model.model.decoder.layers.parameters()]
    return {
        "asked": asked,
        "bleu": round(scores[0], 4),
        "chrf": round(scores[1], 4),
        "signatures": [str(metric.get_signature()) for metric in (bleu, chrf)],
        "target": saved["target"],
        "sources": saved["sources"],
        "n_pairs": {"train": len(train), "test": len(test)},
        "n_parameters": sum(p.numel() for p in layers),
        "n_tokens": sum(map(len, rows)),
        "n_cut_off": sum(len(row) >= LONGEST - 1 for row in rows),
        **facts(losses, seconds, place),
    }


def main(
    text: Annotated[Path, typer.Argument(help="Translations of the Bible.")],
    size: Annotated[str, typer.Option(help=f"Of the model: {', '.join(SIZES)}.")] = "small",
    vocab_size: Annotated[list[int], typer.Option()] = [8_000],  # noqa: B006  # never changed
    method: Annotated[list[str], typer.Option(help="Of training the tokenizer.")] = ["bpe", "scaffold"],  # noqa: B006
    dropout: Annotated[list[float], typer.Option(help="Of merges, in training.")] = [0.0, 0.1],  # noqa: B006
    pairs: Annotated[int | None, typer.Option(help="Seen in training; as fits the size.")] = None,
    seeds: int = 3,
    jobs: Jobs = 1,
    device: str = "cpu",
    minutes: Minutes = math.inf,
    save_every: SaveEvery = 60,
    folder: Folder = LARGE,
    log: Log = None,
) -> None:
    place = Place(folder / f"mt-{size}", device, time.time() + minutes * 60, save_every)

    def prepare_all() -> None:
        prepare(text, vocab_size, method, place.folder / text.stem)

    asked = [
        {
            "corpus": text.stem,
            "corpus_bytes": text.stat().st_size,
            "size": size,
            "vocab_size": each_size,
            "method": each_method,
            "dropout": each_dropout,
            "pairs": SIZES[size].pairs if pairs is None else pairs,
            "seed": seed,
        }
        for seed in range(seeds)
        for each_size in vocab_size
        for each_dropout in dropout
        for each_method in method
    ]
    run_all(asked, prepare_all, do, place, log, jobs)


if __name__ == "__main__":
    typer.run(main)
