"""One function a trainer: a text file in, merged tokens as bytes out, in the order they were learned.

Each returns (seconds of the training call, merged tokens). Reading the file is part of the call: the peers
read it themselves or are fed by an iterator. Those in Rust take their threads from RAYON_NUM_THREADS.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

SPECIAL = "<|endoftext|>"
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

Learned = tuple[float, list[bytes]]


def pieces(path: Path) -> Iterator[str]:
    """The file in pieces of about 1 MB, cut where no pre-token changes."""
    from hf_scaffold._core.counter import last_cut
    from hf_scaffold.text.corpus import iter_documents

    for piece in iter_documents(path, cut=lambda text: last_cut(text, "gpt2")):
        yield piece.decode()


def _ours(path: Path, vocab_size: int, threads: int, *, scaffold: bool) -> Learned:
    import hf_scaffold as hs
    from hf_scaffold.text.byte_level import symbols_to_bytes

    count, train = hs.count, hs.train  # imported before the clock starts, as the peers are
    start = time.perf_counter()
    counts = count(path, pre_tokenizer="gpt2", num_workers=threads)
    bpe = train(counts, vocab_size, special_tokens=[SPECIAL], scaffold=scaffold)
    seconds = time.perf_counter() - start
    return seconds, [symbols_to_bytes(left + right) for left, right in bpe.merges]


def hf_scaffold(path: Path, vocab_size: int, threads: int) -> Learned:
    return _ours(path, vocab_size, threads, scaffold=True)


def hf_scaffold_plain(path: Path, vocab_size: int, threads: int) -> Learned:
    return _ours(path, vocab_size, threads, scaffold=False)


def gigatoken(path: Path, vocab_size: int, threads: int) -> Learned:
    import gigatoken

    start = time.perf_counter()
    _, merges = gigatoken.train_bpe(os.fspath(path), vocab_size, [SPECIAL], tie_breaking="huggingface")
    return time.perf_counter() - start, [left + right for left, right in merges]


def tokenizers(path: Path, vocab_size: int, threads: int) -> Learned:
    import json

    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    from hf_scaffold.text.byte_level import symbols_to_bytes

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    start = time.perf_counter()
    tokenizer.train_from_iterator(pieces(path), trainer)
    seconds = time.perf_counter() - start
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return seconds, [symbols_to_bytes(left + right) for left, right in merges]


def rustbpe(path: Path, vocab_size: int, threads: int) -> Learned:
    import rustbpe

    tokenizer = rustbpe.Tokenizer()
    start = time.perf_counter()
    tokenizer.train_from_iterator(pieces(path), vocab_size - 1, pattern=GPT2_PATTERN)
    seconds = time.perf_counter() - start
    return seconds, [token for token, _ in tokenizer.get_mergeable_ranks()[256:]]


def sentencepiece(path: Path, vocab_size: int, threads: int) -> Learned:
    import tempfile

    import sentencepiece

    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        sentencepiece.SentencePieceTrainer.train(
            input=os.fspath(path),
            model_prefix=f"{folder}/model",
            model_type="bpe",
            vocab_size=vocab_size,
            num_threads=threads,
            byte_fallback=True,
            minloglevel=2,
        )
        return time.perf_counter() - start, []


# What to call each, and whether it promises the merges that our plain BPE learns.
TRAINERS: dict[str, tuple[Callable[[Path, int, int], Learned], bool]] = {
    "hf_scaffold": (hf_scaffold, False),
    "hf_scaffold, scaffold=False": (hf_scaffold_plain, True),
    "gigatoken": (gigatoken, True),
    "rustbpe": (rustbpe, False),
    "sentencepiece": (sentencepiece, False),
    "tokenizers": (tokenizers, True),
}
