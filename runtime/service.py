"""The engine on a thread of its own, as a backend of the frontend.

Owns the thread, the inbox between users' threads and the engine's, and life and death: whatever
happens to the engine, every run that was given to it gets an outcome.
"""

from __future__ import annotations

import atexit
import queue
import threading
import weakref
from collections.abc import Callable
from time import perf_counter
from types import TracebackType
from typing import Self

from runtime.engine import Engine
from runtime.grammar_store import GrammarStore
from runtime.scheduler import SchedulerCounts
from runtime.telemetry.stats import StepStats
from sgdsl.backends.base import BackendStats
from sgdsl.chat import ChatTemplate
from sgdsl.errors import BackendError
from sgdsl.run import Run


class Service:
    """Runs `engine` until it is closed. Usable as a context manager."""

    def __init__(
        self,
        engine: Engine,
        grammars: GrammarStore,
        *,
        chat_template: ChatTemplate,
        max_in_flight: int,
    ) -> None:
        self._engine = engine
        self._grammars = grammars
        self._chat_template = chat_template
        self._max_in_flight = max_in_flight
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._gate = threading.Lock()  # between "is it alive?" and "put it into the inbox"
        self._end: BaseException | None = None  # why nothing is taken any more
        self._thread = threading.Thread(target=self._serve, name="sgdsl-engine", daemon=True)
        self._thread.start()
        # A daemon thread that is inside torch when the interpreter goes away can crash it.
        atexit.register(_close_if_alive, weakref.ref(self))

    # The backend protocol.

    @property
    def chat_template(self) -> ChatTemplate:
        return self._chat_template

    @property
    def max_in_flight(self) -> int:
        return self._max_in_flight

    def submit(self, run: Run) -> None:
        self._prepare(run)
        self._send(lambda: self._engine.programs.start(run), run)

    def wake(self, run: Run) -> None:
        self._prepare(run)
        self._send(lambda: self._engine.programs.wake(run), run)

    def stats(self) -> BackendStats:
        counts = self._engine.scheduler.counts
        return BackendStats(
            prompt_tokens=counts.prompt_tokens,
            cached_tokens=counts.cached_tokens,
            completion_tokens=self._engine.programs.num_completion_tokens,
        )

    # Beyond the protocol.

    @property
    def step_stats(self) -> StepStats:
        return self._engine.stats

    @property
    def scheduler_counts(self) -> SchedulerCounts:
        return self._engine.scheduler.counts

    def flush_cache(self) -> None:
        """Forget every cached prefix that is not in use; returns when it is done."""
        done = threading.Event()

        def flush() -> None:
            self._engine.scheduler.cache.flush()
            done.set()

        self._send(flush)
        done.wait()

    def close(self) -> None:
        """Stop the thread. Runs under way end as failed; closing twice is fine."""
        self._shut(BackendError("the runtime was closed before this run could finish"))
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self, run: Run) -> None:
        """Compile constraints on the caller's thread, so that the engine's does not stall."""
        for constraint in run.pending_constraints():
            self._grammars.prepare(constraint)

    def _send(self, command: Callable[[], None], run: Run | None = None) -> None:
        with self._gate:
            end = self._end
            if end is None:
                self._inbox.put(command)
                return
        if run is None:
            raise end
        run.fail(end)

    def _shut(self, end: BaseException) -> None:
        with self._gate:
            if self._end is None:
                self._end = end
                self._inbox.put(lambda: None)  # wake the thread, so that it sees the end

    # The engine's thread.

    def _serve(self) -> None:
        try:
            busy = False
            while not self._has_ended():
                self._carry_out(wait=not busy)
                busy = not self._has_ended() and self._engine.step()
        except BaseException as cause:  # noqa: BLE001 - the runs must hear of whatever it was
            error = BackendError(f"the engine died: {type(cause).__name__}: {cause}")
            error.__cause__ = cause
            self._shut(error)
        assert self._end is not None, "the loop ends for a reason"
        # What is still in the inbox was sent while we were alive: it starts, to fail with the rest.
        while not self._inbox.empty():
            self._inbox.get()()
        self._engine.programs.fail_all(self._end)

    def _has_ended(self) -> bool:
        return self._end is not None

    def _carry_out(self, *, wait: bool) -> None:
        began = None
        while wait or not self._inbox.empty():
            command = self._inbox.get()
            began = began or perf_counter()
            command()
            wait = False
        if began is not None:
            self._engine.stats.programs_s += perf_counter() - began


def _close_if_alive(reference: weakref.ref[Service]) -> None:
    service = reference()
    if service is not None:
        service.close()
