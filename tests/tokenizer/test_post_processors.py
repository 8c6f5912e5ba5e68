"""Whatever a post-processor adds has the id of its token, in retrained and converted tokenizers, too."""

import json

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import hf_scaffold as hs

WORDS = (
    "Arizona zone banana bandana hugs pugs buns bugs puns zoning hunger buggy pungent nana sunny hazy gauze"
)
TEXTS = [
    WORDS,
    " ".join(f"{first}{second}" for first in WORDS.split() for second in ["s", "ly", "ing"]),
    "x y z",
]
SPECIALS = ["<pad>", "<s>", "</s>", "<sep>", "<a>", "<b>"]
RENAMED = {"<s>": "<|start|>", "</s>": "<|end|>", "<b>": "<|b|>"}
PAIR = "<s>:0 $A:0 </s>:0 <sep>:1 $B:2 </s>:3"


def template(ids, single="<s> $A </s>", pair=PAIR):
    named = ("<s>", "</s>", "<sep>")
    return processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, ids[token]) for token in named]
    )


def several_ids(ids):
    """A special token of a template that is several tokens."""
    return processors.TemplateProcessing(
        single="<s> [AB] $A",
        pair="<s> [AB] $A [AB] $B",
        special_tokens=[
            ("<s>", ids["<s>"]),
            {"id": "[AB]", "ids": [ids["<a>"], ids["<b>"]], "tokens": ["<a>", "<b>"]},
        ],
    )


def bert(ids):
    return processors.BertProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]))


def roberta(ids):
    return processors.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), add_prefix_space=False)


def byte_level(ids):
    return processors.ByteLevel(trim_offsets=True)


def in_sequence(*makers):
    return lambda ids: processors.Sequence([make(ids) for make in makers])


MAKERS = {
    "template": template,
    "several ids": several_ids,
    "bert": bert,
    "roberta": roberta,
    "byte level": byte_level,
    "llama 3": in_sequence(byte_level, template),
    "bert in a sequence": in_sequence(bert),
    "roberta in a sequence": in_sequence(roberta, byte_level),
    "several ids in a sequence": in_sequence(byte_level, several_ids),
    "nested": in_sequence(byte_level, in_sequence(in_sequence(template), byte_level)),
}


