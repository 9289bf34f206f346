"""Programs: decorated functions that can be run, batched, bound and traced.

Owns `function` and `Program`: which argument belongs to the program and which to the run. Knows
nothing of how a body, a batch or a trace goes on.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Generic, Literal, TypeVar, Unpack, overload

from sgdsl.arguments import RUN_ARGUMENTS, RunArguments, refuse, sampling_from
from sgdsl.backends.base import Backend
from sgdsl.batch import AUTO_THREADS, Batch, Limits, OnError
from sgdsl.context import backend_for, caller, seed_for
from sgdsl.errors import UsageError
from sgdsl.execution import Execution
from sgdsl.expressions import Hole
from sgdsl.graph import DEFAULT_SAMPLING, Graph, Sampling
from sgdsl.progress import Progress
from sgdsl.seeds import derive_seed
from sgdsl.state import ProgramState
from sgdsl.tracer import trace

R = TypeVar("R")
BatchRow = Mapping[str, Any] | Sequence[Any]

AHEAD = 4
"""Times `max_in_flight`: how far `generator_style` may run ahead of who takes the results."""


class Program(Generic[R]):
    """What `@function` makes of a function whose first parameter is the state."""

    __name__: str

    def __init__(self, body: Callable[..., R], bound: Mapping[str, Any] | None = None) -> None:
        self._body = body
        self._bound = dict(bound or {})
        self._signature = _signature(body)
        self._fitting: set[tuple[int, frozenset[str]]] = set()
        """How many values and which names fit: whether arguments do depends on nothing else."""
        self.parameters = tuple(self._signature.parameters)
        functools.update_wrapper(self, body)

    def __repr__(self) -> str:
        return f"<program {self.__name__}({', '.join(self.parameters)})>"

    @overload
    def __call__(self, state: ProgramState, /, *args: Any, **kwargs: Any) -> R: ...

    @overload
    def __call__(self, *args: Any, **kwargs: Any) -> ProgramState: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """`run(...)`. With a state as the first argument, a part of that state's run instead: what
        the body appends goes there, and what it returns comes back.
        """
        if args and isinstance(args[0], ProgramState):
            return self._call(args[1:], kwargs)(args[0])
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
        stream: bool = False,
        backend: Backend | None = None,
        use_thread: bool = True,
        args: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> ProgramState:
        """Run the body once; returns its state when the run has ended.

        `values` and `kwargs` are the program's arguments; `args` too, for those that are named like
        an argument of `run`. The sampling arguments are what the program's gens inherit: None is
        the caller's, inside of another program's body, and else 128 new tokens at temperature 1.
        `seed`: the same one gives the same output. `stream`: return at once, while the body goes on
        in a thread of its own. `use_thread` changes nothing here; it is accepted for compatibility.

        Raises what the body raises, and `UsageError` for arguments that cannot work. A run that
        fails for another reason says so in `state.outcome`, and when it is read.
        """
        given = {key: value for key, value in locals().items() if value is not None}
        by_name: object = args
        if by_name is not None and not isinstance(by_name, Mapping):
            allowed = "a dict of the program's arguments by name; give a list's entries by position"
            refuse("run", "args", args, allowed)
        twice = kwargs.keys() & (args or {}).keys()
        if twice:
            raise UsageError(f"{self.__name__}: {sorted(twice)} were given twice, in args= too")
        execution = self._execution(
            self._call(values, {**kwargs, **(args or {})}),
            sampling=_sampling("run", {k: v for k, v in given.items() if k in RUN_ARGUMENTS}),
            seed=_seed("run", seed),
            backend=backend_for(backend),
            streaming=stream,
        )
        if stream:
            threading.Thread(
                target=_run_streamed, args=(execution,), name="sgdsl-stream", daemon=True
            ).start()
            return execution.view()
        execution.body()
        execution.finish()
        return execution.state

    @overload
    def run_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        backend: Backend | None = None,
        num_threads: int | Literal["auto"] = "auto",
        progress_bar: bool = False,
        generator_style: Literal[False] = False,
        on_error: OnError = "collect",
        **sampling: Unpack[RunArguments],
    ) -> list[ProgramState]: ...

    @overload
    def run_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        backend: Backend | None = None,
        num_threads: int | Literal["auto"] = "auto",
        progress_bar: bool = False,
        generator_style: Literal[True],
        on_error: OnError = "collect",
        **sampling: Unpack[RunArguments],
    ) -> Iterator[ProgramState]: ...

    def run_batch(
        self,
        batch: Iterable[BatchRow],
        *,
        backend: Backend | None = None,
        num_threads: int | Literal["auto"] = "auto",
        progress_bar: bool = False,
        generator_style: bool = False,
        on_error: OnError = "collect",
        **sampling: Unpack[RunArguments],
    ) -> list[ProgramState] | Iterator[ProgramState]:
        """Run the body once for every row: a dict of arguments, or a tuple of positional ones.

        Returns the states in the order of the rows. A row that fails keeps its error in its
        `outcome` and disturbs no other; `on_error="raise"` raises the first one as `BatchFailed`
        instead. Ctrl-C raises `BatchInterrupted`; both keep the states of the finished rows.

        `generator_style` yields them instead, each as soon as it and those before are finished, and
        reads `batch` only as far as it is needed. `num_threads` bounds the threads that run bodies;
        a program that does not wait needs one. The sampling arguments are those of `run`; with
        `seed`, row i gets its own seed, made of `seed` and i.
        """
        where = "run_batch"
        chosen = backend_for(backend)
        threads: object = num_threads
        if threads != "auto" and (
            not isinstance(threads, int) or isinstance(threads, bool) or threads < 1
        ):
            refuse(where, "num_threads", num_threads, '"auto" or a whole number, at least 1')
        if on_error not in ("collect", "raise"):
            refuse(where, "on_error", on_error, '"collect" or "raise"')
        if isinstance(batch, (str, Mapping)) or not isinstance(batch, Iterable):
            refuse(where, "batch", batch, "an iterable of rows, each a dict or a tuple")
        rows = batch if generator_style else list(batch)
        if isinstance(rows, Sequence):
            for index, row in enumerate(rows):
                self._call_of_row(index, row)
        start = functools.partial(
            self._start_row,
            backend=chosen,
            sampling=_sampling(where, {k: v for k, v in sampling.items() if v is not None}),
            seed=_seed(where, sampling.get("seed")),
        )
        in_flight = max(1, chosen.max_in_flight)
        job = Batch(
            iter(rows),
            start,
            limits=Limits(
                in_flight=in_flight,
                threads=min(in_flight, AUTO_THREADS) if num_threads == "auto" else num_threads,
                ahead=AHEAD * in_flight if generator_style else None,
            ),
            on_error=on_error,
            progress=Progress(
                chosen,
                total=len(rows) if isinstance(rows, Sequence) else None,
                visible=progress_bar,
            ),
        )
        return job.in_order() if generator_style else job.collect()

    def bind(self, **kwargs: Any) -> Program[R]:
        """This program with some of its arguments given, once and for all."""
        self._refuse_unknown("bind", kwargs)
        return Program(self._body, {**self._bound, **kwargs})

    def trace(self, *values: Any, **kwargs: Any) -> Graph:
        """The program's graph, without a model. Arguments that are not given and have no default
        are names, `{question}` in the printed graph.

        Raises `TraceError` where the body needs the value of such an argument, or of a variable.
        """
        self._refuse_unknown("trace", kwargs)
        try:
            bound = self._signature.bind_partial(*values, **{**self._bound, **kwargs})
        except TypeError as error:
            raise UsageError(self._misfit(f"trace: {error}")) from None
        for name, parameter in self._signature.parameters.items():
            variadic = parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
            if (
                not variadic
                and name not in bound.arguments
                and parameter.default is parameter.empty
            ):
                bound.arguments[name] = Hole(f"argument {name!r}", f"{{{name}}}")
        bound.apply_defaults()
        args, named, body = bound.args, bound.kwargs, self._body
        return trace(lambda state: body(state, *args, **named), self.__name__, self.parameters)

    def _call(self, values: Sequence[Any], named: Mapping[str, Any]) -> Callable[[ProgramState], R]:
        """The body with its arguments; raises `UsageError` if they do not fit."""
        twice = self._bound.keys() & named.keys()
        if twice:
            raise UsageError(
                f"{self.__name__}: {sorted(twice)} were bound with bind(...) and cannot be given "
                "again; use the program that was not bound"
            )
        named = {**self._bound, **named}
        form = len(values), frozenset(named)
        if form not in self._fitting:
            try:
                self._signature.bind(*values, **named)
            except TypeError as error:
                raise UsageError(self._misfit(str(error), clash=True)) from None
            self._fitting.add(form)
        body = self._body
        return lambda state: body(state, *values, **named)

    def _misfit(self, error: str, *, clash: bool = False) -> str:
        """`clash`: the program's arguments stand beside those of `run`."""
        message = f"{self.__name__}: {error}; its arguments are ({', '.join(self.parameters)})"
        for name in self.parameters:
            if clash and name in _OWN_ARGUMENTS and repr(name) in error:
                message += (
                    f", and run has an argument {name!r} of its own: give the program's by "
                    f"position or as args={{{name!r}: ...}}"
                )
        return message

    def _refuse_unknown(self, where: str, named: Mapping[str, Any]) -> None:
        kinds = {parameter.kind for parameter in self._signature.parameters.values()}
        unknown = named.keys() - self._signature.parameters.keys()
        if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise UsageError(
                f"{self.__name__}.{where}: no arguments {sorted(unknown)}; "
                f"the program has ({', '.join(self.parameters)})"
            )

    def _call_of_row(self, index: int, row: BatchRow) -> Callable[[ProgramState], R]:
        try:
            if isinstance(row, Mapping):
                return self._call((), row)
            if isinstance(row, (tuple, list)):
                return self._call(row, {})
        except UsageError as error:
            raise UsageError(f"row {index}: {error}") from None
        raise UsageError(
            f"row {index} of the batch is {row!r}; a row is a dict of arguments or a tuple of "
            "positional ones: write (value,) for a single value"
        )

    def _start_row(
        self, index: int, row: BatchRow, *, backend: Backend, sampling: Sampling, seed: int
    ) -> Execution:
        try:
            call: Callable[[ProgramState], Any] = self._call_of_row(index, row)
        except UsageError as error:
            call = functools.partial(_raise, error)
        seed = derive_seed(seed, index)
        return self._execution(call, backend=backend, sampling=sampling, seed=seed)

    def _execution(
        self,
        call: Callable[[ProgramState], Any],
        *,
        backend: Backend,
        sampling: Sampling,
        seed: int,
        streaming: bool = False,
    ) -> Execution:
        return Execution(
            call,
            self._body.__code__,
            backend=backend,
            sampling=sampling,
            seed=seed,
            streaming=streaming,
        )


