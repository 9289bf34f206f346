"""The model runner: a batch through the model, and its tokens out.

Owns one model, its attention and the order of tensor work in a step. The LM head is computed only
for the rows that draw or score a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from runtime.attention.base import AttentionBackend
from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.cache.store import PageStore
from runtime.executor.head import draw_tokens
from runtime.model.base import Model
from runtime.sampling.request import Sampled, SampleRequest, Top
from runtime.sampling.sampler import score, tops

SCORED_AT_ONCE = 256
"""Rows whose logits are in memory together: of 50,000 tokens they take 50 MB."""


@contextmanager
def memory_errors() -> Iterator[None]:
    """What torch raises when there is no memory, as Python does."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error
    except RuntimeError as error:
        if "can't allocate memory" not in str(error):  # of the CPU's allocator
            raise
        raise MemoryError(str(error)) from error


class ModelRunner:
    """An `Executor` over a real model."""

    overlaps = False  # the host is the device

    def __init__(self, model: Model, attention: AttentionBackend, pages: PageStore) -> None:
        self._model = model
        self._attention = attention
        self.pages = pages

    def copy(self, copies: Sequence[Copy]) -> None:
        self.pages.copy(copies)

    @torch.inference_mode()
    @memory_errors()
    def forward(self, batch: Batch) -> Tensor:
        """Hidden states of the rows whose logits are needed: those that draw, then those scored."""
        needed = np.concatenate([batch.sample_at, batch.score_at]).astype(np.int64)
        return self._model.hidden(
            torch.from_numpy(batch.token_ids.astype(np.int64)),
            torch.from_numpy(batch.positions.astype(np.int64)),
            self._attention.plan(batch),
            torch.from_numpy(needed),
        )

    @torch.inference_mode()
    @memory_errors()
    def sample(self, hidden: Tensor, batch: Batch, request: SampleRequest) -> Sampled:
        num_drawn = len(batch.sample_at)
        if len(hidden) == 0:
            return Sampled((), (), ())
        drawn = draw_tokens(self._model, hidden[:num_drawn], request)
        scores: list[float] = []
        score_tops: list[Top] = []
        for begin in range(0, len(batch.score_at), SCORED_AT_ONCE):
            logits = self._model.logits(hidden[num_drawn + begin :][:SCORED_AT_ONCE])
            bounds = batch.score_indptr[begin : begin + len(logits) + 1]
            scores += score(logits, batch.score_targets[bounds[0] : bounds[-1]], np.diff(bounds))
            score_tops += tops(logits, request.score_tops[begin : begin + len(logits)])
        return Sampled(drawn.tokens, drawn.logprobs, scores, drawn.tops, score_tops)
