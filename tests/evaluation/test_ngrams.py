"""N-gram models against their definition, written out slowly, and against KenLM's lmplz."""

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.evaluation.ngrams import token_probabilities

BEGIN = "begin"


class SlowModel:
    """Modified Kneser-Ney as Chen and Goodman define it, n-gram by n-gram, over tokens from 0 on."""

    def __init__(self, documents, vocab_size, order):
        self.vocab_size, self.order = vocab_size, order
        self.end = vocab_size - 1
        self.times, neighbours = Counter(), defaultdict(set)
        for document in documents:
            framed = (BEGIN, *document, self.end)
            for start, stop in itertools.combinations(range(len(framed) + 1), 2):
                if stop - start > order:
                    continue
                self.times[framed[start:stop]] += 1
                if start:
                    neighbours[framed[start:stop]].add(framed[start - 1])
        self.neighbours = {ngram: len(found) for ngram, found in neighbours.items()}

    def count(self, ngram):
        if len(ngram) == self.order or ngram[0] == BEGIN:
            return self.times[ngram]
        return self.neighbours.get(ngram, 0)

    def ngrams(self, length):
        return [ngram for ngram in self.times if len(ngram) == length and ngram != (BEGIN,)]

    def discounts(self, length):
        n = Counter(self.count(ngram) for ngram in self.ngrams(length))
        if not (n[1] and n[2] and n[3]):
            return [0, 0.5, 1, 1.5]
        share = n[1] / (n[1] + 2 * n[2])
        found = [0] + [k - (k + 1) * share * n[k + 1] / n[k] for k in (1, 2, 3)]
        return found if min(found[1:]) > 0 else [0, 0.5, 1, 1.5]

    def probability(self, token, context):
        """Of a token after a context of at most order - 1 tokens."""
        lower = self.probability(token, context[1:]) if context else 1 / self.vocab_size
        followers = [ngram for ngram in self.ngrams(len(context) + 1) if ngram[:-1] == context]
        total = sum(map(self.count, followers))
        if not total:
            return lower
        discounts = self.discounts(len(context) + 1)
        spared = sum(discounts[min(3, self.count(ngram))] for ngram in followers)
        count = self.count((*context, token))
        return (count - discounts[min(3, count)] + spared * lower) / total

    def probabilities(self, documents):
        for document in documents:
            framed = (BEGIN, *document, self.end)
            for i in range(1, len(framed)):
                yield self.probability(framed[i], framed[max(0, i - self.order + 1) : i])


def encoded(documents):
    ids = np.array([*itertools.chain.from_iterable(documents)], np.int32)
    return ids, np.cumsum([0, *map(len, documents)])


DOCUMENTS = st.lists(st.lists(st.integers(0, 4), max_size=9), min_size=1, max_size=6)


@settings(max_examples=200)
@given(DOCUMENTS, DOCUMENTS, st.integers(1, 4))
def test_equals_its_definition(train, test, order):
    found = token_probabilities(encoded(train), encoded(test), 7, order)  # 5 never occurs, 6 is the end
    assert len(found) == order
    for n, probabilities in enumerate(found, start=1):
        expected = [*SlowModel(train, 7, n).probabilities(test)]
        np.testing.assert_allclose(probabilities, expected, rtol=1e-12)


@settings(max_examples=100)
@given(DOCUMENTS, st.lists(st.integers(0, 5), max_size=5))
def test_probabilities_add_up_to_1_after_any_context(train, context):
    # Each token of the vocabulary once after the context, then the end.
    documents = [[*context, token] for token in range(6)] + [context]
    ids, offsets = encoded(documents)
    at = offsets[:-1] + np.arange(len(documents)) + len(context)  # each document before has an end, too
    for probabilities in token_probabilities(encoded(train), (ids, offsets), 7, 4):
        assert (probabilities > 0).all()
        assert probabilities[at].sum() == pytest.approx(1, abs=1e-12)


