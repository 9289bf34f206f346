"""Which replica gets a prompt, for comparison.

Owns the simple rules. `prefix` looks at the replicas' own caches, which a router across machines
cannot: it is the best that any memory of what was sent where can come to.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.simulation.fleet import Router
from benchmarks.simulation.replica import Replica


class InTurn:
    """One replica after another."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._num, self._next = len(replicas), -1

    def choose(self, prompt: str) -> int:
        self._next = (self._next + 1) % self._num
        return self._next


class LeastOpen:
    """The replica with the fewest requests under way, the first of them."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._replicas = replicas

    def choose(self, prompt: str) -> int:
        return min(range(len(self._replicas)), key=lambda index: self._replicas[index].num_open)


ROUTERS: dict[str, Callable[[list[Replica]], Router]] = {
    "in-turn": InTurn,
    "least-open": LeastOpen,
}
