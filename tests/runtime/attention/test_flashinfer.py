"""The FlashInfer backend, over a FlashInfer in plain torch, against the textbook.

No GPU is needed: what the wrappers are given is checked (signatures, index arrays), not the
kernels. `tests/gpu` has those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from runtime.attention.base import AttentionKind
from runtime.attention.flashinfer import FlashInferAttention
from runtime.attention.page_arrays import Sharing, find_sharing
from runtime.attention.static_decodes import StaticDecodes
from runtime.attention.torch import TorchAttention
from runtime.batch import Batch, Grant, build_batch
from runtime.cache.copies import Copy
from runtime.cache.kv import KVPool
from runtime.cache.paged_kv import FP8, PagedKVPool
from runtime.sequence import Sequence as TokenSequence
from runtime.token_tree import TokenTree
from tests.fake_flashinfer import fake_flashinfer
from tests.flashinfer_signatures import of_package, snapshot

PAGE, HEAD_DIM, KV_HEADS, PER_KV = 4, 8, 2, 3
NUM_HEADS = KV_HEADS * PER_KV
NUM_PAGES = 512

PLAIN = AttentionKind(scale=0.3)
KINDS = (
    PLAIN,
    AttentionKind(scale=0.3, window=1),
    AttentionKind(scale=0.5, window=6),
    AttentionKind(scale=0.7, soft_cap=1.5),
)

rows_of_batches = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 13), st.integers(1, 6)), min_size=1, max_size=12
)
"""Per row: which shared prefix it has, computed tokens behind that, new tokens."""


def pool_of(dtype: torch.dtype = torch.float32) -> PagedKVPool:
    pool = PagedKVPool(
        num_layers=2,
        num_kv_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        num_pages=NUM_PAGES,
        page_size=PAGE,
        num_scratch_pages=24,
        dtype=dtype,
        device=torch.device("cpu"),
    )
    for pages in (pool.keys, pool.values):
        pages.copy_(torch.randn(pages.shape))
    return pool


def attention_over(
    pool: PagedKVPool, kinds: Sequence[AttentionKind] = KINDS, **options: Any
) -> FlashInferAttention:
    return FlashInferAttention(
        pool,
        num_heads=NUM_HEADS,
        kinds=kinds,
        library=fake_flashinfer,
        workspace_bytes=16,
        **options,
    )


def eager_sharing(batch: Batch) -> list[Sharing]:
    """Whatever can be shared is."""
    return find_sharing(batch, min_rows=2, min_tokens=1)


def nothing_shared(batch: Batch) -> list[Sharing]:
    return []


def batch_of(rows: Sequence[tuple[int, int, int]], prefix_pages: Sequence[int], seed: int) -> Batch:
    """The first of the prefixes is empty."""
    pages = iter(np.random.default_rng(seed).permutation(NUM_PAGES).tolist())
    prefixes = [[], *([next(pages) for _ in range(number)] for number in prefix_pages)]
    grants = []
    for prefix, own, new in rows:
        computed = len(prefixes[prefix]) * PAGE + own
        sequence = TokenSequence(range(computed + new))
        sequence.pages = prefixes[prefix] + [next(pages) for _ in range(-(-(own + new) // PAGE))]
        sequence.computed = computed
        grants.append(Grant(sequence, computed, new))
    return build_batch(grants, PAGE)


def textbook(
    queries: Tensor, keys: Tensor, values: Tensor, kind: AttentionKind, sinks: Tensor | None
) -> Tensor:
    """queries: [n, heads, d] of the last n positions; keys, values: [kv_len, kv_heads, d]."""
    kv_len, n = len(keys), len(queries)
    out = torch.zeros_like(queries)
    for i in range(n):
        end = kv_len - n + i + 1
        begin = 0 if kind.window is None else max(0, end - kind.window)
        for head in range(queries.shape[1]):
            scores = keys[begin:end, head // PER_KV] @ queries[i, head] * kind.scale
            if kind.soft_cap is not None:
                scores = kind.soft_cap * torch.tanh(scores / kind.soft_cap)
            if sinks is not None:
                scores = torch.cat([scores, sinks[head : head + 1].double()])
            weights = scores.softmax(0)[: end - begin]
            out[i, head] = weights @ values[begin:end, head // PER_KV]
    return out


def check(
    plan: Any, batch: Batch, pool: PagedKVPool, kind: AttentionKind, sinks: Tensor | None = None
) -> None:
    """One layer of a plan, against the textbook."""
    num_tokens = batch.num_tokens
    queries = torch.randn(num_tokens, NUM_HEADS, HEAD_DIM)
    keys, values = torch.randn(2, num_tokens, KV_HEADS, HEAD_DIM)
    padding = [0] * (getattr(plan, "num_rows", num_tokens) - num_tokens)
    places = torch.tensor([*range(num_tokens), *padding])
    found = plan.run(1, queries[places], keys[places], values[places], kind=kind, sinks=sinks)
    own_keys, own_values = (each.double().flatten(0, 1) for each in pool.layer(1))
    for row, grant in enumerate(batch.grants):
        start, end = batch.qo_indptr[row], batch.qo_indptr[row + 1]
        slots = [
            grant.sequence.pages[position // PAGE] * PAGE + position % PAGE
            for position in range(grant.end)
        ]
        torch.testing.assert_close(own_keys[slots[grant.start :]].float(), keys[start:end])
        expected = textbook(
            queries[start:end].double(), own_keys[slots], own_values[slots], kind, sinks
        )
        torch.testing.assert_close(found[start:end].double(), expected, atol=1e-5, rtol=1e-5)


@settings(max_examples=40)
@given(
    rows_of_batches,
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from(KINDS),
    st.sampled_from([eager_sharing, nothing_shared]),
    st.integers(0, 2**32 - 1),
)
def test_every_row_attends_to_its_own_prefix(
    rows: list[tuple[int, int, int]],
    prefix_pages: tuple[int, int],
    kind: AttentionKind,
    sharing: Any,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    pool = pool_of()
    batch = batch_of(rows, prefix_pages, seed)
    check(attention_over(pool, find_sharing=sharing).plan(batch), batch, pool, kind)


@settings(max_examples=40)
@given(
    rows_of_batches,
    st.sampled_from(KINDS),
    st.sampled_from([eager_sharing, nothing_shared]),
    st.integers(0, 2**32 - 1),
)
def test_sinks_take_weight_from_every_row(
    rows: list[tuple[int, int, int]], kind: AttentionKind, sharing: Any, seed: int
) -> None:
    torch.manual_seed(seed)
    pool, sinks = pool_of(), torch.randn(NUM_HEADS)
    batch = batch_of(rows, (2, 1), seed)
    check(attention_over(pool, find_sharing=sharing).plan(batch), batch, pool, kind, sinks)


@settings(max_examples=40)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 13), st.just(1)), max_size=8),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from(KINDS),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_static_decodes_are_renewed_in_place(
    batches: list[list[tuple[int, int, int]]], kind: AttentionKind, with_sinks: bool, seed: int
) -> None:
    """Batches of any number of rows up to the fixed one, one after another."""
    torch.manual_seed(seed)
    pool = pool_of()
    plan = StaticDecodes(attention_over(pool), 8, kv_indices=torch.zeros(64, dtype=torch.int32))
    places = [each.data_ptr() for each in (plan.inputs.token_ids, plan.inputs.slots)]
    sinks = torch.randn(NUM_HEADS) if with_sinks else None
    for index, rows in enumerate(filter(None, batches)):
        batch = batch_of(rows, (2, 1), seed + index)
        plan.renew(batch)
        assert plan.inputs.token_ids[: batch.num_rows].tolist() == batch.token_ids.tolist()
        assert plan.inputs.positions[: batch.num_rows].tolist() == batch.positions.tolist()
        check(plan, batch, pool, kind, sinks)
    assert places == [each.data_ptr() for each in (plan.inputs.token_ids, plan.inputs.slots)]


@settings(max_examples=60)
@given(
    num_tokens=st.integers(1, 9),
    texts=st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=8),
    neighbours=st.integers(0, 2),
    kind=st.sampled_from(KINDS),
    data=st.data(),
)
def test_a_token_of_a_tree_attends_to_its_own_line(
    num_tokens: int,
    texts: list[list[int]],
    neighbours: int,
    kind: AttentionKind,
    data: st.DataObject,
) -> None:
    """Wherever the step begins and ends, whatever is stored over what it reads, and whatever else
    is in the batch: as many more trees, and as many chains.
    """
    seed = data.draw(st.integers(0, 2**32 - 1))
    torch.manual_seed(seed)
    pages = iter(np.random.default_rng(seed).permutation(NUM_PAGES).tolist())
    grants = []
    for _ in range(neighbours + 1):
        sequence = TokenSequence(range(num_tokens), tree=TokenTree(texts))
        start = data.draw(st.integers(0, sequence.goal - 1))
        end = data.draw(st.integers(start + 1, sequence.goal))
        sequence.pages = [next(pages) for _ in range(-(-sequence.max_slots // PAGE))]
        sequence.computed = start
        grants.append(Grant(sequence, start, end - start))
    for _ in range(neighbours):
        other = TokenSequence(range(9))
        other.pages, other.computed = [next(pages) for _ in range(3)], 7
        grants.append(Grant(other, 7, 2))
    pool, sinks = pool_of(), torch.randn(NUM_HEADS) if seed % 2 else None
    before = [each.flatten(0, 1).clone() for each in pool.layer(1)]
    batch = build_batch(grants, PAGE)
    queries = torch.randn(batch.num_tokens, NUM_HEADS, HEAD_DIM)
    keys, values = torch.randn(2, batch.num_tokens, KV_HEADS, HEAD_DIM)
    plan = attention_over(pool).plan(batch)
    found = plan.run(1, queries, keys, values, kind=kind, sinks=sinks)
    reference_pool = KVPool(
        num_layers=1, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM, num_slots=len(before[0])
    )
    reference_pool.keys[0], reference_pool.values[0] = (each.transpose(0, 1) for each in before)
    for row, grant in enumerate(grants):
        sequence, start = grant.sequence, int(batch.qo_indptr[row])
        for place in range(grant.start, grant.end):
            line = list(range(min(place + 1, num_tokens if sequence.tree else 9)))
            if sequence.tree and place >= num_tokens:
                line += [num_tokens + node for node in sequence.tree.path_to(place - num_tokens)]
            own_keys, own_values = (
                torch.stack(
                    [
                        new[start + each - grant.start]
                        if each >= grant.start
                        else old[sequence.pages[at // PAGE] * PAGE + at % PAGE]
                        for at, each in enumerate(line)
                    ]
                ).double()
                for old, new in zip(before, (keys, values), strict=True)
            )
            here = slice(start + place - grant.start, start + place - grant.start + 1)
            expected = textbook(queries[here].double(), own_keys, own_values, kind, sinks)
            torch.testing.assert_close(found[here].double(), expected, atol=1e-5, rtol=1e-5)
    # What is kept of it is what the CPU path keeps.
    TorchAttention(reference_pool, num_heads=NUM_HEADS).plan(batch).run(
        0, queries, keys, values, kind=PLAIN
    )
    for kept, wanted in zip(
        pool.layer(1), (reference_pool.keys, reference_pool.values), strict=True
    ):
        assert torch.equal(
            kept[:NUM_PAGES].flatten(0, 1), wanted[0].transpose(0, 1)[: NUM_PAGES * PAGE]
        )


def test_padding_writes_to_the_scratch_page_alone() -> None:
    pool = pool_of()
    before = pool.keys[:, :NUM_PAGES].clone()
    plan = StaticDecodes(attention_over(pool), 8, kv_indices=torch.zeros(64, dtype=torch.int32))
    batch = batch_of([(0, 5, 1)], (1, 1), 0)
    plan.renew(batch)
    new = torch.full((8, KV_HEADS, HEAD_DIM), 7.0)
    plan.run(0, torch.randn(8, NUM_HEADS, HEAD_DIM), new, new, kind=PLAIN)
    changed = (pool.keys[:, :NUM_PAGES] != before).flatten(3).any(-1).nonzero().tolist()
    page, offset = divmod(int(batch.slots[0]), PAGE)
    assert changed == [[0, page, offset]]


def test_a_window_of_every_layer_needs_no_cascade_of_its_own() -> None:
    pool, windowed = pool_of(), KINDS[2]
    batch = batch_of([(1, 3, 1)] * 4, (3, 1), 0)
    attention = attention_over(pool, (windowed,), find_sharing=eager_sharing)
    check(attention.plan(batch), batch, pool, windowed)


def test_kv_in_8_bits_is_cut_off_and_not_made_a_nan() -> None:
    pool = pool_of(FP8)
    slots = torch.tensor([3, 9])
    new = torch.tensor([1e6, -1e6])[:, None, None].expand(2, KV_HEADS, HEAD_DIM)
    pool.write(0, slots, new, new / 1e6)
    keys, values = (each.float().flatten(0, 1)[slots] for each in pool.layer(0))
    assert keys[:, 0, 0].tolist() == [448.0, -448.0]
    assert values[:, 0, 0].tolist() == [1.0, -1.0]


def test_kv_in_8_bits_is_read_by_queries_in_bfloat16() -> None:
    pool = pool_of(FP8)
    batch = batch_of([(0, 5, 1), (0, 2, 3)], (1, 1), 0)
    plan = attention_over(pool, (PLAIN,)).plan(batch)
    queries = torch.randn(4, NUM_HEADS, HEAD_DIM)
    new = torch.randn(4, KV_HEADS, HEAD_DIM)
    assert plan.run(0, queries, new, new, kind=PLAIN).dtype == torch.float32


def test_few_rows_and_short_prefixes_are_not_worth_a_cascade() -> None:
    few = batch_of([(1, 1, 1)] * 7, (64, 1), 0)
    short = batch_of([(1, 1, 1)] * 8, (63, 1), 0)
    enough = batch_of([(1, 1, 1)] * 8, (64, 1), 0)
    assert find_sharing(few) == [] and find_sharing(short) == []
    assert find_sharing(enough) == [Sharing(list(range(8)), 64)]


def test_a_page_that_holds_new_tokens_is_never_shared() -> None:
    """Of rows that compute the very tokens that others have, nothing beyond these is common."""
    pages = list(range(6))
    grants = []
    for computed, new in ((20, 1), (8, 4), (23, 1)):
        sequence = TokenSequence(range(computed + new))
        sequence.pages, sequence.computed = pages, computed
        grants.append(Grant(sequence, computed, new))
    found = find_sharing(build_batch(grants, PAGE), min_rows=2, min_tokens=1)
    assert found == [Sharing([0, 1, 2], 2)]


def test_the_snapshot_of_signatures_is_the_package() -> None:
    """And the wrappers that are made and planned here are bound to it, call by call."""
    library = pytest.importorskip("flashinfer", reason="`make contracts` has flashinfer-python")
    assert of_package(library) == snapshot()


def test_a_keyword_that_the_package_does_not_know_is_refused_by_the_fake() -> None:
    wrapper = fake_flashinfer.BatchDecodeWithPagedKVCacheWrapper(torch.zeros(1, dtype=torch.uint8))
    arrays = torch.zeros(3, 1, dtype=torch.int32)
    with pytest.raises(TypeError, match="softcap"):
        wrapper.plan(*arrays, num_qo_heads=1, num_kv_heads=1, head_dim=8, page_size=4, softcap=1.0)


def test_the_first_slots_of_pages_are_copied_in_order() -> None:
    pool = pool_of()
    before = pool.keys.clone(), pool.values.clone()
    pool.copy([Copy(3, 5, 2), Copy(5, 9, PAGE)])
    for pages, old in zip((pool.keys, pool.values), before, strict=True):
        assert torch.equal(pages[:, 5, :2], old[:, 3, :2])
        assert torch.equal(pages[:, 5, 2:], old[:, 5, 2:])
        assert torch.equal(pages[:, 9], pages[:, 5])
        changed = (pages != old).flatten(2).any(-1).any(0).nonzero()[:, 0].tolist()
        assert changed == [5, 9]
