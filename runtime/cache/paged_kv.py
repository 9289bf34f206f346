"""The KV tensors as FlashInfer reads them: pages of slots, each slot with all its heads (NHD).

Owns the memory on a GPU, in bfloat16, float16 or 8 bits. Which slot holds what is the prefix
cache's and the scheduler's business. The pool of the CPU path is `runtime.cache.kv`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from runtime.cache.copies import Copy

FP8 = torch.float8_e4m3fn


class PagedKVPool:
    """keys, values: [num_layers, num_pages + num_scratch_pages, page_size, num_kv_heads, head_dim].

    The pages from `scratch_page` on are scratch: rows that pad a batch write to the first, and the
    tokens of trees to all of them; what stands there is of no use to a later step. In 8 bits a
    number is kept as it is, without a scale, cut off at the largest one that there is.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        num_pages: int,
        page_size: int,
        num_scratch_pages: int = 1,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.page_size = page_size
        self.scratch_page = num_pages
        self.dtype = dtype
        all_pages = num_pages + num_scratch_pages
        shape = (num_layers, all_pages, page_size, num_kv_heads, head_dim)
        # Slots that nothing was written to are read with no weight: no NaN may come of that.
        self.keys = torch.zeros(shape, dtype=dtype, device=device)
        self.values = torch.zeros(shape, dtype=dtype, device=device)

    @property
    def device(self) -> torch.device:
        return self.keys.device

    @property
    def num_kv_heads(self) -> int:
        return self.keys.shape[3]

    @property
    def head_dim(self) -> int:
        return self.keys.shape[4]

    def layer(self, layer: int) -> tuple[Tensor, Tensor]:
        """Keys and values, each [all pages, page_size, num_kv_heads, head_dim]."""
        return self.keys[layer], self.values[layer]

    def copy(self, copies: Sequence[Copy]) -> None:
        """One after another, without memory for it."""
        for source, target, num_slots in copies:
            for pages in (self.keys, self.values):
                pages[:, target, :num_slots].copy_(pages[:, source, :num_slots])

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """slots: int64 [num_tokens]; keys, values: [num_tokens, num_kv_heads, head_dim]."""
        for pages, new in ((self.keys[layer], keys), (self.values[layer], values)):
            in_slots = pages.view(-1, *new.shape[1:])
            if self.dtype == FP8:
                # Copied as bytes: by index, not every version of torch copies this type.
                in_slots.view(torch.uint8).index_copy_(0, slots, _cut_off(new).view(torch.uint8))
            else:
                in_slots.index_copy_(0, slots, new.to(self.dtype))


def _cut_off(new: Tensor) -> Tensor:
    """In 8 bits. Beyond the largest number the conversion alone makes NaN."""
    greatest = torch.finfo(FP8).max
    return new.clamp(-greatest, greatest).to(FP8)
