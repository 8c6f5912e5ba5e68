"""Changes to tokenizers, to be chained. A step returns a tokenizer, and the new id of each old one, or -1."""

import numpy as np
import shapes

import hf_scaffold as hs

N_NEW, N_GONE = shapes.N_MERGES // 8, shapes.N_MERGES // 10


def extended(tokenizer):
    n_ids = max(tokenizer.get_vocab().values()) + 1
    return hs.extend(tokenizer, shapes.new_text(), n_ids + N_NEW), np.arange(n_ids)


def pruned(tokenizer, compact=True):
    tokens = {*tokenizer.get_vocab()}
    n_tokens = len(tokens) - sum(map(is_reserved, tokens))
    pruning = hs.prune(tokenizer, shapes.new_text(), n_tokens - N_GONE, compact=compact)
    return pruning.tokenizer, pruning.remap


def pruned_in_place(tokenizer):
    return pruned(tokenizer, compact=False)


def converted(tokenizer, compact=True):
    conversion = hs.convert_tokenizer(tokenizer, shapes.text().splitlines(), compact=compact)
    return conversion.tokenizer, conversion.remap


def converted_in_place(tokenizer):
    return converted(tokenizer, compact=False)


CHAINS = [
    (converted,),
    (extended, pruned, pruned_in_place),
    (pruned, extended, extended),
    (converted, extended, pruned),
    (converted_in_place, pruned_in_place, extended, pruned),
]


def is_reserved(token):
    """Whether it only holds the id of one that is gone."""
    return token.startswith("<|unused_")


def names(chain):
    return ", ".join(step.__name__ for step in chain)
