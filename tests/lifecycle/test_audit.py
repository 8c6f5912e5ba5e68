"""The audit of existing tokenizers, and their Scaffold versions: by hand, and against the slow reference."""

import itertools
import json

import numpy as np
import oracle
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_trainer import ARIZONA, train
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, GPT2Tokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs
from hf_scaffold.cli import commands
from hf_scaffold.cli.workflow import load_artifact
from hf_scaffold.errors import ConfigurationError, CorpusError
from hf_scaffold.lifecycle.audit import audit_tokenizer
from hf_scaffold.lifecycle.conversion import convert_tokenizer
from hf_scaffold.text.byte_level import bytes_to_symbols


def plain(merges, alphabet, prefix="", **settings):
    """A tokenizer of these merges, which splits text at spaces."""
    tokens = dict.fromkeys([*alphabet, *(oracle.join(left, right, prefix) for left, right in merges)])
    vocab = {token: i for i, token in enumerate(tokens)}
    if prefix:
        settings["continuing_subword_prefix"] = prefix
    tokenizer = Tokenizer(models.BPE(vocab, merges, **settings))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def table(counts, tokenizer):
    return hs.PreTokenCounts.from_mapping(
        counts, pre_tokenizer=hs.get_pre_tokenizer(tokenizer, alphabet="chars")
    )


def replayed(counts, merges):
    """The slow reference: every rule everywhere, in rank order; scaffolds by the head of plain training."""
    sequences = [(list(text), n) for text, n in counts.items()]
    parts = set()
    for left, right in merges:
        if oracle.pair_frequencies(sequences)[left, right]:
            parts |= {left, right}
        sequences = [(oracle.replace(symbols, left, right), n) for symbols, n in sequences]
    frequencies = oracle.token_frequencies(sequences)
    alphabet = {symbol for text in counts for symbol in text}
    made = {left + right for left, right in merges}
    trained = oracle.train(
        {tuple(text): n for text, n in counts.items()}, len(alphabet) + len(made), scaffold=False
    )
    head = max([1, *oracle.pair_frequencies(trained.sequences).values()])
    return {token for token in made & parts if frequencies[token] < head}, head, frequencies


def test_a_plain_bpe_on_its_own_text_by_hand():
    """Eight merges: na 80, zo 55, Ar 54, Ari 54, zona 50, Arizona 50, aa 21, ana 20; next is b ana, 20."""
    merges = train(ARIZONA, 14 + 8, scaffold=False).merges
    tokenizer = plain(merges, sorted(set("".join(ARIZONA))))
    found = audit_tokenizer(tokenizer, table(ARIZONA, tokenizer))
    assert found.head_frequency == 20
    # na is left in (ba)na(na) and bana|na: 20 times; zo in zone and zon: 5 times.
    assert {use.token: use.occurrences for use in found.scaffolds} == {"zo": 5, "Ar": 0, "Ari": 4, "zona": 0}
    assert {use.token: use.occurrences for use in found.others} == {
        "na": 20,
        "Arizona": 50,
        "aa": 14,
        "ana": 20,
    }


# ---- unreachable tokens


def test_unreachable_tokens_by_hand():
    # abc becomes ab c, and no rule joins these; bcd is made of bc and d.
    merges = [("a", "b"), ("b", "c"), ("a", "bc"), ("bc", "d")]
    assert audit_tokenizer(plain(merges, "abcd"), ["abcd"]).unreachable == ("abc",)
    assert audit_tokenizer(plain(merges, "abcd", ignore_merges=True), ["abcd"]).unreachable == ()
    assert json.loads(audit_tokenizer(plain(merges, "abcd"), ["abcd"]).to_json())["unreachable"] == ["abc"]


def test_tokens_whose_characters_are_no_tokens_are_unreachable():
    tokenizer = Tokenizer(models.BPE({"ab": 0, "cd": 1, "c": 2, "abcd": 3}, [("ab", "cd")]))
    assert audit_tokenizer(tokenizer, ["c"]).unreachable == ("abcd",)
    tokenizer = Tokenizer(models.BPE({"ab": 0, "cd": 1, "e": 2, "abcd": 3}, [("ab", "cd")]))
    assert audit_tokenizer(tokenizer, ["e"]).unreachable == ("abcd",)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
