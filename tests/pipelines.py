"""Pipelines of published tokenizers, as tokenizer.json has them: what is before the model; its settings."""
# ruff: noqa: RUF001  (full-width punctuation of some patterns)

import json

from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from hf_scaffold.text.presets import GPT4O_PATTERN, LLAMA3_PATTERN

QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")
CL100K_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CLIP_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BLOOM_PATTERN = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK_V3_PATTERNS = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ\u30a0-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
DEEPSEEK_V2_PATTERNS = (
    "[\r\n]",
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽ]+",
    r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+",
    r"\s+$",
    "[一-龥ࠀ-一가-\ud7ff]+",
)

SPACE_TO_MARK = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
PREPEND_MARK = {"type": "Prepend", "prepend": "▁"}
NFC = {"type": "NFC"}
BERT_SPLIT = {"type": "BertPreTokenizer"}
LLAMA = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True}


def sequence(*steps):
    kind = "normalizers" if "Prepend" in str(steps[0]) or steps[0] == NFC else "pretokenizers"
    return {"type": "Sequence", kind: [*steps]}


def bert_normalizer(lowercase, strip_accents=None):
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }


def byte_level(use_regex=True, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def metaspace(scheme, splits):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": splits}


# Name: normalizer, pre-tokenizer, settings of the model.
PIPELINES = {
    # ---- bytes
    "GPT-2, RoBERTa, Whisper, Phi-2": (None, byte_level(), {}),
    "GPT-NeoX, ModernBERT": (NFC, byte_level(), {}),
    "RoBERTa with a prefix space": (None, byte_level(prefix=True), {}),
    "StarCoder, SmolLM": (None, sequence(digits(True), byte_level()), {}),
    "Cohere": (NFC, sequence(digits(True), byte_level()), {}),
    "Llama 3": (None, sequence(split(LLAMA3_PATTERN), byte_level(False)), {}),
    "Qwen2, Qwen3": (NFC, sequence(split(QWEN2_PATTERN), byte_level(False)), {}),
    "cl100k": (None, sequence(split(CL100K_PATTERN, "Removed", True), byte_level(False)), {}),
    "o200k": (None, sequence(split(GPT4O_PATTERN, "Removed", True), byte_level(False)), {}),
    "Mistral Nemo": (None, sequence(split(TEKKEN_PATTERN), byte_level(False)), {}),
    "BLOOM": (None, sequence(split(BLOOM_PATTERN), byte_level(False)), {}),
    "DeepSeek-V2": (
        None,
        sequence(*map(split, DEEPSEEK_V2_PATTERNS), digits(True), byte_level(False)),
        {},
    ),
    "DeepSeek-V3": (None, sequence(*map(split, DEEPSEEK_V3_PATTERNS), byte_level(False)), {}),
    "Falcon": (
        None,
        sequence(
            {"type": "Punctuation", "behavior": "Contiguous"},
            byte_level(),
            digits(False),
            split("[0-9][0-9][0-9]"),
        ),
        {},
    ),
    "CLIP": (
        sequence(
            NFC, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Lowercase"}
        ),
        sequence(split(CLIP_PATTERN, "Removed", True), byte_level()),
        {"unk_token": "<|endoftext|>", "end_of_word_suffix": "</w>"},
    ),
    # ---- characters
    "Llama 2, Mistral 7B, TinyLlama": (sequence(PREPEND_MARK, SPACE_TO_MARK), None, LLAMA),
    "Mistral 7B v0.3": (None, metaspace("first", False), LLAMA),
    "Gemma": (
        SPACE_TO_MARK,
        {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False},
        LLAMA,
    ),
    "NLLB without its normalizer": (
        None,
        metaspace("always", True),
        {"unk_token": "<unk>", "fuse_unk": True},
    ),
    "GPT-1": (bert_normalizer(True), BERT_SPLIT, {"unk_token": "<unk>", "end_of_word_suffix": "</w>"}),
    "HerBERT": (
        bert_normalizer(False, False),
        BERT_SPLIT,
        {"unk_token": "<unk>", "end_of_word_suffix": "</w>"},
    ),
    "XLM": (
        {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]},
        {"type": "WhitespaceSplit"},
        {"unk_token": "<unk>", "end_of_word_suffix": "</w>"},
    ),
    "BERT's pipeline": (
        bert_normalizer(True),
        BERT_SPLIT,
        {"unk_token": "[UNK]", "continuing_subword_prefix": "##"},
    ),
}


def example(normalizer, pre_tokenizer, settings):
    """One without merges, to train others by."""
    content = json.loads(Tokenizer(BPE(**settings)).to_str())
    content |= {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer}
    unk_token = settings.get("unk_token")
    if unk_token is not None:
        content["model"]["vocab"] = {unk_token: 0}
    backend = Tokenizer.from_str(json.dumps(content))
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=unk_token)
