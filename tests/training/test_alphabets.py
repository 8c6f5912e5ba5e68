"""Alphabets of characters: affixes, unknown characters, and pipelines besides byte-level, end to end."""

import dataclasses
import json
import shutil
import warnings

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, LlamaTokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold._core.trainer import AmbiguousMergeLoop, MergeLoop
from hf_scaffold.cli import commands, workflow
from hf_scaffold.counting import characters
from hf_scaffold.errors import ArtifactError, ConfigurationError, CorpusError, CountOverflowError
from hf_scaffold.text.symbols import Affixes
from hf_scaffold.tokenizer.building import artifact_of
from hf_scaffold.training.artifact import ScaffoldBPE
from hf_scaffold.training.checks import check
from hf_scaffold.training.parts import derive_demolish_map

AFFIXES = [
    ("", ""),
    ("##", ""),
    ("", "</w>"),
    ("##", "</w>"),
    ("#", ""),
    ("", "_"),
    ("#", "#"),
    ("##", "##"),
    ("aa", "b"),
    ("ab", "bc"),  # a word `a` and a `c` inside a word both look like abc
]


def table(counts, pre_tokenizer="whitespace-split"):
    return hs.PreTokenCounts.from_mapping(counts, pre_tokenizer=pre_tokenizer, alphabet="chars")


def train(counts, vocab_size, prefix="", suffix="", **options):
    """train(), or train_sizes(), without the warning where candidates run out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        several = hs.train if isinstance(vocab_size, int) else hs.train_sizes
        made = several(
            table(counts),
            vocab_size,
            continuing_subword_prefix=prefix or None,
            end_of_word_suffix=suffix or None,
            **options,
        )
    for bpe in made if isinstance(made, list) else [made]:
        check(bpe)  # training trusts what it makes
    return made


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
@settings(max_examples=600)
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


def model_settings(bpe):
    names = ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback")
    return {name: getattr(bpe, name) for name in names if getattr(bpe, name) is not None}


def tokenizer_with(model, bpe):
    """A stock tokenizer with the artifact's pipeline."""
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = bpe.pre_tokenizer.normalizer
    tokenizer.pre_tokenizer = bpe.pre_tokenizer.pre_tokenizer
    return tokenizer


def assert_encodes_as_tokenizers(bpe, texts):
    """The exact encoder is BPE over the expanded vocabulary, then demolishing; the raw one is `raw_model`."""
    expanded = Tokenizer(models.BPE(bpe.vocab, bpe.merges, **model_settings(bpe)))
    public = Tokenizer(bpe.raw_model())
    data = [text.encode() for text in texts]
    raw, ends = bpe.raw_pretoken_encoder.encode(b"".join(data), np.cumsum([0, *map(len, data)]))
    for i, (text, ids) in enumerate(zip(texts, bpe.encode(data), strict=True)):
        tokens = expanded.encode(text).tokens
        assert [bpe.tokens[i] for i in ids] == [part for token in tokens for part in bpe.demolish(token)]
        assert raw[ends[i] : ends[i + 1]].tolist() == public.encode(text).ids


def loop_of(kind, counts, prefix, suffix, options, alphabet=None, **others):
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
        **others,
    )


@given(runs())
@settings(max_examples=300)
def test_the_loop_for_ambiguous_symbols_counts_exactly(run):
    counts, vocab_size, prefix, suffix, options = run
    loop = loop_of(AmbiguousMergeLoop, counts, prefix, suffix, options)
    loop.run(vocab_size)
    reference = oracle_train(counts, vocab_size, prefix, suffix, **options)
    frequencies = oracle.token_frequencies(reference.sequences)
    assert [token.decode() for token in loop.tokens] == reference.expanded
    assert loop.frequencies == [frequencies[token] for token in reference.expanded]


