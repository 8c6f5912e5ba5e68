"""Other methods than Scaffold-BPE against their definitions, spelled out in oracle.py."""

import contextlib
import json
import pickle
import warnings

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_runs import many_counts, runs

import hf_scaffold as hs
from hf_scaffold._core.pretoken_encoder import PretokenEncoder
from hf_scaffold._core.trainer import PickyMergeLoop
from hf_scaffold.errors import ArtifactError, ConfigurationError
from hf_scaffold.evaluation.baselines import RIVALS
from hf_scaffold.methods.steps import CompiledSteps, Removed, compiled_steps, steps_as_numbers
from hf_scaffold.report.report import BASELINE_NAMES
from hf_scaffold.training import artifact
from hf_scaffold.training import parts as artifact_parts
from hf_scaffold.training.checks import check
from hf_scaffold.training.parts import Encoders

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


def trained_with_surplus(run, method, surplus):
    """Plain BPE with the surplus, by the oracle; and what the method makes of it."""
    counts, vocab_size, options = run
    n_fixed = len(options["special_tokens"]) + len(set("".join(counts)))
    n_merged = vocab_size + int((vocab_size - n_fixed) * surplus)
    plain = oracle.train({tuple(text): n for text, n in counts.items()}, n_merged, **options)
    others = {name: value for name, value in options.items() if name != "scaffold"}
    return plain, train(counts, vocab_size, method=method, surplus=surplus, **others)


def check_encoding(bpe, data, expected):
    """Whether texts of the vocabulary's tokens become what expected(text) says."""
    texts = texts_of(bpe, data)
    for text, ids in zip(texts, bpe.encode([text.encode() for text in texts]), strict=True):
        assert [bpe.tokens[i] for i in ids] == expected(text)


def texts_of(bpe, data):
    pieces = [token for token in bpe.vocab if token not in bpe.special_tokens]
    return ["".join(data.draw(st.lists(st.sampled_from(pieces), max_size=8))) for _ in range(4)]


shares = st.sampled_from([0.0, 0.1, 0.5, 1.0])


@given(runs(scaffold=False), shares, st.data())
@settings(max_examples=300)
def test_trimmed_demolishes_the_rarest_tokens_of_plain_bpe(run, surplus, data):
    plain, bpe = trained_with_surplus(run, "trimmed", surplus)
    scaffolds = oracle.trimmed(plain, run[1])
    assert bpe.merges == plain.merges
    assert {*bpe.scaffold_tokens} == scaffolds
    assert bpe.tokens == [token for token in plain.expanded if token not in scaffolds]
    check_encoding(bpe, data, lambda text: oracle.encode(text, scaffolds, plain.merges))


@given(runs(scaffold=False), shares, st.data())
@settings(max_examples=300)
def test_leaf_pruning_is_plain_bpe_without_the_rarest_leaves(run, surplus, data):
    plain, bpe = trained_with_surplus(run, "leaf", surplus)
    tokens, merges = oracle.without_leaves(plain, run[1])
    assert (bpe.tokens, bpe.merges, bpe.scaffold_tokens) == (tokens, merges, [])
    check_encoding(bpe, data, lambda text: oracle.scaffolding(text, merges))


@given(runs(scaffold=False), shares, st.data())
@settings(max_examples=300)
def test_what_residues_leave_is_merged_again(run, surplus, data):
    plain, bpe = trained_with_surplus(run, "residue", surplus)
    gone = oracle.residues(plain, run[1])
    assert bpe.merges == plain.merges
    assert {*bpe.scaffold_tokens} == gone
    check_encoding(bpe, data, lambda text: oracle.encode_without_residues(text, gone, plain.merges))


