"""Small Scaffold-BPE tokenizers, trained by the oracle on pre-tokens chosen to be nasty."""

from collections import Counter
from functools import cache

import oracle
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

STAND_INS = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
SPECIAL_TOKENS = ("<|bos|>", "<|eos|>", "<|pad|>")

# Words with their counts. Nested scaffolds, tokens reached by two rules, characters split between tokens.
WORDS = {
    "Arizona": 50, "zone": 3, "Ari": 4, "zon": 2, "banana": 20, "aaaa": 7, "hug": 10, "pug": 5, "pun": 12,
    "bun": 4, "hugs": 5, "nation": 30, "national": 28, "international": 25, "nationality": 9, "ationa": 1,
    "été": 14, "étéz": 11, "naïve": 13, "ïve": 2, "日本語": 9, "本日": 8, "語日": 3, "🙂🙃": 6, "🙂": 2,
    "don't": 12, "...": 9, "abab": 15, "ababab": 14, "babab": 6, "xyxz": 9, "yxzx": 8, "xyxzx": 7,
}  # fmt: skip


def spell(text):
    """The byte-level stand-ins of a text's UTF-8."""
    return "".join(part for part, _ in STAND_INS.pre_tokenize_str(text))


def pre_tokenizer():
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )


@cache
def trained(vocab_size=282, scaffold=True):
    counts = Counter()
    for word, count in WORDS.items():
        for pre_token, _ in pre_tokenizer().pre_tokenize_str(f"{word} {word}"):
            counts[tuple(pre_token)] += count
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    return oracle.train(
        counts, vocab_size, special_tokens=SPECIAL_TOKENS, alphabet=alphabet, scaffold=scaffold
    )


def public_backend(result):
    """The plain BPE over V that tokenizer.json holds."""
    vocab = {token: token_id for token_id, token in enumerate(result.vocab)}
    tokenizer = Tokenizer(models.BPE(vocab, oracle.raw_merges(result), ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL_TOKENS])
    return tokenizer


def scaffold_of(result):
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


def exact_tokens(result, text, split=None):
    """The oracle's tokens for a text without added tokens."""
    return [
        token
        for pre_token, _ in (split or pre_tokenizer()).pre_tokenize_str(text)
        for token in oracle.encode(tuple(pre_token), result.scaffolds, result.merges)
    ]
