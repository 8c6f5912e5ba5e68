"""Training by example, by the path at which the class beside a saved tokenizer looks for it: of 0.1.0, too."""

from hf_scaffold.tokenizer.training import train_new_from_iterator

__all__ = ["train_new_from_iterator"]
