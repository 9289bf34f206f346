"""Pages as tensors: those of the KV pool and those in host memory, and copies between them.

Owns the host's memory and what it means to copy a page. Which page holds what, and why it is
copied, is the prefix cache's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.cache.copies import Copy
from runtime.cache.kv import KVPool


class PageStore:
    """Pages of `page_size` slots, numbered through: those of `pool`, then `num_host_pages` more.

    A page of the host is one piece of memory, pinned where the pool is on a GPU: a transfer of
    many small pieces would not come near the bus's rate. Memory that was never used costs nothing.
    """

    def __init__(self, pool: KVPool, *, page_size: int, num_host_pages: int = 0) -> None:
        num_layers, num_kv_heads, num_slots, head_dim = pool.keys.shape
        self._pool = pool
        self._page_size = page_size
        self._num_pool_pages = num_slots // page_size
        self._host = torch.empty(
            (num_host_pages, 2, num_layers, num_kv_heads, page_size, head_dim),
            dtype=pool.keys.dtype,
            pin_memory=pool.keys.is_cuda,
        )

    @torch.inference_mode()
    def copy(self, copies: Sequence[Copy]) -> None:
        """One after another, without memory for it; enqueued where the pool is on a GPU."""
        for source, target, num_slots in copies:
            for there, here in zip(self.slots(source), self.slots(target), strict=True):
                here[:, :, :num_slots].copy_(there[:, :, :num_slots], non_blocking=True)

    @property
    def page_shape(self) -> tuple[int, ...]:
        """Of a page's keys and values, as `read` gives them."""
        return tuple(self._host.shape[1:])

    @property
    def page_bytes(self) -> int:
        return prod(self.page_shape) * self._host.dtype.itemsize

    @torch.inference_mode()
    def read(self, pages: Sequence[int]) -> Tensor:
        """A copy of them: [len(pages), *page_shape]."""
        found = torch.empty((len(pages), *self.page_shape), dtype=self._host.dtype)
        for there, page in zip(found, pages, strict=True):
            for part, here in zip(there, self.slots(page), strict=True):
                part.copy_(here)
        return found

    @torch.inference_mode()
    def write(self, page: int, content: NDArray[np.float32]) -> None:
        """Fill the page with what `read` gave of one."""
        for here, part in zip(self.slots(page), content, strict=True):
            here.copy_(torch.from_numpy(part))

    def slots(self, page: int) -> tuple[Tensor, Tensor]:
        """The page's keys and values: [num_layers, num_kv_heads, page_size, head_dim] each."""
        if page >= self._num_pool_pages:
            keys, values = self._host[page - self._num_pool_pages]
            return keys, values
        here = slice(page * self._page_size, (page + 1) * self._page_size)
        return self._pool.keys[:, :, here], self._pool.values[:, :, here]
