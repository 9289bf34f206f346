"""The history of pages: what a prefix cache without bounds would have found.

Owns the hashes of the pages that have come, as far back as it reaches. It is for statistics alone:
two pages with the same hash would be taken for one.
"""

from __future__ import annotations

from collections.abc import Sequence as List

MIN_REACH = 1 << 17
"""Pages: two million tokens of 16 a page, in some 16 MB when all of them are different."""


class History:
    """Remembers at least `reach` different pages, and at most twice as many: of two generations the
    older one is forgotten when the younger one is full.
    """

    def __init__(self, *, page_size: int, reach: int) -> None:
        self._page_size = page_size
        self._reach = reach
        self._young: set[int] = set()
        self._old: set[int] = set()

    def add(self, chain: int) -> None:
        """A page was cached; `chain` is the hash of the path to it."""
        self._young.add(chain)
        if len(self._young) >= self._reach:
            self._old, self._young = self._young, set()

    def note(self, chain: int, tokens: List[int], *, limit: int) -> int:
        """A prompt comes of which `tokens` follow the path with the hash `chain`: how many of them,
        in whole pages within the first `limit`, came before. From now on all of them have.
        """
        size, num_known, goes_on = self._page_size, 0, True
        for end in range(size, len(tokens) + 1, size):
            chain = chain_of(chain, tuple(tokens[end - size : end]))
            goes_on = goes_on and (chain in self._young or chain in self._old)
            if goes_on and end <= limit:
                num_known = end
            self.add(chain)
        return num_known


def chain_of(parent: int, key: tuple[int, ...]) -> int:
    """The hash of the path that ends with the page `key`, behind one with the hash `parent`."""
    return hash((parent, key))
