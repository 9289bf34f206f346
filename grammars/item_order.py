"""Which items may come next in an array, so that it can still be completed. Owns the automaton of
the arrays that count (`contains`) or compare (`uniqueItems`) their items.

A state is a register: how many items there are, how many of them each `contains` has counted, which
values of a finite set were used. It must not know of texts or expressions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from grammars.budget import Budget
from grammars.shapes import ArrayShape, Contains, Operand, both, negations

ITEMS_PER_STEP = 4
"""Ways to go on that are looked at in about the time of making one expression."""

BYTES_PER_ITEM = 300


ALL = -1
"""Every bit."""


class ItemState(NamedTuple):
    """Where an array stands between two items, as far as it matters for what may follow. `used`:
    the values that were, one bit each; where two must be equal, ALL once they are.
    """

    num_items: int
    counts: tuple[int, ...]
    used: int


class Item(NamedTuple):
    """One way to go on: what the next item has, which `contains` count it, which value it is."""

    operand: Operand
    counted: tuple[bool, ...]
    value: int


class _Pool(NamedTuple):
    """A finite set that all items are taken out of: the lightest first; as bits."""

    lightest: list[Item]
    values: int


Values = Callable[[int], list[tuple[int, Operand, tuple[bool, ...]]]]
"""For the item of an index: each value that it may have: a number of its own, an operand of
nothing but it, and which `contains` it has."""


class ItemOrder:
    """The automaton of the items of `shape`. `values`: the finite set of each item's values, where
    they are to differ, or two are to be equal. `weigh` tells the size of an operand's smallest
    value, infinite for none.
    """

    def __init__(
        self,
        shape: ArrayShape,
        *,
        values: Values | None,
        weigh: Callable[[Operand], float],
        budget: Budget,
    ) -> None:
        self._shape = shape
        self._values = values
        self._weigh = weigh
        self._budget = budget
        self._contains = shape.contains
        starts = [asked.start for asked in shape.contains]
        self._last = max([len(shape.prefix), *starts])
        """From this item on all have the same."""
        self._settled = max(self._last, shape.min_items)
        self._made: dict[int, list[Item]] = {}
        self._finishing: dict[ItemState, tuple[Item, ItemState] | None] = {}
        self._missing: dict[ItemState, int] = {}
        self._lightest: _Pool | None = None
        self._is_pool = (
            values is not None
            and shape.repeated is None
            and not shape.prefix
            and not shape.contains
        )
        """Whether all items are taken out of one set: then any that are left will do."""
        self.start = ItemState(0, (0,) * len(shape.contains), 0)

    def settle(self) -> None:
        """From now on weights stay as they are, and what was found is kept."""
        self._finishing.clear()
        self._missing.clear()
        self._lightest = None

    @property
    def is_monotone(self) -> bool:
        """Whether counting more never forbids what would follow otherwise."""
        return all(asked.high is None for asked in self._contains)

    def limit(self, num_values: int | None) -> None:
        """No more items than there are values (None: there are many)."""
        high = self._shape.max_items
        if num_values is not None and (high is None or num_values < high):
            self._shape = replace(self._shape, max_items=num_values)

    def children(self) -> Iterator[Operand]:
        """All operands that an item may be asked to have."""
        for index in range(self._last + 1):
            for item in self._items(index):
                yield item.operand

    def is_complete(self, state: ItemState) -> bool:
        """Whether the array may end here."""
        if self._shape.repeated is not None and state.used != ALL:
            return False
        return state.num_items >= self._shape.min_items and all(
            count >= asked.low for count, asked in zip(state.counts, self._contains, strict=True)
        )

    def steps(self, state: ItemState) -> Iterator[tuple[Item, ItemState]]:
        """The items that may come next, and the state after each; every one is live."""
        for item, after in self._all_steps(state):
            if self._is_live(after):
                yield item, after

    def _is_live(self, state: ItemState) -> bool:
        if not self._is_pool:
            return self.is_complete(state) or self.finish(state) is not None
        high, low = self._shape.max_items, self._shape.min_items
        num_left = (self._pool().values & ~state.used).bit_count()
        return (high is None or low <= high) and state.num_items + num_left >= low

    def _pool(self) -> _Pool:
        """The values that all items are taken out of."""
        if self._lightest is None:
            usable = [i for i in self._items(0) if self._weigh(i.operand) < math.inf]
            lightest = sorted(usable, key=lambda item: self._weigh(item.operand))
            self._lightest = _Pool(lightest, sum(1 << item.value for item in usable))
        return self._lightest

    def as_planned(self, state: ItemState) -> ItemState:
        """The state as far as it matters for what `finish` leads to: of a pool, those values alone
        that are lighter than the last one it takes.
        """
        if not self._is_pool:
            return state
        needed, used = self._shape.min_items - state.num_items, 0
        for item in self._pool().lightest:
            if needed <= 0:
                break
            used |= state.used & 1 << item.value
            needed -= not state.used >> item.value & 1
        return state._replace(used=used)

    def missing(self, state: ItemState) -> int:
        """The items that are still needed: those of the way that `finish` gives."""
        way: list[ItemState] = []
        while state not in self._missing:
            found = None if self.is_complete(state) else self.finish(state)
            if found is None:
                self._missing[state] = 0
                break
            way.append(state)
            _, state = found
        needed = self._missing[state]
        for above in reversed(way):
            needed += 1
            self._missing[above] = needed
        return needed

    def weight(self) -> float:
        """The size of a small array, infinite where there is none."""
        self.settle()
        if not self.is_complete(self.start) and self.finish(self.start) is None:
            return math.inf
        size, state = 2.0, self.start
        while not self.is_complete(state):
            found = self.finish(state)
            assert found is not None, "a way to finish does not end before it has"
            item, state = found
            size += 1 + self._weigh(item.operand)
        return size

    def finish(self, state: ItemState) -> tuple[Item, ItemState] | None:
        """The next item on a way to complete the array; None where it is complete or cannot be.

        A search in depth, the most useful items first, that remembers what leads nowhere.
        """
        known = self._finishing
        if self._is_pool and state not in known:
            known[state] = self._next_of_pool(state)
        path: list[tuple[ItemState, Iterator[tuple[Item, ItemState]]]] = []
        if state not in known and not self.is_complete(state):
            path.append((state, self._useful_first(state)))
        while path:
            here, options = path[-1]
            known.setdefault(here, None)
            step = next(options, None)
            if step is None:
                path.pop()
                continue
            self._budget.spend()
            _, after = step
            if self.is_complete(after) or known.get(after) is not None:
                known[here] = step
                for (above, _), (below, _) in zip(path[-2::-1], path[:0:-1], strict=True):
                    known[above] = next(s for s in self._all_steps(above) if s[1] == below)
                break
            if after not in known:
                path.append((after, self._useful_first(after)))
        return known.get(state)

    def _next_of_pool(self, state: ItemState) -> tuple[Item, ItemState] | None:
        """The lightest value that is left."""
        if self.is_complete(state) or not self._is_live(state):
            return None
        item = next(i for i in self._pool().lightest if not state.used >> i.value & 1)
        after = self._after(state, item)
        assert after is not None, "nothing is counted but the items themselves"
        return item, after

    def _useful_first(self, state: ItemState) -> Iterator[tuple[Item, ItemState]]:
        def order(step: tuple[Item, ItemState]) -> tuple[int, float]:
            wanted = int(step[1].used == ALL != state.used)
            for asked, count, counted in zip(
                self._contains, state.counts, step[0].counted, strict=True
            ):
                if counted:
                    wanted += 1 if count < asked.low else -1
            return -wanted, self._weigh(step[0].operand)

        return iter(sorted(self._all_steps(state), key=order))

    # -- moving ------------------------------------------------------------------------------

    def _all_steps(self, state: ItemState) -> Iterator[tuple[Item, ItemState]]:
        high = self._shape.max_items
        if high is not None and state.num_items >= high:
            return
        for number, item in enumerate(self._items(state.num_items)):
            if number % ITEMS_PER_STEP == 0:
                self._budget.spend()
            is_free = self._shape.repeated is not None or not self._is_used(state, item)
            if is_free and self._weigh(item.operand) < math.inf:
                after = self._after(state, item)
                if after is not None:
                    yield item, after

    def _after(self, state: ItemState, item: Item) -> ItemState | None:
        counts = []
        for asked, count, counted in zip(self._contains, state.counts, item.counted, strict=True):
            now = count + counted
            if asked.high is not None and now > asked.high:
                return None
            counts.append(now if asked.high is not None else min(now, asked.low))
        index = state.num_items + 1
        if self._shape.max_items is None:
            index = min(index, self._settled)
        used = state.used | 1 << item.value if item.value >= 0 else state.used
        if self._shape.repeated is not None and self._is_used(state, item):
            used = ALL
        return ItemState(index, tuple(counts), used)

    def _is_used(self, state: ItemState, item: Item) -> bool:
        return item.value >= 0 and bool(state.used >> item.value & 1)

    def _items(self, index: int) -> list[Item]:
        """The ways to be item `index`: counted or not by each `contains`."""
        index = min(index, self._last)
        if index not in self._made:
            self._made[index] = self._items_made(index)
        return self._made[index]

    def _items_made(self, index: int) -> list[Item]:
        if self._values is not None:
            return [Item(o, counted, value) for value, o, counted in self._values(index)]
        found: list[tuple[Operand, tuple[bool, ...]]] = [(self._shape.operand(index), ())]
        for asked in self._contains:
            found = [
                (both(operand, more), (*counted, counts))
                for operand, counted in found
                for more, counts in _ways(asked, index)
            ]
            self._budget.spend(len(found), BYTES_PER_ITEM * len(found))
        return [Item(operand, counted, -1) for operand, counted in found]


def _ways(asked: Contains, index: int) -> list[tuple[Operand, bool]]:
    """Not counted, or counted. Where counting one too many is no harm, whatever is not counted may
    have the operand too; where it is, it must not.
    """
    if index < asked.start:
        return [((), False)]
    if asked.high is None:
        return [((), False), (asked.operand, True)]
    return [*((other, False) for other in negations(asked.operand)), (asked.operand, True)]
