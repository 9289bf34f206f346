"""Masks against brute force over the whole vocabulary."""

from __future__ import annotations

import json
import random
import re
from itertools import product
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

from grammars import Compiler, EmptyLanguageError, JsonSchema, Matcher, Regex, Vocabulary
from grammars.algebra import Algebra
from grammars.derive import has_string, walk as derive
from grammars.mask_store import BYTES_PER_ENTRY, MaskCache
from grammars.masks import BandMask
from grammars.regex import parse
from grammars.regex_tree import span
from tests.grammars import strategies as sg
from tests.grammars.vocabularies import allowed_tokens, small_vocabulary, stop_token, walk

SLACK = 100_000
VOCABULARY = small_vocabulary()
LACKING = small_vocabulary(missing=[0xC3, 0xF1, 0x31, 0x01], seed=1)
LETTERS = Vocabulary([b"a", b"b", b"ab", b"ba", b"bb", b"aab", b"abba", None], eos_token_ids=[7])


def patient(vocabulary: Vocabulary) -> Compiler:
    """A compiler whose steps may take as long as a busy machine makes them."""
    return Compiler(vocabulary, max_lazy_seconds=60.0)


def brute_force(matcher: Matcher) -> list[int]:
    """The tokens after whose bytes some string remains, asked one by one."""
    vocabulary = matcher.grammar.vocabulary
    algebra = matcher._language._algebra
    node = matcher.state
    found = [
        token_id
        for token_id in range(vocabulary.size)
        if (data := vocabulary.token_bytes(token_id)) is not None
        and has_string(algebra, derive(algebra, node, data))
    ]
    return found + list(vocabulary.eos_token_ids) * matcher.is_complete


