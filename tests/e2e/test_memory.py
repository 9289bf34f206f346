"""A batch's memory: its results, and what is in flight; never its length."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Iterator

import pytest

import sgdsl as sgl
from sgdsl import ProgramState
from tests.e2e.conftest import HashService, MakeService


@sgl.function
def note(s: ProgramState, index: int) -> None:
    s += f"license {index % 7}" + sgl.gen("x", 3, ignore_eos=True, healing=False)


def traced(service: HashService, num_rows: int) -> tuple[int, int]:
    """Bytes of the results that a batch leaves, and of its peak."""
    rows = [{"index": index} for index in range(num_rows)]  # the caller's own
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    states = note.run_batch(rows, backend=service)
    gc.collect()
    after, peak = tracemalloc.get_traced_memory()
    assert {state.outcome.status for state in states if state.outcome} == {"truncated"}
    return after - before, peak - before


@pytest.fixture
def tracing() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("tracing")
def test_ten_thousand_rows_need_what_a_thousand_do_and_their_results(
    make_service: MakeService,
) -> None:
    service = make_service(num_pages=2000)
    traced(service, 100)  # what is made once
    small_results, small_peak = traced(service, 1_000)
    large_results, large_peak = traced(service, 10_000)
    in_flight = small_peak - small_results
    assert large_peak - large_results <= 2 * in_flight + (1 << 20)
    assert large_results / 10_000 < 8_000, "bytes a row"
    service.check_idle()


@pytest.mark.slow
def test_a_batch_of_programs_that_never_read_uses_one_thread(make_service: MakeService) -> None:
    service = make_service(num_pages=2000)
    seen: set[int] = set()
    forward = service.executor.forward

    def counting(batch: object) -> list[int]:
        seen.add(threading.active_count())
        return forward(batch)  # type: ignore[arg-type]

    before = threading.active_count()
    service.executor.forward = counting  # type: ignore[method-assign]
    note.run_batch([{"index": index} for index in range(1_000)], backend=service)
    assert max(seen) <= before + 2
