"""The waiting queue: who comes next under a policy, and who has waited longest.

Owns the order of arrival, the ranks, and for every waiting sequence the last page of its prompt
that is cached. It must not know what a sequence needs, nor whether there is room for it.

A walk down the tree for every waiting sequence in every step would cost more than the step. So,
where the policy goes by the tree, a sequence is kept at the node that its walk has come to, under
the page that it would go on with: when just that page is cached it moves down, and when its node is
evicted it moves up. What does not change costs nothing. When thousands can move at once, some move
in each step: those behind stand too high for some steps, but never whoever is first.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque

from runtime.cache.nodes import PageKey, PageNode
from runtime.cache.prefix import PrefixCache
from runtime.policies import Policy, Rank
from runtime.sequence import Sequence

MOVES_AT_ONCE = 256
"""Sequences that move down in a step: of prompts of 20 pages, about 3 ms."""

Page = tuple[int, PageKey]
"""A page to come: its parent's identity, and its tokens."""


class Place:
    """Where a sequence waits. `key`: the page of its prompt behind `node`, None where the cache
    cannot give another one.
    """

    __slots__ = ("key", "node", "rank", "sequence", "ticket")

    def __init__(self, sequence: Sequence, ticket: int, node: PageNode) -> None:
        self.sequence = sequence
        self.ticket = ticket
        self.node = node
        self.key: PageKey | None = None
        self.rank: Rank = ()

    @property
    def next_page(self) -> Page | None:
        return None if self.key is None else (id(self.node), self.key)

    @property
    def path(self) -> list[PageNode]:
        """The cached pages of the prompt, in order."""
        found, node = list[PageNode](), self.node
        while node.parent is not None:
            found.append(node)
            node = node.parent
        found.reverse()
        return found


class WaitingQueue:
    """The tokens of who waits stay as they are, and they have entered the cache by their salts. The
    only observer of `cache`.
    """

    def __init__(self, cache: PrefixCache, policy: Policy) -> None:
        self.policy = policy
        self.num_tokens = 0
        """Known tokens of all that wait."""
        self._cache = cache
        self._places: OrderedDict[int, Place] = OrderedDict()  # by sequence id, oldest first
        self._heap: list[tuple[Rank, int]] = []  # with sequence ids; entries may be out of date
        self._aside: dict[int, Place] = {}
        self._grown: deque[PageNode] = deque()
        self._tickets = itertools.count()
        cache.observer = self

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, sequence: Sequence) -> bool:
        return sequence.id in self._places

    def add(self, sequence: Sequence) -> None:
        assert sequence.id not in self._places, "a sequence waits once"
        root = self._cache.root_of(sequence.salt)
        place = Place(sequence, next(self._tickets), root)
        self._places[sequence.id] = place
        self.num_tokens += sequence.num_known
        if self.policy.by_tree:
            self._descend(place, root)
        else:
            self._rank(place)

    def remove(self, sequence: Sequence) -> None:
        place = self._places.pop(sequence.id)
        self.num_tokens -= sequence.num_known
        self._aside.pop(sequence.id, None)
        if self.policy.by_tree:
            self._leave(place)

    # Who comes next.

    def settle(self) -> None:
        """Bring places up to date with the tree, so many at a time."""
        num_left = MOVES_AT_ONCE
        while self._grown and num_left:
            child = self._grown[0]
            assert child.parent is not None, "the root does not grow"
            group = (child.parent.waiters or {}).get(child.key, {}) if child.page >= 0 else {}
            movers = list(itertools.islice(group.values(), num_left))
            for place in movers:
                self._leave(place)
                self._descend(place, child)
            num_left -= len(movers)
            if not movers:  # evicted again, or whoever waited for it has moved already
                self._grown.popleft()

    def oldest(self) -> Place:
        """Who has waited longest."""
        place = next(iter(self._places.values()))
        self._update(place)
        return place

    def is_oldest(self, sequence: Sequence) -> bool:
        return next(iter(self._places)) == sequence.id

    def first(self) -> Place | None:
        """The first one by the policy, of those that are not set aside."""
        while (place := self._top()) is not None:
            if not self._update(place):
                return place
        return None

    @property
    def top_priority(self) -> int | None:
        """The highest of those that are not set aside; None if there are none."""
        place = self._top()
        return None if place is None else place.sequence.priority

    def _top(self) -> Place | None:
        """The first one by the ranks as they stand."""
        while self._heap:
            rank, sequence_id = self._heap[0]
            place = self._places.get(sequence_id)
            if place is not None and place.rank is rank and sequence_id not in self._aside:
                return place
            heapq.heappop(self._heap)
        return None

    @property
    def num_aside(self) -> int:
        return len(self._aside)

    def set_aside(self, place: Place) -> None:
        """It is not the first one until `restore`."""
        self._aside[place.sequence.id] = place

    def restore(self) -> None:
        for place in self._aside.values():
            heapq.heappush(self._heap, (place.rank, place.sequence.id))
        self._aside.clear()

    # What the cache tells.

    def grown(self, node: PageNode) -> None:
        """A page that somebody waits for is cached."""
        self._grown.append(node)

    def dropped(self, node: PageNode) -> None:
        """A page at which somebody waits is evicted; its parent is still there."""
        assert node.parent is not None, "the root is no page"
        groups, node.waiters = node.waiters or {}, None
        for group in groups.values():
            for place in group.values():
                self._stand(place, node.parent, node.key)

    def _update(self, place: Place) -> bool:
        """Have the place exact. Whether its rank may be another one now."""
        if not self.policy.by_tree:
            self._descend(place, self._cache.root_of(place.sequence.salt))
            return False
        if place.key is None or (child := place.node.children.get(place.key)) is None:
            return False
        self._leave(place)
        self._descend(place, child)
        return True

    def _descend(self, place: Place, node: PageNode) -> None:
        """From `node` on, down as far as the prompt's pages are cached."""
        tokens, size = place.sequence.tokens, self._cache.page_size
        limit = place.sequence.cacheable if self._cache.reuse else 0
        end = (node.depth + 1) * size
        while end <= limit:
            key = tuple(tokens[end - size : end])
            child = node.children.get(key)
            if child is None:
                self._stand(place, node, key)
                return
            node, end = child, end + size
        self._stand(place, node, None)

    def _stand(self, place: Place, node: PageNode, key: PageKey | None) -> None:
        place.node, place.key = node, key
        if not self.policy.by_tree:
            return
        if node.waiters is None:
            node.waiters = {}
        node.waiters.setdefault(key, {})[place.sequence.id] = place
        self._rank(place)

    def _leave(self, place: Place) -> None:
        waiters = place.node.waiters
        assert waiters is not None, "a node knows who waits at it"
        del waiters[place.key][place.sequence.id]
        if not waiters[place.key]:
            del waiters[place.key]
        if not waiters:
            place.node.waiters = None

    def _rank(self, place: Place) -> None:
        place.rank = self.policy.rank(place.sequence, place.node, place.ticket)
        if len(self._heap) > 2 * len(self._places) + 64:  # mostly entries out of date
            self._heap = [(each.rank, at) for at, each in self._places.items() if each.rank]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (place.rank, place.sequence.id))
