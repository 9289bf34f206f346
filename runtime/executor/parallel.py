"""One model on several devices: this process leads, others follow.

Owns the processes of tensor parallelism and what they are told. The engine runs in the leader
alone. Whatever its executor is asked for that others have a part in, it tells them first; they do
the same on their part of the weights and of the KV, and the layers add up what all have
(`runtime.model.shard`). Tokens are drawn by the leader, which has the whole head.

A follower ends when its pipe does, so it outlives no leader. A leader whose follower has died
raises on the next step, and the engine ends with every run's failure.
"""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.executor.base import Executor, Pending
from runtime.executor.ranks import ProcessRanks
from runtime.sampling.request import SampleRequest
from sgdsl.errors import BackendError

STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Part:
    """What one process computes: a model, and which part of it. device: of the first process; the
    next have the next GPUs.
    """

    folder: Path
    dtype: str
    decoder: str
    device: str
    rank: int
    num_ranks: int
    meeting_place: Path

    @property
    def own_device(self) -> torch.device:
        device = torch.device(self.device)
        return device if device.type == "cpu" else torch.device("cuda", device.index + self.rank)

    def meet(self) -> ProcessRanks:
        """Wait for the others."""
        return ProcessRanks(
            self.rank, self.num_ranks, meeting_place=self.meeting_place, device=self.own_device
        )


class Followers:
    """The processes with all parts but the first."""

    def __init__(self, first: Part) -> None:
        self._processes = [
            subprocess.Popen(
                [sys.executable, "-m", "runtime.executor.follower"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            for _ in range(1, first.num_ranks)
        ]
        self._finalizer = weakref.finalize(self, _stop, self._processes, first.meeting_place.parent)
        for rank, process in enumerate(self._processes, start=1):
            _send(process, replace(first, rank=rank))

    def tell(self, message: Any) -> None:
        """Raises BackendError when one of them has died."""
        for process in self._processes:
            _send(process, message)

    def stop(self) -> None:
        self._finalizer()


def _send(process: subprocess.Popen[bytes], message: Any) -> None:
    assert process.stdin is not None, "followers are told by a pipe"
    try:
        pickle.dump(message, process.stdin)
        process.stdin.flush()
    except OSError as error:
        raise BackendError(
            f"a process of this tensor-parallel runtime has died (exit code {process.poll()}); "
            "what it wrote stands on the standard error"
        ) from error


def _stop(processes: Sequence[subprocess.Popen[bytes]], place: Path) -> None:
    for process in processes:
        assert process.stdin is not None, "followers are told by a pipe"
        try:
            process.stdin.close()
        except OSError:
            process.kill()  # it has died, or is stuck with a full pipe
    for process in processes:
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    shutil.rmtree(place, ignore_errors=True)


class LeadingExecutor:
    """An `Executor` that others follow."""

    overlaps = False  # the others never see what was drawn

    def __init__(self, executor: Executor, followers: Followers) -> None:
        self._executor = executor
        self._followers = followers

    def copy(self, copies: Sequence[Copy]) -> None:
        if copies:
            self._followers.tell(list(copies))
        self._executor.copy(copies)

    def forward(self, batch: Batch) -> Any:
        # Who is granted what is nobody's business there, how many are is.
        nobody: list[Any] = [None] * batch.num_rows
        self._followers.tell(replace(batch, grants=nobody, sampled=[]))
        try:
            return self._executor.forward(batch)
        except MemoryError as error:
            # The others may be in the middle of the step: it cannot be taken back for all.
            raise BackendError(f"there is no memory for a step of {batch.num_tokens} tokens") from (
                error
            )

    def sample(self, hidden: Any, batch: Batch, request: SampleRequest) -> Pending:
        return self._executor.sample(hidden, batch, request)


def make_part(folder: Path, *, dtype: str, decoder: str, device: torch.device, num: int) -> Part:
    """The first of `num` parts, and a place for all to meet."""
    place = Path(tempfile.mkdtemp(prefix="sgdsl-")) / "ranks"
    return Part(folder, dtype, decoder, str(device), 0, num, place)
