"""The model runner of a GPU: a batch through the model there, and its tokens out.

Owns the order of a step's work on the device. A step copies to it twice: what the forward pass
reads, and, when the masks have been filled behind that, what the draws read. It waits once, for the
tokens. Decodes are replayed where they were recorded (`cuda_graph`).

The CPU's runner is `runtime.executor.runner`. This one has no split of the LM head by masks: a GPU
computes all logits faster than it would gather some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor

from runtime.attention.flashinfer import FlashInferAttention
from runtime.attention.static_decodes import StaticDecodes
from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.executor.cuda_graph import DecodeGraphs, Recorder
from runtime.executor.runner import SCORED_AT_ONCE, memory_errors
from runtime.model.base import Model
from runtime.sampling.batched import draw_rows, send
from runtime.sampling.request import Sampled, SampleRequest, Top
from runtime.sampling.sampler import score, tops


class DeviceRunner:
    """An `Executor` over a model on a GPU."""

    def __init__(self, model: Model, attention: FlashInferAttention) -> None:
        self._model = model
        self._attention = attention
        self._graphs: DecodeGraphs[StaticDecodes] | None = None

    @contextmanager
    def _on_device(self) -> Iterator[None]:
        """Whichever thread calls: kernels are launched where the model is, out of memory is told as
        Python does.
        """
        device = self._attention.pool.device
        there = torch.cuda.device(device) if device.type == "cuda" else nullcontext()
        with torch.inference_mode(), memory_errors(), there:
            yield

    def record(self, sizes: Sequence[int], *, max_pages: int, recorder: Recorder) -> list[int]:
        """Record decodes of these numbers of rows, each with at most `max_pages` pages; which of
        them there was memory for.
        """
        attention = self._attention
        pool = attention.pool
        with self._on_device():
            indices = torch.zeros(max(sizes) * max_pages, dtype=torch.int32, device=pool.device)
            self._graphs = DecodeGraphs(
                self._hidden,
                lambda size: StaticDecodes(attention, size, kv_indices=indices[: size * max_pages]),
                sizes=sizes,
                page_size=pool.page_size,
                recorder=recorder,
            )
        return self._graphs.sizes

    def copy(self, copies: Sequence[Copy]) -> None:
        with self._on_device():
            self._attention.pool.copy(copies)

    def _hidden(self, plan: StaticDecodes) -> Tensor:
        return self._model.hidden(plan.inputs.token_ids, plan.inputs.positions, plan)

    def forward(self, batch: Batch) -> Tensor:
        """Hidden states of the rows whose logits are needed: those that draw, then those scored."""
        with self._on_device():
            hidden = None if self._graphs is None else self._graphs.run(batch)
            if hidden is None:
                plan = self._attention.plan(batch)
                hidden = self._model.hidden(plan.inputs.token_ids, plan.inputs.positions, plan)
                return hidden[plan.inputs.needed]
            # The usual step: every row draws, in order, and none is scored.
            if len(batch.sample_at) == batch.num_rows and len(batch.score_at) == 0:
                return hidden.clone()  # the next step is written where this one lies
            needed = [*batch.sample_at.tolist(), *batch.score_at.tolist()]
            return hidden[torch.tensor(needed, dtype=torch.int64, device=hidden.device)]

    def sample(self, hidden: Tensor, batch: Batch, request: SampleRequest) -> Sampled:
        if len(hidden) == 0:
            return Sampled((), (), ())
        with self._on_device():
            num_drawn = len(batch.sample_at)
            tokens, logprobs, found = self._draw(hidden[:num_drawn], request)
            scores, score_tops = self._score(hidden[num_drawn:], batch, request)
        return Sampled(tokens, logprobs, scores, found, score_tops)

    def _score(
        self, hidden: Tensor, batch: Batch, request: SampleRequest
    ) -> tuple[list[float], list[Top]]:
        """Of each `score_targets`, and of each `score_at`."""
        scores: list[float] = []
        score_tops: list[Top] = []
        for begin in range(0, len(batch.score_at), SCORED_AT_ONCE):
            logits = self._model.logits(hidden[begin : begin + SCORED_AT_ONCE])
            bounds = batch.score_indptr[begin : begin + len(logits) + 1]
            scores += score(logits, batch.score_targets[bounds[0] : bounds[-1]], np.diff(bounds))
            score_tops += tops(logits, request.score_tops[begin : begin + len(logits)])
        return scores, score_tops

    def _draw(
        self, hidden: Tensor, request: SampleRequest
    ) -> tuple[list[int], list[float], list[Top]]:
        """Tokens, their log-probabilities where asked for, and the likeliest ones."""
        rows = request.rows
        if not rows:
            return [], [], []
        asked = send(request, self._attention.staging)
        logits = self._model.logits(hidden)
        found = tops(logits, [row.num_top for row in rows])
        wanted = [index for index, row in enumerate(rows) if row.wants_logprob]
        known = logits[wanted].log_softmax(-1)  # the model's own: before masks and penalties
        drawn = draw_rows(logits, rows, asked)
        tokens: list[int] = drawn.tolist()
        logprobs = [0.0] * len(rows)
        if wanted:
            chosen = known.gather(1, drawn[wanted].clamp(min=0)[:, None])[:, 0].tolist()
            for index, logprob in zip(wanted, chosen, strict=True):
                logprobs[index] = logprob if tokens[index] >= 0 else 0.0
        return tokens, logprobs, found
