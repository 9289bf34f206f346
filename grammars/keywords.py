"""The keywords of JSON Schema. Owns which are enforced, ignored, refused, and how a value is read.

* enforced: by `assertions` (one type each) and by `schema_reader` (those that combine schemas);
* ignored, since they say nothing about validity: annotations, and what no draft knows;
* refused with their JSON pointer: keywords of drafts before 4, and `nullable`, which is none.

It must not know what a keyword asks for.
"""

from __future__ import annotations

from decimal import Decimal

from grammars.dialect import Dialect
from grammars.errors import GrammarError, UnsupportedError
from grammars.json_values import JsonValue, Number, same

MAX_COUNT = 10**18
"""More than any text has of anything."""

_TYPED = """
type minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern format
items prefixItems additionalItems minItems maxItems contains minContains maxContains uniqueItems
properties patternProperties additionalProperties propertyNames required minProperties maxProperties
dependentRequired
"""
_COMBINING = """
$ref $dynamicRef $recursiveRef allOf anyOf oneOf not if then else dependentSchemas dependencies
unevaluatedItems unevaluatedProperties
"""
COMBINING = frozenset(_COMBINING.split())
"""Keywords that bring in other schemas for the same value."""

ENFORCED = frozenset(_TYPED.split()) | COMBINING | {"enum", "const"}

REFUSED: dict[str, JsonValue] = {
    "nullable": False,
    "divisibleBy": None,
    "disallow": None,
    "extends": None,
}
"""What is refused, unless it has the value with which it asks for nothing."""

READ = ENFORCED | set(REFUSED)
"""A schema with none of these asks for nothing."""


def refuse_unsupported(schema: dict[str, JsonValue], at: str, dialect: Dialect) -> None:
    """Raises UnsupportedError for a keyword that is not enforced."""
    for keyword in sorted(dialect.unknown.intersection(schema)):
        raise UnsupportedError(
            f"the schema has {keyword!r} at {at}/{keyword}, which says nothing in its draft "
            f"({dialect.name}); leave it out, or name a draft that knows it in '$schema'",
            f"{at}/{keyword}",
        )
    for keyword, harmless in REFUSED.items():
        if keyword in schema and not same(schema[keyword], harmless):
            raise unsupported(f"{keyword!r}", f"{at}/{keyword}")


def unsupported(what: str, pointer: str) -> UnsupportedError:
    """The refusal of something valid."""
    return UnsupportedError(
        f"the schema has {what} at {pointer or '/'}, which is not supported; write the schema "
        "without it",
        pointer,
    )


def malformed(value: JsonValue, pointer: str, allowed: str) -> GrammarError:
    """The refusal of a value that no schema may have there."""
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    return GrammarError(
        f"the schema has {shown:.60} at {pointer or '/'}; it must be {allowed}", pointer
    )


def number(schema: dict[str, JsonValue], keyword: str, at: str) -> Number:
    """A keyword's value as a number."""
    value = schema[keyword]
    if isinstance(value, bool) or not isinstance(value, Number):
        raise malformed(value, f"{at}/{keyword}", "a number")
    return value


def count(schema: dict[str, JsonValue], keyword: str, at: str) -> int | None:
    """A keyword's value as a count; JSON Schema allows to write 2 as 2.0."""
    if keyword not in schema:
        return None
    value = schema[keyword]
    if isinstance(value, bool) or not isinstance(value, Number) or value < 0:
        raise malformed(value, f"{at}/{keyword}", "a count of 0 or more")
    if value >= MAX_COUNT:
        raise unsupported(f"a count of {MAX_COUNT} or more", f"{at}/{keyword}")
    if value % 1:
        raise malformed(value, f"{at}/{keyword}", "a count of 0 or more")
    return int(value)


def text(schema: dict[str, JsonValue], keyword: str, at: str) -> str:
    """A keyword's value as a string."""
    value = schema[keyword]
    if not isinstance(value, str):
        raise malformed(value, f"{at}/{keyword}", "a string")
    return value


def names(value: JsonValue, at: str) -> tuple[str, ...]:
    """A list of names, each once."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise malformed(value, at, "a list of names")
    return tuple(dict.fromkeys(value))


def schemas_by_name(schema: dict[str, JsonValue], keyword: str, at: str) -> dict[str, JsonValue]:
    """A keyword's value as schemas by name."""
    value = schema.get(keyword, {})
    if not isinstance(value, dict):
        raise malformed(value, f"{at}/{keyword}", "an object of schemas")
    return value
