"""The state of an `async def` body.

Owns `AsyncProgramState`: it is appended to like any other, and its reads are awaited. So one thread
carries ten thousand bodies that wait. Knows nothing of event loops beyond `await`.
"""

from __future__ import annotations

from typing import Any, TypeVar as PlainTypeVar, overload

from sgdsl.branch_state import BranchState, R
from sgdsl.checks import Predicate
from sgdsl.state import ProgramState
from sgdsl.typed_reads import as_type

T = PlainTypeVar("T")


class AsyncProgramState(BranchState[R]):
    """One branch of a run. `s += ...` appends; `await s.get("x")` reads.

    The reads raise what those of a `ProgramState` raise. `s["x"]` works for what is there already,
    as after an `await` of it; for anything else it raises `UsageError`.
    """

    __slots__ = ()

    @overload
    async def get(self, name: str | int) -> Any: ...

    @overload
    async def get(self, name: str | int, type: type[T]) -> T: ...

    @overload
    async def get(self, name: str | int, type: Any) -> Any: ...

    async def get(self, name: str | int, type: Any = None) -> Any:  # noqa: A002 - as in `gen`
        """The variable `name` (an int: the unnamed gen at that position), as a value of `type`, if
        one is given: see `ProgramState.get`.
        """
        await self._reader.ready(self._branch, name)
        value = self[name]
        return value if type is None else as_type(value, type, name)

    async def get_var(self, name: str) -> Any:
        """The same as `get(name)`."""
        return await self.get(name)

    async def text(self) -> str:
        """All text so far, once it is written."""
        await self._reader.ready(self._branch, None)
        text: str = self._reader.text(self._branch)
        return text

    async def messages(self) -> list[dict[str, str]]:
        """The finished messages so far, in OpenAI's format."""
        await self._reader.ready(self._branch, None)
        messages: list[dict[str, str]] = self._reader.messages(self._branch)
        return messages

    async def check(
        self,
        predicate: Predicate,
        *,
        retries: int = 3,
        name: str | None = None,
        message: str | None = None,
    ) -> Any:
        """Have the last gen written again until `predicate(value)` is true: see `ProgramState`."""
        key, attempts = self._attempts(predicate, retries=retries, name=name, message=message)
        for due in attempts:
            for each in due:
                await self._reader.ready(self._branch, each.key)
        return self._reader.variable(self._branch, key)

    async def get_meta_info(self, name: str) -> dict[str, Any]:
        """What the backend tells about a gen or a select, such as its log-probabilities."""
        await self._reader.ready(self._branch, name)
        meta: dict[str, Any] = self._reader.meta(self._branch, name)
        return meta

    async def sync(self) -> None:
        """Wait until all that was appended is carried out, or the run has failed."""
        await self._reader.ready(self._branch, None)

    async def error(self) -> BaseException | None:
        """What ended the run, or this fork, before its time; waits like `sync`."""
        await self.sync()
        return self._reader.error(self._branch)

    def plain(self) -> ProgramState[Any]:
        """The same branch for the body of a program that is not async: it may append, and read
        what is there already.
        """
        return ProgramState(self._recorder, self._reader, self._branch)