def test_tables_are_read_some_rows_at_a_time(monkeypatch):
    """The same, wherever one part of the pre-tokens ends and the next begins."""
    counts = hs.PreTokenCounts.from_mapping(
        {"größe": 9, "naïve": 7, "我們": 5, "ab": 4, "b": 3, "ça": 2, "zz": 1}, alphabet="chars"
    )
    settings = [
        {},
        {"limit_alphabet": 6, "unk_token": "?"},
        {"end_of_word_suffix": "</w>", "limit_alphabet": 9},
    ]

    def results():
        trained = [hs.train(counts, 60, **options) for options in settings]
        return [(bpe.merges, bpe.vocab) for bpe in trained]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = results()
        for n in (1, 2, 3):
            monkeypatch.setattr(characters, "_ROWS_AT_ONCE", n)
            monkeypatch.setattr(characters, "_CODES_AT_ONCE", n)
            assert results() == expected


def test_pairs_of_ambiguous_symbols_are_indexed_however_rare(english_text):
    words = english_text[:100_000].replace("e", "#").split()
    counts = {word: words.count(word) for word in sorted(set(words))}
    options = {"special_tokens": [], "min_frequency": 0, "max_token_length": None, "scaffold": True}
    loops = [
        loop_of(AmbiguousMergeLoop, counts, "##", "", options, log=True, rare_below=least)
        for least in (1, 100)
    ]
    loop, same = loops
    assert loop.run(600) == same.run(600) == "vocab_size"
    assert loop.events == same.events
    assert loop.frequencies == same.frequencies


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


@pytest.mark.parametrize(
    "counts",
    [{"##a#": 1, "###a##a": 8}, {"####": 9, "######": 3}, {"#######": 1, "####": 3}],
    ids=str,
)
def test_a_scaffold_that_a_merge_reinstates_leaves_the_queue(counts):
    """Such as `##a#`: it comes back by another merge and still waits as a scaffold, but is no candidate."""
    for size in range(3 if "####" in counts else 7, 12):
        bpe = train(counts, size, prefix="##")
        reference = oracle_train(counts, size, prefix="##")
        assert (bpe.merges, bpe.tokens) == (reference.merges, reference.vocab)
        assert set(bpe.scaffold_tokens) == reference.scaffolds


@pytest.mark.parametrize(
    ("suffix", "counts"),
    [
        ("bc", {"a": 7, "xcy": 5, "cx": 4, "xcc": 3, "cc": 2}),
        ("bcd", {"a": 7, "xcdy": 5, "ycdx": 4, "dcdd": 3}),
    ],
)
def test_a_suffix_that_begins_as_the_prefix_ends_makes_symbols_ambiguous(suffix, counts):
    """Here `abc` is a word `a` or the `c` inside others, `abcd` also their `cd`; no text spells an affix."""
    for size in range(12, 20):
        bpe = train(counts, size, "ab", suffix)
        reference = oracle_train(counts, size, "ab", suffix)
        assert (bpe.merges, bpe.tokens) == (reference.merges, reference.vocab)


def test_a_word_is_not_taken_for_the_token_that_it_is_inside_others():
    """A plain BPE engine that takes pre-tokens whole looks for the bare text, and knows of no suffix."""
    bpe = train({"lowest": 20, "lows": 15, "lowly": 10, "low": 1}, 13, suffix="</w>")
    assert "low" in bpe.tokens
    [ids] = bpe.encode([b"low"])
    tokens = Tokenizer(bpe.raw_model()).encode("low").tokens
    assert tokens == [bpe.tokens[i] for i in ids] == ["l", "o", "w</w>"]
    assert bpe.to_tokenizer().backend_tokenizer.encode("low").tokens == tokens


def test_a_scaffold_demolishes_to_what_spells_it():
    """`##xy` is `xy` inside a pre-token, and a whole one: only the first stands behind `a`."""
    merges = [("###", "##x"), ("#", "###x"), ("##x", "##y"), ("a", "##xy"), ("##", "##xy")]
    scaffolds = ["##xy", "axy"]
    for rules in (merges, [("#", "###xy"), *merges]):
        demolished = derive_demolish_map(rules, scaffolds, Affixes("##"))
        assert demolished["axy"] == ("a", "##x", "##y")
        for token in scaffolds:
            assert demolished[token] == oracle.demolish(token, set(scaffolds), rules, "##")
    assert demolished["##xy"] == ("#", "###xy")


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
@settings(max_examples=150)
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
    counts = hs.count([english_text[:200_000]], pre_tokenizer="whitespace-split", alphabet="chars")
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
@settings(max_examples=150)
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