@overload
def function(func: Callable[..., R], num_api_spec_tokens: int | None = None) -> Program[R]: ...


@overload
def function(
    func: None = None, num_api_spec_tokens: int | None = None
) -> Callable[[Callable[..., R]], Program[R]]: ...


def function(
    func: Callable[..., R] | None = None, num_api_spec_tokens: int | None = None
) -> Program[R] | Callable[[Callable[..., R]], Program[R]]:
    """Make a program of a function whose first parameter is the state. Bare or with arguments.

    Raises `UsageError` for functions that cannot be one. `num_api_spec_tokens` is not supported.
    """
    if num_api_spec_tokens is not None:
        raise UsageError(
            f"function: num_api_spec_tokens={num_api_spec_tokens!r} is not supported yet; "
            "leave it out"
        )
    return Program if func is None else Program(func)


def _signature(body: Callable[..., Any]) -> inspect.Signature:
    """The signature of a body without its state; refuses what cannot be a body."""
    if not inspect.isfunction(body):
        raise UsageError(f"function({body!r}): a program is made of a plain Python function")
    name = body.__name__
    if inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body):
        raise UsageError(f"{name}: async def bodies are not supported yet; write it with def")
    if inspect.isgeneratorfunction(body):
        raise UsageError(f"{name}: a body with yield never runs by itself; return values instead")
    parameters = list(inspect.signature(body).parameters.values())
    first = parameters[0] if parameters else None
    if first is None or first.kind not in {first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD}:
        raise UsageError(f"{name}: the first parameter of a program is its state, as in {name}(s)")
    return inspect.Signature(parameters[1:])


def _sampling(where: str, given: Mapping[str, Any]) -> Sampling:
    unknown = given.keys() - RUN_ARGUMENTS
    if unknown:
        raise UsageError(
            f"{where}: no arguments {sorted(unknown)}; there are {sorted(RUN_ARGUMENTS)}"
        )
    current = caller.get()
    defaults = DEFAULT_SAMPLING if current is None else current.sampling
    asked = {name: value for name, value in given.items() if name != "seed"}
    return sampling_from(where, asked).over(defaults)


def _seed(where: str, given: int | None) -> int:
    if given is not None:
        sampling_from(where, {"seed": given})
    return seed_for(given)


def _run_streamed(execution: Execution) -> None:
    with suppress(BaseException):  # it is the outcome of the run, which its readers raise
        execution.body()


def _raise(error: UsageError, _: ProgramState) -> None:
    raise error


_OWN_ARGUMENTS = RUN_ARGUMENTS | {"stream", "backend", "use_thread", "args"}
