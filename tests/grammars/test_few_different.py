"""Items that must differ and have few values, in however many ways these are written."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from grammars import Compiler, EmptyLanguageError, JsonSchema, Matcher, accepts
from tests.grammars.vocabularies import small_vocabulary, walk

VOCABULARY = small_vocabulary()

EMPTY_OBJECT = {"type": "object", "maxProperties": 0}
FLAGS = {"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": False}

FEW: list[tuple[dict[str, Any], int]] = [
    ({"const": []}, 1),
    (EMPTY_OBJECT, 1),
    ({"enum": [[], {}]}, 2),
    ({"enum": [[1], [2], [1.0]]}, 2),
    (FLAGS, 3),
    (FLAGS | {"required": ["a"]}, 2),
    ({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}, 7),
    ({"type": "array", "items": EMPTY_OBJECT, "maxItems": 3}, 4),
    ({"type": "array", "prefixItems": [{"enum": ["x", 2]}, FLAGS], "items": False}, 9),
    ({"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 3}, "maxItems": 1}, 4),
    ({"anyOf": [FLAGS, {"type": "null"}, {"type": "array", "items": False}]}, 5),
]
"""Schemas of items, each with how many values it has."""


def unique(items: dict[str, Any], low: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, "minItems": low}


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
@pytest.mark.parametrize(("items", "count"), FEW, ids=str)
def test_an_array_may_have_all_values(items: dict[str, Any], count: int, whitespace: Any) -> None:
    constraint = JsonSchema(unique(items, count), whitespace=whitespace)
    grammar = Compiler(VOCABULARY).compile(constraint)
    for seed in range(2):
        matcher = Matcher(grammar, max_tokens=grammar.min_tokens + 8)
        text = walk(matcher, random.Random(seed)).decode()
        assert len(json.loads(text)) == count
        assert accepts(constraint, text)


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
@pytest.mark.parametrize(("items", "count"), FEW, ids=str)
def test_more_than_all_values_is_unsatisfiable(
    items: dict[str, Any], count: int, whitespace: Any
) -> None:
    schema = unique(items, count + 1)
    with pytest.raises(EmptyLanguageError, match="'uniqueItems' true and 'minItems'") as caught:
        Compiler(VOCABULARY).compile(JsonSchema(schema, whitespace=whitespace))
    assert caught.value.position == ""
    other = {"const": "the other of two"}
    grammar = Compiler(VOCABULARY).compile(
        JsonSchema({"anyOf": [schema, other]}, whitespace=whitespace)
    )
    text = walk(Matcher(grammar, max_tokens=grammar.min_tokens + 8), random.Random(0))
    assert json.loads(text) == other["const"]


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
def test_an_optional_array_of_too_few_values_is_left_out(whitespace: Any) -> None:
    schema = {"type": "object", "properties": {"a": unique({"const": []}, 2)}}
    grammar = Compiler(VOCABULARY).compile(JsonSchema(schema, whitespace=whitespace))
    for seed in range(4):
        text = walk(Matcher(grammar, max_tokens=12), random.Random(seed))
        assert json.loads(text) == {}


def test_arrays_that_hold_themselves_have_many_values() -> None:
    nested: dict[str, Any] = unique({"$ref": "#"}, 0)
    constraint = JsonSchema(nested)
    assert accepts(constraint, "[[],[[]],[[],[[]]]]")
    assert not accepts(constraint, "[[[]],[],[[]]]")
    with pytest.raises(EmptyLanguageError):
        Compiler(VOCABULARY).compile(JsonSchema(unique({"$ref": "#"}, 1)))


@pytest.mark.parametrize("low", [1, 30])
@pytest.mark.parametrize("high", [30, 10**9])
def test_long_arrays_of_one_value_are_counted_soon(low: int, high: int) -> None:
    inner = {"type": "array", "items": {"type": "null"}, "minItems": low, "maxItems": high}
    constraint = JsonSchema(unique(inner, 1))
    assert accepts(constraint, json.dumps([[None] * 30], separators=(",", ":")))
    assert not accepts(constraint, json.dumps([[None] * 30] * 2, separators=(",", ":")))


@pytest.mark.parametrize(
    "schema",
    [unique({"type": "integer"}, 50), {"type": "object", "minProperties": 20}],
    ids=["integers", "names"],
)
def test_many_different_parts_are_walked_to_their_end(schema: dict[str, Any]) -> None:
    grammar = Compiler(VOCABULARY).compile(JsonSchema(schema))
    for extra in (0, 30):
        matcher = Matcher(grammar, max_tokens=grammar.min_tokens + extra)
        text = walk(matcher, random.Random(extra)).decode()
        assert accepts(JsonSchema(schema), text)
