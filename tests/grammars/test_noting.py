"""What was written is remembered: names and items do not come twice, whatever the tokens."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars import Compiler, Grammar, GrammarError, JsonSchema, Matcher, accepts, token_accepts
from grammars.derive import walk
from tests.grammars.vocabularies import (
    allowed_tokens,
    budgets,
    small_vocabulary,
    walk as random_walk,
)

VOCABULARY = small_vocabulary()

SCHEMAS: dict[str, Any] = {
    "numbers": {"type": "array", "items": {"type": "integer"}, "uniqueItems": True},
    "strings": {
        "type": "array",
        "items": {"type": "string", "maxLength": 12},
        "uniqueItems": True,
        "minItems": 2,
    },
    "anything": {"type": "array", "uniqueItems": True, "minItems": 1, "maxItems": 4},
    "objects": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"enum": ["x", 1.0]}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "uniqueItems": True,
        "minItems": 3,
    },
    "map": {"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 2},
    "extras": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "é": {"type": "null"}},
        "required": ["é"],
        "additionalProperties": {"type": "integer", "maximum": 3},
    },
    "patterns": {
        "type": "object",
        "patternProperties": {"^a": {"type": "null"}, "^b[ab]$": {"const": 1}},
        "additionalProperties": False,
        "minProperties": 3,
        "maxProperties": 5,
    },
    "few strings": {
        "type": "array",
        "items": {"type": "string", "pattern": "^[ab]{1,2}$", "not": {"const": "a"}},
        "uniqueItems": True,
        "minItems": 4,
    },
    "few objects": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"a": {"type": "boolean"}},
            "required": ["a"],
            "additionalProperties": False,
        },
        "uniqueItems": True,
        "minItems": 2,
    },
    "few numbers": {
        "type": "array",
        "items": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.25},
        "uniqueItems": True,
        "minItems": 5,
    },
    "nested": {
        "type": "array",
        "uniqueItems": True,
        "items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
}


def grammar_of(name: str, **options: Any) -> Grammar:
    return Compiler(VOCABULARY, max_lazy_seconds=60.0).compile(JsonSchema(SCHEMAS[name], **options))


def read(text: str) -> Any:
    """The value of a text in which no object has a name twice."""

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), f"a name comes twice in {text}"
        return dict(pairs)

    return json.loads(text, object_pairs_hook=members)


def canonical(value: Any) -> str:
    """Equal for equal JSON values."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{n!r}:{canonical(v)}" for n, v in value.items())) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    return json.dumps(value)


def check(name: str, text: str) -> None:
    value = read(text)
    schema = SCHEMAS[name]
    if isinstance(value, list):
        assert len(set(map(canonical, value))) == len(value), f"an item comes twice in {text}"
        assert len(value) >= schema.get("minItems", 0)
    else:
        assert len(value) >= schema.get("minProperties", 0)


