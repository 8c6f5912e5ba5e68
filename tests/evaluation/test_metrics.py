"""Every metric against a value worked out by hand, slow direct computation, and tokenization-scorer."""

import contextlib
import io
import json
import math
import random
import warnings
from collections import Counter

import numpy as np
import pytest
import tokenization_scorer
import toys
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError, CorpusError, CountOverflowError

# ---- by hand
#
# WORDS has 3 * (10 + 5 + 12 + 4) + 4 * 5 = 113 bytes in 36 pre-tokens. With room for 259 tokens, three more
# than bytes:
#
#   plain     merges `u g` (20), `u n` (16), `h ug` (15), so that
#             hug = hug, pug = p ug, pun = p un, bun = b un, hugs = hug s
#             with hug 15, p 17, un 16, ug 5, b 4, s 5: 62 tokens.
#   scaffold  After `h ug`, ug occurs 5 times against 12 of the head `p un`: a scaffold. After `p un`, un
#             occurs 4 times against 5: a scaffold. `p ug` is the third token that stays, so that
#             hug = hug, pug = pug, pun = pun, bun = b un = b u n, hugs = hug s
#             with hug 15, pug 5, pun 12, b 4, u 4, n 4, s 5: 49 tokens.

WORDS = {"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}
PLAIN = {"hug": 15, "p": 17, "un": 16, "ug": 5, "b": 4, "s": 5}
SCAFFOLD = {"hug": 15, "pug": 5, "pun": 12, "b": 4, "u": 4, "n": 4, "s": 5}


@pytest.fixture(scope="module")
def counts():
    return hs.PreTokenCounts.from_mapping(WORDS)


@pytest.fixture(scope="module")
def plain(counts):
    return hs.train(counts, 259, scaffold=False)


@pytest.fixture(scope="module")
def scaffold(counts):
    return hs.train(counts, 259)


def occurring(evaluation):
    return {
        token: n
        for token, n in zip(evaluation.tokens, evaluation.token_frequencies.tolist(), strict=True)
        if n
    }


def test_token_frequencies_and_sizes(counts, plain, scaffold):
    of_plain, of_scaffold = hs.evaluate(plain, counts), hs.evaluate(scaffold, counts)
    assert occurring(of_plain) == PLAIN
    assert occurring(of_scaffold) == SCAFFOLD
    assert (of_plain.n_tokens, of_scaffold.n_tokens) == (62, 49)
    assert (of_scaffold.n_bytes, of_scaffold.n_pretokens, of_scaffold.vocab_size) == (113, 36, 259)
    assert of_plain.bytes_per_token == 113 / 62
    assert of_scaffold.bytes_per_token == 113 / 49
    assert of_scaffold.tokens_per_pretoken == 49 / 36
    assert of_scaffold.n_words is None
    assert of_scaffold.tokens_per_word is None
    assert (of_plain.vocab_used, of_scaffold.vocab_used) == (6, 7)
    assert of_scaffold.frequency("pun") == 12
    assert of_scaffold.frequency("un") == 0
    assert of_scaffold.mean_frequency(["pun", "pug", "un"]) == 17 / 3


def test_raw_agreement(counts, plain, scaffold):
    # Without ug, the plain BPE over V has no rule that makes hug inside hugs: 5 of 36 pre-tokens differ.
    assert hs.evaluate(scaffold, counts).raw_agreement == 31 / 36
    assert hs.evaluate(plain, counts).raw_agreement == 1
    # Nor any that makes hug, pug and pun where no pre-token is taken whole: of tokens only bun is alike.
    assert hs.evaluate(scaffold, counts).raw_agreement_merges_only == 4 / 36
    assert hs.evaluate(plain, counts).raw_agreement_merges_only == 1


def test_what_left_and_what_came_in(counts, plain, scaffold):
    change = hs.compare_vocabularies(plain, scaffold, counts)
    assert change.removed == ("un", "ug")
    assert change.removed_frequencies.tolist() == [16, 5]
    assert change.added == ("pun", "pug")
    assert change.added_frequencies.tolist() == [12, 5]
    assert (change.mean_removed, change.mean_added) == (10.5, 8.5)
    assert change.gain == 8.5 / 10.5 - 1
    nothing = hs.compare_vocabularies(plain, plain, counts)
    assert (nothing.removed, nothing.added, nothing.mean_removed, nothing.gain) == ((), (), 0, None)
    assert json.loads(json.dumps(change.to_dict()))["added"] == {"pun": 12, "pug": 5}


def test_compare_takes_evaluations_of_the_same_text_alone(counts, plain, scaffold):
    evaluations = [hs.evaluate(bpe, counts) for bpe in (plain, scaffold)]
    assert hs.compare_vocabularies(*evaluations).gain == hs.compare_vocabularies(plain, scaffold, counts).gain
    with pytest.raises(ConfigurationError, match="give a text"):
        hs.compare_vocabularies(plain, scaffold)
    other = hs.evaluate(scaffold, hs.PreTokenCounts.from_mapping({"hug": 1}))
    with pytest.raises(ConfigurationError, match=r"113 bytes, .* on 3; evaluate both on the same text"):
        hs.compare_vocabularies(evaluations[0], other)


def test_the_share_that_stands_alone(counts, plain, scaffold):
    # ug: in hug 10, pug 5, hugs 5. un: in pun 12, bun 4. hug: in hug 10, hugs 5. Of the scaffold tokens, only
    # un is left by a first step, of bun.
    alone = {row.token: (row.alone, row.occurrences) for row in hs.standalone_share(plain, counts, PLAIN)}
    assert alone == {
        "hug": (15, 15), "p": (17, 17), "un": (16, 16), "ug": (5, 20), "b": (4, 4), "s": (5, 5)
    }  # fmt: skip
    rows = hs.standalone_share(scaffold, counts, ["un", "ug", "pun", "u"])
    assert [(row.alone, row.occurrences, row.share) for row in rows] == [
        (4, 16, 0.25), (0, 20, 0), (12, 12, 1), (4, 36, 1 / 9)
    ]  # fmt: skip
    assert hs.standalone_share(scaffold.to_tokenizer(), counts, ["un"])[0].share == 0.25
    assert hs.Standalone("x", 0, 0).share == 0


def test_a_scaffold_stands_alone_where_the_first_step_leaves_it():
    # `u n` (16), `p un` (12); then un occurs 4 times, against 5 of `h u`.
    counts = hs.PreTokenCounts.from_mapping({"pun": 12, "bun": 4, "hu": 5})
    bpe = hs.train(counts, 258)
    assert bpe.scaffold_tokens == ["un"]
    assert hs.standalone_share(bpe, counts, ["un"]) == [hs.Standalone("un", 4, 16)]


def test_occurrences_overlap_and_stay_inside_pretokens():
    # "aa" stands at 0 and 1 of "aaa", not across "ba" "ab"; it is a token once in "aaa".
    counts = hs.PreTokenCounts.from_mapping({"aaa": 7, "ab": 3, "ba": 2})
    bpe = hs.train(counts, 257, scaffold=False)
    assert hs.standalone_share(bpe, counts, ["aa"]) == [hs.Standalone("aa", 7, 14)]


def test_a_text_may_be_shorter_than_a_token():
    bpe = hs.train(hs.PreTokenCounts.from_mapping({"banana": 7}), 260, scaffold=False)
    assert "banana" in bpe.vocab
    short = hs.PreTokenCounts.from_mapping({"ba": 2})
    assert hs.standalone_share(bpe, short, ["banana"]) == [hs.Standalone("banana", 0, 0)]


def test_occurrences_heed_affixes():
    # As `l ##o ##w`: "low" begins with lo; "slow" has ##lo inside; "lolo" has both.
    counts = hs.PreTokenCounts.from_mapping({"low": 4, "slow": 3, "lolo": 2}, alphabet="chars")
    bpe = hs.train(counts, 12, scaffold=False, continuing_subword_prefix="##", unk_token="[UNK]")
    tokens = [token for token in ("l", "##l", "##o") if token in bpe.vocab]
    occurrences = {row.token: row.occurrences for row in hs.standalone_share(bpe, counts, tokens)}
    assert occurrences == {"l": 6, "##l": 5, "##o": 11}
    ended = hs.train(counts, 12, scaffold=False, end_of_word_suffix="</w>", unk_token="[UNK]")
    rows = hs.standalone_share(ended, counts, ["o", "o</w>", "w</w>"])
    assert [row.occurrences for row in rows] == [9, 2, 7]


# Frequencies 8, 4, 2, 1, 1, 0, 0, 0: shares 1/2, 1/4, 1/8, 1/16, 1/16 of 16, in a vocabulary of 8 = 2^3.
TOY = hs.Evaluation("toy", tuple("abcdefgh"), np.array([1, 8, 0, 4, 0, 1, 2, 0]), n_bytes=40, n_words=6)


def test_entropy_and_redundancy():
    # H = 1/2 * 1 + 1/4 * 2 + 1/8 * 3 + 2 * 1/16 * 4 = 1.875 bits of log2(8) = 3, so 1 - 0.625 is redundant.
    assert TOY.entropy == 1.875
    assert TOY.redundancy == 0.375


def test_renyi():
    # alpha 2: the sum of squares is 1/4 + 1/16 + 1/64 + 2/256 = 86/256.
    assert TOY.renyi_entropy(2) == pytest.approx(-math.log2(86 / 256))
    # alpha 2.5: 2^-2.5 + 2^-5 + 2^-7.5 + 2 * 2^-10 = 0.2155042, whose log2 is -2.214212; / -1.5 and of 3 bits
    assert TOY.renyi_efficiency() == pytest.approx(2.214212 / 1.5 / 3, abs=1e-6)
    assert TOY.renyi_efficiency(1) == 0.625
    # alpha 0 counts what occurs: log2(5). Of five tokens that is all.
    assert TOY.renyi_entropy(0) == pytest.approx(math.log2(5))
    assert TOY.renyi_efficiency(0, vocab_size=5) == pytest.approx(1)
    with pytest.raises(ConfigurationError, match="alpha is -1"):
        TOY.renyi_entropy(-1)


def test_frequencies_by_rank():
    assert TOY.sorted_frequencies.tolist() == [8, 4, 2, 1, 1, 0, 0, 0]
    assert TOY.vocab_used == 5
    # The first 1, 2, 4 and 5 of 8 are 12.5, 25, 50 and 62.5 %; what is between counts up.
    percentiles = {12.5: 8, 13: 4, 25: 4, 37.5: 2, 50: 1, 62.5: 1, 63: 0, 95: 0, 100: 0}
    assert {percent: TOY.frequency_percentile(percent) for percent in percentiles} == percentiles
    # Of 8 tokens: 3 never occur, 5 less than twice, 6 less than 4 times, 8 less than 9 times.
    assert [TOY.share_under(n) for n in (0, 1, 2, 4, 9)] == [0, 3 / 8, 5 / 8, 6 / 8, 1]
    for n in (0, 1, 2, 4, 9):
        assert len(TOY.tokens_under(n)) == 8 * TOY.share_under(n)
        times = [TOY.frequency(token) for token in TOY.tokens_under(n)]
        assert times == sorted(times)
        assert all(time < n for time in times)
    # Of 5 that occur, ranks 0 to 3 have 8 + 4 + 2 + 1 of 16, ranks 1 to 2 have 4.
    assert TOY.mass_between() == 15 / 16
    assert TOY.mass_between(0.2, 0.4) == 4 / 16
    for percent in (0, -5, 101):
        with pytest.raises(ConfigurationError, match="above 0 and at most 100"):
            TOY.frequency_percentile(percent)
    with pytest.raises(ConfigurationError, match="need 0 <= start"):
        TOY.mass_between(0.5, 0.2)


def test_tokens_per_word_and_bytes():
    assert TOY.tokens_per_word == 16 / 6
    assert TOY.bytes_per_token == 40 / 16


def test_words_are_what_white_space_separates(scaffold):
    text = hs.EvaluationText(["hug, hugs\n", "bun\u2003pun-pug", "\n"])
    assert text.n_words == 4
    assert text.n_bytes == 10 + 13 + 1
    evaluation = hs.evaluate(scaffold, text)
    # hug , Ġ h u g s -> "Ġhugs" is Ġ hug s; \n; b u n; U+2003's 3 bytes; pun; - pug; \n
    assert evaluation.n_tokens == 2 + 3 + 1 + 3 + 3 + 1 + 2 + 1
    assert evaluation.tokens_per_word == 4


def test_to_dict_holds_every_metric():
    facts = json.loads(json.dumps(TOY.to_dict(frequencies=True)))
    assert facts["n_tokens"] == 16
    assert facts["redundancy"] == 0.375
    assert facts["tokens_per_word"] == 16 / 6
    assert facts["frequency_percentiles"] == {"50": 1, "75": 0, "90": 0, "95": 0, "99": 0}
    assert facts["share_under"] == {"1": 3 / 8, "10": 1, "100": 1, "1000": 1}
    assert facts["token_frequencies"]["b"] == 8
    assert "token_frequencies" not in TOY.to_dict()
    assert facts.keys() - {"frequency_percentiles", "share_under", "token_frequencies"} <= {
        name for name in dir(hs.Evaluation) if not name.startswith("_")
    } | {"name", "n_bytes", "n_words", "n_pretokens", "raw_agreement", "raw_agreement_merges_only"}


def test_a_text_that_gives_no_tokens_or_a_vocabulary_of_one():
    empty = hs.Evaluation("empty", ("a", "b"), np.zeros(2, np.int64), n_bytes=0)
    assert (empty.entropy, empty.redundancy, empty.renyi_efficiency(), empty.bytes_per_token) == (0, 1, 0, 0)
    assert empty.mass_between() == 0
    one = hs.Evaluation("one", ("a",), np.array([7]), n_bytes=7)
    assert (one.entropy, one.redundancy, one.renyi_efficiency()) == (0, 0, 1)
    with pytest.raises(ConfigurationError, match="1 tokens, but 2 token_frequencies"):
        hs.Evaluation("odd", ("a",), np.array([7, 1]), n_bytes=7)


# ---- against slow direct computation

frequencies = st.lists(st.integers(0, 40) | st.integers(0, 2**50), min_size=1, max_size=40).filter(any)


@given(frequencies)
@settings(max_examples=200)
def test_metrics_equal_their_definitions(values):
    evaluation = hs.Evaluation("x", tuple(map(str, range(len(values)))), np.array(values), n_bytes=1)
    total, size = sum(values), len(values)
    shares = [value / total for value in values if value]
    entropy = -sum(p * math.log2(p) for p in shares)
    assert evaluation.entropy == pytest.approx(entropy, abs=1e-9)
    if size > 1:
        assert evaluation.redundancy == pytest.approx(1 - entropy / math.log2(size), abs=1e-9)
        renyi = math.log2(sum(p**2.5 for p in shares)) / -1.5
        assert evaluation.renyi_efficiency() == pytest.approx(renyi / math.log2(size), abs=1e-9)
    assert evaluation.n_tokens == total
    assert evaluation.vocab_used == len(shares)
    for n in (1, 10, 1000):
        assert evaluation.share_under(n) == sum(value < n for value in values) / size
    for percent in (1, 50, 95):
        reached = [f for f in values if sum(value >= f for value in values) * 100 >= percent * size]
        assert evaluation.frequency_percentile(percent) == max(reached)


def scorer(tokens, metric, **kwargs):
    with contextlib.redirect_stderr(io.StringIO()):
        return tokenization_scorer.score(" ".join(tokens), metric=metric, **kwargs)


@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=25).filter(lambda values: sum(map(bool, values)) > 1)
)
@settings(max_examples=50)
def test_agrees_with_tokenization_scorer(values):
    tokens = [f"t{token_id}" for token_id, n in enumerate(values) for _ in range(n)]
    random.Random(1).shuffle(tokens)
    evaluation = hs.Evaluation("x", tuple(map(str, range(len(values)))), np.array(values), n_bytes=1)
    used = evaluation.vocab_used
    approx = pytest.approx
    assert scorer(tokens, "shannon_entropy") == approx(evaluation.entropy)
    assert scorer(tokens, "shannon_efficiency", vocab=len(values)) == approx(1 - evaluation.redundancy)
    for power in (0.5, 2.5, 3.0):
        assert scorer(tokens, "renyi_entropy", power=power) == approx(
            evaluation.renyi_entropy(power), abs=1e-9
        )
        assert scorer(tokens, "renyi", power=power) == approx(
            evaluation.renyi_efficiency(power, vocab_size=used), abs=1e-9
        )
        assert scorer(tokens, "renyi", power=power, vocab=len(values)) == approx(
            evaluation.renyi_efficiency(power), abs=1e-9
        )
    assert -scorer(tokens, "seq_len") == evaluation.n_tokens
    if int(used * 0.03) < int(used * 0.83):  # else the scorer takes some other range
        assert scorer(tokens, "percentile_freq") == approx(evaluation.mass_between())


