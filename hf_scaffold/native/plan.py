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

# Arguments of a call that only the general path knows.
GENERAL = {
    "is_split_into_words": "is_split_into_words is set",
    "return_overflowing_tokens": "overflowing tokens are asked for",
    "return_offsets_mapping": "offsets are asked for",
    "sanitize_control_tokens": "sanitize_control_tokens is set",
}


# Looking up an enum member takes as long as splitting a short text.
NO_PADDING, NO_TRUNCATION = PaddingStrategy.DO_NOT_PAD, TruncationStrategy.DO_NOT_TRUNCATE


class Shape(NamedTuple):
    """What truncation and padding make of rows, where a call asks for one of them."""

    truncation: TruncationStrategy
    limit: int  # ids that a truncated row may have besides its special tokens
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
            NotNativeError: it is for the backend to refuse, or has a stride.
        """
        max_length, limit = options.get("max_length"), 0
        if truncation is not NO_TRUNCATION:
            # The backend checks lengths and stride for the template, whether it is asked for or not.
            least = max(session.template(n, True).n_specials for n in (1, 2))
            if options.get("stride") or not least < (max_length or 0) < 1 << 62:
                raise NotNativeError("the truncation is for the backend to refuse, or has a stride")
            if truncation is TruncationStrategy.ONLY_SECOND and template.n_sequences == 1:
                raise NotNativeError("truncation is for the backend to refuse")
            limit = (max_length or 0) - template.n_specials
        if padding is NO_PADDING:
            pad_id = 0
        elif not isinstance(pad_id, int) or pad_id > LARGEST_ID:
            raise NotNativeError("there is no padding token, or its id is for the backend to refuse")
        multiple, side = options.get("pad_to_multiple_of"), options.get("padding_side")
        return cls(truncation, limit, padding, max_length, multiple, side, pad_id)

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
        *("options", "dropout", "kind", "settings", "session", "texts", "is_batched", "is_one_text", "given"),
        *("n_rows", "split_special_tokens", "template", "shape"),
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
        for name in GENERAL:
            if get(name):
                raise NotNativeError(GENERAL[name])
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
        self.texts, n_sequences, self.is_batched = sequences_of(text, text_pair)
        self.is_one_text = not self.is_batched and n_sequences == 1
        self.given = (text, text_pair) if self.is_one_text else (listed(text), listed(text_pair))
        self.n_rows = len(self.texts) // n_sequences
        split = get("split_special_tokens")
        self.split_special_tokens = bool(tokenizer.split_special_tokens if split is None else split)
        self.template = template = session.template(n_sequences, bool(get("add_special_tokens", True)))
        self.shape = None
        if pads or truncation is not NO_TRUNCATION:
            self.shape = Shape.of(session, template, truncation, padding, pad_id, options)

    @property
    def allowed(self) -> frozenset[str]:
        """The special tokens that are found in text."""
        return self.session.allowed(self.split_special_tokens)

    @property
    def makes_plain_lists(self) -> bool:
        """Whether each text becomes a list of its own, whatever the others are."""
        is_shaped = self.shape or self.dropout or self.options.get("return_tensors")
        return not is_shaped and self.template.n_sequences == 1

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


def sequences_of(text: Any, text_pair: Any) -> tuple[list[str], int, bool]:
    """The sequences of all rows in turn, how many a row has, and whether it is a batch."""
    if isinstance(text, str):
        if not text_pair:
            return [text], 1, False
        if isinstance(text_pair, str):
            return [text, text_pair], 2, False
    elif isinstance(text, (list, tuple)) and text and not isinstance(text_pair, str):
        if text_pair is None and are_texts(text):
            return list(text), 1, True
        if text_pair is None or len(text_pair) == len(text):
            rows = list(text if text_pair is None else zip(text, text_pair, strict=True))
            if all(isinstance(row, (tuple, list)) and len(row) == 2 for row in rows):
                texts = [item for row in rows for item in row]
                if are_texts(texts):
                    return texts, 2, True
    raise NotNativeError("neither a text nor a batch of texts or pairs of texts")


def are_texts(items: Iterable[Any]) -> bool:
    return all(issubclass(kind, str) for kind in {*map(type, items)})


def listed(texts: Any) -> Any:
    """A batch as it is now."""
    return texts if texts is None or isinstance(texts, str) else list(texts)
