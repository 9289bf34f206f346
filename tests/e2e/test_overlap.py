"""Steps that overlap: the host sees what a step draws when the next one has been asked for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import sgdsl as sgl
from runtime.batch import Batch
from runtime.sampling.request import NO_TOKEN, NOBODY, Sampled, SampleRequest
from runtime.tokenizer import Tokenizer
from sgdsl import ProgramState
from tests import reference
from tests.e2e.conftest import HashService
from tests.e2e.test_faults import StumbleError, fail_at_step, rows, write
from tests.e2e.test_random_programs import check_batch, configs
from tests.e2e.test_stress import endure, shares, stay_right, watched
from tests.fakes import OverlappingExecutor

FEW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MANY = settings(FEW, max_examples=1000)
batches = st.lists(reference.programs, min_size=4, max_size=8)
pools = st.sampled_from([256, 400, 4000])
overlapping = configs.map(lambda config: {**config, "overlaps": True})


def calls(service: HashService) -> list[str]:
    assert isinstance(service.executor, OverlappingExecutor)
    return service.executor.calls


def watch(service: HashService, verb: str, see: Callable[..., object]) -> None:
    """Have `see` called with what the executor is given."""
    right = getattr(service.executor, verb)

    def seeing(*given: Any) -> Any:
        see(*given)
        return right(*given)

    setattr(service.executor, verb, seeing)


@FEW
@given(batch=batches, config=overlapping, num_slots=pools, seed=st.integers(0, 1 << 20))
def test_programs_are_what_they_are_one_by_one_and_pages_are_right_after_every_step(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    num_slots: int,
    seed: int,
) -> None:
    stay_right(tokenizer, batch, config, num_slots, seed)


@FEW
@given(batch=batches, config=overlapping, given_shares=shares, seed=st.integers(0, 1 << 20))
def test_faults_hurt_nobody_else(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    given_shares: dict[str, float],
    seed: int,
) -> None:
    """No memory for a step while another one is in flight, and runs that are cancelled."""
    endure(tokenizer, batch, config, given_shares, seed)


@pytest.mark.stress
@pytest.mark.timeout(7200)
@MANY
@given(batch=batches, config=overlapping, num_slots=pools, seed=st.integers(0, 1 << 20))
def test_many_programs_are_what_they_are_one_by_one(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    num_slots: int,
    seed: int,
) -> None:
    stay_right(tokenizer, batch, config, num_slots, seed)


@pytest.mark.stress
@pytest.mark.timeout(7200)
@MANY
@given(batch=batches, config=overlapping, given_shares=shares, seed=st.integers(0, 1 << 20))
def test_many_faults_hurt_nobody_else(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    given_shares: dict[str, float],
    seed: int,
) -> None:
    endure(tokenizer, batch, config, given_shares, seed)


@sgl.function
def fill_in(s: ProgramState, index: int) -> None:
    s += f"the license {index}" + sgl.gen("x", 12, regex="[a-z]{3,6} [0-9]{2,4}", temperature=1.0)
    s += " is " + sgl.select("y", ["free", "not free"]) + sgl.gen("z", 5, ignore_eos=True)


def test_the_host_waits_once_a_step_when_the_next_one_has_been_asked_for(
    tokenizer: Tokenizer,
) -> None:
    """And fills its masks meanwhile."""
    with HashService(tokenizer, num_pages=100, overlaps=True) as service:
        request = service.engine.programs.request

        def masking(batch: Batch) -> SampleRequest:
            calls(service).append("masks")
            return request(batch)

        service.engine.programs.request = masking  # type: ignore[method-assign]
        states = fill_in.run_batch(rows_of(6), backend=service)
        assert all(state.error() is None for state in states)
        service.flush_cache()  # all that was asked for has been read
        turns = " ".join(calls(service)).split("forward ")[1:]
    assert turns[0] == "masks sample "
    assert "read masks sample " in turns
    # A step before which nothing was in flight reads nothing; one behind which nothing is to be
    # computed is read by itself.
    assert set(turns) <= {
        "masks sample ",
        "read masks sample ",
        "masks sample read ",
        "read masks sample read ",
        "read masks sample read",
    }
    assert "".join(turns).count("read") == len(turns), "every step is read once"


def rows_of(count: int) -> list[dict[str, Any]]:
    return [{"index": index} for index in range(count)]


def test_rows_go_on_before_their_tokens_are_known(tokenizer: Tokenizer) -> None:
    with HashService(tokenizer, num_pages=100, overlaps=True) as service:
        unknown: list[int] = []
        watch(service, "forward", lambda batch: unknown.append(int((batch.token_ids < 0).sum())))
        states = write.run_batch(rows(3, 20), backend=service)
        assert [state.outcome.status for state in states if state.outcome] == ["truncated"] * 3
    assert sum(unknown) == 3 * 19, "all tokens but the last ones, which nothing is drawn behind"
    assert len(unknown) <= 20 + 2, "a step for each token, and for prompts that wait for others"


def test_rows_that_come_to_another_end_are_left(tokenizer: Tokenizer) -> None:
    """A stop string, found when the next token is being computed: what that draws is nobody's."""

    @sgl.function
    def stopped(s: ProgramState, index: int) -> None:
        s += f"the license {index}" + sgl.gen("x", 40, stop=("e", "a", "o"), temperature=1.0)
        s += " and" + sgl.gen("y", 4)

    def run(**options: Any) -> list[str]:
        with HashService(tokenizer, num_pages=100, page_size=4, **options) as service:
            watch(service, "sample", lambda _, __, request: requests.append(request))
            states = stopped.run_batch(rows_of(8), backend=service, seed=1)
            service.check_idle()
            return [state.text() for state in states]

    requests: list[SampleRequest] = []
    texts = run(overlaps=True)
    assert sum(row is NOBODY for request in requests for row in request.rows) >= 8
    requests.clear()
    assert texts == run()
    assert not any(row is NOBODY for request in requests for row in request.rows)


