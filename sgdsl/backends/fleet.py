"""`Fleet`: several backends that are alike, as one (data parallelism).

Owns which of them a run goes to: the one that has computed most of its beginning, unless that has
much more to do than another. What becomes of a run whose backend fails is the router's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sgdsl.backends.affinity import Affinity, beginning, blocks_of
from sgdsl.backends.base import Backend
from sgdsl.backends.journey import Journey, Leg
from sgdsl.backends.lanes import Lane, Provider
from sgdsl.backends.router import Router

ANSWER_TIMEOUT_S = 3600.0
"""A run may wait in its backend's queue behind all others; a backend that dies says so at once."""


class Fleet(Router):
    """Runs go to whichever of `backends`, all with the same model, has computed most of their
    beginning. One that carries over `slack` runs more than the least busy one is left out, so that
    a beginning which all share ends up with all. `slack`: by default half of what the first one
    likes to have in flight.

    The others take over the runs of one that fails, with all that these have. `options` are the
    router's. The backends stay their owner's to close.
    """

    def __init__(
        self, backends: Sequence[Backend | Provider], *, slack: int | None = None, **options: Any
    ) -> None:
        alike = [
            each
            if isinstance(each, Provider)
            else Provider(each, min_timeout_s=ANSWER_TIMEOUT_S, max_timeout_s=ANSWER_TIMEOUT_S)
            for each in backends
        ]
        super().__init__(alike, **options)
        lanes: list[Lane] = list(self._lanes)
        self._affinity = Affinity(len(lanes))
        self._slack = max(1, lanes[0].max_in_flight // 2) if slack is None else slack

    def __repr__(self) -> str:
        return f"<Fleet of {len(list(self._lanes))}>"

    def _rank(self, journey: Journey) -> Callable[[Lane], Any]:
        return self.preference(blocks_of(beginning(journey.run.nodes or ())))

    def preference(self, blocks: list[bytes]) -> Callable[[Lane], tuple[int, ...]]:
        """The rank of each lane for a run that begins with these blocks, as things are now."""
        lanes: list[Lane] = list(self._lanes)
        least = min(lane.num_in_flight for lane in lanes)

        def rank(lane: Lane) -> tuple[int, ...]:
            is_busy = lane.num_in_flight > least + self._slack
            num_known = self._affinity.num_known(lane.index, blocks)
            num_kept = self._affinity.num_kept(lane.index)
            return is_busy, -num_known, lane.num_in_flight, num_kept, lane.index

        return rank

    def _took(self, journey: Journey, lane: Lane) -> None:
        self._affinity.sent(lane.index, blocks_of(beginning(journey.run.nodes or ())))

    def fell(self, leg: Leg, cause: BaseException, branch_id: int | None) -> bool:
        moved = super().fell(leg, cause, branch_id)
        if moved:
            with self._lock:
                self._affinity.forget(leg.lane.index)
        return moved
