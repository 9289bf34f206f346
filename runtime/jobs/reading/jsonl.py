"""Lines of JSON: one object a line (jsonlines.org).

Owns how a line becomes a row. A line that is none is a row with a fault, except the first: then the
file is something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from runtime.jobs.reading.source import not_that
from runtime.jobs.reading.streams import open_bytes
from runtime.jobs.row import Row

MAX_LINE_BYTES = 1 << 28
"""A line is in memory as a whole; one that is longer is read past."""


class JsonLines:
    """A `Source`. Blank lines are no rows."""

    columns = None
    num_rows = None
    rereadable = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self.name = str(path)
        first = next(self.rows(), None)
        if first is not None and first.fault is not None:
            raise not_that(path, "lines of JSON objects", first.fault)

    def rows(self) -> Iterator[Row]:
        with open_bytes(self._path) as file:
            number = 0
            for line_number, line in enumerate(_lines(file, self.name), start=1):
                if line is None or line.strip():
                    yield _row(number, line, line_number)
                    number += 1


def _lines(file: BinaryIO, name: str) -> Iterator[bytes | None]:
    """None stands for one that is too long."""
    start = b"\xef\xbb\xbf"  # a byte order mark, which some programs write
    while True:
        try:
            line = file.readline(MAX_LINE_BYTES)
            long = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
            while long and (rest := file.readline(MAX_LINE_BYTES)):
                if rest.endswith(b"\n"):
                    break
        except (OSError, EOFError, ValueError) as error:  # of a damaged compressed file
            raise not_that(name, "what its name says", error) from None
        if not line:
            return
        yield None if long else line.removeprefix(start)
        start = b""


def _row(number: int, line: bytes | None, line_number: int) -> Row:
    if line is None:
        return Row(number, {}, f"line {line_number} is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        found = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return Row(number, {}, f"line {line_number} is not UTF-8 (byte {error.start})")
    except RecursionError:
        return Row(number, {}, f"line {line_number} is nested too deeply")
    except ValueError as error:
        return Row(number, {}, f"line {line_number} is not JSON: {error}")
    if not isinstance(found, dict):
        kind = type(found).__name__
        return Row(number, {}, f"line {line_number} is no JSON object but a {kind}")
    return Row(number, found)
