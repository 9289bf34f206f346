"""Decodes as recorded work: a step of the model that is replayed instead of launched.

Owns the numbers of rows that are recorded, which of them a batch is padded to, and when a batch is
not one of decodes. How work is recorded is a recorder's business: `CudaRecorder` for torch's CUDA
graphs, another one for the tests, so that all the rest is tested without a GPU.

A recording reads and writes the same memory each time. What changes from step to step lies in the
plans' (`StaticDecodes`), is renewed before, and nothing is decided in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from runtime.batch import Batch, build_batch

WARM_UPS = 2
"""Runs before a recording: in their first one libraries set themselves up, which none can hold."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Work that can be done again; `out` is where its result lies each time."""

    out: Tensor
    replay: Callable[[], None]


class Recorder(Protocol):
    def record(self, work: Callable[[], Tensor]) -> Recording:
        """Do the work, some times perhaps, and keep it. It must be possible to do it twice."""


class CudaRecorder:
    """CUDA graphs, which share one pool of memory: they are replayed one at a time."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def record(self, work: Callable[[], Tensor]) -> Recording:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UPS):
                work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            out = work()
        return Recording(out, graph.replay)


class StaticPlan(Protocol):
    """What a recording is made over: see `runtime.attention.static_decodes`."""

    num_rows: int

    def renew(self, batch: Batch) -> None: ...


Plan = TypeVar("Plan", bound=StaticPlan)


class DecodeGraphs(Generic[Plan]):
    """Recordings of `forward` over plans of different numbers of rows.

    `forward` gives the hidden states of all rows of a plan. The largest is recorded first, since
    what it takes the others can use again; one that there is no memory for is left out.
    """

    def __init__(
        self,
        forward: Callable[[Plan], Tensor],
        plan_of: Callable[[int], Plan],
        *,
        sizes: Sequence[int],
        page_size: int,
        recorder: Recorder,
    ) -> None:
        """plan_of: a plan for so many rows."""
        nobody = build_batch([], page_size)
        self._recorded: list[tuple[Plan, Recording]] = []
        for size in sorted(sizes, reverse=True):
            try:
                plan = plan_of(size)
                plan.renew(nobody)
                recording = recorder.record(partial(forward, plan))
            except (torch.OutOfMemoryError, MemoryError):
                continue
            self._recorded.insert(0, (plan, recording))

    @property
    def sizes(self) -> list[int]:
        """The numbers of rows that were recorded."""
        return [plan.num_rows for plan, _ in self._recorded]

    def run(self, batch: Batch) -> Tensor | None:
        """The hidden states of the batch's rows, where they stay until the next run; None if it is
        not one of decodes, or of more than were recorded.
        """
        if batch.num_tokens != batch.num_rows or batch.trees:
            return None
        for plan, recording in self._recorded:
            if plan.num_rows >= batch.num_rows:
                plan.renew(batch)
                recording.replay()
                return recording.out[: batch.num_rows]
        return None


def graph_sizes(max_rows: int) -> list[int]:
    """1, 2, 4, 6, 8, 12, 16, 24, 32, ... and the largest: padding adds a half at most."""
    sizes, size = [1, 2], 4
    while size < max_rows:
        sizes += [size, size * 3 // 2]
        size *= 2
    return [each for each in sizes if each < max_rows] + [max_rows]
