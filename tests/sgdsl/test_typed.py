"""Typed values: parsed by who reads them, never by the backend."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

import sgdsl as sgl
from grammars import Choices, Constraint, JsonSchema, Regex, Repetition, TypeOf
from sgdsl import MockBackend, ProgramState, gen
from sgdsl.backends.script import Request
from tests.patience import PATIENCE_S
from tests.sgdsl.test_batch import statuses

Check = Callable[[int], int]


def checked(check: Check) -> Any:
    return Annotated[int, AfterValidator(check)]


def refusing(error: BaseException) -> Any:
    def refuse(value: int) -> int:
        raise error

    return checked(refuse)


def program(*kinds: Any, reads: bool = False) -> sgl.Program[Any]:
    """One that writes a typed gen for each kind: `n0`, `n1`, ..."""

    @sgl.function
    def body(s: ProgramState) -> None:
        for index, kind in enumerate(kinds):
            s += gen(f"n{index}", type=kind) + " "
        if reads:
            s["n0"]

    return body


class Recording:
    """A type whose validator notes the threads that it is called on."""

    def __init__(self) -> None:
        self.threads: list[str] = []
        self.kind = checked(self.note)

    def note(self, value: int) -> int:
        self.threads.append(threading.current_thread().name)
        return value


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("reads", [False, True])
def test_a_value_is_parsed_once_and_not_on_the_backends_thread(batch: bool, reads: bool) -> None:
    recording = Recording()
    backend = MockBackend(default="5", stepwise=True)
    body = program(recording.kind, reads=reads)
    state = body.run_batch([{}], backend=backend)[0] if batch else body.run(backend=backend)
    assert state.outcome == sgl.Outcome("ok")
    assert state["n0"] == 5
    main = threading.current_thread().name
    assert recording.threads == ["sgdsl-batch" if batch and reads else main]
    backend.close()


ERRORS: list[BaseException] = [ValueError("odd"), SystemExit(3), OSError("gone")]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("reads", [False, True])
def test_a_value_that_does_not_parse_fails_its_row_with_node_and_line(
    error: BaseException, reads: bool
) -> None:
    backend = MockBackend(default="5", stepwise=True)
    body = program(refusing(error), int, reads=reads)
    for state in body.run_batch([{}, {}], backend=backend):
        failure = state.error()
        assert state.outcome == sgl.Outcome("failed", failure)
        assert isinstance(failure, sgl.ProgramError)
        assert failure.node is not None
        assert failure.node.startswith("%0 gen n0")
        assert failure.source is not None
        assert "test_typed.py:" in failure.source
        for read in (lambda: state["n0"], state.text):  # noqa: B023
            with pytest.raises(sgl.ProgramError) as caught:
                read()
            assert caught.value is failure
        if not reads:
            assert state["n1"] == 5, "what was finished can be read"
    assert program(int).run(backend=backend).outcome == sgl.Outcome("ok"), "the backend lives on"
    backend.close()


def test_the_first_of_several_is_the_error_and_an_overwritten_one_counts() -> None:
    @sgl.function
    def body(s: ProgramState) -> None:
        s += gen("n", type=refusing(ValueError("first")))
        s += gen("n", type=refusing(ValueError("second")))
        s += gen("n", type=int)

    state = body.run(backend=MockBackend(default="5"))
    assert "first" in str(state.error())
    assert state["n"] == 5


def test_a_body_hears_of_it_at_the_read_and_the_run_has_failed() -> None:
    @sgl.function
    def body(s: ProgramState) -> str:
        s += gen("n", type=int)
        assert s.text() == "many", "the text does not depend on the value"
        with pytest.raises(sgl.ProgramError, match="gen n"):
            s["n"]
        with pytest.raises(sgl.ProgramError, match="gen n"):
            s += "more"
        return "returned"

    backend = MockBackend(default="many", stepwise=True, check_constraints=False)
    state = body.run(backend=backend)
    assert state.ret_value == "returned"
    assert state.outcome is not None
    assert state.outcome.status == "failed"
    backend.close()


def test_a_validator_may_run_a_program_on_the_same_backend() -> None:
    backend = MockBackend(default="5", stepwise=True)
    asking = checked(lambda value: int(program(int).run(backend=backend)["n0"]) + value)
    assert program(asking).run(backend=backend)["n0"] == 10
    for style in (False, True):
        states = program(asking).run_batch([{}] * 3, backend=backend, generator_style=style)
        assert [state["n0"] for state in states] == [10] * 3
    backend.close()


def test_a_slow_validator_holds_up_no_other_run() -> None:
    go = threading.Event()

    def slow(value: int) -> int:
        assert go.wait(PATIENCE_S)
        return value

    backend = MockBackend(default="5", stepwise=True)
    body, states = program(checked(slow)), []
    thread = threading.Thread(target=lambda: states.append(body.run(backend=backend)))
    thread.start()
    assert program(int).run(backend=backend)["n0"] == 5
    go.set()
    thread.join(PATIENCE_S)
    assert states[0]["n0"] == 5
    backend.close()


def test_values_in_forks_are_parsed_once_and_gathered() -> None:
    recording = Recording()

    @sgl.function
    def body(s: ProgramState) -> None:
        s += gen("before", type=recording.kind)
        forks = s.fork(2)
        forks += gen("n", type=recording.kind)
        forks[0]["m"] = "a'b"
        forks.join()
        s += " " + s.ref("n") + s.ref("m")
        assert s["n"] == [5, 5]
        assert s["n"] is s["n"]
        assert s["m"] == ["a'b", None]
        assert forks[1]["before"] == 5

    state = body.run(backend=MockBackend(default="5"))
    assert state.text() == """5 [5, 5]["a'b", None]"""
    assert len(recording.threads) == 3


def test_a_gathered_value_that_does_not_parse_names_its_own_node() -> None:
    @sgl.function
    def body(s: ProgramState) -> None:
        forks = s.fork(2)
        forks += lambda i: gen("n", type=int if i == 0 else refusing(ValueError("odd")))
        forks.join()
        s["n"]

    with pytest.raises(sgl.ProgramError, match="odd") as caught:
        body.run(backend=MockBackend(default="5"))
    assert str(caught.value).startswith("%2 gen n ")


def test_a_streamed_state_is_failed_by_whoever_looks_at_it() -> None:
    backend = MockBackend(default="many", stepwise=True)
    state = program(int).run(backend=backend, stream=True)
    with pytest.raises(sgl.ProgramError, match="gen n0"):
        list(state.text_iter())
    assert state.outcome is not None
    assert state.outcome.status == "failed"
    backend.close()


@pytest.mark.parametrize("style", [False, True])
def test_on_error_raise_hears_of_values_that_nobody_reads(style: bool) -> None:
    @sgl.function
    def body(s: ProgramState, text: str) -> None:
        s += text + gen("n", type=int)

    backend = MockBackend(lambda request: request.prompt, stepwise=True)
    run_batch: Any = body.run_batch  # `style` is no literal
    with pytest.raises(sgl.BatchFailed, match=r"row 2: .*gen n") as caught:
        list(
            run_batch(
                [("1",), ("2",), ("x",), ("4",)],
                backend=backend,
                on_error="raise",
                generator_style=style,
            )
        )
    assert caught.value.row == 2
    assert statuses(caught.value.states)[-2] == "failed"
    backend.close()


@pytest.mark.parametrize("style", [False, True])
def test_ctrl_c_in_a_validator_ends_the_batch_and_parses_nothing_more(style: bool) -> None:
    calls: list[int] = []

    def interrupted(value: int) -> int:
        calls.append(value)
        if len(calls) == 1:
            time.sleep(0.2)  # the others finish meanwhile
            raise KeyboardInterrupt
        return value

    backend = MockBackend(default="5")
    body: Any = program(checked(interrupted))
    with pytest.raises(sgl.BatchInterrupted, match="interrupted with 3 of 4") as caught:
        list(body.run_batch([{}] * 4, backend=backend, generator_style=style))
    assert len(calls) == 1
    assert sorted(statuses(caught.value.states)) == ["cancelled", "ok", "ok", "ok"]


def test_ctrl_c_in_a_validator_cancels_a_single_run() -> None:
    states: list[ProgramState] = []

    @sgl.function
    def body(s: ProgramState) -> None:
        states.append(s)
        s += gen("n", type=refusing(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        body.run(backend=MockBackend(default="5"))
    assert statuses(states) == ["cancelled"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ({"constraint": TypeOf(list[int], whitespace="single")}, "[1, 2]", [1, 2]),
        ({"constraint": JsonSchema(True, whitespace="flexible")}, "[1]", "[1]"),
        ({"json_schema": JsonSchema(True, whitespace="flexible")}, "[1]", "[1]"),
        ({"constraint": Choices(["yes", "no"])}, "no", "no"),
        ({"constraint": Repetition(Regex("[0-9]+"), separator=", ")}, "1, 2", "1, 2"),
        ({"grammar": 'start: "a" start | "b"'}, "ab", "ab"),
    ],
)
def test_the_variable_follows_from_the_constraint(
    kind: dict[str, Any], text: str, value: object
) -> None:
    @sgl.function
    def body(s: ProgramState) -> None:
        s += gen("x", **kind)

    def reply(request: Request) -> str:
        assert isinstance(request.constraint, Constraint)
        return text

    state = body.run(backend=MockBackend(reply))
    assert (state.text(), state["x"], state.error()) == (text, value, None)


def test_models_are_values_too() -> None:
    class Person(BaseModel):
        name: str

    state = program(Person).run(backend=MockBackend(default='{"name":"Ada"}'))
    assert state["n0"] == Person(name="Ada")
    assert state["n0"] is state["n0"]


def test_a_choices_method_that_exits_fails_its_node_only() -> None:
    class Exiting:
        needs_unconditional = False

        def log_weights(self, scores: object) -> list[float]:
            raise SystemExit(3)

        best = log_weights

    @sgl.function
    def body(s: ProgramState) -> None:
        s += sgl.select("x", ["a", "b"], choices_method=Exiting())  # type: ignore[arg-type]

    backend = MockBackend(stepwise=True)
    error = body.run(backend=backend).error()
    assert "select x" in str(error)
    assert "choices_method raised SystemExit: 3" in str(error)
    assert program(str).run(backend=backend).outcome == sgl.Outcome("ok")
    backend.close()


def test_str_of_an_assigned_value_is_taken_where_it_is_assigned() -> None:
    threads: list[threading.Thread] = []

    class Shown:
        def __str__(self) -> str:
            threads.append(threading.current_thread())
            return "shown"

    class Broken:
        def __str__(self) -> str:
            raise ValueError("no text")

    @sgl.function
    def body(s: ProgramState) -> None:
        s["v"] = Shown()
        with pytest.raises(ValueError, match="no text"):
            s["w"] = Broken()
        s += s.ref("v")

    backend = MockBackend(stepwise=True)
    assert body.run(backend=backend).text() == "shown"
    assert threads == [threading.current_thread()]
    backend.close()