@settings(max_examples=60)
def test_no_text_is_encoded_to_unreachable_tokens(pairs):
    """Random rules for a and b, against all texts as long as the longest token."""
    made, merges = ["a", "b"], []
    for left, right in pairs:
        pair = made[left % len(made)], made[right % len(made)]
        if len("".join(pair)) <= 5 and pair not in merges:
            merges.append(pair)
            made.append("".join(pair))
    tokenizer = plain(merges, "ab")
    texts = ["".join(text) for n in range(1, 6) for text in itertools.product("ab", repeat=n)]
    reached = {token for text in texts for token in tokenizer.encode(text).tokens}
    assert {*audit_tokenizer(tokenizer, ["ab"]).unreachable} == {*made} - reached


def test_tokens_that_the_pre_tokenizer_splits_are_unreachable():
    words = {" cats": 9, "1234": 8, "日本": 7, "日木": 6}
    learned = hs.train(hs.PreTokenCounts.from_mapping(words, pre_tokenizer="gpt2"), 269, scaffold=False)
    tokenizer = learned.to_tokenizer().backend_tokenizer
    assert audit_tokenizer(tokenizer, [*words]).unreachable == ()
    other = hs.train(hs.count(["any text"]), 258).to_tokenizer().backend_tokenizer  # each digit by itself
    tokenizer.pre_tokenizer = other.pre_tokenizer
    digits = [token for token in learned.merged_tokens if token.isdigit()]
    assert "1234" in digits
    assert audit_tokenizer(tokenizer, [*words]).unreachable == tuple(digits)
    tokenizer.normalizer = normalizers.Replace("c", "k")
    assert {*audit_tokenizer(tokenizer, [*words]).unreachable} == {
        *digits, *(token for token in learned.merged_tokens if "c" in token)
    }  # fmt: skip


words = st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 60), min_size=1, max_size=8)


@given(words, words, st.integers(0, 15))
@settings(max_examples=150)
def test_finds_what_the_slow_reference_finds(learned_from, audited, n_merges):
    alphabet = sorted(set("abc"))
    merges = oracle.train(
        {tuple(text): n for text, n in learned_from.items()}, 3 + n_merges, alphabet=alphabet, scaffold=False
    ).merges
    tokenizer = plain(merges, alphabet)
    found = audit_tokenizer(tokenizer, table(audited, tokenizer))
    scaffolds, head, frequencies = replayed(audited, merges)
    assert found.head_frequency == head
    assert {use.token for use in found.scaffolds} == scaffolds
    for use in [*found.scaffolds, *found.others]:
        assert use.occurrences == frequencies[use.token]
        assert use.parts in merges
        assert tokenizer.id_to_token(use.id) == use.token


@given(words, st.integers(1, 15))
@settings(max_examples=60)
def test_on_its_own_text_it_finds_the_scaffolds_of_training(counts, n_merges):
    texts = {tuple(text): n for text, n in counts.items()}
    merges = oracle.train(texts, 3 + n_merges, alphabet="abc", scaffold=False).merges
    assume(merges)
    sizes = [oracle.train(texts, size, alphabet="abc") for size in range(3, 3 + len(merges) + 1)]
    same = [result for result in sizes if result.merges == merges]
    assume(same and oracle.pair_frequencies(same[-1].sequences))
    tokenizer = plain(merges, "abc")
    found = audit_tokenizer(tokenizer, table(counts, tokenizer))
    frequencies = {use.token: use.occurrences for use in [*found.scaffolds, *found.others]}
    for token, occurrences in frequencies.items():
        if occurrences < found.head_frequency:  # a larger one is reinstated when the loop comes to it
            assert (token in {use.token for use in found.scaffolds}) == (token in same[-1].scaffolds)


