"""A program gives to its file the ids that the tokenizer has, or those that `Engine` says."""

import base64
import json

import gguf
import numpy as np
import pytest
import sentencepiece
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.formats.tiktoken import pattern_for
from hf_scaffold.lifecycle.exporting import gguf_vocabulary
from hf_scaffold.lifecycle.models import as_fast_or_scaffold
from hf_scaffold.lifecycle.plain_engines import Source, fault_of_rules
from hf_scaffold.text.byte_level import SYMBOL_TO_BYTE
from hf_scaffold.text.symbols import BYTE_TOKENS

TEXTS = [
    *("", " ", "a", "  a  b ", "a\tb\r\n c\n\n d \n", "tail   ", "it's I'M we'LL 12 345 6789, 3.14 ½ ٣٤  1"),
    *("naïve café e\u0301", "Привет, мир!", "日本語の本、日本語の木。", "مرحبا بالعالم", "🙂🙃 ok", "▁x ▁▁y"),
    *("    indented\n   more", "aaaaaaaa aaa", "\x00 \x7f", "snake_case $5 <<a>> -- …"),
]
PRESETS = ["gpt2-digits", "gpt2", "llama3", "gpt4o"]
SPECIAL = "<|endoftext|>"
CHARACTERS = {
    "byte_fallback": {"byte_fallback": True},
    "unknown": {"fuse_unk": True},
    "unsplit": {"byte_fallback": True, "pre_tokenizer": "metaspace-unsplit"},
}


@pytest.fixture(scope="module")
def texts(english_text):
    return [*TEXTS, english_text[100_000:130_000], *english_text[130_000:140_000].splitlines()]


def of_bytes(english_text, preset, scaffold):
    corpus = [english_text[:100_000], *TEXTS]
    return hs.train_tokenizer(corpus, 900, pre_tokenizer=preset, eos_token=SPECIAL, scaffold=scaffold)


def of_characters(english_text, kind, scaffold):
    given = {"pre_tokenizer": "metaspace", "alphabet": "chars", "limit_alphabet": 60, **CHARACTERS[kind]}
    roles = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    corpus = english_text[:100_000].splitlines()
    return hs.train_tokenizer(corpus, 900, initial_alphabet=(), scaffold=scaffold, **given, **roles)


def ids_of(tokenizer, texts):
    return tokenizer(texts, add_special_tokens=False)["input_ids"]


def encoding_of(paths):
    ranks, beside = paths
    pairs = (line.split() for line in ranks.read_bytes().splitlines())
    by_token = {base64.b64decode(token): int(rank) for token, rank in pairs}
    return tiktoken.Encoding(mergeable_ranks=by_token, **json.loads(beside.read_bytes()))


# ---- tiktoken


@pytest.mark.parametrize("preset", PRESETS)
def test_plain_bpe_is_exact_in_tiktoken(preset, english_text, texts, tmp_path):
    plain = of_bytes(english_text, preset, scaffold=False)
    export = hs.export(plain, tmp_path / "plain.tiktoken", "tiktoken")
    encoding = encoding_of(export.paths)
    assert (export.exact, export.agreement) == (True, 1)
    assert encoding.encode_ordinary_batch(texts) == ids_of(plain, texts)
    assert encoding.encode(f"a{SPECIAL}", allowed_special="all") == plain.encode(f"a{SPECIAL}")
    back = as_fast_or_scaffold(export.paths[0])
    assert back.get_vocab() == plain.get_vocab()
    assert ids_of(back, [*texts, SPECIAL]) == ids_of(plain, [*texts, SPECIAL])
    assert hs.get_pre_tokenizer(back.backend_tokenizer).preset == preset


def test_spaces_before_a_digit_stay_together_in_tiktoken(tmp_path):
    """The preset cuts digits off first, so these spaces stand at an end."""
    plain = hs.train_tokenizer(["a  1"] * 3, 257, scaffold=False)
    encoding = encoding_of(hs.export(plain, tmp_path / "plain.tiktoken", "tiktoken").paths)
    assert plain.tokenize("a  1") == ["a", "ĠĠ", "1"]
    for text in ("a  1", "a  b", "  1", "a  ½"):
        assert encoding.encode_ordinary(text) == plain.encode(text)


