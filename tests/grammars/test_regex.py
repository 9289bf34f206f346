"""Patterns against `re.fullmatch`; what is refused, and where."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import example, given, settings, strategies as st

from grammars import GrammarError, Regex, UnsupportedError, accepts, regex
from grammars.algebra import Algebra
from grammars.charset import utf8
from grammars.derive import matches
from grammars.regex import parse
from grammars.regex_lowering import lower_full, lower_search
from grammars.regex_tree import ECMA, PYTHON, Dialect
from tests.grammars import strategies as sg

_NAMES = {
    "L": "L",
    "Letter": "L",
    "Lu": "Lu",
    "Uppercase_Letter": "Lu",
    "gc=N": "N",
    "digit": "Nd",
    "General_Category=Punctuation": "P",
    "Zs": "Zs",
    "Cn": "Cn",
    "Mark": "M",
    "Any": "",
}


@given(sg.patterns, st.lists(sg.texts, min_size=1, max_size=10))
@settings(max_examples=200, deadline=None)
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
@settings(max_examples=100, deadline=None)
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


@pytest.mark.parametrize("name", _NAMES)
@pytest.mark.parametrize("dialect", [PYTHON, ECMA], ids=["python", "ecma"])
def test_a_property_is_a_general_category(name: str, dialect: Dialect) -> None:
    algebra = Algebra()
    written = (rf"\p{{{name}}}", rf"[\p{{{name}}}]", rf"[^\P{{{name}}}]")
    node, *others = [lower_full(algebra, parse(pattern, dialect), utf8) for pattern in written]
    assert others == [node, node]
    for char in "aÀǅʰ中\u0301⃝9Ⅷ½_-(»!+$^©\u2028\x00\u00ad\ue000\u0378🐢 ":
        is_in = unicodedata.category(char).startswith(_NAMES[name])
        assert matches(algebra, node, char.encode()) == is_in


def test_a_pattern_with_properties_keeps_its_columns() -> None:
    assert accepts(Regex(r"\p{L}+\d"), "é1")
    for pattern, column in ((r"\p{L}[\p{Lu}](", 13), (r"\p{L}\p{Lu}(?P<a>)(?P<a>)", 22)):
        with pytest.raises(GrammarError, match="malformed") as caught:
            Regex(pattern)
        assert caught.value.position == column


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
    r"\p": 0,
    r"a\pL": 1,
    "b(?<=a|bc)": 1,
}
NOT_SUPPORTED = {
    r"(a)\1": 3,
    "(?P<x>a)(?P=x)": 8,
    "(a)?(?(1)b|c)": 4,
    r"a\p{Greek}": 1,
    r"[\p{Script=Greek}]": 1,
    "(?<=(?!bc)b)c": 0,
    "x(?>(|a)*b)": 1,
    "a{1234567890}": 2,
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


_PIECES = [*r"ab01()[]{}*+?|^$\.-,:<>=!P", *"xusiamLkN \n", "(?:", "(?=", "(?<!", "(?>", "{2,3}"]


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@given(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join))
@example("(?<=a|bc)")
@example("(?i)a(?s)b")
@example("(?a-i:b)")
@example("(?P<a>b)(?P<a>c)")
@example("a{2}{3}")
@example("[a-\\d]")
@example("(?=a)*+")
@settings(max_examples=700, deadline=None)
def test_what_is_malformed_for_re_is_malformed_for_us(pattern: str) -> None:
    refused = None
    try:
        regex.parse(pattern)
    except GrammarError as error:
        refused = type(error)
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        assert refused is not None
    else:
        assert refused is not GrammarError
