"""Branches that exclude each other, and refutations that are one. Owns what is seen of shapes at a
glance, before alternatives multiply.

Nothing is read here that a schema refers to: only what stands in it. It must not know of texts.
"""

from __future__ import annotations

from grammars.json_values import JsonValue
from grammars.keywords import READ
from grammars.shapes import NOTHING, ObjectShape, Operand, Shape, Spot, both

Given = frozenset[tuple[bool, JsonValue]]
"""Values that may be told apart by hash; each with whether it is a bool, which equals a number."""

FEW = 16
"""Members of a shape that are looked at when it meets another."""


def given_values(operand: Operand) -> Given | None:
    """The values among which every value of an operand is, where `const` or `enum` say so."""
    found: Given | None = None
    refused: Given = frozenset()
    for term in operand:
        if operand is NOTHING:
            return frozenset()
        values = _values(term) if isinstance(term, Spot) else None
        if values is None or not isinstance(term, Spot):
            continue
        if not term.negated:
            found = values if found is None else found & values
        elif len(READ.intersection(term.schema)) == 1:  # nothing else is refuted
            refused |= values
    return None if found is None else found - refused


def _values(spot: Spot) -> Given | None:
    schema = spot.schema
    if not isinstance(schema, dict) or "$ref" in schema:
        return None
    values = (
        schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else None
    )
    if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
        return None
    return frozenset((isinstance(value, bool), value) for value in values)


def is_contradictory(left: Shape, right: Shape) -> bool:
    """Whether a member that both name, and one requires, can have no value at all."""
    if not isinstance(left, ObjectShape) or not isinstance(right, ObjectShape):
        return False
    few, many = sorted((left, right), key=lambda shape: len(shape.properties))
    if not few.properties or len(few.properties) > FEW:
        return False
    others = dict(many.properties)
    for name, operand in few.properties:
        if name not in others or not (name in few.required or name in many.required):
            continue
        values = given_values(both(operand, others[name]))
        if values is not None and not values:
            return True
    return False


def merged(shapes: list[Shape]) -> list[Shape]:
    """Alternatives, with "there is no such member" and "there is one, with another value" as one:
    if there is such a member, then with another value.
    """
    absent = {
        shape.properties[0][0]
        for shape in shapes
        if isinstance(shape, ObjectShape) and shape == ObjectShape(shape.properties[:1])
        if shape.properties and shape.properties[0][1] == NOTHING
    }
    joined: list[Shape] = []
    replaced: set[str] = set()
    for shape in shapes:
        name = _only_member(shape)
        if name is not None and name in absent and isinstance(shape, ObjectShape):
            shape = ObjectShape(shape.properties)  # noqa: PLW2901
            replaced.add(name)
        joined.append(shape)
    gone = {ObjectShape(((name, NOTHING),)) for name in replaced}
    return [shape for shape in joined if not isinstance(shape, ObjectShape) or shape not in gone]


def _only_member(shape: Shape) -> str | None:
    """The name of the one member that a shape asks for, where it asks for nothing else."""
    if not isinstance(shape, ObjectShape) or len(shape.properties) != 1:
        return None
    (name, operand) = shape.properties[0]
    return name if shape == ObjectShape(((name, operand),), required=(name,)) else None
