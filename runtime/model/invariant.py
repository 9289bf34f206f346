"""A model of which a row's bits are the same in every batch.

Owns the padding: kernels for few rows add up in another order than those for more, and what is left
over of a vector is computed by other instructions. A batch that is filled up to a multiple of some
rows has neither. How many these are depends on the processor, and is tried out when the model is
loaded. Its attention is the business of `runtime.attention.invariant`.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from runtime.attention.base import AttentionKind, AttentionPlan
from runtime.errors import UnsupportedModelError
from runtime.model.base import Model
from runtime.model.general import GeneralModel
from runtime.model.probe import AlonePlan

MULTIPLES = (4, 8, 16, 32, 64)
"""Rows that are tried, the fewest that do are taken."""

LARGEST = 256
"""Rows that a batch is tried with, at most."""

COLUMNS = 16
"""Logits of few tokens are computed for a multiple of so many."""

SOME_COLUMNS = (1, 3, 16, 40, 100)


class InvariantModel:
    """`model`, over batches of whole multiples.

    Experts are filled up too, where transformers lets them be computed by others. Raises
    UnsupportedModelError where no multiple makes the model invariant: experts that are given as
    many rows as the batch happens to have for them.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.shape = model.shape
        self.attention_kinds: tuple[AttentionKind, ...] = model.attention_kinds
        for self._multiple in MULTIPLES:
            if isinstance(model, GeneralModel):
                model.fill_experts(self._multiple)
            if self._holds():
                return
        raise UnsupportedModelError(
            "batch_invariant=True cannot be had for this model on this processor: its rows depend "
            "on how many there are, whatever the batches are filled up to; choose a model without "
            "experts, or leave it off"
        )

    def hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        plan: AttentionPlan,
        needed: Tensor | None = None,
    ) -> Tensor:
        """See `Model`."""
        num_tokens = len(token_ids)
        missing = self._missing(num_tokens)
        ids, places = (
            functional.pad(token_ids, (0, missing)),
            functional.pad(positions, (0, missing)),
        )
        own = _Unfilled(plan, num_tokens)
        if needed is None:
            return self._model.hidden(ids, places, own)[:num_tokens]
        filled = functional.pad(needed, (0, self._missing(len(needed))))
        return self._model.hidden(ids, places, own, filled)[: len(needed)]

    def logits(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        """hidden: [num_rows, hidden_size]; tokens: int64 [num_tokens], None for all of them.
        Returns float32 [num_rows, num_tokens].
        """
        filled = functional.pad(hidden, (0, 0, 0, self._missing(len(hidden))))
        if tokens is None:
            return self._model.logits(filled)[: len(hidden)]
        columns = functional.pad(tokens, (0, -len(tokens) % COLUMNS))
        return self._model.logits(filled, columns)[: len(hidden), : len(tokens)]

    def _missing(self, num_rows: int) -> int:
        return -num_rows % self._multiple

    @torch.inference_mode()
    def _holds(self) -> bool:
        """Whether rows among others are what they are among fewer, and in another order."""
        vocab_size, multiple = self.shape.vocab_size, self._multiple
        generator = torch.Generator().manual_seed(0)
        tokens = torch.randint(vocab_size, (LARGEST,), generator=generator)
        positions = torch.randint(self.shape.context_len, (LARGEST,), generator=generator)
        order = torch.randperm(LARGEST, generator=generator)
        hidden = self.hidden(tokens, positions, AlonePlan())
        if not torch.equal(
            self.hidden(tokens[order], positions[order], AlonePlan()), hidden[order]
        ):
            return False
        few = hidden[:multiple]
        logits = self.logits(few)
        for num in {1, 3, multiple, multiple + 1, 2 * multiple, 5 * multiple, LARGEST // 2}:
            here = slice(LARGEST - num, LARGEST)
            if not torch.equal(
                self.hidden(tokens[here], positions[here], AlonePlan()), hidden[here]
            ):
                return False
            if num < LARGEST // 2 and not torch.equal(
                self.logits(hidden[:num])[:multiple], logits[:num]
            ):
                return False
        return all(
            torch.equal(self.logits(few, chosen), logits[:, chosen])
            for chosen in (order[:num] % vocab_size for num in SOME_COLUMNS)
        )


class _Unfilled:
    """An `AttentionPlan` of which the layers give more tokens than there are."""

    def __init__(self, plan: AttentionPlan, num_tokens: int) -> None:
        self._plan = plan
        self._num_tokens = num_tokens

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
        own = (each[: self._num_tokens] for each in (queries, keys, values))
        out = self._plan.run(layer, *own, kind=kind, sinks=sinks)
        return functional.pad(out, (0, 0, 0, 0, 0, len(queries) - self._num_tokens))
