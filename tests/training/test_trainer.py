"""The trainer against the slow reference, worked examples, `tokenizers`, and bad arguments."""

import itertools
import json
import random
import re
import subprocess
import sys
import threading
import warnings

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_runs import many_counts, runs
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers

import hf_scaffold as hs
from hf_scaffold._core.trainer import MergeLoop
from hf_scaffold.errors import ConfigurationError, CountOverflowError
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.symbols import NO_AFFIXES, Affixes
from hf_scaffold.training.checks import check
from hf_scaffold.training.parts import raw_splits

ARIZONA = {
    "Arizona": 50, "zone": 3, "Ari": 4, "zon": 2, "banana": 20, "aaaa": 7,
    "hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5,
}  # fmt: skip


def table(counts, **kwargs):
    return hs.PreTokenCounts.from_mapping({text.encode(): n for text, n in counts.items()}, **kwargs)


def train(counts, vocab_size, **kwargs):
    """train() or train_sizes() over the characters that occur, without a warning that candidates run out."""
    kwargs.setdefault("initial_alphabet", ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        several = hs.train if np.ndim(vocab_size) == 0 else hs.train_sizes
        made = several(table(counts), vocab_size, **kwargs)
    for bpe in made if isinstance(made, list) else [made]:
        check(bpe)  # training trusts what it makes
    return made


def test_the_worked_example_by_hand():
    with pytest.warns(UserWarning, match="25 tokens instead of 26: no pair of tokens is left"):
        bpe = hs.train(table(ARIZONA), 26, initial_alphabet=())
    assert ", ".join(" ".join(merge) for merge in bpe.merges) == (
        "n a, z o, A r, Ar i, zo na, Ari zona, a a, a na, b ana, u g, bana na, u n, h ug, p un, aa aa, "
        "p ug, zo n, hug s, b un, zon e"
    )
    assert sorted(bpe.scaffold_tokens) == ["Ar", "aa", "ana", "bana", "na", "ug", "un", "zo", "zona"]
    assert len(bpe.vocab) == 34
    assert bpe.demolish("zona") == ("z", "o", "n", "a")
    assert bpe.stop_reason.startswith("the vocabulary has 25 tokens")
    assert bpe.tokens[-3:] == ["hugs", "bun", "zone"]


@given(runs())
@settings(max_examples=400)
def test_trains_what_the_slow_reference_trains(run):
    counts, vocab_size, options = run
    bpe = train(counts, vocab_size, **options)
    reference = oracle.train({tuple(text): n for text, n in counts.items()}, vocab_size, **options)
    assert bpe.merges == reference.merges
    assert bpe.tokens == reference.vocab
    assert bpe.scaffold_tokens == [token for token in reference.expanded if token in reference.scaffolds]
    for token in reference.scaffolds:
        assert bpe.demolish(token) == oracle.demolish(token, reference.scaffolds, reference.merges)
    in_raw_model = [bpe.raw_splits.get(token) for token in bpe.tokens if token in bpe.raw_splits]
    rules = {left + right: (left, right) for left, right in reference.merges}
    assert all(rule in oracle.raw_merges(reference) for rule in in_raw_model)
    assert oracle.raw_merges(reference) == [
        rule
        for token in bpe.tokens
        if (rule := bpe.raw_splits.get(token, rules.get(token))) and set(rule) <= set(bpe.tokens)
    ]


def loop_of(counts, options, **others):
    alphabet = sorted(set("".join(counts)))
    fixed = [*options["special_tokens"], *alphabet]
    texts = list(counts)
    random.Random(len(texts)).shuffle(texts)
    return MergeLoop(
        np.array([fixed.index(letter) for text in texts for letter in text], np.int32),
        np.cumsum([0, *map(len, texts)]),
        np.array([counts[text] for text in texts], np.int64),
        [token.encode() for token in fixed],
        len(options["special_tokens"]),
        options["min_frequency"],
        options["max_token_length"] or 0,
        options["scaffold"],
        **others,
    )


@given(runs())
@settings(max_examples=200)
def test_frequencies_at_the_end_are_exact(run):
    counts, vocab_size, options = run
    loop = loop_of(counts, options)
    loop.run(vocab_size)
    reference = oracle.train({tuple(text): n for text, n in counts.items()}, vocab_size, **options)
    frequencies = oracle.token_frequencies(reference.sequences)
    assert [token.decode() for token in loop.tokens] == reference.expanded
    assert loop.frequencies == [frequencies[token] for token in reference.expanded]


@given(runs(), many_counts, st.integers(0, 40))
@settings(max_examples=400)
def test_rare_pairs_may_wait(run, rare_below, smaller):
    """However many pairs the index leaves out, each event, frequency and cell stays the same."""
    counts, vocab_size, options = run
    loops = [loop_of(counts, options, log=True, rare_below=least) for least in (1, rare_below)]
    rows = np.arange(len(counts))
    for size in (vocab_size - smaller, vocab_size):
        if size >= 0:
            outcome, same_outcome = (loop.run(size) for loop in loops)
            assert outcome == same_outcome
    loop, same = loops
    assert loop.events == same.events
    assert loop.frequencies == same.frequencies
    assert loop.head_frequency == same.head_frequency
    assert all(map(np.array_equal, loop.encoded(rows), same.encoded(rows)))


@given(runs(), st.data())
@settings(max_examples=200)
def test_encodes_what_the_slow_reference_encodes(run, data):
    counts, vocab_size, options = run
    bpe = train(counts, vocab_size, **options)
    pieces = [token for token in bpe.vocab if token not in bpe.special_tokens]
    glued = ["".join(data.draw(st.lists(st.sampled_from(pieces), max_size=8))) for _ in range(4)]
    for text, ids in zip(glued, bpe.encode([text.encode() for text in glued]), strict=True):
        expected = oracle.encode(text, set(bpe.scaffold_tokens), bpe.merges)
        assert [bpe.tokens[token_id] for token_id in ids] == expected


def test_raw_agreement_is_the_weighted_share_of_equal_encodings():
    bpe = train(ARIZONA, 26)
    raw = Tokenizer(bpe.raw_model())
    equal = {
        text: [raw.id_to_token(i) for i in raw.encode(text).ids]
        == oracle.encode(text, set(bpe.scaffold_tokens), bpe.merges)
        for text in ARIZONA
    }
    assert bpe.raw_agreement == sum(ARIZONA[text] for text in ARIZONA if equal[text]) / sum(ARIZONA.values())


def bpe_trainer_merges(texts, pre_tokenizer, vocab_size, **options):
    """What `tokenizers` learns, as tokens in order; its BpeTrainer is the peer."""
    peer = Tokenizer(models.BPE())
    peer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, **options)
    peer.train_from_iterator(texts, trainer)
    return [tuple(merge) for merge in json.loads(peer.to_str())["model"]["merges"]]


