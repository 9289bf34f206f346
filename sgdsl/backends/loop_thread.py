"""An asyncio loop on a thread of its own, for backends that wait for somebody else's machine.

Owns the thread, from its first use to its end, whatever ends it. Knows nothing of runs.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any


class LoopThread:
    """A daemon thread, from its first use until it is stopped. `died` is called on it with what
    has ended it before: a `SystemExit` that somebody raised there, say.
    """

    def __init__(self, name: str, died: Callable[[BaseException], object]) -> None:
        self._name = name
        self._died = died
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process_id = os.getpid()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """A fork of the process, which has no threads, counts as one that was stopped."""
        return self._stopped or os.getpid() != self._process_id

    def call(self, function: Any, *args: Any) -> bool:
        """Have `function` called on the loop; False when it has stopped."""
        if self.stopped:  # before the lock, which a fork may have for ever
            return False
        with self._lock:
            if self._stopped:
                return False
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._serve, args=(self._loop,), name=self._name, daemon=True
                )
                self._thread.start()
            self._loop.call_soon_threadsafe(function, *args)
            return True

    def stop(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Await `last` on the loop, cancel what is left there, and end the thread."""
        already = self.stopped
        if not already:
            with self._lock:
                already, self._stopped = self._stopped, True
        loop, thread = self._loop, self._thread
        if already or loop is None or thread is None:
            if last is not None:
                last.close()
            return

        async def end() -> None:
            if last is not None:
                await last
            loop.stop()

        asyncio.run_coroutine_threadsafe(end(), loop)
        if thread is not threading.current_thread():
            thread.join()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        except BaseException as error:  # noqa: BLE001 - told to all who wait for this thread
            with self._lock:
                self._stopped = True
            loop.run_until_complete(self._tell(error))
        _wind_up(loop)

    async def _tell(self, error: BaseException) -> None:
        self._died(error)


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


_kept: set[asyncio.Task[Any]] = set()


def keep(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """A task of the running loop, which by itself would keep only a weak reference to it."""
    task = asyncio.get_running_loop().create_task(work)
    _kept.add(task)
    task.add_done_callback(_kept.discard)
    return task
