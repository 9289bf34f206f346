"""The engine dies, rows are cancelled, Ctrl-C comes: all of it ends, and nothing is left behind."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import sgdsl as sgl
from grammars.budget import Limits
from runtime.batch import Batch
from runtime.sampling.request import NO_TOKEN, Sampled, SampleRequest
from runtime.tokenizer import Tokenizer
from sgdsl import BackendError, BatchInterrupted, CancelledError, ProgramError, ProgramState
from sgdsl.execution import Execution, Terms
from sgdsl.graph import DEFAULT_SAMPLING
from sgdsl.run import Run
from tests import reference
from tests.e2e.conftest import HashService, MakeService
from tests.patience import PATIENCE_S


@sgl.function
def write(s: ProgramState, index: int, num_tokens: int = 20) -> None:
    s += f"the license {index}"
    s += sgl.gen("x", num_tokens, ignore_eos=True)


def rows(count: int, num_tokens: int = 20) -> list[dict[str, Any]]:
    return [{"index": index, "num_tokens": num_tokens} for index in range(count)]


class StumbleError(Exception):
    """What the tests' executors raise."""


def fail_at_step(service: HashService, step: int) -> None:
    forward, steps = service.executor.forward, iter(range(10**9))

    def failing(batch: Batch) -> list[int]:
        if next(steps) == step:
            raise StumbleError("the device is gone")
        return forward(batch)

    service.executor.forward = failing  # type: ignore[method-assign]


@pytest.mark.parametrize("step", [0, 1, 7])
def test_when_the_engine_dies_every_row_hears_of_it(make_service: MakeService, step: int) -> None:
    service = make_service(max_running=4)
    fail_at_step(service, step)
    began = time.monotonic()
    states = write.run_batch(rows(30), backend=service)
    assert time.monotonic() - began < PATIENCE_S
    failed = [state for state in states if state.outcome and state.outcome.status == "failed"]
    assert len(failed) >= 30 - 4
    for state in failed:
        error = state.error()
        assert isinstance(error, ProgramError)
        assert isinstance(error.__cause__, BackendError)
        assert "the device is gone" in str(error)
    late = write.run(index=0, backend=service)
    assert isinstance(late.error(), ProgramError)


def test_ctrl_c_keeps_what_is_finished_and_cancels_the_rest(make_service: MakeService) -> None:
    service = make_service(max_running=2, max_in_flight=4)
    forward = service.executor.forward
    main = threading.main_thread().ident
    assert main is not None
    steps = iter(range(10**9))

    def interrupting(batch: Batch) -> list[int]:
        if next(steps) == 60:
            signal.pthread_kill(main, signal.SIGINT)
        time.sleep(0.001)
        return forward(batch)

    service.executor.forward = interrupting  # type: ignore[method-assign]
    with pytest.raises(BatchInterrupted) as stopped:
        write.run_batch(rows(400), backend=service)
    states = stopped.value.states
    assert len(states) == 400
    statuses = [state.outcome.status for state in states if state.outcome]
    assert len(statuses) == 400
    assert set(statuses) == {"truncated", "cancelled"}
    for state, status in zip(states, statuses, strict=True):
        if status == "truncated":
            assert state.text().startswith("the license")
    again = write.run(index=1, backend=service)
    assert again.error() is None
    service.check_idle()


def test_closing_ends_what_is_under_way(make_service: MakeService) -> None:
    service = make_service()
    gate, reached = threading.Event(), threading.Event()
    forward = service.executor.forward

    def waiting(batch: Batch) -> list[int]:
        reached.set()
        gate.wait(PATIENCE_S)
        return forward(batch)

    service.executor.forward = waiting  # type: ignore[method-assign]
    states: list[ProgramState] = []
    thread = threading.Thread(
        target=lambda: states.extend(write.run_batch(rows(20, 1000), backend=service))
    )
    thread.start()
    assert reached.wait(PATIENCE_S)
    closing = threading.Thread(target=service.close)
    closing.start()
    gate.set()
    closing.join(PATIENCE_S)
    thread.join(PATIENCE_S)
    assert not closing.is_alive()
    assert not thread.is_alive()
    assert {state.outcome.status for state in states if state.outcome} == {"failed"}


@settings(max_examples=40, deadline=None)
@given(
    programs=st.lists(reference.programs, min_size=2, max_size=8),
    victims=st.sets(st.integers(0, 7)),
    step=st.integers(0, 30),
    seed=st.integers(0, 100),
)
def test_rows_cancelled_at_any_state_leave_nothing_behind(
    tokenizer: Tokenizer,
    programs: list[reference.Program],
    victims: set[int],
    step: int,
    seed: int,
) -> None:
    """And their neighbours are what they would have been."""
    with HashService(tokenizer, num_pages=60, page_size=8, max_running=3) as service:
        whole = [
            reference.perform.run(program=program, backend=service, seed=seed + index)
            for index, program in enumerate(programs)
        ]
    with HashService(tokenizer, num_pages=60, page_size=8, max_running=3) as service:
        forward = service.executor.forward
        started, reached = threading.Event(), threading.Event()

        def counting(batch: Batch) -> list[int]:
            started.wait(PATIENCE_S)
            if len(service.executor.log) == step:
                reached.set()
            return forward(batch)

        service.executor.forward = counting  # type: ignore[method-assign]
        executions = [
            execution(program, service, seed + index) for index, program in enumerate(programs)
        ]
        threads = [threading.Thread(target=body_of(each)) for each in executions]
        for thread in threads:
            thread.start()
        started.set()
        reached.wait(0.05)
        for index in victims & set(range(len(programs))):
            executions[index].end(CancelledError("by the test"))
        for index, (each, expected) in enumerate(zip(executions, whole, strict=True)):
            threads[index].join(PATIENCE_S)
            outcome = each.run.wait()
            if index not in victims:
                assert expected.outcome is not None
                assert outcome is not None
                assert outcome.status == expected.outcome.status
                if outcome.error is None:
                    assert each.state.text() == expected.text()
        service.flush_cache()
        service.check_idle()


