"""Counter-based random numbers: a draw depends on (seed, branch, position), never on the step.

Owns the one source of randomness of sampling. A preempted row that draws again draws the same
number, and a row's numbers do not depend on its neighbours in the batch.
"""

from __future__ import annotations

from sgdsl.seeds import MASK, mix


def stream_key(seed: int, branch_id: int) -> int:
    """The key of a branch's stream: branches of one run draw independently of each other."""
    return mix(mix(seed & MASK) ^ branch_id)


def uniform(key: int, position: int) -> float:
    """The stream's number at `position`, in [0, 1)."""
    return (mix(key ^ mix(position)) >> 11) * 2.0**-53
