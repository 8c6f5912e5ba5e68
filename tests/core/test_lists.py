"""Ids as lists, made while other threads still encode: those of `encode`, whatever the batch."""

import random
from array import array
from itertools import pairwise

import numpy as np
import pytest

from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder

BYTES = np.arange(256, dtype=np.int32)
XY = np.array([(ord("x"), ord("y"), 300), (300, 300, 301)], np.int32)
# The last one stands alone only where `tokenizers` says so.
ADDED = AddedTokenFinder([("<s>", 400, False, False, False, False, False), ("no", 401, True, 0, 0, 0, 0)])
NUMBERS = list(range(350))


def empty_lists(n):
    return [[] for _ in range(n)]


def texts_of(rng, n, longest):
    words = ["xy", "xyxy", "<s>", " ", "é", "漢", "no", "no\u0301", *(f" {i}" for i in range(99))]
    sure = [word for word in words if "no" not in word]  # of a long text `tokenizers` would have to tell else
    texts = ["".join(rng.choices(rng.choice([words, sure]), k=rng.randrange(longest))) for _ in range(n)]
    return [text + "\ud800" * (rng.random() < 0.02) for text in texts]


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize(("n", "longest"), [(0, 1), (1, 5), (700, 60), (40, 20_000), (3, 400_000)])
def test_lists_hold_the_ids_of_encode(n, longest, n_threads):
    texts = texts_of(random.Random(n), n, longest)
    encoder = TextEncoder("gpt2", BYTES, XY, {301: [7, 8, 9]})
    ids, offsets, unsure = encoder.encode(texts, ADDED, n_threads)
    expected = [ids[begin:end].tolist() for begin, end in pairwise(offsets.tolist())]
    assert longest < 1000 or any(len(row) > longest / 10 for row in expected)
    for before, after in (((), ()), ((1, 400), (2,))):
        rows, masks = empty_lists(n), empty_lists(n)
        frame = array("i", before), array("i", after)
        assert encoder.encode_to_lists(texts, ADDED, n_threads, *frame, NUMBERS, rows, masks) == unsure
        assert rows == [[*before, *row, *after] for row in expected]
        assert masks == [[1] * len(row) for row in rows]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_a_cache_that_is_renewed_meanwhile(n_threads):
    letters = random.Random(1)
    # Far more than a new cache holds.
    words = ["".join(letters.choices("abcdefgh", k=9)) for _ in range(120_000)]
    texts = [" ".join(words[i : i + 2000]) for i in range(0, len(words), 2000)]
    ids, offsets, _ = TextEncoder("gpt2", BYTES, XY, {}).encode(texts, ADDED, n_threads)
    encoder = TextEncoder("gpt2", BYTES, XY, {})
    for _ in range(2):
        rows = empty_lists(len(texts))
        encoder.encode_to_lists(texts, ADDED, n_threads, array("i"), array("i"), NUMBERS, rows)
        assert rows == [ids[begin:end].tolist() for begin, end in pairwise(offsets.tolist())]
    assert encoder.n_cached > 100_000


def test_without_an_empty_list_for_each_text():
    encoder, frame, one = TextEncoder("gpt2", BYTES, XY, {}), (array("i"), array("i")), [1]
    for rows, masks in (([], None), ([[]], None), ([[], [], []], None), ([[], one], None), ([[], ()], None)):
        with pytest.raises(ValueError, match="rows must hold an empty list for each of the 2 texts"):
            encoder.encode_to_lists(["xy", "x"], ADDED, 2, *frame, NUMBERS, rows, masks)
    with pytest.raises(ValueError, match="masks must hold an empty list for each of the 2 texts"):
        encoder.encode_to_lists(["xy", "x"], ADDED, 2, *frame, NUMBERS, [[], []], [[]])
    assert one == [1]


def test_nothing_is_filled_if_something_is_not_a_text():
    encoder, rows, masks = TextEncoder("gpt2", BYTES, XY, {}), empty_lists(2), empty_lists(2)
    for texts in (["xy", b"xy"], None):
        with pytest.raises(TypeError):
            encoder.encode_to_lists(texts, ADDED, 2, array("i"), array("i"), NUMBERS, rows, masks)
    assert rows == masks == [[], []]
