"""Decodes planned in memory that stays: what CUDA graphs are recorded over.

Owns that memory, and the padding of a batch to the number of rows that it has room for. How rows
are computed is `runtime.attention.flashinfer`'s business, recording that of `executor.cuda_graph`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from runtime.attention.base import AttentionKind
from runtime.attention.flashinfer import FlashInferAttention, Inputs, PageTable, Part
from runtime.attention.page_arrays import arrays_of, padded
from runtime.batch import Batch


class StaticDecodes:
    """An `AttentionPlan` for `num_rows` decodes that is renewed in place: what a step reads lies
    where it lay the step before, and only `renew` changes what it is.
    """

    def __init__(
        self, attention: FlashInferAttention, num_rows: int, *, kv_indices: Tensor
    ) -> None:
        """kv_indices: int32 [max_pages]; plans that take turns may share it."""
        self.num_rows = num_rows
        self._attention = attention
        device = attention.pool.device
        borders = torch.zeros(num_rows + 1, dtype=torch.int32, device=device)
        lengths = torch.ones(num_rows, dtype=torch.int32, device=device)
        wrappers = {
            kind: attention.static_wrapper(borders, kv_indices, lengths) for kind in attention.kinds
        }
        self._part = Part(None, wrappers)
        self._packed = torch.zeros(3 * num_rows + len(kv_indices), dtype=torch.int32, device=device)
        self._inputs = torch.zeros(3, num_rows, dtype=torch.int64, device=device)
        token_ids, positions, slots = self._inputs
        self.inputs = Inputs(token_ids, positions, slots, needed=slots[:0])

    def renew(self, batch: Batch) -> None:
        """Put a batch of decodes in; what is missing to the number of rows is padding."""
        attention, pool = self._attention, self._attention.pool
        zeros = np.zeros(self.num_rows - batch.num_rows, dtype=np.int32)
        scratch = zeros + np.int32(pool.scratch_page * pool.page_size)
        arrays = padded(
            arrays_of(batch, range(batch.num_rows)), self.num_rows, scratch_page=pool.scratch_page
        )
        begin = 3 * self.num_rows
        end = begin + len(arrays.kv_indices)
        assert end <= len(self._packed), "no row has more pages than were foreseen"
        inputs = [batch.token_ids, zeros, batch.positions, zeros, batch.slots, scratch]
        attention.staging.send_into(self._packed, [*inputs, arrays.kv_indices])
        self._inputs.view(-1).copy_(self._packed[:begin])
        kv_indices = self._packed[begin:end]
        with attention.planning():
            for kind, wrapper in self._part.wrappers.items():
                attention.plan_decode(wrapper, PageTable(arrays, kv_indices), kind)

    def run(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        kind: AttentionKind,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """See `AttentionPlan`."""
        pool = self._attention.pool
        pool.write(layer, self.inputs.slots, keys, values)
        asked = queries.to(self._attention.dtype).contiguous()
        out = self._part.attend(asked, pool.layer(layer), kind=kind, sinks=sinks)
        return out.to(queries.dtype)
