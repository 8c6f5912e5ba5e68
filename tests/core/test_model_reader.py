"""A model's numbers, read from its files' bytes: those that Python's reader gives, or none."""

import json
import random
from itertools import pairwise

import pytest

import hf_scaffold as hs
from hf_scaffold._core.model_reader import ModelReader
from hf_scaffold._utils.strict_json import parse
from hf_scaffold.engine.model import Model, ModelOfFiles

TEXT = 'a "quoted" wörd, a \\ and a\ttab; 日本 日本語, "quoted" again: \\n is "\\" and n'


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    hs.train_tokenizer([TEXT] * 3, 290, special_tokens=["<s>"]).save_pretrained(folder)
    return [(folder / f"{name}.json").read_bytes() for name in ("tokenizer", "scaffold")]


def spelled(contents):
    tokenizer, scaffold = map(parse, contents)
    return Model(tokenizer["model"]["vocab"], scaffold["merges"], scaffold["demolish"], {})


def numbers(model):
    byte_ids, rules, replacements, *_ = model.numbers
    if isinstance(replacements, tuple):
        first, ends, parts = replacements
        rows = [parts[begin:end].tolist() for begin, end in pairwise([0, *ends])]
        replacements = dict(enumerate(rows, first))
    return byte_ids.tolist(), rules.tolist(), replacements, model.first_scaffold, model.n_tokens


def read(contents):
    """None where the reader leaves them to Python's."""
    try:
        reader = ModelReader(*contents)
    except ValueError:
        return None
    return ModelOfFiles(reader, contents[1], {})


@pytest.mark.parametrize(
    "options", [{}, {"ensure_ascii": True}, {"indent": 3}, {"separators": (",", ":")}], ids=str
)
def test_the_numbers_and_tokens_are_those_of_python(contents, options):
    written = [json.dumps(json.loads(c), **{"ensure_ascii": False, **options}).encode() for c in contents]
    model, expected = read(written), spelled(contents)
    assert numbers(model) == numbers(expected)
    assert (model.vocab, model.merges, model.demolish) == (expected.vocab, expected.merges, expected.demolish)


def test_the_rest_is_the_document_without_the_large_values(contents):
    tokenizer, scaffold = map(json.loads, contents)
    tokenizer["model"] |= {"vocab": None, "merges": None}
    scaffold |= {"merges": None, "demolish": None}
    assert [*map(json.loads, ModelReader(*contents).rest)] == [tokenizer, scaffold]


def test_many_tokens_and_long_ones():
    rng = random.Random(6)
    tokens, merges, demolish = [*"abcé\n"], [], {}
    parts = {token: [token] for token in tokens}  # the public tokens that each becomes
    while len(tokens) < 8000:
        left, right = rng.choice(tokens), rng.choice(tokens)
        made = left + right
        if made in parts or len(made) > 60:
            continue
        tokens.append(made)
        merges.append([left, right])
        if rng.random() < 0.2:
            parts[made] = demolish[made] = parts[left] + parts[right]
        else:
            parts[made] = [made]
    vocab = {token: i for i, token in enumerate(sorted(parts.keys() - demolish.keys()))}
    assert all(any(len(token) > 16 for token in some) for some in (vocab, demolish))
    contents = [{"model": {"vocab": vocab, "merges": []}}, {"demolish": demolish, "merges": merges}]
    for ensure_ascii in (False, True):
        written = [json.dumps(content, ensure_ascii=ensure_ascii).encode() for content in contents]
        assert numbers(read(written)) == numbers(spelled(written))
    merges.append(merges[4000])
    assert read([written[0], json.dumps(contents[1]).encode()]) is None


def changed(rng, data):
    """The bytes with one change, most of them where JSON has its marks."""
    marks = (
        [i for i, c in enumerate(data) if c in b'[]{}:,"\\0123'] if rng.random() < 0.7 else range(len(data))
    )
    at = rng.choice(marks)
    new = rng.choice(
        [b"", b"", *b'[ ] { } : , " \\ 0 1 - . e null \\u0041 \\ud800 \\" \x00 \n \xff "a" [] {}'.split(b" ")]
    )
    return data[:at] + new + data[at + rng.randint(0, 2) :]


def test_what_is_changed_is_read_as_python_reads_it_or_not_at_all(contents):
    rng, n_read = random.Random(5), 0
    for _ in range(6000):
        which = rng.randrange(2)
        documents = [changed(rng, c) if i == which else c for i, c in enumerate(contents)]
        model = read(documents)
        if model is None:
            continue
        try:
            (*map(parse, ModelReader(*documents).rest),)
        except ValueError:
            continue  # a reader of the rest refuses it
        n_read += 1
        expected = spelled(documents)
        assert numbers(model) == numbers(expected)
        assert (model.vocab, model.merges, model.demolish) == (
            expected.vocab,
            expected.merges,
            expected.demolish,
        )
    assert n_read > 500


