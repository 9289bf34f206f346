"""The protocol between the models and whatever computes their attention.

Owns the words that both sides use. A backend lays a batch out once a step; the model's layers run
over that plan one after another. Knows no backend, and nothing of the layers around an attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from runtime.batch import Batch


@dataclass(frozen=True, slots=True)
class AttentionKind:
    """What a layer asks of its attention, besides its tensors.

    scale: scores are queries times keys times this. window: a token attends to the last so many
    tokens, itself included; None: to all. (FlashInfer's `window_left` is one less, -1 for None.)
    soft_cap: scores become soft_cap * tanh(score / soft_cap), before any are masked; None: they
    stay. (FlashInfer's `logits_soft_cap`.)
    """

    scale: float
    window: int | None = None
    soft_cap: float | None = None


class AttentionPlan(Protocol):
    """What a step's attention needs besides queries, keys and values. Every layer of the step runs
    over the same plan.
    """

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
        """queries: [num_tokens, num_heads, head_dim]; keys, values: [num_tokens, num_kv_heads,
        head_dim] of the new tokens, which are stored in the KV pool where they have a slot; of a
        tree (`Batch.trees`) that is done after the pages of its row are read. sinks: [num_heads], a
        score more in each softmax, whose weight goes to no value. Returns what `queries` is like.
        """


class AttentionBackend(Protocol):
    """Computes attention over the pages of one KV pool, for models that ask for the kinds that it
    was made for.
    """

    def plan(self, batch: Batch) -> AttentionPlan: ...
