"""Which rows of the input a job is about: `where`, `sample`, `limit`.

Owns that. Chosen is by a row's own contents and number, so that every run of a job chooses the same
ones.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.jobs.row import Row, key_of
from sgdsl.errors import UsageError

_CONDITION = re.compile(r"\s*([^\s=!<>~]+)\s*(!=|<=|>=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Condition:
    """`column = value`, `!=`, `<`, `<=`, `>`, `>=`, or `column ~ regex`. Numbers are compared as
    numbers where both are some, else as texts; a row without the column does not meet it.
    """

    column: str
    order: str
    value: str

    @classmethod
    def parse(cls, text: str) -> Condition:
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise UsageError(
                f"--where {text!r} is no condition; write COLUMN=VALUE, or !=, <, <=, >, >= or ~ "
                "(a regular expression that is found in the value) instead of ="
            )
        column, order, value = found.groups()
        if order == "~":
            try:
                re.compile(value)
            except re.error as error:
                raise UsageError(f"--where {text!r}: {error} in the regular expression") from None
        return cls(column, order, value)

    def holds(self, columns: Mapping[str, Any]) -> bool:
        found = columns.get(self.column)
        if found is None:
            return False
        if self.order == "~":
            return re.search(self.value, str(found)) is not None
        mine, other = _number(found), _number(self.value)
        pair: tuple[Any, Any] = (mine, other)
        if mine is None or other is None:
            pair = _text(found), self.value
        if self.order in _ORDERS:
            return _ORDERS[self.order](*pair)
        return bool(pair[0] == pair[1]) == (self.order == "=")


@dataclass(frozen=True)
class Choosing:
    """sample: a share of the rows. limit: of the others so many, the first ones. Rows with a fault
    are chosen unless there is a condition.
    """

    conditions: Sequence[Condition] = ()
    sample: float | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.sample is not None and not 0 < self.sample <= 1:
            raise UsageError(f"sample={self.sample!r}: give a share, more than 0 and at most 1")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"limit={self.limit!r}: give a number of rows, at least 1")

    @property
    def is_all(self) -> bool:
        return not self.conditions and self.sample is None and self.limit is None

    def of(self, rows: Iterator[Row]) -> Iterator[Row]:
        num_left = self.limit
        for row in rows:
            if num_left == 0:
                return
            if self._takes(row):
                num_left = None if num_left is None else num_left - 1
                yield row

    def _takes(self, row: Row) -> bool:
        if not all(condition.holds(row.columns) for condition in self.conditions):
            return False
        if self.sample is None:
            return True
        share = int(key_of({"sample": row.columns, "number": row.number})[:8], 16) / 2**32
        return share < self.sample


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    """As it stands in JSON: true, not True."""
    return str(value).lower() if isinstance(value, bool) else str(value)
