"""From a JSON Schema to shapes. Owns the keywords that combine schemas: references, allOf, anyOf,
oneOf, not, if, dependentSchemas, unevaluatedProperties, unevaluatedItems; const and enum.

A schema is read as the alternatives that it allows, and its negation as those that it does not.
What holds together is met pair by pair, so alternatives may multiply: the budget bounds that.
It must not know how a shape is written as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations

from grammars import keywords
from grammars.assertions import Assertion, Assertions, FormatRules, without
from grammars.budget import Budget
from grammars.errors import GrammarError, UnsupportedError
from grammars.given_values import given, other_than
from grammars.json_values import JsonValue
from grammars.keywords import malformed, unsupported
from grammars.schema_document import Place, SchemaDocument, escape
from grammars.seen import close_items, close_members, evaluates, with_unseen, without_seen
from grammars.shape_algebra import intersect
from grammars.shapes import (
    ANYTHING,
    EVERY_TYPE,
    EVERYTHING,
    ArrayShape,
    BooleanShape,
    Either,
    GivenShape,
    NullShape,
    NumberShape,
    ObjectShape,
    Operand,
    Shape,
    Shapes,
    Spot,
    StringShape,
    both,
    negations,
    size_of,
    without_formats,
)

MAX_DEPTH = 96
"""Schemas that hold for one value, inside of each other: each level costs Python stack."""

PARTS_PER_STEP = 64
"""Parts of shapes that are met in about the time of making one expression; a pair of shapes takes
as long by itself."""

VALUES_PER_STEP = 4
"""Given values that are judged in about that time."""

BYTES_PER_PART = 100
BYTES_PER_SHAPE = 600
"""What a shape takes, and what each of its parts does, about."""

MAX_SEEN_TOGETHER = 6
"""Alternatives of one `anyOf` beside `unevaluated...`: which of them hold together matters there,
and they do so in two to the power of their number ways."""

Schema = dict[str, JsonValue]


class SchemaReader:
    """Reads the schemas of one document.

    `admits(value, shape)` decides which given values stay, `is_void(shape)` whether it is certain
    that no value has a shape.
    """

    def __init__(
        self,
        document: JsonValue,
        *,
        budget: Budget,
        admits: Callable[[JsonValue, Shape], bool],
        is_void: Callable[[Shape], bool],
        formats: FormatRules,
        resources: Mapping[str, JsonValue],
    ) -> None:
        self._document = SchemaDocument(document, resources)
        self._budget = budget
        self._admits = admits
        self._is_void = is_void
        self._formats = formats
        self._read: dict[tuple[Spot, bool], Shapes] = {}
        self._met: dict[Operand, Shapes] = {}
        self._open: list[tuple[Spot, bool]] = []
        self.found: dict[str, JsonValue] = {}
        """Every schema that was come to, by its place: for what is told of a document."""
        top = self._document.root
        self.root: Operand = self._operand_at(top, self._document.enter(top.base, ()))

    # -- what the rest of the package asks ---------------------------------------------------

    def shapes(self, operand: Operand) -> Shapes:
        """The alternatives that `operand` allows; () when it allows nothing."""
        if operand not in self._met:
            found = EVERYTHING
            for term in operand:
                found = self.meet(found, self._term(term))
            self._met[operand] = found
        return self._met[operand]

    def meet(self, left: Shapes, right: Shapes) -> Shapes:
        """The alternatives of both: every pair that has something in common."""
        if left is EVERYTHING or right is EVERYTHING:
            return right if left is EVERYTHING else left
        found: dict[Shape, None] = {}
        for one in left:
            self._spend_on(one, right)
            before = len(found)
            met = [self._meet_one(one, other) for other in right]
            found.update((shape, None) for shape in met if shape is not None)
            if len(found) > before:
                self._budget.spend(0, sum(_bytes_of(shape) for shape in met if shape is not None))
        return tuple(found)

    def _spend_on(self, one: Shape, others: Shapes) -> None:
        """What it costs to meet `one` with each of `others`."""
        parts = size_of(one) * len(others) + sum(map(size_of, others))
        self._budget.spend(len(others) + parts // PARTS_PER_STEP)

    def _meet_one(self, left: Shape, right: Shape) -> Shape | None:
        if isinstance(left, GivenShape):
            return self._those(left, right)
        if isinstance(right, GivenShape):
            return self._those(right, left)
        return intersect(left, right)

    def _those(self, given: GivenShape, shape: Shape) -> GivenShape | None:
        """The given values that have a shape."""
        if shape in (EVERY_TYPE["string"], EVERY_TYPE["number"]):
            kind = str if isinstance(shape, StringShape) else NumberShape
            if all(isinstance(v, str) == (kind is str) for v in given.values):
                return given
        self._budget.spend(len(given.values) // VALUES_PER_STEP)
        kept = tuple(value for value in given.values if self._admits(value, shape))
        return GivenShape(kept) if kept else None

    # -- terms -------------------------------------------------------------------------------

    def _term(self, term: Spot | Either) -> Shapes:
        if isinstance(term, Either):
            return _all(self.shapes(operand) for operand in term.operands)
        return self._spot(term)

    def _spot(self, spot: Spot, *, track: bool = False) -> Shapes:
        """The alternatives of one schema; `track`: with what they evaluate."""
        key = (spot, track)
        if key not in self._read:
            schema = spot.schema
            if isinstance(schema, bool):
                return EVERYTHING if schema != spot.negated else ()
            with self._inside(key):
                if not (self._document.dialect.lone_refs and "$ref" in schema):
                    keywords.refuse_unsupported(schema, spot.place, self._document.dialect)
                if self._document.is_foreign(schema):
                    what = f"a part in another dialect ({schema['$schema']!r:.60})"
                    raise unsupported(what, f"{spot.place}/$schema")
                read = self._refuted(spot) if spot.negated else self._asked(spot, track)
            self._read[key] = read
        return self._read[key]

    @contextmanager
    def _inside(self, key: tuple[Spot, bool]) -> Iterator[None]:
        """Guards against a schema that is defined by nothing but itself, and against depth."""
        at = key[0].place or "/"
        if key in self._open:
            raise GrammarError(
                f"the schema at {at} refers only to itself; give it a definition", key[0].place
            )
        if len(self._open) >= MAX_DEPTH:
            raise UnsupportedError(
                f"the schema is nested deeper than {MAX_DEPTH} levels at {at}; flatten it",
                key[0].place,
            )
        self._open.append(key)
        try:
            yield
        finally:
            self._open.pop()

    def _operand_at(self, place: Place, scope: tuple[str, ...]) -> Operand:
        schema = self.found[place.place] = place.schema
        if schema is True:
            return ANYTHING
        if not isinstance(schema, dict) and schema is not False:
            raise malformed(schema, place.place, "a schema: an object or a bool")
        asks = schema is False or not keywords.READ.isdisjoint(schema)
        return (Spot(place.place, schema, place.base, scope),) if asks else ANYTHING

    def _operand(self, spot: Spot, schema: JsonValue, at: str) -> Operand:
        """The operand of a schema inside of the one at `spot`; ANYTHING when it asks nothing."""
        base = self._document.base_inside(schema, spot.base)
        return self._operand_at(Place(schema, at, base), self._document.enter(base, spot.scope))

    def _asked_of(self, operand: Operand, track: bool) -> Shapes:
        """The alternatives of an operand that holds for the very value that is read."""
        found = EVERYTHING
        for term in operand:
            read = self._spot(term, track=track) if isinstance(term, Spot) else self._term(term)
            found = self.meet(found, read)
        return found

    def _refuted_of(self, operand: Operand) -> Shapes:
        return _all(self._asked_of(option, track=False) for option in negations(operand))

    # -- one schema --------------------------------------------------------------------------

    def _parts(self, spot: Spot) -> dict[str, list[Assertion]]:
        """The assertions of one schema, by the type that they hold for."""
        found = Assertions(
            spot.schema,
            spot.place,
            operand=lambda schema, at: self._operand(spot, schema, at),
            dialect=self._document.dialect,
            formats=self._formats,
        )
        return {
            "number": list(found.numbers()),
            "string": list(found.strings()),
            "array": list(found.arrays()),
            "object": list(found.objects()),
        }

    def _asked(self, spot: Spot, track: bool) -> Shapes:
        """What the schema allows: its keywords, met one after another."""
        schema = spot.schema
        if self._document.dialect.lone_refs and "$ref" in schema:
            return self._asked_of(self._reference(spot, "$ref"), track)
        follow = track or "unevaluatedItems" in schema or "unevaluatedProperties" in schema
        found = self._without_closing(spot, track=follow)
        for keyword, close in (
            ("unevaluatedProperties", close_members),
            ("unevaluatedItems", close_items),
        ):
            if keyword in schema:
                operand = self._operand(spot, schema[keyword], f"{spot.place}/{keyword}")
                found = close(found, operand, track=track)
        return found if track else tuple(dict.fromkeys(map(without_seen, found)))

    def _without_closing(self, spot: Spot, *, track: bool) -> Shapes:
        """What all keywords but `unevaluated...` allow."""
        found = self._typed(spot, track=track)
        for alternatives in self._combined(spot, track):
            found = self.meet(found, alternatives)
        return found

    def _typed(self, spot: Spot, *, track: bool) -> Shapes:
        """`type`, and the assertions."""
        parts = self._parts(spot)
        found = []
        for shape in self._types(spot):
            name = _type_name(shape)
            met: Shape | None = shape
            for assertion in parts.get(name, ()):
                met = met and intersect(met, assertion.asked)
                if track and assertion.seen is not None:
                    met = met and intersect(met, assertion.seen)
            if met:
                found.append(met)
        same = len(found) == len(EVERYTHING) and tuple(found) == EVERYTHING
        return EVERYTHING if same else tuple(found)

    def _types(self, spot: Spot) -> list[Shape]:
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

    def _other_types(self, spot: Spot) -> list[Shape]:
        """The shapes of the types that `type` does not allow."""
        allowed = self._types(spot)
        names = {_type_name(shape) for shape in allowed}
        others = [shape for name, shape in EVERY_TYPE.items() if name not in names]
        if NumberShape(integer=True) in allowed:
            others.append(NumberShape(fractional=True))
        return others

    def _refuted(self, spot: Spot) -> Shapes:
        """What the schema does not allow: the alternatives that refute any of its keywords."""
        schema = spot.schema
        if self._document.dialect.lone_refs and "$ref" in schema:
            return self._refuted_of(self._reference(spot, "$ref"))
        found: list[Shape] = self._other_types(spot)
        parts = self._parts(spot)
        for shape in self._types(spot):
            for assertion in parts.get(_type_name(shape), ()):
                met = (intersect(shape, refuted) for refuted in assertion.refuted())
                found += [other for other in met if other]
        for alternatives in self._uncombined(spot):
            found += alternatives
        for keyword in ("unevaluatedItems", "unevaluatedProperties"):
            if keyword in schema:
                found += self._unclosed(spot, keyword)
        return tuple(dict.fromkeys(found))

    # -- keywords that combine schemas -------------------------------------------------------

    def _combined(self, spot: Spot, track: bool) -> Iterator[Shapes]:
        """What each of these keywords allows."""
        schema, at = spot.schema, spot.place
        values = self._values(spot)
        if values is not None:
            yield given(values, f"{at}/enum")
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                yield self._asked_of(self._reference(spot, keyword), track)
        for branch in self._branches(spot, "allOf"):
            yield self._asked_of(branch, track)
        if "anyOf" in schema:
            yield self._any_of(self._branches(spot, "anyOf"), f"{at}/anyOf", track)
        if "oneOf" in schema:
            yield self._one_of(self._branches(spot, "oneOf"), track)
        if "not" in schema:
            yield self._refuted_of(self._operand(spot, schema["not"], f"{at}/not"))
        yield from self._conditional(spot, track)
        for name, operand in self._dependent(spot):
            there = (ObjectShape(required=(name,)),)
            others = (*(s for s in EVERYTHING if not isinstance(s, ObjectShape)), without(name))
            yield (*others, *self.meet(there, self._asked_of(operand, track)))

    def _uncombined(self, spot: Spot) -> Iterator[Shapes]:
        """What refutes each of these keywords."""
        schema, at = spot.schema, spot.place
        values = self._values(spot)
        if values is not None:
            yield other_than(values, f"{at}/enum", self.meet)
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                yield self._refuted_of(self._reference(spot, keyword))
        for branch in self._branches(spot, "allOf"):
            yield self._refuted_of(branch)
        if "anyOf" in schema:
            yield self._none_of(self._branches(spot, "anyOf"))
        if "oneOf" in schema:
            branches = self._branches(spot, "oneOf")
            yield self._none_of(branches)
            for left, right in combinations(branches, 2):
                yield self._asked_of(both(left, right), track=False)
        if "not" in schema:
            yield self._asked_of(self._operand(spot, schema["not"], f"{at}/not"), track=False)
        self._check_unused(spot)
        if "if" in schema:
            yield from self._unconditional(spot)
        for name, operand in self._dependent(spot):
            yield self.meet((ObjectShape(required=(name,)),), self._refuted_of(operand))

    def _values(self, spot: Spot) -> list[JsonValue] | None:
        """The values of `const` and `enum`, where either is there."""
        schema, at = spot.schema, spot.place
        if "enum" not in schema:
            return [schema["const"]] if "const" in schema else None
        if not isinstance(schema["enum"], list):
            raise malformed(schema["enum"], f"{at}/enum", "a list of values")
        if "const" not in schema:
            return list(schema["enum"])
        constant = Spot(f"{at}/const=", {"const": schema["const"]}, spot.base)
        shapes = self._spot(constant)
        return [v for v in schema["enum"] if any(self._admits(v, shape) for shape in shapes)]

    def _reference(self, spot: Spot, keyword: str) -> Operand:
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
            schema = term.schema
            is_link = isinstance(schema, dict) and keywords.READ & schema.keys() == {"$ref"}
            if not is_link:
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

    def _branches(self, spot: Spot, keyword: str) -> list[Operand]:
        if keyword not in spot.schema:
            return []
        branches, at = spot.schema[keyword], f"{spot.place}/{keyword}"
        if not isinstance(branches, list) or not branches:
            raise malformed(branches, at, "a list of at least one schema")
        return [self._operand(spot, branch, f"{at}/{i}") for i, branch in enumerate(branches)]

    def _dependent(self, spot: Spot) -> Iterator[tuple[str, Operand]]:
        """Names, and the schemas that hold where they are there."""
        for keyword in ("dependentSchemas", "dependencies"):
            at = f"{spot.place}/{keyword}"
            found = keywords.schemas_by_name(spot.schema, keyword, spot.place)
            for name, schema in found.items():
                if keyword == "dependentSchemas" or not isinstance(schema, list):
                    yield name, self._operand(spot, schema, f"{at}/{escape(name)}")

    def _any_of(self, branches: list[Operand], at: str, track: bool) -> Shapes:
        read = [self._asked_of(branch, track) for branch in branches]
        if not track or not any(evaluates(shape) for shapes in read for shape in shapes):
            return _all(read)
        if len(read) > MAX_SEEN_TOGETHER:
            raise unsupported(
                f"more than {MAX_SEEN_TOGETHER} alternatives beside 'unevaluated...'", at
            )
        together: list[Shapes] = []
        for size in range(1, len(read) + 1):
            for chosen in combinations(read, size):
                met = EVERYTHING
                for shapes in chosen:
                    met = self.meet(met, shapes)
                together.append(met)
        return _all(together)

    def _none_of(self, branches: list[Operand]) -> Shapes:
        found = EVERYTHING
        for branch in branches:
            found = self.meet(found, self._refuted_of(branch))
        return found

    def _one_of(self, branches: list[Operand], track: bool) -> Shapes:
        """Exactly one branch: each without those others that may hold beside it."""
        read = [self._asked_of(branch, track) for branch in branches]
        found: list[Shapes] = []
        for index, shapes in enumerate(read):
            alone = shapes
            for other, branch in enumerate(branches):
                if other != index and not self._exclude(alone, read[other]):
                    alone = self.meet(alone, self._refuted_of(branch))
            found.append(alone)
        return _all(found)

    def _exclude(self, left: Shapes, right: Shapes) -> bool:
        """Whether it is certain that no value has a shape of both, whatever formats mean."""
        others = tuple(map(without_formats, right))
        for one in map(without_formats, left):
            self._spend_on(one, others)
            met = (self._meet_one(one, other) for other in others)
            if not all(shape is None or self._is_void(shape) for shape in met):
                return False
        return True

    def _conditional(self, spot: Spot, track: bool) -> Iterator[Shapes]:
        """`if` with `then` and `else`."""
        schema, at = spot.schema, spot.place
        self._check_unused(spot)
        if "if" not in schema or not (track or "then" in schema or "else" in schema):
            return
        condition = self._operand(spot, schema["if"], f"{at}/if")
        holds = self._asked_of(condition, track)
        fails = self._refuted_of(condition)
        if "then" in schema:
            then = self._operand(spot, schema["then"], f"{at}/then")
            holds = self.meet(holds, self._asked_of(then, track))
        if "else" in schema:
            otherwise = self._operand(spot, schema["else"], f"{at}/else")
            fails = self.meet(fails, self._asked_of(otherwise, track))
        yield _all([holds, fails])

    def _check_unused(self, spot: Spot) -> None:
        """Reads an `if` without `then` and `else`, and those without it: they ask for nothing, but
        raises GrammarError where they are malformed.
        """
        schema = spot.schema
        is_used = "if" in schema and ("then" in schema or "else" in schema)
        for keyword in () if is_used else ("if", "then", "else"):
            if keyword in schema:
                operand = self._operand(spot, schema[keyword], f"{spot.place}/{keyword}")
                self._asked_of(operand, track=False)

    def _unconditional(self, spot: Spot) -> Iterator[Shapes]:
        """What refutes `if` with `then` and `else`."""
        schema, at = spot.schema, spot.place
        condition = self._operand(spot, schema["if"], f"{at}/if")
        if "then" in schema:
            then = self._operand(spot, schema["then"], f"{at}/then")
            holds = self._asked_of(condition, track=False)
            yield self.meet(holds, self._refuted_of(then))
        if "else" in schema:
            otherwise = self._operand(spot, schema["else"], f"{at}/else")
            yield self.meet(self._refuted_of(condition), self._refuted_of(otherwise))

    def _unclosed(self, spot: Spot, keyword: str) -> Iterator[Shape]:
        """What refutes `unevaluated...`.

        Only where all alternatives have seen the same: otherwise one that holds, too, may have seen
        more.
        """
        operand = self._operand(spot, spot.schema[keyword], f"{spot.place}/{keyword}")
        kind = ObjectShape if keyword == "unevaluatedProperties" else ArrayShape
        shapes = [s for s in self._without_closing(spot, track=True) if isinstance(s, kind)]
        if len({shape.seen for shape in shapes}) > 1:
            raise unsupported(
                f"{keyword!r} of several alternatives under a negation", f"{spot.place}/{keyword}"
            )
        for shape in shapes:
            yield from with_unseen(shape, operand)


def _bytes_of(shape: Shape) -> int:
    return BYTES_PER_SHAPE + BYTES_PER_PART * size_of(shape)


def _all(alternatives: Iterable[Shapes]) -> Shapes:
    """The alternatives of any of them, each once."""
    found = list(alternatives)
    united = tuple(dict.fromkeys(shape for shapes in found for shape in shapes))
    if any(shapes is EVERYTHING for shapes in found) and not any(map(evaluates, united)):
        return EVERYTHING
    return united


_TYPE_NAMES: dict[type[Shape], str] = {
    NullShape: "null",
    BooleanShape: "boolean",
    NumberShape: "number",
    StringShape: "string",
    ArrayShape: "array",
    ObjectShape: "object",
}


def _type_name(shape: Shape) -> str:
    return _TYPE_NAMES[type(shape)]
