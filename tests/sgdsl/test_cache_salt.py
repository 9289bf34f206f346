"""The cache salt of a run: what a backend is told, by whichever way it is asked."""

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
        self.salts: list[str | None] = []

    def submit(self, run: Run) -> None:
        self.salts.append(run.cache_salt)
        super().submit(run)


@sgl.function
def ask(s: ProgramState, question: str) -> None:
    s += question + sgl.gen("x", max_tokens=3)


@sgl.function
def outer(s: ProgramState, own: str | None) -> None:
    ask.run("inside?", cache_salt=own)
    s += "outside" + sgl.gen("x", max_tokens=3)


def test_each_way_to_run_takes_it() -> None:
    backend = Noting()
    ask.run("?", backend=backend)
    ask.run("?", backend=backend, cache_salt="a")
    ask("?", backend=backend, cache_salt="b")
    asyncio.run(ask.arun("?", backend=backend, cache_salt="c"))
    ask.run_batch([("?",)] * 2, backend=backend, cache_salt="d")
    asyncio.run(ask.arun_batch([("?",)], backend=backend, cache_salt="e"))
    assert backend.salts == [None, "a", "b", "c", "d", "d", "e"]


@pytest.mark.parametrize(("own", "expected"), [(None, "theirs"), ("own", "own")])
def test_runs_inside_of_a_body_inherit_it(own: str | None, expected: str) -> None:
    backend = Noting()
    outer.run(own, backend=backend, cache_salt="theirs")
    assert sorted(backend.salts, key=str) == sorted(["theirs", expected])


@pytest.mark.parametrize("value", ["", 3, b"a", True, ["a"], "x" * 257, "\ud800"])
def test_it_is_a_short_text(value: Any) -> None:
    match = r"cache_salt=.* is not allowed; cache_salt is a str of 1 to 256 characters, or None"
    with pytest.raises(UsageError, match=match):
        ask.run("?", backend=MockBackend(), cache_salt=value)
    with pytest.raises(UsageError, match=match):
        ask.run_batch([("?",)], backend=MockBackend(), cache_salt=value)


def test_a_program_may_have_an_argument_of_that_name() -> None:
    @sgl.function
    def season(s: ProgramState, cache_salt: int) -> None:
        s += str(cache_salt)

    backend = Noting()
    given: dict[str, Any] = {"cache_salt": 5}
    assert season.run(**given, backend=backend).text() == "5"
    [state] = season.run_batch([{"cache_salt": 7}], backend=backend, cache_salt="a")
    assert state.text() == "7"
    assert backend.salts == [None, "a"]


def test_a_router_passes_it_on() -> None:
    backend = Noting()
    with Router([backend]) as router:
        ask.run("?", backend=router, cache_salt="a")
    assert backend.salts == ["a"]
