"""Models whose symbols are characters: the compiled encoder against `tokenizers` with the expanded model."""

import json
import random

import character_models
import oracle
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import hf_scaffold as hs
from hf_scaffold.engine import general
from hf_scaffold.engine.dropout import stream
from hf_scaffold.text.byte_level import BYTE_TO_SYMBOL, SYMBOL_TO_BYTE, bytes_to_symbols
from hf_scaffold.text.symbols import BYTE_TOKENS

REASONS = (
    None,
    "some added tokens are alike, or one is empty, once normalized",
    "a prefix is for the start of text, and there is a normalizer",
)


def twins(files):
    """The encoder of these files, and what encodes generally."""
    encoder = hs.Encoder(*files)
    return encoder, general.encoder(encoder._definition, frozenset())


def prepare(encoder):
    if encoder._bare.compiled is not None:
        encoder._bare.compiled.prepare()


@pytest.mark.parametrize("seed", range(40))
def test_any_model_encodes_as_tokenizers_does(seed):
    rng = random.Random(seed)
    for _ in range(10):
        files = character_models.random_model(rng)
        encoder, encode = twins(files)
        assert encoder.why_general in REASONS
        texts = [character_models.random_text(rng, *files) for _ in range(40)]
        expected = [encode(text) for text in texts]
        for _ in range(2):  # by merging; then prepared, and from the cache
            assert [encoder.encode(text, disallowed_special=()) for text in texts] == expected
            prepare(encoder)
        again, _ = twins(files)
        prepare(again)
        assert again.encode_batch(texts, disallowed_special=()) == expected


@pytest.mark.parametrize("seed", range(20))
def test_characters_of_the_byte_level_alphabet_may_have_affixes(seed):
    rng = random.Random(seed)
    for _ in range(10):
        alphabet = [*set(bytes_to_symbols("aé日 ".encode())), "ÿ", "þ"]  # UTF-8 has no bytes 0xFF and 0xFE
        tokenizer_json, scaffold_json = character_models.random_model(rng, characters=sorted(alphabet))
        content = json.loads(tokenizer_json)
        content |= {"normalizer": None, "added_tokens": []}
        content["pre_tokenizer"] = json.loads(pre_tokenizers.ByteLevel(False).__getstate__())
        files = json.dumps(content), scaffold_json
        encoder, encode = twins(files)
        assert encoder.why_general is None
        texts = ["".join(rng.choices("aé日 þÿb", k=rng.choice([1, 2, 5, 40]))) for _ in range(40)]
        expected = [encode(text) for text in texts]
        for _ in range(2):  # by merging; then prepared, and from the cache
            assert [encoder.encode(text) for text in texts] == expected
            prepare(encoder)
        again, _ = twins(files)
        prepare(again)
        assert again.encode_batch(texts) == expected


@pytest.mark.parametrize("seed", range(20))
def test_dropout_is_the_oracles(seed):
    """Of the whole text at once, whether or not it is encoded in parts without dropout."""
    rng = random.Random(seed)
    for _ in range(5):
        tokenizer_json, scaffold_json = character_models.random_model(
            rng, kind=rng.choice(["unk", "bytes", "drop"])
        )
        tokenizer, scaffold = json.loads(tokenizer_json), json.loads(scaffold_json)
        for part in ("normalizer", "pre_tokenizer", "added_tokens"):
            tokenizer[part] = None
        model = tokenizer["model"]
        prefix, suffix = model["continuing_subword_prefix"] or "", model["end_of_word_suffix"] or ""
        encoder = hs.Encoder(json.dumps(tokenizer), scaffold_json)
        for p in (0.1, 0.5, 0.9, 1.0):
            text = character_models.random_text(rng, tokenizer_json, scaffold_json)
            symbols = oracle.known_symbols(
                oracle.symbols_of(text, prefix, suffix),
                model["vocab"].keys() | scaffold["demolish"].keys(),
                model["unk_token"],
                model["fuse_unk"],
                model["byte_fallback"],
            )
            merges = [*map(tuple, scaffold["merges"])]
            drops = oracle.dice(p, stream(seed, text), 0)
            tokens = oracle.scaffolding_with_dropout(symbols, merges, drops, prefix)
            parts = [part for token in tokens for part in scaffold["demolish"].get(token, [token])]
            assert encoder.encode(text, dropout=p, seed=seed) == [model["vocab"][part] for part in parts]


