"""The prefix cache against a plain model of it: a set of prefixes, with locks and a use order."""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.cache.copies import Copy
from runtime.cache.keys import num_common
from runtime.cache.nodes import PageNode, Root
from runtime.cache.prefix import PrefixCache

PAGE = 3
NUM_PAGES = 6

tokens = st.lists(st.integers(0, 2), min_size=0, max_size=4 * PAGE)
salts = st.sampled_from(["", "", "ours", "theirs"])
Holding = tuple[str, list[PageNode]]
Prefix = tuple[str, tuple[int, ...]]


class CacheMachine(RuleBasedStateMachine):
    """Holders take a prompt's pages, as sequences do; the judge is the set of cached prefixes."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = PrefixCache(num_pages=NUM_PAGES, page_size=PAGE)
        self.held: list[Holding] = []
        self.pages: dict[Prefix, int] = {}  # the judge: what each cached prefix is in

    @rule(prompt=tokens, salt=salts)
    def hold(self, prompt: list[int], salt: str) -> None:
        path = self.cache.match(prompt, len(prompt), salt)
        assert [node.page for node in path] == self.expected(prompt, salt)
        self.cache.enter(salt)
        for node in path:
            self.cache.lock(node)
        for start in range(len(path) * PAGE, len(prompt) - PAGE + 1, PAGE):
            page = self.cache.allocate()
            if page is None:
                break
            self.forget_evicted()
            parent = path[-1] if path else self.cache.root_of(salt)
            node = self.cache.insert(parent, tuple(prompt[start : start + PAGE]), page)
            self.pages[salt, tuple(prompt[: start + PAGE])] = node.page
            path.append(node)
        self.held.append((salt, path))

    @precondition(lambda self: self.held)
    @rule(data=st.data(), tail=st.lists(st.integers(0, 2), max_size=PAGE - 1))
    def let_go(self, data: st.DataObject, tail: list[int]) -> None:
        """With `tail` in a page that is not full."""
        salt, path = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        page = self.cache.allocate() if tail else None
        self.forget_evicted()
        if page is not None:
            parent = path[-1] if path else self.cache.root_of(salt)
            free, there = self.cache.num_free, dict(parent.children)
            self.cache.insert_partial(parent, tuple(tail), page)
            begun = [key for key in there if key[: len(tail)] == tuple(tail)]
            shorter = [key for key in there if tuple(tail)[: len(key)] == key]
            assert self.cache.num_free == free + bool(begun or shorter)
            assert bool(begun) == (there == parent.children)
            assert not set(parent.children) & (set(shorter) - set(begun))
        for node in reversed(path):
            self.cache.unlock(node)
        self.cache.leave(salt)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), wanted=st.lists(st.integers(0, 2), min_size=1, max_size=PAGE))
    def look_for_a_beginning(self, data: st.DataObject, wanted: list[int]) -> None:
        salt, path = data.draw(st.sampled_from(self.held))
        node = path[-1] if path else self.cache.root_of(salt)
        found = self.cache.beginning(node, wanted)
        most = max((num_common(key, wanted) for key in node.children), default=0)
        assert most == (0 if found is None else found[1])
        if found is not None:
            assert found[0].parent is node
            assert list(found[0].key[:most]) == wanted[:most]

    @rule()
    def flush(self) -> None:
        self.cache.flush()
        self.forget_evicted()
        assert set(self.pages.values()) == self.locked()

    def locked(self) -> set[int]:
        return {node.page for _, path in self.held for node in path}

    def expected(self, prompt: list[int], salt: str) -> list[int]:
        found = []
        for end in range(PAGE, len(prompt) + 1, PAGE):
            if (salt, tuple(prompt[:end])) not in self.pages:
                break
            found.append(self.pages[salt, tuple(prompt[:end])])
        return found

    def forget_evicted(self) -> None:
        alive = {node.page for node in self.cache.nodes()}
        gone = [prefix for prefix, page in self.pages.items() if page not in alive]
        for prefix in gone:
            assert self.pages.pop(prefix) not in self.locked(), "what is locked is not evicted"

    @invariant()
    def every_page_is_free_or_cached(self) -> None:
        self.cache.check_integrity()
        assert self.cache.num_free + self.cache.num_cached == NUM_PAGES
        assert self.cache.num_available == NUM_PAGES - len(self.locked())

    @invariant()
    def a_salt_is_known_while_it_has_holders_or_pages(self) -> None:
        known = {salt for salt, _ in self.held}
        for node in self.cache.nodes():
            if isinstance(node.parent, Root):
                known.add(node.parent.salt)
        assert self.cache.num_salts == len(known - {""})


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)


WIDTH = 2
"""Tokens of a page, in the examples."""


def fill(cache: PrefixCache, prompt: list[int]) -> list[PageNode]:
    path: list[PageNode] = []
    for start in range(0, len(prompt), WIDTH):
        page = cache.allocate()
        assert page is not None, "the test keeps within the pool"
        parent = path[-1] if path else cache.root
        path.append(cache.insert(parent, tuple(prompt[start : start + WIDTH]), page))
    return path


def release(cache: PrefixCache, path: list[PageNode]) -> None:
    for node in reversed(path):
        cache.unlock(node)


def test_the_least_recently_used_prefix_is_evicted_first() -> None:
    cache = PrefixCache(num_pages=2, page_size=WIDTH)
    for prompt in ([1, 1], [2, 2]):
        release(cache, fill(cache, prompt))
    used_again = cache.match([1, 1], 2)
    for node in used_again:
        cache.lock(node)
    release(cache, used_again)
    assert cache.allocate() is not None
    assert [node.key for node in cache.nodes()] == [(1, 1)]


def test_a_prefix_outlives_its_continuations() -> None:
    cache = PrefixCache(num_pages=3, page_size=WIDTH)
    release(cache, fill(cache, [1, 1, 2, 2, 3, 3]))
    assert cache.allocate() is not None
    assert len(cache.match([1, 1, 2, 2, 3, 3], 6)) == 2


def test_computing_a_page_twice_keeps_one_of_them() -> None:
    cache = PrefixCache(num_pages=2, page_size=WIDTH)
    first, second = cache.allocate(), cache.allocate()
    assert first is not None
    assert second is not None
    a = cache.insert(cache.root, (1, 1), first)
    b = cache.insert(cache.root, (1, 1), second)
    assert a is b
    assert a.locks == 2
    assert cache.num_free == 1


def test_an_unlocked_node_cannot_be_unlocked() -> None:
    cache = PrefixCache(num_pages=1, page_size=WIDTH)
    path = fill(cache, [1, 1])
    release(cache, path)
    with pytest.raises(AssertionError, match="only what is locked"):
        cache.unlock(path[0])


def test_without_reuse_nothing_is_found_and_nothing_is_kept() -> None:
    cache = PrefixCache(num_pages=2, page_size=WIDTH, reuse=False)
    path = fill(cache, [1, 1, 2, 2])
    assert cache.match([1, 1, 2, 2], 4) == []
    release(cache, path)
    assert (cache.num_free, cache.num_cached) == (2, 0)


def test_a_hot_prefix_does_not_grow_the_bookkeeping() -> None:
    cache = PrefixCache(num_pages=4, page_size=WIDTH)
    path = fill(cache, [1, 1])
    for _ in range(10_000):
        release(cache, path)
        cache.lock(path[0])
    assert len(cache._leaves) < 200


def test_the_page_that_goes_further_takes_the_place_of_a_beginning() -> None:
    cache = PrefixCache(num_pages=4, page_size=4)
    pages = [cache.allocate() for _ in range(4)]
    assert None not in pages
    a, b, c, d = (page for page in pages if page is not None)
    cache.insert_partial(cache.root, (1, 2), a)
    cache.insert_partial(cache.root, (1, 2, 3), b)
    assert [(node.key, node.page) for node in cache.nodes()] == [((1, 2, 3), b)]
    cache.insert_partial(cache.root, (1,), c)
    assert cache.num_free == 2, "what is there already is not kept twice"
    node = cache.insert(cache.root, (1, 2, 3, 4), d)
    assert list(cache.nodes()) == [node]
    cache.check_integrity()


def test_copies_are_taken_in_the_order_in_which_they_were_asked_for() -> None:
    cache = PrefixCache(num_pages=4, page_size=4)
    for source, target in ((0, 1), (1, 2), (3, 3)):
        cache.copy(source, target, 4)
    assert cache.copies == [Copy(0, 1, 4), Copy(1, 2, 4)], "a page is no copy of itself"
