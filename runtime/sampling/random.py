"""Counter-based random numbers: a draw depends on (seed, branch, position), never on the step.

Owns the one source of randomness of sampling. A preempted row that draws again draws the same
number, and a row's numbers do not depend on its neighbours in the batch. SplitMix64 (Steele, Lea,
Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014) is the mixing function.
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(value: int) -> int:
    """A bijection of 64-bit integers whose output bits look independent of the input's."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def stream_key(seed: int, branch_id: int) -> int:
    """The key of a branch's stream: branches of one run draw independently of each other."""
    return mix(mix(seed & _MASK) ^ branch_id)


def uniform(key: int, position: int) -> float:
    """The stream's number at `position`, in [0, 1)."""
    return (mix(key ^ mix(position)) >> 11) * 2.0**-53
