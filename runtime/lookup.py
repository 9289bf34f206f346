"""Prompt look-up: how a text went on where its last tokens stood before.

Owns one text's tokens as bytes, in which the search runs at the speed of C. What a row extracts or
quotes stands in its prompt; so what followed there is a good guess of what follows here.
Source: Saxena, "Prompt Lookup Decoding", 2023, https://github.com/apoorvumang/prompt-lookup-decoding
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

LONGEST = 4
"""Tokens of context that are looked for at most: with as many, there is hardly ever more than one
place, and a longer context would find the same one.
"""

_SIZE = array("i").itemsize


class Lookup:
    """The tokens of one text. Guesses that are tried are pushed behind them, and cut off again."""

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self._data = bytearray()
        self._place = 0  # of the token that followed last time, in bytes; 0: nowhere
        self._width = 0  # tokens before that place that are the same as the last ones here
        self.extend(tokens)

    def __len__(self) -> int:
        return len(self._data) // _SIZE

    def extend(self, tokens: Iterable[int]) -> None:
        """More tokens are known."""
        self._data += array("i", tokens).tobytes()
        self._place = 0

    def push(self, token: int) -> None:
        """Suppose that `token` follows."""
        data, place = self._data, self._place
        added = array("i", (token,)).tobytes()
        follows = 0 < place and data[place : place + _SIZE] == added
        data += added
        self._place = place + _SIZE if follows else 0
        self._width = self._width + 1 if follows else 0

    def cut(self, num_tokens: int) -> None:
        """Keep the first `num_tokens`."""
        del self._data[num_tokens * _SIZE :]
        self._place = 0

    def next(self) -> tuple[int, int] | None:
        """What followed the last place where the text stood like this, and how many of the last
        tokens were the same there (`LONGEST` may stand for more); None where there is none.
        """
        if not self._place or self._place >= len(self._data):
            self._width, self._place = self._find()
        if not self._place:
            return None
        token = array("i", bytes(self._data[self._place : self._place + _SIZE]))[0]
        return token, self._width

    def _find(self) -> tuple[int, int]:
        """The longest context first; its last place, since a text repeats what is near."""
        data = self._data
        for width in range(min(LONGEST, len(data) // _SIZE - 1), 0, -1):
            context = bytes(data[-width * _SIZE :])
            end = len(data) - _SIZE
            while (start := data.rfind(context, 0, end)) >= 0:
                if start % _SIZE == 0:
                    return width, start + len(context)
                end = start + len(context) - 1
        return 0, 0