def test_scaffold_bpe_needs_raw_for_tiktoken(english_text, texts, tmp_path):
    exact = of_bytes(english_text, "gpt2", scaffold=True)
    path = tmp_path / "raw.tiktoken"
    with pytest.raises(hs.ConfigurationError, match=r"tiktoken would give other ids: it has scaffold tokens"):
        hs.export(exact, path, "tiktoken")
    assert not path.exists()
    export = hs.export(exact, path, "tiktoken", raw=True)
    assert (export.exact, export.agreement) == (False, None)
    counts = hs.count(texts, pre_tokenizer="gpt2")
    export = hs.export(exact, path, "tiktoken", raw=True, corpus=texts)
    encoding = encoding_of(export.paths)
    alike = [
        count
        for pretoken, count in counts.items()
        if encoding._encode_single_piece(pretoken) == exact.encode(pretoken.decode())
    ]
    assert 0.9 < export.agreement < 1
    assert export.agreement == pytest.approx(sum(alike) / counts.total)


def backend_of(vocab, merges, **settings):
    backend = Tokenizer(models.BPE(vocab, merges, **settings))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return backend


def with_bytes(*tokens):
    return {token: token_id for token_id, token in enumerate([*SYMBOL_TO_BYTE, *tokens])}


FAULTS = {
    "ids in another order": (("abc", "ab"), [("a", "b"), ("ab", "c")], {}, "don't make 'abc'|comes before"),
    "two ways to one token": (("ab", "bc", "abc"), [("a", "b"), ("b", "c"), ("a", "bc")], {}, "'abc' of its"),
    "ranks in another order": (("xy", "ab"), [("a", "b"), ("x", "y")], {}, "'xy' comes before"),
    "taken whole": (("abc",), [], {"ignore_merges": True}, "'abc' is only made by taking"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_tiktoken_would_merge_otherwise_is_refused(case, tmp_path):
    tokens, merges, given, message = FAULTS[case]
    backend = backend_of(with_bytes(*tokens), merges, **given)
    with pytest.raises(hs.ConfigurationError, match=message):
        hs.export(backend, tmp_path / "x.tiktoken", "tiktoken")
    assert hs.export(backend, tmp_path / "x.tiktoken", "tiktoken", raw=True).agreement is None


PARTS = st.lists(st.sampled_from("ab c"), min_size=2, max_size=5).map("".join)


@given(st.lists(PARTS, max_size=8, unique=True), st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=200)
def test_what_passes_is_exact_on_every_text(strings, random, every_cut):
    """Any tokens and rules: either tiktoken gives the same ids, or the tokenizer is refused."""
    strings = [string.replace(" ", "Ġ") for string in strings]
    vocab = with_bytes(*strings)
    rules = [(s[:i], s[i:]) for s in strings for i in range(1, len(s)) if {s[:i], s[i:]} <= vocab.keys()]
    if not every_cut:
        random.shuffle(rules)
        rules = rules[: random.randrange(len(rules) + 1)]
    backend = backend_of(vocab, rules, ignore_merges=random.random() < 0.5)
    source = Source(as_fast_or_scaffold(backend))
    if fault_of_rules(source.model, source.ids) is not None:
        return
    made = {*source.model.first_rules, *SYMBOL_TO_BYTE}
    ranks = {source.model.text_of(token): i for token, i in vocab.items() if token in made}
    encoding = tiktoken.Encoding(
        "x", pat_str=pattern_for(source.model.pre_tokenizer), mergeable_ranks=ranks, special_tokens={}
    )
    for _ in range(20):
        text = "".join(random.choices("ab c", k=12))
        assert backend.encode(text).ids == encoding.encode_ordinary(text)


def test_what_tiktoken_can_not_do_is_refused(tmp_path):
    vocab = with_bytes()
    cases = {
        "without a normalizer": {"normalizer": normalizers.NFC()},
        "by one pattern": {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
        "by one pattern,": {
            "pre_tokenizer": pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Split(Regex(r"\p{L}+"), "isolated"),  # tiktoken drops what is between
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
                ]
            )
        },
    }
    for message, parts in cases.items():
        backend = backend_of(vocab, [])
        for name, part in parts.items():
            setattr(backend, name, part)
        with pytest.raises(hs.ConfigurationError, match=message):
            hs.export(backend, tmp_path / "x.tiktoken", "tiktoken")
    backend = backend_of(vocab, [])
    backend.add_tokens([AddedToken("<m>", lstrip=True)])
    with pytest.raises(hs.ConfigurationError, match="can't look for '<m>'"):
        hs.export(backend, tmp_path / "x.tiktoken", "tiktoken")
    del vocab["a"]
    lacking = backend_of({token: i for i, token in enumerate(vocab)}, [])
    with pytest.raises(hs.ConfigurationError, match="there is none for 1 of them"):
        hs.export(lacking, tmp_path / "x.tiktoken", "tiktoken")


# ---- SentencePiece


@pytest.mark.parametrize("scaffold", [False, True])
@pytest.mark.parametrize("kind", CHARACTERS)
@pytest.mark.filterwarnings("ignore:SentencePiece puts a space")
def test_sentencepiece_demolishes(kind, scaffold, english_text, texts, tmp_path):
    tokenizer = of_characters(english_text, kind, scaffold)
    export = hs.export(tokenizer, tmp_path / "exported.model", "sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(export.paths[0]))
    texts = [text for text in texts if not text.startswith((" ", "▁"))]
    assert processor.encode(texts) == ids_of(tokenizer, texts)
    assert export.agreement == 1
    assert bool(tokenizer.scaffold["demolish"]) == scaffold
    n_tokens = len(tokenizer)
    assert processor.get_piece_size() == n_tokens + len(tokenizer.scaffold["demolish"])
    assert processor.id_to_piece([*range(n_tokens)]) == tokenizer.convert_ids_to_tokens([*range(n_tokens)])
    ids = tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id
    assert (processor.bos_id(), processor.eos_id(), processor.unk_id()) == ids
    if kind != "unknown":
        assert processor.decode(ids_of(tokenizer, texts)) == tokenizer.batch_decode(ids_of(tokenizer, texts))
    if not scaffold:
        back = as_fast_or_scaffold(export.paths[0])
        assert back.get_vocab() == tokenizer.get_vocab()
        assert ids_of(back, texts) == ids_of(tokenizer, texts)
        again = hs.export(back, tmp_path / "again.model", "sentencepiece").paths[0]
        assert sentencepiece.SentencePieceProcessor(model_file=str(again)).encode(TEXTS) == processor.encode(
            TEXTS
        )


def test_a_model_of_sentencepiece_comes_back(english_text, texts, tmp_path):
    """As its trainer makes it: with a table that normalizes, and extra spaces removed."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english_text[:100_000].splitlines()),
        model_prefix=str(tmp_path / "theirs"),
        model_type="bpe",
        vocab_size=600,
        user_defined_symbols=[],
        minloglevel=2,
    )
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "theirs.model"))
    path = hs.export(tmp_path / "theirs.model", tmp_path / "ours.model", "sentencepiece").paths[0]
    ours = sentencepiece.SentencePieceProcessor(model_file=str(path))
    assert ours.encode(texts) == theirs.encode(texts)


def test_a_model_of_sentencepiece_goes_on_with_scaffolds(english_text, texts, tmp_path):
    """Its own library then runs Scaffold-BPE, after the spaces that it puts before texts."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(english_text[:100_000].splitlines()),
        model_prefix=str(tmp_path / "theirs"),
        model_type="bpe",
        vocab_size=600,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    extended = hs.extend(tmp_path / "theirs.model", texts, 900)
    export = hs.export(extended, tmp_path / "ours.model", "sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(export.paths[0]))
    assert extended.scaffold["demolish"]
    assert export.exact
    assert processor.encode(texts) == ids_of(extended, texts)
    theirs = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "theirs.model"))
    assert processor.id_to_piece([*range(600)]) == theirs.id_to_piece([*range(600)])


METASPACES = {
    "split": lambda scheme: pre_tokenizers.Metaspace(prepend_scheme=scheme),
    "unsplit": lambda scheme: pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False),
    "runs": lambda scheme: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False),
            pre_tokenizers.Split(Regex("▁+[^▁]*"), "isolated"),
        ]
    ),
}


