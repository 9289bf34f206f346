"""The simulation against the engine: what it says that two workloads take on this CPU, and what
they took.

Owns the recording of what the engine drew, and its replay: the same programs through the real
scheduler, with time that the calibrated machine tells instead of the model's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import sgdsl as sgl
from benchmarks.simulation.calibration import calibrate
from benchmarks.simulation.costs import Machine, work_of
from examples.extract_packages import extract, read_documents
from runtime import Runtime
from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.executor.base import Executor
from runtime.executor.head import allowed_by_any, narrow_rows
from runtime.sampling.request import Sampled, SampleRequest
from sgdsl import ProgramState

Rows = list[dict[str, Any]]


@sgl.function
def answer(s: ProgramState, document: str) -> None:
    s += "A Python package.\n" + document + "In plain words, what it is for: "
    s += sgl.gen("answer", max_tokens=48, temperature=0.0, ignore_eos=True)


@dataclass(frozen=True)
class Case:
    """A workload of the validation."""

    program: Any
    rows: Rows


def cases(*, quick: bool) -> dict[str, Case]:
    """Records under a schema behind a long common instruction; free text behind a short one."""
    documents = read_documents(16 if quick else 48)
    rows = [{"document": document.text} for document in documents]
    return {"extract": Case(extract, rows), "free": Case(answer, rows)}


class Recorded:
    """An executor that computes, and keeps what was drawn behind which tokens, and how long all of
    it took: seconds of the engine's thread, which is the only one.
    """

    overlaps = False

    def __init__(self, executor: Executor) -> None:
        self.drawn: dict[tuple[int, ...], int] = {}
        self.spent_s = 0.0
        self.num_steps = 0
        self._executor = executor

    def copy(self, copies: Sequence[Copy]) -> None:
        began = time.thread_time()
        self._executor.copy(copies)
        self.spent_s += time.thread_time() - began

    def forward(self, batch: Batch) -> Any:
        began = time.thread_time()
        hidden = self._executor.forward(batch)
        self.spent_s += time.thread_time() - began
        self.num_steps += 1
        return hidden

    def sample(self, hidden: Any, batch: Batch, request: SampleRequest) -> Sampled:
        began = time.thread_time()
        sampled = self._executor.sample(hidden, batch, request).read()
        self.spent_s += time.thread_time() - began
        for tokens, token in zip(_before(batch), sampled.tokens, strict=True):
            self.drawn[tokens] = token
        return sampled


class Replayed:
    """An executor that computes nothing: it draws what was drawn, and takes what `machine` says."""

    overlaps = False

    def __init__(
        self, machine: Machine, drawn: dict[tuple[int, ...], int], vocab_size: int
    ) -> None:
        self.spent_s = 0.0
        self.num_steps = 0
        self._machine = machine
        self._drawn = drawn
        self._vocab_size = vocab_size

    def copy(self, copies: Sequence[Copy]) -> None:
        """Of no cost: a page takes less than a tenth of a millisecond."""

    def forward(self, batch: Batch) -> None:
        self.spent_s += self._machine.layers_s(work_of(batch))
        self.num_steps += 1

    def sample(self, _: None, batch: Batch, request: SampleRequest) -> Sampled:
        narrow = narrow_rows(request.rows, request.bitmask, self._vocab_size)
        columns = 0
        if narrow:
            assert request.bitmask is not None, "a narrow row has a mask"
            columns = len(allowed_by_any(request.bitmask[narrow], self._vocab_size))
        self.spent_s += self._machine.head_s(len(request.rows) - len(narrow), columns)
        tokens = [self._drawn[tokens] for tokens in _before(batch)]
        return Sampled(tokens, [0.0] * len(tokens), ())


def _before(batch: Batch) -> Iterator[tuple[int, ...]]:
    """For each token that is drawn, all before it."""
    for grant, at in zip(batch.sampled, batch.sample_at, strict=True):
        yield tuple(grant.sequence.tokens[: int(batch.positions[at]) + 1])


def validate(
    console: Console, given: Mapping[str, Case], *, folder: Path
) -> dict[str, dict[str, float]]:
    """Per workload: seconds measured and predicted, their ratio, and steps of both."""
    found = {}
    with one_thread(), Runtime(folder, share_outputs=False, speculation="off") as runtime:
        executor: Any = runtime._engine._executor  # noqa: SLF001 - its parts are measured
        vocab_size = runtime.shape.vocab_size
        page_size, num_pages = runtime.config.page_size, runtime.num_pages
        machine = calibrate(executor, page_size=page_size, num_pages=num_pages)
        for name, case in given.items():
            recorded = Recorded(executor)
            _run(case, runtime, recorded)
            replayed = Replayed(machine, recorded.drawn, vocab_size)
            _run(case, runtime, replayed)
            found[name] = {
                "measured_s": recorded.spent_s,
                "predicted_s": replayed.spent_s,
                "ratio": replayed.spent_s / recorded.spent_s,
                "measured_steps": recorded.num_steps,
                "predicted_steps": replayed.num_steps,
            }
            console.print(name, found[name])
    return found


def _run(case: Case, runtime: Runtime, executor: Executor) -> None:
    """Every row of the workload in one batch, with another executor in the engine."""
    runtime.flush_cache()
    runtime._engine._executor = executor  # noqa: SLF001 - nobody else changes it
    states = case.program.run_batch(case.rows, backend=runtime, on_error="raise")
    assert len(states) == len(case.rows), "every row ends"


@contextmanager
def one_thread() -> Iterator[None]:
    """All of torch on the thread that calls it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
