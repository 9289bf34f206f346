"""Batches: order, bounds, failure, interruption. Nothing here may take two seconds."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import STALL, MockBackend, ProgramState, gen
from sgdsl.backends.script import Request
from sgdsl.batch import TICK_S
from sgdsl.run import Run
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.timeout(120)


@sgl.function
def static(s: ProgramState, q: Any) -> None:
    s += f"{q}:" + gen("a")


@sgl.function
def reading(s: ProgramState, q: Any) -> str:
    s += f"{q}:" + gen("a")
    s += f"{s['a']}!" + gen("b")
    return f"{q} {s['b']}"


def echo(request: Request) -> str:
    return f"<{request.prompt}>"


def texts(states: list[ProgramState]) -> list[str]:
    return [state.text() for state in states]


def statuses(states: list[ProgramState]) -> list[str]:
    return [state.outcome.status if state.outcome else "none" for state in states]


def sgdsl_threads() -> int:
    return sum(thread.name == "sgdsl-batch" for thread in threading.enumerate())


def interrupt_when(event: threading.Event) -> None:
    """Ctrl-C, once `event` is set."""

    def wait() -> None:
        assert event.wait(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("program", [static, reading])
def test_results_are_in_the_order_of_the_rows(program: Any, stepwise: bool) -> None:
    backend = MockBackend(echo, stepwise=stepwise, max_in_flight=7)
    rows = [{"q": i} if i % 2 else (i,) for i in range(50)]
    states = program.run_batch(rows, backend=backend)
    backend.close()
    assert [state["a"] for state in states] == [f"<{i}:>" for i in range(50)]
    assert statuses(states) == ["ok"] * 50


def test_an_empty_batch_has_no_results() -> None:
    assert static.run_batch([], backend=MockBackend()) == []
    assert list(static.run_batch([], backend=MockBackend(), generator_style=True)) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: static.run_batch(["ab"], backend=b), r"row 0 of the batch is 'ab'.*\(value,\)"),
        (lambda b: static.run_batch([("a",), 5], backend=b), "row 1 of the batch is 5"),  # type: ignore[list-item]
        (lambda b: static.run_batch([{"q": 1}, {"r": 1}], backend=b), "row 1: static: "),
        (lambda b: static.run_batch("abc", backend=b), "batch='abc' is not allowed"),
        (lambda b: static.run_batch({"q": 1}, backend=b), "batch="),
        (lambda b: static.run_batch([], backend=b, num_threads=0), "num_threads=0 is not"),
        (lambda b: static.run_batch([], backend=b, on_error="x"), "on_error='x' is not"),  # type: ignore[call-overload]
        (lambda b: static.run_batch([], backend=b, n=0), "n=0 is not allowed"),
        (lambda b: static.run_batch([], backend=b, top=2), r"no arguments \['top'\]"),  # type: ignore[call-overload]
        (lambda b: static.run_batch([]), "no backend to run on"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(
    call: Callable[[MockBackend], object], message: str
) -> None:
    with pytest.raises(sgl.UsageError, match=message):
        call(MockBackend())


def test_a_row_that_raises_disturbs_no_other() -> None:
    @sgl.function
    def body(s: ProgramState, q: int) -> None:
        s += f"{q}" + gen("a")
        if q == 3:
            raise ValueError("three")
        if q == 4:
            s["nothing"]

    states = body.run_batch([(i,) for i in range(6)], backend=MockBackend())
    assert statuses(states) == ["ok", "ok", "ok", "failed", "failed", "ok"]
    error = states[3].error()
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, ValueError)
    assert error.source is not None
    assert "test_batch.py" in error.source
    assert "ValueError: three" in str(error)
    with pytest.raises(sgl.ProgramError, match="three"):
        states[3].text()


def test_a_node_that_fails_fails_its_row_only() -> None:
    def flaky(request: Request) -> str | Exception:
        return OSError("down") if request.prompt.startswith("2") else "ok"

    states = reading.run_batch([(i,) for i in range(4)], backend=MockBackend(flaky))
    assert statuses(states) == ["ok", "ok", "failed", "ok"]
    error = states[2].error()
    assert isinstance(error, sgl.ProgramError)
    assert error.node == "%1 gen a"


def test_on_error_raise_cancels_the_rest_and_keeps_what_is_finished() -> None:
    def flaky(request: Request) -> Any:
        return {"0": "fine", "1": STALL, "2": OSError("down")}.get(request.prompt[0], STALL)

    began = time.monotonic()
    with pytest.raises(sgl.BatchFailed, match=r"row 2: .*down") as caught:
        static.run_batch([(i,) for i in range(5)], backend=MockBackend(flaky), on_error="raise")
    assert time.monotonic() - began < PATIENCE_S
    error = caught.value
    assert error.row == 2
    assert error.node == "%1 gen a"
    assert isinstance(error.__cause__, sgl.ProgramError)
    assert statuses(error.states)[:3] == ["ok", "cancelled", "failed"]
    assert statuses(error.states)[3:] == ["cancelled"] * 2
    assert error.states[0]["a"] == "fine"


def test_generator_style_yields_in_order_and_reads_only_as_far_as_needed() -> None:
    taken: list[int] = []

    def rows() -> Iterator[tuple[int]]:
        for i in range(1000):
            taken.append(i)
            yield (i,)

    backend = MockBackend(echo, max_in_flight=4)
    states = static.run_batch(rows(), backend=backend, generator_style=True)
    assert taken == [], "nothing runs before it is asked for"
    assert next(states)["a"] == "<0:>"
    assert next(states)["a"] == "<1:>"
    assert len(taken) <= 2 + 4 * 4 + 1
    assert [state["a"] for state in states] == [f"<{i}:>" for i in range(2, 1000)]


def test_a_generator_that_is_left_early_cancels_what_is_in_flight() -> None:
    cancelled: list[Run] = []

    class Watching(MockBackend):
        def wake(self, run: Run) -> None:
            if run.cancelled:
                cancelled.append(run)
            super().wake(run)

    def stall(request: Request) -> Any:
        return "x" if request.prompt == "0:" else STALL

    states = static.run_batch(
        [(i,) for i in range(3)], backend=Watching(stall), generator_style=True
    )
    next(states)
    states.close()  # type: ignore[attr-defined]
    assert len(cancelled) == 2


def test_an_input_that_raises_ends_the_batch_after_the_rows_before() -> None:
    def rows() -> Iterator[tuple[int]]:
        yield (0,)
        yield (1,)
        raise OSError("disk")

    states = static.run_batch(rows(), backend=MockBackend(echo), generator_style=True)
    assert [next(states)["a"], next(states)["a"]] == ["<0:>", "<1:>"]
    with pytest.raises(OSError, match="disk"):
        next(states)


def test_a_wrong_row_of_a_lazy_input_fails_alone() -> None:
    rows: Iterator[Any] = iter([("a",), {"r": 1}, ("c",)])
    states = list(static.run_batch(rows, backend=MockBackend(), generator_style=True))
    assert statuses(states) == ["ok", "failed", "ok"]
    assert "row 1" in str(states[1].error())


def test_a_program_that_never_reads_uses_one_thread() -> None:
    most = 0

    @sgl.function
    def body(s: ProgramState, q: int) -> None:
        nonlocal most
        most = max(most, sgdsl_threads())
        s += gen("a")

    backend = MockBackend(stepwise=True, max_in_flight=64)
    body.run_batch([(i,) for i in range(500)], backend=backend)
    backend.close()
    assert most == 1


def test_a_slow_input_does_not_add_threads() -> None:
    most = 0

    def rows() -> Iterator[tuple[int]]:
        nonlocal most
        for i in range(3):
            time.sleep(3 * TICK_S)  # that the pool looks after its threads meanwhile is the point
            most = max(most, sgdsl_threads())
            yield (i,)

    states = static.run_batch(rows(), backend=MockBackend(), generator_style=True)
    assert statuses(list(states)) == ["ok"] * 3
    assert most == 1


def test_threads_are_added_for_bodies_that_wait_and_bounded() -> None:
    most = 0

    def watch(request: Request) -> str:
        nonlocal most
        most = max(most, sgdsl_threads())
        return "x"

    class Waiting(MockBackend):
        """Answers nothing before eight rows are submitted."""

        num_submitted = 0

        def submit(self, run: Run) -> None:
            super().submit(run)
            self.num_submitted += 1
            if self.num_submitted == 8:
                self.resume()

    backend = Waiting(watch, stepwise=True)
    backend.pause()
    rows = [(i,) for i in range(40)]
    states = reading.run_batch(rows, backend=backend, num_threads=8)
    backend.close()
    assert statuses(states) == ["ok"] * 40
    assert most == 8


def test_a_body_that_waits_for_something_else_does_not_hold_the_others_up() -> None:
    meeting = threading.Barrier(4, timeout=PATIENCE_S)

    @sgl.function
    def body(s: ProgramState, q: int) -> None:
        meeting.wait()
        s += gen("a")

    states = body.run_batch([(i,) for i in range(4)], backend=MockBackend())
    assert statuses(states) == ["ok"] * 4


def test_one_thread_is_enough_for_bodies_that_wait() -> None:
    backend = MockBackend(echo, stepwise=True)
    states = reading.run_batch([(i,) for i in range(5)], backend=backend, num_threads=1)
    backend.close()
    assert statuses(states) == ["ok"] * 5


def test_at_most_max_in_flight_rows_are_submitted_at_once() -> None:
    class Counting(MockBackend):
        now = most = 0

        def submit(self, run: Run) -> None:
            self.now += 1
            self.most = max(self.most, self.now)
            run.when_finished(self.leave)
            super().submit(run)

        def leave(self, run: Run) -> None:
            self.now -= 1

    backend = Counting(stepwise=True, max_in_flight=5)
    static.run_batch([(i,) for i in range(50)], backend=backend)
    backend.close()
    assert backend.most == 5


@pytest.mark.parametrize("program", [static, reading])
@pytest.mark.parametrize("style", [False, True])
def test_ctrl_c_keeps_the_finished_rows(program: Any, style: bool) -> None:
    standing = threading.Event()

    def some(request: Request) -> Any:
        if request.prompt.startswith("2"):
            standing.set()
            return STALL
        return "x"

    interrupt_when(standing)
    began = time.monotonic()
    taken: list[ProgramState] = []
    backend = MockBackend(some, max_in_flight=1)
    rows = [(i,) for i in range(5)]
    with pytest.raises(sgl.BatchInterrupted, match="interrupted with") as caught:
        taken += program.run_batch(rows, backend=backend, generator_style=style)
    assert time.monotonic() - began < PATIENCE_S
    if not style:
        assert statuses(caught.value.states) == ["ok", "ok", "cancelled", "cancelled", "cancelled"]
        assert caught.value.states[1]["a"] == "x"
    else:
        assert statuses(caught.value.states)[-1] == "cancelled"
        assert statuses(caught.value.states[:-1]) == ["ok"] * (2 - len(taken))
    with pytest.raises(sgl.CancelledError):
        caught.value.states[-1].text()


@pytest.mark.parametrize("program", [static, reading])
def test_ctrl_c_ends_even_when_the_backend_does_not_answer(program: Any) -> None:
    class Deaf(MockBackend):
        """Takes runs and never does anything."""

        submitted = threading.Event()

        def submit(self, run: Run) -> None:
            self.submitted.set()

        def wake(self, run: Run) -> None:
            pass

    backend = Deaf()
    interrupt_when(backend.submitted)
    began = time.monotonic()
    with pytest.raises(sgl.BatchInterrupted) as caught:
        program.run_batch([(i,) for i in range(5)], backend=backend)
    assert time.monotonic() - began < PATIENCE_S
    assert statuses(caught.value.states) == ["cancelled"] * 5


def test_ctrl_c_does_not_wait_for_a_body_that_is_stuck() -> None:
    stuck, release = threading.Event(), threading.Event()

    @sgl.function
    def body(s: ProgramState, q: int) -> None:
        stuck.set()
        release.wait(2 * PATIENCE_S)

    interrupt_when(stuck)
    began = time.monotonic()
    with pytest.raises(sgl.BatchInterrupted) as caught:
        body.run_batch([(1,), (2,)], backend=MockBackend(), num_threads=1)
    assert time.monotonic() - began < PATIENCE_S
    assert statuses(caught.value.states) == ["cancelled"] * 2
    release.set()


@pytest.mark.parametrize("program", [static, reading])
def test_a_backend_that_dies_fails_all_rows_quickly(program: Any) -> None:
    backend = MockBackend(lambda request: STALL)

    class Dying(MockBackend):
        def submit(self, run: Run) -> None:
            super().submit(run)
            if run.outcome is None and len(self._drives) == 3:
                self.die("power cut")

    backend = Dying(lambda request: STALL)
    began = time.monotonic()
    states = program.run_batch([(i,) for i in range(100)], backend=backend)
    assert time.monotonic() - began < PATIENCE_S
    assert statuses(states) == ["failed"] * 100
    error = states[0].error()
    assert isinstance(error, sgl.ProgramError)
    assert isinstance(error.__cause__, sgl.BackendError)


def test_a_closed_backend_fails_rows_at_once() -> None:
    backend = MockBackend(stepwise=True)
    backend.close()
    assert statuses(static.run_batch([(1,), (2,)], backend=backend)) == ["failed"] * 2


def test_rows_have_seeds_of_their_own_that_do_not_depend_on_the_batch() -> None:
    seeds: dict[str, int] = {}

    def note(request: Request) -> str:
        seeds[request.prompt] = request.seed
        return "x"

    static.run_batch([(i,) for i in range(20)], backend=MockBackend(note), seed=1)
    first = dict(seeds)
    static.run_batch([(i,) for i in range(5)], backend=MockBackend(note), seed=1)
    assert len(set(first.values())) == 20
    assert seeds == first
    static.run_batch([(i,) for i in range(5)], backend=MockBackend(note), seed=2)
    assert seeds["0:"] != first["0:"]


def test_batches_inside_of_batches() -> None:
    @sgl.function
    def outer(s: ProgramState, q: int) -> str:
        inner = reading.run_batch([(f"{q}.{i}",) for i in range(3)])
        s += ",".join(state["a"] for state in inner)
        return s.text()

    backend = MockBackend(echo, stepwise=True)
    states = outer.run_batch([(i,) for i in range(6)], backend=backend)
    backend.close()
    assert [s.ret_value for s in states] == [f"<{i}.0:>,<{i}.1:>,<{i}.2:>" for i in range(6)]


def test_the_progress_bar_prints_plain_lines_without_a_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    backend = MockBackend({"a": [OSError("x"), "one two", "three"]})
    static.run_batch([(i,) for i in range(3)], backend=backend, progress_bar=True)
    line = capfd.readouterr().err
    assert line.startswith("3/3 rows, ")
    assert line.endswith("tokens/s, 0% cached, 1 failed\n")


def test_rows_of_a_finished_batch_are_small() -> None:
    # What a state may keep: its text, variables, meta info and outcome, not its execution.
    rows = 500
    states = static.run_batch([(i,) for i in range(rows)], backend=MockBackend())
    del states
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    states = static.run_batch([(i,) for i in range(rows)], backend=MockBackend())
    gc.collect()
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(states) == rows
    assert used / rows < 5_000


def test_memory_beside_the_results_does_not_grow_with_the_batch() -> None:
    def peak(rows: int) -> int:
        gc.collect()
        tracemalloc.start()
        states = static.run_batch(
            ((i,) for i in range(rows)), backend=MockBackend(max_in_flight=8), generator_style=True
        )
        assert sum(1 for _ in states) == rows
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)
    assert peak(2000) < 1.5 * peak(500)


def test_the_rows_of_a_batch_leave_nothing_to_the_garbage_collector() -> None:
    # Each collection walks through all that the process holds: no row may need one.
    def used(rows: int) -> int:
        tracemalloc.start()
        for state in static.run_batch(
            ((i,) for i in range(rows)), backend=MockBackend(max_in_flight=8), generator_style=True
        ):
            assert state.text()
        used = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return used

    used(100)
    gc.collect()
    gc.disable()
    try:
        assert used(1000) < used(200) + 800 * 500
    finally:
        gc.enable()


def test_finished_runs_leave_no_threads() -> None:
    reading.run_batch([(i,) for i in range(20)], backend=MockBackend(echo))
    deadline = time.monotonic() + PATIENCE_S
    while sgdsl_threads() and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    assert sgdsl_threads() == 0


def test_states_are_freed_by_counting_references() -> None:
    gc.collect()
    gc.disable()
    try:
        state = static.run(1, backend=MockBackend())
        run = state._reader._run  # type: ignore[attr-defined]
        del state
        assert sys.getrefcount(run) == 2
    finally:
        gc.enable()
