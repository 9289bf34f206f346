"""Recorded decodes: which recording a batch goes to, and that replaying computes the batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from runtime.batch import Batch, Grant, build_batch
from runtime.executor.cuda_graph import DecodeGraphs, graph_sizes
from runtime.sequence import Sequence
from tests.tape import TapeRecorder

PAGE = 4


class Plan:
    """Keeps a batch's tokens in memory that stays; 1 is padding."""

    def __init__(self, num_rows: int) -> None:
        self.num_rows = num_rows
        self.tokens = torch.ones(num_rows, dtype=torch.int64)

    def renew(self, batch: Batch) -> None:
        self.tokens.fill_(1)
        self.tokens[: batch.num_rows] = torch.from_numpy(batch.token_ids).long()


TABLE = torch.arange(100.0)[:, None] * torch.tensor([1.0, -2.0])


def forward(plan: Plan) -> Tensor:
    hidden = TABLE[plan.tokens]
    hidden += hidden.flip(1).clone()
    return hidden.relu()


def graphs(sizes: list[int], recorder: TapeRecorder | None = None) -> DecodeGraphs[Plan]:
    recorder = recorder or TapeRecorder()
    return DecodeGraphs(forward, Plan, sizes=sizes, page_size=PAGE, recorder=recorder)


def batch_of(gaps: list[int], token: int = 3) -> Batch:
    grants = []
    for index, gap in enumerate(gaps):
        sequence = Sequence([token + index] * gap)
        sequence.pages = [index, index + 50]
        grants.append(Grant(sequence, 0, gap))
    return build_batch(grants, PAGE)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 80)), min_size=1, max_size=6))
def test_replays_compute_each_batch_anew(batches: list[tuple[int, int]]) -> None:
    recorder = TapeRecorder()
    recorded = graphs([2, 4, 8], recorder)
    for num_rows, token in batches:
        batch = batch_of([1] * num_rows, token)
        plan = Plan(num_rows)
        plan.renew(batch)
        found = recorded.run(batch)
        assert found is not None and torch.equal(found, forward(plan))
    assert recorder.num_replays == len(batches)


@pytest.mark.parametrize(
    ("gaps", "is_recorded"),
    [([1], True), ([1] * 4, True), ([1] * 5, False), ([1, 2], False), ([3], False)],
)
def test_only_decodes_of_few_enough_rows_are_replayed(gaps: list[int], is_recorded: bool) -> None:
    assert (graphs([2, 4]).run(batch_of(gaps)) is not None) == is_recorded


def test_sizes_that_there_is_no_memory_for_are_left_out() -> None:
    recorded = graphs([1, 2, 4, 8], TapeRecorder(too_large=4))
    assert recorded.sizes == [1, 2]
    assert recorded.run(batch_of([1] * 3)) is None


@given(st.integers(1, 600))
def test_padding_adds_a_half_at_most(max_rows: int) -> None:
    sizes = graph_sizes(max_rows)
    assert sizes == sorted(set(sizes)) and sizes[-1] == max_rows
    for num_rows in range(1, max_rows + 1):
        chosen = next(size for size in sizes if size >= num_rows)
        assert chosen <= max(num_rows + 1, num_rows * 3 / 2)


def waits(plan: Plan) -> Tensor:
    return TABLE[: int(plan.tokens[0])]


def decides(plan: Plan) -> Tensor:
    return forward(plan) if bool((plan.tokens == 1).all()) else TABLE


@pytest.mark.parametrize("work", [waits, decides])
def test_the_tape_is_as_strict_as_a_graph(work: Callable[[Plan], Tensor]) -> None:
    with pytest.raises(AssertionError, match="waits for the device"):
        DecodeGraphs(work, Plan, sizes=[2], page_size=PAGE, recorder=TapeRecorder())
