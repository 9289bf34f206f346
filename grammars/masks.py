"""Which tokens may follow a state, and what each costs. Owns the walk of the vocabulary's trie.

From a state, the trie is walked level by level with numpy: a frontier of (trie node, state) pairs
is expanded to all children at once, each child's state is gathered from the table of transitions,
and the dead ones are dropped. What is left are the allowed tokens and the state after each.
It must not know of matchers and their budgets; a mask answers for every budget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from grammars.completion import UNREACHABLE, Completions
from grammars.expr import Expr
from grammars.states import DEAD, StateTable
from grammars.vocabulary import Int32, Vocabulary


class Mask:
    """The tokens allowed in a state, by the cost of finishing after them.

    `row` has a bit for each of them (and the stop tokens where the state is complete); `dearest` is
    the highest cost among them, -1 when none is allowed. # row: int32 [num_words]
    """

    __slots__ = ("_costs", "_ends", "_order", "dearest", "row")

    def __init__(self, *, row: Int32, token_ids: NDArray[np.integer], costs: Int32) -> None:
        self.row = row
        self.row.flags.writeable = False
        levels, counts = np.unique(costs, return_counts=True)
        self.dearest = int(levels[-1]) if len(levels) else -1
        self._costs: list[int] = levels.tolist()
        self._ends: list[int] = np.cumsum(counts).tolist()
        self._order: NDArray[np.integer] | None = None
        if len(levels) > 1:
            small = np.uint16 if len(row) * 32 <= 1 << 16 else np.uint32
            self._order = token_ids[np.argsort(costs, kind="stable")].astype(small)

    @property
    def num_bytes(self) -> int:
        """What it keeps in memory, about."""
        return 500 + self.row.nbytes + (0 if self._order is None else self._order.nbytes)

    def affordable(self, cost: int) -> NDArray[np.integer]:
        """The ids of the tokens after which finishing costs at most `cost`, when not all do."""
        level = bisect_right(self._costs, cost)
        if level == 0 or self._order is None:
            return np.zeros(0, dtype=np.uint16)
        return self._order[: self._ends[level - 1]]


class MaskCache:
    """Masks by expression, least recently used first; bounded in bytes. Thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._masks: OrderedDict[Expr, Mask] = OrderedDict()
        self._lock = Lock()

    def get(self, node: Expr) -> Mask | None:
        """The mask of `node`, if it is here."""
        with self._lock:
            mask = self._masks.get(node)
            if mask is not None:
                self._masks.move_to_end(node)
            return mask

    def put(self, node: Expr, mask: Mask) -> None:
        """Keeps `mask`, and as many of the others as there is room for."""
        with self._lock:
            if node in self._masks:
                return
            self._masks[node] = mask
            self._num_bytes += mask.num_bytes
            while self._num_bytes > self._max_bytes and len(self._masks) > 1:
                self._num_bytes -= self._masks.popitem(last=False)[1].num_bytes


def compute_mask(
    node: Expr, *, states: StateTable, completions: Completions, vocabulary: Vocabulary
) -> Mask:
    """The mask of `node`, from one walk of the trie."""
    after = _walk(states, vocabulary, states.id_of(node))
    token_state = after[vocabulary.token_node]  # [size]
    token_ids = np.flatnonzero(token_state)
    reached = token_state[token_ids]
    cost_of = np.zeros(len(states), dtype=np.int32)
    for state_id in np.flatnonzero(np.bincount(reached, minlength=len(states))).tolist():
        cost_of[state_id] = completions.cost(states.nodes[state_id])
    costs = cost_of[reached]
    if not vocabulary.is_complete:
        possible = costs < UNREACHABLE
        token_ids, costs = token_ids[possible], costs[possible]
    stops = vocabulary.eos_token_ids if node.nullable else ()
    row = vocabulary.pack(np.concatenate([token_ids, np.array(stops, dtype=np.int64)]))
    return Mask(row=row, token_ids=token_ids, costs=costs)


def _walk(states: StateTable, vocabulary: Vocabulary, start: int) -> Int32:
    """The state after each node of the trie, DEAD where it cannot be reached. # [num_nodes + 1]"""
    after = np.zeros(vocabulary.num_nodes + 1, dtype=np.int32)
    nodes = np.zeros(1, dtype=np.int32)
    reached = np.full(1, start, dtype=np.int32)
    while len(nodes):
        _fill_missing(states, reached)
        counts = vocabulary.num_children[nodes]
        ends = np.cumsum(counts)
        shift = np.repeat(vocabulary.first_child[nodes] - (ends - counts), counts)
        children = shift + np.arange(ends[-1], dtype=np.int32)
        successors = states.table[np.repeat(reached, counts), vocabulary.edge_byte[children]]
        alive = np.flatnonzero(successors != DEAD)
        nodes, reached = children[alive], successors[alive]
        after[nodes] = reached
        inner = np.flatnonzero(vocabulary.num_children[nodes])
        nodes, reached = nodes[inner], reached[inner]
    return after


def _fill_missing(states: StateTable, reached: Int32) -> None:
    states.reserve()
    missing = reached[~states.filled[reached]]
    if len(missing):
        states.fill(np.unique(missing))
