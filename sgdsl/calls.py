"""Calls of a program: what is given becomes the execution of its body, or of each of its rows.

Owns which argument belongs to the program and which to the run. Knows nothing of how an execution
goes on, nor of who waits for it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sgdsl.arguments import RUN_ARGUMENTS, refuse
from sgdsl.backends.base import Backend
from sgdsl.batches import Plan, StartRow
from sgdsl.context import (
    backend_for,
    cache_salt_for,
    priority_for,
    sampling_for,
    seed_for,
)
from sgdsl.conversation import Starts, conversation_parts
from sgdsl.errors import UsageError
from sgdsl.execution import Execution, Terms
from sgdsl.expressions import Part
from sgdsl.graph import Sampling
from sgdsl.parameters import Arguments, BatchRow, Parameters


class Calls:
    """Of `body`, of whose arguments `bound` were given ahead."""

    execution: Callable[..., Execution] = Execution

    def __init__(
        self,
        body: Callable[..., Any],
        bound: Mapping[str, Any],
        *,
        num_api_spec_tokens: int | None,
    ) -> None:
        self.parameters = Parameters(body, bound)
        self._body = body
        self._num_api_spec_tokens = num_api_spec_tokens

    def call(self, arguments: Arguments) -> Callable[[Any], Any]:
        """The body with its arguments."""
        (values, named), body = arguments, self._body
        return lambda state: body(state, *values, **named)

    def prepare(
        self, where: str, values: Sequence[Any], named: Mapping[str, Any], given: dict[str, Any]
    ) -> Execution:
        """`given`: the arguments of `run`, by name, as far as they are not None."""
        own = given.keys() & {"messages", "priority", "cache_salt"} & set(self.parameters.names)
        named = {**named, **{name: given.pop(name) for name in own}}
        by_name = given.get("args", {})
        if not isinstance(by_name, Mapping):
            allowed = "a dict of the program's arguments by name; give a list's entries by position"
            refuse(where, "args", by_name, allowed)
        if twice := named.keys() & by_name.keys():
            raise UsageError(
                f"{self._body.__name__}: {sorted(twice)} were given twice, in args= too"
            )
        call = self.call(self.parameters.fit(values, {**named, **by_name}))
        asked = {name: value for name, value in given.items() if name in RUN_ARGUMENTS}
        sampling, seed = sampling_for(where, asked), seed_for(given.get("seed"), where)
        return self.execution(
            call,
            self._terms(
                backend_for(given.get("backend")),
                sampling,
                priority=priority_for(given.get("priority"), where),
                cache_salt=cache_salt_for(given.get("cache_salt"), where),
            ),
            seed=seed,
            streaming=bool(given.get("stream")),
            start=conversation_parts(where, given.get("messages")),
        )

    def plan(
        self, where: str, batch: Iterable[BatchRow], options: Mapping[str, Any], *, lazy: bool
    ) -> Plan:
        """The rows that are there already are checked before any of them starts."""
        plan = Plan(where, batch, options, lazy=lazy, parameters=self.parameters.names)
        if isinstance(plan.rows, Sequence):
            for index, row in enumerate(plan.rows):
                self.parameters.fit_row(index, row)
        return plan

    def row_starter(self, plan: Plan) -> StartRow:
        terms = self._terms(
            plan.backend, plan.sampling, priority=plan.priority, cache_salt=plan.cache_salt
        )

        def start_row(index: int, row: BatchRow, *, seed: int, starts: Starts) -> Execution:
            start: Sequence[Part] = ()
            try:
                call = self.call(self.parameters.fit_row(index, row))
                start = starts(index)
            except UsageError as error:
                call = self.refusal(error)
            return self.execution(call, terms, seed=seed, start=start)

        return start_row

    def _terms(
        self, backend: Backend, sampling: Sampling, *, priority: int, cache_salt: str | None
    ) -> Terms:
        ahead = self._num_api_spec_tokens
        return Terms(backend, sampling, self._body.__code__, ahead, priority, cache_salt)

    def refusal(self, error: UsageError) -> Callable[[Any], Any]:
        """The body of a row whose arguments do not fit."""
        return functools.partial(_raise, error)


def _raise(error: UsageError, _: object) -> None:
    raise error
