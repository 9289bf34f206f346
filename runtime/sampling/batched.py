"""The draw of many rows at once, on the device where the logits are.

Owns the arithmetic of `runtime.sampling.sampler`, for a batch: every row's token is what that
module draws for it, from its own logits, parameters and random number alone. (FlashInfer's
sampling kernels take random numbers by a row's place in the batch: with them a row's output would
depend on its neighbours.) The host gives what rows ask for, packed for one copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from runtime.device.staging import Staging
from runtime.sampling.bitmask import apply_bitmask
from runtime.sampling.request import NO_TOKEN, SampleRequest, SampleRow

ROWS_AT_ONCE = 32
"""Rows that are drawn together: of 150,000 tokens they take 40 MB an array."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What rows ask for, on the device. drawn: int64, the rows that are not greedy; is_filtered:
    bool, those of them that top-k, top-p or min-p concern. temperature, top_p, min_p, draw: float64
    [num_rows]; top_k: int32 [num_rows], below 1 for all; bitmask: int32 [num_rows, num_words].
    Token penalty_tokens[i] of row penalty_rows[i] loses penalties[i].
    """

    drawn: Tensor
    is_filtered: Tensor
    temperature: Tensor
    top_p: Tensor
    min_p: Tensor
    draw: Tensor
    top_k: Tensor
    bitmask: Tensor | None
    penalty_rows: Tensor
    penalty_tokens: Tensor
    penalties: Tensor


def send(request: SampleRequest, staging: Staging) -> Asked:
    """The request in one copy."""
    rows, bitmask = request.rows, request.bitmask
    numbers = np.array([[r.temperature, r.top_p, r.min_p, r.draw] for r in rows], dtype=np.float64)
    penalised = [(index, *each) for index, row in enumerate(rows) for each in _penalties(row)]
    drawn = np.array([i for i, row in enumerate(rows) if not row.greedy], dtype=np.int32)
    filtered = np.array([_filters(rows[i]) for i in drawn], dtype=np.int32)
    at = np.array([each[:2] for each in penalised], dtype=np.int32).reshape(-1, 2)
    amounts = np.array([each[2] for each in penalised], dtype=np.float32)
    sent = staging.send(
        [
            # First, since they have 8 bytes each, and begin where such numbers may.
            np.ascontiguousarray(numbers.reshape(-1, 4).T).view(np.int32),
            np.array([row.top_k for row in rows], dtype=np.int32),
            np.ascontiguousarray(at.T),
            amounts.view(np.int32),
            drawn,
            filtered,
            np.empty(0, np.int32) if bitmask is None else bitmask,
        ]
    )
    doubles, top_k, places, penalties, drawn_there, filtered_there, words = sent
    temperature, top_p, min_p, draw = doubles.view(torch.float64).view(4, -1)
    penalty_rows, penalty_tokens = places.view(2, -1)
    return Asked(
        drawn=drawn_there.long(),
        is_filtered=filtered_there.bool(),
        temperature=temperature,
        top_p=top_p,
        min_p=min_p,
        draw=draw,
        top_k=top_k,
        bitmask=None if bitmask is None else words.view(bitmask.shape),
        penalty_rows=penalty_rows,
        penalty_tokens=penalty_tokens,
        penalties=penalties.view(torch.float32),
    )


def _penalties(row: SampleRow) -> list[tuple[int, float]]:
    """What each token of the row loses."""
    if not (row.frequency_penalty or row.presence_penalty):
        return []
    return [
        (token, row.frequency_penalty * count + row.presence_penalty)
        for token, count in row.counts.items()
    ]


def draw_rows(logits: Tensor, rows: Sequence[SampleRow], asked: Asked) -> Tensor:
    """int64 [num_rows], NO_TOKEN where there is none to draw. logits: float32 [num_rows,
    vocab_size], which are changed.
    """
    if len(asked.penalties):
        penalised = (asked.penalty_rows, asked.penalty_tokens)
        logits.index_put_(penalised, -asked.penalties, accumulate=True)
    if asked.bitmask is not None:
        apply_bitmask(logits, asked.bitmask)
    greatest, tokens = logits.max(dim=-1)
    filtered = [_filters(row) for row in rows if not row.greedy]
    for begin in range(0, len(filtered), ROWS_AT_ONCE):
        some = slice(begin, begin + ROWS_AT_ONCE)
        places = asked.drawn[some]
        concerned = asked.is_filtered[some] if any(filtered[some]) else None
        tokens[places] = _draw(logits[places], asked, places, concerned=concerned)
    return torch.where(greatest.isfinite(), tokens, NO_TOKEN)


def _filters(row: SampleRow) -> bool:
    return row.top_k > 0 or row.top_p < 1.0 or row.min_p > 0.0


def _draw(logits: Tensor, asked: Asked, places: Tensor, *, concerned: Tensor | None) -> Tensor:
    """The cumulative distributions' inverses at `draw`. logits: [B, vocab_size] of the rows
    `places`; concerned: bool [B], who is filtered; None: nobody. int64 [B].
    """
    below = logits.double()
    below = below - below.amax(-1, keepdim=True)  # before the division, as for one row
    probabilities = (below / asked.temperature[places, None]).softmax(-1)
    order: Tensor | None = None
    if concerned is not None:
        concerned = concerned[:, None]
        falling, order = probabilities.sort(dim=-1, descending=True, stable=True)
        kept = _num_kept(falling, logits.isfinite().sum(-1), asked, places)
        ranks = torch.arange(logits.shape[1], device=logits.device)
        falling = falling.masked_fill(ranks >= kept[:, None], 0.0)
        # Who is not concerned draws in the tokens' own order, whatever its neighbours do.
        probabilities = torch.where(concerned, falling, probabilities)
        order = torch.where(concerned, order, ranks)
    cumulative = probabilities.cumsum(-1)
    wanted = asked.draw[places, None] * cumulative[:, -1:]
    place = torch.searchsorted(cumulative, wanted, right=True)
    # Rounding may point beyond the last token that has any probability.
    last = logits.shape[1] - 1 - (probabilities > 0).flip(-1).int().argmax(-1, keepdim=True)
    place = torch.minimum(place, last)
    return (place if order is None else order.gather(-1, place))[:, 0]


def _num_kept(falling: Tensor, num_possible: Tensor, asked: Asked, places: Tensor) -> Tensor:
    """How many of the likeliest candidates top-k, top-p and min-p leave; never none."""
    top_k, top_p, min_p = asked.top_k[places], asked.top_p[places], asked.min_p[places]
    keep = torch.where(top_k > 0, torch.minimum(top_k, num_possible), num_possible)
    before = falling.cumsum(-1) - falling
    in_top_p = (before < top_p[:, None]).sum(-1)
    keep = torch.where(top_p < 1.0, torch.minimum(keep, in_top_p), keep)
    in_min_p = (falling >= (min_p * falling[:, 0])[:, None]).sum(-1)
    keep = torch.where(min_p > 0.0, torch.minimum(keep, in_min_p), keep)
    return keep.clamp(min=1)