@pytest.fixture(scope="module")
def gpt2(english_text):
    """As GPT-2's: byte-level, its special token behind all others."""
    counts = hs.count([english_text], pre_tokenizer="gpt2")
    bpe = hs.train(counts, 2000, scaffold=False)
    vocab = {**bpe.vocab, "<|endoftext|>": len(bpe.vocab)}
    backend = Tokenizer(models.BPE(vocab, bpe.merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<|endoftext|>"])
    backend.post_processor = processors.TemplateProcessing(
        single="$A <|endoftext|>", special_tokens=[("<|endoftext|>", 2000)]
    )
    backend.add_tokens(["<extra>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|endoftext|>", model_max_length=77)


@pytest.fixture(scope="module", params=[False, True], ids=["ids kept", "compact"])
def conversion(request, gpt2, english_text):
    return convert_tokenizer(gpt2, [english_text], compact=request.param)


def test_on_real_text_the_scaffolds_are_those_of_training(gpt2, english_text):
    counts = hs.count([english_text], pre_tokenizer="gpt2")
    found = audit_tokenizer(gpt2, counts)
    n_merges, trained_scaffolds = 0, set()
    for event in hs.train(counts, 1900, log=True).log.events:  # up to the merge behind the tokenizer's last
        if event.kind == "marked":
            trained_scaffolds.add(event.token)
        elif event.kind == "reinstated":
            trained_scaffolds.remove(event.token)
        elif n_merges == 2000 - 256:
            break
        else:
            n_merges += 1
    ties = {use.token for use in found.others if use.occurrences == found.head_frequency}
    assert {use.token for use in found.scaffolds} == trained_scaffolds - ties
    assert event.head_frequency == found.head_frequency


def test_no_scaffold_is_ever_encoded_to(conversion, gpt2, english_text):
    scaffolds = {use.token for use in conversion.audit.scaffolds}
    assert len(scaffolds) > 50
    glued = " ".join(use.token.replace("Ġ", " ") for use in conversion.audit.scaffolds)
    for text in (english_text[:100_000], glued):
        encoded = conversion.tokenizer(text)
        assert not scaffolds & set(encoded.tokens())
        assert max(encoded["input_ids"]) < len(conversion.tokenizer)
        assert conversion.tokenizer.decode(encoded["input_ids"], skip_special_tokens=True) == text
        stays = [token for token in gpt2.tokenize(text) if token not in scaffolds]
        assert len(stays) <= len(encoded["input_ids"])


def test_text_without_scaffolds_is_encoded_as_before(conversion, gpt2):
    scaffolds = {use.token for use in conversion.audit.scaffolds}
    text = " the man and the house<extra> were<|endoftext|> there"
    before = gpt2(text)["input_ids"]
    assert not scaffolds & set(gpt2.convert_ids_to_tokens(before))
    assert conversion.tokenizer(text)["input_ids"] == conversion.remap[before].tolist()


def test_the_remap_table(conversion, gpt2):
    old, new = gpt2.get_vocab(), conversion.tokenizer.get_vocab()
    scaffolds = {use.token for use in conversion.audit.scaffolds}
    assert len(conversion.remap) == len(old) == 2002
    assert {token for token, token_id in old.items() if conversion.remap[token_id] < 0} == scaffolds
    for token in old.keys() - scaffolds:
        assert conversion.remap[old[token]] == new[token]
    assert sorted(new.values()) == list(range(len(conversion.tokenizer)))
    kept = conversion.remap >= 0
    if len(new) == len(old):
        assert (conversion.remap[kept] == np.flatnonzero(kept)).all()
        assert {token for token in new if token.startswith("<|unused_")} == {
            f"<|unused_{old[token]}|>" for token in scaffolds
        }
    else:
        assert conversion.remap[kept].tolist() == list(range(len(new)))


def test_everything_else_comes_along(conversion, tmp_path):
    tokenizer = conversion.tokenizer
    assert tokenizer.eos_token == "<|endoftext|>"
    assert tokenizer.model_max_length == 77
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    text = "The hippopotamus <extra> of Arizona"
    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert loaded(text)["input_ids"][-1] == loaded.eos_token_id
    assert loaded.add_tokens(["<more>"]) == 1
    assert loaded.convert_tokens_to_ids("<more>") == len(tokenizer) == len(loaded) - 1


def test_raw_agreement_is_measured(conversion, english_text):
    counts = hs.count([english_text], pre_tokenizer="gpt2")
    pretokens = [pretoken.decode() for pretoken in counts]
    raw = PreTrainedTokenizerFast(tokenizer_object=conversion.tokenizer.backend_tokenizer)
    exact, nearly = (tokenizer(pretokens)["input_ids"] for tokenizer in (conversion.tokenizer, raw))
    agreeing = sum(n for n, x, y in zip(counts.values(), exact, nearly, strict=True) if x == y)
    assert conversion.tokenizer.scaffold["raw_agreement"] == agreeing / counts.total
    assert 0.9 < agreeing / counts.total < 1
    state = json.loads(raw.backend_tokenizer.to_str())
    assert state["model"]["ignore_merges"]
    state["model"]["ignore_merges"] = False
    merging = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(state)))
    rows = zip(counts.values(), exact, merging(pretokens)["input_ids"], strict=True)
    agreeing = sum(n for n, x, y in rows if x == y)
    assert conversion.tokenizer.scaffold["raw_agreement_merges_only"] == agreeing / counts.total
    assert 0.3 < agreeing / counts.total < 0.99


def test_exactly_as_the_slow_reference_encodes(conversion, english_text):
    scaffold = conversion.tokenizer.scaffold
    merges = [tuple(pair) for pair in scaffold["merges"]]
    [*pretokens] = hs.count([english_text], pre_tokenizer="gpt2")
    for pretoken in pretokens[:: len(pretokens) // 100]:
        expected = oracle.encode(bytes_to_symbols(pretoken), scaffold["demolish"].keys(), merges)
        assert conversion.tokenizer(pretoken.decode()).tokens()[:-1] == expected


# ---- kinds of BPE tokenizers

SENTENCES = ["low lower lowest newer wider", "low low new wide ☃ low"] * 3


def test_byte_fallback_and_unknown_characters_break_merges():
    alphabet = [*(f"<0x{byte:02X}>" for byte in range(256)), "l", "o", "w", "e", "r"]
    merges = [("l", "o"), ("lo", "w"), ("low", "e")]
    tokenizer = plain(merges, alphabet, byte_fallback=True, fuse_unk=True)
    found = audit_tokenizer(tokenizer, ["low lo☃w low"])
    assert {use.token: use.occurrences for use in [*found.scaffolds, *found.others]} == {
        "lo": 1, "low": 2, "lowe": 0,
    }  # fmt: skip
    converted = convert_tokenizer(tokenizer, ["low lower " * 9]).tokenizer
    assert converted("lo☃").tokens() == ["l", "o", "<0xE2>", "<0x98>", "<0x83>"]


def test_without_a_stand_in_unknown_characters_vanish():
    tokenizer = plain([("l", "o")], "lo")
    assert audit_tokenizer(tokenizer, ["l☃o"]).others[0].occurrences == 1
    with_unknown = plain([("l", "o")], ["<unk>", "l", "o"], unk_token="<unk>")
    assert audit_tokenizer(with_unknown, ["l☃o lo"]).others[0].occurrences == 1
    with pytest.raises(CorpusError, match="nothing of the text is in"):
        audit_tokenizer(tokenizer, ["☃"])


def test_ignore_merges_takes_whole_what_no_merge_makes():
    tokenizer = Tokenizer(
        models.BPE({"l": 0, "o": 1, "w": 2, "lo": 3, "wlo": 4}, [("l", "o")], ignore_merges=True)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    assert audit_tokenizer(tokenizer, ["wlo low wlo"]).others[0].occurrences == 1
    converted = convert_tokenizer(tokenizer, ["wlo low wlo"]).tokenizer
    assert converted("wlo").tokens() == ["w", "lo"]  # as Scaffold-BPE always goes by the merges


def test_affixes():
    merges = [("l", "##o"), ("lo", "##w"), ("##e", "##r")]
    alphabet = ["l", "##o", "##w", "##e", "##r"]
    tokenizer = plain(merges, alphabet, prefix="##")
    found = audit_tokenizer(tokenizer, ["low low lower"])
    assert {use.token for use in found.scaffolds} == {"lo"}
    assert convert_tokenizer(tokenizer, ["low low lower"]).tokenizer("lo").tokens() == ["l", "##o"]


def test_of_a_pair_that_is_there_twice_the_last_counts_as_in_tokenizers():
    tokenizer = plain([("a", "b"), ("b", "c"), ("a", "b")], "abc")
    found = audit_tokenizer(tokenizer, ["abc"])
    assert tokenizer.encode("abc").tokens == ["a", "bc"]
    assert {use.token: use.occurrences for use in found.others} == {"ab": 0, "bc": 1}


def test_a_token_of_several_rules_and_rules_before_those_of_their_parts():
    """As in those converted from SentencePiece: all splits are rules, also those by a part made later."""
    merges = [("b", "c"), ("ab", "c"), ("a", "bc"), ("a", "b")]
    tokenizer = plain(merges, "abc")
    found = audit_tokenizer(tokenizer, ["abc " * 5 + "ab bc"])
    assert {use.token: use.occurrences for use in [*found.scaffolds, *found.others]} == {
        "bc": 1, "abc": 5, "ab": 1,
    }  # fmt: skip
    converted = convert_tokenizer(tokenizer, ["abc " * 5]).tokenizer
    for text in ("abc", "ab", "bc", "abcab"):
        assert not {"ab", "bc"} - set(tokenizer.get_vocab())
        assert converted.decode(converted(text)["input_ids"]).replace(" ", "") == text


def test_a_token_of_several_rules_is_named_with_the_first():
    tokenizer = plain([("b", "c"), ("a", "b"), ("a", "bc"), ("ab", "c")], "abc")
    [abc] = [use for use in audit_tokenizer(tokenizer, ["abc"]).others if use.token == "abc"]
    assert abc.parts == ("a", "bc")


def test_of_tokens_with_several_rules_each_counts_as_one_merge():
    """The head is that of as many tokens learned from this text, however many rules made them."""
    rules = [("a", "b"), ("b", "c"), ("ab", "c"), ("a", "bc"), ("c", "d")]
    tokenizer = plain(rules, "abcd")
    text = "abcd " * 8 + "bcd " * 4 + "cd " * 2 + "ad " * 3 + "da " * 2
    words = {tuple(word): text.split().count(word) for word in text.split()}
    learned = oracle.train(words, 4 + 4, alphabet="abcd", scaffold=False)
    assert learned.merges == [("c", "d"), ("b", "cd"), ("a", "bcd"), ("a", "d")]
    assert oracle.pair_frequencies(learned.sequences) == {("d", "a"): 2}
    assert audit_tokenizer(tokenizer, [text]).head_frequency == 2


def test_a_split_stands_in_only_where_no_rule_of_a_token_is_left():
    """Without abc, abcd is still made of a and bcd, so the public model needn't learn of ab and cd."""
    rules = [("a", "b"), ("ab", "c"), ("abc", "d"), ("c", "d"), ("b", "cd"), ("a", "bcd")]
    text = "abcd " * 5 + "ab cd bcd " * 9

    def public_merges(rules):
        conversion = convert_tokenizer(plain(rules, "abcd"), [text])
        assert [use.token for use in conversion.audit.scaffolds] == ["abc"]
        model = json.loads(conversion.tokenizer.backend_tokenizer.to_str())["model"]
        return [tuple(pair) for pair in model["merges"]]

    assert public_merges(rules) == [("a", "b"), ("c", "d"), ("b", "cd"), ("a", "bcd")]
    assert public_merges(rules[:-1]) == [("a", "b"), ("ab", "cd"), ("c", "d"), ("b", "cd")]


@pytest.mark.parametrize("compact", [False, True])
def test_dropout_comes_along(compact):
    tokenizer = plain([("u", "g"), ("h", "ug")], "hug", dropout=0.25)
    assert convert_tokenizer(tokenizer, ["hug"], compact=compact).tokenizer.dropout == 0.25


def test_added_tokens_stay_whatever_the_text_says():
    tokenizer = plain([("a", "b"), ("ab", "c")], "abc")
    tokenizer.add_tokens([AddedToken("ab")])
    tokenizer.normalizer = normalizers.NFC()
    conversion = convert_tokenizer(tokenizer, ["abc abc"])
    assert conversion.audit.scaffolds == ()
    assert (conversion.remap >= 0).all()


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("kind", [processors.BertProcessing, processors.RobertaProcessing])
@pytest.mark.parametrize("nested", [False, True])
def test_the_ids_of_cls_and_sep_follow_the_tokens(kind, nested, compact):
    """They come last here, as in GPT-2's vocabulary, and so they move where ids close up."""
    backend = plain([("u", "g"), ("h", "ug"), ("p", "ug")], "hugp")
    backend.add_special_tokens(["[CLS]", "[SEP]"])
    post_processor = kind(("[SEP]", 8), ("[CLS]", 7))
    backend.post_processor = processors.Sequence([post_processor]) if nested else post_processor
    fast = PreTrainedTokenizerFast(tokenizer_object=backend, cls_token="[CLS]", sep_token="[SEP]")
    conversion = convert_tokenizer(fast, ["hug"] * 3 + ["pug"] * 2, compact=compact)
    tokenizer = conversion.tokenizer
    assert [use.token for use in conversion.audit.scaffolds] == ["ug"]
    assert tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"]) == ([6, 7] if compact else [7, 8])
    assert tokenizer("hug")["input_ids"][0] == tokenizer.cls_token_id
    assert tokenizer("hug", "pug").tokens() == [
        *["[CLS]", "hug", "[SEP]"],
        *(["[SEP]"] if kind is processors.RobertaProcessing else []),
        *["pug", "[SEP]"],
    ]


def test_a_tokenizer_class_of_transformers():
    merges = [("u", "g"), ("h", "ug"), ("p", "ug")]
    vocab = {t: i for i, t in enumerate(["h", "u", "g", "p", "ug", "hug", "pug", "<|endoftext|>"])}
    conversion = convert_tokenizer(GPT2Tokenizer(vocab=vocab, merges=merges), ["hug"] * 3 + ["pug"] * 2)
    assert conversion.tokenizer("hugug").tokens() == ["hug", "u", "g"]
    assert conversion.tokenizer.eos_token_id == 7


@pytest.mark.parametrize(
    ("model", "name"),
    [(models.WordPiece({"[UNK]": 0}), "WordPiece"), (models.Unigram([("a", 0.0)]), "Unigram")],
    ids=["WordPiece", "Unigram"],
)
def test_other_models_are_refused(model, name):
    with pytest.raises(ConfigurationError, match=f"is {name}; only BPE has merges to replay"):
        audit_tokenizer(Tokenizer(model), ["a"])


def test_what_cannot_be_audited_is_refused(conversion, gpt2, tmp_path):
    with pytest.raises(ConfigurationError, match="is a Scaffold-BPE already"):
        convert_tokenizer(conversion.tokenizer, ["a"])
    conversion.tokenizer.save_pretrained(tmp_path / "converted")
    with pytest.raises(ConfigurationError, match="has no artifact"):
        load_artifact(str(tmp_path / "converted"))
    with pytest.raises(ConfigurationError, match="a fast tokenizer is needed"):
        audit_tokenizer(3, ["a"])
    with pytest.raises(ConfigurationError, match="the counts were made with"):
        audit_tokenizer(gpt2, hs.count(["a"], pre_tokenizer="llama3"))
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigurationError, match=r"tokenizer\.json can't be read as a tokenizer"):
        audit_tokenizer(tmp_path / "tokenizer.json", ["a"])


# ---- the command


def test_the_command(gpt2, english_text, tmp_path, capsys):
    gpt2.save_pretrained(tmp_path / "gpt2")
    (tmp_path / "text.txt").write_bytes(english_text.encode())
    found = audit_tokenizer(gpt2, [english_text])
    assert commands.main(["audit", str(tmp_path / "gpt2"), str(tmp_path / "text.txt")]) == 0
    screen = capsys.readouterr().out
    assert f"scaffold tokens  {len(found.scaffolds):,}, {found.scaffold_share:.1%} of merged tokens" in screen
    assert "beyond the paper" in screen
    path = tmp_path / "gpt2" / "tokenizer.json"
    assert commands.main(["audit", str(path), str(tmp_path / "text.txt"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert [use["token"] for use in facts["scaffolds"]] == [use.token for use in found.scaffolds]
    assert facts["head_frequency"] == found.head_frequency
    assert list(facts["others_quantiles"].values()) == list(found.quantiles.values())
