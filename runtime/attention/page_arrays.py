"""FlashInfer's index arrays: for some rows of a batch, for prefixes that rows share, for padding.

Owns which rows share a prefix that is worth being read once, and the arrays of both levels then
(`MultiLevelCascadeAttentionWrapper`). Numpy only; the names are FlashInfer's:

* tokens of row i: [qo_indptr[i], qo_indptr[i + 1]) of the queries;
* its pages: kv_indices[kv_indptr[i] : kv_indptr[i + 1]], all full but the last, of which
  last_page_len[i] slots are in use;
* under a causal mask, its queries are the last tokens of what these pages hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runtime.batch import Batch

Int32 = NDArray[np.int32]

MIN_SHARING_ROWS, MIN_SHARED_TOKENS = 8, 256
"""From here on a shared prefix is computed apart: vLLM's rule (`use_cascade_attention`); not
measured by us.
"""


@dataclass(frozen=True, slots=True)
class PageArrays:
    """What a wrapper is planned with."""

    qo_indptr: Int32
    kv_indptr: Int32
    kv_indices: Int32
    last_page_len: Int32

    @property
    def num_rows(self) -> int:
        return len(self.last_page_len)


@dataclass(frozen=True, slots=True)
class Sharing:
    """Rows of a batch that have their first `num_pages` pages in common."""

    rows: list[int]
    num_pages: int


def arrays_of(batch: Batch, rows: Sequence[int]) -> PageArrays:
    """Of these rows, in this order."""
    return _own_arrays(batch, rows, [0] * len(rows))


def tokens_of(batch: Batch, rows: Sequence[int]) -> Int32:
    """The places of these rows' tokens in the batch."""
    return _ranges(batch.qo_indptr[:-1][rows], np.diff(batch.qo_indptr)[rows])


def cascade_arrays(batch: Batch, groups: Sequence[Sharing]) -> tuple[PageArrays, PageArrays]:
    """Of what each group shares, one row a group, without a mask; and of what its rows have beyond
    that, group by group.
    """
    lengths = np.diff(batch.qo_indptr)
    num_tokens = [int(lengths[group.rows].sum()) for group in groups]
    shared = [_pages(batch, group.rows[0])[: group.num_pages] for group in groups]
    above = PageArrays(
        qo_indptr=_indptr(num_tokens),
        kv_indptr=_indptr([group.num_pages for group in groups]),
        kv_indices=np.concatenate(shared),
        last_page_len=np.full(len(groups), batch.page_size, dtype=np.int32),
    )
    rows = [row for group in groups for row in group.rows]
    skipped = [group.num_pages for group in groups for _ in group.rows]
    return above, _own_arrays(batch, rows, skipped)


def find_sharing(
    batch: Batch,
    *,
    min_rows: int = MIN_SHARING_ROWS,
    min_tokens: int = MIN_SHARED_TOKENS,
) -> list[Sharing]:
    """Groups of chains with the same first pages, all of which they have computed before."""
    starts = batch.kv_lens - np.diff(batch.qo_indptr)
    min_pages = -(-min_tokens // batch.page_size)
    whole = starts // batch.page_size  # pages that hold none of the new tokens
    whole[list(batch.trees)] = 0
    candidates = np.flatnonzero(whole >= max(1, min_pages))
    if len(candidates) < min_rows:
        return []
    by_first: dict[int, list[int]] = {}
    for row in candidates.tolist():
        by_first.setdefault(int(batch.kv_indices[batch.kv_indptr[row]]), []).append(row)
    found = []
    for rows in by_first.values():
        num_pages = _num_common(batch, rows, int(whole[rows].min()))
        if len(rows) >= min_rows and num_pages >= min_pages:
            found.append(Sharing(rows, num_pages))
    return found


def padded(arrays: PageArrays, num_rows: int, *, scratch_page: int) -> PageArrays:
    """Decodes, and as many more as make `num_rows`: each of one token, on the scratch page."""
    missing = num_rows - arrays.num_rows
    assert missing >= 0, "padding takes no rows away"
    more = np.arange(1, missing + 1, dtype=np.int32)
    ones = np.ones(missing, dtype=np.int32)
    return PageArrays(
        qo_indptr=np.concatenate([arrays.qo_indptr, arrays.qo_indptr[-1:] + more]),
        kv_indptr=np.concatenate([arrays.kv_indptr, arrays.kv_indptr[-1:] + more]),
        kv_indices=np.concatenate([arrays.kv_indices, ones * np.int32(scratch_page)]),
        last_page_len=np.concatenate([arrays.last_page_len, ones]),
    )


def _own_arrays(batch: Batch, rows: Sequence[int], skipped: Sequence[int]) -> PageArrays:
    """Of these rows without the first `skipped` pages of each."""
    num_skipped = np.asarray(skipped, dtype=np.int32)
    num_pages = np.diff(batch.kv_indptr)[rows] - num_skipped
    return PageArrays(
        qo_indptr=_indptr(np.diff(batch.qo_indptr)[rows]),
        kv_indptr=_indptr(num_pages),
        kv_indices=batch.kv_indices[_ranges(batch.kv_indptr[:-1][rows] + num_skipped, num_pages)],
        last_page_len=batch.last_page_len[rows],
    )


def _num_common(batch: Batch, rows: Sequence[int], num: int) -> int:
    """How many of the first `num` pages are the same in all rows."""
    first = _pages(batch, rows[0])[:num]
    for row in rows[1:]:
        different = np.flatnonzero(_pages(batch, row)[:num] != first[:num])
        num = int(different[0]) if len(different) else num
    return num


def _pages(batch: Batch, row: int) -> Int32:
    return batch.kv_indices[batch.kv_indptr[row] : batch.kv_indptr[row + 1]]


def _indptr(lengths: Sequence[int] | Int32) -> Int32:
    """Borders of ranges that follow each other."""
    borders = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=borders[1:])
    return borders


def _ranges(starts: Int32, lengths: Int32) -> Int32:
    """All numbers of the ranges [start, start + length), one range behind the other."""
    borders = _indptr(lengths)
    shifts = np.repeat(starts - borders[:-1], lengths)
    return np.arange(borders[-1], dtype=np.int32) + shifts.astype(np.int32)
