"""Arrays as texts. Owns brackets and commas between items.

Where items are neither counted nor compared, an array is a plain expression; otherwise its states
are made on demand from `item_order`. It must not know of keywords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from typing import Protocol

from grammars.admission import Admission
from grammars.algebra import Algebra
from grammars.budget import at_pointer
from grammars.expr import Expr
from grammars.few_texts import few_texts
from grammars.item_lowering import Items
from grammars.item_order import ItemOrder
from grammars.json_values import JsonValue, Number, dump, parse_json
from grammars.keywords import unsupported
from grammars.number_set import common_multiple
from grammars.shapes import (
    ArrayShape,
    BooleanShape,
    GivenShape,
    NullShape,
    NumberShape,
    Operand,
    Shape,
    Shapes,
    Spot,
    StringShape,
)
from grammars.survey import FewValues

MAX_VALUES = 256
"""Values of a finite set whose use is remembered, one bit each."""

MAX_REPEATED = 64
"""Values of which two are to be equal: from each state it is looked whether each leads to that."""

Weigh = Callable[[Operand], float]


class Sizes(Protocol):
    """What is known of the values of operands (see `survey.Survey`)."""

    def weigh(self, operand: Operand) -> float: ...

    def few_values(self, operand: Operand) -> FewValues: ...


class Layout(Protocol):
    """How values are put together, for arrays and objects."""

    algebra: Algebra
    admission: Admission
    comma: Expr

    def value(self, operand: Operand) -> Expr: ...

    def shapes(self, operand: Operand) -> Shapes: ...

    def bracketed(self, opening: bytes, inside: Expr, closing: bytes) -> Expr: ...

    def scalar(self, shape: Shape) -> Expr: ...

    def equal(self, value: JsonValue) -> Expr: ...


class ArrayForm:
    """The arrays of one shape."""

    def __init__(self, shape: ArrayShape, layout: Layout, sizes: Sizes, pointer: str) -> None:
        if shape.max_items is not None and shape.max_items <= 1:
            shape = replace(shape, unique=None)
        self._shape = shape
        self._place = at_pointer(pointer)
        self._layout = layout
        self._sizes = sizes
        self._weigh = sizes.weigh
        self._numbers: dict[str, int] = {}
        self._domains: dict[int, list[tuple[int, Operand, tuple[bool, ...]]]] = {}
        self._order: ItemOrder | None = None
        self._lowered: Expr | None = None
        self._is_listed = False
        self._at = shape.unique if shape.repeated is None else shape.repeated
        if shape.contains or self._at is not None:
            self._is_listed = self._at is not None and self._is_small(self._at)
            self._order = ItemOrder(
                shape,
                values=self._values if self._is_listed else None,
                weigh=sizes.weigh,
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
            most = self._num_different()
            is_short = most is not None and most < self._shape.min_items
            return math.inf if is_short else self._order.weight()
        low, shape = self._shape.min_items, self._shape
        given = [self._weigh(operand) for operand in shape.prefix[:low]]
        others = low - len(given)
        return 2 + sum(given) + low + (others * self._weigh(shape.rest) if others else 0)

    def blame(self) -> Iterator[Operand]:
        """What it needs, in order."""
        low = self._shape.min_items
        yield from (self._shape.operand(i) for i in range(min(low, len(self._shape.prefix) + 1)))

    def few_values(self) -> FewValues:
        """All that the arrays may be, where they are few."""
        shape, high = self._shape, self._shape.max_items
        if self._order is not None:
            return None
        if high is None or high > len(shape.prefix):
            if self._sizes.few_values(shape.rest) == frozenset():
                high = len(shape.prefix)
        if high is None or high > MAX_VALUES:
            return None
        found: set[tuple[Hashable, ...]] = set()
        rows: set[tuple[Hashable, ...]] = {()}
        for size in range(high + 1):
            found |= rows if size >= shape.min_items else set()
            if not rows or size == high:
                break
            values = self._sizes.few_values(shape.operand(size))
            if values is None or len(found) + len(rows) * len(values) > MAX_VALUES:
                return None
            rows = {(*row, value) for row in rows for value in values}
        return frozenset((row, "list") for row in found)

    def _num_different(self) -> int | None:
        """How many different items there are at most; None for many, and where none must differ."""
        shape = self._shape
        if shape.unique is None or self._is_listed or shape.prefix or shape.contains:
            return None
        values = self._sizes.few_values(shape.rest)
        return None if values is None else len(values)

    def lower(self) -> Expr:
        """The texts of all the arrays."""
        layout = self._layout
        if self._lowered is None:
            inside = self._listed() if self._order is None else self._counted_items(self._order)
            self._lowered = layout.bracketed(b"[", inside, b"]")
        return self._lowered

    def _counted_items(self, order: ItemOrder) -> Expr:
        """The items, by their states."""
        order.settle()
        remembers = self._shape.unique is not None and not self._is_listed
        order.limit(self._num_different())
        items = Items(order, self._layout, self._place, remembers=remembers)
        return items.ref(order.start, (), is_first=True)

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
            following = self._repeat(more, max(low - size, 0), high and high - size)
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
        more = self._repeat(
            algebra.concat(self._layout.comma, item),
            max(low - 1, 0),
            None if high is None else high - 1,
        )
        some = algebra.concat(item, more)
        return algebra.optional(some) if low == 0 else some

    def _repeat(self, item: Expr, low: int, high: int | None) -> Expr:
        made = self._layout.algebra.repeat(item, low, high)
        self._layout.algebra.places[made] = self._place
        return made

    # -- values that must differ -------------------------------------------------------------

    def _values(self, index: int) -> list[tuple[int, Operand, tuple[bool, ...]]]:
        """Each value that item `index` may have; see `item_order.Values`."""
        index = min(index, len(self._shape.prefix))
        if index not in self._domains:
            self._domains[index] = [
                (self._number_of(value), operand, self._counted(value, index))
                for value, operand in self._domain(index) or ()
            ]
        return self._domains[index]

    def _number_of(self, value: JsonValue) -> int:
        return self._numbers.setdefault(_key(value), len(self._numbers))

    def _counted(self, value: JsonValue, index: int) -> tuple[bool, ...]:
        has = self._layout.admission.has
        return tuple(
            index >= asked.start and has(value, asked.operand) for asked in self._shape.contains
        )

    def _is_small(self, pointer: str) -> bool:
        """Whether all items are of small finite sets, of which the used values are remembered.

        Raises UnsupportedError where only some are, and may be used up by others; and where some
        are not, and two must be equal.
        """
        shape = self._shape
        sizes = [self._domain_size(index) for index in range(len(shape.prefix) + 1)]
        if shape.max_items is not None:
            sizes = sizes[: shape.max_items]
        most = MAX_VALUES if shape.repeated is None else MAX_REPEATED
        if all(size is not None and size <= most for size in sizes):
            return True
        if shape.repeated is not None:
            raise unsupported(
                "'uniqueItems' under a negation of items that are not of small sets of values",
                pointer,
            )
        for index, size in enumerate(sizes):
            is_rest = index == len(shape.prefix)
            if size is not None and (is_rest or size <= index) and size > 0:
                raise unsupported(
                    "'uniqueItems' of items of which some are of a small set, and others not",
                    pointer,
                )
        return False

    def _domain_size(self, index: int) -> int | None:
        """How many values item `index` may have; None where they are not of a small set."""
        domain = self._domain(index)
        return None if domain is None else len(domain)

    def _domain(self, index: int) -> list[tuple[JsonValue, Operand]] | None:
        values: list[JsonValue] = []
        for shape in self._layout.shapes(self._shape.operand(index)):
            if isinstance(shape, NullShape):
                values.append(None)
            elif isinstance(shape, BooleanShape | GivenShape):
                values += shape.values
            elif isinstance(shape, NumberShape) and (grid := _grid(shape)) is not None:
                values += (n for n in grid if self._layout.admission.admits(n, shape))
            elif isinstance(shape, NumberShape | StringShape):
                few = few_texts(self._layout.algebra, self._layout.scalar(shape), MAX_VALUES)
                if few is None:
                    return None
                values += (parse_json(text.decode()) for text in few)
            else:
                return None
        if len(values) > MAX_VALUES:
            return None
        by_key = {_key(value): value for value in values}
        return [(v, (Spot(f"{self._at}/{key}=", {"enum": [v]}),)) for key, v in by_key.items()]


def _key(value: JsonValue) -> str:
    """The same for equal values, and for no others."""
    is_number = isinstance(value, Number) and not isinstance(value, bool)
    return repr(Fraction(value)) if is_number else dump(value, "compact", ascii_only=True)


def _grid(shape: NumberShape) -> list[Number] | None:
    """The multiples within bounds, where these are few; None where they are not."""
    steps = [Fraction(step) for step in shape.multiples] + [Fraction(1)] * shape.integer
    if not steps or shape.low is None or shape.high is None:
        return None
    step = reduce(common_multiple, steps)
    first, last = math.ceil(Fraction(shape.low) / step), math.floor(Fraction(shape.high) / step)
    if last - first >= MAX_VALUES:
        return None
    numbers = [step * count for count in range(first, last + 1)]
    return [Decimal(n.numerator) / Decimal(n.denominator) for n in numbers]


def _leading(flags: Iterator[bool]) -> int:
    """How many are true before the first that is not."""
    found = 0
    for flag in flags:
        if not flag:
            break
        found += 1
    return found
