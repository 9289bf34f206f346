"""`Fleet`: several backends that are alike, as one (data parallelism).

Owns what of a run is told to the routing, and when: its beginning, what it may write, and that it
has ended. Where it goes is `routing`'s decision, what becomes of a run whose backend fails the
router's. Knows no engine: the backends may be on other machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from runtime.routing import BLOCK, PrefixRouting, Sent
from sgdsl.backends.base import Backend
from sgdsl.backends.journey import Journey, Leg
from sgdsl.backends.lanes import CHARS_PER_TOKEN, Lane, Provider
from sgdsl.backends.router import Router
from sgdsl.graph import Gen, Text
from sgdsl.nodes import Node, RoleBegin, RoleEnd

ANSWER_TIMEOUT_S = 3600.0
"""A run may wait in its backend's queue behind all others; a backend that dies says so at once."""

MAX_CHARS = 1 << 18
"""Of a beginning: what is longer is as good as known when so much is."""


class Fleet(Router):
    """Runs go to whichever of `backends`, all with the same model, will be through with them first:
    those with the same beginning to the same one, as long as it has not much more to do than
    another. The others take over the runs of one that fails, with all that these have.

    `options` are the router's. The backends stay their owner's to close.
    """

    def __init__(self, backends: Sequence[Backend | Provider], **options: Any) -> None:
        alike = [
            each
            if isinstance(each, Provider)
            else Provider(each, min_timeout_s=ANSWER_TIMEOUT_S, max_timeout_s=ANSWER_TIMEOUT_S)
            for each in backends
        ]
        super().__init__(alike, **options)
        self._routing = PrefixRouting(len(alike), block=BLOCK * CHARS_PER_TOKEN)
        self._sent: dict[int, Sent] = {}  # by the run's id

    def __repr__(self) -> str:
        return f"<Fleet of {len(list(self._lanes))}>"

    def _pick(self, journey: Journey, lanes: Sequence[Lane]) -> Lane:
        nodes = list(journey.run.nodes or ())
        sent = self._routing.send(
            beginning(nodes),
            num_output=CHARS_PER_TOKEN * _num_output(journey, nodes),
            among=[lane.index for lane in lanes],
        )
        self._sent[journey.run.id] = sent
        return next(lane for lane in lanes if lane.index == sent.engine)

    def _release(self, leg: Leg) -> None:
        with self._lock:
            self._routing.ended(self._sent.pop(leg.journey.run.id))
        super()._release(leg)

    def fell(self, leg: Leg, cause: BaseException, branch_id: int | None) -> bool:
        moved = super().fell(leg, cause, branch_id)
        if moved:  # what it had computed may be gone
            with self._lock:
                self._routing.forget(leg.lane.index)
        return moved


def beginning(nodes: Iterable[Node]) -> str:
    """The text before the first thing that a model writes, roles included."""
    parts: list[str] = []
    for node in nodes:
        if isinstance(node, Text):
            parts.append(node.text)
        elif isinstance(node, RoleBegin | RoleEnd):
            parts.append(f"\0{type(node).__name__} {node.role}\0")
        else:
            break
    return "".join(parts)[:MAX_CHARS]


def _num_output(journey: Journey, nodes: Iterable[Node]) -> int:
    """Tokens that may be drawn, as far as the graph is known."""
    default = journey.run.defaults.max_tokens or 0
    budgets = (node.sampling.max_tokens for node in nodes if isinstance(node, Gen))
    return sum(default if budget is None else budget for budget in budgets)
