"""Paged attention in plain torch: the CPU path, and the reference for every other.

Owns how a ragged batch attends to its pages. Two shapes of work, planned once a step and used by
every layer. Rows of one token (decodes) read keys and values where they lie in the pool: which
query meets which slot is a sparse matrix, whose products are computed entry by entry, and nothing
is gathered. Where such rows share first pages, these are read once for all of them (Hydragen,
arXiv:2402.05099). Rows of several tokens (prefill, trees of options) are computed one at a time: a
token attends to what was computed before the step, and to those of its own row that it follows.
That is done before new KV is stored, since a tree's may take the place of older.

KV is float32 whatever the model's weights are: torch has the sparse product in no smaller type, and
it reads 16-bit KV no faster.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from runtime.attention.base import AttentionKind
from runtime.attention.trees import seen_in_tree
from runtime.batch import Batch
from runtime.cache.kv import KVPool

WORTH_SHARING = 128
"""Slots that need not be read, from which on a common prefix is computed apart. Reading one takes a
row of the default model 0.3 us, the operators more that it takes 30 us a layer.
"""

UNEVEN = 1.25
"""A group's longest row against its shortest: so much of it may be padding."""

with warnings.catch_warnings():
    # Said once a process, about the API: https://docs.pytorch.org/docs/stable/sparse.html
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
    torch.sparse_csr_tensor([0, 0], [], [], size=(1, 1), check_invariants=False)


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """B rows of one token. tokens: int64 [B] their places in the batch. shared: int64 [P] pages
    that all of them attend to. bias: sparse [B * num_heads, num_kv_heads * num_slots], an entry for
    each further slot of a row and for padding to the U slots of the longest one; 0, or -inf at
    padding. columns, offsets: the entries' columns, int32 [B * num_heads * U], and where each row
    begins.
    """

    tokens: Tensor
    shared: Tensor
    bias: Tensor
    columns: Tensor
    offsets: Tensor


@dataclass(frozen=True, slots=True)
class PrefillRow:
    """A row of several tokens. pages: int64 [P], which hold what was computed before; bias:
    [num_tokens, num_before + num_tokens] 0, or -inf where a token does not attend.
    """

    start: int
    end: int
    pages: Tensor
    bias: Tensor

    @property
    def num_before(self) -> int:
        return self.bias.shape[1] - self.bias.shape[0]


@dataclass(frozen=True, slots=True)
class TorchPlan:
    """What a step's attention needs besides queries, keys and values."""

    pool: KVPool
    page_size: int
    slots: Tensor  # int64 [num_stored]: where the new KV goes
    stored: Tensor | None  # int64 [num_stored]: the tokens that have a slot; None: all
    decodes: list[DecodeGroup]
    prefills: list[PrefillRow]

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
        assert kind == AttentionKind(kind.scale) and sinks is None, "other models are refused"
        scale = kind.scale
        cached_keys, cached_values = self.pool.keys[layer], self.pool.values[layer]
        wanted = queries.float()
        out = torch.empty(wanted.shape)
        for row in self.prefills:
            here = slice(row.start, row.end)
            all_keys = self._with_own(row, cached_keys, keys[here])
            all_values = self._with_own(row, cached_values, values[here])
            out[here] = _prefill(wanted[here], all_keys, all_values, row.bias, scale)
        if self.stored is not None:
            keys, values = keys[self.stored], values[self.stored]
        self.pool.write(layer, self.slots, keys, values)
        for group in self.decodes:
            asked = wanted[group.tokens]
            out[group.tokens] = self._decode(group, asked, cached_keys, cached_values, scale)
        return out.to(queries.dtype)

    def _decode(
        self, group: DecodeGroup, queries: Tensor, keys: Tensor, values: Tensor, scale: float
    ) -> Tensor:
        """One softmax over the shared and the own slots of each row: [B, num_heads, head_dim]."""
        rows, num_heads, dim = queries.shape
        num_kv_heads = keys.shape[0]
        own_queries = queries.view(-1, dim)
        products = torch.sparse.sampled_addmm(
            group.bias, own_queries, keys.view(-1, dim).t(), alpha=scale
        )
        scores = products.values().view(rows * num_heads, -1)
        num_shared = len(group.shared) * self.page_size
        if num_shared:
            # [num_kv_heads, B * per_kv, head_dim]: queries that read the same keys stand together
            grouped = queries.view(rows, num_kv_heads, -1, dim).transpose(0, 1) * scale
            shared_keys = self._read(keys, group.shared)
            shared = torch.bmm(grouped.flatten(1, 2), shared_keys.transpose(1, 2))
            shared = shared.view(num_kv_heads, rows, -1, num_shared).transpose(0, 1)
            scores = torch.cat([shared.reshape(rows * num_heads, -1), scores], dim=-1)
        weights = scores.softmax(-1)
        mixed: Tensor = torch.embedding_bag(
            values.view(-1, dim),
            group.columns,
            group.offsets,
            mode=0,  # a sum
            per_sample_weights=weights[:, num_shared:].reshape(-1),
        )[0].view(rows, num_heads, dim)
        if num_shared:
            on_shared = weights[:, :num_shared].view(rows, num_kv_heads, -1, num_shared)
            shared = torch.bmm(
                on_shared.transpose(0, 1).flatten(1, 2), self._read(values, group.shared)
            )
            mixed += shared.view(num_kv_heads, rows, -1, dim).transpose(0, 1).reshape(mixed.shape)
        return mixed

    def _with_own(self, row: PrefillRow, cached: Tensor, own: Tensor) -> Tensor:
        """[num_kv_heads, num_before + num_tokens, head_dim]: what lies in the row's pages, then
        own: [num_tokens, num_kv_heads, head_dim].
        """
        turned = own.transpose(0, 1).to(cached.dtype)
        if not row.num_before:
            return turned
        return torch.cat([self._read(cached, row.pages)[:, : row.num_before], turned], dim=1)

    def _read(self, cached: Tensor, pages: Tensor) -> Tensor:
        """cached: [num_kv_heads, num_slots, head_dim]; all slots of `pages`, one after another."""
        num_kv_heads, _, dim = cached.shape
        in_pages = cached.view(num_kv_heads, -1, self.page_size * dim)
        return in_pages.index_select(1, pages).view(num_kv_heads, -1, dim)


