"""The pool's copies, slot for slot."""

from __future__ import annotations

import torch
from hypothesis import given, strategies as st

from runtime.cache.copies import Copy
from runtime.cache.kv import KVPool

PAGE, NUM_PAGES = 3, 5
pages = st.integers(0, NUM_PAGES - 1)
copies = st.builds(Copy, pages, pages, st.integers(1, PAGE)).filter(lambda c: c.source != c.target)


@given(st.lists(copies, max_size=8))
def test_copies_are_done_one_after_another(asked: list[Copy]) -> None:
    pool = KVPool(num_layers=2, num_kv_heads=2, head_dim=4, num_slots=NUM_PAGES * PAGE)
    held = [f"{page}:{slot}" for page in range(NUM_PAGES) for slot in range(PAGE)]
    names = {name: float(index) for index, name in enumerate(held)}
    for slot in range(len(held)):
        pool.keys[:, :, slot], pool.values[:, :, slot] = slot, -slot
    pool.copy(asked, PAGE)
    for source, target, num_slots in asked:
        for slot in range(num_slots):
            held[target * PAGE + slot] = held[source * PAGE + slot]
    expected = torch.tensor([names[name] for name in held])
    assert (pool.keys == expected[:, None]).all()
    assert (pool.values == -expected[:, None]).all()
