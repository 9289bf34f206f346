"""Eviction: which of the pages that nobody holds is given up first.

Owns what each page has been worth, and the orders that options name. Which pages may be given up at
all (leaves that nobody has locked) is the prefix cache's business.

An order goes by a node's *heat*, the coldest first, and among equals by the last use, the least
recent first. A heat changes only while its node is locked, so that a heap of unlocked ones is right
as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from math import frexp, ldexp
from typing import Protocol

Heat = tuple[int, float]
"""An exponent of two and a fraction of [0.5, 1), compared in this order: however often a page is
used and however long ago that was, nothing overflows.
"""

COLD: Heat = (0, 0.0)

BRANCHING = 4
"""What it adds to a page's heat that runs part behind it; that it is computed adds one. Measured on
streams of few-shot prompts: of 1, it keeps too little where half of the rows share nothing; of 16,
it holds on to prefixes that nobody asks for any more.
"""


class Node(Protocol):
    """A cached page, as an order sees it. A root has no parent, and is no page."""

    heat: Heat
    last_use: tuple[int, int] | None

    @property
    def parent(self) -> Node | None: ...
    @property
    def key(self) -> tuple[int, ...]: ...


class EvictionOrder(Protocol):
    """Told of what happens to nodes; those it is told of, and what leads to them, are locked. A
    `user` is a run.
    """

    def cached(self, node: Node, user: int | None) -> None:
        """The page has just been computed, for the user if there is one."""

    def used(self, node: Node, user: int, onward: int) -> None:
        """The user goes on from here, with tokens of which `onward` is a hash."""

    def evicted(self) -> None:
        """A page has had to give way to another one."""


class LeastRecentlyUsed:
    """All pages are equally cold, so that only the last use counts."""

    def __init__(self, num_pages: int) -> None:
        pass

    def cached(self, node: Node, user: int | None) -> None:
        pass

    def used(self, node: Node, user: int, onward: int) -> None:
        pass

    def evicted(self) -> None:
        pass


class LeastFrequentlyUsed:
    """Hot is what many runs go different ways from: instructions, few-shot examples. What only one
    run comes back to is not (a document, its forks, its graph breaks), nor is what every turn of a
    chat goes on from in one line: among such pages the order is that of the last use.

    All that counts is worth half as much after every *turnover*, as many evictions as there are
    pages. So what was branched from n times outlives what was just computed by log2(4n + 1)
    turnovers: yesterday's favourite makes room.
    """

    def __init__(self, num_pages: int) -> None:
        self._num_pages = num_pages
        self._num_evicted = 0

    def cached(self, node: Node, user: int | None) -> None:
        self._warm(node, 1)
        if node.parent is not None and user is not None:
            node.parent.last_use = (user, hash(node.key))

    def used(self, node: Node, user: int, onward: int) -> None:
        before, node.last_use = node.last_use, (user, onward)
        if before is None or before[0] == user or before[1] == onward:
            return
        each: Node | None = node
        while each is not None and each.parent is not None:
            self._warm(each, BRANCHING)
            each = each.parent

    def evicted(self) -> None:
        self._num_evicted += 1

    def _warm(self, node: Node, amount: int) -> None:
        """What is new counts double after each turnover, which orders pages as if what came before
        were halved.
        """
        turnovers = self._num_evicted // self._num_pages
        exponent, fraction = node.heat
        fraction, exponent = frexp(ldexp(fraction, exponent - turnovers) + amount)
        node.heat = (exponent + turnovers, fraction)


EVICTIONS: dict[str, Callable[[int], EvictionOrder]] = {
    "lfu": LeastFrequentlyUsed,
    "lru": LeastRecentlyUsed,
}
"""By the names that options use; made for a number of pages."""
