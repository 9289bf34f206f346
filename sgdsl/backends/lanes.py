"""The providers of a router, and which of them a run goes to next.

Owns what is known of each: how much it has, how it has done, what it may be asked. Sans-I/O: told
the time, it decides; it starts and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from sgdsl.arguments import refuse
from sgdsl.backends.base import Backend
from sgdsl.backends.policy import Breaker, LatencyWindow, RateLimit, RateWindow
from sgdsl.errors import UsageError

CHARS_PER_TOKEN = 4
"""About, in English: a router has no tokenizer."""


@dataclass(frozen=True)
class Provider:
    """One of a router's backends. `max_in_flight`: runs at once, by default the backend's own.
    `max_input_tokens`: longer prompts (at four characters a token) go to another. `rate`: what it
    may be asked in a window. `min_timeout_s` and `max_timeout_s` bound the time that an answer may
    take, which follows from those before.
    """

    backend: Backend
    name: str | None = None
    max_in_flight: int | None = None
    max_input_tokens: int | None = None
    rate: RateLimit | None = None
    min_timeout_s: float = 30.0
    max_timeout_s: float = 600.0
    breaker: Breaker = field(default_factory=Breaker, repr=False)


class Lane:
    """A provider, and all that changes of it."""

    def __init__(self, provider: Provider, index: int) -> None:
        self.backend = provider.backend
        self.index = index
        self.name = provider.name or f"{type(provider.backend).__name__} {index}"
        self.max_in_flight = provider.max_in_flight or provider.backend.max_in_flight
        self.max_input_tokens = provider.max_input_tokens
        self.breaker = provider.breaker
        self.rate = None if provider.rate is None else RateWindow(provider.rate)
        self.latencies = LatencyWindow(min_s=provider.min_timeout_s, max_s=provider.max_timeout_s)
        self.num_in_flight = 0

    def __repr__(self) -> str:
        return f"<Lane {self.name}>"

    def takes(self, input_tokens: int) -> bool:
        return self.max_input_tokens is None or input_tokens <= self.max_input_tokens

    @property
    def is_full(self) -> bool:
        return self.num_in_flight >= self.max_in_flight


@dataclass(frozen=True, slots=True)
class Later:
    """No lane now: look again at `at_s`, or (None) when one has room again."""

    at_s: float | None


Pick = Callable[[Sequence[Lane]], Lane]
"""Which lane of some, one at least, in their order."""


class Lanes:
    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = list(lanes)

    def __iter__(self) -> Any:
        return iter(self._lanes)

    def choose(
        self,
        now_s: float,
        *,
        input_tokens: int,
        failed: Collection[int],
        barred: Collection[int],
        pick: Pick = itemgetter(0),
    ) -> Lane | Later:
        """The one that `pick` picks, the first by default, of the lanes that take such an input,
        have room, and let more through; those where the run has `failed` only if there are no
        others, the `barred` ones never. A run that has no lane at all is `Later(None)` with nothing
        to wait for: see `any_for`.
        """
        able = [
            lane for lane in self._lanes if lane.index not in barred and lane.takes(input_tokens)
        ]
        open_lanes = [lane for lane in able if lane.breaker.allows(now_s)]
        with_room = [lane for lane in open_lanes if not lane.is_full]
        if with_room:
            return pick([lane for lane in with_room if lane.index not in failed] or with_room)
        if open_lanes or not able:
            return Later(None)
        return Later(min(max(now_s, lane.breaker.retry_at_s(now_s)) for lane in able))

    def any_for(self, input_tokens: int, barred: Collection[int]) -> bool:
        """Whether some lane may ever take it."""
        return any(lane.index not in barred and lane.takes(input_tokens) for lane in self._lanes)


def lanes_from(providers: Sequence[Backend | Provider]) -> Lanes:
    """Raises `UsageError` for what cannot be routed to."""
    given: object = providers
    if not isinstance(given, (list, tuple)) or not given:
        refuse("Router", "providers", given, "a list of one or more backends or Providers")
    made = [each if isinstance(each, Provider) else Provider(each) for each in providers]
    for each in made:
        if not hasattr(each.backend, "submit"):
            raise UsageError(
                f"Router: {each.backend!r} is no backend, which has a method `submit`; pass a "
                "Runtime, an OpenAI or the like"
            )
    return Lanes([Lane(each, index) for index, each in enumerate(made)])
