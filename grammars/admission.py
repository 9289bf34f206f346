"""Whether a given value has a shape. Owns the check of `enum` and `const` against their siblings.

It must not know of texts: values are judged by what they are, in any order of members.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from grammars.json_values import JsonValue, same
from grammars.shapes import (
    ArrayShape,
    BooleanShape,
    NullShape,
    NumberShape,
    ObjectShape,
    Operand,
    Shape,
    Shapes,
    StringShape,
    ValueShape,
)
from grammars.string_lowering import Strings


class Admission:
    """Judges values; `shapes` reads what an operand allows."""

    def __init__(self, strings: Strings, shapes: Callable[[Operand], Shapes]) -> None:
        self._strings = strings
        self._shapes = shapes

    def admits(self, value: JsonValue, shape: Shape) -> bool:
        """Whether `value` has `shape`."""
        if isinstance(shape, ValueShape):
            return same(value, shape.value)
        if isinstance(shape, NullShape):
            return value is None
        if isinstance(shape, BooleanShape) or isinstance(value, bool):
            return isinstance(shape, BooleanShape) and isinstance(value, bool)
        if isinstance(shape, NumberShape):
            return isinstance(value, int | Decimal) and _within(value, shape)
        if isinstance(shape, StringShape):
            return isinstance(value, str) and self._strings.holds(value, shape)
        if isinstance(shape, ArrayShape):
            return isinstance(value, list) and self._items(value, shape)
        return isinstance(value, dict) and self._members(value, shape)

    def _any(self, value: JsonValue, operand: Operand) -> bool:
        return any(self.admits(value, shape) for shape in self._shapes(operand))

    def _items(self, value: list[JsonValue], shape: ArrayShape) -> bool:
        if len(value) < shape.min_items:
            return False
        if shape.max_items is not None and len(value) > shape.max_items:
            return False
        return all(self._any(item, shape.operand(index)) for index, item in enumerate(value))

    def _members(self, value: dict[str, JsonValue], shape: ObjectShape) -> bool:
        if not all(name in value for name in shape.required):
            return False
        return all(self._any(item, shape.operand(name)) for name, item in value.items())


def _within(value: int | Decimal, shape: NumberShape) -> bool:
    if shape.integer and value % 1:
        return False
    if shape.low is not None and (value < shape.low or (shape.low_open and value == shape.low)):
        return False
    return shape.high is None or not (
        value > shape.high or (shape.high_open and value == shape.high)
    )
