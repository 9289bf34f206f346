"""Which numbers a shape allows, as arithmetic. Owns scaling and counting, exact at any size.

Signs are gone: these are magnitudes. A *mark* is an integer that stands for itself times
10**-scale; the scale is so fine that bounds, multiples and excluded values are marks. Then a number
is a mark, of which finitely many conditions decide, or lies between two marks, where only the
bounds do. So "is there a number that begins with these digits" is counting in an interval.
It must not know of texts or expressions.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, gcd, lcm

from grammars.errors import UnsupportedError

MAX_WRITTEN = 300
"""Digits that the whole part may have where no bound says less: the float stays finite, and Python
reads the int.
"""

MAX_TERMS = 256
"""Counting the multiples of none of n numbers takes up to 2**n terms; schemas have one or two."""


@dataclass(frozen=True)
class Bounds:
    """An interval of magnitudes (high None: unbounded); `open` bounds are not in it."""

    low: Fraction = Fraction(0)
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False

    def __contains__(self, number: Fraction) -> bool:
        above = number > self.low or (number == self.low and not self.low_open)
        return above and (
            self.high is None or number < self.high or (number == self.high and not self.high_open)
        )


@dataclass(frozen=True)
class NumberSet:
    """The marks low..high that are counted by `terms` and not `excluded`, and the numbers between
    mark x and x + 1 for each x of `gaps` (first, last; None: there are none).

    terms: (modulus, coefficient) pairs. The marks in an interval are as many as the multiples of
    each modulus, times its coefficient, add up to (inclusion and exclusion).
    """

    scale: int
    terms: tuple[tuple[int, int], ...]
    low: int = 0
    high: int | None = None
    gaps: tuple[int, int | None] | None = None
    excluded: tuple[int, ...] = ()

    @cached_property
    def unit(self) -> int:
        """The mark of the number 1."""
        return power(self.scale)

    @cached_property
    def period(self) -> int:
        """Marks that differ by it are alike, as far as the terms decide."""
        return lcm(*(modulus for modulus, _ in self.terms))

    @cached_property
    def is_whole(self) -> bool:
        """Whether nothing in it has a fraction."""
        return self.scale == 0 and self.gaps is None

    @cached_property
    def is_plain(self) -> bool:
        """Whether the terms ask nothing: every mark counts."""
        return self.terms == ((1, 1),)

    @cached_property
    def anywhere(self) -> NumberSet:
        """The same conditions without bounds and excluded values."""
        gaps = None if self.gaps is None else (0, None)
        return NumberSet(self.scale, self.terms, gaps=gaps)

    def modulus(self, below: int) -> int:
        """What digits need to be known modulo when marks are them times `below`, and more."""
        return self.period // gcd(self.period, below)

    # -- what is in an interval of marks -------------------------------------------------------

    def has(self, mark: int) -> bool:
        return self._count(mark, mark) > 0

    def has_gap(self, mark: int) -> bool:
        """Whether numbers between `mark` and the next are in it."""
        return self._first_gap(mark, mark) is not None

    def has_any(self, first: int, last: int) -> bool:
        """Whether any number from mark `first` to just before the one after `last` is in it."""
        return self._first_gap(first, last) is not None or self._count(first, last) > 0

    def first(self, first: int, last: int, step: int = 1) -> int | None:
        """The first mark in the interval that is a multiple of `step`."""
        wanted = self._clip(first, last)
        if wanted is None or not self._count(first, last, step):
            return None
        low, high = wanted
        nearest = -(-low // step) * step
        if nearest <= high and self._count(nearest, nearest, step):
            return nearest
        while low < high:  # the count up to a mark grows with it
            middle = (low + high) // 2
            if self._count(first, middle, step):
                high = middle
            else:
                low = middle + 1
        return low

    def first_gap(self, first: int, last: int) -> int:
        """The first mark of the interval after which a number lies that is no mark."""
        found = self._first_gap(first, last)
        assert found is not None, "a number is in the interval, and it is no mark"
        return found

    def within(self, first: int, last: int) -> bool:
        """Whether the interval is within the bounds."""
        inside = first >= self.low and (self.high is None or last <= self.high)
        if self.gaps is not None:
            low, high = self.gaps
            inside = inside and first >= low and (high is None or last <= high)
        return inside

    def covers(self, first: int, last: int) -> bool:
        """Whether neither bounds nor excluded values ask anything in the interval."""
        return self.within(first, last) and not self._num_excluded(first, last)

    def misses(self, first: int, last: int) -> bool:
        """Whether the interval is out of bounds."""
        return self._clip(first, last) is None and self._first_gap(first, last) is None

    @cached_property
    def ends(self) -> tuple[int, int | None]:
        """The first and the last mark that a number may begin with."""
        if self.gaps is None:
            return self.low, self.high
        low, high = self.gaps
        if self.high is None or high is None:
            return min(low, self.low), None
        return min(low, self.low), max(high, self.high)

    def _clip(self, first: int, last: int) -> tuple[int, int] | None:
        low = max(first, self.low)
        high = last if self.high is None else min(last, self.high)
        return (low, high) if low <= high else None

    def _first_gap(self, first: int, last: int) -> int | None:
        if self.gaps is None:
            return None
        low, high = self.gaps
        low = max(first, low)
        return low if low <= (last if high is None else min(last, high)) else None

    def _count(self, first: int, last: int, step: int = 1) -> int:
        """The marks in the interval that are multiples of `step`."""
        clipped = self._clip(first, last)
        if clipped is None:
            return 0
        low, high = clipped
        found = 0
        for modulus, coefficient in self.terms:
            every = lcm(modulus, step)
            found += coefficient * (high // every - (low - 1) // every)
        return found - self._num_excluded(low, high, step)

    def _num_excluded(self, first: int, last: int, step: int = 1) -> int:
        if not self.excluded:
            return 0
        left, right = bisect_left(self.excluded, first), bisect_right(self.excluded, last)
        if step == 1:
            return right - left
        return sum(not mark % step for mark in self.excluded[left:right])


def number_set(
    bounds: Bounds,
    *,
    multiples: Sequence[Fraction] = (),
    non_multiples: Sequence[Fraction] = (),
    excluded: Sequence[Fraction] = (),
) -> NumberSet:
    """The magnitudes within `bounds` that are multiples of each, of none of, and not one of these.

    Where no bound is above, the whole part has at most MAX_WRITTEN digits, or as many as it needs.
    """
    every: Fraction | None = None
    for multiple in multiples:
        every = multiple if every is None else common_multiple(every, multiple)
    if every is not None:
        scale, step = places(every), every
        excluded = [number for number in excluded if not number % every]
    else:
        ends = [bounds.low, *([] if bounds.high is None else [bounds.high])]
        scale = max(places(number) for number in [*ends, *non_multiples, *excluded])
        step = Fraction(1, power(scale))
    unit = power(scale)
    terms = _terms(int(step * unit), [int(common_multiple(step, n) * unit) for n in non_multiples])
    low = ceil(bounds.low * unit)
    if bounds.low_open and low == bounds.low * unit:
        low += 1
    marks = sorted({int(number * unit) for number in excluded if number in bounds})
    if bounds.high is None:
        furthest = max([low, *marks]) + 2 * lcm(*(modulus for modulus, _ in terms))
        high = power(max(MAX_WRITTEN + scale, num_digits(furthest))) - 1
    else:
        high = floor(bounds.high * unit)
        if bounds.high_open and high == bounds.high * unit:
            high -= 1
    gaps = None
    if every is None:
        last = high if bounds.high is None else int(bounds.high * unit) - 1
        gaps = (int(bounds.low * unit), last)
    counted = NumberSet(scale, terms)
    return NumberSet(
        scale, terms, low, high, gaps, tuple(mark for mark in marks if counted.has(mark))
    )


def _terms(step: int, avoided: list[int]) -> tuple[tuple[int, int], ...]:
    """Inclusion and exclusion: the multiples of `step` that are multiples of none of `avoided`."""
    terms = {step: 1}
    for number in sorted(set(avoided)):
        for modulus, coefficient in list(terms.items()):
            common = lcm(modulus, number)
            terms[common] = terms.get(common, 0) - coefficient
        terms = {modulus: coefficient for modulus, coefficient in terms.items() if coefficient}
        if len(terms) > MAX_TERMS:
            raise UnsupportedError(
                "a number must not be a multiple of any of too many numbers, which is not "
                "supported; give fewer, or those that the others are multiples of"
            )
    return tuple(sorted(terms.items()))


def common_multiple(left: Fraction, right: Fraction) -> Fraction:
    """The least common multiple of two positive rationals."""
    return Fraction(lcm(left.numerator, right.numerator), gcd(left.denominator, right.denominator))


def places(number: Fraction) -> int:
    """The digits of the fraction of a decimal."""
    twos = (number.denominator & -number.denominator).bit_length() - 1
    rest, fives = number.denominator >> twos, 0
    while rest > 1:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives)


def decade(number: Fraction) -> int:
    """The exponent of the highest power of ten that is not above a decimal; low for zero."""
    if not number:
        return -sys.maxsize
    scale = places(number)
    return num_digits(abs(int(number * power(scale)))) - 1 - scale


def num_digits(number: int) -> int:
    """The decimal digits of a natural number; 0 has one."""
    return Decimal(number).adjusted() + 1


def power(exponent: int) -> int:
    """10 to the power of a natural number."""
    result: int = 10**exponent
    return result
