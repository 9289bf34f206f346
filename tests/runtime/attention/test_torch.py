"""Paged attention against the textbook: one row at a time, in float64, nothing paged."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from runtime.attention.base import AttentionKind
from runtime.attention.invariant import InvariantAttention
from runtime.attention.torch import TorchAttention
from runtime.batch import Grant, build_batch
from runtime.cache.kv import KVPool
from runtime.sequence import Sequence
from runtime.token_tree import TokenTree

PAGE, HEAD_DIM, KV_HEADS, PER_KV = 4, 8, 2, 3
NUM_PAGES = 64


def textbook(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    kind: AttentionKind,
    sinks: Tensor | None = None,
) -> Tensor:
    """queries: [n, heads, d] of the last n positions; keys, values: [kv_len, kv_heads, d]."""
    kv_len, n = len(keys), len(queries)
    out = torch.zeros_like(queries)
    for i in range(n):
        end = kv_len - n + i + 1
        visible = slice(max(0, end - (kind.window or end)), end)
        for head in range(queries.shape[1]):
            scores = keys[visible, head // PER_KV] @ queries[i, head] * kind.scale
            if kind.soft_cap is not None:
                scores = kind.soft_cap * torch.tanh(scores / kind.soft_cap)
            if sinks is not None:
                scores = torch.cat([scores, sinks[head].view(1)])
            weights = scores.softmax(0)[: end - visible.start]
            out[i, head] = weights @ values[visible, head // PER_KV]
    return out


Backend = type[TorchAttention] | type[InvariantAttention]
backends = st.sampled_from([TorchAttention, InvariantAttention])
kinds = st.builds(
    AttentionKind,
    scale=st.just(0.3),
    window=st.none() | st.integers(1, 30),
    soft_cap=st.none() | st.just(0.5),
)


@settings(max_examples=60, deadline=None)
@given(
    shared_pages=st.integers(0, 3),
    rows=st.lists(
        st.tuples(st.lists(st.integers(0, 1), max_size=3), st.integers(0, 13), st.integers(1, 6)),
        min_size=1,
        max_size=40,
    ),
    attention=backends,
    kind=kinds,
    has_sinks=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_row_attends_to_its_own_prefix(
    shared_pages: int,
    rows: list[tuple[list[int], int, int]],
    *,
    attention: Backend,
    kind: AttentionKind,
    has_sinks: bool,
    seed: int,
) -> None:
    """rows: behind the pages that all share, the path through a tree of further ones; computed
    tokens behind that; new ones. Pages that lie outside of all windows hold no numbers.
    """
    torch.manual_seed(seed)
    pool = KVPool(num_layers=1, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM, num_slots=PAGE * 512)
    pool.keys.normal_()
    pool.values.normal_()
    pages = iter(np.random.default_rng(seed).permutation(512).tolist())
    shared = [next(pages) for _ in range(shared_pages)]
    tree: dict[tuple[int, ...], int] = {}
    grants = []
    for path, own, new in rows:
        computed = (shared_pages + len(path)) * PAGE + own
        sequence = Sequence(range(computed + new))
        sequence.pages = list(shared)
        for end in range(1, len(path) + 1):
            if tuple(path[:end]) not in tree:
                tree[tuple(path[:end])] = next(pages)
            sequence.pages.append(tree[tuple(path[:end])])
        sequence.pages += [next(pages) for _ in range(-(-(own + new) // PAGE))]
        sequence.computed = computed
        grants.append(Grant(sequence, computed, new))
    batch = build_batch(grants, PAGE)
    num_tokens = batch.num_tokens
    num_heads = KV_HEADS * PER_KV
    queries = torch.randn(num_tokens, num_heads, HEAD_DIM)
    keys = torch.randn(num_tokens, KV_HEADS, HEAD_DIM)
    values = torch.randn(num_tokens, KV_HEADS, HEAD_DIM)
    sinks = torch.randn(num_heads) if has_sinks else None
    seen = {page for grant in grants for page in pages_in_sight(grant, kind.window)}
    for page in set(range(512)) - seen:
        pool.keys[:, :, page * PAGE : (page + 1) * PAGE] = torch.nan
        pool.values[:, :, page * PAGE : (page + 1) * PAGE] = torch.nan
    plan = attention(pool, num_heads=num_heads).plan(batch)
    found = plan.run(0, queries, keys, values, kind=kind, sinks=sinks)
    assert found.shape == (num_tokens, KV_HEADS * PER_KV, HEAD_DIM)
    for row, grant in enumerate(grants):
        start, end = batch.qo_indptr[row], batch.qo_indptr[row + 1]
        slots = [
            grant.sequence.pages[position // PAGE] * PAGE + position % PAGE
            for position in range(grant.end)
        ]
        expected = textbook(
            queries[start:end].double(),
            pool.keys[0][:, slots].transpose(0, 1).double(),
            pool.values[0][:, slots].transpose(0, 1).double(),
            kind=kind,
            sinks=None if sinks is None else sinks.double(),
        )
        torch.testing.assert_close(found[start:end].double(), expected, atol=1e-5, rtol=1e-5)
        new_slots = torch.tensor(slots[grant.start :])
        torch.testing.assert_close(pool.keys[0][:, new_slots], keys[start:end].transpose(0, 1))


def pages_in_sight(grant: Grant, window: int | None) -> list[int]:
    first = 0 if window is None else max(0, grant.start - window + 1)
    return list(grant.sequence.pages[first // PAGE :])


@settings(max_examples=80, deadline=None)
@given(
    num_tokens=st.integers(1, 9),
    texts=st.lists(st.lists(st.integers(0, 2), max_size=7), min_size=1, max_size=12),
    neighbour=st.integers(0, 6),
    attention=backends,
    kind=kinds,
    data=st.data(),
)
def test_a_token_of_a_tree_attends_to_its_own_line(
    num_tokens: int,
    texts: list[list[int]],
    *,
    neighbour: int,
    attention: Backend,
    kind: AttentionKind,
    data: st.DataObject,
) -> None:
    """Wherever the step begins and ends, and whatever is stored over what it reads. `neighbour`: so
    many tokens of another row.
    """
    goal = Sequence(range(num_tokens), tree=TokenTree(texts)).goal
    start = data.draw(st.integers(0, goal - 1))
    end = data.draw(st.integers(start + 1, goal))
    check_tree(range(num_tokens), texts, (start, end), neighbour, attention=attention, kind=kind)


@pytest.mark.parametrize("attention", [TorchAttention, InvariantAttention])
def test_a_step_that_goes_on_with_a_tree_comes_back_to_its_root(attention: Backend) -> None:
    """Tokens of a later option see more of what was before than the step's first one."""
    kind = AttentionKind(0.3, window=2)
    check_tree(range(1), [[0] * 5, [1, 0]], (2, 6), 0, attention=attention, kind=kind)


