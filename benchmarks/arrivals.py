"""When rows come: all at once, or one by one whether or not the engine keeps up.

Owns the times of an open-loop Poisson process, and the threads that start rows at their times.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.watch import Span, Watched
from benchmarks.workloads.workload import Row, Workload
from sgdsl import ProgramState
from sgdsl.backends.base import Backend


@dataclass(frozen=True)
class Arrived:
    """The states in the order of the rows, and the spans of all their gens and selects."""

    states: list[ProgramState[Any]]
    spans: list[Span]


def poisson_times(count: int, rate: float, seed: int) -> list[float]:
    """Seconds from the start at which rows come, `rate` a second in the mean: the gaps between them
    are drawn from the exponential distribution.
    """
    draw, now, times = random.Random(f"arrivals {seed}"), 0.0, list[float]()
    for _ in range(count):
        now += draw.expovariate(rate)
        times.append(now)
    return times


def all_at_once(workload: Workload, rows: Sequence[Row], backend: Backend) -> Arrived:
    """One batch; every row has come when it begins."""
    watched = Watched(backend, time.perf_counter())
    states = workload.program.run_batch([row.arguments for row in rows], backend=watched)
    return Arrived(states, watched.spans)


def at_times(
    workload: Workload, rows: Sequence[Row], backend: Backend, times: Sequence[float]
) -> Arrived:
    """Each row at its time, on a thread of its own. What it waits before it is started, because the
    machine is busy, counts.
    """
    began = time.perf_counter()
    watched = [Watched(backend, began + at_s) for at_s in times]
    states: list[ProgramState[Any] | None] = [None] * len(rows)
    errors: list[BaseException] = []

    def run(index: int) -> None:
        try:
            states[index] = workload.program.run(args=rows[index].arguments, backend=watched[index])
        except BaseException as error:  # noqa: BLE001 - raised where the rows are waited for
            errors.append(error)

    threads = []
    for index, at_s in enumerate(times):
        time.sleep(max(0.0, began + at_s - time.perf_counter()))
        threads.append(threading.Thread(target=run, args=(index,), name=f"row {index}"))
        threads[-1].start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    spans = [span for each in watched for span in each.spans]
    return Arrived([state for state in states if state is not None], spans)
