"""Keys of pages: which of a node's children begins as some tokens do.

Owns the order of a node's keys. No key here is the beginning of another one. It knows no node and
no page.

Of keys in lexicographic order those that share most with some tokens stand where these would stand.
So one bisection finds them, however many there are.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence as Tokens

Key = tuple[int, ...]


def num_common(one: Tokens[int], other: Tokens[int]) -> int:
    """How many first tokens are the same."""
    num = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        num += 1
    return num


class Keys:
    """Tuples of tokens, of which none begins with all of another one."""

    __slots__ = ("_ordered",)

    def __init__(self) -> None:
        self._ordered: list[Key] = []

    def __iter__(self) -> Iterator[Key]:
        """In their order."""
        return iter(self._ordered)

    def closest(self, wanted: Key) -> tuple[Key, int] | None:
        """The key that shares most first tokens with these, and how many; None if none does."""
        at = bisect_left(self._ordered, wanted)
        best: tuple[Key, int] | None = None
        for key in self._ordered[max(0, at - 1) : at + 1]:
            num = num_common(key, wanted)
            if num > (0 if best is None else best[1]):
                best = key, num
        return best

    def covers(self, key: Key) -> bool:
        """Whether a key is this one, or begins with it."""
        at = bisect_left(self._ordered, key)
        return at < len(self._ordered) and self._ordered[at][: len(key)] == key

    def beginning_of(self, key: Key) -> Key | None:
        """The key that this one begins with, if there is one. It stands just before it: what stood
        between the two would begin with the same one.
        """
        at = bisect_left(self._ordered, key)
        before = self._ordered[at - 1] if at else key
        return before if len(before) < len(key) and key[: len(before)] == before else None

    def add(self, key: Key) -> None:
        insort(self._ordered, key)

    def remove(self, key: Key) -> None:
        at = bisect_left(self._ordered, key)
        assert self._ordered[at] == key, "only what was added is removed"
        del self._ordered[at]
