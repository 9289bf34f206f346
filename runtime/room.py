"""Room: whether there will be pages for one more sequence.

Owns the comparison of what sequences will need with the pages that there are. It decides nothing
else, and changes nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence as List

from runtime.cache.nodes import PageNode
from runtime.cache.prefix import PrefixCache
from runtime.foresight import Holder, Usage, peak_pages
from runtime.sequence import Sequence


class Room:
    """During one step. `running`: who has pages; `token_budget`: of a step; `num_given`: pages that
    others are about to give back.
    """

    def __init__(
        self,
        cache: PrefixCache,
        usage: Usage,
        running: List[Sequence],
        *,
        token_budget: int,
        num_given: int = 0,
    ) -> None:
        self._cache = cache
        self._usage = usage
        self._running = running
        self._token_budget = token_budget
        self._num_given = num_given
        self._num_promised: int | None = None  # pages that those who run will need, at most

    def is_there(self, sequence: Sequence, path: list[PageNode], num_tokens: int) -> bool:
        """Whether the sequence, whose prompt has `path` in the cache, can begin with `num_tokens`
        and go on to its end. Who is alone needs pages for now only: it gets all there are, and no
        sequence may want more.
        """
        num_fresh = 0  # pages of the path that it takes from those to evict
        while num_fresh < len(path) and not path[-1 - num_fresh].locks:
            num_fresh += 1
        num_available = self._cache.num_available + self._num_given - num_fresh
        size = self._cache.page_size
        num_slots = sequence.num_slots(len(path) * size + num_tokens)
        now = max(0, -(-num_slots // size) - len(path))
        if not self._running or now > num_available:
            return now <= num_available
        if self._num_promised is None:
            self._num_promised = sum(map(self._num_ahead, self._running))
        # All that anybody may want, at once: mostly there is room for that, and it is soon said.
        if self._num_promised + max(now, self._num_ahead(sequence) - len(path)) <= num_available:
            return True
        return peak_pages(self._together(sequence, path, num_fresh), size) <= num_available

    def was_taken(self, sequence: Sequence) -> None:
        """The sequence runs now."""
        if self._num_promised is not None:
            self._num_promised += self._num_ahead(sequence)

    def _num_ahead(self, sequence: Sequence) -> int:
        """Pages that it may want beyond those that it has."""
        num_tokens = max(sequence.ahead.end, sequence.max_slots)
        return max(0, -(-num_tokens // self._cache.page_size) - len(sequence.pages))

    def _together(self, sequence: Sequence, path: list[PageNode], num_fresh: int) -> list[Holder]:
        """The sequence and those that run. Those that have yet to be computed end later, by the
        steps that the gaps of all of them take at most.
        """
        num_wide = sequence.goal - len(path) * self._cache.page_size
        num_wide += sum(each.gap for each in self._running if each.gap > 1)
        delay = -(-num_wide // max(1, self._token_budget - len(self._running)))
        holders = [self._holder(sequence, num_pages=len(path), num_own=num_fresh, delay=delay)]
        for each in self._running:
            num_own = len(each.pages) - bisect_left(each.nodes, True, key=_is_unshared)
            holders.append(self._holder(each, num_own=num_own, delay=delay * (each.gap > 1)))
        return holders

    def _holder(
        self,
        sequence: Sequence,
        *,
        num_pages: int | None = None,
        num_own: int = 0,
        delay: int = 0,
    ) -> Holder:
        literals, drawn = self._usage.expected(sequence.ahead, len(sequence.tokens))
        return Holder(
            num_tokens=sequence.max_slots + literals,
            num_steps=drawn + delay,
            num_pages=len(sequence.pages) if num_pages is None else num_pages,
            num_own=num_own,
        )


def _is_unshared(node: PageNode) -> bool:
    """Along a path locks fall, so that these are the last nodes of it."""
    return node.locks == 1
