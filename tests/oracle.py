"""Scaffold-BPE, slow and dull: everything is recounted from the whole corpus at every step.

The package's fast code is tested against this file, so nothing here is shared with it. Pre-tokens are
tuples of symbols (strings); a token is the concatenation of its symbols. A symbol is a character, with the
prefix unless it begins its pre-token and the suffix if it ends it; both may be empty. In a merged token only
the first symbol keeps the prefix.
"""

import itertools
import struct
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache


@dataclass
class Trained:
    expanded: list[str]  # E, in creation order; the position is the creation id
    scaffolds: set[str]  # S
    merges: list[tuple[str, str]]  # in rank order
    alphabet: list[str]
    special_tokens: list[str]
    sequences: list[tuple[list[str], int]]  # L at the end, with counts
    # In order: what happened, to which token, its frequency, the head that decided it, the head's frequency.
    events: list[tuple[str, str, int, tuple[str, ...], int]] = field(default_factory=list)

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


def symbols_of(text, prefix="", suffix=""):
    """The symbols of a pre-token."""
    last = len(text) - 1
    return tuple(
        (prefix if i > 0 else "") + character + (suffix if i == last else "")
        for i, character in enumerate(text)
    )


def alphabet_of(texts, characters, prefix="", suffix=""):
    """These characters, and in what forms with affixes they occur."""
    forms = set(characters)
    for text in texts:
        for character, symbol in zip(text, symbols_of(text, prefix, suffix), strict=True):
            if character in characters:
                forms.add(symbol)
    return forms


def join(left, right, prefix):
    """The string that two tokens make."""
    return left + right[len(prefix) :]


def replace(symbols, left, right, prefix=""):
    """(left, right) merged in one sequence: left to right, without overlap."""
    merged = []
    i = 0
    while i < len(symbols):
        if i + 1 < len(symbols) and symbols[i] == left and symbols[i + 1] == right:
            merged.append(join(left, right, prefix))
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
    below=1,
    prefix="",
    in_order=False,
    start=None,
):
    """counts: {sequence of symbols: count}. alphabet: None for the symbols that occur.

    below: How small a share of the head's frequency makes a scaffold; the paper's is 1.
    in_order: whether the alphabet is in its order already.
    start: What was trained before, on whatever; its normal tokens are fixed, and its merges come first.
    """
    if start is not None:
        alphabet, special_tokens, in_order = start.alphabet, start.special_tokens, True
    if alphabet is None:
        alphabet = {symbol for symbols in counts for symbol in symbols}
    if not in_order:
        alphabet = sorted(alphabet, key=lambda symbol: (len(symbol) > 1, symbol))  # bare characters first
    expanded = [*special_tokens, *alphabet]
    fixed = set(expanded)
    length = dict.fromkeys(expanded, 1)  # in base symbols
    created_by = {}
    scaffolds = set()
    merges = []
    events = []
    sequences = [([s for s in symbols if s in alphabet], count) for symbols, count in counts.items()]
    if start is not None:
        expanded, fixed, scaffolds = [*start.expanded], {*start.vocab}, {*start.scaffolds}
        merges = [*start.merges]
        created_by = {join(*pair, prefix): pair for pair in reversed(merges)}
        length = dict.fromkeys(expanded, 1)
        sequences = [(scaffolding(symbols, merges, prefix), count) for symbols, count in sequences]

    def head():
        """(frequency, left, right, scaffold or None) of the first candidate, or None."""
        creation_id = {token: i for i, token in enumerate(expanded)}
        frequencies = token_frequencies(sequences)
        candidates = []
        for (left, right), frequency in pair_frequencies(sequences).items():
            if join(left, right, prefix) in special_tokens:
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
            events.append(("reinstated", token, frequency, (token,), frequency))
            continue
        merged = join(left, right, prefix)
        if merged not in expanded:
            expanded.append(merged)
            created_by[merged] = (left, right)
            length[merged] = length[left] + length[right]
        elif merged in scaffolds:
            scaffolds.remove(merged)
            occurrences = token_frequencies(sequences)[merged]
            events.append(("reinstated", merged, occurrences, (left, right), frequency))
        if (left, right) not in merges:
            merges.append((left, right))
        sequences = [(replace(symbols, left, right, prefix), count) for symbols, count in sequences]
        frequencies = token_frequencies(sequences)
        events.append(("merged", merged, frequencies[merged], (left, right), frequency))
        if not scaffold:
            continue
        first = head()
        for part in dict.fromkeys((left, right)):
            if first is None or part in fixed or part in scaffolds:
                continue
            head_frequency, head_left, head_right, head_scaffold = first
            if frequencies[part] < below * head_frequency:
                named = (head_left, head_right) if head_scaffold is None else (head_scaffold,)
                scaffolds.add(part)
                events.append(("marked", part, frequencies[part], named, head_frequency))
    return Trained(expanded, scaffolds, merges, alphabet, list(special_tokens), sequences, events)


