"""Texts in tokens. Owns the fewest tokens that write a text, and how a text grows at its front.

A *spelling* is a text split into the fewest tokens: a linked list over its bytes in which every
cell knows the best token that starts there, so that a byte put in front costs one walk down the
trie, and tails are shared by all that end alike. It must not know which texts are spelled.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from grammars.budget import Budget
from grammars.expr import Expr
from grammars.vocabulary import Vocabulary

UNREACHABLE = 1 << 30
"""The cost where no way to finish is known."""

BYTES_PER_CELL = 120
"""What a byte of a spelling takes."""

BYTES_PER_STEP = 16
"""Bytes that are spelled in about the time of making one expression."""

COMMON = sum(1 << byte for byte in b"abcdefghijklmnopqrstuvwxyz0123456789")
"""The bytes that are tried first, where any will do."""


class Spelling:
    """A string, cell by cell, and the fewest tokens that write it from each cell on.

    `cost` tokens; the first of them is `token`, after which the string goes on at `after`.
    `is_fenced`: no token reaches over the cell's beginning. Not `is_sure`: the string may have to
    become another (see `noting`), and the cost is what that may take.
    """

    __slots__ = ("after", "byte", "cost", "is_fenced", "is_sure", "length", "rest", "token")

    def __init__(self, byte: int, rest: Spelling | None) -> None:
        self.byte = byte
        self.rest = rest
        self.cost = 0
        self.token = -1
        self.after: Spelling | None = None
        self.is_fenced = False
        self.length: int
        self.is_sure: bool
        if rest is None:
            self.length, self.is_sure = 0, True
        else:
            self.length, self.is_sure = rest.length + 1, rest.is_sure

    def tokens(self) -> Iterator[int]:
        """The ids of the fewest tokens that write it."""
        assert self.cost < UNREACHABLE, "only what tokens can write has a plan"
        cell = self
        while cell.after is not None:
            yield cell.token
            cell = cell.after

    def text(self) -> bytes:
        """The string that it writes."""
        found = bytearray()
        cell = self
        while cell.rest is not None:
            found.append(cell.byte)
            cell = cell.rest
        return bytes(found)


Choosing = Generator[tuple[Expr, Spelling], Spelling, Spelling]
"""Asks for the witnesses of parts, each in front of a tail, and gives one of the whole."""


class Speller:
    """Makes spellings in one vocabulary, from their ends on. `end`: that of nothing; `nowhere`:
    that of what cannot be written.
    """

    def __init__(self, vocabulary: Vocabulary, budget: Budget) -> None:
        self._vocabulary = vocabulary
        self._budget = budget
        self._fences: dict[tuple[Spelling, int, bool], Spelling] = {}
        self.end = Spelling(-1, None)
        self.nowhere = Spelling(-1, None)
        self.nowhere.cost = UNREACHABLE

    def cheapest(self, options: list[Spelling]) -> Spelling:
        """The one of the fewest tokens, and of those the shortest."""
        return min(options, key=lambda s: (s.cost, s.length), default=self.nowhere)

    def bytes(self, data: bytes, tail: Spelling) -> Spelling:
        """Bytes in front of a tail."""
        self._budget.spend(len(data) // BYTES_PER_STEP, BYTES_PER_CELL * len(data))
        for byte in reversed(data):
            tail = self.byte(byte, tail)
        return tail

    def byte(self, byte: int, tail: Spelling) -> Spelling:
        """One byte in front: the best token that starts with it, and what it leaves."""
        cell = Spelling(byte, tail)
        best = UNREACHABLE - 1
        child, token_at = self._vocabulary.child, self._vocabulary.token_at
        node, after = child.get(byte), tail
        while node is not None:
            if after.cost < best and token_at[node] >= 0:
                best, cell.token, cell.after = after.cost, token_at[node], after
            if after.rest is None or after.is_fenced:
                break
            node, after = child.get(node * 256 + after.byte), after.rest
        cell.cost = best + 1
        return cell

    def fenced(self, tail: Spelling, slack: int, *, is_sure: bool = True) -> Spelling:
        """The same string, at a cost that is higher by `slack`, and so whatever comes before."""
        if tail.cost >= UNREACHABLE:
            return tail
        key = (tail, slack, is_sure)
        cell = self._fences.get(key)
        if cell is None:
            self._budget.spend(1, BYTES_PER_CELL)
            cell = self._fences[key] = Spelling(tail.byte, tail.rest)
            cell.length, cell.token, cell.after = tail.length, tail.token, tail.after
            cell.cost = tail.cost + slack
            cell.is_fenced, cell.is_sure = True, tail.is_sure and is_sure
        return cell

    def likely(self, mask: int, most: int) -> list[int]:
        """A few bytes of a set, up to `most`: those that a token of their own can write first."""
        single = mask & self._vocabulary.single_bytes
        chosen = single if single else mask
        return _some_bytes(chosen & COMMON or chosen, most)


def _some_bytes(mask: int, most: int) -> list[int]:
    """The lowest bytes of a set, up to `most`."""
    found: list[int] = []
    while mask and len(found) < most:
        lowest = mask & -mask
        found.append(lowest.bit_length() - 1)
        mask ^= lowest
    return found
