"""Objects as texts. Owns names, colons and commas of members.

The states of an object are made on demand from `member_order`. It must not know of keywords.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from typing import NamedTuple, Protocol

from grammars.array_lowering import MAX_VALUES, Layout, Sizes
from grammars.budget import At, at_pointer
from grammars.expr import ALL_BYTES, Expr, Part, Way
from grammars.few_texts import few_texts
from grammars.member_order import SLOTS_PER_STEP, Limits, MemberOrder
from grammars.member_state import State, Step
from grammars.member_table import MemberTable
from grammars.name_tree import Branch, NameTree
from grammars.shapes import ObjectShape, Operand, StringShape
from grammars.survey import FewValues

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
        self, shape: ObjectShape, layout: ObjectLayout, sizes: Sizes, pointer: str
    ) -> None:
        self._layout = layout
        self._sizes = sizes
        self._with_extras = _with_extras(shape, layout)
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
            Limits(layout.any_order, self._with_extras),
            sizes.weigh,
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

    def few_values(self) -> FewValues:
        """All that the objects may be, where they are few."""
        few, shape = self._sizes.few_values, self._table.shape
        if shape.max_members == 0:
            return frozenset([frozenset()])
        for cell in self._table.cells if self._with_extras else ():
            if any(few(choice.operand) != frozenset() for choice in cell.choices):
                return None
        rows: list[frozenset[Hashable]] = [frozenset()]
        for slot in self._table.slots:
            if slot.is_extra and not self._with_extras:
                continue
            before = [] if slot.name in shape.required else rows
            members: set[Hashable] = set()
            for choice in slot.choices:
                values = few(choice.operand)
                if values is None or len(rows) * len(members | values) > MAX_VALUES:
                    return None
                members |= values
            rows = before + [row | {(slot.name, value)} for row in rows for value in members]
        return frozenset(row for row in rows if len(row) >= shape.min_members)

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
    """Between two members; `is_begun`: the comma is written, so a name begins here."""

    state: State
    extras: Extras
    is_begun: bool


class _Behind(NamedTuple):
    """Behind a name of a cell: the steps that it may be, each with the state after it, and the
    bytes of the name so far (None: not known). `is_pending`: it cannot be passed (see `noting`),
    nor where nothing of the name was noted.
    """

    steps: tuple[tuple[Step, State], ...]
    extras: Extras
    written: bytes | None
    is_pending: bool = False

    @property
    def is_passable(self) -> bool:
        """Whether what follows is known."""
        return not self.is_pending and self.written != b""


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
        self._made: dict[tuple[bool, int, Operand, bool], Part] = {}
        self._tree = NameTree((slot.name, index) for index, slot in enumerate(order.table.slots))

    def ref(self, state: State, extras: Extras) -> Expr:
        """What may follow in a live state."""
        if next(self._order.steps(state), None) is None:
            return self._algebra.epsilon
        key = _Between(state, extras if self._remembers else None, is_begun=state.is_first)
        is_optional = state.is_first and self._order.is_complete(state)
        return self._algebra.optional(self._between(key)) if is_optional else self._between(key)

    def _between(self, key: _Between) -> Expr:
        nullable = not key.is_begun and self._order.is_complete(key.state)
        if not self._remembers:
            return self._algebra.ref(self, key, nullable=nullable)
        pending = key.extras is None and key.is_begun
        return self._algebra.noting_ref(self, key, nullable=nullable, pending=pending)

    def _among(self, key: _Among) -> Expr:
        make = self._algebra.noting_ref if self._remembers else self._algebra.ref
        return make(self, key)

    # -- expressions of keys (see `expr.Rules`) ----------------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        self._algebra.budget.at = self._at
        if isinstance(key, _Behind):
            return self._after_name(key) if key.is_passable else self._stuck(key)
        if isinstance(key, _Among):
            return self._algebra.union(self._branches(key))
        assert isinstance(key, _Between), "a key is a place between members, or behind a name"
        if key.is_begun:
            return self._member(key.state, key.extras)
        begun = self._between(key._replace(is_begun=True))
        return self._algebra.concat(self._layout.comma, begun)

    def _stuck(self, key: _Behind) -> Expr:
        """Anything, of which nothing is known: it never ends."""
        algebra = self._algebra
        return algebra.concat(algebra.byte_set(ALL_BYTES), self._behind(key._replace(written=b"")))

    def least(self, key: Hashable) -> Expr:
        assert not self._remembers, "what notes has ways"
        algebra = self._algebra
        algebra.budget.at = self._at
        if isinstance(key, _Among):
            slot = next(self._live_within(key))
            rest = algebra.literal(self._tree.rest(key.branch, slot))
            return algebra.concat(rest, self._valued(key, slot))
        assert isinstance(key, _Between), "a key is a place between members, or behind a name"
        if self._order.is_complete(key.state) and not key.is_begun:
            return algebra.epsilon
        step, after = self._order.finish(key.state) or next(self._order.steps(key.state))
        lead = algebra.epsilon if key.is_begun else self._layout.comma
        name = self._layout.name(self._table.slots[step.part].name)
        value = self._layout.value(step.choice.operand)
        return algebra.sequence([lead, name, value, self._planned(after)])

    def _planned(self, state: State) -> Expr:
        """What follows on a way to complete the object without cells."""
        if self._order.is_complete(state):
            return self._algebra.epsilon
        return self._between(_Between(self._order.as_planned(state), None, is_begun=False))

    # -- members -----------------------------------------------------------------------------

    def _member(self, state: State, extras: Extras) -> Expr:
        """Any member that may come next, and what may follow it."""
        algebra = self._algebra
        slots, options = self._order.live_slots(state), []
        in_tree = slots & self._tree.within(self._tree.root)
        if in_tree.bit_count() > MANY_NAMES:
            options.append(self._among(_Among(state, extras, self._tree.root)))
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
                below = self._among(key._replace(branch=branch))
                yield algebra.concat(algebra.literal(text), below)

    def _live_within(self, key: _Among) -> Iterator[int]:
        """The slots of a branch that may come next; first that of a short way, if it is there."""
        live = self._tree.within(key.branch) & self._order.live_slots(key.state)
        best = self._order.finish(key.state)
        if best is not None and not best[0].of_cell and live >> best[0].part & 1:
            yield best[0].part
            live ^= 1 << best[0].part
        yield from _indices(live)

    def _behind(self, key: _Behind) -> Expr:
        return self._algebra.noting_ref(self, key, is_open=True, pending=not key.is_passable)

    def _after_name(self, key: _Behind) -> Expr:
        """The colon, the value, and what may follow."""
        algebra, extras = self._algebra, key.extras
        if extras is not None:
            assert key.written, "a name has a text"
            extras = extras | {json.loads(key.written)}
        return algebra.concat(
            self._layout.colon,
            algebra.union(
                algebra.concat(self._layout.value(step.choice.operand), self.ref(after, extras))
                for step, after in key.steps
            ),
        )

    # -- what is remembered (see `expr.NotingRules`) -----------------------------------------

    def noted(self, key: Hashable, byte: int) -> Expr:
        assert isinstance(key, _Behind), "only what stands behind a name is open"
        written = None if key.written is None else key.written + bytes([byte])
        return self._behind(key._replace(written=written))

    def loosened(self, key: Hashable) -> Expr:
        if isinstance(key, _Behind):
            return self._behind(key._replace(extras=None, written=None))
        if isinstance(key, _Among):
            return self._among(key._replace(extras=None))
        assert isinstance(key, _Between), "a key is a place between members, or behind a name"
        return self._between(key if key.state.is_first else key._replace(extras=None))

    def begins(self, key: Hashable) -> bool:
        return isinstance(key, _Between) and key.extras is not None and key.is_begun

    def read(self, text: bytes) -> Hashable:
        name: str = json.loads(text)
        return name

    def other_than(self, parts: Expr, texts: tuple[bytes, ...]) -> Expr:
        return self._layout.other_names(parts, frozenset(map(json.loads, texts)))

    def unwritten(self, key: Hashable) -> Hashable:
        if isinstance(key, _Behind) and key.written is not None:
            return key._replace(written=b"")
        return key

    def ways(self, key: Hashable) -> Iterator[Way]:
        algebra = self._algebra
        algebra.budget.at = self._at
        if isinstance(key, _Behind):
            for step, after in sorted(key.steps, key=lambda step: self._order.missing(step[1])):
                yield self._way(algebra.epsilon, step, after, key.extras)
            return
        if isinstance(key, _Among):
            for slot in self._live_within(key):
                rest = algebra.literal(self._tree.rest(key.branch, slot))
                for step, after in self._order.slot_steps(key.state, slot):
                    yield self._way(rest, step, after, key.extras)
            return
        assert isinstance(key, _Between), "a key is a place between members, or behind a name"
        best = self._order.finish(key.state)
        if best is None and not key.is_begun:
            yield Way(algebra.epsilon, (), key.extras)
            return
        for step, after in [best] if best else self._order.steps(key.state):
            members = [step, *self._order.way_out(after)]
            yield Way(algebra.epsilon, self._parts(members, is_begun=key.is_begun), key.extras)

    def _way(self, lead: Expr, step: Step, after: State, extras: Extras) -> Way:
        """The way whose first member's name ends with `lead`."""
        value = self._layout.value(step.choice.operand)
        lead = self._algebra.sequence([lead, self._layout.colon, value])
        return Way(lead, self._parts(self._order.way_out(after)), extras)

    def _parts(self, members: list[Step], *, is_begun: bool = False) -> tuple[Part, ...]:
        """Members, one after another."""
        self._algebra.budget.spend(len(members) // SLOTS_PER_STEP)
        is_first = [is_begun, *[False] * len(members)]
        return tuple(map(self._part, members, is_first))

    def _part(self, member: Step, is_first: bool) -> Part:
        """A member, behind its comma unless it `is_first`."""
        key = (member.of_cell, member.part, member.choice.operand, is_first)
        if key not in self._made:
            algebra, layout = self._algebra, self._layout
            algebra.budget.spend()
            lead = algebra.epsilon if is_first else layout.comma
            value = layout.value(member.choice.operand)
            if member.of_cell:
                names = layout.names(self._table.cells[member.part].names)
                self._made[key] = Part(lead, names, algebra.concat(layout.colon, value))
            else:
                name = layout.name(self._table.slots[member.part].name)
                whole = algebra.sequence([lead, name, value])
                self._made[key] = Part(whole, None, algebra.epsilon)
        return self._made[key]
