"""Programs with `async def` bodies.

Owns what differs from other programs: what a call gives, and how a body that cannot run ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, overload

from typing_extensions import TypeVar

from sgdsl.async_execution import AsyncExecution
from sgdsl.async_state import AsyncProgramState
from sgdsl.calls import Calls
from sgdsl.errors import UsageError
from sgdsl.program import Argument, Program
from sgdsl.state import ProgramState

R = TypeVar("R", default=Any)


class AsyncCalls(Calls):
    """Of an `async def` body."""

    execution = AsyncExecution

    def refusal(self, error: UsageError) -> Callable[[Any], Any]:
        return functools.partial(_raise_async, error)


class AsyncProgram(Program[R]):
    """What `@function` makes of an `async def` function."""

    is_async = True

    @overload  # type: ignore[override]
    def __call__(
        self, state: AsyncProgramState[Any], /, *args: Any, **kwargs: Any
    ) -> Coroutine[Any, Any, R]: ...

    @overload
    def __call__(self, first: Argument, /, *args: Any, **kwargs: Any) -> ProgramState[R]: ...

    @overload
    def __call__(self, **kwargs: Any) -> ProgramState[R]: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`run(...)`. With the state of an `async def` body, what is to be awaited as a part of
        that state's run: `await f(s, ...)`.
        """
        if args and isinstance(args[0], AsyncProgramState):
            return self._calls.call(self._calls.parameters.fit(args[1:], kwargs))(args[0])
        if args and isinstance(args[0], ProgramState):
            raise UsageError(
                f"{self.__name__}(s, ...): an async def program can be a part of an async def "
                f"body only; make the caller one and write `await {self.__name__}(s, ...)`"
            )
        return self.run(*args, **kwargs)

    _calls_kind = AsyncCalls


async def _raise_async(error: UsageError, _: object) -> None:
    raise error