def execution(program: reference.Program, service: HashService, seed: int) -> Execution:
    body = reference.perform.__wrapped__  # type: ignore[attr-defined]
    terms = Terms(service, DEFAULT_SAMPLING, body.__code__)
    return Execution(lambda state: body(state, program), terms, seed=seed)


def body_of(each: Execution) -> Callable[[], None]:
    """The body as a thread runs it: an error is the run's outcome, and expected here."""

    def call() -> None:
        with suppress(ProgramError, CancelledError):
            each.body()

    return call


def test_a_row_without_a_token_to_draw_fails_alone(make_service: MakeService) -> None:
    """Its logits are not numbers, say."""
    service = make_service()
    sample = service.executor.sample

    def without_one(hidden: list[int], batch: Batch, request: SampleRequest) -> Sampled:
        drawn = sample(hidden, batch, request)
        tokens = [
            NO_TOKEN if grant.sequence.tokens[-1] == victim else token
            for grant, token in zip(batch.sampled, drawn.tokens, strict=True)
        ]
        return Sampled(tokens, drawn.logprobs, drawn.scores)

    victim = service.tokenizer.encode("the license 7")[-1]
    service.executor.sample = without_one  # type: ignore[method-assign]
    states = write.run_batch(rows(10, 2), backend=service)
    failed = [index for index, state in enumerate(states) if state.error() is not None]
    assert 7 in failed
    assert len(failed) < 10
    assert "no token to draw" in str(states[7].error())
    service.check_idle()


class Judge:
    """A choice method that asks the engine it is called by."""

    needs_unconditional = False

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def best(self, _: object) -> int:
        self._act()
        return 0

    def log_weights(self, _: object) -> list[float]:
        self._act()
        return [0.0, 0.0]


@sgl.function
def judged(s: ProgramState, act: Callable[[], object]) -> None:
    s += "a" + sgl.select("x", ["b", "c"], choices_method=Judge(act))


def exit_now() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("name", ["run", "close", "flush_cache", "exit"])
def test_users_code_on_the_engine_s_thread_hurts_its_own_row_alone(
    make_service: MakeService, name: str
) -> None:
    service = make_service()
    acts: dict[str, Callable[[], object]] = {
        "run": lambda: write.run(index=1, backend=service)["x"],
        "close": service.close,
        "flush_cache": service.flush_cache,
        "exit": exit_now,
    }
    began = time.monotonic()
    states = judged.run_batch(
        [{"act": acts[name]}, {"act": lambda: None}, {"act": acts[name]}], backend=service
    )
    assert time.monotonic() - began < PATIENCE_S
    statuses = [state.outcome.status for state in states if state.outcome]
    assert statuses == ["failed", "ok", "failed"]
    assert write.run(index=1, backend=service).error() is None
    service.check_idle()


def test_a_death_that_leaves_a_mess_still_ends_every_run(
    make_service: MakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = make_service(max_running=2)
    fail_at_step(service, 3)

    def broken(run: Run) -> None:
        raise StumbleError("nothing is as it was")

    forward = service.executor.forward

    def breaking(batch: Batch) -> list[int]:
        monkeypatch.setattr(service.engine.programs, "_drop", broken)
        return forward(batch)

    service.executor.forward = breaking  # type: ignore[method-assign]
    began = time.monotonic()
    states = write.run_batch(rows(30), backend=service)
    assert time.monotonic() - began < PATIENCE_S
    assert all(state.outcome is not None for state in states)


def test_a_service_that_nobody_refers_to_ends(tokenizer: Tokenizer) -> None:
    before = threading.active_count()
    service = HashService(tokenizer, num_pages=20)
    assert write.run(index=1, backend=service).error() is None
    assert threading.active_count() == before + 1
    del service
    gc.collect()
    deadline = time.monotonic() + PATIENCE_S
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


@sgl.function
def constrained(s: ProgramState, pattern: str) -> None:
    s += "a" + sgl.gen("x", 12, regex=pattern)


def test_a_mask_beyond_its_limits_fails_its_row_alone(make_service: MakeService) -> None:
    service = make_service()
    service.grammars._compiler._lazy_limits = Limits(2_000, 60.0, 1 << 30)
    costly = "".join(f"(?:{chr(97 + n % 26)}b?)?" for n in range(1_000))
    states = constrained.run_batch(
        [{"pattern": "[ab]{4}"}, {"pattern": costly}, {"pattern": "[bc]{3}"}], backend=service
    )
    statuses = [state.outcome.status for state in states if state.outcome]
    assert statuses == ["ok", "failed", "ok"]
    assert isinstance(states[1].error(), ProgramError)
    assert "max_steps" in str(states[1].error())
    service.flush_cache()  # the engine's thread has come to its next step
    service.check_idle()