@dataclass
class Picked:
    present: list[str]  # in creation order
    removed: list[str]  # likewise
    steps: list[tuple[str, ...]]  # (left, right) of a merge; (token, None, *parts) of a removal
    sequences: list[tuple[list[str], int]]


def train_picky(
    counts,
    vocab_size,
    *,
    threshold,
    special_tokens=(),
    alphabet=None,
    min_frequency=0,
    max_token_length=None,
    prefix="",
):
    """PickyBPE (Chizhov et al. 2024): a merge removes tokens that it uses up beyond the threshold."""
    alphabet = sorted(alphabet or {symbol for symbols in counts for symbol in symbols})
    fixed = [*special_tokens, *alphabet]
    expanded = [*fixed]
    length = dict.fromkeys(fixed, 1)
    created_by, removed, steps = {}, set(), []
    sequences = [([*symbols], count) for symbols, count in counts.items()]

    def parts_of(token):
        if token not in removed:
            return [token]
        return [part for half in created_by[token] for part in parts_of(half)]

    while len(expanded) - len(removed) < vocab_size:
        candidates = [
            (-frequency, expanded.index(left), expanded.index(right), left, right)
            for (left, right), frequency in pair_frequencies(sequences).items()
            if join(left, right, prefix) not in special_tokens
            and (max_token_length is None or length[left] + length[right] <= max_token_length)
        ]
        if not candidates or -min(candidates)[0] < max(1, min_frequency):
            break
        _, _, _, left, right = min(candidates)
        merged = join(left, right, prefix)
        if merged not in expanded:
            expanded.append(merged)
            created_by[merged] = (left, right)
            length[merged] = length[left] + length[right]
        removed.discard(merged)
        before = token_frequencies(sequences)[merged]
        sequences = [(replace(symbols, left, right, prefix), count) for symbols, count in sequences]
        n_merged = token_frequencies(sequences)[merged] - before
        steps.append((left, right))
        for token in dict.fromkeys((left, right)):
            left_over = token_frequencies(sequences)[token]
            if token in fixed or not n_merged / (left_over + n_merged) > threshold:
                continue
            removed.add(token)
            parts = parts_of(token)
            steps.append((token, None, *parts))
            sequences = [(split(symbols, token, parts), count) for symbols, count in sequences]
    present = [token for token in expanded if token not in removed]
    return Picked(present, [token for token in expanded if token in removed], steps, sequences)


def split(symbols, token, parts):
    """A sequence with the parts in place of a token."""
    return [part for symbol in symbols for part in (parts if symbol == token else [symbol])]


def encode_picky(symbols, steps, prefix=""):
    """One pre-token: all steps of training, in order."""
    symbols = [*symbols]
    for left, right, *parts in steps:
        symbols = replace(symbols, left, right, prefix) if right else split(symbols, left, parts)
    return symbols


def trimmed(plain, vocab_size):
    """Trimmed BPE (Cognetta et al. 2024): the rarest merged tokens, which are to be demolished."""
    fixed = len(plain.special_tokens) + len(plain.alphabet)
    merged = list(enumerate(plain.expanded))[fixed:]
    rarest = sorted(merged, key=lambda token: (plain.frequency(token[1]), -token[0]))
    return {token for _, token in rarest[: max(0, len(plain.expanded) - vocab_size)]}


