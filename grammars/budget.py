"""What a compile or a lazy step may cost. Owns the counting; knows nothing of what is counted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from grammars.errors import CompileBudgetError

CHECK_EVERY = 256
"""Steps between two looks at the clock: a look costs about as much as ten steps."""


class Limits(NamedTuple):
    """Steps and seconds of one allowance; bytes that all of a budget's allowances may keep."""

    max_steps: int = 500_000
    max_seconds: float = 10.0
    max_bytes: int = 512 << 20

    def within(self, others: Limits) -> Limits:
        """The lower of each of both."""
        return Limits(
            min(self.max_steps, others.max_steps),
            min(self.max_seconds, others.max_seconds),
            min(self.max_bytes, others.max_bytes),
        )

    def covering(self, others: Limits) -> Limits:
        """The higher of each of both."""
        return Limits(
            max(self.max_steps, others.max_steps),
            max(self.max_seconds, others.max_seconds),
            max(self.max_bytes, others.max_bytes),
        )

    def widened(self, factor: int, more: Limits) -> Limits:
        """So many times these, and `more`."""
        return Limits(
            factor * self.max_steps + more.max_steps,
            factor * self.max_seconds + more.max_seconds,
            factor * self.max_bytes + more.max_bytes,
        )


class At(NamedTuple):
    """A place of a constraint: as errors carry it in `position`, and in words."""

    position: int | str
    words: str


def at_pointer(pointer: str) -> At:
    """A place of a schema."""
    return At(pointer, f"at {pointer or '/'} of the schema")


class Budget:
    """Counts steps (expressions made, states derived, words searched), the thread's own seconds
    (what others do to the machine refuses nobody's constraint) and bytes that are kept, up to a
    limit each.

    `refill` starts a new allowance: one for the compile, one for each later mask, so that a hostile
    constraint can neither hang its compile nor a decode step. What is kept stays counted: it is an
    estimate, by what the makers of things that stay say of their size.
    """

    __slots__ = (
        "_deadline",
        "_is_cancelled",
        "_left",
        "_next_look",
        "at",
        "columns",
        "is_spent",
        "max_bytes",
        "max_seconds",
        "max_steps",
        "num_bytes",
    )

    def __init__(
        self,
        max_steps: int = Limits().max_steps,
        max_seconds: float = Limits().max_seconds,
        max_bytes: int = Limits().max_bytes,
    ) -> None:
        self.num_bytes = 0
        self.is_spent = False
        """Whether an allowance was used up."""
        self.at: At | None = None
        """What is worked at, as far as it is known: where a budget runs out."""
        self.columns: Callable[[int], At] | None = None
        """How a column of the text that is read is said; None where it is not the constraint's."""
        self._is_cancelled = False
        self.allow(max_steps, max_seconds, max_bytes)

    def allow(self, max_steps: int, max_seconds: float, max_bytes: int | None = None) -> None:
        """Start an allowance of this size, and make the next ones as large. `max_bytes`: another
        limit from now on.
        """
        if max_bytes is not None:
            self.max_bytes = max_bytes
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.refill()

    def refill(self) -> None:
        """Start a new allowance; what is worked at is not known yet."""
        self.at = None
        self._left = self.max_steps
        self._next_look = self.max_steps - CHECK_EVERY
        self._deadline = time.thread_time() + self.max_seconds

    @property
    def used(self) -> Limits:
        """What this allowance has taken; of bytes, all that are kept."""
        seconds = time.thread_time() - self._deadline + self.max_seconds
        return Limits(self.max_steps - self._left, seconds, self.num_bytes)

    def cancel(self) -> None:
        """Make the next look at the clock the last, whoever is counting; from any thread."""
        self._is_cancelled = True

    def spend(self, steps: int = 1, num_bytes: int = 0) -> None:
        """Count `steps`, and bytes that stay; raises CompileBudgetError when one of the limits is
        reached.
        """
        self._left -= steps
        self.num_bytes += num_bytes
        if self._left > self._next_look:
            return
        self._next_look = self._left - CHECK_EVERY
        if self._is_cancelled:
            raise CompileBudgetError("the constraint's compile was cancelled")
        if self._left < 0:
            raise self._spent(f"needs more than {self.max_steps} expressions or states", "steps")
        if time.thread_time() > self._deadline:
            raise self._spent(f"takes more than {self.max_seconds} s of computing", "seconds")
        if self.num_bytes > self.max_bytes:
            raise self._spent(f"keeps more than {self.max_bytes} bytes", "bytes")

    def _spent(self, what: str, limit: str) -> CompileBudgetError:
        self.is_spent = True
        where, position = ("", None) if self.at is None else (f" {self.at.words}", self.at.position)
        message = f"the constraint {what}{where}; make it smaller, or raise max_{limit}"
        return CompileBudgetError(message, position)

    def at_column(self, column: int) -> None:
        """What stands at a column is worked at, if columns are those of the constraint."""
        if self.columns is not None:
            self.at = self.columns(column)


@contextmanager
def too_deep_is_over_budget(budget: Budget) -> Iterator[None]:
    """Turns Python's RecursionError into the budget's error.

    The front ends bound how deep a constraint nests; how much of the stack is left is the caller's.
    """
    try:
        yield
    except RecursionError:
        where, position = ("", None) if budget.at is None else (budget.at.words, budget.at.position)
        raise CompileBudgetError(
            f"the constraint is nested too deep for the stack that is left {where}".rstrip()
            + "; flatten it",
            position,
        ) from None
