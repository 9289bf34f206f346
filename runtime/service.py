"""The engine as a backend of the frontend.

Owns the translation of the backend protocol into commands for the engine's thread.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from runtime.aside import Aside
from runtime.engine import Engine
from runtime.engine_thread import EngineThread
from runtime.grammar_store import GrammarStore, Prepared
from runtime.scheduler import SchedulerCounts
from runtime.telemetry.stats import CacheStats, StepStats
from sgdsl.backends.base import BackendStats, Closing
from sgdsl.chat import ChatTemplate
from sgdsl.errors import BackendError, SgdslError
from sgdsl.run import Run

Result = TypeVar("Result")

ON_ENGINE_THREAD = (
    "the engine's own thread (a choice method or a validator, for instance) asked the engine for "
    "something and would wait for itself for ever; do it in the program's body instead"
)


class Service(Closing):
    """Runs `engine` until it is closed, or nobody refers to it any more. A context manager."""

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
        self._thread = EngineThread(engine)
        self._aside = Aside(self._thread.send)
        engine.programs.work_beside(self._aside)
        # Also at the interpreter's exit: a thread that is inside torch then can crash it.
        self._finalizer = weakref.finalize(self, _end, self._thread, self._aside)

    caches_prefixes = True  # see `Program.cache`

    # The backend protocol.

    @property
    def chat_template(self) -> ChatTemplate:
        return self._chat_template

    @property
    def max_in_flight(self) -> int:
        return self._max_in_flight

    @property
    def tokenizer_id(self) -> str:
        """The same for runtimes that can go on from each other's tokens."""
        return self._engine.programs.tokenizer.fingerprint

    def submit(self, run: Run) -> None:
        self._send(run, self._engine.programs.start)

    def wake(self, run: Run) -> None:
        self._send(run, self._engine.programs.wake)

    def unpin(self, run: Run) -> None:
        """What was computed for a run that `pins` may be evicted again."""
        self._thread.send(partial(self._engine.programs.unpin, run))

    def stats(self) -> BackendStats:
        counts = self._engine.scheduler.counts
        return BackendStats(
            prompt_tokens=counts.prompt_tokens,
            cached_tokens=counts.cached_tokens,
            completion_tokens=self._engine.programs.num_completion_tokens,
        )

    # Beyond the protocol.

    @property
    def is_alive(self) -> bool:
        """Whether it still takes runs: it was neither closed, nor has it died."""
        return self._thread.is_open

    def server_info(self) -> dict[str, Any]:
        """What `get_server_info` tells of it: sizes and totals."""
        stats, scheduler = self.stats(), self._engine.scheduler
        return {
            "max_in_flight": self.max_in_flight,
            "prompt_tokens": stats.prompt_tokens,
            "cached_tokens": stats.cached_tokens,
            "completion_tokens": stats.completion_tokens,
            "num_running": scheduler.num_running,
            "num_waiting": scheduler.num_waiting,
            "preemptions": scheduler.counts.preemptions,
            "cache": asdict(self.cache_stats),
            "steps": asdict(self.step_stats),
        }

    @property
    def step_stats(self) -> StepStats:
        return self._engine.stats

    @property
    def cache_stats(self) -> CacheStats:
        scheduler = self._engine.scheduler
        counts, cache = scheduler.counts, scheduler.cache
        return CacheStats(
            prompt_tokens=counts.prompt_tokens,
            cached_tokens=counts.cached_tokens,
            reusable_tokens=counts.reusable_tokens,
            num_pages=cache.num_pages,
            cached_pages=cache.num_cached,
            pinned_pages=scheduler.pins.num_pages,
            evicted_pages=cache.num_evicted,
        )

    @property
    def scheduler_counts(self) -> SchedulerCounts:
        return self._engine.scheduler.counts

    def flush_cache(self) -> None:
        """Forget every cached prefix that is neither in use nor pinned, and every remembered
        output; returns when it is done.
        """

        def flush() -> None:
            self._engine.scheduler.cache.flush()
            self._engine.programs.shared.forget()

        self._between_steps(flush)

    def close(self) -> None:
        """Stop the engine. Runs under way end as failed; closing twice is fine."""
        self._refuse_own_thread()
        self._grammars.close()
        _end(self._thread, self._aside)

    def shutdown(self) -> None:
        """The same as `close()`."""
        self.close()

    def _send(self, run: Run, command: Callable[[Run, Prepared], None]) -> None:
        if self._thread.is_current:
            run.fail(BackendError(ON_ENGINE_THREAD))
            return
        # Constraints are compiled on the caller's thread, so that the engine's does not stall.
        prepared = self._grammars.prepare(run.pending_constraints())
        if (end := self._thread.send(partial(command, run, prepared))) is not None:
            run.fail(end)

    def _between_steps(self, command: Callable[[], Result]) -> Result:
        """What `command` returns or raises on the engine's thread."""
        self._refuse_own_thread()
        done: Future[Result] = Future()

        def carry_out() -> None:
            try:
                done.set_result(command())
            except (SgdslError, MemoryError) as error:
                done.set_exception(error)
            except BaseException as error:
                done.set_exception(error)  # nobody waits for a thread that has died
                raise

        if (end := self._thread.send(carry_out)) is not None:
            raise end
        return done.result()

    def _refuse_own_thread(self) -> None:
        if self._thread.is_current:
            raise BackendError(ON_ENGINE_THREAD)


def _end(thread: EngineThread, aside: Aside) -> None:
    thread.close()
    aside.close()
