"""The processes that compute one model together, as one of them sees them.

Owns how they find each other and how they add up: over gloo on the CPU, NCCL on GPUs. Groups are
made by hand: torch's default one is there only once in a process, and is the user's.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed

TIMEOUT = timedelta(minutes=10)
"""One may load its weights so much longer than another."""


class ProcessRanks:
    """`Ranks` of `runtime.model.shard`. Making it waits for all others. meeting_place: a file that
    is not there yet, the same for all.
    """

    def __init__(
        self, rank: int, num_ranks: int, *, meeting_place: Path, device: torch.device
    ) -> None:
        self.rank = rank
        self.num_ranks = num_ranks
        torch_distributed: Any = distributed  # its types know less of these than there is
        store = torch_distributed.FileStore(str(meeting_place), num_ranks)
        if device.type == "cpu":
            self._group = torch_distributed.ProcessGroupGloo(store, rank, num_ranks, TIMEOUT)
        else:
            torch.cuda.set_device(device)
            options = torch_distributed.ProcessGroupNCCL.Options()
            self._group = torch_distributed.ProcessGroupNCCL(store, rank, num_ranks, options)

    def add_up(self, part: Tensor) -> None:
        self._group.allreduce([part]).wait()
