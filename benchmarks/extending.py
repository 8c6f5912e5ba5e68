"""New tokens for new text: `hs.extend` beside other ways to get them.

    python benchmarks/extending.py novels-en.txt novels-de.txt --vocab-size 32000 --larger 48000

A plain BPE is trained on the first text and extended to the second, but for the last MB of each, on which
the table's figures are measured. Nothing is timed, and the same texts give the same table. docs/adapting.md
shows and explains it.
"""

import heapq
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from tokenizers import AddedToken, Tokenizer
from transformers import PreTrainedTokenizerFast

sys.path.insert(0, str(Path(__file__).parent))  # PYTHONSAFEPATH leaves it out

from harness import markdown

import hf_scaffold as hs
from hf_scaffold.text.byte_level import symbols_to_bytes

Pair = tuple[str, str]
END = "<|endoftext|>"
HELD_OUT = 1_000_000  # bytes, or a tenth of a shorter text


class Text(NamedTuple):
    """Lines to train on, and those at the end to measure on."""

    training: list[str]
    held_out: list[str]

    @classmethod
    def read(cls, path: Path) -> "Text":
        data = path.read_bytes()
        middle = data.rfind(b"\n", 0, len(data) - min(HELD_OUT, len(data) // 10)) + 1
        return cls(*(part.decode().splitlines(keepends=True) for part in (data[:middle], data[middle:])))


# ---- ways to new tokens


def plain(counts: hs.PreTokenCounts, vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE in the stock class, as published models have."""
    tokenizer = hs.train_baseline("bpe", counts, vocab_size, special_tokens=[END])
    return with_model(tokenizer, tokenizer.get_vocab(), merges_of(tokenizer))


def with_model(
    tokenizer: PreTrainedTokenizerFast, vocab: dict[str, int], merges: Sequence[Pair]
) -> PreTrainedTokenizerFast:
    """The pipeline of a tokenizer, with another model, whose merges decide alone."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    state["model"] |= {"vocab": vocab, "merges": [*merges], "ignore_merges": False}
    backend = Tokenizer.from_str(json.dumps(state))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=END, pad_token=END)


def merges_of(tokenizer: PreTrainedTokenizerFast) -> list[Pair]:
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    return [(left, right) for left, right in merges]


def missing_tokens(old: PreTrainedTokenizerFast, counts: hs.PreTokenCounts, vocab_size: int) -> list[str]:
    """The first tokens of a BPE trained anew that the old vocabulary lacks, and that fill it up."""
    known = old.get_vocab()
    found = [token for token in hs.train(counts, vocab_size, scaffold=False).tokens if token not in known]
    return found[: vocab_size - len(known)]


def appended(
    old: PreTrainedTokenizerFast, counts: hs.PreTokenCounts, vocab_size: int
) -> PreTrainedTokenizerFast:
    """The tokens of another tokenizer behind the old ones, each with a merge for every split into two tokens.

    Source: "naive extension" of Purason et al. 2025 (arXiv 2512.03989).
    """
    vocab = old.get_vocab()
    fresh = missing_tokens(old, counts, vocab_size)
    vocab |= {token: len(vocab) + i for i, token in enumerate(fresh)}
    splits = [(token[:i], token[i:]) for token in fresh for i in range(1, len(token))]
    merges = [pair for pair in splits if vocab.keys() >= {*pair}]
    return with_model(old, vocab, [*merges_of(old), *merges])


def added(
    old: PreTrainedTokenizerFast, counts: hs.PreTokenCounts, vocab_size: int
) -> PreTrainedTokenizerFast:
    """The same tokens by `add_tokens`, which finds them in text before anything is split."""
    new = with_model(old, old.get_vocab(), merges_of(old))
    texts = [*map(text_of, missing_tokens(old, counts, vocab_size))]
    new.add_tokens([AddedToken(text, normalized=False) for text in texts if "\ufffd" not in text])
    return new


def leaf_pruned(
    old: PreTrainedTokenizerFast, counts: hs.PreTokenCounts, vocab_size: int
) -> PreTrainedTokenizerFast:
    """Plain BPE continued to twice as many new tokens, less the rarest of those that are a part of no other.

    Source: "leaf-based pruning" by frequency of Purason et al. 2025 (arXiv 2512.03989).
    """
    n_old = len(old)
    larger = hs.extend(old, counts, 2 * vocab_size - n_old, scaffold=False)
    evaluation = hs.evaluate(larger, counts)
    merges = [(left, right) for left, right in larger.scaffold["merges"]]
    frequencies = dict(zip(evaluation.tokens, evaluation.token_frequencies.tolist(), strict=True))
    ids, rules = larger.get_vocab(), {left + right: (left, right) for left, right in merges}
    n_wholes = Counter(part for pair in merges for part in pair)
    leaves = [(frequencies[token], token) for token in ids if ids[token] >= n_old and not n_wholes[token]]
    heapq.heapify(leaves)
    for _ in range(len(ids) - vocab_size):
        n, leaf = heapq.heappop(leaves)
        for part in rules.pop(leaf):
            frequencies[part] += n
            n_wholes[part] -= 1
            if not n_wholes[part] and ids[part] >= n_old:
                heapq.heappush(leaves, (frequencies[part], part))
    kept = sorted((token for token in ids if ids[token] < n_old or token in rules), key=ids.__getitem__)
    return with_model(old, {token: i for i, token in enumerate(kept)}, [*rules.values()])


# ---- what becomes of text


def text_of(token: str) -> str:
    """A token's text, with "\ufffd" where it is not whole characters."""
    return symbols_to_bytes(token).decode(errors="replace")


class Finding(NamedTuple):
    """How a tokenizer encodes texts.

    Args:
        reachable: Share of the new tokens that their own text is encoded to.
        used: Share of the new tokens that occur in the new text.
        bytes_per_token: By text.
        as_before: Share of the old text's lines that have the ids that the old tokenizer gives them.
    """

    reachable: float
    used: float
    bytes_per_token: list[float]
    as_before: float


def measure(old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast, texts: Sequence[Text]) -> Finding:
    """What a tokenizer makes of the held-out lines of the old text and of the new one."""
    rows = [new(text.held_out, add_special_tokens=False)["input_ids"] for text in texts]
    before = old(texts[0].held_out, add_special_tokens=False)["input_ids"]
    known = old.get_vocab()
    fresh = {token: i for token, i in new.get_vocab().items() if token not in known}
    seen = {token_id for row in rows[1] for token_id in row}
    alone = {token: new.decode([token_id]) for token, token_id in fresh.items()}
    ids = new([*alone.values()], add_special_tokens=False)["input_ids"] if alone else []
    found = [
        row == [fresh[token]] for token, row in zip(alone, ids, strict=True) if "\ufffd" not in alone[token]
    ]
    return Finding(
        reachable=sum(found) / max(1, len(found)),
        used=len(seen & {*fresh.values()}) / max(1, len(fresh)),
        bytes_per_token=[
            len("".join(text.held_out).encode()) / sum(map(len, ids))
            for text, ids in zip(texts, rows, strict=True)
        ],
        as_before=sum(map(list.__eq__, before, rows[0])) / len(before),
    )


def cells(
    name: str, old: PreTrainedTokenizerFast, new: PreTrainedTokenizerFast, texts: Sequence[Text]
) -> list[str]:
    found = measure(old, new, texts)
    is_new = len(new) > len(old)
    return [
        name,
        f"{len(new):,}",
        f"{found.reachable:.2%}" if is_new else "",
        f"{found.used:.1%}" if is_new else "",
        *(f"{ratio:.3f}" for ratio in reversed(found.bytes_per_token)),
        f"{found.as_before:.1%}",
    ]


WAYS: dict[str, Callable[[PreTrainedTokenizerFast, hs.PreTokenCounts, int], PreTrainedTokenizerFast]] = {
    "`hs.extend`": hs.extend,
    "BPE continued: `scaffold=False`": partial(hs.extend, scaffold=False),
    "BPE continued twice as far, leaves pruned": leaf_pruned,
    "another tokenizer's tokens appended": appended,
    "the same by `add_tokens`": added,
}


def main(
    corpora: Annotated[list[Path], typer.Argument(help="The old text and the new one.")],
    vocab_size: int = 32_000,
    larger: Annotated[int, typer.Option(help="The vocabulary with the new tokens.")] = 48_000,
) -> None:
    """Extend a tokenizer in several ways and compare what they make of both texts."""
    texts = [Text.read(corpus) for corpus in corpora]
    counts = [hs.count(text.training, pre_tokenizer="gpt2") for text in texts]
    old = plain(counts[0], vocab_size)
    rows = [cells("the old tokenizer", old, old, texts)]
    rows += [cells(name, old, way(old, counts[1], larger), texts) for name, way in WAYS.items()]
    rows += [cells("trained anew on both texts", old, plain(counts[0].merge(counts[1]), larger), texts)]
    names = [corpus.stem for corpus in corpora]
    columns = ["tokenizer", "tokens", "new ones reachable", "used"]
    columns += [f"bytes per token, {name}" for name in reversed(names)]
    print("\n".join(markdown([*columns, f"lines of {names[0]} with the same ids"], rows)))


if __name__ == "__main__":
    typer.run(main)