def test_what_a_residue_leaves_joins_its_neighbours():
    """Of 51 bc one is left, in a bc, which becomes ab c. What ends one pre-token doesn't join the next."""
    bpe = train({"bcd": 50, "ab": 30, "abc": 1}, 6, method="residue", surplus=0.5)
    assert (bpe.tokens, bpe.scaffold_tokens) == (["a", "b", "c", "d", "bcd", "ab"], ["bc"])
    texts = [b"abc", b"dbc", b"a", b"bc", b"a" * 60 + b"bc"]
    expected = [["ab", "c"], ["d", "b", "c"], ["a"], ["b", "c"], [*"a" * 59, "ab", "c"]]
    assert [[bpe.tokens[i] for i in ids] for ids in bpe.encode(texts)] == expected
    encoder = bpe.encoder()
    assert [[bpe.tokens[i] for i in encoder.encode(text.decode())] for text in texts] == expected


@given(
    runs(scaffold=False),
    st.sampled_from(["trimmed", "leaf", "residue", "picky"]),
    st.lists(st.integers(0, 40), max_size=4),
)
@settings(max_examples=100)
def test_several_sizes_are_those_of_single_runs(run, method, less):
    counts, vocab_size, options = run
    options.pop("scaffold")
    smallest = len(options["special_tokens"]) + len(set("".join(counts)))
    sizes = [max(smallest, vocab_size - n) for n in [0, *less]]
    for size, bpe in zip(sizes, train(counts, sizes, method=method, surplus=0.5, **options), strict=True):
        assert bpe == train(counts, size, method=method, surplus=0.5, **options)


@pytest.mark.parametrize("method", ["trimmed", "leaf", "residue"])
def test_a_saved_tokenizer_encodes_as_its_artifact(method, tmp_path):
    counts = hs.count(CORPUS)
    bpe = hs.train(counts, 275, method=method, surplus=0.5)
    assert bpe.vocab_size == 275
    assert bool(bpe.scaffold_tokens) == (method != "leaf")
    bpe.to_tokenizer().save_pretrained(tmp_path)
    encoder = hs.Encoder.from_pretrained(tmp_path)
    for text in CORPUS:
        assert encoder.decode(encoder.encode(text)) == text
    words = [*counts]
    assert [encoder.encode(word.decode()) for word in words] == bpe.encode(words)
    assert bpe.training["settings"]["method"] == method


thresholds = st.sampled_from([0.0, 0.3, 0.5, 0.7, 0.9, 1.0])


def steps_of(bpe):
    """The steps as the oracle spells them."""
    return [(step.token, None, *step.parts) if isinstance(step, Removed) else step for step in bpe.steps]


@given(runs(scaffold=False), thresholds, st.data())
@settings(max_examples=400)
def test_picky_takes_the_steps_of_the_slow_reference(run, threshold, data):
    counts, vocab_size, options = run
    options.pop("scaffold")
    reference = oracle.train_picky(
        {tuple(text): n for text, n in counts.items()}, vocab_size, threshold=threshold, **options
    )
    bpe = train(counts, vocab_size, method="picky", threshold=threshold, **options)
    assert (bpe.tokens, bpe.scaffold_tokens) == (reference.present, reference.removed)
    assert steps_of(bpe) == reference.steps
    texts = [*texts_of(bpe, data), *counts]
    encoded = bpe.encode([text.encode() for text in texts])
    for text, ids in zip(texts, encoded, strict=True):
        assert [bpe.tokens[i] for i in ids] == oracle.encode_picky(text, reference.steps)
    in_training = [[bpe.tokens[i] for i in ids] for ids in encoded[-len(counts) :]]
    assert in_training == [symbols for symbols, _ in reference.sequences]


@given(runs(scaffold=False), thresholds, many_counts, st.integers(0, 40))
@settings(max_examples=200)
def test_rare_pairs_may_wait_in_picky(run, threshold, rare_below, smaller):
    """However many pairs the index leaves out, and wherever the run pauses, each step stays the same."""
    counts, vocab_size, options = run
    alphabet = sorted(set("".join(counts)))
    fixed = [*options["special_tokens"], *alphabet]
    loops = [
        PickyMergeLoop(
            np.array([fixed.index(letter) for text in counts for letter in text], np.int32),
            np.cumsum([0, *map(len, counts)]),
            np.array([*counts.values()], np.int64),
            [token.encode() for token in fixed],
            len(options["special_tokens"]),
            options["min_frequency"],
            options["max_token_length"] or 0,
            False,
            rare_below=least,
            threshold=threshold,
        )
        for least in (1, rare_below)
    ]
    loops[0].run(vocab_size)
    for size in (max(0, vocab_size - smaller), vocab_size):
        loops[1].run(size)
    assert all(map(np.array_equal, *(loop.history for loop in loops)))
    assert loops[0].frequencies == loops[1].frequencies


