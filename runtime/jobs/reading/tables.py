"""Tables of text: csv and tsv (RFC 4180).

Owns how a record becomes a row; its values are texts. A record with another number of fields than
the header is a row with a fault.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

from runtime.jobs.reading.source import not_that
from runtime.jobs.reading.streams import open_bytes
from runtime.jobs.row import Row

MAX_FIELD_CHARACTERS = 1 << 28


class Table:
    """A `Source`. The first record has the columns' names."""

    num_rows = None
    rereadable = True

    def __init__(self, path: Path, *, delimiter: str) -> None:
        self._path = path
        self._delimiter = delimiter
        self.name = str(path)
        csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD_CHARACTERS))
        header = next(self._records(), None)
        self.columns: tuple[str, ...] = tuple(header) if isinstance(header, list) else ()
        if not isinstance(header, list):
            raise not_that(path, "a table", header or "it is empty: there is no header")
        if not all(map(_is_utf8, self.columns)):
            raise not_that(path, "a table", "its header is not UTF-8")
        if twice := sorted({name for name in self.columns if self.columns.count(name) > 1}):
            raise not_that(path, "a table", f"its header has {twice} more than once")

    def rows(self) -> Iterator[Row]:
        records = self._records()
        next(records, None)
        for number, record in enumerate(records):
            yield self._row(number, record)

    def _row(self, number: int, record: list[str] | str) -> Row:
        if isinstance(record, str):
            return Row(number, {}, f"record {number + 1} is no CSV: {record}")
        if len(record) != len(self.columns):
            fault = f"record {number + 1} has {len(record)} fields, the header {len(self.columns)}"
            return Row(number, {}, fault)
        if not all(map(_is_utf8, record)):
            return Row(number, {}, f"record {number + 1} is not UTF-8")
        return Row(number, dict(zip(self.columns, record, strict=True)))

    def _records(self) -> Iterator[list[str] | str]:
        """Those that are not blank; a text says why one cannot be read."""
        with open_bytes(self._path) as file:
            # What is not UTF-8 is the fault of its record, not of all that follow.
            text = io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")
            records = csv.reader(text, delimiter=self._delimiter, strict=True)
            while True:
                try:
                    record = next(records)
                except StopIteration:
                    return
                except csv.Error as error:
                    yield str(error)
                    continue
                except (OSError, EOFError) as error:  # of a damaged compressed file
                    raise not_that(self.name, "what its name says", error) from None
                if record:
                    yield record


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= char <= "\udfff" for char in text)