@pytest.mark.parametrize("prefix_cache", [True, False])
@pytest.mark.parametrize("page_size", [1, 4, 16])
def test_who_is_preempted_in_flight_draws_the_same_again(
    tokenizer: Tokenizer, page_size: int, prefix_cache: bool
) -> None:
    batch: list[reference.Program] = [
        (
            reference.Text(f"the license {'work ' * index}"),
            reference.Gen("a", 30, temperature=1.5 * (index % 2)),
            reference.Text(" contributor"),
            reference.Gen("c", 20, stop=("th",)),
        )
        for index in range(12)
    ]
    config = {
        "page_size": page_size,
        "prefix_cache": prefix_cache,
        "max_running": 6,
        "token_budget": 32,
        "hopes": True,
        "overlaps": True,
    }
    with watched(tokenizer, 160, config) as service:
        check_batch(service, tokenizer, batch, seed=1)
        assert service.engine.scheduler.counts.preemptions > 0


@pytest.mark.parametrize("verb", ["forward", "sample"])
def test_a_step_without_memory_leaves_the_one_in_flight_as_it_is(
    tokenizer: Tokenizer, verb: str
) -> None:
    """Where the draws have none, what was committed before them is computed again."""
    sampled = reference.Gen("b", 10, temperature=1.0)
    branches = ((sampled,), (reference.Text("x"), reference.Gen("b", 12)))
    batch: list[reference.Program] = [
        (
            reference.Text(f"work {index}"),
            reference.Gen("a", 20, temperature=float(index % 2)),
            reference.Forked(branches, "gather_variable"),
        )
        for index in range(12)
    ]
    config = {"page_size": 4, "token_budget": 300, "overlaps": True}
    with watched(tokenizer, 4000, config) as service:
        steps = iter(range(10**9))

        def lack(*_: Any) -> None:
            if next(steps) in (6, 9, 14):
                raise MemoryError("no memory")

        watch(service, verb, lack)
        check_batch(service, tokenizer, batch, seed=1)
        assert service.engine.scheduler.counts.num_shrinks == 3


@pytest.mark.parametrize("step", [0, 1, 7])
def test_when_the_engine_dies_every_row_hears_of_it(tokenizer: Tokenizer, step: int) -> None:
    with HashService(tokenizer, num_pages=100, max_running=4, overlaps=True) as service:
        fail_at_step(service, step)
        states = write.run_batch(rows(20), backend=service)
        failed = [state for state in states if state.outcome and state.outcome.status == "failed"]
        assert len(failed) >= 16
        assert all("the device is gone" in str(state.error()) for state in failed)


def test_an_error_that_comes_with_the_tokens_ends_every_run(tokenizer: Tokenizer) -> None:
    """A device tells of its errors when it is waited for."""
    with HashService(tokenizer, num_pages=100, overlaps=True) as service:
        assert isinstance(service.executor, OverlappingExecutor)
        read, reads = service.executor.work_until, iter(range(10**9))

        def failing(later: Any) -> Sampled:
            if next(reads) == 5:
                raise StumbleError("the device is gone")
            return read(later)

        service.executor.work_until = failing  # type: ignore[method-assign]
        states = write.run_batch(rows(6), backend=service)
        assert all("the device is gone" in str(state.error()) for state in states)


def test_a_row_without_a_token_to_draw_fails_alone(tokenizer: Tokenizer) -> None:
    """It has been computed one token further by then."""
    with HashService(tokenizer, num_pages=100, overlaps=True) as service:
        assert isinstance(service.executor, OverlappingExecutor)
        read, reads = service.executor.work_until, iter(range(10**9))

        def without_one(later: Any) -> Sampled:
            found = read(later)
            if next(reads) != 6:
                return found
            return Sampled([NO_TOKEN, *found.tokens[1:]], found.logprobs, found.scores)

        service.executor.work_until = without_one  # type: ignore[method-assign]
        states = write.run_batch(rows(5), backend=service)
        errors = [state.error() for state in states]
        assert sum(error is not None for error in errors) == 1
        assert any("no token to draw" in str(error) for error in errors)
        service.check_idle()


def test_who_wants_guesses_waits_for_every_step(tokenizer: Tokenizer) -> None:
    with HashService(tokenizer, num_pages=100, overlaps=True, speculation="on") as service:
        states = write.run_batch(rows(3, 30), backend=service)
        assert all(state.error() is None for state in states)
        assert calls(service)[:6] == ["forward", "sample", "read"] * 2
    with HashService(tokenizer, num_pages=100, overlaps=True) as service:
        write.run_batch(rows(3, 30), backend=service)
        assert service.step_stats.drafted_tokens == 0
        assert ("forward", "read") in pairwise(calls(service))
