"""What a compile or a lazy step may cost. Owns the counting; knows nothing of what is counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
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
        """Start a new allowance."""
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
        return CompileBudgetError(f"the constraint {what}; make it smaller, or raise max_{limit}")


@contextmanager
def too_deep_is_over_budget() -> Iterator[None]:
    """Turns Python's RecursionError into the budget's error.

    The front ends bound how deep a constraint nests; how much of the stack is left is the caller's.
    """
    try:
        yield
    except RecursionError:
        raise CompileBudgetError(
            "the constraint is nested too deep for the stack that is left; flatten it"
        ) from None