def _prefill(queries: Tensor, keys: Tensor, values: Tensor, bias: Tensor, scale: float) -> Tensor:
    """keys, values: [num_kv_heads, kv_len, head_dim]; bias: [num_tokens, kv_len]. Returns what
    `queries` is like: [num_tokens, num_heads, head_dim].
    """
    _, num_heads, dim = queries.shape
    num_kv_heads, kv_len, _ = keys.shape
    # [num_kv_heads, per_kv, ...]: keys and values are expanded over per_kv, not repeated
    grouped = queries.view(-1, num_kv_heads, num_heads // num_kv_heads, dim).permute(1, 2, 0, 3)
    shape = (num_kv_heads, num_heads // num_kv_heads, kv_len, dim)
    mixed = functional.scaled_dot_product_attention(
        grouped,
        keys[:, None].expand(shape),
        values[:, None].expand(shape),
        attn_mask=bias,
        scale=scale,
    )
    return mixed.flatten(0, 1).transpose(0, 1)


class TorchAttention:
    """An `AttentionBackend` over `pool`. `num_heads`: of the queries."""

    def __init__(self, pool: KVPool, *, num_heads: int) -> None:
        self._pool = pool
        self._num_heads = num_heads

    def plan(self, batch: Batch) -> TorchPlan:
        return _plan(batch, self._pool, num_heads=self._num_heads)


def _plan(batch: Batch, pool: KVPool, *, num_heads: int) -> TorchPlan:
    """Sort the batch's rows into decode groups and prefill rows."""
    decodes = np.diff(batch.qo_indptr) == 1
    decodes[list(batch.trees)] = False
    groups = [
        group
        for rows, num_shared in _clusters(batch, np.flatnonzero(decodes).tolist())
        for group in _even_groups(batch, rows, num_shared)
    ]
    stored = np.flatnonzero(batch.slots >= 0)
    return TorchPlan(
        pool=pool,
        page_size=batch.page_size,
        slots=torch.from_numpy(batch.slots[stored].astype(np.int64)),
        stored=None if len(stored) == len(batch.slots) else torch.from_numpy(stored),
        decodes=[
            _decode_group(batch, rows, num_shared, pool=pool, num_heads=num_heads)
            for rows, num_shared in groups
        ],
        prefills=[_prefill_row(batch, row) for row in np.flatnonzero(~decodes).tolist()],
    )


Rows = tuple[list[int], int]
"""Rows of a batch, and how many first pages they are to share."""


def _clusters(batch: Batch, rows: list[int]) -> Iterator[Rows]:
    """Decodes by what they share: those with a common beginning that pays, then all others."""
    by_first: dict[int, list[int]] = {}
    for row in rows:
        by_first.setdefault(int(_pages(batch, row)[0]), []).append(row)
    others = []
    for cluster in by_first.values():
        num_shared = _num_common(batch, cluster) if len(cluster) > 1 else 0
        if (len(cluster) - 1) * num_shared * batch.page_size >= WORTH_SHARING:
            yield cluster, num_shared
        else:
            others += cluster
    if others:
        yield others, 0


def _even_groups(batch: Batch, rows: list[int], num_shared: int) -> Iterator[Rows]:
    """The rows in groups of similar length."""
    skipped = num_shared * batch.page_size
    group: list[int] = []
    for row in sorted(rows, key=lambda row: int(batch.kv_lens[row])):
        length = int(batch.kv_lens[row]) - skipped
        if group and length > UNEVEN * (batch.kv_lens[group[0]] - skipped) + batch.page_size:
            yield group, num_shared
            group = []
        group.append(row)
    yield group, num_shared


def _num_common(batch: Batch, rows: list[int]) -> int:
    """How many first pages are the same in all rows; every row keeps a slot of its own."""
    num = (int(batch.kv_lens[rows].min()) - 1) // batch.page_size
    first = _pages(batch, rows[0])[:num]
    for row in rows[1:]:
        different = np.flatnonzero(_pages(batch, row)[:num] != first[:num])
        num = int(different[0]) if len(different) else num
    return num


def _pages(batch: Batch, row: int) -> NDArray[np.int32]:
    return batch.kv_indices[batch.kv_indptr[row] : batch.kv_indptr[row + 1]]


def _decode_group(
    batch: Batch, rows: list[int], num_shared: int, *, pool: KVPool, num_heads: int
) -> DecodeGroup:
    num_kv_heads, num_slots = pool.keys.shape[1:3]
    skipped = num_shared * batch.page_size
    own_lens = batch.kv_lens[rows] - skipped
    width = int(own_lens.max())
    places = np.arange(width)
    table = np.zeros((len(rows), -(-width // batch.page_size)), dtype=np.int32)
    for index, row in enumerate(rows):
        own = _pages(batch, row)[num_shared:]
        table[index, : len(own)] = own
    slots = table[:, places // batch.page_size] * batch.page_size + places % batch.page_size
    is_own = places < own_lens[:, None]
    # Padding reads the row's first slot: a number that is there, or -inf would meet a NaN.
    slots = np.where(is_own, slots, slots[:, :1])
    shape = (len(rows), num_kv_heads, num_heads // num_kv_heads, width)
    heads = np.arange(num_kv_heads, dtype=np.int32)[:, None, None] * num_slots
    bias = np.where(is_own, np.float32(0.0), np.float32(-np.inf))
    columns = np.broadcast_to(slots[:, None, None] + heads, shape).astype(np.int32).reshape(-1)
    num_queries = len(rows) * num_heads
    starts = torch.arange(num_queries + 1, dtype=torch.int32) * width
    return DecodeGroup(
        tokens=torch.from_numpy(batch.qo_indptr[rows].astype(np.int64)),
        shared=torch.from_numpy(_pages(batch, rows[0])[:num_shared].astype(np.int64)),
        bias=torch.sparse_csr_tensor(
            starts,
            torch.from_numpy(columns),
            torch.from_numpy(bias)[:, None, None].expand(shape).reshape(-1),
            size=(num_queries, num_kv_heads * num_slots),
            check_invariants=False,
        ),
        columns=torch.from_numpy(columns),
        offsets=starts[:-1],
    )


def _prefill_row(batch: Batch, row: int) -> PrefillRow:
    start, end = int(batch.qo_indptr[row]), int(batch.qo_indptr[row + 1])
    parents = batch.trees.get(row)
    num_before = int(batch.positions[start])
    if parents is None:
        sees = np.tri(end - start, num_before + end - start, num_before, dtype=bool)
    else:
        sees = seen_in_tree(parents, batch.positions[start:end], num_before)
    pages = _pages(batch, row)[: -(-num_before // batch.page_size)]
    return PrefillRow(
        start=start,
        end=end,
        pages=torch.from_numpy(pages.astype(np.int64)),
        bias=torch.from_numpy(np.where(sees, np.float32(0.0), np.float32(-np.inf))),
    )
