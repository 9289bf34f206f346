"""The general path: transformers' own modelling code over our paged attention.

Owns running a causal language model's decoder on a packed batch. The attention is registered in
transformers' `AttentionInterface`; a step's plan travels as a keyword argument through the model's
layers, so nothing is ambient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import AttentionInterface

from runtime.attention.base import AttentionKind, AttentionPlan
from runtime.errors import UnsupportedModelError
from runtime.model.base import shape_of

ATTENTION = "sgdsl_paged"
UNSUPPORTED = ("sliding_window", "softcap", "s_aux")
"""What an architecture may ask of its attention and ours does not do yet."""

NUM_PROBED = 4
"""Tokens that a model is tried with when it is loaded."""


def paged_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    _attention_mask: Tensor | None,
    *,
    attention_plan: AttentionPlan,
    scaling: float | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature; query: [1, num_heads, num_tokens, head_dim]."""
    asked = [name for name in UNSUPPORTED if others.get(name) is not None]
    if asked:
        raise UnsupportedModelError(
            f"{type(module).__name__} asks for {', '.join(asked)}, which the engine's attention "
            "does not do yet; choose a model without it"
        )
    kind = AttentionKind(scale=query.shape[-1] ** -0.5 if scaling is None else scaling)
    layer: int = module.layer_idx  # type: ignore[assignment]
    queries, keys, values = (each[0].transpose(0, 1) for each in (query, key, value))
    out = attention_plan.run(layer, queries, keys, values, kind=kind)
    return out[None], None


AttentionInterface.register(ATTENTION, paged_attention)


class ProbePlan:
    """Every token attends to itself alone. `kinds`: what each layer asked for."""

    def __init__(self) -> None:
        self.kinds: dict[int, AttentionKind] = {}

    def run(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        kind: AttentionKind,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """See `AttentionPlan`."""
        assert sinks is None, "models that ask for it are refused"
        self.kinds[layer] = kind
        return values.repeat_interleave(queries.shape[1] // keys.shape[1], dim=1)


class GeneralModel:
    """A model of transformers, loaded with `attn_implementation=ATTENTION`.

    It is probed when it is made. Raises UnsupportedModelError when it does not run over the
    engine's attention.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._decoder = model.get_decoder()
        self._head: nn.Module = model.get_output_embeddings()
        self.shape = shape_of(model)
        self.attention_kinds = self._probe()

    @torch.inference_mode()
    def _probe(self) -> tuple[AttentionKind, ...]:
        """Take some tokens through every layer, so that what the architecture asks of its attention
        shows when the model is loaded, not in the middle of somebody's run.
        """
        positions = torch.arange(NUM_PROBED, device=self._model.device)
        tokens = positions * self.shape.vocab_size // NUM_PROBED  # one alone may be the padding's
        plan = ProbePlan()
        try:
            own = self.logits(self.hidden(tokens, positions, plan))
            whole = self._model(**self._inputs(tokens, positions, plan)).logits[0].float()
        except (RuntimeError, TypeError, ValueError, LookupError, AttributeError) as cause:
            if isinstance(cause, UnsupportedModelError):
                raise
            reason = str(cause).partition("\n")[0]
            raise UnsupportedModelError(
                f"{type(self._decoder).__name__} does not run over the engine's attention "
                f"({type(cause).__name__}: {reason}); choose a model of another family"
            ) from cause
        if not torch.allclose(own, whole, rtol=1e-3, atol=1e-4):
            raise UnsupportedModelError(
                f"{type(self._model).__name__} scales or caps what its output layer gives, which "
                "the engine does not do yet; choose a model of another family"
            )
        return tuple(dict.fromkeys(plan.kinds.values()))

    def hidden(self, token_ids: Tensor, positions: Tensor, plan: AttentionPlan) -> Tensor:
        """token_ids, positions: int64 [num_tokens]; returns [num_tokens, hidden_size]."""
        out = self._decoder(**self._inputs(token_ids, positions, plan))
        hidden: Tensor = out.last_hidden_state[0]
        return hidden

    @staticmethod
    def _inputs(token_ids: Tensor, positions: Tensor, plan: AttentionPlan) -> dict[str, Any]:
        return {
            "input_ids": token_ids[None],
            "position_ids": positions[None],
            "use_cache": False,
            "attention_plan": plan,
        }

    def logits(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """hidden: [num_rows, hidden_size]; tokens: int64 [num_tokens], None for all of them.
        Returns float32 [num_rows, num_tokens].
        """
        head: Any = self._head
        if tokens is None or type(head) is not nn.Linear:
            logits: Tensor = head(hidden).float()
            return logits if tokens is None else logits[:, tokens]
        bias: Tensor | None = head.bias
        chosen = None if bias is None else bias[tokens]
        return functional.linear(hidden, head.weight[tokens], chosen).float()
