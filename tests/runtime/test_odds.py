"""What a token more costs, as measured, and what that makes of a guess."""

from __future__ import annotations

import random

import pytest

from runtime.odds import MAX_AGE, Rate, StepCosts


def measured(fixed: float, each: float, sizes: list[int], noise: float = 0.0) -> StepCosts:
    """Steps that take `fixed` seconds or `each` a token, whichever is more; some are disturbed."""
    draws, costs = random.Random(1), StepCosts()
    for _ in range(20):
        for size in sizes:
            seconds = max(fixed, each * size)
            disturbed = noise * fixed * (draws.random() < 0.3)
            costs.saw(size, seconds + disturbed, num_drawn=size)
    return costs


@pytest.mark.parametrize("noise", [0.0, 10.0])
def test_a_row_alone_pays_little_and_a_full_step_as_much_as_it_gets(noise: float) -> None:
    costs = measured(1.0, 1 / 32, [1, 2, 5, 9, 16, 32, 64, 80, 128, 256], noise)
    assert costs.price(1, 1) < 0.05
    assert costs.price(16, 16) < 0.4
    assert costs.price(64, 64) == pytest.approx(1.0, abs=0.2)


def test_one_slow_step_does_not_make_guesses_dear() -> None:
    costs = measured(1.0, 1 / 32, [1, 256])
    before = costs.price(1, 1)
    costs.saw(5, 60.0, num_drawn=5)
    assert costs.price(1, 1) == before


def test_before_anything_was_measured_a_row_alone_guesses() -> None:
    assert StepCosts().price(1, 1) < 0.1
    assert StepCosts().price(64, 64) > 0.5


def test_what_was_measured_long_ago_counts_no_more() -> None:
    """Half of the machine was somebody else's then."""
    costs = measured(1.0, 0.5, [1, 8, 64])
    for _ in range(MAX_AGE + 1):
        costs.saw(1, 0.5, num_drawn=1)
        costs.saw(32, 0.5, num_drawn=32)
    assert costs.price(1, 1) < 0.05


def test_a_prompt_s_tokens_are_cheaper_than_drawn_ones() -> None:
    drawn, prompt = StepCosts(), StepCosts()
    for costs, num_drawn in ((drawn, 512), (prompt, 1)):
        costs.saw(1, 1.0, num_drawn=1)
        costs.saw(512, 8.0, num_drawn=num_drawn)
    assert prompt.price(1, 1) > drawn.price(1, 1)


def test_a_rate_begins_with_what_was_thought_and_ends_with_what_was_seen() -> None:
    rate = Rate(0.9, 4.0)
    assert rate.chance == pytest.approx(0.9)
    assert rate.over(0.2) == pytest.approx(0.2)
    for _ in range(100):
        rate.saw(False)
    assert rate.chance < 0.15
    for _ in range(200):
        rate.saw(True)
    assert rate.chance > 0.95
