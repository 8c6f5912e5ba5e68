"""Words and pairs that all share one slot under the unseeded hashes of 0.1.0, which anyone could compute.

Those hashes were sums of the words of the input, each times a constant, folded once. Multiplication carries
upwards only, so characters at a word's high end change only high bits of its hash, few enough to meet in the
middle.
"""

from itertools import product

import numpy as np
from numpy.typing import NDArray

LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", np.uint8).astype(np.uint64)
FIRST, SECOND, THIRD = (
    np.uint64(factor) for factor in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93)
)

Words = NDArray[np.uint64]


def _rotated(words: Words) -> Words:
    return words << np.uint64(32) | words >> np.uint64(32)


def mix(a: Words, b: Words) -> Words:
    """The cache's hash of 0.1.0 for words of up to 15 bytes."""
    hashes = a * FIRST ^ _rotated(b) * SECOND
    return hashes ^ hashes >> np.uint64(32)


def mix_well(a: Words, b: Words) -> Words:
    """The count table's hash of 0.1.0 for up to 16 bytes, and a step of both tables' for more."""
    hashes = mix(a, b) * THIRD
    return hashes ^ hashes >> np.uint64(32)


def _spelled(n: int, shift: int) -> Words:
    """All words of n letters, the first from bit `shift` on."""
    words = np.zeros(1, np.uint64)
    for i in range(n):
        words = (words[:, None] | LETTERS << np.uint64(shift + 8 * i)).ravel()
    return words


def short_words(n: int, *, of: str) -> list[str]:
    """Words of 12 letters with one hash in all its 64 bits, in the "cache" or the "counts"."""
    # Where the length came in: as the top byte of the second word, or added to the first.
    length, top = (12, 0) if of == "counts" else (0, 12 << 56)
    last = LETTERS[: 20 if n <= 1000 else 52]
    low = _spelled(3, 32)[:, None] | last << np.uint64(56) | np.uint64(int.from_bytes(b"ordi", "little"))
    high = _spelled(3, 0)[:, None] | last << np.uint64(24)
    low, high = low.ravel(), high.ravel()
    ours = (low + np.uint64(length)) * FIRST >> np.uint64(32)  # the low halves are the same for all,
    theirs = _rotated(high | np.uint64(top)) * SECOND >> np.uint64(32)  # here and there
    theirs ^= np.uint64(0x0B0B57A5)
    first, second = np.argsort(ours), np.argsort(theirs)
    begin, end = (np.searchsorted(ours[first], theirs[second], side) for side in ("left", "right"))
    words = [
        (int(low[first[i]]) | int(high[second[j]]) << 64).to_bytes(12, "little").decode()
        for j in np.flatnonzero(end > begin)[:n]
        for i in range(begin[j], end[j])
    ]
    assert len(words) >= n, len(words)
    return words[:n]


def long_words(n: int) -> list[str]:
    """Words of one length and one hash: each block of 16 letters has four ways to the same sum.

    A multicollision (Joux 2004): n words cost as little as log4(n) collisions.
    """
    rng = np.random.default_rng(12)
    n_blocks = int(np.ceil(np.log(n) / np.log(4)))
    state = np.uint64(16 * n_blocks + 8)  # the length
    blocks = []
    for _ in range(n_blocks):
        blocks.append(_ways(state, rng))
        state = _after(state, blocks[-1][0])
    return ["".join(parts) + "somemore" for parts, _ in zip(product(*blocks), range(n), strict=False)]


def _after(state: np.uint64, block: str) -> np.uint64:
    for word in np.frombuffer(block.encode(), np.uint64):
        state = mix_well(np.array([state]), np.array([word]))[0]
    return state


def _ways(state: np.uint64, rng: np.random.Generator) -> list[str]:
    """Four blocks of 16 letters after which the hash, at `state` before, is the same."""
    inverse = np.uint64(pow(int(SECOND), -1, 2**64))
    found: list[str] = []
    target = np.uint64(rng.integers(2**63))
    while len(found) < 4:
        first = np.zeros(1 << 19, np.uint64)
        for i in range(8):
            first |= rng.choice(LETTERS, first.size) << np.uint64(8 * i)
        second = _rotated((mix_well(np.full_like(first, state), first) * FIRST ^ target) * inverse)
        letters = second.view(np.uint8).reshape(-1, 8)
        spelled = ((letters | 32) >= ord("a")) & ((letters | 32) <= ord("z"))
        for i in np.flatnonzero(spelled.all(axis=1)):
            found.append((int(first[i]) | int(second[i]) << 64).to_bytes(16, "little").decode())
    return found[:4]


