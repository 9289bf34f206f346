"""A fleet: replicas, a router before them, and the sessions that come.

Owns the order of events in simulated time. It must not know what an engine decides.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from benchmarks.simulation.replica import Replica, Request
from benchmarks.simulation.traces import Session


class Router(Protocol):
    def choose(self, request: Request) -> int:
        """The replica that is to have it; called once for each, in order of arrival."""

    def ended(self, request: Request) -> None:
        """It is done."""


@dataclass(slots=True)
class Talk:
    """A session under way: its text so far, and how many of its turns have been asked for."""

    session: Session
    text: str
    num_asked: int = 0


class Fleet:
    """`make_replica` is given what to call with a finished request; `told` is given every one of
    them, in the order in which they end.
    """

    def __init__(
        self,
        num_replicas: int,
        make_replica: Callable[[int, Callable[[Request], None]], Replica],
        *,
        make_router: Callable[[list[Replica]], Router],
        told: Callable[[Request], None],
    ) -> None:
        self.replicas = [make_replica(index, self._end) for index in range(num_replicas)]
        self._router = make_router(self.replicas)
        self._told = told
        self._events: list[tuple[float, int, Talk | int]] = []  # a turn, or a replica's step
        self._order = itertools.count()
        self._idle = set(range(num_replicas))
        self._talks: dict[int, Talk] = {}  # by the request's identity

    def run(self, sessions: Iterable[Session]) -> None:
        """Until all of them have ended. Sessions come in the order of their starts."""
        coming = iter(sessions)
        following = next(coming, None)
        while following is not None or self._events:
            if following is not None and (
                not self._events or following.start_s <= self._events[0][0]
            ):
                self._ask(Talk(following, following.opening), following.start_s)
                following = next(coming, None)
                continue
            now_s, _, event = heapq.heappop(self._events)
            if isinstance(event, Talk):
                self._ask(event, now_s)
            elif self.replicas[event].step():
                self._push(self.replicas[event].now_s, event)
            else:
                self._idle.add(event)

    def _push(self, at_s: float, event: Talk | int) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), event))

    def _ask(self, talk: Talk, now_s: float) -> None:
        turn = talk.session.turns[talk.num_asked]
        talk.num_asked += 1
        talk.text += turn.text
        request = Request(talk.text, turn.num_output, now_s)
        self._talks[id(request)] = talk
        index = self._router.choose(request)
        self.replicas[index].submit(request)
        if index in self._idle:
            self._idle.remove(index)
            self._push(now_s, index)

    def _end(self, request: Request) -> None:
        talk = self._talks.pop(id(request))
        talk.text += request.answer
        self._router.ended(request)
        self._told(request)
        if talk.num_asked < len(talk.session.turns):
            pause_s = talk.session.turns[talk.num_asked].pause_s
            self._push(request.finished_s + pause_s, talk)
