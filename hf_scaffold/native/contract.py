"""What the package may ask of the class beside a saved tokenizer, which may come from another release.

The class, for its part, calls what `hf_scaffold.native` exports if it knows this INTERFACE; if not, it takes
its general path. So whatever changes on either side takes a new INTERFACE, but for names that the class can
do without.
"""

from typing import Any, Protocol

from tokenizers import Tokenizer
from transformers import BatchEncoding

__all__ = ["INTERFACE", "Backend", "Caller"]

INTERFACE = 1


class Caller(Protocol):
    """A ScaffoldTokenizerFast: what follows, what stock has, and `_tokenizer`, the public backend."""

    cache: dict[str, Any]  # for what is derived; empty where the backend or its model has been replaced

    @property
    def scaffold(self) -> dict[str, Any]:
        """The content of scaffold.json."""

    def _state_of(self, public: Tokenizer) -> tuple[Any, ...]:
        """Compares equal as long as the backend encodes as before."""

    def _encode_generally(
        self, public: Tokenizer, text: Any, text_pair: Any, **options: Any
    ) -> BatchEncoding:
        """The call without this package, by a backend with the same added tokens."""

    def _eventual_warn_about_too_long_sequence(
        self, ids: Any, max_length: int | None, verbose: bool
    ) -> None: ...

    model_input_names: list[str]
    model_max_length: int
    split_special_tokens: bool
    pad_token: Any
    pad_token_id: int | None
    pad_token_type_id: int
    padding_side: str
    truncation_side: str


class Backend(Protocol):
    """What stands for the backend in a general call."""

    encode_special_tokens: bool
    expanded: Any  # .model: BPE with scaffold tokens
    pipelines: Any  # .symbols: a Tokenizer to which every symbol is a token
