"""States and their transitions as arrays. Owns the ids of states and the table of their successors.

A state is an expression; id 0 is the dead one. What a state without its notes does not tell (see
`noting`) is walked on, but named in `unsure`. A row of the table, the successor for each of 256
bytes, is filled when a walk first needs it. Ids live no longer than a walk: whoever needs a state
for longer keeps its expression.
It must not know what tokens are allowed.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from grammars.budget import Budget
from grammars.completion import Completions
from grammars.derive import arms
from grammars.expr import Expr
from grammars.noting import is_decided_by_notes
from grammars.pages import int32_zeros

DEAD = 0

FIRST_CAPACITY = 20_000
"""Rows that are reserved at first: memory that is taken as they are filled, and never copied."""


class StateTable:
    """The states of any number of grammars, and their successors.

    `table[s, b]` is the state after byte b in state s, DEAD where nothing can be completed. Only
    rows with `filled[s]` are valid. # table: int32 [capacity, 256]
    """

    def __init__(self) -> None:
        self._completions: Completions | None = None
        self.clear()

    def clear(self) -> None:
        """Forgets every state."""
        self.table: NDArray[np.int32] = int32_zeros(FIRST_CAPACITY, 256)
        self.filled: NDArray[np.bool_] = np.zeros(FIRST_CAPACITY, dtype=bool)
        self.filled[DEAD] = True
        self.nodes: list[Expr | None] = [None]
        self._ids: dict[Expr, int] = {}
        self.unsure: set[int] = set()
        """The states of which only what was written decides whether they are alive."""
        self._budgets: dict[Budget, None] = {}

    @property
    def num_known(self) -> int:
        """The states that have an id, and the dead expressions that have none."""
        return len(self._ids)

    def held_bytes(self, *, beside: Completions) -> int:
        """What the other grammars of these states take, as they count it themselves."""
        own = beside.algebra.budget
        return sum(budget.num_bytes for budget in self._budgets if budget is not own)

    def derive_with(self, completions: Completions) -> None:
        """Whose expressions the next walk is about; those of others stay where they are."""
        self._completions = completions
        self._budgets[completions.algebra.budget] = None

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def completions(self) -> Completions:
        """What knows the expressions of this walk."""
        assert self._completions is not None, "a walk begins with derive_with"
        return self._completions

    def id_of(self, node: Expr) -> int:
        """The id of a state; DEAD when it has no string."""
        found = self._ids.get(node)
        if found is None:
            is_alive = self.completions.is_alive(node)
            is_unsure = not is_alive and is_decided_by_notes(node)
            found = len(self.nodes) if is_alive or is_unsure else DEAD
            if is_unsure:
                self.unsure.add(found)
            self._ids[node] = found
            if found != DEAD:
                self.nodes.append(node)
        return found

    def node(self, state_id: int) -> Expr:
        """The expression of a state that is not dead."""
        found = self.nodes[state_id]
        assert found is not None, "a dead state has no expression"
        return found

    def row(self, state_id: int) -> NDArray[np.int32]:
        """The successors of one state. # [256]"""
        if state_id >= len(self.filled) or not self.filled.item(state_id):
            self._fill(state_id)
        row: NDArray[np.int32] = self.table[state_id]
        return row

    def fill_missing(self, state_ids: NDArray[np.int32]) -> None:
        """Makes the rows of these states valid."""
        self._reserve()
        for state_id in present(state_ids[~self.filled[state_ids]]):
            self._fill(state_id)

    def _fill(self, state_id: int) -> None:
        algebra = self.completions.algebra
        successors = [(mask, self.id_of(rest)) for mask, rest in arms(algebra, self.node(state_id))]
        self._reserve()
        row = self.table[state_id]
        for mask, successor in successors:
            row[members(mask)] = successor
        self.filled[state_id] = True

    def _reserve(self) -> None:
        """Room for every state that has an id."""
        capacity = len(self.filled)
        if len(self.nodes) > capacity:
            more = max(len(self.nodes), 2 * capacity) - capacity
            self.table = np.vstack([self.table, np.zeros((more, 256), dtype=np.int32)])
            self.filled = np.concatenate([self.filled, np.zeros(more, dtype=bool)])


FEW = 1_024
"""So many ids are sorted by themselves, and not into all that there are."""


def present(state_ids: NDArray[np.int32]) -> list[int]:
    """Those that occur, each once, ascending."""
    if len(state_ids) <= FEW:
        return sorted(set(state_ids.tolist()))
    found: list[int] = np.bincount(state_ids).nonzero()[0].tolist()
    return found


@lru_cache(maxsize=4096)
def members(mask: int) -> NDArray[np.intp]:
    """The bytes of a set, as indices."""
    bits = np.frombuffer(mask.to_bytes(32, "little"), dtype=np.uint8)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little"))
