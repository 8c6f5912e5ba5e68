"""train_new_from_iterator and train_tokenizer(like=): a new vocabulary for a tokenizer there is."""

import json
import subprocess
import sys
from importlib.resources import files

import pytest
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoTokenizer,
    GPT2Tokenizer,
    PreTrainedTokenizerFast,
    Qwen2Tokenizer,
    RobertaTokenizer,
)
from transformers import BertTokenizerFast as BertTokenizer

import hf_scaffold as hs
from hf_scaffold.errors import ConfigurationError

NOVEL = (files("hf_scaffold") / "data" / "wuthering-heights.txt").read_text(encoding="utf-8")
TEXTS = [*NOVEL[:60_000].splitlines(), "the naïve fox hugs a bun", "bananas and bandanas in Arizona, 1847"]
CHAT = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|eos|>{% endfor %}"
TEMPLATE = TemplateProcessing(
    single="<|bos|> $A <|eos|>",
    pair="<|bos|> $A <|eos|> $B:1 <|eos|>:1",
    special_tokens=[("<|bos|>", 0), ("<|eos|>", 1)],
)


def state_of(tokenizer):
    return json.loads(tokenizer.backend_tokenizer.to_str())


def reloaded(tokenizer, folder):
    tokenizer.save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(params=["as trained", "loaded"])
def tokenizer(request, tmp_path):
    """A tokenizer with about everything that retraining has to keep."""
    made = hs.train_tokenizer(
        ["other words altogether"] * 3,
        vocab_size=265,
        normalizer=normalizers.NFC(),
        bos_token=AddedToken("<|bos|>", rstrip=True, normalized=False, special=True),
        eos_token="<|eos|>",
        pad_token="<|pad|>",
        extra_special_tokens=["<|im_start|>"],
        chat_template=CHAT,
        padding_side="left",
        model_max_length=77,
        model_input_names=["input_ids", "attention_mask", "token_type_ids"],
    )
    made.backend_tokenizer.post_processor = TEMPLATE
    made.add_tokens([AddedToken("<tool_call>", lstrip=True)])
    return made if request.param == "as trained" else reloaded(made, tmp_path)


def from_scratch(vocab_size, special_tokens):
    """The artifact of the same texts, trained step by step."""
    counts = hs.count(TEXTS, normalizer=normalizers.NFC())
    return hs.train(counts, vocab_size, special_tokens=special_tokens)


def test_it_keeps_everything_but_the_vocabulary(tokenizer, tmp_path):
    before = state_of(tokenizer)
    new = tokenizer.train_new_from_iterator(TEXTS, 500)
    specials = ["<|bos|>", "<|eos|>", "<|pad|>", "<|im_start|>"]
    assert isinstance(new, hs.ScaffoldTokenizerFast)
    assert new.convert_ids_to_tokens(range(4)) == specials
    assert new.vocab_size == 500
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        assert state_of(new)[part] == before[part]
    assert (new.bos_token, new.eos_token, new.pad_token) == tuple(specials[:3])
    assert new.extra_special_tokens == ["<|im_start|>"]
    assert new.added_tokens_decoder[0].rstrip
    assert new.added_tokens_decoder[500] == tokenizer.added_tokens_decoder[265]
    assert (new.chat_template, new.padding_side, new.model_max_length) == (CHAT, "left", 77)
    assert new.model_input_names == tokenizer.model_input_names
    assert new.name_or_path == ""  # a folder's, when the tokenizer was loaded

    bpe = from_scratch(500, specials)
    assert new.scaffold["demolish"]
    assert new.scaffold["merges"] == [list(pair) for pair in bpe.merges]
    assert new("hugs", "bun").tokens() == [
        "<|bos|>",
        *bpe_tokens(bpe, "hugs"),
        "<|eos|>",
        *bpe_tokens(bpe, "bun"),
        "<|eos|>",
    ]
    assert state_of(tokenizer) == before
    again = reloaded(new, tmp_path / "new")
    text = "zone <tool_call> banana <|im_start|> naïve"
    assert again(text)["input_ids"] == new(text)["input_ids"]


@pytest.mark.parametrize("dropout", [None, 0.25])
def test_it_keeps_dropout(tokenizer, dropout):
    tokenizer.dropout = dropout
    assert tokenizer.train_new_from_iterator(TEXTS, 300).dropout == dropout
    assert hs.train_tokenizer(TEXTS, 300, like=tokenizer).dropout == dropout


@pytest.mark.parametrize("fuse_unk", [False, True])
def test_options_given_go_before_those_there_are(fuse_unk):
    made = hs.train_tokenizer(TEXTS, 300, alphabet="chars", unk_token="<unk>", fuse_unk=fuse_unk)
    assert made.train_new_from_iterator(TEXTS, 300).backend_tokenizer.model.fuse_unk == fuse_unk
    new = made.train_new_from_iterator(TEXTS, 300, fuse_unk=not fuse_unk)
    assert new.backend_tokenizer.model.fuse_unk != fuse_unk
    assert new("②②②").tokens().count("<unk>") == (3 if fuse_unk else 1)