def pairs(n: int, n_tokens: int = 1 << 17) -> NDArray[np.int32]:
    """Pairs of tokens, (n, 2), that share one slot in a table of up to 2**20."""
    factor, mask = int(FIRST), np.uint64((1 << 20) - 1)
    right = np.arange(n_tokens, dtype=np.uint64)
    slots = (right * FIRST) >> np.uint64(32) & mask
    order = np.argsort(slots)
    slots = slots[order]
    found: list[tuple[int, int]] = []
    for left in range(n_tokens):
        wanted = np.uint64((-left * factor) & 0xFFFFF)
        begin, end = np.searchsorted(slots, wanted, "left"), np.searchsorted(slots, wanted, "right")
        found += [(left, int(right[order[i]])) for i in range(begin, end)]
        if len(found) >= n:
            return np.array(found[:n], np.int32)
    raise AssertionError(f"{len(found)} pairs")


def _words(texts: list[str], length: int) -> Words:
    """The 64-bit words of texts of one length, zeros after each text's end; (texts, words)."""
    data = b"".join(text.encode().ljust(length, b"\0") for text in texts)
    return np.frombuffer(data, np.uint64).reshape(len(texts), -1)


def cache_hash(texts: list[str]) -> list[int]:
    """What the cache of 0.1.0 hashed texts of 12 bytes to."""
    words = _words(texts, 16)
    return mix(words[:, 0], words[:, 1] | np.uint64(12 << 56)).tolist()


def count_hash(texts: list[str]) -> list[int]:
    """What the count table of 0.1.0 hashed texts of 12 bytes to."""
    words = _words(texts, 16)
    return mix_well(words[:, 0] + np.uint64(12), words[:, 1]).tolist()


def long_hash(texts: list[str]) -> list[int]:
    """What both hashed texts of more than 16 bytes to: all of one length, a multiple of 8."""
    words = _words(texts, len(texts[0]))
    hashes = np.full(len(texts), len(texts[0]), np.uint64)
    for column in [*words.T, words[:, -1]]:
        hashes = mix_well(hashes, column)
    return hashes.tolist()


def pair_slot(pairs: NDArray[np.int32], n_slots: int) -> list[int]:
    """Where the rules and the index of pairs of 0.1.0 began to look for pairs."""
    keys = pairs[:, 0].astype(np.uint64) << np.uint64(32) | pairs[:, 1].astype(np.uint64)
    return (keys * FIRST >> np.uint64(32) & np.uint64(n_slots - 1)).tolist()


def murmur_words(n: int) -> list[bytes]:
    """Byte strings of one MurmurHash64A, whatever its seed: std::hash<std::string> of libstdc++."""
    factor, bits = 0xC6A4A7935BD1E995, (1 << 64) - 1
    inverse = pow(factor, -1, 1 << 64)

    def stirred(block: int) -> int:
        block = block * factor & bits
        return (block ^ block >> 47) * factor & bits

    def stirred_back(block: int) -> int:
        block = block * inverse & bits
        return (block ^ block >> 47) * inverse & bits

    # Turning the top bit of what is xored into the hash turns the hash's own: multiplication keeps it there.
    block = int.from_bytes(b"ordinary", "little")
    other = stirred_back(stirred(block) ^ 1 << 63)
    ways = [value.to_bytes(8, "little") * 2 for value in (block, other)]
    return [
        b"".join(parts) for parts, _ in zip(product(ways, repeat=n.bit_length() - 1), range(n), strict=False)
    ]


def characters() -> list[str]:
    """Characters whose UTF-8, a number and so its own std::hash, falls into one of 1,109 buckets."""
    codes = (*range(0xD800), *range(0xE000, 0x110000))
    keys = ((char, int.from_bytes(char.encode(), "big")) for char in map(chr, codes))
    return [char for char, key in keys if key % 1109 == 0]
