"""The model card, where the class beside a saved tokenizer looks for it; so did that of 0.1.0."""

from hf_scaffold.tokenizer.model_card import write_card

__all__ = ["write_card"]
