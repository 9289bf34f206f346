"""Kernels on a GPU against plain torch on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from grammars import Compiler, Regex
from grammars.spelling import UNREACHABLE
from grammars.token_table import TokenTable
from runtime.attention.base import AttentionKind
from runtime.attention.flashinfer import FlashInferAttention
from runtime.attention.page_arrays import find_sharing
from runtime.attention.static_decodes import StaticDecodes
from runtime.batch import Batch, Grant, build_batch
from runtime.cache.paged_kv import FP8, PagedKVPool
from runtime.device.staging import Staging
from runtime.flashinfer_library import flashinfer
from runtime.sampling.batched import draw_rows, send
from runtime.sampling.bitmask import apply_bitmask, has_kernel
from runtime.sampling.request import SampleRequest, SampleRow
from runtime.sampling.sampler import sample, unpack
from runtime.sampling.token_tables import TokenTables
from runtime.sequence import Sequence
from tests.fake_flashinfer import fake_flashinfer
from tests.grammars.vocabularies import small_vocabulary

PAGE, HEAD_DIM, KV_HEADS, NUM_HEADS, NUM_PAGES = 16, 64, 2, 8, 256
KINDS = (
    AttentionKind(scale=HEAD_DIM**-0.5),
    AttentionKind(scale=HEAD_DIM**-0.5, window=40),
    AttentionKind(scale=0.2, soft_cap=20.0),
)
CPU = torch.device("cpu")

BATCHES = {
    "decodes": [(0, 5, 1), (0, 70, 1), (0, 16, 1)],
    "prefills": [(0, 0, 33), (0, 20, 7)],
    "mixed": [(0, 9, 1), (0, 0, 50), (1, 3, 1)],
    "shared": [(1, 1 + row, 1) for row in range(12)],
    "shared and alone": [*[(1, 1 + row, 1) for row in range(12)], (0, 4, 9)],
}


def pools(dtype: torch.dtype, device: torch.device) -> list[PagedKVPool]:
    """One on the CPU and one on the GPU, with the same in them."""
    made = [
        PagedKVPool(
            num_layers=1,
            num_kv_heads=KV_HEADS,
            head_dim=HEAD_DIM,
            num_pages=NUM_PAGES,
            page_size=PAGE,
            num_scratch_pages=16,
            dtype=dtype,
            device=each,
        )
        for each in (CPU, device)
    ]
    for name in ("keys", "values"):
        numbers = torch.randn(getattr(made[0], name).shape).to(dtype)
        for pool in made:
            getattr(pool, name).copy_(numbers)
    return made


def batch_of(rows: list[tuple[int, int, int]]) -> Batch:
    """Per row: whether it has the shared prefix of 17 pages, computed tokens, new ones."""
    pages = iter(np.random.default_rng(0).permutation(NUM_PAGES).tolist())
    prefix = [next(pages) for _ in range(17)]
    grants = []
    for shares, own, new in rows:
        first = prefix * shares
        computed = len(first) * PAGE + own
        sequence = Sequence(range(computed + new))
        sequence.pages = first + [next(pages) for _ in range(-(-(own + new) // PAGE))]
        sequence.computed = computed
        grants.append(Grant(sequence, computed, new))
    return build_batch(grants, PAGE)


def attention_over(pool: PagedKVPool) -> FlashInferAttention:
    library = flashinfer() if pool.device.type == "cuda" else fake_flashinfer
    return FlashInferAttention(pool, num_heads=NUM_HEADS, kinds=KINDS, library=library)


@pytest.mark.parametrize("kind", KINDS, ids=["plain", "window", "soft cap"])
@pytest.mark.parametrize("rows", BATCHES.values(), ids=list(BATCHES))
@pytest.mark.parametrize("with_sinks", [False, True], ids=["", "sinks"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, FP8], ids=str)
def test_flashinfer_is_torch(
    dtype: torch.dtype,
    with_sinks: bool,
    rows: list[tuple[int, int, int]],
    kind: AttentionKind,
    device: torch.device,
) -> None:
    torch.manual_seed(0)
    batch = batch_of(rows)
    assert bool(find_sharing(batch)) == (len(rows) > 8)
    queries = torch.randn(batch.num_tokens, NUM_HEADS, HEAD_DIM)
    keys, values = torch.randn(2, batch.num_tokens, KV_HEADS, HEAD_DIM)
    sinks = torch.randn(NUM_HEADS) if with_sinks else None
    found: list[Tensor] = []
    for pool in pools(dtype, device):
        plan = attention_over(pool).plan(batch)
        here = [each.to(pool.device) for each in (queries, keys, values)]
        asked = None if sinks is None else sinks.to(pool.device)
        found.append(plan.run(0, *here, kind=kind, sinks=asked).cpu())
    torch.testing.assert_close(found[1], found[0], atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("kind", KINDS, ids=["plain", "window", "soft cap"])
def test_static_decodes_are_torch_when_they_are_recorded_once(
    kind: AttentionKind, device: torch.device
) -> None:
    torch.manual_seed(0)
    host, pool = pools(torch.bfloat16, device)
    indices = torch.zeros(512, dtype=torch.int32, device=device)
    plan = StaticDecodes(attention_over(pool), 4, kv_indices=indices)
    queries = torch.randn(4, NUM_HEADS, HEAD_DIM)
    keys, values = torch.randn(2, 4, KV_HEADS, HEAD_DIM)
    there = [each.to(device) for each in (queries, keys, values)]
    plan.renew(build_batch([], PAGE))
    plan.run(0, *there, kind=kind)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = plan.run(0, *there, kind=kind)
    for rows in ([(0, 5, 1), (0, 70, 1), (0, 16, 1)], [(1, 3, 1)], [(0, 200, 1)] * 4):
        batch = batch_of(rows)
        plan.renew(batch)
        graph.replay()
        number = batch.num_rows
        wanted = (
            attention_over(host)
            .plan(batch)
            .run(0, queries[:number], keys[:number], values[:number], kind=kind)
        )
        torch.testing.assert_close(out[:number].cpu(), wanted, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("vocab_size", [1, 2049, 151_936])
def test_the_bitmask_kernel_is_torch(
    vocab_size: int, dtype: torch.dtype, device: torch.device
) -> None:
    assert has_kernel(), "torch's builds for CUDA bring Triton"
    chosen = np.random.default_rng(0)
    words = chosen.integers(-(2**31), 2**31, size=(9, -(-vocab_size // 32))).astype(np.int32)
    logits = torch.randn(9, vocab_size).to(dtype)
    there = logits.to(device)
    apply_bitmask(there, torch.from_numpy(words).to(device))
    assert torch.equal(there.cpu(), logits.masked_fill(~unpack(words, vocab_size), -torch.inf))


def test_tables_on_the_device_are_those_of_the_host(device: torch.device) -> None:
    vocabulary = small_vocabulary()
    compiler = Compiler(vocabulary)
    made = [TokenTable.of(compiler.compile(Regex(each))) for each in ("[ab]{2,5}", "0|1[0-9]*x")]
    tables = [table for table in made if table is not None]
    host, there = TokenTables(tables), TokenTables(tables, device)
    states = torch.arange(sum(len(table.min_tokens) for table in tables))
    for remaining in (0, 1, 2, UNREACHABLE):
        budget = torch.full_like(states, remaining)
        found = there.allowed(states.to(device), budget.to(device)).cpu()
        assert torch.equal(found, host.allowed(states, budget))
    for token in range(vocabulary.size):
        tokens = torch.full_like(states, token)
        found = there.advance(states.to(device), tokens.to(device)).cpu()
        assert torch.equal(found, host.advance(states, tokens))


def test_draws_on_the_device_are_those_of_the_host(device: torch.device) -> None:
    chosen = np.random.default_rng(0)
    rows = [
        SampleRow(
            temperature=float(chosen.choice([0.0, 0.5, 1.0])),
            top_k=int(chosen.choice([-1, 5])),
            top_p=float(chosen.choice([1.0, 0.8])),
            draw=float(chosen.random()),
        )
        for _ in range(100)
    ]
    logits = torch.randn(100, 50_000, generator=torch.Generator().manual_seed(0))
    asked = send(SampleRequest(rows), Staging(device))
    found: list[int] = draw_rows(logits.to(device), rows, asked).tolist()
    assert found == sample(logits, rows)[0]
