"""What a step has drawn and scored, on its way from the device to the host.

Owns the copies, which are enqueued behind the work that they read, and the one wait for them. What
arrives is told as any executor tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from runtime.device.staging import Fence
from runtime.sampling.request import Sampled, Top
from runtime.sampling.sampler import told_tops


@dataclass(frozen=True, slots=True)
class Tops:
    """The likeliest tokens of some rows: of row i `nums[i]`. logprobs, tokens: [num_asked, most],
    of those rows that ask for any; None if none does.
    """

    nums: Sequence[int]
    logprobs: Tensor | None = None
    tokens: Tensor | None = None

    def copied(self) -> Tops:
        if self.logprobs is None or self.tokens is None:
            return self
        return Tops(self.nums, _copied(self.logprobs), _copied(self.tokens))

    def told(self) -> list[Top]:
        if self.logprobs is None or self.tokens is None:
            return [()] * len(self.nums)
        return told_tops(self.nums, self.logprobs.tolist(), self.tokens.tolist())


@dataclass(frozen=True, slots=True)
class Found:
    """What a step comes to. tokens: int64, of each row that draws. logprobs: of the rows `wanted`.
    scores: of each target, in parts.
    """

    tokens: Tensor
    wanted: Sequence[int]
    logprobs: Tensor
    tops: Tops
    scores: Sequence[Tensor]
    score_tops: Sequence[Tops]


class Readback:
    """A `Pending` of what is found on a device."""

    def __init__(self, found: Found) -> None:
        self._found = Found(
            _copied(found.tokens),
            found.wanted,
            _copied(found.logprobs),
            found.tops.copied(),
            [_copied(part) for part in found.scores],
            [part.copied() for part in found.score_tops],
        )
        self._done = Fence(found.tokens.device)
        self._done.set()

    def read(self) -> Sampled:
        self._done.wait()
        found = self._found
        tokens: list[int] = found.tokens.tolist()
        logprobs = [0.0] * len(tokens)
        for index, logprob in zip(found.wanted, found.logprobs.tolist(), strict=True):
            logprobs[index] = logprob if tokens[index] >= 0 else 0.0
        return Sampled(
            tokens,
            logprobs,
            scores=[score for part in found.scores for score in part.tolist()],
            tops=found.tops.told(),
            score_tops=[top for part in found.score_tops for top in part.told()],
        )


def _copied(tensor: Tensor) -> Tensor:
    """The tensor on the host, when what is enqueued now is done; in pinned memory, by torch."""
    return tensor.to("cpu", non_blocking=True)
