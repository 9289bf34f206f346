"""The rows that need few logits are drawn as if all of them were there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from torch import Tensor

from runtime.attention.base import AttentionKind, AttentionPlan
from runtime.executor.head import FEW, draw_tokens
from runtime.model.base import ModelShape
from runtime.sampling.request import NO_TOKEN, SampleRequest, SampleRow
from runtime.sampling.sampler import sample, tops, unpack

VOCAB, HIDDEN = 200, 6
NUM_WORDS = -(-VOCAB // 32)


class Matrix:
    """A head alone. Its entries are small whole numbers, so that no sum is rounded. `computed`: how
    many tokens' logits were asked for of how many rows.
    """

    def __init__(self, weights: Tensor) -> None:
        self.shape = ModelShape(1, 1, 1, 1, VOCAB, 100, 1)
        self.attention_kinds: tuple[AttentionKind, ...] = (AttentionKind(scale=1.0),)
        self.computed: list[tuple[int, int]] = []
        self._weights = weights

    def hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        plan: AttentionPlan,
        needed: Tensor | None = None,
    ) -> Tensor:
        raise AssertionError("only the head is under test")

    def logits(self, hidden: Tensor, tokens: Tensor | None = None) -> Tensor:
        weights = self._weights if tokens is None else self._weights[tokens]
        self.computed.append((len(hidden), len(weights)))
        return hidden @ weights.T


def masks(allowed: list[list[int] | None]) -> NDArray[np.int32]:
    bits = np.zeros((len(allowed), NUM_WORDS * 32), dtype=np.uint8)
    for row, tokens in zip(bits, allowed, strict=True):
        row[slice(None) if tokens is None else tokens] = 1
    return np.packbits(bits, axis=1, bitorder="little").view(np.int32)


sample_rows = st.builds(
    SampleRow,
    temperature=st.sampled_from([0.0, 0.0, 0.7, 1.5]),
    top_k=st.sampled_from([-1, 2]),
    top_p=st.sampled_from([1.0, 0.8]),
    draw=st.floats(0, 1, exclude_max=True),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    counts=st.dictionaries(st.integers(0, VOCAB - 1), st.integers(1, 3)),
    wants_logprob=st.sampled_from([False, False, True]),
    num_top=st.sampled_from([0, 0, 0, 3]),
)
tokens = st.integers(0, VOCAB - 1)
few = st.lists(tokens, max_size=8, unique=True)
many = st.lists(tokens, min_size=60, max_size=120, unique=True)


@settings(max_examples=150)
@given(st.lists(st.tuples(sample_rows, st.none() | few | few | many)), st.integers(0, 2**31))
def test_tokens_and_log_probabilities_are_those_of_all_logits(
    asked: list[tuple[SampleRow, list[int] | None]], seed: int
) -> None:
    torch.manual_seed(seed)
    model = Matrix(torch.randint(-3, 4, (VOCAB, HIDDEN)).float())
    hidden = torch.randint(-3, 4, (len(asked), HIDDEN)).float()
    rows = [row for row, _ in asked]
    bitmask = masks([allowed for _, allowed in asked])
    given_mask = None if all(allowed is None for _, allowed in asked) else bitmask
    drawn = draw_tokens(model, hidden, SampleRequest(rows, given_mask))
    logits = model.logits(hidden)
    expected, logprobs = sample(logits, rows, unpack(bitmask, VOCAB)) if rows else ([], [])
    assert drawn.tokens == expected
    assert drawn.logprobs == pytest.approx(logprobs, abs=1e-6)
    assert [[token for _, token in top] for top in drawn.tops] == [
        [token for _, token in top] for top in tops(logits, [row.num_top for row in rows])
    ]


def test_the_head_is_computed_for_what_can_be_drawn() -> None:
    greedy = SampleRow()
    allowed: list[list[int] | None] = [[5, 9], None, [9, 70, 71], list(range(100)), [3]]
    rows = [greedy, greedy, greedy, greedy, replace(greedy, wants_logprob=True)]
    model = Matrix(torch.ones(VOCAB, HIDDEN))
    draw_tokens(model, torch.ones(5, HIDDEN), SampleRequest(rows, masks(allowed)))
    assert model.computed == [(2, 4), (3, VOCAB)]


def test_narrow_rows_stay_few_together() -> None:
    width = VOCAB // FEW // 4
    allowed: list[list[int] | None] = [
        list(range(width * index, width * (index + 1))) for index in range(8)
    ]
    model = Matrix(torch.ones(VOCAB, HIDDEN))
    request = SampleRequest([SampleRow()] * 8, masks(allowed))
    draw_tokens(model, torch.ones(8, HIDDEN), request)
    assert model.computed == [(4, 4 * width), (4, VOCAB)]


def test_no_row_computes_nothing_and_a_row_without_a_token_says_so() -> None:
    model = Matrix(torch.ones(VOCAB, HIDDEN))
    assert draw_tokens(model, torch.ones(0, HIDDEN), SampleRequest([])).tokens == []
    assert model.computed == []
    request = SampleRequest([SampleRow(), SampleRow()], masks([[], [4]]))
    assert draw_tokens(model, torch.ones(2, HIDDEN), request).tokens == [NO_TOKEN, 4]
