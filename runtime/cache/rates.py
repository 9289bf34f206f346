"""Rates: whether it pays to copy a page back from the host, or to compute it again.

Owns the comparison. It is told what copies and computing took; it has no clock.
"""

from __future__ import annotations

MEMORY = 16
"""Steps that a rate is a mean over, roughly."""


class Rate:
    """Seconds a token, later ones weighing more."""

    def __init__(self) -> None:
        self._num_tokens = self._seconds = 0.0

    def saw(self, num_tokens: int, seconds: float) -> None:
        keep = 1 - 1 / MEMORY
        self._num_tokens = keep * self._num_tokens + num_tokens
        self._seconds = keep * self._seconds + seconds

    @property
    def seconds(self) -> float | None:
        """Of a token; None while nothing was seen."""
        return self._seconds / self._num_tokens if self._num_tokens else None


class Rates:
    """Pages that go to the host are copied too, so that both rates are known even while nothing is
    copied back.
    """

    def __init__(self) -> None:
        self.copying = Rate()
        self.computing = Rate()

    @property
    def copying_pays(self) -> bool:
        """Until both rates are known it is taken to: to compute a token reads all weights, or takes
        part in it, and to copy one moves what these make of it.
        """
        copying, computing = self.copying.seconds, self.computing.seconds
        return copying is None or computing is None or copying < computing
