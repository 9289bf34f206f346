"""`s.get("x", T)`: a variable as a value of a type.

Owns what counts as one: a value that has the type already, or a text that can be read as one. Knows
nothing of states and runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, get_origin

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from grammars import GrammarError, TypeOf
from sgdsl.errors import ProgramError, UsageError


def as_type(value: Any, tp: Any, name: str | int) -> Any:
    """`value` of the variable `name` as a `tp`.

    A plain class is asked with `isinstance`; other types (`list[int]`, `Literal[...]`, unions) are
    checked by pydantic, without conversions. A str that is none of these is parsed.

    Raises `UsageError` for a value of another type, `ProgramError` for a text that cannot be read.
    """
    if _is_instance(value, tp):
        return value
    if not isinstance(value, str):
        raise UsageError(
            f"get({name!r}, {_shown(tp)}): the variable is {value!r}, a {type(value).__name__}; "
            "ask for that type, or generate it with gen(type=...)"
        )
    try:
        return _parse(value, tp)
    except (ValidationError, ValueError) as error:
        raise ProgramError(
            f"get({name!r}, {_shown(tp)}): the text {value!r} is not one: {_reason(error)}"
        ) from error


def _is_instance(value: Any, tp: Any) -> bool:
    if isinstance(tp, type) and get_origin(tp) is None:
        try:
            return isinstance(value, tp) and not (isinstance(value, bool) and tp in {int, float})
        except TypeError:  # a TypedDict, or a protocol that is not for run time
            pass
    try:
        _adapter(tp).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


def _parse(text: str, tp: Any) -> Any:
    try:
        return _type_of(tp).parse(text)
    except GrammarError:  # a type without a schema may have a parser all the same
        return _adapter(tp).validate_python(text)


@lru_cache(maxsize=256)
def _cached_adapter(tp: Any) -> TypeAdapter[Any]:
    return TypeAdapter(tp)


def _adapter(tp: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(tp)
    except TypeError:  # not hashable, as Annotated[int, []]
        return TypeAdapter(tp)
    except PydanticUserError as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"get(..., {_shown(tp)}): pydantic knows no such type: {reason}; give a class, or any "
            "type that gen(type=...) takes"
        ) from None


@lru_cache(maxsize=256)
def _type_of(tp: Any) -> TypeOf:
    return TypeOf(tp)


def _reason(error: ValueError) -> str:
    """In one line: pydantic's own text has several."""
    if not isinstance(error, ValidationError):
        return str(error)
    return "; ".join(
        ".".join(map(str, each["loc"])) + ": " * bool(each["loc"]) + each["msg"]
        for each in error.errors(include_url=False, include_context=False)
    )


def _shown(tp: Any) -> str:
    return tp.__name__ if isinstance(tp, type) and get_origin(tp) is None else str(tp)
