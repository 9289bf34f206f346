"""All texts of one value. Owns how equality of JSON values looks in writing: 1 and 1.0, escapes,
members in another order.

It must not know of schemas.
"""

from __future__ import annotations

from collections.abc import Hashable
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from grammars.algebra import Algebra
from grammars.expr import Expr
from grammars.json_values import JsonValue, Number
from grammars.number_lowering import lower_number
from grammars.number_set import decade
from grammars.shapes import NumberShape


class ValueLayout(Protocol):
    """How values are put together."""

    algebra: Algebra
    comma: Expr
    colon: Expr

    def bracketed(self, opening: bytes, inside: Expr, closing: bytes) -> Expr: ...

    def spelled(self, text: str) -> Expr:
        """A string with its quotes, in every way that it is written."""
        ...


class EqualTexts:
    """The texts of values that equal a given one, in a layout."""

    def __init__(self, layout: ValueLayout) -> None:
        self._layout = layout

    def of(self, value: JsonValue) -> Expr:
        """Every text that is read as `value`."""
        layout, algebra = self._layout, self._layout.algebra
        if value is None or isinstance(value, bool):
            return algebra.literal({None: b"null", True: b"true", False: b"false"}[value])
        if isinstance(value, str):
            return layout.spelled(value)
        if isinstance(value, list):
            parts = [part for item in value for part in (layout.comma, self.of(item))][1:]
            return layout.bracketed(b"[", algebra.sequence(parts), b"]")
        if isinstance(value, dict):
            members = [
                algebra.sequence([layout.spelled(name), layout.colon, self.of(item)])
                for name, item in value.items()
            ]
            shuffled = _Shuffled(tuple(members), layout)
            return layout.bracketed(b"{", shuffled.rest((1 << len(members)) - 1), b"}")
        return self.number(value)

    def number(self, value: Number) -> Expr:
        """A number: its digits, with zeros behind the fraction, or with an exponent."""
        algebra, exact = self._layout.algebra, Fraction(value)
        plain = lower_number(algebra, NumberShape(low=value, high=value))
        if not exact:
            return plain
        exponent = decade(exact)
        scaled = exact / Fraction(10) ** exponent
        mantissa = Decimal(scaled.numerator) / Decimal(scaled.denominator)
        digits = lower_number(algebra, NumberShape(low=mantissa, high=mantissa))
        plus = 0 if exponent < 0 else 1 << ord("+")
        minus = 0 if exponent > 0 else 1 << ord("-")  # 1e-0 is 1, too
        sign = algebra.byte_set(plus | minus)
        exponents = algebra.sequence(
            [
                algebra.byte_set(1 << ord("e") | 1 << ord("E")),
                sign if exponent < 0 else algebra.optional(sign),
                algebra.repeat(algebra.literal(b"0"), 0, 2),
                algebra.literal(str(abs(exponent)).encode()),
            ]
        )
        return algebra.union([plain, algebra.concat(digits, exponents)])


class _Shuffled:
    """Members in any order: what is left, as bits, is a reference (see `expr.Rules`)."""

    def __init__(self, members: tuple[Expr, ...], layout: ValueLayout) -> None:
        self._members = members
        self._layout = layout

    def rest(self, left: int) -> Expr:
        """All of the members that are left."""
        algebra = self._layout.algebra
        return algebra.ref(self, left) if left else algebra.epsilon

    def unfold(self, key: Hashable) -> Expr:
        return self._next(key, [i for i in range(len(self._members)) if self._left(key) >> i & 1])

    def least(self, key: Hashable) -> Expr:
        left = self._left(key)
        return self._next(key, [(left & -left).bit_length() - 1])

    def _left(self, key: Hashable) -> int:
        assert isinstance(key, int), "a key is a set of bits"
        return key

    def _next(self, key: Hashable, indices: list[int]) -> Expr:
        algebra, left = self._layout.algebra, self._left(key)
        is_first = left == (1 << len(self._members)) - 1
        lead = algebra.epsilon if is_first else self._layout.comma
        return algebra.concat(
            lead,
            algebra.union(
                algebra.concat(self._members[index], self.rest(left & ~(1 << index)))
                for index in indices
            ),
        )
