"""Several engines as one backend: outputs, cache hits, and the death of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import sgdsl as sgl
from runtime.tokenizer import Tokenizer
from sgdsl.backends.policy import Backoff
from tests.e2e.conftest import HashService

NUM_GROUPS, ROWS = 6, 8


@sgl.function
def extract(s: sgl.ProgramState, group: int, row: int) -> None:
    s += f"{group} is the license of this work and of its contributors. " * 20
    s += f"The row is {row}: " + sgl.gen("x", 12, temperature=0.8)
    if s["x"]:
        s += " and " + sgl.select("y", ["this", "that"])


ARGUMENTS = [{"group": group, "row": row} for row in range(ROWS) for group in range(NUM_GROUPS)]


def outputs(backend: Any) -> list[list[str]]:
    states = extract.run_batch(ARGUMENTS, backend=backend, seed=3)
    assert all(state.outcome is not None for state in states)
    return [[state["x"], state["y"]] for state in states]


@pytest.fixture
def services(tokenizer: Tokenizer) -> Iterator[list[HashService]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(HashService(tokenizer, num_pages=600, share_outputs=False))
            for _ in range(3)
        ]


@pytest.fixture
def alone(tokenizer: Tokenizer) -> list[list[str]]:
    with HashService(tokenizer, num_pages=600, share_outputs=False) as service:
        return outputs(service)


def test_who_carries_a_run_changes_nothing_and_sharers_stay_together(
    services: list[HashService], alone: list[list[str]]
) -> None:
    with sgl.Fleet(services) as fleet:
        assert outputs(fleet) == alone
    for service in services:
        service.check_idle()
    stats = [service.stats() for service in services]
    assert all(each.prompt_tokens for each in stats), "all have had something to do"
    # Each group is computed once by each of two at most: the first one, and one that was idle.
    hit_rate = sum(s.cached_tokens for s in stats) / sum(s.prompt_tokens for s in stats)
    assert hit_rate > 1 - 2 / ROWS


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_the_death_of_one_loses_no_run(
    services: list[HashService], alone: list[list[str]], when: str
) -> None:
    if when == "before":
        services[0].close()
    else:
        executor, forward = services[0].executor, services[0].executor.forward

        def dies(batch: Any) -> Any:
            if len(executor.log) > 20:
                raise RuntimeError("a device has gone")
            return forward(batch)

        executor.forward = dies  # type: ignore[method-assign]
    with sgl.Fleet(services, backoff=Backoff(base_s=0.001, max_s=0.002)) as fleet:
        found = outputs(fleet)
    assert [row[0] for row in found] == [row[0] for row in alone]
    # A run that moves takes its texts along, not its tokens, which another choice may follow from.
    assert found == alone or when == "meanwhile"
    assert {row[1] for row in found} <= {"this", "that"}
    assert not services[0].is_alive
    for service in services[1:]:
        service.check_idle()
