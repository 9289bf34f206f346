"""Many calls of one program on one event loop.

Owns the bound on rows in flight, their order, and what happens on failure, at the deadline and when
the awaiting task is cancelled. The rows are tasks: none of them costs a thread. Knows nothing of
arguments, graphs or models: a row is whatever `start` makes of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from sgdsl.async_execution import through_async
from sgdsl.batch_errors import BatchFailed
from sgdsl.errors import CancelledError, DeadlineError
from sgdsl.execution import UNWIND_S, Execution
from sgdsl.flights import Ended, Limits, OnError
from sgdsl.progress import Progress
from sgdsl.state import ProgramState

Row = TypeVar("Row")
State = ProgramState[Any]


class AsyncBatch(Generic[Row]):
    """Runs `start(index, row)` for all rows. Used once, by one task."""

    def __init__(
        self,
        rows: Iterator[tuple[int, Row]],
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
        self._flights: dict[int, tuple[Execution, asyncio.Task[None]]] = {}
        self._finished: dict[int, Ended] = {}  # in the order of their ends
        self._num_taken = self._num_yielded = self._num_finished = self._num_failed = 0
        self._exhausted = False
        self._input_error: BaseException | None = None
        self._failure: tuple[int, BaseException] | None = None
        self._ending: CancelledError | None = None  # why rows end before their time
        self._news: asyncio.Event | None = None
        self._alarm: asyncio.TimerHandle | None = None

    async def collect(self) -> list[State]:
        """All states, in the order of the rows."""
        try:
            with self._progress:
                await self._until(lambda: self._all_done)
        finally:
            await self.stop()
        rows = self.ended()
        self._raise_failure(rows)
        if self._input_error is not None:
            raise self._input_error
        return [row.state for _, row in rows]

    async def in_order(self) -> AsyncGenerator[State]:
        """The states in the order of the rows, each as soon as it and those before are finished."""
        pairs = self._as_finished(lambda: self._num_yielded)
        async with aclosing(pairs):
            async for _, state in pairs:
                yield state

    def as_completed(self) -> AsyncGenerator[tuple[int, State]]:
        """The states with the indices of their rows, each as soon as it is finished."""
        return self._as_finished(lambda: next(iter(self._finished), -1))

    def ended(self) -> list[tuple[int, Ended]]:
        """The rows that were not yielded, in their order, once nothing goes on. Those that were not
        started are cancelled, if they are known to end.
        """
        if self._limits.sized and not self._exhausted:
            error = self._ending or CancelledError("its batch ended")
            for index, row in self._rows:
                reason = type(error)(f"{error}; this row had not been started by then")
                self._finished[index] = Ended.never_started(self._start(index, row), reason)
            self._exhausted = True
        return sorted(self._finished.items())

    async def _as_finished(self, following: Callable[[], int]) -> AsyncGenerator[tuple[int, State]]:
        """`following`: the index to yield next; one that is not finished is waited for."""
        try:
            with self._progress:
                while True:
                    await self._until(lambda: following() in self._finished or self._all_done)
                    if self._failure is not None:
                        await self.stop()
                        self._raise_failure(self.ended())
                    if (index := following()) not in self._finished:
                        break
                    self._num_yielded += 1
                    yield index, self._finished.pop(index).state
                rows = self.ended()
                self._raise_failure(rows)
                for index, row in rows:
                    yield index, row.state
                if self._input_error is not None:
                    raise self._input_error
                if self._ending is not None and not self._exhausted:
                    error = f"{self._ending}; the rest of its rows was not read"
                    raise type(self._ending)(error)
        finally:
            await self.stop()

    @property
    def _all_done(self) -> bool:
        return not self._flights and (self._exhausted or self._ending is not None)

    async def _until(self, reached: Callable[[], bool]) -> None:
        """Keep rows in flight until `reached()`, or a failure to raise."""
        if self._news is None:
            self._news = asyncio.Event()
            if (limit_s := self._limits.timeout_s) is not None:
                self._alarm = asyncio.get_running_loop().call_later(limit_s, self._expire)
        while True:
            self._news.clear()
            self._fill()
            if self._failure is not None or reached():
                return
            await self._news.wait()
            self._progress.show(self._num_finished, self._num_failed)

    def _fill(self) -> None:
        while not self._exhausted and self._ending is None and self._has_room():
            try:
                index, row = next(self._rows)
            except StopIteration:
                self._exhausted = True
                return
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - raised after the rows before it
                self._exhausted = True
                self._input_error = error
                return
            self._num_taken += 1
            execution = self._start(index, row)
            self._flights[index] = execution, asyncio.create_task(self._row(index, execution))

    def _has_room(self) -> bool:
        ahead = self._limits.ahead
        return len(self._flights) < self._limits.in_flight and (
            ahead is None or self._num_taken - self._num_yielded < ahead
        )

    async def _row(self, index: int, execution: Execution) -> None:
        try:
            await through_async(execution, self._limits.row_timeout_s, "row_timeout_s")
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # it is the outcome of this row
            if execution.run.outcome is None:  # or Ctrl-C, between two steps of its body
                execution.end(CancelledError("interrupted"))
                if isinstance(error, KeyboardInterrupt):
                    raise
        finally:
            self._land(index, execution)

    def _land(self, index: int, execution: Execution) -> None:
        assert self._news is not None, "what has begun has been waited for"
        assert execution.run.outcome is not None, "a row ends with an outcome"
        del self._flights[index]
        self._finished[index] = Ended(execution.state, execution.run)
        self._num_finished += 1
        outcome = execution.run.conclude()
        if outcome is not None and outcome.error is not None:
            self._num_failed += 1
            if self._on_error == "raise" and self._failure is None:
                self._failure = index, outcome.error
        self._news.set()

    def _expire(self) -> None:
        """All rows end here and now."""
        limit_s = self._limits.timeout_s
        error = DeadlineError(f"timeout_s={limit_s:g} s passed before the batch had ended")
        self._end(error)

    def _end(self, error: CancelledError) -> None:
        assert self._news is not None, "what has begun has been waited for"
        self._ending = error
        for execution, task in self._flights.values():
            if execution.run.outcome is None:
                execution.end(type(error)(str(error)))
            else:  # the body has outlived its run
                task.cancel()
        self._news.set()

    async def stop(self) -> None:
        """Nothing of this batch goes on after it."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._news is not None and self._ending is None and not self._all_done:
            self._end(CancelledError("its batch ended first"))
        tasks = [task for _, task in self._flights.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=3 * UNWIND_S)

    def _raise_failure(self, rows: list[tuple[int, Ended]]) -> None:
        if self._failure is None and self._ending is not None and self._on_error == "raise":
            ends = ((index, row.run.outcome) for index, row in rows)
            never = (index for index, end in ends if end is not None and end.error is not None)
            if (first := next(never, None)) is not None:
                self._failure = first, self._ending
        if self._failure is not None:
            row, error = self._failure
            raise BatchFailed(error, row=row, states=[each.state for _, each in rows]) from error
