"""Sets of code points and how they are written in bytes. Owns both encodings.

A set is a sorted tuple of inclusive ranges over the Unicode scalar values (surrogates are no text).
`utf8` writes one code point of a set as UTF-8. `json_text` writes it inside a JSON string:

* raw UTF-8, unless it is a control character, a quote or a backslash;
* as its short escape (`\\n`, `\\"`, `\\\\`, `\\/`, ...) where it has one;
* as `\\uXXXX`, hex digits of either case, when it is a control character or not ASCII; beyond the
  BMP as a surrogate pair. Printable ASCII is never written as `\\uXXXX`: one text, one spelling.

Every JSON string of this package uses this one encoding, so intersections are exact.
It must not know of patterns or schemas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache

from grammars.algebra import Algebra
from grammars.expr import Expr

Ranges = tuple[tuple[int, int], ...]

LAST = 0x10FFFF
ANY: Ranges = ((0, 0xD7FF), (0xE000, LAST))

SHORT_ESCAPES = {0x22: '"', 0x5C: "\\", 0x2F: "/", 8: "b", 12: "f", 10: "n", 13: "r", 9: "t"}

_RAW: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, LAST))
_HEX_ESCAPED: Ranges = ((0, 0x1F), (0x7F, 0xD7FF), (0xE000, 0xFFFF))
_PAIRED: Ranges = ((0x10000, LAST),)


def normalized(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Sorted, disjoint, without surrogates."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return intersect(tuple(merged), ANY)


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """The code points in both."""
    found = []
    i = j = 0
    while i < len(left) and j < len(right):
        first, last = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if first <= last:
            found.append((first, last))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def invert(ranges: Ranges) -> Ranges:
    """The code points that are not in `ranges`."""
    found = []
    start = 0
    for first, last in ranges:
        if first > start:
            found.append((start, first - 1))
        start = last + 1
    if start <= LAST:
        found.append((start, LAST))
    return intersect(tuple(found), ANY)


@lru_cache(maxsize=1)
def _all_text() -> str:
    return "".join(map(chr, (c for first, last in ANY for c in range(first, last + 1))))


@lru_cache(maxsize=16)
def unicode_class(name: str) -> Ranges:
    """Python's own `\\d`, `\\s` or `\\w` (name: "d", "s", "w") over all of Unicode.

    Taken from `re` itself, so it agrees with the running interpreter's Unicode version.
    """
    assert name in ("d", "s", "w"), "only the classes of `re`"
    text = _all_text()
    spans = (match.span() for match in re.finditer(f"\\{name}+", text))
    return normalized((ord(text[first]), ord(text[end - 1])) for first, end in spans)


@lru_cache(maxsize=1)
def _cased_text() -> str:
    """Every code point that has another case; none lies beyond the second plane."""
    return "".join(c for c in _all_text()[:0x20000] if c.lower() != c or c.upper() != c)


def fold(ranges: Ranges, *, ascii_only: bool = False) -> Ranges:
    """`ranges` with every case variant that `re.IGNORECASE` takes for the same.

    Asked of `re` itself, so it agrees with it also on its odd pairs (the Kelvin sign and "k").
    """
    members = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
    if not members:
        return ranges
    flags = re.IGNORECASE | (re.ASCII if ascii_only else re.UNICODE)
    found = re.findall(f"[{members}]", _cased_text(), flags)
    return normalized([*ranges, *((ord(c), ord(c)) for c in found)])


Encoder = Callable[[Algebra, Ranges], Expr]
"""How one code point of a set is written: `utf8` or `json_text`."""

ByteSets = tuple[int, ...]
"""One byte out of each of these sets, one after another."""


def utf8(algebra: Algebra, ranges: Ranges) -> Expr:
    """One code point of `ranges`, as UTF-8."""
    return _any_of(algebra, [s for first, last in ranges for s in _utf8_sequences(first, last)])


def json_text(algebra: Algebra, ranges: Ranges) -> Expr:
    """One code point of `ranges`, as it may be written inside a JSON string."""
    return _json_text(algebra, ranges, _RAW)


def ascii_json_text(algebra: Algebra, ranges: Ranges) -> Expr:
    """The same in ASCII alone: what is beyond it is escaped."""
    return _json_text(algebra, ranges, intersect(_RAW, ((0, 0x7F),)))


def _json_text(algebra: Algebra, ranges: Ranges, as_it_is: Ranges) -> Expr:
    """One code point of `ranges`: as it is where it may be, or escaped."""
    raw = utf8(algebra, intersect(ranges, as_it_is))
    short = sum(
        1 << ord(letter)
        for code, letter in SHORT_ESCAPES.items()
        if intersect(ranges, ((code, code),))
    )
    escapes = [algebra.byte_set(short)]
    for first, last in intersect(ranges, _HEX_ESCAPED):
        escapes.append(_hex_escape(algebra, first, last))
    for first, last in intersect(ranges, _PAIRED):
        escapes += _surrogate_pairs(algebra, first - 0x10000, last - 0x10000)
    return algebra.union([raw, algebra.concat(algebra.literal(b"\\"), algebra.union(escapes))])


def _surrogate_pairs(algebra: Algebra, first: int, last: int) -> list[Expr]:
    """`uD8xx\\uDCxx` for the offsets first..last beyond the BMP (20 bits: 10 high, 10 low)."""
    return [
        algebra.sequence(
            [
                _hex_escape(algebra, 0xD800 + high_first, 0xD800 + high_last),
                algebra.literal(b"\\"),
                _hex_escape(algebra, 0xDC00 + low_first, 0xDC00 + low_last),
            ]
        )
        for high_first, high_last, low_first, low_last in _split(first, last, 1024)
    ]


def _hex_escape(algebra: Algebra, first: int, last: int) -> Expr:
    """`uXXXX` for the code units first..last."""
    return algebra.concat(algebra.literal(b"u"), _any_of(algebra, _hex_sequences(first, last, 4)))


def _hex_sequences(first: int, last: int, width: int) -> list[ByteSets]:
    """first..last in `width` hex digits."""
    if width == 1:
        return [(_hex_digits(first, last),)]
    return [
        (_hex_digits(high_first, high_last), *low)
        for high_first, high_last, low_first, low_last in _split(first, last, 16 ** (width - 1))
        for low in _hex_sequences(low_first, low_last, width - 1)
    ]


@lru_cache(maxsize=256)
def _hex_digits(first: int, last: int) -> int:
    """The byte set of the digits first..last, in either case."""
    letters = {ord(c) for d in range(first, last + 1) for c in (f"{d:x}", f"{d:X}")}
    return sum(1 << letter for letter in letters)


def _utf8_sequences(first: int, last: int) -> list[ByteSets]:
    """first..last in UTF-8, in ascending order."""
    found: list[ByteSets] = []
    for lowest, highest, width, lead in _UTF8_WIDTHS:
        if max(first, lowest) <= min(last, highest):
            found += _utf8_blocks(max(first, lowest), min(last, highest), width, lead)
    return found


_UTF8_WIDTHS = (
    (0, 0x7F, 1, 0),
    (0x80, 0x7FF, 2, 0xC0),
    (0x800, 0xFFFF, 3, 0xE0),
    (0x10000, LAST, 4, 0xF0),
)
"""First and last code point of each width, and the bits of its leading byte."""


def _utf8_blocks(first: int, last: int, width: int, lead: int) -> list[ByteSets]:
    """first..last, all of one width; `lead` is added to the first byte, 0x80 to the others."""
    if width == 1:
        return [(_span(lead + first, lead + last),)]
    return [
        (_span(lead + high_first, lead + high_last), *low)
        for high_first, high_last, low_first, low_last in _split(first, last, 64 ** (width - 1))
        for low in _utf8_blocks(low_first, low_last, width - 1, 0x80)
    ]


def _span(first: int, last: int) -> int:
    """The byte set first..last."""
    return (1 << (last + 1)) - (1 << first)


def _split(first: int, last: int, base: int) -> list[tuple[int, int, int, int]]:
    """The numbers first..last as blocks (high_first, high_last, low_first, low_last): every high
    digit with every low one, in base `base`."""
    (high_first, low_first), (high_last, low_last) = divmod(first, base), divmod(last, base)
    if high_first == high_last:
        return [(high_first, high_last, low_first, low_last)]
    before, after = [], []
    if low_first:
        before.append((high_first, high_first, low_first, base - 1))
        high_first += 1
    if low_last < base - 1:
        after.append((high_last, high_last, 0, low_last))
        high_last -= 1
    whole = [(high_first, high_last, 0, base - 1)] if high_first <= high_last else []
    return before + whole + after


def _any_of(algebra: Algebra, sequences: list[ByteSets]) -> Expr:
    """Any of the sequences, with common first sets written once (they are equal or disjoint)."""
    branches: dict[int, list[ByteSets]] = {}
    for first, *rest in sequences:
        branches.setdefault(first, []).append(tuple(rest))
    return algebra.union(
        algebra.concat(
            algebra.byte_set(mask), _any_of(algebra, rests) if rests[0] else algebra.epsilon
        )
        for mask, rests in branches.items()
    )
