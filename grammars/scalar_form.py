"""Values without parts, as forms of a schema. Owns their sizes, and which they are.

It must not know how they are written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

from grammars.algebra import Algebra
from grammars.derive import has_string
from grammars.expr import Expr
from grammars.few_texts import few_texts
from grammars.json_values import Number, is_text, parse_json, value_key
from grammars.shapes import (
    BooleanShape,
    GivenShape,
    NullShape,
    NumberShape,
    Operand,
    Shape,
    StringShape,
)
from grammars.survey import FewValues

MAX_FEW = 64
"""Values that are listed."""

_SURE = (NumberShape(), NumberShape(integer=True), StringShape())
"""Shapes that have many values, as is known without a look."""


class ScalarLayout(Protocol):
    """How values without parts are written."""

    algebra: Algebra

    def scalar(self, shape: Shape) -> Expr: ...


class ScalarForm:
    """The values of a shape that has no parts."""

    def __init__(self, shape: Shape, layout: ScalarLayout) -> None:
        self._layout = layout
        self._shape = shape
        self._size = _size(shape)
        if isinstance(shape, NumberShape | StringShape) and shape not in _SURE:
            if not has_string(layout.algebra, layout.scalar(shape)):
                self._size = math.inf
        elif isinstance(shape, GivenShape) and not any(map(_is_writable, shape.values)):
            self._size = math.inf

    def children(self) -> Iterator[Operand]:
        """None: it has no parts."""
        return iter(())

    def blame(self) -> Iterator[Operand]:
        """None."""
        return iter(())

    def weight(self) -> float:
        """About the bytes of the shortest, infinite where there is none."""
        return self._size

    def few_values(self) -> FewValues:
        """All of them, where they are few."""
        shape = self._shape
        if isinstance(shape, NullShape):
            return frozenset([value_key(None)])
        if isinstance(shape, BooleanShape | GivenShape):
            return frozenset(map(value_key, shape.values)) if len(shape.values) <= MAX_FEW else None
        if shape in _SURE:
            return None
        texts = few_texts(self._layout.algebra, self._layout.scalar(shape), MAX_FEW)
        if texts is None:
            return None
        return frozenset(value_key(parse_json(text.decode())) for text in texts)

    def lower(self) -> Expr:
        """The texts of all of them."""
        return self._layout.scalar(self._shape)


def _size(shape: Shape) -> float:
    """About the bytes of the shortest value."""
    if isinstance(shape, StringShape):
        return 2 + shape.min_length
    if isinstance(shape, GivenShape):
        return min(len(str(value)) for value in shape.values)
    return 4 if isinstance(shape, NullShape | BooleanShape) else 1


def _is_writable(value: str | Number) -> bool:
    return not isinstance(value, str) or is_text(value)
