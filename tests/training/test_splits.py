"""The raw-safe model that has every split: what it is, that it is valid, and that it agrees more often."""

import json
import random
import warnings

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import hf_scaffold as hs
from hf_scaffold.text.byte_level import bytes_to_symbols
from hf_scaffold.text.symbols import Affixes
from hf_scaffold.tokenizer.building import artifact_of
from hf_scaffold.training import agreement
from hf_scaffold.training.agreement import measure
from hf_scaffold.training.checks import check
from hf_scaffold.training.parts import AGREEMENTS, every_split


def train(counts, vocab_size, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # candidates may run out
        return hs.train(counts, vocab_size, **options)


def some_counts(seed):
    """Words made of few pieces, by counts as those of real text."""
    generator = random.Random(seed)
    pieces = ["a", "b", "c", "d", "ab", "bc", "abc", "cd"]
    words = ("".join(generator.choices(pieces, k=generator.randint(1, 6))) for _ in range(30))
    return hs.PreTokenCounts.from_mapping({word: int(generator.paretovariate(0.7)) for word in words})


# ---- which rules


def test_a_case_by_hand():
    # c and d join first, then b and cd: so of bcd, the boundary before d goes first (rank 0), the other with
    # rank 1. abcd loses its own with rank 3. Only bc is made of normal tokens alone, by rank 2.
    merges = [("c", "d"), ("b", "cd"), ("b", "c"), ("a", "bcd"), ("a", "b")]
    tokens = ["a", "b", "c", "d", "bcd", "bc", "abcd", "ab"]
    assert every_split(merges, tokens) == [("bc", "d"), ("b", "c"), ("a", "bcd"), ("a", "b")]
    # Were cd a token, too, all rules would be the first ones. Without bc, bcd can't be made, so nor can abcd.
    assert every_split(merges, [*tokens, "cd"]) == merges
    assert every_split(merges, [token for token in tokens if token != "bc"]) == [("a", "b")]


def test_several_splits_of_a_token():
    merges = [("b", "c"), ("bc", "d"), ("a", "bcd"), ("c", "d"), ("a", "b"), ("ab", "c")]
    tokens = ["a", "b", "c", "d", "bcd", "abcd", "cd", "ab", "abc", "xd"]
    assert every_split(merges, tokens) == [
        ("b", "cd"), ("ab", "cd"),  # as b and c join, first of bcd
        ("abc", "d"),
        ("a", "bcd"),
        ("c", "d"), ("a", "b"), ("ab", "c"),
    ]  # fmt: skip
    assert every_split([], tokens) == []


def test_boundaries_in_parts_with_a_prefix():
    # The boundary before d goes first, as c and d join; in abcd, too, whose right part is ##bcd.
    merges = [("##c", "##d"), ("##b", "##c"), ("##b", "##cd"), ("a", "##bcd"), ("a", "##b"), ("ab", "##c")]
    tokens = ["a", "##b", "##c", "##d", "##bc", "##bcd", "abcd", "ab", "abc"]
    rules = [
        ("##bc", "##d"), ("abc", "##d"),
        ("##b", "##c"), ("a", "##bcd"), ("a", "##b"), ("ab", "##c"),
    ]  # fmt: skip
    assert every_split(merges, tokens, Affixes("##", "")) == rules
    assert oracle.every_split(merges, tokens, "##", "") == rules


def test_rules_stay_where_a_token_has_several():
    """As tokenizers of tiktoken's files have."""
    merges = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc")]
    assert every_split(merges, ["a", "b", "c", "ab", "bc", "abc"]) == merges
    assert every_split(merges, ["a", "b", "c", "bc", "abc"]) == [("a", "bc"), ("b", "c")]


OPTIONS = [
    {},
    {"continuing_subword_prefix": "##"},
    {"end_of_word_suffix": "</w>"},
    {"continuing_subword_prefix": "@", "end_of_word_suffix": "_"},
]
words = st.lists(st.sampled_from(["a", "b", "c", "d", "ab", "bc", "abc"]), min_size=1, max_size=7).map(
    "".join
)
tables = st.dictionaries(words, st.integers(1, 9) | st.integers(1, 2**40), min_size=1, max_size=30)


@given(tables, st.integers(0, 30), st.sampled_from(OPTIONS))
@settings(max_examples=400)
def test_the_rules_of_the_slow_reference(table, n_tokens, options):
    counts = hs.PreTokenCounts.from_mapping(table, alphabet="chars")
    bpe = train(counts, 16 + n_tokens, every_split=True, **options)
    check(bpe)  # training trusts what it makes
    assert bpe.raw_merges == oracle.every_split(bpe.merges, bpe.tokens, *bpe.affixes)
    usual = train(counts, 16 + n_tokens, **options)
    assert usual.with_every_split().raw_merges == bpe.raw_merges
    # Whatever can be made by the usual rules can be made by these.
    assert made_by(usual._raw_merges, usual.affixes) <= made_by(bpe.raw_merges, bpe.affixes)
    assert bpe.encode([*counts]) == usual.encode([*counts])


def made_by(merges, affixes):
    """The tokens that some order of these rules makes of single symbols."""
    rules = {*zip(affixes.join_all(merges), merges, strict=True)}
    symbols = {part for _, pair in rules for part in pair if affixes.readings(part)}
    found: set[str] = set()
    while new := {token for token, pair in rules if (found | symbols).issuperset(pair)} - found:
        found |= new
    return found


nasty = st.lists(st.sampled_from("#ab_c") | st.sampled_from(["</w>", "##"]), min_size=1, max_size=7).map(
    "".join
)


@given(
    st.dictionaries(nasty, st.integers(1, 40), min_size=1, max_size=12),
    st.sampled_from([("##", ""), ("#", "_"), ("#", "#"), ("##", "</w>")]),
)
@settings(max_examples=200)
def test_text_that_spells_affixes(table, affixes):
    """A string may then be several symbols, and a token have several rules."""
    counts = hs.PreTokenCounts.from_mapping(table, alphabet="chars", pre_tokenizer="whitespace-split")
    prefix, suffix = affixes
    bpe = train(
        counts, 40, every_split=True, continuing_subword_prefix=prefix, end_of_word_suffix=suffix or None
    )
    check(bpe)
    assert artifact_of(bpe.to_tokenizer()).raw_model().__getstate__() == bpe.raw_model().__getstate__()


# ---- how often it agrees


def test_in_random_corpora_it_never_agrees_less():
    gained = 0
    for seed in range(300):
        counts = some_counts(seed)
        usual = train(counts, 4 + seed % 30, initial_alphabet=())
        before, after = measure(usual, counts), measure(usual.with_every_split(), counts)
        assert after.measured >= before.measured
        assert after.merges_only >= before.merges_only
        gained += after != before
    assert gained > 5


@pytest.mark.parametrize("size", [4000, 8000])
def test_it_agrees_more_often_on_text_seen_and_unseen(english_text, size):
    half = len(english_text) // 2
    counts, unseen = hs.count([english_text[:half]]), hs.count([english_text[half:]])
    usual, bpe = hs.train(counts, size), hs.train(counts, size, every_split=True)
    assert bpe.raw_agreement_merges_only > usual.raw_agreement_merges_only
    assert bpe.raw_agreement >= usual.raw_agreement
    for ignore_merges in (True, False):
        found = [some.agreement(unseen, ignore_merges=ignore_merges) for some in (usual, bpe)]
        assert found[1] > found[0]
    slow = agreement.measure_training_text(bpe, counts, hs.train(counts, size, log=True).log.frequencies)
    assert bpe.raw_agreements == dict(zip(AGREEMENTS, slow, strict=True))


@pytest.mark.parametrize("ignore_merges", [True, False])
def test_measured_as_the_rust_engine_encodes(english_text, ignore_merges):
    counts = hs.count([english_text[:60_000]])
    bpe = hs.train(counts, 1500, every_split=True)
    model = bpe.raw_model()
    model.ignore_merges = ignore_merges
    raw = Tokenizer(model).encode_batch_fast([*map(bytes_to_symbols, counts)])
    exact = bpe.encode([*counts])
    agreeing = sum(n for n, x, y in zip(counts.counts.tolist(), exact, raw, strict=True) if x == y.ids)
    assert bpe.agreement(counts, ignore_merges=ignore_merges) == agreeing / counts.total


# ---- where it is


@pytest.fixture(scope="module")
def both(english_text):
    counts = hs.count([english_text[:60_000]])
    return hs.train(counts, 1500), hs.train(counts, 1500, every_split=True), counts


def test_counts_alone_matter(both):
    _, bpe, counts = both
    table = dict(zip(counts, counts.counts.tolist(), strict=True))
    again = hs.PreTokenCounts.from_mapping(dict(reversed(table.items())))
    assert hs.train(again, 1500, every_split=True) == bpe


def test_kept_by_artifact_and_tokenizer(both, tmp_path):
    usual, bpe, _ = both
    bpe.save(tmp_path / "artifact")
    assert hs.ScaffoldBPE.load(tmp_path / "artifact") == bpe
    usual.save(tmp_path / "usual")
    assert "raw_merges" not in json.loads((tmp_path / "usual" / "demolish.json").read_bytes())
    tokenizer = bpe.to_tokenizer()
    assert artifact_of(tokenizer) == bpe
    assert artifact_of(usual.to_tokenizer()) == usual
    model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    assert [tuple(pair) for pair in model["merges"]] == bpe.raw_merges
    assert (
        tokenizer("A heath, heather and hearth").input_ids
        == usual.to_tokenizer()("A heath, heather and hearth").input_ids
    )


def test_agreement_is_unknown_where_it_is_not_measured(both):
    usual, bpe, counts = both
    changed = usual.with_every_split()
    assert changed.raw_agreements == {}
    assert changed.raw_merges == bpe.raw_merges
    assert changed.agreement(counts) == bpe.raw_agreement


@pytest.mark.parametrize("kept", [{}, {"every_split": True}])
def test_of_converted_extended_and_pruned_tokenizers(both, kept, english_text):
    usual, _, counts = both
    plain = hs.train(counts, 1500, scaffold=False)
    backend = Tokenizer(plain.raw_model())
    backend.pre_tokenizer = plain.pre_tokenizer.pre_tokenizer
    text = [english_text[:60_000]]
    made = [
        hs.convert_tokenizer(backend, text, **kept).tokenizer,
        hs.extend(usual.to_tokenizer(), text, 1600, **kept),
        hs.prune(usual.to_tokenizer(), text, 1300, **kept).tokenizer,
    ]
    for tokenizer in made:
        merges = [(left, right) for left, right in tokenizer.scaffold["merges"]]
        model = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
        every = every_split(merges, model["vocab"])
        assert ([*map(tuple, model["merges"])] == every) == bool(kept)


def test_a_pruned_tokenizer_agrees_more_often(english_text):
    counts = hs.count([english_text])
    tokenizer = hs.train(counts, 7000).to_tokenizer()
    found = [hs.prune(tokenizer, counts, 6000, every_split=every).tokenizer for every in (False, True)]
    usual, more = (tokenizer.scaffold for tokenizer in found)
    assert more["raw_agreement"] >= usual["raw_agreement"]
    assert more["raw_agreement_merges_only"] > usual["raw_agreement_merges_only"]
    text = english_text[:10_000]
    assert found[0](text).input_ids == found[1](text).input_ids


def test_no_number_says_yes(both):
    usual, _, counts = both
    with pytest.raises(TypeError, match="every_split must be True or False"):
        hs.train(counts, 1500, every_split=1)
    with pytest.raises(TypeError, match="every_split must be True or False"):
        hs.prune(usual.to_tokenizer(), counts, 1300, every_split="no")
