"""The history against a set of all prefixes that ever were."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from runtime.cache.history import History, chain_of

PAGE = 2

prompts = st.lists(st.lists(st.integers(0, 1), max_size=9), max_size=30)


@settings(max_examples=200, deadline=None)
@given(prompts, st.integers(0, 9))
def test_what_came_before_is_known_in_whole_pages(texts: list[list[int]], limit: int) -> None:
    history, seen = History(page_size=PAGE, reach=1000), set[tuple[int, ...]]()
    for text in texts:
        known = 0
        while known + PAGE <= min(limit, len(text)) and tuple(text[: known + PAGE]) in seen:
            known += PAGE
        assert history.note(0, text, limit=limit) == known
        seen.update(tuple(text[:end]) for end in range(PAGE, len(text) + 1, PAGE))


def test_what_is_cached_is_known_to_who_comes_behind_it() -> None:
    history = History(page_size=PAGE, reach=1000)
    first = chain_of(7, (1, 1))
    history.add(first)
    history.add(chain_of(first, (2, 2)))
    assert history.note(7, [1, 1, 2, 2, 3, 3], limit=6) == 4
    assert history.note(first, [2, 2, 3, 3], limit=4) == 4
    assert history.note(8, [1, 1, 2, 2], limit=4) == 0, "another salt begins elsewhere"


def test_its_memory_is_bounded_and_reaches_back_as_far_as_it_says() -> None:
    history = History(page_size=1, reach=100)
    for token in range(10_000):
        history.note(0, [token], limit=1)
        assert len(history._young) + len(history._old) <= 200
    for token in range(9_999, 9_900, -1):
        assert history.note(0, [token], limit=1) == 1
    assert history.note(0, [5_000], limit=1) == 0
