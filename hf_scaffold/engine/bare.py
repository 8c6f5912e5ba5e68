"""Text to exact ids, without the special tokens that frame it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from hf_scaffold._core.text_encoder import AddedTokenFinder, Normalizer, TextEncoder
from hf_scaffold.engine import general
from hf_scaffold.engine.definition import Definition
from hf_scaffold.engine.dropout import Dropout
from hf_scaffold.engine.inputs import n_threads
from hf_scaffold.engine.model import Model
from hf_scaffold.errors import ConfigurationError
from hf_scaffold.splitting.entries import splitting_of, writes_bytes
from hf_scaffold.splitting.normalizers import Step, makes_normal_forms, marks_of, steps_of
from hf_scaffold.text.presets import reads_characters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ids = NDArray[np.int32]
    Offsets = NDArray[np.int64]

LARGEST_ID = (1 << 31) - 1  # the core's ids are 32 bits wide


class BareEncoder:
    """The exact ids of texts: compiled where the pipeline is known, by `tokenizers` elsewhere.

    It never changes; threads may share it. `allowed` are the special tokens that are found in text; others
    are read as text there.

    Args:
        compiled: What an encoder with the same pipeline, vocabulary and merges has already built.
    """

    def __init__(self, definition: Definition, compiled: TextEncoder | None = None) -> None:
        self.definition = definition
        self.why_general = why_general(definition)
        if self.why_general is None and compiled is None:
            compiled = compiled_for(definition)
        self.compiled = compiled
        self.why_located_generally = self.why_general or why_located_generally(definition)
        self.special = frozenset(token.content for token in definition.added_tokens if token.special)
        self.n_ids = definition.n_ids
        # Built on first use, without a lock: two threads at once build the same. Nor a cached_property, which
        # before Python 3.12 has a lock that a fork can leave held.
        self._finders: dict[frozenset[str], AddedTokenFinder] = {}
        self._general: dict[frozenset[str], Callable[[str], list[int]]] = {}
        self._locators: dict[frozenset[str], Callable[[str, list[int]], general.Located]] = {}
        self._numbers: list[int] | None = None

    @property
    def numbers(self) -> list[int]:
        """The ids as objects, in order; not those far above the number of tokens."""
        if self._numbers is None:
            n_tokens = self.definition.model.n_tokens + len(self.definition.added_tokens)
            self._numbers = list(range(min(self.n_ids, 2 * n_tokens + 1024)))
        return self._numbers

    def encode(self, text: str, allowed: frozenset[str]) -> list[int]:
        """The ids of one text.

        Raises:
            UnicodeEncodeError: it holds a lone surrogate.
        """
        if self.compiled is not None:
            ids = self.compiled.encode_one(text, self._finder(allowed))
            if ids is not None:
                return ids
        return self._encode_generally(text, allowed)

    def ordinary(self, spelled: Callable[[str], object] | None) -> Callable[[str], list[int] | None]:
        """`encode` without any special token; the function returns None for texts that it leaves to `encode`.

        Args:
            spelled: Finds something in a text that spells a special token.
        """
        if self.compiled is None:
            return lambda text: None
        encode_one, finder = self.compiled.encode_one, self._finder(frozenset())
        if spelled is None:
            return lambda text: encode_one(text, finder)
        return lambda text: None if spelled(text) else encode_one(text, finder)

    def encode_batch(
        self,
        texts: Sequence[str],
        allowed: frozenset[str],
        dropout: Dropout | None = None,
        num_threads: int | None = None,
    ) -> tuple[Ids, Offsets]:
        """The int32 ids of all texts one after another, and len(texts) + 1 int64 offsets into them.

        Args:
            num_threads: At most; None: as many as `n_threads` says.
        Raises:
            UnicodeEncodeError: a text holds a lone surrogate.
            ConfigurationError: there is dropout, which only the compiled encoder has.
        """
        import numpy as np

        if self.compiled is None:
            if dropout:
                raise ConfigurationError(f"no dropout here: {self.why_general}")
            rows = [self._encode_generally(text, allowed) for text in texts]
            offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
            return np.fromiter(chain.from_iterable(rows), np.int32, int(offsets[-1])), offsets
        finder, threads = self._finder(allowed), n_threads(sum(map(len, texts)), num_threads)
        if dropout is None:
            ids, offsets, unsure = self.compiled.encode(texts, finder, threads)
            made = [self._encode_generally(texts[i], allowed) for i in unsure]
        else:
            streams = dropout.streams(texts)
            ids, offsets, unsure = self.compiled.encode(texts, finder, threads, dropout.p, streams)
            made = [self._drop_between_added_tokens(texts[i], allowed, dropout.p, streams[i]) for i in unsure]
        return with_rows(ids, offsets, unsure, made)

    def encode_batch_to_lists(
        self,
        texts: Sequence[str],
        allowed: frozenset[str],
        before: Sequence[int] = (),
        after: Sequence[int] = (),
        masks: list[list[int]] | None = None,
    ) -> list[list[int]]:
        """The ids of each text, between those before and after.

        Args:
            masks: An empty list, to be filled with a list of as many ones for each text.
        Raises:
            UnicodeEncodeError: a text holds a lone surrogate.
        """
        if self.compiled is None:
            rows = [[*before, *self._encode_generally(text, allowed), *after] for text in texts]
            if masks is not None:
                masks += ([1] * len(row) for row in rows)
            return rows
        rows = [[] for _ in texts]
        if masks is not None:
            masks += [[] for _ in texts]
        frame = array("i", before), array("i", after)
        threads = n_threads(sum(map(len, texts)))
        unsure = self.compiled.encode_to_lists(
            texts, self._finder(allowed), threads, *frame, self.numbers, rows, masks
        )
        if unsure:
            for i in unsure:
                rows[i] = [*before, *self._encode_generally(texts[i], allowed), *after]
                if masks is not None:
                    masks[i] = [1] * len(rows[i])
        return rows

    def encode_utf8(
        self,
        data: Any,
        offsets: Offsets,
        allowed: frozenset[str],
        *,
        ending: tuple[int, NDArray[np.bool_]] | None = None,
        short: bool = False,
        num_threads: int | None = None,
    ) -> tuple[NDArray[Any], Offsets]:
        """`encode_batch` of texts that lie one after another as UTF-8, text i from offsets[i] on.

        Args:
            ending: An id, and which texts it follows.
            short: Make uint16, as which all ids must fit, rather than int32.
            num_threads: As for `encode_batch`.
        Raises:
            UnicodeDecodeError: a text is no UTF-8.
        """
        assert self.compiled is not None
        threads = n_threads(int(offsets[-1] - offsets[0]), num_threads)
        end_id, is_end = (0, None) if ending is None else (ending[0], ending[1].view("uint8"))
        ids, ends, unsure = self.compiled.encode_utf8(
            data, offsets, self._finder(allowed), threads, end_id=end_id, is_end=is_end, short=short
        )
        rows, view = [], memoryview(data)
        for i in unsure:
            row = self._encode_generally(bytes(view[offsets[i] : offsets[i + 1]]).decode(), allowed)
            rows.append(row if is_end is None or not is_end[i] else [*row, end_id])
        return with_rows(ids, ends, unsure, rows)

    def locate(self, text: str, ids: list[int], allowed: frozenset[str]) -> general.Located:
        """Where the ids of a text stand in it."""
        import numpy as np

        flat, ends = np.array(ids, np.int32), np.array([0, len(ids)])
        spans = self.locate_batch([text], flat, ends, allowed)
        if spans is not None:
            offsets = [(begin, end) for begin, end in spans[:, :2].tolist()]
            return general.Located(ids, offsets, spans[:, 4].tolist())
        if allowed not in self._locators:
            self._locators[allowed] = general.locator(self.definition, allowed)
        return self._locators[allowed](text, ids)

    def locate_batch(
        self, texts: Sequence[str], ids: Ids, ends: Offsets, allowed: frozenset[str]
    ) -> Ids | None:
        """Where all ids of the texts stand in them, as `TextEncoder.locate` has it.

        Args:
            ids, ends: As `encode_batch` returns them.
        Returns:
            None where only `tokenizers` can tell.
        """
        if self.compiled is None or self.why_located_generally is not None:
            return None
        threads = n_threads(sum(map(len, texts)))
        lengths = self.definition.model.lengths
        spans, unsure = self.compiled.locate(texts, ids, ends, self._finder(allowed), lengths, threads)
        return None if unsure else spans

    def _encode_generally(self, text: str, allowed: frozenset[str]) -> list[int]:
        text.encode()  # a lone surrogate is no text
        if allowed not in self._general:
            self._general[allowed] = general.encoder(self.definition, allowed)
        return self._general[allowed](text)

    def _drop_between_added_tokens(
        self, text: str, allowed: frozenset[str], p: float, stream: np.uint64
    ) -> list[int]:
        """The ids of a text in which only `tokenizers` finds the added tokens."""
        import numpy as np

        assert self.compiled is not None
        text.encode()
        ids: list[int] = []
        for token_id, piece, at in general.stretches(self.definition, allowed, text):
            if token_id is not None:
                ids.append(token_id)
            else:  # another place, another stream: it wraps
                place = np.array([(int(stream) + at) % (1 << 64)], np.uint64)
                no_tokens = AddedTokenFinder([], None, marker_of(self.definition, at == 0))
                stretch, _, _ = self.compiled.encode([piece], no_tokens, 1, p, place)
                ids += stretch.tolist()
        return ids

    def _finder(self, allowed: frozenset[str]) -> AddedTokenFinder:
        finder = self._finders.get(allowed)
        if finder is None:
            finder = self._finders[allowed] = AddedTokenFinder(
                (
                    (
                        t.content,
                        t.id,
                        t.single_word,
                        t.lstrip,
                        t.rstrip,
                        t.normalized,
                        t.special and t.content not in allowed,
                    )
                    for t in self.definition.added_tokens
                ),
                normalizer_of(self.definition),
                marker_of(self.definition),
            )
        return finder


def why_general(definition: Definition) -> str | None:
    """Why only `tokenizers` can encode for this definition; None if the compiled encoder can."""
    reason = None if reads_bytes(definition) else why_not_by_character(definition.model)
    if reason is not None:
        return reason
    if definition.n_ids + definition.model.n_scaffolds > LARGEST_ID:
        return f"ids go beyond {LARGEST_ID}, scaffold tokens included"
    try:
        if not reads_characters(definition.pre_tokenizer):
            splitting_of(definition.pre_tokenizer)
        normalizer = normalizer_of(definition)
    except LookupError as error:
        return str(error)
    if normalizer is not None:
        if any(step[-1] is True for step in marks_of(definition.pre_tokenizer)):
            # `tokenizers` asks whether the first character left is the first that there was.
            return "a prefix is for the start of text, and there is a normalizer"
        contents = [normalizer.normalize(t.content) for t in definition.added_tokens if t.normalized]
        if not all(contents) or len({*contents}) < len(contents):
            return "some added tokens are alike, or one is empty, once normalized"
    return None


def reads_bytes(definition: Definition) -> bool:
    """Whether the model's symbols are bytes alone: there are no affixes, and nothing stands for other bytes.

    A byte-level model that isn't so is one of characters, those of the byte-level alphabet.
    """
    if not writes_bytes(definition.pre_tokenizer):
        return False
    settings = definition.model.settings
    has_affixes = settings.get("continuing_subword_prefix") or settings.get("end_of_word_suffix")
    replaces_unknown = settings.get("unk_token") is not None or settings.get("byte_fallback")
    return not (has_affixes or (replaces_unknown and -1 in definition.model.numbers.byte_ids))


def why_not_by_character(model: Model) -> str | None:
    """Why the compiled encoder can't take this model where symbols are characters; None if it can."""
    unk_token = model.settings.get("unk_token")
    if unk_token is not None and unk_token not in model.vocab:
        return "the unk_token is not in the vocabulary"
    if not model.settings.get("continuing_subword_prefix", "").isascii():
        return "the continuing_subword_prefix is not ASCII"  # `tokenizers` counts its characters as bytes
    return None


