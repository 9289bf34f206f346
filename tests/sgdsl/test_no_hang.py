"""No hang is possible: random programs on a backend that fails, stalls, dies and answers nonsense
at any node, in every way to run a program. Every run ends by its deadline, truthfully, and no
thread waits any more.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import FrameType
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import sgdsl as sgl
from sgdsl import AsyncProgramState, ProgramState
from tests.patience import PATIENCE_S, await_that
from tests.sgdsl.faults import (
    GEN_FAULTS,
    RUN_FAULTS,
    SELECT_FAULTS,
    FaultyBackend,
    judge,
    perform,
    perform_async,
)
from tests.sgdsl.naive import Step, programs

pytestmark = pytest.mark.timeout(120)

Rows = list[dict[str, Any]]
RAISED = (sgl.SgdslError, OSError, SystemExit, ValueError, AttributeError)
"""What bodies and reads may raise after what the backend does."""


@sgl.function
def plain(s: ProgramState, steps: tuple[Step, ...], on_error: str, seen: list[Any]) -> None:
    seen.append(s)
    perform(s, steps, on_error)


@sgl.function
async def asynchronous(
    s: AsyncProgramState, steps: tuple[Step, ...], on_error: str, seen: list[Any]
) -> None:
    seen.append(s)
    await perform_async(s, steps, on_error)


def run(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    for row in rows:
        try:
            state = program.run(args=row, timeout_s=backend.limit_s, backend=backend, **given)
        except RAISED:
            continue  # what the body raised: the state was seen inside
        row["seen"][:] = [state]


def run_on_this_thread(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    run(program, rows, use_thread=False, backend=backend, **given)


def stream(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    for row in rows:
        state = program.run(
            args=row, stream=True, timeout_s=backend.limit_s, backend=backend, **given
        )
        with suppress(*RAISED):
            list(state.text_iter())
        row["seen"][:] = [state]


def batch(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    states = program.run_batch(
        rows, timeout_s=3 * backend.limit_s, row_timeout_s=backend.limit_s, backend=backend, **given
    )
    keep(rows, enumerate(states))


def in_order(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    limits = {"timeout_s": 3 * backend.limit_s, "row_timeout_s": backend.limit_s}
    keep(
        rows,
        enumerate(
            program.run_batch(rows, generator_style=True, **limits, backend=backend, **given)
        ),
    )


def as_completed(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    keep(
        rows,
        program.run_batch(
            rows, as_completed=True, timeout_s=backend.limit_s, backend=backend, **given
        ),
    )


def left_early(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    pairs = program.run_batch(
        rows, as_completed=True, row_timeout_s=backend.limit_s, backend=backend, **given
    )
    for index, state in pairs:
        keep([rows[index]], [(0, state)])
        break
    pairs.close()


def raising(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    try:
        states = program.run_batch(
            rows, on_error="raise", timeout_s=backend.limit_s, backend=backend, **given
        )
    except sgl.BatchFailed as error:
        states = error.states
        assert len(states) == len(rows)
    keep(rows, enumerate(states))


def awaited(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    async def main() -> None:
        for row in rows:
            try:
                row["seen"][:] = [
                    await program.arun(
                        args=row, timeout_s=backend.limit_s, backend=backend, **given
                    )
                ]
            except RAISED:
                continue

    asyncio.run(main())


def awaited_together(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    keep(
        rows,
        enumerate(
            asyncio.run(
                program.arun_batch(rows, row_timeout_s=backend.limit_s, backend=backend, **given)
            )
        ),
    )


def awaited_one_by_one(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    async def main() -> None:
        states = program.astream_batch(
            rows, as_completed=True, timeout_s=backend.limit_s, backend=backend, **given
        )
        keep(rows, [pair async for pair in states])

    asyncio.run(main())


def streamed_async(program: Any, rows: Rows, *, backend: FaultyBackend, **given: Any) -> None:
    async def main() -> None:
        for row in rows:
            state = await program.arun(
                args=row, stream=True, timeout_s=backend.limit_s, backend=backend, **given
            )
            with suppress(*RAISED):
                async for _ in state.text_async_iter():
                    pass
            row["seen"][:] = [state]

    asyncio.run(main())


def keep(rows: Rows, states: Any) -> None:
    for index, state in states:
        rows[index]["seen"][:] = [state]


def nobody_waits() -> bool:
    """Whether no thread waits for a run or a batch."""
    for innermost in sys._current_frames().values():
        frame: FrameType | None = innermost
        while frame is not None:
            code, frame = frame.f_code, frame.f_back
            if code.co_filename.endswith("sgdsl/run.py") and code.co_name == "wait_until":
                return False
    return not [each for each in threading.enumerate() if each.name == "sgdsl-batch"]


FAULTS = st.dictionaries(
    st.integers(0, 8), st.sampled_from(sorted({*GEN_FAULTS, *SELECT_FAULTS})), max_size=3
)
OF_RUNS = st.dictionaries(st.integers(0, 3), st.sampled_from(RUN_FAULTS), max_size=1)
WAYS: list[Callable[..., None]] = [
    run,
    run_on_this_thread,
    stream,
    batch,
    in_order,
    as_completed,
    left_early,
    raising,
    awaited,
    awaited_together,
    awaited_one_by_one,
    streamed_async,
]


@pytest.mark.parametrize("program", [plain, asynchronous], ids=["plain", "async"])
@pytest.mark.parametrize("way", WAYS)
def test_every_run_ends_with_the_truth(way: Callable[..., None], program: Any) -> None:
    @settings(
        max_examples=10,
        deadline=PATIENCE_S * 1000,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(
        bodies=st.lists(programs(), min_size=1, max_size=3),
        faults=FAULTS,
        of_runs=OF_RUNS,
        stepwise=st.booleans(),
        on_error=st.sampled_from(["raise", "collect"]),
    )
    def check(
        bodies: list[tuple[Step, ...]],
        faults: Mapping[int, str],
        of_runs: Mapping[int, str],
        stepwise: bool,
        on_error: str,
    ) -> None:
        backend = FaultyBackend(faults, of_runs, stepwise=stepwise)
        rows: Rows = [{"steps": body, "on_error": on_error, "seen": []} for body in bodies]
        outcomes = []
        try:
            way(program, rows, backend=backend)
            for row in rows:
                for state in row["seen"]:
                    judge(state, state._reader._run, backend, collects=on_error == "collect")
                    outcomes.append((state, state.outcome))
            await_that(lambda: sgl.num_left_behind() == 0)
            await_that(nobody_waits)
            backend.answer_late()
        finally:
            backend.close()
        assert all(state.outcome == outcome for state, outcome in outcomes)

    check()


class UnsayableError(Exception):
    """An error of somebody's that cannot even be printed."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


def raises(s: ProgramState) -> None:
    raise UnsayableError


def generates(s: ProgramState) -> None:
    s += sgl.gen("x")


@pytest.mark.parametrize("body", [raises, generates])
@pytest.mark.parametrize("latency_s", [0.0, 0.001])
def test_an_error_without_a_text_ends_its_run(body: Any, latency_s: float) -> None:
    backend = sgl.MockBackend({"x": UnsayableError()}, latency_s=latency_s)
    for state in sgl.function(body).run_batch([{}] * 2, backend=backend):
        assert "UnsayableError, whose text cannot be made: ValueError" in str(state.error())


def test_an_error_without_a_text_ends_its_run_at_a_provider() -> None:
    class Broken(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            raise UnsayableError

    with sgl.OpenAI("m", "http://x.test", transport=Broken(), is_chat_model=False) as backend:
        state = sgl.function(generates).run(backend=backend)
        assert "UnsayableError, whose text cannot be made" in str(state.error())
