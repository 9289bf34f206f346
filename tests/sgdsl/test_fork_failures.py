"""A fork that fails: what it ends, what goes on, and what a join makes of it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

import sgdsl as sgl
from sgdsl import STALL, AsyncProgramState, MockBackend, ProgramState, gen, select
from sgdsl.backends.script import Request
from tests.sgdsl.backends import ShuffledBackend

pytestmark = pytest.mark.timeout(120)
DOWN = OSError("down")


def fails_in(index: int) -> Any:
    """Replies of the prompt's last character; the fork with this index fails."""

    def reply(request: Request) -> Any:
        return DOWN if request.prompt.endswith(f"#{index}") else request.prompt[-2:]

    return reply


@pytest.fixture(params=["at once", "stepwise"])
def backend(request: pytest.FixtureRequest) -> Any:
    mock = MockBackend(fails_in(1), stepwise=request.param == "stepwise")
    yield mock
    mock.close()


@pytest.mark.parametrize("mode", ["gather_variable", "concate_and_append"])
def test_by_default_a_failed_fork_fails_the_run(mode: str, backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        forks = s.fork(3)
        forks += lambda index: f"#{index}"
        forks += gen("a")
        forks.join(mode)
        s += gen("b")

    error = program.run(backend=backend).error()
    assert isinstance(error, sgl.ProgramError)
    assert error.__cause__ is DOWN
    assert "gen a" in str(error)


def test_a_join_can_carry_the_failure_in_place(backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> Any:
        s += "begin "
        forks = s.fork(3)
        forks += lambda index: f"#{index}"
        forks += gen("a") + select("c", ["x", "y"])
        forks.join(on_error="collect")
        s += "end" + gen("b")
        return s["a"], s["c"], [fork.error() for fork in forks]

    state = program.run(backend=backend)
    (a, c, errors) = state.ret_value
    assert [a[0], a[2]] == ["#0", "#2"]
    assert [c[0], c[2]] == ["x", "x"]
    assert isinstance(a[1], sgl.ProgramError)
    assert a[1].__cause__ is DOWN
    assert a[1].source is not None and "test_fork_failures" in a[1].source
    assert c[1] is a[1]
    assert errors == [None, a[1], None]
    assert state.outcome == sgl.Outcome("ok")
    assert state["b"] == "nd"
    assert state.text() == "begin endnd"


def test_what_a_failed_fork_had_stays_in_its_place(backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> Any:
        forks = s.fork(2)
        for index, fork in enumerate(forks):
            fork["n"] = index
            fork.append(f"#{index}" + gen("a"))
            fork["done"] = True
        forks.join(on_error="collect")
        return s["n"], s["a"], s["done"]

    n, a, done = program.run(backend=backend).ret_value
    assert n == [0, 1]
    assert (a[0], done[0]) == ("#0", True)
    assert a[1] is done[1]


def test_texts_of_failed_forks_are_left_out(backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += "T"
        forks = s.fork(3)
        forks += lambda index: f" #{index}"
        forks += gen("a")
        forks.join("concate_and_append", on_error="collect")
        s += "!" + gen("b")

    state = program.run(backend=backend)
    assert (state.text(), state.outcome) == ("T #0#0 #2#2!2!", sgl.Outcome("ok"))


def test_even_if_all_fail_the_lists_are_there() -> None:
    @sgl.function
    def program(s: ProgramState) -> Any:
        forks = s.fork(2)
        forks += gen("a")
        forks.join(on_error="collect")
        s += s.ref("a")
        return s["a"], s.text()

    a, text = program.run(backend=MockBackend({"a": DOWN})).ret_value
    assert [each.__cause__ for each in a] == [DOWN, DOWN]
    assert text == "[failed, failed]"


def test_the_others_go_on_until_the_join_is_written(backend: MockBackend) -> None:
    """Whether a failure is collected cannot depend on which comes first."""

    @sgl.function
    def program(s: ProgramState, on_error: Any) -> Any:
        forks = s.fork(3)
        forks += lambda index: f"#{index}"
        forks += gen("a")
        assert forks[2]["a"] == "#2"  # a graph break, before the join
        with pytest.raises(sgl.ProgramError, match="down"):
            forks[1]["a"]
        with pytest.raises(sgl.ProgramError, match="down"):
            forks[1].text()
        forks[1] += gen("never") + "more"
        inner = forks[1].fork(2)
        inner += gen("x")
        inner.join()
        forks[0] += "more" + gen("b")
        assert forks[0]["b"] == "re"
        forks.join(on_error=on_error)
        return s["a"], s["b"], s["x"], s["never"]

    a, b, x, never = program.run("collect", backend=backend).ret_value
    assert (a[0], a[2], b[0], b[2], x[0]) == ("#0", "#2", "re", None, None)
    assert a[1] is b[1] is x[1] is never[1]
    with pytest.raises(sgl.ProgramError, match="down"):
        program.run("raise", backend=backend)


def test_a_failed_fork_that_nobody_joins_fails_the_run(backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> str:
        forks = s.fork(2)
        forks += lambda index: f"#{index}"
        forks += gen("a")
        s += gen("b")
        return str(s["b"])  # goes on

    state = program.run(backend=backend)
    assert state.outcome is not None
    assert state.outcome.status == "failed"
    assert state.ret_value == ""


def test_forks_inside_of_forks_fail_what_joins_them(backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> Any:
        outer = s.fork(2)
        for index, fork in enumerate(outer):
            inner = fork.fork(2)
            inner += f"#{index}"
            inner += gen("a")
            inner.join()
            fork.append("z" + gen("b"))
        outer.join(on_error="collect")
        return s["a"], s["b"]

    a, b = program.run(backend=backend).ret_value
    assert a[0] == ["#0", "#0"]
    assert b[0] == "z"
    assert isinstance(a[1], sgl.ProgramError)
    assert a[1] is b[1]


def test_a_branch_that_never_came_to_be_can_be_read(backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> Any:
        outer = s.fork(1)
        outer[0] += "#1" + gen("a")
        inner = outer[0].fork(2)
        inner += "more" + gen("b")
        with pytest.raises(sgl.ProgramError, match="down"):
            inner[1]["b"]
        inner.join()
        outer.join(on_error="collect")
        return s["a"], s["b"]

    a, b = program.run(backend=backend).ret_value
    assert a[0] is b[0]
    assert a[0].__cause__ is DOWN


def test_a_value_that_no_validator_takes_is_collected_too() -> None:
    def odd(value: int) -> int:
        if value % 2 == 0:
            raise ValueError("even")
        return value

    @sgl.function
    def program(s: ProgramState, on_error: Any) -> None:
        forks = s.fork(3)
        forks += lambda index: f"{index}:"
        forks += gen("n", type=Annotated[int, AfterValidator(odd)])
        forks.join(on_error=on_error)

    def reply(request: Request) -> str:
        return request.prompt[0]

    state = program.run("collect", backend=MockBackend(reply))
    first, second, third = state["n"]
    assert second == 1
    assert [type(each.__cause__).__name__ for each in (first, third)] == ["ValidationError"] * 2
    assert state.outcome == sgl.Outcome("ok")
    failed = program.run("raise", backend=MockBackend(reply))
    assert failed.outcome is not None
    assert failed.outcome.status == "failed"


def test_failures_in_nested_programs_and_scopes(backend: MockBackend) -> None:
    @sgl.function
    def part(s: ProgramState, index: int) -> None:
        with s.var_scope("whole"):
            s += f"#{index}" + gen("a")

    @sgl.function
    def program(s: ProgramState) -> Any:
        with s.var_scope("outer"):
            forks = s.fork(2)
            for index, fork in enumerate(forks):
                part(fork, index)
            forks.join(on_error="collect")
            s += "rest"
        return s["whole"], s["outer"]

    whole, outer = program.run(backend=backend).ret_value
    assert whole[0] == "#0#0"
    assert isinstance(whole[1], sgl.ProgramError)
    assert outer == "rest"


def test_a_body_that_raises_after_forks_is_what_failed(backend: MockBackend) -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        forks = s.fork(2)
        forks += lambda index: f"#{index}"
        forks += gen("a")
        assert forks[0]["a"] == "#0"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        program.run(backend=backend)


def test_a_nested_run_that_fails_is_the_callers_to_handle() -> None:
    @sgl.function
    def inner(s: ProgramState) -> Any:
        s += gen("a")
        return s["a"]

    @sgl.function
    def outer(s: ProgramState) -> Any:
        try:
            inner()
        except sgl.ProgramError as error:
            s += f"sorry: {error.__cause__}"
        state = inner.bind()
        with pytest.raises(sgl.ProgramError, match="down"):
            state.run()
        return s.text()

    state = outer.run(backend=MockBackend({"a": DOWN}))
    assert (state.ret_value, state.outcome) == ("sorry: down", sgl.Outcome("ok"))


def test_a_deadline_ends_all_forks() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        forks = s.fork(3)
        forks += gen("a")
        forks.join(on_error="collect")

    state = program.run(backend=MockBackend({"a": ["x", STALL, "z"]}), timeout_s=0.05)
    assert state.outcome is not None
    assert state.outcome.status == "cancelled"
    with pytest.raises(sgl.DeadlineError):
        state["a"]


def test_in_async_bodies_too(backend: MockBackend) -> None:
    @sgl.function
    async def program(s: AsyncProgramState) -> Any:
        forks = s.fork(3)
        forks += lambda index: f"#{index}"
        forks += gen("a")
        got = await asyncio.gather(*(fork.get("a") for fork in forks), return_exceptions=True)
        forks.join(on_error="collect")
        return got, await s.get("a"), [await fork.error() for fork in forks]

    got, a, errors = program.run(backend=backend).ret_value
    assert got == a
    assert errors == [None, a[1], None]


def test_one_of_several_outputs_that_fails_fails_its_fork() -> None:
    @sgl.function
    def program(s: ProgramState) -> Any:
        forks = s.fork(2)
        for fork in forks:
            fork.append(gen("a", n=3))
        forks.join(on_error="collect")
        return s["a"]

    replies: list[Any] = ["1", "2", DOWN, "4", "5", "6"]
    state = program.run(backend=MockBackend({"a": replies}))
    first, second = state.ret_value
    assert (first.__cause__, second) == (DOWN, ["4", "5", "6"])

    @sgl.function
    def alone(s: ProgramState) -> Any:
        s += gen("a", n=3)
        return s["a"]

    with pytest.raises(sgl.ProgramError, match="down"):
        alone.run(backend=MockBackend({"a": ["1", DOWN, "3"]}))


def test_traces_show_it() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        forks = s.fork(1)
        forks += gen("a")
        forks.join(on_error="collect")

    assert str(program.trace()).endswith("join gather_variable <- b1 on_error=collect")


def test_what_is_no_way_to_handle_errors_is_refused() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s.fork(1).join(on_error="ignore")  # type: ignore[arg-type]

    with pytest.raises(sgl.UsageError, match="on_error='ignore' is not allowed"):
        program.run(backend=MockBackend())


@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_the_branches_does_not_matter(seed: int) -> None:
    class Shuffled(ShuffledBackend):
        def __init__(self) -> None:
            super().__init__(seed)
            self._script._for_all = fails_in(1)

    @sgl.function
    def program(s: ProgramState) -> Any:
        forks = s.fork(4)
        forks += lambda index: f"#{index}"
        forks += gen("a") + gen("b")
        forks.join(on_error="collect")
        s += "end"
        return s["a"]

    a = program.run(backend=Shuffled()).ret_value
    assert [a[0], a[2], a[3]] == ["#0", "#2", "#3"]
    assert isinstance(a[1], sgl.ProgramError)
