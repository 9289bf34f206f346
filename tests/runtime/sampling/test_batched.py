"""Draws of a batch on the device against the draw of one row on the host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from runtime.device.staging import Staging
from runtime.sampling.batched import ROWS_AT_ONCE, draw_rows, send
from runtime.sampling.request import NO_TOKEN, SampleRequest, SampleRow
from runtime.sampling.sampler import sample, unpack

VOCAB = 70

sample_rows = st.builds(
    SampleRow,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 4.0]),
    top_p=st.sampled_from([1.0, 0.9, 0.5, 0.01]),
    top_k=st.sampled_from([-1, 1, 2, 9, 1000]),
    min_p=st.sampled_from([0.0, 0.05, 0.9]),
    draw=st.floats(0, 1, exclude_max=True),
    frequency_penalty=st.sampled_from([0.0, 0.7, -0.3]),
    presence_penalty=st.sampled_from([0.0, 1.1]),
    counts=st.dictionaries(st.integers(0, VOCAB - 1), st.integers(1, 3), max_size=4),
)


def drawn_together(
    logits: torch.Tensor, rows: list[SampleRow], bitmask: np.ndarray[Any, Any] | None
) -> list[int]:
    asked = send(SampleRequest(rows, bitmask), Staging(torch.device("cpu")))
    found: list[int] = draw_rows(logits.clone(), rows, asked).tolist()
    return found


@given(st.lists(sample_rows, min_size=1, max_size=6), st.booleans(), st.integers(0, 2**32 - 1))
def test_every_row_draws_what_it_draws_alone(
    rows: list[SampleRow], masked: bool, seed: int
) -> None:
    chosen = np.random.default_rng(seed)
    logits = torch.from_numpy(chosen.normal(size=(len(rows), VOCAB)).astype(np.float32) * 3)
    bitmask = None
    if masked:
        bitmask = chosen.integers(-(2**31), 2**31, size=(len(rows), 3)).astype(np.int32)
        bitmask &= chosen.integers(-(2**31), 2**31, size=bitmask.shape).astype(np.int32)
        bitmask[chosen.random(len(rows)) < 0.1] = 0  # nothing is allowed
    allowed = None if bitmask is None else unpack(bitmask, VOCAB)
    wanted, _ = sample(logits, rows, allowed)
    assert drawn_together(logits, rows, bitmask) == wanted
    alone = [
        drawn_together(logits[i : i + 1], [row], None if bitmask is None else bitmask[i : i + 1])[0]
        for i, row in enumerate(rows)
    ]
    assert alone == wanted


@pytest.mark.parametrize("fault", [torch.nan, torch.inf])
def test_a_row_whose_logits_are_no_numbers_has_no_token_and_harms_no_other(fault: float) -> None:
    logits = torch.zeros(3, VOCAB)
    logits[1, 5] = fault
    logits[2, 6] = 9.0
    rows = [SampleRow(temperature=1.0, draw=0.51), SampleRow(temperature=1.0), SampleRow()]
    assert drawn_together(logits, rows, None) == [35, NO_TOKEN, 6]


def test_more_rows_than_are_drawn_at_once() -> None:
    num_rows = 2 * ROWS_AT_ONCE + 3
    logits = torch.randn(num_rows, VOCAB, generator=torch.Generator().manual_seed(0))
    rows = [SampleRow(temperature=0.8, draw=i / num_rows) for i in range(num_rows)]
    assert drawn_together(logits, rows, None) == sample(logits, rows)[0]


def test_staging_copies_even_to_the_host_itself() -> None:
    """The next step writes its arrays over these, while the device may still read the copy."""
    staging = Staging(torch.device("cpu"))
    first = staging.send([np.arange(5, dtype=np.int32), np.empty(0, np.int32)])
    for _ in range(3):
        staging.send([np.full(9, 7, dtype=np.int32)])
    assert [each.tolist() for each in first] == [[0, 1, 2, 3, 4], []]
    target = torch.zeros(4, dtype=torch.int32)
    staging.send_into(target, [np.array([[1], [2]], dtype=np.int32), np.array([3], dtype=np.int32)])
    assert target.tolist() == [1, 2, 3, 0]
    assert staging.send([]) == []
