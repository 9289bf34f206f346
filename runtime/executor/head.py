"""The LM head: which rows need logits of which tokens.

Owns the split of the rows that draw. Where a mask leaves few tokens, only their logits are
computed: what is drawn depends on nothing else. Every other row needs all of them: one without a
mask, one with a wide mask, and one whose log-probabilities were asked for, which are the model's
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.model.base import Model
from runtime.sampling.request import SampleRequest, SampleRow, Top
from runtime.sampling.sampler import sample, tops, unpack

FEW = 8
"""A mask is narrow if it leaves one in so many tokens. The rows of the head's matrix that it leaves
are copied together first, which up to there costs less than to read all of them.
"""

_BITS_SET = np.unpackbits(np.arange(1 << 16, dtype=np.uint16).view(np.uint8)[:, None], axis=1)
_BITS_SET = _BITS_SET.sum(axis=1, dtype=np.uint8).reshape(-1, 2).sum(axis=1, dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Per row: its token or NO_TOKEN, its log-probability, its likeliest tokens."""

    tokens: list[int]
    logprobs: list[float]
    tops: list[Top]


def draw_tokens(model: Model, hidden: Tensor, request: SampleRequest) -> Drawn:
    """hidden: [len(request.rows), hidden_size]."""
    rows, bitmask = request.rows, request.bitmask
    drawn = Drawn([0] * len(rows), [0.0] * len(rows), [()] * len(rows))
    narrow = narrow_rows(rows, bitmask, model.shape.vocab_size)
    others = sorted(set(range(len(rows))) - set(narrow))
    if narrow:
        assert bitmask is not None, "a narrow row has a mask"
        columns = allowed_by_any(bitmask[narrow], model.shape.vocab_size)
        logits = model.logits(hidden[narrow], torch.from_numpy(columns))
        allowed = torch.from_numpy(_bits(bitmask[narrow], columns))
        places, _ = sample(logits, [_on_columns(rows[i], columns) for i in narrow], allowed)
        for index, place in zip(narrow, places, strict=True):
            drawn.tokens[index] = int(columns[place]) if place >= 0 else place
    if others:
        logits = model.logits(hidden[others] if narrow else hidden)
        asked = [rows[i] for i in others]
        mask = None if bitmask is None else unpack(bitmask[others], logits.shape[1])
        tokens, logprobs = sample(logits, asked, mask)
        found = tops(logits, [row.num_top for row in asked])
        for place, index in enumerate(others):
            drawn.tokens[index], drawn.logprobs[index] = tokens[place], logprobs[place]
            drawn.tops[index] = found[place]
    return drawn


def narrow_rows(
    rows: Sequence[SampleRow], bitmask: NDArray[np.int32] | None, vocab_size: int
) -> list[int]:
    """Rows that need the logits of few tokens only, few for all of them together; in order."""
    if bitmask is None:
        return []
    silent = [i for i, row in enumerate(rows) if not row.wants_logprob and not row.num_top]
    by_width = np.asarray(silent, dtype=np.int64)
    by_width = by_width[np.argsort(_num_set(bitmask[by_width]), kind="stable")]
    num_together = _num_set(np.bitwise_or.accumulate(bitmask[by_width], axis=0))
    return sorted(by_width[num_together * FEW <= vocab_size].tolist())


def _num_set(bitmask: NDArray[np.int32]) -> NDArray[np.int64]:
    """How many bits of each row are set."""
    counted: NDArray[np.int64] = _BITS_SET[bitmask.view(np.uint16)].sum(axis=1, dtype=np.int64)
    return counted


def allowed_by_any(bitmask: NDArray[np.int32], vocab_size: int) -> NDArray[np.int64]:
    """The tokens that one row at least allows, in order; one of no use where none is allowed."""
    together = np.bitwise_or.reduce(bitmask, axis=0)[None]
    found = np.flatnonzero(unpack(together, vocab_size)[0].numpy())
    return found if len(found) else np.zeros(1, dtype=np.int64)


def _bits(bitmask: NDArray[np.int32], columns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each row allows each of these tokens. [num_rows, num_columns]"""
    words: NDArray[np.int32] = bitmask[:, columns >> 5] >> (columns & 31).astype(np.int32)
    return np.bitwise_and(words, 1).astype(np.bool_)


def _on_columns(row: SampleRow, columns: NDArray[np.int64]) -> SampleRow:
    """The row's counts by places in `columns`."""
    if not row.counts or not (row.frequency_penalty or row.presence_penalty):
        return row
    places = {int(token): place for place, token in enumerate(columns)}
    counts = {places[token]: num for token, num in row.counts.items() if token in places}
    return replace(row, counts=counts)
