"""The protocol between the engine and whatever computes a batch.

Owns the three verbs of a step. `copy` and `forward` may only enqueue work (a GPU's host does not
wait); `sample` waits for it. In between, the engine fills the masks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.sampling.request import Sampled, SampleRequest


class Executor(Protocol):
    """The handle that `forward` returns is the executor's own business. `forward` and `sample`
    raise `MemoryError` when a smaller batch might do; whatever they have written by then belongs to
    nobody. `copy` needs no memory: what it is asked for is done in any case.
    """

    def copy(self, copies: Sequence[Copy]) -> None: ...

    def forward(self, batch: Batch) -> Any: ...

    def sample(self, hidden: Any, batch: Batch, request: SampleRequest) -> Sampled: ...
