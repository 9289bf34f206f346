"""The best that a cache could do is brute force over all earlier sequences."""

from __future__ import annotations

from hypothesis import given, strategies as st

from benchmarks.hits import Asked, Reuse, best_reuse

TOKENS = st.lists(st.integers(0, 2), max_size=8)
REQUESTS = st.lists(st.builds(Asked, TOKENS, TOKENS), max_size=6)


def common(a: list[int], b: list[int]) -> int:
    size = 0
    while size < min(len(a), len(b)) and a[size] == b[size]:
        size += 1
    return size


@given(REQUESTS)
def test_it_is_the_longest_prefix_of_any_earlier_sequence(requests: list[Asked]) -> None:
    earlier: list[list[int]] = []
    known = 0
    for each in requests:
        prompt, output = list(each.prompt), list(each.output)
        longest = max((common(prompt, other) for other in earlier), default=0)
        known += min(longest, max(0, len(prompt) - 1))
        earlier += [prompt, prompt + output[:-1]]
    total = sum(len(each.prompt) for each in requests)
    assert best_reuse(requests) == Reuse(total, known)


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    assert best_reuse([Asked([1, 2, 3]), Asked([1, 2, 3])]) == Reuse(6, 2)


def test_a_turn_finds_what_the_turn_before_has_written_but_for_its_last_token() -> None:
    turns = [Asked([1, 2], [3, 4]), Asked([1, 2, 3, 4, 5])]
    assert best_reuse(turns) == Reuse(7, 3)


def test_nothing_asked_is_no_rate() -> None:
    assert best_reuse([]).rate == 0
