"""When a guess pays: what a token more costs a step, and how often guesses come true.

Owns the two measurements, made on line, and the comparison. A drafted token pays where the chance
that it comes true, times what a token costs that is decoded by itself, exceeds what it adds to the
step. One row alone reads all weights for a token: another one costs nearly nothing. Many rows keep
the device busy: there only what is nearly certain pays. Knows no clock: it is told how long steps
took; and no token.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FLAT = 16.0
"""Before anything was measured: a step of one token takes as long as so many tokens add to it. CPUs
that the default model was tried on have 8 to 20 in float32.
"""

EXACT, PER_OCTAVE = 16, 8
"""Steps of up to so many tokens are kept apart; larger ones by so many sizes for each doubling."""

RISE = 0.1
"""How fast an estimate follows slower steps. Faster ones are believed at once: whoever else uses
the machine makes steps slower, never faster.
"""

MEMORY = 32
"""Outcomes that a rate is a mean over, roughly."""

MAX_AGE = 512
"""Steps after which a measurement that was not repeated counts no more: it may have been made while
the machine was in use, and what seems dear is not tried again.
"""


@dataclass(slots=True)
class Rate:
    """How often something came true, lately. Before it was tried it is as if `prior` of `weight`
    outcomes had.
    """

    prior: float = 0.5
    weight: float = 2.0
    _hits: float = 0.0
    _tries: float = 0.0

    def saw(self, came_true: bool) -> None:
        keep = 1 - 1 / MEMORY
        self._hits = keep * self._hits + came_true
        self._tries = keep * self._tries + 1

    @property
    def chance(self) -> float:
        return self.over(self.prior)

    def over(self, prior: float) -> float:
        """The same where something better is known to begin with."""
        return (self._hits + prior * self.weight) / (self._tries + self.weight)


@dataclass(slots=True)
class _Point:
    num_tokens: float
    seconds: float
    seen: int


class StepCosts:
    """How long a step takes, by the number of its tokens."""

    def __init__(self) -> None:
        self._points: dict[int, _Point] = {}
        self._num_steps = 0

    def saw(self, num_tokens: int, seconds: float) -> None:
        self._num_steps += 1
        point = self._points.setdefault(
            _bucket(num_tokens), _Point(float(num_tokens), seconds, self._num_steps)
        )
        weight = 1.0 if seconds < point.seconds else RISE
        point.num_tokens += weight * (num_tokens - point.num_tokens)
        point.seconds += weight * (seconds - point.seconds)
        point.seen = self._num_steps

    def seconds(self, num_tokens: float) -> float:
        """Of a step of so many tokens, between those that were measured."""
        curve = self._curve()
        if not curve:
            return FLAT + num_tokens
        (x, y), *rest = curve
        if num_tokens <= x or not rest:
            return y * (FLAT + num_tokens) / (FLAT + x)
        for right, higher in rest:
            if num_tokens <= right:
                return y + (higher - y) * (num_tokens - x) / (right - x)
            x, y = right, higher
        return y * num_tokens / x

    def _curve(self) -> list[tuple[float, float]]:
        """What was measured lately; no step is faster than a smaller one."""
        oldest, slowest, found = self._num_steps - MAX_AGE, 0.0, list[tuple[float, float]]()
        for bucket in sorted(self._points):
            point = self._points[bucket]
            if point.seen < oldest and len(self._points) > 2:
                del self._points[bucket]
                continue
            slowest = max(slowest, point.seconds)
            if not found or point.num_tokens > found[-1][0]:
                found.append((point.num_tokens, slowest))
        return found

    def price(self, num_tokens: int, num_rows: int) -> float:
        """What a token adds to a step of `num_tokens`, as a share of what one costs that is decoded
        in a step of `num_rows` rows: guesses with a smaller chance do not pay.
        """
        more = max(4, num_rows)  # about as many as would come together
        added = (self.seconds(num_tokens + more) - self.seconds(num_tokens)) / more
        return added * num_rows / max(self.seconds(num_rows), 1e-9)


def _bucket(num_tokens: int) -> int:
    if num_tokens <= EXACT:
        return num_tokens
    return EXACT + math.ceil(PER_OCTAVE * math.log2(num_tokens / EXACT))
