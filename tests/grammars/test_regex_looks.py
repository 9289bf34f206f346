"""Look-around, places, atomic groups and possessive quantifiers, against `re.fullmatch`."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from grammars import Compiler, GrammarError, Matcher, Regex, UnsupportedError
from grammars.algebra import Algebra
from grammars.charset import Encoder, json_text, utf8
from grammars.derive import arms, has_string, matches
from grammars.expr import Expr
from grammars.regex import parse
from grammars.regex_lowering import lower_full, lower_search
from grammars.regex_tree import Tree
from tests.grammars import strategies as sg
from tests.grammars.vocabularies import budgets, small_vocabulary, walk

VOCABULARY = small_vocabulary()
SHORT = ["".join(text) for length in range(4) for text in product("ab1\n", repeat=length)]
texts = st.text(alphabet="abcA1é _\n", min_size=3, max_size=8)


def lowered(
    algebra: Algebra,
    pattern: str,
    encode: Encoder = utf8,
    *,
    lower: Callable[[Algebra, Tree, Encoder], Expr] = lower_full,
) -> Expr:
    """The pattern's expression; what is refused is no example."""
    try:
        return lower(algebra, parse(pattern), encode)
    except UnsupportedError:
        assume(False)
        raise


@given(sg.full_patterns, st.lists(texts, min_size=1, max_size=10))
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_pattern_accepts_what_fullmatch_accepts(pattern: str, more: list[str]) -> None:
    algebra = Algebra()
    node = lowered(algebra, pattern)
    for text in SHORT + more:
        expected = re.fullmatch(pattern, text) is not None
        assert matches(algebra, node, text.encode()) == expected, text


@given(sg.full_patterns, st.lists(texts, min_size=1, max_size=10), st.booleans())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_same_holds_inside_of_a_json_string(
    pattern: str, more: list[str], ascii_only: bool
) -> None:
    algebra = Algebra()
    node = lowered(algebra, pattern, json_text)
    for text in SHORT[:30] + more:
        body = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        expected = re.fullmatch(pattern, text) is not None
        assert matches(algebra, node, body.encode()) == expected, text


@given(sg.full_patterns, st.data(), st.sampled_from([utf8, json_text]), st.booleans())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_is_text_that_matches(
    pattern: str, data: st.DataObject, encode: Encoder, is_search: bool
) -> None:
    """A walk through the derivatives: never stuck where a state is alive, never a broken byte."""
    algebra = Algebra()
    node = lowered(algebra, pattern, encode, lower=lower_search if is_search else lower_full)
    assume(has_string(algebra, node))
    written = b""
    while not node.nullable or (len(written) < 12 and data.draw(st.booleans())):
        ways = [arm for arm in arms(algebra, node) if has_string(algebra, arm[1])]
        if not ways:
            assert node.nullable, "a state that is alive leads to an end"
            break
        mask, node = data.draw(st.sampled_from(ways))
        written += bytes([data.draw(st.sampled_from([b for b in range(256) if mask >> b & 1]))])
        if len(written) > 30:
            return
    text = written.decode() if encode is utf8 else json.loads(b'"' + written + b'"')
    assert re.search(pattern, text) if is_search else re.fullmatch(pattern, text), text


@given(sg.full_patterns, st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_masks_follow_conditions_to_the_end_within_any_budget(pattern: str, seed: int) -> None:
    try:
        grammar = Compiler(VOCABULARY).compile(Regex(pattern))
    except GrammarError:
        return
    for max_tokens in budgets(grammar):
        text = walk(Matcher(grammar, max_tokens=max_tokens), random.Random(seed)).decode()
        assert re.fullmatch(pattern, text)


@given(sg.full_patterns, st.text(alphabet="ab1 \n", max_size=5))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_search_sees_what_is_around_the_match(pattern: str, text: str) -> None:
    algebra = Algebra()
    node = lowered(algebra, pattern, lower=lower_search)
    assert matches(algebra, node, text.encode()) == (re.search(pattern, text) is not None)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"(?=.*\d)(?=.*[a-z])[\da-z]{4,6}", ["a1bc", "zzzz9"], ["abcd", "1234", "a1", "a1bcdef"]),
        (r"(?!.*--)[a-z-]+(?<!-)", ["a-b"], ["a--b", "a-", "-"]),
        (r"<!--(?:(?!-->).)*-->", ["<!---->", "<!-- - -->"], ["<!-- --> -->", "<!--->"]),
        (r"((?!-)[a-z-]{1,5}(?<!-)\.)+com", ["a-b.com", "a.b.com"], ["-a.com", "a-.com"]),
        (r"(\bfoo\b\s?)+", ["foo", "foo foo"], ["foofoo", "foox"]),
        (r".*\bfoo\b.*", ["a foo", "foo!"], ["afoo", "foob", "fooé"]),
        (r"(?a:.*\bfoo\b.*)", ["fooé"], ["foob"]),
        (r"(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"(?m:^\w+$\n?)+", ["a", "a\nbc\n"], ["a\n\nb", ""]),
        (r"a(?=bc)b.(?<=bc)d", ["abcd"], ["abxd"]),
        (r"(?<!foo)bar|foo(?<=o)", ["bar", "foo"], ["foobar"]),
        (r"(?:a(?=.*b)|b(?!.*b))*", ["aab", "b"], ["ba", "aa", "bb"]),
        (r"(?<=^)a(?=$)\n?", ["a", "a\n"], ["a\n\n"]),
        (r"(?=(?!b).)[ab]", ["a"], ["b"]),
        (r"(?=a*b)[ab]{3}(?=)", ["aab", "baa"], ["aaa"]),
        (r'"(?:[^"\\]++|\\.)*+"', ['"a\\"b"'], ['"a"b"']),
        (r"(?>a|ab)c", ["ac"], ["abc"]),
        (r"(?>a+?|b)a*", ["aaa"], ["ba" * 2]),
        (r"(?>(?:ab?)*b)c", ["abbc", "abc"], ["bbc", "ac"]),
        (r"a++b|a{2,3}+a", ["aab", "aaaa"], ["aaa"]),
        (r"x(?:\B|y){3}z", ["xyz", "xyyyz"], ["x", "xyyyyz"]),
    ],
)
def test_conditions_mean_what_they_mean_to_re(pattern: str, yes: list[str], no: list[str]) -> None:
    algebra = Algebra()
    node = lower_full(algebra, parse(pattern), utf8)
    for text in yes + no:
        assert bool(re.fullmatch(pattern, text)) == (text in yes), "the example is right"
        assert matches(algebra, node, text.encode()) == (text in yes), text


@pytest.mark.parametrize(
    "pattern", ["a*+a", r"a\Bb\bc", "(?=a)b", r"\b", "(?!)", "a^", "(?>a|ab)^c"]
)
def test_what_nothing_matches_is_known_to_be_empty(pattern: str) -> None:
    algebra = Algebra()
    assert not has_string(algebra, lower_full(algebra, parse(pattern), utf8))


@pytest.mark.parametrize(
    "pattern",
    [
        r"\bfoo\b",
        r"[a-z-]{1,63}(?<!-)",
        r"(?!\d)\w{1,100000}\b",
        r"<!--(?:(?!-->).)*-->",
        r"(?:\ba\b ?)+",
        "^a|b$|^$",
        r'"(?:[^"\\]++|\\.)*+"',
    ],
)
def test_common_conditions_leave_no_intersection_behind(pattern: str) -> None:
    assert lower_full(Algebra(), parse(pattern), utf8).plain
