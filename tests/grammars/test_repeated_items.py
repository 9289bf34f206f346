"""`uniqueItems` under a negation: arrays of small sets of values in which two are equal, against
`jsonschema` over all small arrays, and as they are written.
"""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from grammars import (
    Compiler,
    EmptyLanguageError,
    JsonSchema,
    Matcher,
    UnsupportedError,
    accepts,
)
from tests.grammars.vocabularies import small_vocabulary, walk

COMPILER = Compiler(small_vocabulary(), max_lazy_seconds=60.0)
VALUES = [1, 2, True, None, "a"]
ARRAYS = [list(items) for size in range(4) for items in product(VALUES, repeat=size)]

REPEATED: dict[str, Any] = {"not": {"uniqueItems": True}}
SCHEMAS: list[dict[str, Any]] = [
    {**REPEATED, "items": {"enum": [1, 2, "a"]}},
    {**REPEATED, "items": {"enum": [1, 1.0, True]}, "maxItems": 2},
    {**REPEATED, "items": {"type": ["boolean", "null"]}, "minItems": 3},
    {**REPEATED, "prefixItems": [{"const": 1}, {"const": 2}], "items": {"enum": [1, "a"]}},
    {**REPEATED, "prefixItems": [{"enum": [1, 2]}, {"enum": [2, "a"]}], "items": False},
    {
        **REPEATED,
        "items": {"type": "integer", "minimum": 1, "maximum": 2},
        "contains": {"const": 2},
        "maxContains": 1,
    },
    {"oneOf": [{"uniqueItems": True}, {"minItems": 3}], "items": {"enum": [1, 2, "a"]}},
    {
        "if": {"uniqueItems": True},
        "then": {"maxItems": 1},
        "items": {"type": ["null", "boolean"]},
    },
    {"not": {"uniqueItems": True, "maxItems": 2}, "items": {"enum": [1, None]}},
    {"not": {"not": {"uniqueItems": True}}, "items": {"enum": [1, 2]}},
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_arrays_are_accepted_exactly_where_they_are_valid(schema: dict[str, Any]) -> None:
    schema = {"type": "array", **schema}
    judge, constraint = Draft202012Validator(schema), JsonSchema(schema)
    for value in ARRAYS:
        text = json.dumps(value, separators=(",", ":"))
        assert accepts(constraint, text) == judge.is_valid(value), text


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_what_is_written_is_valid_at_every_budget(schema: dict[str, Any]) -> None:
    schema = {"type": "array", **schema}
    judge, grammar = Draft202012Validator(schema), COMPILER.compile(JsonSchema(schema))
    rng = random.Random(1)
    for extra in (0, 0, 1, 5, 20, 20, 20):
        text = walk(Matcher(grammar, max_tokens=grammar.min_tokens + extra), rng).decode()
        assert judge.is_valid(json.loads(text)), text


@pytest.mark.parametrize(
    "schema",
    [
        {**REPEATED, "maxItems": 1},
        {**REPEATED, "uniqueItems": True},
        {**REPEATED, "prefixItems": [{"const": 1}, {"const": 2}], "items": False},
        {**REPEATED, "items": {"enum": [1, 2]}, "contains": {}, "maxContains": 1},
    ],
    ids=str,
)
def test_where_no_two_can_be_equal_nothing_satisfies(schema: dict[str, Any]) -> None:
    with pytest.raises(EmptyLanguageError):
        COMPILER.compile(JsonSchema({"type": "array", **schema}))


def test_values_of_larger_sets_are_told_apart_and_equal_ones_end() -> None:
    schema = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 40}}
    constraint = JsonSchema({**schema, **REPEATED})
    many = list(range(1, 41))
    more = {"type": "array", "items": {"enum": list(range(65))}, **REPEATED}
    with pytest.raises(UnsupportedError) as caught:
        accepts(JsonSchema(more), "[1,1]")
    assert caught.value.position == "/not/uniqueItems"
    assert not accepts(constraint, json.dumps(many, separators=(",", ":")))
    assert accepts(constraint, json.dumps([*many, 7], separators=(",", ":")))


def test_a_given_array_is_judged_by_its_items() -> None:
    values: list[Any] = [[1, 1.0], [1, 2], ["a", None, "a"], [], 3]
    constraint = JsonSchema({"enum": values, **REPEATED})
    found = [v for v in values if accepts(constraint, json.dumps(v, separators=(",", ":")))]
    assert found == [v for v in values if Draft202012Validator(REPEATED).is_valid(v)]
