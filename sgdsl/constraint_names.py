"""Constraints and types as a program would write them: in graphs, explanations and errors.

Owns these names. Never raises: errors are printed with them.
"""

from __future__ import annotations

import json
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from grammars import (
    Alternation,
    Cfg,
    Choices,
    Concatenation,
    Constraint,
    JsonSchema,
    Regex,
    Repetition,
    StructuralTags,
    Substring,
    TypeOf,
)
from grammars.types import TypeTexts

MAX_DEPTH = 8
"""Of constraints made of constraints, and of types made of types."""

MAX_SCHEMA = 1 << 14
"""Characters of a schema that is looked into for its name."""


def written(constraint: Constraint) -> str:
    """All of it, however long."""
    return _show(constraint, MAX_DEPTH)


def _show(part: Constraint | str, depth: int) -> str:
    inner = partial(_show, depth=depth - 1)
    match part:
        case _ if depth == 0:
            return "..."
        case str():
            return repr(part)
        case Concatenation(parts=parts):
            return " + ".join(map(inner, parts))
        case Alternation(options=options):
            return f"({' | '.join(map(inner, options))})"
        case Repetition(part=repeated, low=low, high=high):
            return f"({inner(repeated)}){{{low},{'' if high is None else high}}}"
        case _:
            return _simple(part)


def _simple(constraint: Constraint) -> str:
    match constraint:
        case TypeOf(tp=tp):
            return f"type={type_name(tp)}"
        case TypeTexts(text=text):
            return f"type={_schema_name(text)}"
        case JsonSchema(text=text):
            return f"json_schema={_schema_name(text)}"
        case Regex(pattern=pattern):
            return f"regex={pattern!r}"
        case Choices(texts=texts):
            return f"choices={[*texts]!r}"
        case Cfg(text=text):
            return f"grammar={text.strip()!r}"
        case Substring(of=text):
            return f"substring_of={text!r}"
        case StructuralTags(tags=tags):
            return f"tags={[tag.begin for tag in tags]!r}"
        case _:
            return repr(constraint)


def type_name(tp: Any, depth: int = MAX_DEPTH) -> str:
    """A type as it is written in a program, without modules and metadata."""
    if depth == 0:
        return "..."
    if tp is NoneType:
        return "None"
    if tp is Ellipsis:
        return "..."
    origin, arguments = get_origin(tp), get_args(tp)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is Annotated:
        return f"Annotated[{type_name(arguments[0], depth - 1)}, ...]"
    if origin in (Union, UnionType):
        return " | ".join(type_name(each, depth - 1) for each in arguments)
    if origin is not None and arguments:
        inside = ", ".join(type_name(each, depth - 1) for each in arguments)
        return f"{_bare_name(origin)}[{inside}]"
    return _bare_name(tp)


def _bare_name(tp: Any) -> str:
    name = getattr(tp, "__qualname__", None) or getattr(tp, "__name__", None)
    return str(name).rpartition("<locals>.")[2] if name else repr(tp)


def _schema_name(text: str) -> str:
    """Its title, or the names of its members; else the schema."""
    if len(text) > MAX_SCHEMA:
        return text
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(schema, dict):
        return text
    if isinstance(title := schema.get("title"), str) and title:
        return title if title.isidentifier() else repr(title)
    if isinstance(members := schema.get("properties"), dict) and members:
        return f"{{{', '.join(members)}}}"
    return text
