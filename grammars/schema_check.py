"""What is wrong with a schema, all of it, and what in it says nothing.

A compile is refused with the first fault. Here that part is taken out of the document and the rest
is read again, until nothing is refused any more: so the faults are the compile's own.
It must not know what a keyword asks for.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from grammars import keywords
from grammars.algebra import Algebra
from grammars.assertions import FormatRules
from grammars.budget import Budget, too_deep_is_over_budget
from grammars.errors import (
    CompileBudgetError,
    EmptyLanguageError,
    GrammarError,
    UnsupportedError,
)
from grammars.formats import STANDARD_FORMATS
from grammars.json_values import JsonValue
from grammars.schema import SchemaSource, Style, lower_schema
from grammars.schema_document import MANY, NAMED, ONE

MAX_FAULTS = 32
"""Each is found by reading the document anew."""

SIMILARITY = 0.8
"""Of two words, by difflib: `requried` and `required` have 0.88, `minItems` and `maxItems` 0.75."""

_ANNOTATIONS = """
title description default examples deprecated readOnly writeOnly contentEncoding contentMediaType
contentSchema $comment
"""
ANNOTATIONS = frozenset(_ANNOTATIONS.split())
"""Keywords with which the standard tells readers something about a value."""

_STRUCTURE = "$schema $id id $anchor $dynamicAnchor $recursiveAnchor $vocabulary $defs definitions"
STRUCTURE = frozenset(_STRUCTURE.split())
"""Keywords that say where schemas are and what they are called."""

FaultKind = Literal["unsupported", "malformed", "unsatisfiable", "too costly"]
AnnotationKind = Literal["annotation", "unknown keyword", "format"]


@dataclass(frozen=True)
class Fault:
    """Why a constraint is refused. `position`: a column, a JSON pointer, or None."""

    kind: FaultKind
    position: int | str | None
    message: str


@dataclass(frozen=True)
class Annotation:
    """What stands in a schema and says nothing about what is valid. `name`: the keyword's or, of a
    format, its own. `hint`: a known name that looks alike.
    """

    kind: AnnotationKind
    pointer: str
    name: str
    hint: str | None = None


@dataclass(frozen=True)
class SchemaCheck:
    """`has_more`: faults may be left that were not looked for."""

    faults: tuple[Fault, ...]
    has_more: bool
    annotations: tuple[Annotation, ...]


def fault_of(error: GrammarError) -> Fault:
    """What an error says."""
    kind: FaultKind = "malformed"
    if isinstance(error, UnsupportedError):
        kind = "unsupported"
    elif isinstance(error, EmptyLanguageError):
        kind = "unsatisfiable"
    elif isinstance(error, CompileBudgetError):
        kind = "too costly"
    return Fault(kind, error.position, str(error))


def check_schema(source: SchemaSource, style: Style, *, budget: Budget) -> SchemaCheck:
    """Reads a document until no fault is left; all readings together keep to `budget`."""
    faults: list[Fault] = []
    schemas: dict[str, JsonValue] = {}
    rest: SchemaSource | None = source
    has_more = False
    while rest is not None and len(faults) < MAX_FAULTS:
        error = _first_error(rest, style, budget, schemas)
        if error is None:
            has_more = False
            break
        found = fault_of(error)
        is_last = found.kind in {"unsatisfiable", "too costly"}
        if not is_last or not faults:  # what is left of a faulty document may be anything
            faults.append(found)
        if is_last:
            has_more = found.kind == "too costly"
            break
        rest = _without(rest, found.position)
        has_more = rest is None or len(faults) == MAX_FAULTS
    rules = FormatRules(source.of_type, style.ignore_formats)
    notes = [note for place in schemas for note in _annotations(place, schemas[place], rules)]
    faults.sort(key=lambda fault: str(fault.position))
    return SchemaCheck(tuple(faults), has_more, tuple(notes))


def _first_error(
    source: SchemaSource, style: Style, budget: Budget, schemas: dict[str, JsonValue]
) -> GrammarError | None:
    """Why a document is refused. `schemas` learns those that were read, as they were at first."""
    seen: dict[str, JsonValue] = {}
    try:
        with too_deep_is_over_budget(budget):
            lower_schema(Algebra(budget=budget), source, style, schemas=seen)
    except GrammarError as error:
        return error
    finally:
        for place, schema in seen.items():
            schemas.setdefault(place, schema)
    return None


# -- what says nothing -----------------------------------------------------------------------------


def _annotations(place: str, schema: JsonValue, rules: FormatRules) -> Iterator[Annotation]:
    """Of one schema, without those inside of it."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        at = f"{place}/{keyword}"
        if keyword == "format" and isinstance(value, str):
            if _is_annotation(value, rules):
                yield Annotation("format", at, value, _alike(value, STANDARD_FORMATS))
        elif keyword in ANNOTATIONS:
            yield Annotation("annotation", at, keyword)
        elif keyword not in keywords.READ | STRUCTURE:
            yield Annotation("unknown keyword", at, keyword, _alike(keyword, _KNOWN))


_KNOWN = keywords.ENFORCED | ANNOTATIONS | STRUCTURE


def _is_annotation(name: str, rules: FormatRules) -> bool:
    try:
        return not rules.is_enforced(name, "")
    except UnsupportedError:
        return False  # a fault, and told as one


def _alike(name: str, known: frozenset[str]) -> str | None:
    """The known name that `name` may have been meant to be."""
    by_lower = {each.lower(): each for each in sorted(known - {name})}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=SIMILARITY)
    return by_lower[found[0]] if found else None


# -- taking a part out -----------------------------------------------------------------------------


def _without(source: SchemaSource, position: int | str | None) -> SchemaSource | None:
    """The source without what stands at a JSON pointer; None where nothing can be taken out."""
    if not isinstance(position, str):
        return None
    uri, _, pointer = position.rpartition("#")
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    if not parts:
        return None
    if not uri:
        document = _cut(source.document, parts, "schema")
        return None if document is None else replace(source, document=document)
    for name, resource in source.resources.items():
        if name.rstrip("#") == uri:
            cut = _cut(resource, parts, "schema")
            changed = {**source.resources, name: cut}
            return None if cut is None else replace(source, resources=changed)
    return None


_Kind = Literal["schema", "schemas", "data"]


def _cut(value: JsonValue, parts: list[str], kind: _Kind) -> JsonValue | None:
    """A copy without a keyword, or with a schema that allows everything; None if nothing is there.

    `kind`: what `value` is; "schemas" are a list of them, or schemas by name.
    """
    part, *rest = parts
    found: list[tuple[str | int, JsonValue]] = []
    if isinstance(value, dict):
        found = list(value.items())
    elif isinstance(value, list):
        found = list(enumerate(value))
    kept: list[tuple[str | int, JsonValue]] = []
    is_there = False
    for name, inner in found:
        if str(name) != part:
            kept.append((name, inner))
            continue
        is_there = True
        if rest:
            cut = _cut(inner, rest, _kind_inside(kind, part, inner))
            if cut is None:
                return None
            kept.append((name, cut))
        elif kind == "schemas":
            kept.append((name, True))
    if not is_there:
        return None
    if isinstance(value, dict):
        return {str(name): inner for name, inner in kept}
    return [inner for _, inner in kept]


def _kind_inside(kind: _Kind, part: str, inner: JsonValue) -> _Kind:
    if kind == "schemas":
        return "schema"
    if kind == "data":
        return "data"
    if (part in NAMED and isinstance(inner, dict)) or (part in MANY and isinstance(inner, list)):
        return "schemas"
    return "schema" if part in ONE else "data"
