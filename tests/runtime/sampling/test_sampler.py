"""The draw against its definition, and against the frequencies that it promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from runtime.sampling.random import stream_key, uniform
from runtime.sampling.request import NO_TOKEN, SampleRow
from runtime.sampling.sampler import draw, sample, score, unpack

VOCAB = 70

logit_rows = st.lists(st.floats(-8, 8, width=32), min_size=VOCAB, max_size=VOCAB)


def kept(logits: torch.Tensor, row: SampleRow) -> set[int]:
    """The tokens that top-k, top-p and min-p leave, by their definitions."""
    weights = (logits.double() / row.temperature).softmax(-1)
    order = weights.argsort(descending=True, stable=True).tolist()
    total, found = 0.0, set()
    for rank, token in enumerate(order):
        in_top_k = row.top_k < 1 or rank < row.top_k
        in_top_p = row.top_p == 1.0 or total < row.top_p
        in_min_p = weights[token] >= row.min_p * weights[order[0]]
        if rank == 0 or (in_top_k and in_top_p and in_min_p):
            found.add(token)
        total += float(weights[token])
    return found


@settings(deadline=None)
@given(
    logit_rows,
    st.builds(
        SampleRow,
        temperature=st.floats(0.2, 3.0),
        top_p=st.sampled_from([1.0, 0.9, 0.5, 0.01]),
        top_k=st.sampled_from([-1, 2, 5, 100]),
        min_p=st.sampled_from([0.0, 0.05, 0.5]),
        draw=st.floats(0, 1, exclude_max=True),
    ),
)
def test_a_draw_is_among_what_the_parameters_leave(values: list[float], row: SampleRow) -> None:
    logits = torch.tensor(values)
    assert draw(logits, row) in kept(logits, row)


@pytest.mark.parametrize(
    "row",
    [
        SampleRow(temperature=0.7),
        SampleRow(temperature=1.3, top_k=4),
        SampleRow(temperature=1.0, top_p=0.8),
    ],
)
def test_frequencies_are_the_model_s_probabilities(row: SampleRow) -> None:
    torch.manual_seed(0)
    logits = torch.randn(12) * 2
    left = sorted(kept(logits, row))
    expected = (logits[left].double() / row.temperature).softmax(-1)
    num = 20_000
    counts = dict.fromkeys(left, 0)
    for i in range(num):
        drawn = SampleRow(
            temperature=row.temperature, top_k=row.top_k, top_p=row.top_p, draw=(i + 0.5) / num
        )
        counts[draw(logits, drawn)] += 1
    found = np.array([counts[token] for token in left]) / num
    assert np.abs(found - expected.numpy()).max() < 1e-3


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=VOCAB, max_size=VOCAB).filter(any), st.integers(0, 2**31))
def test_a_mask_is_obeyed_even_against_the_model(allowed: list[bool], seed: int) -> None:
    torch.manual_seed(seed)
    logits = torch.randn(2, VOCAB) * 5
    logits[:, ~torch.tensor(allowed)] += 50
    bits = np.zeros(96, dtype=np.uint8)
    bits[:VOCAB] = allowed
    row = np.packbits(bits, bitorder="little").view(np.int32)
    bitmask = np.stack([row, np.full(3, -1, dtype=np.int32)])
    assert unpack(bitmask, VOCAB)[0].tolist() == allowed
    rows = [SampleRow(temperature=2.0, draw=0.999999), SampleRow()]
    tokens, _ = sample(logits, rows, unpack(bitmask, VOCAB))
    assert allowed[tokens[0]]
    assert tokens[1] == int(logits[1].argmax())


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    torch.manual_seed(1)
    logits = torch.randn(8, VOCAB)
    rows = [SampleRow(temperature=0.5 + i / 4, draw=i / 8, top_k=i or -1) for i in range(8)]
    together, _ = sample(logits, rows)
    alone = [sample(logits[i : i + 1], [rows[i]])[0][0] for i in range(8)]
    assert together == alone


def test_penalties_lower_what_was_written() -> None:
    logits = torch.zeros(1, 5)
    logits[0, 2] = 1.0
    row = SampleRow(frequency_penalty=0.4, presence_penalty=0.3, counts={2: 2})
    tokens, _ = sample(logits, [row])
    assert tokens[0] != 2  # 1.0 - 2 * 0.4 - 0.3 < 0
    tokens, _ = sample(logits, [SampleRow(frequency_penalty=0.4, counts={2: 2})])
    assert tokens[0] == 2
    assert logits[0, 2] == 1.0, "the model's own logits stay"


def test_scores_and_logprobs_are_the_model_s_own() -> None:
    torch.manual_seed(2)
    logits = torch.randn(3, VOCAB)
    known = logits.log_softmax(-1)
    targets = np.array([1, 5, 69, 5], dtype=np.int32)
    found = score(logits, targets, np.array([1, 0, 3], dtype=np.int32))
    assert found == pytest.approx(
        [float(known[i, t]) for i, t in zip((0, 2, 2, 2), targets, strict=True)]
    )
    rows = [SampleRow(temperature=0.3, draw=0.5, wants_logprob=True), SampleRow(), SampleRow()]
    tokens, logprobs = sample(logits, rows)
    assert logprobs == pytest.approx([float(known[0, tokens[0]]), 0.0, 0.0])


def test_random_numbers_are_uniform_and_independent_of_each_other() -> None:
    numbers = np.array(
        [uniform(stream_key(7, branch), i) for branch in range(4) for i in range(4000)]
    )
    assert ((numbers >= 0) & (numbers < 1)).all()
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert np.abs(counts - len(numbers) / 20).max() < 5 * np.sqrt(len(numbers) / 20)
    streams = numbers.reshape(4, -1)
    assert np.abs(np.corrcoef(streams) - np.eye(4)).max() < 0.06
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03


@pytest.mark.parametrize("temperature", [1e-310, 1e-6, 100.0])
def test_no_temperature_makes_a_draw_nonsense(temperature: float) -> None:
    logits = torch.tensor([0.0, 5.0, 1.0])
    drawn = {draw(logits, SampleRow(temperature=temperature, draw=u / 100)) for u in range(100)}
    assert drawn == ({1} if temperature < 1 else {0, 1, 2})


def test_a_row_with_nothing_to_draw_says_so_and_its_neighbours_draw() -> None:
    logits = torch.zeros(3, VOCAB)
    logits[0, 4] = torch.nan
    logits[1, 5] = 1.0
    bitmask = np.full((3, 3), -1, dtype=np.int32)
    bitmask[2] = 0
    rows = [SampleRow(temperature=1.0, draw=0.5), SampleRow(wants_logprob=True), SampleRow()]
    tokens, _ = sample(logits, rows, unpack(bitmask, VOCAB))
    assert tokens == [NO_TOKEN, 5, NO_TOKEN]
