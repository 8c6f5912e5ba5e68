"""Text of token ids as they come."""

from __future__ import annotations

import codecs
from collections.abc import Mapping


class DecodeStream:
    """Gives the text of ids one by one; a character is held back until all its bytes are there.

    All that is given, joined, is what `Encoder.decode` gives for all ids.

    Example:
        >>> stream = DecodeStream({0: b"caf", 1: b"\\xc3", 2: b"\\xa9"})
        >>> [stream.step(0), stream.step(1), stream.step(2), stream.step(1), stream.finish()]
        ['caf', '', 'é', '', '\\ufffd']
    """

    def __init__(self, tokens: Mapping[int, bytes]) -> None:
        self._tokens = tokens
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def step(self, token_id: int) -> str:
        """The text that is complete with this id; "" if none is."""
        return self._decoder.decode(self._tokens.get(token_id, b""))

    def finish(self) -> str:
        """What was held back: U+FFFD, where the last character lacks bytes. The stream starts anew."""
        return self._decoder.decode(b"", final=True)