def test_many_texts_that_grow_take_no_more_room_each_time():
    """Each is two thirds spaces, which become three bytes, and fills a task of its own."""
    vocab = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3}
    model = models.BPE(vocab, [("▁", "a")], unk_token="<unk>")
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.Metaspace()
    scaffold = {"version": 1, "merges": [["▁", "a"]], "demolish": {}}
    encoder = hs.Encoder(backend.to_str(), json.dumps(scaffold))
    assert encoder.why_general is None
    ids, offsets = encoder.encode_batch_to_arrays(["  a" * 22_000] * 50)
    assert ids.tolist() == [1, 3] * 22_000 * 50
    assert offsets.tolist() == [44_000 * i for i in range(51)]


@pytest.mark.parametrize("lacks", [None, "z"])
def test_bytes_need_no_unknown_token_if_all_have_one(lacks):
    vocab = {symbol: i for i, symbol in enumerate(["<unk>", *sorted(set(SYMBOL_TO_BYTE) - {lacks})])}
    backend = Tokenizer(models.BPE(vocab, [], unk_token="<unk>", fuse_unk=True))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    files = backend.to_str(), json.dumps({"version": 1, "merges": [], "demolish": {}})
    encoder, encode = twins(files)
    assert encoder.why_general is None
    prepare(encoder)
    for text in ("zzé z<unk>", "日本 zoo", " ".join(map(chr, range(0x900)))):
        assert encoder.encode(text) == encode(text)


@pytest.mark.parametrize("unk_token", [None, "▁"])
def test_text_is_not_cut_where_a_character_vanishes_between_metaspaces(unk_token):
    vocab = {"▁": 0, "a": 1, "▁▁": 2}
    settings = {"unk_token": unk_token} if unk_token else {}
    backend = Tokenizer(models.BPE(vocab, [("▁", "▁")], **settings))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(split=False)
    files = backend.to_str(), json.dumps({"version": 1, "merges": [["▁", "▁"]], "demolish": {}})
    encoder, encode = twins(files)
    for text in ("a z a", "a zz  z z a" * 100):
        assert encoder.encode(text) == encode(text)
        prepare(encoder)
        assert encoder.encode(text) == encode(text)
    assert 2 in encode("a z a")


def test_bytes_of_affixes_come_even_where_no_character_has_a_token():
    vocab = {token: i for i, token in enumerate(BYTE_TOKENS)}
    settings = {"byte_fallback": True, "continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"}
    backend = Tokenizer(models.BPE(vocab, [], **settings))
    encoder, encode = twins((backend.to_str(), json.dumps({"version": 1, "merges": [], "demolish": {}})))
    prepare(encoder)
    assert encoder.encode("né") == encode("né") == [*"n##é</w>".encode()]


