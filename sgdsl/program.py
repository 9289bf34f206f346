"""Programs: decorated functions that can be run, batched, awaited, bound and traced.

Owns `Program`: the ways to run it, and what each of them says of itself. What its arguments come to
is the business of `calls`; it knows nothing of how a body, a batch or a trace goes on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import (
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import ModuleType
from typing import (
    Any,
    Generic,
    Literal,
    Self,
    TypeVar as PlainTypeVar,
    Unpack,
    overload,
)

from typing_extensions import TypeVar

from sgdsl.arguments import RUN_ARGUMENTS, refuse, timeout_from
from sgdsl.async_execution import start_async, through_async
from sgdsl.async_state import AsyncProgramState
from sgdsl.backends.base import Backend
from sgdsl.batches import BatchArguments
from sgdsl.branch_state import Plain
from sgdsl.calls import Calls
from sgdsl.context import backend_for, cache_salt_for
from sgdsl.conversation import conversation_parts
from sgdsl.execution import Aside
from sgdsl.expressions import Hole
from sgdsl.graph import Graph
from sgdsl.html import untraced_html
from sgdsl.parameters import BatchRow
from sgdsl.prefix import CachedPrefix, compute_prefix, literal_prefix, unknown
from sgdsl.state import ProgramState
from sgdsl.tracer import finish_at_once, trace

R = TypeVar("R", default=Any)
R2 = PlainTypeVar("R2")

Argument = Plain | Iterable[Any] | type[Any] | ModuleType | None
"""Of a program, to a type checker: all but a state. What is declared as another protocol than
`Iterable` is given to `run`.
"""


class Program(Generic[R]):
    """What `@function` makes of a function whose first parameter is the state. `R` is what the body
    returns.
    """

    __name__: str

    def __init__(
        self,
        body: Callable[..., Any],
        bound: Mapping[str, Any] | None = None,
        *,
        num_api_spec_tokens: int | None = None,
    ) -> None:
        self._body = body
        self._num_api_spec_tokens = num_api_spec_tokens
        self._bound = dict(bound or {})
        self._kept: list[CachedPrefix] = []
        self._calls = self._calls_kind(body, self._bound, num_api_spec_tokens=num_api_spec_tokens)
        self.parameters = self._calls.parameters.names
        functools.update_wrapper(self, body)

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that every row has to give."""
        return self._calls.parameters.required

    @property
    def source(self) -> str:
        """What it does, as a text that changes with it: its code, and what was bound ahead. What it
        calls is not in it.
        """
        try:
            code = inspect.getsource(self._body)
        except (OSError, TypeError):  # made by no file
            code = f"{self._body.__code__.co_code!r} {self._body.__code__.co_consts!r}"
        return f"{code}\n{sorted(self._bound.items())!r}"

    def __repr__(self) -> str:
        return f"<program {self.__name__}({', '.join(self.parameters)})>"

    def _repr_html_(self) -> str:
        """The program's graph, where it can be traced without arguments; else why it cannot."""
        try:
            return self.trace()._repr_html_()
        except Exception as error:  # noqa: BLE001 - a body may raise anything, and a view must not
            head = f"{self.__name__}({', '.join(self.parameters)})"
            return untraced_html(head, f"{type(error).__name__}: {error}")

    @overload
    def __call__(self, state: ProgramState[Any], /, *args: Any, **kwargs: Any) -> R: ...

    @overload
    def __call__(self, state: AsyncProgramState[Any], /, *args: Any, **kwargs: Any) -> R: ...

    @overload
    def __call__(self, first: Argument, /, *args: Any, **kwargs: Any) -> ProgramState[R]: ...

    @overload
    def __call__(self, **kwargs: Any) -> ProgramState[R]: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`run(...)`. With a state as the first argument, a part of that state's run instead: what
        the body appends goes there, and what it returns comes back.
        """
        if args and isinstance(args[0], ProgramState | AsyncProgramState):
            state = args[0].plain() if isinstance(args[0], AsyncProgramState) else args[0]
            return self._calls.call(self._calls.parameters.fit(args[1:], kwargs))(state)
        return self.run(*args, **kwargs)

    def run(
        self,
        *values: Any,
        max_new_tokens: int | None = None,
        n: int | None = None,
        stop: str | Sequence[str] | None = None,
        stop_token_ids: Sequence[int] | None = None,
        stop_regex: str | Sequence[str] | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        min_p: float | None = None,
        frequency_penalty: float | None = None,
        presence_penalty: float | None = None,
        ignore_eos: bool | None = None,
        return_logprob: bool | None = None,
        logprob_start_len: int | None = None,
        top_logprobs_num: int | None = None,
        return_text_in_logprobs: bool | None = None,
        seed: int | None = None,
        priority: int | None = None,
        cache_salt: str | None = None,
        stream: bool = False,
        backend: Backend | None = None,
        use_thread: bool = True,
        timeout_s: float | None = None,
        messages: Sequence[Any] | None = None,
        args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> ProgramState[R]:
        """Run the body once; returns its state when the run has ended.

        `values` and `kwargs` are the program's arguments; `args` too, for those that are named like
        an argument of `run`. The sampling arguments are what the program's gens inherit: None is
        the caller's, inside of another program's body, and else 128 new tokens at temperature 1.
        `seed`: the same one gives the same output. `priority`: where runs wait for each other,
        higher ones go first; None is the caller's, or 0. `cache_salt`: what is computed is shared
        among runs of the same salt only; None is the caller's, or what all without one share.
        `stream`: return at once, while the body goes on in a thread of its own. `messages`: a
        conversation to start from, in OpenAI's format, as if the body began by appending it. Where
        the program has an argument named `priority`, `cache_salt` or `messages`, it is that one.

        `timeout_s`: the run is cancelled when it takes longer. For that the body runs on a thread
        of its own, which is left behind if it is stuck; `use_thread=False` keeps it on this thread,
        where it is not left before it reads or appends.

        Raises what the body raises, and `UsageError` for arguments that cannot work. A run that
        fails for another reason says so in `state.outcome`, and when it is read.
        """
        given = {key: value for key, value in locals().items() if value is not None}
        execution = self._calls.prepare("run", values, kwargs, given)
        timeout_s = timeout_from("run", "timeout_s", timeout_s)
        if stream:
            if timeout_s is not None:
                execution.limit(timeout_s, "timeout_s")
            Aside(execution)
            return execution.view()
        execution.through(timeout_s=timeout_s, aside=use_thread)
        return execution.state

    @overload
    async def arun(
        self,
        *values: Any,
        stream: Literal[False] = False,
        backend: Backend | None = None,
        timeout_s: float | None = None,
        args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> ProgramState[R]: ...

    @overload
    async def arun(
        self,
        *values: Any,
        stream: Literal[True],
        backend: Backend | None = None,
        timeout_s: float | None = None,
        args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> AsyncProgramState[R]: ...

    async def arun(
        self,
        *values: Any,
        stream: bool = False,
        backend: Backend | None = None,
        timeout_s: float | None = None,
        args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> ProgramState[R] | AsyncProgramState[R]:
        """`run`, awaited, with the same arguments. An `async def` body is a task of this event
        loop; any other goes to a thread. Cancelling the task that awaits cancels the run.

        `stream`: return at once, with a state that is read as inside of an `async def` body.
        """
        given = {key: value for key, value in locals().items() if value is not None}
        for name in (RUN_ARGUMENTS | {"use_thread", "messages"}) & kwargs.keys():
            value = kwargs.pop(name)
            if value is not None:
                given[name] = value
        execution = self._calls.prepare("arun", values, kwargs, given)
        timeout_s = timeout_from("arun", "timeout_s", timeout_s)
        if stream:
            return start_async(execution, timeout_s)
        await through_async(execution, timeout_s, "timeout_s")
        return execution.state

    @overload
    def run_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        generator_style: Literal[False] = False,
        as_completed: Literal[False] = False,
        **options: Unpack[BatchArguments],
    ) -> list[ProgramState[R]]: ...

    @overload
    def run_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        generator_style: Literal[True],
        as_completed: Literal[False] = False,
        **options: Unpack[BatchArguments],
    ) -> Iterator[ProgramState[R]]: ...

    @overload
    def run_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        generator_style: Literal[False] = False,
        as_completed: Literal[True],
        **options: Unpack[BatchArguments],
    ) -> Iterator[tuple[int, ProgramState[R]]]: ...

    def run_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        generator_style: bool = False,
        as_completed: bool = False,
        **options: Unpack[BatchArguments],
    ) -> list[ProgramState[R]] | Iterator[ProgramState[R]] | Iterator[tuple[int, ProgramState[R]]]:
        """Run the body once for every row: a dict of arguments, or a tuple of positional ones.

        Returns the states in the order of the rows. A row that fails keeps its error in its
        `outcome` and disturbs no other; `on_error="raise"` (it is "collect") raises the first one
        that did not finish as `BatchFailed` instead. Ctrl-C raises `BatchInterrupted`. Both keep
        the states of the finished rows.

        `generator_style` yields them instead, each as soon as it and those before are finished;
        `as_completed` yields pairs of a row's index and its state, each as soon as it is finished.
        Both read `batch` only as far as it is needed.

        `timeout_s` is given to the whole batch, `row_timeout_s` to each row from its start: what
        takes longer is cancelled, and the batch ends in time, even if a body is stuck.

        `num_threads` (it is "auto") bounds the threads that run bodies; a program that does not
        wait needs one, an `async def` body none. `backend`, `progress_bar` and the sampling
        arguments are those of `run`; with `seed`, row i gets its own seed, made of `seed` and i.
        `row_seed(row)` is a row's seed, for rows that are to come to the same in any place.
        `messages`: the conversation that all rows start from, or a list with one for each row.
        """
        if generator_style and as_completed:
            allowed = "left out beside generator_style: it yields too, in the order of completion"
            refuse("run_batch", "as_completed", as_completed, allowed)
        plan = self._calls.plan("run_batch", batch, options, lazy=generator_style or as_completed)
        job = plan.waiting(self._calls.row_starter(plan), is_async=self.is_async)
        if as_completed:
            return job.as_completed()
        return job.in_order() if generator_style else job.collect()

    async def arun_batch(
        self, batch: Iterable[BatchRow], **options: Unpack[BatchArguments]
    ) -> list[ProgramState[R]]:
        """`run_batch`, awaited: the states in the order of the rows. The rows of an `async def`
        body are tasks of this event loop; those of any other run on threads, as in `run_batch`.
        Cancelling the task that awaits cancels the batch.
        """
        plan = self._calls.plan("arun_batch", batch, options, lazy=False)
        return await plan.awaiting(self._calls.row_starter(plan), is_async=self.is_async).collect()

    @overload
    def astream_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        as_completed: Literal[False] = False,
        **options: Unpack[BatchArguments],
    ) -> AsyncIterator[ProgramState[R]]: ...

    @overload
    def astream_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        as_completed: Literal[True],
        **options: Unpack[BatchArguments],
    ) -> AsyncIterator[tuple[int, ProgramState[R]]]: ...

    def astream_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        as_completed: bool = False,
        **options: Unpack[BatchArguments],
    ) -> AsyncIterator[ProgramState[R]] | AsyncIterator[tuple[int, ProgramState[R]]]:
        """`run_batch(generator_style=True)`, or `as_completed=True`, for `async for`."""
        plan = self._calls.plan("astream_batch", batch, options, lazy=True)
        job = plan.awaiting(self._calls.row_starter(plan), is_async=self.is_async)
        return job.as_completed() if as_completed else job.in_order()

    def bind(self, **kwargs: Any) -> Self:
        """This program with some of its arguments given, once and for all."""
        self._calls.parameters.refuse_unknown("bind", kwargs)
        return type(self)(
            self._body,
            {**self._bound, **kwargs},
            num_api_spec_tokens=self._num_api_spec_tokens,
        )

    def trace(
        self,
        *values: Any,
        messages: Sequence[Any] | None = None,
        backend: Backend | None = None,
        **kwargs: Any,
    ) -> Graph:
        """The program's graph, without a model. Arguments that are not given and have no default
        are names, `{question}` in the printed graph. `messages`: as for `run`. `backend` may be
        given as to `run`; no graph depends on it.

        Raises `TraceError` where the body needs the value of such an argument, or of a variable.
        """
        if messages is not None and "messages" in self.parameters:
            kwargs["messages"], messages = messages, None
        if backend is not None and "backend" in self.parameters:
            kwargs["backend"] = backend
        start = conversation_parts("trace", messages)
        call = self._calls.call(self._calls.parameters.fit_holes(values, kwargs, _hole))
        if self.is_async:
            call = finish_at_once(call)
        return trace(call, self.__name__, self.parameters, start=start, asynchronous=self.is_async)

    def cache(
        self,
        backend: Backend | None = None,
        *,
        cache_salt: str | None = None,
        pin: bool = True,
    ) -> CachedPrefix:
        """Have the backend compute the text with which every run of this program begins, so that
        later runs (of this `cache_salt`) find it in its cache. Waits for that; nothing where the
        backend keeps no cache.

        `pin`: it stays there, whatever else is computed, until what is returned is released (at the
        end of a `with` block, or by its `release()`), `uncache` is called or the backend closed.
        """
        chosen = backend_for(backend)
        self._kept = [kept for kept in self._kept if not kept.is_released]
        if getattr(chosen, "caches_prefixes", False):
            call = self._calls.call(self._calls.parameters.fit_holes((), {}, unknown))
            nodes = literal_prefix(call, asynchronous=self.is_async)
            salt = cache_salt_for(cache_salt, "cache")
            self._kept.append(compute_prefix(nodes, chosen, cache_salt=salt, pins=pin))
            return self._kept[-1]
        return CachedPrefix(())

    def uncache(self, backend: Backend | None = None) -> None:
        """Release what `cache` has pinned there of this program, whatever its `cache_salt`."""
        chosen = backend_for(backend)
        for kept in self._kept:
            if kept.is_held_by(chosen):
                kept.release()
        self._kept = [kept for kept in self._kept if not kept.is_released]

    is_async = False
    _calls_kind: Callable[..., Calls] = Calls


def _hole(name: str) -> Hole:
    return Hole(f"argument {name!r}", f"{{{name}}}")