@given(
    st.lists(st.text("abcn \n,1é", max_size=30), min_size=1, max_size=5).filter(lambda t: "".join(t).strip())
)
@settings(max_examples=60)
def test_equals_encoding_the_documents(texts):
    tokenizer = toys.tokenizer()
    evaluation = hs.evaluate(tokenizer, texts)
    expected = Counter(token for text in texts for token in toys.exact_tokens(toys.trained(), text))
    assert occurring(evaluation) == expected
    assert evaluation.n_bytes == len("".join(texts).encode())
    assert evaluation.n_words == sum(len(text.split()) for text in texts)


@pytest.mark.filterwarnings("ignore:the vocabulary has")
@given(st.dictionaries(st.text("ab", min_size=1, max_size=6), st.integers(1, 9), min_size=1), st.data())
@settings(max_examples=60)
def test_standalone_share_equals_going_through_all_places(words, data):
    counts = hs.PreTokenCounts.from_mapping(words)
    bpe = hs.train(counts, data.draw(st.integers(256, 259)), min_frequency=1)
    tokens = ["a", *bpe.tokens[256:], *bpe.scaffold_tokens]
    for row in hs.standalone_share(bpe, counts, tokens):
        places = sum(
            n * sum(word.startswith(row.token, i) for i in range(len(word))) for word, n in words.items()
        )
        assert row.occurrences == places
        assert 0 <= row.alone <= places


