"""In which order runs get the engine."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import sgdsl as sgl
from runtime.batch import Batch
from runtime.errors import ContextLengthError
from runtime.sampling.request import Sampled, SampleRequest
from sgdsl import ProgramError, ProgramState
from sgdsl.execution import Execution
from sgdsl.outcome import Outcome
from sgdsl.run import Run
from tests.e2e.conftest import HashService, MakeService
from tests.patience import PATIENCE_S, await_that

STEM = "the license of the work is shared by each contributor "


@sgl.function
def write(s: ProgramState, text: str, num_tokens: int = 5) -> None:
    s += text + sgl.gen("x", max_tokens=num_tokens, temperature=1.0, ignore_eos=True)
    s += sgl.gen("y", max_tokens=num_tokens, temperature=1.0, ignore_eos=True)


Row = tuple[str, dict[str, Any]]


def race(service: HashService, rows: list[Row], outcomes: list[Outcome] | None = None) -> list[str]:
    """Submit all of these together, in this order; their texts in the order in which they end.
    `outcomes`: to be filled with theirs, in the order of the rows.
    """
    runs: list[Run] = []
    gate, over, finished = threading.Event(), threading.Event(), list[str]()

    def end(text: str) -> None:
        finished.append(text)
        if len(finished) == len(rows):
            over.set()

    def hold() -> None:
        gate.wait()

    service._thread.send(hold)
    for count, (text, options) in enumerate(rows, start=1):
        arguments = {"text": text, "num_tokens": options.pop("num_tokens", 5)}
        given = {"backend": service, **options}
        execution = write._calls.prepare("run", (), arguments, given)
        runs.append(execution.run)
        execution.run.when_finished(lambda _, text=text: end(text))  # type: ignore[misc]
        threading.Thread(target=body_of(execution), daemon=True).start()
        await_that(lambda count=count: service._thread._inbox.qsize() == count)  # type: ignore[misc]
    gate.set()
    assert over.wait(PATIENCE_S)
    service.check_idle()
    if outcomes is not None:
        outcomes += [run.outcome for run in runs if run.outcome is not None]
    return finished


def body_of(execution: Execution) -> Callable[[], None]:
    def call() -> None:
        with suppress(ProgramError):  # it is the outcome, and looked at there
            execution.body()

    return call


@pytest.fixture
def service(request: pytest.FixtureRequest, make_service: MakeService) -> HashService:
    """One row at a time, under the policy of the test's parameter."""
    return make_service(max_running=1, page_size=4, policy=getattr(request, "param", "lpm"))


@pytest.mark.parametrize("service", ["lpm", "dfs", "fcfs", "sjf"], indirect=True)
def test_a_higher_priority_goes_first(service: HashService) -> None:
    low, high = "a b c d", "e f g h"
    assert race(service, [(low, {}), (high, {"priority": 1})]) == [high, low]


@pytest.mark.parametrize("service", ["sjf"], indirect=True)
def test_the_shortest_goes_first(service: HashService) -> None:
    rows: list[Row] = [
        ("a", {"num_tokens": 30}),
        ("b", {"num_tokens": 3}),
        ("c" * 400, {"num_tokens": 2}),
    ]
    assert race(service, rows) == ["b", "a", "c" * 400]


@pytest.mark.parametrize("service", ["lpm", "dfs"], indirect=True)
def test_those_that_share_a_prefix_follow_each_other(service: HashService) -> None:
    first, second = STEM + "one", "another beginning of all this"
    rows: list[Row] = [(first, {}), (second, {}), (STEM + "two", {}), (second + " too", {})]
    assert race(service, rows) == [first, STEM + "two", second, second + " too"]


@pytest.mark.parametrize("service", ["fcfs"], indirect=True)
def test_first_come_first_served(service: HashService) -> None:
    rows: list[Row] = [(text, {}) for text in (STEM, "a", STEM + STEM, "b")]
    assert race(service, rows) == [text for text, _ in rows]