def test_a_real_text_equals_its_definition(english_text):
    """Small texts mostly get fixed discounts; here there are counts of every kind."""
    words = english_text.split()[:3000]
    number = {word: i for i, word in enumerate(dict.fromkeys(words))}
    documents = [[number[word] for word in words[i : i + 30]] for i in range(0, len(words), 30)]
    train, test = documents[:-3], documents[-3:]
    slow = SlowModel(train, len(number) + 1, 2)
    assert [slow.discounts(n) != [0, 0.5, 1, 1.5] for n in (1, 2)] == [True, True]
    found = token_probabilities(encoded(train), encoded(test), len(number) + 1, 2)
    np.testing.assert_allclose(found[1], [*slow.probabilities(test)], rtol=1e-12)


# ---- what lmplz and query of KenLM 0.3.0 say
#
#   for order in 2 3 4 5; do
#       lmplz -o $order --text train.txt --arpa $order.arpa && query $order.arpa < test.txt
#   done
#
# The texts are those below, a line a document, in words. KenLM's vocabulary has an end and <unk>, and its
# numbers are 32 bits wide.

LMPLZ = {2: -38041.5654, 3: -37932.7667, 4: -37928.1872, 5: -37928.1335}  # log10 of all 13,087 probabilities


def test_equals_kenlm(english_text):
    lines = [line.split() for line in english_text.splitlines() if line.strip()]
    train, test = lines[:2400], lines[2400:]
    ids = {word: i for i, word in enumerate(dict.fromkeys(itertools.chain.from_iterable(train)))}
    numbered = [[[ids.get(word, len(ids)) for word in line] for line in part] for part in (train, test)]
    found = token_probabilities(*map(encoded, numbered), len(ids) + 2, 5)
    assert len(found[0]) == 13_087
    totals = {order: np.log10(found[order - 1]).sum() for order in LMPLZ}
    assert totals == pytest.approx(LMPLZ, rel=1e-7)


# ---- by hand


def test_one_document_by_hand():
    # Learned: begin a b end. At order 1 each of a, b, end occurs once: of 3 occurrences, 0.5 each goes to the
    # uniform distribution over a, b, c, end. c: 1.5 / 3 / 4.
    a, b, c = 0, 1, 2
    [unigrams, bigrams] = token_probabilities(encoded([[a, b]]), encoded([[a, c]]), 4, 2)
    assert unigrams == pytest.approx([0.5 / 3 + 0.125, 0.125, 0.5 / 3 + 0.125], rel=1e-15)
    # As bigrams, "begin a" and "a b" are known, so half goes to lower orders; after c there is no bigram.
    # Each token has one neighbour to the left, so the lower order is the same.
    assert bigrams == pytest.approx([0.5 + 0.5 * unigrams[0], 0.5 * unigrams[1], unigrams[2]], rel=1e-15)


def test_bits_per_byte_by_hand():
    # Ids as above, of a text of 3 bytes: "a", "ü" becomes c.
    found = hs.ngram_bits_per_byte(
        lambda text: [{"a": 0, "b": 1, "ü": 2}[c] for c in text], ["ab"], ["aü"], order=2
    )
    known = 0.5 / 3 + 0.125
    bits = -math.log2(known) - math.log2(0.125) - math.log2(known)
    assert found.by_order[0] == pytest.approx(bits / 3, rel=1e-12)
    assert (found.vocab_size, found.n_train_tokens, found.n_tokens, found.n_bytes) == (4, 3, 3, 3)
    assert (found.order, found.bits_per_byte) == (2, found.by_order[1])


# ---- any tokenizer


TRAIN, HELD_OUT = ["hug pug hugs", "pun bun hugs hug", "on on"], ["hugs pug on", "bun pun"]


def test_every_form_of_a_tokenizer_gives_the_same(tmp_path):
    bpe = hs.train(hs.count(TRAIN), 262, special_tokens=["<s>"], scaffold=False)
    tokenizer = bpe.to_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    stock = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    forms = [bpe, tokenizer, stock, stock.backend_tokenizer]
    results = [hs.ngram_bits_per_byte(form, TRAIN, HELD_OUT, order=3, name="x") for form in forms]
    called = hs.ngram_bits_per_byte(
        lambda text: bpe.encoder().encode(text), TRAIN, HELD_OUT, order=3, name="x", tokens=bpe.tokens
    )
    assert results == [called] * len(forms)
    assert called.vocab_size == bpe.vocab_size + 1