def check_tree(
    tokens: range,
    texts: list[list[int]],
    computed: tuple[int, int],
    neighbour: int,
    *,
    attention: Backend,
    kind: AttentionKind,
) -> None:
    """Of a step that computes these places of the row."""
    num_tokens, (start, end) = len(tokens), computed
    tree = TokenTree(texts)
    sequence = Sequence(tokens, tree=tree)
    pages = np.random.default_rng(start).permutation(NUM_PAGES).tolist()
    sequence.pages = pages[: -(-sequence.max_slots // PAGE)]
    sequence.computed = start
    other = Sequence(range(neighbour + 5))
    other.pages, other.computed = pages[-3:], 5
    grants = [Grant(sequence, start, end - start)]
    if neighbour:
        grants.append(Grant(other, 5, neighbour))
    pool = KVPool(
        num_layers=1, num_kv_heads=KV_HEADS, head_dim=HEAD_DIM, num_slots=PAGE * NUM_PAGES
    )
    pool.keys.normal_()
    pool.values.normal_()
    before = pool.keys[0].clone(), pool.values[0].clone()
    batch = build_batch(grants, PAGE)
    queries = torch.randn(batch.num_tokens, KV_HEADS * PER_KV, HEAD_DIM)
    keys = torch.randn(batch.num_tokens, KV_HEADS, HEAD_DIM)
    values = torch.randn(batch.num_tokens, KV_HEADS, HEAD_DIM)
    plan = attention(pool, num_heads=KV_HEADS * PER_KV).plan(batch)
    found = plan.run(0, queries, keys, values, kind=kind)

    def slot(position: int) -> int:
        return int(sequence.pages[position // PAGE] * PAGE + position % PAGE)

    for place in range(start, end):
        line = list(range(min(place + 1, num_tokens)))
        if place >= num_tokens:
            line += [num_tokens + node for node in tree.path_to(place - num_tokens)]
        known_keys, known_values = (
            torch.stack(
                [
                    new[each - start] if each >= start else cached[:, slot(position)]
                    for position, each in enumerate(line)
                ]
            ).double()
            for cached, new in zip(before, (keys, values), strict=True)
        )
        here = slice(place - start, place - start + 1)
        expected = textbook(queries[here].double(), known_keys, known_values, kind=kind)
        torch.testing.assert_close(found[here].double(), expected, atol=1e-5, rtol=1e-5)
    if end < sequence.goal:  # what goes on finds its line in the pages
        line = list(range(min(end, num_tokens)))
        if end > num_tokens:
            line += [num_tokens + node for node in tree.path_to(end - 1 - num_tokens)]
        for position, each in enumerate(line):
            kept = keys[each - start] if each >= start else before[0][:, slot(position)]
            torch.testing.assert_close(pool.keys[0][:, slot(position)], kept)


@pytest.mark.parametrize("attention", [TorchAttention, InvariantAttention])
def test_untouched_slots_never_matter(attention: Backend) -> None:
    """Padding points at some slot; even if that holds nonsense, it has no weight."""
    pool = KVPool(num_layers=1, num_kv_heads=1, head_dim=4, num_slots=PAGE * 8)
    pool.keys.fill_(0.0)
    pool.values.fill_(0.0)
    pool.keys[:, :, 0] = 1e30
    pool.values[:, :, 0] = 1e30
    grants = []
    for first_page, computed in ((1, 1), (2, 6)):
        sequence = Sequence(range(computed + 1))
        sequence.pages = [first_page, first_page + 3]
        sequence.computed = computed
        grants.append(Grant(sequence, computed, 1))
    batch = build_batch(grants, PAGE)
    queries = torch.ones(2, 1, 4)
    plan = attention(pool, num_heads=1).plan(batch)
    found = plan.run(0, queries, queries, queries, kind=AttentionKind(scale=1.0))
    assert found.isfinite().all()
    assert (found.abs() <= 1).all()
