"""The parsers take anything: a text is a constraint, or refused with an error of ours."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from grammars import Cfg, Compiler, GrammarError, JsonSchema, Regex, Vocabulary
from grammars.keywords import READ

SLOW_S = 200.0
"""For each of the three parsers: ten minutes together."""

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_ids=[256])

PATTERN_PARTS = (
    r"a b . ^ $ \A \Z \b \B \d \w \S [a-z] [^a] [ ] ( ) (?: (?= (?! (?<= (?<! (?> (?i) (?m: "
    r"(?P<n> (?P=n) \1 | * + ? *? ++ {2} {2,} {,3} {1,100000} \p{L} \P{Lu} \x41 \u0041 # \\ -"
)
GRAMMAR_PARTS = (
    'start a B : | ( ) [ ] ? * + ~2 ~1..3 "x" "y"i /z+/ /(/ "a".."z" -> %ignore %import // # \\ " '
    "\n start: a: B:"
)


def from_parts(parts: str) -> st.SearchStrategy[str]:
    """Texts of parts that mean something, and of what means nothing."""
    one = st.one_of(st.sampled_from([*parts.split(" "), " "]), st.text(max_size=3))
    return st.lists(one, max_size=25).map("".join)


NAMES = [*sorted(READ), "$defs", "$id", "$anchor", "a", ""]

values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-3, 3),
        st.sampled_from([0.5, -1e300, 1e-300, 10**40, 2.0]),
        st.sampled_from(
            ["", "a", "#", "#/$defs/a", "#/properties", "string", "object", "date", "("]
        ),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from([*sorted(READ), "$defs", "$id", "a", ""]), inner, max_size=4
        ),
    ),
    max_leaves=12,
)


def check(make: Callable[[], Any]) -> None:
    """Makes and compiles a constraint, and takes a few steps."""
    with suppress(GrammarError):
        compiler = Compiler(VOCABULARY, max_steps=20_000, max_seconds=1.0)
        language, state, _ = compiler.compile(make()).begin(b"")
        for byte in b'{"a':
            found = language.after(state, bytes([byte]))
            if found is None:
                break
            state, _ = found


FUZZED: dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any]]] = {
    "pattern": (from_parts(PATTERN_PARTS), Regex),
    "grammar": (from_parts(GRAMMAR_PARTS).map(lambda text: "start: " + text), Cfg),
    "schema": (
        st.dictionaries(st.sampled_from(sorted(READ)), values, max_size=5).map(json.dumps),
        JsonSchema,
    ),
}


@pytest.mark.parametrize("kind", FUZZED)
def test_anything_is_a_constraint_or_refused(kind: str) -> None:
    texts, make = FUZZED[kind]

    @settings(max_examples=250, suppress_health_check=list(HealthCheck))
    @given(texts)
    def fuzz(text: str) -> None:
        check(lambda: make(text))

    fuzz()


@pytest.mark.fuzz
@pytest.mark.timeout(4 * SLOW_S)
@pytest.mark.parametrize("kind", FUZZED)
def test_anything_is_a_constraint_or_refused_for_minutes(kind: str) -> None:
    texts, make = FUZZED[kind]
    until = time.monotonic() + SLOW_S

    @settings(max_examples=2_000, database=None, suppress_health_check=list(HealthCheck))
    @given(texts, st.randoms(use_true_random=True))
    def fuzz(text: str, _: random.Random) -> None:
        check(lambda: make(text))

    while time.monotonic() < until:
        fuzz()
