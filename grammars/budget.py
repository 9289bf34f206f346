"""What a compile or a lazy step may cost. Owns the counting; knows nothing of what is counted."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from grammars.errors import CompileBudgetError

CHECK_EVERY = 256
"""Steps between two looks at the clock: a look costs about as much as ten steps."""


class Budget:
    """Counts steps (expressions made, states derived, words searched) and the thread's own seconds
    (what others do to the machine refuses nobody's constraint) up to a limit.

    `refill` starts a new allowance: one for the compile, one for each later mask, so that a hostile
    constraint can neither hang its compile nor a decode step.
    """

    __slots__ = ("_deadline", "_left", "_next_look", "max_seconds", "max_steps")

    def __init__(self, max_steps: int = 500_000, max_seconds: float = 10.0) -> None:
        self.allow(max_steps, max_seconds)

    def allow(self, max_steps: int, max_seconds: float) -> None:
        """Start an allowance of this size, and make the next ones as large."""
        self.max_steps = max_steps
        self.max_seconds = max_seconds
        self.refill()

    def refill(self) -> None:
        """Start a new allowance."""
        self._left = self.max_steps
        self._next_look = self.max_steps - CHECK_EVERY
        self._deadline = time.thread_time() + self.max_seconds

    def spend(self, steps: int = 1) -> None:
        """Count `steps`; raises CompileBudgetError when the allowance is used up."""
        self._left -= steps
        if self._left > self._next_look:
            return
        if self._left < 0:
            raise CompileBudgetError(
                f"the constraint needs more than {self.max_steps} expressions or states; "
                "make it smaller, or raise max_steps"
            )
        self._next_look = self._left - CHECK_EVERY
        if time.thread_time() > self._deadline:
            raise CompileBudgetError(
                f"the constraint takes more than {self.max_seconds} s of computing; "
                "make it smaller, or raise max_seconds"
            )


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
