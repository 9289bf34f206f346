"""Beginnings: where the first slots of a sequence's next page can be copied from.

Owns the search. Sequences part in the middle of a page, and the page of one that went another way,
is not full yet or was left before it was, begins as the next page of this one does. It changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence as List
from typing import NamedTuple

from runtime.cache.keys import num_common
from runtime.cache.nodes import PageNode
from runtime.cache.prefix import PrefixCache
from runtime.sequence import Sequence


class Beginning(NamedTuple):
    """The first `num_tokens` slots of `page`, which is a page of `node` if the tree has it."""

    page: int
    num_tokens: int
    node: PageNode | None = None


NONE = Beginning(-1, 0)


class Beginnings:
    """During one step. `running`: who has computed pages now; those who come in during the step are
    still to be computed, and nobody can copy that. `from_host`: pages that are on the host only
    count too.
    """

    def __init__(
        self, cache: PrefixCache, running: List[Sequence], *, from_host: bool = True
    ) -> None:
        self._cache = cache
        self._from_host = from_host
        self._tails: dict[int, list[Sequence]] = {}  # by the last node's id
        if cache.reuse:
            for sequence in running:
                if sequence.computed > len(sequence.nodes) * cache.page_size:
                    self._tails.setdefault(id(self._last(sequence, sequence.nodes)), []).append(
                        sequence
                    )

    def find(self, sequence: Sequence, path: list[PageNode]) -> Beginning:
        """The longest one for a sequence whose prompt has `path` in the cache."""
        start, size = len(path) * self._cache.page_size, self._cache.page_size
        wanted = sequence.tokens[start : min(start + size, sequence.cacheable)]
        if not wanted or not self._cache.reuse:
            return NONE
        node, best = self._last(sequence, path), NONE
        found = self._cache.beginning(node, wanted)
        if found is not None and (found[0].page >= 0 or self._from_host):
            best = Beginning(found[0].source, found[1], found[0])
        for other in self._tails.get(id(node), ()):
            if best.num_tokens == len(wanted):
                break
            num = num_common(other.tokens[start : other.computed], wanted)
            if num > best.num_tokens:
                best = Beginning(other.pages[len(path)], num)
        return best

    def _last(self, sequence: Sequence, path: list[PageNode]) -> PageNode:
        return path[-1] if path else self._cache.root_of(sequence.salt)
