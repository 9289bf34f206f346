"""The eviction orders against a judge that looks at every page, every time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from runtime.cache.eviction import BRANCHING
from runtime.cache.nodes import PageNode
from runtime.cache.prefix import PrefixCache

PAGE = 2
NUM_PAGES = 5

Prefix = tuple[int, ...]
tokens = st.lists(st.integers(0, 1), min_size=1, max_size=9)


@dataclass
class Record:
    """What the judge keeps of a cached prefix. `heat`: halved at every turnover, as is written."""

    heat: float = 0.0
    used: int = 0
    locks: int = 1
    last_use: tuple[int, Prefix] | None = None


class LfuMachine(RuleBasedStateMachine):
    """Runs take prompts' pages and let them go; whenever a page has to be evicted, it is the one
    that the judge names.
    """

    eviction = "lfu"

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(num_pages=NUM_PAGES, page_size=PAGE, eviction=self.eviction)
        self.held: list[tuple[Prefix, list[PageNode]]] = []
        self.records: dict[Prefix, Record] = {}
        self.num_evicted = 0
        self.clock = 0

    @rule(prompt=tokens, user=st.integers(0, 2))
    def compute(self, prompt: list[int], user: int) -> None:
        path = self.cache.match(prompt, len(prompt) - 1)
        for node in path:
            self.cache.lock(node)
        if path:
            end = len(path) * PAGE
            self.cache.use(path[-1], user, prompt[end : end + PAGE])
        self.judge_use(tuple(prompt), len(path), user)
        while (end := (len(path) + 1) * PAGE) <= len(prompt):
            expected = self.victim() if not self.cache.num_free else None
            page = self.cache.allocate()
            if page is None:
                assert expected is None
                break
            self.judge_eviction(expected)
            parent = path[-1] if path else self.cache.root
            key = tuple(prompt[end - PAGE : end])
            path.append(self.cache.insert(parent, key, page, user=user))
            self.judge_page(tuple(prompt[:end]), user)
        self.held.append((tuple(prompt), path))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        prompt, path = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        for index in range(len(path), 0, -1):
            self.cache.unlock(path[index - 1])
            record = self.records[prompt[: index * PAGE]]
            record.locks -= 1
            self.clock += 1
            record.used = self.clock

    def judge_use(self, prompt: Prefix, num_pages: int, user: int) -> None:
        end = num_pages * PAGE
        path = [self.records[prompt[: PAGE * depth]] for depth in range(1, num_pages + 1)]
        for record in path:
            record.locks += 1
        if not path:
            return
        last = path[-1]
        onward = (user, prompt[end : end + PAGE])
        if last.last_use and last.last_use[0] != user and last.last_use[1] != onward[1]:
            for record in path:
                record.heat += BRANCHING
        last.last_use = onward

    def judge_page(self, prefix: Prefix, user: int) -> None:
        if prefix in self.records:  # its page was computed, and not looked for
            self.records[prefix].locks += 1
            return
        self.records[prefix] = Record(heat=1.0)
        if len(prefix) > PAGE:
            self.records[prefix[:-PAGE]].last_use = (user, prefix[-PAGE:])

    def judge_eviction(self, expected: Prefix | None) -> None:
        if expected is None:
            return
        self.num_evicted += 1
        assert self.cache.num_evicted == self.num_evicted
        del self.records[expected]
        assert set(self.cached()) == set(self.records)
        if self.num_evicted % NUM_PAGES == 0:
            for record in self.records.values():
                record.heat /= 2

    def cached(self) -> Iterator[Prefix]:
        for node in self.cache.nodes():
            prefix: Prefix = ()
            at: PageNode | None = node
            while at is not None:
                prefix, at = at.key + prefix, at.parent
            yield prefix

    def victim(self) -> Prefix | None:
        """The coldest leaf that nobody holds."""
        parents = {prefix[:-PAGE] for prefix in self.records}
        leaves = {
            prefix: record
            for prefix, record in self.records.items()
            if prefix not in parents and not record.locks
        }
        return min(leaves, key=lambda prefix: self.rank(leaves[prefix]), default=None)

    def rank(self, record: Record) -> tuple[float, int]:
        return record.heat, record.used


class LruMachine(LfuMachine):
    eviction = "lru"

    def rank(self, record: Record) -> tuple[float, int]:
        return 0.0, record.used


TestLfu = LfuMachine.TestCase
TestLru = LruMachine.TestCase
TestLfu.settings = TestLru.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None
)


def perform(cache: PrefixCache, prompt: list[int], user: int) -> int:
    """One run from its beginning to its end; returns how many of its pages were cached."""
    path = cache.match(prompt, len(prompt) - 1)
    num_hits = len(path)
    for node in path:
        cache.lock(node)
    if path:
        cache.use(path[-1], user, prompt[num_hits : num_hits + 1])
    for token in prompt[num_hits:]:
        page = cache.allocate()
        assert page is not None, "one run has room"
        path.append(cache.insert(path[-1] if path else cache.root, (token,), page, user=user))
    for node in reversed(path):
        cache.unlock(node)
    return num_hits


def hit_rate(eviction: str, prompts: list[list[int]], *, num_pages: int) -> float:
    """Of all pages of these prompts, one run after another, the share that was cached."""
    cache = PrefixCache(num_pages=num_pages, page_size=1, eviction=eviction)
    num_hits = sum(perform(cache, prompt, user) for user, prompt in enumerate(prompts))
    return num_hits / sum(map(len, prompts))


def few_shot(num_rows: int, *, cold: float) -> list[list[int]]:
    """Rows behind one of eight prefixes, each with a tail of its own; some share nothing."""
    draws, own = random.Random(0), iter(range(10**6, 10**9))
    rows = []
    for _ in range(num_rows):
        stem = 100 * draws.choices(range(8), [1 / rank for rank in range(1, 9)])[0]
        shared = range(stem, stem + 20)
        is_cold = draws.random() < cold
        rows.append([next(own) if is_cold else token for token in shared])
        rows[-1] += [next(own) for _ in range(10)]
    return rows


def chats(num_turns: int) -> list[list[int]]:
    """Twelve at a time; each turn is all that was said, and a little more."""
    draws, own = random.Random(0), iter(range(10**6, 10**9))
    live: dict[int, list[int]] = {}
    turns = []
    for _ in range(num_turns):
        chat = live.setdefault(draws.randrange(12), [1, 2, 3])
        if len(chat) > 40:
            chat[3:] = []
        chat += [next(own) for _ in range(3)]
        turns.append(list(chat))
    return turns


@pytest.mark.parametrize("cold", [0.0, 0.5])
@pytest.mark.parametrize("num_pages", [160, 240, 320])
def test_what_many_share_survives_a_stream_of_what_nobody_does(cold: float, num_pages: int) -> None:
    rows = few_shot(600, cold=cold)
    lru, lfu = (hit_rate(name, rows, num_pages=num_pages) for name in ("lru", "lfu"))
    assert lfu >= 1.05 * lru


@pytest.mark.parametrize("num_pages", [160, 240, 320])
def test_chats_that_grow_are_kept_by_their_last_use(num_pages: int) -> None:
    turns = chats(800)
    lru, lfu = (hit_rate(name, turns, num_pages=num_pages) for name in ("lru", "lfu"))
    assert lfu >= 0.97 * lru


def test_the_favourite_of_yesterday_makes_room() -> None:
    cache = PrefixCache(num_pages=40, page_size=1)
    for row in range(500):
        perform(cache, [*range(20), 10**9 + row], row)
    num_rows = 0
    for row, prompt in enumerate(few_shot(1000, cold=1.0), start=500):
        perform(cache, prompt, row)
        num_rows += bool(cache.match(range(20), 20))
    assert num_rows > 10, "it was worth something"
    assert num_rows * 30 <= 13 * 40, "log2(4 * 500 + 1) turnovers, and the one under way"
