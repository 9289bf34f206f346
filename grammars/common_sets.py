"""The sets of bytes that most tokens are made of. Owns which of them are walked for all grammars.

It must not know of states and tries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grammars.char_walks import BORDER
from grammars.states import members

_LOWER = sum(1 << byte for byte in b"abcdefghijklmnopqrstuvwxyz")
_UPPER = sum(1 << byte for byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_WORD = _LOWER | _UPPER | sum(1 << byte for byte in b"0123456789")
_SPACED = _WORD | 1 << ord(" ")
_PRINTED = sum(1 << byte for byte in range(32, 127)) & ~(1 << ord('"') | 1 << ord("\\"))

SETS = (_PRINTED, _SPACED, _WORD, _LOWER | _UPPER, _LOWER, _UPPER)
"""The widest first: a few, since the walks of each take memory, and more time than they save once.
What is said of other sets goes by the widest of these within."""


def steps_of(inside: int) -> NDArray[np.uint8]:
    """The steps of a set of bytes (see `char_walks`). # uint8 [2, 256]"""
    steps = np.zeros((2, 256), dtype=np.uint8)
    steps[1, members(inside)] = BORDER
    return steps


def mask_of(is_inside: NDArray[np.bool_]) -> int:
    """A set of bytes by a flag for each. # bool [256] -> an int with bit b set for byte b"""
    return int.from_bytes(np.packbits(is_inside, bitorder="little").tobytes(), "little")


def set_within(mask: int) -> int:
    """The widest of the SETS that a set has all bytes of; 0 where it has none."""
    return next((inside for inside in SETS if inside & mask == inside), 0)
