"""The states that follow a state, token prefix by token prefix. Owns the walks of a trie.

A trie is walked level by level with numpy: a frontier of (trie node, state) pairs is expanded to
all children at once, each child's state is gathered from the table of transitions, and the dead
ones are dropped.

A *loop* `x{m,n} . tail` whose x takes many bytes (the inside of a string, above all) reaches most
of the trie, and mostly without leaving x{m,n}. That part is walked once for the head alone and kept
(see `loop_walks`); wherever a walk comes upon the loop, what is kept is grafted on, and only what
leaves the head is walked.
It must not know of masks and costs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from grammars.derive import arms
from grammars.expr import Concat, Expr, Repeat
from grammars.loop_walks import Inside, LoopWalks
from grammars.states import DEAD, StateTable
from grammars.trie import Int32, Trie

FEW = 4
"""A frontier this small is walked in Python: a round of numpy costs as much as a dozen nodes."""

NO_FEW = 48
"""So many are walked with numpy again."""

WIDE = 64
"""First bytes of a head that is walked apart from its tail; a narrow one reaches little."""

MANY = 24
"""Places of one loop in a frontier from which on it is grafted: that costs a look at all nodes."""

Frontier = tuple[NDArray[np.integer], Int32]
"""Inner nodes of the trie, and the state after each."""


class Loop(NamedTuple):
    """A state whose head is walked apart, and what is reached inside of the head."""

    node: Concat
    inside: Inside


Touched = list[NDArray[np.integer]]
"""Nodes that a walk has filled in."""

Grafts = dict[int, tuple[Loop, list[NDArray[np.integer]]]]
"""By state: a loop, and the nodes at which it begins."""


class TrieWalks:
    """Walks tries with the states of one table. `loops` keeps what loops reach."""

    def __init__(self, states: StateTable, loops: LoopWalks) -> None:
        self._states = states
        self._loops = loops
        self._blanks: dict[Trie, Int32] = {}

    def after_tokens(self, node: Expr, trie: Trie) -> tuple[NDArray[np.intp], Int32]:
        """The tokens that are possible, as indices into `trie.token_ids`, and the state after
        each.
        """
        after = self._blank(trie)
        touched: Touched = []
        loop = self._loop(node, trie)
        if loop is not None:
            is_sparse = self._graft(after, trie, loop)
        else:
            start = np.full(1, self._states.id_of(node), dtype=np.int32)
            is_sparse = self._extend(after, trie, (np.zeros(1, dtype=np.int32), start), touched)
        if is_sparse:
            nodes = np.concatenate(touched)
            states = after[nodes]
            after[nodes] = DEAD
            return trie.tokens_at(nodes, states)
        reached = after[trie.token_node]
        after[:] = DEAD
        possible = reached.nonzero()[0]
        return possible, reached[possible]

    def _blank(self, trie: Trie) -> Int32:
        """A state for each node of the trie, all DEAD; whoever fills it blanks it again."""
        if trie not in self._blanks:
            self._blanks[trie] = np.zeros(trie.num_nodes, dtype=np.int32)
        return self._blanks[trie]

    # -- level by level ----------------------------------------------------------------------

    def _extend(
        self, after: Int32, trie: Trie, frontier: Frontier, touched: Touched | None = None
    ) -> bool:
        """Walks on below a frontier; whether the nodes that it fills in are all in `touched`."""
        touched = [] if touched is None else touched
        states = self._states
        nodes, reached = frontier
        grafts: Grafts = {}
        while len(nodes):
            if len(nodes) <= FEW and nodes[0]:
                nodes, reached = self._extend_few(after, trie, (nodes, reached), touched)
                continue
            states.fill_missing(reached)
            counts = trie.num_children[nodes]
            ends = counts.cumsum(dtype=np.int32)
            children = (trie.first_child[nodes] - (ends - counts)).repeat(counts)
            children += np.arange(ends[-1], dtype=np.int32)
            successors = states.table[reached.repeat(counts), trie.edge_byte[children]]
            alive = successors.nonzero()[0]
            nodes, reached = children[alive], successors[alive]
            after[nodes] = reached
            touched.append(nodes)
            inner = trie.num_children[nodes].nonzero()[0]
            nodes, reached = nodes[inner], reached[inner]
            if len(nodes) >= MANY:
                nodes, reached = self._cut_loops(nodes, reached, trie, grafts)
        for loop, places in grafts.values():
            self._graft(after, trie, loop, at=np.concatenate(places))
        return not grafts

    def _extend_few(
        self, after: Int32, trie: Trie, frontier: Frontier, touched: Touched
    ) -> Frontier:
        """The same for a few, one child after another, until they have become many."""
        filled = []
        first_child, num_children, edge_byte = trie.lists
        pending = list(zip(frontier[0].tolist(), frontier[1].tolist(), strict=True))
        while pending and len(pending) <= NO_FEW:
            node, state = pending.pop()
            row = self._states.row(state)
            first = first_child[node]
            for child in range(first, first + num_children[node]):
                successor = row.item(edge_byte[child])
                if successor != DEAD:
                    after[child] = successor
                    filled.append(child)
                    if num_children[child]:
                        pending.append((child, successor))
        touched.append(np.array(filled, dtype=np.intp))
        nodes, reached = zip(*pending, strict=True) if pending else ((), ())
        return np.array(nodes, dtype=np.int32), np.array(reached, dtype=np.int32)

    def _cut_loops(
        self, nodes: NDArray[np.integer], reached: Int32, trie: Trie, grafts: Grafts
    ) -> Frontier:
        """The frontier without the places of loops, which are noted in `grafts`.

        A place is one of a loop where the kept walk, from the root, is at the loop's start, too:
        then all below is the same.
        """
        many = (np.bincount(reached) >= MANY).nonzero()[0]
        for state_id in many.tolist():
            loop = self._loop(self._states.node(state_id), trie)
            if loop is None:
                continue
            after_head = loop.inside.after
            is_there = (reached == state_id) & (after_head[nodes] == after_head[0])
            if is_there.any():
                grafts.setdefault(state_id, (loop, []))[1].append(nodes[is_there])
                nodes, reached = nodes[~is_there], reached[~is_there]
        return nodes, reached

    # -- loops -------------------------------------------------------------------------------

    def _loop(self, node: Expr, trie: Trie) -> Loop | None:
        """The loop that a state is, if it is one whose head is worth to be walked apart.

        None where a byte may both stay in the head and leave it: then a node is reached in two ways
        at once, and only the whole state knows what they have in common.
        """
        if not isinstance(node, Concat) or not isinstance(node.head, Repeat):
            return None
        leaving = self._first_bytes(node.tail)
        staying = self._first_bytes(node.head)
        if staying.bit_count() < WIDE or staying & leaving:
            return None
        inside = self._inside(node.head, trie)
        for _, within in inside.states:
            if within.nullable and self._first_bytes(within) & leaving:
                return None
        return Loop(node, inside)

    def _inside(self, head: Expr, trie: Trie) -> Inside:
        """What is reached inside of a loop's head."""
        found = self._loops.get(head, trie, self._states)
        if found is None:
            after = np.zeros(trie.num_nodes, dtype=np.int32)
            start = np.full(1, self._states.id_of(head), dtype=np.int32)
            self._extend(after, trie, (np.zeros(1, dtype=np.int32), start))
            after[0] = start[0]
            found = self._loops.keep(head, trie, after, self._states)
        return found

    def _graft(
        self,
        after: Int32,
        trie: Trie,
        loop: Loop,
        *,
        at: NDArray[np.integer] | None = None,
    ) -> bool:
        """Fills in what a loop reaches below the nodes `at` (None: the root), and walks what leaves
        it. False: the nodes are not listed.
        """
        states, inside, tail = self._states, loop.inside.after, loop.node.tail
        concat = states.completions.algebra.concat
        whole = np.zeros(len(states), dtype=np.int32)  # by the head's state: that of the loop
        may_leave = np.zeros(len(states), dtype=bool)
        for state_id, within in loop.inside.states:
            whole[state_id] = states.id_of(concat(within, tail))
            may_leave[state_id] = within.nullable
        row = states.row(states.id_of(tail))
        outside = (row[trie.edge_byte] != DEAD).nonzero()[0]
        outside = outside[outside > 0]
        if at is None:
            after[1:] = whole[inside[1:]]
            outside = outside[may_leave[inside[trie.parent[outside]]]]
        else:
            below = trie.below(at)
            after[below] = whole[inside[below]]
            is_left = np.zeros(trie.num_nodes, dtype=bool)
            is_left[below] = may_leave[inside[below]]
            is_left[at] = loop.node.head.nullable
            outside = outside[is_left[trie.parent[outside]]]
        reached = row[trie.edge_byte[outside]]
        after[outside] = reached
        inner = trie.num_children[outside].nonzero()[0]
        self._extend(after, trie, (outside[inner], reached[inner]))
        return False

    def _first_bytes(self, node: Expr) -> int:
        """The set of bytes that a string of `node` may begin with."""
        mask = 0
        for part, _ in arms(self._states.completions.algebra, node):
            mask |= part
        return mask
