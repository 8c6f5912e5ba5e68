"""The least used tokens go, one at a time, and nothing else changes."""

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs

texts = st.lists(st.sampled_from("abc") | st.sampled_from(["ab", "bc", "abab"]), min_size=1, max_size=8)
tables = st.dictionaries(texts.map("".join), st.integers(1, 30), min_size=1, max_size=12)


def table(counts):
    return hs.PreTokenCounts.from_mapping(counts)


def slowly(bpe, counts, n, scaffolds_first):
    """The n tokens to go; everything is encoded anew before each."""
    gone, removed = {*bpe.scaffold_tokens}, []
    fixed = {*bpe.tokens[:257]}
    while len(removed) < n:
        frequencies = oracle.token_frequencies(
            [(oracle.encode(text, gone, bpe.merges), count) for text, count in counts.items()]
        )
        left = [token for token in bpe.tokens if token not in fixed and token not in removed]
        removed.append(min(left, key=lambda t: (t not in scaffolds_first, frequencies[t], -bpe.vocab[t])))
        gone.add(removed[-1])
    return removed


@given(tables, tables, st.integers(1, 9), st.integers(1, 9), st.booleans())
@settings(max_examples=150)
@pytest.mark.filterwarnings("ignore:the vocabulary has")
def test_takes_out_what_the_slow_reference_does(old, text, n_made, n_removed, compact):
    bpe = hs.train(table(old), 257 + n_made, special_tokens=["<s>"])
    n_removed = min(n_removed, bpe.vocab_size - 257)
    tokenizer = bpe.to_tokenizer()
    pruning = hs.prune(tokenizer, table(text), bpe.vocab_size - n_removed, compact=compact)
    backend = Tokenizer(models.BPE(dict(bpe.vocab), bpe.merges))
    backend.pre_tokenizer = tokenizer.backend_tokenizer.pre_tokenizer
    audit = hs.audit_tokenizer(backend, hs.PreTokenCounts.from_mapping(text, pre_tokenizer=backend))
    scaffolds = {token.token for token in audit.scaffolds}
    removed = slowly(bpe, text, n_removed, scaffolds)
    assert [*pruning.removed] == removed
    gone = {*bpe.scaffold_tokens, *removed}
    assert {*pruning.tokenizer.scaffold["demolish"]} == gone
    for sample in [*old, *text]:
        assert pruning.tokenizer.tokenize(sample) == oracle.encode(sample, gone, bpe.merges)
    kept = [token for token in bpe.tokens if token not in gone]
    ids = [*range(len(kept))] if compact else [bpe.vocab[token] for token in kept]
    assert pruning.tokenizer.convert_tokens_to_ids(kept) == ids
    assert [pruning.remap[bpe.vocab[token]] for token in kept] == ids
    assert (pruning.remap < 0).sum() == len(removed)
    assert len(pruning.tokenizer) == (len(kept) if compact else bpe.vocab_size)


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("is_scaffold", [True, False])
def test_everything_else_stays_as_it_was(is_scaffold, compact, tmp_path, english_text):
    old = hs.train_tokenizer([english_text[:100_000]], 700, eos_token="<|end|>")
    old.add_tokens(["Xanadu"])
    if not is_scaffold:
        backend = Tokenizer.from_str(old.backend_tokenizer.to_str())
        old = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|end|>")
    pruning = hs.prune(old, [english_text[:100_000]], 600, compact=compact)
    pruning.tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    sample = english_text[200_000:203_000] + " Xanadu <|end|>"
    ids = loaded(sample)["input_ids"]
    assert loaded.explain_path(sample) == "native"
    assert loaded.decode(ids) == sample
    assert ids == pruning.tokenizer(sample)["input_ids"]
    added = [old.convert_tokens_to_ids(token) for token in ("Xanadu", "<|end|>")]
    assert {*pruning.remap[added].tolist()} <= {*ids}
    assert loaded.convert_ids_to_tokens([*pruning.remap[added]]) == ["Xanadu", "<|end|>"]
    loaded.native = False
    assert loaded(sample)["input_ids"] == ids


def test_symbols_that_merges_make_too_stay():
    """With the prefix ##, the text ##a spells the symbol that an a inside a pre-token is."""
    counts = hs.PreTokenCounts.from_mapping(
        {"##a": 9, "ba": 8, "##": 7, "b##a": 6, "c": 5}, alphabet="chars", pre_tokenizer="whitespace-split"
    )
    bpe = hs.train(counts, 14, continuing_subword_prefix="##")
    assert {"##a", "##b"} & {*bpe.merged_tokens}
    n_fixed = len(bpe.symbols)
    pruning = hs.prune(bpe.to_tokenizer(), counts, n_fixed)
    assert {*pruning.tokenizer.get_vocab()} >= bpe.symbols
    gone = {*bpe.scaffold_tokens, *pruning.removed}
    for text in counts:
        symbols = oracle.symbols_of(text.decode(), "##")
        assert pruning.tokenizer.tokenize(text.decode()) == oracle.encode(symbols, gone, bpe.merges, "##")


def test_merges_in_any_order_end():
    vocab = {token: i for i, token in enumerate(["a", "b", "ba", "aba", "abaaba"])}
    backend = Tokenizer(models.BPE(vocab, [("aba", "aba"), ("a", "ba"), ("b", "a")]))
    pruning = hs.prune(backend, ["abaaba", "ba"], 2, compact=True)
    assert pruning.tokenizer.tokenize("abaaba") == [*"abaaba"]


def test_tokens_by_name_or_id_without_a_text():
    bpe = hs.train(table({"Arizona": 50, "zone": 3, "banana": 20}), 260)
    old = bpe.to_tokenizer()
    pruning = hs.prune(old, tokens=["Arizona", 258, "Arizona"])
    assert pruning.removed == ("Arizona", "banana")
    assert pruning.tokenizer.tokenize("Arizona") == oracle.encode(
        "Arizona", {*bpe.scaffold_tokens, *pruning.removed}, bpe.merges
    )


def test_freed_ids_stay_reserved_until_ids_close_up():
    old = hs.train(table({"hug": 10, "pug": 5, "pun": 12, "bun": 4, "hugs": 5}), 261).to_tokenizer()
    once = hs.prune(old, tokens=["bun"]).tokenizer
    twice = hs.prune(once, tokens=["pun"])
    assert len(once) == len(twice.tokenizer) == 261
    assert (twice.remap < 0).sum() == 2
    closed = hs.prune(once, tokens=["pun"], compact=True)
    assert len(closed.tokenizer) == 259
    assert closed.tokenizer.tokenize("hugs bun") == twice.tokenizer.tokenize("hugs bun")


def test_bad_arguments_are_refused():
    old = hs.train(table({"hug": 3}), 258).to_tokenizer()
    for arguments in ({}, {"vocab_size": 257, "tokens": ["hug"]}):
        with pytest.raises(hs.ConfigurationError, match="vocab_size or tokens, one of them"):
            hs.prune(old, table({"hug": 3}), **arguments)
    with pytest.raises(hs.ConfigurationError, match="needs a corpus"):
        hs.prune(old, vocab_size=257)
    for size in (254, 255, 259):
        with pytest.raises(hs.ConfigurationError, match="it must be from 256 to 258"):
            hs.prune(old, table({"hug": 3}), size)
    for token in ("h", "nothing", 999, 104):
        with pytest.raises(hs.ConfigurationError, match="can't be taken out"):
            hs.prune(old, tokens=[token])
    with pytest.raises(TypeError, match="must be several"):
        hs.prune(old, tokens="hug")
