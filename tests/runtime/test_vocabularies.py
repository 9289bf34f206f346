"""Constraints in the vocabularies of every kind of tokenizer: the masks are what brute force finds,
walks end valid at any budget, and jumps are what the tokenizer makes of the finished text.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from grammars import Compiler, Constraint, JsonSchema, Matcher, Regex, Vocabulary
from grammars.derive import walk as derive
from runtime.model.load import load_tokenizer
from runtime.tokenizer import Tokenizer
from runtime.tokens import token_bytes
from tests.grammars.test_jump_forward import jumping_walk
from tests.grammars.test_masks import brute_force
from tests.grammars.vocabularies import allowed_tokens, budgets, walk
from tests.runtime import small_tokenizers as small, wheel_vocabularies as wheel

SLACK = 100_000
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "the": {"enum": ["ab", "aa", "日本", None]},
        "n": {"type": "integer", "minimum": -9, "maximum": 999},
        "list": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["name", "the", "n", "list"],
    "additionalProperties": False,
}
PATTERN = r"(?:the|a) [a-z]{1,4}(?:\n|,  )[0-9]{2,3}é?(?:日本|日曜){0,2}"
CONSTRAINTS: list[Constraint] = [JsonSchema(SCHEMA), Regex(PATTERN)]

SMALL: dict[str, Callable[[], Any]] = {
    "byte-level": small.byte_level,
    "sentencepiece": small.sentencepiece,
    "sentencepiece, legacy": lambda: small.sentencepiece(legacy=True),
}


def assert_valid(constraint: Constraint, text: str) -> None:
    if isinstance(constraint, Regex):
        assert re.fullmatch(PATTERN, text)
    else:
        jsonschema.validate(json.loads(text), SCHEMA)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=["schema", "pattern"])
def test_masks_are_brute_force_and_walks_end_valid(kind: str, constraint: Constraint) -> None:
    tokenizer = small.engine_tokenizer(SMALL[kind]())
    grammar = Compiler(tokenizer.vocabulary).compile(constraint)
    for seed in range(6):
        rng = random.Random(seed)
        matcher = Matcher(grammar, max_tokens=SLACK)
        while not matcher.is_terminated:
            allowed = allowed_tokens(matcher)
            assert allowed == sorted(brute_force(matcher))
            matcher.accept_token(rng.choice(allowed))
        for max_tokens in budgets(grammar):
            written = walk(Matcher(grammar, max_tokens=max_tokens), rng)
            assert_valid(constraint, written.decode())


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=["schema", "pattern"])
def test_jumps_are_canonical_inside_of_a_text(kind: str, constraint: Constraint) -> None:
    tokenizer = small.engine_tokenizer(SMALL[kind]())
    grammar = Compiler(tokenizer.vocabulary).compile(constraint)
    num_jumped = 0
    for seed in range(20):
        for max_tokens in [*budgets(grammar), SLACK]:
            matcher = Matcher(grammar, max_tokens=max_tokens)
            _, count = jumping_walk(matcher, tokenizer.encode_within, random.Random(seed))
            num_jumped += count
    assert num_jumped


def test_a_tokenizer_that_adds_a_dummy_prefix_to_what_is_forced_jumps_nothing() -> None:
    tokenizer = small.engine_tokenizer(small.sentencepiece())
    grammar = Compiler(tokenizer.vocabulary).compile(Regex("the abab"))
    matcher = Matcher(grammar, max_tokens=SLACK)
    assert matcher.jump_forward(tokenizer.encode) == []
    assert matcher.jump_forward(tokenizer.encode_within) == tokenizer.encode_within("the abab")


def test_a_run_of_white_space_is_left_open_since_its_last_belongs_to_the_word_behind() -> None:
    """No token reaches beyond the spaces here, and yet a digit behind them splits them."""
    tokenizer = small.engine_tokenizer(small.byte_level())
    assert tokenizer.encode_within("{  ") == tokenizer.encode_within("{") + tokenizer.encode("  ")
    grammar = Compiler(tokenizer.vocabulary).compile(Regex("[{]  [3-9]"))
    matcher = Matcher(grammar, max_tokens=SLACK)
    assert matcher.jump_forward(tokenizer.encode_within) == tokenizer.encode_within("{")
    assert len(tokenizer.encode_within("{  3")) == 4


def leads_on(matcher: Matcher, token_id: int) -> bool:
    """Whether tokens can complete the text behind this one: not all that bytes could write, tokens
    can.
    """
    vocabulary = matcher.grammar.vocabulary
    if token_id in vocabulary.eos_token_ids:
        return True
    algebra = matcher._language._algebra
    tokens = [data for t in range(vocabulary.size) if (data := vocabulary.token_bytes(t))]
    pending = [derive(algebra, matcher.state, vocabulary.token_bytes(token_id) or b"")]
    seen = set(pending)
    while pending:
        here = pending.pop()
        if here.nullable:
            return True
        following = {derive(algebra, here, data) for data in tokens} - seen - {algebra.empty}
        seen |= following
        pending += following
    return False


def test_words_write_what_their_tokens_can() -> None:
    """Every word that does not begin with ## comes with its space."""
    tokenizer = small.engine_tokenizer(small.word_piece())
    compiler = Compiler(tokenizer.vocabulary)
    pattern = ' (?:a|b){1,2}(?: ab|,|"){0,3}1'
    grammar = compiler.compile(Regex(pattern))
    for seed in range(20):
        rng = random.Random(seed)
        for max_tokens in budgets(grammar):
            written = walk(Matcher(grammar, max_tokens=max_tokens), rng).decode()
            assert re.fullmatch(pattern, written)
            matcher = Matcher(grammar, max_tokens=SLACK)
            while not matcher.is_terminated:
                allowed = allowed_tokens(matcher)
                assert allowed == [t for t in sorted(brute_force(matcher)) if leads_on(matcher, t)]
                matcher.accept_token(rng.choice(allowed))
    with pytest.raises(ValueError, match="no text that this vocabulary can write"):
        compiler.compile(Regex(" ab  1"))


