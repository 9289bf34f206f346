"""Where the substrings of a text may begin and end. Owns the arrays that a `Substring` walks.

What a vocabulary cannot write is cut out first, and so is what no substring can end after. The
pieces that remain are put behind one another with a byte between them that no text has, and sorted
by their suffixes. It must not know of expressions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from grammars.expr import ALL_BYTES
from grammars.suffixes import suffix_array

Unit = Literal["character", "word"]

BETWEEN = 0xFF
"""The byte between pieces: UTF-8 has none like it, and it is above all others."""


class Quotable:
    """The pieces of a text, as bytes, and what is known of the places in them.

    data: uint8 [size + 1], with BETWEEN after each piece; is_end: bool [size + 1], whether a
    substring may end before this byte; units: int32 [size + 1], how many of them lie before it
    (of words: end before it); suffixes: int32 [num_begins], where substrings may begin, in the
    order of what follows.
    """

    def __init__(self, text: str, *, unit: Unit, min_length: int, alphabet: int) -> None:
        begins, ends, units = _borders(text, unit)
        codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        widths = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
        offsets = np.concatenate([[0], widths.cumsum()])
        encoded = np.frombuffer(text.encode(), dtype=np.uint8)
        none = np.zeros(0, dtype=np.int64)
        parts: list[NDArray[np.uint8]] = []
        begins_at: list[NDArray[np.integer]] = [none]
        ends_at: list[NDArray[np.integer]] = [none]
        places: list[NDArray[np.integer]] = [none]
        counts: list[NDArray[np.integer]] = [none]
        base = 0
        for first, last in _pieces(ends, codes, alphabet):
            at = offsets[first : last + 1] - offsets[first] + base
            count = units[first : last + 1]
            may_begin = begins[first:last] & (count[-1] - count[:-1] >= min_length)
            parts += [encoded[offsets[first] : offsets[last]], np.array([BETWEEN], dtype=np.uint8)]
            begins_at.append(at[:-1][may_begin])
            ends_at.append(at[1:][ends[first + 1 : last + 1]])
            places.append(at)
            counts.append(count)
            base = int(at[-1]) + 1
        self.data = np.concatenate([*parts, np.array([BETWEEN], dtype=np.uint8)])
        self.is_end = np.zeros(len(self.data), dtype=bool)
        self.units = np.zeros(len(self.data), dtype=np.int32)
        self.ends = np.concatenate(ends_at)
        self.is_end[self.ends] = True
        begin = np.zeros(len(self.data), dtype=bool)
        self.units[np.concatenate(places)] = np.concatenate(counts)
        begin[np.concatenate(begins_at)] = True
        order = suffix_array(self.data[:-1])
        self.suffixes: NDArray[np.int32] = order[begin[order]]


@lru_cache(maxsize=4)
def quotable(text: str, unit: Unit, min_length: int, alphabet: int) -> Quotable:
    """The same, kept for a few texts: a language that has grown too large is lowered again."""
    return Quotable(text, unit=unit, min_length=min_length, alphabet=alphabet)


def _borders(
    text: str, unit: Unit
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int32]]:
    """For each place between characters: whether a substring may begin and end there, and the units
    before it. # [num_characters + 1] each
    """
    size = len(text)
    if unit == "character":
        everywhere = np.ones(size + 1, dtype=bool)
        return everywhere, everywhere, np.arange(size + 1, dtype=np.int32)
    letter = _members(r"\w+", text)
    space = _members(r"\s+", text)
    before, after = np.zeros(size + 1, dtype=bool), np.zeros(size + 1, dtype=bool)
    before[1:], after[:-1] = letter, letter
    outside = ~(before & after)
    begins, ends = outside.copy(), outside.copy()
    begins[:-1] &= ~space
    ends[1:] &= ~space
    return begins, ends, (before & ~after).cumsum(dtype=np.int32)


def _members(pattern: str, text: str) -> NDArray[np.bool_]:
    """Which characters are in a run of these. # [num_characters]"""
    found = np.zeros(len(text), dtype=bool)
    for match in re.finditer(pattern, text):
        found[match.start() : match.end()] = True
    return found


def _pieces(
    ends: NDArray[np.bool_], codes: NDArray[np.uint32], alphabet: int
) -> list[tuple[int, int]]:
    """The runs of characters that the alphabet can write, each up to its last possible end."""
    writable = np.ones(len(codes), dtype=bool)
    if alphabet != ALL_BYTES:
        lacking = [
            code
            for code in np.unique(codes).tolist()
            if not all(alphabet >> byte & 1 for byte in chr(code).encode())
        ]
        writable = ~np.isin(codes, lacking)
    changes = np.flatnonzero(np.diff(np.concatenate([[0], writable.astype(np.int8), [0]])))
    found = []
    for first, last in changes.reshape(-1, 2).tolist():
        possible = np.flatnonzero(ends[first + 1 : last + 1])
        if len(possible):
            found.append((first, first + 1 + int(possible[-1])))
    return found