def why_located_generally(definition: Definition) -> str | None:
    """Why only `tokenizers` can tell where ids stand in their text, though it need not encode it."""
    if not reads_bytes(definition):
        return "the model is one of characters"
    if not makes_normal_forms(definition.normalizer):
        return "the normalizer makes more than normal forms"
    return None


def normalizer_of(definition: Definition) -> Normalizer | None:
    """The compiled normalizer, if there is any.

    Raises:
        LookupError: only `tokenizers` knows it.
    """
    steps = [compiled_step(step) for step in steps_of(definition.normalizer)]
    return Normalizer(steps) if steps else None


def compiled_step(step: Step) -> Step:
    """The step, with its regular expression, if any, as levels that drop what that matches.

    Raises:
        LookupError: there is no table for it.
    """
    if step[0] != "replace_matches":
        return step
    _, pattern, content = step
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": False}
    try:
        return ("replace_dropped", splitting_of(split), content)
    except LookupError as error:
        raise LookupError(f"{error}".replace("pre-tokenizer", "normalizer")) from None


def marker_of(definition: Definition, is_at_start: bool = True) -> Normalizer | None:
    """What the pre-tokenizer does to text before it splits it, if anything, compiled.

    Args:
        is_at_start: Whether text may begin where the whole text does.
    """
    steps = [step for step in marks_of(definition.pre_tokenizer) if is_at_start or step[-1] is not True]
    return Normalizer(steps) if steps else None


