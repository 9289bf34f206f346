"""One sequence's cursor: the budget guarantee, healing, rollback, forks, the end."""

from __future__ import annotations

import json
import random
import re

import jsonschema
import pytest
from hypothesis import assume, given, settings, strategies as st

from grammars import (
    Choices,
    Compiler,
    Grammar,
    GrammarError,
    JsonSchema,
    Matcher,
    Regex,
    Vocabulary,
    accepts,
    token_accepts,
)
from tests.grammars import strategies as sg
from tests.grammars.vocabularies import (
    allowed_tokens,
    budgets,
    small_vocabulary,
    stop_token,
    walk,
)

VOCABULARIES = [small_vocabulary(), small_vocabulary(missing=[0xC3, 0xF1, 0x31], seed=3)]


def grammar_of(pattern: str) -> Grammar:
    return Compiler(VOCABULARIES[0]).compile(Regex(pattern))


def token(data: bytes) -> int:
    found = [t for t in range(VOCABULARIES[0].size) if VOCABULARIES[0].token_bytes(t) == data]
    return found[0]


@given(sg.patterns, st.sampled_from(VOCABULARIES), st.integers(0, 2**32))
@settings(max_examples=120, deadline=None)
def test_random_walks_of_a_pattern_finish_within_any_budget(
    pattern: str, vocabulary: Vocabulary, seed: int
) -> None:
    rng = random.Random(seed)
    try:
        grammar = Compiler(vocabulary).compile(Regex(pattern))
    except GrammarError:
        return
    for max_tokens in budgets(grammar):
        text = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
        assert re.fullmatch(pattern, text)


