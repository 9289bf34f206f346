"""What newcomers write first, and what they are told: each message names the way out."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import sgdsl as sgl


def run_body(body: Callable[[Any], Any]) -> sgl.ProgramState[Any]:
    def named(s: Any) -> Any:
        return body(s)

    program: sgl.Program[Any] = sgl.function(named)
    return program.run(backend=sgl.MockBackend({"x": "seven"}))


@sgl.function
def ask(s: sgl.ProgramState, question: str) -> None:
    s += question + sgl.gen("x")


def forked(s: sgl.ProgramState) -> Any:
    forks = s.fork(2)
    forks += sgl.gen("x")
    return forks


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda s: s["x"], r"defines none; append .* s \+= gen\('x'\)"),
        (lambda s: (forked(s), s["x"]), "join forks whose variables are to be read here"),
        (lambda s: forked(s)["x"], r"forks\[0\]\['x'\], or after forks.join\(\) .* s\['x'\]"),
        (lambda s: (s.append(sgl.gen()), s[1]), "1 unnamed gens, which are read by position"),
        (lambda s: (s.append(sgl.gen("x")), s[0]), r"0 unnamed gens, .* only \['x'\] with a name"),
        (lambda s: s + sgl.gen("x"), r"append to this one, with s \+= \.\.\."),
        (lambda s: s + "text", r"append to this one, with s \+= \.\.\."),
    ],
)
def test_a_body_that_reads_or_joins_wrongly_is_told_how(
    body: Callable[[Any], Any], message: str
) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        run_body(body)


def test_an_expression_that_is_used_as_a_value_says_how_to_read_it() -> None:
    expression: Any = sgl.gen("x")
    with pytest.raises(AttributeError, match=r"gen x has no .upper: .* s\[\"answer\"\]"):
        expression.upper()
    assert not hasattr(expression, "strip")
    assert repr(copy.copy(expression)) == "gen x"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ask.run("a", max_tokens=3), "did you mean 'max_new_tokens'"),
        (lambda: ask.run("a", temprature=0), "did you mean 'temperature'"),
        (lambda: ask.run(qestion="a"), "did you mean 'question'"),
        (lambda: ask.run_batch([("a",)], num_workers=2), "did you mean 'num_threads'"),  # type: ignore[call-overload]
        (lambda: ask.run_batch([("a",)], question="b"), r"or are given with bind\(\.\.\.\)"),  # type: ignore[call-overload]
        (lambda: ask.run("a", backend=sgl.MockBackend), "MockBackend'> is not allowed"),  # type: ignore[arg-type]
        (lambda: sgl.set_default_backend(sgl.MockBackend), "pass a Runtime"),  # type: ignore[arg-type]
        (lambda: sgl.MockBackend("a reply"), r"default=\.\.\. is one reply for every gen"),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_are_not_there_are_refused_with_those_that_are(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        call()


def test_an_await_that_was_forgotten_in_a_return_is_noticed() -> None:
    @sgl.function
    async def read(s: sgl.AsyncProgramState) -> Any:
        s += sgl.gen("x")
        return s.get("x")

    with pytest.raises(sgl.UsageError, match=r"AsyncProgramState.get\(\.\.\.\) .*`return await"):
        read.run(backend=sgl.MockBackend())


def test_a_state_shows_how_its_run_stands() -> None:
    seen = []
    state = run_body(lambda s: seen.append(repr(s)))
    assert seen == ["<ProgramState of a run: running>"]
    assert repr(state) == "<ProgramState of a run: ok>"


def test_an_error_names_the_type_as_the_program_does() -> None:
    state = run_body(lambda s: s.append(sgl.gen("x", type=int)))
    error = state.error()
    assert isinstance(error, sgl.ProgramError)
    assert error.node == "%0 gen x type=int"
    with pytest.raises(sgl.ProgramError, match=r"'seven' is not one: Invalid JSON: .*\Z") as caught:
        run_body(lambda s: s.append(sgl.gen("x"))).get("x", int)
    assert "\n" not in str(caught.value)
