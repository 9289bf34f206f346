"""What a row asks of the sampler, and what it gets.

Owns the data that crosses from the programs to an executor and back. Numpy and plain values only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Top = Sequence[tuple[float, int]]
"""Log-probabilities and tokens, the likeliest first."""

NO_TOKEN = -1
"""Stands for a token where a row had none to draw: its logits are no numbers, or all forbidden."""


@dataclass(frozen=True, slots=True)
class SampleRow:
    """One row that draws a token. `draw` in [0, 1) is its random number; `counts` are the tokens
    that this gen has written, for the penalties. `num_top`: so many likeliest tokens are told.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    draw: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    counts: Mapping[int, int] = field(default_factory=dict)
    wants_logprob: bool = False
    num_top: int = 0

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0 or self.top_k == 1


NOBODY = SampleRow()
"""A row whose token nobody wants any more: it is drawn, and left."""


@dataclass(frozen=True, slots=True)
class SampleRequest:
    """`rows` in the order of the batch's `sample_at`. bitmask: int32 [len(rows), num_words], a set
    bit allows a token; None when no row is constrained. score_tops: per `score_at`, how many
    likeliest tokens are to be told there; empty when none are.
    """

    rows: Sequence[SampleRow]
    bitmask: NDArray[np.int32] | None = None
    score_tops: Sequence[int] = ()


class Draw(NamedTuple):
    """What one row drew. `is_forced`: its mask left one token."""

    token: int
    logprob: float = 0.0
    top: Top = ()
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Sampled:
    """tokens, logprobs: per row of `sample_at` (NO_TOKEN where there is none; 0.0 where it was not
    asked for; natural logarithm of the model's own probability, before temperature, penalties and
    masks). scores: per `score_targets`. tops, score_tops: the likeliest tokens of each row and of
    each `score_at`, as many as were asked for; no entries at all where nobody asks.
    """

    tokens: Sequence[int]
    logprobs: Sequence[float]
    scores: Sequence[float]
    tops: Sequence[Top] = ()
    score_tops: Sequence[Top] = ()

    def read(self) -> Sampled:
        """It is there: see `Pending` of `runtime.executor.base`."""
        return self

    def drawn(self, rows: slice) -> list[Draw]:
        """What these rows of `sample_at` drew."""
        tops = self.tops[rows] or [()] * (rows.stop - rows.start)
        return list(map(Draw, self.tokens[rows], self.logprobs[rows], tops))
