"""Quotations against all parts of the text, listed one by one."""

from __future__ import annotations

import random
import re
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from grammars import (
    Alternation,
    Compiler,
    Concatenation,
    EmptyLanguageError,
    GrammarError,
    Matcher,
    Substring,
    Vocabulary,
    accepts,
)
from grammars.suffixes import suffix_array
from tests.grammars.vocabularies import allowed_tokens, budgets, small_vocabulary, stop_token, walk

VOCABULARY = small_vocabulary()
LACKING = small_vocabulary(missing=[0xC3, ord(","), ord("b")], seed=1)
Unit = Literal["character", "word"]

texts = st.text(alphabet="aab, é€😀_\n", min_size=1, max_size=14)
units: st.SearchStrategy[Unit] = st.sampled_from(["character", "word"])


def parts(text: str, unit: Unit, min_length: int, missing: str = "") -> set[str]:
    """The quotations of a text, by the definition."""
    found = {""} if min_length == 0 else set()
    for first in range(len(text)):
        for last in range(first + 1, len(text) + 1):
            part = text[first:last]
            if unit == "word":
                cuts = [
                    0 < place < len(text) and re.match(r"\w\w", text[place - 1 : place + 1])
                    for place in (first, last)
                ]
                length = len(re.findall(r"\w+", part))
                if any(cuts) or part != part.strip():
                    continue
            else:
                length = len(part)
            if length >= min_length and not set(part) & set(missing):
                found.add(part)
    return found


@given(texts, units, st.integers(0, 3), st.lists(texts, max_size=4))
@settings(max_examples=150, deadline=None)
def test_exactly_the_parts_of_the_text_are_quotations(
    text: str, unit: Unit, min_length: int, others: list[str]
) -> None:
    expected = parts(text, unit, min_length)
    constraint = Substring(text, min_length, unit)
    tried = parts(text, "character", 0) | set(others)
    if not expected:
        with pytest.raises(EmptyLanguageError, match="lower min_length"):
            accepts(constraint, text)
        return
    assert {part for part in tried if accepts(constraint, part)} == expected & tried


@given(texts, units, st.integers(0, 2), st.sampled_from([VOCABULARY, LACKING]), st.integers())
@settings(max_examples=100, deadline=None)
def test_masks_are_brute_force_and_walks_finish_within_any_budget(
    text: str, unit: Unit, min_length: int, vocabulary: Vocabulary, seed: int
) -> None:
    rng = random.Random(seed)
    missing = "é,b" if vocabulary is LACKING else ""
    expected = {part.encode() for part in parts(text, unit, min_length, missing)}
    try:
        grammar = Compiler(vocabulary).compile(Substring(text, min_length, unit))
    except EmptyLanguageError:
        assert not expected
        return
    for max_tokens in budgets(grammar):
        assert walk(Matcher(grammar, max_tokens=max_tokens), rng) in expected
    matcher, written = Matcher(grammar, max_tokens=100), b""
    while not matcher.is_terminated:
        allowed = allowed_tokens(matcher)
        tokens = {t: vocabulary.token_bytes(t) for t in range(vocabulary.size)}
        viable = [
            token_id
            for token_id, data in tokens.items()
            if data and any(part.startswith(written + data) for part in expected)
        ]
        assert allowed == viable + [stop_token(vocabulary)] * (written in expected)
        token_id = rng.choice(allowed)
        matcher.accept_token(token_id)
        written += tokens[token_id] or b""


@given(st.binary(max_size=60) | st.text("ab", max_size=60).map(str.encode))
def test_suffixes_are_sorted(data: bytes) -> None:
    order = suffix_array(np.frombuffer(data, dtype=np.uint8)).tolist()
    assert order == sorted(range(len(data)), key=lambda place: data[place:])


def test_a_quotation_of_words_ends_with_a_word_or_a_sign() -> None:
    quote = Substring("The quick, brown fox_1 jumps.", unit="word", min_length=2)
    for text in ("quick, brown", "The quick,", "fox_1 jumps.", ", brown fox_1"):
        assert accepts(quote, text), text
    for text in ("quick", "quick, bro", "uick, brown", "brown fox_", "brown fox_1 ", "quick brown"):
        assert not accepts(quote, text), text


def test_nothing_is_no_quotation_unless_it_is_asked_for() -> None:
    assert not accepts(Substring("ab"), "") and accepts(Substring("ab", 0), "")
    assert accepts(Substring("", 0), "") and not accepts(Substring("", 0), "a")
    for empty in (Substring(""), Substring("ab", 3), Substring(" \n", unit="word")):
        with pytest.raises(EmptyLanguageError):
            accepts(empty, "")


def test_a_quotation_stands_in_a_composition() -> None:
    answer = Concatenation('Quote: "', Substring("it is so, he said", unit="word"), '".')
    assert accepts(Alternation("none", answer), 'Quote: "so, he".')
    assert not accepts(answer, 'Quote: "so he".')


@pytest.mark.parametrize("kind", ["repeated", "periodic", "words"])
def test_a_text_of_a_million_characters_is_compiled_and_masked(kind: str) -> None:
    rng = random.Random(0)
    words = ["ab", "abc", "aa", "caab", "é", "12", "true"]
    text = {
        "repeated": "a" * 1_000_000,
        "periodic": "abcaé" * 200_000,
        "words": " ".join(rng.choice(words) for _ in range(280_000)),
    }[kind]
    # the first mask of a long text takes seconds on a slow machine: more than a step's default
    grammar = Compiler(VOCABULARY, max_lazy_seconds=60.0).compile(
        Substring(text, 20, "word" if kind == "words" else "character")
    )
    found = walk(Matcher(grammar, max_tokens=grammar.min_tokens + 5), rng).decode()
    assert found in text
    assert grammar.contains(text[-30_000:].split(" ", 1)[-1]) or kind != "words"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"of": b"ab"}, "of=b'ab'; give a str"),
        ({"of": "\ud800"}, "lone surrogates"),
        ({"of": "a", "min_length": -1}, "min_length=-1"),
        ({"of": "a", "min_length": True}, "min_length=True"),
        ({"of": "a", "unit": "line"}, "unit='line' is unknown"),
    ],
)
def test_what_is_no_quotation_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        Substring(**arguments)
