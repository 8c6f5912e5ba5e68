"""The native encoder against the slow reference and against `tokenizers`."""

import copy
import itertools
import pickle
import random
import threading

import numpy as np
import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models

import hf_scaffold as hs
from hf_scaffold._core.pretoken_encoder import PretokenEncoder as Unprepared
from hf_scaffold.text.byte_level import bytes_to_symbols, symbols_to_bytes


class PretokenEncoder(Unprepared):
    """Two ways lead to the same tokens: merging, and after prepare() the longest tokens."""

    def encode(self, data, offsets):
        merged = super().encode(data, offsets)
        self.prepare()
        found = super().encode(data, offsets)
        assert [each.tolist() for each in found] == [each.tolist() for each in merged]
        return found


@pytest.fixture(scope="module")
def bpe(english_text):
    return hs.train(hs.count([english_text]), 1500, special_tokens=["<|endoftext|>", "…"])


def expanded_backend(bpe):
    return Tokenizer(models.BPE(vocab=bpe.vocab, merges=bpe.merges))


def test_equals_tokenizers_over_every_pretoken_of_real_text(bpe, english_text):
    pretokens = [pretoken for pretoken, _ in hs.count([english_text]).items()]
    strings = [bytes_to_symbols(pretoken) for pretoken in pretokens]
    exact = [
        [part for token in encoding.tokens for part in bpe.demolish(token)]
        for encoding in expanded_backend(bpe).encode_batch(strings)
    ]
    assert [[bpe.tokens[i] for i in ids] for ids in bpe.encode(pretokens)] == exact
    raw, ends = bpe.raw_pretoken_encoder.encode(b"".join(pretokens), np.cumsum([0, *map(len, pretokens)]))
    assert [raw[a:b].tolist() for a, b in itertools.pairwise(ends)] == [
        encoding.ids for encoding in Tokenizer(bpe.raw_model()).encode_batch(strings)
    ]


def test_the_raw_encoder_takes_special_tokens_whole_where_text_spells_them(bpe):
    """As a plain BPE engine does; one with a character that stands for no byte can't be spelled."""
    pretokens = [token.encode() for token in ("<|endoftext|>", "…", "<|endoftext", "house")]
    raw, ends = bpe.raw_pretoken_encoder.encode(b"".join(pretokens), np.cumsum([0, *map(len, pretokens)]))
    backend = Tokenizer(bpe.raw_model())
    expected = [backend.encode(bytes_to_symbols(pretoken)).ids for pretoken in pretokens]
    assert [raw[a:b].tolist() for a, b in itertools.pairwise(ends)] == expected
    assert expected[0] == [bpe.vocab["<|endoftext|>"]]


