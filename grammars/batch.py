"""The bitmasks of a batch in one call. Owns the gather.

Where a mask is known and the budget forbids nothing of it, its row is copied along with all others
in one gather from the table that they share; the rest are filled one by one.
It must not know what a batch is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from grammars.matcher import Matcher
from grammars.row_table import ALL_ROW, RowTable
from grammars.trie import Int32


def fill_bitmasks(
    matchers: Sequence[Matcher | None],
    rows: Int32,
    *,
    on_error: Callable[[int, Exception], None] | None = None,
) -> None:
    """Fills `rows[i]` as `matchers[i].fill_bitmask` does; all bits where there is no matcher.

    `on_error(i, error)` is told of a row whose mask cannot be made (within the limits of a step,
    say); all bits of that row are set, and the others are filled as ever. Without it, the error is
    raised.
    # rows: int32 [len(matchers), num_words]
    """
    assert len(matchers) == len(rows), "one row for each matcher"
    table: RowTable | None = None
    row_ids, alone, held = [ALL_ROW] * len(matchers), [], []
    for index, matcher in enumerate(matchers):
        if matcher is None:
            continue
        try:
            mask = matcher.whole_mask()
        except Exception as error:
            if on_error is None:
                raise
            on_error(index, error)
            continue
        if table is None and mask is not None:
            table = mask.table
        if mask is None or mask.row_id is None or mask.table is not table:
            alone.append((index, matcher))
        else:
            row_ids[index] = mask.row_id
            held.append(mask)  # a row stays its mask's for as long as the mask lives
    if table is None:
        rows[:] = -1
    else:
        # mode: without one, numpy gathers into a buffer of its own first.
        np.take(table.rows, row_ids, axis=0, out=rows, mode="clip")
    for index, matcher in alone:
        try:
            matcher.fill_bitmask(rows[index])
        except Exception as error:  # its mask was thrown out meanwhile, say, and costs again
            if on_error is None:
                raise
            on_error(index, error)
            rows[index] = -1
