"""What a JSON Schema asks of a value, per JSON type. Owns the shapes and their intersection.

A schema is read as alternatives: a tuple of shapes, each for one type (`any of them`). Keywords
that meet at one value (siblings, `allOf`, `$ref` next to others) are the intersection of their
shapes; no schema is ever rewritten into another schema. What a shape says of parts (properties,
items) it says by operands: tuples of places in the schema that must all hold there, read when they
are needed. It must not know of texts or expressions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from grammars.json_values import JsonValue, Number


@dataclass(frozen=True)
class Spot:
    """A place in the schema; two with one pointer are the same place."""

    pointer: str
    schema: JsonValue = field(compare=False)


Operand = tuple[Spot, ...]
"""All of these must hold; () holds for every value."""

ANYTHING: Operand = ()


def both(left: Operand, right: Operand) -> Operand:
    """What holds where both hold."""
    return left + tuple(spot for spot in right if spot not in left)


@dataclass(frozen=True)
class NullShape:
    """null"""


@dataclass(frozen=True)
class BooleanShape:
    """true or false"""


@dataclass(frozen=True)
class NumberShape:
    """A number within bounds (None: unbounded), exactly; `open` bounds are not in it.

    `integer`: it has no fraction (1.0 has none); `fractional`: it has one. It is a multiple of each
    of `multiples` (all positive), of none of `non_multiples`, and is none of `excluded`.
    """

    integer: bool = False
    low: Number | None = None
    high: Number | None = None
    low_open: bool = False
    high_open: bool = False
    fractional: bool = False
    multiples: tuple[Number, ...] = ()
    non_multiples: tuple[Number, ...] = ()
    excluded: tuple[Number, ...] = ()


@dataclass(frozen=True)
class StringShape:
    """A string of so many code points, in which each pattern is found and each format holds.

    `patterns`: (pattern, pointer) pairs.
    """

    min_length: int = 0
    max_length: int | None = None
    patterns: tuple[tuple[str, str], ...] = ()
    formats: tuple[str, ...] = ()


@dataclass(frozen=True)
class ArrayShape:
    """`prefix[i]` holds for item i, `rest` for the items after those."""

    prefix: tuple[Operand, ...] = ()
    rest: Operand = ANYTHING
    min_items: int = 0
    max_items: int | None = None

    def operand(self, index: int) -> Operand:
        """What holds for item `index`."""
        return self.prefix[index] if index < len(self.prefix) else self.rest


@dataclass(frozen=True)
class ObjectShape:
    """Declared members in their order, the names that must be there, and what holds for others."""

    properties: tuple[tuple[str, Operand], ...] = ()
    required: tuple[str, ...] = ()
    others: Operand = ANYTHING

    def operand(self, name: str) -> Operand:
        """What holds for the member `name`."""
        return dict(self.properties).get(name, self.others)


@dataclass(frozen=True)
class ValueShape:
    """One given value (from `enum` or `const`); `text` is it, written compactly."""

    text: str
    value: JsonValue = field(compare=False)


Shape = NullShape | BooleanShape | NumberShape | StringShape | ArrayShape | ObjectShape | ValueShape
Shapes = tuple[Shape, ...]

EVERY_TYPE: dict[str, Shape] = {
    "null": NullShape(),
    "boolean": BooleanShape(),
    "number": NumberShape(),
    "integer": NumberShape(integer=True),
    "string": StringShape(),
    "array": ArrayShape(),
    "object": ObjectShape(),
}


def intersect(left: Shape, right: Shape) -> Shape | None:
    """What both allow, or None when their types or bounds have nothing in common.

    Values are not handled here: whether one is allowed is asked of `admission`.
    """
    if isinstance(left, NumberShape) and isinstance(right, NumberShape):
        return _numbers(left, right)
    if isinstance(left, StringShape) and isinstance(right, StringShape):
        return _strings(left, right)
    if isinstance(left, ArrayShape) and isinstance(right, ArrayShape):
        return _arrays(left, right)
    if isinstance(left, ObjectShape) and isinstance(right, ObjectShape):
        return _objects(left, right)
    same = isinstance(left, NullShape | BooleanShape) and type(left) is type(right)
    return left if same else None


def _numbers(left: NumberShape, right: NumberShape) -> NumberShape:
    low, low_open = left.low, left.low_open
    if right.low is not None and (low is None or right.low >= low):
        low_open = right.low_open or (right.low == low and low_open)
        low = right.low
    high, high_open = left.high, left.high_open
    if right.high is not None and (high is None or right.high <= high):
        high_open = right.high_open or (right.high == high and high_open)
        high = right.high
    return NumberShape(left.integer or right.integer, low, high, low_open, high_open)


def _lesser(left: int | None, right: int | None) -> int | None:
    """The lower of two upper bounds."""
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _strings(left: StringShape, right: StringShape) -> StringShape:
    return StringShape(
        max(left.min_length, right.min_length),
        _lesser(left.max_length, right.max_length),
        left.patterns + tuple(p for p in right.patterns if p not in left.patterns),
        left.formats + tuple(f for f in right.formats if f not in left.formats),
    )


def _arrays(left: ArrayShape, right: ArrayShape) -> ArrayShape:
    length = max(len(left.prefix), len(right.prefix))
    return ArrayShape(
        tuple(both(left.operand(index), right.operand(index)) for index in range(length)),
        both(left.rest, right.rest),
        max(left.min_items, right.min_items),
        _lesser(left.max_items, right.max_items),
    )


def _objects(left: ObjectShape, right: ObjectShape) -> ObjectShape:
    """Members in the order of the left, then those that only the right declares."""
    mine, theirs = dict(left.properties), dict(right.properties)
    names = [*mine, *(name for name in theirs if name not in mine)]
    return ObjectShape(
        tuple(
            (name, both(mine.get(name, left.others), theirs.get(name, right.others)))
            for name in names
        ),
        tuple(dict.fromkeys(left.required + right.required)),
        both(left.others, right.others),
    )