# ---- what can be evaluated


@pytest.fixture(scope="module")
def novel(english_text):
    return english_text[:150_000]


@pytest.fixture(scope="module")
def bpe(novel):
    return hs.train(hs.count([novel]), 1000, scaffold=False)


def test_every_form_of_a_tokenizer_gives_the_same(bpe, novel, tmp_path):
    path = tmp_path / "novel.txt"
    path.write_bytes(novel.encode())
    text = hs.EvaluationText(path)
    expected = hs.evaluate(bpe, text)
    tokenizer = bpe.to_tokenizer()
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    fast = PreTrainedTokenizerFast(tokenizer_object=backend)
    for other in (tokenizer, backend, fast):
        for form in (text, str(path), path, [novel], iter([novel]), hs.count([novel])):
            evaluation = hs.evaluate(other, form)
            assert evaluation.tokens == expected.tokens
            assert np.array_equal(evaluation.token_frequencies, expected.token_frequencies)
            assert evaluation.n_bytes == expected.n_bytes
    assert hs.evaluate(fast, text, name="stock").name == "stock"


def test_a_tokenizer_with_its_own_way_to_cut_encodes_the_text(novel):
    backend = Tokenizer(models.WordLevel({"the": 0, "of": 1, "[UNK]": 2}, unk_token="[UNK]"))
    backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.enable_truncation(3)
    backend.enable_padding(length=9)
    evaluation = hs.evaluate(backend, [novel])
    words = Counter(word for word, _ in pre_tokenizers.Whitespace().pre_tokenize_str(novel.lower()))
    assert evaluation.frequency("the") == words["the"]
    assert evaluation.frequency("[UNK]") == words.total() - words["the"] - words["of"]
    assert evaluation.n_bytes == len(novel.encode())
    assert backend.truncation["max_length"] == 3  # it is left as it was
    # The same from counts that were cut the same way.
    counts = hs.count([novel], pre_tokenizer=backend, alphabet="chars")
    assert np.array_equal(hs.evaluate(backend, counts).token_frequencies, evaluation.token_frequencies)