def test_picky_with_nothing_removed_is_plain_bpe():
    counts = hs.count(CORPUS)
    plain, picky = hs.train(counts, 270, method="bpe"), hs.train(counts, 270, method="picky", threshold=1)
    assert (picky.merges, picky.vocab, picky.steps) == (plain.merges, plain.vocab, plain.merges)
    assert picky.encode([*counts]) == plain.encode([*counts])


def test_a_removed_token_comes_back():
    """The merge of ab and c uses up 9 of 12 ab, which is removed; then a and b are merged again."""
    bpe = train({"abc": 9, "ab": 3}, 6, method="picky", threshold=0.7)
    assert bpe.steps == [("a", "b"), ("ab", "c"), Removed("ab", ("a", "b")), ("a", "b")]
    assert bpe.tokens == ["a", "b", "c", "ab", "abc"]
    assert train({"abc": 9, "ab": 3}, 4, method="picky", threshold=0.7).tokens == ["a", "b", "c", "ab"]


@pytest.mark.parametrize(
    ("counts", "threshold"),
    [
        # "ab" is merged again to the left of one that has been there all the time.
        ({"cad": 100, "cae": 100, "cabab": 30, "ab": 90, "abab": 5}, 0.3),
        # In "caaab", "aa" is merged at another place than before: where it ended, it doesn't begin.
        ({"caaab": 10, "cad": 100, "caf": 100, "aae": 100, "aab": 20}, 0.4),
    ],
)
@pytest.mark.parametrize("size", range(8, 16))
def test_tokens_of_picky_come_and_go(counts, threshold, size):
    reference = oracle.train_picky({tuple(text): n for text, n in counts.items()}, size, threshold=threshold)
    bpe = train(counts, size, method="picky", threshold=threshold)
    assert steps_of(bpe) == reference.steps
    assert (bpe.tokens, bpe.scaffold_tokens) == (reference.present, reference.removed)


def picky_tokenizer(**options):
    return hs.train(hs.count(CORPUS), 268, method="picky", threshold=0.6, **options)


def test_picky_goes_through_files(tmp_path):
    bpe = picky_tokenizer()
    assert [step.token for step in bpe.steps if isinstance(step, Removed)]
    bpe.save(tmp_path / "artifact")
    assert hs.ScaffoldBPE.load(tmp_path / "artifact") == bpe
    tokenizer = bpe.to_tokenizer()
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    loaded = hs.ScaffoldTokenizerFast.from_pretrained(tmp_path / "tokenizer")
    encoder = hs.Encoder.from_pretrained(tmp_path / "tokenizer")
    texts = [*CORPUS[:4], "zebras in Arizona? \u2603 hugs!", ""]
    expected = bpe.encoder().encode_batch(texts)
    words = [*hs.count(CORPUS)]
    assert [encoder.encode(word.decode()) for word in words] == bpe.encode(words)
    assert encoder.encode_batch(texts) == expected
    for each in (tokenizer, loaded):
        assert each(texts)["input_ids"] == expected
        assert each.explain_path(texts).startswith("native")
        assert [each.decode(ids) for ids in expected] == texts
    assert pickle.loads(pickle.dumps(encoder)).encode_batch(texts) == expected
    assert 0 < bpe.raw_agreement <= 1
    assert bpe.raw_agreement_unseen is None


@pytest.mark.parametrize(("prefix", "suffix", "size"), [("", "", 33), ("##", "", 48), ("", "</w>", 43)])
def test_picky_on_characters(prefix, suffix, size):
    counts = hs.count(CORPUS, alphabet="chars", pre_tokenizer="bert")
    affixes = {"continuing_subword_prefix": prefix or None, "end_of_word_suffix": suffix or None}
    bpe = hs.train(counts, size, method="picky", threshold=0.6, unk_token="[UNK]", **affixes)
    for word, ids in zip(counts, bpe.encode([*counts]), strict=True):
        symbols = oracle.symbols_of(word.decode(), prefix, suffix)
        assert [bpe.tokens[i] for i in ids] == oracle.encode_picky(symbols, steps_of(bpe), prefix)


