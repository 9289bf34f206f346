"""Complete tables against the matchers whose language they hold."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from grammars import Choices, Compiler, EmptyLanguageError, Grammar, Matcher, Regex, Vocabulary
from grammars.regex import parse
from grammars.regex_tree import span
from grammars.spelling import UNREACHABLE
from grammars.token_table import DEAD, START, TokenTable
from tests.grammars import strategies as sg
from tests.grammars.test_masks import LETTERS, fewest_tokens, real_vocabulary
from tests.grammars.vocabularies import allowed_tokens, small_vocabulary, stop_token

SLACK = 100_000
VOCABULARIES = [small_vocabulary(), small_vocabulary(missing=[0xC3, 0x31], seed=1)]


def allowed_by(table: TokenTable, state: int, remaining: int) -> list[int]:
    """What `allowed_tokens` is of a matcher."""
    row = np.full(table.vocabulary.num_words, -1, dtype=np.int32)
    table.fill_bitmask(row, state, remaining=remaining)
    found: list[int] = table.vocabulary.unpack(row).tolist()
    assert len(found) == table.vocabulary.count(row)
    return found


def walk_of(grammar: Grammar, table: TokenTable, budget: int, rng: random.Random) -> bytes:
    """Draws uniformly among what the table allows; the bytes written."""
    state, written = START, b""
    stop = stop_token(grammar.vocabulary)
    while True:
        choices = allowed_by(table, state, budget)
        assert choices, "there is always a way on"
        token_id = rng.choice(choices)
        if token_id == stop:
            return written
        written += grammar.vocabulary.token_bytes(token_id) or b""
        state = table.advance(state, token_id)
        budget -= 1


@given(sg.patterns, st.sampled_from(VOCABULARIES), st.integers(0, 2**32))
@settings(max_examples=100)
def test_a_table_agrees_with_the_matcher_at_every_state_of_a_walk(
    pattern: str, vocabulary: Vocabulary, seed: int
) -> None:
    rng = random.Random(seed)
    try:
        grammar = Compiler(vocabulary).compile(Regex(pattern))
    except EmptyLanguageError:
        return
    table = TokenTable.of(grammar, max_states=40)
    assume(table is not None)
    assert table is not None
    matcher, state = Matcher(grammar, max_tokens=SLACK), START
    for _ in range(8):
        allowed = allowed_tokens(matcher)
        assert allowed_by(table, state, SLACK) == allowed
        assert table.is_complete(state) == matcher.is_complete
        assert table.min_tokens[state] <= matcher.min_tokens_to_finish
        forbidden = set(range(vocabulary.size)) - set(allowed)
        assert all(table.advance(state, token_id) == DEAD for token_id in forbidden)
        token_id = rng.choice(allowed)
        if token_id == stop_token(vocabulary):
            break
        matcher.accept_token(token_id)
        state = table.advance(state, token_id)


@given(sg.patterns, st.sampled_from(VOCABULARIES), st.integers(0, 2**32))
@settings(max_examples=60)
def test_within_any_budget_a_table_allows_what_the_matcher_does_and_always_finishes(
    pattern: str, vocabulary: Vocabulary, seed: int
) -> None:
    rng = random.Random(seed)
    try:
        grammar = Compiler(vocabulary).compile(Regex(pattern))
    except EmptyLanguageError:
        return
    table = TokenTable.of(grammar, max_states=40)
    if table is None:
        return
    least = int(table.min_tokens[START])
    for extra in (0, 1, 5, least):
        assert re.fullmatch(pattern, walk_of(grammar, table, least + extra, rng).decode())
        matcher = Matcher(grammar, max_tokens=grammar.min_tokens + extra)
        state = START
        while not matcher.is_terminated:
            allowed = allowed_tokens(matcher)
            assert set(allowed) <= set(allowed_by(table, state, matcher.remaining))
            token_id = rng.choice(allowed)
            matcher.accept_token(token_id)
            if token_id != stop_token(vocabulary):
                state = table.advance(state, token_id)


@given(sg.finite_patterns)
@settings(max_examples=60)
def test_the_fewest_tokens_of_a_table_are_exact(pattern: str) -> None:
    longest = 8
    assume((span(parse(pattern))[1] or 0) <= longest)
    texts = {
        "".join(text).encode()
        for length in range(longest + 1)
        for text in product("ab", repeat=length)
        if re.fullmatch(pattern, "".join(text))
    }
    table = TokenTable.of(Compiler(LETTERS).compile(Regex(pattern)), max_states=500)
    assert table is not None
    assert table.min_tokens[START] == fewest_tokens(texts)


def test_tokens_that_no_state_tells_apart_are_one_class() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"c", b"ab", b"ca", None], eos_token_ids=[5])
    table = TokenTable.of(Compiler(vocabulary).compile(Regex("[ab]{2}")))
    assert table is not None
    # a and b; ab; c, ca and the stop token, which is no part of the text
    assert table.token_class[0] == table.token_class[1]
    assert table.token_class[2] == table.token_class[4] == table.token_class[5]
    assert table.next_state.shape == (4, 3)  # DEAD, START, one letter, two letters
    assert table.min_tokens.tolist() == [UNREACHABLE, 1, 1, 0]
    assert not table.next_state[DEAD].any()


def test_a_state_in_which_only_bytes_could_go_on_is_dead() -> None:
    vocabulary = Vocabulary([b"aa", b"b", b"ba", None], eos_token_ids=[3])
    table = TokenTable.of(Compiler(vocabulary).compile(Regex("ab|aab|ba|baa|bb{2}a|bbb")))
    assert table is not None
    assert table.advance(START, 0) != DEAD
    after = table.advance(table.advance(START, 1), 1)
    assert table.advance(after, 0) == DEAD  # bbaa
    lone = TokenTable.of(Compiler(vocabulary).compile(Regex("b(?:aab|a[ab]c|b)")))
    assert lone is not None
    assert lone.advance(START, 2) == DEAD  # "ba" is begun, and "ab", "ac", "bc" have no tokens


def test_a_language_of_too_many_states_has_no_table() -> None:
    compiler = Compiler(VOCABULARIES[0])
    assert TokenTable.of(compiler.compile(Regex("a{0,500}")), max_states=64) is None
    words = [f"{number:03}" for number in range(200)]
    found = TokenTable.of(compiler.compile(Choices(words)), max_states=64)
    assert found is not None and len(found.min_tokens) <= 65


@pytest.mark.model
def test_a_date_has_a_small_table_in_a_real_vocabulary(default_model_path: Path) -> None:
    vocabulary = real_vocabulary(default_model_path)
    grammar = Compiler(vocabulary).compile(Regex(r"[0-9]{4}-(?:0[1-9]|1[0-2])-[0-9]{2}(?:T| )?"))
    table = TokenTable.of(grammar)
    assert table is not None
    assert table.next_state.size < 1_000
    rng = random.Random(0)
    for _ in range(5):
        assert grammar.contains(walk_of(grammar, table, grammar.min_tokens, rng).decode())