def test_without_scaffolds_equals_bpe_trainer_on_real_text(english_text):
    counts = hs.count([english_text], pre_tokenizer="gpt2")
    bpe = hs.train(counts, 3000, scaffold=False, special_tokens=["<|endoftext|>"])
    assert bpe.merges == bpe_trainer_merges(
        [english_text],
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        3000,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
    )
    assert len(bpe.merges) == 3000 - 257
    assert bpe.demolish_map == {}
    assert bpe.raw_agreement == 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"limit_alphabet": 20},
        {"limit_alphabet": 20, "initial_alphabet": ["z", "Q"]},
        {"min_frequency": 40},
        {},
    ],
    ids=str,
)
def test_options_mean_what_they_mean_for_bpe_trainer(english_text, options):
    counts = hs.count([english_text[:200_000]], pre_tokenizer="gpt2")
    ours = dict(options)
    ours.setdefault("initial_alphabet", ())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        bpe = hs.train(counts, 800, scaffold=False, **ours)
    assert bpe.merges == bpe_trainer_merges(
        [english_text[:200_000]], pre_tokenizers.ByteLevel(add_prefix_space=False), 800, **options
    )


def test_real_text_reaches_the_size_asked_for(english_text):
    bpe = hs.train(hs.count([english_text]), 2000, special_tokens=["<|endoftext|>", AddedToken("<pad>")])
    assert bpe.vocab_size == 2000
    assert bpe.special_tokens == ["<|endoftext|>", "<pad>"]
    assert bpe.stop_reason is None
    assert bpe.scaffold_tokens
    assert bpe.raw_agreement > 0.9


