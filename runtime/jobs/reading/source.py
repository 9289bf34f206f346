"""What every source of rows is.

Owns the protocol, and how a file that cannot be read is put. A line or file of the input that
cannot be read is a row with a fault, since everything in the input is accounted for; a source that
is not what its name says is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from runtime.jobs.row import Row
from sgdsl.errors import UsageError


class Source(Protocol):
    @property
    def name(self) -> str:
        """For people."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Of every row; None where each row has its own."""

    @property
    def num_rows(self) -> int | None:
        """None where only reading all of them would tell."""

    @property
    def rereadable(self) -> bool:
        """Whether `rows()` can be asked for again, and gives the same ones."""

    def rows(self) -> Iterator[Row]:
        """From the first one on."""


def not_that(path: object, kind: str, why: object) -> UsageError:
    return UsageError(f"{path} cannot be read as {kind}: {' '.join(str(why).split())}")
