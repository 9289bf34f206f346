"""One call of a program: its body, its run and the state between them.

Owns how a body is run on a thread, and how its run ends when the body does. Knows nothing of
arguments' names, nor of the other calls of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from sgdsl.backends.base import Backend
from sgdsl.context import Caller, caller
from sgdsl.expressions import Part
from sgdsl.graph import ROOT, Sampling
from sgdsl.reader import RunReader
from sgdsl.recorder import Recorder
from sgdsl.run import Run
from sgdsl.source import body_source, head_source
from sgdsl.state import ProgramState

GRACE_S = 1.0
"""How long a backend may take to confirm a cancellation before its runs count as cancelled."""

STREAMED = (
    "this state is streamed, and only the program's body appends to it; read it, "
    "or start another run"
)


class Execution:
    """`call(state)` runs the body. `start`: what stands on the state before it."""

    __slots__ = ("_backend", "_call", "_caller", "_code", "_recorder", "run", "state")

    def __init__(
        self,
        call: Callable[[ProgramState], Any],
        code: CodeType,
        *,
        backend: Backend,
        sampling: Sampling,
        seed: int,
        streaming: bool = False,
        num_api_spec_tokens: int | None = None,
        start: Sequence[Part] = (),
    ) -> None:
        self._call = call
        self._code = code
        self._backend = backend
        self._caller = Caller(backend, sampling, seed)
        self.run = Run(
            template=backend.chat_template,
            defaults=sampling,
            seed=seed,
            streaming=streaming,
            num_api_spec_tokens=num_api_spec_tokens,
            keeps_nodes=getattr(backend, "passes_nodes_on", False),
        )
        self._recorder = Recorder(self.run, backend)
        if start:
            self._recorder.write(ROOT, start, source=head_source(code))
        self.state = ProgramState(self._recorder, RunReader(self.run, self._recorder))

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

    def view(self) -> ProgramState:
        """The state as seen from outside of the body, while that goes on."""
        reader = RunReader(self.run, self._recorder, inside=False)
        return ProgramState(Recorder.refusing(STREAMED), reader)

    def cancel(self) -> None:
        """Ask the backend for the end."""
        self.run.cancel()
        self._recorder.wake()

    def finish(self) -> None:
        """Wait for the outcome of a body that has returned."""
        try:
            self.run.wait()
        except KeyboardInterrupt:
            self.cancel()
            self.run.wait_until(lambda: False, timeout_s=GRACE_S)
            self.run.finish_cancelled("interrupted")
            raise
        self.run.release()
