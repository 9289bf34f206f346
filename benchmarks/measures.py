"""Small arithmetic of measurements: clocks and percentiles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Of a set of times, in seconds; all 0 where there are none."""

    p50: float = 0.0
    p99: float = 0.0
    most: float = 0.0


def spread_of(seconds: Sequence[float]) -> Spread:
    """The median, the 99th percentile and the greatest."""
    if not seconds:
        return Spread()
    return Spread(*(float(value) for value in np.percentile(seconds, [50, 99, 100])))


def thread_seconds(call: Callable[[], object], *, rounds: int = 1) -> float:
    """Seconds of this thread's CPU for one call, the mean of `rounds`."""
    began = time.thread_time()
    for _ in range(rounds):
        call()
    return (time.thread_time() - began) / rounds
