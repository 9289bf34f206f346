"""What two shapes have in common. Owns the intersection of shapes.

Given values are not handled here: whether one has a shape is asked of `admission`.
It must not know of keywords, texts or expressions.
"""

from __future__ import annotations

from typing import TypeVar

from grammars.shapes import (
    ArrayShape,
    BooleanShape,
    ItemsSeen,
    NullShape,
    NumberShape,
    ObjectShape,
    Shape,
    StringShape,
    both,
)

T = TypeVar("T")


def intersect(left: Shape, right: Shape) -> Shape | None:
    """What both allow, or None when their types have nothing in common."""
    if isinstance(left, NumberShape) and isinstance(right, NumberShape):
        return _numbers(left, right)
    if isinstance(left, StringShape) and isinstance(right, StringShape):
        return _strings(left, right)
    if isinstance(left, ArrayShape) and isinstance(right, ArrayShape):
        return _arrays(left, right)
    if isinstance(left, ObjectShape) and isinstance(right, ObjectShape):
        return _objects(left, right)
    if isinstance(left, BooleanShape) and isinstance(right, BooleanShape):
        values = tuple(value for value in left.values if value in right.values)
        return BooleanShape(values) if values else None
    return left if isinstance(left, NullShape) and isinstance(right, NullShape) else None


def _merge(left: tuple[T, ...], right: tuple[T, ...]) -> tuple[T, ...]:
    """All of both, each once, in their order."""
    if not left or not right:
        return left or right
    return tuple(dict.fromkeys(left + right))


def _numbers(left: NumberShape, right: NumberShape) -> NumberShape | None:
    low, low_open = left.low, left.low_open
    if right.low is not None and (low is None or right.low >= low):
        low_open = right.low_open or (right.low == low and low_open)
        low = right.low
    high, high_open = left.high, left.high_open
    if right.high is not None and (high is None or right.high <= high):
        high_open = right.high_open or (right.high == high and high_open)
        high = right.high
    integer, fractional = left.integer or right.integer, left.fractional or right.fractional
    if integer and fractional:
        return None
    return NumberShape(
        integer,
        low,
        high,
        low_open,
        high_open,
        fractional,
        _merge(left.multiples, right.multiples),
        _merge(left.non_multiples, right.non_multiples),
        _merge(left.excluded, right.excluded),
    )


def _lesser(left: int | None, right: int | None) -> int | None:
    """The lower of two upper bounds."""
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def _strings(left: StringShape, right: StringShape) -> StringShape | None:
    low = max(left.min_length, right.min_length)
    high = _lesser(left.max_length, right.max_length)
    if high is not None and low > high:
        return None
    return StringShape(
        low,
        high,
        _merge(left.patterns, right.patterns),
        _merge(left.formats, right.formats),
        _merge(left.excluded, right.excluded),
    )


def _arrays(left: ArrayShape, right: ArrayShape) -> ArrayShape | None:
    low = max(left.min_items, right.min_items)
    high = _lesser(left.max_items, right.max_items)
    if high is not None and low > high:
        return None
    unique = left.unique if left.unique is not None else right.unique
    repeated = left.repeated if left.repeated is not None else right.repeated
    if unique is not None and repeated is not None:
        return None
    length = max(len(left.prefix), len(right.prefix))
    return ArrayShape(
        tuple(both(left.operand(index), right.operand(index)) for index in range(length)),
        both(left.rest, right.rest),
        low,
        high,
        _merge(left.contains, right.contains),
        unique,
        _seen_items(left.seen, right.seen),
        repeated,
    )


def _seen_items(left: ItemsSeen, right: ItemsSeen) -> ItemsSeen:
    counts = (left.count, right.count)
    count = None if None in counts else max(c for c in counts if c is not None)
    return ItemsSeen(count, _merge(left.matching, right.matching))


def _objects(left: ObjectShape, right: ObjectShape) -> ObjectShape | None:
    """Given names in the order of the left, then those that only the right has."""
    low = max(left.min_members, right.min_members)
    high = _lesser(left.max_members, right.max_members)
    if high is not None and low > high:
        return None
    properties = dict(left.properties)
    for name, operand in right.properties:
        properties[name] = both(properties[name], operand) if name in properties else operand
    return ObjectShape(
        tuple(properties.items()),
        _merge(left.rules, right.rules),
        _merge(left.required, right.required),
        _merge(left.implied, right.implied),
        _merge(left.some, right.some),
        both(left.names, right.names),
        low,
        high,
        _merge(left.seen, right.seen),
        left.open or right.open,
    )
