"""What is different from SGLang's frontend on purpose: a test for each line of the list in
docs/frontend.md ("Coming from SGLang"). Each must end within two seconds: most of what is different
is that nothing hangs.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel

import sgdsl as sgl
from sgdsl import AsyncProgramState, MockBackend, ProgramState, gen, gen_int, select
from sgdsl.backends.script import Request
from sgdsl.choices import ChoiceScores
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(120)
DOWN = MockBackend({"a": OSError("down")})


@sgl.function
def two_gens(s: ProgramState, q: str = "?") -> None:
    s += f"Q: {q}" + gen("a")
    s += " and then " + gen("b")


def test_a_backends_error_is_raised_by_the_read_with_the_node_and_the_line() -> None:
    state = two_gens.run(backend=DOWN)
    line = two_gens._body.__code__.co_firstlineno + 2
    for read in (lambda: state["a"], lambda: state["b"], state.text, state.messages):
        with pytest.raises(sgl.ProgramError) as raised:
            read()
        assert isinstance(raised.value.__cause__, OSError)
        assert raised.value.node == "%1 gen a"
        assert raised.value.source == f"{__file__}:{line}"
    assert state.error() is raised.value
    state.sync()
    with pytest.raises(sgl.ProgramError):
        list(state.text_iter())


def test_a_batch_does_not_hang_after_a_gen_has_failed() -> None:
    states = two_gens.run_batch([{"q": "x"}, {"q": "y"}], backend=DOWN, num_threads=1)
    assert [state.outcome.status for state in states if state.outcome] == ["failed"] * 2


def test_a_batch_runs_the_body_once_a_row_with_its_real_arguments() -> None:
    table, seen = {"x": "1", "y": "2"}, []

    @sgl.function
    def look_up(s: ProgramState, q: str) -> None:
        seen.append(q)
        s += table[q] + gen("a")

    states = look_up.run_batch([{"q": "x"}, {"q": "y"}], backend=MockBackend(), num_threads=1)
    assert seen == ["x", "y"]
    assert [state.text() for state in states] == ["1mock", "2mock"]


def test_a_failed_fork_fails_the_run_or_stands_in_its_place() -> None:
    def reply(request: Request) -> Any:
        return OSError("down") if request.prompt.endswith("1") else request.prompt

    @sgl.function
    def forked(s: ProgramState, on_error: Any) -> None:
        forks = s.fork(3)
        forks += lambda index: f"{index}"
        forks += gen("a")
        forks.join(on_error=on_error)

    with pytest.raises(sgl.ProgramError, match="down"):
        forked.run("raise", backend=MockBackend(reply))["a"]
    values = forked.run("collect", backend=MockBackend(reply))["a"]
    assert (values[0], values[2]) == ("0", "2")
    assert isinstance(values[1], sgl.ProgramError)


def test_what_has_ended_takes_nothing_more_and_says_so() -> None:
    @sgl.function
    def late(s: ProgramState) -> None:
        forks = s.fork(2)
        forks += gen("a")
        forks.join()
        with pytest.raises(sgl.UsageError, match="this fork has been joined"):
            forks[0] += "more"

    state = late.run(backend=MockBackend())
    with pytest.raises(sgl.UsageError, match="the program has returned"):
        state += "more"


def test_nested_calls_inherit_and_nothing_else_is_shared() -> None:
    @sgl.function
    def inner(s: ProgramState) -> None:
        s += gen("a")

    @sgl.function
    def outer(s: ProgramState) -> str:
        return str(inner()["a"])

    def reply(request: Request) -> str:
        return f"{request.sampling.temperature}"

    assert outer.run(backend=MockBackend(reply), temperature=0.25).ret_value == "0.25"

    tracing, go_on = threading.Event(), threading.Event()

    @sgl.function
    def traced(s: ProgramState) -> None:
        tracing.set()
        go_on.wait(PATIENCE_S)

    tracer = threading.Thread(target=traced.trace)
    tracer.start()
    assert tracing.wait(PATIENCE_S)
    try:
        assert inner.run(backend=MockBackend())["a"] == "mock"  # a trace elsewhere changes nothing
    finally:
        go_on.set()
        tracer.join()


def test_async_bodies_run() -> None:
    @sgl.function
    async def asynchronous(s: AsyncProgramState) -> str:
        s += gen("a")
        return await s.get("a", str)

    assert asynchronous.run(backend=MockBackend()).ret_value == "mock"


def test_a_role_that_is_appended_is_there_once() -> None:
    @sgl.function
    def chat(s: ProgramState) -> None:
        s += s.user("hi")
        s.user("you")

    contents = [each["content"] for each in chat.run(backend=MockBackend()).messages()]
    assert contents == ["hi", "you"]


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda: gen("x", 64, choices=["a"], stop="b"), "max_tokens, stop and choices"),
        (lambda: gen("x", choices=[]), r"choices=\[\] is not allowed"),
        (lambda: select("x", []), r"choices=\[\] is not allowed"),
        (lambda: gen("x", regex="a", json_schema={}), "regex and json_schema"),
    ],
)
def test_what_contradicts_itself_is_refused_at_the_call(write: Any, message: str) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        write()


def test_typed_gens_give_their_types() -> None:
    class Colour(Enum):
        RED = "red"

    class Point(BaseModel):
        x: int

    @sgl.function
    def typed(s: ProgramState) -> None:
        s += gen("n", dtype=int) + gen_int("m") + gen("c", type=Colour) + gen("p", type=Point)

    replies = {"n": "7", "m": "8", "c": "red", "p": '{"x":1}'}
    state = typed.run(backend=MockBackend(replies))
    values = [state[name] for name in "nmcp"]
    assert values == [7, 8, Colour.RED, Point(x=1)]
    assert state.text() == '78red{"x":1}'


def test_arguments_may_be_named_like_those_of_run() -> None:
    @sgl.function
    def named(s: ProgramState, n: int, stop: str) -> str:
        return f"{n} {stop}"

    assert named.run(3, "x", backend=MockBackend()).ret_value == "3 x"
    assert named.run(args={"n": 3, "stop": "x"}, backend=MockBackend()).ret_value == "3 x"


def test_unnamed_gens_are_read_by_position_only() -> None:
    @sgl.function
    def unnamed(s: ProgramState) -> None:
        s += gen() + gen() + gen("x")

    state = unnamed.run(backend=MockBackend({"": ["first", "second"], "x": "third"}))
    assert (state[0], state[1]) == ("first", "second")
    with pytest.raises(sgl.UsageError):
        state[2]
    with pytest.raises(sgl.UsageError):
        state[None]  # type: ignore[index]
    with pytest.raises(sgl.UsageError, match="the unnamed gen 0 has no meta info; name it"):
        state.get_meta_info(0)  # type: ignore[arg-type]


def test_a_log_probability_of_zero_counts_in_the_mean() -> None:
    scores = ChoiceScores([[0.0, -4.0], [-3.0, -3.0]])

    @sgl.function
    def choose(s: ProgramState) -> None:
        s += select("c", ["sure, then odd", "always odd"])

    state = choose.run(backend=MockBackend(scores={"c": scores}))
    assert state["c"] == "sure, then odd"  # -2 on average; without the 0 it would be -4
    assert state.get_meta_info("c")["normalized_prompt_logprobs"] == [-2.0, -3.0]


def test_rows_that_never_read_need_no_thread_of_their_own() -> None:
    backend = MockBackend(stepwise=True, max_in_flight=500)
    threads: set[int] = set()

    @sgl.function
    def static(s: ProgramState, q: int) -> None:
        threads.add(threading.get_ident())
        s += f"{q}" + gen("a")

    static.run_batch([(i,) for i in range(200)], backend=backend)
    backend.close()
    assert len(threads) == 1


def test_patterns_are_checked_where_they_are_written_with_the_column() -> None:
    with pytest.raises(sgl.UsageError, match="column 2"):
        gen("x", regex="ab(c")
    with pytest.raises(sgl.UsageError, match="column 1"):
        gen("x", regex="a(?<=b+)c")
    with pytest.raises(sgl.UsageError, match="column 1"):
        gen("x", stop_regex="a(b")
