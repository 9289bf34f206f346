"""Rows come when they are said to come."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import sgdsl as sgl
from benchmarks.arrivals import all_at_once, at_times, poisson_times
from benchmarks.workloads.workload import Row, Verdict, Workload
from sgdsl.backends.script import Request


@sgl.function
def echo(s: sgl.ProgramState[Any], number: int) -> None:
    s += f"{number}:" + sgl.gen("x", 4)


WORKLOAD = Workload("echo", echo, lambda _count, _seed: [], lambda _texts, _row: Verdict(True))
ROWS = [Row({"number": number}) for number in range(5)]


def test_gaps_of_a_poisson_process_have_the_mean_and_the_spread_of_its_rate() -> None:
    times = poisson_times(20_000, 4.0, seed=3)
    gaps = [b - a for a, b in zip([0.0, *times], times, strict=False)]
    assert all(gap >= 0 for gap in gaps)
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(1 / 4, rel=0.03)
    assert variance == pytest.approx(1 / 16, rel=0.1)  # an exponential's is its mean, squared
    # Counts of a Poisson process: in equal spans their variance is their mean.
    spans = [0] * 1000
    for at in times:
        spans[min(999, int(at / 5))] += 1
    per_span = sum(spans) / 1000
    assert sum((n - per_span) ** 2 for n in spans) / 1000 == pytest.approx(per_span, rel=0.2)


def test_arrivals_depend_on_the_seed_alone() -> None:
    assert poisson_times(5, 2.0, seed=1) == poisson_times(5, 2.0, seed=1)
    assert poisson_times(5, 2.0, seed=1) != poisson_times(5, 2.0, seed=2)


def test_states_come_in_the_order_of_the_rows() -> None:
    backend = sgl.MockBackend(lambda request: request.prompt[:-1])
    for arrived in (
        all_at_once(WORKLOAD, ROWS, backend),
        at_times(WORKLOAD, ROWS, backend, [0.0, 0.01, 0.01, 0.02, 0.02]),
    ):
        assert [state["x"] for state in arrived.states] == ["0", "1", "2", "3", "4"]
        assert len(arrived.spans) == 5


def test_a_row_does_not_wait_for_those_before_it() -> None:
    all_here = threading.Barrier(len(ROWS))

    def answer(request: Request) -> str:
        all_here.wait(timeout=60)  # only if every row has come can any be answered
        return "x"

    backends = [sgl.MockBackend(answer) for _ in ROWS]

    class Each:
        """A backend of its own for each run."""

        chat_template, max_in_flight = backends[0].chat_template, 99

        def submit(self, run: Any) -> None:
            backends.pop().submit(run)

        def wake(self, run: Any) -> None: ...

        def stats(self) -> Any: ...

    arrived = at_times(WORKLOAD, ROWS, Each(), [0.0] * len(ROWS))
    assert len(arrived.states) == len(ROWS)


def test_what_a_row_waits_before_it_is_started_counts() -> None:
    late = -0.5  # it came half a second before the clock began
    (span,) = at_times(WORKLOAD, ROWS[:1], sgl.MockBackend(), [late]).spans
    assert span.first_s >= 0.5
    assert span.begun_s < time.perf_counter()


def test_a_body_that_raises_is_heard_of() -> None:
    @sgl.function
    def broken(s: sgl.ProgramState[Any], number: int) -> None:
        raise KeyError(number)

    workload = Workload("broken", broken, lambda _count, _seed: [], lambda _t, _r: Verdict(True))
    with pytest.raises(KeyError):
        at_times(workload, ROWS[:2], sgl.MockBackend(), [0.0, 0.0])
