"""Numbers of a Python type as JSON schemas. Owns what holds for the written digits, so that it
holds for the number that is read from them.

JSON numbers with a fraction are read as floats, also for a Decimal: 0.99999999999999999999 is read
as 1.0, which is not below 1. Up to 15 digits are read as they are written, and so are integers.
It must not know of other types.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from grammars.errors import UnsupportedError

Core = dict[str, Any]
Schema = dict[str, Any]

EXACT_DIGITS = 15
"""Digits that a float keeps, whatever they are (`sys.float_info.dig`)."""

QUOTIENT_DIGITS = 27
"""How often a multiple may go into a number: a Decimal finds the remainder with 28 digits."""

MAX_ROUNDED_MULTIPLE = 10**6
"""Bound of the multiples of a float that is not what is written (0.1). A reader finds a remainder
of about 4e-16 of the number, and takes 1e-9 for none.
"""


def float_numbers(found: Schema, core: Core) -> Schema:
    """`found`, the schema of a float, with bounds for what is written."""
    found = with_read_bounds(found, core, float)
    multiple = core.get("multiple_of")
    if multiple is not None:
        exact = Fraction(multiple) == Fraction(repr(float(multiple)))
        most = Fraction(2**53, Fraction(multiple).denominator) if exact else Fraction(0)
        limit = math.floor(max(most, Fraction(MAX_ROUNDED_MULTIPLE)))
        found["multipleOf"] = multiple
        found["minimum"] = max(found.get("minimum", -limit), -limit)
        found["maximum"] = min(found.get("maximum", limit), limit)
    return found


def decimal_numbers(core: Core) -> Schema:
    """The schema of a Decimal, as numbers: bounds, digits and multiples."""
    found = with_read_bounds({"type": "number"}, core, Decimal)
    multiple, places = core.get("multiple_of"), core.get("decimal_places")
    if multiple is not None:
        found["multipleOf"] = _as_json(multiple)
        needed = _places(multiple)
        places = needed if places is None else min(places, needed)
    digits = core.get("max_digits")
    if places is None and digits is None:
        return found
    whole = None
    if digits is not None and core.get("decimal_places") is not None:
        whole = max(digits - core["decimal_places"], 0)
        if whole == 0:
            found["not"] = {"const": 0}  # zero is taken for one digit in front of the point
    if multiple is not None:
        most = max(QUOTIENT_DIGITS - needed, 0)
        whole = most if whole is None else min(whole, most)
    found["anyOf"] = list(_digits(places, digits, whole))
    return found


def _digits(places: int | None, digits: int | None, whole: int | None) -> Iterator[Schema]:
    """Numbers of at most so many digits behind the point, in all, and in front of the point: by the
    digits behind it, of which there must be fewer where there are more in front.
    """
    in_all = EXACT_DIGITS if digits is None else min(digits, EXACT_DIGITS)
    most = in_all if places is None else min(places, in_all)
    room = [min(in_all - count, in_all if whole is None else whole) for count in range(most + 1)]
    for count in range(1, most + 1):
        if count == most or room[count] > room[count + 1]:
            step = float(Decimal(1).scaleb(-count))
            yield {"type": "number", "multipleOf": step, **_below(room[count])}
    limits = [limit for limit in (digits, whole) if limit is not None]
    if most == 0 or not limits or min(limits) > room[1]:
        yield {"type": "integer", **(_below(min(limits)) if limits else {})}


def _below(whole: int) -> Schema:
    """Numbers with at most so many digits in front of the point."""
    return {"exclusiveMinimum": -(10**whole), "exclusiveMaximum": 10**whole}


def _places(number: Any) -> int:
    exponent = Decimal(number).normalize().as_tuple().exponent
    assert isinstance(exponent, int), "a multiple is finite"
    return max(-exponent, 0)


def _as_json(multiple: Any) -> int | float:
    """A Decimal as a number that JSON writes with the same digits."""
    number = Decimal(multiple)
    if number == number.to_integral_value():
        return int(number)
    if Decimal(repr(float(number))) != number or _places(number) > EXACT_DIGITS:
        raise UnsupportedError(
            f"multiple_of={multiple!r} has more digits than are read from JSON; give at most "
            f"{EXACT_DIGITS}"
        )
    return float(number)


def with_read_bounds(found: Schema, core: Core, kind: Callable[[Any], Any]) -> Schema:
    """`found` with bounds for the text such that they hold for the number that is read.

    Rounding keeps the order, so the nearest float within is a closed bound.
    """
    for keyword, exclusive, names, direction in (
        ("minimum", "exclusiveMinimum", ("ge", "gt"), math.inf),
        ("maximum", "exclusiveMaximum", ("le", "lt"), -math.inf),
    ):
        found.pop(exclusive, None)
        bounds = [
            _nearest(kind(core[name]), kind, direction, strictly=name == names[1])
            for name in names
            if core.get(name) is not None
        ]
        if bounds:
            found[keyword] = max(bounds) if direction > 0 else min(bounds)
    return found


def _nearest(bound: Any, kind: Callable[[Any], Any], direction: float, *, strictly: bool) -> float:
    """The first float on the right side of `bound`: from it on towards `direction`."""
    number = _float(bound)
    while math.isfinite(number) and not _is_within(kind, number, bound, direction, strictly):
        number = math.nextafter(number, direction)
    if not math.isfinite(number):
        raise UnsupportedError(
            f"the bound {bound!r} of a number leaves no float within; give one further inside"
        )
    return number


def _float(bound: Any) -> float:
    try:
        return float(bound)
    except OverflowError:
        return math.inf


def _is_within(
    kind: Callable[[Any], Any], number: float, bound: Any, direction: float, strictly: bool
) -> bool:
    """Whether `number`, as it is read, is on the right side of `bound`."""
    read = kind(repr(number))
    if read == bound:
        return not strictly
    return bool(read > bound) == (direction > 0)