@given(sg.patterns, st.sampled_from([VOCABULARY, LACKING]), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_mask_is_brute_force_at_every_state_of_a_walk(
    pattern: str, vocabulary: Vocabulary, seed: int
) -> None:
    rng = random.Random(seed)
    try:
        matcher = Matcher(patient(vocabulary).compile(Regex(pattern)), max_tokens=SLACK)
    except EmptyLanguageError:
        return
    for _ in range(6):
        allowed = allowed_tokens(matcher)
        assert allowed == brute_force(matcher)
        token_id = rng.choice(allowed)
        matcher.accept_token(token_id)
        if token_id == stop_token(vocabulary):
            break


@given(sg.schemas, st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_a_mask_of_a_schema_is_brute_force(schema: sg.Schema, seed: int) -> None:
    rng = random.Random(seed)
    try:
        matcher = Matcher(
            patient(VOCABULARY).compile(JsonSchema(schema)),
            max_tokens=SLACK,
        )
    except ValueError:
        return
    for _ in range(6):
        allowed, possible = allowed_tokens(matcher), brute_force(matcher)
        if matcher.state.notes:  # a token that goes on into another name may be left out
            assert set(allowed) <= set(possible)
            left_out = [VOCABULARY.token_bytes(t) or b"" for t in {*possible} - {*allowed}]
            assert all(len(data) > 2 for data in left_out)
        else:
            assert allowed == possible
        token_id = rng.choice(allowed)
        matcher.accept_token(token_id)
        if token_id == stop_token(VOCABULARY):
            break


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        ("a.*b", 40),
        ("^[ab]+(?:-[ab]+)*$", 30),
        ("^https?://", 24),
        (r"^\S(?:.*\S)?$", 33),
        ("a{3}.*b{4}$", 26),
        ("é|x.{0,20}y", 36),
        ("(?:é[ab]){0,20}|(?:[^a]é){2}", 25),
        ("(?:[a-z]{2,15}-x{0,12}){1,9}", 40),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_a_pattern_with_a_far_length_is_brute_force_and_keeps_its_budget(
    pattern: str, length: int, seed: int
) -> None:
    rng = random.Random(seed)
    schema = {"type": "string", "pattern": pattern, "maxLength": length}
    grammar = patient(VOCABULARY).compile(JsonSchema(schema))
    matcher = Matcher(grammar, max_tokens=SLACK)
    while not matcher.is_terminated:
        allowed = allowed_tokens(matcher)
        assert allowed == brute_force(matcher)
        longer = [t for t in allowed if len(VOCABULARY.token_bytes(t) or b"") > 1]
        matcher.accept_token(rng.choice(longer or allowed))
    for extra in (0, 1, 4, 15):
        text = walk(Matcher(grammar, max_tokens=grammar.min_tokens + extra), rng).decode()
        jsonschema.validate(json.loads(text), schema)


@pytest.mark.parametrize(
    "pattern",
    [
        '[^"]*"(?:ab|,)?',  # leaves its head by a byte of its own
        '[^"]{0,9}",x|[^"]{0,9}"1',  # two tails of one head
        ".*a.{0,3}",  # a byte may stay in the head and leave it
        "(?:[^a]|aa)*a?b",  # may leave in the middle of a round
        "[^a]{3,}aa[^b]*b",
    ],
)
def test_a_head_that_is_walked_apart_from_its_tail_is_brute_force(pattern: str) -> None:
    rng = random.Random(0)
    compiler = patient(VOCABULARY)
    for _ in range(4):
        matcher = Matcher(compiler.compile(Regex(pattern)), max_tokens=SLACK)
        while not matcher.is_terminated and matcher.remaining > SLACK - 8:
            allowed = allowed_tokens(matcher)
            assert allowed == brute_force(matcher)
            matcher.accept_token(rng.choice(allowed))


def fewest_tokens(texts: set[bytes]) -> float:
    """The fewest tokens of LETTERS that write one of these texts."""
    written = {b""}
    for count in range(10):
        if written & texts:
            return count
        written = {
            left + data
            for left in written
            for data in map(LETTERS.token_bytes, range(7))
            if data and any(text.startswith(left + data) for text in texts)
        }
    return float("inf")


@given(sg.finite_patterns, st.integers(0, 2**32), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_masks_agree_with_re_alone_on_finite_languages(pattern: str, seed: int, extra: int) -> None:
    """Independent of the algebra: `re` lists every text, every token is tried against the list."""
    longest = 9
    assume((span(parse(pattern))[1] or 0) <= longest)
    texts = {
        "".join(text).encode()
        for length in range(longest + 1)
        for text in product("ab", repeat=length)
        if re.fullmatch(pattern, "".join(text))
    }
    rng = random.Random(seed)
    grammar = Compiler(LETTERS).compile(Regex(pattern))
    slack = Matcher(grammar, max_tokens=100)
    tight = Matcher(grammar, max_tokens=grammar.min_tokens + extra)
    assert grammar.min_tokens >= fewest_tokens(texts)
    while not tight.is_terminated:
        allowed, affordable = allowed_tokens(slack), allowed_tokens(tight)
        rests = {
            token_id: {text[len(data) :] for text in texts if text.startswith(data)}
            for token_id in range(7)
            if (data := LETTERS.token_bytes(token_id))
        }
        assert allowed == [t for t, rest in rests.items() if rest] + [7] * (b"" in texts)
        assert affordable and set(affordable) <= set(allowed)
        for token_id in affordable:
            assert token_id == 7 or fewest_tokens(rests[token_id]) <= tight.remaining - 1
        token_id = rng.choice(affordable)
        slack.accept_token(token_id)
        tight.accept_token(token_id)
        texts = rests.get(token_id, texts)


def test_a_long_counter_has_few_masks() -> None:
    matcher = Matcher(patient(VOCABULARY).compile(Regex("a{0,5000}")), max_tokens=SLACK)
    token_id = allowed_tokens(matcher)[0]
    rows = set()
    for _ in range(500):
        rows.add(id(matcher._language.mask(matcher.state)))
        matcher.accept_token(token_id)
    assert len(rows) == 1


def test_the_cache_keeps_what_was_used_last_within_its_bytes() -> None:
    algebra = Algebra()
    nodes = [algebra.literal(bytes([number, number])) for number in range(10)]
    row = np.zeros(1_000, dtype=np.int32)
    none = np.zeros(0, dtype=np.int32)
    masks = [BandMask(row=row.copy(), token_ids=none, costs=none) for _ in nodes]
    cache = MaskCache(3 * (masks[0].num_bytes + BYTES_PER_ENTRY))
    for node, mask in zip(nodes[:3], masks, strict=False):
        cache.put(node, mask)
    assert cache.get(nodes[0]) is masks[0]
    cache.put(nodes[3], masks[3])
    kept = [cache.get(node) is not None for node in nodes[:4]]
    assert kept == [True, False, True, True]


def test_a_vocabulary_without_single_bytes_is_never_led_into_a_dead_end() -> None:
    """Here bytes can write "ab", and tokens cannot: only "aab" and "ba" are spelled."""
    vocabulary = Vocabulary([b"aa", b"b", b"ba", None], eos_token_ids=[3])
    matcher = Matcher(patient(vocabulary).compile(Regex("ab|aab|ba|baa")), max_tokens=9)
    assert allowed_tokens(matcher) == [0, 1, 2]
    matcher.accept_token(1)
    assert allowed_tokens(matcher) == [0]


@pytest.mark.model
def test_masks_are_brute_force_on_the_real_vocabulary(default_model_path: Path) -> None:
    vocabulary = real_vocabulary(default_model_path)
    compiler = patient(vocabulary)
    rng = random.Random(0)
    for constraint in (
        Regex(r"(?:[A-Z]\w{1,8} ){2}\d{4}é?"),
        JsonSchema({"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}},
                    "required": ["a"]}),
    ):  # fmt: skip
        matcher = Matcher(compiler.compile(constraint), max_tokens=SLACK)
        for _ in range(4):
            allowed = allowed_tokens(matcher)
            assert allowed == brute_force(matcher)
            matcher.accept_token(rng.choice(allowed))


def real_vocabulary(folder: Path) -> Vocabulary:
    """The byte-BPE vocabulary of a folder with tokenizer.json, read from the file itself."""
    described = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    byte_of = {chr(byte): byte for byte in printable}
    byte_of |= {chr(256 + index): byte for index, byte in enumerate(others)}
    special = {token["content"] for token in described["added_tokens"]}
    tokens: list[bytes | None] = [None] * len(described["model"]["vocab"])
    for text, token_id in described["model"]["vocab"].items():
        if text not in special:
            tokens[token_id] = bytes(byte_of[char] for char in text)
    stop = described["model"]["vocab"]["<|im_end|>"]
    return Vocabulary(tokens, eos_token_ids=[stop])
