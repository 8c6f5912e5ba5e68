"""Whatever is changed on a tokenizer or its backend, the next call sees it, on both paths."""

import copy
import pickle
import sys
from threading import Thread

import pytest
import toys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from native_cases import describe
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

fuzz = settings(max_examples=20, suppress_health_check=list(HealthCheck))

TEXT = "xzona Arizona<|eos|> banana 日本 étéz<pad> ZONA e\u0301 42"
BACKENDS = ("backend_tokenizer", "_tokenizer")
TEMPLATE = {"chat_template": "{{ messages[0]['content'] }}"}


def made(native, result=None):
    return toys.tokenizer(result, native=native, **TEMPLATE)


def everything(tokenizer):
    """All that calls may give, later answers included."""
    calls = [
        tokenizer(TEXT, return_offsets_mapping=True, return_special_tokens_mask=True),
        tokenizer(TEXT),
        tokenizer([TEXT, "nati"], ["zona", "ationa"], return_token_type_ids=True),
        tokenizer([TEXT, "nati"], padding=True, truncation=True, max_length=12),
        tokenizer(TEXT, split_special_tokens=True),
    ]
    ids = calls[1]["input_ids"]
    return (
        [(dict(call), list(map(describe, call.encodings))) for call in calls],
        tokenizer.decode(ids),
        tokenizer.decode(ids, skip_special_tokens=True),
        tokenizer.tokenize(TEXT),
        len(tokenizer),
        tokenizer.apply_chat_template([{"role": "user", "content": TEXT}])["input_ids"],
    )


# ---- changes: of a tokenizer, through an attribute that gives its backend


def assigned(**values):
    def change(tokenizer, backend):
        for name, value in values.items():
            setattr(tokenizer, name, value)

    return change


def on_backend(part, values):
    def change(name):
        return lambda tokenizer, backend: setattr(getattr(tokenizer, backend), part, alone(values[name]))

    return st.sampled_from([*values]).map(change)


def alone(value):
    """A pre-tokenizer is changed in place; so each tokenizer has its own."""
    return copy.deepcopy(value) if isinstance(value, pre_tokenizers.PreTokenizer) else value


def add(tokenizer, content, flags, how):
    # Once special, always skipped; but `tokenizers` itself forgets that in copies and files.
    token = AddedToken("<pad>" if how == "backend special" else content, **flags)
    if how == "backend":
        tokenizer.backend_tokenizer.add_tokens([token])
    elif how == "backend special":
        tokenizer.backend_tokenizer.add_special_tokens([token])
    else:
        (copy.copy(tokenizer) if how == "copy" else tokenizer).add_tokens([token])


def in_place(tokenizer, backend):
    part = getattr(tokenizer, backend).pre_tokenizer
    last = part[1] if isinstance(part, pre_tokenizers.Sequence) else part
    last.add_prefix_space = not last.add_prefix_space


flags = st.fixed_dictionaries(
    {}, optional={name: st.booleans() for name in ("lstrip", "rstrip", "single_word", "normalized")}
)
changes = st.one_of(
    st.builds(
        lambda *given: lambda tokenizer, backend: add(tokenizer, *given),
        st.sampled_from(["zona", "na", "hug", "ana", " 4"]),
        flags,
        st.sampled_from(["tokenizer", "copy", "backend", "backend special"]),
    ),
    on_backend("post_processor", {k: v for k, v in toys.POST_PROCESSORS.items() if v is not None}),
    on_backend("normalizer", toys.NORMALIZERS),
    on_backend("pre_tokenizer", toys.PRE_TOKENIZERS),
    on_backend("decoder", {"bytes": decoders.ByteLevel(), "fuse": decoders.Fuse()}),
    on_backend("encode_special_tokens", {"on": True, "off": False}),
    st.just(in_place),
    st.sampled_from(
        [
            lambda tokenizer, backend: getattr(tokenizer, backend).enable_truncation(5),
            lambda tokenizer, backend: getattr(tokenizer, backend).enable_padding(length=50),
            lambda tokenizer, backend: tokenizer.add_special_tokens({"pad_token": "<pad>"}),
            assigned(split_special_tokens=True),
            assigned(padding_side="left", truncation_side="left"),
            assigned(padding_side="right", truncation_side="right"),
            assigned(model_input_names=["input_ids", "token_type_ids"]),
            assigned(pad_token="<|eos|>"),
            assigned(chat_template="{{ messages[0]['content'] }}<|bos|>"),
        ]
    ),
)


