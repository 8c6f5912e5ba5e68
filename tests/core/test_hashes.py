"""Hash tables under words and pairs chosen to share a slot, and what tells words of one hash apart."""

from collections import Counter
from functools import cache
from itertools import pairwise, product

import colliding
import numpy as np
import pytest

from hf_scaffold._core.counter import PretokenCounter
from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold._core.text_encoder import AddedTokenFinder, TextEncoder
from hf_scaffold._core.trainer import MergeLoop

NOTHING_ADDED = AddedTokenFinder([])
NO_RULES = np.zeros((0, 3), np.int32)
BYTES = np.arange(256, dtype=np.int32)
MANY = 100  # a look-up in a table of some thousand entries compares some ten of them
# Of one length, and of one hash under the tables of 0.1.0.
WITNESSES = ["collisionwitnesssomemore", "lWGxmkUCwMsjfcpvsomemore"]

short_words, long_words, pairs = map(cache, (colliding.short_words, colliding.long_words, colliding.pairs))


def chosen_words(of):
    return {
        "up to 15 bytes": short_words(1000, of=of),
        "16 bytes": [word + "ings" for word in short_words(1000, of=of)],
        "104 bytes": long_words(4000)[:1000],
    }


def rows(table):
    text, offsets, counts = table
    spans = pairwise(offsets.tolist())
    return {
        text[begin:end].decode(): count for (begin, end), count in zip(spans, counts.tolist(), strict=True)
    }


@pytest.mark.parametrize("kind", chosen_words(of="counts"))
def test_chosen_words_spread_over_the_count_table(kind):
    words = chosen_words(of="counts")[kind]
    counter = PretokenCounter("gpt2")
    counter.add(["\n".join(words).encode()])
    assert len(counter) == len(words) + 1
    assert counter.longest_probe < MANY


@pytest.mark.parametrize("kind", chosen_words(of="cache"))
def test_chosen_words_spread_over_the_cache_of_ids(kind):
    words = chosen_words(of="cache")[kind]
    encoder = TextEncoder("gpt2", BYTES, NO_RULES, {})
    encoder.encode(["\n".join(words)], NOTHING_ADDED)
    assert encoder.n_cached > 900  # what are long words fill it up
    assert encoder.longest_probe < MANY


def test_chosen_merges_spread_over_the_rules():
    rules = np.column_stack([pairs(4000), np.arange(4000)]).astype(np.int32)
    assert PretokenEncoder(BYTES, rules, {}, {}).longest_probe < MANY
    assert TextEncoder("gpt2", BYTES, rules, {}).longest_probe < MANY


def test_chosen_symbols_spread_over_the_index_of_pairs():
    tokens = [b"%d" % i for i in range(int(pairs(4000).max()) + 1)]
    loop = MergeLoop(
        pairs(4000).ravel(), np.arange(0, 8001, 2), np.ones(4000, np.int64), tokens, 0, 0, 0, True
    )
    assert loop.longest_probe < MANY


def test_chosen_whole_pretokens_spread_over_their_table():
    """Under MurmurHash2, std::hash of strings, two blocks that each turn the top bit undo one another."""
    wholes = {word: i for i, word in enumerate(colliding.murmur_words(4096))}
    assert PretokenEncoder(BYTES, NO_RULES, {}, wholes).longest_probe < MANY


def test_chosen_characters_spread_over_their_table():
    symbols = {(char.encode(), False, False): i for i, char in enumerate(colliding.characters())}
    assert len(symbols) > 900
    assert PretokenEncoder(symbols, NO_RULES, {}, {}).longest_probe < MANY


def test_chosen_hashes_collided_before():
    """The generators are right about what they defend against."""
    for of, hashes in (("cache", colliding.cache_hash), ("counts", colliding.count_hash)):
        assert len(set(hashes(short_words(1000, of=of)))) == 1
    assert len(set(colliding.long_hash(long_words(4000)))) == 1
    assert len(set(colliding.long_hash(WITNESSES))) == 1
    assert len(set(colliding.pair_slot(pairs(4000), 1 << 13))) == 1