def test_an_exact_scaffold_encoding_is_what_counts(tmp_path):
    counts = hs.PreTokenCounts.from_mapping({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5})
    bpe = hs.train(counts, 259)
    assert bpe.encoder().encode("hugs") != bpe.to_tokenizer().backend_tokenizer.encode("hugs").ids
    ids = [bpe.encoder().encode(text) for text in (*TRAIN, *HELD_OUT)]
    expected = token_probabilities(encoded(ids[: len(TRAIN)]), encoded(ids[len(TRAIN) :]), 260, 2)
    n_bytes = sum(map(len, HELD_OUT))
    found = hs.ngram_bits_per_byte(bpe, TRAIN, HELD_OUT, order=2)
    assert found.by_order == tuple(-np.log2(row).sum() / n_bytes for row in expected)


def test_special_tokens_in_text_are_text():
    bpe = hs.train(hs.count(["<s> hug"]), 258, special_tokens=["<s>"])
    found = hs.ngram_bits_per_byte(bpe, ["hug"], ["<s>"], order=1)
    assert found.n_tokens > 2


def test_a_tokenizer_that_changes_documents_with_their_neighbours():
    """What cuts text in its own way encodes it whole."""
    backend = Tokenizer(models.WordLevel({"hug": 0, "hugs": 1, "[UNK]": 2}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    found = hs.ngram_bits_per_byte(backend, ["hug hugs", "hug"], ["hug pug"])
    assert (found.n_train_tokens, found.n_tokens, found.vocab_size) == (5, 3, 4)


def test_texts_that_are_read_once_and_shared():
    bpe = hs.train(hs.count(TRAIN), 260)
    texts = [hs.EvaluationText(iter(TRAIN)), hs.EvaluationText(iter(HELD_OUT))]
    assert hs.ngram_bits_per_byte(bpe, *texts) == hs.ngram_bits_per_byte(bpe, *texts)
    assert hs.ngram_bits_per_byte(bpe, *texts) == hs.ngram_bits_per_byte(bpe, TRAIN, HELD_OUT)


def test_higher_orders_change_no_lower_one():
    bpe = hs.train(hs.count(TRAIN), 260)
    five, two = (hs.ngram_bits_per_byte(bpe, TRAIN, HELD_OUT, order=n).by_order for n in (5, 2))
    assert five[:2] == two
    # Longer than any document: nothing more to learn.
    long = hs.ngram_bits_per_byte(bpe, TRAIN, HELD_OUT, order=40).by_order
    assert long[-1] == long[-2]


def test_errors():
    bpe = hs.train(hs.count(TRAIN), 260)
    with pytest.raises(ConfigurationError, match="order is 0"):
        hs.ngram_bits_per_byte(bpe, TRAIN, HELD_OUT, order=0)
    with pytest.raises(
        ConfigurationError, match="held_out is a PreTokenCounts; n-grams need the text itself"
    ):
        hs.ngram_bits_per_byte(bpe, TRAIN, hs.count(HELD_OUT))
    for texts in (([""], HELD_OUT), (TRAIN, [])):
        with pytest.raises(CorpusError, match=r"a list, holds no text"):
            hs.ngram_bits_per_byte(bpe, *texts)
    with pytest.raises(ConfigurationError, match="gave the id 7, but its vocabulary has 2 tokens"):
        hs.ngram_bits_per_byte(lambda text: [7], TRAIN, HELD_OUT, tokens=["a", "b"])
    with pytest.raises(ConfigurationError, match="there is an id from -1 to -1"):
        hs.ngram_bits_per_byte(lambda text: [-1], TRAIN, HELD_OUT)
    with pytest.raises(TypeError, match="Did you mean 'order'"):
        hs.ngram_bits_per_byte(bpe, TRAIN, HELD_OUT, n_order=3)
