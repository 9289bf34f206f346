"""The scheduler: closes the gap between known and computed tokens.

Owns who runs, the computed counts and the pages, and whether there is room for one more. Pure: no
clock, no tensor, no text; given the same calls it takes the same decisions. There is no prefill
mode and no decode mode: a sequence has a gap, and a step grants it tokens.

Who comes next is the policy's business, with two exceptions, so that nothing starves. Of those that
wait, every `AGEING`th that is let in is the one that has waited longest. Of those that run, the
ones let in earlier go first, and pages are taken from the one let in last, which comes back before
all that wait: so the first one always makes progress, and everyone is the first one day.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence as List
from dataclasses import dataclass

from runtime.batch import Grant
from runtime.beginnings import Beginning, Beginnings
from runtime.cache.copies import Copy
from runtime.cache.prefix import PageNode, PrefixCache
from runtime.cache.rates import Rates
from runtime.foresight import Usage
from runtime.policies import POLICIES, Policy
from runtime.room import Room
from runtime.sequence import Sequence
from runtime.waiting import Page, WaitingQueue

LOOK_AHEAD = 256
"""Waiting sequences that a step passes over: many may wait for a page that is being computed (all
options of a select do).
"""

AGEING = 16
"""Every so many admissions, one is that of who has waited longest: a policy decides on the other
fifteen, and a wait is at most sixteen times that of first come first served, in admissions.
"""


@dataclass(slots=True)
class SchedulerCounts:
    """Totals since the start; tokens, except `preemptions` (sequences)."""

    prompt_tokens: int = 0  # known tokens of every sequence when it was first admitted
    cached_tokens: int = 0  # those of them that the cache held
    fetched_tokens: int = 0  # that were copied back from the host
    computed_tokens: int = 0
    preemptions: int = 0
    num_shrinks: int = 0  # steps that the memory did not suffice for
    lost_tokens: int = 0  # computed ones that preemptions gave up; the cache may still hold some


class Scheduler:
    """At most `token_budget` tokens a step; at most `max_running` sequences that hold pages."""

    def __init__(
        self,
        cache: PrefixCache,
        *,
        token_budget: int,
        max_running: int,
        policy: Policy = POLICIES["lpm"],
    ) -> None:
        assert token_budget >= max_running > 0, "every running sequence can be granted a token"
        self.cache = cache
        self.counts = SchedulerCounts()
        self.usage = Usage()
        self.rates = Rates()
        self._token_budget = token_budget
        self._max_running = max_running
        self._waiting = WaitingQueue(cache, policy)
        self._preempted: list[Sequence] = []  # as those that run
        self._running: list[Sequence] = []  # in the order in which they were let in
        self._num_admitted = 0  # preemptions aside
        self._since_oldest = 0  # admissions since that of who had waited longest
        self._arrived: set[int] = set()  # ids of those not admitted since they were added

    @property
    def policy(self) -> Policy:
        return self._waiting.policy

    @property
    def num_running(self) -> int:
        return len(self._running)

    @property
    def num_waiting(self) -> int:
        return len(self._waiting) + len(self._preempted)

    @property
    def num_waiting_tokens(self) -> int:
        """Known tokens of those that wait to run for the first time, or again after they parked."""
        return self._waiting.num_tokens

    def add(self, sequence: Sequence) -> None:
        """The sequence wants to be computed."""
        assert not sequence.pages, "a sequence that waits holds no pages"
        self._waiting.add(sequence)
        self._arrived.add(sequence.id)

    def remove(self, sequence: Sequence) -> None:
        """Park or finish: the sequence gives its pages back and is forgotten here."""
        self._arrived.discard(sequence.id)
        if sequence in self._waiting:
            self._waiting.remove(sequence)
            return
        for queue in (self._running, self._preempted):
            if sequence in queue:
                queue.remove(sequence)
        self._release(sequence)

    def schedule(self) -> list[Grant]:
        """Who gets how many tokens now. Empty only if nothing has a gap."""
        self._rewind_stale()
        grants: list[Grant] = []
        budget = self._grant_running(grants)
        if self.num_waiting and budget > 0 and len(self._running) < self._max_running:
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

    def take_copies(self) -> list[Copy]:
        """What has to be copied before the tokens of the grants are computed, in order."""
        copies, self.cache.copies = self.cache.copies, []
        return copies

    def took(
        self, grants: List[Grant], copies: List[Copy], *, copy_s: float, compute_s: float
    ) -> None:
        """What a step's copies and its forward pass took. Of steps that are mostly decodes nothing
        is learnt: a prompt's tokens cost far less than theirs.
        """
        if any(self.cache.is_on_host(page) for copy in copies for page in copy[:2]):
            self.rates.copying.saw(sum(copy.num_slots for copy in copies), copy_s)
        num_tokens = sum(grant.num_tokens for grant in grants)
        if 2 * sum(grant.num_tokens for grant in grants if grant.num_tokens > 1) >= num_tokens:
            self.rates.computing.saw(num_tokens, compute_s)

    def shrink(self, num_tokens: int) -> bool:
        """The memory did not suffice for a step of `num_tokens`: from now on they are half as
        large. False if that is not possible.
        """
        if num_tokens <= 1:
            return False
        self.counts.num_shrinks += 1
        self._token_budget = num_tokens // 2
        self._max_running = min(self._max_running, self._token_budget)
        while len(self._running) > self._max_running:
            self._preempt(self._running[-1])
        for sequence in self._running:
            self._back_to_tokens(sequence)
        return True

    def _back_to_tokens(self, sequence: Sequence) -> None:
        """What a step stores of a tree takes the place of what that step itself goes on from. If it
        was given up, nobody knows which of the two is there.
        """
        num_tokens = len(sequence.tokens)
        if sequence.tree is not None and sequence.computed > num_tokens:
            self.counts.lost_tokens += sequence.computed - num_tokens
            sequence.computed = num_tokens

    def _grant_running(self, grants: list[Grant]) -> int:
        """One token for every decode first, then the wider gaps in order; returns what is left. Of
        that a tree, which may be larger than any text, leaves half to others.
        """
        gaps = [sequence.gap for sequence in self._running]
        budget = self._token_budget - gaps.count(1)
        is_alone = not self.num_waiting and sum(gap > 1 for gap in gaps) <= 1
        position = 0
        while position < len(self._running):
            sequence, gap = self._running[position], gaps[position]
            share = budget if is_alone or sequence.tree is None else -(-budget // 2)
            num_tokens = gap if gap <= 1 else min(gap, share)
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
        self.counts.lost_tokens += sequence.computed
        self._release(sequence)
        insort(self._preempted, sequence, key=_by_admission)
        self.counts.preemptions += 1
        self.usage.was_too_low()

    def _admit(self, grants: list[Grant], budget: int) -> None:
        """Let sequences in, in order, while tokens and rows last, and there is room for what they
        will need.

        A sequence whose next page is being computed in this very step waits for it (it costs a
        step, not a page); sequences behind it may go first.
        """
        arriving = set(filter(None, map(self._arriving_page, grants)))
        room = Room(self.cache, self.usage, self._running, token_budget=self._token_budget)
        fetches = self.rates.copying_pays
        beginnings = Beginnings(self.cache, self._running, from_host=fetches)
        self._waiting.settle()
        while budget > 0 and len(self._running) < self._max_running:
            if (found := self._next_in_line(arriving)) is None:
                break
            sequence, path = found
            if not fetches:
                path = [node for node in path if node.page >= 0]
            beginning = beginnings.find(sequence, path)
            num_cached = len(path) * self.cache.page_size + beginning.num_tokens
            num_tokens = min(sequence.goal - num_cached, budget)
            if not room.is_there(sequence, path, beginning.num_tokens + num_tokens):
                break
            self._enter(sequence, path, beginning)
            extended = self._extend_pages(sequence, num_tokens)
            assert extended, "there was room"
            assert num_tokens > 0, "whoever waits has a gap"
            room.was_taken(sequence)
            grants.append(Grant(sequence, sequence.computed, num_tokens))
            budget -= num_tokens
            if (page := self._arriving_page(grants[-1])) is not None:
                arriving.add(page)
        self._waiting.restore()

    def _next_in_line(self, arriving: set[Page]) -> tuple[Sequence, list[PageNode]] | None:
        """Who is to be let in now, with the cached pages of its prompt: first who was in before."""
        for sequence in self._preempted:
            path = self.cache.match(sequence.tokens, sequence.cacheable)
            if self._next_page(sequence, path) not in arriving:
                return sequence, path
        waiting = self._waiting
        if not waiting:
            return None
        if self._since_oldest >= AGEING - 1:
            oldest = waiting.oldest()
            return None if oldest.next_page in arriving else (oldest.sequence, oldest.path)
        while (place := waiting.first()) is not None and waiting.num_aside < LOOK_AHEAD:
            if place.next_page not in arriving:
                return place.sequence, place.path
            waiting.set_aside(place)
        return None

    def _enter(self, sequence: Sequence, path: list[PageNode], beginning: Beginning) -> None:
        if sequence in self._waiting:
            oldest = self._waiting.is_oldest(sequence)
            self._since_oldest = 0 if oldest else self._since_oldest + 1
            sequence.admission = self._num_admitted
            self._num_admitted += 1
            self._waiting.remove(sequence)
        else:
            self._preempted.remove(sequence)
        insort(self._running, sequence, key=_by_admission)
        self._adopt(sequence, path, beginning)
        self._count_admission(sequence)

    def _count_admission(self, sequence: Sequence) -> None:
        """A sequence's own comings back, from a preemption or from a park, are no cache hits."""
        if sequence.id in self._arrived:
            self._arrived.discard(sequence.id)
            sequence.cached = sequence.computed
        if not sequence.counted:
            sequence.counted = True
            self.counts.prompt_tokens += sequence.num_known
            self.counts.cached_tokens += sequence.computed

    def _adopt(self, sequence: Sequence, path: list[PageNode], beginning: Beginning) -> None:
        """The beginning is copied before anything is fetched, for which it might have to go."""
        away = [node for node in path if node.page < 0]
        for node in path:
            self.cache.lock(node)
        used = beginning.node
        on_host = used is not None and used.page < 0
        if used is not None:
            self.cache.lock(used)
            if not on_host:  # no more than used now: it may be the page that it is copied into
                self.cache.unlock(used)
        page = self._copied(beginning)
        for node in away:
            self.cache.fetch(node)
        if used is not None and on_host:
            self.cache.unlock(used)
        sequence.nodes = path
        sequence.pages = [node.page for node in path] + page
        sequence.computed = len(path) * self.cache.page_size + beginning.num_tokens
        sequence.stale_from = None
        self.counts.fetched_tokens += len(away) * self.cache.page_size

    def _copied(self, beginning: Beginning) -> list[int]:
        """A fresh page with these slots; none if these are none."""
        if not beginning.num_tokens:
            return []
        page = self.cache.allocate()
        assert page is not None, "there was room"
        self.cache.copy(beginning.page, page, beginning.num_tokens)
        return [page]

    def _extend_pages(self, sequence: Sequence, num_tokens: int) -> bool:
        """Pages for `num_tokens` more computed tokens, all or none."""
        end = sequence.num_slots(sequence.computed + num_tokens)
        size = self.cache.page_size
        if end <= len(sequence.pages) * size:
            return True
        needed = -(-end // size) - len(sequence.pages)
        if needed > self.cache.num_available:
            return False
        for _ in range(needed):
            page = self.cache.allocate()
            assert page is not None, "available pages can be allocated"
            sequence.pages.append(page)
        return True

    def _share_full_pages(self, sequence: Sequence) -> None:
        size, num_computed = self.cache.page_size, min(sequence.computed, len(sequence.tokens))
        while (end := (len(sequence.nodes) + 1) * size) <= num_computed:
            index = len(sequence.nodes)
            parent = sequence.nodes[-1] if sequence.nodes else self.cache.root
            key = tuple(sequence.tokens[end - size : end])
            node = self.cache.insert(parent, key, sequence.pages[index])
            sequence.pages[index] = node.page
            sequence.nodes.append(node)

    def _rewind_stale(self) -> None:
        """Where a tail was rewritten, give up the KV behind it. A page in the tree is given up
        whole, since others may read it and it is never written again; what is still right of it is
        copied, if there is a page for that.
        """
        size = self.cache.page_size
        for sequence in self._running:
            if sequence.stale_from is None:
                continue
            keep, sequence.stale_from = sequence.valid, None
            num_shared = len(sequence.nodes)
            left = None
            while len(sequence.nodes) * size > keep:
                left = sequence.nodes.pop()
                self.cache.unlock(left)
            num_kept = len(sequence.nodes) if left is not None else -(-keep // size)
            for page in sequence.pages[max(num_kept, num_shared) :]:
                self.cache.free(page)
            del sequence.pages[num_kept:]
            sequence.computed = min(keep, num_kept * size)
            if left is not None and self.cache.reuse and self.cache.num_available:
                sequence.pages += self._copied(Beginning(left.page, keep - sequence.computed))
                sequence.computed = keep

    def _release(self, sequence: Sequence) -> None:
        size, num_full = self.cache.page_size, len(sequence.nodes)
        unshared = sequence.pages[num_full:]
        tail = sequence.tokens[num_full * size : sequence.valid]
        if tail and unshared:
            parent = sequence.nodes[-1] if sequence.nodes else self.cache.root
            self.cache.insert_partial(parent, tuple(tail), unshared.pop(0))
        for page in unshared:
            self.cache.free(page)
        for node in reversed(sequence.nodes):
            self.cache.unlock(node)
        sequence.pages, sequence.nodes = [], []
        sequence.computed, sequence.stale_from = 0, None

    def _arriving_page(self, grant: Grant) -> Page | None:
        """The first page that this grant completes, named as `_next_page` names it."""
        sequence, size = grant.sequence, self.cache.page_size
        end = (len(sequence.nodes) + 1) * size
        return self._next_page(sequence, sequence.nodes) if end <= grant.end else None

    def _next_page(self, sequence: Sequence, path: list[PageNode]) -> Page | None:
        """The page that follows `path` in the sequence's prompt, if the cache could give it."""
        size = self.cache.page_size
        start = len(path) * size
        if not self.cache.reuse or start + size > len(sequence.tokens):
            return None
        parent = path[-1] if path else self.cache.root
        return id(parent), tuple(sequence.tokens[start : start + size])


def _by_admission(sequence: Sequence) -> int:
    return sequence.admission