def test_fused_unknown_characters_are_one_token():
    texts = [b"axxb", b"xx", b"xaxx"]
    for fuse, expected in ((False, [4, 2, 4]), (True, [3, 1, 3])):
        bpe = train({"a": 9, "b": 5}, 3, unk_token="<unk>", fuse_unk=fuse)
        assert [*map(len, bpe.encode(texts))] == expected


@pytest.mark.parametrize("character", ["é", "字", "🙂"])
def test_a_character_that_two_pretokens_share_is_in_neither(character):
    bpe = train({"a": 9, character: 5}, 3, unk_token="<unk>")
    data = character.encode()
    for cut in range(1, len(data)):
        shared = [b"a" + data[:cut], data[cut:] + b"a"]
        assert bpe.encode([*shared, data]) == [[1] + cut * [0], (len(data) - cut) * [0] + [1], [2]]


# ---- pipelines, end to end


def byte_level():
    """Splits at whitespace, drops it, and writes bytes, as CLIP does."""
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), last])


LLAMA = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
BOTH = {"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"}
# Arguments, and what is left of TEXT after encoding and decoding.
TEXT = "The  étude, naïve nation; x_y ②\nthe end."
SPACED = "The étude, naïve nation; x_y ② the end."
APART = "The étude , naïve nation ; x_y ② the end ."
PIPELINES = {
    "metaspace": ({}, TEXT),
    "metaspace, unsplit, NFKC": (
        {"pre_tokenizer": "metaspace-unsplit", "normalizer": normalizers.NFKC()},
        TEXT.replace("②", "2"),
    ),
    "metaspace with affixes": (BOTH, TEXT),
    "byte fallback": ({"byte_fallback": True, "limit_alphabet": 30}, TEXT),
    "whole text": ({"pre_tokenizer": pre_tokenizers.Sequence([]), "normalizer": normalizers.NFC()}, TEXT),
    "Llama's normalizer": ({"pre_tokenizer": pre_tokenizers.Sequence([]), "normalizer": LLAMA}, TEXT),
    "lowercase": ({"normalizer": normalizers.Lowercase()}, TEXT.lower()),
    "suffix": ({"pre_tokenizer": "whitespace-split", "end_of_word_suffix": "</w>"}, SPACED),
    "prefix": ({"pre_tokenizer": "whitespace-split", "continuing_subword_prefix": "##"}, SPACED),
    "both": ({"pre_tokenizer": "whitespace", **BOTH}, APART),
    "whitespace": ({"pre_tokenizer": "whitespace", "end_of_word_suffix": "</w>", "fuse_unk": True}, APART),
    "bert": (
        {"pre_tokenizer": "bert", "continuing_subword_prefix": "##"},
        APART.replace("_", " _ "),
    ),
    "no affixes": ({"pre_tokenizer": "whitespace-split"}, "".join(TEXT.split())),
    "bytes with suffix": ({"pre_tokenizer": byte_level(), "end_of_word_suffix": "</w>"}, SPACED),
    "bytes with prefix": ({"pre_tokenizer": byte_level(), "continuing_subword_prefix": "##"}, SPACED),
    "bytes with both": ({"pre_tokenizer": byte_level(), **BOTH}, SPACED),
    "bytes with spaces": (
        {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False), **BOTH},
        TEXT,
    ),
}


