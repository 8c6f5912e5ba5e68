"""The cache from pre-tokens to ids: what it keeps, and that it never gives other ids than a new one."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder

BYTES = np.arange(256, dtype=np.int32)
RULES = np.array([(ord("a"), ord("b"), 256), (256, ord("c"), 257), (257, 257, 258)], np.int32)
NONE = AddedTokenFinder([])
MIB = 1 << 20
KEPT_AT_ONCE, LONGEST_AT_ONCE, LONGEST = 5 << 18, 512, 1 << 21


def an_encoder(replacements=None):
    return TextEncoder("gpt2", BYTES, RULES, replacements or {})


def letters(n, seed=0):
    return np.random.default_rng(seed).integers(97, 101, n, np.uint8).tobytes().decode()


def ids_of(encoder, texts, n_threads=1):
    ids, ends, unsure = encoder.encode(texts, NONE, n_threads)
    assert unsure == []
    return [ids[begin:end].tolist() for begin, end in itertools.pairwise(ends.tolist())]


def merged(text):
    """The ids by other means: a rule is applied everywhere at once, as no two of its places overlap."""
    for made, parts in ((256, "ab"), (257, chr(256) + "c"), (258, chr(257) * 2)):
        text = text.replace(parts, chr(made))
    return [*map(ord, text)]


# Up to 512 bytes they are kept at once; up to 16 KB their blocks share slabs.
LENGTHS = (1, 15, 16, 511, 512, 513, 514, 4000, 12_000, 13_000, 17_000, 65_535, 65_536, 65_537, 1_000_000)


@pytest.mark.parametrize("length", [*LENGTHS, LONGEST, LONGEST + 1])
def test_a_pretoken_is_kept_the_first_time_or_the_second(length):
    encoder, word = an_encoder(), letters(length)
    for n_met in (1, 2, 3, 4):
        assert ids_of(encoder, [word]) == [merged(word)]
        assert encoder.n_cached == (length <= LONGEST and n_met >= (1 if length <= LONGEST_AT_ONCE else 2))


@pytest.mark.parametrize("id", [1, 2**15 - 1, 2**15, 2**20 - 1, 2**20, 2**30 - 1, 2**30, 2**31 - 1])
@pytest.mark.parametrize("n", range(1, 16))
def test_so_many_ids_of_such_a_size(n, id):
    """Slots hold few large ids or more of small ones; all others are in blocks."""
    encoder = an_encoder({ord("x"): [id]})
    for at in range(n):
        word = "y" * at + "x" + "z" * (n - 1 - at)
        expected = [id if letter == "x" else ord(letter) for letter in word]
        assert [ids_of(encoder, [word, word]) for _ in range(2)] == [[expected] * 2] * 2
    all_of_them = "x" * n
    assert [ids_of(encoder, [all_of_them]) for _ in range(2)] == [[[id] * n]] * 2
    assert encoder.n_cached == len({"y" * at + "x" + "z" * (n - 1 - at) for at in range(n)} | {all_of_them})


def test_pretokens_of_all_lengths_side_by_side():
    encoder = an_encoder()
    words = [letters(length, seed) for length in LENGTHS for seed in range(3)]
    text = "\n".join(words)
    for _ in range(4):
        assert ids_of(encoder, [*words, text], 2) == [*map(merged, words), merged(text)]
    assert encoder.n_cached == len({*words}) + 1  # "\n"


def test_lengths_that_differ_beyond_16_bits_are_told_apart():
    encoder = TextEncoder("whole", BYTES, RULES, {}, _colliding=True)
    words = ["a" * n for n in (600, 600 + (1 << 16), 600 + (1 << 17))] + ["a" * 599 + "b", "b" + "a" * 599]
    for _ in range(3):
        assert ids_of(encoder, words) == [*map(merged, words)]
    assert encoder.n_cached == len(words)


def test_what_makes_more_ids_than_bytes_is_not_kept():
    encoder = an_encoder({ord("a"): [7, 8]})
    for _ in range(3):
        assert ids_of(encoder, ["a" * 600, "ad" * 10]) == [[7, 8] * 600, [7, 8, ord("d")] * 10]
    assert encoder.n_cached == 0


@pytest.mark.parametrize("n_threads", [1, 3])
def test_of_much_text_what_comes_again_is_kept(n_threads):
    encoder = an_encoder()
    words = ["".join(word) for word in itertools.product("abcdefghijklmnopq", repeat=5)]  # 1.4 million
    texts = ["\n".join(words[i : i + 2000]) for i in range(0, len(words), 2000)]
    expected = [*map(merged, texts)]
    assert ids_of(encoder, texts, n_threads) == expected
    # Few are taken for others.
    assert 0.9 * KEPT_AT_ONCE <= encoder.n_cached < 1.02 * KEPT_AT_ONCE
    assert encoder.cache_bytes <= 128 * MIB
    for _ in range(3):
        assert ids_of(encoder, texts, n_threads) == expected
    assert encoder.n_cached > 0.99 * len(words)


@pytest.mark.parametrize("n_words", [30_000, 200_000])
def test_the_cache_is_no_larger_than_its_text_needs(n_words):
    """32 bytes to a slot, of which an eighth at least is taken."""
    words = ["".join(word) for word in itertools.product("abcdefghijklmn", repeat=5)][:n_words]
    encoder = an_encoder()
    for _ in range(3):  # what a task adds to a full cache is lost
        ids_of(encoder, ["\n".join(words)])
    assert encoder.n_cached == n_words + 1
    assert encoder.cache_bytes < MIB + 8 * 32 * n_words


def test_long_pretokens_take_no_more_than_their_share():
    """Each comes twice, so all are kept, until there is no room; then the cache is renewed."""
    encoder, n_renewed, before = an_encoder(), 0, 0
    for seed in range(30):
        words = [letters(n, seed) for n in (1_000_000, 600_000, 70_000, 9000, 600)]
        for _ in range(2):
            ids_of(encoder, words, 2)
        assert ids_of(encoder, words) == [*map(merged, words)]
        assert encoder.cache_bytes <= 128 * MIB
        n_renewed += encoder.cache_bytes < before
        before = encoder.cache_bytes
    assert n_renewed >= 2


def test_threads_that_keep_long_pretokens_meanwhile_agree():
    encoder = an_encoder()
    words = [letters(n, seed) for seed in range(6) for n in (5, 300, 513, 5000, 70_000, 400_000)]
    expected = [*map(merged, words)]

    def work(shift):
        return [ids_of(encoder, words[shift:] + words[:shift], 2) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        for shift, made in zip((0, 3, 11, 20), pool.map(work, (0, 3, 11, 20)), strict=True):
            assert made == [expected[shift:] + expected[:shift]] * 4
    assert encoder.cache_bytes <= 256 * MIB
