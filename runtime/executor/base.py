"""The protocol between the engine and whatever computes a batch.

Owns the three verbs of a step. `copy` and `forward` may only enqueue work (a GPU's host does not
wait). In between, the engine fills the masks. Where work is only enqueued, `sample` does not wait
either, and the next step is enqueued before its tokens are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.sampling.request import Sampled, SampleRequest


class Pending(Protocol):
    """What a step draws and scores."""

    def read(self) -> Sampled:
        """Waits for it, where that is not done yet. Called once, in the order of the steps."""


class Executor(Protocol):
    """The handle that `forward` returns is the executor's own business. `forward` and `sample`
    raise `MemoryError` when a smaller batch might do; whatever they have written by then belongs to
    nobody. `copy` needs no memory: what it is asked for is done in any case.

    `overlaps`: all of this is carried out in the order in which it was asked for, without the host,
    so that `forward` may be asked for with token ids that stand for what the `sample` before it
    draws (see `Batch`).
    """

    @property
    def overlaps(self) -> bool: ...

    def copy(self, copies: Sequence[Copy]) -> None: ...

    def forward(self, batch: Batch) -> Any: ...

    def sample(self, hidden: Any, batch: Batch, request: SampleRequest) -> Pending: ...
