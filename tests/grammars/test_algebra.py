"""The algebra and its derivatives against the sets of strings they stand for."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import product

import pytest
from hypothesis import given, settings, strategies as st

from grammars.algebra import Algebra
from grammars.budget import Budget
from grammars.clamp import clamp
from grammars.derive import arms, has_string, matches
from grammars.errors import CompileBudgetError
from grammars.expr import Expr, Words

STRINGS = [bytes(text) for length in range(5) for text in product(b"ab", repeat=length)]
AB = 1 << ord("a") | 1 << ord("b")

Term = tuple[str, tuple["Term", ...], tuple[int, int | None]]
"""An operator, its operands, and bounds for a repetition."""

_leaf = st.sampled_from(["empty", "epsilon", "a", "b", "ab", "any", "words"])
terms: st.SearchStrategy[Term] = st.recursive(
    _leaf.map(lambda name: (name, (), (0, None))),
    lambda inner: st.one_of(
        st.tuples(
            st.sampled_from(["concat", "union", "intersection"]),
            st.lists(inner, min_size=2, max_size=3).map(tuple),
            st.just((0, None)),
        ),
        st.tuples(st.just("complement"), st.tuples(inner), st.just((0, None))),
        st.tuples(
            st.just("repeat"),
            st.tuples(inner),
            st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(2, 4))),
        ),
    ),
    max_leaves=7,
)


def build(algebra: Algebra, term: Term) -> Expr:
    name, operands, (low, high) = term
    made = [build(algebra, operand) for operand in operands]
    match name:
        case "empty":
            return algebra.empty
        case "epsilon":
            return algebra.epsilon
        case "any":
            return algebra.byte_set(AB)
        case "words":
            return algebra.words([b"a", b"ab", b"bba"])
        case "concat":
            return algebra.sequence(made)
        case "union":
            return algebra.union(made)
        case "intersection":
            return algebra.intersection(made)
        case "complement":
            return algebra.complement(made[0])
        case "repeat":
            return algebra.repeat(made[0], low, high)
    return algebra.literal(name.encode())


def meaning(term: Term) -> set[bytes]:
    """The strings of STRINGS that the term stands for, by the definitions of the operators."""
    name, operands, (low, high) = term
    sets = [meaning(operand) for operand in operands]
    match name:
        case "empty":
            return set()
        case "epsilon":
            return {b""}
        case "any":
            return {b"a", b"b"}
        case "words":
            return {b"a", b"ab", b"bba"}
        case "concat":
            return _joined(sets)
        case "union":
            return set().union(*sets)
        case "intersection":
            return set(STRINGS).intersection(*sets)
        case "complement":
            return set(STRINGS) - sets[0]
        case "repeat":
            most = max(low, 4) if high is None else high
            return set().union(*(_joined([sets[0]] * count) for count in range(low, most + 1)))
    return {name.encode()}


def _joined(sets: list[set[bytes]]) -> set[bytes]:
    found = {b""}
    for options in sets:
        found = {left + right for left in found for right in options if len(left + right) <= 4}
    return found


@given(terms)
@settings(max_examples=300, deadline=None)
def test_an_expression_has_exactly_the_strings_of_its_term(term: Term) -> None:
    algebra = Algebra(AB)
    node = build(algebra, term)
    assert {text for text in STRINGS if matches(algebra, node, text)} == meaning(term)


@given(terms)
@settings(max_examples=200, deadline=None)
def test_a_plain_expression_is_empty_only_as_the_constant_and_the_search_agrees(term: Term) -> None:
    algebra = Algebra(AB)
    node = build(algebra, term)
    if meaning(term):
        assert has_string(algebra, node)
    if node.plain:
        assert has_string(algebra, node) == (node is not algebra.empty)


@given(terms)
@settings(max_examples=200, deadline=None)
def test_arms_are_disjoint_and_never_empty(term: Term) -> None:
    algebra = Algebra(AB)
    seen = 0
    for mask, rest in arms(algebra, build(algebra, term)):
        assert mask and not mask & seen and mask & ~AB == 0
        assert rest is not algebra.empty
        seen |= mask


@given(terms)
@settings(max_examples=200, deadline=None)
def test_a_clamped_expression_cannot_be_told_apart_within_reach(term: Term) -> None:
    algebra = Algebra(AB)
    node = build(algebra, term)
    short = clamp(algebra, node, 2)
    for first in [b"", b"a", b"b", b"ab"]:
        assert {mask for mask, _ in arms(algebra, node)} == {
            mask for mask, _ in arms(algebra, short)
        }
        assert (first in STRINGS) and node.nullable == short.nullable


@given(terms)
@settings(max_examples=100, deadline=None)
def test_equal_parts_make_the_same_object(term: Term) -> None:
    algebra = Algebra(AB)
    node = build(algebra, term)
    size = len(algebra)
    assert build(algebra, term) is node
    assert len(algebra) == size


def test_bytes_outside_the_alphabet_are_absorbed() -> None:
    algebra = Algebra(AB)
    assert algebra.literal(b"abc") is algebra.empty
    assert algebra.concat(algebra.literal(b"a"), algebra.literal(b"c")) is algebra.empty
    assert algebra.optional(algebra.literal(b"c")) is algebra.epsilon
    assert algebra.words([b"ab", b"ac"]) is algebra.literal(b"ab")


def test_nested_counters_become_one_where_counts_have_no_gaps() -> None:
    algebra = Algebra()
    letter = algebra.literal(b"a")
    inner = algebra.repeat(letter, 0, 50)
    thrice = algebra.repeat(algebra.repeat(inner, 0, 50), 0, 50)
    assert thrice is algebra.repeat(letter, 0, 125_000)
    gaps = algebra.repeat(algebra.repeat(letter, 3, 4), 1, 2)
    assert [n for n in range(12) if matches(algebra, gaps, b"a" * n)] == [3, 4, 6, 7, 8]


def test_neighbouring_counters_of_one_body_add_up() -> None:
    algebra = Algebra()
    letter = algebra.literal(b"a")
    two = algebra.concat(algebra.repeat(letter, 1, 2), algebra.repeat(letter, 3, 4))
    assert two is algebra.repeat(letter, 4, 6)
    either = algebra.union([algebra.repeat(letter, 1, 2), algebra.repeat(letter, 3, 9)])
    assert either is algebra.repeat(letter, 1, 9)


def test_a_hundred_thousand_words_cost_a_sort_and_no_trie() -> None:
    algebra = Algebra(budget=Budget(max_steps=1_000))
    words = [f"{number * 7919 % 1_000_003:06d}".encode() for number in range(100_000)]
    node = algebra.words(words)
    assert isinstance(node, Words)
    assert matches(algebra, node, words[4711])
    assert not matches(algebra, node, b"x")


def test_a_budget_that_is_used_up_raises() -> None:
    algebra = Algebra(budget=Budget(max_steps=100))
    with pytest.raises(CompileBudgetError, match="more than 100"):
        algebra.sequence([algebra.byte_set(1 << n | 1) for n in range(1, 200)])


class Nested:
    """The texts of s: "i" s | "i" s "e" s | "x"."""

    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra

    def unfold(self, key: Hashable) -> Expr:
        algebra, ref = self.algebra, self.algebra.ref(self, key)
        short = algebra.sequence([algebra.literal(b"i"), ref])
        return algebra.union(
            [short, algebra.sequence([short, algebra.literal(b"e"), ref]), self.least(key)]
        )

    def least(self, key: Hashable) -> Expr:
        return self.algebra.literal(b"x")


def test_options_that_begin_with_one_reference_are_one() -> None:
    algebra = Algebra()
    node = algebra.ref(Nested(algebra), "s")
    tails = [algebra.epsilon, algebra.literal(b"ab"), algebra.literal(b"cd")]
    either = algebra.union([algebra.concat(node, tail) for tail in tails])
    assert either is algebra.concat(node, algebra.union(tails))
    for text, expected in ((b"ixex", True), (b"iixexex", True), (b"xex", False), (b"ie", False)):
        assert matches(algebra, node, text) is expected
    assert matches(algebra, node, b"i" * 2_000 + b"x" + b"ex" * 2_000)  # no deeper than one
