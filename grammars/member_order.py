"""Which members may come next in an object, so that it can still be completed. Owns the automaton
of an object's members.

A state is a register: which slots were used, how many members there are, which `some` rules are
met. So required, implied, counted and any-order members cost no permutations; a state is made when
it is reached. What is live is what `finish` can finish: it names the members that complete the
object from a state on, and whatever they are, the next state is live again.
It must not know of texts or expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import nsmallest

from grammars.budget import Budget
from grammars.member_state import State, Step, bits, index_of_bit, sum_bits
from grammars.member_table import MemberTable
from grammars.shapes import Operand

SLOTS_PER_STEP = 16
"""Slots that are looked at in about the time of making one expression."""

BYTES_PER_STATE = 500


@dataclass(frozen=True)
class Limits:
    """How members may be written: in any order or in the declared one, with or without names that
    nobody declared."""

    any_order: bool
    with_extras: bool


class MemberOrder:
    """The automaton of one table's members. `weigh` tells the size of the smallest value of an
    operand, infinite where there is none.
    """

    def __init__(
        self,
        table: MemberTable,
        limits: Limits,
        weigh: Callable[[Operand], float],
        budget: Budget,
    ) -> None:
        self.table = table
        self._budget = budget
        shape = table.shape
        self._any_order = limits.any_order
        self._weigh = weigh
        self._low = shape.min_members
        self._high = shape.max_members
        self._all_credit = (1 << len(shape.some)) - 1
        index_of = {slot.name: index for index, slot in enumerate(table.slots)}
        self._required = sum(1 << index_of[n] for n in shape.required if n in index_of)
        self._implied = [
            (1 << index_of[name], [index_of.get(other) for other in others])
            for name, others in shape.implied
            if name in index_of
        ]
        self._num_ordered = sum(not slot.is_extra for slot in table.slots)
        """The slots of the declared order; what nobody declared comes behind them, in any."""
        all_slots = (1 << len(table.slots)) - 1
        self._tracked = all_slots >> self._num_ordered << self._num_ordered
        for bit, others in self._implied:
            self._tracked |= bit | sum(1 << other for other in others if other is not None)
        self._with_extras = limits.with_extras
        self._finishing: dict[State, tuple[Step, State] | None] = {}
        self._missing: dict[State, tuple[int, int]] = {}
        self._live_slots: dict[State, int] = {}
        self._possible: int | None = None
        self._cells: list[Step] | None = None

    def settle(self) -> None:
        """From now on weights stay as they are, and what was found is kept."""
        self._finishing.clear()
        self._missing.clear()
        self._live_slots.clear()
        self._possible = None
        self._cells = None

    @property
    def has_cells(self) -> bool:
        """Whether members of a cell may be written."""
        return bool(self._cell_steps())

    # -- what may follow ---------------------------------------------------------------------

    def is_complete(self, state: State) -> bool:
        """Whether the object may end here."""
        return (
            state.num_members >= self._low
            and state.credit == self._all_credit
            and self._needed(state.used, state.at) == 0
        )

    def steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """The members that may come next, and the state after each; every one is live."""
        for index in map(index_of_bit, bits(self._open_slots(state))):
            yield from self.slot_steps(state, index)
        yield from self.cell_steps(state)

    def live_slots(self, state: State) -> int:
        """The slots that may come next, as bits."""
        if state not in self._live_slots:
            free = self._open_slots(state)
            self._budget.spend(1 + free.bit_count() // SLOTS_PER_STEP, BYTES_PER_STATE)
            if self._high is not None or not self._is_plain(state) or not self._is_live(state):
                steps = (self.slot_steps(state, index) for index in map(index_of_bit, bits(free)))
                live = [next(found, None) for found in steps]
                free = sum_bits(1 << found[0].part for found in live if found is not None)
            self._live_slots[state] = free
        return self._live_slots[state]

    def slot_steps(self, state: State, index: int) -> Iterator[tuple[Step, State]]:
        """The live steps that are a member of one slot, which no earlier member forbids."""
        for choice in self.table.slots[index].choices:
            if self._weigh(choice.operand) < math.inf:
                step = Step(index, choice, of_cell=False)
                after = self._after(state, step)
                if self._is_live(after):
                    yield step, after

    def cell_steps(self, state: State) -> Iterator[tuple[Step, State]]:
        """The live steps that are a member of a cell."""
        if self._is_full(state) or self._needed_first(state):
            return
        for step in self._cell_steps():
            after = self._after(state, step)
            if self._is_live(after):
                yield step, after

    def _is_live(self, state: State) -> bool:
        """Whether the object is complete, or can be completed."""
        if self.is_complete(state):
            return True
        if self._implied or state.credit != self._all_credit:
            return self.finish(state) is not None
        free, needed = self._free(state), self._needed(state.used, state.at)
        lacking = self._low - state.num_members - needed.bit_count()
        if needed & ~free:
            return False
        if lacking > (free & ~needed).bit_count() and not self._cell_steps():
            return False
        total = state.num_members + needed.bit_count() + max(lacking, 0)
        return self._high is None or total <= self._high

    def as_planned(self, state: State) -> State:
        """The state as far as it matters for what `finish` leads to: where nothing but the needed
        slots and cells is used, any others may have been.
        """
        if not self._any_order or not self._is_plain(state):
            return state
        return state._replace(used=state.used & self._required)

    def _is_plain(self, state: State) -> bool:
        """Whether needed slots, the lowest first, and then members of cells complete it."""
        if self._implied or state.credit != self._all_credit:
            return False
        needed = self._needed(state.used, state.at).bit_count()
        return state.num_members + needed >= self._low or bool(self._cell_steps())

    def finish(self, state: State) -> tuple[Step, State] | None:
        """The next member on a short way to complete the object, and the state after it; None
        where the object is complete or cannot be completed.
        """
        if state not in self._finishing and self._is_plain(state):
            self._finishing[state] = self._next_needed(state)
            self._budget.spend(1, BYTES_PER_STATE)
        if state not in self._finishing:
            path = self._path(state)
            self._budget.spend(1, BYTES_PER_STATE * (1 + len(path or ())))
            self._finishing[state] = None
            here = state
            for step in path or ():
                after = self._after(here, step)
                self._finishing[here] = (step, after)
                here = after
            assert not path or self.is_complete(here), "a path ends in a complete object"
        return self._finishing[state]

    def _next_needed(self, state: State) -> tuple[Step, State] | None:
        """The lowest slot that is needed, or else the lightest member of a cell."""
        if self.is_complete(state) or not self._is_live(state):
            return None
        needed = self._needed(state.used, state.at)
        if needed:
            step = self._best(index_of_bit(needed & -needed), 0)
        else:
            step = min(self._cell_steps(), key=self._step_weight)
        return step, self._after(state, step)

    def way_out(self, state: State) -> list[Step]:
        """All members of a short way to complete the object; it can be completed."""
        steps: list[Step] = []
        while not self.is_complete(state):
            found = self.finish(state)
            assert found is not None, "a live state can be finished"
            step, state = found
            steps.append(step)
        self._budget.spend(len(steps) // SLOTS_PER_STEP)
        return steps

    def missing(self, state: State) -> tuple[int, int]:
        """How many members are on that way, and how many of these are of cells."""
        way: list[tuple[State, Step]] = []
        here = state
        while here not in self._missing:
            found = self.finish(here)
            if found is None:
                self._missing[here] = (0, 0)
                break
            way.append((here, found[0]))
            _, here = found
        num_members, num_of_cells = self._missing[here]
        for above, step in reversed(way):
            num_members, num_of_cells = num_members + 1, num_of_cells + step.of_cell
            self._missing[above] = (num_members, num_of_cells)
        return self._missing[state]

    def weight(self) -> float:
        """The size of the smallest object, infinite where there is none."""
        self.settle()
        if self.table.missing:
            return math.inf
        path = self._path(State())
        if path is None:
            return math.inf
        return 2 + sum(self._step_weight(step) for step in path)

    # -- moving ------------------------------------------------------------------------------

    def _after(self, state: State, step: Step) -> State:
        used, at = state.used, state.at
        if step.of_cell:
            at = at if self._any_order else self._num_ordered
        elif self._any_order:
            used |= 1 << step.part
        else:
            used |= (1 << step.part) & self._tracked
            at = min(step.part + 1, self._num_ordered)
        count = state.num_members + 1
        if self._high is None:
            count = min(count, self._low)
        return State(used, at, count, state.credit | step.choice.credit, is_first=False)

    def _is_full(self, state: State) -> bool:
        return self._high is not None and state.num_members >= self._high

    def _needed_first(self, state: State) -> int:
        """The slots that must still be used, as bits, where members behind them would skip them."""
        return 0 if self._any_order else self._needed(state.used, state.at)

    def _open_slots(self, state: State) -> int:
        """The slots that no order, count or earlier member forbids, as bits."""
        if self._is_full(state):
            return 0
        free, needed = self._free(state), self._needed_first(state)
        return free & ((needed & -needed) * 2 - 1) if needed else free

    def _cell_steps(self) -> list[Step]:
        if self._cells is None:
            self._cells = [
                Step(index, choice, of_cell=True)
                for index, cell in enumerate(self.table.cells if self._with_extras else ())
                for choice in cell.choices
                if self._weigh(choice.operand) < math.inf
            ]
        return self._cells

    def _free(self, state: State) -> int:
        """The slots that may still be used, as bits."""
        if self._possible is None:
            self._possible = sum(
                1 << index
                for index, slot in enumerate(self.table.slots)
                if (self._with_extras or not slot.is_extra)
                and any(self._weigh(choice.operand) < math.inf for choice in slot.choices)
            )
        free = self._possible & ~state.used
        return free if self._any_order else free >> state.at << state.at

    def _needed(self, used: int, at: int) -> int:
        """The slots that must still be used, as bits; those behind `at` never can be."""
        passed = (1 << at) - 1  # of these only the tracked ones are in `used`
        needed = self._required & ~used & (-1 if self._any_order else ~passed | self._tracked)
        return self._closed(used | needed) & ~used if self._implied else needed

    def _closed(self, used: int) -> int:
        """The slots with all that they imply; a bit beyond all slots for what cannot be."""
        nowhere = 1 << len(self.table.slots)
        before = -1
        while before != used:
            before = used
            for bit, others in self._implied:
                if used & bit:
                    for other in others:
                        used |= nowhere if other is None else 1 << other
        return used

    # -- finishing ---------------------------------------------------------------------------

    def _path(self, state: State) -> list[Step] | None:
        """Members that complete the object, in an order that may be written; None: there are none.

        The needed slots; for each `some` rule that those cannot meet, the cheapest member that
        does; and the cheapest ones until there are enough.
        """
        free = self._free(state)
        chosen = self._needed(state.used, state.at)
        self._budget.spend((len(self.table.slots) + len(self._implied)) // SLOTS_PER_STEP)
        if chosen & ~free:
            return None
        missing = self._all_credit & ~state.credit
        extra: list[Step] = []
        for bit in bits(missing):
            if missing & bit and not self._met_by(chosen, bit):
                step = self._cheapest(free & ~chosen, bit)
                if step is None:
                    return None
                if step.of_cell:
                    extra.append(step)
                    missing &= ~step.choice.credit
                else:
                    chosen = self._closed(state.used | chosen | 1 << step.part) & ~state.used
        if chosen & ~free:
            return None
        filled = self._fill(state, chosen, extra, free)
        if filled is None:
            return None
        steps: list[Step] = []
        credit = state.credit
        for index in map(index_of_bit, bits(filled)):
            step = self._best(index, self._all_credit & ~credit)
            credit |= step.choice.credit
            steps.append(step)
        path = steps + extra
        is_met = credit | sum_bits(step.choice.credit for step in extra)
        total = state.num_members + len(path)
        if is_met != self._all_credit or (self._high is not None and total > self._high):
            return None
        return path

    def _fill(self, state: State, chosen: int, extra: list[Step], free: int) -> int | None:
        """The chosen slots and the cheapest others, or members of a cell put to `extra`, until
        there are enough."""
        lacking = self._low - state.num_members - chosen.bit_count() - len(extra)
        cells = self._cell_steps()
        if lacking > 0 and cells:
            cheapest = min(cells, key=self._step_weight)
            self._budget.spend(lacking, BYTES_PER_STATE * lacking)
            extra += [cheapest] * lacking
            return chosen
        if lacking > 0 and not self._implied:
            return self._fill_lightest(chosen, free, lacking)
        while lacking > 0:
            step = self._cheapest(free & ~chosen, 0)
            if step is None:
                return None
            before = chosen
            chosen = self._closed(state.used | chosen | 1 << step.part) & ~state.used
            if chosen & ~free:
                free &= ~(1 << step.part)
                chosen = before
                continue
            lacking -= (chosen & ~before).bit_count()
        return chosen

    def _fill_lightest(self, chosen: int, free: int, lacking: int) -> int | None:
        """The same where no slot implies another: the lightest."""
        slots = [index_of_bit(bit) for bit in bits(free & ~chosen)]
        if len(slots) < lacking:
            return None
        self._budget.spend(1 + len(slots) // SLOTS_PER_STEP)
        lightest = nsmallest(lacking, slots, key=lambda i: self._step_weight(self._best(i, 0)))
        return chosen | sum_bits(1 << index for index in lightest)

    def _met_by(self, chosen: int, bit: int) -> bool:
        return any(
            choice.credit & bit and self._weigh(choice.operand) < math.inf
            for index in map(index_of_bit, bits(chosen))
            for choice in self.table.slots[index].choices
        )

    def _cheapest(self, slots: int, credit: int) -> Step | None:
        """The lightest member, of these slots or a cell, that meets the rules of `credit`."""
        self._budget.spend(1 + slots.bit_count() // SLOTS_PER_STEP)
        steps = [
            Step(index, choice, of_cell=False)
            for index in map(index_of_bit, bits(slots))
            for choice in self.table.slots[index].choices
            if choice.credit & credit == credit and self._weigh(choice.operand) < math.inf
        ]
        steps += [step for step in self._cell_steps() if step.choice.credit & credit == credit]
        return min(steps, key=self._step_weight, default=None)

    def _best(self, index: int, missing: int) -> Step:
        """The member of a slot that meets most of what is missing, then the lightest."""
        choices = [
            choice
            for choice in self.table.slots[index].choices
            if self._weigh(choice.operand) < math.inf
        ]
        best = min(
            choices,
            key=lambda c: (-(c.credit & missing).bit_count(), self._weigh(c.operand)),
        )
        return Step(index, best, of_cell=False)

    def _step_weight(self, step: Step) -> float:
        if step.of_cell:
            size: float = self.table.cells[step.part].names.min_length
        else:
            size = len(self.table.slots[step.part].name)
        return size + 4 + self._weigh(step.choice.operand)
