"""What alternatives have in common, and what they come to together. Owns the meeting of shapes pair
by pair, and what that costs.

Alternatives that meet may multiply: the budget bounds that.
It must not know of keywords, places or texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from grammars.branches import is_contradictory
from grammars.budget import Budget
from grammars.json_values import JsonValue
from grammars.seen import evaluates
from grammars.shape_algebra import intersect
from grammars.shapes import (
    EVERY_TYPE,
    EVERYTHING,
    GivenShape,
    NumberShape,
    Shape,
    Shapes,
    StringShape,
    size_of,
    without_formats,
)

PARTS_PER_STEP = 64
"""Parts of shapes that are met in about the time of making one expression; a pair of shapes takes
as long by itself."""

VALUES_PER_STEP = 4
"""Given values that are judged in about that time."""

BYTES_PER_PART = 100
BYTES_PER_SHAPE = 600
"""What a shape takes, and what each of its parts does, about."""


class Alternatives:
    """Meets alternatives within `budget`.

    `admits(value, shape)` decides which given values stay, `is_void(shape)` whether it is certain
    that no value has a shape.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        admits: Callable[[JsonValue, Shape], bool],
        is_void: Callable[[Shape], bool],
        knows_const: bool,
    ) -> None:
        self._knows_const = knows_const
        self._budget = budget
        self._admits = admits
        self._is_void = is_void

    def meet(self, left: Shapes, right: Shapes) -> Shapes:
        """The alternatives of both: every pair that has something in common."""
        if left is EVERYTHING or right is EVERYTHING:
            return right if left is EVERYTHING else left
        found: dict[Shape, None] = {}
        for one in left:
            self._spend_on(one, right)
            before = len(found)
            met = [self._meet_one(one, other) for other in right]
            found.update((shape, None) for shape in met if shape is not None)
            if len(found) > before:
                self._budget.spend(0, sum(_bytes_of(shape) for shape in met if shape is not None))
        return tuple(found)

    def met(self, left: Shapes, right: Shapes) -> Shapes:
        """The alternatives of both, without those of which it is certain that no value has them."""
        return tuple(shape for shape in self.meet(left, right) if not self._is_void(shape))

    def none_in_common(self, left: Shapes, right: Shapes) -> bool:
        """Whether it is certain that no value has a shape of both, whatever formats mean."""
        others = tuple(map(without_formats, right))
        for one in map(without_formats, left):
            self._spend_on(one, others)
            met = (self._meet_one(one, other) for other in others)
            if not all(shape is None or self._is_void(shape) for shape in met):
                return False
        return True

    def _spend_on(self, one: Shape, others: Shapes) -> None:
        """What it costs to meet `one` with each of `others`."""
        parts = size_of(one) * len(others) + sum(map(size_of, others))
        self._budget.spend(len(others) + parts // PARTS_PER_STEP)

    def _meet_one(self, left: Shape, right: Shape) -> Shape | None:
        if isinstance(left, GivenShape):
            return self._those(left, right)
        if isinstance(right, GivenShape):
            return self._those(right, left)
        if self._knows_const and is_contradictory(left, right):
            return None
        return intersect(left, right)

    def _those(self, given: GivenShape, shape: Shape) -> GivenShape | None:
        """The given values that have a shape."""
        if shape in (EVERY_TYPE["string"], EVERY_TYPE["number"]):
            kind = str if isinstance(shape, StringShape) else NumberShape
            if all(isinstance(v, str) == (kind is str) for v in given.values):
                return given
        self._budget.spend(len(given.values) // VALUES_PER_STEP)
        kept = tuple(value for value in given.values if self._admits(value, shape))
        return GivenShape(kept) if kept else None


def united(alternatives: Iterable[Shapes]) -> Shapes:
    """The alternatives of any of them, each once."""
    found = list(alternatives)
    whole = tuple(dict.fromkeys(shape for shapes in found for shape in shapes))
    if any(shapes is EVERYTHING for shapes in found) and not any(map(evaluates, whole)):
        return EVERYTHING
    return whole


def _bytes_of(shape: Shape) -> int:
    return BYTES_PER_SHAPE + BYTES_PER_PART * size_of(shape)
