"""Deadlines and cancellation: what takes too long ends in time, and says so."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import STALL, MockBackend, ProgramState, gen
from sgdsl.backends.script import Request
from sgdsl.run import Run
from sgdsl.timer import Timer
from tests.patience import PATIENCE_S, await_that

pytestmark = pytest.mark.timeout(120)
SOON_S = 0.05


@sgl.function
def ask(s: ProgramState, q: Any = "?") -> None:
    s += f"{q}:" + gen("a")


@sgl.function
def read(s: ProgramState, q: Any = "?") -> Any:
    s += f"{q}:" + gen("a")
    return s["a"]


@pytest.fixture
def stuck() -> Iterator[tuple[Any, threading.Event]]:
    """A program whose body does not return before the event is set."""
    free = threading.Event()

    @sgl.function
    def program(s: ProgramState, q: Any = "?") -> str:
        s += f"{q}:" + gen("a")
        if q != "quick":
            free.wait(PATIENCE_S)
        return "came back"

    yield program, free
    free.set()
    await_that(lambda: sgl.num_left_behind() == 0)


class Stalling(MockBackend):
    """Answers nothing, confirms nothing, and remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(default="never")
        self.woken: list[Run] = []

    def submit(self, run: Run) -> None:
        pass

    def wake(self, run: Run) -> None:
        self.woken.append(run)


def ended(state: ProgramState[Any], status: str, message: str) -> None:
    assert state.outcome is not None
    assert state.outcome.status == status
    assert message in str(state.outcome.error)


@pytest.mark.parametrize("program", [ask, read])
@pytest.mark.parametrize("use_thread", [True, False])
def test_a_run_ends_at_its_deadline_whatever_the_backend_does(
    program: Any, use_thread: bool
) -> None:
    backend = Stalling()
    begin_s = time.monotonic()
    state = program.run(backend=backend, timeout_s=SOON_S, use_thread=use_thread)
    assert time.monotonic() - begin_s < SOON_S + 1
    ended(state, "cancelled", "timeout_s=0.05 s passed")
    assert isinstance(state.error(), sgl.DeadlineError)
    with pytest.raises(sgl.DeadlineError):
        state["a"]
    await_that(lambda: len(backend.woken) > 0)
    assert all(run.cancelled for run in backend.woken)


def test_a_run_that_is_in_time_does_not_notice() -> None:
    state = read.run(backend=MockBackend({"a": "yes"}), timeout_s=5)
    assert (state["a"], state.ret_value, state.outcome) == ("yes", "yes", sgl.Outcome("ok"))


def test_a_body_on_a_thread_of_its_own_raises_where_it_is_run() -> None:
    @sgl.function
    def broken(s: ProgramState) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        broken.run(backend=MockBackend(), timeout_s=5)


def test_a_body_that_is_stuck_is_left_behind_and_counted(
    stuck: tuple[Any, threading.Event],
) -> None:
    program, free = stuck
    state = program.run(backend=MockBackend(), timeout_s=SOON_S)
    ended(state, "cancelled", "timeout_s=0.05 s passed")
    await_that(lambda: sgl.num_left_behind() == 1)
    free.set()
    await_that(lambda: sgl.num_left_behind() == 0)


def test_a_streamed_run_has_a_deadline(stuck: tuple[Any, threading.Event]) -> None:
    program, _ = stuck
    state = program.run(backend=MockBackend(), timeout_s=SOON_S, stream=True)
    with pytest.raises(sgl.DeadlineError):
        "".join(state.text_iter())
    ended(state, "cancelled", "timeout_s=0.05 s passed")
    await_that(lambda: sgl.num_left_behind() == 1)


@pytest.mark.parametrize("timeout_s", [0, -1, float("inf"), "1", True])
def test_what_is_no_limit_is_refused(timeout_s: Any) -> None:
    with pytest.raises(sgl.UsageError, match=r"timeout_s=.* is not allowed.*seconds above 0"):
        ask.run(backend=MockBackend(), timeout_s=timeout_s)
    with pytest.raises(sgl.UsageError, match=r"row_timeout_s=.* is not allowed"):
        ask.run_batch([], backend=MockBackend(), row_timeout_s=timeout_s)


