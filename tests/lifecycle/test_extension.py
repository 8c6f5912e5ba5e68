"""Training goes on from a tokenizer's merges as the slow reference does, and nothing old changes."""

import argparse
import json
from collections import Counter
from pathlib import Path

import oracle
import pytest
import shapes
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.lifecycle import extension
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE

BYTES = [*SYMBOL_TO_BYTE]
texts = st.lists(st.sampled_from("abc") | st.sampled_from(["ab", "bc", "abab"]), min_size=1, max_size=8)
tables = st.dictionaries(texts.map("".join), st.integers(1, 30), min_size=1, max_size=12)
AFFIXES = [("", ""), ("##", ""), ("", "</w>")]


@pytest.fixture
def code():
    """Text of another kind."""
    return Path(argparse.__file__).read_text(encoding="utf-8")


def table(counts, alphabet="bytes"):
    return hs.PreTokenCounts.from_mapping(counts, alphabet=alphabet)


def in_symbols(counts, prefix="", suffix=""):
    return {oracle.symbols_of(text, prefix, suffix): n for text, n in counts.items()}


def parts_of(tokenizer):
    """What an extension has made: merges, scaffold tokens, and the tokens by id."""
    merges = [tuple(pair) for pair in tokenizer.scaffold["merges"]]
    vocab = tokenizer.get_vocab()
    return merges, {*tokenizer.scaffold["demolish"]}, sorted(vocab, key=vocab.__getitem__)


@given(tables, tables, st.integers(0, 8), st.integers(1, 9), st.booleans(), st.sampled_from([0, 3]))
@settings(max_examples=250)
@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_goes_on_as_the_slow_reference_does(old, new, n_old, n_new, scaffold, min_frequency):
    bpe = hs.train(table(old), 257 + n_old, special_tokens=["<s>"])
    extended = hs.extend(
        bpe.to_tokenizer(),
        table(new),
        bpe.vocab_size + n_new,
        scaffold=scaffold,
        min_frequency=min_frequency,
    )
    start = oracle.train(in_symbols(old), 257 + n_old, special_tokens=["<s>"], alphabet=BYTES)
    reference = oracle.train(
        in_symbols(new),
        len(start.vocab) + n_new,
        start=start,
        scaffold=scaffold,
        min_frequency=min_frequency,
    )
    merges, scaffolds, tokens = parts_of(extended)
    assert merges == reference.merges
    assert scaffolds == reference.scaffolds
    assert tokens == [*start.vocab, *(token for token in reference.vocab if token not in start.vocab)]
    for text in [*old, *new]:
        assert extended.tokenize(text) == oracle.encode(text, reference.scaffolds, reference.merges)
    for token in tokens[len(start.vocab) :]:
        assert oracle.encode(token, reference.scaffolds, reference.merges) == [token]


@given(tables, tables, st.integers(0, 8), st.integers(1, 9), st.sampled_from(AFFIXES))
@settings(max_examples=250)
@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_characters_with_affixes(old, new, n_old, n_new, affixes):
    prefix, suffix = affixes
    old = {**old, "abcabc": 1, "bca": 1, "cab": 1, "a": 1, "b": 1, "c": 1}  # each character in each place
    named = {"continuing_subword_prefix": prefix or None, "end_of_word_suffix": suffix or None}
    n_symbols = len(oracle.alphabet_of(old, {*"abc"}, prefix, suffix))
    bpe = hs.train(table(old, "chars"), n_symbols + n_old, **named)
    extended = hs.extend(bpe.to_tokenizer(), table(new, "chars"), bpe.vocab_size + n_new)
    start = oracle.train(
        in_symbols(old, prefix, suffix),
        n_symbols + n_old,
        alphabet=oracle.alphabet_of(old, {*"abc"}, prefix, suffix),
        prefix=prefix,
    )
    reference = oracle.train(
        in_symbols(new, prefix, suffix), len(start.vocab) + n_new, start=start, prefix=prefix
    )
    merges, scaffolds, tokens = parts_of(extended)
    assert merges == reference.merges
    assert scaffolds == reference.scaffolds
    assert tokens == [*start.vocab, *(token for token in reference.vocab if token not in start.vocab)]


other_texts = st.lists(st.sampled_from(["a", "b", "ab", "d", "e", "é", "de", "éd"]), min_size=1, max_size=8)
other_tables = st.dictionaries(other_texts.map("".join), st.integers(1, 30), min_size=1, max_size=12)