def plain_of_characters(pre_tokenizer, normalizer=None):
    vocab = {token: i for i, token in enumerate(["<unk>", *BYTE_TOKENS, "▁", "a", "▁a"])}
    backend = Tokenizer(models.BPE(vocab, [("▁", "a")], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    backend.normalizer, backend.pre_tokenizer = normalizer, pre_tokenizer
    return backend


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
@pytest.mark.parametrize("cuts", METASPACES)
def test_a_program_that_puts_a_space_before_a_space_is_not_exact(cuts, scheme, tmp_path, recwarn):
    """Each pre-token's ids are the same; those of a text that begins with a space are not."""
    backend = plain_of_characters(METASPACES[cuts](scheme))
    programs = {"sentencepiece": "SentencePiece", "gguf": "llama.cpp"}
    for format, program in programs.items():
        export = hs.export(backend, tmp_path / format, format)
        assert (export.exact, export.agreement) == (scheme == "never", 1)
        warned = [str(warning.message) for warning in recwarn.list]
        assert export.exact != any(w.startswith(f"{program} puts a space before every") for w in warned)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece"))
    assert processor.encode("a a") == backend.encode("a a").ids
    assert (processor.encode(" a") == backend.encode(" a").ids) == (scheme == "never")


@pytest.mark.parametrize(
    "pre_tokenizer", [None, METASPACES["split"]("never"), METASPACES["runs"]("never")], ids=str
)
def test_a_normalizer_that_puts_a_space_before_every_text_is_exact(pre_tokenizer, tmp_path, recwarn):
    """As Llama 2 does."""
    steps = [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    backend = plain_of_characters(pre_tokenizer, normalizers.Sequence(steps))
    for format in ("sentencepiece", "gguf"):
        assert hs.export(backend, tmp_path / format, format).exact
    assert not recwarn.list
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "sentencepiece"))
    for text in ("", " ", "a", " a", "  a a", "▁a"):
        assert processor.encode(text) == backend.encode(text).ids


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_added_tokens_that_other_programs_look_for_otherwise_are_refused(flag, tmp_path):
    backend = plain_of_characters(METASPACES["split"]("never"))
    backend.add_tokens([AddedToken("<m>", normalized=False, **{flag: True})])
    of_bytes = backend_of(with_bytes(), [])
    of_bytes.add_tokens([AddedToken("<m>", **{flag: True})])
    cases = ((backend, "sentencepiece"), (backend, "gguf"), (of_bytes, "gguf"), (of_bytes, "tiktoken"))
    for tokenizer, format in cases:
        with pytest.raises(hs.ConfigurationError, match="look for '<m>' as this tokenizer does"):
            hs.export(tokenizer, tmp_path / "x", format)
    assert not hs.export(of_bytes, tmp_path / "x", "gguf", raw=True).exact


def test_what_sentencepiece_can_not_do_is_refused(english_text, tmp_path):
    for tokenizer, message in (
        (of_bytes(english_text, "gpt2", scaffold=True), "can't split text as PreTokenizer.gpt2. does"),
        (hs.train_tokenizer(["a b"], 3, alphabet="chars", initial_alphabet=()), "needs an unk_token"),
    ):
        with pytest.raises(hs.ConfigurationError, match=message):
            hs.export(tokenizer, tmp_path / "x.model", "sentencepiece")


# ---- GGUF


def test_gguf_holds_the_vocabulary(english_text, tmp_path):
    """tests/programs asks llama.cpp itself."""
    tokenizer = of_bytes(english_text, "llama3", scaffold=True)
    with pytest.raises(hs.ConfigurationError, match=r"llama.cpp would give other ids: it has scaffold"):
        hs.export(tokenizer, tmp_path / "x.gguf", "gguf")
    export = hs.export(tokenizer, tmp_path / "x.gguf", "gguf", raw=True)
    assert export.agreement == tokenizer.scaffold["raw_agreement"]
    fields = gguf.GGUFReader(export.paths[0]).fields
    found = {name.removeprefix("tokenizer.ggml."): field.contents() for name, field in fields.items()}
    assert (found["model"], found["pre"], found["eos_token_id"]) == ("gpt2", "llama-bpe", 0)
    assert found["tokens"] == tokenizer.convert_ids_to_tokens([*range(len(tokenizer))])
    state = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    assert found["merges"] == [" ".join(pair) for pair in state["merges"]]
    assert found["token_type"] == [gguf.TokenType.CONTROL] + [gguf.TokenType.NORMAL] * (len(tokenizer) - 1)


@pytest.mark.parametrize("preset", ["gpt2-digits", "gpt2"])
def test_gguf_tells_the_agreement_of_merges_alone(preset, english_text, tmp_path):
    tokenizer = of_bytes(english_text, preset, scaffold=True)
    export = hs.export(tokenizer, tmp_path / "x.gguf", "gguf", raw=True)
    assert export.agreement == tokenizer.scaffold["raw_agreement_merges_only"]
    plain = of_bytes(english_text, preset, scaffold=False)
    assert hs.export(plain, tmp_path / "x.gguf", "gguf").exact
    assert not export.exact


@pytest.mark.filterwarnings("ignore:llama.cpp puts a space")
def test_gguf_of_pieces(english_text):
    tokenizer = of_characters(english_text, "byte_fallback", scaffold=False)
    vocabulary, engine = gguf_vocabulary(Source(tokenizer))
    assert (vocabulary.model, engine, vocabulary.adds["space"]) == ("llama", None, True)
    by_score = sorted(range(len(vocabulary.tokens)), key=lambda i: -vocabulary.scores[i])
    merged = [vocabulary.tokens[i] for i in by_score][: len(tokenizer.scaffold["merges"])]
    assert merged == ["".join(pair) for pair in tokenizer.scaffold["merges"]]


def test_what_llama_cpp_can_not_do_is_refused(english_text, tmp_path):
    cases = {
        "llama.cpp has no name for PreTokenizer.gpt4o.": of_bytes(english_text, "gpt4o", scaffold=False),
        "needs byte_fallback": of_characters(english_text, "unknown", scaffold=False),
    }
    for message, tokenizer in cases.items():
        with pytest.raises(hs.ConfigurationError, match=message):
            hs.export(tokenizer, tmp_path / "x.gguf", "gguf")


# ---- the stock class


def test_a_raw_folder_needs_no_code(english_text, texts, tmp_path):
    tokenizer = of_bytes(english_text, "gpt2", scaffold=True)
    export = hs.export(tokenizer, tmp_path / "raw", "raw")
    assert {path.name for path in export.paths} == {"tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in (tmp_path / "raw").iterdir()} == {path.name for path in export.paths}
    config = json.loads((tmp_path / "raw" / "tokenizer_config.json").read_bytes())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert "auto_map" not in config
    assert config["raw_agreement"] == export.agreement == tokenizer.scaffold["raw_agreement"]
    loaded = AutoTokenizer.from_pretrained(tmp_path / "raw")
    assert type(loaded) is PreTrainedTokenizerFast
    assert (loaded.get_vocab(), loaded.eos_token) == (tokenizer.get_vocab(), SPECIAL)
    raw = [encoding.ids for encoding in tokenizer.backend_tokenizer.encode_batch(texts)]
    assert ids_of(loaded, texts) == raw != ids_of(tokenizer, texts)
    measured = hs.export(tokenizer, tmp_path / "raw", "raw", corpus=texts).agreement
    assert 0.9 < measured < 1


def test_a_raw_folder_never_replaces_an_exact_one(english_text, tmp_path):
    tokenizer = of_bytes(english_text, "gpt2", scaffold=True)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(hs.ConfigurationError, match="has a Scaffold-BPE tokenizer; give a new folder"):
        hs.export(tmp_path, tmp_path, "raw")
    assert ids_of(AutoTokenizer.from_pretrained(tmp_path), ["a"]) == ids_of(tokenizer, ["a"])


# ---- all of them


@pytest.mark.filterwarnings("ignore:.* puts a space")
@pytest.mark.parametrize("format", ["tiktoken", "sentencepiece", "gguf", "raw"])
def test_the_same_tokenizer_gives_the_same_bytes(format, english_text, tmp_path):
    make = of_characters if format == "sentencepiece" else of_bytes
    tokenizer = make(english_text, "byte_fallback" if format == "sentencepiece" else "gpt2", True)
    tokenizer.save_pretrained(tmp_path / "saved")
    written = []
    for name, either in (("first", tokenizer), ("second", str(tmp_path / "saved"))):
        (tmp_path / name).mkdir()
        paths = hs.export(either, tmp_path / name / "exported.x", format, raw=True).paths
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]


@pytest.mark.parametrize("format", ["tiktoken", "gguf"])
def test_a_converted_tokenizer_keeps_its_ids(format, english_text, texts, tmp_path):
    """Reserved tokens keep their ids from others, and text never becomes one."""
    plain = of_bytes(english_text, "gpt2", scaffold=False)
    converted = hs.convert_tokenizer(plain.backend_tokenizer, english_text[:100_000].splitlines()).tokenizer
    if format == "gguf":
        vocabulary, _ = gguf_vocabulary(Source(converted, raw=True))
        unused = [t for t, kind in zip(vocabulary.tokens, vocabulary.types, strict=True) if kind == 5]
        assert unused
        assert all(token.startswith("<|unused_") for token in unused)
        assert [*vocabulary.tokens] == converted.convert_ids_to_tokens([*range(len(converted))])
        return
    export = hs.export(converted, tmp_path / "x.tiktoken", "tiktoken", raw=True, corpus=texts)
    encoding = encoding_of(export.paths)
    assert export.agreement > 0.9
    ids = np.concatenate(encoding.encode_ordinary_batch([*texts, "<|unused_300|>"]))
    assert not any(token.startswith("<|unused_") for token in converted.convert_ids_to_tokens(ids))
    assert [encoding.decode(row) for row in encoding.encode_ordinary_batch(texts)] == texts


def test_an_unknown_format(english_text, tmp_path):
    with pytest.raises(hs.ConfigurationError, match="choose sentencepiece, tiktoken, gguf, raw"):
        hs.export("nothing", tmp_path / "x", "pickle")
