"""In which order runs get the engine."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from tests.e2e.conftest import HashService, MakeService
from tests.patience import PATIENCE_S, await_that

STEM = "the license of the work is shared by each contributor "


@sgl.function
def write(s: ProgramState, text: str, num_tokens: int = 5) -> str:
    s += text + sgl.gen("x", max_tokens=num_tokens, temperature=1.0, ignore_eos=True)
    s += sgl.gen("y", max_tokens=num_tokens, temperature=1.0, ignore_eos=True)
    return str(s["y"])


Row = tuple[str, dict[str, Any]]


def race(service: HashService, rows: list[Row]) -> list[str]:
    """Submit all of these together, in this order; their texts in the order in which they end."""
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
        execution = write._prepare("run", (), arguments, given)
        execution.run.when_finished(lambda _, text=text: end(text))  # type: ignore[misc]
        threading.Thread(target=execution.body, daemon=True).start()
        await_that(lambda count=count: service._thread._inbox.qsize() == count)  # type: ignore[misc]
    gate.set()
    assert over.wait(PATIENCE_S)
    service.check_idle()
    return finished


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
