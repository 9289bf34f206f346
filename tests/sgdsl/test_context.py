"""Seeds, and where they come from."""

from __future__ import annotations

from hypothesis import given, strategies as st

from sgdsl.context import seed_for
from sgdsl.seeds import derive_seed


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**41), st.integers(0, 2**41))
def test_different_indices_give_different_seeds(seed: int, first: int, second: int) -> None:
    same = derive_seed(seed, first) == derive_seed(seed, second)
    assert same == (first == second)
    assert 0 <= derive_seed(seed, first) < 2**63


def test_any_whole_number_is_a_seed() -> None:
    assert seed_for(7) == 7
    assert seed_for(-1) == 2**64 - 1
    assert seed_for(None) != seed_for(None)
