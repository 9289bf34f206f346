"""From the host to the device: the arrays of a step in one copy.

Owns the pinned memory that such copies start from. Several buffers take turns, so that the host can
lay out a step while the copies of the one before are still to be made: they are enqueued behind its
work. A buffer is written again only when its copy is done. Knows nothing of what the arrays mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Int32 = NDArray[np.int32]

NUM_BUFFERS = 8
"""Two steps of two copies, and as many more for what is asked for seldom (log-probabilities)."""


class Staging:
    """Copies int32 arrays to `device`; where that is the host, copies them all the same."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._buffers = cycle([Buffer(device) for _ in range(NUM_BUFFERS)])

    def send(self, arrays: Sequence[Int32]) -> list[Tensor]:
        """The arrays on the device, flat: views of one tensor, which is copied at once. They are
        there for whatever is enqueued behind this call.
        """
        buffer = next(self._buffers)
        packed = buffer.pack(arrays)
        sent = packed.to(self.device, non_blocking=True, copy=True)
        buffer.mark()
        sizes = [array.size for array in arrays]
        return list(sent.split(sizes))  # type: ignore[no-untyped-call]

    def send_into(self, target: Tensor, arrays: Sequence[Int32]) -> None:
        """Copies the arrays, one behind the other, to the beginning of `target`, int32 [size]."""
        buffer = next(self._buffers)
        packed = buffer.pack(arrays)
        target[: len(packed)].copy_(packed, non_blocking=True)
        buffer.mark()


class Fence:
    """A point in the device's work that the host can wait for. A host has come to it at once."""

    def __init__(self, device: torch.device) -> None:
        self._is_needed = device.type == "cuda"
        self._event: torch.cuda.Event | None = None

    def set(self) -> None:
        """Behind all that is enqueued."""
        if self._is_needed:
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def wait(self) -> None:
        if self._event is not None:
            self._event.synchronize()


class Buffer:
    """Host memory that grows, and when it may be written again."""

    def __init__(self, device: torch.device) -> None:
        self._pinned = device.type == "cuda"
        self._memory = torch.empty(0, dtype=torch.int32)
        self._copied = Fence(device)

    def pack(self, arrays: Sequence[Int32]) -> Tensor:
        """The arrays one behind the other, when nobody reads what stood there any more."""
        self._copied.wait()
        size = sum(array.size for array in arrays)
        if size > len(self._memory):
            self._memory = torch.empty(2 * size, dtype=torch.int32, pin_memory=self._pinned)
        packed = self._memory[:size]
        if size:
            np.concatenate([array.ravel() for array in arrays], out=packed.numpy())
        return packed

    def mark(self) -> None:
        """The copy is enqueued: the memory is free when the device has come to this point."""
        self._copied.set()
