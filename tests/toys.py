"""Small Scaffold-BPE tokenizers, trained by the oracle on pre-tokens chosen to be nasty."""

from collections import Counter
from functools import cache

import oracle
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast

SPECIAL_TOKENS = ("<|bos|>", "<|eos|>", "<|pad|>")
NAMED = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "pad_token": "<|pad|>"}
BOS, EOS = ("<|bos|>", 0), ("<|eos|>", 1)

# Words with their counts. Training makes scaffolds inside scaffolds and tokens that split a character.
WORDS = {
    "Arizona": 50, "zone": 3, "Ari": 4, "zon": 2, "banana": 20, "aaaa": 7, "hug": 10, "pug": 5, "pun": 12,
    "bun": 4, "hugs": 5, "nation": 30, "national": 28, "international": 25, "nationality": 9, "ationa": 1,
    "été": 14, "étéz": 11, "naïve": 13, "ïve": 2, "日本語": 9, "本日": 8, "語日": 3, "🙂🙃": 6, "🙂": 2,
    "don't": 12, "...": 9, "abab": 15, "ababab": 14, "babab": 6, "xyxz": 9, "yxzx": 8, "xyxzx": 7,
}  # fmt: skip

# At the smaller size scaffolds demolish to longer pieces, at the larger one there are more of them.
SIZES = (282, 326)

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
    "Llama": normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
    "stripped": normalizers.Sequence([normalizers.Strip(), normalizers.Replace("na", "🙂 ")]),
    "not compiled": normalizers.Replace(Regex("(?<!n)a"), "c"),
    "same text": normalizers.Replace("ana", "ana"),  # after which every character stands for all three
    "strip accents": normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
}
DIGITS = pre_tokenizers.Digits(individual_digits=True)
PRE_TOKENIZERS = {
    "digits": pre_tokenizers.Sequence([DIGITS, pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "prefix space": pre_tokenizers.ByteLevel(add_prefix_space=True),
}

# For calls made at once: none may see those of another.
SETTINGS = [
    {},
    {"truncation": True, "max_length": 9, "padding": "max_length"},
    {"truncation": True, "max_length": 7, "stride": 2, "return_overflowing_tokens": True},
    {"padding": True, "padding_side": "left"},
    {"padding": True, "pad_to_multiple_of": 8, "split_special_tokens": True},
]


def split(text, pre_tokenizer="digits"):
    """The pre-tokens of a text, each a tuple of symbols."""
    return [tuple(pre_token) for pre_token, _ in PRE_TOKENIZERS[pre_tokenizer].pre_tokenize_str(text)]


@cache
def trained(vocab_size=SIZES[0], scaffold=True):
    counts = Counter()
    for word, count in WORDS.items():
        for pre_token in split(f"{word} {word}"):
            counts[pre_token] += count
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return oracle.train(
        counts, vocab_size, special_tokens=SPECIAL_TOKENS, alphabet=alphabet, scaffold=scaffold
    )


def exact_tokens(result, text, pre_tokenizer="digits"):
    """The oracle's tokens for a text without added tokens."""
    return [
        token
        for pre_token in split(text, pre_tokenizer)
        for token in oracle.encode(pre_token, result.scaffolds, result.merges)
    ]


def backend(result, model=None):
    """What tokenizer.json holds: plain BPE over V, or another model."""
    vocab = {token: token_id for token_id, token in enumerate(result.vocab)}
    tokenizer = Tokenizer(model or models.BPE(vocab, oracle.raw_merges(result), ignore_merges=True))
    tokenizer.pre_tokenizer = PRE_TOKENIZERS["digits"]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL_TOKENS])
    return tokenizer


def scaffold(result):
    return {
        "version": 1,
        "merges": [list(pair) for pair in result.merges],
        "demolish": {
            token: list(oracle.demolish(token, result.scaffolds, result.merges))
            for token in result.expanded
            if token in result.scaffolds
        },
        "raw_agreement": 0.5,
    }


def tokenizer(
    result=None,
    cls=ScaffoldTokenizerFast,
    post_processor="none",
    normalizer="none",
    pre_tokenizer="digits",
    native=True,
    **kwargs,
):
    """A toy as ScaffoldTokenizerFast; or as stock, which then knows only the plain BPE over V."""
    result = result or trained()
    public = backend(result)
    public.post_processor = POST_PROCESSORS[post_processor]
    public.normalizer = NORMALIZERS[normalizer]
    public.pre_tokenizer = PRE_TOKENIZERS[pre_tokenizer]
    if cls is ScaffoldTokenizerFast:
        kwargs["scaffold"] = scaffold(result)
    made = cls(tokenizer_object=public, **{**NAMED, **kwargs})
    if not native:
        made.native = False
    return made
