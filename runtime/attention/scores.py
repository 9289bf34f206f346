"""What becomes of attention's scores: soft caps, sinks and the softmax.

Owns this arithmetic, for all shapes of work alike. Knows no batch and no page.
"""

from __future__ import annotations

import torch
from torch import Tensor


def capped(scores: Tensor, soft_cap: float | None, bias: Tensor | None = None) -> Tensor:
    """bias: added once more behind the cap, which makes a number of -inf."""
    if soft_cap is None:
        return scores
    capped = torch.tanh(scores / soft_cap) * soft_cap
    return capped if bias is None else capped + bias


def softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Over the last dimension and a sink, which takes its part and is left out."""
    if sinks is None:
        return scores.softmax(-1)
    with_sinks = torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], dim=-1)
    return with_sinks.softmax(-1)[..., :-1]
