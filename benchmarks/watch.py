"""When the text of runs arrived.

Owns a backend that passes runs on to another one and notes, for every gen and select, when it was
asked for and when each piece of its text came: what somebody who reads the stream would see.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter

from sgdsl.backends.base import Backend, BackendStats
from sgdsl.chat import ChatTemplate
from sgdsl.graph import ROOT
from sgdsl.nodes import Gen, Node, Select
from sgdsl.run import Run


@dataclass
class Span:
    """One gen or select, in seconds of `perf_counter`: its beginning, and each piece's arrival."""

    begun_s: float
    arrivals_s: list[float] = field(default_factory=list)

    @property
    def first_s(self) -> float:
        """From its beginning to its first piece."""
        return self.arrivals_s[0] - self.begun_s

    @property
    def gaps_s(self) -> list[float]:
        """Between one piece and the next."""
        return [
            after - before
            for before, after in zip(self.arrivals_s, self.arrivals_s[1:], strict=False)
        ]


@dataclass
class _Place:
    """What was last seen of a branch."""

    active: Node | None = None
    num_shown: int = 0
    span: Span | None = None


class _Watch:
    """One run, looked at under its lock whenever it changes."""

    def __init__(self, run: Run, spans: list[Span], arrived_s: float | None) -> None:
        self._run = run
        self._spans = spans
        self._arrived_s = arrived_s  # until the first span has taken it
        self._places: list[_Place] = []

    def look(self) -> bool:
        """Never reached: there is always more to see."""
        now_s = perf_counter()
        for branch_id, place in enumerate(self._places):
            self._look_at(branch_id, place, now_s)
        while self._run.peek(branch_id := ROOT + len(self._places)) is not None:
            self._places.append(_Place())
            self._look_at(branch_id, self._places[-1], now_s)
        return False

    def _look_at(self, branch_id: int, place: _Place, now_s: float) -> None:
        branch = self._run.peek(branch_id)
        if branch is None:
            return
        active = branch.active if isinstance(branch.active, Gen | Select) else None
        if active is place.active:
            if place.span is not None and len(branch.partial) > place.num_shown:
                place.num_shown = len(branch.partial)
                place.span.arrivals_s.append(now_s)
            return
        if place.span is not None:  # answered
            place.span.arrivals_s.append(now_s)
            self._spans.append(place.span)
        place.active, place.num_shown, place.span = active, len(branch.partial), None
        if active is not None:
            place.span = Span(now_s if self._arrived_s is None else self._arrived_s)
            self._arrived_s = None


class Watched:
    """A backend around another one. `arrived_s`: when its runs came, if that was before they were
    submitted; their first answer counts from there. `spans` are those that have ended.
    """

    def __init__(self, backend: Backend, arrived_s: float | None = None) -> None:
        self._backend = backend
        self._arrived_s = arrived_s
        self.spans: list[Span] = []

    @property
    def chat_template(self) -> ChatTemplate:
        return self._backend.chat_template

    @property
    def max_in_flight(self) -> int:
        return self._backend.max_in_flight

    def submit(self, run: Run) -> None:
        run.streaming = True
        run.when(_Watch(run, self.spans, self._arrived_s).look, _nothing)
        self._backend.submit(run)

    def wake(self, run: Run) -> None:
        self._backend.wake(run)

    def stats(self) -> BackendStats:
        return self._backend.stats()


def _nothing() -> None:
    """At its end a run need not be told of."""
