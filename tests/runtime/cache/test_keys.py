"""Keys against a plain search through all of them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from runtime.cache.keys import Key, Keys, num_common

keys = st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple)


def naive_common(one: Key, other: Key) -> int:
    return max(num for num in range(len(one) + 1) if one[:num] == other[:num])


def prefix_free(found: list[Key]) -> list[Key]:
    return [key for key in set(found) if not any(o != key and o[: len(key)] == key for o in found)]


@given(st.lists(keys, max_size=12), keys)
def test_the_closest_key_shares_most_first_tokens(given_keys: list[Key], wanted: Key) -> None:
    held, there = Keys(), prefix_free(given_keys)
    for key in there:
        held.add(key)
    most = max((naive_common(key, wanted) for key in there), default=0)
    found = held.closest(wanted)
    assert most == (0 if found is None else found[1])
    if found is not None:
        assert found[0] in there
        assert naive_common(found[0], wanted) == found[1] == num_common(found[0], wanted)


@given(st.lists(keys, max_size=12), keys)
def test_what_a_key_covers_and_what_it_begins_with(given_keys: list[Key], wanted: Key) -> None:
    held, there = Keys(), prefix_free(given_keys)
    for key in there:
        held.add(key)
    covered = any(key[: len(wanted)] == wanted for key in there)
    assert held.covers(wanted) == covered
    if not covered:
        shorter = [key for key in there if wanted[: len(key)] == key]
        assert held.beginning_of(wanted) == (shorter[0] if shorter else None)


@given(st.lists(keys, max_size=12))
def test_what_was_removed_is_not_found(given_keys: list[Key]) -> None:
    held, there = Keys(), sorted(prefix_free(given_keys))
    for key in reversed(there):
        held.add(key)
    for key in there[::2]:
        held.remove(key)
    assert list(held) == there[1::2]


def test_only_what_is_there_can_be_removed() -> None:
    held = Keys()
    held.add((2,))
    with pytest.raises(AssertionError, match="only what was added"):
        held.remove((1,))
