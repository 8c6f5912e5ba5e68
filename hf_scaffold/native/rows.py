"""Rows of ids with special tokens around them, truncated and padded, as lists or matrices."""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple

import numpy as np
from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import TensorType
from transformers.utils.import_utils import is_torch_available

from hf_scaffold._core.spans import RowSpans, pieces_as_lists
from hf_scaffold._core.text_encoder import constant_lists, fill_rows, rows_as_lists
from hf_scaffold.native.plan import NO_PADDING, NO_TRUNCATION, Plan, Shape
from hf_scaffold.native.sessions import Ends, Ids, NotNativeError, Session, Template


def rows_of(flat: Ids, ends: Ends, plan: Plan) -> Rows:
    """The rows of encoded texts, truncated and padded.

    Args:
        flat, ends: As `BareEncoder.encode_batch` returns them for the plan's texts.
    """
    shape, now = plan.shape, plan.twin
    located = Located(flat, ends, plan)
    ends = sequence_ends(ends, plan)
    spans = np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, plan.template.n_sequences, 2)
    windows = Windows.of(spans)
    if shape and shape.truncation is not NO_TRUNCATION:
        windows = truncated(spans, shape, now.truncation_side, plan.overflows and plan.template)
    rows = Rows(flat, windows, plan.template, plan.session, located)
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


def sequence_ends(ends: Ends, plan: Plan) -> Ends:
    """Where the sequences end, given where the texts do."""
    return ends if plan.n_words is None else ends[np.cumsum([0, *plan.n_words])]


class Windows(NamedTuple):
    """The parts of sequences that make rows.

    Args:
        spans: int64, (rows, sequences, 2): where a row's sequences begin and end in the ids.
        samples: int64: each row's place in the batch.
        kinds: int64: each row's kind, as `Session.kinds` numbers them.
    """

    spans: Ends
    samples: Ends
    kinds: Ends

    @classmethod
    def of(cls, spans: Ends) -> Windows:
        """All of the sequences."""
        return cls(spans, np.arange(len(spans)), np.zeros(len(spans), np.int64))


