"""The KV tensors: one pool of slots for all layers, sized once.

Owns the memory. Which slot holds what is the prefix cache's and the scheduler's business.
"""

from __future__ import annotations

import torch
from torch import Tensor


class KVPool:
    """keys, values: [num_layers, num_kv_heads, num_slots, head_dim].

    Heads come before slots, so that a gather of slots gives each head one contiguous matrix.
    Untouched memory is never written, so that it costs nothing until a slot is used.
    """

    def __init__(
        self,
        *,
        num_layers: int,
        num_kv_heads: int,
        head_dim: int,
        num_slots: int,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> None:
        shape = (num_layers, num_kv_heads, num_slots, head_dim)
        self.keys = torch.empty(shape, dtype=dtype, device=device)
        self.values = torch.empty(shape, dtype=dtype, device=device)

    def write(self, layer: int, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """slots: int64 [num_tokens]; keys, values: [num_tokens, num_kv_heads, head_dim]."""
        self.keys[layer].index_copy_(1, slots, keys.transpose(0, 1).to(self.keys.dtype))
        self.values[layer].index_copy_(1, slots, values.transpose(0, 1).to(self.values.dtype))


def bytes_per_token(
    *, num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype = torch.float32
) -> int:
    """KV bytes of one token over all layers."""
    return 2 * num_layers * num_kv_heads * head_dim * dtype.itemsize
