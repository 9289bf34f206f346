"""Many calls of one program: their threads, their order and their end.

Owns the pool of threads that runs bodies, the bound on rows in flight, and what happens on failure
and Ctrl-C. Knows nothing of arguments, graphs or models: a row is whatever `start` makes of it.

One thread runs bodies as long as they do not wait: a body that never reads costs no thread. A body
that waits (for a model, or for long for anything else) makes the pool add a thread, within bounds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, NamedTuple, TypeVar

from sgdsl.batch_errors import BatchFailed, BatchInterrupted
from sgdsl.execution import GRACE_S, Execution
from sgdsl.outcome import Outcome
from sgdsl.progress import Progress
from sgdsl.run import Run
from sgdsl.state import ProgramState
from sgdsl.waiting import blocking, blocking_hook

Row = TypeVar("Row")
OnError = Literal["collect", "raise"]

AUTO_THREADS = 256
"""Threads of a batch at most, when the caller does not say. One that waits costs some 50 KB."""

TICK_S = 0.05
"""How often a waiting caller looks after the pool and the progress bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """`ahead`: rows started but not yet taken by the caller; None keeps all results."""

    in_flight: int
    threads: int
    ahead: int | None = None


@dataclass(slots=True)
class _Flight:
    execution: Execution
    num_open: int = 2  # the body and the run end separately, in either order


class _Ended(NamedTuple):
    """A row as the caller will get it."""

    state: ProgramState
    run: Run


