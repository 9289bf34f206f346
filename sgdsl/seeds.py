"""Seeds: how one number becomes many that look independent of each other.

Owns the mixing function that the seeds of a batch's rows, of nested calls and of every draw derive
from. SplitMix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
"""

from __future__ import annotations

MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def mix(value: int) -> int:
    """A bijection of 64-bit integers whose output bits look independent of the input's."""
    value = (value + _GOLDEN) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def derive_seed(seed: int, index: int) -> int:
    """The seed of part `index`: neighbouring indices give unrelated streams. 63 bits, so that it
    is a signed 64-bit integer everywhere.
    """
    return mix((seed + index * _GOLDEN) & MASK) >> 1