def unsplit(merges, **settings):
    """The files of a model without a pre-tokenizer, over some letters and what these merges make."""
    tokens = ["<unk>", *"abce日本中文", *map("".join, merges)]
    model = models.BPE({token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>", **settings)
    scaffold = {"version": 1, "merges": [*map(list, merges)], "demolish": {}}
    return Tokenizer(model).to_str(), json.dumps(scaffold)


@pytest.mark.parametrize("fuse_unk", [False, True])
def test_text_is_encoded_in_parts_between_characters_that_no_rule_joins(fuse_unk):
    merges = [("日", "本"), ("中", "文"), ("日本", "中文"), ("a", "b")]
    encoder, encode = twins(unsplit(merges, fuse_unk=fuse_unk))
    prepare(encoder)
    for letters in (["日本中文", "日本中", "中文日", "本文e", "e", "語語", "ab"], ["ab", "ac", "語", "cab"]):
        text = "".join(random.Random(0).choices(letters, k=1000))
        assert encoder.encode(text) == encode(text)


@pytest.mark.parametrize("settings", [{"continuing_subword_prefix": "#"}, {"end_of_word_suffix": "e"}])
@pytest.mark.parametrize("letters", ["abcde", "日本中文", "日e"])
def test_text_with_affixes_is_encoded_as_tokenizers_does(letters, settings):
    encoder, encode = twins(unsplit([], **settings))
    prepare(encoder)
    assert encoder.encode(letters * 200) == encode(letters * 200)


WIDE = "日本中文字漢언어か、。\U00020000é▁a<" + "鿿"


@pytest.mark.parametrize("kind", ["drop", "unk", "bytes"])
@pytest.mark.parametrize("seed", range(25))
def test_models_of_wide_characters_encode_as_tokenizers_does(seed, kind):
    """Their pre-tokens are cut where no rule joins two characters, and most parts merged at once."""
    rng = random.Random(f"{kind} {seed}")
    for _ in range(4):
        files = character_models.random_model(rng, kind, WIDE)
        tokenizer = json.loads(files[0])
        tokenizer["pre_tokenizer"] = rng.choice([None, {"type": "WhitespaceSplit"}])
        encoder, encode = twins((json.dumps(tokenizer), files[1]))
        prepare(encoder)
        pieces = [*character_models.pieces(*files), *WIDE, *WIDE, "語", "🙂", "語語"]
        for n in (1, 2, 3, 5, 17, 18, 64, 65, 66, 130, 1000):
            few = rng.choices(pieces, k=rng.choice([3, len(pieces)]))
            text = "".join(rng.choices(few, k=n))
            assert encoder.encode(text, disallowed_special=()) == encode(text)


@pytest.mark.parametrize("seed", range(10))
def test_long_text_is_encoded_as_tokenizers_does(seed):
    rng = random.Random(seed)
    for _ in range(10):
        files = character_models.random_model(rng, rng.choice(["unk", "bytes", "drop"]))
        tokenizer = json.loads(files[0])
        tokenizer["pre_tokenizer"] = None
        encoder, encode = twins((json.dumps(tokenizer), files[1]))
        prepare(encoder)
        text = "".join(character_models.random_text(rng, *files) for _ in range(100))
        for _ in range(2):  # the second time from the cache
            assert encoder.encode(text, disallowed_special=()) == encode(text)


@pytest.mark.parametrize("seed", range(20))
def test_models_of_bytes_with_affixes_or_unknown_ones_encode_as_tokenizers_does(seed):
    rng = random.Random(seed)
    for _ in range(10):
        files = character_models.random_model(
            rng, characters=[*map(BYTE_TO_SYMBOL.get, " ab\n?é▁日".encode())]
        )
        tokenizer = json.loads(files[0])
        byte_level = pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < 0.3)
        tokenizer["pre_tokenizer"], tokenizer["normalizer"] = json.loads(byte_level.__getstate__()), None
        encoder, encode = twins((json.dumps(tokenizer), files[1]))
        assert encoder.why_general in REASONS
        symbols = json.loads(files[0])["model"]["vocab"]
        pieces = [
            bytes(map(SYMBOL_TO_BYTE.get, token)) for token in symbols if SYMBOL_TO_BYTE.keys() >= {*token}
        ]
        pieces = [
            *(piece.decode(errors="ignore") for piece in pieces),
            *character_models.STRANGE,
            *" ab\né日",
        ]
        texts = ["".join(rng.choices(pieces, k=rng.choice([1, 2, 3, 10, 100]))) for _ in range(30)]
        expected = [encode(text) for text in texts]
        for _ in range(2):
            assert [encoder.encode(text, disallowed_special=()) for text in texts] == expected
            prepare(encoder)


def test_dropout_of_bytes_with_affixes_is_the_oracles():
    symbols = [BYTE_TO_SYMBOL[byte] for byte in "low é".encode()]
    merges = [("l", "o"), ("lo", "w</w>"), ("Ã", "©</w>"), ("Ġ", "lo")]
    tokens = [*symbols, *(f"{symbol}</w>" for symbol in symbols), *map("".join, merges)]
    model = models.BPE({token: i for i, token in enumerate(tokens)}, merges, end_of_word_suffix="</w>")
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    scaffold = {"version": 1, "merges": [*map(list, merges)], "demolish": {}}
    encoder, encode = twins((backend.to_str(), json.dumps(scaffold)))
    assert encoder.why_general is None
    text = " lolowélé"
    assert encoder.encode(text) == encode(text)
    written = bytes_to_symbols(text.encode())
    for seed in range(20):
        drops = oracle.dice(0.5, stream(seed, text), 0)
        found = oracle.scaffolding_with_dropout([*written[:-1], f"{written[-1]}</w>"], merges, drops)
        assert encoder.encode(text, dropout=0.5, seed=seed) == [tokens.index(token) for token in found]


def test_where_tokens_of_bytes_with_affixes_stand_is_left_to_tokenizers():
    model = models.BPE({"l": 0, "o</w>": 1, "lo</w>": 2}, [("l", "o</w>")], end_of_word_suffix="</w>")
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    scaffold = {"version": 1, "merges": [["l", "o</w>"]], "demolish": {}}
    encoder = hs.Encoder(backend.to_str(), json.dumps(scaffold))
    assert encoder._bare.why_located_generally == "the model is one of characters"
    assert encoder.encode_with_offsets("lo").offsets == [(0, 2)]
