"""Growing a tokenizer: what is added counts from |V| up, is found in text as stock finds it, and stays."""

import copy
import pickle

import pytest
import tokenizers
import toys
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast, release

fuzz = settings(max_examples=40, suppress_health_check=list(HealthCheck))

N = len(toys.trained().vocab)


# ---- ids


def test_ids_count_up_from_the_end_of_the_vocabulary(native):
    tok = toys.tokenizer(native=native)
    assert tok.add_tokens(["new one", "<tool>", "new one"]) == 2
    assert tok.add_special_tokens({"sep_token": "<|sep|>", "extra_special_tokens": ["<|a|>", "<|b|>"]}) == 3
    added = ["new one", "<tool>", "<|sep|>", "<|a|>", "<|b|>"]
    assert tok.convert_tokens_to_ids(added) == [*range(N, N + 5)]
    assert len(tok) == N + 5
    assert tok.vocab_size == N
    assert tok.get_added_vocab() == {**dict(zip(toys.SPECIAL_TOKENS, range(3), strict=True))} | {
        token: N + i for i, token in enumerate(added)
    }
    text = "zona<tool><|b|>new one<|sep|>"
    ids = tok(text)["input_ids"]
    assert ids[-4:] == [N + 1, N + 4, N, N + 2]
    assert tok.decode(ids) == text
    assert tok.decode(ids, skip_special_tokens=True) == "zona<tool>new one"
    assert {"<|sep|>", "<|a|>", "<|b|>"} < {*tok.all_special_tokens}


def test_tokens_of_the_model_keep_their_ids(native):
    tok = toys.tokenizer(native=native)
    hug = tok.convert_tokens_to_ids("hug")
    assert tok.add_tokens(["hug", "a"]) == 2
    assert len(tok) == N
    assert tok("hugs a")["input_ids"][0] == hug
    assert tok.tokenize("hugs") == ["hug", "s"]


@pytest.mark.parametrize("name", ["image_token", "boi_token"])
def test_tokens_with_names_of_their_own(native, name, tmp_path):
    tok = toys.tokenizer(native=native, extra_special_tokens={name: f"<{name}>"})
    assert getattr(tok, name) == f"<{name}>"
    assert getattr(tok, f"{name}_id") == N == tok(f"<{name}>")["input_ids"][0]
    tok.save_pretrained(tmp_path)
    loaded = ScaffoldTokenizerFast.from_pretrained(tmp_path)
    assert getattr(loaded, f"{name}_id") == N