def test_max_token_length_is_in_bytes(english_text):
    """BpeTrainer's own limit counts UTF-8 bytes of stand-ins and stops one short, so it is no peer here."""
    bpe = hs.train(hs.count([english_text]), 1500, max_token_length=4)
    assert max(len(token) for token in bpe.vocab) == 4


def test_order_and_shards_of_the_counts_do_not_matter(english_text):
    whole = hs.count([english_text])
    items = list(whole.items())
    random.Random(1).shuffle(items)
    halves = [hs.PreTokenCounts.from_mapping(dict(half)) for half in (items[::2], items[1::2])]
    shards = halves[1].merge(halves[0])
    assert hs.train(shards, 1500) == hs.train(whole, 1500)


def test_special_tokens_are_never_built_from_text():
    bpe = train({"<s>": 100, "<s": 3}, 12, special_tokens=["<s>"])
    assert ("<s", ">") not in bpe.merges
    assert ("<", "s>") not in bpe.merges
    assert bpe.vocab["<s>"] == 0
    assert bpe.encode([b"<s>"]) != [[0]]


def test_limit_alphabet_breaks_ties_by_code_point():
    bpe = train({"dcba": 1}, 3, limit_alphabet=2)
    assert bpe.tokens[:2] == ["a", "b"]
    assert bpe.encode([b"dcba"]) == [[bpe.vocab["b"], bpe.vocab["a"]]] or bpe.tokens[2] == "ba"


def test_limit_alphabet_counts_exactly_beyond_floating_point():
    bpe = train({"a": 2**62, "b": 2**62 + 1, "c": 2**62 + 2}, 2, limit_alphabet=2)
    assert bpe.tokens == ["b", "c"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"vocab_size": 3},
            r"vocab_size is 3, but 0 special tokens and 256 characters of the alphabet need 256",
        ),
        (
            {"vocab_size": 257, "special_tokens": ["<s>", "</s>"]},
            r"vocab_size is 257, but 2 special tokens and 256 characters of the alphabet need 258",
        ),
        ({"special_tokens": ["<s>", "<s>"]}, r"special_tokens: '<s>' is there twice"),
        ({"special_tokens": ["<s>", ""]}, r"special_tokens\[1\] is empty"),
        ({"special_tokens": ["a"]}, r"special_tokens: 'a' is a character of the alphabet"),
        ({"initial_alphabet": ["中"]}, r"'中' is not a character of the byte-level alphabet"),
        ({"max_token_length": 0}, r"max_token_length is 0"),
    ],
)
def test_bad_arguments_are_refused_before_training(options, message):
    with pytest.raises(ConfigurationError, match=message):
        hs.train(table(ARIZONA), **{"vocab_size": 300, **options})


def test_a_frequency_beyond_int64_is_an_error():
    with pytest.raises(CountOverflowError, match="'a' occurs more than"):
        hs.train(table({"aa": 2**62}), 300)


def test_the_largest_counts_are_exact():
    bpe = train({"ab": 2**62, "b": 2**62 - 1}, 3)
    assert bpe.merges == [("a", "b")]


def test_progress_is_reported_and_may_stop_the_run():
    seen = []
    train(ARIZONA, 26, show_progress=lambda done, size: seen.append((done, size)))
    assert seen[-1] == (25, 26)

    def stop(done, size):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        train(ARIZONA, 26, show_progress=stop)


def random_counts(n, seed=0):
    rng = random.Random(seed)
    return {
        "".join(rng.choices("abcdefghijklmnop", k=rng.randint(6, 30))): rng.randint(1, 9) for _ in range(n)
    }