@pytest.mark.parametrize("n", [1, 5, 30, 47, 48, 49, 50, 200, 3000])
def test_equals_tokenizers_on_tokens_glued_together(bpe, n):
    rng = random.Random(n)
    pieces = list(bpe.vocab)[2:]
    backend = expanded_backend(bpe)
    glued = ["".join(rng.choices(pieces, k=n)) for _ in range(max(3, 600 // n))]
    for text in glued:
        expected = [part for token in backend.encode(text).tokens for part in bpe.demolish(token)]
        [ids] = bpe.encode([symbols_to_bytes(text)])
        assert [bpe.tokens[i] for i in ids] == expected


@given(
    st.lists(st.tuples(st.text("abc", min_size=1, max_size=4), st.text("abc", min_size=1, max_size=4))),
    st.data(),
)
@settings(max_examples=300)
def test_any_rules_in_any_order_equal_the_slow_reference(pairs, data):
    """Rules from elsewhere: a part may be made after its rule, a string may have several rules."""
    rules = list(dict.fromkeys(pairs))
    tokens = list(
        dict.fromkeys(["a", "b", "c", *(part for rule in rules for part in (*rule, "".join(rule)))])
    )
    ids = {token: i for i, token in enumerate(tokens)}
    byte_ids = np.full(256, -1, np.int32)
    byte_ids[[97, 98, 99]] = [ids["a"], ids["b"], ids["c"]]
    table = np.array([(ids[a], ids[b], ids[a + b]) for a, b in rules], np.int32).reshape(-1, 3)
    encoder = PretokenEncoder(byte_ids, table, {}, {})
    for size in (8, 120):
        text = data.draw(st.text("abc", max_size=size))
        found, _ = encoder.encode(text.encode(), np.array([0, len(text)]))
        assert [tokens[i] for i in found] == oracle.scaffolding(text, rules)


@pytest.mark.parametrize("n", [3, 47, 49, 99])
def test_of_places_that_overlap_the_leftmost_is_merged(n):
    byte_ids = np.full(256, -1, np.int32)
    byte_ids[97] = 0
    encoder = PretokenEncoder(byte_ids, np.array([(0, 0, 1)], np.int32), {}, {})
    found, _ = encoder.encode(b"a" * n, np.array([0, n]))
    assert found.tolist() == [1] * (n // 2) + [0]


@pytest.mark.parametrize("last", [4, 5000])
def test_tokens_between_those_that_are_replaced_stay(last):
    """Whether ids lie close together or far apart: see replacements.hpp."""
    byte_ids = np.full(256, -1, np.int32)
    byte_ids[[97, 98, 99]] = [1, 3, last]
    encoder = PretokenEncoder(byte_ids, np.zeros((0, 3), np.int32), {1: [7, 7], last: [8]}, {})
    found, _ = encoder.encode(b"abcb", np.array([0, 4]))
    assert found.tolist() == [7, 7, 3, 8, 3]


def merged(ids, rules):
    """What any rules make of any ids: the first rule first, the leftmost pair first."""
    ranks = {}
    for rank, (left, right, token) in enumerate(rules):
        ranks.setdefault((left, right), (rank, token))
    ids = list(ids)
    while True:
        found = [(*ranks[pair], i) for i, pair in enumerate(itertools.pairwise(ids)) if pair in ranks]
        if not found:
            return ids
        _, token, i = min(found, key=lambda each: (each[0], each[2]))
        ids[i : i + 2] = [token]


def runs_of(rng, letters, n):
    return "".join(rng.choice(letters) * rng.randint(1, n) for _ in range(rng.randint(1, 4)))


@pytest.mark.parametrize("seed", range(6))
def test_long_pretokens_merge_as_the_slow_reference_does(seed):
    """Runs of one byte, and pieces that no token reaches across; by rules as trained, and by any triples."""
    rng = random.Random(seed)
    for _ in range(150):
        letters = rng.choice(["a", "ab", "abc"])
        byte_ids = np.full(256, -1, np.int32)
        for byte in letters.encode():
            byte_ids[byte] = rng.choice([byte, byte, byte, 97, -1])  # two bytes of one id, bytes of none
        strings = {byte_ids[byte]: chr(byte) for byte in letters.encode() if byte_ids[byte] >= 0}
        rules = []
        for token in range(200, 200 + rng.randint(0, 12)):
            if strings:
                left, right = rng.choices(list(strings), k=2)
                made = strings[left] + strings[right]
                same = [known for known, string in strings.items() if string == made]
                rules.append((left, right, same[0] if same else token))
                strings.setdefault(rules[-1][2], made)
        if rules and rng.random() < 0.4:  # foreign ones
            known = [*strings, 250, 1 << 30]
            for _ in range(rng.randint(1, 3)):
                rules.insert(rng.randint(0, len(rules)), tuple(rng.choices(known, k=3)))
        table = np.array(rules, np.int32).reshape(-1, 3)
        encoder = PretokenEncoder(byte_ids, table, {}, {})
        texts = ["".join(rng.choices(letters, k=n)) for n in (3, 30, 90)]
        texts += [rng.choice(letters) * n for n in (2, 48, 49, 50, 51, 64, 97, 130)]
        texts += [runs_of(rng, letters, 70) for _ in range(3)]
        for text in texts:
            found, _ = encoder.encode(text.encode(), np.array([0, len(text)], np.int64))
            ids = [byte_ids[byte] for byte in text.encode() if byte_ids[byte] >= 0]
            assert found.tolist() == merged(ids, rules), (text, rules)


@pytest.mark.parametrize("seed", range(6))
def test_rules_in_an_order_as_trained_equal_the_slow_reference(seed):
    """Parts come before what they make, some strings have several rules, and some rules never apply."""
    rng = random.Random(seed)
    for _ in range(150):
        letters = "abcd"[: rng.randint(1, 4)]
        ids = {letter: i for i, letter in enumerate(letters)}
        rules = []
        for _ in range(rng.randint(1, 30)):
            left, right = rng.choice([*ids][-3:] if rng.random() < 0.3 else [*ids]), rng.choice([*ids])
            if len(left + right) > 12:
                continue
            rules.append((left, right))
            ids.setdefault(left + right, len(ids))
            cut = rng.randint(1, len(left + right))
            if rng.random() < 0.25 and ((left + right)[:cut], (left + right)[cut:]) != (left, right):
                rules.append(((left + right)[:cut], (left + right)[cut:]))
        rules = [rule for rule in dict.fromkeys(rules) if ids.keys() >= {*rule}]
        if rng.random() < 0.2:
            i, j = rng.choices(range(len(rules)), k=2)
            rules[i], rules[j] = rules[j], rules[i]
        byte_ids = np.full(256, -1, np.int32)
        byte_ids[97 : 97 + len(letters)] = range(len(letters))
        table = np.array([(ids[a], ids[b], ids[a + b]) for a, b in rules], np.int32).reshape(-1, 3)
        encoder, tokens = PretokenEncoder(byte_ids, table, {}, {}), list(ids)
        for n in (*range(1, 9), 20, 60):
            text = "".join(rng.choices(letters if rng.random() < 0.5 else tokens, k=n))
            found, _ = encoder.encode(text.encode(), np.array([0, len(text)]))
            assert [tokens[i] for i in found] == oracle.scaffolding(text, rules), rules


def test_a_token_that_ends_wrong_gives_way_to_a_shorter_one():
    """Here `abc` never comes before `d`; the tokens before it change, too."""
    rules = [(2, 3, 4), (4, 0, 5), (0, 1, 6), (6, 2, 7)]  # c+d, cd+a, a+b, ab+c
    byte_ids = np.full(256, -1, np.int32)
    byte_ids[97:101] = range(4)
    encoder = PretokenEncoder(byte_ids, np.array(rules, np.int32), {}, {})
    found, _ = encoder.encode(b"abcdabcabcd", np.array([0, 3, 4, 7, 11]))
    assert found.tolist() == [7, 3, 7, 6, 4]
    found, _ = encoder.encode(b"abcdabcabcd", np.array([0, 11]))
    assert found.tolist() == [6, 5, 1, 2, 6, 4]


def test_tokens_of_thousands_of_bytes():
    """The linear search keeps a token's length beside its number, up to 2,046 bytes."""
    powers = ["ab" * 2**k for k in range(12)]
    rules = [("a", "b"), *((power, power) for power in powers[:-1]), (powers[9], "c")]
    for power in powers[8::-1]:
        rules.append(("".join(rules[-1]), power))
    rules += [("c", powers[10]), (powers[11], "c")]
    tokens = ["a", "b", "c", *map("".join, rules)]
    assert {1024, 2045, 2047, 2048, 2049, 4096, 4097} <= {*map(len, tokens)}
    ids = {token: i for i, token in enumerate(tokens)}
    byte_ids = np.full(256, -1, np.int32)
    byte_ids[97:100] = range(3)
    encoder = PretokenEncoder(
        byte_ids, np.array([(ids[a], ids[b], ids[a + b]) for a, b in rules], np.int32), {}, {}
    )
    for token in tokens:
        for text in (token, token + "c" + powers[9], "b" + token + "a", powers[11] + token):
            found, _ = encoder.encode(text.encode(), np.array([0, len(text)]))
            assert "".join(tokens[i] for i in found) == text
            assert text != token or [tokens[i] for i in found] == [token]


@pytest.mark.parametrize("to_the_left", [True, False])
def test_rules_that_make_one_token_in_many_steps_take_no_quadratic_time(to_the_left):
    letters = range(33, 233)
    byte_ids = np.full(256, -1, np.int32)
    byte_ids[letters] = letters
    rules, made = [], letters[0] if to_the_left else letters[-1]
    for i, letter in enumerate(letters[1:] if to_the_left else letters[-2::-1]):
        rules.append((made, letter, 300 + i) if to_the_left else (letter, made, 300 + i))
        made = 300 + i
    encoder = PretokenEncoder(byte_ids, np.array(rules, np.int32), {}, {})
    for word, n_tokens in ((letters, 1), (letters[:-1], 1 if to_the_left else 199)):
        text = bytes(word) * 5000
        found, _ = encoder.encode(text, np.array([0, len(text)]))
        assert len(found) == 5000 * n_tokens


def test_of_two_rules_for_a_pair_the_first_counts():
    byte_ids = np.full(256, -1, np.int32)
    byte_ids[[97, 98]] = [0, 1]
    rules = np.array([(0, 1, 2), (0, 1, 3)], np.int32)
    found, _ = PretokenEncoder(byte_ids, rules, {}, {}).encode(b"ab" * 40, np.array([0, 2, 80]))
    assert found.tolist() == [2] * 40


def test_a_long_pretoken_takes_no_quadratic_time(bpe):
    [ids] = bpe.encode([b"ab" * 500_000])
    assert b"".join(symbols_to_bytes(bpe.tokens[i]) for i in ids) == b"ab" * 500_000


@pytest.mark.parametrize("affix", ["prefix", "suffix", None])
def test_characters_may_be_other_symbols_where_they_continue_or_end_a_pretoken(affix):
    letters = "日本語中文"
    symbols = {}
    for i, letter in enumerate(letters):
        for continues, ends in itertools.product([False, True], repeat=2):
            is_other = continues if affix == "prefix" else ends and affix == "suffix"
            symbols[letter.encode(), continues, ends] = i + len(letters) * is_other
    rules = [(0, 1, 20), (5, 6, 21), (0, 6, 22), (20, 2, 23), (20, 7, 24), (21, 8, 25)]
    encoder = PretokenEncoder(symbols, np.array(rules, np.int32), {}, {}, 30)
    rng = random.Random(str(affix))
    pretokens = [
        "".join(rng.choices(letters[: rng.choice([2, 5])], k=rng.randint(1, 12))) for _ in range(300)
    ]
    encoder.encode("".join(pretokens).encode(), np.cumsum([0, *(len(text.encode()) for text in pretokens)]))


def test_bytes_without_a_token_are_dropped():
    bpe = hs.train(hs.PreTokenCounts.from_mapping({"ab": 3, "b": 1}), 3, initial_alphabet=())
    assert bpe.encode([b"axb", b"", b"x"]) == [[bpe.vocab["ab"]], [], []]


def test_offsets_that_do_not_fit_are_refused(bpe):
    for offsets in ([], [0, 2], [1, 3], [0, 4], [0, 5, 3], [0, -1, 3]):
        with pytest.raises(ValueError, match="offsets must ascend"):
            bpe.pretoken_encoder.encode(b"abc", np.array(offsets, np.int64))
    with pytest.raises(ValueError, match="instead of 256"):
        PretokenEncoder(np.zeros(3, np.int32), np.zeros((0, 3), np.int32), {}, {})


def test_threads_share_one_encoder(bpe, english_text):
    pretokens = [pretoken for pretoken, _ in hs.count([english_text[:100_000]]).items()]
    expected = bpe.encode(pretokens)
    results = [None] * 4

    def work(i):
        results[i] = bpe.encode(pretokens)

    threads = [threading.Thread(target=work, args=[i]) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 4


def test_copies_encode_alike(bpe):
    expected = bpe.encode([b" Arizona"])
    assert copy.deepcopy(bpe).encode([b" Arizona"]) == expected
    assert pickle.loads(pickle.dumps(bpe)).encode([b" Arizona"]) == expected
