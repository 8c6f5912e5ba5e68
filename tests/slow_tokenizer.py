"""The slow twin of a whole tokenizer: the oracle, on what `tokenizers` normalizes and splits."""

import json

import oracle

from hf_scaffold.text.byte_level import bytes_to_symbols


class SlowTokenizer:
    """Texts to ids, without the special tokens that frame them. It knows no added tokens: see `knows`."""

    def __init__(self, tokenizer):
        backend = tokenizer.backend_tokenizer
        content = json.loads(backend.to_str())
        self.normalize = backend.normalizer.normalize_str if backend.normalizer else str
        self.pre_tokenizer = backend.pre_tokenizer
        self.model = content["model"]
        self.merges = [*map(tuple, tokenizer.scaffold["merges"])]
        self.demolish = tokenizer.scaffold["demolish"]
        self.tokens = self.model["vocab"].keys() | self.demolish.keys()
        added = {token["content"] for token in content["added_tokens"]}
        self.added = {*added, *map(self.normalize, added)}
        # `tokenizers` asks whether the first character left is the first that there was.
        prefixes_the_start = (content["pre_tokenizer"] or {}).get("prepend_scheme") == "first"
        self.is_sure = not (content["normalizer"] and prefixes_the_start)
        self.known = {}  # pre-tokens and their ids

    def knows(self, text):
        normalized = self.normalize(text)
        return self.is_sure and not any(content in text or content in normalized for content in self.added)

    def keeps(self, text):
        """Whether its pre-tokens spell it, byte for byte."""
        if self.normalize is not str:
            return False
        stand_ins = text if self.pre_tokenizer is None else bytes_to_symbols(text.encode())
        return "".join(self.split(text)) == stand_ins

    def encode(self, text):
        return [token_id for pretoken in self.split(self.normalize(text)) for token_id in self.ids(pretoken)]

    def split(self, normalized):
        if self.pre_tokenizer is None:
            return [normalized]
        return [pretoken for pretoken, _ in self.pre_tokenizer.pre_tokenize_str(normalized)]

    def ids(self, pretoken):
        if pretoken not in self.known:
            tokens = oracle.scaffolding(self.symbols(pretoken), self.merges, self.prefix)
            self.known[pretoken] = self.demolished(tokens)
        return self.known[pretoken]

    @property
    def prefix(self):
        return self.model["continuing_subword_prefix"] or ""

    def symbols(self, pretoken):
        model = self.model
        return oracle.known_symbols(
            oracle.symbols_of(pretoken, self.prefix, model["end_of_word_suffix"] or ""),
            self.tokens,
            model["unk_token"],
            model["fuse_unk"],
            model["byte_fallback"],
        )

    def demolished(self, tokens):
        parts = [part for token in tokens for part in self.demolish.get(token, [token])]
        return [self.model["vocab"][part] for part in parts]

    def encode_with_dropout(self, text, p, number):
        """As `encode`, where chance passes over merges, for a text that it keeps.

        Args:
            number: The text's, on which chances depend, and on the bytes before each pre-token.
        """
        ids, at = [], 0
        for pretoken in self.split(text):
            symbols, drops = self.symbols(pretoken), oracle.dice(p, number, at)
            tokens = oracle.scaffolding_with_dropout(symbols, self.merges, drops, self.prefix)
            ids += self.demolished(tokens)
            at += len(symbols)
        return ids
