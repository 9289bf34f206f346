"""Bitmask rows, packed into one table. Owns which row ids are in use.

A batch of masks is then one gather by row id, here or on a device that holds a copy of the table.
It must not know what the rows allow.
"""

from __future__ import annotations

from collections import deque
from threading import Lock

from grammars.pages import int32_zeros
from grammars.trie import Int32

ALL_ROW = 0
"""The id of the row in which every bit is set: no constraint at all."""


class RowTable:
    """At most `max_rows` rows of `num_words` words, and the one that allows everything.

    Memory is taken row by row: pages that no row was written to cost nothing. Thread-safe.
    # rows: int32 [max_rows + 1, num_words]
    """

    def __init__(self, num_words: int, *, max_rows: int) -> None:
        self.rows: Int32 = int32_zeros(max_rows + 1, num_words)
        self.rows[ALL_ROW] = -1
        self._num_used = 1
        self._free: deque[int] = deque()
        self._lock = Lock()

    def claim(self) -> int | None:
        """The id of a row that is nobody's; None when all are in use."""
        try:
            return self._free.pop()
        except IndexError:
            pass
        with self._lock:
            if self._num_used == len(self.rows):
                return None
            self._num_used += 1
            return self._num_used - 1

    def give_back(self, row_id: int) -> None:
        """Makes the row nobody's. Takes no lock: it is called wherever an object ends."""
        self._free.append(row_id)
