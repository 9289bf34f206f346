"""The state of an `async def` body.

Owns `AsyncProgramState`: it is appended to like any other, and its reads are awaited. So one thread
carries ten thousand bodies that wait. Knows nothing of event loops beyond `await`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Generic, Literal, TypeVar as PlainTypeVar, overload

from typing_extensions import TypeVar

from sgdsl.api import check_name
from sgdsl.checks import Predicate, condition_from, first_refusal, retries_from
from sgdsl.state import BranchWriter, ProgramState
from sgdsl.typed_reads import as_type

T = PlainTypeVar("T")
R = TypeVar("R", default=Any)


class AsyncProgramState(BranchWriter, Generic[R]):
    """One branch of a run. `s += ...` appends; `await s.get("x")` reads.

    The reads raise what those of a `ProgramState` raise. `s["x"]` works for what is there already,
    as after an `await` of it; for anything else it raises `UsageError`.
    """

    __slots__ = ()

    def __getitem__(self, name: str | int) -> Any:
        if not isinstance(name, int):
            check_name("s[...]", name)
        return self._reader.variable(self._branch, name)

    def __contains__(self, name: str) -> bool:
        """Whether the variable is defined by what was appended so far."""
        return self._reader.defines(self._branch, name)

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
        if name is not None:
            check_name("check", name)
        condition, most = condition_from(predicate, message), retries_from(retries)
        node, conditions = self._recorder.check(self._branch, condition, name=name, retries=most)
        key = conditions[-1].key
        if self._recorder.is_trace:
            return self._reader.variable(self._branch, key)
        read = partial(self._reader.unread_variable, self._branch)
        for attempt in range(1, most + 2):
            due = conditions if attempt > 1 else conditions[-1:]  # the others have passed
            for each in due:
                await self._reader.ready(self._branch, each.key)
            refusal = first_refusal(due, read)
            if refusal is None:
                return self._reader.variable(self._branch, key)
            if attempt > most:
                raise refusal.error(node)
            self._recorder.rewind(node, attempt)
        raise AssertionError("the last attempt passes or raises")

    async def get_meta_info(self, name: str) -> dict[str, Any]:
        """What the backend tells about a gen or a select, such as its log-probabilities."""
        await self._reader.ready(self._branch, name)
        meta: dict[str, Any] = self._reader.meta(self._branch, name)
        return meta

    @overload
    def text_async_iter(
        self, var_name: str | None = None, return_meta_data: Literal[False] = False
    ) -> AsyncIterator[str]: ...

    @overload
    def text_async_iter(
        self, var_name: str, return_meta_data: Literal[True]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]: ...

    def text_async_iter(
        self, var_name: str | None = None, return_meta_data: bool = False
    ) -> AsyncIterator[Any]:
        """The text, or that of one variable, in pieces as they arrive: see `ProgramState`."""
        return self._reader.chunks_async(self._branch, var_name, with_meta=return_meta_data)

    async def sync(self) -> None:
        """Wait until all that was appended is carried out, or the run has failed."""
        await self._reader.ready(self._branch, None)

    async def error(self) -> BaseException | None:
        """What ended the run, or this fork, before its time; waits like `sync`."""
        await self.sync()
        return self._reader.error(self._branch)

    @property
    def ret_value(self) -> R:
        """What the body returned, once it has."""
        value: R = self._reader.returned()
        return value

    def plain(self) -> ProgramState[Any]:
        """The same branch for the body of a program that is not async: it may append, and read
        what is there already.
        """
        return ProgramState(self._recorder, self._reader, self._branch)
