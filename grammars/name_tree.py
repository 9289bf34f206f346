"""Names by their first bytes. Owns the tree of an object's literal names, so that a state of very
many members unfolds only the branch that is written.

It must not know of members beyond their slots, nor of expressions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_ONE_SPELLING = re.compile(r"[ !#-.0-\[\]-~]*")
"""Printable ASCII without the quote, the solidus and the backslash: written in one way alone."""


class Branch(NamedTuple):
    """The names `first` to `last` (not itself), in order, which have `depth` bytes in common."""

    first: int
    last: int
    depth: int


class NameTree:
    """The quoted names of slots that are written in one way. `names`: each with its slot."""

    def __init__(self, names: Iterable[tuple[str, int]]) -> None:
        quoted = [(f'"{n}"'.encode(), slot) for n, slot in names if _ONE_SPELLING.fullmatch(n)]
        quoted.sort()
        self._texts = [text for text, _ in quoted]
        self._slots = [slot for _, slot in quoted]
        self.root = Branch(0, len(quoted), 0)
        self._within: dict[Branch, int] = {}
        self._branches: dict[Branch, list[Branch]] = {}

    def within(self, branch: Branch) -> int:
        """The slots of a branch, as bits."""
        if branch not in self._within:
            slots = self._slots[branch.first : branch.last]
            self._within[branch] = sum(1 << slot for slot in slots)
        return self._within[branch]

    def rest(self, branch: Branch, slot: int) -> bytes:
        """What is still to be written of the name of a slot of the branch."""
        index = self._slots.index(slot, branch.first, branch.last)
        return self._texts[index][branch.depth :]

    def branches(self, branch: Branch) -> Iterator[tuple[bytes, Branch]]:
        """The branches that differ in the next byte, each with the bytes that lead there."""
        if branch not in self._branches:
            self._branches[branch] = list(self._split(branch))
        for part in self._branches[branch]:
            yield self._texts[part.first][branch.depth : part.depth], part

    def _split(self, branch: Branch) -> Iterator[Branch]:
        first, depth = branch.first, branch.depth
        while first < branch.last:
            last = first + 1
            while last < branch.last and self._texts[last][depth] == self._texts[first][depth]:
                last += 1
            yield Branch(first, last, _common(self._texts[first], self._texts[last - 1]))
            first = last


def _common(left: bytes, right: bytes) -> int:
    """How many bytes two texts have in common at their beginnings."""
    length = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        length += 1
    return length
