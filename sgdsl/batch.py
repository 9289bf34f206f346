"""Many calls of one program, as who made them sees them: their order and their end.

Owns how results are waited for and handed over, and what the caller hears of a failure, a deadline
or Ctrl-C. Knows nothing of the threads that run bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sgdsl.batch_errors import BatchFailed, BatchInterrupted
from sgdsl.crew import Crew, Row
from sgdsl.errors import DeadlineError
from sgdsl.execution import Execution
from sgdsl.flights import Ended, Limits, OnError
from sgdsl.progress import Progress
from sgdsl.state import ProgramState
from sgdsl.timer import deadlines
from sgdsl.waiting import blocking

State = ProgramState[Any]

TICK_S = 0.05
"""How often a waiting caller looks after the pool and the progress bar."""


class Batch(Crew[Row]):
    """Runs `start(index, row)` for all rows, which come with their indices; results that are taken
    one by one need these in their order. Used once, by one thread.
    """

    def __init__(
        self,
        rows: Iterator[tuple[int, Row]],
        start: Callable[[int, Row], Execution],
        *,
        limits: Limits,
        on_error: OnError,
        progress: Progress,
    ) -> None:
        super().__init__(rows, start, limits=limits, on_error=on_error)
        self._progress = progress

    def collect(self) -> list[State]:
        """All states, in the order of the rows."""
        try:
            with self._progress, self._deadline():
                self._await(self._all_done)
        except KeyboardInterrupt:
            raise _interrupted(self._stop_all()) from None
        if self._failure is not None:
            self._raise_failure(self._stop_all())
        if self._expired is not None:
            rows = self._stop_all()
            if self._on_error == "raise":
                ends = [each.run.outcome for each in rows]
                failed = (i for i, end in enumerate(ends) if end is None or end.error)
                if (first := next(failed, None)) is not None:  # else it was just in time
                    self._failure = first, self._expired
                    self._raise_failure(rows)
            return [row.state for row in rows]
        if self._input_error is not None:
            raise self._input_error
        return [self._finished[index].state for index in sorted(self._finished)]

    def in_order(self) -> Generator[State]:
        """The states in the order of the rows, each as soon as it and those before are finished."""
        for _, state in self._as_finished(lambda: self._num_yielded):
            yield state

    def as_completed(self) -> Generator[tuple[int, State]]:
        """The states with the indices of their rows, each as soon as it is finished."""
        return self._as_finished(lambda: next(iter(self._finished), -1))

    def _as_finished(self, following: Callable[[], int]) -> Generator[tuple[int, State]]:
        """`following`: the index to yield next; one that is not finished is waited for."""
        try:
            with self._progress, self._deadline():
                while (index := self._wait_for(following)) is not None:
                    yield index, self._take(index)
                for index, row in self._rest():
                    yield index, row.state
        except KeyboardInterrupt:
            raise _interrupted(self._stop()) from None
        finally:
            if not self._stopped.is_set() and not self._all_done():  # left early
                self._stop()

    def _wait_for(self, following: Callable[[], int]) -> int | None:
        """The next row to yield; None when there is none."""
        self._await(lambda: following() in self._finished or self._all_done(), following=following)
        if self._failure is not None:
            self._raise_failure(self._stop())
        index = following()
        if index in self._finished:
            return index
        if self._expired is None and self._input_error is not None:
            raise self._input_error
        return None

    def _rest(self) -> Iterator[tuple[int, Ended]]:
        """The rows that an expired batch has not started, or was about to."""
        if self._expired is None:
            return
        never = list(self._never_started()) if self._limits.sized else []
        with self._lock:
            self._await_starting()
            late, self._finished = self._finished, {}
        yield from sorted(late.items())
        yield from never
        if self._input_error is not None:
            raise self._input_error
        if not self._exhausted and not self._limits.sized:
            raise type(self._expired)(f"{self._expired}; the rest of its rows was not read")

    def _take(self, index: int) -> State:
        with self._lock:
            self._num_yielded += 1
            self._room.notify()
            return self._finished.pop(index).state

    def _await(
        self, reached: Callable[[], bool], *, following: Callable[[], int] | None = None
    ) -> None:
        """Until `reached()`, or a failure to raise; the values of finished rows (of the `following`
        alone, if given) are parsed meanwhile. Not where a row's end is heard of: as a rule, that is
        the backend's thread.
        """
        with self._lock:
            self._awaited = lambda: self._failure is not None or reached()
            self._staff()
        num_taken, done = -1, False
        while not done:
            with blocking(), self._lock:
                unread = self._next_unread(following)
                if unread is None and not self._awaited():
                    self._news.wait(TICK_S)
                if num_taken == self._num_taken:  # every thread is held up by what it does
                    self._staff(self._num_threads)
                num_taken = self._num_taken
                if unread is None:
                    unread = self._next_unread(following)
                done = unread is None and self._awaited()
            if unread is not None:
                outcome = self._finished[unread].run.conclude()
                with self._lock:
                    self._count(unread, outcome)
            self._progress.show(self._num_finished, self._num_failed)

    def _next_unread(self, following: Callable[[], int] | None) -> int | None:
        """Takes the row away. Under the lock."""
        if self._failure is not None or not self._unread:
            return None
        index = next(reversed(self._unread)) if following is None else following()
        if index not in self._unread:
            return None
        del self._unread[index]
        return index

    def _raise_failure(self, rows: list[Ended]) -> None:
        assert self._failure is not None, "there is a failure to raise"
        row, error = self._failure
        raise BatchFailed(error, row=row, states=[each.state for each in rows]) from error

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        timeout_s = self._limits.timeout_s
        if timeout_s is None:
            yield
            return
        error = DeadlineError(f"timeout_s={timeout_s:g} s passed before the batch had ended")
        alarm = deadlines.after(timeout_s, partial(self._expire, error))
        try:
            yield
        finally:
            alarm.cancel()


def _interrupted(rows: list[Ended]) -> BatchInterrupted:
    outcomes = [row.run.outcome for row in rows]
    finished = sum(each is not None and each.status != "cancelled" for each in outcomes)
    return BatchInterrupted([row.state for row in rows], num_finished=finished)
