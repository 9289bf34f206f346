"""How deep values of a Python type nest. Owns the bound: a reader of JSON gives up beyond 200
levels, so what nests without end in a schema ends before that.

Definitions that refer to themselves, and values of which nothing is said, are spelled out level by
level. It must not know of types.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

MAX_DEPTH = 64
"""Arrays and objects inside of each other: more than anybody writes, few enough to spell out."""

_REFS = "#/$defs/"
_ANYTHING = "anything"
_SCALARS = ["null", "boolean", "number", "string"]
_BOUNDING = frozenset({"type", "enum", "const", "$ref", "anyOf", "oneOf"})
_BY_NAME = frozenset({"properties", "patternProperties"})
_INSIDE = frozenset({"items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"})
_BESIDE = frozenset({"anyOf", "oneOf", "allOf"})
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "discriminator", "$defs"})


def limit_depth(schema: Schema) -> Schema:
    """`schema` with all that nests without end cut off behind `MAX_DEPTH` levels."""
    return _Levels(schema).document()


class _Levels:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._given: dict[str, Any] = schema.get("$defs", {})
        self._endless = self._find_endless()
        self._made: dict[str, Any] = {}
        self._rest: list[tuple[str, str, int]] = []

    def document(self) -> Schema:
        if not self._is_endless(self._schema):
            return self._schema
        found = self._cut(self._schema, MAX_DEPTH)
        assert isinstance(found, dict), "there is room for the first level"
        while self._rest:
            key, name, room = self._rest.pop()
            self._made[key] = self._cut(self._given[name], room) if name else self._anything(room)
        return {**found, "$defs": {**self._given, **self._made}}

    # -- what nests without end --------------------------------------------------------------

    def _find_endless(self) -> set[str]:
        """The definitions that lead to themselves, or to values of which nothing is said."""
        endless = {name for name, schema in self._given.items() if _is_open(schema)}
        leads = {name: set(_names(schema)) for name, schema in self._given.items()}
        for name in self._given:
            seen: set[str] = set()
            rest = [name]
            while rest:
                for other in leads.get(rest.pop(), set()) - seen:
                    seen.add(other)
                    rest.append(other)
            if name in seen:
                endless.add(name)
        while more := {n for n in self._given if n not in endless and leads[n] & endless}:
            endless |= more
        return endless

    def _is_endless(self, schema: Any) -> bool:
        return _is_open(schema) or not self._endless.isdisjoint(_names(schema))

    # -- spelled out -------------------------------------------------------------------------

    def _cut(self, schema: Any, room: int, *, narrows: bool = False) -> Any:
        """`schema` for a value that may hold `room` levels. `narrows`: it stands beside another
        one, which says what the value is.
        """
        if room < 0 or schema is False:
            return False
        if schema is True:
            schema = {}
        found = {
            key: self._cut_keyword(key, value, room, narrows)
            for key, value in schema.items()
            if key not in _ANNOTATIONS
        }
        for keyword in () if narrows else _unsaid(schema):
            is_value = keyword == "$ref"
            found[keyword] = self._level("", room) if is_value else self._cut(True, room - 1)
        return found

    def _cut_keyword(self, key: str, value: Any, room: int, narrows: bool) -> Any:
        if key in _BY_NAME:
            return {name: self._cut(part, room - 1) for name, part in value.items()}
        if key == "prefixItems":
            return [self._cut(part, room - 1) for part in value]
        if key in _INSIDE:
            return self._cut(value, room - 1)
        if key in _BESIDE:
            return [self._cut(part, room, narrows=narrows or key == "allOf") for part in value]
        return self._ref(value, room) if key == "$ref" else value

    def _ref(self, ref: Any, room: int) -> Any:
        name = ref.removeprefix(_REFS)
        return self._level(name, room) if name in self._endless else ref

    def _level(self, name: str, room: int) -> str:
        """A reference to the definition of this name, or to anything, with so many levels."""
        key = f"{name or _ANYTHING}:{room}"
        if key not in self._made:
            self._made[key] = None
            self._rest.append((key, name, room))
        return f"{_REFS}{key}"

    def _anything(self, room: int) -> Schema:
        if room == 0:
            return {"type": _SCALARS}
        inner = {"$ref": self._level("", room - 1)}
        kinds = [*_SCALARS, "array", "object"]
        return {"type": kinds, "items": inner, "additionalProperties": inner}


def _unsaid(schema: Any) -> Iterator[str]:
    """The keywords that are missing where nothing is said of a value or of what is in it."""
    if isinstance(schema, bool):
        yield from ("$ref",) if schema else ()
        return
    if not _says_what(schema):
        yield "$ref"
    if not {"enum", "const", "$ref"}.isdisjoint(schema):
        return
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    most = schema.get("maxItems", math.inf)
    if "array" in kinds and "items" not in schema and len(schema.get("prefixItems", ())) < most:
        yield "items"
    if "object" in kinds and "additionalProperties" not in schema:
        yield "additionalProperties"


def _says_what(schema: Any) -> bool:
    """Whether a schema says what the value is."""
    if isinstance(schema, bool):
        return not schema
    return not _BOUNDING.isdisjoint(schema) or any(map(_says_what, schema.get("allOf", ())))


def _is_open(schema: Any, *, narrows: bool = False) -> bool:
    """Whether nothing is said of a value, or of one inside of it."""
    if not narrows and next(_unsaid(schema), None) is not None:
        return True
    return any(
        _is_open(part, narrows=key == "allOf" or (narrows and key in _BESIDE))
        for key, part in _parts(schema)
    )


def _parts(schema: Any) -> Iterator[tuple[str, Any]]:
    """The schemas inside of one, each with its keyword."""
    if isinstance(schema, bool):
        return
    for key, value in schema.items():
        if key in _BY_NAME:
            yield from ((key, part) for part in value.values())
        elif key in _BESIDE or key == "prefixItems":
            yield from ((key, part) for part in value)
        elif key in _INSIDE:
            yield key, value


def _names(schema: Any) -> Iterator[str]:
    """The definitions to which a schema refers."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"].removeprefix(_REFS)
    for _, part in _parts(schema):
        yield from _names(part)
