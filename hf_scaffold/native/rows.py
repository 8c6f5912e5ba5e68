"""Rows of ids with special tokens around them, truncated and padded, as lists or matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import TensorType
from transformers.utils.import_utils import is_torch_available

from hf_scaffold._core.text_encoder import (
    constant_lists,
    fill_rows,
    rows_as_lists,
)
from hf_scaffold.native.plan import NO_PADDING, NO_TRUNCATION, Plan
from hf_scaffold.native.sessions import Ends, Ids, NotNativeError, Session, Template


def rows_of(flat: Ids, ends: Ends, plan: Plan) -> Rows:
    """The rows of encoded sequences, truncated and padded."""
    shape, now = plan.shape, plan.twin
    spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, plan.template.n_sequences, 2)
    if shape and shape.truncation is not NO_TRUNCATION:
        truncate(spans, shape.truncation, shape.limit, now.truncation_side)
    rows = Rows(flat, spans, plan.template, plan.session)
    if shape and shape.padding is not NO_PADDING:
        side = shape.side or now.padding_side
        rows.pad(shape.width(rows.longest), side, shape.pad_id, now.pad_token_type_id)
    return rows


def listed_rows(plan: Plan) -> ListedRows:
    """The rows of single sequences, neither truncated nor padded, as lists."""
    template, bare = plan.template, plan.session.bare
    masks: list[list[int]] | None = [] if plan.returns("attention_mask") else None
    rows = bare.encode_batch_to_lists(plan.texts, plan.allowed, template.before, template.after, masks)
    return ListedRows(rows, masks, template, plan.session)


def truncate(spans: Ends, strategy: TruncationStrategy, limit: int, side: str) -> None:
    """Shorten the sequences in place, so that no row has more than `limit` ids, as the backend does."""
    lengths = spans[:, :, 1] - spans[:, :, 0]
    n_sequences = lengths.shape[1]
    total = lengths.sum(axis=1)
    surplus = np.maximum(total - limit, 0)
    if n_sequences == 1 or strategy is not TruncationStrategy.LONGEST_FIRST:
        target = int(strategy is TruncationStrategy.ONLY_SECOND)
        if np.any((surplus > 0) & (lengths[:, target] <= surplus)):
            raise NotNativeError("truncation is for the backend to refuse")
        lengths[:, target] -= surplus
    else:
        # The longer one pays, until both are as long.
        shorter, longer = lengths.min(axis=1), lengths.max(axis=1)
        longer = np.where(shorter > limit, shorter, np.maximum(shorter, limit - shorter))
        over = shorter + longer > limit
        shorter = np.where(over, limit // 2, shorter)
        longer = np.where(over, limit - limit // 2, longer)
        swapped = lengths[:, 0] > lengths[:, 1]
        kept = np.stack([np.where(swapped, longer, shorter), np.where(swapped, shorter, longer)], axis=1)
        lengths = np.where((surplus > 0)[:, None], np.minimum(lengths, kept), lengths)
    if side == "right":
        spans[:, :, 1] = spans[:, :, 0] + lengths
    else:
        spans[:, :, 0] = spans[:, :, 1] - lengths


class Row:
    """One row of ids with special tokens around them, as lists."""

    def __init__(self, ids: list[int], template: Template) -> None:
        self.ids, self.template = ids, template
        self.longest = len(ids) + len(template.pieces) - 1

    def input_ids(self) -> list[int]:
        template = self.template
        return [*template.before, *self.ids, *template.after] if len(template.pieces) > 1 else self.ids

    def token_type_ids(self) -> list[int]:
        return self.constant(self.template.types)

    def attention_mask(self) -> list[int]:
        return [1] * self.longest

    def special_tokens_mask(self) -> list[int]:
        return self.constant(self.template.specials)

    def length(self) -> list[int]:
        return [self.longest]

    def constant(self, values: list[int]) -> list[int]:
        row: list[int] = []
        for value, piece in zip(values, self.template.pieces, strict=True):
            row += [value] * (1 if piece >= 0 else len(self.ids))
        return row


class Rows:
    """Rows of ids with special tokens around them, and padding, as lists or matrices."""

    def __init__(self, ids: Ids, spans: Ends, template: Template, session: Session) -> None:
        self.ids, self.spans, self.template, self.session = ids, spans, template, session
        sizes = spans[:, :, 1] - spans[:, :, 0]
        self.lengths = sizes.sum(axis=1) + template.n_specials
        self.padding = np.zeros((len(spans), 2), np.int64)
        self.pad_id = self.pad_type_id = 0
        self.is_matrix = False

    def pad(self, width: int, side: str, pad_id: int, pad_type_id: int) -> None:
        missing = np.maximum(width - self.lengths, 0)
        self.padding[:, int(side == "right")] = missing
        self.lengths += missing
        self.pad_id, self.pad_type_id = pad_id, pad_type_id

    @property
    def longest(self) -> int:
        return int(self.lengths.max())

    @property
    def are_equally_long(self) -> bool:
        return bool((self.lengths == self.lengths[0]).all())

    def input_ids(self) -> Any:
        if self.is_matrix:
            return self.matrix()
        pieces, numbers = self.template.ids, self.session.bare.numbers
        return rows_as_lists(self.ids, self.spans, pieces, self.padding, self.pad_id, numbers)

    def token_type_ids(self) -> Any:
        return self.constant(self.template.types, self.pad_type_id)

    def attention_mask(self) -> Any:
        return self.constant([1] * len(self.template.pieces), 0)

    def special_tokens_mask(self) -> Any:
        return self.constant(self.template.specials, 1)

    def length(self) -> list[int]:
        lengths: list[int] = self.lengths.tolist()
        return lengths

    def matrix(self) -> Ends:
        out = np.full((len(self.spans), self.lengths[0]), self.pad_id, np.int64)
        fill_rows(out, self.ids, self.spans, self.template.ids, np.ascontiguousarray(self.padding[:, 0]))
        return out

    def constant(self, values: list[int], pad_value: int) -> Any:
        """Rows that say the same of every id of a sequence, of a special token, of the padding."""
        if self.is_matrix:
            return self.constant_matrix(values, pad_value)
        return self.constant_lists(values, pad_value)

    def constant_lists(self, values: list[int], pad_value: int) -> list[list[int]]:
        if len({*values}) == 1 and not self.padding.any():
            return constant_lists(values[0], self.lengths)
        pieces = [pad_value, *values, pad_value]
        return [
            [value for value, n in zip(pieces, sizes, strict=True) for value in [value] * n]
            for sizes in self.piece_sizes().tolist()
        ]

    def constant_matrix(self, values: list[int], pad_value: int) -> Ends:
        pieces = np.array([pad_value, *values, pad_value])
        flat = np.repeat(np.tile(pieces, len(self.spans)), self.piece_sizes().ravel())
        return flat.reshape(len(self.spans), self.lengths[0])

    def piece_sizes(self) -> Ends:
        sizes = np.ones((len(self.spans), len(self.template.pieces) + 2), np.int64)
        sizes[:, 0], sizes[:, -1] = self.padding[:, 0], self.padding[:, 1]
        for column, piece in enumerate(self.template.pieces):
            if piece < 0:
                sizes[:, column + 1] = self.spans[:, -1 - piece, 1] - self.spans[:, -1 - piece, 0]
        return sizes


class ListedRows(Rows):
    """Rows of one sequence, without padding, of which the lists of ids are there.

    Args:
        masks: A list of ones as long as each row, if those are there, too.
    """

    def __init__(
        self, rows: list[list[int]], masks: list[list[int]] | None, template: Template, session: Session
    ) -> None:
        self.rows, self.masks = rows, masks
        ends = np.cumsum([0, *(len(row) - template.n_specials for row in rows)], dtype=np.int64)
        spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, 1, 2)
        super().__init__(np.empty(0, np.int32), spans, template, session)

    def input_ids(self) -> list[list[int]]:
        return self.rows

    def attention_mask(self) -> Any:
        return super().attention_mask() if self.masks is None else self.masks


def makes_matrices(return_tensors: Any) -> bool:
    return return_tensors is not None and TensorType(return_tensors) in (TensorType.NUMPY, TensorType.PYTORCH)


def in_form(data: dict[str, Any], rows: Rows, is_batched: bool, return_tensors: Any) -> dict[str, Any]:
    """Lists of rows, or matrices, as what a call is to return."""
    # Without torch they stay as they are, and BatchEncoding refuses to make tensors of them.
    if rows.is_matrix and TensorType(return_tensors) is TensorType.PYTORCH and is_torch_available():
        import torch

        return data | {name: torch.from_numpy(value) for name, value in data.items() if name != "length"}
    if not is_batched and return_tensors is None:
        return {name: value[0] if isinstance(value[0], list) else value for name, value in data.items()}
    return data