@pytest.fixture(scope="module", params=PIPELINES)
def pipeline(request, english_text):
    """(tokenizer, artifact, restored): a pipeline trained on a novel and on TEXT."""
    arguments, restored = PIPELINES[request.param]
    corpus = [*english_text[:60_000].splitlines(keepends=True), TEXT, *TEXT.split("x")]
    counting = {name: arguments[name] for name in ("pre_tokenizer", "normalizer") if name in arguments}
    training = {name: value for name, value in arguments.items() if name not in counting}
    counts = hs.count(corpus, alphabet="chars", num_workers=1, **counting)
    bpe = hs.train(counts, 700, unk_token="<unk>", special_tokens=["<s>"], **training)
    return bpe.to_tokenizer(bos_token="<s>"), bpe, restored


NASTY = ["", " ", "nation", " the  end ", "日本🙂", "x</w>y ### #", "naïve②", "<s>the<unk>", TEXT, "aéi" * 30]


def test_ids_are_those_of_the_artifact(pipeline, english_text):
    tokenizer, bpe, _ = pipeline
    cutter = bpe.pre_tokenizer
    for text in [*NASTY[:7], *NASTY[8:], *english_text[60_000:70_000].splitlines()]:
        ids = [i for row in bpe.encode(cutter.pre_tokenize(text)) for i in row]
        assert tokenizer(text)["input_ids"] == ids
        assert tokenizer(text, return_offsets_mapping=True)["input_ids"] == ids
        assert tokenizer._encode_without_added_tokens(text) == ids
    assert bpe.scaffold_tokens


def test_decode_restores_what_the_pipeline_keeps(pipeline):
    tokenizer, bpe, restored = pipeline
    ids = tokenizer(TEXT)["input_ids"]
    assert bpe.vocab["<unk>"] not in ids
    assert tokenizer.decode(ids) == restored
    stream = decoders.DecodeStream()
    pieces = [stream.step(tokenizer.backend_tokenizer, token_id) or "" for token_id in ids]
    assert "".join(pieces).strip() == restored


def test_saved_and_loaded_alike(pipeline, tmp_path):
    tokenizer, bpe, _ = pipeline
    tokenizer.save_pretrained(tmp_path / "tokenizer")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    assert loaded(NASTY)["input_ids"] == tokenizer(NASTY)["input_ids"]
    assert loaded.unk_token == "<unk>"
    bpe.save(tmp_path / "artifact")
    assert ScaffoldBPE.load(tmp_path / "artifact") == bpe
    assert workflow.load_artifact(str(tmp_path / "tokenizer")) == bpe


def test_offsets_are_those_of_the_symbols(pipeline, english_text):
    """Checked with a stock tokenizer that makes every character its own token."""
    tokenizer, bpe, _ = pipeline
    settings = model_settings(bpe)
    twin = tokenizer_with(models.BPE(bpe.vocab, [], **settings), bpe)
    expanded = tokenizer_with(models.BPE(bpe.vocab, bpe.merges, **settings), bpe)
    demolished = 0
    for text in [*NASTY[1:7], *NASTY[8:], *english_text[60_000:70_000].splitlines()]:
        symbols = twin.encode(text)
        [encoding] = tokenizer([text], return_offsets_mapping=True).encodings
        at = 0
        for token, offsets, word in zip(encoding.tokens, encoding.offsets, encoding.word_ids, strict=True):
            start, spelled = at, symbols.tokens[at]
            while spelled != token:
                at += 1
                spelled = bpe.affixes.spell([spelled, symbols.tokens[at]])
            assert offsets == (symbols.offsets[start][0], symbols.offsets[at][1])
            assert word == symbols.word_ids[start]
            at += 1
        assert at == len(symbols.tokens)
        demolished += sum(token in bpe.demolish_map for token in expanded.encode(text).tokens)
    assert demolished > 5


def test_pairs_and_truncation(pipeline):
    tokenizer, *_ = pipeline
    texts = ["the nation", "naïve étude"]
    alone = [tokenizer(text)["input_ids"] for text in texts]
    assert tokenizer(*texts)["input_ids"] == alone[0] + alone[1]
    assert tokenizer(texts[0], truncation=True, max_length=2)["input_ids"] == alone[0][:2]
    tokenizer.pad_token = "<s>"
    assert {len(ids) for ids in tokenizer(texts, padding=True)["input_ids"]} == {max(map(len, alone))}


