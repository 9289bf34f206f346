"""From the arguments of `gen` to a constraint.

Owns which argument makes which constraint, and their reuse: ten thousand rows that pass the same
line share one. What a constraint means, and whether it is well formed, is `grammars`' business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from grammars import Cfg, Constraint, GrammarError, JsonSchema, Regex, Substring, TypeOf
from sgdsl.arguments import refuse
from sgdsl.errors import UsageError
from sgdsl.expressions import Hole
from sgdsl.graph import shorten

_DTYPES: dict[Any, type] = {
    key: kind for kind in (int, float, bool, str) for key in (kind, kind.__name__)
}


Made = tuple[Constraint | None, bool]
"""A constraint, and whether the variable is what it reads in the text. Any text is a `str`, so that
type constrains nothing: None."""


def constraint_from(where: str, asked: Mapping[str, Any]) -> Made:
    """The constraint of the one argument in `asked`.

    Raises `UsageError` for more than one, and for one that `grammars` refuses.
    """
    if len(asked) > 1:
        raise UsageError(
            f"{where}: {' and '.join(asked)} cannot be given together; each of them describes the "
            "whole output: keep one"
        )
    ((name, value),) = asked.items()
    if isinstance(value, Hole):
        value.needed(f"the value of {name}")
    try:
        return _MAKERS[name](where, value)
    except GrammarError as error:
        shown = shorten(repr(value), 200)
        raise UsageError(f"{where}: {name}={shown} is refused: {error}") from error


def _from_regex(where: str, pattern: object) -> Made:
    if not isinstance(pattern, str):
        refuse(where, "regex", pattern, "a pattern, as a str")
    return _regex(pattern), False


def _from_json_schema(where: str, schema: Any) -> Made:
    if isinstance(schema, JsonSchema):
        return schema, False
    if not isinstance(schema, (dict, bool, str, type)):
        allowed = "a schema, as a dict, a bool, JSON text, a pydantic class or a JsonSchema"
        refuse(where, "json_schema", schema, allowed)
    return _json_schema(schema), False


def _from_dtype(where: str, dtype: Any) -> Made:
    if not isinstance(dtype, (str, type)) or dtype not in _DTYPES:
        refuse(where, "dtype", dtype, "int, float, bool, str or one of their names")
    return _from_type(where, _DTYPES[dtype])


def _from_type(_: str, kind: Any) -> Made:
    return (None, False) if kind is str else (_type_of(kind), True)


def _from_grammar(where: str, text: object) -> Made:
    if not isinstance(text, str):
        refuse(where, "grammar", text, "the rules of a grammar, as a str")
    return _grammar(text), False


def _from_source(where: str, text: object) -> Made:
    if not isinstance(text, str):
        refuse(where, "substring_of", text, "the text to quote from, as a str")
    return Substring(text), False


def _from_constraint(where: str, constraint: object) -> Made:
    """A constraint as it is. What the variable is follows from the constraint, never from the
    argument that it came by: the text of a `JsonSchema`, what any other reads in its text.
    """
    if not isinstance(constraint, Constraint):
        refuse(where, "constraint", constraint, "a constraint of grammars, such as Regex")
    try:
        hash(constraint)
    except TypeError as error:
        raise UsageError(
            f"{where}: constraint={shorten(repr(constraint), 200)} has no hash, by which its "
            f"grammar is found again: {error}; make it of values that have one"
        ) from error
    reads_a_value = type(constraint).parse is not Constraint.parse
    return constraint, reads_a_value and not isinstance(constraint, JsonSchema)


_MAKERS: dict[str, Callable[[str, Any], Made]] = {
    "regex": _from_regex,
    "json_schema": _from_json_schema,
    "dtype": _from_dtype,
    "type": _from_type,
    "grammar": _from_grammar,
    "substring_of": _from_source,
    "constraint": _from_constraint,
}

CONSTRAINT_ARGUMENTS = tuple(_MAKERS)
"""The arguments of `gen` that make a constraint; `choices` makes a `select`."""


@lru_cache(maxsize=1024)
def _regex(pattern: str) -> Regex:
    return Regex(pattern)


@lru_cache(maxsize=1024)
def _grammar(text: str) -> Cfg:
    return Cfg(text)


def _json_schema(schema: Any) -> JsonSchema:
    if isinstance(schema, (dict, bool)):
        return _json_schema_text(JsonSchema(schema).text)
    return _json_schema_text(schema) if isinstance(schema, str) else _json_schema_class(schema)


@lru_cache(maxsize=1024)
def _json_schema_text(schema: str) -> JsonSchema:
    return JsonSchema(schema)


@lru_cache(maxsize=1024)
def _json_schema_class(schema: Any) -> JsonSchema:
    return JsonSchema(schema)


def _type_of(kind: Any) -> TypeOf:
    try:
        return _type_of_hashable(kind, repr(kind))
    except TypeError:  # unhashable metadata, as in Annotated[int, [1]]
        return TypeOf(kind)


@lru_cache(maxsize=1024)
def _type_of_hashable(kind: Any, shown: str) -> TypeOf:  # noqa: ARG001 - `shown` is in the key:
    # int | str and str | int are equal, and are not the same to a reader
    return TypeOf(kind)
