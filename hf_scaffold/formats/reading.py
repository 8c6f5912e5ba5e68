"""A file that a tokenizer is in, read by what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hf_scaffold.formats import sentencepiece, tiktoken
from hf_scaffold.tokenizer.loading import load_json

FILES = "tokenizer.json, .tiktoken or SentencePiece .model"


def load_file(path: Path) -> Any:
    """The tokenizer in a tokenizer.json, a file of tiktoken or a BPE model of SentencePiece.

    Returns:
        A `tokenizers.Tokenizer` or a fast tokenizer of transformers.
    Raises:
        ConfigurationError: it can't be read.
    """
    if path.suffix not in (".tiktoken", ".model"):
        return load_json(path)
    with path.open("rb") as stream:
        is_of_tiktoken = path.suffix == ".tiktoken" or tiktoken.looks_alike(stream.read(2048))
    return tiktoken.read(path) if is_of_tiktoken else sentencepiece.read(path)
