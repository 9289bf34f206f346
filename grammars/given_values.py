"""`const` and `enum` as shapes. Owns what equals a given value, and what does not.

Equality is that of JSON values: 1 equals 1.0, the order of members says nothing. Strings and
numbers stay a list, which may be long; arrays and objects are shapes whose parts are given.
It must not know of other keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grammars.json_values import JsonValue
from grammars.shapes import (
    ANYTHING,
    EVERYTHING,
    NOTHING,
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
    Spot,
    StringShape,
)


def given(values: list[JsonValue], at: str) -> Shapes:
    """The alternatives of any of the values, which stand at `at`."""
    found: list[Shape] = []
    booleans = tuple(dict.fromkeys(v for v in values if isinstance(v, bool)))
    scalars = tuple(dict.fromkeys(v for v in values if _is_scalar(v)))
    if any(value is None for value in values):
        found.append(NullShape())
    if booleans:
        found.append(BooleanShape(booleans))
    if scalars:
        found.append(GivenShape(scalars))
    for index, value in enumerate(values):
        if isinstance(value, list):
            found.append(_array(value, f"{at}/{index}"))
        elif isinstance(value, dict):
            found.append(_object(value, f"{at}/{index}"))
    return tuple(dict.fromkeys(found))


def other_than(
    values: list[JsonValue], at: str, meet: Callable[[Shapes, Shapes], Shapes]
) -> Shapes:
    """The alternatives of none of the values."""
    booleans = tuple(v for v in (False, True) if not any(v is value for value in values))
    numbers = tuple(dict.fromkeys(v for v in values if _is_scalar(v) and not isinstance(v, str)))
    strings = tuple(dict.fromkeys(v for v in values if isinstance(v, str)))
    found: list[Shape] = [NumberShape(excluded=numbers), StringShape(excluded=strings)]
    if not any(value is None for value in values):
        found.append(NullShape())
    if booleans:
        found.append(BooleanShape(booleans))
    arrays: Shapes = (ArrayShape(),)
    objects: Shapes = (ObjectShape(),)
    for index, value in enumerate(values):
        if isinstance(value, list):
            arrays = meet(arrays, tuple(_other_arrays(value, f"{at}/{index}")))
        elif isinstance(value, dict):
            objects = meet(objects, tuple(_other_objects(value, f"{at}/{index}")))
    return (*found, *arrays, *objects) if values else EVERYTHING


def _is_scalar(value: JsonValue) -> bool:
    return value is not None and not isinstance(value, bool | list | dict)


def _part(value: JsonValue, at: str, *, negated: bool = False) -> Operand:
    """A part that equals `value`; its place is that of no schema, so it has a mark."""
    return (Spot(f"{at}=", {"enum": [value]}, negated=negated),)


def _array(value: list[JsonValue], at: str) -> ArrayShape:
    parts = tuple(_part(item, f"{at}/{index}") for index, item in enumerate(value))
    return ArrayShape(parts, NOTHING, len(value), len(value))


def _other_arrays(value: list[JsonValue], at: str) -> Iterator[Shape]:
    if value:
        yield ArrayShape(max_items=len(value) - 1)
    yield ArrayShape(min_items=len(value) + 1)
    for index, item in enumerate(value):
        other = _part(item, f"{at}/{index}", negated=True)
        yield ArrayShape((ANYTHING,) * index + (other,), min_items=index + 1)


def _object(value: dict[str, JsonValue], at: str) -> ObjectShape:
    parts = tuple((name, _part(item, f"{at}/{name}")) for name, item in value.items())
    others = Rule((Names(frozenset(value), outside=True),), NOTHING)
    return ObjectShape(parts, (others,), tuple(value))


def _other_objects(value: dict[str, JsonValue], at: str) -> Iterator[Shape]:
    for name, item in value.items():
        yield ObjectShape(((name, NOTHING),))
        other = _part(item, f"{at}/{name}", negated=True)
        yield ObjectShape(((name, other),), required=(name,))
    yield ObjectShape(min_members=len(value) + 1)
