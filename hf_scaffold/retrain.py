"""Training by example, where the class beside a saved tokenizer looks for it; so did that of 0.1.0."""

from hf_scaffold.tokenizer.training import train_new_from_iterator

__all__ = ["train_new_from_iterator"]
