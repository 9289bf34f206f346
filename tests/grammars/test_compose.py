"""Constraints made of constraints, against `re` on the pattern that says the same."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from grammars import (
    Alternation,
    Choices,
    Compiler,
    Concatenation,
    Constraint,
    EmptyLanguageError,
    GrammarError,
    JsonSchema,
    Matcher,
    Regex,
    Repetition,
    accepts,
)
from tests.grammars import strategies as sg
from tests.grammars.vocabularies import budgets, small_vocabulary, walk

VOCABULARY = small_vocabulary()
bad: Any = [3, ["a"], "x", None]
"""What types forbid, given all the same."""

Pair = tuple[Constraint, str]
"""A constraint and a pattern of the same texts."""

_leaves = st.one_of(
    sg.patterns.map(lambda pattern: (Regex(pattern), f"(?:{pattern})")),
    st.sampled_from([(Choices(["a", "ab"]), "(?:a|ab)"), (Regex("^b$"), "b")]),
)


def _repeated(inner: Pair, bounds: tuple[int, int | None], separator: str) -> Pair:
    (part, pattern), (low, high) = inner, bounds
    most = "" if high is None else max(high - 1, 0)
    again = f"(?:{re.escape(separator)}{pattern}){{{max(low - 1, 0)},{most}}}"
    whole = "" if high == 0 else f"(?:{pattern}{again})" + ("" if low else "?")
    return Repetition(part, low, high, separator), whole


def _composed(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    several = st.lists(inner, min_size=1, max_size=3)
    bounds = st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(2, 3)))
    return st.one_of(
        several.map(
            lambda pairs: (
                Concatenation("a", *(c for c, _ in pairs)),
                "a" + "".join(_patterns(pairs)),
            )
        ),
        several.map(
            lambda pairs: (
                Alternation("b", *(c for c, _ in pairs)),
                f"(?:{'|'.join(['b', *_patterns(pairs)])})",
            )
        ),
        st.builds(_repeated, inner, bounds, st.sampled_from(["", ",", "a"])),
    )


def _patterns(pairs: list[Pair]) -> list[str]:
    return [pattern for _, pattern in pairs]


pairs: st.SearchStrategy[Pair] = st.recursive(_leaves, _composed, max_leaves=4)
texts = st.text(alphabet="ab,c1é", max_size=6)


@given(pairs, st.lists(texts, min_size=5, max_size=5))
@settings(max_examples=150, deadline=None)
def test_a_composition_has_the_texts_of_the_pattern_that_says_the_same(
    pair: Pair, tried: list[str]
) -> None:
    constraint, pattern = pair
    for text in tried:
        assert accepts(constraint, text) == bool(re.fullmatch(pattern, text))


@given(pairs, st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_random_walks_finish_within_any_budget(pair: Pair, seed: int) -> None:
    constraint, pattern = pair
    rng = random.Random(seed)
    grammar = Compiler(VOCABULARY).compile(constraint)
    for max_tokens in budgets(grammar):
        text = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
        assert re.fullmatch(pattern, text)


def test_json_stands_in_a_fenced_block() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    block = Concatenation("```json\n", JsonSchema(schema), "\n```")
    assert accepts(block, '```json\n{"n":12}\n```')
    assert not accepts(block, '```json\n{"n":12}```')
    text = walk(Matcher(Compiler(VOCABULARY).compile(block), max_tokens=60), random.Random(0))
    assert list(json.loads(text.decode().split("\n")[1])) == ["n"]
    assert block.parse("as it is") == "as it is"


def test_a_repetition_counts_without_copies() -> None:
    many = Repetition(Regex("[ab]"), 3, 1_000_000, separator=", ")
    assert accepts(many, "a, b, a")
    assert not accepts(many, "a, b")
    assert not accepts(many, "a, b, ")
    assert accepts(Repetition("x", 0, 0), "")
    assert not accepts(Repetition("x", 0, 0), "x")
    assert accepts(Repetition("x", 2, separator=Regex("-?")), "xx-x")


def test_a_composition_that_is_built_up_in_a_loop_does_not_nest() -> None:
    long: Concatenation | str = ""
    wide = Alternation("0")
    for number in range(1_500):
        long = Concatenation(long, Regex("[ab]"))
        wide = Alternation(wide, Regex(f"{number}x"))
    assert accepts(long if isinstance(long, Concatenation) else Choices([""]), "ab" * 750)
    assert accepts(wide, "1499x") and not accepts(wide, "1500x")


def test_equal_compositions_are_compiled_once() -> None:
    compiler = Compiler(VOCABULARY)
    first = Concatenation("a", "b", Regex("c"))
    assert compiler.compile(first) is compiler.compile(Concatenation("ab", "", Regex("c")))
    assert Alternation("a", Alternation("b", "a")) == Alternation("a", "b")


def test_an_option_that_nothing_satisfies_leaves_the_others() -> None:
    either = Alternation(Regex("b^a"), "c")
    assert accepts(either, "c")
    with pytest.raises(EmptyLanguageError):
        accepts(Concatenation("a", Regex("b^a")), "a")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Concatenation("a", bad[0]), "Concatenation got 3; give a str or a constraint"),
        (lambda: Alternation(bad[1]), r"Alternation got \['a'\]"),
        (Alternation, "no option"),
        (lambda: Concatenation("\ud800"), "lone surrogate"),
        (lambda: Repetition("a", 2, 1), "at least 2 and at most 1"),
        (lambda: Repetition("a", -1), "the count -1"),
        (lambda: Repetition("a", True), "the count True"),
        (lambda: Repetition("a", 0, bad[2]), "the count 'x'"),
        (lambda: Repetition("a", separator=bad[3]), "the separator of a Repetition got None"),
    ],
)
def test_what_cannot_be_composed_is_refused(make: Callable[[], Constraint], message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        make()
