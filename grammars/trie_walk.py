"""The states that follow a state, token prefix by token prefix. Owns the walks of a trie.

A trie is walked level by level with numpy: a frontier of (trie node, state) pairs is expanded to
all children at once, each child's state is gathered from the table of transitions, and the dead
ones are dropped.

A state `x{m,n} . tail` whose x takes many bytes (the inside of a string, above all) reaches most of
the trie, and mostly without leaving x{m,n}. That part is walked once for the head alone and kept;
for each tail only what leaves the head is walked.
It must not know of masks and costs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grammars.derive import arms
from grammars.expr import Concat, Expr, Repeat
from grammars.states import DEAD, StateTable
from grammars.trie import Int32, Trie

FEW = 4
"""A frontier this small is walked in Python: a round of numpy costs as much as a dozen nodes."""

WIDE = 64
"""First bytes of a head that is walked apart from its tail; a narrow one reaches little."""


def after_each_node(node: Expr, trie: Trie, states: StateTable) -> Int32:
    """The state after each node of the trie, DEAD where it cannot be reached. # [num_nodes]"""
    if isinstance(node, Concat) and isinstance(node.head, Repeat):
        after = _after_head(node, trie, states)
        if after is not None:
            return after
    return _walk(node, trie, states)


def _walk(node: Expr, trie: Trie, states: StateTable) -> Int32:
    """The same from one walk over all that is reached."""
    after = np.zeros(trie.num_nodes, dtype=np.int32)
    root = np.zeros(1, dtype=np.int32)
    _extend(after, trie, states, frontier=(root, np.full(1, states.id_of(node), dtype=np.int32)))
    return after


def _after_head(node: Concat, trie: Trie, states: StateTable) -> Int32 | None:
    """The same from the head's own walk, and one over what leaves it.

    None where this is of no use, or where a byte may both stay in the head and leave it: then a
    node is reached in two ways at once, and only the whole state knows what they have in common.
    """
    algebra = states.completions.algebra
    head, tail = node.head, node.tail
    if _first_bytes(head, states).bit_count() < WIDE:
        return None
    inside = states.kept_walk(head, trie)
    if inside is None:
        inside = _walk(head, trie, states)
        inside[0] = states.id_of(head)
        states.keep_walk(head, trie, inside)
    leaving = _first_bytes(tail, states)
    whole = np.zeros(len(states), dtype=np.int32)  # by the head's state: that of head . tail
    may_leave = np.zeros(len(states), dtype=bool)
    for state_id in np.bincount(inside)[1:].nonzero()[0].tolist():
        within = states.node(state_id + 1)
        whole[state_id + 1] = states.id_of(algebra.concat(within, tail))
        may_leave[state_id + 1] = within.nullable
        if within.nullable and _first_bytes(within, states) & leaving:
            return None
    after: Int32 = whole[inside]
    after[0] = DEAD
    row = states.row(states.id_of(tail))
    outside = (row[trie.edge_byte] != DEAD).nonzero()[0]
    outside = outside[(outside > 0) & may_leave[inside[trie.parent[outside]]]]
    reached = row[trie.edge_byte[outside]]
    after[outside] = reached
    inner = trie.num_children[outside].nonzero()[0]
    _extend(after, trie, states, frontier=(outside[inner], reached[inner]))
    return after


def _first_bytes(node: Expr, states: StateTable) -> int:
    """The set of bytes that a string of `node` may begin with."""
    mask = 0
    for part, _ in arms(states.completions.algebra, node):
        mask |= part
    return mask


def _extend(
    after: Int32,
    trie: Trie,
    states: StateTable,
    *,
    frontier: tuple[NDArray[np.integer], Int32],
) -> None:
    """Walks on below a frontier of inner nodes and the state after each."""
    nodes, reached = frontier
    while len(nodes) > FEW or (len(nodes) and not nodes[0]):
        states.fill_missing(reached)
        counts = trie.num_children[nodes]
        ends = counts.cumsum(dtype=np.int32)
        children = (trie.first_child[nodes] - (ends - counts)).repeat(counts)
        children += np.arange(ends[-1], dtype=np.int32)
        successors = states.table[reached.repeat(counts), trie.edge_byte[children]]
        alive = successors.nonzero()[0]
        nodes, reached = children[alive], successors[alive]
        after[nodes] = reached
        inner = trie.num_children[nodes].nonzero()[0]
        nodes, reached = nodes[inner], reached[inner]
    _extend_few(after, trie, states, list(zip(nodes.tolist(), reached.tolist(), strict=True)))


def _extend_few(
    after: Int32, trie: Trie, states: StateTable, pending: list[tuple[int, int]]
) -> None:
    """The same for a few, one child after another."""
    first_child, num_children, edge_byte = trie.lists
    while pending:
        node, state = pending.pop()
        row = states.row(state)
        first = first_child[node]
        for child in range(first, first + num_children[node]):
            successor = row.item(edge_byte[child])
            if successor != DEAD:
                after[child] = successor
                if num_children[child]:
                    pending.append((child, successor))