# Of batches.


def slow_first(request: Request) -> Any:
    return STALL if request.prompt.startswith("slow") else request.prompt


@pytest.mark.parametrize("program", [ask, read])
def test_a_row_has_its_own_deadline(program: Any) -> None:
    rows = [("slow",), ("b",), ("slow",), ("d",)]
    states = program.run_batch(
        rows, backend=MockBackend(slow_first, max_in_flight=2), row_timeout_s=SOON_S
    )
    assert [state.outcome.status for state in states] == ["cancelled", "ok", "cancelled", "ok"]
    ended(states[0], "cancelled", "row_timeout_s=0.05 s passed")
    assert [states[1]["a"], states[3]["a"]] == ["b:", "d:"]


@pytest.mark.parametrize("program", [ask, read])
@pytest.mark.parametrize("style", ["list", "in_order", "as_completed"])
def test_a_batch_ends_at_its_deadline_with_all_its_rows(program: Any, style: str) -> None:
    rows = [("quick",)] + [("slow",)] * 9
    begin_s = time.monotonic()
    given: dict[str, Any] = {"backend": MockBackend(slow_first, max_in_flight=3), "timeout_s": 0.1}
    if style == "list":
        states = program.run_batch(rows, **given)
    elif style == "in_order":
        states = list(program.run_batch(rows, **given, generator_style=True))
    else:
        pairs = list(program.run_batch(rows, **given, as_completed=True))
        assert sorted(index for index, _ in pairs) == list(range(10))
        states = [state for _, state in sorted(pairs, key=lambda pair: pair[0])]
    assert time.monotonic() - begin_s < 1.1
    assert [state.outcome.status for state in states] == ["ok"] + ["cancelled"] * 9
    ended(states[1], "cancelled", "timeout_s=0.1 s passed before the batch had ended")
    ended(states[9], "cancelled", "had not been started")
    assert all(isinstance(state.error(), sgl.DeadlineError) for state in states[1:])


def test_a_batch_ends_even_if_every_body_is_stuck(stuck: tuple[Any, threading.Event]) -> None:
    program, _ = stuck
    rows = ["stuck", "stuck", "quick", "stuck"]
    begin_s = time.monotonic()
    states = program.run_batch(
        [(row,) for row in rows], backend=MockBackend(), row_timeout_s=SOON_S, num_threads=2
    )
    assert time.monotonic() - begin_s < 1.5
    statuses = [state.outcome.status for state in states]
    assert statuses == ["cancelled" if row == "stuck" else "ok" for row in rows]
    assert sgl.num_left_behind() == 3


def test_bodies_that_never_return_are_not_left_behind_without_end(
    stuck: tuple[Any, threading.Event],
) -> None:
    program, _ = stuck
    states = program.run_batch(
        [("stuck",)] * 20,
        backend=MockBackend(max_in_flight=2),
        row_timeout_s=0.01,
        num_threads=2,
    )
    assert [state.outcome.status for state in states] == ["cancelled"] * 20
    assert sgl.num_left_behind() <= 9
    ended(states[-1], "cancelled", "bodies of the batch do not return")


@pytest.fixture
def fails_and_sticks() -> Iterator[Any]:
    """A program that does not notice that its run has failed: its body is stuck by then."""
    free = threading.Event()

    @sgl.function
    def program(s: ProgramState, q: str) -> None:
        s += gen("a") + gen("lost")
        assert s["a"] == "A"
        if q == "stuck":
            free.wait(PATIENCE_S)

    yield program
    free.set()
    await_that(lambda: sgl.num_left_behind() == 0)


