"""Random JSON Schemas of every keyword, most of them satisfiable, and values that matter to them.

A schema is made for a type, with keywords that go together; schemas of a few keywords of any type
are in between. A value is made from the schema, and then often changed a little: so it is near the
border of what is valid. References lead in place only to later definitions: a schema that is
defined by itself is malformed, and what the judge does with one is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "ab", "é")
OTHER_NAMES = (*NAMES, "c", "bb", "a\n", "")
TEXTS = ("", "a", "b", "ab", "aab", "é", '"\\', "a\n", "2024-02-29", "/")
PATTERNS = ("^a", "b$", "^a*$", "b", "^[^a]*$", "é")
NUMBERS = (-2, -1, 0, 1, 2, 3, 10, 0.5, 1.5, -0.5)
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
DEFINITIONS = ("x", "y")

scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(OTHER_NAMES), inner, max_size=3),
    )


values = st.recursive(scalars, _containers, max_leaves=6)

_small = st.integers(0, 3)


class _Writer:
    """Draws one document. `depth` is how many levels of parts may still come; `here` are the
    definitions that may be referred to in place."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def one(self, *options: Any) -> Any:
        return self.draw(st.sampled_from(options))

    def rarely(self) -> bool:
        return bool(self.draw(st.integers(0, 5)) == 5)

    def schema(self, depth: int, here: tuple[str, ...]) -> Any:
        if depth <= 0:
            return self.leaf(here)
        kind: Callable[[int, tuple[str, ...]], Any] = self.one(
            self.object, self.object, self.array, self.logic, self.logic, self.mixed
        )
        return kind(depth, here)

    def part(self, depth: int) -> Any:
        """The schema of an item or member."""
        if depth > 0 and self.one(False, True):
            return self.schema(depth - 1, DEFINITIONS)
        return self.leaf(DEFINITIONS)

    def leaf(self, here: tuple[str, ...]) -> Any:
        kind = self.one("number", "string", "enum", "type", "bool", "ref")
        if kind == "ref" and here:
            return {"$ref": f"#/$defs/{self.one(*here)}"}
        if kind == "number":
            return self.number()
        if kind == "string":
            return self.string()
        if kind == "enum":
            if self.rarely():
                return {"const": self.draw(values)}
            return {"enum": self.draw(st.lists(scalars | values, min_size=1, max_size=4))}
        if kind == "type":
            return {"type": self.one(*TYPES)}
        return self.one(True, True, False)

    def number(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": self.one("integer", "number")}
        for keyword in self.some("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            low = "inimum" in keyword
            found[keyword] = self.one(-2, -1, 0, 0.5) if low else self.one(1.5, 2, 3, 10)
        if self.rarely():
            found["multipleOf"] = self.one(1, 2, 3, 0.5, 1.5)
        return found

    def string(self) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "string"}
        for keyword in self.some("minLength", "maxLength", "pattern", "format"):
            if keyword == "pattern":
                found[keyword] = self.one(*PATTERNS)
            elif keyword == "format":
                found[keyword] = self.one("date", "json-pointer", "color")
            else:
                found[keyword] = self.one(0, 1, 2) if keyword == "minLength" else self.one(1, 2, 3)
        return found

    def some(self, *keywords: str) -> list[str]:
        """A few of the keywords."""
        return self.draw(st.lists(st.sampled_from(keywords), max_size=2, unique=True))

    def names(self) -> list[str]:
        return self.draw(st.lists(st.sampled_from(NAMES), max_size=2, unique=True))

    def by_name(self, depth: int, keys: tuple[str, ...] = NAMES) -> dict[str, Any]:
        chosen = self.draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
        return {name: self.part(depth) for name in chosen}

    def object(self, depth: int, here: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "object"}
        if not self.rarely():
            found["properties"] = self.by_name(depth)
        known = tuple(found.get("properties", ())) or NAMES
        if self.one(False, True):
            found["required"] = [self.one(*known)]
        for keyword in self.some(
            "patternProperties", "additionalProperties", "propertyNames", "minProperties",
            "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
        ):  # fmt: skip
            if keyword == "patternProperties":
                found[keyword] = self.by_name(depth, PATTERNS)
            elif keyword in ("additionalProperties", "unevaluatedProperties"):
                found[keyword] = self.one(False, self.part(depth))
            elif keyword == "propertyNames":
                found[keyword] = self.one(self.string(), {"enum": list(NAMES)}, {"maxLength": 2})
            elif keyword == "dependentRequired":
                found[keyword] = {self.one(*NAMES): self.names()}
            elif keyword == "dependentSchemas":
                found[keyword] = {self.one(*NAMES): self.schema(depth - 1, here)}
            else:
                found[keyword] = self.one(0, 1, 2) if "min" in keyword else self.one(1, 2, 3)
        return found

    def array(self, depth: int, here: tuple[str, ...]) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "array"}
        if self.one(False, True):
            found["items"] = self.part(depth)
        for keyword in self.some(
            "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "unevaluatedItems"
        ):
            if keyword == "prefixItems":
                found[keyword] = [self.part(depth) for _ in range(self.one(1, 2))]
            elif keyword == "contains":
                found[keyword] = self.part(depth)
                for more in self.some("minContains", "maxContains"):
                    found[more] = self.one(0, 1, 2) if "min" in more else self.one(1, 2)
            elif keyword == "uniqueItems":
                found[keyword] = True
            elif keyword == "unevaluatedItems":
                found[keyword] = self.one(False, self.part(depth))
            else:
                found[keyword] = self.one(0, 1, 2) if "min" in keyword else self.one(1, 2, 3)
        return found

    def logic(self, depth: int, here: tuple[str, ...]) -> dict[str, Any]:
        """A schema, and others that hold or do not hold beside it."""
        base = self.one(self.object, self.array, self.plain)(depth, here)
        keyword = self.one("allOf", "anyOf", "oneOf", "not", "if", "$ref", "unevaluated")
        if keyword in ("allOf", "anyOf", "oneOf"):
            beside = [self.schema(depth - 1, here) for _ in range(self.one(1, 2, 3))]
            return {**base, keyword: beside}
        if keyword == "not":
            return {**base, keyword: self.schema(depth - 1, here)}
        if keyword == "if":
            parts = ["if", *self.one(["then"], ["else"], ["then", "else"])]
            return {**base, **{name: self.schema(depth - 1, here) for name in parts}}
        if keyword == "$ref" and here:
            return {**base, "$ref": f"#/$defs/{self.one(*here)}"}
        beside = [self.schema(depth - 1, here) for _ in range(self.one(1, 2))]
        closed = self.one("unevaluatedProperties", "unevaluatedItems")
        return {**base, self.one("allOf", "anyOf", "oneOf"): beside, closed: False}

    def plain(self, depth: int, here: tuple[str, ...]) -> dict[str, Any]:
        return {}

    def mixed(self, depth: int, here: tuple[str, ...]) -> dict[str, Any]:
        """Keywords of several types at once, and without a type."""
        parts = [self.object(depth, here), self.array(depth, here), self.number(), self.string()]
        found: dict[str, Any] = {}
        for part in self.draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3)):
            found |= part
        del found["type"]
        if self.rarely():
            found["type"] = self.draw(
                st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True)
            )
        return found


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    """A schema with definitions that its references lead to, recursion included."""
    writer = _Writer(draw)
    document = writer.schema(depth, DEFINITIONS)
    found = document if isinstance(document, dict) else {"allOf": [document]}
    first, second = writer.schema(1, ("y",)), writer.schema(1, ())
    return {**found, "$defs": {"x": first, "y": second}}