def bpe_tokens(bpe, word):
    return [bpe.tokens[token_id] for token_id in bpe.encode([word.encode()])[0]]


def test_batches_iterators_and_a_list_give_the_same(tokenizer):
    listed = tokenizer.train_new_from_iterator(TEXTS, 500)
    batched = tokenizer.train_new_from_iterator(
        (TEXTS[i : i + 5] for i in range(0, len(TEXTS), 5)), vocab_size=500, length=len(TEXTS)
    )
    assert batched.backend_tokenizer.to_str() == listed.backend_tokenizer.to_str()
    assert batched.scaffold == listed.scaffold


def test_special_tokens_can_be_added_and_renamed(tokenizer, tmp_path):
    new = tokenizer.train_new_from_iterator(
        TEXTS,
        500,
        new_special_tokens=["<|new|>", AddedToken("<|flags|>", lstrip=True), "<|pad|>"],
        special_tokens_map={"<|eos|>": "<|end|>", "<|im_start|>": "<|start|>"},
    )
    specials = ["<|bos|>", "<|end|>", "<|pad|>", "<|start|>", "<|new|>", "<|flags|>"]
    assert new.convert_ids_to_tokens(range(6)) == specials
    assert new.eos_token == "<|end|>"
    assert new.added_tokens_decoder[5].lstrip
    assert "<|eos|>" not in new.get_vocab()
    assert new("bun")["input_ids"][-1] == 1
    assert new.decode(new("a bun")["input_ids"], skip_special_tokens=True) == "a bun"
    again = reloaded(new, tmp_path / "new")
    assert again("<|new|> x <|flags|>", "bun")["input_ids"] == new("<|new|> x <|flags|>", "bun")["input_ids"]


def test_the_trainers_options_pass_through(tokenizer):
    plain = tokenizer.train_new_from_iterator(
        TEXTS, 500, scaffold=False, max_token_length=3, show_progress=False
    )
    assert plain.scaffold["demolish"] == {}
    assert max(len(left + right) for left, right in plain.scaffold["merges"]) == 3
    with pytest.raises(TypeError, match="min_freq"):
        tokenizer.train_new_from_iterator(TEXTS, 500, min_freq=2)


@pytest.mark.parametrize(
    "method",
    [
        {"method": "trimmed", "surplus": 0.5},
        {"method": "leaf", "surplus": 0.2},
        {"method": "residue", "surplus": 0.3},
        {"method": "picky", "threshold": 0.6},
        {"method": "bpe"},
        {"scaffold_below": 0.25},
        {},
    ],
)
def test_it_keeps_the_method(method, tmp_path):
    old = reloaded(hs.train_tokenizer(TEXTS, 300, **method), tmp_path)
    new = old.train_new_from_iterator(TEXTS, 500)
    assert new.scaffold == hs.train_tokenizer(TEXTS, 500, **method).scaffold
    plain = old.train_new_from_iterator(TEXTS, 500, scaffold=False)
    assert plain.scaffold == old.train_new_from_iterator(TEXTS, 500, method="bpe").scaffold
    assert plain.scaffold == hs.train_tokenizer(TEXTS, 500, scaffold=False).scaffold


def test_a_method_that_is_not_recorded_is_scaffold_bpe(tmp_path):
    hs.train_tokenizer(TEXTS, 300, method="picky").save_pretrained(tmp_path)
    path = tmp_path / "scaffold.json"
    content = json.loads(path.read_text())

    def retrained(training):
        path.write_text(json.dumps({**content, "training": training}))
        return AutoTokenizer.from_pretrained(tmp_path).train_new_from_iterator(TEXTS, 500)

    expected = hs.train_tokenizer(TEXTS, 500).scaffold
    for training in (None, {}, {"settings": None}, {"settings": ["picky"]}, {"settings": {}}):
        assert retrained(training).scaffold == expected
    with pytest.raises(ConfigurationError, match="method is 'pickier'; it must be one of"):
        retrained({"settings": {"method": "pickier"}})


def test_a_size_too_small_gives_special_tokens_and_alphabet_as_in_stock(tokenizer):
    with pytest.warns(UserWarning, match=r"vocab_size is 100, .* Training for \d+") as warned:
        small = tokenizer.train_new_from_iterator(TEXTS, 100)
    assert [each.filename for each in warned if each.category is UserWarning] == [__file__]
    stock = PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer)
    expected = stock.train_new_from_iterator(TEXTS, 100, show_progress=False)
    assert small.backend_tokenizer.get_vocab(with_added_tokens=False) == expected.get_vocab()
    assert small.decode(small("bananas é")["input_ids"], skip_special_tokens=True) == "bananas é"