def compiled_for(definition: Definition) -> TextEncoder:
    """The compiled encoder of a definition that doesn't need `tokenizers`."""
    model = definition.model
    numbers = model.numbers
    pre_tokenizer = definition.pre_tokenizer
    if reads_bytes(definition):
        return TextEncoder(splitting_of(pre_tokenizer), *numbers)
    if writes_bytes(pre_tokenizer):
        alphabet = model.characters._replace(writes_bytes=True)
        return TextEncoder(splitting_of(pre_tokenizer), tuple(alphabet), *numbers[1:])
    if not reads_characters(pre_tokenizer):
        splitting = splitting_of(pre_tokenizer)
    elif (pre_tokenizer or {}).get("split"):
        splitting = "metaspace"
    else:
        splitting = "metaspace-runs" if model.parts_at_metaspaces else "whole"
    return TextEncoder(splitting, tuple(model.characters), *numbers[1:])


def with_rows(
    flat: NDArray[Any], ends: Offsets, places: Sequence[int], made: Sequence[list[int]]
) -> tuple[NDArray[Any], Offsets]:
    """The ids and offsets with other rows in some places: those that compiled code left to `tokenizers`."""
    import numpy as np

    if not places:
        return flat, ends
    rows = [flat[begin:end] for begin, end in pairwise(ends.tolist())]
    for i, ids in zip(places, made, strict=True):
        rows[i] = np.array(ids, flat.dtype)
    return np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64)
