"""What tiktoken makes of a file is what hf_scaffold makes of it; malformed files are refused by line."""

import base64
import json

import pytest
import tiktoken
from many_scripts import TEXTS
from tiktoken_ext import openai_public

import hf_scaffold as hs
from hf_scaffold.lifecycle.models import as_fast
from hf_scaffold.text.byte_level import symbols_to_bytes
from hf_scaffold.text.presets import GPT4O_PATTERN

N_TOKENS = 700
LINE_END = "x\n    "  # at the end of a text, where cl100k keeps white space together
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$"
    r"|\s*[\r\n]|\s+(?!\S)|\s"
)
PATTERNS = {"r50k_base": openai_public.r50k_pat_str, "cl100k_base": CL100K, "o200k_base": GPT4O_PATTERN}


@pytest.fixture(scope="module")
def ranks(english_text):
    counts = hs.count([english_text[:200_000], *TEXTS, *[LINE_END] * 300], pre_tokenizer="gpt2")
    tokens = hs.train(counts, N_TOKENS, scaffold=False).tokens
    return {symbols_to_bytes(token): rank for rank, token in enumerate(tokens)}


def write(path, ranks, **beside):
    path.write_bytes(b"".join(b"%s %d\n" % (base64.b64encode(t), rank) for t, rank in ranks.items()))
    if beside:
        path.with_name(f"{path.name}.json").write_text(json.dumps(beside), encoding="utf-8")
    return path


def ids_of(path, texts):
    return as_fast(path)(texts, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("name", PATTERNS)
def test_files_by_the_names_of_tiktoken_are_split_as_there(name, ranks, english_text, tmp_path):
    path = write(tmp_path / f"{name}.tiktoken", ranks)
    encoding = tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={})
    texts = [*TEXTS, LINE_END, english_text[200_000:300_000]]
    assert ids_of(path, texts) == encoding.encode_ordinary_batch(texts)
    assert as_fast(path).get_vocab().keys() == {*map(tiktoken_spelling, ranks)}
    assert [as_fast(path).decode(ids) for ids in ids_of(path, texts)] == texts


def tiktoken_spelling(token):
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    return "".join(bytes_to_unicode()[byte] for byte in token)


PATTERNS_BESIDE = {
    "as tiktoken spells it": CL100K,
    "a known one": GPT4O_PATTERN,
    "leaves out digits": r" ?\p{L}+|[^\p{L}\p{N}]",
}


@pytest.mark.parametrize("case", PATTERNS_BESIDE)
def test_a_pattern_and_special_tokens_may_stand_beside_a_file(case, ranks, tmp_path):
    special = {"<s>": N_TOKENS + 5, "<|fim|>": N_TOKENS}
    pattern = PATTERNS_BESIDE[case]
    path = write(tmp_path / "mine.tiktoken", ranks, pat_str=pattern, special_tokens=special)
    encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    texts = [*TEXTS, "<s>it<|fim|><s> <s"]
    assert ids_of(path, texts) == encoding.encode_batch(texts, allowed_special="all")
    assert as_fast(path).convert_tokens_to_ids([*special]) == [*special.values()]


def test_a_file_is_read_as_it_is_now(ranks, tmp_path):
    """tiktoken keeps what it has read, by the file's path."""
    path = write(tmp_path / "gpt2.tiktoken", ranks)
    before = ids_of(path, ["the house"])
    swapped = dict(zip(ranks, reversed(range(N_TOKENS)), strict=True))
    write(path, swapped)
    assert ids_of(path, ["the house"]) != before


def test_llama_3_has_such_a_file_by_another_name(ranks, tmp_path):
    path = write(tmp_path / "tokenizer.model", ranks, pat_str=CL100K)
    assert ids_of(path, ["the house"]) == ids_of(write(tmp_path / "cl100k.tiktoken", ranks), ["the house"])


def test_every_way_in_takes_a_file(ranks, english_text, tmp_path):
    path = write(tmp_path / "gpt2.tiktoken", ranks)
    text = [english_text[:50_000]]
    audit = hs.audit_tokenizer(path, text)
    conversion = hs.convert_tokenizer(str(path), text)
    assert {token.token for token in audit.scaffolds} == {*conversion.tokenizer.scaffold["demolish"]}
    assert len(hs.extend(path, text, N_TOKENS + 50)) == N_TOKENS + 50
    assert len(hs.prune(path, text, N_TOKENS - 50).removed) == 50
    assert hs.load_tokenizer(path).encode("the house").ids == ids_of(path, ["the house"])[0]


