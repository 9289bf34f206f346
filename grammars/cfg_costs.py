"""The cheapest derivation of every part of a grammar. Owns the search.

Costs are found from the cheapest on, so that what a part is made of is always known before it: the
chosen derivations never come back to themselves, whatever the recursion. Parts are counted down
rather than looked at again, so the whole is linear but for the heap; there is no recursion.
It must not know what the parts are.
Source: D. Knuth, "A generalization of Dijkstra's algorithm", Information Processing Letters 6(1),
1977.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, Literal, NamedTuple, TypeVar

Part = TypeVar("Part", bound=Hashable)


class Need(NamedTuple, Generic[Part]):
    """What a part costs: a fixed `number`, the sum of `parts`, the least of them, or `number` times
    the only one. Without a cost: the least of no parts.
    """

    kind: Literal["fixed", "sum", "least", "times"]
    parts: tuple[Part, ...] = ()
    number: int = 0


class Costs(Generic[Part]):
    """The least cost of each part, where it has one, and which of its parts that comes from."""

    def __init__(self, need: Callable[[Part], Need[Part]]) -> None:
        self._need = need
        self._known: dict[Part, Need[Part]] = {}
        self._parents: dict[Part, list[Part]] = {}
        self._waiting: dict[Part, int] = {}
        self._heap: list[tuple[int, int, Part, Part | None]] = []
        self._ticket = count(0, -1)  # the latest of equals is first: what waits for it is settled
        self.cost: dict[Part, int] = {}
        self.choice: dict[Part, Part | None] = {}

    def solve(self, roots: Iterable[Part]) -> None:
        """Finds the costs of the roots and of all they are made of, as far as not known yet."""
        pending = list(roots)
        while pending:
            part = pending.pop()
            if part not in self._known:
                self._known[part] = self._need(part)
                self._await(part)
                pending += self._known[part].parts
        while self._heap:
            cost, _, part, choice = heappop(self._heap)
            if part not in self.cost:
                self.cost[part] = cost
                self.choice[part] = choice
                for parent in self._parents.get(part, ()):
                    self._settle(parent, part)

    def _await(self, part: Part) -> None:
        """Puts a new part where it waits for its own."""
        kind, parts, number = self._known[part]
        if kind == "fixed":
            self._offer(part, number, None)
            return
        distinct = dict.fromkeys(parts)
        self._waiting[part] = len(distinct)
        for child in distinct:
            if child in self.cost:
                self._settle(part, child)
            else:
                self._parents.setdefault(child, []).append(part)

    def _settle(self, part: Part, child: Part) -> None:
        """One of its parts is known now."""
        kind, parts, number = self._known[part]
        if part in self.cost:
            return
        if kind == "least":
            self._offer(part, self.cost[child], child)
            return
        self._waiting[part] -= 1
        if not self._waiting[part]:
            total = sum(self.cost[each] for each in parts)
            self._offer(part, total * number if kind == "times" else total, None)

    def _offer(self, part: Part, cost: int, choice: Part | None) -> None:
        heappush(self._heap, (cost, next(self._ticket), part, choice))
