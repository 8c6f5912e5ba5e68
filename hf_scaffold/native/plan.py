"""Which calls the compiled encoder can take, told before anything is encoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from transformers.tokenization_utils_base import TruncationStrategy
from transformers.utils.generic import PaddingStrategy

from hf_scaffold.engine.bare import LARGEST_ID
from hf_scaffold.engine.dropout import Dropout
from hf_scaffold.native.contract import Caller
from hf_scaffold.native.sessions import NotNativeError, Session, Template, session_of

# Looking up an enum member takes as long as splitting a short text.
NO_PADDING, NO_TRUNCATION = PaddingStrategy.DO_NOT_PAD, TruncationStrategy.DO_NOT_TRUNCATE


class Shape(NamedTuple):
    """What truncation and padding make of rows, where a call asks for one of them."""

    truncation: TruncationStrategy
    limit: int  # ids that a truncated row may have besides its special tokens
    stride: int  # ids that what overflows has in common with what comes before
    padding: PaddingStrategy
    max_length: int | None
    multiple: int | None
    side: str | None
    pad_id: int

    @classmethod
    def of(
        cls,
        session: Session,
        template: Template,
        truncation: TruncationStrategy,
        padding: PaddingStrategy,
        pad_id: Any,
        options: Mapping[str, Any],
    ) -> Shape:
        """The shape that a call asks for.

        Raises:
            NotNativeError: it is for the backend to refuse.
        """
        max_length, limit, stride = options.get("max_length"), 0, 0
        if truncation is not NO_TRUNCATION:
            # The backend checks lengths and stride for the template, whether it is asked for or not.
            specials = [session.template(n, True).n_specials for n in (1, 2)]
            stride = options.get("stride", 0)
            if not max(specials) < (max_length or 0) < 1 << 62:
                raise NotNativeError("the truncation is for the backend to refuse")
            limit = (max_length or 0) - template.n_specials
            if type(stride) is not int or not 0 <= stride <= (max_length or 0) - specials[0]:
                raise NotNativeError("the stride is for the backend to refuse")
            if truncation is TruncationStrategy.ONLY_SECOND and template.n_sequences == 1:
                raise NotNativeError("truncation is for the backend to refuse")
        if padding is NO_PADDING:
            pad_id = 0
        elif not isinstance(pad_id, int) or pad_id > LARGEST_ID:
            raise NotNativeError("there is no padding token, or its id is for the backend to refuse")
        multiple, side = options.get("pad_to_multiple_of"), options.get("padding_side")
        return cls(truncation, limit, stride, padding, max_length, multiple, side, pad_id)

    def width(self, longest: int) -> int:
        """How many ids a padded row has at least; the longest one has so many without padding."""
        width = longest
        if self.padding is PaddingStrategy.MAX_LENGTH and self.max_length is not None:
            width = self.max_length
        return width + -width % self.multiple if self.multiple else width


class Plan:
    """A call that the compiled encoder can take, and all that the call depends on, read at one moment.

    Args:
        options: The call's keyword arguments, as stock's `_encode_plus` takes them.
        dropout: What is dropped in this call.
    Raises:
        NotNativeError: the general path must take the call. Nothing is encoded to find out.
    """

    __slots__ = (
        *("options", "dropout", "kind", "settings", "session", "texts", "n_words", "is_batched", "is_plain"),
        *("given", "n_rows", "split_special_tokens", "template", "shape", "overflows", "trim"),
    )

    def __init__(
        self,
        tokenizer: Caller,
        text: Any,
        text_pair: Any,
        dropout: Dropout | None,
        options: Mapping[str, Any],
    ) -> None:
        get = options.get
        if get("sanitize_control_tokens"):
            raise NotNativeError("sanitize_control_tokens is set")
        self.options, self.dropout = options, dropout
        # Other threads may change the tokenizer meanwhile. First comes what is its own, then the backend, so
        # that this has every token that the former names.
        self.kind = type(tokenizer)
        self.settings = settings = vars(tokenizer).copy()
        settings["_special_tokens_map"] = settings["_special_tokens_map"].copy()
        padding, truncation = get("padding_strategy", NO_PADDING), get("truncation_strategy", NO_TRUNCATION)
        pads = padding is not NO_PADDING
        pad_id = self.twin.pad_token_id if pads else None
        self.session = session = session_of(tokenizer)
        words = get("is_split_into_words")
        self.texts, self.n_words, n_sequences, self.is_batched = (words_of if words else sequences_of)(
            text, text_pair
        )
        is_one_text = not (self.is_batched or words) and n_sequences == 1
        if is_one_text:
            self.given, self.n_rows = (text, text_pair), 1
        else:
            copy = copied if words else listed
            self.given = copy(text), copy(text_pair)
            self.n_rows = len(self.n_words or self.texts) // n_sequences
        split = get("split_special_tokens")
        self.split_special_tokens = bool(tokenizer.split_special_tokens if split is None else split)
        self.template = template = session.template(n_sequences, bool(get("add_special_tokens", True)))
        self.shape = None
        if pads or truncation is not NO_TRUNCATION:
            self.shape = Shape.of(session, template, truncation, padding, pad_id, options)
        self.overflows = bool(get("return_overflowing_tokens"))
        if self.overflows:
            session.kinds(template)  # raises if it can't be told what the post-processor makes of them
        self.trim = session.trim() if get("return_offsets_mapping") else None
        # One text, of which ids and what follows from their number is wanted.
        self.is_plain = is_one_text and not (self.shape or self.overflows or self.trim)

    @property
    def allowed(self) -> frozenset[str]:
        """The special tokens that are found in text."""
        return self.session.allowed(self.split_special_tokens)

    @property
    def makes_plain_lists(self) -> bool:
        """Whether each text becomes a list of its own, whatever the others are."""
        is_shaped = self.shape or self.dropout or self.options.get("return_tensors")
        is_plain = self.n_words is None and not (self.overflows or self.trim)
        return is_plain and not is_shaped and self.template.n_sequences == 1

    def returns(self, name: str) -> bool:
        """Whether the call returns attention_mask or token_type_ids."""
        asked: bool | None = self.options.get("return_" + name)
        if asked is None:
            return name in self.settings.get("model_input_names", self.kind.model_input_names)
        return asked

    @property
    def twin(self) -> Caller:
        """A tokenizer with the settings of this moment."""
        twin = object.__new__(self.kind)
        object.__setattr__(twin, "__dict__", self.settings)
        return twin


# The texts of all sequences of all rows in turn; how many each sequence has, if they are given in words, else
# each is one text; how many sequences a row has; and whether rows are returned as such.
Sequences = tuple[list[str], list[int] | None, int, bool]


def sequences_of(text: Any, text_pair: Any) -> Sequences:
    """The sequences of a text, a pair or a batch."""
    if isinstance(text, str):
        if not text_pair:
            return [text], None, 1, False
        if isinstance(text_pair, str):
            return [text, text_pair], None, 2, False
    elif isinstance(text, (list, tuple)) and text and not isinstance(text_pair, str):
        if text_pair is None and are_texts(text):
            return list(text), None, 1, True
        if text_pair is None or len(text_pair) == len(text):
            rows = list(text if text_pair is None else zip(text, text_pair, strict=True))
            if all(isinstance(row, (tuple, list)) and len(row) == 2 for row in rows):
                texts = [item for row in rows for item in row]
                if are_texts(texts):
                    return texts, None, 2, True
    raise NotNativeError("neither a text nor a batch of texts or pairs of texts")


def words_of(text: Any, text_pair: Any) -> Sequences:
    """The sequences of a text, a pair or a batch that are given in words."""
    if isinstance(text, (list, tuple)):
        is_batched = bool(text) and isinstance(text[0], (list, tuple))
        rows = list(text) if is_batched else [text]
        if text_pair if not is_batched else text_pair is not None:
            pairs = list(text_pair) if is_batched else [text_pair]
            rows = [*zip(rows, pairs, strict=True)] if len(rows) == len(pairs) else []
        if rows and all(are_words(row) for row in rows):
            sequences, n_sequences = rows, 1
        elif rows and all(isinstance(row, (list, tuple)) and len(row) == 2 for row in rows):
            sequences, n_sequences = [sequence for row in rows for sequence in row], 2
        else:
            sequences, n_sequences = [None], 0
        if all(are_words(words) for words in sequences):
            texts = [word for words in sequences for word in words]
            return texts, [*map(len, sequences)], n_sequences, is_batched
    raise NotNativeError("neither words nor a batch of words or pairs of them")


def are_words(sequence: Any) -> bool:
    return isinstance(sequence, (list, tuple)) and are_texts(sequence)


def are_texts(items: Iterable[Any]) -> bool:
    return all(issubclass(kind, str) for kind in {*map(type, items)})


def listed(texts: Any) -> Any:
    """A batch as it is now."""
    return texts if texts is None or isinstance(texts, str) else list(texts)


def copied(words: Any) -> Any:
    """Words, or lists of them, as they are now."""
    return [*map(copied, words)] if isinstance(words, (list, tuple)) else words
