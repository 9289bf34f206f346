"""Which replica gets a prompt, for comparison.

Owns the rules. `prefix` is the one that replicas of the runtime are routed by.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.simulation.fleet import Router
from benchmarks.simulation.replica import Replica, Request
from runtime.routing import PrefixRouting, Sent


class InTurn:
    """One replica after another."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._num, self._next = len(replicas), -1

    def choose(self, _: Request) -> int:
        self._next = (self._next + 1) % self._num
        return self._next

    def ended(self, _: Request) -> None:
        pass


class LeastOpen:
    """The replica with the fewest requests under way, the first of them."""

    def __init__(self, replicas: list[Replica]) -> None:
        self._replicas = replicas

    def choose(self, _: Request) -> int:
        return min(range(len(self._replicas)), key=lambda index: self._replicas[index].num_open)

    def ended(self, _: Request) -> None:
        pass


class ByPrefix:
    """The runtime's own. A block is a page."""

    def __init__(self, replicas: list[Replica]) -> None:
        cache = replicas[0].engine.scheduler.cache
        self._routing = PrefixRouting(
            len(replicas), block=cache.page_size, max_blocks=cache.num_pages
        )
        self._sent: dict[int, Sent] = {}  # by the request's identity

    def choose(self, request: Request) -> int:
        sent = self._routing.send(request.prompt, num_output=request.num_output)
        self._sent[id(request)] = sent
        return sent.engine

    def ended(self, request: Request) -> None:
        self._routing.ended(self._sent.pop(id(request)))


ROUTERS: dict[str, Callable[[list[Replica]], Router]] = {
    "in-turn": InTurn,
    "least-open": LeastOpen,
    "prefix": ByPrefix,
}
