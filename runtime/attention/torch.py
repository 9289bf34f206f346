"""Paged attention in plain torch: the CPU path, and the reference for every other.

Owns how a ragged batch attends to its pages. Two shapes of work, planned once a step and used by
every layer: rows of one token (decodes), batched in groups of similar length, whose common first
pages are read once for the whole group; and rows of several tokens (prefill), one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from runtime.batch import Batch
from runtime.cache.kv import KVPool

GROUP_ROWS = 16
"""Decodes that are computed as one padded block; sorted by length, so that little of it is padding.
"""


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """tokens: int64 [B] rows' places in the batch. shared: int64 [S] slots that all of them attend
    to. own: int64 [B * U] each row's further slots, padded. bias: [1, B, 1, U] 0, or -inf at the
    padding.
    """

    tokens: Tensor
    shared: Tensor
    own: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class PrefillRow:
    """A row of several tokens. slots: int64 [kv_len]; allowed: bool [num_tokens, kv_len]."""

    start: int
    end: int
    slots: Tensor
    allowed: Tensor


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """What a step's attention needs besides queries, keys and values."""

    pool: KVPool
    slots: Tensor  # int64 [num_tokens]: where the new KV goes
    decodes: list[DecodeGroup]
    prefills: list[PrefillRow]

    def run(
        self, layer: int, queries: Tensor, keys: Tensor, values: Tensor, scale: float
    ) -> Tensor:
        """queries: [num_heads, num_tokens, head_dim]; keys, values: [num_kv_heads, num_tokens,
        head_dim] of the new tokens, which are stored first. Returns [num_tokens, num_heads,
        head_dim].
        """
        self.pool.write(layer, self.slots, keys, values)
        num_heads, num_tokens, head_dim = queries.shape
        out = queries.new_empty(num_tokens, num_heads, head_dim)
        cached_keys, cached_values = self.pool.keys[layer], self.pool.values[layer]
        for group in self.decodes:
            out[group.tokens] = _decode(group, queries, cached_keys, cached_values, scale)
        for row in self.prefills:
            out[row.start : row.end] = _prefill(row, queries, cached_keys, cached_values, scale)
        return out


def plan_attention(batch: Batch, pool: KVPool) -> AttentionPlan:
    """Sort the batch's rows into decode groups and prefill rows."""
    slots = _row_slots(batch)
    lengths = np.diff(batch.qo_indptr)
    decodes = [row for row in np.argsort(batch.kv_lens, kind="stable") if lengths[row] == 1]
    groups = [decodes[i : i + GROUP_ROWS] for i in range(0, len(decodes), GROUP_ROWS)]
    return AttentionPlan(
        pool=pool,
        slots=torch.from_numpy(batch.slots.astype(np.int64)),
        decodes=[_decode_group(batch, group, slots) for group in groups],
        prefills=[
            _prefill_row(batch, row, slots[row])
            for row in range(batch.num_rows)
            if lengths[row] > 1
        ],
    )


def _row_slots(batch: Batch) -> list[NDArray[np.int64]]:
    """For each row the slots of all tokens that it attends to, in order."""
    offsets = np.arange(batch.page_size, dtype=np.int64)
    found = []
    for row in range(batch.num_rows):
        pages = batch.kv_indices[batch.kv_indptr[row] : batch.kv_indptr[row + 1]].astype(np.int64)
        slots = (pages[:, None] * batch.page_size + offsets).reshape(-1)
        found.append(slots[: batch.kv_lens[row]])
    return found


def _decode_group(batch: Batch, rows: list[int], slots: list[NDArray[np.int64]]) -> DecodeGroup:
    shared = _common_length([slots[row] for row in rows])
    own = [slots[row][shared:] for row in rows]
    width = max(len(row) for row in own)
    padded = np.zeros((len(rows), width), dtype=np.int64)
    bias = np.full((len(rows), width), -np.inf, dtype=np.float32)
    for index, row in enumerate(own):
        padded[index, : len(row)] = row
        bias[index, : len(row)] = 0.0
    return DecodeGroup(
        tokens=torch.from_numpy(batch.qo_indptr[rows].astype(np.int64)),
        shared=torch.from_numpy(slots[rows[0]][:shared].copy()),
        own=torch.from_numpy(padded.reshape(-1)),
        bias=torch.from_numpy(bias)[None, :, None, :],
    )


