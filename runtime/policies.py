"""Policies: in which order waiting sequences are admitted.

Owns the ranks, and which policies there are. Pure: a rank is made of what a sequence says of itself
(its priority, its run, its remaining work) and of where it stands in the tree of cached pages. Who
waits, and when a rank is made anew, is the waiting queue's business.

Whatever the policy, a higher priority goes first, and among equals the branches of one run go
together, the run that came first before the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from runtime.cache.nodes import PageNode
from runtime.sequence import Sequence

Rank = tuple[object, ...]
"""Compared with the ranks of the same policy only; the lowest goes first."""


@dataclass(frozen=True, slots=True)
class Policy:
    """`measure`: what the policy goes by, of a sequence that stands at the last cached page of its
    prompt (the root: none is cached). `by_tree`: it depends on that page. `by_work`: it depends on
    `Sequence.work`, which somebody has to count.
    """

    name: str
    measure: Callable[[Sequence, PageNode], object]
    by_tree: bool = False
    by_work: bool = False

    def rank(self, sequence: Sequence, node: PageNode, ticket: int) -> Rank:
        """`ticket`: rises with every arrival."""
        return (-sequence.priority, self.measure(sequence, node), sequence.group, ticket)


def _cached(_: Sequence, node: PageNode) -> int:
    return -node.depth


def _walk(_: Sequence, node: PageNode) -> tuple[float, ...]:
    """The place in a depth-first walk: below a page before what only reaches to it, so that who
    shares most follows each other; children in the order in which they were cached.
    """
    births: list[float] = [math.inf]
    while node.parent is not None:
        births.append(node.born)
        node = node.parent
    return tuple(reversed(births))


def _work(sequence: Sequence, _: PageNode) -> int:
    return sequence.work


def _nothing(_: Sequence, __: PageNode) -> int:
    return 0


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("lpm", _cached, by_tree=True),
        Policy("dfs", _walk, by_tree=True),
        Policy("fcfs", _nothing),
        Policy("sjf", _work, by_work=True),
    )
}
"""By the names that options use."""
