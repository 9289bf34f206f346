"""Random programs under random faults: what survives is right, what does not says so, and nothing
stays behind. A few in every run of the tests, ten thousand by `make stress`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from runtime.batch import Batch
from runtime.errors import ContextLengthError
from runtime.tokenizer import Tokenizer
from sgdsl import CancelledError, ProgramError
from tests import reference
from tests.e2e.conftest import HashService
from tests.e2e.test_faults import body_of, execution
from tests.e2e.test_random_programs import check_batch, configs
from tests.patience import PATIENCE_S

FEW = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
MANY = settings(FEW, max_examples=2500)

batches = st.lists(reference.programs, min_size=4, max_size=8)
pools = st.sampled_from([256, 400, 4000])


def watched(tokenizer: Tokenizer, num_slots: int, config: dict[str, Any]) -> HashService:
    """A service whose engine looks over its pages after every step; it dies of what it finds."""
    service = HashService(tokenizer, num_pages=num_slots // config["page_size"], **config)
    step = service.engine.step

    def step_and_look() -> bool:
        busy = step()
        service.engine.scheduler.cache.check_integrity()
        return busy

    service.engine.step = step_and_look  # type: ignore[method-assign]
    return service


def stay_right(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    num_slots: int,
    seed: int,
) -> None:
    with watched(tokenizer, num_slots, config) as service:
        check_batch(service, tokenizer, batch, seed=seed)


@FEW
@given(batch=batches, config=configs, num_slots=pools, seed=st.integers(0, 1 << 20))
def test_pages_are_right_after_every_step(
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
@given(batch=batches, config=configs, num_slots=pools, seed=st.integers(0, 1 << 20))
def test_ten_thousand_programs_are_what_they_are_one_by_one(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    num_slots: int,
    seed: int,
) -> None:
    stay_right(tokenizer, batch, config, num_slots, seed)


@dataclass
class Faults:
    """What goes wrong, by chance, in the steps of a service: `shares` of the steps have no memory
    when they compute or when they draw, are slow, or see a run cancelled.
    """

    service: HashService
    generator: random.Random
    cancel: Callable[[], None]
    shares: dict[str, float]
    num_shortages: int = 0

    def install(self) -> None:
        executor = self.service.executor
        forward, sample = executor.forward, executor.sample

        def faulty_forward(batch: Batch) -> list[int]:
            if self._happens("slow"):
                time.sleep(0.002)
            if self._happens("cancelled"):  # by somebody else: the engine's thread may not ask
                thread = threading.Thread(target=self.cancel)
                thread.start()
                thread.join()
            hidden = forward(batch)
            self._lack_memory(batch, "computing")
            return hidden

        def faulty_sample(*arguments: Any) -> Any:
            self._lack_memory(arguments[1], "drawing")
            return sample(*arguments)

        executor.forward = faulty_forward  # type: ignore[method-assign]
        executor.sample = faulty_sample  # type: ignore[method-assign,assignment]

    def _happens(self, name: str) -> bool:
        return self.generator.random() < self.shares.get(name, 0.0)

    def _lack_memory(self, batch: Batch, name: str) -> None:
        """Each time steps become smaller for good, so that it cannot go on for ever."""
        if batch.num_tokens > 1 and self.num_shortages < 3 and self._happens(name):
            self.num_shortages += 1
            raise MemoryError(f"{batch.num_tokens} tokens")


shares = st.fixed_dictionaries(
    {
        "computing": st.sampled_from([0.0, 0.05]),
        "drawing": st.sampled_from([0.0, 0.05]),
        "slow": st.sampled_from([0.0, 0.05]),
        "cancelled": st.sampled_from([0.0, 0.1]),
    }
)


def endure(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    given_shares: dict[str, float],
    seed: int,
) -> None:
    with watched(tokenizer, 4000, config) as service:
        whole = [
            reference.perform.run(program=program, backend=service, seed=seed + index)
            for index, program in enumerate(batch)
        ]
        assert all(state.outcome is not None for state in whole)
    with watched(tokenizer, 400, config) as service:
        runs = [execution(program, service, seed + n) for n, program in enumerate(batch)]
        generator, cancelled = random.Random(seed), set[int]()

        def cancel() -> None:
            index = generator.randrange(len(runs))
            cancelled.add(index)
            runs[index].end(CancelledError("by the test"))

        Faults(service, generator, cancel, given_shares).install()
        threads = [threading.Thread(target=body_of(each)) for each in runs]
        for thread in threads:
            thread.start()
        for index, (each, thread, expected) in enumerate(zip(runs, threads, whole, strict=True)):
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "every body ends"
            outcome = each.run.wait(PATIENCE_S)
            assert outcome is not None, "every run ends"
            if isinstance(outcome.error, ProgramError):
                assume(not isinstance(outcome.error.__cause__, ContextLengthError))
            if index not in cancelled:
                assert expected.outcome is not None
                assert (outcome.status, outcome.error) == (expected.outcome.status, None)
                assert each.state.text() == expected.text()
        service.flush_cache()
        service.check_idle()
    assert not service._thread._thread.is_alive(), "no thread is left"


@FEW
@given(batch=batches, config=configs, given_shares=shares, seed=st.integers(0, 1 << 20))
def test_faults_hurt_nobody_else(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    given_shares: dict[str, float],
    seed: int,
) -> None:
    endure(tokenizer, batch, config, given_shares, seed)


@pytest.mark.stress
@pytest.mark.timeout(7200)
@settings(MANY, max_examples=1000)
@given(batch=batches, config=configs, given_shares=shares, seed=st.integers(0, 1 << 20))
def test_many_faults_hurt_nobody_else(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    given_shares: dict[str, float],
    seed: int,
) -> None:
    endure(tokenizer, batch, config, given_shares, seed)


@FEW
@given(
    batch=batches,
    config=configs,
    fault=st.tuples(st.sampled_from(["copy", "forward", "sample"]), st.integers(0, 40)),
    seed=st.integers(0, 1 << 20),
)
def test_a_step_that_raises_ends_every_run_with_its_cause(
    tokenizer: Tokenizer,
    batch: list[reference.Program],
    config: dict[str, Any],
    fault: tuple[str, int],
    seed: int,
) -> None:
    verb, step = fault
    with watched(tokenizer, 4000, config) as service:
        right, calls = getattr(service.executor, verb), list[int]()

        def dying(*arguments: Any) -> Any:
            calls.append(len(calls))
            if calls[-1] == step:
                raise RuntimeError("the device is gone")
            return right(*arguments)

        setattr(service.executor, verb, dying)
        runs = [execution(program, service, seed + n) for n, program in enumerate(batch)]
        threads = [threading.Thread(target=body_of(each)) for each in runs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "every body ends"
        outcomes = [each.run.wait(PATIENCE_S) for each in runs]
        assert None not in outcomes, "every run ends"
        told = [str(outcome.error) for outcome in outcomes if outcome and outcome.error]
        died = len(calls) > step
        assert died == any("the device is gone" in text for text in told)
        assert service.engine.programs.num_runs == 0
    assert not service._thread._thread.is_alive(), "no thread is left"
