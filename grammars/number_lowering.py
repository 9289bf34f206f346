"""Numbers within bounds as texts. Owns the digit arithmetic, which is exact at any size.

An integer is written without a fraction. A bounded number is written without an exponent; an
unbounded one is any JSON number whose float is finite.
It must not know of schemas beyond `NumberShape`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from grammars.algebra import Algebra
from grammars.derive import has_string
from grammars.errors import UnsupportedError
from grammars.expr import Expr
from grammars.json_values import Number
from grammars.shapes import NumberShape

MAX_DIGITS = 1_000
"""Digits of a bound, on either side of the point: the expression has one branch for each."""

MAX_WRITTEN = 300
"""Digits that an unbounded whole part may have: its float stays finite, and Python reads its
int.
"""

_EXACT = Context(prec=4 * MAX_DIGITS)


def lower_number(algebra: Algebra, shape: NumberShape) -> Expr:
    """The texts of the numbers of `shape`; EMPTY when there is none."""
    return _Numbers(algebra).integers(shape) if shape.integer else _Numbers(algebra).decimals(shape)


class _Numbers:
    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.digit = self.digits("0", "9")
        self.any_digits = algebra.repeat(self.digit, 0, None)

    def digits(self, first: str, last: str) -> Expr:
        """One digit, first..last (none when they are in the wrong order)."""
        return self.algebra.byte_set(
            (1 << (ord(last) + 1)) - (1 << ord(first)) if first <= last else 0
        )

    def text(self, text: str) -> Expr:
        return self.algebra.literal(text.encode())

    def minus(self, magnitude: Expr) -> Expr:
        return self.algebra.concat(self.text("-"), magnitude)

    # -- integers ----------------------------------------------------------------------------

    def integers(self, shape: NumberShape) -> Expr:
        low = None if shape.low is None else _round(shape.low, up=True, strictly=shape.low_open)
        high = (
            None if shape.high is None else _round(shape.high, up=False, strictly=shape.high_open)
        )
        options = []
        if high is None or high >= 0:
            options.append(self.naturals(max(low or 0, 0), high))
        if low is None or low < 0:
            least = 1 if high is None or high >= 0 else -high
            options.append(self.minus(self.naturals(max(least, 1), None if low is None else -low)))
        return self.algebra.union(options)

    def naturals(self, low: int, high: int | None) -> Expr:
        """The integers low..high, low >= 0."""
        algebra = self.algebra
        if high is not None and low > high:
            return algebra.empty
        first = _digits_of(low)
        if high is None:
            return algebra.union([self.at_least(first), self.longer(len(first), MAX_WRITTEN)])
        last = _digits_of(high)
        if len(first) == len(last):
            return self.between(first, last)
        options = [self.at_least(first), self.at_most(last, leading=True)]
        if len(last) - len(first) > 1:
            middle = algebra.repeat(self.digit, len(first), len(last) - 2)
            options.append(algebra.concat(self.digits("1", "9"), middle))
        return algebra.union(options)

    def longer(self, than: int, most: int) -> Expr:
        """The integers with more than `than` and at most `most` digits."""
        if than >= most:
            return self.algebra.empty
        rest = self.algebra.repeat(self.digit, than, most - 1)
        return self.algebra.concat(self.digits("1", "9"), rest)

    def at_least(self, bound: str) -> Expr:
        """Digit strings as long as `bound` that are not below it."""
        nine = "9"
        return self.algebra.union(
            [self.text(bound), *self.branches(bound, lambda d: (_next(d, 1), nine))]
        )

    def at_most(self, bound: str, *, leading: bool = False) -> Expr:
        """Digit strings as long as `bound` that are not above it (`leading`: no zero in front)."""
        branches = self.branches(bound, lambda d: ("0", _next(d, -1)))
        if leading:
            rest = self.algebra.repeat(self.digit, len(bound) - 1, len(bound) - 1)
            branches[0] = self.algebra.concat(self.digits("1", _next(bound[0], -1)), rest)
        return self.algebra.union([self.text(bound), *branches])

    def between(self, first: str, last: str) -> Expr:
        """Digit strings of one length, first..last."""
        if first == last:
            return self.text(first)
        at = next(i for i, (a, b) in enumerate(zip(first, last, strict=True)) if a != b)
        algebra, rest = self.algebra, len(first) - at - 1
        inner = algebra.concat(
            self.digits(_next(first[at], 1), _next(last[at], -1)),
            algebra.repeat(self.digit, rest, rest),
        )
        lowest = algebra.concat(self.text(first[at]), self.at_least(first[at + 1 :]))
        highest = algebra.concat(self.text(last[at]), self.at_most(last[at + 1 :]))
        return algebra.concat(self.text(first[:at]), algebra.union([inner, lowest, highest]))

    def branches(self, bound: str, beyond: Callable[[str], tuple[str, str]]) -> list[Expr]:
        """For each place: `bound` up to it, a digit beyond its own there, any digits after."""
        algebra = self.algebra
        made = []
        for place, digit in enumerate(bound):
            rest = len(bound) - place - 1
            other = algebra.concat(
                self.digits(*beyond(digit)), algebra.repeat(self.digit, rest, rest)
            )
            made.append(algebra.concat(self.text(bound[:place]), other))
        return made

    # -- decimals ----------------------------------------------------------------------------

    def decimals(self, shape: NumberShape) -> Expr:
        if shape.low is None and shape.high is None:
            return self.unbounded()
        low = None if shape.low is None else Decimal(shape.low)
        high = None if shape.high is None else Decimal(shape.high)
        options = []
        if high is None or high > 0 or (high == 0 and not shape.high_open):
            options.append(
                self.magnitudes(
                    (low, shape.low_open) if low is not None and low >= 0 else None,
                    None if high is None else (high, shape.high_open),
                )
            )
        if low is None or low < 0:
            below = (_negated(high), shape.high_open) if high is not None and high <= 0 else None
            above = None if low is None else (_negated(low), shape.low_open)
            options.append(self.minus(self.magnitudes(below, above)))
        return self.algebra.union(options)

    def unbounded(self) -> Expr:
        """Any JSON number whose float is finite: an exponent only after a short whole part."""
        algebra = self.algebra
        exponent = algebra.sequence(
            [
                algebra.byte_set(1 << ord("e") | 1 << ord("E")),
                algebra.optional(algebra.byte_set(1 << ord("+") | 1 << ord("-"))),
                algebra.optional(self.digits("0", "2")),
                algebra.repeat(self.digit, 1, 2),
            ]
        )
        part = algebra.optional(self.fraction(self.some_digits()))
        short = algebra.union([self.text("0"), self.longer(0, 8)])
        magnitude = algebra.union(
            [
                algebra.sequence([self.naturals(0, None), part]),
                algebra.sequence([short, part, exponent]),
            ]
        )
        return algebra.concat(algebra.optional(self.text("-")), magnitude)

    def some_digits(self) -> Expr:
        return self.algebra.repeat(self.digit, 1, None)

    def fraction(self, digits: Expr) -> Expr:
        return self.algebra.concat(self.text("."), digits)

    def magnitudes(
        self, low: tuple[Decimal, bool] | None, high: tuple[Decimal, bool] | None
    ) -> Expr:
        """Non-negative decimals between (bound, is open) pairs."""
        sides = []
        if low is not None and low != (Decimal(0), False):
            sides.append(self.above(*low))
        if high is not None:
            sides.append(self.below(*high))
        if not sides:
            return self.algebra.concat(
                self.naturals(0, None), self.algebra.optional(self.fraction(self.some_digits()))
            )
        both = self.algebra.intersection(sides)
        return both if has_string(self.algebra, both) else self.algebra.empty

    def above(self, bound: Decimal, is_open: bool) -> Expr:
        algebra = self.algebra
        whole, part = _parts(bound)
        anything = algebra.optional(self.fraction(self.some_digits()))
        more = algebra.concat(self.naturals(whole + 1, None), anything)
        positive = algebra.sequence([self.any_digits, self.digits("1", "9"), self.any_digits])
        ending = positive if is_open else self.any_digits
        options = [algebra.concat(self.text(part), ending)] if part or is_open else []
        for place, digit in enumerate(part):
            beyond = algebra.concat(self.digits(_next(digit, 1), "9"), self.any_digits)
            options.append(algebra.concat(self.text(part[:place]), beyond))
        same = anything if not options else self.fraction(algebra.union(options))
        return algebra.union([more, algebra.concat(self.naturals(whole, whole), same)])

    def below(self, bound: Decimal, is_open: bool) -> Expr:
        algebra = self.algebra
        whole, part = _parts(bound)
        anything = algebra.optional(self.fraction(self.some_digits()))
        less = algebra.concat(self.naturals(0, whole - 1), anything) if whole else algebra.empty
        zeros = algebra.repeat(self.digits("0", "0"), 0 if part else 1, None)
        options = [] if is_open else [algebra.concat(self.text(part), zeros)]
        for place, digit in enumerate(part):
            beyond = algebra.concat(self.digits("0", _next(digit, -1)), self.any_digits)
            options.append(algebra.concat(self.text(part[:place]), beyond))
            if place:
                options.append(self.text(part[:place]))
        same = self.fraction(algebra.union(options))
        if part or not is_open:
            same = algebra.optional(same)
        return algebra.union([less, algebra.concat(self.naturals(whole, whole), same)])


def _next(digit: str, step: int) -> str:
    """The character `step` after a digit; beyond the digits it makes an empty range."""
    return chr(ord(digit) + step)


def _negated(bound: Decimal) -> Decimal:
    return bound.copy_negate()


def _check_size(bound: Number) -> None:
    size = Decimal(bound).adjusted() if isinstance(bound, Decimal) else bound.bit_length() // 3
    if size > MAX_DIGITS or (isinstance(bound, Decimal) and _exponent(bound) < -MAX_DIGITS):
        raise UnsupportedError(
            f"a bound has more than {MAX_DIGITS} digits before or after the point; give fewer"
        )


def _exponent(bound: Decimal) -> int:
    exponent = bound.as_tuple().exponent
    assert isinstance(exponent, int), "a JSON number is finite"
    return exponent


def _round(bound: Number, *, up: bool, strictly: bool) -> int:
    """The nearest integer that is not beyond `bound` (`strictly`: nor it)."""
    _check_size(bound)
    if isinstance(bound, Decimal):
        rounding = ROUND_CEILING if up else ROUND_FLOOR
        nearest = int(bound.to_integral_value(rounding=rounding, context=_EXACT))
    else:
        nearest = bound
    if strictly and nearest == bound:
        return nearest + (1 if up else -1)
    return nearest


def _digits_of(number: int) -> str:
    return str(Decimal(number))  # not str(int), which Python limits to 4,300 digits


def _parts(bound: Decimal) -> tuple[int, str]:
    """The whole part of a non-negative decimal, and the digits of its fraction without last
    zeros.
    """
    _check_size(bound)
    whole, _, part = f"{bound:f}".partition(".")
    return int(whole), part.rstrip("0")
