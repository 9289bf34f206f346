"""A CUDA graph without CUDA: torch's operators on a tape, and played again.

What is replayed is as strict as a CUDA graph: the same operators, on the same memory, into the same
memory. Python code between them does not run again, so that whatever it decided stays decided. An
operator that would read a tensor's number on the host cannot be recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from runtime.executor.cuda_graph import Recording

READS_ON_HOST = ("aten::_local_scalar_dense", "aten::nonzero")


class Tape(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps every operator that runs under it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: list[tuple[Callable[..., Any], Any, Any, list[Any]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().partition(".")[0]
        assert name not in READS_ON_HOST, f"{name} waits for the device, in a recording"
        out = func(*args, **(kwargs or {}))
        self.entries.append((func, args, kwargs or {}, tree_leaves(out)))
        return out

    def replay(self) -> None:
        for func, args, kwargs, outs in self.entries:
            for old, new in zip(outs, tree_leaves(func(*args, **kwargs)), strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class TapeRecorder:
    """A `Recorder`. It warms up as the real one does. `sizes`: of the first dimension of what was
    recorded; those in `too_large` do not fit.
    """

    def __init__(self, too_large: int | None = None) -> None:
        self.num_replays = 0
        self._too_large = too_large

    def record(self, work: Callable[[], Tensor]) -> Recording:
        out = work()
        if self._too_large is not None and len(out) >= self._too_large:
            raise torch.OutOfMemoryError("CUDA out of memory")
        with Tape() as tape:
            out = work()
        out.fill_(torch.nan)  # nothing is computed until it is replayed

        def replay() -> None:
            self.num_replays += 1
            tape.replay()

        return Recording(out, replay)