def residues(plain, vocab_size):
    """Residue removal (after LiteToken, 2026): the tokens of which least is left when merging ends."""
    fixed = len(plain.special_tokens) + len(plain.alphabet)
    frequencies = token_frequencies(plain.sequences)
    made = {token: n for kind, token, n, _, _ in plain.events if kind == "merged"}
    merged = list(enumerate(plain.expanded))[fixed:]
    least = sorted(merged, key=lambda token: (Fraction(frequencies[token[1]], made[token[1]]), -token[0]))
    return {token for _, token in least[: max(0, len(plain.expanded) - vocab_size)]}


def encode_without_residues(symbols, gone, merges):
    """Ordinary BPE; then what is gone becomes its parts; then BPE with the merges that need nothing gone."""
    parts = [part for t in scaffolding(symbols, merges) for part in demolish(t, gone, merges)]
    return scaffolding(parts, [pair for pair in merges if not gone & {*pair, join(*pair, "")}])


def without_leaves(plain, vocab_size, prefix=""):
    """Leaf pruning (Purason et al. 2025): the tokens that are left, and their merges."""
    tokens, merges = [*plain.expanded], [*plain.merges]
    fixed = {*plain.special_tokens, *plain.alphabet}
    created_by = {join(*pair, prefix): pair for pair in reversed(merges)}
    frequencies = token_frequencies(plain.sequences)
    while len(tokens) > vocab_size:
        used = {part for token in tokens if token not in fixed for part in created_by[token]}
        leaves = [i for i, token in enumerate(tokens) if token not in fixed and token not in used]
        leaf = tokens.pop(min(leaves, key=lambda i: (frequencies[tokens[i]], -i)))
        for part in created_by[leaf]:
            frequencies[part] += frequencies[leaf]
        merges = [pair for pair in merges if join(*pair, prefix) != leaf]
    return tokens, merges


def demolish(token, scaffolds, merges, prefix="", continues=False, within=()):
    """The demolished sequence of a token: shortest over its rules, ties to the lowest rank.

    It spells the token: what stands behind another part begins with the prefix. None if that can't be.

    continues: whether the token stands behind another part itself.
    within: the (token, continues) that this one is a part of. With a prefix that the text spells, a token can
        be a part of itself, but never of its shortest sequence.
    """
    if (continues and not token.startswith(prefix)) or (token, continues) in within:
        return None
    if token not in scaffolds:
        return (token,)
    within = (*within, (token, continues))
    best = None
    for left, right in merges:
        if join(left, right, prefix) == token:
            first = demolish(left, scaffolds, merges, prefix, continues, within)
            second = demolish(right, scaffolds, merges, prefix, True, within)
            if first is None or second is None:
                continue
            if best is None or len(first + second) < len(best):
                best = first + second
    return best


def scaffolding(symbols, merges, prefix=""):
    """Ordinary BPE: the rule of lowest rank, leftmost first, until none applies."""
    rank = {pair: i for i, pair in enumerate(merges)}
    symbols = list(symbols)
    while True:
        ranked = [(rank[pair], i) for i, pair in enumerate(itertools.pairwise(symbols)) if pair in rank]
        if not ranked:
            return symbols
        _, i = min(ranked)
        symbols[i : i + 2] = [join(symbols[i], symbols[i + 1], prefix)]


def encode(symbols, scaffolds, merges, prefix=""):
    """One pre-token: scaffolding, then demolishing."""
    return [
        part
        for token in scaffolding(symbols, merges, prefix)
        for part in demolish(token, scaffolds, merges, prefix)
    ]


def known_symbols(symbols, tokens, unk_token=None, fuse_unk=False, byte_fallback=False):
    """What is left of a pre-token's symbols where some are no tokens: they vanish, or become unk or bytes.

    As in `tokenizers`, unk waits for the next symbol that is known or becomes unk itself: bytes go before it.
    """
    known, waiting = [], []
    for symbol in symbols:
        spelled = [f"<0x{byte:02X}>" for byte in symbol.encode()]
        if symbol in tokens:
            known += [*waiting, symbol]
            waiting = []
        elif byte_fallback and tokens >= {*spelled}:
            known += spelled
        elif unk_token is not None:
            known += [] if fuse_unk else waiting
            waiting = [unk_token]
    return known + waiting


