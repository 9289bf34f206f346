"""Output files: lines of JSON, csv, Parquet.

Owns how records become one, and that it is there as a whole or not at all: it is written beside its
place, synced, and renamed.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

from runtime.jobs.journal import JournalError
from runtime.jobs.reading.streams import import_arrow
from sgdsl.errors import UsageError

Records = Callable[[], Iterable[Mapping[str, Any]]]
"""All of them, from the first one on, as often as it is called: tables have to know all columns."""

BATCH_ROWS = 1024
"""Of a Parquet file: what is in memory, and a row group."""


def check_output(path: Path) -> None:
    """Raises UsageError for a name that says no kind of file that can be written."""
    if path.suffix.lower() not in _WRITERS:
        raise UsageError(f"{path}: outputs are {', '.join(_WRITERS)}; name one of these")
    if path.suffix.lower() == ".parquet":
        import_arrow(f"{path} is a Parquet file")


def write_records(path: Path, records: Records, *, fields: Sequence[str] = ()) -> int:
    """Returns how many there were. `fields`: the members of outputs that are objects, which a table
    has a column each for; without them it has a column of JSON.
    """
    with _replaced(path) as part:
        return _WRITERS[path.suffix.lower()](part, records, fields)


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise JournalError(
            f"{path} cannot be written: {error.strerror or error}; the journal has all of it: make "
            "room, and run the same job again"
        ) from error
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _write_lines(path: Path, records: Records, _: Sequence[str]) -> int:
    num = 0
    with path.open("wb") as file:
        for record in records():
            file.write(_line(record))
            num += 1
    return num


def _line(record: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate, which JSON can have and UTF-8 cannot
        return json.dumps(record).encode() + b"\n"


def _write_table(path: Path, records: Records, fields: Sequence[str]) -> int:
    num, columns = 0, list(_survey(records, fields))
    with path.open("wb") as raw, TextIOWrapper(raw, "utf-8", errors="replace", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for record in records():
            flat = _flat(record, fields)
            writer.writerow([_cell(flat.get(name)) for name in columns])
            num += 1
    return num


def _write_parquet(path: Path, records: Records, fields: Sequence[str]) -> int:
    """Columns have the types that all of their values have, or are texts: JSON."""
    arrow = import_arrow(f"{path} is a Parquet file")
    from pyarrow import parquet

    simple = {bool: arrow.bool_(), int: arrow.int64(), float: arrow.float64()}
    kinds = {
        name: simple.get(next(iter(types)), arrow.string()) if len(types) == 1 else arrow.string()
        for name, types in _survey(records, fields).items()
    }
    schema, num = arrow.schema(list(kinds.items())), 0
    rows = (_flat(record, fields) for record in records())
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(rows, BATCH_ROWS)):
            columns = {
                name: [
                    row.get(name) if kind != arrow.string() else _text(row.get(name))
                    for row in batch
                ]
                for name, kind in kinds.items()
            }
            writer.write_table(arrow.table(columns, schema=schema))
            num += len(batch)
    return num


def _survey(records: Records, fields: Sequence[str]) -> dict[str, set[type]]:
    """The columns, in the order in which they come up, and the types of their values."""
    found: dict[str, set[type]] = {}
    for record in records():
        for name, value in _flat(record, fields).items():
            types = found.setdefault(name, set())
            if value is not None:
                is_wide = type(value) is int and not -(2**63) <= value < 2**63
                types.add(str if is_wide else type(value))
    return found


def _flat(record: Mapping[str, Any], fields: Sequence[str]) -> dict[str, Any]:
    """With a column for each field of the output: `output.name`."""
    if not fields:
        return dict(record)
    flat: dict[str, Any] = {}
    output = list(record)[-3]  # before status and error
    for name, value in record.items():
        if name == output:
            said = value if isinstance(value, Mapping) else {}
            flat.update({f"{name}.{each}": said.get(each) for each in fields})
        else:
            flat[name] = value
    return flat


def _cell(value: Any) -> Any:
    """A text as it is, nothing for null, all else as JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _text(value: Any) -> str | None:
    """The same, without what UTF-8 cannot have."""
    cell = _cell(value)
    return None if cell is None else str(cell).encode("utf-8", "replace").decode()


_WRITERS: Mapping[str, Callable[[Path, Records, Sequence[str]], int]] = {
    ".jsonl": _write_lines,
    ".csv": _write_table,
    ".parquet": _write_parquet,
}
