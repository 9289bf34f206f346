"""A pattern that is looked for while the text grows, against `re.search` on every beginning."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import example, given, settings, strategies as st

from grammars import (
    CompileBudgetError,
    EmptyLanguageError,
    GrammarError,
    UnsupportedError,
    search as search_module,
)
from grammars.search import LAZY, Found, Search, searched

PATTERNS = [
    "ab",
    "a+b",
    "a.*b",
    "(ab|ba)+c",
    "b{2,4}",
    "a[^b]{0,3}c",
    "^b",
    "(?m)^b",
    "(?m)^a.?$",
    "b$",
    r"\bab\b",
    r"\Bb",
    "(?<=a)b",
    "(?<!a)b+",
    "a(?!b)c|bb",
    "(?=b).c",
    "(?i)AB?c",
    "é+\n",
    "a++c",
    "(?s:a.b)",
    "[^abc ]",
    "�",
]
texts = st.text("abc é\n\udc80", max_size=30)


def found(pattern: str, text: str) -> Found | None:
    """By its definition: the first beginning of the text in which `re` finds something."""
    shown = text.replace("\udc80", "�")
    for end in range(1, len(text) + 1):
        if match := re.search(pattern, shown[:end]):
            return Found(match.start(), end)
    return None


@settings(max_examples=250, deadline=None)
@given(st.sampled_from(PATTERNS), texts, st.lists(st.integers(1, 6), min_size=1))
@example("(?m)^b", "a\nb", [3])
def test_a_pattern_is_found_where_re_first_finds_it(
    pattern: str, text: str, steps: list[int]
) -> None:
    search, size, given_steps = Search(searched(pattern)), 0, list(steps)
    settled, expected = 0, found(pattern, text)
    while size < len(text):
        size = min(len(text), size + (given_steps.pop() if given_steps else 3))
        here = search.find(text[:size])
        if here is not None:
            assert here == expected
            assert settled <= here.start
            return
        now = search.num_settled(text[:size])
        assert settled <= now <= size
        settled = now
    assert expected is None


def test_what_cannot_be_the_beginning_of_a_match_is_settled() -> None:
    search = Search(searched("\n\nQ"))
    assert [search.num_settled(text) for text in ("a", "a\n", "a\n\n", "a\n\nb", "a\n\nb\n")] == [
        1, 1, 1, 4, 4,
    ]  # fmt: skip


def test_where_too_many_beginnings_are_open_nothing_more_is_settled() -> None:
    """Each `a` may begin a match that is told from the others by how far it is."""
    search, text = Search(searched("a[a-z]{0,90}9")), "x" + "a" * 60
    for size in range(1, len(text) + 1):
        search.num_settled(text[:size])
    assert search.num_settled(text + " !") == 1
    assert search.find(text + "9") == Found(1, len(text) + 1)


@pytest.mark.parametrize(
    ("pattern", "error", "message"),
    [
        ("(a", GrammarError, "column 0"),
        (r"(a)\1", UnsupportedError, "back-reference"),
        ("a*", GrammarError, "matches the empty text"),
        ("foo(?=bar)", EmptyLanguageError, "never found"),
        ("(?<=ab)c", UnsupportedError, "look-behind of more than one"),
    ],
)
def test_a_pattern_that_cannot_be_looked_for_is_refused(
    pattern: str, error: type[GrammarError], message: str
) -> None:
    with pytest.raises(error, match=message):
        searched(pattern)


HOSTILE = ["(a+)+b", "(a|a)*b", "(a|aa)+$b|c", ".*.*.*=b", "([a-z]+)*!", "(?:a?){40}a{40}b"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_what_makes_a_backtracking_search_explode_takes_time_that_grows_with_the_text(
    pattern: str,
) -> None:
    search, text = Search(searched(pattern)), "a" * 20_000
    began = time.thread_time()
    assert all(search.find(text[:size]) is None for size in range(0, len(text), 8))
    assert time.thread_time() - began < 10  # `re` would not be done before the sun goes out


def test_states_without_end_are_refused_in_the_middle_and_begun_anew_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Which of the last 300 characters were `a` is remembered: a state for every text."""
    monkeypatch.setattr(search_module, "LAZY", LAZY._replace(max_bytes=2 << 20, max_seconds=30.0))
    monkeypatch.setattr(search_module, "BACK", search_module.BACK._replace(max_seconds=30.0))
    pattern = "a[ab]{300}c"
    worn = searched(pattern)
    search = Search(worn)
    text = "".join(random.Random(0).choices("ab", k=20_000))
    sizes = range(0, len(text), 8)
    with pytest.raises(CompileBudgetError, match="takes more than 2 MiB"):
        any(search.find(text[:size]) for size in sizes)
    assert worn.is_worn
    assert searched(pattern) is not worn
    assert Search(searched(pattern)).find("b" + "a" * 301 + "c") == Found(1, 303)
