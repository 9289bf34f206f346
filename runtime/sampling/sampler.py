"""The draw: logits, masks and random numbers in, tokens out.

Owns the arithmetic of sampling. A row's token depends on its own logits, parameters and random
number only, never on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.sampling.request import NO_TOKEN, SampleRow, Top


def sample(
    logits: Tensor, rows: Sequence[SampleRow], allowed: Tensor | None = None
) -> tuple[list[int], list[float]]:
    """logits: float32 [num_rows, num_tokens], the model's own; allowed: bool, of the same shape.
    Returns each row's token and its log-probability under the model (0.0 where it was not asked
    for).
    """
    adjusted = _penalised(logits, rows)
    if allowed is not None:
        adjusted = adjusted.masked_fill(~allowed, -torch.inf)
    greatest, likeliest = adjusted.max(dim=-1)
    possible = greatest.isfinite().tolist()
    tokens: list[int] = likeliest.tolist()
    for index, row in enumerate(rows):
        if not possible[index]:
            tokens[index] = NO_TOKEN
        elif not row.greedy:
            tokens[index] = draw(adjusted[index], row)
    asked = [i for i, row in enumerate(rows) if row.wants_logprob and possible[i]]
    logprobs = [0.0] * len(tokens)
    if asked:
        known = logits[asked].log_softmax(-1)
        for place, index in enumerate(asked):
            logprobs[index] = float(known[place, tokens[index]])
    return tokens, logprobs


def unpack(bitmask: NDArray[np.int32], vocab_size: int) -> Tensor:
    """int32 [num_rows, num_words] -> bool [num_rows, vocab_size]; bit i of word w is token 32 w +
    i.
    """
    bits = np.unpackbits(bitmask.view(np.uint8), axis=1, count=vocab_size, bitorder="little")
    return torch.from_numpy(bits.view(np.bool_))


def draw(logits: Tensor, row: SampleRow) -> int:
    """One token: the cumulative distribution's inverse at `row.draw`. logits: [vocab_size], of
    which one at least is finite.
    """
    candidates = logits.isfinite().nonzero()[:, 0]
    below = logits[candidates].double()
    below -= below.max()  # before the division: no temperature makes a number too large
    probabilities = (below / row.temperature).softmax(-1)
    if row.top_k > 0 or row.top_p < 1.0 or row.min_p > 0.0:
        probabilities, order = probabilities.sort(descending=True, stable=True)
        keep = _num_kept(probabilities, row)
        probabilities, candidates = probabilities[:keep], candidates[order[:keep]]
    cumulative = probabilities.cumsum(-1)
    place = int(torch.searchsorted(cumulative, row.draw * float(cumulative[-1]), right=True))
    # Rounding may point beyond the last token that has any probability.
    last = int(probabilities.nonzero()[-1])
    return int(candidates[min(place, last)])


def _num_kept(probabilities: Tensor, row: SampleRow) -> int:
    """How many of the sorted candidates top-k, top-p and min-p leave; never none."""
    keep = len(probabilities) if row.top_k < 1 else min(row.top_k, len(probabilities))
    if row.top_p < 1.0:
        before = probabilities.cumsum(-1) - probabilities
        keep = min(keep, int((before < row.top_p).sum()))
    if row.min_p > 0.0:
        keep = min(keep, int((probabilities >= row.min_p * probabilities[0]).sum()))
    return max(1, keep)


def _penalised(logits: Tensor, rows: Sequence[SampleRow]) -> Tensor:
    """OpenAI's frequency and presence penalties, on the tokens that the gen itself has written."""
    if not any(row.frequency_penalty or row.presence_penalty for row in rows):
        return logits
    logits = logits.clone()
    for index, row in enumerate(rows):
        if row.counts and (row.frequency_penalty or row.presence_penalty):
            tokens = torch.tensor(list(row.counts))
            counts = torch.tensor(list(row.counts.values()), dtype=logits.dtype)
            logits[index, tokens] -= row.frequency_penalty * counts + row.presence_penalty
    return logits


def tops(logits: Tensor, nums: Sequence[int]) -> list[Top]:
    """The likeliest tokens of each row, as many as `nums` says, with their log p. logits: float32
    [num_rows, vocab_size].
    """
    asked = [index for index, num in enumerate(nums) if num]
    if not asked:
        return [()] * len(nums)
    most = min(max(nums), logits.shape[1])
    logprobs, tokens = logits[asked].log_softmax(-1).topk(most)
    return told_tops(nums, logprobs.tolist(), tokens.tolist())


def told_tops(
    nums: Sequence[int], logprobs: Sequence[Sequence[float]], tokens: Sequence[Sequence[int]]
) -> list[Top]:
    """Of every row as many as it asks for; logprobs, tokens: of those that ask, for any of them
    enough.
    """
    found: list[Top] = [()] * len(nums)
    asked = [index for index, num in enumerate(nums) if num]
    for index, row, ids in zip(asked, logprobs, tokens, strict=True):
        found[index] = list(zip(row, ids, strict=True))[: nums[index]]
    return found


def score(
    logits: Tensor, targets: NDArray[np.int32], num_targets: NDArray[np.int32]
) -> list[float]:
    """log p of each target. logits: [num_rows, vocab_size]; num_targets: [num_rows], how many of
    the targets are a row's.
    """
    rows = torch.from_numpy(np.repeat(np.arange(len(logits)), num_targets)).to(logits.device)
    chosen = torch.from_numpy(targets.astype(np.int64)).to(logits.device)
    scores: list[float] = logits.log_softmax(-1)[rows, chosen].tolist()
    return scores
