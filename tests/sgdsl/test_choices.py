"""The three choice methods against their definitions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

import sgdsl as sgl
from sgdsl.choices import ChoiceScores, ChoicesMethod, pick

logprobs = st.floats(-20.0, 0.0)
tables = st.lists(st.lists(logprobs, min_size=1, max_size=4), min_size=1, max_size=5)
METHODS = (
    sgl.token_length_normalized,
    sgl.greedy_token_selection,
    sgl.unconditional_likelihood_normalized,
)


def best(method: ChoicesMethod, scores: ChoiceScores) -> int:
    return pick(method, scores, temperature=0.0, draw=0.0).index


@given(tables)
def test_token_length_normalized_takes_the_highest_mean(table: list[list[float]]) -> None:
    means = [sum(row) / len(row) for row in table]
    assert best(sgl.token_length_normalized, ChoiceScores(table)) == means.index(max(means))


@given(tables, st.data())
def test_unconditional_takes_the_highest_mean_gain(
    table: list[list[float]], data: st.DataObject
) -> None:
    unconditional = [data.draw(st.lists(logprobs, min_size=len(r), max_size=len(r))) for r in table]
    gains = [
        sum(row) / len(row) - sum(base) / len(base)
        for row, base in zip(table, unconditional, strict=True)
    ]
    scores = ChoiceScores(table, unconditional)
    index = best(sgl.unconditional_likelihood_normalized, scores)
    assert gains[index] == pytest.approx(max(gains), abs=1e-9)


def test_greedy_keeps_the_rows_with_the_columns_maximum() -> None:
    # The first column keeps rows 1 and 2, the second decides for 2; row 0 has the best mean.
    table = [[-0.6, -0.1], [-0.5, -9.0], [-0.5, -8.0]]
    assert best(sgl.greedy_token_selection, ChoiceScores(table)) == 2
    assert best(sgl.token_length_normalized, ChoiceScores(table)) == 0


def test_greedy_pads_shorter_rows_with_their_mean() -> None:
    # Row 0 is padded with -1.0, which beats -2.0.
    assert best(sgl.greedy_token_selection, ChoiceScores([[-1.0], [-1.0, -2.0]])) == 0
    assert best(sgl.greedy_token_selection, ChoiceScores([[-1.0], [-1.0, -0.5]])) == 1


def test_an_exact_zero_counts_in_the_mean() -> None:
    assert best(sgl.token_length_normalized, ChoiceScores([[0.0, -4.0], [-2.5]])) == 0


def test_greedy_probabilities_are_those_of_sampling_along_common_prefixes() -> None:
    half = math.log(0.5)
    table = [[half, math.log(0.8)], [half, math.log(0.2)], [math.log(0.25)]]
    probabilities = pick(
        sgl.greedy_token_selection, ChoiceScores(table), temperature=0.0, draw=0.0
    ).probabilities
    assert probabilities == pytest.approx((2 / 3 * 0.8, 2 / 3 * 0.2, 1 / 3))


@given(tables, st.sampled_from(METHODS), st.sampled_from([0.0, 1e-300, 0.5, 1.0, 7.0]))
def test_probabilities_sum_to_one(
    table: list[list[float]], method: ChoicesMethod, temperature: float
) -> None:
    scores = ChoiceScores(table, [[-1.0] for _ in table])
    choice = pick(method, scores, temperature=temperature, draw=0.5)
    assert math.isclose(sum(choice.probabilities), 1.0)
    assert 0 <= choice.index < len(table)


def test_draws_above_temperature_zero_follow_the_probabilities() -> None:
    scores = ChoiceScores([[math.log(0.75)], [math.log(0.25)]])
    for draw, index in [(0.0, 0), (0.74, 0), (0.76, 1), (0.999, 1)]:
        method = sgl.token_length_normalized
        assert pick(method, scores, temperature=1.0, draw=draw).index == index


def test_a_tiny_temperature_takes_the_best() -> None:
    scores = ChoiceScores([[-50.0], [-49.0]])
    method = sgl.token_length_normalized
    assert pick(method, scores, temperature=1e-300, draw=0.99).index == 1


def test_impossible_choices_are_never_drawn_and_all_impossible_are_equal() -> None:
    method = sgl.token_length_normalized
    some = pick(method, ChoiceScores([[-math.inf], [-3.0]]), temperature=1.0, draw=0.0)
    assert (some.index, some.probabilities) == (1, (0.0, 1.0))
    none = pick(method, ChoiceScores([[-math.inf], [-math.inf]]), temperature=1.0, draw=0.6)
    assert (none.index, none.probabilities) == (1, (0.5, 0.5))


@pytest.mark.parametrize(
    "scores",
    [
        ChoiceScores([]),
        ChoiceScores([[-1.0], []]),
        ChoiceScores([[math.nan]]),
        ChoiceScores([[-1.0]], [[-1.0], [-2.0]]),
    ],
)
def test_nonsense_from_a_backend_is_its_error(scores: ChoiceScores) -> None:
    with pytest.raises(sgl.BackendError, match="a select needs"):
        pick(sgl.token_length_normalized, scores, temperature=0.0, draw=0.0)


@pytest.mark.parametrize("unconditional", [None, [[-math.inf]]])
def test_missing_unconditional_scores_are_the_backends_error(
    unconditional: list[list[float]] | None,
) -> None:
    scores = ChoiceScores([[-1.0]], unconditional)
    with pytest.raises(sgl.BackendError, match="without"):
        pick(sgl.unconditional_likelihood_normalized, scores, temperature=0.0, draw=0.0)


def test_meta_info_is_in_the_order_of_the_choices() -> None:
    scores = ChoiceScores([[-1.0, -3.0], [-1.0]], [[-4.0], [-6.0]])
    method = sgl.unconditional_likelihood_normalized
    choice = pick(method, scores, temperature=0.0, draw=0.0)
    meta = choice.meta(["a", "b"], scores, method=method)
    assert choice.index == 1
    assert meta["choices"] == ["a", "b"]
    assert meta["normalized_prompt_logprobs"] == [-2.0, -1.0]
    assert meta["input_token_logprobs"] == [
        [(-1.0, None, None), (-3.0, None, None)],
        [(-1.0, None, None)],
    ]
    assert meta["output_token_logprobs"] == [[], []]
    assert meta["normalized_unconditional_prompt_logprobs"] == [2.0, 5.0]
    assert meta["unconditional_token_logprobs"] == [[(-4.0, None, None)], [(-6.0, None, None)]]
    assert "greedy_logprob_matrix" not in meta


def test_tokens_are_told_where_the_backend_knows_them() -> None:
    scores = ChoiceScores([[-1.0, -3.0], [-1.5]], tokens=[[(7, "a"), (8, "b")], [(9, "c")]])
    method = sgl.greedy_token_selection
    choice = pick(method, scores, temperature=0.0, draw=0.0)
    meta = choice.meta(["ab", "c"], scores, method=method)
    assert meta["input_token_logprobs"] == [[(-1.0, 7, "a"), (-3.0, 8, "b")], [(-1.5, 9, "c")]]
    assert meta["greedy_logprob_matrix"] == [[-1.0, -3.0], [-1.5, -1.5]]
    assert "unconditional_token_logprobs" not in meta


def test_a_token_that_is_certain_counts_in_the_mean() -> None:
    scores = ChoiceScores([[0.0, -1.0], [-0.6]])
    assert pick(sgl.token_length_normalized, scores, temperature=0.0, draw=0.0).index == 0
    gains = ChoiceScores([[-1.0], [-1.0, -1.0]], [[-2.0], [0.0, -3.0]])
    assert sgl.unconditional_likelihood_normalized.log_weights(gains) == [1.0, 0.5]
