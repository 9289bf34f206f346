"""The rows of a batch that are under way, and the threads that run their bodies.

Owns the pool of threads, the bound on rows in flight, and how all of them are stopped. Knows
nothing of arguments, graphs or models: a row is whatever `start` makes of it; nor of who waits for
the rows.

One thread runs bodies as long as they do not wait: a body that never reads costs no thread. A body
that waits (for a model, or for long for anything else) makes the pool add a thread, within bounds.
A body whose run was cancelled does not hold its row up: its thread is left behind, and rejoins the
pool if the body ends after all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Generic, TypeVar

from sgdsl.errors import CancelledError
from sgdsl.execution import UNWIND_S, Execution
from sgdsl.flights import MAX_LEFT, Ended, Flight, Limits, OnError, Worker
from sgdsl.outcome import Outcome
from sgdsl.run import Run
from sgdsl.threads import left_behind
from sgdsl.timer import deadlines, errands
from sgdsl.waiting import blocking_hook

Row = TypeVar("Row")

GRACE_S = 1.0
"""How long the end of a batch waits for a row that is being started. What yields rows one by one
may be stuck itself: that is not waited for.
"""


class Crew(Generic[Row]):
    """Runs `start(index, row)` for all rows, which come with their indices. `_awaited` is what the
    caller waits for.
    """

    def __init__(
        self,
        rows: Iterator[tuple[int, Row]],
        start: Callable[[int, Row], Execution],
        *,
        limits: Limits,
        on_error: OnError,
    ) -> None:
        self._rows = rows
        self._start = start
        self._limits = limits
        self._on_error = on_error
        self._input = threading.Lock()
        self._lock = threading.RLock()  # a batch may be dropped, and so stopped, by a thread in it
        self._room = threading.Condition(self._lock)  # workers wait here
        self._news = threading.Condition(self._lock)  # the caller waits here
        self._awaited: Callable[[], bool] = self._all_done
        self._num_taken = 0
        self._num_starting = 0
        self._num_yielded = 0  # by the caller
        self._num_threads = self._num_running = self._num_idle = self._num_left = 0
        self._flights: dict[int, Flight] = {}
        self._finished: dict[int, Ended] = {}  # in the order of their ends
        self._unread: dict[int, None] = {}  # finished rows whose values the caller has to parse
        self._num_finished = self._num_failed = 0
        self._failure: tuple[int, BaseException] | None = None
        self._input_error: BaseException | None = None
        self._exhausted = False
        self._stopped = threading.Event()
        self._expired: CancelledError | None = None  # why all rows end before their time

    def cancel(self) -> None:
        """End the batch from another thread: what goes on is cancelled, and the caller hears."""
        self._expire(CancelledError("the batch was cancelled"))

    def _all_done(self) -> bool:
        if self._expired is not None:
            return not self._flights
        return self._exhausted and not self._flights and not self._num_starting

    # The end before its time.

    def _expire(self, error: CancelledError) -> None:
        """All rows end here and now; the backend is told on another thread."""
        for flight in self._halt(error):
            flight.execution.run.end(type(error)(str(error)))
            errands.after(0, flight.execution.wake)
            self._give_up(flight)
        with self._lock:
            self._news.notify_all()

    def _halt(self, error: CancelledError | None) -> list[Flight]:
        """Start no more rows; those that are in flight."""
        with self._lock:
            self._stopped.set()
            if self._expired is None:
                self._expired = error
            self._room.notify_all()
            return list(self._flights.values())

    def _stop(self) -> list[Ended]:
        """Start no more rows, cancel those in flight; the rows that were not yielded."""
        for flight in self._halt(None):
            flight.execution.end(CancelledError("its batch ended first"))
            self._give_up(flight)
        try:
            with self._lock:
                self._awaited = lambda: not self._num_left and not self._num_starting
                self._news.wait_for(self._awaited, UNWIND_S)
        except KeyboardInterrupt:
            pass  # impatient: do not wait for the bodies
        with self._lock:
            self._await_starting()
            return [self._finished[index] for index in sorted(self._finished)]

    def _stop_all(self) -> list[Ended]:
        """Stop; all rows, those never started included."""
        self._stop()
        never = dict(self._never_started())
        with self._lock:
            self._await_starting()
            ended = {**self._finished, **never}
            return [ended[index] for index in sorted(ended)]

    def _await_starting(self) -> None:
        """Until rows that are being started have ended; not for ever. Under the lock."""
        self._awaited = lambda: not self._num_starting and not self._flights
        self._news.wait_for(self._awaited, GRACE_S if self._limits.sized else UNWIND_S)

    def _never_started(self) -> Iterator[tuple[int, Ended]]:
        if not self._input.acquire(timeout=GRACE_S):
            return
        try:
            for index, row in self._rows:
                yield index, self._cancelled(self._start(index, row))
        finally:
            self._input.release()

    def _cancelled(self, execution: Execution) -> Ended:
        error = self._expired or CancelledError("its batch ended")
        return Ended.never_started(
            execution, type(error)(f"{error}; this row had not been started by then")
        )

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
            thread = threading.Thread(target=self._work, name="sgdsl-batch", daemon=True)
            try:
                thread.start()
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
        worker = Worker()
        blocking_hook.set(partial(self._blocked, worker))
        while (flight := self._next(worker)) is not None:
            flight.execution.run.when_finished(partial(self._run_over, flight))
            if (limit_s := self._limits.row_timeout_s) is not None:
                flight.execution.limit(limit_s, "row_timeout_s")
            with suppress(BaseException):  # it is the outcome of this row
                flight.execution.body()
            if not self._body_over(flight):
                return
        with self._lock:
            self._num_threads -= 1
            self._num_running -= 1

    def _next(self, worker: Worker) -> Flight | None:
        """The next row, once there is room for it; None when there is none."""
        with self._lock:
            while not (self._stopped.is_set() or self._exhausted or self._has_room()):
                self._num_running -= 1
                self._num_idle += 1
                self._room.wait()
                self._num_idle -= 1
                self._num_running += 1
            if self._stopped.is_set() or self._exhausted:
                return None
            self._num_starting += 1
        flight: Flight | None = None
        try:
            with self._input:
                if not self._stopped.is_set():
                    index, row = next(self._rows)
                    self._num_taken += 1
                    flight = Flight(index, self._start(index, row), worker)
        except StopIteration:
            self._exhausted = True
        except BaseException as error:  # noqa: BLE001 - the caller raises it, after the rows before
            self._exhausted = True
            self._input_error = error
        with self._lock:
            self._num_starting -= 1
            if flight is not None and not self._stopped.is_set():
                self._flights[flight.index] = flight
                return flight
            if flight is not None:  # the batch has ended while it was started
                self._finished[flight.index] = self._cancelled(flight.execution)
            self._room.notify_all()
            self._tell()
            return None

    @contextmanager
    def _blocked(self, worker: Worker) -> Iterator[None]:
        with self._lock:
            worker.waiting = True
            if not worker.left:
                self._num_running -= 1
                self._staff()
        try:
            yield
        finally:
            with self._lock:
                worker.waiting = False
                if not worker.left:
                    self._num_running += 1

    def _run_over(self, flight: Flight, run: Run) -> None:
        """The run of a row has ended; one that was cancelled does not wait for its body, and one
        that has failed no longer than it might have taken.
        """
        due_s = flight.execution.due_s
        with self._lock:
            flight.in_run = False
            landed = flight.landed
            if flight.in_body and not run.ended_by_program and due_s is not None:
                flight.alarm = deadlines.at(due_s, partial(self._give_up, flight))
        if landed:
            self._land(flight)
        elif run.ended_by_program:
            self._give_up(flight)

    def _give_up(self, flight: Flight) -> None:
        """The body, if it goes on, has outlived its run: the row does not wait for it."""
        with self._lock:
            if flight.in_run or not flight.in_body or flight.worker.left:
                return
            crowded = self._leave(flight.worker)
        self._land(flight)
        if crowded:
            self._expire(CancelledError(f"{self._num_left} bodies of the batch do not return"))

    def _leave(self, worker: Worker) -> bool:
        """Go on without this thread. Whether there are too many like it. Under the lock."""
        worker.left = True
        self._num_left += 1
        left_behind.add(1)
        self._num_threads -= 1
        if not worker.waiting:
            self._num_running -= 1
        return self._num_left >= MAX_LEFT * max(self._limits.threads, self._limits.in_flight)

    def _body_over(self, flight: Flight) -> bool:
        """The body of a row has returned. Whether its thread still belongs to the pool."""
        with self._lock:
            flight.in_body = False
            if flight.alarm is not None:
                flight.alarm.cancel()
            if flight.worker.left:
                flight.worker.left = False
                self._num_left -= 1
                left_behind.add(-1)
                self._tell()
                if self._num_threads >= self._limits.threads:
                    return False
                self._num_threads += 1
                self._num_running += 1
                return True
            landed = flight.landed
        if landed:
            self._land(flight)
        return True

    def _land(self, flight: Flight) -> None:
        """Hand the row over: nothing of it goes on."""
        run = flight.execution.run
        assert run.outcome is not None, "a row ends with an outcome"
        if run.returned and not flight.in_body:
            run.release()
        with self._lock:
            del self._flights[flight.index]
            self._finished[flight.index] = Ended(flight.execution.state, run)
            self._num_finished += 1
            if run.unread:
                self._unread[flight.index] = None
            else:
                self._count(flight.index, run.outcome)
            if self._num_idle:
                self._room.notify()
            self._staff()
            self._tell()

    def _count(self, index: int, outcome: Outcome | None) -> None:
        if outcome is not None and outcome.error is not None:
            self._num_failed += 1
            stopping = self._stopped.is_set() and self._expired is None
            if self._on_error == "raise" and self._failure is None and not stopping:
                self._failure = (index, outcome.error)

    def _tell(self) -> None:
        if self._awaited():
            self._news.notify()
