"""How many CPU threads torch has, and how they wait for each other.

Owns one setting of the OpenMP library that torch brings, which reads it once, when torch is first
imported: so it is set when `runtime` is, and only where the user has not said anything. And the
rule for how many threads there are.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

SPIN_COUNT = 5_000
"""Turns that a thread spins before it sleeps; GCC's OpenMP spins 60 times longer by default.

On two cores and a quiet machine the two are equally fast. Beside one other busy process, though,
the default waits in full for a thread that is not running, at every operator: steps took 3 to 12
seconds that take 0.3 with this (and 0.1 on the quiet machine).
"""


def share_the_cores() -> None:
    """Let a thread that waits give its core away soon. Must run before torch is imported."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPIN_COUNT))


def num_threads(torch_has: int, *, quota_file: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """How many threads are to compute: as many as torch has by itself (one for each physical core
    that the process may use, or OMP_NUM_THREADS), but no more than a container's CPU quota pays
    for, rounded up. Threads beyond it only wait for each other.

    quota_file: of control groups, version 2: microseconds of CPU time, or "max", and the period.
    """
    try:
        quota, period = quota_file.read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return torch_has
    if quota == "max" or "OMP_NUM_THREADS" in os.environ:
        return torch_has
    return max(1, min(torch_has, math.ceil(int(quota) / int(period))))
