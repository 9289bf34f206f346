"""The model runner: a batch through the model, and its tokens out.

Owns one model, its KV pool and the order of tensor work in a step. The LM head is computed only for
the rows that draw or score a token.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from runtime.attention.torch import plan_attention
from runtime.batch import Batch
from runtime.cache.kv import KVPool
from runtime.model.general import GeneralModel
from runtime.sampling.request import Sampled, SampleRequest
from runtime.sampling.sampler import sample, score


class ModelRunner:
    """An `Executor` over a real model."""

    def __init__(self, model: GeneralModel, pool: KVPool) -> None:
        self._model = model
        self._pool = pool

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Hidden states of the rows whose logits are needed: those that draw, then those scored."""
        plan = plan_attention(batch, self._pool)
        hidden = self._model.hidden(
            torch.from_numpy(batch.token_ids.astype(np.int64)),
            torch.from_numpy(batch.positions.astype(np.int64)),
            plan,
        )
        needed = np.concatenate([batch.sample_at, batch.score_at]).astype(np.int64)
        return hidden[torch.from_numpy(needed)]

    @torch.inference_mode()
    def sample(self, hidden: Tensor, batch: Batch, request: SampleRequest) -> Sampled:
        num_drawn = len(batch.sample_at)
        if len(hidden) == 0:
            return Sampled((), (), ())
        logits = self._model.logits(hidden)
        tokens, logprobs = sample(logits[:num_drawn], request)
        return Sampled(tokens, logprobs, score(logits[num_drawn:], batch.score_targets))
