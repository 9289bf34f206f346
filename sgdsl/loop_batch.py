"""Batches between the two worlds: async rows for a caller that waits, and the other way round.

Owns the loop that is run for a caller without one, and the thread that waits for a caller with one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from sgdsl.async_batch import AsyncBatch
from sgdsl.async_execution import refuse_running_loop
from sgdsl.async_waiting import Bell, stay_awake
from sgdsl.batch import Batch
from sgdsl.batch_errors import BatchInterrupted
from sgdsl.state import ProgramState
from sgdsl.threads import Threads

T = TypeVar("T")
State = ProgramState[Any]

_END: Any = object()
_waiting = Threads("sgdsl-batch-wait", limit=1024)


class LoopBatch:
    """An `AsyncBatch` on a loop of its own, for a caller without one. The loop goes on as long as
    the caller waits.
    """

    def __init__(self, batch: AsyncBatch[Any]) -> None:
        refuse_running_loop(
            "run_batch", "await f.arun_batch(...), or async for ... in f.astream_batch(...)"
        )
        self._batch = batch

    def collect(self) -> list[State]:
        with asyncio.Runner() as runner:
            stay_awake(runner.get_loop())
            try:
                return runner.run(self._batch.collect())
            except KeyboardInterrupt:
                raise self._interrupted() from None

    def in_order(self) -> Iterator[State]:
        return self._pull(self._batch.in_order())

    def as_completed(self) -> Iterator[tuple[int, State]]:
        return self._pull(self._batch.as_completed())

    def _pull(self, rows: AsyncGenerator[T]) -> Generator[T]:
        async def following() -> T:
            return await anext(rows, _END)

        async def close() -> None:
            for task in asyncio.all_tasks():  # interrupted before it began, it would begin now
                if task.get_coro() is coming:
                    task.cancel()
                    await asyncio.wait({task}, timeout=1.0)
            with suppress(RuntimeError):  # it is still at it, and stops with its batch
                await rows.aclose()
            await self._batch.stop()

        coming: Any = None
        with asyncio.Runner() as runner:
            stay_awake(runner.get_loop())
            try:
                while (row := runner.run(coming := following())) is not _END:
                    yield row
            except KeyboardInterrupt:  # perhaps between two rows, while the loop stood still
                with suppress(RuntimeError):  # a loop that was about to stop does so now
                    runner.run(close())
                runner.run(close())
                raise self._interrupted() from None
            finally:
                runner.run(close())

    def _interrupted(self) -> BatchInterrupted:
        return BatchInterrupted([row.state for _, row in self._batch.ended()])


class ThreadBatch:
    """A `Batch`, for a task that awaits it. A cancelled task cancels the batch."""

    def __init__(self, batch: Batch[Any]) -> None:
        self._batch = batch

    async def collect(self) -> list[State]:
        return await self._call(self._batch.collect)

    def in_order(self) -> AsyncGenerator[State]:
        return self._pull(self._batch.in_order())

    def as_completed(self) -> AsyncGenerator[tuple[int, State]]:
        return self._pull(self._batch.as_completed())

    async def _pull(self, rows: Generator[T]) -> AsyncGenerator[T]:
        try:
            while (row := await self._call(lambda: next(rows, _END))) is not _END:
                yield row
        finally:
            await self._call(rows.close)

    async def _call(self, call: Callable[[], T]) -> T:
        bell = Bell()
        returned: list[T] = []
        raised: list[BaseException] = []

        def job() -> None:
            try:
                returned.append(call())
            except BaseException as error:  # noqa: BLE001 - raised by the task that awaits
                raised.append(error)
            bell.ring()

        _waiting.start(job)
        try:
            await asyncio.shield(bell.future)
        except asyncio.CancelledError:
            self._batch.cancel()
            await bell.future
            raise
        if raised:
            raise raised[0]
        return returned[0]
