"""Random programs on a backend that fails at random nodes, or dies: every row ends, truthfully."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from sgdsl import MockBackend, ProgramState
from sgdsl.backends.script import Request
from sgdsl.seeds import derive_seed
from tests.patience import PATIENCE_S
from tests.sgdsl.naive import TEMPLATE, Naive, Step, perform, programs, reply


@sgl.function
def program(s: ProgramState, steps: tuple[Step, ...]) -> list[Any]:
    seen: list[Any] = []
    perform(s, steps, seen)
    return seen


def fails(prompt: str) -> bool:
    return (sum(prompt.encode()) + len(prompt)) % 5 == 4


def flaky(request: Request) -> str | Exception:
    return OSError(f"failed after {request.prompt!r}") if fails(request.prompt) else reply(request)


@settings(max_examples=40, deadline=PATIENCE_S * 1000)
@given(st.lists(programs(), min_size=1, max_size=12), st.booleans(), st.integers(1, 8))
def test_rows_that_fail_say_so_and_the_others_are_right(
    bodies: list[tuple[Step, ...]], stepwise: bool, max_in_flight: int
) -> None:
    backend = MockBackend(
        flaky, chat_template=TEMPLATE, stepwise=stepwise, max_in_flight=max_in_flight
    )
    states = program.run_batch([(steps,) for steps in bodies], backend=backend, seed=1)
    backend.close()
    for index, (state, steps) in enumerate(zip(states, bodies, strict=True)):
        assert state.outcome is not None
        if state.outcome.status == "failed":
            error = state.error()
            assert isinstance(error, sgl.ProgramError)
            assert isinstance(error.__cause__, OSError)
            assert error.node is not None
            assert error.source is not None
            assert "naive.py" in error.source
            continue
        expected_seen: list[Any] = []
        expected = Naive(seed=derive_seed(1, index))
        expected.perform(steps, expected_seen)
        assert state.outcome == sgl.Outcome("ok")
        assert state.ret_value == expected_seen
        assert state.text() == expected.text


@settings(max_examples=30, deadline=PATIENCE_S * 1000)
@given(st.lists(programs(), min_size=1, max_size=8), st.integers(0, 30))
def test_a_backend_that_dies_at_a_random_moment_ends_all_rows(
    bodies: list[tuple[Step, ...]], answers: int
) -> None:
    num_answered = 0

    def dying(request: Request) -> str:
        nonlocal num_answered
        num_answered += 1
        if num_answered > answers:
            backend.die("power cut")
        return reply(request)

    backend = MockBackend(dying, chat_template=TEMPLATE, stepwise=True)
    states = program.run_batch([(steps,) for steps in bodies], backend=backend)
    backend.close()
    statuses = {state.outcome.status for state in states if state.outcome}
    assert statuses <= {"ok", "failed"}
    if num_answered <= answers:
        assert statuses == {"ok"}


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_that_is_left_at_a_random_moment_ends(seed: int) -> None:
    steps = (Step("gen", "a"), Step("read", "a"), Step("gen", "b"), Step("read_text"))
    backend = MockBackend(reply, stepwise=True, max_in_flight=16)
    states = program.run_batch([(steps,)] * 200, backend=backend, generator_style=True)
    for _ in range(random.Random(seed).randrange(100)):
        next(states)
    began = time.monotonic()
    states.close()  # type: ignore[attr-defined]
    assert time.monotonic() - began < PATIENCE_S
    backend.close()
    deadline = time.monotonic() + PATIENCE_S
    while _batch_threads() and time.monotonic() < deadline:
        threading.Event().wait(0.001)
    assert _batch_threads() == 0


def _batch_threads() -> int:
    return sum(thread.name == "sgdsl-batch" for thread in threading.enumerate())
