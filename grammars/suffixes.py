"""The suffixes of a text in order. Owns the sorting.

Source: U. Manber, G. Myers, "Suffix arrays: a new method for on-line string searches", 1993, with
seven bytes at once in the first round and numpy's sort in all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FIRST_BYTES = 7
"""Of nine bits each (a byte, or the end of the text, which is below any): 63 bits."""


def suffix_array(text: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Where the suffixes of `text` begin, in the order of the suffixes. # [num_bytes]"""
    size = len(text)
    symbols = np.concatenate([text.astype(np.int64) + 1, np.zeros(FIRST_BYTES, dtype=np.int64)])
    keys = np.zeros(size, dtype=np.int64)
    for index in range(FIRST_BYTES):
        keys = (keys << 9) | symbols[index : index + size]
    order, rank = _sorted(keys)
    length = FIRST_BYTES
    while size and rank[order[-1]] < size - 1:
        second = np.zeros(size, dtype=np.int64)
        second[: max(size - length, 0)] = rank[length:] + 1
        order, rank = _sorted(rank * (size + 1) + second)
        length *= 2
    return order.astype(np.int32)


def _sorted(keys: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The order of the keys, and the place of each among those that differ."""
    order = np.argsort(keys, kind="stable")  # merges runs, and repeated texts are full of them
    ordered = keys[order]
    differs = np.ones(len(keys), dtype=bool)
    differs[1:] = ordered[1:] != ordered[:-1]
    rank = np.empty(len(keys), dtype=np.int64)
    rank[order] = differs.cumsum() - 1
    return order, rank
