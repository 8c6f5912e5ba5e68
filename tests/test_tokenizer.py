"""ScaffoldTokenizerFast against the oracle, and against stock PreTrainedTokenizerFast."""

import oracle
import toys
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

NAMED = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
BOS, EOS = (("<|bos|>", 0), ("<|eos|>", 1))

POST_PROCESSORS = {
    "none": None,
    "bos and eos": processors.TemplateProcessing(
        single="<|bos|> $A <|eos|>", pair="<|bos|> $A <|eos|> $B:1 <|eos|>:1", special_tokens=[BOS, EOS]
    ),
    "trimmed offsets": processors.ByteLevel(trim_offsets=True),
    "roberta": processors.RobertaProcessing(EOS, BOS, trim_offsets=True, add_prefix_space=True),
    "bert": processors.BertProcessing(EOS, BOS),
    "sequence": processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            processors.TemplateProcessing(
                single="<|bos|> $A", pair="<|bos|> $A $B:1 <|eos|>:2", special_tokens=[BOS, EOS]
            ),
        ]
    ),
}
NORMALIZERS = {
    "none": None,
    "NFC": normalizers.NFC(),
    "NFKD": normalizers.NFKD(),
    "lowercase": normalizers.Lowercase(),
    "strip accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
}
PRE_TOKENIZERS = {
    "digits": toys.pre_tokenizer(),
    "prefix space": pre_tokenizers.ByteLevel(add_prefix_space=True),
}


def toy(result=None, cls=ScaffoldTokenizerFast, post="none", normalizer="none", split="digits", **kwargs):
    result = result or toys.trained()
    backend = toys.public_backend(result)
    backend.post_processor = POST_PROCESSORS[post]
    backend.normalizer = NORMALIZERS[normalizer]
    backend.pre_tokenizer = PRE_TOKENIZERS[split]
    if cls is ScaffoldTokenizerFast:
        kwargs["scaffold"] = toys.scaffold_of(result)
    return cls(tokenizer_object=backend, **{**NAMED, **kwargs})


def describe(encoding):
    """All that an Encoding holds."""
    return {
        "ids": encoding.ids,
        "type_ids": encoding.type_ids,
        "tokens": encoding.tokens,
        "word_ids": encoding.word_ids,
        "sequence_ids": encoding.sequence_ids,
        "offsets": encoding.offsets,
        "special_tokens_mask": encoding.special_tokens_mask,
        "attention_mask": encoding.attention_mask,
        "n_sequences": encoding.n_sequences,
        "overflowing": [describe(part) for part in encoding.overflowing],
    }


