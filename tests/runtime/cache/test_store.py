"""Copies of pages, slot for slot."""

from __future__ import annotations

import torch
from hypothesis import given, strategies as st

from runtime.cache.copies import Copy
from runtime.cache.kv import KVPool
from runtime.cache.store import PageStore

PAGE, NUM_POOL, NUM_HOST = 3, 4, 3
pages = st.integers(0, NUM_POOL + NUM_HOST - 1)
copies = st.builds(Copy, pages, pages, st.integers(1, PAGE)).filter(lambda c: c.source != c.target)


@given(st.lists(copies, max_size=8))
def test_copies_are_done_one_after_another(asked: list[Copy]) -> None:
    """Within the pool, within the host, and from the one to the other."""
    pool = KVPool(num_layers=2, num_kv_heads=2, head_dim=4, num_slots=NUM_POOL * PAGE)
    store = PageStore(pool, page_size=PAGE, num_host_pages=NUM_HOST)
    held = torch.arange((NUM_POOL + NUM_HOST) * PAGE, dtype=torch.float32)
    for page in range(NUM_POOL + NUM_HOST):
        keys, values = store.slots(page)
        keys[:] = held[page * PAGE : (page + 1) * PAGE, None]
        values[:] = -keys
    assert (pool.keys == held[: NUM_POOL * PAGE, None]).all(), "a page has its slots in the pool"
    store.copy(asked)
    for source, target, num_slots in asked:
        for slot in range(num_slots):
            held[target * PAGE + slot] = held[source * PAGE + slot]
    for page in range(NUM_POOL + NUM_HOST):
        keys, values = store.slots(page)
        assert (keys == held[page * PAGE : (page + 1) * PAGE, None]).all()
        assert (values == -keys).all()