@given(
    st.dictionaries(st.text("abcdé", min_size=1, max_size=6), st.integers(1, 30), min_size=1, max_size=8),
    st.lists(st.text("abcdéxß🙂<", max_size=9), max_size=6),
)
@settings(max_examples=50)
def test_characters_outside_the_alphabet_become_bytes(counts, texts):
    bpe = train(counts, 300, limit_alphabet=2, byte_fallback=True, unk_token="<unk>")
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    frequency = {c: sum(text.count(c) * n for text, n in counts.items()) for c in set("".join(counts))}
    characters = set(sorted(frequency, key=lambda c: (-frequency[c], c))[:2])
    reference = oracle_train(counts, 300, characters=characters, special_tokens=["<unk>", *byte_tokens])
    assert bpe.tokens == reference.vocab
    for text, ids in zip(texts, bpe.encode([text.encode() for text in texts]), strict=True):
        known = oracle.known_symbols(tuple(text), set(reference.expanded), byte_fallback=True)
        expected = oracle.encode(known, reference.scaffolds, reference.merges)
        assert [bpe.tokens[i] for i in ids] == expected
        assert bpe.to_tokenizer().decode(ids) == text
    assert_encodes_as_tokenizers(bpe, texts)


# ---- files, options and errors


def test_counts_of_different_alphabets_do_not_merge(tmp_path):
    characters = hs.count(["naïve ②"], alphabet="chars", pre_tokenizer=pre_tokenizers.Whitespace())
    assert dict(characters) == {"naïve".encode(): 1, "②".encode(): 1}
    with pytest.raises(ConfigurationError, match="different pre-tokenizers"):
        characters.merge(hs.count(["naïve"], pre_tokenizer=pre_tokenizers.Whitespace()))
    characters.save(tmp_path / "counts.parquet")
    loaded = hs.PreTokenCounts.load(tmp_path / "counts.parquet")
    assert loaded == characters
    assert loaded.pre_tokenizer.alphabet == "chars"


def test_files_of_bytes_do_not_name_the_alphabet():
    """They are what they were before there was another, and load as they did."""
    cutter = hs.get_pre_tokenizer("gpt2")
    assert "alphabet" not in cutter.to_json()
    assert hs.PreTokenizer.from_json(cutter.to_json()).alphabet == "bytes"
    unsplit = hs.get_pre_tokenizer("metaspace-unsplit", alphabet="chars")
    assert hs.PreTokenizer.from_json(unsplit.to_json()) == unsplit


def test_workers_count_characters_alike():
    texts = [f"naïve {i} text ② " * 50 for i in range(40)]
    tables = [hs.count(texts, alphabet="chars", num_workers=n) for n in (1, 2)]
    assert tables[0] == tables[1]
    assert tables[0]["▁naïve"] == 2000


def test_merges_with_spaces_are_saved_as_json(tmp_path):
    counts = hs.PreTokenCounts.from_mapping(
        {"of the\n": 9, "of a": 5}, alphabet="chars", pre_tokenizer=pre_tokenizers.Sequence([])
    )
    bpe = hs.train(counts, 11)
    assert any(" " in token for token in bpe.tokens[7:])
    bpe.save(tmp_path)
    train({"of": 9}, 3).save(tmp_path / "plain")
    assert sorted(path.name for path in tmp_path.glob("*.*")) == [
        "demolish.json",
        "merges.json",
        "vocab.json",
    ]
    assert (tmp_path / "plain" / "merges.txt").is_file()
    assert ScaffoldBPE.load(tmp_path) == bpe
    for broken in ('{"a": 1}', '[["a"]]', '["ab"]', "[["):
        (tmp_path / "merges.json").write_text(broken)
        with pytest.raises(ArtifactError, match=r"merges\.json"):
            ScaffoldBPE.load(tmp_path)


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_merges_with_line_ends_are_saved_as_json(end, tmp_path):
    counts = hs.PreTokenCounts.from_mapping(
        {f"of{end}": 9}, alphabet="chars", pre_tokenizer=pre_tokenizers.Sequence([])
    )
    bpe = hs.train(counts, 5)
    assert f"of{end}" in bpe.tokens
    bpe.save(tmp_path)
    assert not (tmp_path / "merges.txt").exists()
    assert ScaffoldBPE.load(tmp_path) == bpe