@pytest.mark.parametrize("limit", ["timeout_s", "row_timeout_s"])
@pytest.mark.parametrize("style", ["list", "generator_style", "as_completed"])
def test_a_body_that_is_stuck_after_its_run_has_failed_does_not_hold_the_batch_up(
    fails_and_sticks: Any, style: str, limit: str
) -> None:
    backend = MockBackend({"a": "A", "lost": OSError("away")}, latency_s=0.01)
    given: dict[str, Any] = {limit: 0.2} | ({} if style == "list" else {style: True})
    rows = [("stuck",), ("quick",)]
    ended_by_then = list(fails_and_sticks.run_batch(rows, backend=backend, **given))
    states = [each[1] if isinstance(each, tuple) else each for each in ended_by_then]
    assert [state.outcome.status for state in states] == ["failed", "failed"]
    assert sgl.num_left_behind() == 1


def test_a_run_that_has_failed_gives_the_thread_of_its_stuck_body_up(fails_and_sticks: Any) -> None:
    backend = MockBackend({"a": "A", "lost": OSError("away")}, latency_s=0.01)
    ended(fails_and_sticks.run("stuck", backend=backend, timeout_s=0.2), "failed", "away")
    await_that(lambda: sgl.num_left_behind() == 1)


def test_a_deadline_under_on_error_raise_is_raised() -> None:
    backend = MockBackend(slow_first, max_in_flight=2)
    with pytest.raises(sgl.BatchFailed) as raised:
        ask.run_batch([("a",), ("slow",), ("c",)], backend=backend, on_error="raise", timeout_s=0.1)
    assert isinstance(raised.value.__cause__, sgl.DeadlineError)
    assert raised.value.row == 1
    assert [state.outcome.status for state in raised.value.states if state.outcome] == [
        "ok",
        "cancelled",
        "ok",
    ]


def test_a_slow_input_does_not_hold_the_deadline_up() -> None:
    free = threading.Event()

    def rows() -> Iterator[tuple[str]]:
        yield ("a",)
        free.wait(PATIENCE_S)
        yield ("b",)

    states = ask.run_batch(rows(), backend=MockBackend(), generator_style=True, timeout_s=0.1)
    assert next(states).outcome == sgl.Outcome("ok")
    with pytest.raises(sgl.DeadlineError, match="the rest of its rows was not read"):
        next(states)
    free.set()


# Cancelling.


def cancel_inside(s: ProgramState) -> None:
    s.cancel()
    s += gen("b")


def test_a_run_is_cancelled_from_another_thread() -> None:
    state = read.run(backend=Stalling(), stream=True)
    threading.Timer(SOON_S, state.cancel).start()
    with pytest.raises(sgl.CancelledError, match=r"cancelled with cancel\(\)"):
        list(state.text_iter())
    ended(state, "cancelled", "cancel()")


def test_a_body_cancels_its_own_run() -> None:
    program: Any = sgl.function(cancel_inside)
    state = program.run(backend=MockBackend())
    ended(state, "cancelled", "cancel()")


def test_a_finished_run_is_not_cancelled_any_more() -> None:
    state = read.run(backend=MockBackend({"a": "yes"}))
    state.cancel()
    assert (state.outcome, state["a"]) == (sgl.Outcome("ok"), "yes")


def test_ten_thousand_deadlines_take_one_thread_and_are_forgotten() -> None:
    timer = Timer("test")
    fired: list[int] = []
    before = threading.active_count()
    begin_s = time.monotonic()
    later = [timer.at(begin_s + 3600, lambda: fired.append(-1)) for _ in range(9_000)]
    for i in range(1_000):
        timer.at(begin_s + (i * 7 % 1_000) / 10_000, partial(fired.append, i))
    assert threading.active_count() <= before + 1
    for alarm in later:
        alarm.cancel()
    await_that(lambda: len(fired) == 1_000)
    assert sorted(fired) == list(range(1_000))
    assert len(timer._heap) < 100


def test_an_action_that_raises_does_not_stop_the_timer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", reported.append)
    timer = Timer("test")
    done = threading.Event()

    def fail() -> None:
        raise OSError("mine")

    timer.after(0, fail)
    timer.after(0.01, done.set)
    assert done.wait(PATIENCE_S)
    assert [each.exc_type for each in reported] == [OSError]
