"""The text of an answer as it arrives in pieces, and who may see how much of it.

Owns the text of one attempt at a stream. What a stream's events look like is the wires' business.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sgdsl.backends.asking import Ask, OnText, cut_at_stop
from sgdsl.errors import ProviderError

CHARS_PER_TOKEN = 512
LEAST_CHARS = 1 << 16
"""No vocabulary has longer tokens than that (they are of white space); who writes more than its
`max_tokens` of them, and more than a little, has no end.
"""

_HALF = re.compile("[\ud800-\udfff]")


class ArrivingText:
    """`on_text` is told all that is certain so far, `passed_on` says whether there was any."""

    def __init__(
        self, label: str, on_text: OnText | None, *, stops: Sequence[str], max_tokens: int
    ) -> None:
        self.text = ""
        self.passed_on = False
        self._label = label
        self._on_text = on_text
        self._stops = stops
        self._max_chars = LEAST_CHARS + CHARS_PER_TOKEN * max_tokens

    @classmethod
    def of(cls, label: str, ask: Ask) -> ArrivingText:
        sampling = ask.sampling
        stops, max_tokens = sampling.stop or (), sampling.max_tokens or 0
        return cls(label, ask.on_text, stops=stops, max_tokens=max_tokens)

    def add(self, piece: str) -> None:
        self.text = joined(self.text, piece)
        if len(self.text) > self._max_chars:
            raise ProviderError(f"{self._label} writes on and on, beyond its max_tokens")
        certain = streamable(self.text, self._stops)
        if certain and self._on_text is not None:
            self._on_text(certain)
            self.passed_on = True


def joined(text: str, piece: str) -> str:
    """Both, where a character may have been cut in two: JSON writes those beyond 16 bits as two
    halves, and what counts in 16 bits may cut between them.
    """
    if _HALF.match(piece) is None:
        return text + piece
    return (text + piece).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def streamable(text: str, stops: Sequence[str]) -> str:
    """What of an unfinished text is certain: before a stop string, or what may become one."""
    text, stop = cut_at_stop(text, stops)
    if stop is not None:
        return text
    held = int(bool(text) and _HALF.match(text[-1]) is not None)
    for stop_text in stops:
        for length in range(min(len(stop_text) - 1, len(text)), held, -1):
            if text.endswith(stop_text[:length]):
                held = length
                break
    return text[: len(text) - held]
