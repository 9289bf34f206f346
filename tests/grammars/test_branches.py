"""Many branches: those that exclude each other are seen at once, and all are judged exactly."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema
import pytest

from grammars import Compiler, JsonSchema, Matcher, accepts
from tests.grammars.hostile import one_of_in_properties
from tests.grammars.vocabularies import small_vocabulary, walk

VOCABULARY = small_vocabulary()


def tagged(count: int) -> dict[str, Any]:
    """A tag decides; one tag is True beside 1, which are not equal."""
    tags = [True, 1, 0, False, *(f"k{n}" for n in range(count - 4))]
    return {
        "oneOf": [
            {"type": "object", "properties": {"k": {"const": tag}}, "required": ["k", "v"]}
            for tag in tags
        ]
    }


def owning(count: int, *, closed: bool) -> dict[str, Any]:
    """Each branch requires a name of its own."""
    more = {"additionalProperties": False} if closed else {}
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {f"f{n}": {"type": "integer"}, "v": {}},
                "required": [f"f{n}"],
                **more,
            }
            for n in range(count)
        ]
    }


def conditions(count: int, *, required: bool) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"k": {"enum": [f"k{n}" for n in range(count)]}},
        "required": ["k"] if required else [],
        "allOf": [
            {
                "if": {"properties": {"k": {"const": f"k{n}"}}},
                "then": {"required": [f"f{n}"], "properties": {f"f{n}": {"type": "integer"}}},
            }
            for n in range(count)
        ],
    }


SMALL = {
    "tagged": tagged(6),
    "owning": owning(3, closed=False),
    "closed": owning(3, closed=True),
    "conditions": conditions(2, required=False),
    "conditions, required": conditions(2, required=True),
    "nested": one_of_in_properties(2),
}
VALUES = [None, 1, True, "k0", "x"]
TEXTS = [
    dict(zip(names, values, strict=True))
    for names in (("k",), ("k", "v"), ("f0",), ("f0", "f1"), ("k", "f0"), ("k", "f0", "f1"), ())
    for values in product(VALUES, repeat=len(names))
] + [
    dict(zip(names, values, strict=True))
    for names in (("a",), ("b",), ("a", "b"), ("x2",), ("a", "x2"), ("x2", "y2"))
    for values in product([None, 1, {"a": None}, {"x1": 1}, {"x1": 1, "y1": 1}], repeat=len(names))
]


@pytest.mark.parametrize("name", SMALL)
def test_branches_are_judged_as_the_standard_says(name: str) -> None:
    schema = SMALL[name]
    judge = jsonschema.Draft202012Validator(schema)
    constraint = JsonSchema(schema, property_order="any", extra_properties=True)
    for value in TEXTS:
        text = json.dumps(value, separators=(",", ":"))
        assert accepts(constraint, text) == judge.is_valid(value), text


LARGE = {
    "tagged": tagged(100),
    "owning": owning(24, closed=False),
    "closed": owning(40, closed=True),
    "conditions": conditions(24, required=False),
    "conditions, required": conditions(24, required=True),
    "nested": one_of_in_properties(12),
}


@pytest.mark.parametrize("name", LARGE)
def test_many_branches_compile(name: str) -> None:
    schema = LARGE[name]
    grammar = Compiler(VOCABULARY).compile(JsonSchema(schema))
    for seed in range(3):
        matcher = Matcher(grammar, max_tokens=grammar.min_tokens + 12)
        text = walk(matcher, random.Random(seed)).decode()
        jsonschema.Draft202012Validator(schema).validate(json.loads(text))
