"""Objects as texts. Owns names, colons and commas of members.

The states of an object are made on demand from `member_order`. It must not know of keywords.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Protocol

from grammars.array_lowering import Layout, Weigh
from grammars.expr import Expr
from grammars.member_order import Limits, MemberOrder, State
from grammars.member_table import MemberTable
from grammars.shapes import ObjectShape, Operand, StringShape


class ObjectLayout(Layout, Protocol):
    """How the parts of objects are written."""

    colon: Expr
    any_order: bool
    extra_properties: bool | None

    def name(self, name: str) -> Expr: ...

    def names(self, shape: StringShape) -> Expr: ...


class ObjectForm:
    """The objects of one shape, which is asked for at `pointer`."""

    def __init__(
        self, shape: ObjectShape, layout: ObjectLayout, weigh: Weigh, pointer: str
    ) -> None:
        self._layout = layout
        self._table = MemberTable(
            shape,
            admission=layout.admission,
            shapes=layout.shapes,
            is_empty=lambda names: layout.names(names) is layout.algebra.empty,
            pointer=pointer,
        )
        self._order = MemberOrder(
            self._table,
            Limits(layout.any_order, _with_extras(shape, layout)),
            weigh,
            layout.algebra.budget,
        )

    def children(self) -> Iterator[Operand]:
        """The operands of its members."""
        for slot in self._table.slots:
            yield from (choice.operand for choice in slot.choices)
        for cell in self._table.cells:
            yield from (choice.operand for choice in cell.choices)

    def weight(self) -> float:
        """The size of the smallest of the objects, infinite where there is none."""
        return self._order.weight()

    def blame(self) -> Iterator[Operand]:
        """What it needs, in order."""
        required = set(self._table.shape.required)
        for slot in self._table.slots:
            if slot.name in required:
                yield from (choice.operand for choice in slot.choices)

    def lower(self) -> Expr:
        """The texts of all the objects."""
        self._order.settle()
        members = _Members(self._order, self._layout)
        return self._layout.bracketed(b"{", members.ref(State()), b"}")

    least = lower


def _with_extras(shape: ObjectShape, layout: ObjectLayout) -> bool:
    """Whether members that nobody declared are written."""
    if layout.extra_properties is not None:
        return layout.extra_properties
    has_declared = bool(shape.properties or shape.required)
    is_needed = bool(shape.some) or shape.min_members > len(shape.properties)
    return layout.any_order or shape.open or not has_declared or is_needed


class _Members:
    """The rest of an object after some members, for each state of their order."""

    def __init__(self, order: MemberOrder, layout: ObjectLayout) -> None:
        self._order = order
        self._table = order.table
        self._layout = layout

    def ref(self, state: State) -> Expr:
        """What may follow in a live state."""
        algebra = self._layout.algebra
        if next(self._order.steps(state), None) is None:
            return algebra.epsilon
        return algebra.ref(self, state, nullable=self._order.is_complete(state))

    def unfold(self, key: Hashable) -> Expr:
        state = _state(key)
        algebra = self._layout.algebra
        by_name: dict[tuple[bool, int], list[Expr]] = {}
        for step, after in self._order.steps(state):
            rest = algebra.concat(self._layout.value(step.choice.operand), self.ref(after))
            by_name.setdefault((step.of_cell, step.part), []).append(rest)
        return self._led(
            state,
            algebra.union(
                algebra.concat(self._name(*name), algebra.union(rests))
                for name, rests in by_name.items()
            ),
        )

    def least(self, key: Hashable) -> Expr:
        """All that is needed in one sequence: a reference for each member would be a chain."""
        state = _state(key)
        layout = self._layout
        parts: list[Expr] = []
        for step in self._order.way_out(state):
            if parts or not state.is_first:
                parts.append(layout.comma)
            parts += [self._name(step.of_cell, step.part), layout.value(step.choice.operand)]
        return layout.algebra.sequence(parts)

    def _name(self, of_cell: bool, index: int) -> Expr:
        """A member's name and its colon."""
        layout = self._layout
        if of_cell:
            return layout.algebra.concat(layout.names(self._table.cells[index].names), layout.colon)
        return layout.name(self._table.slots[index].name)

    def _led(self, state: State, rest: Expr) -> Expr:
        return rest if state.is_first else self._layout.algebra.concat(self._layout.comma, rest)


def _state(key: Hashable) -> State:
    assert isinstance(key, State), "a key is a state"
    return key