def test_a_callable(novel):
    def letters(text):
        return list(text.encode())

    evaluation = hs.evaluate(letters, [novel, novel])
    assert evaluation.name == "letters"
    assert evaluation.bytes_per_token == 1
    assert evaluation.frequency(str(ord("e"))) == 2 * novel.count("e")
    named = hs.evaluate(letters, [novel], tokens=[chr(byte) for byte in range(256)])
    assert named.vocab_size == 256
    assert named.frequency("e") == novel.count("e")
    with pytest.raises(ConfigurationError, match=r"gave the id \d+, but its vocabulary has 50 tokens"):
        hs.evaluate(letters, [novel], tokens=[str(byte) for byte in range(50)])


def test_batches_of_texts_add_up(monkeypatch):
    texts = ["ab", "a", "bbb", "", "c"]  # the largest id of a batch may be above or below those before
    expected = hs.evaluate(str.encode, texts)
    for size in (1, 2, 3):
        monkeypatch.setattr("hf_scaffold.evaluation.adapters._BATCH_SIZE", size)
        evaluation = hs.evaluate(str.encode, texts)
        assert evaluation.token_frequencies.tolist() == expected.token_frequencies.tolist()
    assert [evaluation.frequency(str(ord(letter))) for letter in "abc"] == [2, 4, 1]


