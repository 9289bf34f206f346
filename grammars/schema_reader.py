"""From a JSON Schema to shapes. Owns the keywords: which are enforced, ignored, refused.

* enforced: type, enum, const, $ref (within the document, without recursion), allOf, anyOf, oneOf
  (where its branches exclude each other provably), minimum, maximum, exclusiveMinimum,
  exclusiveMaximum, minLength, maxLength, pattern, format (see `formats`), items, prefixItems,
  minItems, maxItems, properties, required, additionalProperties;
* ignored, since they say nothing about validity: annotations, and what no draft knows;
* refused with their JSON pointer: all other keywords of the drafts. None is dropped.

It must not know how a shape is written as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from grammars.budget import Budget
from grammars.errors import GrammarError, UnsupportedError
from grammars.formats import FORMATS, STANDARD_FORMATS, TYPE_ANNOTATIONS, TYPE_FORMATS
from grammars.json_values import JsonValue, Number, dump, same
from grammars.shapes import (
    ANYTHING,
    EVERY_TYPE,
    ArrayShape,
    NumberShape,
    ObjectShape,
    Operand,
    Shape,
    Shapes,
    Spot,
    StringShape,
    ValueShape,
    intersect,
)

MAX_DEPTH = 48
"""Schemas inside schemas (references followed): each level costs Python stack."""

_ENFORCED = """
type enum const $ref allOf anyOf oneOf minimum maximum exclusiveMinimum exclusiveMaximum minLength
maxLength pattern format items prefixItems minItems maxItems properties required
additionalProperties
"""
_REFUSED = """
not if then else dependentSchemas dependentRequired dependencies contains minContains maxContains
uniqueItems multipleOf patternProperties propertyNames minProperties maxProperties unevaluatedItems
unevaluatedProperties additionalItems $dynamicRef $recursiveRef $vocabulary divisibleBy disallow
extends nullable
"""
PAIRS_PER_STEP = 16
"""Pairs of shapes that are met in about the time of making one expression."""

REFUSED = frozenset(_REFUSED.split())
READ = REFUSED | set(_ENFORCED.split()) | {"$id", "$schema"}
"""A schema with none of these asks for nothing."""

HARMLESS: dict[str, JsonValue] = {
    "uniqueItems": False,
    "minProperties": 0,
    "nullable": False,
    "patternProperties": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "dependencies": {},
}
"""Values with which a refused keyword asks for nothing."""


class SchemaReader:
    """Reads the schemas of one document. `admits(value, shape)` decides which values stay.

    `of_type`: the document describes a Python type, whose parser asks for what its formats say;
    otherwise a format that the standard does not know is an annotation.
    """

    def __init__(
        self,
        document: JsonValue,
        *,
        budget: Budget,
        admits: Callable[[JsonValue, Shape], bool],
        excludes: Callable[[Shape, Shape], bool],
        of_type: bool = False,
    ) -> None:
        self._document = document
        self._budget = budget
        self._admits = admits
        self._excludes = excludes
        self._formats = TYPE_FORMATS if of_type else FORMATS
        self._of_type = of_type
        self._read: dict[Operand, Shapes] = {}
        self._open: list[str] = []
        self._root = self.operand(document, "")

    @property
    def root(self) -> Operand:
        """The whole document."""
        return self._root

    def operand(self, schema: JsonValue, pointer: str) -> Operand:
        """The operand of one schema; ANYTHING when it asks for nothing."""
        if schema is True:
            return ANYTHING
        if not isinstance(schema, dict) and schema is not False:
            raise GrammarError(
                f"the schema at {pointer or '/'} is {schema!r:.60}; a schema is an object or a "
                "bool",
                pointer,
            )
        asks = schema is False or not READ.isdisjoint(schema)
        return (Spot(pointer, schema),) if asks else ANYTHING

    def shapes(self, operand: Operand) -> Shapes:
        """The alternatives that `operand` allows; () when it allows nothing."""
        if operand not in self._read:
            found: Shapes = tuple(s for name, s in EVERY_TYPE.items() if name != "integer")
            for spot in operand:
                found = self.meet(found, self._spot(spot))
            self._read[operand] = found
        return self._read[operand]

    def meet(self, left: Shapes, right: Shapes) -> Shapes:
        """The alternatives of both: every pair that has something in common."""
        self._budget.spend(1 + len(left) * len(right) // PAIRS_PER_STEP)
        found = dict.fromkeys(self._meet_one(a, b) for a in left for b in right)
        found.pop(None, None)
        return tuple(shape for shape in found if shape is not None)

    def _meet_one(self, left: Shape, right: Shape) -> Shape | None:
        if isinstance(left, ValueShape):
            return left if self._admits(left.value, right) else None
        if isinstance(right, ValueShape):
            return right if self._admits(right.value, left) else None
        return intersect(left, right)

    # -- one schema --------------------------------------------------------------------------

    def _spot(self, spot: Spot) -> Shapes:
        """The alternatives of one schema, its keywords met one after another."""
        schema, at = spot.schema, spot.pointer
        if schema is False:
            return ()
        if schema is True:
            return self.shapes(ANYTHING)
        with self._inside(at):
            self._refuse_unsupported(schema, at)
            found = self._typed(schema, at)
            if "const" in schema:
                found = self.meet(found, self._values([schema["const"]]))
            if "enum" in schema:
                found = self.meet(found, self._enum(schema["enum"], f"{at}/enum"))
            if "$ref" in schema:
                found = self.meet(found, self._reference(schema["$ref"], f"{at}/$ref"))
            if "allOf" in schema:
                branches = self._branches(schema["allOf"], f"{at}/allOf")
                found = self.meet(found, self._all_of(branches))
            if "anyOf" in schema:
                branches = self._branches(schema["anyOf"], f"{at}/anyOf")
                found = self.meet(found, self._any_of(branches))
            if "oneOf" in schema:
                branches = self._branches(schema["oneOf"], f"{at}/oneOf")
                found = self.meet(found, self._one_of(branches, f"{at}/oneOf"))
        return found

    @contextmanager
    def _inside(self, pointer: str) -> Iterator[None]:
        """Guards against a schema that is defined by nothing but itself, and against depth."""
        if pointer in self._open:
            raise GrammarError(
                f"the schema at {pointer or '/'} refers only to itself; give it a definition",
                pointer,
            )
        if len(self._open) >= MAX_DEPTH:
            raise UnsupportedError(
                f"the schema is nested deeper than {MAX_DEPTH} levels at {pointer}; flatten it",
                pointer,
            )
        self._open.append(pointer)
        try:
            yield
        finally:
            self._open.pop()

    def _refuse_unsupported(self, schema: dict[str, JsonValue], at: str) -> None:
        for keyword, value in schema.items():
            asks = keyword not in HARMLESS or not same(value, HARMLESS[keyword])
            if keyword in REFUSED and asks:
                raise self._unsupported(f"{keyword!r}", f"{at}/{keyword}")
        if "$id" in schema and at:
            raise self._unsupported("'$id' inside a schema", f"{at}/$id")
        version = schema.get("$schema", "draft/2020-12")
        if "draft-03" in str(version) or "draft-04" in str(version):
            raise self._unsupported(f"the draft {version!r}", f"{at}/$schema")

    def _unsupported(self, what: str, pointer: str) -> UnsupportedError:
        return UnsupportedError(
            f"the schema has {what} at {pointer}, which is not supported yet; "
            "write the schema without it",
            pointer,
        )

    def _malformed(self, value: JsonValue, pointer: str, allowed: str) -> GrammarError:
        return GrammarError(
            f"the schema has {value!r:.60} at {pointer}; it must be {allowed}", pointer
        )

    # -- keywords that hold for one type -----------------------------------------------------

    def _typed(self, schema: dict[str, JsonValue], at: str) -> Shapes:
        names = schema.get("type", [n for n in EVERY_TYPE if n != "integer"])
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, list) or not all(
            isinstance(n, str) and n in EVERY_TYPE for n in names
        ):
            raise self._malformed(
                schema["type"], f"{at}/type", f"one or a list of {sorted(EVERY_TYPE)}"
            )
        if "number" in names:
            names = [name for name in names if name != "integer"]
        readers: dict[str, Callable[[dict[str, JsonValue], str], Shape]] = {
            "number": self._number,
            "integer": self._number,
            "string": self._string,
            "array": self._array,
            "object": self._object,
        }
        read_once = {name: read(schema, at) for name, read in readers.items()}
        return tuple(
            dict.fromkeys(
                shape
                for name in names
                if (shape := intersect(EVERY_TYPE[name], read_once.get(name, EVERY_TYPE[name])))
            )
        )

    def _number(self, schema: dict[str, JsonValue], at: str) -> NumberShape:
        found = NumberShape()
        for keyword in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"):
            if keyword not in schema:
                continue
            bound = schema[keyword]
            if isinstance(bound, bool) or not isinstance(bound, Number):
                raise self._malformed(bound, f"{at}/{keyword}", "a number")
            is_open = keyword.startswith("exclusive")
            if keyword.lower().endswith("minimum"):
                more = NumberShape(low=bound, low_open=is_open)
            else:
                more = NumberShape(high=bound, high_open=is_open)
            met = intersect(found, more)
            assert isinstance(met, NumberShape), "two number shapes meet in one"
            found = met
        return found

    def _string(self, schema: dict[str, JsonValue], at: str) -> StringShape:
        patterns: tuple[tuple[str, str], ...] = ()
        formats: tuple[str, ...] = ()
        if "pattern" in schema:
            if not isinstance(schema["pattern"], str):
                raise self._malformed(schema["pattern"], f"{at}/pattern", "a string")
            patterns = ((schema["pattern"], f"{at}/pattern"),)
        if "format" in schema:
            name = schema["format"]
            if not isinstance(name, str):
                raise self._malformed(name, f"{at}/format", "a string")
            if name in self._formats:
                formats = (name,)
            elif name in STANDARD_FORMATS or (self._of_type and name not in TYPE_ANNOTATIONS):
                raise self._unsupported(f"the format {name!r}", f"{at}/format")
        return StringShape(
            self._count(schema, "minLength", at) or 0,
            self._count(schema, "maxLength", at),
            patterns,
            formats,
        )

    def _array(self, schema: dict[str, JsonValue], at: str) -> ArrayShape:
        prefix: tuple[Operand, ...] = ()
        if "prefixItems" in schema:
            prefix = tuple(self._branches(schema["prefixItems"], f"{at}/prefixItems"))
        items = schema.get("items", True)
        if isinstance(items, list):
            raise self._unsupported("'items' as an array (of an older draft)", f"{at}/items")
        return ArrayShape(
            prefix,
            self.operand(items, f"{at}/items"),
            self._count(schema, "minItems", at) or 0,
            self._count(schema, "maxItems", at),
        )

    def _object(self, schema: dict[str, JsonValue], at: str) -> ObjectShape:
        properties = schema.get("properties", {})
        if not isinstance(properties, dict):
            raise self._malformed(properties, f"{at}/properties", "an object of schemas")
        required = schema.get("required", [])
        if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
            raise self._malformed(required, f"{at}/required", "a list of names")
        return ObjectShape(
            tuple(
                (name, self.operand(member, f"{at}/properties/{_escape(name)}"))
                for name, member in properties.items()
            ),
            tuple(required),
            self.operand(schema.get("additionalProperties", True), f"{at}/additionalProperties"),
        )

    def _count(self, schema: dict[str, JsonValue], keyword: str, at: str) -> int | None:
        """A keyword's value as a count; JSON Schema allows to write 2 as 2.0."""
        value = schema.get(keyword)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, Number) or value < 0 or value % 1:
            raise self._malformed(value, f"{at}/{keyword}", "a count of 0 or more")
        return int(value)

    # -- keywords that hold for any type -----------------------------------------------------

    def _values(self, values: list[JsonValue]) -> Shapes:
        made = [ValueShape(dump(value, "compact", ascii_only=False), value) for value in values]
        return tuple(dict.fromkeys(made))

    def _enum(self, values: JsonValue, at: str) -> Shapes:
        if not isinstance(values, list):
            raise self._malformed(values, at, "a list of values")
        return self._values(values)

    def _reference(self, target: JsonValue, at: str) -> Shapes:
        if not isinstance(target, str):
            raise self._malformed(target, at, "a reference such as '#/$defs/name'")
        if target != "#" and not target.startswith("#/"):
            raise self._unsupported(f"the reference {target!r} out of this document", at)
        schema, pointer = self._document, unquote(target[1:])
        for part in pointer.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, dict) and name in schema:
                schema = schema[name]
            elif isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
                schema = schema[int(name)]
            else:
                raise GrammarError(
                    f"the schema has {target!r} at {at}, but nothing is at {name!r} there; "
                    "give the pointer of a schema in the document",
                    at,
                )
        with self._inside(at):
            return self._follow(self.operand(schema, pointer))

    def _follow(self, operand: Operand) -> Shapes:
        """The shapes of an operand read inside another schema's reading."""
        for spot in operand:
            if spot.pointer in self._open:
                with self._inside(spot.pointer):
                    pass  # raises
        return self.shapes(operand)

    def _branches(self, branches: JsonValue, at: str) -> list[Operand]:
        if not isinstance(branches, list) or not branches:
            raise self._malformed(branches, at, "a list of at least one schema")
        return [self.operand(branch, f"{at}/{index}") for index, branch in enumerate(branches)]

    def _all_of(self, branches: list[Operand]) -> Shapes:
        found = self.shapes(ANYTHING)
        for branch in branches:
            found = self.meet(found, self._follow(branch))
        return found

    def _any_of(self, branches: list[Operand]) -> Shapes:
        return tuple(dict.fromkeys(shape for b in branches for shape in self._follow(b)))

    def _one_of(self, branches: list[Operand], at: str) -> Shapes:
        """Exactly one branch: any of them, when no value can satisfy two."""
        read = [self._follow(branch) for branch in branches]
        for index, left in enumerate(read):
            for right in read[index + 1 :]:
                self._budget.spend(1 + len(left) * len(right))
                if not all(self._excludes(a, b) for a in left for b in right):
                    raise self._unsupported("'oneOf' whose branches may overlap", at)
        return self._any_of(branches)


def _escape(name: str) -> str:
    """A name as one part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
