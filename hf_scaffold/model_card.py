"""The model card, by the path at which the class beside a saved tokenizer looks for it: of 0.1.0, too."""

from hf_scaffold.tokenizer.model_card import write_card

__all__ = ["write_card"]
