"""Which keywords of an unsatisfiable schema contradict each other. Owns the search for them.

A *core* is a set of keywords that nothing satisfies, though it can be satisfied without any one of
them. It is found by taking keywords away, halves of them first, for as long as nothing satisfies
the rest: with a core of k among n keywords, about k log n schemas are tried.

It must not know how it is found out whether anything satisfies a schema.
Source: U. Junker, "QuickXplain: preferred explanations and relaxations for over-constrained
problems", 2004 (the halving).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from grammars.json_values import JsonValue, dump
from grammars.keywords import ENFORCED
from grammars.schema_document import MANY, NAMED, ONE, escape

MAX_SHOWN = 8
"""Keywords that an error names: more of them explain nothing."""

Path = tuple[str | int, ...]
"""Where a keyword stands, from the root of the document on."""


def core(document: JsonValue, is_empty: Callable[[JsonValue], bool], near: str) -> list[Path]:
    """The keywords of a core, in the order of the document, which nothing satisfies.

    `is_empty` tells whether nothing satisfies a schema; False where that is not known. `near`: the
    JSON pointer of where it may be; what stands aside is tried first.
    """
    units = list(_units(document, ()))
    names = set(near.split("/"))
    aside = {unit for unit in units if _is_aside(unit, near) or _is_other(document, unit, names)}
    taken = aside if aside and is_empty(_without(document, aside)) else set[Path]()
    pending = [units]
    while pending:
        chunk = [unit for unit in pending.pop() if not _is_within(unit, taken)]
        if not chunk:
            continue
        if is_empty(_without(document, taken.union(chunk))):
            taken.update(chunk)
        elif len(chunk) > 1:
            middle = len(chunk) // 2
            pending += [chunk[:middle], chunk[middle:]]
    kept = [unit for unit in _units(document, ()) if not _is_within(unit, taken)]
    holders = {unit[:length] for unit in kept for length in range(len(unit))}
    return [unit for unit in kept if unit not in holders]


def told(document: JsonValue, keywords: list[Path]) -> str:
    """The keywords in words: their values, and where they stand."""
    by_place: dict[str, list[str]] = {}
    for unit in keywords[:MAX_SHOWN]:
        place, words = _told(document, unit)
        by_place.setdefault(place, []).append(words)
    groups = [f"{_listed(words)} at {place or '/'}" for place, words in by_place.items()]
    more = len(keywords) - MAX_SHOWN
    return ", with ".join([*groups, f"{more} more"] if more > 0 else groups)


def _told(document: JsonValue, unit: Path) -> tuple[str, str]:
    """The place of a keyword's schema, and the keyword with its value."""
    value = _at(document, unit)
    shown = dump(value, "compact", ascii_only=False)
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    if _is_name(unit):
        return _pointer(unit[:-2]), f"'required' {shown}"
    if value is False and len(unit) > 1 and (unit[-2] in MANY or unit[-2] in NAMED):
        return _pointer(unit), "the schema false"
    holder, keyword = _at(document, unit[:-1]), unit[-1]
    if keyword == "items" and isinstance(holder, dict) and "prefixItems" in holder:
        return _pointer(unit[:-1]), f"'items' {shown} behind {_num_given(holder)} 'prefixItems'"
    return _pointer(unit[:-1]), f"'{keyword}' {shown}"


def _num_given(holder: dict[str, JsonValue]) -> int:
    given = holder["prefixItems"]
    return len(given) if isinstance(given, list) else 0


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _pointer(path: Path) -> str:
    return "".join(f"/{escape(str(part))}" for part in path)


def _at(document: JsonValue, path: Path) -> JsonValue:
    for part in path:
        assert isinstance(document, dict | list), "a path leads through what has parts"
        document = document[part]  # type: ignore[index]
    return document


def _is_aside(unit: Path, near: str) -> bool:
    """Whether a keyword stands neither in the schema at `near` nor in one around it."""
    if _is_name(unit):
        unit = unit[:-1]
    place, at = _pointer(unit[:-1]) + "/", near + "/"
    around = (place, _pointer(unit) + "/")
    return not (at.startswith(around) or place.startswith(at))


def _is_other(document: JsonValue, unit: Path, names: set[str]) -> bool:
    """Whether it is a required name that does not lead to any of these."""
    return _is_name(unit) and escape(str(_at(document, unit))) not in names


def _is_name(unit: Path) -> bool:
    """Whether it is a required name."""
    return len(unit) > 1 and unit[-2] == "required" and isinstance(unit[-1], int)


def _is_within(unit: Path, taken: set[Path]) -> bool:
    return any(unit[:length] in taken for length in range(1, len(unit) + 1))


# -- keywords that can be taken away ---------------------------------------------------------------


def _units(schema: JsonValue, path: Path) -> Iterator[Path]:
    """Every keyword that says something, each before those inside of it; schemas that are false;
    required names.
    """
    if schema is False and path:
        yield path
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        at = (*path, keyword)
        if keyword in ENFORCED:
            yield at
        if keyword == "required" and isinstance(value, list) and len(value) > 1:
            yield from ((*at, index) for index in range(len(value)))
        for part in _schemas(keyword, value):
            if part or value is not False:
                yield from _units(_at(value, part), at + part)


def _schemas(keyword: str, value: JsonValue) -> list[Path]:
    """Where the schemas of a keyword stand in its value."""
    if keyword in MANY and isinstance(value, list):
        return [(index,) for index in range(len(value))]
    if keyword in NAMED and isinstance(value, dict):
        return [(name,) for name in value]
    return [()] if keyword in ONE else []


def _without(schema: JsonValue, taken: set[Path], path: Path = ()) -> JsonValue:
    """The schema without what is taken away. Names and places that other keywords go by stay: a
    property without its schema is still none of `additionalProperties`.
    """
    if path in taken and path:
        return True
    if not isinstance(schema, dict):
        return schema
    made: dict[str, JsonValue] = {}
    for keyword, value in schema.items():
        at = (*path, keyword)
        if at in taken:
            if keyword in ("properties", "patternProperties") and isinstance(value, dict):
                made[keyword] = dict.fromkeys(value, True)
            elif keyword == "prefixItems" and isinstance(value, list):
                made[keyword] = [True] * len(value)
        elif keyword == "required" and isinstance(value, list):
            made[keyword] = [n for index, n in enumerate(value) if (*at, index) not in taken]
        elif keyword in MANY and isinstance(value, list):
            made[keyword] = [_without(v, taken, (*at, i)) for i, v in enumerate(value)]
        elif keyword in NAMED and isinstance(value, dict):
            made[keyword] = {n: _without(v, taken, (*at, n)) for n, v in value.items()}
        else:
            made[keyword] = _without(value, taken, at) if keyword in ONE else value
    return made
