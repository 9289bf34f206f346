"""The trie of a set of tokens, as arrays. Owns the numbering of its nodes.

It must not know what a grammar is, nor which tokens are special.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]

SPARSE = 8
"""The tokens of more than this part of all nodes are found by a look at each token."""


def ranges(first: NDArray[np.integer], last: NDArray[np.integer]) -> NDArray[np.intp]:
    """The numbers of all ranges `first[i]..last[i] - 1`, one range after another."""
    number = last - first
    ends = number.cumsum()
    total = int(ends[-1]) if len(ends) else 0
    found: NDArray[np.intp] = (first - (ends - number)).repeat(number) + np.arange(total)
    return found


class Trie:
    """The prefixes of `texts` (one or more, none of them empty); `texts[i]` is written by
    `token_ids[i]`.

    Nodes are numbered level by level from the root, 0, so the children of a node are contiguous:
    `first_child[n] .. first_child[n] + num_children[n]`. `edge_byte[n]` is the byte that leads to
    n, from `parent[n]`; `token_node[i]` is the node where `texts[i]` ends. # each: [num_nodes]
    """

    def __init__(self, token_ids: Sequence[int], texts: Sequence[bytes]) -> None:
        self.token_ids: NDArray[np.int64] = np.array(token_ids, dtype=np.int64)
        self.longest = max(map(len, texts))
        """The most bytes that one token writes."""
        order = sorted(range(len(texts)), key=texts.__getitem__)
        self.in_order: NDArray[np.intp] = np.array(order, dtype=np.intp)
        """The tokens, as indices, sorted by what they write: those below a node are neighbours."""
        self._build([texts[index] for index in order], self.in_order)

    def _build(self, texts: list[bytes], order: NDArray[np.integer]) -> None:
        """One level at a time: sorted texts with a common prefix are neighbours."""
        lengths = np.array([len(text) for text in texts])
        starts = np.cumsum(lengths) - lengths
        data = np.frombuffer(b"".join(texts), dtype=np.uint8)
        token_node = np.zeros(len(texts), dtype=np.int32)
        edges, parents = [np.zeros(1, dtype=np.uint8)], [np.zeros(1, dtype=np.int32)]
        node_of = np.zeros(len(texts), dtype=np.int32)  # where each text stands on this level
        alive = np.arange(len(texts))
        count = 1
        for depth in range(self.longest):
            alive = alive[lengths[alive] > depth]
            bytes_here, above = data[starts[alive] + depth], node_of[alive]
            fresh = np.ones(len(alive), dtype=bool)
            fresh[1:] = (bytes_here[1:] != bytes_here[:-1]) | (above[1:] != above[:-1])
            node_of[alive] = count - 1 + np.cumsum(fresh)
            edges.append(bytes_here[fresh])
            parents.append(above[fresh])
            count += int(fresh.sum())
            ends = alive[lengths[alive] == depth + 1]
            token_node[order[ends]] = node_of[ends]

        self.num_nodes = count
        self.token_node: Int32 = token_node
        self.edge_byte: NDArray[np.uint8] = np.concatenate(edges)
        self.parent: Int32 = np.concatenate(parents)
        self.num_children: Int32 = np.bincount(self.parent[1:], minlength=count).astype(np.int32)
        first = np.cumsum(self.num_children) - self.num_children + 1
        self.first_child: Int32 = first.astype(np.int32)

    @cached_property
    def lists(self) -> tuple[list[int], list[int], list[int]]:
        """`first_child`, `num_children` and `edge_byte` as lists, for walks in Python."""
        return self.first_child.tolist(), self.num_children.tolist(), self.edge_byte.tolist()

    @cached_property
    def num_at(self) -> NDArray[np.intp]:
        """The number of tokens that end at each node. # [num_nodes]"""
        return np.bincount(self.token_node, minlength=self.num_nodes)

    @cached_property
    def node_in_order(self) -> NDArray[np.intp]:
        """The node where each token ends, in the order of `in_order`."""
        return self.token_node[self.in_order].astype(np.intp)

    @cached_property
    def _below(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For each node, where in `in_order` the tokens begin and end that end there or below."""
        size = self.num_at.copy()
        for level in reversed(self.levels):
            above = self.parent[level]
            eldest = (np.diff(above, prepend=-1) != 0).nonzero()[0]
            size[above[eldest]] += np.add.reduceat(size[level], eldest)
        first = np.zeros(self.num_nodes, dtype=np.intp)
        for level in self.levels:
            above = self.parent[level]
            before = size[level].cumsum() - size[level]  # neighbours of a level are in order
            eldest = self.first_child[above] - level.start
            first[level] = first[above] + self.num_at[above] + before - before[eldest]
        return first, first + size

    @cached_property
    def num_below(self) -> Int32:
        """The number of tokens that end at each node or below. # [num_nodes]"""
        return (self.last_below - self.first_below).astype(np.int32)

    def with_many_below(self, number: int) -> frozenset[int]:
        """The nodes below which so many tokens end, those that end there included."""
        return frozenset((self.num_below >= number).nonzero()[0].tolist())

    @property
    def first_below(self) -> NDArray[np.intp]:
        """Where in `in_order` the tokens begin that end at each node or below. # [num_nodes]"""
        return self._below[0]

    @property
    def last_below(self) -> NDArray[np.intp]:
        """Where in `in_order` they end. # [num_nodes]"""
        return self._below[1]

    def tokens_at(
        self, nodes: NDArray[np.integer], states: Int32
    ) -> tuple[NDArray[np.intp], Int32]:
        """The tokens that end at any of `nodes`, as indices, and for each the state of its node."""
        if len(nodes) * SPARSE > self.num_nodes:
            state_of = np.zeros(self.num_nodes, dtype=states.dtype)
            state_of[nodes] = states + 1
            reached = state_of[self.token_node]
            tokens = reached.nonzero()[0]
            return tokens, reached[tokens] - 1
        number = self.num_at[nodes]
        first = self.first_below[nodes]
        return self.in_order[ranges(first, first + number)], states.repeat(number)

    @cached_property
    def levels(self) -> list[slice]:
        """The nodes of each level below the root."""
        found = []
        first, last = 0, 1
        while last < self.num_nodes:
            first, last = last, last + int(self.num_children[first:last].sum())
            found.append(slice(first, last))
        return found

    def child_of(self) -> dict[int, int]:
        """(node * 256 + byte) -> child, for walks in Python."""
        keys = self.parent[1:].astype(np.int64) * 256 + self.edge_byte[1:]
        return dict(zip(keys.tolist(), range(1, self.num_nodes), strict=True))

    def token_at(self) -> list[int]:
        """The lowest token that ends at each node, or -1."""
        found = np.full(self.num_nodes, -1, dtype=np.int64)
        backwards = np.argsort(-self.token_ids)
        found[self.token_node[backwards]] = self.token_ids[backwards]
        tokens: list[int] = found.tolist()
        return tokens
