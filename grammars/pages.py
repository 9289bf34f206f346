"""Large arrays that are filled bit by bit. Owns how their memory comes.

It must not know what is in them.
"""

from __future__ import annotations

import math
import mmap
import sys

import numpy as np
from numpy.typing import NDArray


def int32_zeros(*shape: int) -> NDArray[np.int32]:
    """As `numpy.zeros`, but the memory comes in small pages: each when it is first written to.

    NumPy asks for huge pages where an array is large. The first write to one clears 2 MiB, which
    takes milliseconds in a virtual machine, and it falls upon whoever computes a mask just then.
    """
    if sys.platform == "win32":
        return np.zeros(shape, dtype=np.int32)
    count = math.prod(shape)
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # a fork has its own
    memory = mmap.mmap(-1, max(4 * count, 1), flags=private)
    if sys.platform == "linux":
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype=np.int32, count=count).reshape(shape)
