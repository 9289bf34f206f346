"""Paged attention of which every bit depends on a token and what it attends to, on nothing else.

Owns the order of its sums. What a token attends to stands in the order of its positions, in blocks
that begin at multiples of BLOCK, whatever the step, the row and the chunk: scores that are masked
out weigh exactly nothing, so that more of them before, behind or beside change no bit. Matrices
have QUERIES rows at least, since kernels for fewer add up in another order. Rows that share a
prefix do not share its reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from runtime.attention.base import AttentionKind
from runtime.attention.prefill import lines_of
from runtime.attention.scores import capped, softmax
from runtime.batch import Batch
from runtime.cache.kv import KVPool

BLOCK, QUERIES = 128, 8

SCORES_AT_ONCE = 1 << 24
"""In memory, of all heads together: 64 MiB."""

SLOTS_AT_ONCE = 1 << 15
"""Whose keys and values are copied together."""

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tile:
    """B groups of queries, which read W places each. tokens: int64 [B, num_tokens] in the batch.
    index: int64 [B, W] slots of the pool, or places in what `row` has. row: what was computed
    before and is read, int64 slots, and the row's tokens behind it; None: the pool. bias: [B,
    num_tokens, W] 0, or -inf where a token does not attend.
    """

    tokens: Tensor
    index: Tensor
    bias: Tensor
    row: tuple[Tensor, slice] | None = None


class InvariantPlan:
    """An `AttentionPlan`. `num_heads`: of the queries."""

    def __init__(self, batch: Batch, pool: KVPool, *, num_heads: int) -> None:
        self._batch = batch
        self._pool = pool
        self._num_heads = num_heads
        stored = np.flatnonzero(batch.slots >= 0)
        self._slots = torch.from_numpy(batch.slots[stored].astype(np.int64))
        self._stored = torch.from_numpy(stored)
        self._longest = int(batch.positions.max(initial=0)) + 1
        self._tiles: dict[int, list[Tile]] = {}  # by window

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
        cached = self._pool.keys[layer], self._pool.values[layer]
        asked, extra = queries.float(), None if sinks is None else sinks.float()
        out = torch.empty(asked.shape)
        is_stored = False
        for tile in self._within(kind.window):  # those of rows come first
            if tile.row is None and not is_stored:
                self._store(layer, keys, values)
                is_stored = True
            sources = cached
            if tile.row is not None:
                sources = (
                    _with_own(cached[0], keys, tile.row),
                    _with_own(cached[1], values, tile.row),
                )
            out[tile.tokens] = _attend(tile, asked[tile.tokens], *sources, kind=kind, sinks=extra)
        if not is_stored:
            self._store(layer, keys, values)
        return out.to(queries.dtype)

    def _store(self, layer: int, keys: Tensor, values: Tensor) -> None:
        self._pool.write(layer, self._slots, keys[self._stored], values[self._stored])

    def _within(self, window: int | None) -> list[Tile]:
        window = self._longest if window is None else min(window, self._longest)
        if window not in self._tiles:
            self._tiles[window] = list(_tiles(self._batch, window, self._num_heads))
        return self._tiles[window]


class InvariantAttention:
    """An `AttentionBackend` over `pool`. `num_heads`: of the queries."""

    def __init__(self, pool: KVPool, *, num_heads: int) -> None:
        self._pool = pool
        self._num_heads = num_heads

    def plan(self, batch: Batch) -> InvariantPlan:
        return InvariantPlan(batch, self._pool, num_heads=self._num_heads)


def _with_own(cached: Tensor, new: Tensor, row: tuple[Tensor, slice]) -> Tensor:
    """[num_kv_heads, num_before + num_tokens, head_dim]"""
    slots, here = row
    own = new[here].transpose(0, 1).to(cached.dtype)
    return torch.cat([cached.index_select(1, slots), own], dim=1)


def _attend(
    tile: Tile,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    kind: AttentionKind,
    sinks: Tensor | None,
) -> Tensor:
    """queries: [B, num_tokens, num_heads, head_dim]; keys, values: [num_kv_heads, num_places,
    head_dim]. Returns what `queries` is like.
    """
    (num, num_tokens, num_heads, dim), num_kv_heads = queries.shape, len(keys)
    per_kv, width = num_heads // num_kv_heads, tile.index.shape[1]
    picked = [
        each.index_select(1, tile.index.view(-1)).view(num_kv_heads * num, width, dim)
        for each in (keys, values)
    ]
    rows = num_tokens * per_kv
    missing = -rows % QUERIES
    grouped = queries.view(num, num_tokens, num_kv_heads, per_kv, dim).permute(2, 0, 1, 3, 4)
    grouped = functional.pad(grouped.reshape(num_kv_heads * num, rows, dim), (0, 0, 0, missing))
    bias = functional.pad(tile.bias.repeat_interleave(per_kv, dim=1), (0, 0, 0, missing))
    scores = torch.bmm(grouped.mul_(kind.scale), picked[0].transpose(1, 2))
    scores = capped(scores, kind.soft_cap).view(num_kv_heads, num, -1, width).add_(bias)
    if sinks is not None:
        sinks = sinks.view(num_kv_heads, 1, 1, per_kv).expand(-1, -1, num_tokens, -1)
        sinks = functional.pad(sinks.reshape(num_kv_heads, 1, rows, 1), (0, 0, 0, missing))
    weights = softmax(scores, sinks).reshape(num_kv_heads * num, -1, width)
    mixed = torch.zeros(grouped.shape)
    for begin in range(0, width, BLOCK):
        here = slice(begin, begin + BLOCK)
        mixed.baddbmm_(weights[:, :, here], picked[1][:, here])
    turned = mixed[:, :rows].view(num_kv_heads, num, num_tokens, per_kv, dim)
    return turned.permute(1, 2, 0, 3, 4).reshape(queries.shape)


def _tiles(batch: Batch, window: int, num_heads: int) -> Iterator[Tile]:
    """Rows of several tokens, then all others together."""
    decodes = np.diff(batch.qo_indptr) == 1
    decodes[list(batch.trees)] = False
    for row in np.flatnonzero(~decodes).tolist():
        yield from _row_tiles(batch, row, window, num_heads=num_heads)
    lines = []
    for row in np.flatnonzero(decodes).tolist():
        seen = np.arange(max(0, int(batch.kv_lens[row]) - window), batch.kv_lens[row])
        lines.append((int(batch.qo_indptr[row]), _slots(batch, row, seen), int(seen[0])))
    yield from _single_tiles(lines, None)


Line = tuple[int, Places, int]
"""A token's place in the batch, the places that it reads, and the first one's position."""


def _row_tiles(batch: Batch, row: int, window: int, *, num_heads: int) -> Iterator[Tile]:
    start, end = int(batch.qo_indptr[row]), int(batch.qo_indptr[row + 1])
    parents, positions = batch.trees.get(row), batch.positions[start:end]
    num_before = int(positions[0])
    # In a tree later tokens may be nearer to the root than the step's first one.
    first = max(0, int(positions.min()) - window + 1)
    slots = torch.from_numpy(_slots(batch, row, np.arange(first, num_before)))
    source = slots, slice(start, end)
    if parents is not None:
        lines = []
        for token, on_line in enumerate(lines_of(parents)):
            own = np.flatnonzero(on_line)
            before = np.arange(first, int(positions[token]) + 1 - len(own))
            line = np.concatenate([before - first, num_before - first + own])[-window:]
            lines.append((start + token, line, int(positions[token]) + 1 - len(line)))
        yield from _single_tiles(lines, source)
        return
    width = -(-(int(positions[-1]) + 1) // BLOCK) * BLOCK - first // BLOCK * BLOCK
    at_once = max(1, SCORES_AT_ONCE // (num_heads * width))
    for begin in range(start, end, at_once):
        tokens = np.arange(begin, min(begin + at_once, end))
        asked = batch.positions[tokens][:, None]
        seen = np.arange(max(first, int(asked[0, 0]) - window + 1), int(asked[-1, 0]) + 1)
        index, places = _in_blocks(seen - first, int(seen[0]))
        sees = (places <= asked) & (places > asked - window)
        yield Tile(
            tokens=torch.from_numpy(tokens)[None],
            index=torch.from_numpy(index)[None],
            bias=_bias(sees)[None],
            row=source,
        )


def _single_tiles(lines: list[Line], source: tuple[Tensor, slice] | None) -> Iterator[Tile]:
    """Each token for itself; those that read about as much are computed together."""
    group: list[Line] = []
    for line in sorted(lines, key=lambda line: len(line[1])):
        if group and (len(group) + 1) * (len(line[1]) + BLOCK) > SLOTS_AT_ONCE:
            yield _single_tile(group, source)
            group = []
        group.append(line)
    if group:
        yield _single_tile(group, source)


def _single_tile(lines: list[Line], source: tuple[Tensor, slice] | None) -> Tile:
    blocked = [_in_blocks(seen, first) for _, seen, first in lines]
    width = max(len(index) for index, _ in blocked)
    index = np.zeros((len(lines), width), dtype=np.int64)
    sees = np.zeros((len(lines), 1, width), dtype=bool)
    for place, ((_, seen, first), (own, places)) in enumerate(zip(lines, blocked, strict=True)):
        index[place] = own[0]
        index[place, : len(own)] = own
        sees[place, 0, : len(own)] = (places >= first) & (places < first + len(seen))
    return Tile(
        tokens=torch.tensor([token for token, _, _ in lines])[:, None],
        index=torch.from_numpy(index),
        bias=_bias(sees),
        row=source,
    )


def _in_blocks(seen: Places, first: int) -> tuple[Places, Places]:
    """What is read, filled up to whole blocks with the first of it, and the places' positions.
    first: position of the first place that is seen.
    """
    start, end = first // BLOCK * BLOCK, -(-(first + len(seen)) // BLOCK) * BLOCK
    index = np.full(end - start, seen[0], dtype=np.int64)
    index[first - start : first - start + len(seen)] = seen
    return index, np.arange(start, end)


def _slots(batch: Batch, row: int, places: Places) -> Places:
    pages = batch.pages(row).astype(np.int64)
    found: Places = pages[places // batch.page_size] * batch.page_size + places % batch.page_size
    return found


def _bias(sees: NDArray[np.bool_]) -> Tensor:
    return torch.from_numpy(np.where(sees, np.float32(0.0), np.float32(-np.inf)))