@pytest.mark.parametrize("method", ["picky", "residue"])
def test_affixes_that_the_text_spells_are_refused(method):
    counts = hs.count(["a##b ##b"], alphabet="chars", pre_tokenizer="whitespace")
    with pytest.raises(ConfigurationError, match="can't train where the text spells the affixes"):
        hs.train(counts, 40, method=method, continuing_subword_prefix="##")


@pytest.mark.parametrize("method", ["picky", "residue"])
@pytest.mark.parametrize(
    "change",
    [lambda tokenizer: hs.extend(tokenizer, CORPUS, 300), lambda tokenizer: hs.prune(tokenizer, CORPUS, 260)],
)
def test_what_takes_merges_refuses_what_removes_tokens(change, method):
    with pytest.raises(ConfigurationError, match=r"method \(PickyBPE, residue\) also removes tokens"):
        change(hs.train_tokenizer(CORPUS, 270, method=method))


@pytest.mark.parametrize("kind", RIVALS)
def test_methods_are_compared_by_name(kind):
    counts = hs.count(CORPUS)
    made = hs.train_baseline(kind, counts, 268)
    assert made(CORPUS)["input_ids"] == hs.train(counts, 268, method=kind).to_tokenizer()(CORPUS)["input_ids"]
    assert hs.evaluate(made, CORPUS).vocab_size == 268
    assert BASELINE_NAMES[kind] in hs.make_report(CORPUS, 268, baselines=[kind]).to_markdown()


def test_what_picky_can_not_do_is_said():
    tokenizer = picky_tokenizer().to_tokenizer()
    # It can't be there: the models of `tokenizers`, which this would be, only merge.
    with pytest.raises(NotImplementedError, match="only hf_scaffold's own encoder takes tokens out"):
        tokenizer._expanded()
    tokenizer.dropout = 0.1
    with pytest.raises(ValueError, match="no dropout where tokens are also removed"):
        tokenizer("hugs")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.update(version=1), "version is 1, not 2"),
        (lambda content: content["steps"].append(["q", "zz"]), "names or makes 'zz', which is no token"),
        (lambda content: content["steps"].append(["q"]), "neither a merge nor a removal"),
        (lambda content: content["steps"].append({"removed": "th", "parts": []}), "neither a merge nor a"),
        (lambda content: content["steps"].append({"removed": "th", "parts": ["t"]}), "splits 'th' into what"),
        (lambda content: content.update(steps="steps"), "steps must be a list"),
    ],
)
def test_steps_that_fit_nothing_are_refused(change, message, tmp_path):
    picky_tokenizer().to_tokenizer().save_pretrained(tmp_path)
    path = tmp_path / "scaffold.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ArtifactError, match=message):
        hs.Encoder.from_pretrained(tmp_path)
    with pytest.raises((ValueError, OSError), match=message):
        hs.ScaffoldTokenizerFast.from_pretrained(tmp_path)


def test_steps_of_any_lengths_stay_inside_their_pre_token():
    """Numbers that no training makes: compiled code takes them, or refuses them by name."""
    symbols = np.full(256, -1, np.int32)
    symbols[[97, 98]] = 0, 1
    none = np.zeros((0, 3), np.int32)
    longer = [[0, 1, 2], [2, -1, 3]], [0, 1, 0]  # ab, removed, becomes a b a
    doubling = [[0, 1, 2], *([2, 2, 2] for _ in range(80)), [2, -1, 1]], [2]
    of_itself = [[0, 1, 0], [0, 1, 0], [0, -1, 2]], [0, 1]
    for rows, parts in (longer, doubling, of_itself):
        history = np.array(rows, np.int32), np.array(parts, np.int32)
        encoder = PretokenEncoder(symbols, none, {}, {}, history=history)
        with contextlib.suppress(ValueError):
            encoder.encode(b"abababab" * 20, np.array([0, 160]))
    history = tuple(np.array(part, np.int32) for part in longer)
    encoder = PretokenEncoder(symbols, none, {}, {}, history=history)
    with pytest.raises(ValueError, match="are not as long as the token"):
        encoder.encode(b"ab", np.array([0, 2]))
    wrong = np.array([[0, -1, 4]], np.int32), np.array([0], np.int32)
    with pytest.raises(ValueError, match="step 0 has the parts from 0 to 4 of 1"):
        PretokenEncoder(symbols, none, {}, {}, history=wrong)


