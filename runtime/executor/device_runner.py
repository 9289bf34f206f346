"""The model runner of a GPU: a batch through the model there, and its tokens out.

Owns the order of a step's work on the device, which is that of the calls: all of it is enqueued on
one stream. A step copies to the device twice: what the forward pass reads, and, when the masks have
been filled behind that, what the draws read. The host waits once, when it reads what was drawn. By
then the next step may have been enqueued: what was drawn lies on the device, where that one finds
it. Decodes are replayed where they were recorded (`cuda_graph`).

The CPU's runner is `runtime.executor.runner`. This one has no split of the LM head by masks: a GPU
computes all logits faster than it would gather some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from runtime.attention.flashinfer import FlashInferAttention, FlashInferPlan
from runtime.attention.static_decodes import StaticDecodes
from runtime.batch import Batch
from runtime.cache.copies import Copy
from runtime.executor.base import Pending
from runtime.executor.cuda_graph import DecodeGraphs, Recorder
from runtime.executor.readback import Found, Readback, Tops
from runtime.executor.runner import SCORED_AT_ONCE, memory_errors
from runtime.model.base import Model
from runtime.sampling.batched import draw_rows, send
from runtime.sampling.request import Sampled, SampleRequest


class DeviceRunner:
    """An `Executor` over a model on a GPU. max_drawn: tokens that a step draws, at most."""

    overlaps = True

    def __init__(self, model: Model, attention: FlashInferAttention, *, max_drawn: int) -> None:
        self._model = model
        self._attention = attention
        # By the last step. Recordings read it where it is.
        self._drawn = torch.zeros(max_drawn, dtype=torch.int64, device=attention.pool.device)
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

    def _hidden(self, plan: StaticDecodes | FlashInferPlan) -> Tensor:
        return self._model.hidden(self._known(plan.inputs.token_ids), plan.inputs.positions, plan)

    def _known(self, token_ids: Tensor) -> Tensor:
        """With what the last step has drawn. A row that had nothing to draw has failed, when that
        is known; until then it goes on with some token.
        """
        drawn = self._drawn[(-1 - token_ids).clamp(min=0)].clamp(min=0)
        return torch.where(token_ids < 0, drawn, token_ids)

    def forward(self, batch: Batch) -> Tensor:
        """Hidden states of the rows whose logits are needed: those that draw, then those scored."""
        with self._on_device():
            hidden = None if self._graphs is None else self._graphs.run(batch)
            if hidden is None:
                plan = self._attention.plan(batch)
                return self._hidden(plan)[plan.inputs.needed]
            # The usual step: every row draws, in order, and none is scored.
            if len(batch.sample_at) == batch.num_rows and len(batch.score_at) == 0:
                return hidden.clone()  # the next step is written where this one lies
            return hidden[self._sent(np.concatenate([batch.sample_at, batch.score_at]))[0]]

    def _sent(self, *indices: NDArray[np.int32]) -> list[Tensor]:
        """Indices on the device, in one copy that nobody waits for."""
        return [each.long() for each in self._attention.staging.send(indices)]

    def sample(self, hidden: Tensor, batch: Batch, request: SampleRequest) -> Pending:
        if len(hidden) == 0:
            return Sampled((), (), ())
        with self._on_device():
            num_drawn = len(batch.sample_at)
            scores, score_tops = self._score(hidden[num_drawn:], batch, request)
            tokens, logprobs, tops = self._draw(hidden[:num_drawn], request)
            wanted = [index for index, row in enumerate(request.rows) if row.wants_logprob]
            found = Found(tokens, wanted, logprobs, tops, scores, score_tops)
            self._drawn[:num_drawn] = tokens
            return Readback(found)

    def _score(
        self, hidden: Tensor, batch: Batch, request: SampleRequest
    ) -> tuple[list[Tensor], list[Tops]]:
        """Of each `score_targets`, and of each `score_at`, some at a time."""
        if not len(batch.score_at):
            return [], []
        num_targets = np.diff(batch.score_indptr)
        places = np.repeat(np.arange(len(batch.score_at), dtype=np.int32), num_targets)
        rows, targets = self._sent(places, batch.score_targets)
        scores, score_tops = list[Tensor](), list[Tops]()
        for begin in range(0, len(batch.score_at), SCORED_AT_ONCE):
            end = min(begin + SCORED_AT_ONCE, len(batch.score_at))
            here = slice(batch.score_indptr[begin], batch.score_indptr[end])
            logits = self._model.logits(hidden[begin:end])
            scores.append(logits.log_softmax(-1)[rows[here] - begin, targets[here]])
            score_tops.append(self._tops(logits, request.score_tops[begin:end]))
        return scores, score_tops

    def _tops(self, logits: Tensor, nums: Sequence[int]) -> Tops:
        """As many as `nums` says of each row."""
        asked = np.flatnonzero(np.asarray(nums, dtype=np.int32)).astype(np.int32)
        if not len(asked):
            return Tops(nums)
        most = min(max(nums), logits.shape[1])
        logprobs, tokens = logits[self._sent(asked)[0]].log_softmax(-1).topk(most)
        return Tops(nums, logprobs, tokens)

    def _draw(self, hidden: Tensor, request: SampleRequest) -> tuple[Tensor, Tensor, Tops]:
        """Tokens, the log-probabilities of those rows that ask for them, and the likeliest ones."""
        rows = request.rows
        if not rows:
            return hidden.new_empty(0, dtype=torch.int64), hidden.new_empty(0), Tops(())
        asked = send(request, self._attention.staging)
        logits = self._model.logits(hidden)
        found = self._tops(logits, [row.num_top for row in rows])
        wanted = np.flatnonzero([row.wants_logprob for row in rows]).astype(np.int32)
        if not len(wanted):
            return draw_rows(logits, rows, asked), logits.new_empty(0), found
        (index,) = self._sent(wanted)
        known = logits[index].log_softmax(-1)  # the model's own: before masks and penalties
        drawn = draw_rows(logits, rows, asked)
        chosen = known.gather(1, drawn[index].clamp(min=0)[:, None])[:, 0]
        return drawn, chosen, found
