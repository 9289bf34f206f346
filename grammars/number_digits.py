"""Digits that can become a number of a set. Owns the automaton, whose states are made on demand.

The state is what has been written, as an integer, for as long as the bounds or an excluded value
may still decide; then only its remainder, and how many digits may still come; and where not even
the remainder matters, a plain counter of digits. A digit is allowed if, and only if, some
number of the set begins with what has been written: that is counted (`number_set`), never searched,
so there is no dead end whatever the sizes.
It must not know of signs, exponents or shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from grammars.algebra import Algebra
from grammars.expr import Expr
from grammars.number_set import NumberSet, num_digits, power


@dataclass(frozen=True)
class Whole:
    """In the whole part, behind the digits of `number`, which is not zero."""

    number: int


@dataclass(frozen=True)
class Counted:
    """In the whole part, out of the bounds' reach; `fewest` to `most` digits come.

    residue: what has been written, modulo all that matters.
    """

    residue: int
    fewest: int
    most: int


@dataclass(frozen=True)
class Part:
    """In the fraction, with `place` digits of it written; `number` is all digits so far.

    `place` is less than the scale. Out of the bounds' reach, `number` is a remainder.
    """

    place: int
    number: int


@dataclass(frozen=True)
class Digits:
    """The texts of a set of magnitudes: no sign, no leading zeros, no exponent.

    `ending`: what follows the digits of a set of whole numbers, which is for the caller to say.
    Two with equal parts are equal, so that they share their states.
    """

    algebra: Algebra
    numbers: NumberSet
    ending: Expr

    @cached_property
    def _is_free(self) -> bool:
        return self.numbers == self.numbers.anywhere

    @cached_property
    def _free(self) -> Digits:
        """The same without bounds and excluded values."""
        return self if self._is_free else Digits(self.algebra, self.numbers.anywhere, self.ending)

    def texts(self) -> Expr:
        """All of them; EMPTY when there is none."""
        zero = self.algebra.concat(self._digit(0), self._end(0))
        return self.algebra.union([zero, *self._each(1, self._whole)])

    # -- the rules of the references: see `expr.Rules` -----------------------------------------

    def unfold(self, key: Hashable) -> Expr:
        if isinstance(key, Whole):
            begun = 10 * key.number
            longer = self._each(0, lambda digit: self._whole(begun + digit))
            return self.algebra.union([self._end(key.number), *longer])
        if isinstance(key, Counted):
            begun, fewest, most = 10 * key.residue, max(key.fewest - 1, 0), key.most - 1
            options = [] if key.fewest else [self._end(key.residue)]
            if key.most:
                options += self._each(0, lambda digit: self.counted(begun + digit, fewest, most))
            return self.algebra.union(options)
        assert isinstance(key, Part), "these are all the kinds of state"
        place, begun = key.place + 1, 10 * key.number
        options = self._each(0, lambda digit: self.part(place, begun + digit))
        if self._may_end(key):
            options.append(self.algebra.epsilon)
        return self.algebra.union(options)

    def least(self, key: Hashable) -> Expr:
        if isinstance(key, Whole):
            levels = self._levels(key.number)
            assert levels is not None, "a state is made only where a number begins so"
            text = self._shortest(key.number, range(*levels))
        elif isinstance(key, Counted):
            text = self._shortest(key.residue, range(key.fewest, key.most + 1))
        else:
            assert isinstance(key, Part), "these are all the kinds of state"
            text = self._shortest_part(key)
        return self.algebra.literal(text.encode())

    # -- the whole part ------------------------------------------------------------------------

    def _whole(self, number: int) -> Expr:
        """What may follow the digits of `number`, which is not zero."""
        levels = self._levels(number)
        if levels is None:
            return self.algebra.empty
        inside = self._covered(number, levels[0]) and self._covered(number, levels[1] - 1)
        if inside and number not in self._begun:
            return self._free.counted(number, levels[0], levels[1] - 1)
        if not self._has_any(number, range(*levels)):
            return self.algebra.empty
        nullable = levels[0] == 0 and self._end(number).nullable
        return self.algebra.ref(self, Whole(number), nullable=nullable)

    def _levels(self, number: int) -> tuple[int, int] | None:
        """The range of how many digits may follow those of `number`; None: its start is wrong.

        Between the shortest and the longest no bound decides, since it has more or fewer digits.
        """
        low, high = self.numbers.ends
        assert high is not None, "a set without bounds is never asked"
        unit, length = self.numbers.unit, num_digits(number)
        first = max(num_digits(low // unit) - length, 0)
        last = num_digits(max(high, 0) // unit) - length
        while first <= last and self.numbers.misses(*self._interval(number, first)):
            first += 1
        while first <= last and self.numbers.misses(*self._interval(number, last)):
            last -= 1
        return (first, last + 1) if first <= last else None

    @cached_property
    def _begun(self) -> frozenset[int]:
        """What the excluded values begin with."""
        found = set()
        for mark in self.numbers.excluded:
            number = mark // self.numbers.unit
            while number:
                found.add(number)
                number //= 10
        return frozenset(found)

    def _covered(self, number: int, more: int) -> bool:
        """Whether the bounds ask nothing of `number` with so many more digits."""
        first, last = self._interval(number, more)
        return self.numbers.within(first, last)

    def _has_any(self, number: int, levels: range) -> bool:
        """Whether any number begins so; the longest are asked first, since they are the most."""
        return any(self.numbers.has_any(*self._interval(number, more)) for more in reversed(levels))

    def _interval(self, number: int, more: int) -> tuple[int, int]:
        """The marks of the numbers whose whole part is `number` and so many more digits."""
        width = power(more) * self.numbers.unit
        return number * width, (number + 1) * width - 1

    def counted(self, number: int, fewest: int, most: int) -> Expr:
        """What may follow `number` where only its remainder matters."""
        modulus = self.numbers.modulus(self.numbers.unit)
        if modulus == 1:
            rest = self.algebra.repeat(self._any_digit, fewest, most)
            return self.algebra.concat(rest, self._end(0))
        number %= modulus
        if not self._has_any(number, range(fewest, most + 1)):
            return self.algebra.empty
        nullable = fewest == 0 and self._end(number).nullable
        return self.algebra.ref(self, Counted(number, fewest, most), nullable=nullable)

    def _end(self, number: int) -> Expr:
        """What may follow the whole part when it is complete."""
        algebra = self.algebra
        if self.numbers.is_whole:
            return self.ending if self.numbers.has(number) else algebra.empty
        part = algebra.concat(algebra.literal(b"."), self.part(0, number))
        is_number = self.numbers.has(number * self.numbers.unit)
        return algebra.optional(part) if is_number else part

    # -- the fraction --------------------------------------------------------------------------

    def part(self, place: int, number: int) -> Expr:
        """What may follow `place` digits of the fraction; at least one, where there is none yet."""
        numbers, algebra = self.numbers, self.algebra
        below = power(numbers.scale - place)
        first, last = number * below, (number + 1) * below - 1
        if not numbers.has_any(first, last):
            return algebra.empty
        if not self._is_free and numbers.covers(first, last):
            return self._free.part(place, number)
        if place == numbers.scale:
            return self._last_part(number, 0 if place else 1)
        if self._is_free:
            if numbers.is_plain:
                return self._any_part(0 if place else 1, numbers.scale - place)
            number %= numbers.modulus(below)
        key = Part(place, number)
        return algebra.ref(self, key, nullable=self._may_end(key))

    def _may_end(self, key: Part) -> bool:
        mark = key.number * power(self.numbers.scale - key.place)
        return key.place > 0 and self.numbers.has(mark)

    def _any_part(self, fewest: int, most: int) -> Expr:
        """Any digits where nothing is asked of them; behind `most` only zeros where no gap is."""
        algebra = self.algebra
        if self.numbers.gaps is not None:
            return algebra.repeat(self._any_digit, fewest, None)
        zeros = algebra.repeat(self._digit(0), 0, None)
        return algebra.concat(algebra.repeat(self._any_digit, fewest, most), zeros)

    def _last_part(self, mark: int, fewest: int) -> Expr:
        """What may follow a mark's own digits: zeros leave it what it is, others do not."""
        algebra = self.algebra
        zeros = algebra.repeat(self._digit(0), 0, None)
        exact = algebra.repeat(self._digit(0), fewest, None)
        if not self.numbers.has_gap(mark):
            return exact
        if self.numbers.has(mark):
            return algebra.repeat(self._any_digit, fewest, None)
        others = algebra.byte_set(sum(1 << byte for byte in b"123456789"))
        return algebra.sequence([zeros, others, algebra.repeat(self._any_digit, 0, None)])

    # -- the shortest ways to go on ------------------------------------------------------------

    def _shortest(self, number: int, levels: Iterable[int]) -> str:
        """Digits behind `number` that make one of the set: as few as can be in the whole part."""
        unit = self.numbers.unit
        for more in levels:
            first, last = self._interval(number, more)
            if not self.numbers.has_any(first, last):
                continue
            mark = self.numbers.first(first, last, unit)
            if mark is not None:
                return _padded(mark // unit - number * power(more), more)
            mark = self.numbers.first(first, last)
            whole = (self.numbers.first_gap(first, last) if mark is None else mark) // unit
            digits = _padded(whole - number * power(more), more)
            return f"{digits}.{self._shortest_part(Part(0, whole))}"
        raise AssertionError("a state is made only where a number begins so")

    def _shortest_part(self, key: Part) -> str:
        if self._may_end(key):
            return ""
        scale = self.numbers.scale
        below = power(scale - key.place)
        first, last = key.number * below, (key.number + 1) * below - 1
        for place in range(key.place + 1, scale + 1):
            step = power(scale - place)
            mark = self.numbers.first(first, last, step)
            if mark is not None:
                return _padded((mark - first) // step, place - key.place)
        mark = self.numbers.first_gap(first, last)
        return _padded(mark - first, scale - key.place) + "1"

    # -- digits --------------------------------------------------------------------------------

    @cached_property
    def _any_digit(self) -> Expr:
        return self.algebra.byte_set(sum(1 << byte for byte in b"0123456789"))

    def _digit(self, digit: int) -> Expr:
        return self.algebra.byte_set(1 << (ord("0") + digit))

    def _each(self, first: int, rest: Callable[[int], Expr]) -> list[Expr]:
        """Every digit from `first` on with what may follow it."""
        return [self.algebra.concat(self._digit(d), rest(d)) for d in range(first, 10)]


def _padded(number: int, width: int) -> str:
    """`number` in so many digits; str(int) would stop at 4,300."""
    return str(Decimal(number)).zfill(width) if width else ""
