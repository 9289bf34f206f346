"""Arrays as texts. Owns brackets and commas between items.

Where items are neither counted nor compared, an array is a plain expression; otherwise its states
are made on demand from `item_order`. It must not know of keywords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from typing import Protocol

from grammars.admission import Admission
from grammars.algebra import Algebra
from grammars.expr import Expr
from grammars.item_order import Item, ItemOrder, ItemState
from grammars.json_values import JsonValue, dump
from grammars.keywords import unsupported
from grammars.shapes import (
    ArrayShape,
    BooleanShape,
    GivenShape,
    NullShape,
    NumberShape,
    Operand,
    Shapes,
    Spot,
)

MAX_VALUES = 1_000
"""Values of a finite set whose use is remembered, one bit each."""

Weigh = Callable[[Operand], float]


class Layout(Protocol):
    """How values are put together, for arrays and objects."""

    algebra: Algebra
    admission: Admission
    comma: Expr

    def value(self, operand: Operand) -> Expr: ...

    def shapes(self, operand: Operand) -> Shapes: ...

    def bracketed(self, opening: bytes, inside: Expr, closing: bytes) -> Expr: ...


class ArrayForm:
    """The arrays of one shape."""

    def __init__(self, shape: ArrayShape, layout: Layout, weigh: Weigh) -> None:
        if shape.max_items is not None and shape.max_items <= 1:
            shape = replace(shape, unique=None)
        self._shape = shape
        self._layout = layout
        self._weigh = weigh
        self._numbers: dict[str, int] = {}
        self._domains: dict[int, list[tuple[int, Operand, tuple[bool, ...]]]] = {}
        self._order: ItemOrder | None = None
        if shape.contains or shape.unique is not None:
            self._order = ItemOrder(
                shape,
                values=self._values if shape.unique is not None else None,
                weigh=weigh,
                budget=layout.algebra.budget,
            )

    def children(self) -> Iterator[Operand]:
        """The operands of its items."""
        if self._order is not None:
            yield from self._order.children()
            return
        high = self._shape.max_items
        yield from self._shape.prefix if high is None else self._shape.prefix[:high]
        if high is None or high > len(self._shape.prefix):
            yield self._shape.rest

    def weight(self) -> float:
        """The size of the smallest of the arrays, infinite where there is none."""
        if self._order is not None:
            return self._order.weight()
        low, shape = self._shape.min_items, self._shape
        given = [self._weigh(operand) for operand in shape.prefix[:low]]
        others = low - len(given)
        return 2 + sum(given) + low + (others * self._weigh(shape.rest) if others else 0)

    def blame(self) -> Iterator[Operand]:
        """What it needs, in order."""
        low = self._shape.min_items
        yield from (self._shape.operand(i) for i in range(min(low, len(self._shape.prefix) + 1)))

    def lower(self) -> Expr:
        """The texts of all the arrays."""
        layout = self._layout
        if self._order is not None:
            self._order.settle()
            items = _Items(self._order, layout)
            return layout.bracketed(b"[", items.ref(self._order.start, is_first=True), b"]")
        return layout.bracketed(b"[", self._listed(), b"]")

    least = lower

    def _listed(self) -> Expr:
        """The items and their commas, as one expression."""
        shape, layout = self._shape, self._layout
        algebra, low, high = layout.algebra, shape.min_items, shape.max_items
        possible = _leading(self._weigh(operand) < math.inf for operand in shape.prefix)
        if possible < len(shape.prefix):
            high = possible if high is None else min(high, possible)
        elif self._weigh(shape.rest) == math.inf:
            high = len(shape.prefix) if high is None else min(high, len(shape.prefix))
        size = len(shape.prefix) if high is None else min(len(shape.prefix), high)
        following: Expr = algebra.epsilon
        if high is None or high > size:
            rest = layout.value(shape.rest)
            if size == 0:
                return self._some(rest, low, high)
            more = algebra.concat(layout.comma, rest)
            following = algebra.repeat(more, max(low - size, 0), high and high - size)
        for index in range(size - 1, -1, -1):
            item = layout.value(shape.prefix[index])
            if index:
                item = algebra.concat(layout.comma, item)
            following = algebra.concat(item, following)
            if index >= low:
                following = algebra.optional(following)
        return following

    def _some(self, item: Expr, low: int, high: int | None) -> Expr:
        """`low` to `high` items with commas between them."""
        algebra = self._layout.algebra
        more = algebra.repeat(
            algebra.concat(self._layout.comma, item),
            max(low - 1, 0),
            None if high is None else high - 1,
        )
        some = algebra.concat(item, more)
        return algebra.optional(some) if low == 0 else some

    # -- values that must differ -------------------------------------------------------------

    def _values(self, index: int) -> list[tuple[int, Operand, tuple[bool, ...]]]:
        """Each value that item `index` may have; see `item_order.Values`."""
        index = min(index, len(self._shape.prefix))
        if index not in self._domains:
            self._domains[index] = [
                (self._number_of(value), operand, self._counted(value, index))
                for value, operand in self._domain(index)
            ]
        return self._domains[index]

    def _number_of(self, value: JsonValue) -> int:
        kind = type(value).__name__ if isinstance(value, bool) else ""
        key = kind + dump(value, "compact", ascii_only=True)
        return self._numbers.setdefault(key, len(self._numbers))

    def _counted(self, value: JsonValue, index: int) -> tuple[bool, ...]:
        has = self._layout.admission.has
        return tuple(
            index >= asked.start and has(value, asked.operand) for asked in self._shape.contains
        )

    def _domain(self, index: int) -> Iterator[tuple[JsonValue, Operand]]:
        pointer = self._shape.unique
        assert pointer is not None, "only what must differ has a domain"
        values: list[JsonValue] = []
        for shape in self._layout.shapes(self._shape.operand(index)):
            if isinstance(shape, NullShape):
                values.append(None)
            elif isinstance(shape, BooleanShape | GivenShape):
                values += shape.values
            elif isinstance(shape, NumberShape) and _is_short(shape):
                assert shape.low is not None and shape.high is not None, "a short range has ends"
                numbers = range(math.ceil(shape.low), math.floor(shape.high) + 1)
                values += [n for n in numbers if self._layout.admission.admits(n, shape)]
            else:
                raise unsupported("'uniqueItems' of items that are not of a small set", pointer)
        if len(values) > MAX_VALUES:
            raise unsupported(f"'uniqueItems' of more than {MAX_VALUES} different items", pointer)
        for value in values:
            place = f"{pointer}/{self._number_of(value)}="
            yield value, (Spot(place, {"const": value}),)


def _is_short(shape: NumberShape) -> bool:
    """Whether a range has few integers and nothing else."""
    if not shape.integer or shape.low is None or shape.high is None:
        return False
    return shape.high - shape.low <= MAX_VALUES


def _leading(flags: Iterator[bool]) -> int:
    """How many are true before the first that is not."""
    found = 0
    for flag in flags:
        if not flag:
            break
        found += 1
    return found


class _Items:
    """The rest of an array after some items, for each state of their order."""

    def __init__(self, order: ItemOrder, layout: Layout) -> None:
        self._order = order
        self._layout = layout

    def ref(self, state: ItemState, *, is_first: bool = False) -> Expr:
        """What may follow in a live state."""
        algebra = self._layout.algebra
        if next(self._order.steps(state), None) is None:
            return algebra.epsilon
        return algebra.ref(self, (state, is_first), nullable=self._order.is_complete(state))

    def unfold(self, key: Hashable) -> Expr:
        state, is_first = _split(key)
        by_next: dict[ItemState, list[Item]] = {}
        for item, after in self._order.steps(state):
            by_next.setdefault(after, []).append(item)
        value, algebra = self._layout.value, self._layout.algebra
        return self._led(
            algebra.union(
                algebra.concat(algebra.union([value(i.operand) for i in items]), self.ref(after))
                for after, items in by_next.items()
            ),
            is_first=is_first,
        )

    def least(self, key: Hashable) -> Expr:
        state, is_first = _split(key)
        if self._order.is_complete(state):
            return self._layout.algebra.epsilon
        found = self._order.finish(state)
        assert found is not None, "a live state can be finished"
        item, after = found
        rest = self._layout.algebra.concat(self._layout.value(item.operand), self.ref(after))
        return self._led(rest, is_first=is_first)

    def _led(self, rest: Expr, *, is_first: bool) -> Expr:
        return rest if is_first else self._layout.algebra.concat(self._layout.comma, rest)


def _split(key: Hashable) -> tuple[ItemState, bool]:
    assert isinstance(key, tuple), "a key is a state, and whether it is the first"
    state, is_first = key
    return state, is_first
