"""Checks: a value that does not pass is written again, with everything behind it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pydantic import BaseModel, Field

import sgdsl as sgl
from sgdsl import CheckFailed, Completion, MockBackend, ProgramState, gen
from sgdsl.backends.script import Request
from tests.patience import PATIENCE_S


def run(body: Any, replies: Any = None, **options: Any) -> ProgramState:
    state: ProgramState = sgl.function(body).run(
        backend=MockBackend(replies, check_constraints=False), **options
    )
    return state


def long_enough(value: str) -> bool:
    return len(value) > 2


def test_what_does_not_pass_is_written_again_and_nothing_of_it_stays() -> None:
    def body(s: ProgramState) -> Any:
        s += "A:" + gen("x") + "."
        value = s.check(long_enough)
        s += "B"
        return value

    state = run(body, {"x": ["a", "b", "long"]})
    assert state.ret_value == state["x"] == "long"
    assert state.text() == "A:long.B"
    assert state.outcome == sgl.Outcome("ok")


def test_every_attempt_has_a_seed_of_its_own_and_the_same_prompt() -> None:
    seen: list[Request] = []

    def reply(request: Request) -> str:
        seen.append(request)
        return "x" * len(seen)

    def body(s: ProgramState) -> None:
        s += "A:" + gen("x", seed=3) + "."
        s.check(long_enough)

    run(body, reply)
    assert [request.prompt for request in seen] == ["A:"] * 3
    assert seen[0].seed == 3
    assert len({request.seed for request in seen}) == 3
    first, seen[:] = [request.seed for request in seen], []
    run(body, reply)
    assert [request.seed for request in seen] == first


def test_after_the_retries_it_fails_with_the_value_the_predicate_the_node_and_the_line() -> None:
    def body(s: ProgramState) -> None:
        s += "A:" + gen("x")
        s.check(long_enough, retries=2, message="more than two letters")

    with pytest.raises(CheckFailed, match="more than two") as caught:
        run(body, {"x": ["a", "b", "c", "never asked for"]})
    error = caught.value
    assert error.value == "c"
    assert error.node == "%2 check x retries=2"
    assert error.source is not None
    assert "test_checks.py" in error.source
    assert "'x' was written 3 times and did not pass long_enough (more than" in str(error)
    assert "the last value was 'c'" in str(error)
    assert isinstance(error, sgl.ProgramError)


def test_a_body_may_catch_it_and_go_on_with_what_was_written_last() -> None:
    def body(s: ProgramState) -> None:
        s += gen("x") + "!"
        try:
            s.check(lambda value: value == "z", retries=1)
        except CheckFailed:
            s += "?"

    state = run(body, {"x": ["a", "b"]})
    assert (state.text(), state["x"], state.outcome) == ("b!?", "b", sgl.Outcome("ok"))


@pytest.mark.parametrize("error", [AssertionError("too short"), ValueError("too short")])
def test_an_assertion_or_a_value_error_is_a_no(error: Exception) -> None:
    def refuse(value: str) -> bool:
        if value != "b":
            raise error
        return True

    def body(s: ProgramState) -> None:
        s += gen("x")
        s.check(refuse, retries=int(s.ref("x") is not None))

    assert run(body, {"x": ["a", "b"]})["x"] == "b"
    with pytest.raises(CheckFailed, match=f"'c': {type(error).__name__}: too short") as caught:
        run(body, {"x": ["a", "c"]})
    assert caught.value.__cause__ is error


def test_every_other_error_of_a_predicate_is_the_bodys() -> None:
    def body(s: ProgramState) -> None:
        s += gen("x")
        s.check(lambda value: value["key"])

    with pytest.raises(TypeError, match="string indices"):
        run(body, {"x": "a"})


def test_a_wrong_use_of_sgdsl_in_a_predicate_is_no_no() -> None:
    def body(s: ProgramState) -> None:
        s += gen("x")
        s.check(lambda _: s["nobody"])

    with pytest.raises(sgl.UsageError, match="'nobody'"):
        run(body, {"x": "a"})


class Age(BaseModel):
    years: int = Field(ge=0)


def test_a_typed_value_is_checked_as_such() -> None:
    def body(s: ProgramState) -> None:
        s += gen("age", type=Age)
        s.check(lambda age: age.years > 17)

    state = run(body, {"age": ['{"years": 5}', '{"years": 20}']})
    assert state["age"] == Age(years=20)
    assert state.outcome == sgl.Outcome("ok")


def test_a_value_that_its_type_refuses_does_not_pass() -> None:
    def body(s: ProgramState) -> Any:
        s += gen("age", type=Age)
        return s.check(lambda age: age.years > 17)

    state = run(body, {"age": ['{"years": -5}', "no JSON", '{"years": 20}']})
    assert state.ret_value == Age(years=20)
    with pytest.raises(CheckFailed, match="the last value was None: ProgramError") as caught:
        run(body, {"age": ["no JSON"] * 4})
    assert caught.value.value is None
    assert isinstance(caught.value.__cause__, sgl.ProgramError)


def test_roles_scopes_and_messages_are_as_if_only_the_last_had_been_written() -> None:
    def body(s: ProgramState) -> None:
        s += sgl.user("Q")
        with s.var_scope("outer"):
            with s.assistant(), s.var_scope("inner"):
                s += "A: " + gen("x") + "."
            s.check(long_enough, name="inner", retries=0)
            s.check(long_enough)

    state = run(body, {"x": ["a", "long"]})
    assert state.messages() == [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": "A: long."},
    ]
    assert state["inner"] == "A: long."
    assert "a." not in state["outer"]
    assert state.text().count("ASSISTANT:") == 1


def test_a_variable_that_had_a_value_before_has_it_again_until_it_is_written() -> None:
    def body(s: ProgramState) -> list[Any]:
        s["x"] = "before"
        s += "A:" + gen("x") + gen("y", max_tokens=5)
        with s.var_scope("x"):
            s += s.ref("x") + gen("z") + s.ref("x")
        return [s.check(lambda value: value.count("l") == 1), s["x"]]

    replies = {"x": "-", "y": "+", "z": ["k", "l"]}
    assert run(body, replies).ret_value == ["l", "-l-"]


def test_a_ref_takes_the_new_value_and_an_unnamed_gen_is_checked_by_its_place() -> None:
    def body(s: ProgramState) -> Any:
        s += gen() + gen() + ","
        s.check(long_enough)
        s += gen("x") + s.ref("x")
        return [s.check(long_enough), s[0], s[1]]

    replies = {"": ["1", "2", "222"], "x": ["y", "yyy"]}
    state = run(body, replies)
    assert state.ret_value == ["yyy", "1", "222"]
    assert state.text() == "1222,yyyyyy"


def test_in_forks_each_goes_back_by_itself() -> None:
    def body(s: ProgramState) -> None:
        s += "Q"
        forks = s.fork(3)
        forks += lambda index: f"{index}" + gen("x")
        for fork in forks:
            fork.check(long_enough)
        forks.join()

    state = run(body, {"x": ["aaa", "b", "ccc", "c", "bbb"]})
    assert state["x"] == ["aaa", "bbb", "ccc"]


def test_several_completions_are_one_value() -> None:
    def body(s: ProgramState) -> None:
        s += gen("x", n=2) + "."
        s.check(lambda values: len(set(values)) == 2)

    state = run(body, {"x": ["a", "a", "b", "c"]})
    assert (state["x"], state.text()) == (["b", "c"], "b.")
    assert len(state.get_meta_info("x")["completions"]) == 2


def test_what_was_asked_before_of_the_same_gen_must_still_hold() -> None:
    asked: list[str] = []

    def not_b(value: str) -> bool:
        asked.append(value)
        return value != "bbb"

    def body(s: ProgramState) -> None:
        s += gen("x")
        s.check(not_b)
        s.check(long_enough, retries=3)

    assert run(body, {"x": ["a", "bbb", "ccc"]})["x"] == "ccc"
    assert asked == ["a", "bbb", "ccc"]


def test_a_cut_off_attempt_does_not_truncate_the_run() -> None:
    def body(s: ProgramState) -> None:
        s += gen("x")
        s.check(long_enough)

    cut = Completion("a", truncated=True)
    assert run(body, {"x": [cut, "long"]}).outcome == sgl.Outcome("ok")
    assert run(body, {"x": [cut, Completion("long", truncated=True)]}).outcome == sgl.Outcome(
        "truncated"
    )


def test_a_predicate_may_ask_another_program() -> None:
    @sgl.function
    def judge(s: ProgramState, text: str) -> None:
        s += text + sgl.select("verdict", ["bad", "good"])

    def body(s: ProgramState) -> None:
        s += gen("x")
        s.check(lambda value: judge.run(value)["verdict"] == "bad")

    assert run(body, {"x": "a"}).outcome == sgl.Outcome("ok")


def join(s: ProgramState) -> None:
    forks = s.fork(1)
    forks.join()


@pytest.mark.parametrize(
    "between",
    [
        lambda s: s.append(sgl.select("y", ["a"])),
        lambda s: s.set_var("y", 1),
        lambda s: s.fork(1),
        join,
    ],
)
def test_what_cannot_be_written_again_may_not_stand_between(between: Any) -> None:
    def body(s: ProgramState) -> None:
        s += gen("x")
        between(s)
        s.check(long_enough)

    with pytest.raises(sgl.UsageError, match=r"no gen to write again.*check right after the gen"):
        run(body)


def no_gen(s: ProgramState) -> None:
    s += "text"
    s.check(long_enough)


def in_a_fork(s: ProgramState) -> None:
    s += gen("x")
    s.fork(1)[0].check(long_enough)


def other_name(s: ProgramState) -> None:
    s += gen("x") + gen("y")
    s.check(long_enough, name="x")


def no_function(s: ProgramState) -> None:
    s += gen("x")
    s.check("long")  # type: ignore[arg-type]


def wrong_count(s: ProgramState) -> None:
    s += gen("x")
    s.check(long_enough, retries=-1)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (no_gen, "no gen to write again"),
        (in_a_fork, "no gen to write again"),
        (other_name, r"'x' was not written by the last gen or since, only \['y'\]"),
        (no_function, "predicate='long' is not allowed"),
        (wrong_count, "retries=-1 is not allowed; retries is a whole number from 0 to"),
    ],
)
def test_a_check_out_of_place_is_refused(body: Any, message: str) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        run(body)


def test_a_trace_prints_it_and_asks_nobody() -> None:
    @sgl.function
    def program(s: ProgramState) -> None:
        s += "A:" + gen("x")
        s += "B" + s.check(lambda _: pytest.fail("it was asked"), retries=2, name="x")

    assert str(program.trace()).splitlines()[1:] == [
        "  %0 text 'A:'",
        "  %1 gen x",
        "  %2 check x retries=2",
        "  %3 text 'B{x}'",
    ]


@pytest.mark.parametrize(
    ("name", "expected"), [(None, "A: a b. c d.B e"), ("x", " a b")], ids=["all", "x"]
)
def test_a_stream_takes_nothing_back_and_goes_on_with_the_next_attempt(
    name: str | None, expected: str
) -> None:
    """That of one variable has ended by then: it is what was written first."""
    given = threading.Event()

    @sgl.function
    def program(s: ProgramState) -> None:
        s += "A:" + gen("x") + "."
        s.check(lambda value: given.wait(PATIENCE_S) and value == " c d")
        s += "B" + gen("y")

    backend = MockBackend({"x": [" a b", " c d"], "y": " e"}, stepwise=True)
    state = program.run(backend=backend, stream=True)
    text = ""
    for piece in state.text_iter(name):
        text += piece
        if text == "A: a b.":
            given.set()
    given.set()
    assert text == expected
    assert (state.text(), state["x"]) == ("A: c d.B e", " c d")
    backend.close()


def test_a_reader_who_comes_late_sees_only_what_stands() -> None:
    def body(s: ProgramState) -> str:
        s += "A:" + gen("x") + "."
        stream = s.text_iter()
        first = next(stream)
        s.check(long_enough)
        s += "B"
        return first + "".join(s.text_iter())

    assert run(body, {"x": ["a", "b", "ccc"]}).ret_value == "A:a." + "A:ccc.B"
