"""GGUF, the files of llama.cpp: a vocabulary as metadata, beside a model's tensors or alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hf_scaffold.text.files import import_extra

# The names that llama.cpp has for pre-tokenizers that split as these presets do. Its gpt-4o doesn't: it cuts
# after some combining marks.
PRE_TOKENIZERS = {"gpt2-digits": "smollm", "gpt2": "gpt-2", "llama3": "llama-bpe"}
TAKES_WHOLES = {"llama-bpe"}  # of these, those for which it takes a pre-token that is a token whole


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer as llama.cpp reads it.

    Args:
        model: "gpt2": merges of bytes; "llama": pieces of SentencePiece, with scores.
        tokens: By id.
        types: Of each token, as in SentencePiece.
        ids: "bos", "eos", "pad" and "unk" to ids.
        adds: Whether "bos", "eos" and a "space" come with each text.
        pre_tokenizer: For "gpt2": llama.cpp's name for it.
        merges: For "gpt2".
        scores: For "llama".
        chat_template: For its server.
    Example:
        >>> Vocabulary("gpt2", ["a"], [1], {}, {}, "gpt-2").merges
        []
    """

    model: str
    tokens: Sequence[str]
    types: Sequence[int]
    ids: Mapping[str, int]
    adds: Mapping[str, bool]
    pre_tokenizer: str = "default"
    merges: Sequence[str] = field(default_factory=list)
    scores: Sequence[float] = field(default_factory=list)
    chat_template: str | None = None

    def add_to(self, writer: Any) -> None:
        """Add it to a `gguf.GGUFWriter`."""
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.pre_tokenizer)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.model == "gpt2":
            writer.add_token_merges(self.merges)
        else:
            writer.add_token_scores(self.scores)
            writer.add_add_space_prefix(self.adds.get("space", False))
        for role, token_id in sorted(self.ids.items()):
            getattr(writer, f"add_{role}_token_id")(token_id)
        writer.add_add_bos_token(self.adds.get("bos", False))
        writer.add_add_eos_token(self.adds.get("eos", False))
        if self.chat_template is not None:
            writer.add_chat_template(self.chat_template)

    def write(self, path: Path) -> None:
        """Write a file of nothing but the vocabulary."""
        writer = import_extra("gguf", "gguf").GGUFWriter(path, "llama")
        self.add_to(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