@fuzz
@given(st.lists(st.tuples(changes, st.sampled_from(BACKENDS)), min_size=1, max_size=5), st.booleans())
def test_every_change_is_seen_as_in_stock(drawn, watched):
    result = toys.trained(scaffold=False)
    stock = toys.tokenizer(result, PreTrainedTokenizerFast, **TEMPLATE)
    ours = [made(native, result) for native in (True, False)]
    for change, backend in drawn:
        change(stock, backend)
        expected = everything(stock)
        for tokenizer in ours:
            if watched:
                everything(tokenizer)
            change(tokenizer, backend)
            assert everything(tokenizer) == expected


@fuzz
@given(
    st.lists(st.tuples(changes, st.sampled_from(BACKENDS)), min_size=1, max_size=5),
    st.sampled_from(toys.SIZES),
)
def test_after_every_change_it_is_as_one_that_has_kept_nothing(drawn, size):
    native, general = (made(native, toys.trained(size)) for native in (True, False))
    for change, backend in drawn:
        for tokenizer in (native, general):
            change(tokenizer, backend)
        found = everything(native)
        assert found == everything(general)
        for fresh in (copy.deepcopy(native), pickle.loads(pickle.dumps(native))):
            assert everything(fresh) == found


# ---- one by one


def test_flags_and_tokens_of_the_model_changed_on_the_backend(native):
    """Neither makes the vocabulary larger: so only who took the backend by its public name is watched."""
    tok = made(native)
    assert tok.tokenize("banana") == ["banana"]
    tok.backend_tokenizer.add_tokens(["na"])
    assert tok.tokenize("banana") == [*toys.exact_tokens(toys.trained(), "ba"), "na", "na"]
    tok.backend_tokenizer.add_tokens([AddedToken("na", single_word=True)])
    assert tok.tokenize("banana") == ["banana"]
    kept = tok.backend_tokenizer
    assert tok.tokenize("banana") == ["banana"]
    kept.add_tokens([AddedToken("na", single_word=False)])
    assert tok.tokenize("banana")[-2:] == ["na", "na"]


def test_shallow_copies_share_what_is_added(native):
    tok = made(native)
    other = copy.copy(tok)
    assert tok.tokenize("banana") == other.tokenize("banana") == ["banana"]
    other.add_tokens(["na"])
    assert tok.tokenize("banana") == other.tokenize("banana") != ["banana"]
    tok.add_tokens([AddedToken("na", single_word=True)])
    assert tok.tokenize("banana") == other.tokenize("banana") == ["banana"]
    third = copy.copy(other)
    tok.backend_tokenizer.add_tokens([AddedToken("na", single_word=False)])
    assert tok.tokenize("banana") == other.tokenize("banana") == third.tokenize("banana") != ["banana"]


def test_a_shallow_copy_with_another_backend_is_another_tokenizer(native):
    tok = made(native)
    other = copy.copy(tok)
    expected = tok.tokenize("banana")
    other._tokenizer = toys.backend(toys.trained())
    other.add_tokens(["na"])
    assert other.tokenize("banana")[-2:] == ["na", "na"]
    assert tok.tokenize("banana") == expected


def test_the_tokenizers_own_questions_are_no_reason_to_look_for_changes(native):
    """Comparing thousands of added tokens at each call would take longer than most calls."""
    tok = made(native)
    everything(copy.copy(tok)), tok.get_vocab(), tok.pad_token_id, tok.convert_tokens_to_string(["a"])
    assert "backend is known" not in tok.cache
    tok.backend_tokenizer  # noqa: B018
    assert "backend is known" in tok.cache


@pytest.mark.parametrize("name", BACKENDS)
def test_settings_of_the_model(native, name):
    tok = made(native)
    everything(tok)
    getattr(tok, name).model.unk_token = "<|pad|>"
    assert everything(tok) == everything(copy.deepcopy(tok))
    assert native is False or tok.explain_path("a") == "native"  # no byte is without a token


