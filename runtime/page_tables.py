"""Page tables: which pages each sequence holds, and how far they are computed.

Owns a sequence's pages and nodes, and the computed count as far as it follows from them: what comes
from the cache, what goes to it, what a rewritten tail leaves. It must not know who runs, nor why.
"""

from __future__ import annotations

from runtime.beginnings import Beginning
from runtime.cache.history import History
from runtime.cache.nodes import PageNode
from runtime.cache.prefix import PrefixCache
from runtime.sequence import Sequence


class PageTables:
    """Of all sequences that are computed over `cache`. `history` is told of every page that is
    shared.
    """

    def __init__(self, cache: PrefixCache, history: History) -> None:
        self._cache = cache
        self._history = history

    def adopt(self, sequence: Sequence, path: list[PageNode], beginning: Beginning) -> int:
        """Begin with what is cached; returns how many pages were fetched from the host. The
        beginning is copied before that, for which it might have to go.
        """
        away = [node for node in path if node.page < 0]
        for node in path:
            self._cache.lock(node)
        used = beginning.node
        on_host = used is not None and used.page < 0
        if used is not None:
            self._cache.lock(used)
            if not on_host:  # no more than used now: it may be the page that it is copied into
                self._cache.unlock(used)
        page = self._copied(beginning)
        for node in away:
            self._cache.fetch(node)
        if used is not None and on_host:
            self._cache.unlock(used)
        sequence.nodes = path
        sequence.pages = [node.page for node in path] + page
        start, size = len(path) * self._cache.page_size, self._cache.page_size
        sequence.computed = start + beginning.num_tokens
        if path:
            self._cache.use(path[-1], sequence.group, sequence.tokens[start : start + size])
        sequence.stale_from = None
        return len(away)

    def rewind(self, sequence: Sequence) -> None:
        """Its tail was rewritten: give up the KV behind what stays. A page in the tree is given up
        whole, since others may read it and it is never written again; what is still right of it is
        copied, if there is a page for that.
        """
        size = self._cache.page_size
        keep, sequence.stale_from = sequence.valid, None
        num_shared = len(sequence.nodes)
        left = None
        while len(sequence.nodes) * size > keep:
            left = sequence.nodes.pop()
            self._cache.unlock(left)
        num_kept = len(sequence.nodes) if left is not None else -(-keep // size)
        for page in sequence.pages[max(num_kept, num_shared) :]:
            self._cache.free(page)
        del sequence.pages[num_kept:]
        sequence.computed = min(keep, num_kept * size)
        if left is not None and self._cache.reuse and self._cache.num_available:
            sequence.pages += self._copied(Beginning(left.page, keep - sequence.computed))
            sequence.computed = keep

    def extend(self, sequence: Sequence, num_tokens: int) -> bool:
        """Pages for `num_tokens` more computed tokens, all or none."""
        end = sequence.num_slots(sequence.computed + num_tokens)
        size = self._cache.page_size
        if end <= len(sequence.pages) * size:
            return True
        needed = -(-end // size) - len(sequence.pages)
        if needed > self._cache.num_available:
            return False
        for _ in range(needed):
            page = self._cache.allocate()
            assert page is not None, "available pages can be allocated"
            sequence.pages.append(page)
        return True

    def cut(self, sequence: Sequence, num_kept: int) -> None:
        """Give back the pages behind these, in which nothing stands."""
        assert num_kept >= len(sequence.nodes), "pages in the tree are full"
        for page in sequence.pages[num_kept:]:
            self._cache.free(page)
        del sequence.pages[num_kept:]

    def share(self, sequence: Sequence) -> None:
        """Full pages go to the tree, for everyone to use."""
        size = self._cache.page_size
        num_valid = sequence.computed if sequence.stale_from is None else sequence.valid
        num_computed = min(num_valid, len(sequence.tokens))
        while (end := (len(sequence.nodes) + 1) * size) <= num_computed:
            index = len(sequence.nodes)
            parent = sequence.nodes[-1] if sequence.nodes else self._cache.root_of(sequence.salt)
            key = tuple(sequence.tokens[end - size : end])
            node = self._cache.insert(parent, key, sequence.pages[index], user=sequence.group)
            self._history.add(node.chain)
            sequence.pages[index] = node.page
            sequence.nodes.append(node)

    def release(self, sequence: Sequence) -> None:
        """It gives back all its pages; the tree keeps what it computed, as long as it can. What was
        drawn for it and has not arrived is drawn again.
        """
        self.share(sequence)  # a page may have become full with a token that has just arrived
        size, num_full = self._cache.page_size, len(sequence.nodes)
        unshared = sequence.pages[num_full:]
        tail = sequence.tokens[num_full * size : sequence.valid]
        if tail and unshared:
            parent = sequence.nodes[-1] if sequence.nodes else self._cache.root_of(sequence.salt)
            self._cache.insert_partial(parent, tuple(tail), unshared.pop(0))
        for page in unshared:
            self._cache.free(page)
        for node in reversed(sequence.nodes):
            self._cache.unlock(node)
        sequence.pages, sequence.nodes = [], []
        sequence.computed, sequence.stale_from = 0, None
        sequence.awaits, sequence.next_row = False, -1

    def _copied(self, beginning: Beginning) -> list[int]:
        """A fresh page with these slots; none if these are none."""
        if not beginning.num_tokens:
            return []
        page = self._cache.allocate()
        assert page is not None, "there was room"
        self._cache.copy(beginning.page, page, beginning.num_tokens)
        return [page]
