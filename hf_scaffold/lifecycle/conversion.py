"""A Scaffold version of an existing BPE tokenizer: what an audit finds to be scaffolds loses its id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import BPE

from hf_scaffold._utils.arguments import flag, knows_its_arguments
from hf_scaffold.counting.counts import PreTokenCounts
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.lifecycle.audit import Audit, replay
from hf_scaffold.lifecycle.models import Model, as_fast, counts_for
from hf_scaffold.tables.sums import exact_sum
from hf_scaffold.text.corpus import Corpus
from hf_scaffold.text.symbols import Pair
from hf_scaffold.tokenizer.post_processors import with_tokens
from hf_scaffold.training import parts
from hf_scaffold.training.agreement import rows_alike
from hf_scaffold.training.parts import derive_demolish_map, raw_splits

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast


@dataclass(frozen=True)
class Conversion:
    """A Scaffold version of a tokenizer.

    Args:
        tokenizer: Encodes to the tokens that stay.
        remap: int64: old id to new id, -1 for the scaffold tokens, which have none.
        audit: What it is based on.
    """

    tokenizer: ScaffoldTokenizerFast
    remap: NDArray[np.int64]
    audit: Audit


@knows_its_arguments
def convert_tokenizer(
    tokenizer: Any,
    corpus: Corpus | PreTokenCounts,
    *,
    compact: bool = False,
    every_split: bool = False,
    text_field: str = "text",
    num_workers: int | None = None,
) -> Conversion:
    """Make a Scaffold version of a BPE tokenizer: scaffolds lose their ids. This goes beyond the paper.

    All merges stay; so do pipeline, special tokens, template and settings. Tokens that stay keep their ids,
    so a trained model can go on as it is. In place of a scaffold, text is now encoded to its parts.

    Args:
        tokenizer, corpus, text_field, num_workers: As for `audit_tokenizer`, which finds the scaffolds.
        compact: False: reserved tokens "<|unused_ID|>", which no text is encoded to, hold the freed ids, so
            that `len(tokenizer)` and the model's matrices stay as they are. True: the tokens that stay close
            up, in the order of their ids, and `remap` says which row of the embedding matrix goes where.
        every_split: As for `TrainingSettings`.
    Returns:
        Conversion. With compact=True, for a model of transformers:

            kept = torch.from_numpy(np.flatnonzero(conversion.remap >= 0))
            embeddings.weight = torch.nn.Parameter(embeddings.weight[kept])

        for its input and, if not tied, its output embeddings; without compact, `conversion.remap < 0` are
        the rows that no text needs any more.
    Raises:
        ConfigurationError, CorpusError: as for `audit_tokenizer`.
    Example:
        >>> from tokenizers import Tokenizer, models
        >>> vocab = {"u": 0, "g": 1, "h": 2, "p": 3, "ug": 4, "hug": 5, "pug": 6}
        >>> merges = [("u", "g"), ("h", "ug"), ("p", "ug")]
        >>> plain = Tokenizer(models.BPE(vocab, merges))
        >>> conversion = convert_tokenizer(plain, ["hug"] * 3 + ["pug"] * 2)
        >>> conversion.tokenizer("hugug").tokens(), conversion.remap.tolist()
        (['hug', 'u', 'g'], [0, 1, 2, 3, -1, 5, 6])
    """
    compact, every_split = flag("compact", compact), flag("every_split", every_split)
    fast = as_fast(tokenizer)
    model = Model.of(fast)
    counts = counts_for(model, corpus, text_field, num_workers)
    found, frequencies = replay(model, counts)
    made, remap = without(
        fast, model, [token.token for token in found.scaffolds], frequencies, counts, compact, every_split
    )
    return Conversion(made, remap, found)


def without(
    fast: PreTrainedTokenizerFast,
    model: Model,
    gone: Iterable[str],
    frequencies: dict[str, int],
    counts: PreTokenCounts | None,
    compact: bool,
    every_split: bool,
) -> tuple[ScaffoldTokenizerFast, NDArray[np.int64]]:
    """A tokenizer without ids for some merged tokens, which are demolished; and where each old id goes.

    Args:
        fast: The tokenizer as it is.
        model: Its model, with all merges and tokens.
        gone: Every token without an id, scaffold tokens that have none now included.
        frequencies: How often tokens occur once all is merged; 0 for those that are missing.
        counts: What raw agreement is measured on; None: it isn't.
        compact, every_split: As for `convert_tokenizer`.
    """
    demolish = derive_demolish_map(model.merges, gone, model.affixes)
    every_id = fast.get_vocab()
    holes = {token for token, token_id in every_id.items() if token == hole(token_id)}
    remap = np.full(max(every_id.values()) + 1, -1, np.int64)
    without_id = demolish.keys() | holes
    staying = sorted(token_id for token, token_id in every_id.items() if token not in without_id)
    remap[staying] = range(len(staying)) if compact else staying
    vocab = {token: int(remap[i]) for token, i in model.vocab.items() if token not in without_id}
    unused = [token for token in vocab if not model.can_be_made(token)]
    if not compact:
        reserved = {hole(token_id): token_id for token_id in np.flatnonzero(remap < 0).tolist()}
        vocab |= reserved
        unused += reserved
    scaffold = scaffold_of(model.merges, demolish)
    scaffold["unused"] = sorted(unused, key=vocab.__getitem__)
    merges = public_merges(model, vocab, frequencies, every_split)
    if counts is not None:
        scaffold |= agreements(model, vocab, merges, demolish, counts)
    return like(fast, public_model(model, vocab, merges), scaffold, remap), remap


def scaffold_of(merges: list[Pair], demolish: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The content of scaffold.json, as far as merges and demolish map decide it."""
    return {
        "version": 1,
        "merges": [list(pair) for pair in merges],
        "demolish": {token: list(parts) for token, parts in demolish.items()},
    }