def _common_length(rows: list[NDArray[np.int64]]) -> int:
    """How many first slots are the same in all rows; every row keeps one of its own."""
    shortest = min(len(row) for row in rows) - 1
    if len(rows) == 1:
        return 0
    same = np.ones(shortest, dtype=bool)
    for row in rows[1:]:
        same &= row[:shortest] == rows[0][:shortest]
    return shortest if same.all() else int(np.argmin(same))


def _prefill_row(batch: Batch, row: int, slots: NDArray[np.int64]) -> PrefillRow:
    start, end = int(batch.qo_indptr[row]), int(batch.qo_indptr[row + 1])
    kv_len = len(slots)
    first = kv_len - (end - start)  # the position of the row's first token
    positions = torch.arange(first, kv_len)
    return PrefillRow(
        start=start,
        end=end,
        slots=torch.from_numpy(slots),
        allowed=torch.arange(kv_len)[None, :] <= positions[:, None],
    )


def _decode(
    group: DecodeGroup, queries: Tensor, keys: Tensor, values: Tensor, scale: float
) -> Tensor:
    """One softmax over the shared and the own slots of each row: [B, num_heads, head_dim]."""
    num_kv_heads, _, head_dim = keys.shape
    rows = len(group.tokens)
    per_kv = queries.shape[0] // num_kv_heads
    # [num_kv_heads, B, per_kv, head_dim]: the queries that read the same keys stand together
    q = queries[:, group.tokens].view(num_kv_heads, per_kv, rows, head_dim).transpose(1, 2)
    q = (q * scale).reshape(num_kv_heads, rows * per_kv, head_dim)
    own_keys = keys.index_select(1, group.own).view(num_kv_heads * rows, -1, head_dim)
    own_values = values.index_select(1, group.own).view(num_kv_heads * rows, -1, head_dim)
    own_q = q.view(num_kv_heads * rows, per_kv, head_dim)
    own = torch.bmm(own_q, own_keys.transpose(1, 2)).view(num_kv_heads, rows, per_kv, -1)
    own += group.bias
    num_shared = len(group.shared)
    if num_shared == 0:
        weights = own.softmax(-1).view(num_kv_heads * rows, per_kv, -1)
        mixed = torch.bmm(weights, own_values).view(num_kv_heads, rows, per_kv, head_dim)
    else:
        shared_keys = keys.index_select(1, group.shared)
        shared = torch.bmm(q, shared_keys.transpose(1, 2))
        scores = torch.cat([shared.view(num_kv_heads, rows, per_kv, -1), own], dim=-1)
        weights = scores.softmax(-1)
        on_shared = weights[..., :num_shared].reshape(num_kv_heads, rows * per_kv, -1)
        on_own = weights[..., num_shared:].reshape(num_kv_heads * rows, per_kv, -1)
        mixed = torch.bmm(on_shared, values.index_select(1, group.shared)).view(
            num_kv_heads, rows, per_kv, head_dim
        )
        mixed = mixed + torch.bmm(on_own, own_values).view_as(mixed)
    return mixed.transpose(0, 1).reshape(rows, -1, head_dim)


def _prefill(
    row: PrefillRow, queries: Tensor, keys: Tensor, values: Tensor, scale: float
) -> Tensor:
    """[num_tokens, num_heads, head_dim] of one row."""
    mixed = functional.scaled_dot_product_attention(
        queries[None, :, row.start : row.end],
        keys.index_select(1, row.slots)[None],
        values.index_select(1, row.slots)[None],
        attn_mask=row.allowed,
        scale=scale,
        enable_gqa=True,
    )
    return mixed[0].transpose(0, 1)
