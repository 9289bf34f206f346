"""Whether a given value has a shape. Owns the check of given values against what stands beside
them, and of names against rules.

It must not know of texts: values are judged by what they are, in any order of members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

from grammars.json_values import JsonValue, same
from grammars.number_lowering import exact_fractions
from grammars.shapes import (
    ArrayShape,
    BooleanShape,
    GivenShape,
    Names,
    NullShape,
    NumberShape,
    ObjectShape,
    Operand,
    Rule,
    Shape,
    Shapes,
    StringShape,
)
from grammars.string_lowering import Strings


class Admission:
    """Judges values; `shapes` reads what an operand allows."""

    def __init__(self, strings: Strings, shapes: Callable[[Operand], Shapes]) -> None:
        self._strings = strings
        self._shapes = shapes

    def admits(self, value: JsonValue, shape: Shape) -> bool:
        """Whether `value` has `shape`."""
        if isinstance(shape, NullShape):
            return value is None
        if isinstance(shape, BooleanShape) or isinstance(value, bool):
            return (
                isinstance(shape, BooleanShape)
                and isinstance(value, bool)
                and value in shape.values
            )
        if isinstance(shape, GivenShape):
            return not isinstance(value, list | dict) and value in shape.members
        if isinstance(shape, NumberShape):
            return isinstance(value, int | Decimal) and _is_within(value, shape)
        if isinstance(shape, StringShape):
            return isinstance(value, str) and self._strings.holds(value, shape)
        if isinstance(shape, ArrayShape):
            return isinstance(value, list) and self._items(value, shape)
        return isinstance(value, dict) and self._members(value, shape)

    def has(self, value: JsonValue, operand: Operand) -> bool:
        """Whether `operand` holds for `value`."""
        return not operand or any(self.admits(value, shape) for shape in self._shapes(operand))

    def is_in(self, name: str, classes: Iterable[Names]) -> bool:
        """Whether `name` is in all of these classes."""
        return all(self._is_named(name, names) for names in classes)

    def _is_named(self, name: str, names: Names) -> bool:
        found = name in names.given or any(
            self._strings.holds(name, StringShape(patterns=(pattern,)))
            for pattern in names.patterns
        )
        return found != names.outside

    def _items(self, value: list[JsonValue], shape: ArrayShape) -> bool:
        if len(value) < shape.min_items:
            return False
        if shape.max_items is not None and len(value) > shape.max_items:
            return False
        if not all(self.has(item, shape.operand(index)) for index, item in enumerate(value)):
            return False
        for asked in shape.contains:
            found = sum(self.has(item, asked.operand) for item in value[asked.start :])
            if found < asked.low or (asked.high is not None and found > asked.high):
                return False
        pairs = ((i, j) for j in range(len(value)) for i in range(j))
        if shape.unique is None and shape.repeated is None:
            return True
        return any(same(value[i], value[j]) for i, j in pairs) == (shape.repeated is not None)

    def _members(self, value: dict[str, JsonValue], shape: ObjectShape) -> bool:
        if len(value) < shape.min_members or not all(name in value for name in shape.required):
            return False
        if shape.max_members is not None and len(value) > shape.max_members:
            return False
        for name, others in shape.implied:
            if name in value and not all(other in value for other in others):
                return False
        given = dict(shape.properties)
        for name, item in value.items():
            if not (self.has(item, given.get(name, ())) and self.has(name, shape.names)):
                return False
            rules = (rule for rule in shape.rules if self.is_in(name, rule.names))
            if not all(self.has(item, rule.operand) for rule in rules):
                return False
        return all(self._is_met(rule, value) for rule in shape.some)

    def _is_met(self, rule: Rule, value: dict[str, JsonValue]) -> bool:
        return any(
            self.is_in(name, rule.names)
            and self.has(name, rule.saying)
            and self.has(item, rule.operand)
            for name, item in value.items()
        )


def _is_within(value: int | Decimal, shape: NumberShape) -> bool:
    (exact,) = exact_fractions((value,))
    is_whole = exact.denominator == 1
    if (shape.integer and not is_whole) or (shape.fractional and is_whole):
        return False
    if shape.low is not None and (value < shape.low or (shape.low_open and value == shape.low)):
        return False
    if shape.high is not None and (value > shape.high or (shape.high_open and value == shape.high)):
        return False
    if any((exact / divisor).denominator != 1 for divisor in exact_fractions(shape.multiples)):
        return False
    if any((exact / divisor).denominator == 1 for divisor in exact_fractions(shape.non_multiples)):
        return False
    return not shape.excluded or value not in shape.excluded