def test_chat_tokens(native):
    template = (
        "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    tok = toys.tokenizer(native=native, chat_template=template)
    tok.add_special_tokens({"extra_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    messages = [{"role": "user", "content": "ationa zona"}]
    ids = tok.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert [ids.count(N), ids.count(N + 1)] == [2, 1]
    assert max(ids) == N + 1
    assert tok.decode(ids) == tok.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert tok.decode(ids, skip_special_tokens=True) == "user\nationa zona\nassistant\n"


# ---- found in text as stock finds them


STRINGS = [
    *("zona", "ationa", "na", "zo", "æĹ¥æľ¬"),  # scaffold tokens, or their text
    *("hug", "Arizona", "banana"),  # normal tokens
    *("a", "é", " ", "\n", "Ġ"),  # bytes and their stand-ins
    *("hug hugs", "ugs", "anana", "nan", "onan", "izo", "zon", "日本", "本"),  # overlapping others and text
    *("<|eos|>", "<|eos|>x", "<new>", "<new", "ZONA", "e\u0301", "ﬁ"),
]
flags = st.fixed_dictionaries(
    {},
    optional={name: st.booleans() for name in ("lstrip", "rstrip", "single_word", "normalized", "special")},
)
added_tokens = st.builds(lambda content, made: AddedToken(content, **made), st.sampled_from(STRINGS), flags)
steps = st.one_of(
    st.tuples(st.just("add_tokens"), st.lists(st.sampled_from(STRINGS) | added_tokens, max_size=3)),
    st.tuples(
        st.just("add_special_tokens"),
        st.fixed_dictionaries(
            {},
            optional={
                "sep_token": st.sampled_from(STRINGS) | added_tokens,
                "extra_special_tokens": st.lists(st.sampled_from(STRINGS) | added_tokens, max_size=2),
            },
        ),
    ),
    st.tuples(st.just("backend"), st.lists(st.sampled_from(STRINGS) | added_tokens, max_size=3)),
    st.tuples(st.just("backend special"), st.lists(st.sampled_from(STRINGS) | added_tokens, max_size=3)),
)
texts = st.lists(
    st.sampled_from([*STRINGS, *STRINGS, *toys.WORDS, " ", "  ", "\t", "x", "_", "7", "É", "\u3000"]),
    max_size=9,
).map("".join)


def flags_are_told(made):
    """Before tokenizers 0.23 a token added again is found by its old flags, too, and nothing tells them."""
    tokens = [*toys.SPECIAL_TOKENS]
    for _, added in made:
        for one in added.values() if isinstance(added, dict) else [added]:
            tokens += map(str, one if isinstance(one, list) else [one])
    return release(tokenizers.__version__) >= (0, 23) or len({*tokens}) == len(tokens)


def grow(tokenizer, step):
    kind, tokens = step
    if kind == "add_tokens":
        return tokenizer.add_tokens(tokens)
    if kind == "add_special_tokens":
        return tokenizer.add_special_tokens(tokens)
    add = tokenizer.backend_tokenizer.add_tokens
    return (tokenizer.backend_tokenizer.add_special_tokens if "special" in kind else add)(tokens)


def once_special_is_known(tokenizer):
    """Whether ours can tell each token that stock still takes for special, added again as a common one."""
    backend = tokenizer.backend_tokenizer
    return all(
        token.special or backend.id_to_token(i) == token.content
        for i, token in backend.get_added_tokens_decoder().items()
    )


def stock_is_repeatable(tokenizer):
    """Of tokens that the normalizer makes one, the backend finds whichever its hash table has first."""
    backend = tokenizer.backend_tokenizer
    found_as = [backend.id_to_token(i) for i, t in backend.get_added_tokens_decoder().items() if t.normalized]
    return len({*found_as}) == len(found_as)


def everything(tokenizer, text):
    encoded = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    ids = tokenizer(text)["input_ids"]
    split = tokenizer(text, split_special_tokens=True)["input_ids"]
    return (
        dict(encoded),
        encoded.tokens(),
        ids,
        split if once_special_is_known(tokenizer) else None,
        tokenizer.decode(ids),
        tokenizer.decode(ids, skip_special_tokens=True),
        tokenizer([text, "a"], padding=True)["input_ids"],
    )


@fuzz
@given(
    st.booleans(),
    st.lists(steps, min_size=1, max_size=4),
    st.lists(texts, min_size=4, max_size=4),
    st.sampled_from(list(toys.NORMALIZERS)),
)
def test_growing_is_stock(native, made, drawn, normalizer):
    assume(flags_are_told(made))
    result = toys.trained(scaffold=False)
    ours = toys.tokenizer(result, normalizer=normalizer, native=native)
    stock = toys.tokenizer(result, PreTrainedTokenizerFast, normalizer=normalizer)
    for step, text in zip(made, drawn, strict=False):
        assert everything(ours, text) == everything(stock, text)
        assert grow(ours, step) == grow(stock, step)
        assume(stock_is_repeatable(stock))
        assert everything(ours, text) == everything(stock, text)
        assert len(ours) == len(stock)
        assert ours.get_added_vocab() == stock.get_added_vocab()
        assert ours.all_special_tokens == stock.all_special_tokens


@fuzz
@given(st.booleans(), st.lists(steps, max_size=4), texts, st.sampled_from(toys.SIZES))
def test_between_added_tokens_text_is_encoded_exactly(native, made, text, size):
    assume(flags_are_told(made))
    result = toys.trained(size)
    ours = toys.tokenizer(native=native, result=result)
    only_added = Tokenizer(models.WordLevel({"text": 0}, unk_token="text"))
    finder = PreTrainedTokenizerFast(tokenizer_object=only_added, **toys.NAMED)
    for step in made:
        grow(ours, step)
        grow(finder, step)
    encoded = finder(text, return_offsets_mapping=True)
    found = finder.added_tokens_decoder
    tokens, ids = [], []
    for token_id, token, (start, stop) in zip(
        encoded["input_ids"], encoded.tokens(), encoded["offset_mapping"], strict=True
    ):
        is_added = token_id in found  # white space that it strips is in `token`, but not in its content
        tokens += [token] if is_added else (exact := toys.exact_tokens(result, text[start:stop]))
        ids += ours.convert_tokens_to_ids([found[token_id].content] if is_added else exact)
    assert ours(text)["input_ids"] == ids
    assert ours.tokenize(text) == tokens


@pytest.mark.parametrize("cls", [ScaffoldTokenizerFast, PreTrainedTokenizerFast])
@pytest.mark.parametrize("kind", ["add_tokens", "backend"])
def test_once_special_stays_it(native, cls, kind):
    tok = toys.tokenizer(toys.trained(scaffold=False), cls, native=native)
    na, zona = tok.convert_tokens_to_ids(["na", "zona"])
    grow(tok, ("backend", ["na"]))
    assert na in tok("zona", split_special_tokens=True)["input_ids"]
    # The backend's added tokens look the same before and after.
    grow(tok, (kind, [AddedToken("na", special=True, normalized=False), "na"]))
    assert tok("zona", split_special_tokens=True)["input_ids"] == [zona]
    assert tok.decode([na], skip_special_tokens=True) == ""


def test_adding_again_changes_flags(native):
    tok = toys.tokenizer(native=native)
    tok.add_tokens([AddedToken("zona", single_word=True)])
    assert tok.tokenize("xzona zona") == [*toys.exact_tokens(toys.trained(), "xzona "), "zona"]
    tok.add_tokens([AddedToken("zona", single_word=False)])
    assert tok.tokenize("xzona zona") == ["x", "zona", "Ġ", "zona"]
    assert len(tok) == N + 1


@pytest.mark.parametrize("name", ["backend_tokenizer", "_tokenizer"])
def test_tokens_added_to_the_backend(native, name):
    tok = toys.tokenizer(native=native)
    tok("fill the cache")
    assert getattr(tok, name).add_tokens(["zona"]) == 1
    assert tok("xzona")["input_ids"][-1] == N
    assert getattr(tok, name).add_special_tokens(["<|x|>"]) == 1
    assert tok.decode(tok("<|x|>zona")["input_ids"], skip_special_tokens=True) == "zona"


def test_who_keeps_the_backend_may_change_it_later(native):
    tok = toys.tokenizer(native=native)
    backend = tok.backend_tokenizer
    assert tok.tokenize("banana") == ["banana"]
    backend.add_tokens(["na"])  # a token of the model: the vocabulary does not grow
    assert tok.tokenize("banana") == [*toys.exact_tokens(toys.trained(), "ba"), "na", "na"]
    backend.add_tokens([AddedToken("na", single_word=True)])
    assert tok.tokenize("banana") == ["banana"]
    ids = tok("na")["input_ids"]
    assert tok.decode(ids, skip_special_tokens=True) == "na"
    backend.add_special_tokens(["na"])
    assert tok.decode(ids, skip_special_tokens=True) == ""


def test_once_special_always_skipped_as_in_stock(native):
    tok = toys.tokenizer(native=native)
    stock = toys.tokenizer(cls=PreTrainedTokenizerFast)
    for grown in (tok, stock):
        grown.add_special_tokens({"sep_token": "zona"})
        grown.add_tokens(["zona"])
    ids = tok("azona<|eos|>")["input_ids"]
    assert tok.decode(ids, skip_special_tokens=True) == stock.decode(ids, skip_special_tokens=True) == "a"
    text = toys.exact_tokens(toys.trained(), "azona")
    assert tok.tokenize("azona", split_special_tokens=True) == text


def test_encodings_stay_those_of_the_time_of_the_call(native):
    tok = toys.tokenizer(native=native)
    tok.add_tokens([AddedToken("zona", single_word=True)])
    encoded, ids = tok("xzona"), tok("xzona")["input_ids"]
    tok.add_tokens([AddedToken("zona", single_word=False)])
    assert tok("xzona")["input_ids"] != ids
    assert encoded.encodings[0].ids == ids


# ---- kept


def much_grown(native):
    tok = toys.tokenizer(native=native, extra_special_tokens=["<|image|>"])
    tok.add_tokens(["zona", AddedToken("Ari", lstrip=True, single_word=True), "new one"])
    tok.add_special_tokens({"sep_token": AddedToken("<|sep|>", rstrip=True), "cls_token": "hug"})
    tok.add_tokens([f"<{i}>" for i in range(30)])
    return tok


TEXTS = ["xzona  Ari<|sep|>  hugs Arizona", "<7><|image|>new one zona", "Arizona zona"]


def saved(tok, folder, load):
    tok.save_pretrained(folder)
    return load.from_pretrained(folder)


WAYS = {
    "save": lambda tok, folder: saved(tok, folder, ScaffoldTokenizerFast),
    "auto": lambda tok, folder: saved(tok, folder, AutoTokenizer),
    "pickle": lambda tok, folder: pickle.loads(pickle.dumps(tok)),
    "deepcopy": lambda tok, folder: copy.deepcopy(tok),
    "copy": lambda tok, folder: copy.copy(tok),
}


@pytest.mark.parametrize("way", WAYS)
def test_added_tokens_are_kept(native, way, tmp_path):
    tok = much_grown(native)
    before = [everything(tok, text) for text in TEXTS]
    kept = WAYS[way](tok, tmp_path)
    kept.native = native
    assert [everything(kept, text) for text in TEXTS] == before
    assert kept.get_vocab() == tok.get_vocab()
    assert str(kept.added_tokens_decoder) == str(tok.added_tokens_decoder)
    assert kept.special_tokens_map == tok.special_tokens_map
    assert kept.add_tokens(["one more"]) == 1
    assert kept("one more")["input_ids"] == [len(tok) if way != "copy" else len(tok) - 1]


def test_a_deep_copy_grows_alone(native):
    tok = toys.tokenizer(native=native)
    tok("zona")
    other = copy.deepcopy(tok)
    other.add_tokens(["zona"])
    assert other.tokenize("zona") == ["zona"]
    assert tok.tokenize("zona") == toys.exact_tokens(toys.trained(), "zona")


def test_saved_again_the_files_are_the_same(native, tmp_path):
    much_grown(native).save_pretrained(tmp_path / "a")
    ScaffoldTokenizerFast.from_pretrained(tmp_path / "a").save_pretrained(tmp_path / "b")
    for name in ("tokenizer.json", "tokenizer_config.json", "scaffold.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_thousands_of_added_tokens(native, tmp_path):
    tok = toys.tokenizer(native=native)
    assert tok.add_tokens([f"<extra_{i}>" for i in range(5000)]) == 5000
    loaded = saved(tok, tmp_path, ScaffoldTokenizerFast)
    loaded.native = native
    assert len(loaded) == N + 5000
    ids = loaded("<extra_4999>zona<extra_0>")["input_ids"]
    assert [ids[0], ids[-1]] == [N + 4999, N]
    assert loaded.decode(ids) == "<extra_4999>zona<extra_0>"