def test_tokens_added_later_belong_to_the_vocabulary(scaffold, counts):
    tokenizer = scaffold.to_tokenizer(pad_token="<pad>")
    evaluation = hs.evaluate(tokenizer, counts)
    assert evaluation.vocab_size == len(tokenizer) == 260
    assert evaluation.tokens[-1] == "<pad>"
    assert occurring(evaluation) == SCAFFOLD


def test_long_texts_are_cut_at_line_ends_alone(tmp_path):
    lines = [f"line {i} " + "x" * (i % 90) + "\n" for i in range(5000)]
    path = tmp_path / "long.txt"
    path.write_text("".join(lines))
    blocks = list(hs.EvaluationText(path).documents())
    assert len(blocks) > 1
    assert all(block.endswith("\n") for block in blocks)
    assert "".join(blocks) == "".join(lines)


def test_long_pretokens_are_part_of_the_text():
    text = hs.EvaluationText(["a", "x" * 1_000_001])  # one more than counting keeps for training
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert text.counts(hs.get_pre_tokenizer("gpt2")).n_bytes == text.n_bytes == 1_000_002


def test_large_counts_are_exact(scaffold):
    counts = hs.PreTokenCounts.from_mapping({"hug": 2**61 + 1, "hugs": 1})
    assert occurring(hs.evaluate(scaffold, counts)) == {"hug": 2**61 + 2, "s": 1}
    with pytest.raises(CountOverflowError, match="beyond 2"):
        hs.evaluate(scaffold, hs.PreTokenCounts.from_mapping({"hug": 2**62}))
    largest = hs.Evaluation("largest", ("a", "b"), np.array([2**63 - 1] * 2), n_bytes=2**64)
    assert (largest.n_tokens, largest.mass_between(0, 1)) == (2**64 - 2, 1)


def test_refusals(counts, scaffold, tmp_path):
    other = hs.PreTokenCounts.from_mapping(WORDS, pre_tokenizer="gpt2")
    with pytest.raises(
        ConfigurationError, match="ScaffoldBPE does not cut text as these counts were cut, by"
    ):
        hs.evaluate(scaffold, other)
    with pytest.raises(ConfigurationError, match="does not cut text as these counts"):
        hs.standalone_share(scaffold, other, ["un"])
    with pytest.raises(ConfigurationError, match="<lambda> does not cut"):
        hs.evaluate(lambda text: [0], counts)
    with pytest.raises(ConfigurationError, match="can't evaluate the int 3; give a ScaffoldBPE"):
        hs.evaluate(3, counts)
    with pytest.raises(ConfigurationError, match="'zzz' is not a token that text is encoded to"):
        hs.standalone_share(scaffold, counts, ["zzz"])
    with pytest.raises(ConfigurationError, match="is not a Scaffold-BPE tokenizer"):
        hs.standalone_share(Tokenizer(models.BPE()), counts, ["un"])
    with pytest.raises(CorpusError, match="no-such-file"):
        hs.evaluate(scaffold, str(tmp_path / "no-such-file.txt"))
