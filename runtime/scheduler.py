"""The scheduler: closes the gap between known and computed tokens.

Owns the queues of sequences, their computed counts and their pages. Pure: no clock, no tensor, no
text; given the same calls it takes the same decisions. There is no prefill mode and no decode mode:
a sequence has a gap, and a step grants it tokens.

Sequences that are older go first, and pages are taken from the youngest, so the oldest one always
makes progress and every sequence is the oldest one day: nothing starves, nothing deadlocks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence as List
from dataclasses import dataclass
from itertools import islice

from runtime.batch import Grant
from runtime.cache.prefix import PageKey, PageNode, PrefixCache
from runtime.sequence import Sequence

LOOK_AHEAD = 256
"""Waiting sequences that a step looks at: many may wait for a page that is being computed (all
options of a select do), and each look costs a walk down the tree.
"""


@dataclass(slots=True)
class SchedulerCounts:
    """Totals since the start; tokens, except `preemptions` (sequences)."""

    prompt_tokens: int = 0  # known tokens of every sequence when it was first admitted
    cached_tokens: int = 0  # those of them that the cache held
    computed_tokens: int = 0
    preemptions: int = 0


class Scheduler:
    """At most `token_budget` tokens a step; at most `max_running` sequences that hold pages."""

    def __init__(self, cache: PrefixCache, *, token_budget: int, max_running: int) -> None:
        assert token_budget >= max_running > 0, "every running sequence can be granted a token"
        self.cache = cache
        self.counts = SchedulerCounts()
        self._token_budget = token_budget
        self._max_running = max_running
        self._waiting: OrderedDict[int, Sequence] = OrderedDict()  # by id, oldest first
        self._running: list[Sequence] = []  # oldest first
        self._arrived: set[int] = set()  # ids of those not admitted since they were added

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting)

    def add(self, sequence: Sequence) -> None:
        """The sequence wants to be computed. Its turn is behind those that came before."""
        assert sequence.id not in self._waiting, "a sequence waits once"
        assert not sequence.pages, "a sequence that waits holds no pages"
        self._waiting[sequence.id] = sequence
        self._arrived.add(sequence.id)

    def remove(self, sequence: Sequence) -> None:
        """Park or finish: the sequence gives its pages back and is forgotten here."""
        self._arrived.discard(sequence.id)
        if self._waiting.pop(sequence.id, None) is None and sequence in self._running:
            self._running.remove(sequence)
        self._release(sequence)

    def schedule(self) -> list[Grant]:
        """Who gets how many tokens now. Empty only if nothing has a gap."""
        self._rewind_stale()
        grants: list[Grant] = []
        budget = self._grant_running(grants)
        if self._waiting and budget > 0:
            self._admit(grants, budget)
        return grants

    def commit(self, grants: List[Grant]) -> None:
        """The granted tokens are computed: full pages go to the tree, for everyone to use."""
        for grant in grants:
            sequence = grant.sequence
            assert sequence.computed == grant.start, "a grant starts where the computed ones end"
            sequence.computed = grant.end
            self.counts.computed_tokens += grant.num_tokens
            self._share_full_pages(sequence)

    def _grant_running(self, grants: list[Grant]) -> int:
        """One token for every decode first, then the wider gaps in order; returns what is left."""
        decodes = sum(1 for sequence in self._running if sequence.gap == 1)
        budget = self._token_budget - decodes
        position = 0
        while position < len(self._running):
            sequence = self._running[position]
            gap = sequence.gap
            num_tokens = gap if gap <= 1 else min(gap, budget)
            if num_tokens > 0:
                if not self._make_room(sequence, num_tokens):
                    break  # it was the youngest itself, and is waiting now
                grants.append(Grant(sequence, sequence.computed, num_tokens))
                budget -= num_tokens if gap > 1 else 0
            position += 1
        return budget

    def _make_room(self, sequence: Sequence, num_tokens: int) -> bool:
        """Give the sequence pages for `num_tokens` more, the youngest's if there are no others."""
        while not self._extend_pages(sequence, num_tokens):
            youngest = self._running[-1]
            self._preempt(youngest)
            if youngest is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        assert sequence is self._running[-1], "the youngest is preempted first"
        self._running.pop()
        self._release(sequence)
        self._waiting[sequence.id] = sequence
        self._waiting.move_to_end(sequence.id, last=False)
        self.counts.preemptions += 1

    def _admit(self, grants: list[Grant], budget: int) -> None:
        """Let waiting sequences in, in order, while tokens, rows and free pages last.

        A sequence whose next page is being computed in this very step waits for it (it costs a
        step, not a page); sequences behind it may go first.
        """
        arriving = {key for grant in grants if (key := self._arriving_page(grant)) is not None}
        for sequence in list(islice(self._waiting.values(), LOOK_AHEAD)):
            if budget <= 0 or len(self._running) >= self._max_running:
                break
            path = self.cache.match(sequence.tokens, sequence.cacheable)
            if self._next_page(sequence, path) in arriving:
                continue
            self._adopt(sequence, path)
            num_tokens = min(sequence.gap, budget)
            if not self._extend_pages(sequence, num_tokens):
                self._release(sequence)
                break
            del self._waiting[sequence.id]
            self._running.append(sequence)
            self._count_admission(sequence)
            assert num_tokens > 0, "whoever waits has a gap"
            grants.append(Grant(sequence, sequence.computed, num_tokens))
            budget -= num_tokens
            if (key := self._arriving_page(grants[-1])) is not None:
                arriving.add(key)

    def _count_admission(self, sequence: Sequence) -> None:
        """A sequence's own comings back, from a preemption or from a park, are no cache hits."""
        if sequence.id in self._arrived:
            self._arrived.discard(sequence.id)
            sequence.cached = sequence.computed
        if not sequence.counted:
            sequence.counted = True
            self.counts.prompt_tokens += len(sequence.tokens)
            self.counts.cached_tokens += sequence.computed

    def _adopt(self, sequence: Sequence, path: list[PageNode]) -> None:
        for node in path:
            self.cache.lock(node)
        sequence.nodes = path
        sequence.pages = [node.page for node in path]
        sequence.computed = len(path) * self.cache.page_size
        sequence.stale_from = None

    def _extend_pages(self, sequence: Sequence, num_tokens: int) -> bool:
        """Pages for `num_tokens` more computed tokens, all or none."""
        needed = -(-(sequence.computed + num_tokens) // self.cache.page_size) - len(sequence.pages)
        if needed > self.cache.num_available:
            return False
        for _ in range(needed):
            page = self.cache.allocate()
            assert page is not None, "available pages can be allocated"
            sequence.pages.append(page)
        return True

    def _share_full_pages(self, sequence: Sequence) -> None:
        size = self.cache.page_size
        while (end := (len(sequence.nodes) + 1) * size) <= sequence.computed:
            index = len(sequence.nodes)
            parent = sequence.nodes[-1] if sequence.nodes else self.cache.root
            key = tuple(sequence.tokens[end - size : end])
            node = self.cache.insert(parent, key, sequence.pages[index])
            sequence.pages[index] = node.page
            sequence.nodes.append(node)

    def _rewind_stale(self) -> None:
        """Where a tail was rewritten, give up the KV behind it. A page in the tree is given up
        whole: others may read it, so it is never written again.
        """
        size = self.cache.page_size
        for sequence in self._running:
            if sequence.stale_from is None:
                continue
            keep, sequence.stale_from = sequence.valid, None
            num_shared = len(sequence.nodes)
            while len(sequence.nodes) * size > keep:
                self.cache.unlock(sequence.nodes.pop())
            if len(sequence.nodes) < num_shared:
                keep = len(sequence.nodes) * size
            num_kept = -(-keep // size)
            for page in sequence.pages[max(num_kept, num_shared) :]:
                self.cache.free(page)
            del sequence.pages[num_kept:]
            sequence.computed = keep

    def _release(self, sequence: Sequence) -> None:
        for page in sequence.pages[len(sequence.nodes) :]:
            self.cache.free(page)
        for node in reversed(sequence.nodes):
            self.cache.unlock(node)
        sequence.pages, sequence.nodes = [], []
        sequence.computed, sequence.stale_from = 0, None

    def _arriving_page(self, grant: Grant) -> tuple[int, PageKey] | None:
        """The first page that this grant completes, named as `_next_page` names it."""
        sequence, size = grant.sequence, self.cache.page_size
        end = (len(sequence.nodes) + 1) * size
        return self._next_page(sequence, sequence.nodes) if end <= grant.end else None

    def _next_page(self, sequence: Sequence, path: list[PageNode]) -> tuple[int, PageKey] | None:
        """The page that follows `path` in the sequence's prompt, if the cache could give it."""
        size = self.cache.page_size
        start = len(path) * size
        if not self.cache.reuse or start + size > len(sequence.tokens):
            return None
        parent = path[-1] if path else self.cache.root
        return id(parent), tuple(sequence.tokens[start : start + size])
