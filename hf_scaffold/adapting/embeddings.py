"""Which tensors of a model have a row for each token, and what their new rows hold."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hf_scaffold.adapting.checkpoints import Checkpoint, Replacement, Tensor
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.text.files import import_extra

INITIALIZERS = ("pieces", "mean", "normal", "random", "zeros")

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
_SPREAD = 1e-9  # of "normal": share of the covariance, as in transformers
_ROWS_AT_ONCE = 4096


# ---- which tensors


@dataclass(frozen=True)
class Shapes:
    """The tensors of a model that change with its vocabulary.

    Args:
        axes: Name to shape, and the axis of tokens.
        others: The names of those that don't change.
        tied: Sets of names that share one tensor.
    """

    axes: dict[str, tuple[tuple[int, ...], int]]
    others: frozenset[str]
    tied: tuple[frozenset[str], ...]


def shapes_of(config: Any, resized: Any) -> Shapes:
    """What of a model has the size of its vocabulary: it is built twice, without memory for weights.

    Args:
        config: A model's config.
        resized: The same one with another vocabulary size.
    Raises:
        ConfigurationError: transformers has no such model, or can't build it.
    """
    before, after = _built(config), _built(resized)
    axes = {}
    for name, tensor in before.items():
        sizes, others = tuple(tensor.shape), tuple(after[name].shape)
        changed = [axis for axis, pair in enumerate(zip(sizes, others, strict=True)) if pair[0] != pair[1]]
        if changed:
            axes[name] = sizes, changed[0]
    tied: dict[int, set[str]] = {}
    for name in axes:
        tied.setdefault(id(before[name]), set()).add(name)
    return Shapes(axes, frozenset(before.keys() - axes.keys()), tuple(map(frozenset, tied.values())))


def _built(config: Any) -> dict[str, Any]:
    torch = import_extra("torch", "adapt")
    import transformers

    name = (config.architectures or ["AutoModel"])[0]
    kind = getattr(transformers, name, None)
    is_model = isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)
    if kind is None or not (is_model or name == "AutoModel"):
        raise ConfigurationError(
            f"transformers has no model {name}; name all tensors with a row for each token in embedding_names"
        )
    try:
        with torch.device("meta"):
            model = kind.from_config(config) if name == "AutoModel" else kind(config)
            model.tie_weights()
    except Exception as error:  # of any kind: it is the model's own code
        raise ConfigurationError(
            f"transformers can't build {name} from config.json ({type(error).__name__}: {error}); name "
            "all tensors with a row for each token in embedding_names"
        ) from error
    found: dict[str, Any] = model.state_dict(keep_vars=True)
    return found


def find_embeddings(checkpoint: Checkpoint, shapes: Shapes, n_rows: int) -> dict[str, int]:
    """The tensors of a checkpoint that change with the vocabulary, each with its axis of tokens.

    A name need only end as it does in the model: checkpoints may lack a prefix, or have another one.

    Raises:
        ConfigurationError: one has another shape or is missing, or one that isn't known may be one; names it.
    """
    ends = {_end(name): name for name in shapes.axes}
    known = {*map(_end, shapes.others)}
    found: dict[str, int] = {}
    of_model: set[str] = set()
    for tensor in checkpoint.tensors:
        name = tensor.name if tensor.name in shapes.axes else ends.get(_end(tensor.name))
        if name is None:
            if n_rows in tensor.shape and _end(tensor.name) not in known:
                raise ConfigurationError(
                    f"{tensor.name} has {n_rows:,} rows, as many as the vocabulary, but the model of "
                    "config.json has no such tensor; name all tensors with a row for each token in "
                    "embedding_names"
                )
            continue
        shape, axis = shapes.axes[name]
        if tensor.shape != shape:
            raise ConfigurationError(
                f"{tensor.name} is {tensor.dtype} {[*tensor.shape]}, but by config.json it has the shape "
                f"{[*shape]}; quantized embeddings can't be adapted"
            )
        found[tensor.name] = axis
        of_model.add(name)
    for group in shapes.tied:
        name = min(group)
        if not group & of_model and len(shapes.axes[name][0]) > 1 and shapes.axes[name][1] == 0:
            raise ConfigurationError(
                f"{name} is in no file of the checkpoint; if it has another name there, name all tensors "
                "with a row for each token in embedding_names"
            )
    return found


def named_embeddings(checkpoint: Checkpoint, names: Sequence[str], n_rows: int) -> dict[str, int]:
    """The tensors of these names, each with its axis of tokens: the first one of that size.

    Raises:
        ConfigurationError: there is no such tensor, or none of its axes has n_rows.
    """
    tensors = {tensor.name: tensor for tensor in checkpoint.tensors}
    for name in names:
        if name not in tensors:
            raise ConfigurationError(f"embedding_names has {name!r}, which is in no file of the checkpoint")
        if n_rows not in tensors[name].shape:
            raise ConfigurationError(
                f"{name} has the shape {[*tensors[name].shape]}, without {n_rows:,} rows, which is the "
                "vocab_size of config.json"
            )
    return {name: tensors[name].shape.index(n_rows) for name in names}


def _end(name: str) -> str:
    """Enough of a tensor's name to know it by.

    Example:
        >>> _end("language_model.model.embed_tokens.weight")
        'embed_tokens.weight'
    """
    return ".".join(name.split(".")[-2:])


# ---- their new rows


@dataclass(frozen=True)
class Plan:
    """Where each new row comes from.

    Args:
        kept: int64: new id to old id, -1 where there is none; as many as new rows.
        pieces: New id to the old ids of its pieces, for each new token; not for ids without a token.
        known: int64: the old ids that have a token, in order.
        init: One of INITIALIZERS, for the rows of new tokens.
        std: Standard deviation of "random".
        seed: For "normal" and "random".
    """

    kept: NDArray[np.int64]
    pieces: Mapping[int, list[int]]
    known: NDArray[np.int64]
    init: str
    std: float
    seed: int


def replacements(checkpoint: Checkpoint, axes: Mapping[str, int], plan: Plan) -> dict[str, Replacement]:
    """The tensors that replace those with a row for each token, to be made while they are written.

    Raises:
        ConfigurationError: a tensor's numbers or their order can't be adapted; names it.
    """
    found = {}
    for weights in checkpoint.files:
        for tensor in weights.tensors:
            if tensor.name in axes:
                axis = axes[tensor.name]
                if tensor.dtype not in _DTYPES:
                    raise ConfigurationError(
                        f"{tensor.name} is {tensor.dtype}; embeddings of {', '.join(_DTYPES)} can be "
                        "adapted, quantized ones can't"
                    )
                if math.prod(tensor.shape[:axis]) != 1:
                    raise ConfigurationError(
                        f"{tensor.name}, {[*tensor.shape]}, has a column, not a row, for each token; such "
                        "tensors can't be adapted"
                    )
                shape = (*tensor.shape[:axis], len(plan.kept), *tensor.shape[axis + 1 :])
                parts = _Rows(weights.path, tensor, tensor.shape[axis], plan)
                found[tensor.name] = Replacement(shape, parts)
    return found


@dataclass(frozen=True)
class _Rows:
    """The bytes of a tensor's new rows, some rows at a time."""

    path: Path
    tensor: Tensor
    n_rows: int
    plan: Plan

    def __iter__(self) -> Iterator[bytes]:
        torch = import_extra("torch", "adapt")
        from safetensors import safe_open

        plan = self.plan
        with safe_open(self.path, framework="pt") as weights:
            old = weights.get_tensor(self.tensor.name).reshape(self.n_rows, -1)
        mean = _mean(old, plan.known)
        initial = _initial(old, mean, plan)
        kept_ids = plan.kept[plan.kept >= 0]
        # Of ids without a token: their logits are the mean of others, and so never the highest.
        filler = (_mean(old, kept_ids) if len(kept_ids) else mean).to(old.dtype)
        for begin in range(0, len(plan.kept), _ROWS_AT_ONCE):
            kept = torch.from_numpy(plan.kept[begin : begin + _ROWS_AT_ONCE])
            rows = filler.repeat(len(kept), 1)
            new = [i for i in range(begin, begin + len(kept)) if i in plan.pieces]
            if new:
                rows[torch.tensor(new) - begin] = initial(new).to(old.dtype)
            rows[kept >= 0] = old[kept[kept >= 0]]
            yield rows.view(torch.uint8).numpy().tobytes()


