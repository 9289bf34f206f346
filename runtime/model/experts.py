"""Experts of which a row's bits do not depend on how many other rows they are given.

Owns an implementation for transformers' `ExpertsInterface`, which fills each expert's rows up to a
multiple, as `runtime.model.invariant` fills up the batch, and adds up a row's experts in its own
order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

FILLED = "sgdsl_filled"


def fill_experts(model: nn.Module, multiple: int) -> None:
    """Have each expert compute whole multiples of rows; nothing where a model has no experts, or
    has them in another way.
    """
    for module in model.modules():
        if hasattr(module, "_apply_gate") and hasattr(module, "is_transposed"):
            module.config._experts_implementation = FILLED  # type: ignore[union-attr]  # noqa: SLF001 - it has no public name
            module.sgdsl_multiple = multiple  # type: ignore[assignment]


def filled_experts(
    experts: Any, hidden: Tensor, top_k_index: Tensor, top_k_weights: Tensor
) -> Tensor:
    """hidden: [num_rows, hidden_size]; top_k_index, top_k_weights: [num_rows, top_k]."""
    num_rows, top_k = top_k_index.shape
    chosen = top_k_index.reshape(-1)
    found = hidden.new_empty(num_rows * top_k, hidden.shape[-1])
    for expert in torch.unique(chosen).tolist():
        places = (chosen == expert).nonzero()[:, 0]
        missing = -len(places) % experts.sgdsl_multiple
        given = functional.pad(hidden[places // top_k], (0, 0, 0, missing))
        found[places] = _expert(experts, expert, given)[: len(places)]
    weighted = found.view(num_rows, top_k, -1) * top_k_weights[..., None]
    total = weighted[:, 0]
    for each in range(1, top_k):
        total = total + weighted[:, each]
    return total.to(hidden.dtype)


def _expert(experts: Any, expert: int, rows: Tensor) -> Tensor:
    name = "gate_up_proj" if experts.has_gate else "up_proj"
    inner = _linear(experts, name, expert, rows)
    # Its own gate; where there is none, the activation.
    inner = experts._apply_gate(inner) if experts.has_gate else experts.act_fn(inner)  # noqa: SLF001
    out = _linear(experts, "down_proj", expert, inner)
    return experts.post_expert_norm(out) if experts.has_post_expert_norm else out


def _linear(experts: Any, name: str, expert: int, rows: Tensor) -> Tensor:
    weight: Tensor = getattr(experts, name)[expert]
    bias: Tensor | None = getattr(experts, f"{name}_bias")[expert] if experts.has_bias else None
    return functional.linear(rows, weight.t() if experts.is_transposed else weight, bias)


ALL_EXPERTS_FUNCTIONS.register(FILLED, filled_experts)
