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

ByteRanges = tuple[tuple[int, int], ...]


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
    spans = (match.span() for match in re.finditer(f"\\{name}+", _all_text()))
    shift = 0x800  # `_all_text` lacks the surrogates
    return normalized(
        part
        for first, end in spans
        for part in (
            [(first, end - 1)]
            if end <= 0xD800
            else [(first + shift, end - 1 + shift)]
            if first >= 0xD800
            else [(first, 0xD7FF), (0xE000, end - 1 + shift)]
        )
    )


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


def utf8(algebra: Algebra, ranges: Ranges) -> Expr:
    """One code point of `ranges`, as UTF-8."""
    return _trie(algebra, [s for first, last in ranges for s in _utf8_sequences(first, last)])


def json_text(algebra: Algebra, ranges: Ranges) -> Expr:
    """One code point of `ranges`, as it may be written inside a JSON string."""
    options = [utf8(algebra, intersect(ranges, _RAW))]
    short = 0
    for code, letter in SHORT_ESCAPES.items():
        if any(first <= code <= last for first, last in ranges):
            short |= 1 << ord(letter)
    sequences = [_hex4(*part) for part in _hex_parts(intersect(ranges, _HEX_ESCAPED), 4)]
    escapes = [algebra.byte_set(short), _escaped(algebra, sequences)]
    for first, last in intersect(ranges, _PAIRED):
        escapes += _surrogate_pairs(algebra, first - 0x10000, last - 0x10000)
    options.append(algebra.concat(algebra.literal(b"\\"), algebra.union(escapes)))
    return algebra.union(options)


def _escaped(algebra: Algebra, sequences: list[ByteMasks]) -> Expr:
    return algebra.concat(algebra.literal(b"u"), _mask_trie(algebra, sequences))


def _surrogate_pairs(algebra: Algebra, first: int, last: int) -> list[Expr]:
    """`\\uD8xx\\uDCxx` for the offsets first..last beyond the BMP (20 bits: 10 high, 10 low)."""
    made = []
    for high_first, high_last, low_first, low_last in _split(first, last, 1024):
        made.append(
            algebra.sequence(
                [
                    _escaped(algebra, _hex_range(0xD800 + high_first, 0xD800 + high_last)),
                    algebra.literal(b"\\"),
                    _escaped(algebra, _hex_range(0xDC00 + low_first, 0xDC00 + low_last)),
                ]
            )
        )
    return made


def _split(first: int, last: int, base: int) -> list[tuple[int, int, int, int]]:
    """The numbers first..last as blocks (high_first, high_last) x (low_first, low_last)."""
    (h1, l1), (h2, l2) = divmod(first, base), divmod(last, base)
    if h1 == h2:
        return [(h1, h1, l1, l2)]
    blocks = []
    if l1:
        blocks.append((h1, h1, l1, base - 1))
        h1 += 1
    tail = []
    if l2 < base - 1:
        tail.append((h2, h2, 0, l2))
        h2 -= 1
    if h1 <= h2:
        blocks.append((h1, h2, 0, base - 1))
    return blocks + tail


ByteMasks = tuple[int, ...]


def _span(first: int, last: int) -> int:
    """The byte set first..last."""
    return (1 << (last + 1)) - (1 << first)


@lru_cache(maxsize=256)
def _hex_digits(first: int, last: int) -> int:
    mask = 0
    for digit in range(first, last + 1):
        for letter in (f"{digit:x}", f"{digit:X}"):
            mask |= 1 << ord(letter)
    return mask


def _hex_range(first: int, last: int) -> list[ByteMasks]:
    """Sequences of four hex digits, first..last."""
    return [tuple(_hex_digits(a, b) for a, b in part) for part in _digit_blocks(first, last, 4)]


def _hex_parts(ranges: Ranges, width: int) -> list[ByteRanges]:
    return [part for first, last in ranges for part in _digit_blocks(first, last, width)]


def _hex4(*digits: tuple[int, int]) -> ByteMasks:
    return tuple(_hex_digits(first, last) for first, last in digits)


def _digit_blocks(first: int, last: int, width: int) -> list[ByteRanges]:
    """first..last in base 16 as products of digit ranges."""
    if width == 1:
        return [((first, last),)]
    return [
        ((high_first, high_last), *low)
        for high_first, high_last, low_first, low_last in _split(first, last, 16 ** (width - 1))
        for low in _digit_blocks(low_first, low_last, width - 1)
    ]


def _utf8_sequences(first: int, last: int) -> list[ByteMasks]:
    """first..last as products of byte sets, in ascending order."""
    found = []
    for low, high, width in (
        (0, 0x7F, 1),
        (0x80, 0x7FF, 2),
        (0x800, 0xFFFF, 3),
        (0x10000, LAST, 4),
    ):
        a, b = max(first, low), min(last, high)
        if a <= b:
            found += _utf8_blocks(a, b, width)
    return found


_LEAD = {1: 0, 2: 0xC0, 3: 0xE0, 4: 0xF0}


def _utf8_blocks(first: int, last: int, width: int) -> list[ByteMasks]:
    def blocks(first: int, last: int, left: int, lead: int) -> list[ByteMasks]:
        if left == 1:
            return [(_span(lead + first, lead + last),)]
        return [
            (_span(lead + high_first, lead + high_last), *low)
            for high_first, high_last, low_first, low_last in _split(first, last, 64 ** (left - 1))
            for low in blocks(low_first, low_last, left - 1, 0x80)
        ]

    return blocks(first, last, width, _LEAD[width])


def _trie(algebra: Algebra, sequences: list[ByteMasks]) -> Expr:
    return _mask_trie(algebra, sequences)


def _mask_trie(algebra: Algebra, sequences: list[ByteMasks]) -> Expr:
    """The union of sequences, with common first sets written once (they are equal or disjoint)."""
    branches: dict[int, list[ByteMasks]] = {}
    ends = False
    for sequence in sequences:
        if sequence:
            branches.setdefault(sequence[0], []).append(sequence[1:])
        else:
            ends = True
    made = [
        algebra.concat(algebra.byte_set(mask), _mask_trie(algebra, rests))
        for mask, rests in branches.items()
    ]
    if ends:
        made.append(algebra.epsilon)
    return algebra.union(made)


Encoder = Callable[[Algebra, Ranges], Expr]
"""How one code point of a set is written: `utf8` or `json_text`."""
