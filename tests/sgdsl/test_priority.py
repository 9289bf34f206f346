"""The priority of a run: what a backend is told, by whichever way it is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState, UsageError
from sgdsl.backends.router import Router
from sgdsl.run import Run


class Noting(MockBackend):
    def __init__(self) -> None:
        super().__init__()
        self.priorities: list[int] = []

    def submit(self, run: Run) -> None:
        self.priorities.append(run.priority)
        super().submit(run)


@sgl.function
def ask(s: ProgramState, question: str) -> None:
    s += question + sgl.gen("x", max_tokens=3)


@sgl.function
def outer(s: ProgramState, own: int | None) -> None:
    ask.run("inside?", priority=own)
    s += "outside" + sgl.gen("x", max_tokens=3)


def test_each_way_to_run_takes_it() -> None:
    backend = Noting()
    ask.run("?", backend=backend)
    ask.run("?", backend=backend, priority=3)
    ask("?", backend=backend, priority=-2)
    asyncio.run(ask.arun("?", backend=backend, priority=4))
    ask.run_batch([("?",)] * 2, backend=backend, priority=5)
    asyncio.run(ask.arun_batch([("?",)], backend=backend, priority=6))
    assert backend.priorities == [0, 3, -2, 4, 5, 5, 6]


@pytest.mark.parametrize(("own", "expected"), [(None, 7), (0, 0), (9, 9)])
def test_runs_inside_of_a_body_inherit_it(own: int | None, expected: int) -> None:
    backend = Noting()
    outer.run(own, backend=backend, priority=7)
    assert sorted(backend.priorities) == sorted([7, expected])


@pytest.mark.parametrize("value", ["high", 1.5, True, [1]])
def test_it_is_a_whole_number(value: Any) -> None:
    with pytest.raises(UsageError, match=r"priority=.* is not allowed; priority is a whole number"):
        ask.run("?", backend=MockBackend(), priority=value)
    with pytest.raises(UsageError, match=r"priority=.* is not allowed; priority is a whole number"):
        ask.run_batch([("?",)], backend=MockBackend(), priority=value)


def test_a_program_may_have_an_argument_of_that_name() -> None:
    @sgl.function
    def ticket(s: ProgramState, priority: str) -> None:
        s += priority

    backend = Noting()
    given: dict[str, Any] = {"priority": "urgent"}
    assert ticket.run(**given, backend=backend).text() == "urgent"
    [state] = ticket.run_batch([{"priority": "low"}], backend=backend, priority=2)
    assert state.text() == "low"
    assert backend.priorities == [0, 2]


def test_a_router_passes_it_on() -> None:
    backend = Noting()
    with Router([backend]) as router:
        ask.run("?", backend=router, priority=3)
    assert backend.priorities == [3]
