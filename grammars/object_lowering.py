"""Objects as texts. Owns names, colons and commas of members.

The states of an object are made on demand from `member_order`. It must not know of keywords.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import NamedTuple, Protocol

from grammars.array_lowering import Layout, Weigh
from grammars.budget import At, at_pointer
from grammars.expr import Expr
from grammars.few_texts import few_texts
from grammars.member_order import Limits, MemberOrder
from grammars.member_state import State, Step
from grammars.member_table import MemberTable
from grammars.name_tree import Branch, NameTree
from grammars.noting import SLACK
from grammars.shapes import ObjectShape, Operand, StringShape

MAX_FEW = 64
"""Names of a cell that are slots of their own: so few may all be used."""


class ObjectLayout(Layout, Protocol):
    """How the parts of objects are written."""

    colon: Expr
    any_order: bool
    extra_properties: bool | None

    def name(self, name: str) -> Expr: ...

    def names(self, shape: StringShape) -> Expr: ...

    def other_names(self, names: Expr, extras: frozenset[str]) -> Expr: ...


class ObjectForm:
    """The objects of one shape, which is asked for at `pointer`."""

    def __init__(
        self, shape: ObjectShape, layout: ObjectLayout, weigh: Weigh, pointer: str
    ) -> None:
        self._layout = layout
        self._at = at_pointer(pointer)
        self._table = MemberTable(
            shape,
            admission=layout.admission,
            shapes=layout.shapes,
            is_empty=lambda names: layout.names(names) is layout.algebra.empty,
            few_names=lambda names: few_texts(layout.algebra, layout.names(names), MAX_FEW),
            pointer=pointer,
        )
        self._order = MemberOrder(
            self._table,
            Limits(layout.any_order, _with_extras(shape, layout)),
            weigh,
            layout.algebra.budget,
        )
        self._lowered: Expr | None = None

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
        if self._lowered is None:
            self._order.settle()
            members = _Members(self._order, self._layout, self._at)
            self._lowered = self._layout.bracketed(b"{", members.ref(State(), frozenset()), b"}")
        return self._lowered


def _with_extras(shape: ObjectShape, layout: ObjectLayout) -> bool:
    """Whether members that nobody declared are written."""
    if layout.extra_properties is not None:
        return layout.extra_properties
    has_declared = bool(shape.properties or shape.required)
    is_needed = bool(shape.some) or shape.min_members > len(shape.properties)
    return layout.any_order or shape.open or not has_declared or is_needed


MANY_NAMES = 16
"""Members that may come next, of which each has an expression of its own; more are a tree."""


def _indices(slots: int) -> Iterator[int]:
    """The numbers of slots that are given as bits."""
    while slots:
        lowest = slots & -slots
        yield lowest.bit_length() - 1
        slots ^= lowest


Extras = frozenset[str] | None
"""The names of members that nobody declared; None where they are not known."""


class _Between(NamedTuple):
    """Between two members; `is_begun`: the comma is written, so a name begins here.
    `is_planned`: on a way to complete the object, of which the beginning counts the slack.
    """

    state: State
    extras: Extras
    is_begun: bool
    is_planned: bool = False


class _Behind(NamedTuple):
    """Behind a name of a cell: the steps that it may be, each with the state after it, and the
    bytes of the name so far (None: not known). `is_pending`: it cannot be passed (see `noting`).
    """

    steps: tuple[tuple[Step, State], ...]
    extras: Extras
    written: bytes | None
    is_pending: bool


class _Among(NamedTuple):
    """Inside of a name: one of the slots of a branch that may come next in `state`."""

    state: State
    extras: Extras
    branch: Branch


class _Members:
    """The rest of an object after some members, for each state of their order.

    The names of cells are remembered: none of them comes twice.
    """

    def __init__(self, order: MemberOrder, layout: ObjectLayout, at: At) -> None:
        self._order = order
        self._at = at
        self._table = order.table
        self._layout = layout
        self._algebra = layout.algebra
        self._remembers = order.has_cells
        self._tree = NameTree((slot.name, index) for index, slot in enumerate(order.table.slots))

    def ref(self, state: State, extras: Extras) -> Expr:
        """What may follow in a live state."""
        if next(self._order.steps(state), None) is None:
            return self._algebra.epsilon
        key = _Between(state, extras if self._remembers else None, is_begun=state.is_first)
        return self._between(key, nullable=self._order.is_complete(state))

    def _planned(self, state: State, extras: Extras) -> Expr:
        """What follows on a way to complete the object."""
        if self._order.is_complete(state):
            return self._algebra.epsilon
        extras, state = extras if self._remembers else None, self._order.as_planned(state)
        return self._between(_Between(state, extras, False, is_planned=True), nullable=False)

    def _between(self, key: _Between | _Among, *, nullable: bool) -> Expr:
        if key.extras is None and not self._remembers:
            return self._algebra.ref(self, key, nullable=nullable)
        return self._algebra.noting_ref(self, key, nullable=nullable)

    # -- expressions of keys (see `expr.Rules`) ----------------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        self._algebra.budget.at = self._at
        if isinstance(key, _Behind):
            return self._algebra.empty if key.is_pending else self._after_name(key)
        if isinstance(key, _Among):
            return self._algebra.union(self._branches(key))
        assert isinstance(key, _Between), "a key is a place between members, or behind a name"
        if key.is_begun:
            return self._member(key.state, key.extras)
        begun = self._between(key._replace(is_begun=True), nullable=False)
        return self._algebra.concat(self._layout.comma, begun)

    def least(self, key: Hashable) -> Expr:
        algebra = self._algebra
        algebra.budget.at = self._at
        if isinstance(key, _Behind):
            step, after = self._shortest(key.steps)
            value = self._layout.value(step.choice.operand)
            return algebra.sequence([self._layout.colon, value, self._planned(after, key.extras)])
        if isinstance(key, _Among):
            live = self._tree.within(key.branch) & self._order.live_slots(key.state)
            slot = (live & -live).bit_length() - 1
            return algebra.concat(
                algebra.literal(self._tree.rest(key.branch, slot)), self._valued(key, slot)
            )
        assert isinstance(key, _Between), "a key is a place between members, or behind a name"
        if self._order.is_complete(key.state) and not key.is_begun:
            return algebra.epsilon
        step, after = self._order.finish(key.state) or next(self._order.steps(key.state))
        lead = algebra.epsilon if key.is_begun else self._layout.comma
        value = self._layout.value(step.choice.operand)
        name = self._name(step, key.extras or frozenset())
        return algebra.sequence([lead, name, value, self._planned(after, key.extras)])

    # -- members -----------------------------------------------------------------------------

    def _member(self, state: State, extras: Extras) -> Expr:
        """Any member that may come next, and what may follow it."""
        algebra = self._algebra
        slots, options = self._order.live_slots(state), []
        in_tree = slots & self._tree.within(self._tree.root)
        if in_tree.bit_count() > MANY_NAMES:
            options.append(self._between(_Among(state, extras, self._tree.root), nullable=False))
            slots &= ~in_tree
        for slot in _indices(slots):
            name = self._layout.name(self._table.slots[slot].name)
            options.append(algebra.concat(name, self._rest(state, extras, slot)))
        by_cell: dict[int, list[tuple[Step, State]]] = {}
        for step, after in self._order.cell_steps(state):
            by_cell.setdefault(step.part, []).append((step, after))
        for cell, steps in by_cell.items():
            names = self._layout.names(self._table.cells[cell].names)
            if extras:
                names = self._layout.other_names(names, extras)
            written = None if extras is None else b""
            behind = _Behind(tuple(steps), extras, written, is_pending=extras is None)
            options.append(algebra.concat(names, self._behind(behind)))
        return algebra.union(options)

    def _rest(self, state: State, extras: Extras, slot: int) -> Expr:
        """The value of a slot's member, and what may follow."""
        algebra = self._algebra
        return algebra.union(
            algebra.concat(self._layout.value(step.choice.operand), self.ref(after, extras))
            for step, after in self._order.slot_steps(state, slot)
        )

    def _valued(self, key: _Among, slot: int) -> Expr:
        """What stands behind the name of a slot."""
        rest = self._rest(key.state, key.extras, slot)
        return self._algebra.concat(self._layout.colon, rest)

    def _branches(self, key: _Among) -> Iterator[Expr]:
        """The ways to go on in the names of a branch."""
        algebra, live = self._algebra, self._order.live_slots(key.state)
        for text, branch in self._tree.branches(key.branch):
            slots = list(_indices(self._tree.within(branch) & live))
            if len(slots) == 1:
                whole = algebra.literal(self._tree.rest(key.branch, slots[0]))
                yield algebra.concat(whole, self._valued(key, slots[0]))
            elif slots:
                below = self._between(key._replace(branch=branch), nullable=False)
                yield algebra.concat(algebra.literal(text), below)

    def _behind(self, key: _Behind) -> Expr:
        return self._algebra.noting_ref(self, key, is_open=True, pending=key.is_pending)

    def _after_name(self, key: _Behind) -> Expr:
        """The colon, the value, and what may follow."""
        algebra, extras = self._algebra, key.extras
        if extras is not None:  # nothing is noted of a name that begins within a token
            extras = extras | {json.loads(key.written)} if key.written else None
        return algebra.concat(
            self._layout.colon,
            algebra.union(
                algebra.concat(self._layout.value(step.choice.operand), self.ref(after, extras))
                for step, after in key.steps
            ),
        )

    def _name(self, step: Step, extras: frozenset[str]) -> Expr:
        """A member's name and its colon."""
        layout = self._layout
        if not step.of_cell:
            return layout.name(self._table.slots[step.part].name)
        names = layout.names(self._table.cells[step.part].names)
        if extras:
            names = layout.other_names(names, extras)
        return layout.algebra.concat(names, layout.colon)

    # -- what is remembered (see `expr.NotingRules`) -----------------------------------------

    def noted(self, key: Hashable, byte: int) -> Expr:
        assert isinstance(key, _Behind), "only what stands behind a name is open"
        written = None if key.written is None else key.written + bytes([byte])
        return self._behind(key._replace(written=written))

    def loosened(self, key: Hashable) -> Expr:
        if isinstance(key, _Behind):
            return self._behind(key._replace(extras=None, written=None))
        if isinstance(key, _Among):
            return self._between(key._replace(extras=None), nullable=False)
        assert isinstance(key, _Between), "a key is a place between members, or behind a name"
        nullable = not key.is_begun or key.state.is_first
        return self._between(
            key._replace(extras=None), nullable=nullable and self._order.is_complete(key.state)
        )

    def begins(self, key: Hashable) -> bool:
        return isinstance(key, _Between) and key.extras is not None and key.is_begun

    def slack(self, key: Hashable) -> int:
        if isinstance(key, _Among):
            return 0  # behind the name it is counted
        if isinstance(key, _Behind):
            _, state = self._shortest(key.steps)
            needed = int(key.is_pending) + self._num_needed(state)
        else:
            assert isinstance(key, _Between), "a key is a place between members, or behind a name"
            needed = self._num_needed(key.state)
            if key.is_planned:
                needed = 0
            elif key.extras is not None:
                needed -= needed > 0  # the first is other than all that were written
            elif key.is_begun and not key.state.is_first:
                needed += 1  # a name must follow, other than some that are not known
        is_exact = key.extras is not None
        return needed * (SLACK if is_exact else 2 * SLACK)

    def _shortest(self, steps: tuple[tuple[Step, State], ...]) -> tuple[Step, State]:
        """The step after which the fewest members must follow."""
        return min(steps, key=lambda step: self._order.missing(step[1]))

    def _num_needed(self, state: State) -> int:
        """The members of cells that are still needed."""
        return self._order.missing(state)[1] if self._remembers else 0
