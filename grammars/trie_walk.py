"""The states that follow a state, token prefix by token prefix. Owns the walks of a trie.

A trie is walked level by level with numpy: a frontier of (trie node, state) pairs is expanded to
all children at once, each child's state is gathered from the table of transitions, and the dead
ones are dropped.

A *run* (`x{m,n} . tail`, the inside of a string above all, see `char_walks`) reaches most of the
trie, and mostly without leaving x{m,n}. So a walk ends wherever it comes upon one; what lies below
is known already, and only what leaves the run is walked on.
It must not know of masks and costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grammars.char_loops import CharLoop, CharLoops
from grammars.char_walks import Below, CharWalk
from grammars.expr import Expr
from grammars.states import DEAD, StateTable, members
from grammars.trie import Int32, Trie, ranges

FEW = 16
"""A frontier this small is walked in Python: a round of numpy costs as much as a dozen nodes."""

NO_FEW = 64
"""So many are walked with numpy again,"""

MOST_FEW = 160
"""and so are those that are left when so many were reached."""

MANY = 256
"""From so many on, the children of a frontier are found by a look at all nodes between the first
and the last of them,"""

SPARSE = 4
"""where these are not more than so many times as many."""

Ids = NDArray[np.integer]

Frontier = tuple[Ids, Int32]
"""Inner nodes of the trie, and the state after each."""

Places = dict[int, list[Ids]]
"""By state that is a run: the nodes at which it begins."""


class Run(NamedTuple):
    """The tokens (indices into `trie.token_ids`) that stay inside of a run, and their codes: also
    those for which it is too short.
    """

    loop: CharLoop
    walk: CharWalk
    tokens: Ids
    codes: Int32


class Reached(NamedTuple):
    """The tokens that are possible, each once: as indices into `trie.token_ids`, with the state
    after each; and those that end inside of runs. `whole`: the first run begins at the root.
    """

    tokens: Ids
    states: Int32
    runs: list[Run]
    whole: bool


class TrieWalks:
    """Walks tries with the states of one table."""

    def __init__(self, states: StateTable) -> None:
        self._states = states
        self._loops = CharLoops()
        self._known: dict[tuple[int, int], CharLoop | None] = {}

    def forget_ids(self) -> None:
        """The ids of states are no longer valid."""
        self._known.clear()
        self._loops.forget()

    def after_tokens(self, node: Expr, trie: Trie) -> Reached:
        """What the tokens of a trie lead to from a state."""
        start = self._states.id_of(node)
        found: list[Frontier] = []
        runs: list[Run] = []
        places: Places = {}
        is_run = self._loop(start, trie) is not None
        if is_run:
            places[start] = [np.zeros(1, dtype=np.intp)]
        else:
            frontier = np.zeros(1, dtype=np.intp), np.full(1, start, dtype=np.int32)
            self._extend(trie, frontier, found, places)
        while places:
            begun, places = places, {}
            for state_id, parts in begun.items():
                loop = self._loop(state_id, trie)
                assert loop is not None, "a place is noted where a run begins"
                outside = self._enter(loop, trie, np.concatenate(parts), runs)
                found.append(outside)
                self._extend(trie, self._inner(*outside, trie, places), found, places)
        found.append((np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)))
        nodes = np.concatenate([nodes for nodes, _ in found])
        states = np.concatenate([states for _, states in found])
        return Reached(*trie.tokens_at(nodes, states), runs, whole=is_run and bool(runs))

    def states_after_tokens(self, node: Expr, trie: Trie) -> Int32:
        """The state after each token of a trie, DEAD where there is none. # int32 [num tokens]"""
        found = self.after_tokens(node, trie)
        reached = np.zeros(len(trie.token_ids), dtype=np.int32)
        reached[found.tokens] = found.states
        algebra = self._states.completions.algebra
        for loop, walk, tokens, codes in found.runs:
            state_of = np.zeros(walk.num_codes, dtype=np.int32)
            for code in filter(loop.has_room, walk.present(codes)):
                state_of[code] = self._states.id_of(loop.state(algebra, code))
            reached[tokens] = state_of[codes]
        return reached

    # -- level by level ----------------------------------------------------------------------

    def _extend(
        self, trie: Trie, frontier: Frontier, found: list[Frontier], places: Places
    ) -> None:
        """Walks on below a frontier, up to the places of runs."""
        nodes, reached = frontier
        while len(nodes):
            if len(nodes) <= FEW and nodes[0]:
                nodes, reached = self._extend_few(trie, (nodes, reached), found, places)
                continue
            self._states.fill_missing(reached)
            if len(nodes) >= MANY:
                nodes, reached = self._next_of_many(trie, nodes, reached)
            else:
                nodes, reached = self._next(trie, nodes, reached)
            found.append((nodes, reached))
            nodes, reached = self._inner(nodes, reached, trie, places)

    def _next(self, trie: Trie, nodes: Ids, reached: Int32) -> Frontier:
        """The children of some nodes that are alive, and the state after each."""
        counts = trie.num_children[nodes]
        children = ranges(trie.first_child[nodes], trie.first_child[nodes] + counts)
        successors = self._states.table[reached.repeat(counts), trie.edge_byte[children]]
        alive = successors.nonzero()[0]
        return children[alive], successors[alive]

    def _next_of_many(self, trie: Trie, nodes: Ids, reached: Int32) -> Frontier:
        """The same, by a look at all nodes of the levels in which the children are."""
        first = int(trie.first_child[nodes[0]])
        last = int(trie.first_child[nodes[-1]] + trie.num_children[nodes[-1]])
        if not MANY <= last - first <= SPARSE * len(nodes) or (nodes[1:] < nodes[:-1]).any():
            return self._next(trie, nodes, reached)
        state_of = np.zeros(int(nodes[-1]) + 1, dtype=np.int32)
        state_of[nodes] = reached
        places = state_of[trie.parent[first:last]] * 256 + trie.edge_byte[first:last]
        successors = self._states.table.ravel().take(places)
        alive = successors.nonzero()[0]
        return alive + first, successors[alive]

    def _extend_few(
        self, trie: Trie, frontier: Frontier, found: list[Frontier], places: Places
    ) -> Frontier:
        """The same for a few, one child after another, until they have become many."""
        filled: list[int] = []
        states: list[int] = []
        first_child, num_children, edge_byte = trie.lists
        pending = list(zip(frontier[0].tolist(), frontier[1].tolist(), strict=True))
        while pending and len(pending) <= NO_FEW and len(filled) <= MOST_FEW:
            node, state = pending.pop()
            row = self._states.row(state)
            first = first_child[node]
            for child in range(first, first + num_children[node]):
                successor = row.item(edge_byte[child])
                if successor == DEAD:
                    continue
                filled.append(child)
                states.append(successor)
                if not num_children[child]:
                    continue
                if self._loop(successor, trie) is None:
                    pending.append((child, successor))
                else:
                    places.setdefault(successor, []).append(np.array([child], dtype=np.intp))
        found.append((np.array(filled, dtype=np.intp), np.array(states, dtype=np.int32)))
        nodes, reached = zip(*pending, strict=True) if pending else ((), ())
        return np.array(nodes, dtype=np.intp), np.array(reached, dtype=np.int32)

    # -- runs --------------------------------------------------------------------------------

    def _loop(self, state_id: int, trie: Trie) -> CharLoop | None:
        """The run that a state is."""
        key = state_id, trie.longest
        if key not in self._known:
            node, algebra = self._states.nodes[state_id], self._states.completions.algebra
            found = None if node is None else self._loops.find(algebra, node, trie.longest)
            self._known[key] = found
        return self._known[key]

    def _inner(self, nodes: Ids, reached: Int32, trie: Trie, places: Places) -> Frontier:
        """The inner nodes of a frontier, but for the places of runs: they are noted in `places`."""
        inner = trie.num_children[nodes].nonzero()[0]
        nodes, reached = nodes[inner], reached[inner]
        present = np.bincount(reached).nonzero()[0].tolist()
        for state_id in present:
            if self._loop(state_id, trie) is None:
                continue
            is_there = reached == state_id
            places.setdefault(state_id, []).append(nodes[is_there])
            nodes, reached = nodes[~is_there], reached[~is_there]
        return nodes, reached

    def _enter(self, loop: CharLoop, trie: Trie, nodes: Ids, runs: list[Run]) -> Frontier:
        """Notes what lies inside of a run that begins at `nodes`; what lies next to it."""
        walk = self._loops.walk(loop, trie)
        below = walk.below(nodes)
        if len(below.tokens):
            runs.append(Run(loop, walk, below.tokens, below.codes))
        return self._leave(loop, trie, below)

    def _leave(self, loop: CharLoop, trie: Trie, below: Below) -> Frontier:
        """The nodes at which a run is left, and the state after each."""
        row = np.zeros(256, dtype=np.int32)
        for mask, rest in loop.leaving:
            row[members(mask & ~loop.x.unsure)] = self._states.id_of(rest)
        edges = trie.edge_byte[below.exits]
        reached = np.where(below.counts >= loop.low, row[edges], DEAD)
        is_near = True if loop.high is None else below.counts <= loop.high
        for byte in members(loop.x.unsure).tolist():
            for count in np.bincount(below.counts[(edges == byte) & is_near]).nonzero()[0].tolist():
                after = loop.after(self._states.completions.algebra, count, byte)
                is_there = (edges == byte) & (below.counts == count)
                reached[is_there] = self._states.id_of(after)
        is_out = (reached != DEAD) & is_near
        return below.exits[is_out], reached[is_out]
