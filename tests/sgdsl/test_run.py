"""The meeting point of a program's thread and a backend's."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import pytest

from sgdsl.awaited import Awaited
from sgdsl.chat import PLAIN
from sgdsl.errors import BackendError, CancelledError, ProgramError
from sgdsl.graph import DEFAULT_SAMPLING, ROOT, Fork, Gen, Text
from sgdsl.machine import Append, Completion, Generate, Idle, Piece
from sgdsl.outcome import Outcome
from sgdsl.run import Run
from sgdsl.source import Source

GEN = Gen(0, ROOT, Source("program.py", 3), "x")


def new_run(*nodes: Gen | Text | Fork) -> Run:
    run = Run(template=PLAIN, defaults=DEFAULT_SAMPLING, seed=1)
    run.extend(nodes)
    return run


def test_the_first_outcome_stays_and_watchers_hear_of_it_once() -> None:
    run = new_run()
    heard: list[Outcome | None] = []
    run.when_finished(lambda run: heard.append(run.outcome))
    run.close()
    assert run.next(ROOT) is Idle.FINISHED
    assert run.settled
    run.finish()
    run.fail(OSError("late"))
    run.finish_cancelled("late")
    run.when_finished(lambda run: heard.append(run.outcome))
    assert heard == [Outcome("ok")] * 2
    assert run.wait() == Outcome("ok")


def test_a_run_may_be_released_at_any_moment_while_its_end_is_told() -> None:
    """Who waits sees the outcome as soon as it is set, without the lock."""

    def told(release_at: int) -> int:
        run, num_steps = new_run(), 0
        run.wait(timeout_s=0.0001)  # somebody has waited
        run.outcome = Outcome("ok")

        def step(frame: FrameType, event: str, _: object) -> Any:
            nonlocal num_steps
            if frame.f_code is not Awaited._tell.__code__:
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                num_steps += 1
                if num_steps == release_at:
                    run.release()
            return step

        before = sys.gettrace()
        with run._lock:
            sys.settrace(step)
            try:
                run._tell()
            finally:
                sys.settrace(before)
        return num_steps

    for moment in range(1, told(0) + 1):
        told(moment)


def test_a_failure_names_the_active_node_and_its_line() -> None:
    run = new_run(GEN)
    assert isinstance(run.next(ROOT), Generate)
    cause = OSError("down")
    run.fail(cause, branch_id=ROOT)
    assert run.outcome is not None
    error = run.outcome.error
    assert isinstance(error, ProgramError)
    assert str(error) == "%0 gen x at program.py:3: OSError: down"
    assert (error.node, error.source, error.__cause__) == ("%0 gen x", "program.py:3", cause)


def test_a_failure_of_no_node_in_particular() -> None:
    run = new_run(GEN)
    run.fail(BackendError("closed"))
    assert run.outcome is not None
    assert str(run.outcome.error) == "BackendError: closed"


def test_a_program_error_is_passed_on_as_it_is() -> None:
    run = new_run()
    error = ProgramError("of a nested run")
    run.fail(error)
    assert run.outcome == Outcome("failed", error)


def test_an_error_after_a_cancellation_is_a_cancellation() -> None:
    run = new_run()
    run.cancel()
    run.abandon(ValueError("because of it"))
    assert run.outcome is not None
    assert run.outcome.status == "cancelled"
    assert isinstance(run.outcome.error, CancelledError)


def test_a_read_waits_for_the_value_and_a_streamed_text_is_seen() -> None:
    run = new_run(GEN)
    run.next(ROOT)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(run.variable(ROOT, "x")))
    reader.start()
    run.stream(ROOT, "hal")
    branch = run.peek(ROOT)
    assert branch is not None
    assert branch.text() == "hal"
    run.complete(ROOT, Completion("half"))
    reader.join(5)
    assert got == ["half"]
    assert branch.text() == "half"


def test_a_wait_with_a_limit_ends() -> None:
    assert new_run(GEN).wait(0.01) is None


def test_a_branch_that_never_came_to_be_raises_what_ended_the_run() -> None:
    run = new_run(GEN, Fork(1, ROOT, None, (1,)), Text(2, 1, None, "child"))
    run.fail(OSError("down"))
    assert run.peek(1) is None
    with pytest.raises(ProgramError, match="down"):
        run.variable(1, "x")
    with pytest.raises(ProgramError, match="down"):
        run.settle(1)


def test_what_arrives_after_the_end_is_dropped() -> None:
    run = new_run()
    run.fail(OSError("down"))
    run.extend([GEN])
    assert run.pending_constraints() == []


def test_a_released_run_keeps_what_can_be_read() -> None:
    run = new_run(Text(0, ROOT, None, "a"), Gen(1, ROOT, None, "x"))
    run.close(5)
    assert run.next(ROOT) == Append((Piece("a"),))
    run.next(ROOT)
    run.complete(ROOT, Completion("b", {"id": "7"}))
    run.finish()
    run.release()
    branch = run.settle(ROOT)
    assert (branch.text(), run.variable(ROOT, "x"), branch.variables["x"].meta) == (
        "ab",
        "b",
        {"id": "7"},
    )
    assert run.value == 5
    assert run.next(ROOT) is Idle.FINISHED