@given(sg.schemas, st.sampled_from(["compact", "single"]), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_random_walks_of_a_schema_are_valid_within_any_budget(
    schema: sg.Schema, whitespace: str, seed: int
) -> None:
    rng = random.Random(seed)
    constraint = JsonSchema(schema, whitespace=whitespace)  # type: ignore[arg-type]
    try:
        grammar = Compiler(rng.choice(VOCABULARIES)).compile(constraint)
    except GrammarError:
        return
    judge = jsonschema.Draft202012Validator(schema)
    for max_tokens in budgets(grammar):
        text = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
        judge.validate(json.loads(text))
        assert accepts(constraint, text)


@given(sg.patterns, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_prefix_is_reproduced_before_the_language_begins(pattern: str, seed: int) -> None:
    rng = random.Random(seed)
    grammar = grammar_of(pattern)
    for prefix in (b"a", b' "', "né".encode()):
        least = Matcher(grammar, max_tokens=1_000, prefix=prefix).min_tokens_to_finish
        written = walk(Matcher(grammar, max_tokens=least + 3, prefix=prefix), rng)
        assert written.startswith(prefix)
        assert re.fullmatch(pattern, written.removeprefix(prefix).decode())


@given(sg.patterns, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_rollback_restores_and_a_fork_goes_its_own_way(pattern: str, seed: int) -> None:
    rng = random.Random(seed)
    matcher = Matcher(grammar_of(pattern), max_tokens=1_000)
    trail = [(allowed_tokens(matcher), matcher.remaining, matcher.is_complete)]
    for _ in range(4):
        if matcher.is_terminated:
            break
        matcher.accept_token(rng.choice(trail[-1][0]))
        trail.append((allowed_tokens(matcher), matcher.remaining, matcher.is_complete))
    assume(len(trail) > 1)
    twin = matcher.fork()
    back = rng.randrange(1, len(trail))
    matcher.rollback(back)
    assert (allowed_tokens(matcher), matcher.remaining, matcher.is_complete) == trail[-1 - back]
    assert (allowed_tokens(twin), twin.remaining, twin.is_complete) == trail[-1]


def test_a_budget_below_the_minimum_is_refused_with_both_numbers() -> None:
    grammar = grammar_of("[bc]{7}")
    with pytest.raises(GrammarError, match=r"max_tokens=3 .* 7 tokens|max_tokens=3 .* \d+ tokens"):
        Matcher(grammar, max_tokens=3)
    Matcher(grammar, max_tokens=grammar.min_tokens)


def test_a_prefix_that_no_token_writes_is_refused() -> None:
    grammar = Compiler(VOCABULARIES[1]).compile(Regex("a"))
    with pytest.raises(GrammarError, match="prefix="):
        Matcher(grammar, max_tokens=9, prefix=b"1")


def test_a_stop_token_ends_a_complete_text_and_only_that() -> None:
    matcher = Matcher(grammar_of("ab?"), max_tokens=5)
    stop = stop_token(matcher.grammar.vocabulary)
    with pytest.raises(AssertionError, match="before the text is complete"):
        matcher.accept_token(stop)
    matcher.accept_token(token(b"a"))
    assert matcher.is_complete and not matcher.is_terminated
    ended = [matcher.is_terminated]
    for token_id in (stop, None, token(b"b")):  # None: take the last one back
        if token_id is None:
            matcher.rollback(1)
        else:
            matcher.accept_token(token_id)
        ended.append(matcher.is_terminated)
    assert ended == [False, True, False, True]  # after "ab" nothing can follow
    assert allowed_tokens(matcher) == [stop]


def test_a_token_that_the_mask_forbids_is_not_accepted() -> None:
    matcher = Matcher(grammar_of("ab"), max_tokens=2)
    with pytest.raises(AssertionError):
        matcher.accept_token(token(b"b"))
    short = Matcher(grammar_of("[ab]{6}"), max_tokens=grammar_of("[ab]{6}").min_tokens)
    assert token(b"a") not in allowed_tokens(short)
    with pytest.raises(AssertionError):
        short.accept_token(token(b"a"))


def test_the_budget_counts_down_and_ends_a_complete_text() -> None:
    matcher = Matcher(grammar_of("a*"), max_tokens=2)
    matcher.accept_token(token(b"a"))
    assert (matcher.remaining, matcher.min_tokens_to_finish) == (1, 0)
    matcher.accept_token(token(b"a"))
    assert matcher.is_terminated
    assert allowed_tokens(matcher) == [stop_token(matcher.grammar.vocabulary)]


def test_every_stop_token_is_allowed_where_the_text_is_complete() -> None:
    vocabulary = Vocabulary([b"a", None, b"<stop>", None], eos_token_ids=[1, 2])
    matcher = Matcher(Compiler(vocabulary).compile(Choices(["a", "aa"])), max_tokens=9)
    assert allowed_tokens(matcher) == [0]
    matcher.accept_token(0)
    assert allowed_tokens(matcher) == [0, 1, 2]


@given(sg.patterns, st.integers(0, 2**32))
@settings(max_examples=60)
def test_the_list_of_allowed_tokens_is_the_bitmask_at_any_budget(pattern: str, seed: int) -> None:
    rng = random.Random(seed)
    grammar = grammar_of(pattern)
    for max_tokens in (grammar.min_tokens, grammar.min_tokens + 1, 1_000):
        matcher = Matcher(grammar, max_tokens=max_tokens)
        for _ in range(5):
            allowed = allowed_tokens(matcher)
            assert matcher.allowed_token_ids().tolist() == allowed
            assert matcher.num_allowed == len(allowed)
            token_id = rng.choice(allowed)
            assert matcher.allows(token_id)
            matcher.accept_token(token_id)
            if token_id == stop_token(grammar.vocabulary):
                break


def test_a_list_of_few_tokens_is_made_once() -> None:
    matcher = Matcher(grammar_of("[ab]c"), max_tokens=9)
    assert matcher.allowed_token_ids() is matcher.allowed_token_ids()


@given(sg.patterns, st.integers(0, 2**32))
@settings(max_examples=100)
def test_text_that_is_accepted_leads_where_its_tokens_lead(pattern: str, seed: int) -> None:
    rng = random.Random(seed)
    grammar = grammar_of(pattern)
    text = walk(Matcher(grammar, max_tokens=grammar.min_tokens + 20), rng)
    cut = rng.randrange(len(text) + 1)
    matcher, twin = (Matcher(grammar, max_tokens=1_000) for _ in range(2))
    matcher.accept_bytes(text[:cut])
    tokens = grammar.fewest_tokens(text[:cut])
    for token_id in tokens:
        twin.accept_token(token_id)
    assert matcher.state is twin.state and matcher.remaining == twin.remaining
    assert allowed_tokens(matcher) == allowed_tokens(twin)
    matcher.accept_bytes(text[cut:])
    assert matcher.is_complete
    if cut < len(text):
        matcher.rollback(1)
        assert allowed_tokens(matcher) == allowed_tokens(twin)


@given(sg.patterns, st.integers(0, 2**32))
@settings(max_examples=60)
def test_text_within_any_budget_is_refused_or_leaves_a_way_to_finish(
    pattern: str, seed: int
) -> None:
    rng = random.Random(seed)
    grammar = grammar_of(pattern)
    text = walk(Matcher(grammar, max_tokens=grammar.min_tokens + 5), rng)
    for max_tokens in budgets(grammar):
        matcher = Matcher(grammar, max_tokens=max_tokens)
        cut = rng.randrange(len(text) + 1)
        try:
            matcher.accept_bytes(text[:cut])
        except GrammarError:
            assert matcher.remaining == max_tokens
            cut = 0
        assert re.fullmatch(pattern, (text[:cut] + walk(matcher, rng)).decode())


def test_the_cheapest_text_is_accepted_at_the_lowest_budget() -> None:
    for pattern in ("[bc]{7}", "true|null", '"aa":(?:12|abc)'):
        grammar = grammar_of(pattern)
        written = walk(Matcher(grammar, max_tokens=grammar.min_tokens), random.Random(0))
        if len(grammar.fewest_tokens(written)) == grammar.min_tokens:
            Matcher(grammar, max_tokens=grammar.min_tokens).accept_bytes(written)


def test_text_that_is_not_allowed_is_refused() -> None:
    matcher = Matcher(grammar_of("abc{2,9}"), max_tokens=4)
    with pytest.raises(GrammarError, match="is not allowed here"):
        matcher.accept_bytes(b"abd")
    with pytest.raises(GrammarError, match=r"data=b'abccccccc' takes \d tokens"):
        matcher.accept_bytes(b"abccccccc")
    matcher.accept_bytes(b"")
    assert matcher.remaining == 4
    lacking = Matcher(Compiler(Vocabulary([b"aa", b"b"], eos_token_ids=[])).compile(Regex("a*b")),
                      max_tokens=9)  # fmt: skip
    with pytest.raises(GrammarError, match="more tokens than there are"):
        lacking.accept_bytes(b"a")


def test_the_first_complete_text_is_the_last() -> None:
    grammar = grammar_of("a+|b*")
    stop = stop_token(grammar.vocabulary)
    empty = Matcher(grammar, max_tokens=9, stop="first")
    assert empty.is_terminated and allowed_tokens(empty) == [stop]
    matcher = Matcher(grammar_of("a{2,9}"), max_tokens=9, stop="first")
    ended = [matcher.is_terminated]
    for _ in range(2):
        matcher.accept_token(token(b"a"))
        ended.append(matcher.is_terminated)
    assert ended == [False, False, True]
    assert matcher.allowed_token_ids().tolist() == [stop]
    assert matcher.forced_bytes() == b""
    twin = matcher.fork()
    with pytest.raises(AssertionError, match="only a stop token"):
        matcher.accept_token(token(b"a"))
    with pytest.raises(GrammarError, match="is not allowed here"):
        matcher.accept_bytes(b"a")
    twin.accept_token(stop)
    assert twin.is_terminated and allowed_tokens(twin) == [stop]
    with pytest.raises(GrammarError, match="stop='shortest'"):
        Matcher(grammar, max_tokens=9, stop="shortest")  # type: ignore[arg-type]


@given(sg.patterns, st.integers(0, 2**32))
@settings(max_examples=60)
def test_walks_that_stop_at_the_first_text_are_valid_and_within_budget(
    pattern: str, seed: int
) -> None:
    rng = random.Random(seed)
    grammar = grammar_of(pattern)
    for max_tokens in budgets(grammar):
        matcher = Matcher(grammar, max_tokens=max_tokens, stop="first")
        assert re.fullmatch(pattern, walk(matcher, rng).decode())


@given(sg.patterns, sg.texts)
@settings(max_examples=100, deadline=None)
def test_token_masks_and_bytes_agree(pattern: str, text: str) -> None:
    def tokenize(text: str) -> list[int]:
        return [token(bytes([byte])) for byte in text.encode()]

    expected = accepts(Regex(pattern), text)
    assert token_accepts(Regex(pattern), text, VOCABULARIES[0], tokenize) == expected
    assert token_accepts(Regex(pattern), text, VOCABULARIES[0]) == expected


def test_a_long_text_inside_of_an_alternative_takes_no_deep_stack() -> None:
    first, second = "ab" * 10_000, "ba" * 12_000
    grammar = grammar_of(f"(?:{first}|{second}){{2}}1")
    matcher = Matcher(grammar, max_tokens=grammar.min_tokens)
    assert token(b"ba") not in allowed_tokens(matcher)
    assert matcher.min_tokens_to_finish == 2 * len(grammar.fewest_tokens(first.encode())) + 1
