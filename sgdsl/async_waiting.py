"""Waiting for a run on an event loop.

Owns the bridge from a run's callbacks, which come on any thread, to futures of a loop. No thread
waits, however many runs are waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from sgdsl.awaited import LOOK_UP_S
from sgdsl.run import Run
from sgdsl.threads import submits


def stay_awake(loop: asyncio.AbstractEventLoop) -> None:
    """Have a loop of ours look up now and then. Ctrl-C is heard between two steps of Python: one
    that comes just before the loop begins to wait in the system is heard when it wakes.
    """
    loop.call_later(LOOK_UP_S, stay_awake, loop)


class Bell:
    """A future of the running loop that any thread can resolve, with `ring`."""

    __slots__ = ("_loop", "future")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self._loop.create_future()

    def ring(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


async def until(run: Run, reached: Callable[[], bool]) -> None:
    """Await that `reached()` (called under the run's lock) holds or the run is finished."""
    if run.outcome is not None:
        return
    bell = Bell()
    there = False

    def ring() -> None:
        nonlocal there
        there = True
        bell.ring()

    forget = run.when(reached, ring)
    if there:  # no turn of the loop for what is there already
        return
    try:
        await bell.future
    finally:
        forget()


async def on_thread(call: Callable[[], object], run: Run) -> None:
    """Await a call that may take long, or the end of the run, which does not stop the call."""
    done = False

    def job() -> None:
        nonlocal done
        try:
            call()
        finally:
            done = True
            run.notify()

    submits.start(job)
    await until(run, lambda: done)
