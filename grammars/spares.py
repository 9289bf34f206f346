"""Short texts of an expression that differ, one after another. Owns the search for them.

What must not be written twice can be completed as long as there are others: this lists some. A
search goes byte by byte, the most promising text first, and notes what it writes (see `noting`).
It must not know what the texts mean: it is told what they are compared by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import NamedTuple

from grammars.algebra import Algebra
from grammars.derive import arms, step
from grammars.expr import Expr, Union
from grammars.noting import loosened
from grammars.spelling import COMMON

MAX_SAME = 24
"""Texts in a row that equal earlier ones: then the search begins anew without all of these."""

BYTES_PER_TEXT = 400
"""What a text takes with what is still to be looked at."""


class Spare(NamedTuple):
    """A text, and what it is compared by."""

    value: Hashable
    text: bytes


class _Place(NamedTuple):
    """Somewhere in the search, the most promising first: `size` bytes of the whole text, about;
    of equal ones the one of which the most is written. `choices`: bytes that may come next.
    """

    size: int
    left: int
    number: int
    node: Expr
    text: bytes
    choices: bytes


class Comparison(NamedTuple):
    """What texts are compared by, and the texts of an expression that are none of some."""

    read: Callable[[bytes], Hashable]
    other_than: Callable[[Expr, tuple[bytes, ...]], Expr]


class Spares:
    """Texts of `node`, no two of which are the same. `length` tells the bytes of a short text of an
    expression, None where it has none. With `most_alike`, no more places are looked at that differ
    in what was written alone: then the search ends, where there may be no text at all.
    """

    def __init__(
        self,
        algebra: Algebra,
        node: Expr,
        comparison: Comparison,
        length: Callable[[Expr], int | None],
        *,
        most_alike: int | None = None,
    ) -> None:
        self._algebra = algebra
        self._node = node
        self._comparison = comparison
        self._length = length
        self._most_alike = most_alike
        self._num_alike: Counter[Expr] = Counter()
        self._found: list[Spare] = []
        self._values: set[Hashable] = set()
        self._num_same = 0
        self._count = 0
        self._pending: list[_Place] = []
        self._put(node, b"")

    def get(self, index: int) -> Spare | None:
        """One of the texts; None where there are not so many."""
        while len(self._found) <= index and self._pending:
            self._go_on()
        return self._found[index] if index < len(self._found) else None

    def _go_on(self) -> None:
        """Looks at the most promising place."""
        self._algebra.budget.spend()
        here = heappop(self._pending)
        if here.choices:
            if len(here.choices) > 1:
                self._push(here._replace(choices=here.choices[1:]))
            byte = here.choices[0]
            self._put(step(self._algebra, here.node, byte), here.text + bytes([byte]))
            return
        if here.node.nullable:
            self._add(here.text)
        for mask, rest in arms(self._algebra, here.node):
            length = self._length(rest)
            if length is not None:
                size = len(here.text) + 1 + length
                self._push(here._replace(size=size, choices=_members(mask)))

    def _add(self, text: bytes) -> None:
        value = self._comparison.read(text)
        self._num_same += 1
        if value not in self._values:
            self._algebra.budget.spend(1, BYTES_PER_TEXT)
            self._values.add(value)
            self._found.append(Spare(value, text))
            self._num_same = 0
        elif self._num_same > MAX_SAME:
            self._num_same = 0
            self._pending.clear()
            texts = tuple(spare.text for spare in self._found)
            self._put(self._comparison.other_than(self._node, texts), b"")

    def _put(self, node: Expr, text: bytes) -> None:
        is_stuck = node.pending and not isinstance(node, Union)
        if self._most_alike is not None and node.notes:
            loose = loosened(self._algebra, node)
            self._num_alike[loose] += 1
            is_stuck = is_stuck or self._num_alike[loose] > self._most_alike
        length = None if is_stuck else self._length(node)
        if length is not None:
            self._push(_Place(len(text) + length, -len(text), 0, node, text, b""))

    def _push(self, place: _Place) -> None:
        self._count += 1
        heappush(self._pending, place._replace(number=self._count))


def _members(mask: int) -> bytes:
    """The bytes of a set, letters and digits first."""
    common, others = mask & COMMON, mask & ~COMMON
    return _listed(common) + _listed(others)


def _listed(mask: int) -> bytes:
    found = bytearray()
    while mask:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return bytes(found)
