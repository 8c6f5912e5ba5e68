"""Raw agreement: what a plain BPE engine that reads tokenizer.json gets right, measured and estimated."""

import json
import random
import warnings
from functools import cache

import numpy as np
import pytest
import toys
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

import hf_scaffold as hs
from hf_scaffold.errors import ArtifactError
from hf_scaffold.text.byte_level import bytes_to_symbols
from hf_scaffold.tokenizer.building import artifact_of
from hf_scaffold.training import agreement
from hf_scaffold.training.agreement import Trained, measure
from hf_scaffold.training.parts import AGREEMENTS

# By hand: "c d" is merged 29 times, then "b cd" 23, "a bcd" 20, "cd e" 6 and "x bcd" once. At the end cd is a
# scaffold, since it occurs nowhere, and bcd stands by itself twice. The raw-safe model has a rule only where
# both parts are tokens: "a bcd" and "x bcd", but none that makes bcd.
LETTERS = {"abcd": 20, "cde": 6, "bcd": 2, "xbcd": 1}
LETTERS_SIZE = 6 + 4  # the letters; abcd, bcd, cde, xbcd


def train(table, vocab_size, **options):
    counts = hs.PreTokenCounts.from_mapping(table)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # candidates may run out
        return hs.train(counts, vocab_size, **options), counts


@pytest.fixture(scope="module")
def letters():
    return train(LETTERS, LETTERS_SIZE, initial_alphabet=())


def test_a_case_by_hand(letters):
    bpe, _ = letters
    assert bpe.merges == [("c", "d"), ("b", "cd"), ("a", "bcd"), ("cd", "e"), ("x", "bcd")]
    assert bpe.scaffold_tokens == ["cd"]
    assert bpe._raw_merges == [("a", "bcd"), ("x", "bcd")]
    # All four words are tokens, so they are taken whole; or all are left in letters.
    assert bpe.raw_agreement == 1
    assert bpe.raw_agreement_merges_only == 0
    # Rare are those that occur up to three times: bcd, xbcd. Rules made fewer than 1 + 3 times go: "x bcd".
    # Then xbcd is "x bcd" to the exact encoder, but letters to the raw one, which has no rule for bcd. bcd
    # itself is still a token.
    assert bpe.raw_agreement_unseen == (20 + 6 + 2) / 29
    assert bpe.raw_agreements == dict(zip(AGREEMENTS, (1, 0, 28 / 29), strict=True))


def test_frequent_pretokens_count_as_measured():
    # "x bcd" is now merged four times and "cd e" six: both are made fewer than 4 + 3 times, so they go. The
    # rare ones, bcd and z, need neither; xbcd does, but isn't rare.
    bpe, _ = train({**LETTERS, "xbcd": 4, "z": 1}, LETTERS_SIZE + 1, initial_alphabet=())
    assert bpe.merges == [("c", "d"), ("b", "cd"), ("a", "bcd"), ("cd", "e"), ("x", "bcd")]
    assert (bpe.raw_agreement, bpe.raw_agreement_unseen) == (1, 1)


def test_a_word_that_only_its_own_rule_makes_a_token():
    # Nothing is rarer than pq, so "p q" goes, and both encoders leave letters.
    bpe, _ = train({"pq": 4, "rs": 50}, 6, initial_alphabet=())
    assert bpe.merges == [("r", "s"), ("p", "q")]
    assert (bpe.raw_agreement, bpe.raw_agreement_merges_only, bpe.raw_agreement_unseen) == (1, 1, 1)


def test_no_rule_at_all():
    bpe, _ = train({"a": 3, "b": 1}, 300)
    assert [*bpe.raw_agreements.values()] == [1, 1, 1]


@pytest.mark.parametrize("ignore_merges", [True, False])
def test_measured_as_the_rust_engine_encodes(english_text, ignore_merges):
    counts = hs.count([english_text[:60_000]])
    bpe = hs.train(counts, 1500)
    model = bpe.raw_model()
    model.ignore_merges = ignore_merges
    raw = Tokenizer(model).encode_batch_fast([*map(bytes_to_symbols, counts)])
    exact = bpe.encode([*counts])
    agreeing = sum(n for n, x, y in zip(counts.counts.tolist(), exact, raw, strict=True) if x == y.ids)
    share = bpe.raw_agreement if ignore_merges else bpe.raw_agreement_merges_only
    assert share == agreeing / counts.total == bpe.agreement(counts, ignore_merges=ignore_merges)
    assert 0.5 < share < 1
    assert measure(bpe, counts) == (bpe.raw_agreement, bpe.raw_agreement_merges_only, None)


def test_an_engine_that_never_takes_wholes():
    counts = hs.PreTokenCounts.from_mapping({"low": 9, "lower": 7, "slow": 3, "newer": 5}, alphabet="chars")
    bpe = hs.train(counts, 13, end_of_word_suffix="</w>")
    assert not bpe.raw_model().ignore_merges
    assert bpe.raw_agreement == bpe.raw_agreement_merges_only