def test_merges_are_read_from_the_file_that_is_named(tmp_path):
    """Whoever copies an artifact over another one leaves the older merges in the folder."""
    as_text, as_json = (hs.train(table({text: 9}, pre_tokenizers.Sequence([])), 4) for text in ("off", "o f"))
    as_text.save(tmp_path / "text")
    as_json.save(tmp_path / "json")
    shutil.copytree(tmp_path / "json", tmp_path / "copied")
    shutil.copytree(tmp_path / "text", tmp_path / "copied", dirs_exist_ok=True)
    assert (tmp_path / "copied" / "merges.json").is_file()
    assert ScaffoldBPE.load(tmp_path / "copied") == as_text
    shutil.copytree(tmp_path / "json", tmp_path / "copied", dirs_exist_ok=True)
    assert ScaffoldBPE.load(tmp_path / "copied") == as_json


@pytest.mark.parametrize("options", [{}, {"special_tokens": ["<s>"]}, {"byte_fallback": True}])
@pytest.mark.parametrize("token", [".", "b", "c", "<0x00>"])
def test_a_symbol_that_becomes_a_special_token_is_no_special_token_of_the_artifact(token, options):
    bpe = train({"a.": 9, "ab": 4, "cab": 2}, 263 if "byte_fallback" in options else 7, **options)
    assert bpe.merges[:2] == [("a", "."), ("a", "b")]
    assert artifact_of(bpe.to_tokenizer(eos_token=token)) == bpe


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unk_token": "<unk>"}, "unk_token needs an alphabet of characters"),
        ({"fuse_unk": True}, "fuse_unk needs"),
        ({"byte_fallback": True}, "byte_fallback needs"),
        ({"end_of_word_suffix": "</w>"}, "end_of_word_suffix needs.*alphabet='chars'"),
        ({"continuing_subword_prefix": "##"}, "continuing_subword_prefix needs"),
    ],
)
def test_options_of_characters_are_refused_for_bytes(options, message):
    with pytest.raises(ConfigurationError, match=message):
        hs.train(hs.PreTokenCounts.from_mapping({"ab": 2}), 300, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 3}, "1 special tokens and 3 characters of the alphabet need 4"),
        ({"special_tokens": ["a"]}, "'a' is a character of the alphabet"),
        ({"special_tokens": ["b</w>"]}, "'b</w>' is a character of the alphabet"),
        ({"byte_fallback": True}, "byte_fallback goes neither with affixes"),
        ({"unk_token": "a"}, "'a' is a character of the alphabet"),
        ({"initial_alphabet": ["xy"]}, "initial_alphabet: 'xy' is not one character"),
    ],
)
def test_bad_options_are_refused_before_training(options, message):
    given = {"vocab_size": 9, "special_tokens": ["<s>"], **options}
    with pytest.raises(ConfigurationError, match=message):
        hs.train(table({"aab": 3, "b": 1}), end_of_word_suffix="</w>", **given)


@pytest.mark.parametrize("name", hs.CHARACTER_PRESETS)
def test_every_preset_for_characters(name):
    counts = hs.count(["two words, naïve"], pre_tokenizer=name, alphabet="chars", num_workers=1)
    assert any("naïve" in pretoken.decode() for pretoken in counts)


