"""The model card, at the path where the class beside a saved tokenizer looks for it, 0.1.0's included."""

from hf_scaffold.tokenizer.model_card import write_card

__all__ = ["write_card"]
