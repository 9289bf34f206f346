"""The members that an object may have. Owns the slots of a shape: its literal names, and the cells
that all other names fall into.

A *slot* is a literal name, used at most once. A *cell* is a set of names with the same rules, used
any number of times. Each has choices: what its value has, and which of the shape's `some` rules the
member then meets. It must not know in which order members are written, nor how.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from grammars.admission import Admission
from grammars.json_values import is_text
from grammars.keywords import unsupported
from grammars.shape_algebra import intersect
from grammars.shapes import (
    ANYTHING,
    GivenShape,
    Names,
    ObjectShape,
    Operand,
    Pattern,
    Shapes,
    StringShape,
    both,
)

MAX_CELLS = 64
"""Sets of names that patterns tell apart."""

MAX_CREDITS = 12
"""`some` rules of one object; a choice for each subset that a member may meet."""


@dataclass(frozen=True)
class Choice:
    """What a member's value has, and the `some` rules (as bits) that the member then meets."""

    operand: Operand
    credit: int


@dataclass(frozen=True)
class Slot:
    """A literal name. `is_extra`: nobody declared or required it."""

    name: str
    choices: tuple[Choice, ...]
    is_extra: bool


@dataclass(frozen=True)
class Cell:
    """A set of names."""

    names: StringShape
    choices: tuple[Choice, ...]


class MemberTable:
    """The slots of `shape`, in their declared order, and its cells."""

    def __init__(
        self,
        shape: ObjectShape,
        *,
        admission: Admission,
        shapes: Callable[[Operand], Shapes],
        is_empty: Callable[[StringShape], bool],
        few_names: Callable[[StringShape], list[bytes] | None],
        pointer: str,
    ) -> None:
        self.shape = shape
        self._admission = admission
        self._shapes = shapes
        self._is_empty = is_empty
        self._few_names = few_names
        self._pointer = pointer
        if len(shape.some) > MAX_CREDITS:
            raise unsupported(f"more than {MAX_CREDITS} refuted members of one object", pointer)
        declared = dict.fromkeys(
            [
                *(name for name, _ in shape.properties),
                *shape.required,
                *(other for _, others in shape.implied for other in others),
            ]
        )
        literal = dict.fromkeys([*declared, *self._mentioned()])
        given = dict(shape.properties)
        self.slots: tuple[Slot, ...] = tuple(
            Slot(name, self._choices_of(name, given.get(name, ANYTHING)), name not in declared)
            for name in literal
            if is_text(name) and self._admission.has(name, shape.names)
        )
        self.missing = tuple(n for n in shape.required if n not in {s.name for s in self.slots})
        """Required names that no member may have."""
        self.cells: tuple[Cell, ...] = ()
        for cell in self._cells(tuple(literal)):
            self._add(cell)

    def _add(self, cell: Cell) -> None:
        """A cell; one of few names as slots, since all of them may be used."""
        names = cell.names
        is_open = not names.patterns and not names.formats and names.max_length is None
        few = None if is_open else self._few_names(names)
        if few is None:
            self.cells += (cell,)
            return
        read = dict.fromkeys(json.loads(text) for text in few)
        self.slots += tuple(Slot(name, cell.choices, is_extra=True) for name in read)

    def _mentioned(self) -> Iterator[str]:
        """Names that are given, but neither declared nor required."""
        shape = self.shape
        yield from (name for name, _ in shape.implied)
        for rule in (*shape.rules, *shape.some):
            yield from (name for names in rule.names for name in sorted(names.given))
        for operand in (shape.names, *(rule.saying for rule in shape.some)):
            for found in self._shapes(operand) if operand else ():
                if isinstance(found, GivenShape):
                    yield from (value for value in found.values if isinstance(value, str))

    def _choices_of(self, name: str, operand: Operand) -> tuple[Choice, ...]:
        """The choices of a literal name."""
        admission = self._admission
        for rule in self.shape.rules:
            if admission.is_in(name, rule.names):
                operand = both(operand, rule.operand)
        met = [
            index
            for index, rule in enumerate(self.shape.some)
            if admission.is_in(name, rule.names) and admission.has(name, rule.saying)
        ]
        return self._choices(operand, met)

    def _choices(self, operand: Operand, met: Iterable[int]) -> tuple[Choice, ...]:
        """Every way to meet some of the `some` rules that may be met with a value of `operand`."""
        found = [Choice(operand, 0)]
        for index in met:
            more = self.shape.some[index].operand
            bit = 1 << index
            if not more:  # whatever the value is
                found = [Choice(c.operand, c.credit | bit) for c in found]
            else:
                found += [Choice(both(c.operand, more), c.credit | bit) for c in found]
        return tuple(found)

    # -- cells -------------------------------------------------------------------------------

    def _cells(self, literal: tuple[str, ...]) -> Iterator[Cell]:
        others = StringShape(excluded=literal)
        if self.shape.names:
            allowed = [s for s in self._shapes(self.shape.names) if isinstance(s, StringShape)]
        else:
            allowed = [StringShape()]
        for shape in allowed:
            met = intersect(others, shape)
            if isinstance(met, StringShape):
                yield from self._split(met)

    def _split(self, names: StringShape) -> Iterator[Cell]:
        """The cells of some names: for each pattern, those in which it is found, and the rest."""
        parts: list[tuple[StringShape, frozenset[str]]] = [(names, frozenset())]
        for pattern in self._patterns():
            found = StringShape(patterns=(pattern,))
            other = StringShape(patterns=(Pattern(pattern.text, pattern.pointer, negated=True),))
            split = []
            for part, matched in parts:
                for more, texts in ((found, matched | {pattern.text}), (other, matched)):
                    met = intersect(part, more)
                    if isinstance(met, StringShape) and not self._is_empty(met):
                        split.append((met, texts))
            parts = split
            if len(parts) > MAX_CELLS:
                raise unsupported(
                    f"patterns that split names into more than {MAX_CELLS} kinds", self._pointer
                )
        for part, matched in parts:
            if not self._is_empty(part):
                yield from self._cell(part, matched)

    def _patterns(self) -> list[Pattern]:
        rules = (*self.shape.rules, *self.shape.some)
        found = (pattern for rule in rules for names in rule.names for pattern in names.patterns)
        return list({pattern.text: pattern for pattern in found}.values())

    def _cell(self, names: StringShape, matched: frozenset[str]) -> Iterator[Cell]:
        def holds(classes: tuple[Names, ...]) -> bool:
            return all(
                any(p.text in matched for p in one.patterns) != one.outside for one in classes
            )

        operand = ANYTHING
        for rule in self.shape.rules:
            if holds(rule.names):
                operand = both(operand, rule.operand)
        met = [index for index, rule in enumerate(self.shape.some) if holds(rule.names)]
        plain = [index for index in met if not self.shape.some[index].saying]
        yield Cell(names, self._choices(operand, plain))
        for index in met:
            for shape in self._shapes(self.shape.some[index].saying) if index not in plain else ():
                said = intersect(names, shape)
                if isinstance(said, StringShape) and not self._is_empty(said):
                    choices = self._choices(operand, [*plain, index])
                    yield Cell(said, tuple(c for c in choices if c.credit >> index & 1))
