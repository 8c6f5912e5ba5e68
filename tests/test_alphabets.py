"""Alphabets of characters: affixes, unknown characters, and pipelines besides byte-level, end to end."""

import json
import warnings

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import hf_scaffold as hs
from hf_scaffold._trainer import AmbiguousMergeLoop, MergeLoop
from hf_scaffold.errors import CountOverflowError

AFFIXES = [("", ""), ("##", ""), ("", "</w>"), ("##", "</w>"), ("#", ""), ("", "_"), ("#", "#"), ("aa", "b")]


def table(counts, pretokenizer="whitespace-split"):
    return hs.PreTokenCounts.from_mapping(counts, pretokenizer=pretokenizer, alphabet="chars")


def train(counts, vocab_size, prefix="", suffix="", **options):
    """train() without the warning where candidates run out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return hs.train(
            table(counts),
            vocab_size,
            continuing_subword_prefix=prefix or None,
            end_of_word_suffix=suffix or None,
            **options,
        )


def oracle_train(counts, vocab_size, prefix="", suffix="", characters=None, **options):
    characters = set("".join(counts)) if characters is None else characters
    return oracle.train(
        {oracle.symbols_of(text, prefix, suffix): n for text, n in counts.items()},
        vocab_size,
        alphabet=oracle.alphabet_of(counts, characters, prefix, suffix),
        prefix=prefix,
        **options,
    )


many_counts = st.one_of(st.integers(1, 3), st.integers(1, 40), st.integers(1, 2**40))
# Text that spells the affixes: symbols that look alike are everywhere.
nasty_text = st.lists(
    st.sampled_from("#ab_cé") | st.sampled_from(["</w>", "##", "aa"]), min_size=1, max_size=7
)


@st.composite
def runs(draw):
    prefix, suffix = draw(st.sampled_from(AFFIXES))
    counts = draw(st.dictionaries(nasty_text.map("".join), many_counts, min_size=1, max_size=8))
    alphabet = oracle.alphabet_of(counts, set("".join(counts)), prefix, suffix)
    specials = draw(st.lists(st.sampled_from(["ab", "##ab", "ab</w>", "<unk>"]), unique=True, max_size=2))
    options = {
        "special_tokens": [token for token in specials if token not in alphabet],
        "min_frequency": draw(st.sampled_from([0, 0, 2])),
        "max_token_length": draw(st.sampled_from([None, None, 2, 3])),
        "scaffold": draw(st.sampled_from([True, True, True, False])),
    }
    size = len(options["special_tokens"]) + len(alphabet) + draw(st.integers(0, 40))
    return counts, size, prefix, suffix, options


def decomposed(bpe, pretokens, ids):
    """A list of ids as tokens."""
    return [[bpe.tokens[i] for i in row] for row in ids]


@given(runs(), st.lists(nasty_text.map("".join), max_size=4))
@settings(max_examples=600, deadline=None)
def test_trains_and_encodes_what_the_slow_reference_does(run, texts):
    counts, vocab_size, prefix, suffix, options = run
    bpe = train(counts, vocab_size, prefix, suffix, **options)
    reference = oracle_train(counts, vocab_size, prefix, suffix, **options)
    assert bpe.merges == reference.merges
    assert bpe.tokens == reference.vocab
    assert bpe.scaffold_tokens == [token for token in reference.expanded if token in reference.scaffolds]
    for token in reference.scaffolds:
        assert bpe.demolish(token) == oracle.demolish(token, reference.scaffolds, reference.merges, prefix)
    assert bpe._raw_merges == oracle.raw_merges(reference, prefix, suffix)

    texts = [*counts, *texts]
    for text, ids in zip(texts, bpe.encode([text.encode() for text in texts]), strict=True):
        symbols = oracle.known_symbols(oracle.symbols_of(text, prefix, suffix), set(reference.expanded))
        expected = oracle.encode(symbols, reference.scaffolds, reference.merges, prefix)
        assert [bpe.tokens[i] for i in ids] == expected
    assert_encodes_as_tokenizers(bpe, texts)


def assert_encodes_as_tokenizers(bpe, texts):
    """The exact encoder is BPE over the expanded vocabulary, then demolishing; the raw one is `raw_model`."""
    names = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk")
    settings = {name: getattr(bpe, name) for name in names if getattr(bpe, name) is not None}
    expanded = Tokenizer(models.BPE(bpe.vocab, bpe.merges, **settings))
    public = Tokenizer(bpe.raw_model())
    data = [text.encode() for text in texts]
    raw, ends = bpe.raw_encoder.encode(b"".join(data), np.cumsum([0, *map(len, data)]))
    for i, (text, ids) in enumerate(zip(texts, bpe.encode(data), strict=True)):
        tokens = expanded.encode(text).tokens
        assert [bpe.tokens[i] for i in ids] == [part for token in tokens for part in bpe.demolish(token)]
        assert raw[ends[i] : ends[i + 1]].tolist() == public.encode(text).ids


def loop_of(kind, counts, prefix, suffix, options, alphabet=None):
    if alphabet is None:
        symbols = oracle.alphabet_of(counts, set("".join(counts)), prefix, suffix)
        alphabet = sorted(symbols, key=lambda symbol: (len(symbol) > 1, symbol))
    fixed = [*options["special_tokens"], *alphabet]
    ids = {token: i for i, token in enumerate(fixed)}
    return kind(
        np.array([ids[s] for text in counts for s in oracle.symbols_of(text, prefix, suffix)], np.int32),
        np.cumsum([0, *map(len, counts)]),
        np.array([*counts.values()], np.int64),
        [token.encode() for token in fixed],
        len(options["special_tokens"]),
        options["min_frequency"],
        options["max_token_length"] or 0,
        options["scaffold"],
        len(prefix),
    )


@given(runs())
@settings(max_examples=300, deadline=None)
def test_the_loop_for_ambiguous_symbols_counts_exactly(run):
    counts, vocab_size, prefix, suffix, options = run
    loop = loop_of(AmbiguousMergeLoop, counts, prefix, suffix, options)
    loop.run(vocab_size)
    reference = oracle_train(counts, vocab_size, prefix, suffix, **options)
    frequencies = oracle.token_frequencies(reference.sequences)
    assert [token.decode() for token in loop.tokens] == reference.expanded
    assert loop.frequencies == [frequencies[token] for token in reference.expanded]


def test_both_loops_train_the_same_where_symbols_are_unambiguous(english_text):
    words = english_text[:300_000].split()
    counts = {word: words.count(word) for word in sorted(set(words))[::7]}
    options = {"special_tokens": ["<s>"], "min_frequency": 0, "max_token_length": None, "scaffold": True}
    fast, general = (loop_of(kind, counts, "##", "", options) for kind in (MergeLoop, AmbiguousMergeLoop))
    assert fast.run(600) == general.run(600) == "vocab_size"
    for part in ("tokens", "merges", "scaffolds", "frequencies"):
        assert getattr(fast, part) == getattr(general, part)


def test_a_string_that_text_and_affix_spell_is_one_token():
    """In Markdown: `###` is what `#` is inside a pre-token, and also a whole pre-token."""
    bpe = train({"###": 9, "a#": 7, "####": 5}, 9, prefix="##")
    # The second merge makes `###` again, and with it comes back the pair of the first, now in `####` alone.
    assert bpe.merges == [("###", "###"), ("#", "####"), ("a", "###")]
    assert bpe.tokens == ["#", "a", "###", "####", "a#"]
    tokens = [[bpe.tokens[i] for i in ids] for ids in bpe.encode([b"###", b"####", b"a##"])]
    assert tokens == [["###"], ["####"], ["a", "####"]]


def test_too_many_ambiguous_symbols_overflow():
    with pytest.raises(CountOverflowError, match="more than 2\\*\\*63 - 1 symbols"):
        train({"##x": 2**62, "ab": 2**62}, 20, prefix="##")
    train({"xy": 2**61, "ab": 2**62}, 20, prefix="##")


# ---- against BpeTrainer


def bpe_trainer(counts, vocab_size, prefix="", suffix="", special_tokens=("<unk>",), **options):
    """What `tokenizers` learns: vocab and merges."""
    peer = Tokenizer(models.BPE(unk_token="<unk>"))
    peer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        show_progress=False,
        special_tokens=[*special_tokens],
        **({"continuing_subword_prefix": prefix} if prefix else {}),
        **({"end_of_word_suffix": suffix} if suffix else {}),
        **options,
    )
    peer.train_from_iterator((text for text, n in counts.items() for _ in range(n)), trainer)
    model = json.loads(peer.to_str())["model"]
    return model["vocab"], [tuple(merge) for merge in model["merges"]]


@given(
    st.dictionaries(st.text("abcd", min_size=1, max_size=8), st.integers(1, 30), min_size=1, max_size=8),
    st.sampled_from([("", ""), ("##", ""), ("", "</w>"), ("##", "</w>")]),
    st.integers(0, 30),
    st.sampled_from([None, 2, 3]),
)
@settings(max_examples=150, deadline=None)
def test_without_scaffolds_equals_bpe_trainer(counts, affixes, n_merges, limit_alphabet):
    """BpeTrainer numbers the characters with affixes as a hash table gives them; the rest is the same.

    So the slow reference takes them in that order, and is compared with BpeTrainer, and we with the reference
    in our order. limit_alphabet's ties are in no order there, so they are kept out.
    """
    prefix, suffix = affixes
    frequency = {c: sum(text.count(c) * n for text, n in counts.items()) for c in set("".join(counts))}
    if limit_alphabet is not None and len(set(frequency.values())) < len(frequency):
        limit_alphabet = None
    characters = set(sorted(frequency, key=lambda c: -frequency[c])[:limit_alphabet])
    alphabet = oracle.alphabet_of(counts, characters, prefix, suffix)
    size = 1 + len(alphabet) + n_merges
    options = {} if limit_alphabet is None else {"limit_alphabet": limit_alphabet}
    vocab, merges = bpe_trainer(counts, size, prefix, suffix, **options)
    in_its_order = sorted(alphabet, key=vocab.__getitem__)
    reference = oracle.train(
        {oracle.symbols_of(text, prefix, suffix): n for text, n in counts.items()},
        size,
        special_tokens=["<unk>"],
        alphabet=in_its_order,
        in_order=True,
        prefix=prefix,
        scaffold=False,
    )
    assert reference.merges == merges
    assert reference.vocab == sorted(vocab, key=vocab.__getitem__)
    ours = train(counts, size, prefix, suffix, scaffold=False, unk_token="<unk>", **options)
    same = oracle_train(counts, size, prefix, suffix, characters, special_tokens=["<unk>"], scaffold=False)
    assert ours.merges == same.merges
    assert ours.tokens == same.vocab


@pytest.mark.parametrize(("prefix", "suffix"), AFFIXES[:4])
def test_equals_bpe_trainer_on_real_text(english_text, prefix, suffix):
    """In its order of the characters with affixes, as above."""
    counts = hs.count([english_text[:200_000]], pretokenizer="whitespace-split", alphabet="chars")
    words = {pretoken.decode(): n for pretoken, n in counts.items()}
    vocab, merges = bpe_trainer(words, 1500, prefix, suffix)
    ours = train(words, 1500, prefix, suffix, scaffold=False, unk_token="<unk>")
    n_fixed = 1500 - len(merges)
    assert set(ours.tokens[:n_fixed]) == set(sorted(vocab, key=vocab.__getitem__)[:n_fixed])
    options = {"special_tokens": [], "min_frequency": 0, "max_token_length": None, "scaffold": False}
    in_its_order = sorted(vocab, key=vocab.__getitem__)[:n_fixed]
    loop = loop_of(MergeLoop, words, prefix, suffix, options, in_its_order)
    loop.run(1500)
    tokens = [token.decode() for token in loop.tokens]
    assert [(tokens[left], tokens[right]) for left, right in loop.merges] == merges


# ---- unknown characters


@given(
    st.dictionaries(st.text("abcdé", min_size=1, max_size=6), st.integers(1, 30), min_size=1, max_size=8),
    st.sampled_from(AFFIXES[:4]),
    st.integers(1, 4),
    st.booleans(),
    st.booleans(),
    st.lists(st.text("abcdéxyß🙂", min_size=1, max_size=9), max_size=6),
)
@settings(max_examples=150, deadline=None)
def test_characters_outside_the_alphabet(counts, affixes, limit, with_unk, fuse, texts):
    prefix, suffix = affixes
    unk = {"unk_token": "<unk>", "fuse_unk": fuse} if with_unk else {}
    bpe = train(counts, 80, prefix, suffix, limit_alphabet=limit, **unk)
    frequency = {c: sum(text.count(c) * n for text, n in counts.items()) for c in set("".join(counts))}
    characters = set(sorted(frequency, key=lambda c: (-frequency[c], c))[:limit])
    specials = ["<unk>"] if with_unk else []
    reference = oracle_train(counts, 80, prefix, suffix, characters, special_tokens=specials)
    assert bpe.merges == reference.merges
    assert bpe.tokens == reference.vocab
    texts = [*texts, *counts]
    for text, ids in zip(texts, bpe.encode([text.encode() for text in texts]), strict=True):
        symbols = oracle.symbols_of(text, prefix, suffix)
        known = oracle.known_symbols(symbols, set(reference.expanded), bpe.unk_token, fuse)
        expected = oracle.encode(known, reference.scaffolds, reference.merges, prefix)
        assert [bpe.tokens[i] for i in ids] == expected
    assert_encodes_as_tokenizers(bpe, texts)


def test_the_unknown_token_is_the_last_special_token_unless_it_is_one():
    assert train({"ab": 2}, 9, unk_token="<unk>", special_tokens=["<s>"]).special_tokens == ["<s>", "<unk>"]
    assert train({"ab": 2}, 9, unk_token="<unk>", special_tokens=["<unk>", "<s>"]).tokens[0] == "<unk>"
