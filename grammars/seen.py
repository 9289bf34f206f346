"""What no other keyword has evaluated. Owns the meaning of `unevaluatedProperties` and
`unevaluatedItems`, given shapes that carry what was seen.

It must not know of keywords beside these.
Source: JSON Schema core, draft 2020-12, section 11.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from grammars.shape_algebra import intersect
from grammars.shapes import (
    ANYTHING,
    EVERY_NAME,
    ArrayShape,
    Contains,
    Either,
    ItemsSeen,
    Names,
    ObjectShape,
    Operand,
    Rule,
    Shape,
    Shapes,
    both,
    negations,
)


def evaluates(shape: Shape) -> bool:
    """Whether a shape carries that something was seen."""
    if isinstance(shape, ObjectShape):
        return bool(shape.seen)
    return isinstance(shape, ArrayShape) and shape.seen != ItemsSeen()


def see_alike(shapes: Shapes) -> bool:
    """Whether all of a type carry that the same was seen."""
    arrays = {shape.seen for shape in shapes if isinstance(shape, ArrayShape)}
    objects = {shape.seen for shape in shapes if isinstance(shape, ObjectShape)}
    return len(arrays) <= 1 and len(objects) <= 1


def without_seen(shape: Shape) -> Shape:
    """The shape alone."""
    if isinstance(shape, ObjectShape) and shape.seen:
        return replace(shape, seen=())
    if isinstance(shape, ArrayShape) and shape.seen != ItemsSeen():
        return replace(shape, seen=ItemsSeen())
    return shape


def close_members(shapes: Shapes, operand: Operand, *, track: bool) -> Shapes:
    """The alternatives in which the members that were not seen have `operand`; with `track`, all
    are seen then.
    """
    found: list[Shape] = []
    for shape in shapes:
        if not isinstance(shape, ObjectShape):
            found.append(shape)
            continue
        closed = replace(
            shape,
            rules=(*shape.rules, Rule(_unseen(shape), operand)),
            seen=(EVERY_NAME,) if track else (),
            open=shape.open or not shape.seen,
        )
        found.append(closed)
    return tuple(found)


def close_items(shapes: Shapes, operand: Operand, *, track: bool) -> Shapes:
    """The same of items: those behind, and beside, all that was seen."""
    found: list[Shape] = []
    for shape in shapes:
        if not isinstance(shape, ArrayShape):
            found.append(shape)
            continue
        closed = shape
        if shape.seen.count is not None and operand:
            rest = (Either((operand, *shape.seen.matching)),)
            met = intersect(shape, ArrayShape((ANYTHING,) * shape.seen.count, rest))
            assert isinstance(met, ArrayShape), "closing an array leaves its lengths"
            closed = met
        found.append(replace(closed, seen=ItemsSeen(None)) if track else closed)
    return tuple(found)


def with_unseen(shape: ObjectShape | ArrayShape, operand: Operand) -> Iterator[Shape]:
    """Alternatives with a part that was not seen, and does not have `operand`."""
    for other in negations(operand):
        more: Shape | None = None
        if isinstance(shape, ObjectShape):
            more = ObjectShape(some=(Rule(_unseen(shape), other),))
        elif shape.seen.count is not None:
            unseen = [other]
            for matching in shape.seen.matching:
                unseen = [both(one, no) for one in unseen for no in negations(matching)]
            neither = (Either(tuple(unseen)),)
            more = ArrayShape(contains=(Contains(neither, 1, start=shape.seen.count),))
        met = more and intersect(shape, more)
        if met:
            yield without_seen(met)


def _unseen(shape: ObjectShape) -> tuple[Names, ...]:
    """The names outside of all that was seen."""
    others = tuple(replace(names, outside=not names.outside) for names in shape.seen)
    return others or (EVERY_NAME,)
