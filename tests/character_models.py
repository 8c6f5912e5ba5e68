"""Random BPE models of characters: affixes, unknown characters, byte_fallback, scaffolds, any rules."""
# ruff: noqa: RUF001  (look-alike letters of many scripts are what is tested)

import json
from functools import lru_cache

from tokenizers import Tokenizer, models

from hf_scaffold.text.presets import METASPACES
from hf_scaffold.text.symbols import BYTE_TOKENS

CHARACTERS = "abcdeé▁#_日本🙂\n?"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
# Never in an alphabet, but for spaces: of every length in UTF-8, some with the first bytes of others.
STRANGE = [
    "z",
    "\0",
    "\x7f",
    "è",
    "ß",
    "旦",
    "末",
    "▂",
    "\ufffd",
    "🙃",
    "𝔘",
    "\U0010ffff",
    "##",
    "</w>",
    "<unk>",
]
NORMALIZERS = [
    None,
    {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        ],
    },
    {"type": "Strip", "strip_left": True, "strip_right": True},
    {"type": "NFKC"},
    {
        "type": "Sequence",
        "normalizers": [
            {"type": "NFD"},
            {"type": "StripAccents"},
            {"type": "Replace", "pattern": {"String": "b"}, "content": ""},
        ],
    },
]
PRE_TOKENIZERS = [
    None,
    None,
    *METASPACES,
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "BertPreTokenizer"},
    {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
]
AFFIXES = ["", "", "", "##", "</w>", "_", "b", "#"]


def grow(rng, symbols, n_rules, prefix):
    """Random merges over these symbols, and the tokens they make."""
    tokens, merges = list(symbols), []
    for _ in range(n_rules):
        rights = [token for token in tokens if token.startswith(prefix)]
        if not rights:
            break
        pair = rng.choice(tokens[-12:] + tokens), rng.choice(rights)
        made = pair[0] + pair[1][len(prefix) :]
        if pair in merges or len(made) > 24 or made in BYTE_TOKENS:
            continue
        merges.append(pair)
        if made not in tokens:
            tokens.append(made)
    return tokens, merges


def demolished(rng, token, public, prefix, n_given=0):
    """Public tokens that spell a token, at random; None if there are none. `n_given` are the prefix's."""
    ends = [n for n in range(n_given + 1, len(token) + 1) if token[:n] in public]
    for n in rng.sample(ends, len(ends)):
        if n == len(token):
            return [token]
        rest = demolished(rng, prefix + token[n:], public, prefix, len(prefix))
        if rest is not None:
            return [token[:n], *rest]
    return None


KINDS = ("drop", "unk", "unk", "bytes", "bytes", "some bytes", "a token is unk")


def random_model(rng, kind=None, characters=CHARACTERS):
    """The files of a tokenizer: tokenizer.json and scaffold.json. `kind`: what unknown characters become."""
    prefix, suffix = rng.choice(AFFIXES), rng.choice(AFFIXES)
    alphabet = [*{"▁", *rng.sample(characters, rng.randint(2, 8))}]
    alphabet.sort()
    marked = [(p + c + s) for c in alphabet for p in {"", prefix} for s in {"", suffix}]
    symbols = [*dict.fromkeys(symbol for symbol in marked if rng.random() < 0.9)]
    tokens, merges = grow(rng, symbols, rng.choice([0, 5, 20, 60]), prefix)
    if rng.random() < 0.2:
        rng.shuffle(merges)
    made = [left + right[len(prefix) :] for left, right in merges]
    scaffolds = {token for token in made if token not in symbols and rng.random() < 0.3}
    public = [token for token in tokens if token not in scaffolds]
    parts = {token: demolished(rng, token, {*public}, prefix) for token in sorted(scaffolds)}
    demolish = {token: found for token, found in parts.items() if found is not None}
    public += [token for token, found in parts.items() if found is None]
    kind = kind or rng.choice(KINDS)
    settings = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
    settings = {name: affix for name, affix in settings.items() if affix}
    if kind in ("unk", "some bytes") or rng.random() < 0.1:
        settings["unk_token"] = "<unk>"
        public.append("<unk>")
    elif kind == "a token is unk" and public:
        settings["unk_token"] = rng.choice(public)
    if "bytes" in kind:
        settings["byte_fallback"] = True
        left_out = rng.sample(BYTE_TOKENS, rng.choice([1, 60])) if kind == "some bytes" else ()
        public += [token for token in BYTE_TOKENS if token not in left_out]
        if kind == "bytes" and not prefix and rng.random() < 0.1:
            merges.append(("<0xE6>", "<0x97>"))
            public.append("<0xE6><0x97>")
    settings["fuse_unk"] = rng.random() < 0.5
    public = [*dict.fromkeys(public)]
    rng.shuffle(public)
    vocab = {token: i for i, token in enumerate(public)}
    content = json.loads(Tokenizer(models.BPE(**settings)).to_str())
    content["model"]["vocab"] = vocab
    content["normalizer"], content["pre_tokenizer"] = rng.choice(NORMALIZERS), rng.choice(PRE_TOKENIZERS)
    content["added_tokens"] = [
        {"id": vocab[token], "content": token, **{flag: rng.random() < 0.3 for flag in FLAGS}}
        for token in rng.sample(public, min(len(public), rng.choice([0, 0, 1, 2])))
    ]
    scaffold = {"version": 1, "merges": [list(pair) for pair in merges], "demolish": demolish}
    return json.dumps(content), json.dumps(scaffold)


@lru_cache(maxsize=4)
def pieces(tokenizer_json, scaffold_json):
    """What texts are glued from: the tokens without affixes, characters and spaces."""
    model, scaffold = json.loads(tokenizer_json)["model"], json.loads(scaffold_json)
    tokens = [*model["vocab"], *scaffold["demolish"], *CHARACTERS]
    for affix in (model["continuing_subword_prefix"], model["end_of_word_suffix"]):
        if affix:
            tokens = [token.removeprefix(affix).removesuffix(affix) for token in tokens]
    return [*tokens, " ", " "]


def random_text(rng, tokenizer_json, scaffold_json):
    """Tokens and strange characters glued together."""
    n_strange = rng.choice([0, 0, 0, len(STRANGE)])
    glued = [*pieces(tokenizer_json, scaffold_json), *STRANGE[:n_strange]]
    return "".join(rng.choices(glued, k=rng.choice([1, 1, 2, 3, 5, 10, 30, 100])))
