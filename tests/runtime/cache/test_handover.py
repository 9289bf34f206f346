"""Which prefixes are handed over, and how they come back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from hypothesis import given, strategies as st

from runtime.cache.file import Prefixes
from runtime.cache.handover import Handover, give, hottest
from runtime.cache.kv import KVPool
from runtime.cache.nodes import PageNode
from runtime.cache.pins import Pins
from runtime.cache.prefix import PrefixCache
from runtime.cache.store import PageStore

PAGE = 2


def store(num_pages: int) -> PageStore:
    pool = KVPool(num_layers=2, num_kv_heads=2, head_dim=4, num_slots=num_pages * PAGE)
    pool.keys.fill_(-1)
    pool.values.fill_(-1)
    return PageStore(pool, page_size=PAGE)


def compute(
    cache: PrefixCache, tokens: list[int], *, salt: str = "", user: int = 0, pages: PageStore
) -> list[PageNode]:
    """Cache the whole pages, whose KV is the hash of their path; the last tokens as a beginning."""
    cache.enter(salt)
    path = cache.match(tokens, len(tokens), salt)
    for node in path:
        cache.lock(node)
    if path:
        cache.use(path[-1], user, tokens[len(path) * PAGE :][:PAGE])
    for start in range(len(path) * PAGE, len(tokens) - PAGE + 1, PAGE):
        page = cache.allocate()
        assert page is not None
        parent = path[-1] if path else cache.root_of(salt)
        node = cache.insert(parent, tuple(tokens[start : start + PAGE]), page, user=user)
        for part in pages.slots(node.page):
            part.fill_(kv_of(node))
        path.append(node)
    if len(tokens) % PAGE and (rest := cache.allocate()) is not None:
        parent = path[-1] if path else cache.root_of(salt)
        cache.insert_partial(parent, tuple(tokens[-(len(tokens) % PAGE) :]), rest)
    for node in reversed(path):
        cache.unlock(node)
    cache.leave(salt)
    return path


def kv_of(node: PageNode) -> float:
    return float(node.chain % 1000)


def paths(cache: PrefixCache) -> set[int]:
    """Of whole pages without a salt: their chains."""
    found, stack = set[int](), list[PageNode]([cache.root])
    while stack:
        for node in stack.pop().children.values():
            if len(node.key) == PAGE:
                found.add(node.chain)
                stack.append(node)
    return found


prompts = st.lists(st.integers(0, 2), min_size=1, max_size=9)


@given(
    given_prompts=st.lists(st.tuples(prompts, st.sampled_from(["", "", "theirs"])), max_size=8),
    most=st.integers(0, 40),
    num_pages=st.integers(1, 40),
    num_pinned=st.integers(0, 3),
)
def test_what_comes_back_is_what_was_there(
    given_prompts: list[tuple[list[int], str]], most: int, num_pages: int, num_pinned: int
) -> None:
    pages = store(100)
    cache = PrefixCache(num_pages=100, page_size=PAGE)
    pins = Pins(cache)
    for user, (tokens, salt) in enumerate(given_prompts):
        path = compute(cache, tokens, salt=salt, user=user, pages=pages)
        if user < num_pinned and not salt:
            pins.promise(user, tokens, salt="", longest=0)
            pins.hold(user, path)
    chosen = hottest(cache, pins.nodes, most)
    assert len(chosen) == len(set(chosen)) == min(most, len(paths(cache)))
    for index, node in enumerate(chosen):
        assert node.parent is cache.root or node.parent in chosen[:index], "a path is closed"
    missed = pins.nodes - set(chosen)
    assert not missed or set(chosen) <= set(pins.nodes), "what is pinned comes first"

    handover = Handover(Path("unused"), {}, pages=pages, tell=print)
    everything = handover.take(cache, pins)
    assert len(everything) == len(paths(cache))
    there, others = store(num_pages), PrefixCache(num_pages=num_pages, page_size=PAGE)
    give(everything, others, there)
    others.check_integrity()
    assert others.num_available == num_pages, "nothing is locked"
    assert others.num_cached == min(num_pages, len(paths(cache))), "as many as there is room for"
    assert paths(others) <= paths(cache)
    assert paths(others) == {node.chain for node in hottest(cache, pins.nodes, 100)[:num_pages]}
    for node in others.nodes():
        for part in there.slots(node.page):
            assert (part == kv_of(node)).all(), "its KV is that of its tokens"


def test_what_many_runs_part_from_comes_first() -> None:
    pages, cache = store(100), PrefixCache(num_pages=100, page_size=PAGE)
    shared = [1, 2, 3, 4]
    for user in range(5):
        compute(cache, [*shared, user, user], user=user, pages=pages)
    compute(cache, [7, 7, 8, 8, 9, 9], user=9, pages=pages)
    assert [node.key for node in hottest(cache, (), 2)] == [(1, 2), (3, 4)]
    assert [node.depth for node in hottest(cache, (), 100)][:2] == [1, 2]


def test_what_comes_first_in_the_file_is_evicted_last() -> None:
    pages, cache = store(3), PrefixCache(num_pages=3, page_size=PAGE)
    three = Prefixes(
        tokens=np.array([[1, 1], [2, 2], [3, 3]]),
        parents=np.array([-1, -1, -1]),
        pages=np.zeros((3, *pages.page_shape), np.float32),
    )
    give(three, cache, pages)
    for expected in ({(1, 1), (2, 2)}, {(1, 1)}, set()):
        assert cache.allocate() is not None
        assert {node.key for node in cache.nodes()} == expected


def test_a_page_of_the_store_is_read_as_it_was_written() -> None:
    pages = store(3)
    content = torch.arange(2 * 2 * 2 * PAGE * 4, dtype=torch.float32).reshape(pages.page_shape)
    pages.write(1, content.numpy())
    assert torch.equal(pages.read([1])[0], content)
    assert (pages.read([0, 2]) == -1).all(), "its neighbours are as they were"
    assert pages.read([]).shape == (0, *pages.page_shape)
    assert content.nbytes == pages.page_bytes
