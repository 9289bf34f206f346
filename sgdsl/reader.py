"""How a program reads what a model wrote.

Owns the waits behind `s["x"]`, `text()` and their like, for the body (a graph break) and for those
who watch a streamed run from outside. Knows nothing of backends.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

from sgdsl.async_waiting import on_thread, until
from sgdsl.awaited import AWAIT
from sgdsl.branch import Branch
from sgdsl.errors import CancelledError, UsageError, no_variable
from sgdsl.explanation import Explanation
from sgdsl.outcome import Outcome
from sgdsl.recorder import Recorder
from sgdsl.run import Run
from sgdsl.streams import UNFINISHED, Stream


class Reader(Protocol):
    """The reads of a state; a trace answers them with names."""

    @property
    def outcome(self) -> Outcome | None: ...

    def defines(self, branch_id: int, name: str | int) -> bool: ...

    def variable(self, branch_id: int, name: str | int) -> Any: ...

    def unread_variable(self, branch_id: int, name: str | int) -> Any: ...

    def variables(self, branch_id: int) -> Any: ...

    def meta(self, branch_id: int, name: str | int) -> Any: ...

    def text(self, branch_id: int) -> Any: ...

    def messages(self, branch_id: int) -> Any: ...

    def chunks(self, branch_id: int, name: str | None) -> Iterator[str]: ...

    def chunks_async(
        self, branch_id: int, name: str | None, *, with_meta: bool
    ) -> AsyncIterator[Any]: ...

    def wait(self, branch_id: int) -> None: ...

    async def ready(self, branch_id: int, name: str | int | None) -> None: ...

    def error(self, branch_id: int) -> BaseException | None: ...

    def cancel(self) -> None: ...

    def returned(self) -> Any: ...

    def explain(self) -> Explanation: ...


class RunReader:
    """Reads of a run. `inside`: for its body, which has written all that it waits for; others wait
    for the run's end where there is nothing yet: they cannot know what the body will still write.
    """

    __slots__ = ("_inside", "_recorder", "_run")

    def __init__(self, run: Run, recorder: Recorder, *, inside: bool = True) -> None:
        self._run = run
        self._recorder = recorder
        self._inside = inside

    @property
    def outcome(self) -> Outcome | None:
        return self._run.conclude()

    @property
    def _writing(self) -> bool:
        """The reader is the body, and the body goes on: what it wrote is not submitted yet."""
        return self._inside and not self._recorder.closed and self._run.outcome is None

    def defines(self, branch_id: int, name: str | int) -> bool:
        if self._writing:
            return self._recorder.defines(branch_id, name)
        self._run.wait()
        branch = self._run.peek(branch_id)
        return branch is not None and branch.defines(name)

    def variable(self, branch_id: int, name: str | int) -> Any:
        self._submit_for(branch_id, name)
        return self._run.variable(branch_id, name, until_end=not self._inside)

    def variables(self, branch_id: int) -> dict[str, Any]:
        """All that the branch has, by name."""
        names = list(self._settled(branch_id).variables)
        return {name: self._run.variable(branch_id, name) for name in names}

    def unread_variable(self, branch_id: int, name: str | int) -> Any:
        """As `variable`, for a body that checks it: a typed value stays unread."""
        self._submit_for(branch_id, name)
        return self._run.unread_variable(branch_id, name)

    def _submit_for(self, branch_id: int, name: str | int) -> None:
        """What the body wrote is on its way, and the variable is to come of it."""
        if self._writing:
            if not self._recorder.defines(branch_id, name):
                raise no_variable(name, *self._recorder.defined(branch_id))
            self._need(branch_id, name)
            self._submit()

    def meta(self, branch_id: int, name: str | int) -> Any:
        self.variable(branch_id, name)
        branch = self._run.peek(branch_id)
        assert branch is not None, "a variable that was read has a branch"
        if isinstance(name, int):
            raise UsageError(f"the unnamed gen {name} has no meta info; name it: gen('x', ...)")
        meta = branch.variables[name].meta
        if not meta:
            having = sorted(n for n, variable in branch.variables.items() if variable.meta)
            raise UsageError(
                f"variable {name!r} has no meta info: it was assigned, scoped or joined; "
                f"only gen and select have some, here {having!r}"
            )
        return meta

    def text(self, branch_id: int) -> str:
        return self._settled(branch_id).text()

    def messages(self, branch_id: int) -> list[dict[str, str]]:
        return [dict(message) for message in self._settled(branch_id).messages]

    def wait(self, branch_id: int) -> None:
        """Until all that was written is carried out, or the run has ended."""
        if self._writing:
            self._need(branch_id, None)
            self._submit()
            self._run.wait_until(lambda: self._run.is_there(branch_id, None))
        else:
            self._run.wait()

    async def ready(self, branch_id: int, name: str | int | None) -> None:
        """Await until reading the variable (None: anything) needs no wait."""
        if self._writing:
            if name is not None and not self._recorder.defines(branch_id, name):
                return  # the read will say what there is
            await self._submit_async()
        if self._inside:
            await until(
                self._run,
                lambda: self._run.is_there(branch_id, name) or self._run.is_there(branch_id, None),
            )
        else:
            await until(self._run, lambda: name is not None and self._run.is_there(branch_id, name))

    def error(self, branch_id: int) -> BaseException | None:
        """What has ended the branch, or the run."""
        return self._run.error_of(branch_id)

    def cancel(self) -> None:
        self._run.end(CancelledError("the run was cancelled with cancel()"))
        self._recorder.wake()

    def explain(self) -> Explanation:
        if self._writing:
            self._submit()
        return self._run.explain()

    def returned(self) -> Any:
        if not self._inside:
            self._run.wait()
        if not self._run.returned:
            self._run.raise_error()
            raise UsageError("the return value was read before the body returned; read it after")
        return self._run.value

    def chunks(self, branch_id: int, name: str | None) -> Iterator[str]:
        """The text (of one variable, if named) in the pieces in which it arrives."""
        self._run.streaming = True
        if self._writing:
            self._submit()
        stream = Stream(self._run, branch_id, name, inside=self._inside)
        while not stream.done:
            self._run.wait_until(stream.arrived)
            if chunk := stream.take():
                yield chunk
        self._end_of_stream(branch_id, name)

    def chunks_async(
        self, branch_id: int, name: str | None, *, with_meta: bool
    ) -> AsyncIterator[Any]:
        """`chunks`, awaited. `with_meta`: each piece with what is known of the variable by then."""
        if with_meta and name is None:
            raise UsageError(
                "text_async_iter: return_meta_data=True needs the variable whose meta data it "
                "should return; give var_name too"
            )
        return self._chunks_async(branch_id, name, with_meta)

    async def _chunks_async(
        self, branch_id: int, name: str | None, with_meta: bool
    ) -> AsyncIterator[Any]:
        self._run.streaming = True
        if self._writing:
            await self._submit_async()
        stream = Stream(self._run, branch_id, name, inside=self._inside)
        finished = not with_meta
        while not stream.done:
            await until(self._run, stream.arrived)
            chunk = stream.take()
            meta = stream.meta if with_meta else None
            if chunk or meta is not None:
                finished |= meta is not None
                yield (chunk, UNFINISHED if meta is None else meta) if with_meta else chunk
        self._end_of_stream(branch_id, name)
        assert finished, "a variable that can be read at its end has its meta info"

    def _end_of_stream(self, branch_id: int, name: str | None) -> None:
        if name is not None:
            self._run.variable(branch_id, name)  # raises if there is none
        self._run.raise_error(branch_id)

    def _settled(self, branch_id: int) -> Branch:
        self.wait(branch_id)
        return self._run.settle(branch_id)

    def _submit(self) -> None:
        """The graph break. The body of an async program has awaited before it reads: nothing is
        submitted here, since an answer that comes at once on one backend comes late on another.
        """
        if self._run.loop_thread != threading.get_ident():
            self._recorder.flush()

    def _need(self, branch_id: int, name: str | int | None) -> None:
        """Refuse what the thread of an event loop would have to wait for."""
        if self._run.loop_thread != threading.get_ident():
            return
        if self._recorder.pends(branch_id, name) or not self._run.is_there(branch_id, name):
            raise UsageError(AWAIT)

    async def _submit_async(self) -> None:
        await self.submit(self._recorder, self._run)

    @staticmethod
    async def submit(recorder: Recorder, run: Run) -> None:
        """The graph break of an async body. A backend compiles the constraints that it is given:
        not on the thread of the loop.
        """
        if recorder.is_constrained:
            await on_thread(recorder.flush, run)
        else:
            recorder.flush()
