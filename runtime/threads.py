"""How torch's CPU threads wait for each other.

Owns one setting of the OpenMP library that torch brings, which reads it once, when torch is first
imported: so it is set when `runtime` is, and only where the user has not said anything.
"""

from __future__ import annotations

import os

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