def raw_merges(trained, prefix="", suffix=""):
    """The merges of the plain-BPE model over V alone, by the end-of-training frequencies."""
    vocab = set(trained.vocab)
    frequencies = token_frequencies(trained.sequences)
    rules = []
    for token in trained.vocab:
        first_rule = next(((a, b) for a, b in trained.merges if join(a, b, prefix) == token), None)
        if first_rule is None:
            continue
        left, right = first_rule
        if left in vocab and right in vocab:
            rules.append((left, right))
            continue
        # Affixes are not split, and both parts have at least one character beside them.
        first = len(prefix) + 1 if token.startswith(prefix) else 1
        last = len(token) - len(suffix) - 1 if token.endswith(suffix) else len(token) - 1
        best = None
        for i in range(first, last + 1):
            a, b = token[:i], prefix + token[i:]
            if a in vocab and b in vocab:
                strength = min(frequencies[a], frequencies[b])
                if best is None or strength > best[0]:  # the shorter left part comes first
                    best = (strength, a, b)
        if best is not None:
            rules.append(best[1:])
    return rules


def every_split(merges, tokens, prefix="", suffix=""):
    """The merges of the plain-BPE model over some tokens alone that has every split, by rank."""
    first_rank = {join(a, b, prefix): rank for rank, (a, b) in reversed([*enumerate(merges)])}

    def needs_others(token):
        if token not in first_rank:
            return token not in tokens
        return token not in tokens or any(map(needs_others, merges[first_rank[token]]))

    def rank_between(token, at):
        """When the boundary goes that has so many characters of a token, prefix included, on its left."""
        left, right = merges[first_rank[token]]
        if at == len(left):
            return first_rank[token]
        if at < len(left):
            return rank_between(left, at)
        return rank_between(right, at - len(left) + len(prefix))

    @cache
    def rules_for(token):
        if token not in tokens or token not in first_rank:
            return {}
        if not needs_others(token):
            return {merges[first_rank[token]]: first_rank[token]}
        first = len(prefix) + 1 if token.startswith(prefix) else 1
        last = len(token) - len(suffix) - 1 if token.endswith(suffix) else len(token) - 1
        splits = [(token[:at], prefix + token[at:]) for at in range(first, last + 1)]
        return {(a, b): rank_between(token, len(a)) for a, b in splits if can_be_made(a) and can_be_made(b)}

    def can_be_made(token):
        return token in tokens and (token not in first_rank or bool(rules_for(token)))

    places = [(rank, tokens.index(t), pair) for t in tokens for pair, rank in rules_for(t).items()]
    return [pair for _, _, pair in sorted(places)]


def scaffolding_with_dropout(symbols, merges, drops, prefix=""):
    """Scaffolding in which chance passes over candidates. drops() tells whether to pass over the next one.

    Candidates wait in the order of rank and place. Before each merge they are gone through until one is not
    passed over; the others stay. As in `tokenizers`, one whose tokens have been merged otherwise waits, too,
    and is gone without a merge when its time comes.
    """
    rank = {pair: i for i, pair in enumerate(merges)}
    tokens = dict(enumerate(symbols))  # by place, in order

    def pair_at(place):
        after = [other for other in tokens if other > place]
        return (tokens[place], tokens[min(after)]) if place in tokens and after else None

    waiting = [(rank[pair_at(i)], i) for i in tokens if pair_at(i) in rank]
    while True:
        waiting.sort()
        chosen = next((candidate for candidate in waiting if not drops()), None)
        if chosen is None:
            return [tokens[place] for place in sorted(tokens)]
        waiting.remove(chosen)
        number, place = chosen
        if pair_at(place) != merges[number]:
            continue
        left, right = merges[number]
        del tokens[min(other for other in tokens if other > place)]
        tokens[place] = join(left, right, prefix)
        before = [other for other in tokens if other < place]
        around = (*before[-1:], place)
        waiting += [(rank[pair_at(i)], i) for i in around if pair_at(i) in rank]


def dice(p, stream, offset):
    """drops() of a pre-token: SplitMix64 from a number for its text and its place there, in bytes."""
    step = 0x9E3779B97F4A7C15

    def mix(z):
        z = (z + step) % 2**64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
        return z ^ z >> 31

    state = mix((stream + mix(offset)) % 2**64)

    def drops():
        nonlocal state
        number = mix(state) >> 40
        state = (state + step) % 2**64
        return number / 2**24 < struct.unpack("f", struct.pack("f", p))[0]

    return drops