# ---- refusals


def test_a_pattern_is_not_guessed(ranks, tmp_path):
    path = write(tmp_path / "mine.tiktoken", ranks)
    with pytest.raises(hs.ConfigurationError, match=r"doesn't say how text is split.*mine.tiktoken.json"):
        as_fast(path)


LINES = {
    "no base64": (b"a!== 300", "line 300 doesn't begin with a token in base64"),
    "cut short": (b"YWI", "line 300 is not a token and a rank"),
    "three words": (b"YWI= 300 1", "line 300 is not a token and a rank"),
    "an empty token": (b"==== 300", "line 300 doesn't begin with a token in base64"),
    "no number": (b"YWI= x", "line 300 has a rank that is no number"),
    "below 0": (b"YWI= -1", "line 300 has a rank that is no number"),
    "a huge number": (b"YWI= " + b"9" * 1_000_000, "line 300 has a rank that is no number"),
    "beyond 32 bits": (b"YWI= 4294967296", "line 300 has a rank that is no number"),
    "a huge token": (base64.b64encode(b"a" * 2000) + b" 9999", "line 300 has a token of 2,000 bytes"),
    "a rank again": (b"enp6enp6 7", "line 300 has the rank of line 8"),
    "a token again": (b"AA== 9999", "line 300 has the token of line "),
    "out of proportion": (b"enp6enp6 2000000000", "too large for"),
}


@pytest.mark.parametrize("case", LINES)
def test_a_malformed_line_is_named(case, ranks, tmp_path):
    line, message = LINES[case]
    path = write(tmp_path / "gpt2.tiktoken", ranks)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:299], line + b"\n", *lines[299:]]))
    with pytest.raises(hs.ConfigurationError, match=message) as caught:
        as_fast(path)
    assert len(str(caught.value)) < 500


def test_a_truncated_file_lacks_bytes(ranks, tmp_path):
    path = write(tmp_path / "gpt2.tiktoken", ranks)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:200]))
    with pytest.raises(hs.ConfigurationError, match=r"gpt2.tiktoken .*no line has the byte 0x.. alone"):
        as_fast(path)


BESIDE = {
    "no pattern": ({"special_tokens": {}}, 'there is no "pat_str"'),
    "no object": ([], 'there is no "pat_str"'),
    "a list of tokens": ({"pat_str": "a", "special_tokens": ["<s>"]}, "must be an object"),
    "no id": ({"pat_str": "a", "special_tokens": {"<s>": "7"}}, "'<s>' can't be a special token"),
    "true": ({"pat_str": "a", "special_tokens": {"<s>": True}}, "'<s>' can't be a special token"),
    "a huge id": ({"pat_str": "a", "special_tokens": {"<s>": 10**30}}, "'<s>' can't be a special token"),
    "the id of a rank": ({"pat_str": "a", "special_tokens": {"<s>": 7}}, "another token has the id of '<s>'"),
    "an id twice": ({"pat_str": "a", "special_tokens": {"<s>": 999, "<t>": 999}}, "another token has the id"),
    "a token of text": ({"pat_str": "a", "special_tokens": {"Ġthe": 999}}, "is a token of text, too"),
    "no regex": ({"pat_str": "(a"}, "is no pattern"),
    "possessive": ({"pat_str": r"\p{N}{1,3}+|\s"}, "means one thing to tiktoken"),
    "an anchor": ({"pat_str": r"[$^]a\$|\s+$"}, "means one thing to tiktoken"),
}


@pytest.mark.parametrize("case", BESIDE)
def test_malformed_settings_are_refused(case, ranks, tmp_path):
    content, message = BESIDE[case]
    path = write(tmp_path / "mine.tiktoken", ranks, **{"pat_str": "a"})
    path.with_name("mine.tiktoken.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(hs.ConfigurationError, match=message):
        as_fast(path)


def test_settings_that_are_no_json_are_refused(ranks, tmp_path):
    path = write(tmp_path / "mine.tiktoken", ranks, pat_str="a")
    path.with_name("mine.tiktoken.json").write_bytes(b'{"pat_str": "a", "pat_str": "b"}')
    with pytest.raises(hs.ConfigurationError, match=r"mine.tiktoken.json can't be read: .*twice"):
        as_fast(path)