def _in_double(old: Any, ids: NDArray[np.int64]) -> Iterator[Any]:
    """Some rows at a time, as float64."""
    for begin in range(0, len(ids), _ROWS_AT_ONCE):
        yield old[ids[begin : begin + _ROWS_AT_ONCE]].double()


def _mean(old: Any, ids: NDArray[np.int64]) -> Any:
    return sum(rows.sum(0) for rows in _in_double(old, ids)) / len(ids)


def _initial(old: Any, mean: Any, plan: Plan) -> Any:
    """A function of new ids that gives their rows, as float64; called with all of them, in order."""
    torch = import_extra("torch", "adapt")
    if plan.init == "pieces":

        def from_pieces(ids: Iterable[int]) -> Any:
            pieces = (plan.pieces[i] for i in ids)
            return torch.stack([old[each].double().mean(0) if each else mean for each in pieces])

        return from_pieces
    if plan.init == "mean":
        return lambda ids: mean.repeat(len(ids), 1)
    if plan.init == "zeros" or (plan.init == "random" and len(mean) == 1):  # a bias
        return lambda ids: torch.zeros(len(ids), len(mean))
    # By what the tensor holds: tied tensors stay equal, others get rows of their own.
    content = zlib.crc32(old[plan.known[:_ROWS_AT_ONCE]].view(torch.uint8).numpy().tobytes())
    random = np.random.default_rng([plan.seed, content])

    def standard(ids: Sequence[int]) -> Any:
        return torch.from_numpy(random.standard_normal((len(ids), len(mean))))

    if plan.init == "random":
        return lambda ids: standard(ids) * plan.std
    centered = (rows - mean for rows in _in_double(old, plan.known))
    covariance = sum(rows.T @ rows for rows in centered) / len(plan.known)
    values, vectors = torch.linalg.eigh(covariance)
    root = (vectors * (_SPREAD * values.clamp(min=0)).sqrt()).T
    return lambda ids: mean + standard(ids) @ root