def test_bad_corpora_are_refused(tokenizer):
    with pytest.raises(hs.CorpusError, match="nothing to count"):
        tokenizer.train_new_from_iterator([], 500)
    with pytest.raises(hs.CorpusError, match="int"):
        tokenizer.train_new_from_iterator([3], 500)


def test_a_retrained_tokenizer_can_be_retrained(tokenizer):
    once = tokenizer.train_new_from_iterator(TEXTS, 500)
    twice = once.train_new_from_iterator(TEXTS, 500)
    assert twice.backend_tokenizer.to_str() == once.backend_tokenizer.to_str()
    assert twice.scaffold == once.scaffold


def test_without_the_package_it_says_what_is_missing(tmp_path):
    hs.train_tokenizer(TEXTS, vocab_size=260).save_pretrained(tmp_path)
    program = (
        "import sys; sys.modules['hf_scaffold'] = None\n"
        "from transformers import AutoTokenizer\n"
        f"tokenizer = AutoTokenizer.from_pretrained({str(tmp_path)!r}, trust_remote_code=True)\n"
        "try: tokenizer.train_new_from_iterator(['x'], 500)\n"
        "except ImportError as error: print(error)"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert "pip install hf_scaffold" in outcome.stdout


# ---- like=


@pytest.mark.parametrize("kind", [GPT2Tokenizer, Qwen2Tokenizer, RobertaTokenizer])
def test_a_tokenizer_like_a_stock_one(kind, tmp_path):
    like = kind(chat_template=CHAT, model_max_length=99)
    like.add_special_tokens({"extra_special_tokens": ["<|extra|>"]})
    new = hs.train_tokenizer(TEXTS, 500, like=like)
    assert type(new) is hs.ScaffoldTokenizerFast
    assert len(new) == 500
    specials = [str(token) for _, token in sorted(like.added_tokens_decoder.items())]
    assert new.convert_ids_to_tokens(range(len(specials))) == specials
    for name in new.SPECIAL_TOKENS_ATTRIBUTES:
        assert getattr(new, name) == getattr(like, name)
    assert (new.chat_template, new.model_max_length) == (CHAT, 99)
    assert specials_of(new, "hugs", "a bun") == specials_of(like, "hugs", "a bun")
    assert new.decode(new("naïve bun")["input_ids"], skip_special_tokens=True) == "naïve bun"
    text = "hugs <|extra|> 1847 bananas"
    again = reloaded(new, tmp_path)
    assert again(text, text)["input_ids"] == new(text, text)["input_ids"]


def specials_of(tokenizer, *texts):
    encoded = tokenizer(*texts, return_special_tokens_mask=True)
    tokens = zip(encoded.tokens(), encoded["special_tokens_mask"], strict=True)
    return [token for token, is_special in tokens if is_special]


def test_like_takes_more_special_tokens_and_settings():
    like = PreTrainedTokenizerFast(
        tokenizer_object=byte_level_bpe(), eos_token="<|eos|>", padding_side="left"
    )
    new = hs.train_tokenizer(
        TEXTS, 500, like=like, special_tokens=["<|a|>"], eos_token="<|end|>", chat_template=CHAT
    )
    assert new.convert_ids_to_tokens(range(3)) == ["<|eos|>", "<|a|>", "<|end|>"]
    assert (new.eos_token, new.padding_side, new.chat_template) == ("<|end|>", "left", CHAT)


def byte_level_bpe():
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    return backend


def test_like_leaves_the_example_as_it_was():
    like = PreTrainedTokenizerFast(tokenizer_object=byte_level_bpe(), eos_token="<|eos|>")
    like.add_tokens(["hugs"])
    before = like.backend_tokenizer.to_str(), dict(like.init_kwargs)
    new = hs.train_tokenizer(TEXTS, 500, like=like)
    assert (like.backend_tokenizer.to_str(), dict(like.init_kwargs)) == before
    assert new.convert_tokens_to_ids("hugs") == 500
    assert state_of(new)["pre_tokenizer"]["add_prefix_space"]


def test_like_refuses_what_it_cannot_follow():
    with pytest.raises(hs.ConfigurationError, match="WordPiece"):
        hs.train_tokenizer(TEXTS, 500, like=BertTokenizer())
    with pytest.raises(hs.ConfigurationError, match="fast tokenizer"):
        hs.train_tokenizer(TEXTS, 500, like="gpt2")
    like = PreTrainedTokenizerFast(tokenizer_object=byte_level_bpe())
    with pytest.raises(hs.ConfigurationError, match="come from like"):
        hs.train_tokenizer(TEXTS, 500, like=like, pre_tokenizer="gpt2")
