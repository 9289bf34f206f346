"""Calls that are awaited: of `async def` bodies, and of others on a thread of their own.

Owns how a body is run as a task, and what a deadline, a cancelled task and the end of a run mean
for each other. Knows nothing of arguments or batches.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from sgdsl.async_state import AsyncProgramState
from sgdsl.async_waiting import stay_awake, until
from sgdsl.context import caller
from sgdsl.errors import CancelledError, UsageError
from sgdsl.execution import STREAMED, UNWIND_S, Aside, Execution, Terms
from sgdsl.expressions import Part
from sgdsl.reader import RunReader
from sgdsl.recorder import Recorder
from sgdsl.source import body_source
from sgdsl.threads import left_behind

_kept: set[asyncio.Future[Any]] = set()
"""Tasks under way that nobody else may refer to: a loop alone does not keep them."""


class AsyncExecution(Execution):
    """`call(state)` is the coroutine of an `async def` body."""

    __slots__ = ("_call_async", "_raised", "async_state")

    def __init__(
        self,
        call: Callable[[AsyncProgramState], Awaitable[Any]],
        terms: Terms,
        *,
        seed: int,
        streaming: bool = False,
        start: Sequence[Part] = (),
    ) -> None:
        super().__init__(_never, terms, seed=seed, streaming=streaming, start=start)
        self._call_async = call
        self._raised: BaseException | None = None
        reader = RunReader(self.run, self._recorder)
        self.async_state: AsyncProgramState[Any] = AsyncProgramState(self._recorder, reader)

    def body(self) -> None:
        """Run the body on a loop of its own. Raises what it raises, after ending its run."""
        refuse_running_loop("run", "await f.arun(...)")
        try:
            with asyncio.Runner() as runner:
                stay_awake(runner.get_loop())
                runner.run(self.body_async())
        finally:
            self.run.loop_thread = None

    async def body_async(self) -> None:
        """Run the body as a task. One whose run was cancelled is cancelled too, and left behind if
        it does not care.
        """
        task = asyncio.ensure_future(self._body())
        _keep(task)
        over = False

        def end(_: object) -> None:
            nonlocal over
            over = True
            self.run.notify()

        task.add_done_callback(end)
        try:
            await until(self.run, lambda: over)
            if not task.done() and not self.run.ended_by_program:
                await self._watch(task)  # the run has failed, and the body has not noticed yet
        except asyncio.CancelledError:
            self.end(CancelledError("the task that awaited the run was cancelled"))
            await _dismiss(task)
            raise
        if not task.done():
            await _dismiss(task)
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
        if self._raised is not None:
            raise self._raised

    async def _watch(self, task: asyncio.Future[None]) -> None:
        due_s = self.due_s
        left_s = None if due_s is None else max(0.0, due_s - time.monotonic())
        await asyncio.wait({task}, timeout=left_s)

    async def _body(self) -> None:
        self.run.loop_thread = threading.get_ident()
        caller.set(self._caller)
        try:
            value = await self._call_async(self.async_state)
            if inspect.iscoroutine(value):
                value.close()
                raise UsageError(
                    f"the body returned {value.__qualname__}(...) as it is, and nobody has awaited "
                    "it; write `return await ...`"
                )
            await RunReader.submit(self._recorder, self.run)
        except BaseException as error:
            self._recorder.abandon(error, body_source(error.__traceback__, self._code))
            if isinstance(error, Exception | asyncio.CancelledError):
                raise
            self._raised = error  # raised by who awaits: of a task, it would stop the loop
            return
        self._recorder.close(value)


async def through_async(execution: Execution, timeout_s: float | None, name: str) -> None:
    """Run the body and await the outcome; see `Execution.through`. A cancelled task cancels the
    run. `name` is what has set the limit.
    """
    if timeout_s is not None:
        execution.limit(timeout_s, name)
    run = execution.run
    try:
        if isinstance(execution, AsyncExecution):
            await execution.body_async()
        else:
            await Aside(execution).wait_async()
        await until(run, lambda: False)
    except asyncio.CancelledError:
        execution.end(CancelledError("the task that awaited the run was cancelled"))
        raise
    except Exception:
        if not run.ended_by_program:
            raise
    run.conclude()
    run.release()


def start_async(execution: Execution, timeout_s: float | None) -> AsyncProgramState[Any]:
    """Let the body go on as a task; the state as seen from outside."""
    task = asyncio.ensure_future(through_async(execution, timeout_s, "timeout_s"))
    _keep(task)
    reader = RunReader(execution.run, execution.recorder, inside=False)
    return AsyncProgramState(Recorder.refusing(STREAMED), reader)


def refuse_running_loop(what: str, instead: str) -> None:
    """Raise if this thread runs an event loop, which a call that waits would stop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"{what}: an event loop is running in this thread, and the body of this program needs "
        f"it; write `{instead}`"
    )


async def _dismiss(task: asyncio.Future[None]) -> None:
    """Cancel a body, and leave it behind if it goes on all the same."""
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task}, timeout=UNWIND_S)
    if not task.done():
        left_behind.add(1)
        task.add_done_callback(lambda _: left_behind.add(-1))


def _keep(task: asyncio.Future[Any]) -> None:
    _kept.add(task)
    task.add_done_callback(_forget)


def _forget(task: asyncio.Future[Any]) -> None:
    _kept.discard(task)
    if not task.cancelled():
        task.exception()  # it is the outcome of the run: asyncio need not report it


def _never(_: object) -> None:
    raise AssertionError("an async body is awaited")