@given(
    tables, other_tables, st.integers(0, 8), st.integers(1, 9), st.integers(0, 4), st.sampled_from(AFFIXES)
)
@settings(max_examples=250)
@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_characters_that_had_no_token(old, new, n_old, n_new, most, affixes):
    """The most frequent ones become symbols, before anything merges; the others go on to vanish."""
    prefix, suffix = affixes
    named = {"continuing_subword_prefix": prefix or None, "end_of_word_suffix": suffix or None}
    old = {**old, "abcabc": 1, "bca": 1, "cab": 1, "a": 1, "b": 1, "c": 1}  # each character in each place
    alphabet = oracle.alphabet_of(old, {*"abc"}, prefix, suffix)
    bpe = hs.train(table(old, "chars"), len(alphabet) + n_old, **named)
    start = oracle.train(
        in_symbols(old, prefix, suffix), len(alphabet) + n_old, alphabet=alphabet, prefix=prefix
    )
    frequency = Counter()
    for text, n in new.items():
        frequency.update({character: n * text.count(character) for character in {*text} - {*"abc"}})
    new = {**new, "abc": 1}
    chosen = {*sorted(frequency, key=lambda character: (-frequency[character], character))[:most]}
    fresh = {s for symbols in in_symbols(new, prefix, suffix) for s in symbols if {*s} & chosen}
    fresh = sorted(fresh, key=lambda symbol: (len(symbol) > 1, symbol))
    vocab_size = bpe.vocab_size + len(fresh) + n_new
    extended = hs.extend(bpe.to_tokenizer(), table(new, "chars"), vocab_size, new_characters=most)

    n_symbols = len(alphabet)
    start.expanded[n_symbols:n_symbols] = fresh
    start.alphabet.extend(fresh)
    reference = oracle.train(in_symbols(new, prefix, suffix), vocab_size, start=start, prefix=prefix)
    merges, scaffolds, tokens = parts_of(extended)
    assert merges == reference.merges
    assert scaffolds == reference.scaffolds
    assert tokens[: bpe.vocab_size + len(fresh)] == [*bpe.tokens, *fresh]
    assert {*tokens} == {*reference.vocab}


@given(tables, st.integers(1, 8), st.integers(1, 8))
@settings(max_examples=100)
@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_plain_bpe_in_two_runs_is_that_of_one(counts, n_first, n_more):
    """On the same text, since there nothing that the first run decided is ever taken back."""
    whole = hs.train(table(counts), 256 + n_first + n_more, scaffold=False)
    first = hs.train(table(counts), 256 + n_first, scaffold=False)
    if first.vocab_size < 256 + n_first:
        return
    extended = hs.extend(first.to_tokenizer(), table(counts), 256 + n_first + n_more, scaffold=False)
    assert parts_of(extended) == (whole.merges, set(), whole.tokens)


