"""Patterns that are large, deep or meant to hurt: lowered without blowing up, or refused."""

from __future__ import annotations

import pytest

from grammars import CompileBudgetError, Regex, UnsupportedError, accepts
from grammars.algebra import Algebra
from grammars.charset import utf8
from grammars.derive import walk
from grammars.errors import GrammarError
from grammars.regex import MAX_DEPTH, parse
from grammars.regex_equations import MAX_PLACES
from grammars.regex_lowering import lower_full

DEEP = 60_000


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("(?:a?){100000}", "a" * 50, "b"),
        ("a{3,100000}", "a" * 50, "aa"),
        ("((a{0,100}){0,100}){0,100}", "a" * 50, "b"),
        ("((a{0,50}b){0,50}){0,50}", "aab" * 20, "aaba"),
        ("[ab]*a[ab]{18}", "ba" + "b" * 18, "b" * 19),
        ("(x+x+)+y", "x" * 40 + "y", "x" * 40),
        ("(a|aa)+", "a" * 40, "a" * 40 + "b"),
        ("(?:(?=.*a.{4})(?=.*b.{4})[abc])*c{9}", "c" * 9, "ab"),
        (r"\w{1,100000}(?<!-)\b", "a" * 50, "-"),
        ("(" * DEEP + "a" + ")" * DEEP, "a", ""),
        ("(?=" * DEEP + "a" + ")" * DEEP + "a", "a", ""),
        ("(?:" * DEEP + "a|b" + ")" * DEEP, "b", ""),
        ("(?>" * DEEP + "a|ab" + ")" * DEEP, "a", "ab"),
        ("a" * 20_000, "a" * 20_000, "a"),
        ("|".join(rf"\bw{n}\b" for n in range(200)), "w7", "w777"),
        (r"\bfoo\b " * 50, "foo " * 50, "foo "),
    ],
    ids=range(16),
)
def test_a_hostile_pattern_is_lowered_without_blowing_up(pattern: str, yes: str, no: str) -> None:
    algebra = Algebra()
    node = lower_full(algebra, parse(pattern), utf8)
    assert walk(algebra, node, yes.encode()).nullable
    assert not walk(algebra, node, no.encode()).nullable
    assert len(algebra) < 50_000


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * DEEP + "a" + ")*" * DEEP,
        "(a|b" * DEEP + "a" + ")*" * DEEP,
        "(?=a" * DEEP + ")" * DEEP,
        "(?>a|b" * DEEP + ")" * DEEP,
        r"\b" * DEEP,
        "a(?!bc)" * 10_000,
    ],
    ids=range(6),
)
def test_a_pattern_that_is_too_deep_is_refused_with_its_column(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="levels of groups") as caught:
        parse(pattern)
    assert isinstance(caught.value.position, int)


def test_a_pattern_that_is_too_long_is_refused() -> None:
    with pytest.raises(CompileBudgetError, match="characters"):
        Regex("a|" * DEEP + "b" * DEEP * 2)


@pytest.mark.parametrize("pattern", ["(" * DEEP, ")" * DEEP, "[" * DEEP, "(?:" * DEEP + "*"])
def test_a_long_malformed_pattern_is_refused_as_such(pattern: str) -> None:
    with pytest.raises(GrammarError, match="malformed at column"):
        Regex(pattern)


@pytest.mark.parametrize(
    ("opening", "closing", "levels"),
    [("(a|b", ")*", MAX_DEPTH // 3), (r"(\ba|b", ")*", 38), ("(a(?!cd)|b", ")?", 24)],
)
def test_the_deepest_patterns_compile(opening: str, closing: str, levels: int) -> None:
    constraint = Regex(opening * levels + "b" + closing * levels)
    assert accepts(constraint, "b" * (levels + 1))
    with pytest.raises(UnsupportedError, match="levels of groups"):
        Regex(opening * levels * 2 + "b" + closing * levels * 2)


@pytest.mark.parametrize(
    "pattern", [rf"(?:\ba ){{1,{MAX_PLACES * 2}}}", rf"(?:(?!foo)\w){{{MAX_PLACES}}}"]
)
def test_rounds_with_look_around_are_bounded(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="places to follow") as caught:
        lower_full(Algebra(), parse(pattern), utf8)
    assert caught.value.position == 3
