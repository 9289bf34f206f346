"""Records: what the output has about each row, in the order of the input.

Owns the names of what is beside the input's own columns, and where those come from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from runtime.jobs.entry import Entry
from runtime.jobs.journal import Journal
from runtime.jobs.reading.source import Source
from runtime.jobs.row import jsonable
from sgdsl.errors import UsageError

OUTPUT, STATUS, ERROR = "output", "status", "error"


def records_of(source: Source, journal: Journal, *, into: str = OUTPUT) -> Iterator[dict[str, Any]]:
    """Of every row with an entry: its columns, then `into`, status and error (None without one)."""
    if source.rereadable:
        for row in source.rows():
            entry = journal.entry(row.number)
            if entry is not None:
                yield _record(dict(row.columns), entry, into)
    else:
        for number in journal.ledger.done():
            entry = journal.entry(number)
            assert entry is not None, "what is done has an entry"
            yield _record(entry.columns or {}, entry, into)


def check_names(columns: tuple[str, ...] | None, into: str) -> None:
    """Raises UsageError if the input's own columns have the names of ours."""
    if taken := [name for name in (into, STATUS, ERROR) if name in (columns or ())]:
        raise UsageError(
            f"the input has a column {taken[0]!r} already, which the output needs; rename it, or "
            f"name another one for outputs with --into (it is {into!r})"
        )


def _record(columns: dict[str, Any], entry: Entry, into: str) -> dict[str, Any]:
    error = None if entry.code is None else f"{entry.code}: {entry.message}"
    return {**jsonable(columns), into: entry.output, STATUS: entry.status, ERROR: error}
