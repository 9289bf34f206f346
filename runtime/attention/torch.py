"""Paged attention in plain torch: the CPU path, and the reference for every other.

Owns how a ragged batch attends to its pages. Two shapes of work, planned once a step for each
window and used by every layer that has it. Rows of one token (decodes) read keys and values where
they lie in the pool: which query meets which slot is a sparse matrix, whose products are computed
entry by entry, and nothing is gathered. Where such rows share first pages, these are read once for
all of them (Hydragen, arXiv:2402.05099). Rows of several tokens are computed elsewhere, one at a
time. What lies outside of a row's window is not read.

KV is float32 whatever the model's weights are: torch has the sparse product in no smaller type, and
it reads 16-bit KV no faster.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from runtime.attention.base import AttentionKind
from runtime.attention.prefill import Prefills, read_pages
from runtime.attention.scores import capped, softmax
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
class Work:
    """All rows of a batch, under one window."""

    decodes: list[DecodeGroup]
    prefills: Prefills


class TorchPlan:
    """An `AttentionPlan`. `num_heads`: of the queries."""

    def __init__(self, batch: Batch, pool: KVPool, *, num_heads: int) -> None:
        self._batch = batch
        self._pool = pool
        self._num_heads = num_heads
        stored = np.flatnonzero(batch.slots >= 0)
        # int64 [num_stored]: where the new KV goes, and the tokens that have a slot; None: all
        self._slots = torch.from_numpy(batch.slots[stored].astype(np.int64))
        self._stored = None if len(stored) == len(batch.slots) else torch.from_numpy(stored)
        self._longest = int(batch.positions.max(initial=0)) + 1
        self._work: dict[int, Work] = {}  # by window

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
        cached_keys, cached_values = self._pool.keys[layer], self._pool.values[layer]
        work = self._within(kind.window)
        asked, extra = queries.float(), None if sinks is None else sinks.float()
        out = torch.empty(asked.shape)
        cached, new = (cached_keys, cached_values), (keys, values)
        work.prefills.run(out, asked, new, cached, kind=kind, sinks=extra)
        if self._stored is not None:
            keys, values = keys[self._stored], values[self._stored]
        self._pool.write(layer, self._slots, keys, values)
        for group in work.decodes:
            out[group.tokens] = self._decode(
                group, asked[group.tokens], cached_keys, cached_values, kind=kind, sinks=extra
            )
        return out.to(queries.dtype)

    def _within(self, window: int | None) -> Work:
        """The rows' work; that of a window that holds every row is that without one."""
        window = self._longest if window is None else min(window, self._longest)
        if window not in self._work:
            self._work[window] = _lay_out(self._batch, window, self._pool, self._num_heads)
        return self._work[window]

    def _decode(
        self,
        group: DecodeGroup,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        kind: AttentionKind,
        sinks: Tensor | None,
    ) -> Tensor:
        """One softmax over the shared and the own slots of each row: [B, num_heads, head_dim]."""
        rows, num_heads, dim = queries.shape
        num_kv_heads = keys.shape[0]
        own_queries = queries.view(-1, dim)
        products = torch.sparse.sampled_addmm(
            group.bias, own_queries, keys.view(-1, dim).t(), alpha=kind.scale
        )
        scores = capped(products.values(), kind.soft_cap, group.bias.values())
        scores = scores.view(rows * num_heads, -1)
        num_shared = len(group.shared) * self._batch.page_size
        if num_shared:
            # [num_kv_heads, B * per_kv, head_dim]: queries that read the same keys stand together
            grouped = queries.view(rows, num_kv_heads, -1, dim).transpose(0, 1) * kind.scale
            shared_keys = read_pages(keys, group.shared, self._batch.page_size)
            shared = torch.bmm(grouped.flatten(1, 2), shared_keys.transpose(1, 2))
            shared = shared.view(num_kv_heads, rows, -1, num_shared).transpose(0, 1)
            shared = capped(shared.reshape(rows * num_heads, -1), kind.soft_cap)
            scores = torch.cat([shared, scores], dim=-1)
        weights = softmax(scores, None if sinks is None else sinks.repeat(rows)[:, None])
        mixed: Tensor = torch.embedding_bag(
            values.view(-1, dim),
            group.columns,
            group.offsets,
            mode=0,  # a sum
            per_sample_weights=weights[:, num_shared:].reshape(-1),
        )[0].view(rows, num_heads, dim)
        if num_shared:
            on_shared = weights[:, :num_shared].view(rows, num_kv_heads, -1, num_shared)
            shared_values = read_pages(values, group.shared, self._batch.page_size)
            shared = torch.bmm(on_shared.transpose(0, 1).flatten(1, 2), shared_values)
            mixed += shared.view(num_kv_heads, rows, -1, dim).transpose(0, 1).reshape(mixed.shape)
        return mixed


