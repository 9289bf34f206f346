"""What a model is to the engine: packed ragged rows in, hidden states and logits out.

Owns the protocol and the numbers that the engine's sizes follow from. Which code runs the layers is
each model's own business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from runtime.attention.base import AttentionKind, AttentionPlan


@dataclass(frozen=True, slots=True)
class ModelShape:
    """What the engine's sizes follow from. widest: columns of a layer's widest tensor, at most."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_len: int
    widest: int


class Model(Protocol):
    """Runs over an attention plan, which keeps its KV. attention_kinds: each that its layers ask
    for, once.
    """

    shape: ModelShape
    attention_kinds: tuple[AttentionKind, ...]

    def hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        plan: AttentionPlan,
        needed: Tensor | None = None,
    ) -> Tensor:
        """token_ids, positions: int64 [num_tokens]; needed: int64 [num_needed] tokens whose hidden
        states are asked for, None for all of them in order. Returns [num_needed, hidden_size].
        """

    def logits(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """hidden: [num_rows, hidden_size]; tokens: int64 [num_tokens], None for all of them.
        Returns float32 [num_rows, num_tokens].
        """


def shape_of(model: Any) -> ModelShape:
    """The shape of a causal language model of transformers."""
    config = model.config.get_text_config()
    heads = config.num_attention_heads
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    return ModelShape(
        num_layers=config.num_hidden_layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=model.get_output_embeddings().weight.shape[0],
        context_len=context_len_of(config),
        widest=widest_of(config, qkv=(heads + 2 * kv_heads) * head_dim),
    )


MLP_SIZES = ("intermediate_size", "n_inner", "ffn_dim")
"""What families call the columns of an MLP; where there are none, they are 4 times the hidden ones.
"""


def widest_of(config: Any, *, qkv: int) -> int:
    """Columns of a layer's widest tensor: `qkv`, those of query, key and value together, or gate
    and up side by side, of all experts that a token is sent to.
    """
    sizes = [getattr(config, name, None) or 0 for name in MLP_SIZES]
    mlp = max(sizes) or 4 * config.hidden_size
    expert = getattr(config, "moe_intermediate_size", None) or mlp
    num_experts = getattr(config, "num_experts_per_tok", None) or 1
    return max(qkv, 2 * mlp, 2 * expert * num_experts)


CHANGING_ROPES = ("dynamic", "longrope")
"""Kinds of rotary embedding whose frequencies are others as soon as a text is longer than what the
model was made for first: in a batch they would depend on the neighbours, and keys that are stored
would be of the wrong ones.
"""


def context_len_of(config: Any) -> int:
    """Tokens of a text, at most, so that all positions are rotated by the same frequencies."""
    ropes = getattr(config, "rope_parameters", None) or {}
    context_len: int = config.max_position_embeddings
    for rope in [ropes, *(each for each in ropes.values() if isinstance(each, dict))]:
        if rope.get("rope_type") in CHANGING_ROPES:
            first = rope.get("original_max_position_embeddings") or getattr(
                config, "original_max_position_embeddings", None
            )
            context_len = min(context_len, first or context_len)
    return context_len
