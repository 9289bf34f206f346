"""One call of a program: its body, its run and the state between them.

Owns how a body is run on a thread, and how its run ends: when the body does, at a deadline, or when
somebody cancels it. Knows nothing of arguments' names, nor of the other calls of a batch.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from contextvars import copy_context
from functools import partial
from types import CodeType
from typing import Any

from sgdsl.async_waiting import Bell, until
from sgdsl.awaited import LOOK_UP_S
from sgdsl.backends.base import Backend
from sgdsl.context import Caller, caller
from sgdsl.errors import CancelledError, DeadlineError
from sgdsl.expressions import Part
from sgdsl.graph import ROOT, Sampling
from sgdsl.reader import RunReader
from sgdsl.record import record
from sgdsl.recorder import Recorder
from sgdsl.run import Run
from sgdsl.source import body_source, head_source
from sgdsl.state import ProgramState
from sgdsl.threads import Job, bodies
from sgdsl.timer import Alarm, deadlines, errands
from sgdsl.waiting import blocking, blocking_hook

UNWIND_S = 0.1
"""How long a body whose run was cancelled may take to notice, before its thread is left behind."""

STREAMED = (
    "this state is streamed, and only the program's body appends to it; read it, "
    "or start another run"
)


@record
class Terms:
    """What calls of a program have in common. `code`: of its body. `num_api_spec_tokens`: what a
    backend that is paid by the call may ask for ahead of the program.
    """

    backend: Backend
    sampling: Sampling
    code: CodeType
    num_api_spec_tokens: int | None = None
    priority: int = 0
    cache_salt: str | None = None


class Execution:
    """`call(state)` runs the body. `start`: what stands on the state before it."""

    __slots__ = ("_call", "_caller", "_code", "_recorder", "due_s", "run", "state")

    def __init__(
        self,
        call: Callable[[ProgramState], Any],
        terms: Terms,
        *,
        seed: int,
        streaming: bool = False,
        start: Sequence[Part] = (),
    ) -> None:
        backend, sampling = terms.backend, terms.sampling
        self._call = call
        self._code = terms.code
        self.due_s: float | None = None
        """When a limit ends the run, in seconds of `time.monotonic()`."""
        self._caller = Caller(backend, sampling, seed, terms.priority, terms.cache_salt)
        self.run = Run(
            template=backend.chat_template,
            defaults=sampling,
            seed=seed,
            streaming=streaming,
            num_api_spec_tokens=terms.num_api_spec_tokens,
            priority=terms.priority,
            cache_salt=terms.cache_salt,
            keeps_nodes=getattr(backend, "passes_nodes_on", False),
        )
        self._recorder = Recorder(self.run, backend)
        if start:
            self._recorder.write(ROOT, start, source=head_source(terms.code))
        self.state: ProgramState[Any] = ProgramState(
            self._recorder, RunReader(self.run, self._recorder)
        )

    def body(self) -> None:
        """Run the body on this thread. Raises what it raises, after ending its run."""
        before = caller.set(self._caller)
        try:
            value = self._call(self.state)
        except BaseException as error:
            self._recorder.abandon(error, body_source(error.__traceback__, self._code))
            raise
        finally:
            caller.reset(before)
        self._recorder.close(value)

    def view(self) -> ProgramState[Any]:
        """The state as seen from outside of the body, while that goes on."""
        reader = RunReader(self.run, self._recorder, inside=False)
        return ProgramState(Recorder.refusing(STREAMED), reader)

    def limit(self, timeout_s: float, name: str) -> None:
        """End the run if it takes longer than `timeout_s` from now; `name` is what set the limit.

        The backend is told on another thread: it may be what does not answer.
        """
        self.due_s = time.monotonic() + timeout_s
        error = DeadlineError(f"{name}={timeout_s:g} s passed before the run had ended")

        def expire() -> None:
            self.run.end(error)
            errands.after(0, self._recorder.wake)

        alarm = deadlines.at(self.due_s, expire)
        self.run.when_finished(lambda _: alarm.cancel())

    @property
    def recorder(self) -> Recorder:
        return self._recorder

    def wake(self) -> None:
        """Have the backend look at the run."""
        self._recorder.wake()

    def end(self, error: CancelledError) -> None:
        """Cancel the run here and now, and tell the backend."""
        self.run.end(error)
        self._recorder.wake()

    def through(self, *, timeout_s: float | None, aside: bool) -> None:
        """Run the body and wait for the outcome. `aside`: a body that is stuck in Python does not
        hold this thread up beyond `timeout_s`.

        Raises what the body raises; what it raises since its run was cancelled is the outcome.
        """
        if timeout_s is not None:
            self.limit(timeout_s, "timeout_s")
        try:
            if timeout_s is not None and aside:
                Aside(self).wait()
            else:
                self.body()
            self.run.wait()
        except KeyboardInterrupt:
            self.end(CancelledError("interrupted"))
            raise
        except Exception:
            if not self.run.ended_by_program:
                raise
        self.run.release()


class Aside:
    """A body on a thread of its own. One that does not end when its run does is left behind."""

    __slots__ = ("_alarm", "_bell", "_execution", "_job", "_over", "_raised")

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._over = threading.Event()
        self._raised: BaseException | None = None
        self._bell: Bell | None = None
        self._alarm: Alarm | None = None
        context = copy_context()
        context.run(blocking_hook.set, nullcontext)
        self._job: Job = bodies.start(partial(context.run, self._body))
        execution.run.when_finished(self._leave)

    @property
    def over(self) -> bool:
        return self._over.is_set()

    def wait(self) -> None:
        """Until the body has ended, or its run was cancelled, or is due. Raises what the body
        raises.
        """
        run = self._execution.run
        run.wait_until(self._over.is_set)
        due_s = self._due_s()
        with blocking():
            while not self.over and (left_s := due_s - time.monotonic()) > 0:
                self._over.wait(min(left_s, LOOK_UP_S))
        self._raise_error()

    async def wait_async(self) -> None:
        """`wait`, awaited."""
        run = self._execution.run
        await until(run, self._over.is_set)
        if not self.over:
            left_s = self._due_s() - time.monotonic()
            bell = self._bell = Bell()
            if not self.over:
                with suppress(TimeoutError):
                    await asyncio.wait_for(bell.future, None if left_s == math.inf else left_s)
        self._raise_error()

    def _due_s(self) -> float:
        """Until when a body whose run has ended is waited for."""
        due_s = math.inf if self._execution.due_s is None else self._execution.due_s
        if self._execution.run.ended_by_program:
            return min(due_s, time.monotonic() + UNWIND_S)
        return due_s

    def _raise_error(self) -> None:
        if self._raised is not None:
            raise self._raised

    def _body(self) -> None:
        try:
            self._execution.body()
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits; it is the outcome
            self._raised = error
        self._over.set()
        if self._alarm is not None:
            self._alarm.cancel()
        self._execution.run.notify()
        if self._bell is not None:
            self._bell.ring()

    def _leave(self, run: Run) -> None:
        if self._over.is_set():
            return
        due_s = time.monotonic() if run.ended_by_program else self._execution.due_s
        if due_s is not None:
            self._alarm = deadlines.at(due_s + UNWIND_S, self._job.leave)
            if self._over.is_set():
                self._alarm.cancel()
