"""Caches, limits and threads of the compiler; constraints that hurt."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from grammars import (
    Choices,
    CompileBudgetError,
    Compiler,
    EmptyLanguageError,
    GrammarError,
    JsonSchema,
    Matcher,
    Regex,
    UnsupportedError,
    accepts,
)
from tests.grammars.vocabularies import small_vocabulary, walk

VOCABULARY = small_vocabulary()


def test_a_constraint_is_compiled_once_and_compared_by_content() -> None:
    compiler = Compiler(VOCABULARY)
    first = compiler.compile(JsonSchema({"type": "integer", "minimum": 3}))
    assert compiler.compile(JsonSchema('{"type": "integer", "minimum": 3}')) is first
    assert compiler.compile(JsonSchema({"type": "integer"})) is not first
    assert compiler.compile(Regex("a")) is compiler.compile(Regex("a"))


def test_a_failed_compile_fails_again_and_is_not_kept() -> None:
    compiler = Compiler(VOCABULARY)
    for _ in range(2):
        with pytest.raises(EmptyLanguageError):
            compiler.compile(JsonSchema({"not": {}}))


def test_the_least_recently_used_grammar_is_dropped() -> None:
    compiler = Compiler(VOCABULARY, max_grammars=2)
    first = compiler.compile(Regex("a"))
    compiler.compile(Regex("b"))
    assert compiler.compile(Regex("a")) is first
    compiler.compile(Regex("c"))
    assert compiler.compile(Regex("a")) is first


def test_threads_share_one_compile_and_one_grammar() -> None:
    compiler = Compiler(VOCABULARY)
    constraint = JsonSchema({"type": "array", "items": {"type": "string", "pattern": "^[ab]+c?$"}})

    def work(seed: int) -> int:
        grammar = compiler.compile(constraint)
        for _ in range(5):
            walk(Matcher(grammar, max_tokens=20), random.Random(seed))
        return id(grammar)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(work, range(8)))) == 1


@pytest.mark.parametrize("pattern", [r"[^\s\S]", "a[^\\x00-\\U0010ffff]", "b^a", "a$b"])
def test_a_pattern_that_matches_nothing_is_refused(pattern: str) -> None:
    with pytest.raises(EmptyLanguageError):
        Compiler(VOCABULARY).compile(Regex(pattern))


def test_a_text_that_the_vocabulary_cannot_write_is_refused() -> None:
    lacking = small_vocabulary(missing=[ord("q")])
    with pytest.raises(EmptyLanguageError):
        Compiler(lacking).compile(Regex("quite"))
    assert Compiler(lacking).compile(Regex("quite|no")).min_tokens == 2


HOSTILE = [
    "((a{0,50}){0,50}){0,50}",
    "((a{0,50}b?){0,50}c?){0,50}",
    "(a|aa)*b",
    "(a*)*b",
    "([ab]*)*([ab]*)*c",
    "[ab]*a[ab]{18}",
    ".{1,100000}",
    "(.{1,1000}x){1,1000}",
    "(a?){1000}a{1000}",
    "a{0,999999999}",
    "x*" * 2_000,
    "|".join("ab" * n for n in range(1, 400)),
    "(" * 100 + "a" + ")*" * 100,
    "(" * 100 + "a" + "b)*c" * 100,
    "(" * 100 + "a" + "|b){2,3}?c?" * 100,
    "(?:a|b|ab)(?:a|b|ab){0,60}c",
]


@pytest.mark.parametrize("pattern", HOSTILE, ids=range(len(HOSTILE)))
def test_a_pattern_made_to_hurt_compiles_soon_or_is_refused(pattern: str) -> None:
    started = time.monotonic()
    compiler = Compiler(VOCABULARY, max_steps=100_000, max_seconds=2.0)
    with suppress(CompileBudgetError, UnsupportedError):
        grammar = compiler.compile(Regex(pattern))
        walk(Matcher(grammar, max_tokens=grammar.min_tokens + 20), random.Random(0))
    assert time.monotonic() - started < 20


def test_schemas_made_to_hurt_compile_soon_or_are_refused() -> None:
    deep: Any = {"type": "null"}
    for level in range(12):
        deep = {"oneOf": [{"type": "array", "items": deep}, {"const": level}]}
    too_deep: Any = {"type": "null"}
    for _ in range(100):
        too_deep = {"type": "array", "items": too_deep}
    chain = {f"r{n}": {"$ref": f"#/$defs/r{n + 1}"} for n in range(5_000)}
    many = {f"property{n}": {"type": "integer"} for n in range(300)}
    schemas: list[Any] = [
        deep,
        too_deep,
        {"$ref": "#/$defs/r0", "$defs": {**chain, "r5000": {"type": "null"}}},
        {"type": "object", "properties": many, "additionalProperties": False},
        {"enum": [f"value {n}" for n in range(20_000)]},
        {"type": "string", "maxLength": 100_000, "pattern": "a.*b"},
        {"type": "array", "minItems": 30_000},
        {"type": "integer", "minimum": 10**900},
    ]
    for schema in schemas:
        started = time.monotonic()
        with suppress(UnsupportedError, CompileBudgetError):
            grammar = Compiler(VOCABULARY, max_seconds=3.0).compile(JsonSchema(schema))
            walk(Matcher(grammar, max_tokens=grammar.min_tokens + 10), random.Random(0))
        assert time.monotonic() - started < 20


def test_what_a_grammar_keeps_is_bounded() -> None:
    grammar = Compiler(VOCABULARY).compile(Regex("[ab]*a[ab]{12}"))
    grammar._max_kept = 500
    rng = random.Random(0)
    languages = set()
    for _ in range(20):
        matcher = Matcher(grammar, max_tokens=60)
        text = walk(matcher, rng).decode()
        assert accepts(Regex("[ab]*a[ab]{12}"), text)
        assert len(grammar._language) < 20_000
        languages.add(matcher._language)
    assert len(languages) > 1


def test_a_hundred_thousand_choices_compile_in_time() -> None:
    texts = [f"{number * 7919 % 1_000_003:06d}x" for number in range(100_000)]
    started = time.process_time()
    grammar = Compiler(VOCABULARY).compile(Choices(texts))
    assert time.process_time() - started < 5
    assert walk(Matcher(grammar, max_tokens=9), random.Random(0)).decode() in set(texts)


@pytest.mark.parametrize("texts", [[], "abc", [1], ["\ud800"]])
def test_bad_choices_are_refused(texts: object) -> None:
    with pytest.raises(GrammarError):
        Choices(texts)  # type: ignore[arg-type]


def test_text_with_a_lone_surrogate_is_accepted_by_nothing() -> None:
    assert not accepts(Regex("(?s).*"), "\ud800")
