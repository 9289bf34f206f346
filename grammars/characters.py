"""Sets of characters: from UTF-8 bytes back to code points, and how people read them.

A label is a sequence of classes, each of one character: `{"` or `[a-z][0-9]`.
It must not know where labels come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

Class = tuple[tuple[int, int], ...]
"""Code points, as ranges with both ends, ascending."""

Label = tuple[Class, ...]
"""One character after another."""

MAX_RANGES = 8
"""Ranges that are shown of one class."""

CONTINUATION = ((1 << 64) - 1) << 0x80
"""The bytes that go on with a character, as a set: bit b for byte b."""

_LEADS = {1: (0x00, 0x7F, 0), 2: (0xC2, 0xDF, 0xC0), 3: (0xE0, 0xEF, 0xE0), 4: (0xF0, 0xF4, 0xF0)}
"""The first bytes of characters of 1 to 4 bytes, and the bits that only say so."""

_AROUND_SURROGATES = (0xD7FF, 0xE000)
"""Between these is nothing that a text may have."""

_NAMED = {0x20: "␣", 0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r", 0x5C: "\\\\"}
_OF_CLASSES = frozenset(map(ord, "[]^-"))
_OF_LABELS = frozenset(map(ord, "[]|"))


def leads(mask: int) -> Iterator[tuple[int, int]]:
    """The first bytes in a set by the length of their characters: (length, set)."""
    for length, (low, high, _) in _LEADS.items():
        found = mask & ((1 << high + 1) - (1 << low))
        if found:
            yield length, found


def decode(masks: Sequence[int]) -> Class:
    """The characters whose bytes are in the sets, one after another."""
    full = len(masks)  # from here on every continuation byte is there
    while full > 1 and masks[full - 1] == CONTINUATION:
        full -= 1
    parts = [_runs(mask) if i == full - 1 else _each(mask) for i, mask in enumerate(masks[:full])]
    more = len(masks) - full
    return join(
        (
            _point([low for low, _ in chosen] + [0x80] * more),
            _point([high for _, high in chosen] + [0xBF] * more),
        )
        for chosen in product(*parts)
    )


def join(ranges: Iterable[tuple[int, int]]) -> Class:
    """Ranges in any order as a class."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and (low <= merged[-1][1] + 1 or (merged[-1][1], low) == _AROUND_SURROGATES):
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def show(labels: Iterable[Label]) -> str:
    """Alternatives as people read them."""
    return " | ".join(sorted("".join(map(_class, label)) for label in labels))


def _point(encoded: list[int]) -> int:
    point = encoded[0] - _LEADS[len(encoded)][2]
    for byte in encoded[1:]:
        point = point << 6 | byte & 0x3F
    return point


def _runs(mask: int) -> list[tuple[int, int]]:
    """The members of a set as ranges."""
    return list(join(_each(mask)))


def _each(mask: int) -> list[tuple[int, int]]:
    return [(byte, byte) for byte in range(256) if mask >> byte & 1]


def _class(ranges: Class) -> str:
    (first, last), *more = ranges
    if first == last and not more:
        return _character(first, _OF_LABELS)
    return f"[{''.join(_inside(ranges))}]"


def _inside(ranges: Class) -> Iterator[str]:
    for low, high in ranges[:MAX_RANGES]:
        first, last = _character(low, _OF_CLASSES), _character(high, _OF_CLASSES)
        yield first if low == high else f"{first}{'' if high == low + 1 else '-'}{last}"
    if len(ranges) > MAX_RANGES:
        yield "…"


def _character(point: int, escaped: frozenset[int]) -> str:
    if point in _NAMED:
        return _NAMED[point]
    if point in escaped:
        return f"\\{chr(point)}"
    is_shown = 0x20 < point < 0x7F or (0xA0 < point < 0x250 and chr(point).isalpha())
    return chr(point) if is_shown else f"\\u{{{point:X}}}"