def hole(token_id: int) -> str:
    """The token that holds the id of one that is gone."""
    return f"<|unused_{token_id}|>"


def public_merges(
    model: Model, vocab: dict[str, int], frequencies: dict[str, int], every_split: bool
) -> list[Pair]:
    """Rules of plain BPE over the tokens that stay, for programs that know nothing of demolishing.

    Args:
        model: With all merges and tokens.
        vocab: The tokens that stay.
        frequencies: How often each token occurs once all is merged; 0 for those that are missing.
        every_split: Several for a token, as for `TrainingSettings`.
    """
    normal = [token for token in model.vocab if token in vocab and model.can_be_made(token)]
    if every_split:
        return parts.every_split(model.merges, normal, model.affixes)
    rules = list(zip(model.made, model.merges, strict=True))
    still_made = {
        token for token, (left, right) in rules if token in vocab and left in vocab and right in vocab
    }
    strongest = raw_splits(model.merges, normal, frequencies, model.affixes)
    merges: dict[Pair, None] = {}
    for token, pair in rules:
        if token in vocab and pair[0] in vocab and pair[1] in vocab:
            merges[pair] = None
        elif token in strongest and token not in still_made:
            merges.setdefault(strongest[token])
    return list(merges)


def public_model(model: Model, vocab: dict[str, int], merges: list[Pair]) -> BPE:
    names = ("unk_token", "fuse_unk", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix")
    settings = {name: model.settings[name] for name in names if model.settings[name] is not None}
    return BPE(vocab=vocab, merges=merges, ignore_merges=model.affixes.takes_wholes, **settings)


def agreements(
    model: Model,
    vocab: dict[str, int],
    merges: list[Pair],
    demolish: Mapping[str, Sequence[str]],
    counts: PreTokenCounts,
) -> dict[str, float]:
    """Shares of pre-tokens, weighted by counts, that a public model encodes as the whole one does.

    They hold for unseen text, too, if the merges weren't learned from these counts.

    Args:
        model: With all merges and tokens.
        vocab, merges: Of the public model.
        demolish: What stands for the tokens that it lacks.
    """
    texts = {token: model.text_of(token) for token in vocab}
    others = len(model.tokens)  # the number of tokens that hold a place
    wholes = {text: model.number.get(t, others) for t, text in texts.items() if text is not None}
    exact = model.encoder(model.merges, demolish).encode(counts.data, counts.offsets)

    def share(taken: Mapping[bytes, int]) -> float:
        raw = model.encoder(merges, wholes=taken).encode(counts.data, counts.offsets)
        return exact_sum(counts.counts[rows_alike(exact, raw)]) / counts.total

    merges_only = share({})
    return {
        "raw_agreement_merges_only": merges_only,
        "raw_agreement": share(wholes) if model.affixes.takes_wholes else merges_only,
    }


def like(
    fast: PreTrainedTokenizerFast, public: BPE, scaffold: dict[str, Any], remap: NDArray[np.int64]
) -> ScaffoldTokenizerFast:
    """A tokenizer with everything of another but its model; mapped ids in templates and padding."""
    from hf_scaffold.tokenization_scaffold import ScaffoldTokenizerFast, backend_of
    from hf_scaffold.tokenizer.decoders import keeping_spaces
    from hf_scaffold.tokenizer.like import pad_with_own_id, settings_of

    state = json.loads(backend_of(fast).to_str())
    own = json.loads(Tokenizer(public).to_str())["model"]
    state["model"] = {**own, "dropout": state["model"]["dropout"]}
    state["decoder"] = keeping_spaces(state["decoder"], own["vocab"])
    for token in state["added_tokens"]:
        token["id"] = int(remap[token["id"]])
    state["added_tokens"].sort(key=lambda token: token["id"])
    state["post_processor"] = _with_ids(state["post_processor"], remap)
    tokenizer = ScaffoldTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), scaffold=scaffold, **settings_of(fast)
    )
    pad_with_own_id(tokenizer)
    return tokenizer


def _with_ids(post_processor: Any, remap: NDArray[np.int64]) -> Any:
    def moved(token: str, token_id: int) -> tuple[str, int]:
        new = int(remap[token_id]) if token_id < len(remap) else -1
        if new < 0:
            raise ConfigurationError(
                f"the post-processor adds {token!r} by the id {token_id}, which no token of the new "
                "tokenizer comes from; take it out first"
            )
        return token, new

    return with_tokens(post_processor, moved)
