"""`unevaluatedProperties` and `unevaluatedItems` under a negation, of alternatives that evaluate
differently, against `jsonschema`: over all small objects and arrays.
"""

from __future__ import annotations

import json
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from grammars import EmptyLanguageError, JsonSchema, accepts

NAMES = "abc"
OBJECTS: list[Any] = [
    {"d": 1},
    *(
        dict(zip(names, values, strict=True))
        for size in range(4)
        for names in combinations(NAMES, size)
        for values in product([1, "x"], repeat=size)
    ),
]
ARRAYS: list[Any] = [list(items) for size in range(4) for items in product([1, "x"], repeat=size)]


class _Writer:
    """Writes random schemas of objects (`properties`) or of arrays."""

    def __init__(self, random: Random, *, of_objects: bool) -> None:
        self.random = random
        self.of_objects = of_objects

    def plain(self) -> dict[str, Any]:
        random = self.random
        found: dict[str, Any] = {}
        if self.of_objects:
            names = random.sample(NAMES, random.randint(1, 2))
            found["properties"] = {n: random.choice([True, {"type": "integer"}]) for n in names}
            found |= random.choice([{}, {}, {"required": [random.choice(NAMES)]}])
            return found | random.choice([{}, {}, {"unevaluatedProperties": False}])
        items = [random.choice([True, {"type": "integer"}]) for _ in range(random.randint(0, 2))]
        if items:
            found["prefixItems"] = items
        contained = {"contains": random.choice([{"type": "string"}, {"type": "integer"}])}
        return found | random.choice([{}, {}, contained, {"minItems": 2}])

    def schema(self, depth: int) -> dict[str, Any]:
        random = self.random
        if depth == 0 or random.random() < 0.3:
            return self.plain()
        found = random.choice([self.plain, dict])()
        keyword = random.choice(
            ["anyOf", "anyOf", "oneOf", "allOf", "if", "not", "dependentSchemas"]
        )
        if keyword == "if":
            parts = ["if", *random.choice([["then"], ["else"], ["then", "else"], []])]
            return found | {part: self.schema(depth - 1) for part in parts}
        if keyword == "not":
            return found | {"not": self.schema(depth - 1)}
        if keyword == "dependentSchemas":
            return found | {keyword: {random.choice(NAMES): self.schema(depth - 1)}}
        return found | {keyword: [self.schema(depth - 1) for _ in range(random.randint(2, 3))]}


@pytest.mark.parametrize("keyword", ["unevaluatedProperties", "unevaluatedItems"])
@pytest.mark.parametrize("seed", range(25))
def test_what_was_evaluated_is_known_under_a_negation(keyword: str, seed: int) -> None:
    of_objects = keyword == "unevaluatedProperties"
    random = Random(seed)
    inner = _Writer(random, of_objects=of_objects).schema(2)
    inner[keyword] = random.choice([False, False, {"type": "integer"}])
    schema = {"not": inner, "type": "object" if of_objects else "array"}
    judge = Draft202012Validator(schema)
    constraint = JsonSchema(schema, property_order="any")
    for value in OBJECTS if of_objects else ARRAYS:
        try:
            found = accepts(constraint, json.dumps(value, separators=(",", ":")))
        except EmptyLanguageError:
            found = False
        assert found == judge.is_valid(value), value


def test_many_alternatives_that_evaluate_the_same_are_no_reason_to_refuse() -> None:
    named = {"properties": {"a": {"type": "integer"}}}
    many = [{**named, "minProperties": count} for count in range(12)]
    constraint = JsonSchema({"anyOf": many, "unevaluatedProperties": False})
    assert accepts(constraint, '{"a":1}')
    assert not accepts(constraint, '{"a":1,"b":1}')


def test_alternatives_that_exclude_each_other_do_not_multiply() -> None:
    kinds = [
        {
            "properties": {f"a{n}": {"type": "integer"}, "kind": {"const": f"k{n}"}},
            "required": [f"a{n}", "kind"],
        }
        for n in range(40)
    ]
    constraint = JsonSchema({"type": "object", "anyOf": kinds, "unevaluatedProperties": False})
    assert accepts(constraint, '{"a7":1,"kind":"k7"}')
    assert not accepts(constraint, '{"a7":1,"kind":"k7","a8":1}')


def test_where_nothing_is_left_to_evaluate_a_negation_is_known_too() -> None:
    schema = {"type": "array", "not": {"unevaluatedItems": False, "contains": True}}
    constraint = JsonSchema(schema, property_order="any")
    for value in ARRAYS:
        text = json.dumps(value, separators=(",", ":"))
        assert accepts(constraint, text) == Draft202012Validator(schema).is_valid(value)
