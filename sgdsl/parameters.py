"""What the body of a program takes besides its state.

Owns whether arguments fit, what was bound ahead, and how those that do not fit are refused. Knows
nothing of how a body is run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sgdsl.arguments import RUN_ARGUMENTS, did_you_mean
from sgdsl.errors import UsageError
from sgdsl.expressions import Hole

BatchRow = Mapping[str, Any] | Sequence[Any]
Arguments = tuple[Sequence[Any], Mapping[str, Any]]
"""Those given by position, and those given by name."""

_OF_RUN = RUN_ARGUMENTS | {"stream", "backend", "use_thread", "args", "timeout_s"}


class Parameters:
    """Those of `body`, of which `bound` were given ahead."""

    def __init__(self, body: Callable[..., Any], bound: Mapping[str, Any]) -> None:
        self._signature = _signature(body)
        self._bound = bound
        self._fitting: set[tuple[int, frozenset[str]]] = set()
        """How many values and which names fit: whether arguments do depends on nothing else."""
        self._program = body.__name__
        self.names = tuple(self._signature.parameters)

    @property
    def required(self) -> tuple[str, ...]:
        """Those that have no default and were not bound."""
        return tuple(
            name
            for name, each in self._signature.parameters.items()
            if each.default is each.empty
            and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
            and name not in self._bound
        )

    def fit(self, values: Sequence[Any], named: Mapping[str, Any]) -> Arguments:
        """The arguments of a call; raises `UsageError` if they do not fit."""
        if self._bound:
            if twice := self._bound.keys() & named.keys():
                raise UsageError(
                    f"{self._program}: {sorted(twice)} were bound with bind(...) and cannot be "
                    "given again; use the program that was not bound"
                )
            named = {**self._bound, **named}
        form = len(values), frozenset(named)
        if form not in self._fitting:
            try:
                self._signature.bind(*values, **named)
            except TypeError as error:
                raise UsageError(self._misfit(str(error), named, clash=True)) from None
            self._fitting.add(form)
        return values, named

    def fit_row(self, index: int, row: BatchRow) -> Arguments:
        """Those of a batch's row."""
        try:
            if isinstance(row, (dict, Mapping)):  # the usual kind is found sooner
                return self.fit((), row)
            if isinstance(row, (tuple, list)):
                return self.fit(row, {})
        except UsageError as error:
            raise UsageError(f"row {index}: {error}") from None
        raise UsageError(
            f"row {index} of the batch is {row!r}; a row is a dict of arguments or a tuple of "
            "positional ones: write (value,) for a single value"
        )

    def fit_holes(
        self, values: Sequence[Any], named: Mapping[str, Any], hole: Callable[[str], Hole]
    ) -> Arguments:
        """Those of a trace: a hole for each that is not given and has no default."""
        self.refuse_unknown("trace", named)
        try:
            bound = self._signature.bind_partial(*values, **{**self._bound, **named})
        except TypeError as error:
            raise UsageError(self._misfit(f"trace: {error}", named)) from None
        for name, parameter in self._signature.parameters.items():
            variadic = parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
            given = name in bound.arguments or parameter.default is not parameter.empty
            if not variadic and not given:
                bound.arguments[name] = hole(name)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def refuse_unknown(self, where: str, named: Mapping[str, Any]) -> None:
        if unknown := self._unknown(named):
            raise UsageError(
                f"{self._program}.{where}: no arguments {unknown}; "
                f"the program has ({', '.join(self.names)})"
            )

    def _unknown(self, named: Mapping[str, Any]) -> list[str]:
        kinds = {parameter.kind for parameter in self._signature.parameters.values()}
        variadic = inspect.Parameter.VAR_KEYWORD in kinds
        return [] if variadic else sorted(named.keys() - self._signature.parameters.keys())

    def _misfit(self, error: str, named: Mapping[str, Any], *, clash: bool = False) -> str:
        """`clash`: the program's arguments stand beside those of `run`."""
        unknown = self._unknown(named)
        if unknown and "unexpected" not in error:  # a misspelt name is why another one is missing
            error += f", and got an unexpected keyword argument {unknown[0]!r}"
        message = f"{self._program}: {error}; its arguments are ({', '.join(self.names)})"
        if unknown:
            message += did_you_mean(unknown[0], (*self.names, *(_OF_RUN if clash else ())))
        for name in self.names:
            if clash and name in _OF_RUN and repr(name) in error:
                message += (
                    f", and run has an argument {name!r} of its own: give the program's by "
                    f"position or as args={{{name!r}: ...}}"
                )
        return message


def _signature(body: Callable[..., Any]) -> inspect.Signature:
    """The signature of a body without its state; refuses what cannot be a body."""
    if not inspect.isfunction(body):
        raise UsageError(f"function({body!r}): a program is made of a plain Python function")
    name = body.__name__
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise UsageError(f"{name}: a body with yield never runs by itself; return values instead")
    parameters = list(inspect.signature(body).parameters.values())
    first = parameters[0] if parameters else None
    if first is None or first.kind not in {first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD}:
        raise UsageError(f"{name}: the first parameter of a program is its state, as in {name}(s)")
    return inspect.Signature(parameters[1:])
