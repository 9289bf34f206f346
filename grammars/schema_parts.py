"""The parts of one schema. Owns how its keywords are read: which schemas stand inside of it, which
types and values it names, where its references lead, and what it may not have.

What is read is an operand: a place that says something, whose schema is read when it is needed.
It must not know what parts come to together.
"""

from __future__ import annotations

from collections.abc import Iterator

from grammars import keywords
from grammars.assertions import Assertion, Assertions, FormatRules
from grammars.budget import Budget
from grammars.errors import GrammarError
from grammars.json_values import JsonValue
from grammars.keywords import malformed, unsupported
from grammars.schema_document import Place, SchemaDocument, escape
from grammars.shapes import (
    ANYTHING,
    EVERY_TYPE,
    EVERYTHING,
    ArrayShape,
    BooleanShape,
    NullShape,
    NumberShape,
    ObjectShape,
    Operand,
    Shape,
    Spot,
    StringShape,
)


class SchemaParts:
    """Reads the schemas of one document, each by itself."""

    def __init__(self, document: SchemaDocument, budget: Budget, formats: FormatRules) -> None:
        self._document = document
        self._budget = budget
        self._formats = formats
        self.found: dict[str, JsonValue] = {}
        """Every schema that was come to, by its place: for what is told of a document."""

    def root(self) -> Operand:
        """The whole document."""
        top = self._document.root
        return self._operand_at(top, self._document.enter(top.base, ()))

    def refuse_unsupported(self, spot: Spot) -> None:
        """Raises UnsupportedError for what a schema has and nobody here enforces."""
        schema = spot.schema
        if not self.is_link(spot):
            keywords.refuse_unsupported(schema, spot.place, self._document.dialect)
        if self._document.is_foreign(schema):
            what = f"a part in another dialect ({schema['$schema']!r:.60})"
            raise unsupported(what, f"{spot.place}/$schema")

    def is_link(self, spot: Spot) -> bool:
        """Whether a schema is nothing but its `$ref`: so it is in older drafts."""
        return self._document.dialect.lone_refs and "$ref" in spot.schema

    def is_reference(self, spot: Spot) -> bool:
        """Whether a schema asks for nothing but what is at its `$ref`."""
        schema = spot.schema
        return isinstance(schema, dict) and keywords.READ & schema.keys() == {"$ref"}

    def _operand_at(self, place: Place, scope: tuple[str, ...]) -> Operand:
        schema = self.found[place.place] = place.schema
        if schema is True:
            return ANYTHING
        if not isinstance(schema, dict) and schema is not False:
            raise malformed(schema, place.place, "a schema: an object or a bool")
        asks = schema is False or not keywords.READ.isdisjoint(schema)
        return (Spot(place.place, schema, place.base, scope),) if asks else ANYTHING

    def operand(self, spot: Spot, schema: JsonValue, at: str) -> Operand:
        """The operand of a schema inside of the one at `spot`; ANYTHING when it asks nothing."""
        base = self._document.base_inside(schema, spot.base)
        return self._operand_at(Place(schema, at, base), self._document.enter(base, spot.scope))

    def assertions(self, spot: Spot) -> dict[str, list[Assertion]]:
        """The assertions of one schema, by the type that they hold for."""
        found = Assertions(
            spot.schema,
            spot.place,
            operand=lambda schema, at: self.operand(spot, schema, at),
            dialect=self._document.dialect,
            formats=self._formats,
        )
        return {
            "number": list(found.numbers()),
            "string": list(found.strings()),
            "array": list(found.arrays()),
            "object": list(found.objects()),
        }

    def types(self, spot: Spot) -> list[Shape]:
        """The shapes of the types that `type` allows."""
        schema, at = spot.schema, f"{spot.place}/type"
        if "type" not in schema:
            return list(EVERYTHING)
        names = schema["type"]
        names = [names] if isinstance(names, str) else names
        known = [*EVERY_TYPE, "integer"]
        if not isinstance(names, list) or not names or not all(name in known for name in names):
            raise malformed(schema["type"], at, f"one or a list of {sorted(known)}")
        if "number" in names:
            names = [name for name in names if name != "integer"]
        integers = NumberShape(integer=True)
        return [EVERY_TYPE.get(name, integers) for name in dict.fromkeys(names)]

    def other_types(self, spot: Spot) -> list[Shape]:
        """The shapes of the types that `type` does not allow."""
        allowed = self.types(spot)
        names = {type_name(shape) for shape in allowed}
        others = [shape for name, shape in EVERY_TYPE.items() if name not in names]
        if NumberShape(integer=True) in allowed:
            others.append(NumberShape(fractional=True))
        return others

    def reference(self, spot: Spot, keyword: str) -> Operand:
        """Where a reference leads; a chain of nothing but references is followed to its end."""
        seen = {spot.place}
        here = spot
        while True:
            target = self._target(here, keyword)
            operand = self._operand_at(target, self._document.enter(target.base, here.scope))
            if not operand:
                return operand
            term = operand[0]
            assert isinstance(term, Spot), "a place has a spot"
            if not self.is_reference(term):
                return operand
            if term.place in seen:
                raise GrammarError(
                    f"the schema at {term.place or '/'} refers only to itself; give it a "
                    "definition",
                    term.place,
                )
            seen.add(term.place)
            self._budget.spend()
            here, keyword = term, "$ref"

    def _target(self, spot: Spot, keyword: str) -> Place:
        at = f"{spot.place}/{keyword}"
        target = spot.schema[keyword]
        if not isinstance(target, str):
            raise malformed(target, at, "a reference such as '#/$defs/name'")
        if keyword == "$dynamicRef":
            return self._document.resolve_dynamic(target, spot.base, spot.scope, at)
        if keyword == "$recursiveRef":
            return self._document.resolve_recursive(target, spot.base, spot.scope, at)
        return self._document.resolve(target, spot.base, at)

    def branches(self, spot: Spot, keyword: str) -> list[Operand]:
        if keyword not in spot.schema:
            return []
        branches, at = spot.schema[keyword], f"{spot.place}/{keyword}"
        if not isinstance(branches, list) or not branches:
            raise malformed(branches, at, "a list of at least one schema")
        return [self.operand(spot, branch, f"{at}/{i}") for i, branch in enumerate(branches)]

    def dependent(self, spot: Spot) -> Iterator[tuple[str, Operand]]:
        """Names, and the schemas that hold where they are there."""
        for keyword in ("dependentSchemas", "dependencies"):
            at = f"{spot.place}/{keyword}"
            found = keywords.schemas_by_name(spot.schema, keyword, spot.place)
            for name, schema in found.items():
                if keyword == "dependentSchemas" or not isinstance(schema, list):
                    yield name, self.operand(spot, schema, f"{at}/{escape(name)}")


_TYPE_NAMES: dict[type[Shape], str] = {
    NullShape: "null",
    BooleanShape: "boolean",
    NumberShape: "number",
    StringShape: "string",
    ArrayShape: "array",
    ObjectShape: "object",
}


def type_name(shape: Shape) -> str:
    """The type of JSON that a shape is of."""
    return _TYPE_NAMES[type(shape)]
