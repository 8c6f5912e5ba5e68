"""Training by example, at the path where the class beside a saved tokenizer looks for it, 0.1.0's included."""

from hf_scaffold.tokenizer.training import train_new_from_iterator

__all__ = ["train_new_from_iterator"]