def test_presets_go_with_their_alphabet():
    with pytest.raises(ConfigurationError, match=r"'gpt2' does not go with alphabet='chars'.*metaspace"):
        hs.count(["text"], pre_tokenizer="gpt2", alphabet="chars")
    with pytest.raises(ConfigurationError, match="'bert' does not go with alphabet='bytes'"):
        hs.count(["text"], pre_tokenizer="bert")
    with pytest.raises(ConfigurationError, match="alphabet is 'letters'; it must be one of bytes, chars"):
        hs.count(["text"], alphabet="letters")
    with pytest.raises(ConfigurationError, match="is for bytes, not for chars"):
        hs.get_pre_tokenizer(hs.get_pre_tokenizer("gpt2"), alphabet="chars")


@pytest.mark.parametrize(("pretokens", "row"), [([b"a", b"\xe9"], 1), ([b"a\xc3", b"\xa9b"], 1)])
def test_characters_need_utf8(pretokens, row):
    with pytest.raises(CorpusError, match=f"row {row}: pre-token .* is not UTF-8"):
        table(dict.fromkeys(pretokens, 1))


def test_initial_alphabet_keeps_what_does_not_occur():
    bpe = train({"ab": 3}, 9, initial_alphabet=["z", "b"], unk_token="?")
    assert bpe.tokens[:4] == ["?", "a", "b", "z"]
    assert bpe.encode([b"zq"]) == [[3, 0]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unk_token": "<gone>"}, "unk_token: '<gone>' is no special token"),
        ({"unk_token": "b"}, "unk_token: 'b' is no special token"),
        ({"continuing_subword_prefix": None}, "demolish|vocab|merge"),
        ({"pre_tokenizer": hs.get_pre_tokenizer("gpt2")}, "is .*, but the alphabet is bytes"),
    ],
)
def test_an_artifact_whose_parts_contradict_each_other_is_refused(changes, message):
    bpe = train({"banana": 20, "nab": 3}, 12, prefix="##", unk_token="<unk>")
    with pytest.raises(ArtifactError, match=message):
        dataclasses.replace(bpe, **changes)


def test_the_tokenizer_refuses_merges_without_the_prefix():
    tokenizer = train({"banana": 20, "nab": 3}, 12, prefix="##").to_tokenizer()
    scaffold = {**tokenizer.scaffold, "merges": [["n", "a"], *tokenizer.scaffold["merges"]]}
    with pytest.raises(ValueError, match="'a' does not begin with '##'"):
        hs.ScaffoldTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer, scaffold=scaffold)


# ---- like a tokenizer there is


def stock(model, pre_tokenizer, decoder, normalizer=None):
    backend = Tokenizer(model)
    backend.normalizer, backend.pre_tokenizer, backend.decoder = normalizer, pre_tokenizer, decoder
    suffix = {"end_of_word_suffix": model.end_of_word_suffix} if model.end_of_word_suffix else {}
    trainer = trainers.BpeTrainer(special_tokens=["<unk>"], show_progress=False, **suffix)
    backend.train_from_iterator([TEXT], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


LIKE = {
    "Sennrich's": lambda: stock(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=True),
        pre_tokenizers.WhitespaceSplit(),
        decoders.BPEDecoder("</w>"),
    ),
    "metaspace": lambda: stock(
        models.BPE(unk_token="<unk>"), pre_tokenizers.Metaspace(), decoders.Metaspace(), normalizers.NFKC()
    ),
    "Llama's": lambda: LlamaTokenizer(vocab={"<unk>": 0, "<s>": 1, "</s>": 2, "▁": 3}, merges=[]),
}


@pytest.mark.parametrize("name", LIKE)
def test_a_tokenizer_like_one_of_characters(name, english_text):
    like = LIKE[name]()
    texts = [*english_text[:40_000].splitlines(), SPACED.replace("②", "2")]
    tokenizer = hs.train_tokenizer(texts, 400, like=like, num_workers=1)
    model = tokenizer.backend_tokenizer.model
    assert model.end_of_word_suffix == like.backend_tokenizer.model.end_of_word_suffix
    assert model.unk_token == like.backend_tokenizer.model.unk_token
    assert model.fuse_unk == like.backend_tokenizer.model.fuse_unk
    assert tokenizer.decode(tokenizer(texts[-1], add_special_tokens=False)["input_ids"]) == texts[-1]
    again = tokenizer.train_new_from_iterator(texts, 400, show_progress=False)
    assert again.scaffold == tokenizer.scaffold
    with pytest.raises(ConfigurationError, match="end_of_word_suffix come from like"):
        hs.train_tokenizer(texts, 400, like=like, end_of_word_suffix="</w>")


