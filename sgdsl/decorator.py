"""The decorator that makes programs of functions.

Owns `function`: which kind of program a body becomes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, overload

from sgdsl.arguments import refuse
from sgdsl.async_program import AsyncProgram
from sgdsl.program import Program

R2 = TypeVar("R2")


@overload
def function(
    func: Callable[..., Coroutine[Any, Any, R2]], num_api_spec_tokens: int | None = None
) -> AsyncProgram[R2]: ...


@overload
def function(func: Callable[..., R2], num_api_spec_tokens: int | None = None) -> Program[R2]: ...


@overload
def function(func: None = None, num_api_spec_tokens: int | None = None) -> _Decorator: ...


def function(func: Callable[..., Any] | None = None, num_api_spec_tokens: int | None = None) -> Any:
    """Make a program of a function whose first parameter is the state. Bare or with arguments.

    Raises `UsageError` for functions that cannot be one. `num_api_spec_tokens`: a provider behind
    an API is asked for so many tokens at once, ahead of the program; its literals and gens are
    found in them as far as they fit, and asked for anew from there. The runtime needs none of it.
    """
    ahead: object = num_api_spec_tokens
    if ahead is not None and (not isinstance(ahead, int) or isinstance(ahead, bool) or ahead < 1):
        refuse("function", "num_api_spec_tokens", ahead, "a whole number of tokens, at least 1")
    make = functools.partial(_program, num_api_spec_tokens=num_api_spec_tokens)
    return make if func is None else make(func)


class _Decorator(Protocol):
    @overload
    def __call__(self, func: Callable[..., Coroutine[Any, Any, R2]], /) -> AsyncProgram[R2]: ...

    @overload
    def __call__(self, func: Callable[..., R2], /) -> Program[R2]: ...


def _program(func: Callable[..., Any], *, num_api_spec_tokens: int | None) -> Program[Any]:
    kind = AsyncProgram if inspect.iscoroutinefunction(func) else Program
    return kind(func, num_api_spec_tokens=num_api_spec_tokens)
