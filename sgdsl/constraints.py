"""From the arguments of `gen` to a constraint.

Owns which argument makes which constraint, and their reuse: ten thousand rows that pass the same
line share one. What a constraint means, and whether it is well formed, is `grammars`' business.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from grammars import Constraint, GrammarError, JsonSchema, Regex, TypeOf
from sgdsl.arguments import refuse
from sgdsl.errors import UsageError
from sgdsl.expressions import Hole

_DTYPES: dict[Any, type] = {
    key: kind for kind in (int, float, bool, str) for key in (kind, kind.__name__)
}


def constraint_from(where: str, asked: Mapping[str, Any]) -> tuple[Constraint | None, bool]:
    """The constraint of the one argument in `asked`, and whether the variable gets its type.
    Any text is a `str`, so that type constrains nothing.

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
        match name:
            case "regex":
                if not isinstance(value, str):
                    refuse(where, name, value, "a pattern, as a str")
                return _regex(value), False
            case "json_schema":
                if not isinstance(value, (dict, bool, str, type)):
                    refuse(where, name, value, "a schema, as a dict, JSON text or a pydantic class")
                return _json_schema(value), False
            case "dtype":
                if not isinstance(value, (str, type)) or value not in _DTYPES:
                    refuse(where, name, value, "int, float, bool, str or one of their names")
                return _typed(_DTYPES[value])
            case _:
                return _typed(value)
    except GrammarError as error:
        raise UsageError(f"{where}: {name}={value!r} is refused: {error}") from error


def _typed(kind: Any) -> tuple[Constraint | None, bool]:
    return (None, False) if kind is str else (_type_of(kind), True)


@lru_cache(maxsize=1024)
def _regex(pattern: str) -> Regex:
    return Regex(pattern)


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