def several_rules():
    """A model as tiktoken's files become: a rule for each way to split a token into two."""
    tokens = ["ab", "bc", "abc", "ca", "abca", "bca"]
    vocab = {symbol: i for i, symbol in enumerate([*BYTES, *tokens])}
    merges = [
        (token[:i], token[i:])
        for token in tokens
        for i in range(1, len(token))
        if {token[:i], token[i:]} <= vocab.keys()
    ]
    backend = Tokenizer(models.BPE(vocab, merges, ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.add_special_tokens(["<|end|>"])  # with an id behind those of the model
    return backend, merges


@given(tables, st.integers(1, 9))
@settings(max_examples=100)
@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_tokens_with_several_rules(counts, n_new):
    backend, merges = several_rules()
    extended = hs.extend(
        backend, hs.PreTokenCounts.from_mapping(counts, pre_tokenizer=backend), 256 + 7 + n_new
    )
    made = [token for token in backend.get_vocab() if len(token) > 1 and token != "<|end|>"]
    made.sort(key=backend.token_to_id)
    start = oracle.Trained(["<|end|>", *BYTES, *made], set(), merges, BYTES, ["<|end|>"], [])
    reference = oracle.train(in_symbols(counts), 263 + n_new, start=start)
    assert parts_of(extended)[0] == reference.merges
    old = backend.get_vocab()
    assert {token: extended.get_vocab()[token] for token in old} == old
    assert parts_of(extended)[2][263:] == [t for t in reference.vocab if t not in old]


@pytest.mark.parametrize("is_scaffold", [True, False])
def test_everything_else_stays_as_it_was(is_scaffold, tmp_path, english_text, code):
    old = hs.train_tokenizer([english_text[:100_000]], 600, eos_token="<|end|>", bos_token="<|bos|>")
    old.add_tokens(["Xanadu"])
    old.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A", special_tokens=[("<|bos|>", old.bos_token_id)]
    )
    old.chat_template = "{{ messages[0]['content'] }}"
    if not is_scaffold:
        old = PreTrainedTokenizerFast(
            tokenizer_object=Tokenizer.from_str(old.backend_tokenizer.to_str()),
            eos_token="<|end|>",
            bos_token="<|bos|>",
            chat_template=old.chat_template,
        )
    before = old.get_vocab()
    new = hs.extend(old, [code[:90_000]], len(old) + 200)
    assert old.get_vocab() == before
    assert len(new) == len(old) + 200
    assert {token: new.get_vocab()[token] for token in before} == before
    assert sorted(new.get_vocab().values()) == [*range(len(new))]
    assert new.chat_template == old.chat_template
    new.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    sample = english_text[200_000:203_000] + " Xanadu <|end|>" + code[-3_000:]
    ids = new(sample)["input_ids"]
    assert ids[0] == old.bos_token_id
    assert {before["Xanadu"], before["<|end|>"]} <= {*ids}
    assert loaded(sample)["input_ids"] == ids
    assert loaded.decode(ids, skip_special_tokens=False) == "<|bos|>" + sample
    assert loaded.explain_path(sample) == "native"
    loaded.native = False
    assert loaded(sample)["input_ids"] == ids
    assert len(ids) < len(old(sample)["input_ids"])


@pytest.mark.parametrize("shape", ["Llama 2", "Mistral"])
def test_new_tokens_stay_within_words_if_the_text_to_learn_from_is_split(shape, english_text):
    """As SentencePiece learned the old ones; the tokenizer itself doesn't split text, and goes on not to."""
    old, lines = shapes.SHAPES[shape](), english_text[150_000:200_000].splitlines()
    split = Tokenizer.from_str(old.backend_tokenizer.to_str())
    split.pre_tokenizer = pre_tokenizers.Metaspace()
    size = len(old) + 80
    expected = hs.extend(split, lines, size)
    for corpus in (lines, hs.count(lines, pre_tokenizer=split, alphabet="chars")):
        new = hs.extend(old, corpus, size, pre_tokenizer="metaspace")
        assert new.scaffold["merges"] == expected.scaffold["merges"]
        assert new.get_vocab() == expected.get_vocab()
    before, after = (json.loads(tokenizer.backend_tokenizer.to_str()) for tokenizer in (old, new))
    assert all(after[part] == before[part] for part in before.keys() - {"model"})
    spanning = hs.extend(old, lines, size)
    marked = [
        sum("▁" in token[1:] for token in tokenizer.convert_ids_to_tokens(range(len(old), size)))
        for tokenizer in (new, spanning)
    ]
    assert marked[0] == 0 < marked[1]
    assert spanning.scaffold["raw_agreement"] > 0
    assert new.scaffold["raw_agreement"] is None  # it would be that of words


def test_text_to_learn_from_is_normalized_however_it_is_split():
    old = shapes.SHAPES["Qwen2.5"]()
    composed, decomposed = (
        hs.extend(old, [text] * 9, len(old) + 3, pre_tokenizer="gpt2") for text in ("Xéé", "Xe\u0301e\u0301")
    )
    assert composed.get_vocab() == decomposed.get_vocab()


def test_what_splits_the_text_is_for_the_symbols_of_the_tokenizer(english_text):
    old = shapes.SHAPES["Mistral"]()
    for of_bytes in ("gpt2", hs.get_pre_tokenizer("gpt2")):
        with pytest.raises(hs.ConfigurationError, match="chars"):
            hs.extend(old, ["hug"], len(old) + 1, pre_tokenizer=of_bytes)
    with pytest.raises(hs.ConfigurationError, match="the counts were made with"):
        hs.extend(old, hs.count(["a hug"]), len(old) + 1, pre_tokenizer="metaspace")


def test_it_can_be_extended_again(english_text, code):
    once = hs.extend(hs.train_tokenizer([english_text[:50_000]], 400), [code[:50_000]], 500)
    twice = hs.extend(once, [english_text[50_000:100_000]], 600)
    assert len(twice) == 600
    assert {token: twice.get_vocab()[token] for token in once.get_vocab()} == once.get_vocab()
    assert twice.scaffold["merges"][: len(once.scaffold["merges"])] == once.scaffold["merges"]


def test_a_scaffold_may_become_a_token():
    counts = {"Arizona": 50, "zone": 3, "banana": 20}
    old = hs.train(table(counts), 260).to_tokenizer()
    assert old.tokenize("bana") == ["b", "a", "n", "a"]
    new = hs.extend(old, table({"bana": 9, "bane": 1}), 261)
    assert new.convert_ids_to_tokens(260) == "bana"
    assert new.tokenize("bana") == ["bana"]
    assert new.tokenize("Arizona") == ["Arizona"]


def test_nothing_merges_with_what_has_no_token():
    """Characters without a token become unk, or bytes; what stands around them doesn't meet."""
    vocab = {"<unk>": 0, "a": 1, "b": 2}
    backend = Tokenizer(models.BPE(vocab, [], unk_token="<unk>"))
    new = hs.extend(backend, ["aXb"] * 9 + ["ab"], 4)
    assert new.scaffold["merges"] == [["a", "b"]]
    with pytest.warns(UserWarning, match="3 ids instead of 5: no pair of tokens is left"):
        assert hs.extend(backend, ["aXb"] * 9, 5).scaffold["merges"] == []


@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_another_script_needs_new_characters():
    """Else it becomes bytes, which don't merge."""
    old = shapes.SHAPES["Llama 2"]()
    text = "தமிழ் மொழி தமிழ் மொழி"  # Tamil
    assert not {*text.replace(" ", "")} & {*old.get_vocab()}
    new = hs.extend(old, [text] * 9, len(old) + 20, pre_tokenizer="metaspace", new_characters=30)
    assert new.tokenize(text) == ["▁தமிழ்", "▁மொழி"] * 2
    ids = new(text)["input_ids"]
    assert new.decode(ids, skip_special_tokens=True) == old.decode(
        old(text)["input_ids"], skip_special_tokens=True
    )
    new.native = False
    assert new(text)["input_ids"] == ids
    with pytest.raises(
        hs.ConfigurationError, match="takes 6 tokens, but vocab_size leaves room for 5; raise it"
    ):
        hs.extend(old, [text], len(old) + 5, new_characters=30)


def test_text_never_merges_into_an_added_token(english_text):
    old = hs.train(table({"x": 1}), 256).to_tokenizer()
    old.add_tokens(["ab"], special_tokens=True)
    new = hs.extend(old, table({"ab": 9, "bc": 5}), 258)
    assert new.scaffold["merges"] == [["b", "c"]]


def test_raw_agreement_is_the_share_of_pretokens_that_the_public_model_encodes_alike(english_text, code):
    counts = hs.count([code[:90_000]])
    new = hs.extend(hs.train_tokenizer([english_text[:100_000]], 500), counts, 700)
    public = json.loads(new.backend_tokenizer.to_str())["model"]
    for name, takes_wholes in (("raw_agreement", True), ("raw_agreement_merges_only", False)):
        model = models.BPE(
            public["vocab"], [tuple(pair) for pair in public["merges"]], ignore_merges=takes_wholes
        )
        raw = Tokenizer(model)
        alike = 0
        for pretoken, n in counts.items():
            spelled = "".join(BYTES_OF[byte] for byte in pretoken)
            exact = oracle.encode(
                spelled, {*new.scaffold["demolish"]}, [tuple(pair) for pair in new.scaffold["merges"]]
            )
            alike += n * (raw.encode(spelled).tokens == exact)
        assert new.scaffold[name] == alike / counts.total


BYTES_OF = {byte: symbol for symbol, byte in SYMBOL_TO_BYTE.items()}


def test_bad_arguments_are_refused_before_anything_is_counted(monkeypatch):
    old = hs.train(table({"hug": 3}), 258).to_tokenizer()
    monkeypatch.setattr(extension, "counts_for", lambda *args: pytest.fail("counted"))
    with pytest.raises(hs.ConfigurationError, match="258 ids already; raise vocab_size"):
        hs.extend(old, ["hug"], 258)
    with pytest.raises(hs.ConfigurationError, match="WordPiece; only BPE has merges"):
        hs.extend(Tokenizer(models.WordPiece({"a": 0}, unk_token="a")), ["a"], 9)
    with pytest.raises((TypeError, ValueError), match="vocab_size"):
        hs.extend(old, ["hug"], "many")


def test_counts_of_another_pre_tokenizer_are_refused():
    old = hs.train(table({"hug": 3}), 258).to_tokenizer()
    with pytest.raises(hs.ConfigurationError, match="the counts were made with"):
        hs.extend(old, hs.count(["a hug"], pre_tokenizer="gpt2"), 300)


def test_text_without_any_known_character_is_refused():
    backend = Tokenizer(models.BPE({"a": 0}, []))
    with pytest.raises(hs.CorpusError, match="nothing of the text"):
        hs.extend(backend, ["xyz"], 5)


@pytest.mark.parametrize("scheme", ["first", "always", "never"])
def test_tokens_of_several_words_keep_their_spaces(scheme):
    """The stock decoder of such tokenizers drops every space of the first token."""
    vocab = {token: i for i, token in enumerate(["<unk>", *"▁sonad"])}
    backend = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme=scheme)])
    old = PreTrainedTokenizerFast(tokenizer_object=backend)
    texts = ["so on and so on", " so", "so", "", "   so"]
    corpus = [texts[0]] * 3
    for new in (hs.extend(old, corpus, 20), hs.train_tokenizer(corpus, 20, like=old)):
        assert any("▁" in token[1:] for token in new.tokenize(texts[0])[:1])
        for text in texts:
            ids = new(text)["input_ids"]
            assert new.decode(ids) == old.decode(old(text)["input_ids"])
            assert new.backend_tokenizer.decode(ids) == new.decode(ids)
