"""What a program gives: an iterable of mappings or texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from runtime.jobs.row import Row
from sgdsl.errors import UsageError


class Given:
    """A `Source`. A text is a row with one column, `text`."""

    columns = None

    def __init__(self, rows: Iterable[Mapping[str, Any] | str]) -> None:
        given: object = rows
        if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
            raise UsageError(
                f"the data set is {type(rows).__name__}: {rows!r:.80}; give a path, or an iterable "
                "of dicts or texts"
            )
        self._rows = rows
        self.name = f"an iterable ({type(rows).__name__})"
        self.rereadable = isinstance(rows, Sequence)
        self.num_rows = len(rows) if isinstance(rows, Sequence) else None

    def rows(self) -> Iterator[Row]:
        rows: Iterable[object] = self._rows
        for number, given in enumerate(rows):
            if isinstance(given, str):
                yield Row(number, {"text": given})
            elif isinstance(given, Mapping):
                names = [name for name in given if not isinstance(name, str)]
                fault = (
                    f"row {number} has a column that is no text: {names[0]!r}" if names else None
                )
                yield Row(number, {} if fault else given, fault)
            else:
                kind = type(given).__name__
                yield Row(number, {}, f"row {number} is neither a dict nor a text but {kind}")