@pytest.mark.parametrize("order", ["declared", "any"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_random_walks_are_valid_at_every_budget(name: str, order: Any) -> None:
    grammar = grammar_of(name, property_order=order)
    rng = random.Random(0)
    for budget in [*budgets(grammar), 60]:
        if budget < grammar.min_tokens:
            continue
        for _ in range(12):
            text = random_walk(Matcher(grammar, max_tokens=budget), rng).decode()
            check(name, text)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_mask_is_what_the_bytes_allow(name: str) -> None:
    """Token by token against derivatives: none is allowed that is not, and none is missing."""
    grammar = grammar_of(name, property_order="any")
    rng = random.Random(1)
    for _ in range(6):
        matcher = Matcher(grammar, max_tokens=1_000)
        for _ in range(rng.randrange(1, 25)):
            if matcher.is_terminated:
                break
            allowed = allowed_tokens(matcher)
            possible = possible_tokens(matcher)
            assert set(allowed) - set(VOCABULARY.eos_token_ids) == set(possible)
            choices = [t for t in allowed if t not in VOCABULARY.eos_token_ids]
            if not choices:
                break
            matcher.accept_token(rng.choice(choices))


def possible_tokens(matcher: Matcher) -> list[int]:
    """The tokens after which the text can be completed, each derived byte by byte."""
    language, state = matcher._language, matcher.state
    completions, algebra = language._completions, language._algebra
    found = []
    for token_id in range(VOCABULARY.size):
        data = VOCABULARY.token_bytes(token_id)
        if data is not None and completions.is_alive(walk(algebra, state, data)):
            found.append(token_id)
    return found


EQUAL = [
    ("[1,1.0]", "[1,2]"),
    ("[1.50,1.5]", "[1.50,1.51]"),
    ("[0,-0]", "[0,false]"),
    ("[1e5,100000]", "[1e5,10000]"),
    ('["é","\\u00e9"]', '["é","e"]'),
    ('[{"a":1,"b":[2]},{"b":[2.0],"a":1}]', '[{"a":1,"b":[2]},{"b":[2.5],"a":1}]'),
    ("[[],[]]", "[[],[[]]]"),
    ('[null,"a",null]', '[null,"a","null"]'),
]


@pytest.mark.parametrize(("same", "different"), EQUAL)
def test_items_are_compared_by_value(same: str, different: str) -> None:
    schema = JsonSchema({"uniqueItems": True}, property_order="any")
    assert not accepts(schema, same)
    assert accepts(schema, different)
    assert token_accepts(schema, different, VOCABULARY, lambda text: list(text.encode()))


def test_an_undeclared_name_comes_once_however_it_is_written() -> None:
    schema = JsonSchema({"properties": {"a": True}}, property_order="any")
    assert accepts(schema, '{"b":1,"a":2,"c":3}')
    for twice in ['{"b":1,"b":2}', '{"a":1,"a":2}', '{"b":1,"\\u0062":2}', '{"é":1,"\\u00E9":2}']:
        assert not accepts(schema, twice)


def test_rollback_and_fork_remember_their_own_text() -> None:
    matcher = Matcher(grammar_of("numbers"), max_tokens=50)
    for byte in b"[1,":
        matcher.accept_token(byte)
    other = matcher.fork()
    for byte in b"2,":
        matcher.accept_token(byte)
    assert not matcher.allows(ord("]"))
    for byte in b"1":
        matcher.accept_token(byte)
    assert not matcher.allows(ord(",")) and not matcher.allows(ord("]"))
    matcher.rollback(3)
    for byte in b"3,2":
        matcher.accept_token(byte)
    assert matcher.allows(ord("]"))
    other.accept_token(ord("2"))
    assert other.allows(ord("]"))


def test_more_items_than_there_are_values_are_refused() -> None:
    boolean = {"type": "boolean"}
    closed = {"required": ["a"], "additionalProperties": False, "properties": {"a": boolean}}
    for items in [boolean, {"type": "object", **closed}, {"type": "string", "pattern": "^[ab]$"}]:
        with pytest.raises(GrammarError):
            Compiler(VOCABULARY, max_lazy_seconds=60.0).compile(
                JsonSchema({"type": "array", "items": items, "uniqueItems": True, "minItems": 3})
            )


def test_a_member_that_must_be_undeclared_fits_the_least_budget() -> None:
    closed: dict[str, Any] = {"type": "object", "additionalProperties": False}
    schemas: list[dict[str, Any]] = [
        {"oneOf": [{"type": "object"}, closed]},
        {"type": "object", "not": {"const": {}}},
    ]
    for schema in schemas:
        grammar = Compiler(VOCABULARY, max_lazy_seconds=60.0).compile(JsonSchema(schema))
        for seed in range(40):
            for budget in budgets(grammar):
                text = random_walk(Matcher(grammar, max_tokens=budget), random.Random(seed))
                assert len(read(text.decode())) >= 1


@pytest.mark.parametrize("names", [{"pattern": "^[a-z]$"}, {"maxLength": 3}, {"enum": ["c", "a"]}])
def test_undeclared_names_stand_in_any_order(names: Any) -> None:
    schema = {"additionalProperties": {"type": "boolean"}, "propertyNames": names}
    for text in ['{"a":true,"c":true}', '{"c":true,"a":true}']:
        assert accepts(JsonSchema(schema), text)
        assert token_accepts(JsonSchema(schema), text, VOCABULARY)
    assert not accepts(JsonSchema(schema), '{"a":true,"c":true,"a":true}')