def truncated(spans: Ends, shape: Shape, side: str, overflowing: Template | Literal[False]) -> Windows:
    """The rows with at most as many ids as they may have, as the backend makes them.

    Args:
        spans: As of `Windows`, before truncation.
        overflowing: The template, if what overflows makes rows, too, which come after the one it is cut from.
    Raises:
        NotNativeError: the truncation is for the backend to refuse.
    """
    lengths = spans[:, :, 1] - spans[:, :, 0]
    kept = kept_lengths(lengths, shape.truncation, shape.limit)
    if np.any((kept < lengths) & (kept <= shape.stride)):
        raise NotNativeError("the stride is for the backend to refuse")
    steps = np.where(kept < lengths, kept - shape.stride, 1)
    samples = np.arange(len(spans))
    parts = np.zeros_like(lengths)
    if overflowing:
        samples, parts = parts_of(1 + -((kept - lengths) // steps), overflowing)
    lengths, kept, steps = lengths[samples], kept[samples], steps[samples]
    if side == "right":
        begins = parts * steps
        stops = np.minimum(begins + kept, lengths)
    else:
        stops = lengths - parts * steps
        begins = np.maximum(stops - kept, 0)
    windows = spans[samples, :, :1] + np.stack([begins, stops], axis=2)
    kinds = ((parts > 0) * [1, 2][: parts.shape[1]]).sum(axis=1)
    return Windows(np.ascontiguousarray(windows), samples, kinds)


def parts_of(n_parts: Ends, template: Template) -> tuple[Ends, Ends]:
    """The rows made of parts of sequences: their samples, and which part of each sequence they take.

    Where both sequences of a pair overflow, every part goes with every other, in the backend's order: first
    all that has no first part of the sequence that the template puts first.
    """
    samples = np.repeat(np.arange(len(n_parts)), n_parts.prod(axis=1))
    firsts = np.flatnonzero(np.diff(samples, prepend=-1))
    numbers = np.arange(len(samples)) - np.repeat(firsts, n_parts.prod(axis=1))
    if n_parts.shape[1] == 1:
        return samples, numbers[:, None]
    order = [0, 1] if template.is_first_first else [1, 0]
    outer, inner = (n_parts[samples, i] for i in order)
    n_with_outer = (outer - 1) * inner  # the rows after the first that have another part of the outer one
    is_with_outer = (numbers > 0) & (numbers <= n_with_outer)
    parts = np.zeros((len(samples), 2), np.int64)
    parts[:, order[0]] = np.where(is_with_outer, 1 + (numbers - 1) // inner, 0)
    parts[:, order[1]] = np.where(is_with_outer, (numbers - 1) % inner, np.maximum(numbers - n_with_outer, 0))
    return samples, parts


def kept_lengths(lengths: Ends, strategy: TruncationStrategy, limit: int) -> Ends:
    """How long the sequences may be, so that no row has more than `limit` ids, as the backend has it."""
    n_sequences = lengths.shape[1]
    surplus = np.maximum(lengths.sum(axis=1) - limit, 0)
    if n_sequences == 1 or strategy is not TruncationStrategy.LONGEST_FIRST:
        kept, target = lengths.copy(), int(strategy is TruncationStrategy.ONLY_SECOND)
        kept[:, target] -= surplus
        if np.any((surplus > 0) & (kept[:, target] <= 0)):
            raise NotNativeError("truncation is for the backend to refuse")
        return kept
    # The longer one pays, until both are as long.
    shorter, longer = lengths.min(axis=1), lengths.max(axis=1)
    longer = np.where(shorter > limit, shorter, np.maximum(shorter, limit - shorter))
    over = shorter + longer > limit
    shorter = np.where(over, limit // 2, shorter)
    longer = np.where(over, limit - limit // 2, longer)
    swapped = lengths[:, 0] > lengths[:, 1]
    kept = np.stack([np.where(swapped, longer, shorter), np.where(swapped, shorter, longer)], axis=1)
    return np.where((surplus > 0)[:, None], np.minimum(lengths, kept), lengths)


class Located:
    """Where the ids of a call stand in its texts, found when that is first asked for."""

    def __init__(self, flat: Ids, ends: Ends, plan: Plan) -> None:
        self.flat, self.ends, self.plan = flat, ends, plan
        self._spans: Ids | None = None

    @property
    def spans(self) -> Ids:
        """As of `TextEncoder.locate`.

        Raises:
            NotNativeError: only the backend can tell.
        """
        if self._spans is None:
            plan = self.plan
            spans = plan.session.bare.locate_batch(plan.texts, self.flat, self.ends, plan.allowed)
            if spans is None:
                raise NotNativeError("only the backend can tell where the tokens stand")
            if plan.n_words is not None:  # offsets are those in a word, whatever tokens it has
                words = [number for n in plan.n_words for number in range(n)]
                spans[:, 4] = np.repeat(np.array(words, np.int32), np.diff(self.ends))
            self._spans = spans
        return self._spans


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

    def __init__(
        self, ids: Ids, windows: Windows, template: Template, session: Session, located: Located | None
    ) -> None:
        self.ids, self.template, self.session, self.located = ids, template, session, located
        self.spans, self.samples, self.kinds = windows
        sizes = self.spans[:, :, 1] - self.spans[:, :, 0]
        self.lengths = sizes.sum(axis=1) + template.n_specials
        self.padding = np.zeros((len(self.spans), 2), np.int64)
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
        if self.kinds.any():
            types = [kind.types for kind in self.session.kinds(self.template)]
            return self.constant(types, self.pad_type_id)
        return self.constant([self.template.types], self.pad_type_id)

    def attention_mask(self) -> Any:
        return self.constant([[1] * len(self.template.pieces)], 0)

    def special_tokens_mask(self) -> Any:
        return self.constant([self.template.specials], 1)

    def offset_mapping(self, trim: str) -> Any:
        """The characters that each id covers."""
        located = self.row_spans(trim)
        if not self.is_matrix:
            return located.offsets(0, len(self.spans), self.session.bare.numbers)
        width = int(self.lengths[0])
        out = np.zeros((len(self.spans), width, 2), np.int64)
        located.fill(out)
        return out if width else out.reshape(len(self.spans), 0)

    def row_spans(self, trim: str) -> RowSpans:
        assert self.located is not None
        return RowSpans(self.located.spans, self.spans, self.template.ids, self.padding, trim)

    def length(self) -> list[int]:
        lengths: list[int] = self.lengths.tolist()
        return lengths

    def row(self, i: int) -> Rows:
        """One of the rows, as lists."""
        row = copy.copy(self)
        at = slice(i, i + 1)
        row.spans, row.samples, row.kinds = self.spans[at], self.samples[at], self.kinds[at]
        row.lengths, row.padding, row.is_matrix = self.lengths[at], self.padding[at], False
        return row

    def matrix(self) -> Ends:
        out = np.full((len(self.spans), self.lengths[0]), self.pad_id, np.int64)
        fill_rows(out, self.ids, self.spans, self.template.ids, np.ascontiguousarray(self.padding[:, 0]))
        return out

    def constant(self, values: list[list[int]], pad_value: int) -> Any:
        """Rows that say the same of every id of a sequence, of a special token, of the padding.

        Args:
            values: What they say, of each kind of row, or of all.
        """
        pieces = [[pad_value, *each, pad_value] for each in values]
        kinds = self.kinds if len(values) > 1 else np.zeros_like(self.kinds)
        if self.is_matrix:
            flat = np.repeat(np.array(pieces)[kinds].ravel(), self.piece_sizes().ravel())
            return flat.reshape(len(self.spans), self.lengths[0])
        if len({value for each in values for value in each}) == 1 and not self.padding.any():
            return constant_lists(values[0][0], self.lengths)
        return pieces_as_lists(pieces, kinds, self.piece_sizes())

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
        windows = Windows.of(np.stack([ends[:-1], ends[1:]], axis=1).reshape(-1, 1, 2))
        super().__init__(np.empty(0, np.int32), windows, template, session, None)

    def input_ids(self) -> list[list[int]]:
        return self.rows

    def attention_mask(self) -> Any:
        return super().attention_mask() if self.masks is None else self.masks


def makes_matrices(return_tensors: Any) -> bool:
    return return_tensors is not None and TensorType(return_tensors) in (TensorType.NUMPY, TensorType.PYTORCH)


def in_form(data: dict[str, Any], rows: Rows, are_rows: bool, return_tensors: Any) -> dict[str, Any]:
    """Lists of rows, or matrices, as what a call is to return.

    Args:
        are_rows: Whether a single row is returned as such.
    """
    # Without torch they stay as they are, and BatchEncoding refuses to make tensors of them.
    if rows.is_matrix and TensorType(return_tensors) is TensorType.PYTORCH and is_torch_available():
        import torch

        matrices = {name: value for name, value in data.items() if isinstance(value, np.ndarray)}
        return data | {name: torch.from_numpy(matrix) for name, matrix in matrices.items()}
    if not are_rows and return_tensors is None:
        return {name: value[0] if isinstance(value[0], list) else value for name, value in data.items()}
    return data
