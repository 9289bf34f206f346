"""Jumps: forced text becomes the tokens that the finished text has there, and fits the budget."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from tokenizers import Tokenizer

from grammars import (
    Choices,
    Compiler,
    Grammar,
    GrammarError,
    JsonSchema,
    Matcher,
    Regex,
    Vocabulary,
)
from grammars.jump_forward import CONTEXT_BYTES, MAX_CONTEXT_BYTES, sure_tokens
from tests.grammars import strategies as sg
from tests.grammars.merges import MergeTokenizer
from tests.grammars.test_masks import real_vocabulary
from tests.grammars.vocabularies import allowed_tokens, budgets

TOKENIZERS = [MergeTokenizer(num_merges=size, seed=size) for size in (30, 90, 200)]
Encode = Callable[[str], list[int]]


def jumping_walk(matcher: Matcher, encode: Encode, rng: random.Random) -> tuple[bytes, int]:
    """Jumps where it can and draws where it cannot. The text, and how many tokens were jumped.

    Checks that every jumped token stands in the canonical split of the finished text.
    """
    vocabulary = matcher.grammar.vocabulary
    written, jumped = b"", []
    while not matcher.is_terminated:
        tokens = matcher.jump_forward(encode)
        for token_id in tokens:
            assert matcher.allows(token_id)
            jumped.append((len(written), token_id))
            matcher.accept_token(token_id)
            written += vocabulary.token_bytes(token_id) or b""
        if not tokens:
            token_id = rng.choice(allowed_tokens(matcher))
            matcher.accept_token(token_id)
            written += vocabulary.token_bytes(token_id) or b""
    assert set(jumped) <= set(canonical(written.decode(), encode, vocabulary))
    return written, len(jumped)


def canonical(text: str, encode: Encode, vocabulary: Vocabulary) -> list[tuple[int, int]]:
    """Where each token of a text begins, and the token."""
    found, start = [], 0
    for token_id in encode(text):
        found.append((start, token_id))
        start += len(vocabulary.token_bytes(token_id) or b"")
    return found


@given(sg.patterns, st.sampled_from(TOKENIZERS), st.integers(0, 2**32))
@settings(max_examples=150)
def test_jumps_in_a_pattern_are_canonical_at_any_budget(
    pattern: str, tokenizer: MergeTokenizer, seed: int
) -> None:
    grammar = Compiler(tokenizer.vocabulary).compile(Regex(pattern))
    for max_tokens in [*budgets(grammar), 1_000]:
        matcher = Matcher(grammar, max_tokens=max_tokens)
        jumping_walk(matcher, tokenizer.encode, random.Random(seed))


@given(sg.schemas, st.sampled_from(TOKENIZERS), st.integers(0, 2**32))
@settings(max_examples=150)
def test_jumps_in_a_schema_are_canonical_at_any_budget(
    schema: sg.Schema, tokenizer: MergeTokenizer, seed: int
) -> None:
    try:
        grammar = Compiler(tokenizer.vocabulary).compile(JsonSchema(schema))
    except GrammarError:
        return
    for max_tokens in [*budgets(grammar), 1_000]:
        matcher = Matcher(grammar, max_tokens=max_tokens)
        written, _ = jumping_walk(matcher, tokenizer.encode, random.Random(seed))
        assert grammar.contains(written.decode())


def grammar_of(pattern: str, tokenizer: MergeTokenizer = TOKENIZERS[0]) -> Grammar:
    return Compiler(tokenizer.vocabulary).compile(Regex(pattern))


def test_forced_bytes_are_what_every_text_begins_with() -> None:
    compiler = Compiler(TOKENIZERS[0].vocabulary)
    matcher = Matcher(compiler.compile(Choices(["alphabet", "alphanumeric"])), max_tokens=99)
    assert matcher.forced_bytes() == b"alpha"
    matcher.accept_bytes(b"alphab")
    assert matcher.forced_bytes() == b"et"
    matcher.accept_bytes(b"et")
    assert matcher.forced_bytes() == b""
    assert Matcher(grammar_of("(?:ab)?"), max_tokens=9).forced_bytes() == b""  # it may end here


@given(sg.patterns)
@settings(max_examples=100)
def test_forced_bytes_are_complete(pattern: str) -> None:
    """Nothing else may come before their end, and behind them there is a choice, or the end."""
    matcher = Matcher(grammar_of(pattern), max_tokens=1_000)
    forced = matcher.forced_bytes()
    for byte in forced:
        singles = [t for t in allowed_tokens(matcher) if t < 256]
        assert singles == [byte]
        matcher.accept_token(byte)
    choices = [t for t in allowed_tokens(matcher) if t < 256]
    assert matcher.is_complete or len(choices) > 1


def test_a_token_that_may_become_longer_is_left_to_the_draw() -> None:
    tokens = [b"a", b"b", b"c", b"ab", b"abc", None]
    vocabulary = Vocabulary(tokens, eos_token_ids=[5])

    def encode(text: str) -> list[int]:
        pieces = text.replace("abc", "4").replace("ab", "3")
        return [int(c) if c.isdigit() else "abc".index(c) for c in pieces]

    compiler = Compiler(vocabulary)
    jump = {
        pattern: Matcher(compiler.compile(Regex(pattern)), max_tokens=9).jump_forward(encode)
        for pattern in ("cab", "cab[ab]", "cabc?", "cab[ac]")
    }
    assert jump == {"cab": [2, 3], "cab[ab]": [2, 3], "cabc?": [2], "cab[ac]": [2]}


def test_a_jump_never_begins_or_ends_inside_of_a_character() -> None:
    tokenizer = TOKENIZERS[0]
    matcher = Matcher(grammar_of("é|è"), max_tokens=9)
    assert len(matcher.forced_bytes()) == 1
    assert matcher.jump_forward(tokenizer.encode) == []
    matcher.accept_bytes(b"\xc3\xa9")
    inside = Matcher(grammar_of("日本"), max_tokens=9)
    inside.accept_bytes("日".encode()[:1])
    assert inside.forced_bytes() == "日本".encode()[1:]
    assert inside.jump_forward(tokenizer.encode) == []


def test_no_jump_when_the_tokenizer_changes_the_text() -> None:
    tokenizer = TOKENIZERS[0]
    matcher = Matcher(grammar_of("ABC1"), max_tokens=9)
    assert matcher.jump_forward(lambda text: tokenizer.encode(text.lower())) == []
    assert matcher.jump_forward(lambda text: tokenizer.encode(" " + text)) == []
    assert matcher.jump_forward(lambda text: [*tokenizer.encode(text), tokenizer.stop]) == []
    assert matcher.jump_forward(tokenizer.encode) != []


def test_a_jump_within_a_tight_budget_stops_where_the_rest_would_not_fit() -> None:
    """The tokenizer splits "abab" into more tokens than the fewest that write it."""
    vocabulary = Vocabulary([b"a", b"b", b"abab", None], eos_token_ids=[3])
    grammar = Compiler(vocabulary).compile(Regex("abab"))

    def encode(text: str) -> list[int]:
        return ["ab".index(char) for char in text]

    assert Matcher(grammar, max_tokens=4).jump_forward(encode) == [0, 1, 0, 1]
    assert Matcher(grammar, max_tokens=1).jump_forward(encode) == []


def test_what_stands_before_can_leave_no_border() -> None:
    vocabulary = Vocabulary([b"a", b"b", b"ab", None], eos_token_ids=[3])
    grammar = Compiler(vocabulary).compile(Regex("bb"))

    def encode(text: str) -> list[int]:
        return ["ab2".index(char) for char in text.replace("ab", "2")]

    matcher = Matcher(grammar, max_tokens=4)
    assert matcher.jump_forward(encode) == [1, 1]
    assert matcher.jump_forward(encode, before=b"bb") == [1, 1]
    assert matcher.jump_forward(encode, before=b"ba") == []


def test_long_texts_are_split_from_a_place_that_no_token_spans() -> None:
    tokenizer = TOKENIZERS[2]
    rng = random.Random(0)
    for _ in range(20):
        known = "".join(rng.choice('ab01",:{} é日') for _ in range(2 * MAX_CONTEXT_BYTES))
        found = sure_tokens(
            known.encode(),
            b'ab,"x',
            tokenize=tokenizer.encode,
            vocabulary=tokenizer.vocabulary,
            exceeding=lambda text: [],
        )
        place = len(known.encode())
        expected = canonical(known + 'ab,"x', tokenizer.encode, tokenizer.vocabulary)
        behind = [token_id for start, token_id in expected if start >= place]
        assert found == (behind if place in dict(expected) else [])


def test_a_text_that_hangs_together_for_long_is_not_jumped_behind() -> None:
    vocabulary = Vocabulary([b"a", b"aa", None], eos_token_ids=[2])

    def jump(length: int) -> list[int]:
        return sure_tokens(
            b"a" * length,
            b"aa",
            tokenize=lambda text: [1] * (len(text) // 2) + [0] * (len(text) % 2),
            vocabulary=vocabulary,
            exceeding=lambda text: [],
        )

    assert jump(CONTEXT_BYTES) == jump(MAX_CONTEXT_BYTES) == [1]
    assert jump(MAX_CONTEXT_BYTES + 2) == []


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "role": {"enum": ["admin", "user", "guest"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
    },
    "required": ["name", "age", "role", "tags"],
    "additionalProperties": False,
}
PEOPLE = [
    {"name": "Ada Lovelace", "age": 36, "role": "admin", "tags": ["maths", "poetry"]},
    {"name": 'd\'Artagnan (né 日本) 🐢 "x"', "age": 5, "role": "user", "tags": []},
    {"name": "", "age": 150, "role": "guest", "tags": ["", " ", "\n- é"]},
]


@pytest.mark.model
def test_a_fifth_of_compact_json_is_jumped_and_all_of_it_canonical(
    default_model_path: Path,
) -> None:
    core = Tokenizer.from_file(str(default_model_path / "tokenizer.json"))
    grammar = Compiler(real_vocabulary(default_model_path)).compile(JsonSchema(PERSON))

    def encode(text: str) -> list[int]:
        return list(core.encode(text, add_special_tokens=False).ids)

    num_tokens = num_jumped = 0
    for person in PEOPLE:
        tokens = encode(json.dumps(person, ensure_ascii=False, separators=(",", ":")))
        matcher = Matcher(grammar, max_tokens=200)
        at = 0
        while at < len(tokens):
            jump = matcher.jump_forward(encode)
            assert tokens[at : at + len(jump)] == jump
            for token_id in jump or [tokens[at]]:
                matcher.accept_token(token_id)
            at += len(jump) or 1
            num_jumped += len(jump)
        num_tokens += len(tokens)
    assert num_jumped >= 0.2 * num_tokens
    rng = random.Random(0)
    for max_tokens in [*budgets(grammar), 60, 120]:
        jumping_walk(Matcher(grammar, max_tokens=max_tokens), encode, rng)
