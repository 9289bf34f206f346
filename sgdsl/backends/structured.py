"""Constraints as what providers take: a JSON Schema whose root is an object, or a list of names.

Owns the translation there, and of the answer back into the constraint's own text. Pure; what came
back is validated in any case, by others.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from grammars import Choices, Constraint, JsonSchema, TypeOf
from sgdsl.backends.validation import is_bare

WRAPPED = "value"
"""The member that holds a value whose schema is no object's."""


@dataclass(frozen=True, slots=True)
class Structured:
    """`strict`: the schema is within the subset that OpenAI can hold a model to."""

    schema: dict[str, Any]
    wrapped: bool
    bare: bool
    strict: bool

    def text_of(self, answer: str) -> str:
        """The constraint's text in a provider's answer; as it is, if it is something else."""
        if not self.wrapped:
            return answer
        try:
            value = json.loads(answer)
        except (ValueError, RecursionError):
            return answer
        if not isinstance(value, dict) or WRAPPED not in value:
            return answer
        inner = value[WRAPPED]
        if self.bare and isinstance(inner, str):
            return inner
        return json.dumps(inner, ensure_ascii=False)


def structured(constraint: Constraint) -> Structured | None:
    """None for a constraint that no JSON Schema says, or not in another document."""
    if isinstance(constraint, Choices):
        schema: Any = {"type": "string", "enum": list(constraint.texts)}
        return Structured(_wrap(schema), wrapped=True, bare=True, strict=True)
    if not isinstance(constraint, JsonSchema | TypeOf):
        return None
    if isinstance(constraint, JsonSchema) and constraint.resources:
        return None
    schema = json.loads(constraint.text)
    if isinstance(schema, bool):
        schema = {}
    if schema.get("type") == "object" and "$ref" not in schema and "anyOf" not in schema:
        return Structured(schema, wrapped=False, bare=False, strict=_is_strict(schema))
    if not all(ref.startswith(("#/$defs/", "#/definitions/")) for ref in _refs(schema)):
        return None  # it would lead somewhere else inside of the wrapper
    wrapper = _wrap(schema)
    return Structured(wrapper, wrapped=True, bare=is_bare(constraint), strict=_is_strict(wrapper))


def _wrap(schema: dict[str, Any]) -> dict[str, Any]:
    schema = dict(schema)
    hoisted: dict[str, Any] = {
        key: schema.pop(key) for key in ("$defs", "definitions") if key in schema
    }
    schema.pop("$schema", None)
    return {
        "type": "object",
        "properties": {WRAPPED: schema},
        "required": [WRAPPED],
        "additionalProperties": False,
        **hoisted,
    }


def _refs(value: Any) -> list[str]:
    found: list[str] = []
    rest = [value]
    while rest:
        item = rest.pop()
        if isinstance(item, dict):
            found += [v for k, v in item.items() if k == "$ref" and isinstance(v, str)]
            rest += item.values()
        elif isinstance(item, list):
            rest += item
    return found


def _is_strict(schema: Any) -> bool:
    """All objects closed, all members required, and nothing but the keywords that OpenAI's strict
    mode is known to take (its guide "Structured Outputs", section "Supported schemas").
    """
    rest = [schema]
    while rest:
        item = rest.pop()
        if not isinstance(item, dict) or not item.keys() <= _STRICT_KEYWORDS:
            return False
        if item.get("type") == "object":
            names = item.get("properties", {})
            if item.get("additionalProperties") is not False:
                return False
            if set(item.get("required", [])) != set(names):
                return False
        for key in ("properties", "$defs", "definitions"):
            rest += item.get(key, {}).values()
        rest += item.get("anyOf", [])
        if "items" in item:
            rest.append(item["items"])
    return True


_STRICT_KEYWORDS = frozenset(
    {
        *("type", "properties", "required", "additionalProperties", "items", "anyOf", "enum"),
        *("const", "$ref", "$defs", "definitions", "title", "description", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minItems", "maxItems", "$schema"),
    }
)