class TorchAttention:
    """An `AttentionBackend` over `pool`. `num_heads`: of the queries."""

    def __init__(self, pool: KVPool, *, num_heads: int) -> None:
        self._pool = pool
        self._num_heads = num_heads

    def plan(self, batch: Batch) -> TorchPlan:
        return TorchPlan(batch, self._pool, num_heads=self._num_heads)


def _lay_out(batch: Batch, window: int, pool: KVPool, num_heads: int) -> Work:
    """Sort the batch's rows into decode groups and prefill rows. Decodes that are longer than the
    window read it whole, each for itself.
    """
    decodes = np.diff(batch.qo_indptr) == 1
    decodes[list(batch.trees)] = False
    longer = batch.kv_lens > window
    groups = [
        group
        for rows, num_shared in _clusters(batch, np.flatnonzero(decodes & ~longer).tolist())
        for group in _even_groups(batch, rows, num_shared)
    ]
    if windowed := np.flatnonzero(decodes & longer).tolist():
        groups.append((windowed, 0))
    return Work(
        decodes=[
            _decode_group(batch, group, window=window, pool=pool, num_heads=num_heads)
            for group in groups
        ],
        prefills=Prefills(batch, np.flatnonzero(~decodes).tolist(), window),
    )


Rows = tuple[list[int], int]
"""Rows of a batch, and how many first pages they are to share."""


def _clusters(batch: Batch, rows: list[int]) -> Iterator[Rows]:
    """Decodes by what they share: those with a common beginning that pays, then all others."""
    by_first: dict[int, list[int]] = {}
    for row in rows:
        by_first.setdefault(int(batch.pages(row)[0]), []).append(row)
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
    first = batch.pages(rows[0])[:num]
    for row in rows[1:]:
        different = np.flatnonzero(batch.pages(row)[:num] != first[:num])
        num = int(different[0]) if len(different) else num
    return num


def _decode_group(
    batch: Batch, group: Rows, *, window: int, pool: KVPool, num_heads: int
) -> DecodeGroup:
    rows, num_shared = group
    num_kv_heads, num_slots = pool.keys.shape[1:3]
    kv_lens = batch.kv_lens[rows][:, None]
    firsts = np.maximum(kv_lens - window, num_shared * batch.page_size)
    width = int((kv_lens - firsts).max())
    places = firsts + np.arange(width)
    is_own = places < kv_lens
    # Padding reads the row's first slot: a number that is there, or -inf would meet a NaN.
    places = np.where(is_own, places, firsts)
    table = np.zeros((len(rows), -(-int(kv_lens.max()) // batch.page_size)), dtype=np.int32)
    for index, row in enumerate(rows):
        pages = batch.pages(row)
        table[index, : len(pages)] = pages
    in_table = np.take_along_axis(table, places // batch.page_size, axis=1)
    slots = in_table * batch.page_size + places % batch.page_size
    shape = (len(rows), num_kv_heads, num_heads // num_kv_heads, width)
    heads = np.arange(num_kv_heads, dtype=np.int32)[:, None, None] * num_slots
    bias = np.where(is_own, np.float32(0.0), np.float32(-np.inf))
    columns = np.broadcast_to(slots[:, None, None] + heads, shape).astype(np.int32).reshape(-1)
    num_queries = len(rows) * num_heads
    starts = torch.arange(num_queries + 1, dtype=torch.int32) * width
    return DecodeGroup(
        tokens=torch.from_numpy(batch.qo_indptr[rows].astype(np.int64)),
        shared=torch.from_numpy(batch.pages(rows[0])[:num_shared].astype(np.int64)),
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
