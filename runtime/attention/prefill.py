"""Rows of several tokens, prefill and trees of options, in plain torch.

Owns their layout and their attention. Rows are computed one at a time: a token attends to what was
computed before the step, and to those of its own row that it follows. Before new KV is stored,
since a tree's may take the place of older.

Rows come in the order of their pages, and what one has in common with the row before it is not read
again. So prefixes are read as by a walk of the tree that they are, each page once on a path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence as List
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from runtime.attention.base import AttentionKind
from runtime.attention.scores import capped, softmax
from runtime.batch import Batch, Int32


@dataclass(frozen=True, slots=True)
class PrefillRow:
    """A row of several tokens. pages: int64 [P], those of what was computed before that a token's
    window reaches into; num_kept: of these, the first ones that the row before has read; bias:
    [num_tokens, num_before + num_tokens] 0, or -inf where a token does not attend.
    """

    start: int
    end: int
    pages: Tensor
    num_kept: int
    bias: Tensor

    @property
    def num_before(self) -> int:
        return self.bias.shape[1] - self.bias.shape[0]


class Prefills:
    """These rows of a batch, under one window."""

    def __init__(self, batch: Batch, rows: List[int], window: int) -> None:
        self._rows = list(_in_order(batch, rows, window))
        self._page_size = batch.page_size
        self._most = batch.page_size + max((len(row.bias[0]) for row in self._rows), default=0)
        self._read: list[Tensor] = []  # the current row's keys and values; the same for all layers

    def run(
        self,
        out: Tensor,
        queries: Tensor,
        new: List[Tensor],
        cached: List[Tensor],
        *,
        kind: AttentionKind,
        sinks: Tensor | None,
    ) -> None:
        """out, queries: [num_tokens, num_heads, head_dim] of the batch. new: its keys and values,
        [num_tokens, num_kv_heads, head_dim]; cached: those of the pool, [num_kv_heads, num_slots,
        head_dim].
        """
        compute = _prefill if kind.soft_cap is None and sinks is None else _prefill_by_head
        if not self._read:
            self._read = [each.new_empty(len(each), self._most, each.shape[-1]) for each in cached]
        for row in self._rows:
            here = slice(row.start, row.end)
            keys, values = (
                self._with_own(row, each[here], pool, read)
                for each, pool, read in zip(new, cached, self._read, strict=True)
            )
            out[here] = compute(queries[here], keys, values, row.bias, kind=kind, sinks=sinks)

    def _with_own(self, row: PrefillRow, own: Tensor, cached: Tensor, read: Tensor) -> Tensor:
        """[num_kv_heads, num_before + num_tokens, head_dim]: what lies in the row's pages, then its
        own. `read` holds the row before it.
        """
        kept, end = row.num_kept * self._page_size, len(row.pages) * self._page_size
        if kept < end:
            read[:, kept:end] = read_pages(cached, row.pages[row.num_kept :], self._page_size)
        read = read[:, : row.bias.shape[1]]
        read[:, row.num_before :] = own.transpose(0, 1)
        return read


def read_pages(cached: Tensor, pages: Tensor, page_size: int) -> Tensor:
    """cached: [num_kv_heads, num_slots, head_dim]; all slots of `pages`, one after another."""
    num_kv_heads, _, dim = cached.shape
    in_pages = cached.view(num_kv_heads, -1, page_size * dim)
    return in_pages.index_select(1, pages).view(num_kv_heads, -1, dim)


def _prefill(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor,
    *,
    kind: AttentionKind,
    sinks: Tensor | None,
) -> Tensor:
    """keys, values: [num_kv_heads, kv_len, head_dim]; bias: [num_tokens, kv_len]. Returns what
    `queries` is like: [num_tokens, num_heads, head_dim].
    """
    assert kind.soft_cap is None and sinks is None, "torch's own operator knows neither"
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
        scale=kind.scale,
    )
    return mixed.flatten(0, 1).transpose(0, 1)


def _prefill_by_head(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    bias: Tensor,
    *,
    kind: AttentionKind,
    sinks: Tensor | None,
) -> Tensor:
    """As `_prefill`, with soft caps and sinks; scores of one KV head are in memory at a time."""
    _, num_heads, dim = queries.shape
    num_kv_heads = len(keys)
    grouped = queries.view(-1, num_kv_heads, num_heads // num_kv_heads, dim).permute(1, 2, 0, 3)
    extra = [None] * num_kv_heads if sinks is None else sinks.view(num_kv_heads, -1, 1, 1)
    mixed = []
    for asked, own_keys, own_values, sink in zip(grouped, keys, values, extra, strict=True):
        scores = capped(asked @ own_keys.t() * kind.scale, kind.soft_cap) + bias
        mixed.append(softmax(scores, sink) @ own_values)
    return torch.cat(mixed).transpose(0, 1)


def _in_order(batch: Batch, rows: List[int], window: int) -> Iterator[PrefillRow]:
    """The rows by their pages, so that those with a common beginning follow each other. What a row
    keeps of the one before it must lie before that one's own tokens.
    """
    kept = np.zeros(0, dtype=np.int64)
    for row in sorted(rows, key=lambda row: batch.pages(row).tolist()):
        found = _row(batch, row, window)
        pages = found.pages.numpy()
        most = min(len(kept), len(pages))
        num_kept = int(np.cumprod(kept[:most] == pages[:most]).sum())
        yield replace(found, num_kept=num_kept)
        kept = pages[: found.num_before // batch.page_size]


def _row(batch: Batch, row: int, window: int) -> PrefillRow:
    start, end = int(batch.qo_indptr[row]), int(batch.qo_indptr[row + 1])
    parents = batch.trees.get(row)
    positions = batch.positions[start:end]
    num_before = int(positions[0])
    if parents is None:
        sees = np.tri(end - start, num_before + end - start, num_before, dtype=bool)
    else:
        sees = _seen_in_tree(parents, positions, num_before)
    sees &= np.concatenate([np.arange(num_before), positions]) > positions[:, None] - window
    first_page = max(0, int(positions.min()) - window + 1) // batch.page_size
    sees = sees[:, min(first_page * batch.page_size, num_before) :]
    pages = batch.pages(row)[first_page : -(-num_before // batch.page_size)]
    return PrefillRow(
        start=start,
        end=end,
        pages=torch.from_numpy(pages.astype(np.int64)),
        num_kept=0,
        bias=torch.from_numpy(np.where(sees, np.float32(0.0), np.float32(-np.inf))),
    )


def lines_of(parents: Int32) -> NDArray[np.bool_]:
    """Which of a tree's tokens each follows, itself included. [num_tokens, num_tokens]"""
    own = np.eye(len(parents), dtype=bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            own[token] |= own[parent]
    return own


def _seen_in_tree(parents: Int32, positions: Int32, num_before: int) -> NDArray[np.bool_]:
    """What each token attends to: [num_tokens, num_before + num_tokens]."""
    own = lines_of(parents)
    # Its line in the row is as long as what it attends to before the row is short.
    before = np.arange(num_before) < (positions + 1 - own.sum(axis=1))[:, None]
    return np.concatenate([before, own], axis=1)
