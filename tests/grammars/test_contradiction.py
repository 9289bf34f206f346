"""Unsatisfiable schemas: the error names a minimal set of keywords that contradict each other."""

from __future__ import annotations

from typing import Any

import pytest

from grammars import EmptyLanguageError, JsonSchema, accepts
from grammars.contradiction import Path, _units, _without, core

WIDE = {f"p{n}": {"type": "object", "properties": {"q": {"maxLength": n}}} for n in range(150)}

CASES: list[tuple[dict[str, Any], str]] = [
    (
        {
            "type": "object",
            "properties": {**WIDE, "x": {"type": "integer", "minimum": 5, "maximum": 3}},
            "required": [*WIDE, "x"],
        },
        "with 'type' \"integer\", 'minimum' 5 and 'maximum' 3 at /properties/x contradict",
    ),
    (
        {"title": "both", "allOf": [{"type": "string"}, {"maximum": 1}, {"type": "integer"}]},
        "'type' \"string\" at /allOf/0, with 'type' \"integer\" at /allOf/2 contradict",
    ),
    (
        {"type": "object", "properties": {"a": False, "b": True}, "required": ["b", "a"]},
        "'type' \"object\" and 'required' \"a\" at /, with the schema false at /properties/a",
    ),
    (
        {"type": "array", "minItems": 3, "maxItems": 9, "prefixItems": [{}, {}], "items": False},
        "'type' \"array\", 'minItems' 3 and 'items' false behind 2 'prefixItems' at / contradict",
    ),
    (
        {"type": "string", "pattern": "^abcdef$", "maxLength": 3, "minLength": 1},
        "'type' \"string\", 'pattern' \"^abcdef$\" and 'maxLength' 3 at / contradict",
    ),
    (
        {"type": "object", "required": ["a", "b"], "additionalProperties": False},
        "'additionalProperties' false at / contradict",
    ),
    (
        {"$defs": {"a": {"type": "string", "enum": [1, 2]}}, "$ref": "#/$defs/a"},
        "'type' \"string\" and 'enum' [1,2] at /$defs/a, with '$ref' \"#/$defs/a\" at / contradict",
    ),
    ({"minimum": 1, "enum": []}, "because of 'enum' [] at /; loosen it"),
]


@pytest.mark.parametrize(("schema", "told"), CASES, ids=[str(i) for i in range(len(CASES))])
def test_the_error_names_what_contradicts_each_other(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(EmptyLanguageError) as caught:
        accepts(JsonSchema(schema), "1")
    assert told in str(caught.value)


def _is_empty(schema: Any) -> bool:
    try:
        accepts(JsonSchema(schema), "1")
    except EmptyLanguageError:
        return True
    return False


@pytest.mark.parametrize("schema", [schema for schema, _ in CASES[1:]])
def test_without_any_one_of_a_core_something_satisfies(schema: dict[str, Any]) -> None:
    found = core(schema, _is_empty, "")
    assert found
    others = {unit for unit in _units(schema, ()) if unit not in _holders(found)}
    assert _is_empty(_without(schema, others))
    for unit in found:
        assert not _is_empty(_without(schema, {*others, unit}))


def _holders(found: list[Path]) -> set[Path]:
    """What stands around the keywords, and themselves."""
    return {unit[:length] for unit in found for length in range(1, len(unit) + 1)}
