"""Numbers as texts. Owns how a number is written: signs, fractions, exponents.

Which digits can become a number is `number_digits`'s to say, exactly and at any size.
It must not know of schemas beyond `NumberShape`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from grammars.algebra import Algebra
from grammars.errors import UnsupportedError
from grammars.expr import Expr
from grammars.json_values import Number
from grammars.number_digits import Digits
from grammars.number_set import MAX_WRITTEN, Bounds, NumberSet, decade, number_set
from grammars.shapes import NumberShape

MAX_DIGITS = 1_000
"""Digits of a number in a schema, on either side of the point: what a state computes with."""

SMALL, LARGE = range(-323, -4), range(16, 309)
"""The exponents that `json.dumps` writes: of floats below 1e-04, as far as none is read as zero,
and of those from 1e+16 on.
"""

POINT_ZERO_BELOW = Fraction(10**15)
"""A whole number below it is the same as a float, which is what readers take `.0` for."""

LARGEST = Fraction(sys.float_info.max)


def lower_number(algebra: Algebra, shape: NumberShape, *, point_zero: bool = True) -> Expr:
    """The texts of the numbers of `shape`; EMPTY when there is none.

    * An integer is written without a fraction, or with `.0` behind at most 15 digits: JSON Schema
      calls 1.0 an integer. Where `point_zero` is false, for readers who do not, it has no fraction,
      and 0 no sign. It never has an exponent: whoever writes 2.5 would be led into 2.5e+16.
    * A number of which nothing is asked has any exponent that leaves its float finite, behind one
      digit and a fraction.
    * A number within bounds, or other than some values, has an exponent as `json.dumps` writes it,
      where 1 to 10 is within the bounds: so whoever writes a number out of bounds is led into none.
    * Multiples, and what must not be one, have no exponent.
    """
    return _Numbers(algebra, shape, point_zero=point_zero).lower()


class _Numbers:
    def __init__(self, algebra: Algebra, shape: NumberShape, *, point_zero: bool) -> None:
        self.algebra = algebra
        self.shape = shape
        self.digit = self.digits("0", "9")
        one = (Fraction(1),)
        self.multiples = exact_fractions(shape.multiples) + (one if shape.integer else ())
        self.non_multiples = exact_fractions(shape.non_multiples) + (
            one if shape.fractional else ()
        )
        self.excluded = exact_fractions(shape.excluded)
        self.signed_zero = point_zero or not shape.integer
        zeros = algebra.repeat(self.digits("0", "0"), 1, 1 if shape.integer else None)
        part = algebra.optional(algebra.concat(self.text("."), zeros))
        self.ending = part if self.signed_zero else algebra.epsilon

    def digits(self, first: str, last: str) -> Expr:
        """One digit, first..last."""
        return self.algebra.byte_set((1 << (ord(last) + 1)) - (1 << ord(first)))

    def text(self, text: str) -> Expr:
        return self.algebra.literal(text.encode())

    def lower(self) -> Expr:
        if self.shape == NumberShape():
            return self.unbounded()
        low, high = _bound(self.shape.low), _bound(self.shape.high)
        below, above = self.shape.high_open, self.shape.low_open
        positive = _side((low, above), (high, below))
        flipped = (None if high is None else -high), (None if low is None else -low)
        negative = _side((flipped[0], below), (flipped[1], above))
        if negative is not None and not (self.signed_zero or negative.low):
            negative = replace(negative, low_open=True)
        options = []
        if positive is not None:
            options.append(self.magnitudes(positive, self.excluded))
        if negative is not None:
            others = tuple(-number for number in self.excluded)
            options.append(self.algebra.concat(self.text("-"), self.magnitudes(negative, others)))
        return self.algebra.union(options)

    def magnitudes(self, bounds: Bounds, excluded: tuple[Fraction, ...]) -> Expr:
        """The texts without a sign."""
        plain = self.plain(bounds, excluded)
        if self.multiples or self.non_multiples:
            return plain
        if bounds.low > 1 or Fraction(1) not in bounds:
            return plain
        if bounds.high is not None and bounds.high < 10:
            return plain
        return self.algebra.union([plain, self.scientific(bounds, excluded, [*SMALL, *LARGE])])

    def plain(self, bounds: Bounds, excluded: tuple[Fraction, ...]) -> Expr:
        """Those without an exponent."""
        numbers = self.numbers(bounds, excluded)
        if not numbers.is_whole or not self.signed_zero:
            return Digits(self.algebra, numbers, self.ending).texts()
        texts = [Digits(self.algebra, numbers, self.algebra.epsilon).texts()]
        if bounds.low < POINT_ZERO_BELOW:
            few = bounds
            if bounds.high is None or bounds.high >= POINT_ZERO_BELOW:
                few = replace(bounds, high=POINT_ZERO_BELOW, high_open=True)
            texts.append(Digits(self.algebra, self.numbers(few, excluded), self.ending).texts())
        return self.algebra.union(texts)

    def numbers(self, bounds: Bounds, excluded: tuple[Fraction, ...]) -> NumberSet:
        """The magnitudes within bounds."""
        return number_set(
            bounds,
            multiples=self.multiples,
            non_multiples=self.non_multiples,
            excluded=[number for number in excluded if number in bounds],
        )

    # -- exponents -----------------------------------------------------------------------------

    def scientific(
        self, bounds: Bounds, excluded: tuple[Fraction, ...], exponents: Sequence[int]
    ) -> Expr:
        """Those with an exponent, as `json.dumps` writes it: one digit, a fraction, `e-05`."""
        high = LARGEST if bounds.high is None else min(bounds.high, LARGEST)
        first, last = decade(bounds.low), decade(high)
        partial = {first, last, *map(decade, excluded)}
        full = [e for e in exponents if first < e < last and e not in partial]
        options = [self.with_exponents(Bounds(Fraction(1), False, Fraction(10), True), (), full)]
        for exponent in sorted(partial.intersection(exponents)):
            mantissas, others = _mantissas(bounds, excluded, exponent)
            options.append(self.with_exponents(mantissas, others, [exponent]))
        return self.algebra.union(options)

    def with_exponents(
        self, mantissas: Bounds, excluded: tuple[Fraction, ...], exponents: list[int]
    ) -> Expr:
        texts = self.algebra.words(f"e{exponent:+03}".encode() for exponent in exponents)
        return self.algebra.concat(self.plain(mantissas, excluded), texts)

    def unbounded(self) -> Expr:
        """Any JSON number whose float is finite: an exponent only behind one digit, a fraction."""
        algebra = self.algebra
        exponent = algebra.sequence(
            [
                algebra.byte_set(1 << ord("e") | 1 << ord("E")),
                algebra.optional(algebra.byte_set(1 << ord("+") | 1 << ord("-"))),
                algebra.optional(self.digits("0", "2")),
                algebra.repeat(self.digit, 1, 2),
            ]
        )
        some_digits = algebra.repeat(self.digit, 1, None)
        part = algebra.optional(algebra.concat(self.text("."), some_digits))
        magnitude = algebra.union(
            [
                algebra.concat(self.natural(MAX_WRITTEN), part),
                algebra.sequence([self.digits("1", "9"), part, exponent]),
                self.scientific(Bounds(), (), range(300, LARGE.stop)),
            ]
        )
        return algebra.concat(algebra.optional(self.text("-")), magnitude)

    def natural(self, most: int) -> Expr:
        """The integers of at most so many digits."""
        more = self.algebra.repeat(self.digit, 0, most - 1)
        return self.algebra.union(
            [self.text("0"), self.algebra.concat(self.digits("1", "9"), more)]
        )


def _side(low: tuple[Fraction | None, bool], high: tuple[Fraction | None, bool]) -> Bounds | None:
    """The bounds of the magnitudes of one sign, zero included; None when there is none."""
    least = (Fraction(0), False) if low[0] is None or low[0] < 0 else (low[0], low[1])
    bounds = Bounds(*least, *high)
    if bounds.high is None or bounds.high > bounds.low:
        return bounds
    is_point = bounds.high == bounds.low and not (bounds.low_open or bounds.high_open)
    return bounds if is_point else None


def _mantissas(
    bounds: Bounds, excluded: tuple[Fraction, ...], exponent: int
) -> tuple[Bounds, tuple[Fraction, ...]]:
    """Which m of one digit before the point, and which not, are in m e `exponent`."""
    factor = Fraction(10) ** -exponent
    low, low_open = bounds.low * factor, bounds.low_open
    if low < 1:
        low, low_open = Fraction(1), False
    high = LARGEST * factor if bounds.high is None else min(LARGEST, bounds.high) * factor
    high_open = bounds.high_open
    if high >= 10:
        high, high_open = Fraction(10), True
    mantissas = Bounds(low, low_open, high, high_open)
    others = (number * factor for number in excluded)
    return mantissas, tuple(number for number in others if number in mantissas)


def _bound(number: Number | None) -> Fraction | None:
    return None if number is None else exact_fractions((number,))[0]


def exact_fractions(numbers: tuple[Number, ...]) -> tuple[Fraction, ...]:
    """The numbers as fractions; those that are too long to compute with are refused."""
    for number in numbers:
        size = number.adjusted() if isinstance(number, Decimal) else number.bit_length() // 3
        if size > MAX_DIGITS or (isinstance(number, Decimal) and _exponent(number) < -MAX_DIGITS):
            raise UnsupportedError(
                f"a number has more than {MAX_DIGITS} digits before or after the point; give fewer"
            )
    return tuple(Fraction(number) for number in numbers)


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "a JSON number is finite"
    return exponent