@cache
def documents(seed, repeating):
    """40 texts of words from one lexicon, of syllables and by Zipf's law; some words repeat earlier ones."""
    generator = random.Random(seed)
    syllables = ["".join(generator.choices("ptkmnslr") + generator.choices("aeiou")) for _ in range(90)]
    by_rank = [1 / rank for rank in range(1, 91)]
    lengths = generator.choices([1, 2, 2, 3, 3, 4], k=12_000)
    lexicon = [" " + "".join(generator.choices(syllables, by_rank, k=length)) for length in lengths]
    by_rank = [1 / (rank + 3) for rank in range(len(lexicon))]
    texts = []
    for _ in range(40):
        words = []
        for word in generator.choices(lexicon, by_rank, k=1000):
            repeats = words and generator.random() < repeating
            words.append(generator.choice(words) if repeats else word)
        texts.append("".join(words))
    return texts


def estimated_and_found(texts, vocab_size):
    halves = [hs.count(texts[start::2]) for start in (0, 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # candidates run out at the largest size
        bpe = hs.train(halves[0], vocab_size)
    return bpe.raw_agreement, bpe.raw_agreement_unseen, bpe.agreement(halves[1])


@pytest.mark.parametrize("vocab_size", [600, 1500, 40_000])
@pytest.mark.parametrize("seed", range(2))
def test_the_estimate_holds_on_other_documents(seed, vocab_size):
    measured, estimate, found = estimated_and_found(documents(seed, repeating=0.5), vocab_size)
    assert abs(estimate - found) < 0.04
    if vocab_size == 40_000:  # every pre-token is a token
        assert measured == 1
        assert found < 0.93


@pytest.mark.parametrize("vocab_size", [600, 40_000])
def test_the_estimate_is_low_where_documents_do_not_repeat_themselves(vocab_size):
    _, estimate, found = estimated_and_found(documents(0, repeating=0), vocab_size)
    assert found - 0.09 < estimate < found + 0.002


def test_counts_alone_matter():
    words = sorted({word for text in documents(5, repeating=0.5)[:4] for word in text.split()})
    table = {word: n for n, word in enumerate(words, start=1)}
    once, _ = train(table, 900)
    again, _ = train(dict(reversed(table.items())), 900)
    assert once == again
    large, _ = train({word: n << 40 for word, n in table.items()}, 900)
    assert large.raw_agreements == once.raw_agreements
    several, counts = train(table, 900)
    assert hs.train_sizes(counts, [400, 900])[1].raw_agreements == several.raw_agreements


def test_counts_near_the_limit_of_int64():
    bpe, _ = train({"abab": 2**61, "ab": 2**60, "cab": 2**60 + 1}, 258)
    assert all(0 <= share <= 1 for share in bpe.raw_agreements.values())
    assert bpe.raw_agreement == 1


def test_a_sample_stands_for_the_rare_pretokens(monkeypatch, english_text):
    counts = hs.count([english_text])
    bpe = hs.train(counts, 4000)
    rare = (counts.counts <= 3).sum()
    assert rare > 2000
    monkeypatch.setattr(agreement, "_SAMPLE", 1000)
    encoded = []
    plain = Trained.agreeing_without_last_rules
    monkeypatch.setattr(
        Trained, "agreeing_without_last_rules", lambda *parts: encoded.append(parts) or plain(*parts)
    )
    sampled = hs.train(counts, 4000)
    [(_, rows, _)] = encoded
    assert 500 < len(rows) <= 1000
    assert sampled.raw_agreement == bpe.raw_agreement
    assert sampled.raw_agreement_unseen == pytest.approx(bpe.raw_agreement_unseen, abs=0.005)


# ---- what the loop knows beside what the encoders find

words = st.lists(st.sampled_from(["a", "b", "c", "d", "ab", "bc", "abc", "#"]), min_size=1, max_size=8)
CHARACTERS = [
    {},
    {"continuing_subword_prefix": "##"},  # some words begin with it: those loops encode nothing
    {"continuing_subword_prefix": "@@"},
    {"end_of_word_suffix": "</w>"},
    {"byte_fallback": True},
    {"unk_token": "<unk>", "special_tokens": ["<unk>"]},
    {"limit_alphabet": 2, "unk_token": "<unk>", "special_tokens": ["<unk>"]},
]


@given(
    st.dictionaries(words.map("".join), st.integers(1, 9) | st.integers(1, 2**40), min_size=1, max_size=30),
    st.integers(0, 40),
    st.lists(st.sampled_from(["ab", "abc", "cab", "<s>"]), unique=True, max_size=2),
    st.sampled_from([None, *CHARACTERS]),
    st.sampled_from([None, None, 3]),
)
@settings(max_examples=400)
def test_the_loop_tells_what_the_encoders_find(table, n_tokens, specials, characters, longest):
    counts = hs.PreTokenCounts.from_mapping(table, alphabet="bytes" if characters is None else "chars")
    options = {"initial_alphabet": (), "max_token_length": longest, **(characters or {})}
    options["special_tokens"] = [*options.get("special_tokens", []), *specials]
    n_fixed = len(options["special_tokens"]) + 256 * options.get("byte_fallback", False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bpe = hs.train(counts, n_fixed + 12 + n_tokens, log=True, **options)
    slow = agreement.measure_training_text(bpe, counts, bpe.log.frequencies)
    assert bpe.raw_agreements == dict(zip(AGREEMENTS, slow, strict=True))


@pytest.mark.parametrize("size", [400, 2000, 9000])
def test_the_loop_tells_it_of_every_word(english_text, monkeypatch, size):
    found = []
    plain = Trained.agreeing
    monkeypatch.setattr(Trained, "agreeing", lambda self: found.append(plain(self)) or found[-1])
    monkeypatch.setattr(agreement, "_SLICE", 10_000)
    counts = hs.count([english_text])
    bpe = hs.train(counts, size, log=True)
    [(agrees, by_merges)] = found
    expected = agreement._agreeing(bpe, counts)
    assert np.array_equal(agrees, expected[0])
    assert np.array_equal(by_merges, expected[1])
    slow = agreement.measure_training_text(bpe, counts, bpe.log.frequencies)
    assert bpe.raw_agreements == dict(zip(AGREEMENTS, slow, strict=True))


def test_rules_of_pairs_that_occurred_more_often(english_text):
    counts = hs.count([english_text[:40_000]])
    log = hs.train(counts, 1000, log=True).log
    bpe = hs.train(counts, 1000)
    made = [event.head_frequency for event in log.events if event.kind == "merged"]
    for n in (1, 3, 20, made[0]):
        kept = sum(occurrences >= made[-1] + n for occurrences in made)
        assert agreement._n_rules_without(bpe, log.frequencies, n) == kept


def test_a_rule_for_a_token_that_an_earlier_one_made_counts_all_its_occurrences():
    """So occurrences needn't fall from rule to rule: the first that are too few decide."""
    counts = hs.PreTokenCounts.from_mapping({"aacb": 15, "bc": 23, "ca": 8, "aaabc": 19, "cb": 24})
    bpe = hs.train(counts, 262, log=True)
    left = [agreement._n_rules_without(bpe, bpe.log.frequencies, n) for n in (1, 27, 32)]
    # Of the pairs, 34, 42, 39, 19, 19, 15 and 8.
    assert left == [6, 0, 0]


# ---- kept


def test_kept_by_artifact_and_tokenizer(letters, tmp_path):
    bpe, _ = letters
    bpe.save(tmp_path / "artifact")
    assert hs.ScaffoldBPE.load(tmp_path / "artifact") == bpe
    content = json.loads((tmp_path / "artifact" / "demolish.json").read_bytes())
    assert {name: content[name] for name in AGREEMENTS} == bpe.raw_agreements
    bpe.to_tokenizer().save_pretrained(tmp_path / "tokenizer")
    content = json.loads((tmp_path / "tokenizer" / "scaffold.json").read_bytes())
    assert {name: content[name] for name in AGREEMENTS} == bpe.raw_agreements
    loaded = hs.ScaffoldTokenizerFast.from_pretrained(tmp_path / "tokenizer")
    assert artifact_of(loaded).raw_agreements == bpe.raw_agreements


def test_files_of_0_1_0_lack_two(letters, tmp_path):
    bpe, _ = letters
    bpe.save(tmp_path)
    path = tmp_path / "demolish.json"
    content = json.loads(path.read_bytes())
    del content["raw_agreement_merges_only"], content["raw_agreement_unseen"]
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    old = hs.ScaffoldBPE.load(tmp_path)
    assert old.raw_agreements == {"raw_agreement": 1}
    assert old != bpe
    assert artifact_of(old.to_tokenizer()).raw_agreements == {"raw_agreement": 1}
    before = path.read_bytes()
    old.save(tmp_path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", AGREEMENTS)
@pytest.mark.parametrize("share", [1.5, -0.1, float("nan")])
def test_what_is_no_share_is_refused(letters, name, share):
    bpe, _ = letters
    state = bpe.__getstate__() | {name: share}
    with pytest.raises(ArtifactError, match=f"{name}: .* is not a share between 0 and 1"):
        hs.ScaffoldBPE(**state)
    tokenizer = toys.tokenizer()
    with pytest.raises(ValueError, match=f"{name} is .*, not a share from 0 to 1"):
        hs.ScaffoldTokenizerFast(
            tokenizer_object=tokenizer.backend_tokenizer, scaffold={**tokenizer.scaffold, name: share}
        )


def test_ids_of_equal_counts_as_numpy_has_them(letters):
    bpe, _ = letters
    assert np.array_equal(bpe.rules[0], [bpe.vocab["c"], bpe.vocab["d"], bpe.vocab["cd"]])
