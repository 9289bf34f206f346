"""The protocol between the engine and whatever computes a batch.

Owns the two verbs of a step. `forward` may only enqueue work (a GPU's host does not wait); `sample`
waits for it. In between, the engine fills the masks.
"""

from __future__ import annotations

from typing import Any, Protocol

from runtime.batch import Batch
from runtime.sampling.request import Sampled, SampleRequest


class Executor(Protocol):
    """The handle that `forward` returns is the executor's own business. Either raises `MemoryError`
    when a smaller batch might do; whatever it has written by then belongs to nobody.
    """

    def forward(self, batch: Batch) -> Any: ...

    def sample(self, hidden: Any, batch: Batch, request: SampleRequest) -> Sampled: ...
