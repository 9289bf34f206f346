"""Pins: cached prefixes that stay until they are released, whoever needs their pages.

Owns who has pinned what, and how much of the pool that may be. A pin is a lock like any other, so
that neither eviction nor a flush sees it. What is pinned, and for how long, others say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence as List

from runtime.cache.nodes import PageNode
from runtime.cache.prefix import PrefixCache
from sgdsl.errors import UsageError

PINNED_SHARE = 0.5
"""Of the pool, at most: with less, a prompt of half a pool would not always have room."""


class Pins:
    """Each has a number, that of the run that asked for it."""

    def __init__(self, cache: PrefixCache) -> None:
        self._cache = cache
        self._max_pages = int(cache.num_pages * PINNED_SHARE)
        self._paths: dict[int, List[PageNode]] = {}
        self._counts: Counter[PageNode] = Counter()
        self._promised: dict[int, int] = {}  # pages, of those whose prefixes are being computed

    @property
    def num_pages(self) -> int:
        """Pages that no sequence can have, those that are promised included."""
        return len(self._counts) + sum(self._promised.values())

    @property
    def max_tokens(self) -> int:
        """Of a sequence that shares no pinned page."""
        return (self._cache.num_pages - self.num_pages) * self._cache.page_size

    def promise(self, pin: int, tokens: List[int], *, salt: str, longest: int) -> None:
        """Keep room for the whole pages of these tokens, which are going to be computed.

        `longest`: tokens that the longest sequence under way may come to, which must have room
        beside all pins. Raises `UsageError` where that, or the share of the pool, does not suffice.
        """
        cache, size = self._cache, self._cache.page_size
        known = cache.match(tokens, len(tokens), salt)
        num_new = len(tokens) // size - sum(node in self._counts for node in known)
        num_pinned, total = self.num_pages, cache.num_pages
        if num_new + num_pinned > self._max_pages:
            raise UsageError(
                f"to keep a prefix of {len(tokens)} tokens, {num_new} more pages of {size} would "
                f"be pinned, but {num_pinned} are already, and at most {self._max_pages} of the "
                f"pool's {total} may be; release others with uncache(), raise kv_bytes, or say "
                "pin=False"
            )
        if -(-longest // size) > total - num_pinned - num_new:
            raise UsageError(
                f"to keep a prefix of {len(tokens)} tokens, {num_new} more pages of {size} would "
                f"be pinned, and of the pool's {total}, {num_pinned} are already; a run under way "
                f"may come to {longest} tokens and would not fit any more; cache the prefix when "
                "it has ended, or say pin=False"
            )
        self._promised[pin] = num_new

    def hold(self, pin: int, path: List[PageNode]) -> None:
        """What was promised has been computed: `path` stays."""
        assert pin in self._promised, "only what was promised is pinned"
        del self._promised[pin]
        if not self._cache.reuse:
            return
        self._paths[pin] = list(path)
        for node in path:
            self._cache.lock(node)
            self._counts[node] += 1

    def release(self, pin: int) -> None:
        """The pages may be evicted again. A pin that there is not is released already."""
        self._promised.pop(pin, None)
        for node in reversed(self._paths.pop(pin, ())):
            self._cache.unlock(node)
            self._counts[node] -= 1
            if not self._counts[node]:
                del self._counts[node]

    def clear(self) -> None:
        for pin in [*self._promised, *self._paths]:
            self.release(pin)