def document(vocab='{"a": 0, "b": 1, "ab": 2}', merges="[]", more=""):
    return f'{{"model": {{"vocab": {vocab}, "merges": {merges}}}{more}}}'.encode()


def scaffold(demolish="{}", merges='[["a", "b"]]', more=""):
    return f'{{"demolish": {demolish}, "merges": {merges}{more}}}'.encode()


@pytest.mark.parametrize(
    ("tokenizer", "of_scaffold"),
    [
        (document(), scaffold()),
        (document(merges='["a b"]'), scaffold()),
        (document(vocab='{"\\u0061": 0, "b": 1, "a\\u0062": 2}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1}'), scaffold(demolish='{"ab": ["a", "b"]}')),
    ],
)
def test_takes(tokenizer, of_scaffold):
    assert read([tokenizer, of_scaffold]).numbers.rules.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("tokenizer", "of_scaffold"),
    [
        (document(vocab='{"a": 0, "b": 1, "ab": 2, "a": 0}'), scaffold()),  # twice
        (document(vocab='{"a": 0, "b": 1, "ab": 2147483647}'), scaffold()),  # no id comes after it
        (document(vocab='{"a": 0, "b": 1, "ab": 9999999999999999999999}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1, "ab": -2}'), scaffold()),
        (document(vocab='{"a": 0, "b": 01, "ab": 2}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1.0, "ab": 2}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1, "ab": 2, "": 3}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1, "ab": 2, "\\ud800": 3}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1, "ab": 2, "\t": 3}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1, "ab": 2, "\\x": 3}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1, "ab": 2,}'), scaffold()),
        (document(vocab='{"a": 0, "b": 1, "ab": 2, "\\').rstrip(b"}"), scaffold()),
        (document(more=', "x": "\t"'), scaffold()),
        (document(merges='["a b", 1]'), scaffold()),
        (document(more="]"), scaffold()),
        (document() + b"x", scaffold()),
        (b"\xff" + document(), scaffold()),
        (document(more=f', "x": {"[" * 10**6}'), scaffold()),  # no end of the stack
        (b"", scaffold()),
        (document(), b""),
        (document(), scaffold() + b"x"),
        (document(), scaffold(merges='[["a", "b", "ab"]]')),
        (document(), scaffold(merges='[["a"]]')),
        (document(), scaffold(merges='[["a", "b"], ["a", "b"]]')),
        (document(), scaffold(merges='[["b", "a"]]')),  # makes what is no token
        (document(), scaffold(merges='[["a", "c"]]')),
        (document(), scaffold(demolish='{"ab": ["a", "b"]}')),  # is public
        (document(vocab='{"a": 0, "b": 1}'), scaffold(demolish='{"ab": ["b", "a"]}')),  # spells another
        (document(vocab='{"a": 0, "b": 1}'), scaffold(demolish='{"ab": ["ab"]}')),
        (document(vocab='{"a": 0, "b": 1}'), scaffold(demolish='{"ab": []}')),
        (document(), scaffold(demolish='{"aa": ["a", "a"]}')),  # no merge makes it
        (document(), b'{"merges": [["a", "b"]]}'),
        (document(), b'{"demolish": {}}'),
        (b'{"model": {"merges": []}}', b'{"demolish": {}, "merges": []}'),
        (b"{}", b'{"demolish": {}, "merges": []}'),
        (document(vocab='{"a": 0, "b": 1}'), b'{"merges": [["a", "b"]], "demolish": {"ab": ["a", "b"]}}'),
    ],
)  # fmt: skip
def test_leaves_to_python(tokenizer, of_scaffold):
    assert read([tokenizer, of_scaffold]) is None


@pytest.mark.parametrize(
    ("others", "expected"),
    [([], True), ([3], True), ([4, 3], True), ([2], False), ([4], False), ([3, 3], False), ([-1], False)],
    ids=str,
)
def test_ids_without_gaps(others, expected):
    assert ModelReader(document(), scaffold()).fill(others) is expected


def test_gaps_in_the_vocabulary_are_seen():
    assert not ModelReader(document('{"a": 0, "b": 1, "ab": 3}'), scaffold()).fill([])
    assert ModelReader(document('{"a": 0, "b": 1, "ab": 3}'), scaffold()).fill([2])


def test_public_ids():
    reader = ModelReader(document('{"a": 0, "b": 1}'), scaffold('{"ab": ["a", "b"]}'))
    assert [reader.public_id(token) for token in ("a", "b", "ab", "", "c")] == [0, 1, None, None, None]
    assert (reader.n_tokens, reader.first_scaffold) == (2, 2)
