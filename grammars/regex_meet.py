"""Intersections worked out where that is short. Owns the limit of the work.

A condition on a few characters meets a language: most often the result can be written without an
intersection, by following both for those characters. That keeps a state plain (see `Expr.plain`),
whose masks are cheaper.
It must not know of patterns.
"""

from __future__ import annotations

from grammars.algebra import Algebra
from grammars.derive import arms
from grammars.expr import Arms, Complement, Expr

MAX_PAIRS = 32
"""Pairs of states that are followed; an intersection costs about as much in later steps."""


def meet(algebra: Algebra, left: Expr, right: Expr) -> Expr:
    """The strings in both."""
    whole = algebra.intersection([left, right])
    if whole.plain or not (_is_simple(left) and _is_simple(right)):
        return whole
    found = _Meeting(algebra).meet(left, right)
    return whole if found is None else found


def _is_simple(language: Expr) -> bool:
    """Whether there is a chance to write what is in it and in another without an intersection."""
    return language.plain or (isinstance(language, Complement) and language.body.plain)


class _Meeting:
    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.pairs: dict[tuple[Expr, Expr], Expr | None] = {}

    def meet(self, left: Expr, right: Expr) -> Expr | None:
        """The strings in both, without an intersection; None when that is too long to find out."""
        algebra = self.algebra
        if algebra.empty in (left, right):
            return algebra.empty
        if left is algebra.full or left is right:
            return right
        if right is algebra.full:
            return left
        key = (left, right)
        if key not in self.pairs:
            if len(self.pairs) >= MAX_PAIRS:
                return None
            self.pairs[key] = None  # a pair that comes again is a loop: not to be written so
            self.pairs[key] = self._meet(left, right)
        return self.pairs[key]

    def _meet(self, left: Expr, right: Expr) -> Expr | None:
        algebra = self.algebra
        options: list[Expr] = [algebra.epsilon] if left.nullable and right.nullable else []
        for mask, here in arms(algebra, left):
            for other, there in arms(algebra, right):
                if mask & other:
                    rest = self.meet(here, there)
                    if rest is None:
                        return None
                    options.append(algebra.concat(algebra.byte_set(mask & other), rest))
        return algebra.union(options)


Ends = dict[tuple[Expr, ...], Expr]
"""For what becomes of some languages: the characters that make it so."""


class Splits:
    """Parts characters by what remains of given languages after them."""

    def __init__(self, algebra: Algebra) -> None:
        self._algebra = algebra
        self._known: dict[tuple[Expr, tuple[Expr, ...]], Ends] = {}

    def split(self, char: Expr, languages: tuple[Expr, ...]) -> Ends:
        """One character of `char`."""
        key = (char, languages)
        if key not in self._known:
            self._algebra.budget.spend()
            self._known[key] = self._split(char, languages)
        return self._known[key]

    def _split(self, char: Expr, languages: tuple[Expr, ...]) -> Ends:
        algebra = self._algebra
        if char.nullable:
            return {languages: algebra.epsilon}
        if all(language is algebra.full or language is algebra.empty for language in languages):
            return {languages: char}
        partitions = [_total(algebra, language) for language in languages]
        parts: dict[tuple[Expr, ...], list[Expr]] = {}
        for mask, rest in arms(algebra, char):
            for common, after in _joint(mask, partitions):
                head = algebra.byte_set(common)
                for ends, tails in self.split(rest, after).items():
                    parts.setdefault(ends, []).append(algebra.concat(head, tails))
        return {ends: algebra.union(options) for ends, options in parts.items()}


def _total(algebra: Algebra, language: Expr) -> Arms:
    """The arms of a language, with one for the bytes that it lacks."""
    found = arms(algebra, language)
    others = algebra.alphabet
    for mask, _ in found:
        others &= ~mask
    return (*found, (others, algebra.empty)) if others else found


def _joint(mask: int, partitions: list[Arms]) -> list[tuple[int, tuple[Expr, ...]]]:
    """The bytes of `mask` by their arm in each of the partitions."""
    cells: list[tuple[int, tuple[Expr, ...]]] = [(mask, ())]
    for partition in partitions:
        cells = [
            (common & bits, (*rests, rest))
            for common, rests in cells
            for bits, rest in partition
            if common & bits
        ]
    return cells