def plain(value):
    """Tensors and arrays, ragged ones too, as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def outcome(call):
    """What a call returns or raises, in a form that compares."""
    try:
        batch = call()
    except BaseException as error:  # the backend's panics are no Exceptions
        if isinstance(error, KeyboardInterrupt):
            raise
        return type(error).__name__, str(error)
    kinds = {name: type(value) for name, value in batch.items()}
    return plain(dict(batch)), kinds, [describe(encoding) for encoding in batch.encodings]


WORDS = list(toys.WORDS)
texts = st.lists(
    st.sampled_from([*WORDS, " ", "  ", "\n", "<|eos|>", "<|pad|>", "7", "42", "zon", "É", "e\u0301", "ﬁ"])
    | st.text(max_size=3).filter(str.isprintable),
    max_size=6,
).map("".join)


def call_arguments(texts):
    plain = st.tuples(texts, st.none() | texts) | st.lists(st.tuples(texts, texts), max_size=4).flatmap(
        lambda pairs: st.sampled_from(
            [([a for a, _ in pairs], None), ([a for a, _ in pairs], [b for _, b in pairs]), (pairs, None)]
        )
    )
    words = st.lists(texts, max_size=4)
    split = st.tuples(words, st.none() | words) | st.lists(st.tuples(words, words), max_size=4).flatmap(
        lambda pairs: st.sampled_from(
            [([a for a, _ in pairs], None), ([a for a, _ in pairs], [b for _, b in pairs]), (pairs, None)]
        )
    )
    inputs = st.tuples(plain, st.just({})) | st.tuples(split, st.just({"is_split_into_words": True}))
    options = st.fixed_dictionaries(
        {},
        optional={
            "add_special_tokens": st.booleans(),
            "padding": st.sampled_from([True, "max_length", "longest", False]),
            "truncation": st.sampled_from([True, False, "only_first", "only_second", "longest_first"]),
            "max_length": st.integers(1, 24),
            "stride": st.integers(0, 5),
            "pad_to_multiple_of": st.sampled_from([None, 4, 8]),
            "padding_side": st.sampled_from([None, "left", "right"]),
            "return_tensors": st.sampled_from([None, "np", "pt"]),
            "return_token_type_ids": st.booleans(),
            "return_attention_mask": st.booleans(),
            "return_overflowing_tokens": st.booleans(),
            "return_special_tokens_mask": st.booleans(),
            "return_offsets_mapping": st.booleans(),
            "return_length": st.booleans(),
            "split_special_tokens": st.booleans(),
            "verbose": st.just(False),
        },
    )
    return st.tuples(inputs, options).map(lambda drawn: (drawn[0][0], {**drawn[0][1], **drawn[1]}))


construction = st.fixed_dictionaries(
    {
        "post": st.sampled_from(list(POST_PROCESSORS)),
        "normalizer": st.sampled_from(list(NORMALIZERS)),
        "split": st.sampled_from(list(PRE_TOKENIZERS)),
    },
    optional={
        "truncation_side": st.just("left"),
        "padding_side": st.just("left"),
        "model_max_length": st.sampled_from([7, 20]),
        "model_input_names": st.just(["input_ids", "token_type_ids", "attention_mask"]),
    },
)
fuzz = settings(deadline=None, suppress_health_check=list(HealthCheck))


@fuzz
@given(construction, call_arguments(texts))
def test_without_scaffold_tokens_every_call_is_stock(made, call):
    result = toys.trained(scaffold=False)
    (text, text_pair), options = call
    ours = toy(result, **made)
    stock = toy(result, PreTrainedTokenizerFast, **made)
    expected = outcome(lambda: stock(text, text_pair, **options))
    assert outcome(lambda: ours(text, text_pair, **options)) == expected
    assert ours.backend_tokenizer.truncation is None and ours.backend_tokenizer.padding is None


def _agreeing_words():
    """Words in which scaffold tokens occur, and which plain BPE over V happens to encode exactly.

    On these a stock tokenizer must agree with ours in everything, offsets and overflow included.
    """
    result = toys.trained()
    plain_bpe = toys.public_backend(result)
    pieces = {word[i:j] for word in WORDS for i in range(len(word)) for j in range(i + 2, len(word) + 1)}

    def agrees(text):
        return toys.exact_tokens(result, text) == plain_bpe.encode(text).tokens

    def has_scaffold(text):
        return any(
            not result.scaffolds.isdisjoint(oracle.scaffolding(tuple(pre_token), result.merges))
            for pre_token, _ in toys.pre_tokenizer().pre_tokenize_str(text)
        )

    def variants(word):
        for normalizer in NORMALIZERS.values():
            normalized = normalizer.normalize_str(word) if normalizer else word
            yield from (normalized, f" {normalized}")

    return sorted(p for p in pieces if has_scaffold(p) and all(map(agrees, variants(p))))


AGREEING = _agreeing_words()
agreeing_texts = st.lists(
    st.sampled_from([*AGREEING, "<|eos|>", "<|pad|>", "  ", "\n", "7"]), max_size=6
).map(" ".join)


@fuzz
@given(construction, call_arguments(agreeing_texts))
def test_with_scaffold_tokens_every_call_is_what_stock_makes_of_the_same_tokens(made, call):
    (text, text_pair), options = call
    ours = toy(**made)
    stock = toy(cls=PreTrainedTokenizerFast, **made)
    expected = outcome(lambda: stock(text, text_pair, **options))
    assert outcome(lambda: ours(text, text_pair, **options)) == expected