class Batch(Generic[Row]):
    """Runs `start(index, row)` for all rows. Used once, by one thread."""

    def __init__(
        self,
        rows: Iterator[Row],
        start: Callable[[int, Row], Execution],
        *,
        limits: Limits,
        on_error: OnError,
        progress: Progress,
    ) -> None:
        self._rows = rows
        self._start = start
        self._limits = limits
        self._on_error = on_error
        self._progress = progress
        self._input = threading.Lock()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)  # workers wait here
        self._news = threading.Condition(self._lock)  # the caller waits here
        self._awaited: Callable[[], bool] = self._all_done
        self._num_taken = 0
        self._num_starting = 0
        self._num_yielded = 0
        self._num_threads = self._num_running = self._num_idle = 0
        self._flights: dict[int, _Flight] = {}
        self._finished: dict[int, _Ended] = {}
        self._unread: dict[int, None] = {}  # finished rows whose values the caller has to parse
        self._num_finished = self._num_failed = 0
        self._failure: tuple[int, BaseException] | None = None
        self._input_error: BaseException | None = None
        self._exhausted = self._forced = False
        self._stopped = threading.Event()

    # The caller's side.

    def collect(self) -> list[ProgramState]:
        """All states, in the order of the rows."""
        try:
            with self._progress:
                self._await(self._all_done)
        except KeyboardInterrupt:
            raise _interrupted(self._stop_all()) from None
        if self._failure is not None:
            self._raise_failure(self._stop_all())
        if self._input_error is not None:
            raise self._input_error
        return [self._finished[index].state for index in range(self._num_taken)]

    def in_order(self) -> Iterator[ProgramState]:
        """The states in the order of the rows, each as soon as it and those before are finished."""
        try:
            with self._progress:
                for index in self._indices():
                    yield self._take(index)
        except KeyboardInterrupt:
            raise _interrupted(self._stop()) from None
        finally:
            if not self._stopped.is_set() and not self._all_done():  # left early
                self._stop()

    def _indices(self) -> Iterator[int]:
        while True:
            index = self._num_yielded
            self._await(
                lambda: index in self._finished or self._all_done(),  # noqa: B023
                row=index,
            )
            if self._failure is not None:
                self._raise_failure(self._stop())
            if index not in self._finished:
                break
            yield index
        if self._input_error is not None:
            raise self._input_error

    def _take(self, index: int) -> ProgramState:
        with self._lock:
            self._num_yielded += 1
            self._room.notify()
            return self._finished.pop(index).state

    def _await(self, reached: Callable[[], bool], *, row: int | None = None) -> None:
        """Until `reached()`, or a failure to raise; the values of finished rows (of `row` alone, if
        one is given) are parsed meanwhile. Not where a row's end is heard of: as a rule, that is
        the backend's thread.
        """
        with self._lock:
            self._awaited = lambda: self._failure is not None or reached()
            self._staff()
        num_taken, done = -1, False
        while not done:
            with blocking(), self._lock:
                unread = self._next_unread(row)
                if unread is None and not self._awaited():
                    self._news.wait(TICK_S)
                if num_taken == self._num_taken:  # every thread is held up by what it does
                    self._staff(self._num_threads)
                num_taken = self._num_taken
                if unread is None:
                    unread = self._next_unread(row)
                done = unread is None and self._awaited()
            if unread is not None:
                outcome = self._finished[unread].run.conclude()
                with self._lock:
                    self._count(unread, outcome)
            self._progress.show(self._num_finished, self._num_failed)

    def _next_unread(self, row: int | None) -> int | None:
        """Takes the row away. Under the lock."""
        if self._failure is not None or not (self._unread if row is None else row in self._unread):
            return None
        index = self._unread.popitem()[0] if row is None else row
        self._unread.pop(index, None)
        return index

    def _all_done(self) -> bool:
        return self._exhausted and not self._flights and not self._num_starting

    def _raise_failure(self, rows: list[_Ended]) -> None:
        assert self._failure is not None, "there is a failure to raise"
        row, error = self._failure
        raise BatchFailed(error, row=row, states=[each.state for each in rows]) from error

    def _stop_all(self) -> list[_Ended]:
        """Stop; all rows, those never started included."""
        ended = self._stop()
        if self._input.acquire(timeout=GRACE_S):
            for row in self._rows:
                execution = self._start(self._num_taken, row)
                execution.run.finish_cancelled("its batch ended before it was started")
                execution.run.release()
                ended.append(_Ended(execution.state, execution.run))
                self._num_taken += 1
            self._input.release()
        return ended

    def _stop(self) -> list[_Ended]:
        """Start no more rows, cancel those in flight; the rows that were not yielded."""
        with self._lock:
            self._stopped.set()
            self._room.notify_all()
            flights = list(self._flights.values())
        for flight in flights:
            flight.execution.cancel()
        try:
            with self._lock:
                self._awaited = lambda: not self._flights and not self._num_starting
                self._news.wait_for(self._awaited, GRACE_S)
        except KeyboardInterrupt:
            pass  # impatient: do not wait for the backend
        with self._lock:
            self._forced = True
            executions = {index: flight.execution for index, flight in self._flights.items()}
            ended = self._finished | {i: _Ended(e.state, e.run) for i, e in executions.items()}
        for execution in executions.values():
            execution.run.finish_cancelled("its batch ended first")
        return [ended[index] for index in sorted(ended)]

    # The workers' side.

    def _staff(self, extra: int = 0) -> None:
        """Add a thread if nobody would start the next row, or up to `extra`. Under the lock."""
        if self._num_starting:  # somebody is at it, perhaps held up by a slow input
            return
        wanted = max(extra, 1 if self._num_running == 0 else 0)
        wanted = min(wanted, self._limits.threads - self._num_threads)
        for _ in range(wanted):
            if self._num_idle or self._exhausted or self._stopped.is_set() or not self._has_room():
                return
            worker = threading.Thread(target=self._work, name="sgdsl-batch", daemon=True)
            try:
                worker.start()
            except RuntimeError:  # the system gives no more threads: go on with those there are
                if self._num_threads == 0:
                    raise
                return
            self._num_threads += 1
            self._num_running += 1

    def _has_room(self) -> bool:
        ahead = self._limits.ahead
        in_flight = len(self._flights) + self._num_starting
        return in_flight < self._limits.in_flight and (
            ahead is None or self._num_taken + self._num_starting - self._num_yielded < ahead
        )

    def _work(self) -> None:
        blocking_hook.set(self._blocked)
        while (taken := self._next()) is not None:
            index, execution = taken
            execution.run.when_finished(partial(self._ended, index))
            with suppress(BaseException):  # it is the outcome of this row
                execution.body()
            self._ended(index)
        with self._lock:
            self._num_threads -= 1
            self._num_running -= 1

    def _next(self) -> tuple[int, Execution] | None:
        """The next row, once there is room for it; None when there is none."""
        with self._lock:
            self._num_running -= 1
            self._num_idle += 1
            self._room.wait_for(
                lambda: self._stopped.is_set() or self._exhausted or self._has_room()
            )
            self._num_idle -= 1
            self._num_running += 1
            if self._stopped.is_set() or self._exhausted:
                return None
            self._num_starting += 1
        started: tuple[int, Execution] | None = None
        try:
            with self._input:
                if not self._stopped.is_set():
                    row = next(self._rows)
                    index = self._num_taken
                    self._num_taken += 1
                    started = index, self._start(index, row)
        except StopIteration:
            self._exhausted = True
        except BaseException as error:  # noqa: BLE001 - the caller raises it, after the rows before
            self._exhausted = True
            self._input_error = error
        with self._lock:
            self._num_starting -= 1
            if started is None:
                self._room.notify_all()
                self._tell()
                return None
            self._flights[started[0]] = _Flight(started[1])
        if self._stopped.is_set():
            started[1].cancel()
        return started

    @contextmanager
    def _blocked(self) -> Iterator[None]:
        with self._lock:
            self._num_running -= 1
            self._staff()
        try:
            yield
        finally:
            with self._lock:
                self._num_running += 1

    def _ended(self, index: int, _: object = None) -> None:
        """The body or the run of a row has ended."""
        with self._lock:
            flight = self._flights[index]
            flight.num_open -= 1
            if flight.num_open:
                return
            releasable = not self._forced
        run = flight.execution.run
        assert run.outcome is not None, "a row ends with an outcome"
        if releasable and run.returned:
            run.release()
        with self._lock:
            del self._flights[index]
            self._finished[index] = _Ended(flight.execution.state, run)
            self._num_finished += 1
            if run.unread:
                self._unread[index] = None
            else:
                self._count(index, run.outcome)
            self._room.notify()
            self._staff()
            self._tell()

    def _count(self, index: int, outcome: Outcome | None) -> None:
        if outcome is not None and outcome.status == "failed":
            self._num_failed += 1
            if self._on_error == "raise" and self._failure is None:
                assert outcome.error is not None, "a failed run has an error"
                self._failure = (index, outcome.error)

    def _tell(self) -> None:
        if self._awaited():
            self._news.notify()


def _interrupted(rows: list[_Ended]) -> BatchInterrupted:
    outcomes = [row.run.outcome for row in rows]
    finished = sum(each is not None and each.status != "cancelled" for each in outcomes)
    return BatchInterrupted([row.state for row in rows], num_finished=finished)
