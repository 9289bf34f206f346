"""What was written is remembered, and exactly: masks, budgets and jumps against the bytes alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from grammars import Compiler, Grammar, GrammarError, JsonSchema, Matcher, Vocabulary, accepts
from grammars.derive import arms, step
from grammars.expr import Expr
from grammars.samples import byte_vocabulary
from tests.grammars.judge import is_valid
from tests.grammars.vocabularies import allowed_tokens, budgets, walk as random_walk

TOKENS: list[bytes] = [bytes([byte]) for byte in b'[]{},:"ab01-.truefalsn \\']
TOKENS = list(dict.fromkeys(TOKENS))
TOKENS += [
    b'","',
    b'",',
    b',"',
    b'["',
    b'"]',
    b'""',
    b'"a"',
    b',"a"',
    b'"a","',
    b'"a","b"',
    b'","a"',
]
TOKENS += [b"0,", b",0", b",1,", b"0,1", b"1,0,", b"[0,1", b"[0,1]", b",0]", b"],[", b"[],", b",[]"]
TOKENS += [
    b'{"a":',
    b'":0,"',
    b'":0}',
    b'"a":0',
    b',"a":0',
    b',"b":',
    b"{}",
    b",{}",
    b"true",
    b",true",
]
TOKENS += [
    b'"a":0,"b":0',
    b"null,",
    b",null",
    b'],["a"',
    b'["a","b"]',
    b'{"a":0},{"',
    b'{"a":0,"b":1}',
]
VOCABULARY = Vocabulary([*TOKENS, None], eos_token_ids=[len(TOKENS)])

scalars: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "maxLength": 2},
    {"type": "string", "pattern": "^[ab]{0,9}$"},
    {"type": "integer"},
    {"type": "number", "minimum": 0, "maximum": 1},
    {"type": ["integer", "string"]},
    {"type": ["boolean", "string", "null"], "maxLength": 1},
]
names: list[Any] = [True, {"pattern": "^[ab]"}, {"maxLength": 2}, {"pattern": "^(a|b[ab]*)$"}]


@st.composite
def objects(draw: st.DrawFn, values: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "additionalProperties": draw(values),
        "propertyNames": draw(st.sampled_from(names)),
        "minProperties": draw(st.integers(0, 3)),
    }
    if draw(st.booleans()):
        found["properties"] = {"a": draw(values)}
    if draw(st.booleans()):
        found["maxProperties"] = found["minProperties"] + draw(st.integers(0, 2))
    return found


@st.composite
def arrays(draw: st.DrawFn, values: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "array",
        "uniqueItems": True,
        "minItems": draw(st.integers(0, 3)),
    }
    found["items"] = draw(values)
    if draw(st.booleans()):
        found["maxItems"] = max(2, found["minItems"] + draw(st.integers(0, 2)))
    return found


leaves = st.sampled_from(scalars)
inner = st.one_of(leaves, leaves, objects(leaves), arrays(leaves))
schemas = st.one_of(arrays(inner), objects(inner), arrays(st.just(True)), objects(st.just(True)))


def compiled(schema: dict[str, Any], order: Any) -> Grammar | None:
    try:
        return Compiler(VOCABULARY, max_lazy_seconds=60.0).compile(
            JsonSchema(schema, property_order=order)
        )
    except GrammarError:
        return None


def is_beginning(grammar: Grammar, node: Expr, most: int = 400) -> bool | None:
    """Whether the bytes can complete a state: a search in depth of the expressions alone, in which
    every byte is noted. None where it takes too long.
    """
    algebra = grammar._language._algebra
    algebra.budget.refill()
    pending, steps = [node], 0
    while pending:
        here = pending.pop()
        if here.nullable:
            return True
        steps += 1
        if steps > most:
            return None
        after = [
            step(algebra, here, byte)
            for mask, _ in arms(algebra, here)
            for byte in range(256)
            if mask >> byte & 1 and (byte in LIKELY or mask.bit_count() < 4)
        ]
        closing = [step(algebra, here, byte) for byte in CLOSING]
        pending += [rest for rest in [*after, *closing] if rest is not algebra.empty]
    return False


LIKELY = b"019abtfn\\-"
CLOSING = b',:}]"'


def possible_tokens(grammar: Grammar, node: Expr) -> dict[int, bool | None]:
    """For each token, whether the bytes alone can complete the text after it."""
    algebra = grammar._language._algebra
    found: dict[int, bool | None] = {}
    for token_id, data in enumerate(TOKENS):
        after = node
        for byte in data:
            after = step(algebra, after, byte)
        found[token_id] = after is not algebra.empty and is_beginning(grammar, after)
    return found


def draw_text(grammar: Grammar, rng: random.Random) -> bytes:
    return random_walk(Matcher(grammar, max_tokens=grammar.min_tokens + rng.randrange(12)), rng)


@given(schemas, st.sampled_from(["declared", "any"]), st.integers(0, 2**32))
@settings(max_examples=16, suppress_health_check=list(HealthCheck))
def test_a_mask_is_what_the_bytes_can_complete(schema: Any, order: Any, seed: int) -> None:
    grammar = compiled(schema, order)
    if grammar is None:
        return
    rng = random.Random(seed)
    matcher = Matcher(grammar, max_tokens=100_000)
    for _ in range(rng.randrange(1, 9)):
        allowed = set(allowed_tokens(matcher)) - set(VOCABULARY.eos_token_ids)
        for token_id, is_possible in possible_tokens(grammar, matcher.state).items():
            if is_possible is not None:
                assert (token_id in allowed) == is_possible, TOKENS[token_id]
        if not allowed:
            break
        longer = sorted(allowed, key=lambda token_id: -len(TOKENS[token_id]))[:6]
        matcher.accept_token(rng.choice([rng.choice(sorted(allowed)), rng.choice(longer)]))


@given(schemas, st.sampled_from(["declared", "any"]), st.integers(0, 2**32))
@settings(max_examples=16, suppress_health_check=list(HealthCheck))
def test_walks_are_valid_at_every_budget(schema: Any, order: Any, seed: int) -> None:
    grammar = compiled(schema, order)
    if grammar is None:
        return
    for budget in budgets(grammar):
        text = random_walk(Matcher(grammar, max_tokens=budget), random.Random(seed)).decode()
        assert is_valid(schema, text), text


def passes(grammar: Grammar, text: bytes) -> tuple[bool, bool]:
    """Whether the masks let any, and every, way through to split a text into tokens."""
    places = {0: Matcher(grammar, max_tokens=100_000)}
    is_every = True
    for start in range(len(text)):
        if start not in places:
            continue
        allowed = set(allowed_tokens(places[start]))
        for token_id, data in enumerate(TOKENS):
            if text.startswith(data, start):
                is_every = is_every and token_id in allowed
                if token_id in allowed:
                    after = places[start].fork()
                    after.accept_token(token_id)
                    places[start + len(data)] = after
    end = places.get(len(text))
    is_any = end is not None and end.is_complete
    return is_any, is_any and is_every


@given(schemas, st.sampled_from(["declared", "any"]), st.integers(0, 2**32))
@settings(max_examples=16, suppress_health_check=list(HealthCheck))
def test_every_way_to_split_an_accepted_text_passes(schema: Any, order: Any, seed: int) -> None:
    grammar = compiled(schema, order)
    if grammar is None:
        return
    rng = random.Random(seed)
    text = draw_text(grammar, rng)
    assert passes(grammar, text) == (True, True), text
    place = rng.randrange(len(text))
    piece = text[place : place + rng.randrange(1, 5)]
    other = text[:place] + rng.choice([piece + b"," + piece, b"", b"a", b"0"]) + text[place + 1 :]
    try:
        is_accepted = grammar.contains(other.decode())
    except UnicodeDecodeError:
        return
    assert passes(grammar, other) == (is_accepted, is_accepted), other


@given(schemas, st.sampled_from(["declared", "any"]), st.integers(0, 2**32))
@settings(max_examples=12, suppress_health_check=list(HealthCheck))
def test_what_is_jumped_is_allowed_by_the_masks(schema: Any, order: Any, seed: int) -> None:
    grammar = compiled(schema, order)
    if grammar is None:
        return
    for budget in [*budgets(grammar), 1_000]:
        rng = random.Random(seed)
        matcher = Matcher(grammar, max_tokens=budget)
        for _ in range(12):
            for token_id in matcher.jump_forward(longest_first):
                assert matcher.allows(token_id)
                matcher.accept_token(token_id)
            if matcher.is_terminated:
                break
            choices = sorted(set(allowed_tokens(matcher)) - set(VOCABULARY.eos_token_ids))
            if not choices:
                break
            forced = matcher.forced_bytes()
            for data in (TOKENS[token_id] for token_id in choices):
                assert forced.startswith(data) or data.startswith(forced)
            matcher.accept_token(rng.choice(choices))


def longest_first(text: str) -> list[int]:
    """Splits a text greedily; what cannot be written is left out."""
    data = text.encode()
    found: list[int] = []
    while data:
        fits = [index for index, token in enumerate(TOKENS) if data.startswith(token)]
        if not fits:
            return found
        token_id = max(fits, key=lambda index: len(TOKENS[index]))
        found.append(token_id)
        data = data[len(TOKENS[token_id]) :]
    return found


def test_the_least_budget_is_that_of_a_real_text() -> None:
    """Single bytes: all digits but one that is too many, and names of one letter."""
    vocabulary = Vocabulary([*([bytes([b]) for b in range(256)]), None], eos_token_ids=[256])
    cases: list[tuple[dict[str, Any], int]] = [
        ({"type": "array", "uniqueItems": True, "minItems": 9, "items": {"type": "integer"}}, 19),
        ({"type": "array", "uniqueItems": True, "minItems": 11, "items": {"type": "integer"}}, 24),
        ({"additionalProperties": {"const": 1}, "minProperties": 2, "type": "object"}, 12),
    ]
    for schema, least in cases:
        grammar = Compiler(vocabulary).compile(JsonSchema(schema))
        assert grammar.min_tokens == least
        with pytest.raises(GrammarError, match=f"the {least} tokens of the shortest known output"):
            Matcher(grammar, max_tokens=least - 1)


def test_the_last_of_the_values_is_followed_by_none() -> None:
    members = {"a": {"enum": list("abcdefghi")}, "b": {"enum": list("abcdefgh")}}
    item: dict[str, Any] = {"type": "object", "properties": members, "required": ["a", "b"]}
    item["additionalProperties"] = False
    schema = {"type": "array", "uniqueItems": True, "items": item}
    values = [f'{{"a":"{a}","b":"{b}"}}' for a in "abcdefghi" for b in "abcdefgh"]
    matcher = Matcher(
        Compiler(byte_vocabulary(), max_lazy_seconds=60.0).compile(JsonSchema(schema)),
        max_tokens=100_000,
    )
    matcher.accept_bytes(("[" + values[0]).encode())
    for value in values[1:-1]:
        matcher.accept_bytes(("," + value).encode())
    assert matcher.allows(ord(",")) and matcher.allows(ord("]"))
    matcher.accept_bytes(("," + values[-1]).encode())
    assert not matcher.allows(ord(",")) and matcher.allows(ord("]"))


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"if": 3}, "/if"),
        ({"if": {"type": "x"}}, "/if/type"),
        ({"else": "no"}, "/else"),
        ({"items": {"minContains": -1}}, "/items/minContains"),
        ({"not": {"type": "array", "maxContains": 1.5}}, "/not/maxContains"),
    ],
)
def test_what_asks_for_nothing_is_no_excuse_to_be_malformed(schema: Any, pointer: str) -> None:
    with pytest.raises(GrammarError) as caught:
        accepts(JsonSchema(schema), "[]")
    assert caught.value.position == pointer


@pytest.mark.parametrize("extra", [{}, {"uniqueItems": True}, {"contains": {"const": 1}}])
def test_empty_brackets_hold_one_gap(extra: Any) -> None:
    least = {"minContains": 0, "maxContains": 2} if "contains" in extra else {}
    schema = JsonSchema({**extra, **least}, whitespace="flexible", max_whitespace=2)
    for text in ["[]", "[  ]", "{  }", "[  1  ]", '{  "a"  :  1  }']:
        assert accepts(schema, text), text
    for text in ["[   ]", "{   }", "[   1]", "[1   ]"]:
        assert not accepts(schema, text), text
