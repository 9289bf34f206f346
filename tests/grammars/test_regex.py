"""Patterns against `re.fullmatch`; what is refused, and where."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings, strategies as st

from grammars import GrammarError, Regex, UnsupportedError, accepts
from grammars.algebra import Algebra
from grammars.charset import utf8
from grammars.derive import matches
from grammars.regex import parse
from grammars.regex_lowering import lower_search
from grammars.regex_tree import ECMA
from tests.grammars import strategies as sg


@given(sg.patterns, st.lists(sg.texts, min_size=1, max_size=10))
@settings(max_examples=400, deadline=None)
def test_a_pattern_accepts_what_fullmatch_accepts(pattern: str, texts: list[str]) -> None:
    constraint = Regex(pattern)
    for text in texts:
        assert accepts(constraint, text) == bool(re.fullmatch(pattern, text)), text


@given(sg.anchored_patterns, st.lists(sg.texts, min_size=1, max_size=10))
@example("a$\n", ["a\n", "a"])
@example("(^|a)b$|c", ["b", "ab", "c"])
@example(r"(a$|b)\n?", ["a\n", "b\n", "a"])
@settings(max_examples=400, deadline=None)
def test_anchors_hold_where_re_says_so(pattern: str, texts: list[str]) -> None:
    try:
        constraint = Regex(pattern)
        found = [accepts(constraint, text) for text in texts]
    except UnsupportedError:
        return
    except GrammarError:  # nothing matches
        found = [False] * len(texts)
    assert found == [bool(re.fullmatch(pattern, text)) for text in texts]


@given(sg.patterns, st.sampled_from(["(?i)", "(?s)", "(?a)", "(?x)", "(?is)"]), sg.texts)
@settings(max_examples=200, deadline=None)
def test_flags_mean_what_they_mean_to_re(pattern: str, flags: str, text: str) -> None:
    assert accepts(Regex(flags + pattern), text) == bool(re.fullmatch(flags + pattern, text))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"\x41\u00e9\U0001F422\t\\\.", "Aé🐢\t\\.", "Aé🐢\t\\x"),
        (r"[]a]+[^]b]", "]a]c", "]a]b"),
        (r"[a\-z]+", "a-z", "b"),
        (r"[\d_-]+", "1_-", "a"),
        (r"a{,2}b{3}c{2,}", "aabbbcc", "aaabbbcc"),
        ("a{x}{", "a{x}{", "a"),
        (r"(?P<year>\d{4})-(?:\d\d)(?#comment)", "2024-02", "2024-2"),
        (r"\N{EM DASH}\060\0", "\u201400"[:2] + "\0", "—0"),
        ("(?i:straße)K", "STRAßEK", "STRASSEK"),
        ("(?x) a b # comment\n c", "abc", "a b c"),
        ("", "", " "),
        ("a||b", "", "ab"),
    ],
)
def test_the_syntax_of_re(pattern: str, yes: str, no: str) -> None:
    assert re.fullmatch(pattern, yes), "the example is right"
    assert accepts(Regex(pattern), yes)
    assert not accepts(Regex(pattern), no)


MALFORMED = {
    "a(b": 1,
    "ab)": 2,
    "[a": 0,
    "a**": 2,
    "*a": 0,
    r"a\q": 1,
    "[b-a]": 1,
    "a{3,2}": 1,
    r"\x4": 0,
    "(?P<1>a)": 0,
    "\\": 1,
    "(?Pa)": 0,
}
NOT_SUPPORTED = {
    "a(?=b)": 1,
    "a(?!b)": 1,
    "(?<=a)b": 0,
    "(?<!a)b": 0,
    r"(a)\1": 3,
    r"ab\b": 2,
    r"\Ba": 0,
    "(?>a)": 0,
    "a*+": 2,
    "(?P<x>a)(?P=x)": 8,
    "(a)?(?(1)b|c)": 4,
    "(?m)^a": 0,
    "(" * 60_000 + "a" + ")" * 60_000: 100,
}


@pytest.mark.parametrize(("pattern", "column"), MALFORMED.items())
def test_a_malformed_pattern_is_refused_at_once_with_its_column(pattern: str, column: int) -> None:
    with pytest.raises(GrammarError) as caught:
        Regex(pattern)
    assert not isinstance(caught.value, UnsupportedError)
    assert caught.value.position == column
    assert "malformed" in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "column"), NOT_SUPPORTED.items(), ids=range(len(NOT_SUPPORTED))
)
def test_what_is_not_supported_is_refused_with_its_column(pattern: str, column: int) -> None:
    with pytest.raises(UnsupportedError) as caught:
        Regex(pattern)
    assert caught.value.position == column


def test_an_anchor_inside_a_repetition_is_refused_by_the_compile() -> None:
    with pytest.raises(UnsupportedError) as caught:
        accepts(Regex("a(b|^)*"), "ab")
    assert caught.value.position == 1


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("abcd", ["xabcdx"], ["abc"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("^a$", ["a"], ["a\n", "ba"]),
        (r"^\d$", ["1"], ["٣"]),
        (r"^\w\s$", ["a\u00a0", "a\ufeff"], ["é "]),
        ("^.$", ["a", "🐢"], ["\n", "\r", "\u2028"]),
        (r"^\/\-\cA\u{1F422}$", ["/-\x01🐢"], ["/-A🐢"]),
        (r"^\ud83d\udc22[^]$", ["🐢\n"], ["🐢"]),
        ("^[]$", [], ["", "]"]),
        ("^(?<name>a{2})$", ["aa"], ["a"]),
        ("", ["", "x"], []),
        ("^{$|^x{,2}$", ["{", "x{,2}"], ["xx"]),
    ],
)
def test_the_ecma_dialect_searches(pattern: str, yes: list[str], no: list[str]) -> None:
    algebra = Algebra()
    node = lower_search(algebra, parse(pattern, ECMA), utf8)
    assert [matches(algebra, node, text.encode()) for text in yes] == [True] * len(yes)
    assert [matches(algebra, node, text.encode()) for text in no] == [False] * len(no)


@given(sg.anchored_patterns.filter(lambda p: "\\A" not in p and "\\Z" not in p), sg.texts)
@settings(max_examples=200, deadline=None)
def test_a_search_finds_what_re_finds(pattern: str, text: str) -> None:
    algebra = Algebra()
    try:
        node = lower_search(algebra, parse(pattern, ECMA), utf8)
    except GrammarError:
        return
    found = re.search(pattern.replace("$", r"\Z"), text, re.ASCII)
    assert matches(algebra, node, text.encode()) == bool(found)


@given(st.text(alphabet=r"ab01()[]{}*+?|^$\.-,:<>=!PxuUNdwsiA ", max_size=14))
@settings(max_examples=500, deadline=None)
def test_any_text_is_a_pattern_or_a_clear_error(pattern: str) -> None:
    position: object = None
    try:
        Regex(pattern)
    except GrammarError as error:
        position = error.position
    else:
        position = re.compile(pattern)  # what we take, re takes too
    assert position is not None
