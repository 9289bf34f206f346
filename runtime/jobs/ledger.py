"""The ledger: which rows are done, and where the journal says what became of them.

Owns that, in some 30 bytes a row: a job has ten million. Knows neither files nor rows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from runtime.jobs.entry import STATUSES, Status

_FREE = -1
_MISSING = 255
_GROW = 2
"""A table has so many places for each row in it, at least."""


class Ledger:
    """By the numbers of rows. Keys are known by 64 of their bits: who finds a row by its key looks
    at the entry before trusting it.
    """

    def __init__(self) -> None:
        self._places = array("q")  # offset of the entry, or _FREE
        self._keys = array("Q")
        self._statuses = bytearray()
        self._table = array("q", [_FREE]) * 64  # rows by their keys, open addressing
        self._num_in_table = 0
        self.counts = dict.fromkeys(STATUSES, 0)
        self.num_same = 0

    def __len__(self) -> int:
        """Rows that are done."""
        return sum(self.counts.values())

    def place(self, row: int) -> int | None:
        """Where its entry stands."""
        found = self._places[row] if row < len(self._places) else _FREE
        return None if found == _FREE else found

    def status(self, row: int) -> Status | None:
        found = self._statuses[row] if row < len(self._statuses) else _MISSING
        return None if found == _MISSING else STATUSES[found]

    def key_bits(self, row: int) -> int:
        """Of a row that has an entry."""
        return self._keys[row]

    def done(self) -> Iterator[int]:
        """The rows that are done, in their order."""
        return (row for row, place in enumerate(self._places) if place != _FREE)

    def note(self, row: int, key: str, status: Status, *, place: int, same: bool = False) -> None:
        """The row's entry stands at `place`; one that it had before does not count any more.
        `same`: it says that the row is like another one, of that status.
        """
        bits = bits_of(key)
        while len(self._places) <= row:
            self._places.append(_FREE)
            self._keys.append(0)
            self._statuses.append(_MISSING)
        if self._places[row] != _FREE:
            self.counts[STATUSES[self._statuses[row]]] -= 1
        else:
            self.num_same += same
        self._places[row] = place
        self._keys[row] = bits
        self._statuses[row] = STATUSES.index(status)
        self.counts[status] += 1
        if not same and self.first(key) is None:
            self._enter(row, bits)

    def first(self, key: str) -> int | None:
        """The row with (very likely) this key that was computed."""
        bits = bits_of(key)
        at = bits % len(self._table)
        while (row := self._table[at]) != _FREE:
            if self._keys[row] == bits:
                return row
            at = (at + 1) % len(self._table)
        return None

    def _enter(self, row: int, bits: int) -> None:
        self._num_in_table += 1
        if _GROW * self._num_in_table > len(self._table):
            smaller = self._table
            self._table = array("q", [_FREE]) * (2 * len(smaller))
            for found in smaller:
                if found != _FREE:
                    self._put(found, self._keys[found])
        self._put(row, bits)

    def _put(self, row: int, bits: int) -> None:
        at = bits % len(self._table)
        while self._table[at] != _FREE:
            at = (at + 1) % len(self._table)
        self._table[at] = row


def bits_of(key: str) -> int:
    """64 bits of it."""
    return int(key[:16], 16)