@pytest.fixture
def alike():
    """Words of which many have one length, and so one hash where all hashes of a length are the same."""
    short = ["".join(letters) for letters in product("abc", repeat=4)]
    stems = [
        "",
        "e" * 11,
        "f" * 12,
        "m" * 21,
        "t" * 200,
        "u" * 600,
    ]  # the tables keep 15 and 16 bytes in a slot
    return [stem + word for stem in stems for word in short] + WITNESSES


def same_slots():
    """Two words of 16 bytes with the same first eight, which begin their search in the same slot."""
    seen = {}
    for letters in product(b"abcdefghijklm", repeat=8):
        word = b"aaaaaaaa" + bytes(letters)
        first, second = (int.from_bytes(half, "little") for half in (word[:8], word[8:]))
        hashed = (first + len(word)) * second  # under the key of tables that collide
        slot = ((hashed >> 64) ^ hashed) % (1 << 20)
        if slot in seen:
            return seen[slot], word
        seen[slot] = word
    raise AssertionError("there are none")


def test_short_words_of_one_slot_are_told_apart_by_all_their_bytes():
    words = same_slots()
    counter = PretokenCounter("gpt2", _colliding=True)
    counter.add([word for word in words for _ in range(3)])
    assert rows(counter.table()) == {word.decode(): 3 for word in words}


def test_words_of_one_hash_are_counted_apart(alike):
    words = alike + alike[::3]
    counter = PretokenCounter("gpt2", _colliding=True)
    counter.add(["\n".join(words).encode()])
    assert rows(counter.table()) == Counter(words) + Counter({"\n": len(words) - 1})
    assert counter.longest_probe >= 81


def test_words_of_one_hash_are_merged_apart(alike):
    counters = [PretokenCounter("gpt2", _colliding=True) for _ in range(2)]
    for counter, words in zip(counters, (alike, alike[::3]), strict=True):
        for word in words:
            counter.add([word.encode()])
    counters[0].merge(counters[1])
    assert rows(counters[0].table()) == Counter(alike + alike[::3])


def test_words_of_one_hash_keep_their_own_ids(alike):
    encoder = TextEncoder("gpt2", BYTES, NO_RULES, {}, _colliding=True)
    for _ in range(2):  # the second time from the cache
        for word in alike:
            assert encoder.encode_one(word, NOTHING_ADDED) == list(word.encode())
    assert encoder.n_cached == len(alike)
    assert encoder.longest_probe >= 81


@pytest.mark.parametrize("n_bytes", [14, 15, 16])
def test_words_of_one_hash_and_few_ids_keep_their_own(n_bytes):
    """Up to 15 bytes lie in the slot itself, beside up to three ids; others in a block."""
    words = [start + "cdefghijklmnop"[: n_bytes - 2] for start in ("ab", "ba")]
    rules, token = [], {}
    for word in words:
        left = ord(word[0])
        for letter in word[1:]:
            rules.append((left, ord(letter), 256 + len(rules)))
            left = rules[-1][2]
        token[word] = left
    encoder = TextEncoder("gpt2", BYTES, np.array(rules, np.int32), {}, _colliding=True)
    for _ in range(2):
        for word in words:
            assert encoder.encode_one(word, NOTHING_ADDED) == [token[word]]


def test_words_of_one_hash_keep_their_own_ids_in_a_larger_cache(alike):
    encoder = TextEncoder("gpt2", BYTES, NO_RULES, {}, _colliding=True)
    encoder.encode(alike, NOTHING_ADDED)
    n_before = encoder.n_cached
    encoder.encode(
        [f"{i:x}".translate(str.maketrans("0123456789", "ghijklmnop")) for i in range(40_000)], NOTHING_ADDED
    )
    assert encoder.n_cached > 8192 + n_before  # more than the first cache holds
    for word in alike:
        assert encoder.encode_one(word, NOTHING_ADDED) == list(word.encode())