@pytest.mark.parametrize("name", BACKENDS)
def test_a_model_that_numbers_tokens_otherwise(native, name):
    """Told by its unk_token: to compare all tokens would take longer than most calls."""
    tok = made(native)
    before = tok("qz")["input_ids"]
    everything(tok)
    vocab = tok.backend_tokenizer.get_vocab(with_added_tokens=False)
    vocab["q"], vocab["z"] = vocab["z"], vocab["q"]
    getattr(tok, name).model = models.BPE(vocab, [], ignore_merges=True, unk_token="<|pad|>")
    assert tok("qz")["input_ids"] == before[::-1] == [vocab["q"], vocab["z"]]
    assert everything(tok) == everything(copy.deepcopy(tok))


def test_a_part_that_changes_after_another_has_replaced_it(native):
    """What is kept for the first must not change with it."""
    tok = made(native)
    before = everything(tok)
    backend = tok.backend_tokenizer
    replaced = backend.pre_tokenizer
    backend.pre_tokenizer = alone(toys.PRE_TOKENIZERS["prefix space"])
    assert everything(tok) != before
    replaced[1].add_prefix_space = True
    backend.pre_tokenizer = alone(toys.PRE_TOKENIZERS["digits"])
    assert everything(tok) == before


@pytest.mark.parametrize("called_before", [True, False])
@pytest.mark.parametrize("name", BACKENDS)
def test_another_model_is_refused_unless_the_scaffold_fits(native, name, called_before):
    tok = made(native)
    expected = tok.tokenize(TEXT) if called_before else made(native).tokenize(TEXT)
    right = getattr(tok, name).model
    for wrong in (models.BPE({"a": 0}, []), models.WordLevel({"a": 0}, unk_token="a")):
        getattr(tok, name).model = wrong
        for _ in range(2):
            with pytest.raises(ValueError, match="does not fit the tokenizer"):
                tok("a")
    getattr(tok, name).model = right
    assert tok.tokenize(TEXT) == expected
    vocab = {token: i for i, token in enumerate([*toys.trained().vocab, "zona"])}
    getattr(tok, name).model = models.BPE(vocab, [])
    with pytest.raises(ValueError, match="'zona' is demolished, though it is a public token"):
        tok("a")


def test_a_pre_tokenizer_written_in_python(native):
    class AtLetterO:
        def pre_tokenize(self, pretok):
            pretok.split(lambda i, text: text.split("o", "isolated"))

    stock = toys.tokenizer(toys.trained(scaffold=False), PreTrainedTokenizerFast)
    ours = made(native, toys.trained(scaffold=False))
    for tokenizer in (stock, ours):
        tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.PreTokenizer.custom(AtLetterO())
    for text in ("zonazona", "huughug"):
        assert ours(text)["input_ids"] == stock(text)["input_ids"]


def test_dropout_and_native_are_read_at_each_call():
    tok = made(True)
    exact = tok.tokenize(TEXT)
    symbols = tok.tokenize(TEXT, dropout=1)
    assert symbols != exact
    for native in (True, False, True):
        tok.native = native
        for dropout, expected in ((1, symbols), (None, exact), (1.0, symbols), (0, exact)):
            tok.dropout = dropout
            assert tok.tokenize(TEXT) == expected
            tok._tokenizer.model.dropout = 1 - (dropout or 0)
            assert tok.tokenize(TEXT) == (exact if dropout else symbols)


def test_a_setting_changed_in_a_call_of_another_thread_stays_with_that_call(native):
    tok = made(native)
    expected = tok(TEXT).data
    thread = Thread(target=lambda: tok(TEXT, split_special_tokens=True, truncation=True, max_length=4))
    thread.start()
    thread.join()
    assert tok(TEXT).data == expected
    assert tok.backend_tokenizer.truncation is None
    assert not tok.backend_tokenizer.encode_special_tokens


def test_a_copy_of_what_other_threads_change_meanwhile(native):
    """Between any two lines that copy it they set something new."""
    tok = made(native)
    changed = [vars(tok), tok._special_tokens_map, tok.init_kwargs]

    def change(frame, event, argument):
        for content in changed:
            content[f"new {len(content)}"] = "x"
        return change

    sys.settrace(change)
    try:
        copies = [copy.deepcopy(tok), pickle.loads(pickle.dumps(tok)), copy.copy(tok)]
    finally:
        sys.settrace(None)
    assert {tuple(each.tokenize(TEXT)) for each in copies} == {tuple(tok.tokenize(TEXT))}