@given(runs(scaffold=True), st.sampled_from([0.0, 0.25, 0.5, 0.9]))
@settings(max_examples=300)
def test_scaffolds_may_have_to_be_rarer(run, below):
    counts, vocab_size, options = run
    reference = oracle.train(
        {tuple(text): n for text, n in counts.items()}, vocab_size, below=below, **options
    )
    bpe = train(counts, vocab_size, scaffold_below=below, **options)
    assert (bpe.merges, bpe.tokens) == (reference.merges, reference.vocab)
    assert {*bpe.scaffold_tokens} == reference.scaffolds


@given(runs(scaffold=False), st.sampled_from(RIVALS))
@settings(max_examples=200)
def test_agreement_is_what_both_encoders_find(run, method):
    """The loop tells it, or that the rules are the same; of residues the encoder that goes by steps."""
    counts, vocab_size, options = run
    options.pop("scaffold")
    with pytest.MonkeyPatch.context() as patch:
        fast = train(counts, vocab_size, method=method, surplus=0.5, threshold=0.5, **options)
        patch.setattr(artifact, "Trained", lambda *_: None)
        patch.setattr(Encoders, "merges_as_raw_model", False)
        patch.setattr(artifact_parts, "compiled_steps", by_steps)
        slow = train(counts, vocab_size, method=method, surplus=0.5, threshold=0.5, **options)
    assert fast.raw_agreements == slow.raw_agreements


def by_steps(steps, ids, n_prefix):
    """All steps in their order, also where merging by rank, twice, is the same."""
    return CompiledSteps(np.zeros((0, 3), np.int32), {}, steps_as_numbers(steps, ids, n_prefix), None)


AB, BC, ABC = ("a", "b"), ("b", "c"), ("a", "bc")


@pytest.mark.parametrize(
    "steps",
    [
        [ABC, BC],  # the second makes what the first is made of
        [AB, Removed("ab", AB), ABC, BC],
        [BC, ABC, Removed("abc", ABC), Removed("bc", BC), AB],
        [AB, Removed("ab", AB), AB, Removed("ab", AB)],
        [AB, BC, Removed("ab", AB), Removed("ab", AB), BC],
        [BC, ABC, Removed("bc", BC), Removed("abc", ABC), AB],  # twice by rank: bc is there once more
    ],
)
def test_steps_in_another_order_are_gone_through(steps):
    ids = {token: i for i, token in enumerate(["a", "b", "c", "ab", "bc", "abc"])}
    assert compiled_steps(steps, ids, 0).history is not None


def test_residues_go_without_steps():
    bpe = hs.train(hs.count(CORPUS), 275, method="residue", surplus=0.5)
    assert compiled_steps(bpe.steps, bpe.vocab, 0).history is None
    with pytest.raises(ValueError, match="no dropout where tokens are also removed"):
        bpe.to_tokenizer()("hugs", dropout=0.1)


def test_a_token_that_merging_does_not_make_is_taken_whole():
    """Both models have the same rules, which make ab c of abc."""
    vocab = {token: i for i, token in enumerate(["a", "b", "c", "ab", "bc", "abc"])}
    bpe = hs.ScaffoldBPE([AB, BC, ABC], vocab, {})
    counts = hs.PreTokenCounts.from_mapping({"abc": 1, "ab": 2, "abcc": 4})
    assert [bpe.agreement(counts, ignore_merges=known) for known in (True, False)] == [6 / 7, 1]


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
