"""What a simulation came to.

Owns the numbers that are told, and how they are taken from requests and replicas.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.simulation.replica import Replica, Request


@dataclass(frozen=True)
class Report:
    """Seconds of simulated time. `goodput`: the share of requests whose first token came within
    `deadline_s`. `balance`: the mean of the replicas' busy times, of the greatest of them.
    """

    requests: int
    makespan_s: float
    requests_per_s: float
    output_tokens_per_s: float
    ttft_p50_s: float
    ttft_p95_s: float
    ttft_p99_s: float
    itl_p50_s: float
    itl_p99_s: float
    goodput: float
    cache_hit_rate: float
    preemptions: int
    steps: int
    busy_share: float
    balance: float


class Tally:
    """Takes requests as they end; keeps their times, not them. `grain`: real tokens a symbol."""

    def __init__(self, *, grain: int, deadline_s: float) -> None:
        self._grain = grain
        self._deadline_s = deadline_s
        self._ttft, self._itl = array("d"), array("d")
        self._num_symbols = 0
        self._last_s = 0.0

    def add(self, request: Request) -> None:
        self._ttft.append(request.first_s - request.arrived_s)
        steps = len(request.answer) - 1
        if steps > 0:
            drawing_s = request.finished_s - request.first_s
            self._itl.append(drawing_s / (steps * self._grain))
        self._num_symbols += 1 + steps * self._grain
        self._last_s = max(self._last_s, request.finished_s)

    def report(self, replicas: Sequence[Replica]) -> Report:
        ttft = np.frombuffer(self._ttft)
        itl = np.frombuffer(self._itl) if self._itl else np.zeros(1)
        counts = [replica.engine.scheduler.counts for replica in replicas]
        busy = [replica.executor.busy_s for replica in replicas]
        return Report(
            requests=len(ttft),
            makespan_s=self._last_s,
            requests_per_s=len(ttft) / self._last_s,
            output_tokens_per_s=self._num_symbols / self._last_s,
            ttft_p50_s=float(np.percentile(ttft, 50)),
            ttft_p95_s=float(np.percentile(ttft, 95)),
            ttft_p99_s=float(np.percentile(ttft, 99)),
            itl_p50_s=float(np.percentile(itl, 50)),
            itl_p99_s=float(np.percentile(itl, 99)),
            goodput=float((ttft <= self._deadline_s).mean()),
            cache_hit_rate=sum(c.cached_tokens for c in counts)
            / max(1, sum(c.prompt_tokens for c in counts)),
            preemptions=sum(c.preemptions for c in counts),
            steps=sum(replica.executor.num_steps for replica in replicas),
            busy_share=sum(busy) / (len(busy) * self._last_s),
            balance=sum(busy) / (len(busy) * max(busy)) if max(busy) else 1.0,
        )
