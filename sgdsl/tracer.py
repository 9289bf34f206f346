"""A program's graph without a model, from a body that runs on names.

Owns what a trace answers to reads. What a name can do and what it cannot is `Hole`'s business.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any

from sgdsl.async_state import AsyncProgramState
from sgdsl.context import Caller, caller
from sgdsl.errors import SgdslError, TraceError, no_variable
from sgdsl.explanation import Explanation
from sgdsl.expressions import Hole, Part
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Graph
from sgdsl.outcome import Outcome
from sgdsl.recorder import Recorder
from sgdsl.source import user_source
from sgdsl.state import ProgramState


class HoleReader:
    """Answers every read with a name."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def outcome(self) -> Outcome | None:
        return None

    def defines(self, branch_id: int, name: str | int) -> bool:
        return self._recorder.defines(branch_id, name)

    def variable(self, branch_id: int, name: str | int) -> Hole:
        if not self.defines(branch_id, name):
            raise no_variable(name, *self._recorder.defined(branch_id), f" at {user_source()}")
        return Hole(f"variable {name!r}", f"{{{name}}}")

    def unread_variable(self, branch_id: int, name: str | int) -> Hole:
        return self.variable(branch_id, name)

    def variables(self, branch_id: int) -> Hole:  # noqa: ARG002 - a `Reader`
        return Hole("variables()", "{variables()}")

    def meta(self, branch_id: int, name: str | int) -> Hole:
        self.variable(branch_id, name)
        return Hole(f"the meta info of {name!r}", f"{{meta info of {name}}}")

    def text(self, branch_id: int) -> Hole:  # noqa: ARG002 - a `Reader`
        return Hole("text()", "{text()}")

    def messages(self, branch_id: int) -> Hole:  # noqa: ARG002
        return Hole("messages()", "{messages()}")

    def chunks(self, branch_id: int, name: str | None) -> Iterator[str]:  # noqa: ARG002
        Hole("text_iter()", "{text_iter()}").needed("to iterate over it")

    def chunks_async(
        self,
        branch_id: int,  # noqa: ARG002
        name: str | None,  # noqa: ARG002
        **options: bool,  # noqa: ARG002
    ) -> AsyncIterator[Any]:
        Hole("text_async_iter()", "{text_async_iter()}").needed("to iterate over it")

    def wait(self, branch_id: int) -> None:
        """Nothing runs, so there is nothing to wait for."""

    async def ready(self, branch_id: int, name: str | int | None) -> None:
        """Nor to await."""

    def error(self, branch_id: int) -> BaseException | None:  # noqa: ARG002
        return None

    def cancel(self) -> None:
        raise TraceError("a trace cannot be cancelled: its body is running; return from it")

    def explain(self) -> Explanation:
        raise TraceError("explain(): a trace has run nothing; draw its graph with draw()")

    def returned(self) -> Any:
        raise TraceError("a trace has no return value yet: its body is running")


def trace(
    call: Callable[[Any], Any],
    name: str,
    parameters: tuple[str, ...],
    *,
    start: Sequence[Part] = (),
    asynchronous: bool = False,
) -> Graph:
    """The graph that `call` (a body with its arguments) writes behind `start`. `asynchronous`: on
    a state whose reads are awaited.

    Raises `TraceError` where the body needs a value that a trace does not have.
    """
    recorder = Recorder()
    if start:
        recorder.write(ROOT, start)
    before = caller.set(Caller(None, DEFAULT_SAMPLING, 0))
    state = AsyncProgramState if asynchronous else ProgramState
    try:
        call(state(recorder, HoleReader(recorder)))
    except SgdslError:
        raise
    except Exception as error:
        raise TraceError(
            f"tracing {name} failed with {type(error).__name__}: {error}; in a trace, arguments "
            "that were not given and variables that are read are names without a value"
        ) from error
    finally:
        caller.reset(before)
    return Graph(name, parameters, tuple(recorder.nodes))


def finish_at_once(
    call: Callable[[AsyncProgramState], Coroutine[Any, Any, Any]],
) -> Callable[[AsyncProgramState], None]:
    """The body of an async program for a trace, in which nothing has to be waited for."""

    def body(state: AsyncProgramState) -> None:
        coroutine = call(state)
        try:
            coroutine.send(None)
        except StopIteration:
            return
        finally:
            coroutine.close()
        raise TraceError(
            "a traced body awaited something else than its state; a trace runs on no event loop"
        )

    return body
