"""The engine's thread: its inbox, its life and its death.

Owns the one thread that calls the engine, and the promise that whatever happens to it, every run
that was given to it gets an outcome. Knows the engine only as something to step and to command.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter

from runtime.engine import Engine
from sgdsl.errors import BackendError

FORKED = (
    "the runtime was made before this process was forked, and its thread has stayed behind; make "
    "it in the process that uses it"
)


class EngineThread:
    """Runs `engine` until it is closed or dies."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._gate = threading.Lock()  # between "is it alive?" and "put it into the inbox"
        self._end: BackendError | None = None  # why nothing is taken any more
        self._process_id = os.getpid()
        self._thread = threading.Thread(target=self._serve, name="sgdsl-engine", daemon=True)
        self._thread.start()

    @property
    def is_current(self) -> bool:
        """Whether the caller is on the engine's own thread, where waiting for it never ends."""
        return threading.current_thread() is self._thread

    @property
    def is_open(self) -> bool:
        """Whether commands are still taken."""
        return self._end is None and not self._is_forked

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process_id

    def send(self, command: Callable[[], None]) -> BackendError | None:
        """Have `command` called between two steps; or why it never will be."""
        if self._is_forked:
            return BackendError(FORKED)
        with self._gate:
            if self._end is None:
                self._inbox.put(command)
            return self._end

    def close(self) -> None:
        """End the thread after the step under way, and its runs as failed."""
        if self._is_forked:
            return
        self._shut(BackendError("the runtime was closed before this run could finish"))
        if not self.is_current:
            self._thread.join()

    def _shut(self, end: BackendError) -> None:
        with self._gate:
            if self._end is None:
                self._end = end
                self._inbox.put(lambda: None)  # wake the thread, so that it sees the end

    def _has_ended(self) -> bool:
        return self._end is not None

    def _serve(self) -> None:
        try:
            busy = False
            while not self._has_ended():
                self._carry_out(wait=not busy)
                busy = not self._has_ended() and self.engine.step()
        except BaseException as cause:  # noqa: BLE001 - the runs must hear of whatever it was
            error = BackendError(f"the engine died: {type(cause).__name__}: {cause}")
            error.__cause__ = cause
            self._shut(error)
        self._fail_everyone()

    def _carry_out(self, *, wait: bool) -> None:
        began = None
        while wait or not self._inbox.empty():
            command = self._inbox.get()
            began = began or perf_counter()
            command()
            wait = False
        if began is not None:
            self.engine.stats.programs_s += perf_counter() - began

    def _fail_everyone(self) -> None:
        """What is still in the inbox was sent while we were alive: it starts, and fails too.

        After a death nothing of the engine is to be relied on, so that nothing raised here counts.
        """
        assert self._end is not None, "the loop ends for a reason"
        while not self._inbox.empty():
            with suppress(BaseException):
                self._inbox.get()()
        self.engine.programs.fail_all(self._end)
