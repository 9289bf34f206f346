"""The scheduler: closes the gap between known and computed tokens.

Owns who runs, the computed counts and the pages, and whether there is room for one more. Pure: no
clock, no tensor, no text; given the same calls it takes the same decisions. There is no prefill
mode and no decode mode: a sequence has a gap, and a step grants it tokens.

Who comes next is the policy's business, with one exception: every `AGEING`th that is let in is the
one that has waited longest. Whoever runs may have to leave, for lack of pages or for somebody of
higher priority (`displacement` says who), and comes back before all of its priority that wait.
Nothing starves: the one let in first leaves a bounded number of times at most, and makes progress
from then on; and everyone is that one some day.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence as List
from dataclasses import dataclass, replace

from runtime.batch import Grant
from runtime.beginnings import Beginning, Beginnings
from runtime.cache.copies import Copy
from runtime.cache.history import MIN_REACH, History
from runtime.cache.nodes import PageNode
from runtime.cache.pins import Pins
from runtime.cache.prefix import PrefixCache
from runtime.cache.rates import Rates
from runtime.displacement import may_leave, num_pages_of, who_gives_pages, who_leaves
from runtime.foresight import Usage
from runtime.page_tables import PageTables
from runtime.policies import POLICIES, Policy
from runtime.room import Room
from runtime.sequence import Sequence
from runtime.telemetry.cache_watch import CacheWatch
from runtime.waiting import Page, WaitingQueue

LOOK_AHEAD = 256
"""Waiting sequences that a step passes over: many may wait for a page that is being computed (all
options of a select do).
"""

AGEING = 16
"""Every so many admissions, one is that of who has waited longest: a policy decides on the other
fifteen, and a wait is at most sixteen times that of first come first served, in admissions.
"""


Found = tuple[Sequence, list[PageNode]]
"""Who is next, and the cached pages of its prompt."""


@dataclass(slots=True)
class SchedulerCounts:
    """Totals since the start; tokens, except `preemptions` and `displacements` (sequences)."""

    prompt_tokens: int = 0  # known tokens of every sequence when it was first admitted
    cached_tokens: int = 0  # those of them that the cache held
    reusable_tokens: int = 0  # those that a cache without bounds had held
    fetched_tokens: int = 0  # that were copied back from the host
    computed_tokens: int = 0
    preemptions: int = 0  # for lack of pages
    displacements: int = 0  # for others of higher priority
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
        self.pins = Pins(cache)
        self.watch: CacheWatch | None = None
        self.counts = SchedulerCounts()
        self.usage = Usage()
        self.rates = Rates()
        self._token_budget = token_budget
        self._max_running = max_running
        self._waiting = WaitingQueue(cache, policy)
        reach = max(MIN_REACH, 2 * cache.num_pages)
        self._history = History(page_size=cache.page_size, reach=reach)
        self._tables = PageTables(cache, self._history)
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
        self.cache.enter(sequence.salt)
        sequence.displaced = 0
        self._waiting.add(sequence)
        self._arrived.add(sequence.id)

    def remove(self, sequence: Sequence) -> None:
        """Park or finish: the sequence gives its pages back and is forgotten here."""
        self._arrived.discard(sequence.id)
        if sequence in self._waiting:
            self._waiting.remove(sequence)
        else:
            for queue in (self._running, self._preempted):
                if sequence in queue:
                    queue.remove(sequence)
            self._tables.release(sequence)
        self.cache.leave(sequence.salt)

    def schedule(self) -> list[Grant]:
        """Who gets how many tokens now. Empty only if nothing has a gap."""
        for sequence in self._running:
            if sequence.stale_from is not None:
                self._tables.rewind(sequence)
        grants: list[Grant] = []
        budget = self._grant_running(grants)
        has_room = budget > 0 and len(self._running) < self._max_running
        if self.num_waiting and (has_room or self._may_displace()):
            self._admit(grants, budget)
        return grants

    def add_drafts(self, grants: List[Grant], drafts: Mapping[int, tuple[int, ...]]) -> list[Grant]:
        """The same grants, with guesses behind those that draw (by sequence id), as far as tokens
        are left of the step and there are pages: no one gives pages back for a guess.
        """
        budget = max(0, self._token_budget - sum(grant.num_tokens for grant in grants))
        found = []
        for grant in grants:
            draft = drafts.get(grant.sequence.id, ())[:budget]
            num_tokens = grant.num_tokens + len(draft)
            if draft and self._tables.extend(grant.sequence, num_tokens):
                budget -= len(draft)
                found.append(replace(grant, num_tokens=num_tokens, draft=draft))
            else:
                found.append(grant)
        return found

    def commit(self, grants: List[Grant]) -> None:
        """The granted tokens are computed: full pages go to the tree, for everyone to use. Of a
        draft those are that have become known.
        """
        for grant in grants:
            sequence = grant.sequence
            assert sequence.computed == grant.start, "a grant starts where the computed ones end"
            sequence.computed = grant.end
            if grant.draft:
                sequence.computed = min(grant.end, sequence.num_known)
            self.counts.computed_tokens += grant.num_tokens
            self._tables.share(sequence)
            if grant.draft:
                self._tables.cut(sequence, -(-sequence.computed // self.cache.page_size))

    def take_back(self, grants: List[Grant]) -> None:
        """What was committed of these is to be computed again: what they draw and score is lost."""
        for grant in grants:
            sequence = grant.sequence
            if sequence.computed == grant.end:  # it is the one that it was
                sequence.lose(min(grant.start, len(sequence.tokens)))

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
            self._preempt([])
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
        running, gaps = [*self._running], [sequence.gap for sequence in self._running]
        budget = self._token_budget - gaps.count(1)
        is_alone = not self.num_waiting and sum(gap > 1 for gap in gaps) <= 1
        gone = set[int]()
        for sequence, gap in zip(running, gaps, strict=True):
            share = budget if is_alone or sequence.tree is None else -(-budget // 2)
            num_tokens = gap if gap <= 1 else min(gap, share)
            if num_tokens <= 0 or (gone and sequence.id in gone):
                continue
            while not self._tables.extend(sequence, num_tokens):
                left = self._preempt(grants)
                gone.add(left.id)
                if left is sequence:
                    break
            else:
                grants.append(Grant(sequence, sequence.computed, num_tokens))
                budget -= num_tokens if gap > 1 else 0
        if gone:  # some of what was granted, or kept for decodes, is free again
            budget = self._token_budget - sum(grant.num_tokens for grant in grants)
        return budget

    def _preempt(self, grants: list[Grant]) -> Sequence:
        """Pages have run out: somebody gives its own back."""
        sequence = who_gives_pages(self._running)
        sequence.displaced += sequence is not self._running[-1]
        self._set_back(sequence, grants)
        self.counts.preemptions += 1
        self.usage.was_too_low()
        return sequence

    def _set_back(self, sequence: Sequence, grants: list[Grant]) -> int:
        """It loses its pages and what it was granted, and comes in again; returns these tokens."""
        self._running.remove(sequence)
        self.counts.lost_tokens += sequence.computed
        self._tables.release(sequence)
        insort(self._preempted, sequence, key=_by_admission)
        freed = 0
        for grant in [grant for grant in grants if grant.sequence is sequence]:
            grants.remove(grant)
            freed += grant.num_tokens
        return freed

    def _may_displace(self) -> bool:
        """Whether somebody runs who would leave for one of those that do not."""
        tops = [each.priority for each in self._preempted]
        if (top := self._waiting.top_priority) is not None:
            tops.append(top)
        highest = max(tops)
        return any(may_leave(each, highest) for each in self._running)

    def _make_way(self, found: Found, grants: list[Grant], budget: int) -> int | None:
        """Have others leave for who is next, if that helps; returns the tokens that they were
        granted, None if nobody leaves.
        """
        sequence, path = found

        def is_room(leaving: List[Sequence]) -> bool:
            rest = [each for each in self._running if each not in leaving]
            room = Room(
                self.cache,
                self.usage,
                rest,
                token_budget=self._token_budget,
                num_given=num_pages_of(leaving, path),
            )
            freed = sum(grant.num_tokens for grant in grants if grant.sequence in leaving)
            gap = sequence.goal - len(path) * self.cache.page_size
            num_tokens = min(gap, budget + freed)
            fits = num_tokens > 0 and len(rest) < self._max_running
            return fits and room.is_there(sequence, path, num_tokens)

        freed = 0
        leaving = who_leaves(sequence, self._running, is_room)
        for each in leaving:
            freed += self._set_back(each, grants)
            each.displaced += 1
            self.counts.displacements += 1
        return freed if leaving else None

    def _admit(self, grants: list[Grant], budget: int) -> None:
        """Let sequences in, in order, while tokens and rows last, and there is room for what they
        will need.

        A sequence whose next page is being computed in this very step waits for it (it costs a
        step, not a page); sequences behind it may go first.
        """
        arriving = set(filter(None, map(self._arriving_page, grants)))
        room = self._room()
        fetches = self.rates.copying_pays
        beginnings = Beginnings(self.cache, self._running, from_host=fetches)
        self._waiting.settle()
        while (found := self._next_in_line(arriving)) is not None:
            sequence, path = found
            if not fetches:
                path = [node for node in path if node.page >= 0]
                found = sequence, path
            beginning = beginnings.find(sequence, path)
            num_tokens = self._num_fitting(room, found, beginning, budget)
            if not num_tokens and (freed := self._make_way(found, grants, budget)) is not None:
                budget += freed
                arriving = set(filter(None, map(self._arriving_page, grants)))
                room = self._room()
                beginnings = Beginnings(self.cache, self._running, from_host=fetches)
                beginning = beginnings.find(sequence, path)
                num_tokens = self._num_fitting(room, found, beginning, budget)
            if not num_tokens:
                break
            self._enter(sequence, path, beginning)
            extended = self._tables.extend(sequence, num_tokens)
            assert extended, "there was room"
            room.was_taken(sequence)
            grants.append(Grant(sequence, sequence.computed, num_tokens))
            budget -= num_tokens
            if (page := self._arriving_page(grants[-1])) is not None:
                arriving.add(page)
        self._waiting.restore()

    def _room(self) -> Room:
        return Room(self.cache, self.usage, self._running, token_budget=self._token_budget)

    def _num_fitting(self, room: Room, found: Found, beginning: Beginning, budget: int) -> int:
        """Tokens that can be granted to who is next; 0: no row, page or token is left for it."""
        if budget <= 0 or len(self._running) >= self._max_running:
            return 0
        sequence, path = found
        num_cached = len(path) * self.cache.page_size + beginning.num_tokens
        num_tokens = min(sequence.goal - num_cached, budget)
        assert num_tokens > 0, "whoever waits has a gap"
        return num_tokens * room.is_there(sequence, path, beginning.num_tokens + num_tokens)

    def _next_in_line(self, arriving: set[Page]) -> Found | None:
        """Who is to be let in now, with the cached pages of its prompt: who was in before goes
        before all but those of higher priority, and where it is the turn of who has waited longest,
        before all.
        """
        waiting, is_aged = self._waiting, self._since_oldest >= AGEING - 1
        again = self._first_again(arriving, by_priority=not is_aged)
        if again is not None and is_aged:
            return again
        if waiting and is_aged:
            oldest = waiting.oldest()
            return None if oldest.next_page in arriving else (oldest.sequence, oldest.path)
        while (place := waiting.first()) is not None and waiting.num_aside < LOOK_AHEAD:
            if again is not None and place.sequence.priority <= again[0].priority:
                return again
            if place.next_page not in arriving:
                return place.sequence, place.path
            waiting.set_aside(place)
        return again

    def _first_again(self, arriving: set[Page], *, by_priority: bool) -> Found | None:
        """Of those that were in before, the one that was let in first; or of the highest priority,
        that one.
        """
        again = self._preempted
        if by_priority:
            again = sorted(again, key=lambda each: -each.priority)
        for sequence in again:
            path = self.cache.match(sequence.tokens, sequence.cacheable, sequence.salt)
            if self._next_page(sequence, path) not in arriving:
                return sequence, path
        return None

    def _enter(self, sequence: Sequence, path: list[PageNode], beginning: Beginning) -> None:
        if sequence in self._waiting:
            oldest = self._waiting.is_oldest(sequence) and not self._preempted
            self._since_oldest = 0 if oldest else self._since_oldest + 1
            sequence.admission = self._num_admitted
            self._num_admitted += 1
            self._waiting.remove(sequence)
        else:
            self._preempted.remove(sequence)
        insort(self._running, sequence, key=_by_admission)
        num_fetched = self._tables.adopt(sequence, path, beginning)
        self.counts.fetched_tokens += num_fetched * self.cache.page_size
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
            self._note_prompt(sequence)

    def _note_prompt(self, sequence: Sequence) -> None:
        """How much of it could have been cached."""
        nodes, cached = sequence.nodes, sequence.computed
        path = nodes[-1] if nodes else self.cache.root_of(sequence.salt)
        start = path.depth * self.cache.page_size
        limit = sequence.cacheable - start
        known = start + self._history.note(path.chain, sequence.tokens[start:], limit=limit)
        reusable = max(known, cached)
        self.counts.reusable_tokens += reusable
        if (watch := self.watch) is not None:
            watch.saw(sequence.tokens, sequence.salt, cached=cached, reusable=reusable)
            if watch.is_due:
                watch.look(self.cache.num_evicted)

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
        parent = path[-1] if path else self.cache.root_of(sequence.salt)
        return id(parent), tuple(sequence.tokens[start : start + size])


def _by_admission(sequence: Sequence) -> int:
    return sequence.admission