# -- values ----------------------------------------------------------------------------------------


class _Filler:
    """Draws values of a document."""

    def __init__(self, draw: st.DrawFn, document: dict[str, Any]) -> None:
        self.draw = draw
        self.document = document

    def value(self, schema: Any, depth: int) -> Any:
        """A value that is likely to be valid."""
        if not isinstance(schema, dict) or depth < 0:
            return self.draw(scalars)
        if "$ref" in schema:
            schema = (
                {**self.document["$defs"][schema["$ref"][-1]], **schema}
                if isinstance(self.document["$defs"][schema["$ref"][-1]], dict)
                else schema
            )
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self.draw(st.sampled_from(schema["enum"]))
        kind = self.kind(schema)
        if kind == "object":
            return self.object(schema, depth)
        if kind == "array":
            return self.array(schema, depth)
        for keyword in ("allOf", "anyOf", "oneOf"):
            if keyword in schema and "type" not in schema:
                return self.value(self.draw(st.sampled_from(schema[keyword])), depth)
        if kind in ("integer", "number"):
            return self.draw(st.sampled_from(NUMBERS))
        return self.draw(st.sampled_from(TEXTS) if kind == "string" else scalars)

    def kind(self, schema: dict[str, Any]) -> str:
        kinds = schema.get("type")
        if kinds is None:
            likely = [
                kind
                for kind, keywords in _TELLING.items()
                if any(keyword in schema for keyword in keywords)
            ]
            kinds = likely or [""]
        found: str = kinds if isinstance(kinds, str) else self.draw(st.sampled_from(kinds))
        return found

    def object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """Members that the schema, or a schema beside it, speaks of."""
        found: dict[str, Any] = {}
        parts = [schema, *self.beside(schema)]
        for part in parts:
            given = part.get("properties", {})
            for name in (*given, *part.get("required", ())):
                if name in part.get("required", ()) or self.draw(st.booleans()):
                    found[name] = self.value(given.get(name, True), depth - 1)
        for name in self.draw(st.lists(st.sampled_from(OTHER_NAMES), max_size=1)):
            found.setdefault(name, self.draw(scalars))
        if self.draw(st.booleans()):
            found = dict(reversed(found.items()))
        return found

    def array(self, schema: dict[str, Any], depth: int) -> list[Any]:
        parts = [schema, *self.beside(schema)]
        items: list[Any] = []
        for part in parts:
            items += part.get("prefixItems", [])
        for keyword in ("contains", "items"):
            options = [part[keyword] for part in parts if keyword in part]
            if options:
                items += [self.draw(st.sampled_from(options))] * self.draw(st.integers(0, 2))
        return [self.value(item, depth - 1) for item in items[: self.draw(st.integers(0, 4))]]

    def beside(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """Schemas that hold for the same value, some of them."""
        found = [schema.get("then"), schema.get("if")]
        for keyword in ("allOf", "anyOf", "oneOf"):
            found += schema.get(keyword, [])
        found += schema.get("dependentSchemas", {}).values()
        kept = [part for part in found if isinstance(part, dict)]
        return kept if self.draw(st.booleans()) else kept[:1]

    def changed(self, value: Any) -> Any:
        """The value with one thing changed somewhere."""
        if isinstance(value, dict) and value and self.draw(st.booleans()):
            name = self.draw(st.sampled_from(sorted(value)))
            rest = {key: item for key, item in value.items() if key != name}
            if self.draw(st.booleans()):
                return rest
            return {**rest, name: self.changed(value[name])}
        if isinstance(value, list) and value and self.draw(st.booleans()):
            index = self.draw(st.integers(0, len(value) - 1))
            others = self.draw(st.sampled_from(["drop", "double", "change"]))
            middle = {"drop": [], "double": [value[index]] * 2}.get(others)
            if middle is None:
                middle = [self.changed(value[index])]
            return [*value[:index], *middle, *value[index + 1 :]]
        if isinstance(value, list):
            return [*value, self.draw(scalars)]
        if isinstance(value, dict):
            return {**value, self.draw(st.sampled_from(OTHER_NAMES)): self.draw(scalars)}
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value + self.draw(st.sampled_from([-1, 0.5, 1]))
        return self.draw(scalars)


_TELLING = {
    "object": ("properties", "required", "patternProperties", "additionalProperties",
               "propertyNames", "minProperties", "unevaluatedProperties"),
    "array": ("items", "prefixItems", "contains", "minItems", "unevaluatedItems"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "multipleOf"),
    "string": ("pattern", "minLength", "maxLength", "format"),
}  # fmt: skip


@st.composite
def schemas_and_values(
    draw: st.DrawFn, depth: int = 2, most: int = 6
) -> tuple[dict[str, Any], list[Any]]:
    """A schema, and values near the border of what it allows."""
    schema = draw(schemas(depth))
    filler = _Filler(draw, schema)
    found = []
    for _ in range(most):
        value = filler.value(schema, depth + 1)
        for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2]))):
            value = filler.changed(value)
        found.append(value)
    return schema, [*found, draw(values)]
