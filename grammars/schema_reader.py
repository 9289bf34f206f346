"""From a JSON Schema to shapes. Owns the keywords that combine schemas: references, allOf, anyOf,
oneOf, not, if, dependentSchemas, unevaluatedProperties, unevaluatedItems; const and enum.

A schema is read as the alternatives that it allows, and its negation as those that it does not.
It must not know how the parts of a schema are found (that is `schema_parts`), how alternatives meet
(`alternatives`), or how a shape is written as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from itertools import combinations

from grammars import keywords
from grammars.alternatives import Alternatives, united
from grammars.assertions import FormatRules, without
from grammars.branches import merged
from grammars.budget import Budget, at_pointer
from grammars.errors import GrammarError, UnsupportedError
from grammars.given_values import given, other_than
from grammars.json_values import JsonValue
from grammars.keywords import malformed, unsupported
from grammars.schema_document import SchemaDocument
from grammars.schema_parts import SchemaParts, type_name
from grammars.seen import close_items, close_members, see_alike, with_unseen, without_seen
from grammars.shape_algebra import intersect
from grammars.shapes import (
    EVERYTHING,
    ArrayShape,
    Either,
    ObjectShape,
    Operand,
    Shape,
    Shapes,
    Spot,
    Term,
    both,
    negations,
)

MAX_DEPTH = 96
"""Schemas that hold for one value, inside of each other: each level costs Python stack."""


class SelfReferenceError(GrammarError):
    """A schema was come to while it was read."""


class Track(IntEnum):
    """What is to be known of the parts that a schema evaluates: nothing; some of them, where an
    alternative tells more; or all of them.
    """

    NOTHING = 0
    SOME = 1
    ALL = 2


MAX_SEEN_TOGETHER = 2_000
"""Alternatives that one `anyOf` may come to beside `unevaluated...`: which of its schemas hold
together matters there, and they may do so in two to the power of their number ways."""


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
        found = SchemaDocument(document, resources)
        self.dialect = found.dialect
        self._budget = budget
        self._parts = SchemaParts(found, budget, formats)
        self._alternatives = Alternatives(
            budget,
            admits=admits,
            is_void=is_void,
            knows_const="const" not in found.dialect.unknown,
        )
        self._admits = admits
        self._read: dict[tuple[Spot, Track], Shapes] = {}
        self._met: dict[Operand, Shapes] = {}
        self._open: list[tuple[Spot, Track]] = []
        self.root: Operand = self._parts.root()

    @property
    def found(self) -> dict[str, JsonValue]:
        """Every schema that was come to, by its place: for what is told of a document."""
        return self._parts.found

    def shapes(self, operand: Operand) -> Shapes:
        """The alternatives that `operand` allows; () when it allows nothing."""
        if operand not in self._met:
            found = EVERYTHING
            for term in operand:
                found = self._meet(found, self._term(term))
            self._met[operand] = found
        return self._met[operand]

    def leads_on(self, operand: Operand) -> bool:
        """Whether to read an operand takes reading more than one schema for each of its terms."""
        terms: list[Term] = []
        for term in operand:
            if isinstance(term, Spot) and self._parts.is_reference(term):
                terms += self._parts.reference(term, "$ref")
            else:
                terms.append(term)
        return any(isinstance(term, Either) or _combines(term) for term in terms)

    def _meet(self, left: Shapes, right: Shapes) -> Shapes:
        return self._alternatives.meet(left, right)

    # -- terms -------------------------------------------------------------------------------

    def _term(self, term: Spot | Either) -> Shapes:
        if isinstance(term, Either):
            return united(self.shapes(operand) for operand in term.operands)
        return self._spot(term)

    def _spot(self, spot: Spot, track: Track = Track.NOTHING) -> Shapes:
        """The alternatives of one schema; `track`: with what they evaluate."""
        key = (spot, track)
        if key not in self._read:
            schema = spot.schema
            if isinstance(schema, bool):
                return EVERYTHING if schema != spot.negated else ()
            with self._inside(key):
                self._parts.refuse_unsupported(spot)
                read = self._refuted(spot) if spot.negated else self._asked(spot, track)
            self._read[key] = read
        return self._read[key]

    @contextmanager
    def _inside(self, key: tuple[Spot, Track]) -> Iterator[None]:
        """Guards against a schema that is defined by nothing but itself, and against depth."""
        at = key[0].place or "/"
        if key in self._open:
            raise SelfReferenceError(
                f"the schema at {at} refers only to itself; give it a definition", key[0].place
            )
        if len(self._open) >= MAX_DEPTH:
            raise UnsupportedError(
                f"the schema is nested deeper than {MAX_DEPTH} levels at {at}; flatten it",
                key[0].place,
            )
        self._open.append(key)
        before, self._budget.at = self._budget.at, at_pointer(key[0].place)
        try:
            yield
        finally:
            self._budget.at = before
            self._open.pop()

    def _asked_of(self, operand: Operand, track: Track = Track.NOTHING) -> Shapes:
        """The alternatives of an operand that holds for the very value that is read."""
        found = EVERYTHING
        for term in operand:
            read = self._spot(term, track) if isinstance(term, Spot) else self._term(term)
            found = self._meet(found, read)
        return found

    def _refuted_of(self, operand: Operand) -> Shapes:
        return united(self._asked_of(option) for option in negations(operand))

    # -- one schema --------------------------------------------------------------------------

    def _asked(self, spot: Spot, track: Track) -> Shapes:
        """What the schema allows: its keywords, met one after another."""
        schema = spot.schema
        if self._parts.is_link(spot):
            return self._asked_of(self._parts.reference(spot, "$ref"), track)
        is_closed = "unevaluatedItems" in schema or "unevaluatedProperties" in schema
        found = self._without_closing(spot, max(track, Track.SOME) if is_closed else track)
        for keyword, close in (
            ("unevaluatedProperties", close_members),
            ("unevaluatedItems", close_items),
        ):
            if keyword in schema:
                operand = self._parts.operand(spot, schema[keyword], f"{spot.place}/{keyword}")
                found = close(found, operand, track=bool(track))
        return found if track else tuple(dict.fromkeys(map(without_seen, found)))

    def _without_closing(self, spot: Spot, track: Track) -> Shapes:
        """What all keywords but `unevaluated...` allow."""
        found = self._typed(spot, track)
        for alternatives in self._combined(spot, track):
            found = self._meet(found, alternatives)
        return found

    def _typed(self, spot: Spot, track: Track) -> Shapes:
        """`type`, and the assertions."""
        parts = self._parts.assertions(spot)
        found = []
        for shape in self._parts.types(spot):
            name = type_name(shape)
            met: Shape | None = shape
            for assertion in parts.get(name, ()):
                met = met and intersect(met, assertion.asked)
                if track and assertion.seen is not None:
                    met = met and intersect(met, assertion.seen)
            if met:
                found.append(met)
        same = len(found) == len(EVERYTHING) and tuple(found) == EVERYTHING
        return EVERYTHING if same else tuple(found)

    def _refuted(self, spot: Spot) -> Shapes:
        """What the schema does not allow: the alternatives that refute any of its keywords."""
        schema = spot.schema
        if self._parts.is_link(spot):
            return self._refuted_of(self._parts.reference(spot, "$ref"))
        found: list[Shape] = self._parts.other_types(spot)
        parts = self._parts.assertions(spot)
        for shape in self._parts.types(spot):
            for assertion in parts.get(type_name(shape), ()):
                met = (intersect(shape, refuted) for refuted in assertion.refuted())
                found += [other for other in met if other]
        for alternatives in self._uncombined(spot):
            found += alternatives
        for keyword in ("unevaluatedItems", "unevaluatedProperties"):
            if keyword in schema:
                found += self._unclosed(spot, keyword)
        return tuple(dict.fromkeys(merged(found)))

    # -- keywords that combine schemas -------------------------------------------------------

    def _combined(self, spot: Spot, track: Track) -> Iterator[Shapes]:
        """What each of these keywords allows."""
        schema, at = spot.schema, spot.place
        values = self._values(spot)
        if values is not None:
            yield given(values, f"{at}/enum")
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                yield self._asked_of(self._parts.reference(spot, keyword), track)
        for branch in self._parts.branches(spot, "allOf"):
            yield self._asked_of(branch, track)
        if "anyOf" in schema:
            yield self._any_of(self._parts.branches(spot, "anyOf"), f"{at}/anyOf", track)
        if "oneOf" in schema:
            yield self._one_of(self._parts.branches(spot, "oneOf"), track)
        if "not" in schema:
            yield self._refuted_of(self._parts.operand(spot, schema["not"], f"{at}/not"))
        yield from self._conditional(spot, track)
        for name, operand in self._parts.dependent(spot):
            there = (ObjectShape(required=(name,)),)
            others = (*(s for s in EVERYTHING if not isinstance(s, ObjectShape)), without(name))
            yield (*others, *self._meet(there, self._asked_of(operand, track)))

    def _uncombined(self, spot: Spot) -> Iterator[Shapes]:
        """What refutes each of these keywords."""
        schema, at = spot.schema, spot.place
        values = self._values(spot)
        if values is not None:
            yield other_than(values, f"{at}/enum", self._meet)
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                yield self._refuted_of(self._parts.reference(spot, keyword))
        for branch in self._parts.branches(spot, "allOf"):
            yield self._refuted_of(branch)
        if "anyOf" in schema:
            yield self._none_of(self._parts.branches(spot, "anyOf"))
        if "oneOf" in schema:
            branches = self._parts.branches(spot, "oneOf")
            yield self._none_of(branches)
            for left, right in combinations(branches, 2):
                yield self._asked_of(both(left, right))
        if "not" in schema:
            yield self._asked_of(self._parts.operand(spot, schema["not"], f"{at}/not"))
        self._check_unused(spot)
        if "if" in schema:
            yield from self._unconditional(spot)
        for name, operand in self._parts.dependent(spot):
            yield self._meet((ObjectShape(required=(name,)),), self._refuted_of(operand))

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

    def _any_of(self, branches: list[Operand], at: str, track: Track) -> Shapes:
        read = [self._asked_of(branch, track) for branch in branches]
        whole = united(read)
        if not track or see_alike(whole):
            return whole
        together = self._exactly(branches, read) if track is Track.ALL else self._together(read)
        for some in together:
            whole = some
            if len(some) > MAX_SEEN_TOGETHER:
                raise unsupported(
                    "too many alternatives that may hold together beside 'unevaluated...'", at
                )
        return whole

    def _together(self, read: list[Shapes]) -> Iterator[Shapes]:
        """What any of the first branches, and any of them together, allow and have seen."""
        some: Shapes = ()
        for held in read:
            some = united((some, held, self._alternatives.met(some, held)))
            yield some

    def _exactly(self, branches: list[Operand], read: list[Shapes]) -> Iterator[Shapes]:
        """The same, where each knows what all have seen: no other of these branches holds."""
        met = self._alternatives.met
        some: Shapes = ()
        none = EVERYTHING
        for branch, held in zip(branches, read, strict=True):
            failed = self._refuted_of(branch)
            some = united((met(some, held), met(some, failed), met(none, held)))
            none = met(none, failed)
            yield some

    def _none_of(self, branches: list[Operand]) -> Shapes:
        found = EVERYTHING
        for branch in branches:
            found = self._meet(found, self._refuted_of(branch))
        return found

    def _one_of(self, branches: list[Operand], track: Track) -> Shapes:
        """Exactly one branch: each without those others that may hold beside it."""
        read = [self._asked_of(branch, track) for branch in branches]
        found: list[Shapes] = []
        for index, shapes in enumerate(read):
            alone = shapes
            for other, branch in enumerate(branches):
                if other != index and not self._alternatives.none_in_common(alone, read[other]):
                    alone = self._meet(alone, self._refuted_of(branch))
            found.append(alone)
        return united(found)

    def _conditional(self, spot: Spot, track: Track) -> Iterator[Shapes]:
        """`if` with `then` and `else`."""
        schema, at = spot.schema, spot.place
        self._check_unused(spot)
        if "if" not in schema or not (track or "then" in schema or "else" in schema):
            return
        condition = self._parts.operand(spot, schema["if"], f"{at}/if")
        holds = self._asked_of(condition, track)
        fails = self._refuted_of(condition)
        if "then" in schema:
            then = self._parts.operand(spot, schema["then"], f"{at}/then")
            holds = self._meet(holds, self._asked_of(then, track))
        if "else" in schema:
            otherwise = self._parts.operand(spot, schema["else"], f"{at}/else")
            fails = self._meet(fails, self._asked_of(otherwise, track))
        yield united([holds, fails])

    def _check_unused(self, spot: Spot) -> None:
        """Reads an `if` without `then` and `else`, and those without it: they ask for nothing, but
        raises GrammarError where they are malformed.
        """
        schema = spot.schema
        is_used = "if" in schema and ("then" in schema or "else" in schema)
        for keyword in () if is_used else ("if", "then", "else"):
            if keyword in schema:
                operand = self._parts.operand(spot, schema[keyword], f"{spot.place}/{keyword}")
                self._asked_of(operand)

    def _unconditional(self, spot: Spot) -> Iterator[Shapes]:
        """What refutes `if` with `then` and `else`."""
        schema, at = spot.schema, spot.place
        condition = self._parts.operand(spot, schema["if"], f"{at}/if")
        if "then" in schema:
            then = self._parts.operand(spot, schema["then"], f"{at}/then")
            holds = self._asked_of(condition)
            yield self._meet(holds, self._refuted_of(then))
        if "else" in schema:
            otherwise = self._parts.operand(spot, schema["else"], f"{at}/else")
            yield self._meet(self._refuted_of(condition), self._refuted_of(otherwise))

    def _unclosed(self, spot: Spot, keyword: str) -> Iterator[Shape]:
        """What refutes `unevaluated...`: one that holds, too, must not have seen more."""
        operand = self._parts.operand(spot, spot.schema[keyword], f"{spot.place}/{keyword}")
        kind = ObjectShape if keyword == "unevaluatedProperties" else ArrayShape
        for shape in self._without_closing(spot, Track.ALL):
            if isinstance(shape, kind):
                yield from with_unseen(shape, operand)


def _combines(spot: Spot) -> bool:
    schema = spot.schema
    return isinstance(schema, dict) and not keywords.COMBINING.isdisjoint(schema)
