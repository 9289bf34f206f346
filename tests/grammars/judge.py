"""`jsonschema` as a judge of texts. Owns what is taken out of it because it is Python's, and not
JSON Schema's.

* Numbers are read exactly: no float is rounded before it is judged.
* `$` at the end of a pattern does not match before a newline.
* Formats are those of `grammars.formats`, which have tests of their own.
* A name that is there twice is no object to judge.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import jsonschema
from jsonschema import Draft202012Validator, FormatChecker, ValidationError, validators

from grammars.formats import FORMATS

_extend: Any = validators.extend  # it has no types


class DuplicateNameError(ValueError):
    """An object has a name twice."""


def parse(text: str) -> Any:
    """The value of a text, its numbers exact; raises DuplicateNameError."""
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_distinct)


def is_valid(schema: Any, text: str, draft: Any = Draft202012Validator) -> bool:
    """Whether a text is valid under a schema; `draft` is one of jsonschema's validators."""
    exact = json.loads(json.dumps(schema), parse_float=Decimal)
    found: bool = _judge(draft)(_in_python(exact), format_checker=_checker()).is_valid(parse(text))
    return found


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DuplicateNameError(f"a name is there twice: {[name for name, _ in pairs]}")
    return found


def _in_python(schema: Any) -> Any:
    """The schema with its patterns as Python has to read them."""
    if isinstance(schema, list):
        return [_in_python(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for name, value in schema.items():
        if name == "pattern" and isinstance(value, str):
            found[name] = _end_of_text(value)
        elif name == "patternProperties" and isinstance(value, dict):
            found[name] = {_end_of_text(text): _in_python(part) for text, part in value.items()}
        else:
            found[name] = value if name in ("enum", "const") else _in_python(value)
    return found


def _end_of_text(pattern: str) -> str:
    return re.sub(r"(?<!\\)\$", r"\\Z", pattern)


@cache
def _judge(draft: Any) -> Any:
    checker = draft.TYPE_CHECKER.redefine("integer", _is_integer)
    return _extend(draft, {"multipleOf": _multiple_of}, type_checker=checker)


@cache
def _checker() -> FormatChecker:
    checker = FormatChecker(formats=())
    for name, pattern in FORMATS.items():
        compiled = re.compile(pattern)
        checker.checks(name)(
            lambda value, compiled=compiled: (
                not isinstance(value, str) or compiled.fullmatch(value) is not None
            )
        )
    return checker


def _is_integer(_: object, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    return Fraction(value).denominator == 1


def _multiple_of(
    validator: Any, divisor: Any, value: Any, _: Any
) -> Iterator[jsonschema.ValidationError]:
    if validator.is_type(value, "number") and (Fraction(value) / Fraction(divisor)).denominator > 1:
        yield ValidationError(f"{value} is not a multiple of {divisor}")
