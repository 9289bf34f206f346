"""Rows that are trees: which token sees which, and FlashInfer's index arrays for them.

Owns the masks. A tree's new tokens are not where the page table says: the KV of some is not kept,
that of others takes the place of older. So a GPU writes them to scratch pages, which such a row's
page table goes on with, and a mask says what each token sees of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.attention.page_arrays import PageArrays
from runtime.batch import Batch

Int32 = NDArray[np.int32]
Bools = NDArray[np.bool_]


def seen_in_tree(parents: Int32, positions: Int32, num_before: int) -> Bools:
    """What each token of a row attends to: [num_tokens, num_before + num_tokens]."""
    own = np.eye(len(parents), dtype=bool)
    for token, parent in enumerate(parents):
        if parent >= 0:
            own[token] |= own[parent]
    # Its line in the row is as long as what it attends to before the row is short.
    before = np.arange(num_before) < (positions + 1 - own.sum(axis=1))[:, None]
    return np.concatenate([before, own], axis=1)


@dataclass(frozen=True, slots=True)
class TreeArrays:
    """Some trees of a batch. slots: where on the scratch pages the KV of their tokens goes."""

    arrays: PageArrays
    slots: Int32
    rows: list[TreeRow]

    def mask(self, window: int | None) -> Bools:
        """What each token sees of all slots in its row's pages up to the last in use: those of row
        after row, flat.
        """
        return np.concatenate([row.mask(window).ravel() for row in self.rows])


@dataclass(frozen=True, slots=True)
class TreeRow:
    """sees: see `seen_in_tree`. num_unused: slots between those before and the first scratch page,
    on the last page before that.
    """

    sees: Bools
    positions: Int32
    num_unused: int

    def mask(self, window: int | None) -> Bools:
        """[num_tokens, num_slots]"""
        sees, num_before = self.sees, self.sees.shape[1] - len(self.positions)
        if window is not None:
            seen_at = np.concatenate([np.arange(num_before), self.positions])
            sees = sees & (seen_at > self.positions[:, None] - window)
        unused = np.zeros((len(self.positions), self.num_unused), dtype=bool)
        return np.concatenate([sees[:, :num_before], unused, sees[:, num_before:]], axis=1)


def num_scratch_pages(num_tokens: int, num_rows: int, page_size: int) -> int:
    """As many as the trees of any step of so many tokens and rows take."""
    return num_tokens // page_size + num_rows


def tree_arrays(batch: Batch, rows: Sequence[int], *, scratch_page: int) -> TreeArrays:
    """Of these rows; the scratch pages are those from `scratch_page` on."""
    size = batch.page_size
    found: list[TreeRow] = []
    pages: list[Int32] = []
    slots: list[Int32] = []
    for row in rows:
        start, end = batch.qo_indptr[row], batch.qo_indptr[row + 1]
        positions = batch.positions[start:end]
        num_before = int(positions[0])
        num_own = -(-num_before // size)
        sees = seen_in_tree(batch.trees[row], positions, num_before)
        found.append(TreeRow(sees, positions, num_own * size - num_before))
        num_scratch = -(-len(positions) // size)
        scratch = np.arange(scratch_page, scratch_page + num_scratch, dtype=np.int32)
        own = batch.kv_indices[batch.kv_indptr[row] :][:num_own]
        pages.append(np.concatenate([own, scratch]))
        slots.append(scratch_page * size + np.arange(len(positions), dtype=np.int32))
        scratch_page += num_scratch
    lengths = np.array([len(row.positions) for row in found], dtype=np.int32)
    arrays = PageArrays(
        qo_indptr=np.cumsum([0, *lengths], dtype=np.int32),
        kv_indptr=np.cumsum([0, *map(len, pages)], dtype=np.int32),
        kv_indices=np.concatenate(pages),
        last_page_len=(lengths - 1) % size + 1,
    )
    return TreeArrays(arrays, np.concatenate(slots), found)