def stock(make, first_id=None, **settings):
    """A stock tokenizer whose special tokens come last, as Llama 3's do, unless they come first."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = SPECIALS if first_id == 0 else []
    trainer = trainers.BpeTrainer(
        vocab_size=290, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    backend.train_from_iterator(TEXTS, trainer)
    backend.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIALS])
    if make is not None:
        backend.post_processor = make({token: backend.token_to_id(token) for token in SPECIALS})
    roles = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=backend, **{**roles, **settings})


def framing(tokenizer, *texts):
    """The special tokens of a text, or of a pair, as (token, type id); each id must be that of its token."""
    encoded = tokenizer(*texts, return_token_type_ids=True, return_special_tokens_mask=True)
    tokens, ids = encoded.tokens(), encoded["input_ids"]
    assert [tokenizer.convert_tokens_to_ids(token) for token in tokens] == ids
    assert max(ids) < len(tokenizer)
    mask, types = encoded["special_tokens_mask"], encoded["token_type_ids"]
    return [(token, kind) for token, kind, special in zip(tokens, types, mask, strict=True) if special]


def check_alike(new, old, renamed=None):
    renamed = renamed or {}
    for texts in (("x",), ("x", "zone y")):
        expected = [(renamed.get(token, token), kind) for token, kind in framing(old, *texts)]
        for native in (True, False):
            new.native = native
            assert framing(new, *texts) == expected
        del new.native
    if framing(old, "x")[:1] == [("<s>", 0)]:
        assert new("x")["input_ids"][0] == new.bos_token_id


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.mark.parametrize("first_id", [0, None], ids=["specials first", "specials last"])
def test_a_tokenizer_like_another(make, first_id, tmp_path):
    old = stock(make, first_id)
    new = hs.train_tokenizer(TEXTS, 300, like=old)
    check_alike(new, old)
    new.save_pretrained(tmp_path)
    check_alike(AutoTokenizer.from_pretrained(tmp_path), old)


@pytest.mark.parametrize("specials", [[], ["<new>"]])
def test_retraining(make, specials):
    old = hs.train_tokenizer(TEXTS, 300, like=stock(make))
    new = old.train_new_from_iterator(
        TEXTS, 320, new_special_tokens=specials, special_tokens_map=RENAMED, show_progress=False
    )
    check_alike(new, old, RENAMED)
    assert not RENAMED.keys() & new.get_vocab().keys()
    assert (new.bos_token, new.eos_token) == ("<|start|>", "<|end|>")


@pytest.mark.parametrize("compact", [True, False])
def test_a_conversion(make, compact):
    old = stock(make)
    conversion = hs.convert_tokenizer(old, TEXTS, compact=compact)
    check_alike(conversion.tokenizer, old)


def test_a_compact_conversion_moves_ids():
    """What the tests of conversions rely on: the ids of special tokens do move."""
    for make in (bert, roberta, in_sequence(bert)):
        old = stock(make)
        new = hs.convert_tokenizer(old, TEXTS, compact=True).tokenizer
        assert new.bos_token_id < old.bos_token_id
        assert new("x")["input_ids"][0] == new.bos_token_id
        assert new("x")["input_ids"][-1] == new.eos_token_id


# ---- tokens that are gone


@pytest.mark.parametrize("nested", [False, True])
def test_a_post_processor_that_names_no_special_token_is_refused(nested):
    gone = processors.BertProcessing(("</s>", 300), ("[CLS]", 7))
    make = in_sequence(byte_level, lambda ids: gone) if nested else lambda ids: gone
    with pytest.raises(hs.ConfigurationError, match=r"post-processor .*'\[CLS\]'.* special"):
        hs.train_tokenizer(TEXTS, 300, like=stock(make))


def test_it_is_refused_before_the_corpus_is_read():
    def texts():
        raise AssertionError("read")
        yield ""

    gone = processors.BertProcessing(("</s>", 300), ("[CLS]", 7))
    with pytest.raises(hs.ConfigurationError, match="CLS"):
        hs.train_tokenizer(texts(), 300, like=stock(lambda ids: gone))


def test_a_token_it_names_may_be_given():
    gone = processors.BertProcessing(("</s>", 300), ("[CLS]", 7))
    new = hs.train_tokenizer(TEXTS, 300, like=stock(lambda ids: gone), special_tokens=["[CLS]"])
    assert new("x").tokens() == ["[CLS]", "x", "</s>"]
    assert framing(new, "x")


def test_an_added_token_that_is_not_special_may_be_named():
    def marked(ids):
        return processors.TemplateProcessing(single="<mark> $A", special_tokens=[("<mark>", 296)])

    old = stock(None)
    old.add_tokens(["<mark>"])
    assert old.convert_tokens_to_ids("<mark>") == 296
    old.backend_tokenizer.post_processor = marked(None)
    new = hs.train_tokenizer(TEXTS, 280, like=old)
    assert new("x")["input_ids"] == [280, new.convert_tokens_to_ids("x")]


def test_a_conversion_without_the_id_a_post_processor_adds_is_refused():
    old = stock(None)
    token = hs.audit_tokenizer(old, TEXTS).scaffolds[0]
    old.backend_tokenizer.post_processor = processors.BertProcessing(("</s>", 292), (token.token, token.id))
    with pytest.raises(hs.ConfigurationError, match=f"post-processor .*{token.token!r}"):
        hs.convert_tokenizer(old, TEXTS)
    old.backend_tokenizer.post_processor = processors.BertProcessing(("</s>", 10**6), ("<s>", 291))
    with pytest.raises(hs.ConfigurationError, match=r"post-processor .*1000000"):
        hs.convert_tokenizer(old, TEXTS)


# ---- roles given anew


def test_a_role_given_anew_takes_its_place_in_the_template(make):
    old = stock(make)
    new = hs.train_tokenizer(TEXTS, 300, like=old, bos_token="<bos>")
    check_alike(new, old, {"<s>": "<bos>"})
    assert new.bos_token == "<bos>"


def test_a_token_of_two_roles_of_which_one_is_given_anew():
    def both(ids):
        return processors.TemplateProcessing(single="<s> $A <s>", special_tokens=[("<s>", ids["<s>"])])

    old = stock(both, eos_token="<s>")
    with pytest.raises(hs.ConfigurationError, match=r"'<s>' is bos_token and eos_token .*give both"):
        hs.train_tokenizer(TEXTS, 300, like=old, eos_token="<end>")
    new = hs.train_tokenizer(TEXTS, 300, like=old, bos_token="<end>", eos_token="<end>")
    assert new("x").tokens() == ["<end>", "x", "<end>"]
    framing(new, "x")


# ---- what else holds ids or tokens


def test_padding_has_the_id_of_its_token():
    old = stock(template)
    old.backend_tokenizer.enable_padding(pad_id=old.pad_token_id, pad_token="<pad>", length=9)
    like = PreTrainedTokenizerFast(tokenizer_object=old.backend_tokenizer, pad_token="<pad>")
    assert like.pad_token_id == 290
    for new in (
        hs.train_tokenizer(TEXTS, 300, like=like),
        hs.train_tokenizer(TEXTS, 300, like=like).train_new_from_iterator(TEXTS, 290, show_progress=False),
        hs.convert_tokenizer(like, TEXTS, compact=True).tokenizer,
    ):
        assert new.pad_token_id != like.pad_token_id
        assert new.backend_tokenizer.padding["pad_id"] == new.pad_token_id
    renamed = hs.train_tokenizer(TEXTS, 300, like=like).train_new_from_iterator(
        TEXTS, 290, special_tokens_map={"<pad>": "<fill>"}, show_progress=False
    )
    padding = renamed.backend_tokenizer.padding
    assert (padding["pad_token"], padding["pad_id"]) == ("<fill>", renamed.pad_token_id)
    assert "<pad>" not in renamed.get_vocab()


def test_renaming_reaches_every_token_that_has_a_name():
    old = stock(
        template,
        extra_special_tokens=["<a>", "<b>"],
        image_token="<sep>",
        chat_template="{{ '<s>' }}{% for m in messages %}{{ m['content'] + '<b></s>' }}{% endfor %}",
    )
    old = hs.train_tokenizer(TEXTS, 300, like=old)
    new = old.train_new_from_iterator(
        TEXTS, 300, special_tokens_map={**RENAMED, "<sep>": "<image>"}, show_progress=False
    )
    assert new.extra_special_tokens == ["<a>", "<|b|>"]
    assert new.image_token == "<image>"
    assert len(new) == new.vocab_size == 300
    chat = new.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False)
    assert chat == "<|start|>x<|b|><|end|>"


def test_a_name_inside_another_stays_in_the_chat_template():
    old = stock(None, chat_template="{{ '<a><a>b' }}", extra_special_tokens=["<a>b"])
    old = hs.train_tokenizer(TEXTS, 300, like=old)
    new = old.train_new_from_iterator(TEXTS, 300, special_tokens_map={"<a>": "<c>"}, show_progress=False)
    assert new.chat_template == "{{ '<c><a>b' }}"


def test_named_chat_templates_are_renamed_too():
    old = stock(None, chat_template={"default": "{{ '<s>' }}", "rag": "{{ '</s>' }}"})
    old = hs.train_tokenizer(TEXTS, 300, like=old)
    new = old.train_new_from_iterator(TEXTS, 300, special_tokens_map=RENAMED, show_progress=False)
    assert new.chat_template == {"default": "{{ '<|start|>' }}", "rag": "{{ '<|end|>' }}"}


def test_a_name_that_is_no_token_is_refused():
    old = hs.train_tokenizer(TEXTS, 300, like=stock(template))
    with pytest.raises(hs.ConfigurationError, match="special_tokens_map: '<z>'"):
        old.train_new_from_iterator(TEXTS, 300, special_tokens_map={"<z>": "<y>"})


def test_dropout_stays():
    old = stock(template)
    old.backend_tokenizer.model.dropout = 0.25
    new = hs.train_tokenizer(TEXTS, 300, like=old)
    assert new.dropout == 0.25
    assert new.train_new_from_iterator(TEXTS, 300, show_progress=False).dropout == 0.25
    assert hs.convert_tokenizer(old, TEXTS).tokenizer.dropout == 0.25


@pytest.mark.parametrize("fuse", [True, False])
def test_fuse_unk_is_the_callers(fuse):
    old = hs.train_tokenizer(TEXTS, 60, alphabet="chars", unk_token="<unk>", fuse_unk=not fuse)
    kept = old.train_new_from_iterator(TEXTS, 60, show_progress=False)
    assert kept.backend_tokenizer.model.fuse_unk is not fuse
    new = old.train_new_from_iterator(TEXTS, 60, fuse_unk=fuse, show_progress=False)
    assert new.backend_tokenizer.model.fuse_unk is fuse
    n_unknown = new("??", add_special_tokens=False)["input_ids"].count(new.unk_token_id)
    assert n_unknown == (1 if fuse else 2)


def test_a_renamed_unk_token_is_the_models():
    old = hs.train_tokenizer(TEXTS, 60, alphabet="chars", unk_token="<unk>")
    new = old.train_new_from_iterator(TEXTS, 60, special_tokens_map={"<unk>": "<?>"}, show_progress=False)
    assert new.backend_tokenizer.model.unk_token == new.unk_token == "<?>"
    assert new("x?").tokens()[-1] == "<?>"


def test_settings_changed_since_it_was_made_are_kept():
    old = stock(template)
    old.padding_side, old.model_max_length, old.split_special_tokens = "left", 77, True
    new = hs.train_tokenizer(TEXTS, 300, like=old)
    assert (new.padding_side, new.model_max_length, new.split_special_tokens) == ("left", 77, True)


def test_a_template_by_add_bos_token_is_kept_with_its_ids():
    old = stock(None, add_bos_token=True, add_eos_token=False)
    assert old("x").tokens() == ["<s>", "x"]
    new = hs.train_tokenizer(TEXTS, 300, like=old)
    check_alike(new, old)
    ended = hs.train_tokenizer(TEXTS, 300, like=old, add_bos_token=True, add_eos_token=True)
    assert ended("x").tokens() == ["<s>", "x", "</s>"]
    framing(ended, "x")


def test_the_example_is_left_as_it_was():
    old = stock(in_sequence(byte_level, template))
    old.backend_tokenizer.enable_padding(pad_id=old.pad_token_id, pad_token="<pad>")
    before = old.backend_tokenizer.to_str(), json.dumps(old.init_kwargs, default=str)
    new = hs.train_tokenizer(TEXTS, 300, like=old)
    new.train_new_from_iterator(TEXTS, 300, special_tokens_map=RENAMED, show_progress=False)
    hs.convert_tokenizer(old, TEXTS, compact=True)
    assert (old.backend_tokenizer.to_str(), json.dumps(old.init_kwargs, default=str)) == before


def test_ids_are_below_the_vocabulary_in_arrays_too(make):
    new = hs.train_tokenizer(TEXTS, 300, like=stock(make))
    ids, _ = new.encode_batch_to_arrays(["x", "zone"])
    assert np.array_equal(ids, np.concatenate([new("x")["input_ids"], new("zone")["input_ids"]]))
    assert ids.max() < len(new)
