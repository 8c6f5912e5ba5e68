"""Scaffold-BPE, slow and dull: everything is recounted from the whole corpus at every step.

The package's fast code is tested against this file, so nothing here is shared with it. Pre-tokens are
tuples of symbols (strings); a token is the concatenation of its symbols.
"""

import itertools
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Trained:
    expanded: list[str]  # E, in creation order; the position is the creation id
    scaffolds: set[str]  # S
    merges: list[tuple[str, str]]  # in rank order
    alphabet: list[str]
    special_tokens: list[str]
    sequences: list[tuple[list[str], int]]  # L at the end, with counts
    events: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def vocab(self) -> list[str]:
        """V in creation order: the position is the public id."""
        return [token for token in self.expanded if token not in self.scaffolds]

    def frequency(self, token: str) -> int:
        return token_frequencies(self.sequences)[token]


def token_frequencies(sequences):
    frequencies = Counter()
    for symbols, count in sequences:
        for symbol in symbols:
            frequencies[symbol] += count
    return frequencies


def pair_frequencies(sequences):
    frequencies = Counter()
    for symbols, count in sequences:
        for i in range(len(symbols) - 1):
            frequencies[symbols[i], symbols[i + 1]] += count
    return frequencies


def replace(symbols, left, right):
    """(left, right) merged in one sequence: left to right, without overlap."""
    merged = []
    i = 0
    while i < len(symbols):
        if i + 1 < len(symbols) and symbols[i] == left and symbols[i + 1] == right:
            merged.append(left + right)
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def train(
    counts,
    vocab_size,
    *,
    special_tokens=(),
    alphabet=None,
    min_frequency=0,
    max_token_length=None,
    scaffold=True,
):
    """counts: {sequence of symbols: count}. alphabet: None for the symbols that occur."""
    if alphabet is None:
        alphabet = {symbol for symbols in counts for symbol in symbols}
    alphabet = sorted(alphabet)
    expanded = [*special_tokens, *alphabet]
    fixed = set(expanded)
    length = dict.fromkeys(expanded, 1)  # in base symbols
    created_by = {}
    scaffolds = set()
    merges = []
    events = []
    sequences = [([s for s in symbols if s in alphabet], count) for symbols, count in counts.items()]

    def head():
        """(frequency, left, right, scaffold or None) of the first candidate, or None."""
        creation_id = {token: i for i, token in enumerate(expanded)}
        frequencies = token_frequencies(sequences)
        candidates = []
        for (left, right), frequency in pair_frequencies(sequences).items():
            if left + right in special_tokens:
                continue
            if max_token_length is not None and length[left] + length[right] > max_token_length:
                continue
            candidates.append((-frequency, creation_id[left], creation_id[right], 0, left, right, None))
        for token in scaffolds:
            left, right = created_by[token]
            key = (-frequencies[token], creation_id[left], creation_id[right], 1, left, right, token)
            if frequencies[token] > 0:
                candidates.append(key)
        if not candidates:
            return None
        frequency, _, _, _, left, right, token = min(candidates, key=lambda c: c[:4])
        return -frequency, left, right, token

    while len(expanded) - len(scaffolds) < vocab_size:
        first = head()
        if first is None or first[0] < max(1, min_frequency):
            break
        frequency, left, right, token = first
        if token is not None:
            scaffolds.remove(token)
            events.append(("reinstated", token, frequency))
            continue
        merged = left + right
        if merged not in expanded:
            expanded.append(merged)
            created_by[merged] = (left, right)
            length[merged] = length[left] + length[right]
        elif merged in scaffolds:
            scaffolds.remove(merged)
            events.append(("reinstated", merged, frequency))
        if (left, right) not in merges:
            merges.append((left, right))
        sequences = [(replace(symbols, left, right), count) for symbols, count in sequences]
        events.append(("merged", left, right, frequency))
        if not scaffold:
            continue
        first = head()
        head_frequency = 0 if first is None else first[0]
        frequencies = token_frequencies(sequences)
        for part in dict.fromkeys((left, right)):
            if part in fixed or part in scaffolds:
                continue
            if frequencies[part] < head_frequency:
                scaffolds.add(part)
                events.append(("marked", part, frequencies[part], head_frequency))
    return Trained(expanded, scaffolds, merges, alphabet, list(special_tokens), sequences, events)


def demolish(token, scaffolds, merges):
    """The demolished sequence of a token: shortest over its rules, ties to the lowest rank."""
    if token not in scaffolds:
        return (token,)
    best = None
    for left, right in merges:
        if left + right == token:
            parts = demolish(left, scaffolds, merges) + demolish(right, scaffolds, merges)
            if best is None or len(parts) < len(best):
                best = parts
    return best


def scaffolding(symbols, merges):
    """Ordinary BPE: the rule of lowest rank, leftmost first, until none applies."""
    rank = {pair: i for i, pair in enumerate(merges)}
    symbols = list(symbols)
    while True:
        ranked = [(rank[pair], i) for i, pair in enumerate(itertools.pairwise(symbols)) if pair in rank]
        if not ranked:
            return symbols
        _, i = min(ranked)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


def encode(symbols, scaffolds, merges):
    """One pre-token: scaffolding, then demolishing."""
    return [part for token in scaffolding(symbols, merges) for part in demolish(token, scaffolds, merges)]


def raw_merges(trained):
    """The merges of the plain-BPE model over V alone, by the end-of-training frequencies."""
    vocab = set(trained.vocab)
    frequencies = token_frequencies(trained.sequences)
    rules = []
    for token in trained.vocab:
        if token in trained.special_tokens or token in trained.alphabet:
            continue
        left, right = next((a, b) for a, b in trained.merges if a + b == token)
        if left in vocab and right in vocab:
            rules.append((left, right))
            continue
        best = None
        for i in range(1, len(token)):
            a, b = token[:i], token[i:]
            if a in vocab and b in vocab:
                strength = min(frequencies[a], frequencies[b])
                if best is None or strength > best[0]:  # the shorter left part comes first
                    best = (strength, a, b)
        if best is not None:
            rules.append(best[1:])
    return rules