def test_like_a_tokenizer_of_bytes_with_a_suffix_every_byte_has_a_token():
    """As in CLIP's; but with the suffix those have one that end a word of the text, as in stock training."""
    like = stock(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), byte_level(), decoders.ByteLevel())
    new = hs.train_tokenizer(["low lower lowest"], 264, like=like)
    assert "<unk>" not in new("ét ②🙂r").tokens()


# ---- the command line


def command(capsys, *arguments):
    code = commands.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_commands_for_characters(english_text, tmp_path, capsys):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(english_text[:40_000], encoding="utf-8")
    counting = ["--alphabet", "chars", "--pre-tokenizer", "whitespace", "--num-workers", 1]
    training = ["--vocab-size", 400, "--unk-token", "<unk>", "--end-of-word-suffix", "</w>"]
    training += ["--continuing-subword-prefix", "##"]
    code, _, error = command(capsys, "count", corpus, "-o", tmp_path / "c.parquet", *counting)
    assert (code, error) == (0, "")
    assert command(capsys, "train", tmp_path / "c.parquet", "-o", tmp_path / "a", *training)[0] == 0
    assert command(capsys, "train", corpus, "-o", tmp_path / "b", *counting, *training)[0] == 0
    assert (tmp_path / "a/tokenizer.json").read_bytes() == (tmp_path / "b/tokenizer.json").read_bytes()
    counts = hs.PreTokenCounts.load(tmp_path / "c.parquet")
    expected = hs.train(counts, 400, special_tokens=["<|endoftext|>"], unk_token="<unk>", **BOTH)
    artifact = hs.ScaffoldBPE.load(tmp_path / "a" / "artifact")
    assert artifact == expected.with_sources(["c.parquet"])
    assert hs.ScaffoldBPE.load(tmp_path / "b" / "artifact") == expected.with_sources(["corpus.txt"])
    code, out, _ = command(capsys, "inspect", tmp_path / "a", "--json")
    facts = json.loads(out)
    assert facts["special_tokens"] == ["<|endoftext|>", "<unk>"]
    made = set(artifact.merged_tokens)
    assert facts["alphabet_size"] == 400 - 2 - sum(token in made for token in artifact.tokens)
    assert command(capsys, "inspect", tmp_path / "a")[0] == 0
    _, out, _ = command(capsys, "tokenize", "-t", tmp_path / "a", "nation ②")
    assert out.split()[-1] == "<unk>"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--unk-token", "<unk>"], "--unk-token needs an alphabet of characters"),
        (["--alphabet", "chars", "--pre-tokenizer", "gpt2"], "'gpt2' does not go with --alphabet chars"),
        (
            ["--alphabet", "chars", "--byte-fallback", "--end-of-word-suffix", "</w>"],
            "--byte-fallback goes neither",
        ),
        (["--alphabet", "words"], "alphabet is 'words'"),
    ],
)
def test_commands_refuse_what_does_not_go_together(arguments, message, tmp_path, capsys):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("some text")
    code, _, error = command(capsys, "train", corpus, "-o", tmp_path / "out", "--num-workers", 1, *arguments)
    assert code == 2
    assert message in error
    assert not (tmp_path / "out").exists()


def test_tables_of_another_alphabet_are_refused(tmp_path, capsys):
    hs.count(["some text"], alphabet="chars").save(tmp_path / "c.parquet")
    arguments = ["train", tmp_path / "c.parquet", "-o", tmp_path / "out", "--alphabet", "bytes"]
    code, _, error = command(capsys, *arguments)
    assert code == 2
    assert "counted with an alphabet of chars, not bytes; count the text again" in error
