"""What is known ahead of a sequence, and how much of the budgets is used."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import sgdsl as sgl
from runtime.foresight import MEMORY, Ahead, Holder, Usage, foresee, peak_pages
from sgdsl.graph import DEFAULT_SAMPLING


@sgl.function
def program(s: sgl.ProgramState) -> None:
    s += "x" * 9 + sgl.gen("a", max_tokens=5) + "y" * 4 + sgl.gen("b")
    s += sgl.gen("c", max_tokens=7, n=3)
    s += sgl.select("d", ["four", "five!"])


def test_literals_and_budgets_of_a_graph_are_counted() -> None:
    nodes = program.trace().nodes
    assert foresee(nodes, DEFAULT_SAMPLING) == (6, 5 + 128 + 3 * 7)  # 22 bytes
    assert foresee(nodes, DEFAULT_SAMPLING, until_parked=True) == (4, 5 + 128)
    assert foresee([], DEFAULT_SAMPLING) == (0, 0)


def test_all_of_a_budget_is_expected_until_less_is_seen() -> None:
    usage, ahead = Usage(), Ahead(end=113, literals=3)
    assert usage.expected(ahead, 10) == (3, 100)
    assert usage.expected(ahead, 60) == (3, 50)
    assert usage.expected(ahead, 112) == (1, 0)
    assert usage.expected(ahead, 200) == (0, 0), "it knows more than was foreseen"
    for _ in range(10 * MEMORY):
        usage.saw(20, 100)
    assert usage.share == pytest.approx(0.2, abs=0.01)
    assert usage.expected(ahead, 10) in [(3, 20), (3, 21)]
    assert usage.expected(ahead, 60) in [(3, 10), (3, 11)]
    usage.was_too_low()
    assert usage.expected(ahead, 10) == (3, 100)


def test_what_is_seen_later_weighs_more() -> None:
    usage = Usage()
    for share in (0, 100):
        for _ in range(10 * MEMORY):
            usage.saw(share, 100)
        assert usage.share == pytest.approx(share / 100, abs=0.01)


def test_a_generation_without_a_budget_says_nothing() -> None:
    usage = Usage()
    usage.saw(0, 0)
    assert usage.share == 1.0


holders = st.builds(
    Holder,
    num_tokens=st.integers(1, 30),
    num_steps=st.integers(0, 20),
    num_pages=st.integers(0, 4),
    num_own=st.integers(0, 4),
).filter(lambda holder: holder.num_own <= holder.num_pages <= -(-holder.num_tokens // 4))


@given(st.lists(holders, max_size=8))
def test_the_peak_is_that_of_a_simulation_step_by_step(together: list[Holder]) -> None:
    size, needed = 4, [0]
    for step in range(21):
        here = [holder for holder in together if holder.num_steps >= step]
        gone = [holder for holder in together if holder.num_steps < step]
        pages = sum(-(-(each.num_tokens + step) // size) - each.num_pages for each in here)
        needed.append(pages - sum(each.num_own for each in gone))
    assert peak_pages(together, size) == max(needed)
