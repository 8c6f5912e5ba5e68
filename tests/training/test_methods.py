"""Other methods than Scaffold-BPE against their definitions, spelled out in oracle.py."""

import warnings

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_runs import runs

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.training.checks import check

CORPUS = ["the zones of Arizona have a zoo", "zone by zone", "hugs and pugs", "a bun, a pun, a pug"] * 5


def train(counts, vocab_size, **options):
    """train() or train_sizes() over the characters that occur, silently."""
    table = hs.PreTokenCounts.from_mapping({text.encode(): n for text, n in counts.items()})
    several = hs.train_sizes if isinstance(vocab_size, list) else hs.train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        made = several(table, vocab_size, initial_alphabet=(), **options)
    for bpe in made if isinstance(made, list) else [made]:
        check(bpe)  # training trusts what it makes
    return made


def reference_of(counts, vocab_size, options, surplus):
    """Plain BPE with the surplus, by the oracle."""
    n_fixed = len(options["special_tokens"]) + len(set("".join(counts)))
    n_merged = vocab_size + int((vocab_size - n_fixed) * surplus)
    return oracle.train({tuple(text): n for text, n in counts.items()}, n_merged, **options)


def texts_of(bpe, data):
    pieces = [token for token in bpe.vocab if token not in bpe.special_tokens]
    return ["".join(data.draw(st.lists(st.sampled_from(pieces), max_size=8))) for _ in range(4)]


shares = st.sampled_from([0.0, 0.1, 0.5, 1.0])


@given(runs(scaffold=False), shares, st.data())
@settings(max_examples=300, deadline=None)
def test_trimmed_demolishes_the_rarest_tokens_of_plain_bpe(run, surplus, data):
    counts, vocab_size, options = run
    plain = reference_of(counts, vocab_size, options, surplus)
    options.pop("scaffold")
    bpe = train(counts, vocab_size, method="trimmed", surplus=surplus, **options)
    scaffolds = oracle.trimmed(plain, vocab_size)
    assert bpe.merges == plain.merges
    assert {*bpe.scaffold_tokens} == scaffolds
    assert bpe.tokens == [token for token in plain.expanded if token not in scaffolds]
    texts = texts_of(bpe, data)
    for text, ids in zip(texts, bpe.encode([text.encode() for text in texts]), strict=True):
        assert [bpe.tokens[i] for i in ids] == oracle.encode(text, scaffolds, plain.merges)


@given(runs(scaffold=False), shares, st.data())
@settings(max_examples=300, deadline=None)
def test_leaf_pruning_is_plain_bpe_without_the_rarest_leaves(run, surplus, data):
    counts, vocab_size, options = run
    plain = reference_of(counts, vocab_size, options, surplus)
    options.pop("scaffold")
    bpe = train(counts, vocab_size, method="leaf", surplus=surplus, **options)
    tokens, merges = oracle.without_leaves(plain, vocab_size)
    assert (bpe.tokens, bpe.merges, bpe.scaffold_tokens) == (tokens, merges, [])
    texts = texts_of(bpe, data)
    for text, ids in zip(texts, bpe.encode([text.encode() for text in texts]), strict=True):
        assert [bpe.tokens[i] for i in ids] == oracle.scaffolding(text, merges)


@given(runs(scaffold=False), st.sampled_from(["trimmed", "leaf"]), st.lists(st.integers(0, 40), max_size=4))
@settings(max_examples=100, deadline=None)
def test_several_sizes_are_those_of_single_runs(run, method, less):
    counts, vocab_size, options = run
    options.pop("scaffold")
    smallest = len(options["special_tokens"]) + len(set("".join(counts)))
    sizes = [max(smallest, vocab_size - n) for n in [0, *less]]
    for size, bpe in zip(sizes, train(counts, sizes, method=method, surplus=0.5, **options), strict=True):
        assert bpe == train(counts, size, method=method, surplus=0.5, **options)


@pytest.mark.parametrize("method", ["trimmed", "leaf"])
def test_a_saved_tokenizer_encodes_as_its_artifact(method, tmp_path):
    counts = hs.count(CORPUS)
    bpe = hs.train(counts, 275, method=method, surplus=0.5)
    assert bpe.vocab_size == 275
    assert bool(bpe.scaffold_tokens) == (method == "trimmed")
    bpe.to_tokenizer().save_pretrained(tmp_path)
    encoder = hs.Encoder.from_pretrained(tmp_path)
    for text in CORPUS:
        assert encoder.decode(encoder.encode(text)) == text
    words = [*counts]
    assert [encoder.encode(word.decode()) for word in words] == bpe.encode(words)
    assert bpe.training["settings"]["method"] == method


def test_plain_bpe_has_two_names():
    counts = hs.count(CORPUS)
    plain = hs.train(counts, 280, scaffold=False)
    assert plain == hs.train(counts, 280, method="bpe") == hs.train(counts, 280, scaffold=False, method="bpe")
    assert plain != hs.train(counts, 280) == hs.train(counts, 280, method="scaffold")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "picky!"}, ConfigurationError, "method is 'picky!'; it must be one of scaffold, bpe"),
        ({"method": 3}, TypeError, "method must be a string"),
        (
            {"method": "leaf", "scaffold": False},
            ConfigurationError,
            "scaffold=False is plain BPE, but method",
        ),
        ({"method": "leaf", "log": True}, ConfigurationError, "log=True goes with scaffold and bpe"),
        ({"surplus": 1.5}, ConfigurationError, "surplus is 1.5; it must be from 0 to 1"),
        ({"surplus": float("nan")}, ConfigurationError, "surplus is nan; it must be from 0 to 1"),
        ({"surplus": "0.1"}, TypeError, "surplus must be a number"),
    ],
)
def test_what_can_not_be_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        hs.TrainingSettings(300, **options)