def test_runs_beyond_what_may_wait_are_refused_and_the_others_end(
    make_service: MakeService,
) -> None:
    service = make_service(max_running=1, max_waiting=3, max_in_flight=50)
    texts = [f"row {index}" for index in range(9)]
    ended: list[Outcome] = []
    race(service, [(text, {}) for text in texts], ended)
    assert [outcome.status for outcome in ended] == ["truncated"] * 3 + ["failed"] * 6
    assert "3 sequences wait already, and max_waiting=3; submit this run later" in str(
        ended[-1].error
    )


def test_so_are_those_beyond_the_tokens_that_may_wait(make_service: MakeService) -> None:
    service = make_service(max_running=1, max_waiting_tokens=100, max_in_flight=50)
    ended: list[Outcome] = []
    race(service, [(STEM * 20, {}), ("short", {})], ended)
    assert [outcome.status for outcome in ended] == ["truncated", "failed"]
    assert " tokens wait already, and max_waiting_tokens=100; " in str(ended[-1].error)


def test_a_batch_is_never_refused(make_service: MakeService) -> None:
    """No more of its rows are in flight than may wait."""
    service = make_service(max_running=4, max_waiting=3)
    states = write.run_batch([(f"row {index}",) for index in range(20)], backend=service)
    assert {state.outcome and state.outcome.status for state in states} == {"truncated"}


def test_what_can_never_fit_is_refused_before_anything_is_computed(
    make_service: MakeService,
) -> None:
    service = make_service(num_pages=5, page_size=4)
    state = write.run(STEM * 9, backend=service)
    cause = state.outcome and state.outcome.error and state.outcome.error.__cause__
    assert isinstance(cause, ContextLengthError)
    assert re.search(r"the prompt has \d+ tokens, but .* may have 20;", str(cause))
    assert service.engine.scheduler.counts.computed_tokens == 0


def test_memory_that_does_not_suffice_makes_steps_smaller_and_changes_nothing(
    make_service: MakeService,
) -> None:
    rows = [(f"{index} {STEM}", 20) for index in range(12)]
    expected = write.run_batch(rows, backend=make_service(), seed=1)
    service = make_service(max_running=8, token_budget=64, speculation="off")
    service.executor.memory = 5
    found = write.run_batch(rows, backend=service, seed=1)
    assert [state.text() for state in found] == [state.text() for state in expected]
    counts = service.engine.scheduler.counts
    assert 2 <= counts.num_shrinks <= 4, "by the tokens of the first step: 64, 32, 16, 8, then 4"
    assert max(service.executor.log[-20:]) <= 5
    service.check_idle()


def test_a_step_that_is_taken_back_counts_no_forced_token(make_service: MakeService) -> None:
    """Its masks are made before the memory runs out."""

    @sgl.function
    def forced(s: ProgramState, index: int) -> None:
        s += STEM + str(index) + sgl.gen("x", 40, regex="(the|a) license of the work is shared")

    def num_forced(service: HashService) -> list[int]:
        states = forced.run_batch([(index,) for index in range(8)], backend=service, seed=1)
        return [int(state.get_meta_info("x")["forced_tokens"]) for state in states]

    expected = num_forced(make_service(max_running=8))
    service = make_service(max_running=8)
    sample = service.executor.sample

    def failing(hidden: list[int], batch: Batch, request: SampleRequest) -> Sampled:
        if len(request.rows) > 2 and request.bitmask is not None:
            bits = np.unpackbits(request.bitmask.view(np.uint8), axis=1)
            if 1 in bits.sum(axis=1):
                raise MemoryError
        return sample(hidden, batch, request)

    service.executor.sample = failing  # type: ignore[method-assign]
    assert num_forced(service) == expected
    assert min(expected) > 1
    assert service.engine.scheduler.counts.num_shrinks > 0


def test_memory_for_not_even_one_token_is_the_end_of_the_engine(make_service: MakeService) -> None:
    service = make_service()
    service.executor.memory = 0
    state = write.run("a", backend=service)
    assert "the engine died: MemoryError: 1 tokens" in str(state.error())
