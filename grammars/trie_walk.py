"""The states that follow a state, token prefix by token prefix. Owns the walks of a trie.

A trie is walked level by level with numpy: a frontier of (trie node, state) pairs is expanded to
all children at once, each child's state is gathered from the table of transitions, and the dead
ones are dropped.

A *run* (`x{m,n} . tail`, the inside of a string above all, see `char_walks`) reaches most of the
trie, and mostly without leaving x{m,n}. So a walk ends wherever it comes upon one; what lies below
is known already, and only what leaves the run is walked on. So it is with a chain (see `chains`).
It must not know of masks and costs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grammars.chains import Chain, Chains
from grammars.char_loops import CharLoop, CharLoops
from grammars.char_walks import CharWalk
from grammars.common_sets import SETS, steps_of
from grammars.expr import Expr
from grammars.states import DEAD, StateTable, members, present
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

MANY_BELOW = 256
"""From so many tokens on, what lies below a chain is not walked."""

Ids = NDArray[np.integer]

Frontier = tuple[Ids, Int32]
"""Inner nodes of the trie, and the state after each."""

Places = dict[int, list[Ids]]
"""By state that is a run or begins a chain: the nodes at which it does."""


class Run(NamedTuple):
    """The tokens (indices into `trie.token_ids`) that stay inside of a run, and their codes: also
    those for which it is too short.
    """

    loop: CharLoop
    walk: CharWalk
    tokens: Ids
    codes: Int32


class WideRun(NamedTuple):
    """A run inside of which nearly all tokens of `walk.whole` stay, with their codes there.
    `missing`: the places there of those that do not.
    """

    loop: CharLoop
    walk: CharWalk
    missing: Ids

    def listed(self) -> Run:
        """The same, token by token."""
        whole = self.walk.whole
        kept = np.ones(len(whole.tokens), dtype=bool)
        kept[self.missing] = False
        return Run(self.loop, self.walk, whole.tokens[kept], whole.codes[kept])


class Reached(NamedTuple):
    """The tokens that are possible, each once: as indices into `trie.token_ids`, with the state
    after each; and those that end inside of runs.
    """

    tokens: Ids
    states: Int32
    runs: list[Run]
    wide_runs: list[WideRun]

    def all_runs(self) -> list[Run]:
        """Those of both kinds."""
        return [*self.runs, *(run.listed() for run in self.wide_runs)]


class TrieWalks:
    """Walks tries with the states of one table."""

    def __init__(self, states: StateTable) -> None:
        self._states = states
        self._loops = CharLoops()
        self._chains = Chains(states)
        self._known: dict[tuple[int, int], CharLoop | None] = {}
        self._wide_nodes: dict[Trie, frozenset[int]] = {}

    def begin(self, tries: Iterable[Trie]) -> None:
        """Makes what all walks need, and the walks that the chains of all grammars share, as far as
        these leave room for others.
        """
        for trie in tries:
            _ = trie.lists, trie.node_in_order, self._wide(trie)
            for inside in SETS:
                if self._loops.is_half_full:
                    return
                self._loops.walk(steps_of(inside), trie)

    def forget_ids(self) -> None:
        """The ids of states are no longer valid."""
        self._known.clear()
        self._loops.forget()
        self._chains.forget()

    def after_tokens(self, node: Expr, trie: Trie) -> Reached:
        """What the tokens of a trie lead to from a state."""
        start = self._states.id_of(node)
        found: list[Frontier] = []
        ended: list[Frontier] = []
        runs: list[Run] = []
        wide_runs: list[WideRun] = []
        places: Places = {}
        root = np.zeros(1, dtype=np.intp)
        if self._loop(start, trie) or self._chain(start, trie):
            places[start] = [root]
        else:
            self._extend(trie, (root, np.full(1, start, dtype=np.int32)), found, places)
        while places:
            begun, places = places, {}
            for state_id, parts in begun.items():
                nodes = np.concatenate(parts)
                loop = self._loop(state_id, trie)
                if loop is None:
                    outside = self._follow(state_id, trie, nodes, ended)
                else:
                    inside, outside = self._enter(loop, trie, nodes)
                    if isinstance(inside, WideRun):
                        wide_runs.append(inside)
                    elif len(inside.tokens):
                        runs.append(inside)
                found.append(outside)
                self._extend(trie, self._inner(*outside, trie, places), found, places)
        found.append((np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.int32)))
        nodes = np.concatenate([nodes for nodes, _ in found])
        states = np.concatenate([states for _, states in found])
        tokens, states = trie.tokens_at(nodes, states)
        if ended:
            tokens = np.concatenate([tokens, *(tokens for tokens, _ in ended)])
            states = np.concatenate([states, *(states for _, states in ended)])
        return Reached(tokens, states, runs, wide_runs)

    def states_after_tokens(self, node: Expr, trie: Trie) -> Int32:
        """The state after each token of a trie, DEAD where there is none. # int32 [num tokens]"""
        found = self.after_tokens(node, trie)
        reached = np.zeros(len(trie.token_ids), dtype=np.int32)
        reached[found.tokens] = found.states
        algebra = self._states.completions.algebra
        for loop, walk, tokens, codes in found.all_runs():
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
        wide = self._wide(trie)
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
                is_wide = child in wide
                if self._loop(successor, trie) or (is_wide and self._chain(successor, trie)):
                    places.setdefault(successor, []).append(np.array([child], dtype=np.intp))
                else:
                    pending.append((child, successor))
        found.append((np.array(filled, dtype=np.intp), np.array(states, dtype=np.int32)))
        nodes, reached = zip(*pending, strict=True) if pending else ((), ())
        return np.array(nodes, dtype=np.intp), np.array(reached, dtype=np.int32)

    def _inner(self, nodes: Ids, reached: Int32, trie: Trie, places: Places) -> Frontier:
        """The inner nodes of a frontier, but for those of places."""
        inner = trie.num_children[nodes].nonzero()[0]
        return self._apart(nodes[inner], reached[inner], trie, places)

    def _apart(self, nodes: Ids, reached: Int32, trie: Trie, places: Places) -> Frontier:
        """What of a frontier must be walked: places of runs and chains are noted in `places`."""
        is_many = trie.num_below[nodes].sum() >= MANY_BELOW
        for state_id in present(reached):
            is_run = self._loop(state_id, trie) is not None
            if not is_run and not (is_many and self._chain(state_id, trie)):
                continue
            is_there = reached == state_id
            if is_run or trie.num_below[nodes[is_there]].sum() >= MANY_BELOW:
                places.setdefault(state_id, []).append(nodes[is_there])
                nodes, reached = nodes[~is_there], reached[~is_there]
        return nodes, reached

    # -- chains ------------------------------------------------------------------------------

    def _wide(self, trie: Trie) -> frozenset[int]:
        """The nodes below which a chain is followed."""
        if trie not in self._wide_nodes:
            self._wide_nodes[trie] = trie.with_many_below(MANY_BELOW)
        return self._wide_nodes[trie]

    def _chain(self, state_id: int, trie: Trie) -> Chain | None:
        """The chain from a state that is no run, if there is one. None where a run is next: that
        reaches further.
        """
        found = self._chains.find(state_id)
        return None if found is None or self._loop(found.second, trie) else found

    def _follow(self, state_id: int, trie: Trie, nodes: Ids, ended: list[Frontier]) -> Frontier:
        """Notes what tokens below `nodes` lead to along a chain; what lies next to it."""
        chain = self._chain(state_id, trie)
        assert chain is not None, "a place is noted where a run or a chain begins"
        below = self._loops.walk(chain.steps, trie).below(nodes)
        most = max(int(below.codes.max(initial=0)), int(below.counts.max(initial=0)))
        after = chain.after(most)
        if after is None:
            self._chains.drop(state_id)
            self._states.row(state_id)
            return self._next(trie, nodes, np.full(len(nodes), state_id, dtype=np.int32))
        self._states.fill_missing(after)
        reached = after[below.codes]
        alive = reached.nonzero()[0]
        ended.append((below.tokens[alive], reached[alive]))
        reached = self._states.table[after[below.counts], trie.edge_byte[below.exits]]
        alive = reached.nonzero()[0]
        return below.exits[alive], reached[alive]

    # -- runs --------------------------------------------------------------------------------

    def _loop(self, state_id: int, trie: Trie) -> CharLoop | None:
        """The run that a state is."""
        key = state_id, trie.longest
        if key not in self._known:
            node, algebra = self._states.nodes[state_id], self._states.completions.algebra
            found = None if node is None else self._loops.find(algebra, node, trie.longest)
            self._known[key] = found
        return self._known[key]

    def _enter(self, loop: CharLoop, trie: Trie, nodes: Ids) -> tuple[Run | WideRun, Frontier]:
        """What lies inside of a run that begins at `nodes`, and what lies next to it."""
        walk = self._loops.walk(loop.x.steps, trie)
        is_root = len(nodes) == 1 and not nodes[0]
        missing = walk.missing_below(nodes) if is_root or loop.is_even else None
        if missing is not None:
            exits = walk.whole[2:] if is_root else walk.exits_below(nodes)
            return WideRun(loop, walk, missing), self._leave(loop, trie, *exits)
        below = walk.below(nodes)
        outside = self._leave(loop, trie, below.exits, below.counts)
        return Run(loop, walk, below.tokens, below.codes), outside

    def _leave(self, loop: CharLoop, trie: Trie, exits: Ids, counts: Int32) -> Frontier:
        """The nodes at which a run is left, and the state after each."""
        row = np.zeros(256, dtype=np.int32)
        for mask, rest in loop.leaving:
            row[members(mask & ~loop.x.unsure)] = self._states.id_of(rest)
        edges = trie.edge_byte[exits]
        reached = np.where(counts >= loop.low, row[edges], DEAD)
        is_near = True if loop.high is None else counts <= loop.high
        for byte in members(loop.x.unsure).tolist():
            for count in np.bincount(counts[(edges == byte) & is_near]).nonzero()[0].tolist():
                after = loop.after(self._states.completions.algebra, count, byte)
                is_there = (edges == byte) & (counts == count)
                reached[is_there] = self._states.id_of(after)
        is_out = (reached != DEAD) & is_near
        return exits[is_out], reached[is_out]
