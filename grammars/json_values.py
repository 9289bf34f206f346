"""JSON values as they are written. Owns exact parsing and the two serialisations.

Numbers keep their digits: integers are int, all others Decimal; nothing goes through a float.
It must not know of schemas.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, NoReturn

from grammars.errors import GrammarError, UnsupportedError

Number = int | Decimal

JsonValue = Any
"""None, bool, int, Decimal, str, list or dict, as `parse_json` makes them."""

MAX_DIGITS = 10_000
"""Digits of a number before or after the point: arithmetic on more would take its time."""

SEPARATORS = {"compact": (",", ":"), "single": (", ", ": ")}


def parse_json(text: str) -> JsonValue:
    """The value of a JSON text; raises GrammarError with the column where it is malformed, and
    UnsupportedError for a number of more than MAX_DIGITS digits.
    """
    try:
        return json.loads(text, parse_float=_exact, parse_int=_exact_int, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        raise GrammarError(f"{text!r:.80} is not JSON: {error}", error.pos) from None
    except RecursionError:
        raise GrammarError(f"{text[:40]!r}... is nested too deep to be read as JSON") from None


def _refuse(constant: str) -> NoReturn:
    raise GrammarError(f"{constant} is not a JSON number; give a finite one")


def _exact_int(digits: str) -> int | Decimal:
    """An int; of more than 4,000 digits, which Python refuses to make an int of, a Decimal."""
    return int(digits) if len(digits) <= 4_000 else _exact(digits)


def _exact(digits: str) -> Decimal:
    """A Decimal of a size that one can compute with."""
    try:
        found = Decimal(digits)
    except InvalidOperation:  # an exponent beyond what a Decimal has
        found = Decimal("inf")
    exponent = found.as_tuple().exponent
    if not isinstance(exponent, int) or max(found.adjusted(), -exponent) > MAX_DIGITS:
        raise UnsupportedError(
            f"the number {digits:.40} has more than {MAX_DIGITS} digits before or after the "
            "point; give fewer"
        )
    return found


def number_spellings(value: Number, *, point_zero: bool = True) -> list[str]:
    """The texts that are taken for a number: its digits, behind a whole one that is a float also
    ".0" (unless not `point_zero`), and what Python writes for the float that equals it.
    """
    exact = Decimal(value)
    found: list[str] = []
    if not exact:
        return ["0", "0.0", "-0", "-0.0"] if point_zero else ["0"]
    if exact.adjusted() < 60 and exact == exact.to_integral_value():
        found.append(f"{exact.to_integral_value():f}")
        if point_zero and float(exact) == exact:
            found.append(f"{found[0]}.0")
    else:
        found.append(number_text(exact))
    if point_zero or exact != exact.to_integral_value():
        with suppress(OverflowError):
            written = json.dumps(float(exact))
            if written[-1].isdigit() and Decimal(written) == exact:
                found.append(written)
    return list(dict.fromkeys(found))


def is_text(text: str) -> bool:
    """Whether UTF-8 can write it: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def dump(value: JsonValue, whitespace: str, *, ascii_only: bool) -> str:
    """`value` as JSON text with the given separators; members in their order."""
    comma, colon = SEPARATORS[whitespace]
    if isinstance(value, dict):
        members = (
            f"{json.dumps(key, ensure_ascii=ascii_only)}{colon}"
            + dump(item, whitespace, ascii_only=ascii_only)
            for key, item in value.items()
        )
        return "{" + comma.join(members) + "}"
    if isinstance(value, list):
        return "[" + comma.join(dump(v, whitespace, ascii_only=ascii_only) for v in value) + "]"
    if isinstance(value, Decimal):
        return number_text(value)
    return json.dumps(value, ensure_ascii=ascii_only)


def number_text(value: Decimal) -> str:
    """A decimal as JSON, without an exponent while that is reasonably short."""
    if -60 < value.adjusted() < 60:
        return f"{value:f}"
    return str(value).replace("E", "e")


def same(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON values: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return (
        type(left) is type(right)
        and left == right
        or (isinstance(left, int | Decimal) and isinstance(right, int | Decimal) and left == right)
    )


def value_key(value: JsonValue) -> Hashable:
    """Equal for the same values, as `same` has it, and for no others."""
    if isinstance(value, bool) or value is None:
        return (value,)
    if isinstance(value, Number):
        return Fraction(value)
    if isinstance(value, list):
        return tuple(map(value_key, value)), "list"
    if isinstance(value, dict):
        return frozenset((name, value_key(item)) for name, item in value.items())
    return str(value)
