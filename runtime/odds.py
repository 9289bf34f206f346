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

DRAWN = 1.5
"""What a token costs that is drawn behind, in tokens of a prompt: it needs a row of the LM head, a
quarter of the default model, and reads its keys by itself.
"""

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

    def saw(self, num_tokens: int, seconds: float, *, num_drawn: int) -> None:
        """A step of so many tokens, behind `num_drawn` of which something was drawn."""
        self._num_steps += 1
        if 2 * num_drawn < num_tokens:
            seconds *= DRAWN
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
        """The lower convex hull of what was measured lately. A step costs what it reads or what it
        computes, whichever is more, which is convex: what lies above was slowed down from outside.
        """
        oldest = self._num_steps - MAX_AGE
        for bucket, point in list(self._points.items()):
            if point.seen < oldest and len(self._points) > 2:
                del self._points[bucket]
        fastest, found = math.inf, list[tuple[float, float]]()
        for point in sorted(self._points.values(), key=lambda each: -each.num_tokens):
            fastest = min(fastest, point.seconds)  # no step is slower than a larger one
            found.append((point.num_tokens, fastest))
        hull: list[tuple[float, float]] = []
        for here in reversed(found):
            if hull and hull[-1][0] >= here[0]:
                continue
            while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], here):
                hull.pop()
            hull.append(here)
        return hull

    def price(self, num_tokens: int, num_rows: int) -> float:
        """What a token adds to a step of `num_tokens`, as a share of what one costs that is decoded
        in a step of `num_rows` rows: guesses with a smaller chance do not pay.
        """
        more = max(4, num_rows)  # about as many as would come together
        added = (self.seconds(num_tokens + more) - self.seconds(num_tokens)) / more
        return added * num_rows / max(self.seconds(num_rows), 1e-9)


def _slope(left: tuple[float, float], right: tuple[float, float]) -> float:
    return (right[1] - left[1]) / (right[0] - left[0])


def _bucket(num_tokens: int) -> int:
    if num_tokens <= EXACT:
        return num_tokens
    return EXACT + math.ceil(PER_OCTAVE * math.log2(num_tokens / EXACT))
