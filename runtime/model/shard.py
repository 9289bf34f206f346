"""A model's weights over several processes: each has some of the heads and of the MLP's columns.

Owns which part of which weights a process keeps, by transformers' own plan for the family
(`base_model_tp_plan`), applied from outside the model. Two kinds of layers are split: "colwise"
ones, of which a process computes some outputs, and "rowwise" ones, which read them and whose
outputs are summed over all processes. Everything else is whole everywhere: embedding, norms, head.

Source: Shoeybi et al., Megatron-LM (arXiv:1909.08053). How processes sum is `ranks.add_up`'s
business (`runtime.executor.ranks`).
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from torch import Tensor, nn

from sgdsl.errors import UsageError

REPLICATED = "replicated"
HEADS = ("num_attention_heads", "num_key_value_heads")
SIZES = (*HEADS, "intermediate_size")


class Ranks(Protocol):
    """The processes that compute one model together, as one of them sees them."""

    rank: int
    num_ranks: int

    def add_up(self, part: Tensor) -> None:
        """Make `part`, in place, the sum of what all processes have there."""


def check_shardable(config: Any, num_ranks: int) -> None:
    """Raises UsageError where the model's family or its sizes cannot be split so."""
    plan: dict[str, str] = getattr(config, "base_model_tp_plan", None) or {}
    kinds = {kind for kind in plan.values() if not kind.startswith(REPLICATED)}
    if kinds != {"colwise", "rowwise"}:
        raise UsageError(
            f"tensor_parallel={num_ranks}: models of the type {config.model_type!r} cannot be split"
            f" over processes here (transformers' plan: {', '.join(sorted(kinds)) or 'none'}); use"
            " tensor_parallel=1"
        )
    for name in SIZES:
        size = getattr(config, name, None) or config.num_attention_heads
        if size % num_ranks:
            raise UsageError(
                f"tensor_parallel={num_ranks}: the model's {name} is {size}, which cannot be"
                f" divided by {num_ranks}; give a divisor of it"
            )


def shard(decoder: nn.Module, config: Any, ranks: Ranks) -> None:
    """Leave of a decoder of transformers what this process keeps. Its config says from then on how
    many heads that are.
    """
    check_shardable(config, ranks.num_ranks)
    heads = config.num_attention_heads
    config.head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    rules = [
        (re.compile(re.escape(name).replace(r"\*", r"\d+")), kind)
        for name, kind in config.base_model_tp_plan.items()
    ]
    for name, module in decoder.named_modules():
        for pattern, kind in rules:
            if pattern.fullmatch(name.removeprefix("decoder.")) and not kind.startswith(REPLICATED):
                _split(module, kind, ranks)
    for name in HEADS:
        setattr(config, name, (getattr(config, name, None) or heads) // ranks.num_ranks)


def _split(linear: nn.Linear, kind: str, ranks: Ranks) -> None:
    dim = 0 if kind == "colwise" else 1
    weight = linear.weight.data.chunk(ranks.num_ranks, dim)[ranks.rank]
    linear.weight = nn.Parameter(weight.clone(), requires_grad=False)
    linear.out_features, linear.in_features = weight.shape
    bias: Tensor | None = linear.bias
    if kind == "colwise":
        if bias is not None:
            own = bias.data.chunk(ranks.num_ranks)[ranks.rank]
            linear.bias = nn.Parameter(own.clone(), requires_grad=False)
        return
    if bias is not None and ranks.rank > 0:
        linear.register_parameter("bias", None)  # the first process alone adds it
    linear.register_forward_hook(lambda _module, _args, out: _summed(out, ranks))


def _summed(out: Tensor, ranks: Ranks) -> Tensor:
    ranks.add_up(out)
    return out
