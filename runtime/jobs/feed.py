"""The feed: which rows are computed, and in which order they start.

Owns the rows between the input and their entries. What needs no computing gets its entry here: rows
with a fault, and rows that equal another one. Others start in the order of what they have in
common, within a window of the input, so that a prefix is computed once.

Rows are asked for on a batch's threads, one at a time, and land on another one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from runtime.jobs.entry import Entry
from runtime.jobs.journal import Journal
from runtime.jobs.ledger import bits_of
from runtime.jobs.row import Row, key_of
from sgdsl.errors import UsageError
from sgdsl.row_order import row_order

WINDOW_ROWS = 1024
"""Rows of the input that are ordered at a time."""


@dataclass(slots=True)
class Flight:
    """A row that is computed. `equals`: rows after it with the same key."""

    row: Row
    key: str
    arguments: dict[str, Any]
    attempts: int
    equals: list[Row]


class Feed:
    """`columns`: those that a row must have; `keeps_columns`: entries are to have the row's.
    `retries`: rows that have failed are computed again.
    """

    def __init__(
        self,
        rows: Iterator[Row],
        journal: Journal,
        *,
        columns: Sequence[str],
        arguments: Callable[[Mapping[str, Any]], dict[str, Any]],
        retries: bool = False,
        keeps_columns: bool = False,
    ) -> None:
        self.lock = threading.RLock()
        """Held by whoever looks at the journal."""
        self._rows = rows
        self._journal = journal
        self._columns = columns
        self._arguments = arguments
        self._retries = retries
        self._keeps_columns = keeps_columns
        self._by_key: dict[str, Flight] = {}  # from the window until they land
        self._by_index: dict[int, Flight] = {}
        self._stopped = threading.Event()
        self.num_started = 0
        self.num_resumed = 0
        """Rows that had an entry already."""

    def stop(self) -> None:
        """Start no more rows."""
        self._stopped.set()

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()

    def arguments(self) -> Iterator[dict[str, Any]]:
        """Those of every row that is to be computed."""
        while window := list(islice(self._rows, WINDOW_ROWS)):
            with self.lock:
                flights = [flight for row in window if (flight := self._flight(row)) is not None]
            given = [flight.arguments for flight in flights]
            for at in row_order(given, list(given[0]) if given else []):
                if self.is_stopped:
                    return
                self._by_index[self.num_started] = flights[at]
                self.num_started += 1
                yield flights[at].arguments

    def land(self, index: int) -> Flight:
        """The row that was the `index`th to start; its entry is written next, or never."""
        return self._by_index.pop(index)

    def write(self, flight: Flight, entry: Entry) -> None:
        """The row has ended so, and with it those that equal it."""
        with self.lock:
            self._journal.write(entry)
            for row in flight.equals:
                self._write_same(row, flight.key, entry.row)
            self._by_key.pop(flight.key, None)

    def columns_of(self, row: Row) -> dict[str, Any] | None:
        """As an entry is to have them."""
        return dict(row.columns) if self._keeps_columns else None

    def _flight(self, row: Row) -> Flight | None:
        """None for a row that needs no computing (any more)."""
        entry = self._journal.entry(row.number)
        missing = [name for name in self._columns if name not in row.columns]
        key = key_of({"fault": row.fault}) if row.fault else key_of(dict(row.columns))
        if not row.fault and not missing:
            arguments = self._arguments(row.columns)
            key = key_of(arguments)
        if entry is not None and self._stands(row, entry, key):
            self.num_resumed += 1
            return None
        attempts = 1 if entry is None else entry.attempts + 1
        if row.fault or missing:
            self._refuse(row, key, missing, attempts)
            return None
        if (flight := self._by_key.get(key)) is not None:
            flight.equals.append(row)
            return None
        first = self._first(key)
        if first is not None and first.row != row.number:
            self._write_same(row, key, first.row)
            return None
        flight = self._by_key[key] = Flight(row, key, arguments, attempts, [])
        return flight

    def _write_same(self, row: Row, key: str, first: int) -> None:
        columns = self.columns_of(row)
        self._journal.write(Entry(row=row.number, key=key, same_as=first, columns=columns))

    def _stands(self, row: Row, entry: Entry, key: str) -> bool:
        """Whether what the journal says of the row still holds."""
        if self._journal.ledger.key_bits(row.number) == bits_of(key):
            return entry.is_done or not self._retries
        if entry.is_done:
            raise UsageError(
                f"row {row.number} of the input is not what it was when {self._journal.path} was "
                "begun; give another output, or put the input back"
            )
        return False

    def _first(self, key: str) -> Entry | None:
        """The entry of the row with this key that needs no computing again."""
        row = self._journal.ledger.first(key)
        found = None if row is None else self._journal.entry(row)
        if found is None or found.key != key or not (found.is_done or not self._retries):
            return None
        return found

    def _refuse(self, row: Row, key: str, missing: Sequence[str], attempts: int) -> None:
        code, message = "bad_row", row.fault
        if not message:
            code = "missing_column"
            message = f"row {row.number} has no column {missing[0]!r}; it has {sorted(row.columns)}"
        self._journal.write(
            Entry(
                row=row.number, key=key, status="failed", code=code, message=message,
                attempts=attempts, columns=self.columns_of(row),
            )
        )  # fmt: skip