def test_interrupt_stops_within_a_second(tmp_path):
    script = (
        "import random, signal, threading, time, hf_scaffold as hs\n"
        "rng = random.Random(0)\n"
        "words = {bytes(rng.choices(range(97, 113), k=40)): 1 for _ in range(60_000)}\n"
        "counts = hs.PreTokenCounts.from_mapping(words)\n"
        "def interrupt(done, size):\n"
        "    if not threading.active_count() > 1:\n"
        "        threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()\n"
        "        interrupt.at = time.monotonic() + 0.2\n"
        "try:\n"
        "    hs.train(counts, 10**9, show_progress=interrupt)\n"
        "except KeyboardInterrupt:\n"
        "    print('late' if time.monotonic() - interrupt.at > 1 else 'in time')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert result.stdout.strip() == "in time"


def test_concurrent_runs_do_not_disturb_each_other():
    tables = [table(random_counts(300, seed)) for seed in range(4)]
    alone = [hs.train(counts, 400) for counts in tables]
    together = [None] * len(tables)

    def work(i):
        together[i] = hs.train(tables[i], 400)

    threads = [threading.Thread(target=work, args=[i]) for i in range(len(tables))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def test_runs_of_one_letter():
    for n in itertools.chain(range(1, 40), [1000]):
        bpe = train({"a" * n: 1}, 30)
        reference = oracle.train({("a",) * n: 1}, 30)
        assert bpe.merges == reference.merges
        assert bpe.tokens == reference.vocab


def test_a_raw_split_is_as_strong_as_its_rarer_part():
    merges = [("b", "c"), ("bc", "d"), ("a", "bcd")]
    frequencies = {"ab": 5, "cd": 5, "abc": 9, "d": 1}
    assert raw_splits(merges, [*frequencies, "abcd"], frequencies, NO_AFFIXES) == {"abcd": ("ab", "cd")}


def test_a_raw_split_cuts_no_affix():
    merges = [("b", "#b_"), ("a", "#bb_")]
    frequencies = {"a": 9, "#bb": 9, "#_": 9, "ab": 5, "#b_": 5, "abb": 9}
    splits = raw_splits(merges, [*frequencies, "abb_"], frequencies, Affixes("#", "_"))
    assert splits == {"abb_": ("ab", "#b_")}


# ---- text that is no words: it must not take quadratic time or memory


def letters(n, seed=0):
    rng = np.random.default_rng(seed)
    return bytes(rng.choice(np.frombuffer(b"etaoinshrdlu", np.uint8), n)).decode()


@pytest.mark.parametrize(
    "texts",
    [
        [letters(300_000)],
        ["a" * 500_000],
        ["ab" * 250_000],
        [" ".join(re.findall(".{1,9}", letters(200_000)))],
        ["the same line\n"] * 100_000,
        ["".join(map(chr, np.random.default_rng(0).integers(0x4E00, 0x5000, 100_000)))],
    ],
    ids=["one long word", "one letter", "two letters", "no word twice", "one line", "Chinese without spaces"],
)
def test_degenerate_text_trains_and_encodes(texts):
    counts = hs.count(texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        bpe = hs.train(counts, 1000)
    [*pretokens] = counts
    for pretoken, ids in zip(pretokens[:50], bpe.encode(pretokens[:50]), strict=True):
        assert b"".join(symbols_to_bytes(bpe.tokens[i]) for i in ids) == pretoken


@pytest.mark.parametrize(
    ("given", "meant"),
    [("pretokenizer", "pre_tokenizer"), ("vocabsize", "vocab_size"), ("special_token", "special_tokens")],
)
def test_misspelt_arguments_are_not_taken_for_the_tokenizers(given, meant):
    with pytest.raises(TypeError, match=f"'{given}'. Did you mean '{meant}'"):
        hs.train_tokenizer(["some text"], 260, **{given: None})


def test_arguments_of_tokenizers_are_not_taken_for_misspelt():
    options = {
        "model_max_length": 9,
        "padding_side": "left",
        "extra_special_tokens": ["<s>"],
        "split_special_tokens": True,
        "model_input_names": ["input_ids"],
    }
    tokenizer = hs.train_tokenizer(["some text"], 260, **options)
    assert {name: getattr(tokenizer, name) for name in options} == options


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[2, 0]], "rows of three tokens"),
        ([[3, 0, 1]], "scaffold 0 names token 3 of 3"),
        ([[2, 0, -1]], "scaffold 0 names token -1 of 3"),
        ([[2, 0, 1], [2, 0, 1]], "token 2 is a scaffold twice"),
    ],
)
def test_scaffolds_from_the_start_are_checked(rows, message):
    symbols, ends, counts = np.array([2, 0], np.int32), np.array([0, 2]), np.array([1])
    with pytest.raises(ValueError, match=message):
        MergeLoop(
            symbols, ends, counts, [b"a", b"b", b"ab"], 0, 0, 0, True, scaffolds=np.array(rows, np.int32)
        )
