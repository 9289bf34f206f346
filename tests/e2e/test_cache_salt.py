"""Runs of different salts: none can tell what was computed for another one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from sgdsl.backends.remote import RuntimeEndpoint
from tests.e2e.conftest import HashService, MakeService
from tests.runtime.server.live import LiveServer

STEM = "the license of the work is shared by each contributor of this work " * 3


@sgl.function
def write(s: ProgramState, text: str) -> None:
    s += STEM + text + sgl.gen("x", max_tokens=4, temperature=0.0, ignore_eos=True)
    s += " and " + sgl.select("y", ["this", "that"])


@pytest.fixture
def service(make_service: MakeService) -> HashService:
    return make_service(page_size=4)


@pytest.fixture(params=["here", "there"])
def backend(request: pytest.FixtureRequest, service: HashService) -> Iterator[sgl.Backend]:
    """In this process, and over the wire."""
    if request.param == "here":
        yield service
        return
    with LiveServer(service) as server, RuntimeEndpoint(server.url) as remote:
        yield remote


def facts(state: ProgramState) -> tuple[str, int]:
    return state.text(), state.get_meta_info("x")["cached_tokens"]


def test_only_the_own_salt_finds_what_was_computed(
    backend: sgl.Backend, service: HashService
) -> None:
    text, cold = facts(write.run("a", backend=backend))
    num_computed = service.scheduler_counts.computed_tokens
    _, warm = facts(write.run("a", backend=backend))
    assert cold == 0
    assert warm > 0
    for salt in ("ours", "theirs"):
        before = service.scheduler_counts.computed_tokens
        assert facts(write.run("a", backend=backend, cache_salt=salt)) == (text, 0)
        assert service.scheduler_counts.computed_tokens - before == num_computed, "as the first did"
        assert facts(write.run("a", backend=backend, cache_salt=salt)) == (text, warm)
    assert service.engine.scheduler.cache.num_salts == 2
    sgl.flush_cache(backend)
    assert service.engine.scheduler.cache.num_salts == 0
    service.check_idle()


def test_equal_rows_of_other_salts_are_computed_for_themselves(service: HashService) -> None:
    """Side by side, where equal greedy outputs of one salt are computed once."""
    shared = service.engine.programs.shared
    write.run_batch([("b",)] * 4, backend=service, cache_salt="ours")
    assert shared.num_shared == 3
    write.run_batch([("b",)] * 4, backend=service, cache_salt="theirs")
    assert shared.num_shared == 6
    service.check_idle()


def test_a_prefix_is_computed_ahead_for_the_salt_that_is_named(service: HashService) -> None:
    write.cache(service, cache_salt="ours")
    assert facts(write.run("c", backend=service))[1] == 0
    assert facts(write.run("c", backend=service, cache_salt="ours"))[1] > 0