# -- real ones -------------------------------------------------------------------------------------


def spot_check(vocabulary: Vocabulary) -> None:
    """A few states of each constraint against brute force, and walks at the lowest budgets."""
    rng = random.Random(0)
    for constraint in CONSTRAINTS:
        grammar = Compiler(vocabulary).compile(constraint)
        matcher = Matcher(grammar, max_tokens=SLACK)
        for _ in range(3):
            allowed = allowed_tokens(matcher)
            assert allowed == sorted(brute_force(matcher))
            matcher.accept_token(rng.choice(allowed))
        for max_tokens in budgets(grammar):
            written = walk(Matcher(grammar, max_tokens=max_tokens), rng)
            assert_valid(constraint, written.decode())


def spot_check_jumps(tokenizer: Tokenizer) -> None:
    for constraint in CONSTRAINTS:
        grammar = Compiler(tokenizer.vocabulary).compile(constraint)
        for seed in range(5):
            for max_tokens in [*budgets(grammar), 100]:
                matcher = Matcher(grammar, max_tokens=max_tokens)
                jumping_walk(matcher, tokenizer.encode_within, random.Random(seed))


@cache
def sentencepiece_of(name: str) -> tuple[list[bytes | None], Any]:
    pieces = wheel.read_pieces(wheel.wheel_file(name))
    return [piece.data for piece in pieces], wheel.sentencepiece_backend(pieces)


@pytest.mark.parametrize(
    "name", ["tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"]
)
def test_a_real_sentencepiece_model_is_read_right_in_every_token(name: str) -> None:
    expected, backend = sentencepiece_of(name)
    assert token_bytes(backend.backend_tokenizer) == expected


def test_masks_and_jumps_are_right_in_a_real_sentencepiece_model() -> None:
    _, backend = sentencepiece_of("tokenizer.model.v1")
    tokenizer = small.engine_tokenizer(backend)
    assert tokenizer.vocabulary.is_complete
    spot_check(tokenizer.vocabulary)
    spot_check_jumps(tokenizer)


@pytest.mark.slow
def test_a_real_tekken_file_is_read_right_in_every_token() -> None:
    expected, pattern = wheel.read_tekken(wheel.wheel_file("tekken_240911.json"))
    tokenizer = small.engine_tokenizer(
        wheel.tekken_backend(expected, pattern), eos_token="<SPECIAL_2>"
    )
    assert tokenizer.token_bytes == expected
    assert tokenizer.is_exact
    spot_check(tokenizer.vocabulary)
    spot_check_jumps(tokenizer)


@pytest.mark.model
def test_masks_and_jumps_are_right_in_the_default_model_s_vocabulary(
    default_model_path: Path,
) -> None:
    tokenizer = load_tokenizer(default_model_path, vocab_size=49152)
    assert tokenizer.is_exact
    spot_check(tokenizer.vocabulary)
    spot_check_jumps(tokenizer)
