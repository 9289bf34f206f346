"""FlashInfer as its documentation has it, in plain torch: what `runtime` calls, and no more.

Every call is bound to the signature of the real package first (`tests.flashinfer_signatures`), and
the wrappers check what the real ones check. `attend` is their semantics: it knows of a batch only
what the index arrays say. It has no branch on what a tensor holds, so that it can be recorded and
replayed like a CUDA graph (`tests.tape`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from torch import Tensor

from tests.flashinfer_signatures import signature_of

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Tables:
    """The index arrays of a batch; kv_indices may be longer than kv_indptr says."""

    qo_indptr: Tensor
    kv_indptr: Tensor
    kv_indices: Tensor
    last_page_len: Tensor


def attend(
    queries: Tensor,
    pages: tuple[Tensor, Tensor],
    tables: Tables,
    *,
    causal: bool,
    scale: float,
    window_left: int = -1,
    soft_cap: float = 0.0,
    custom_mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """queries: [num_tokens, num_heads, head_dim]; pages: keys and values, each [num_pages,
    page_size, num_kv_heads, head_dim]. Returns what queries are like, and the logarithm to base 2
    of each softmax's denominator, [num_tokens, num_heads].
    """
    num_tokens, num_heads, dim = queries.shape
    page_size, num_kv_heads = pages[0].shape[1:3]
    qo_lens, num_row_pages = tables.qo_indptr.diff(), tables.kv_indptr.diff()
    kv_lens = (num_row_pages - 1) * page_size + tables.last_page_len
    kv_lens = torch.where(num_row_pages > 0, kv_lens, 0)
    # Which row each query and each slot belongs to, and where it stands there.
    tokens, places = torch.arange(num_tokens), torch.arange(len(tables.kv_indices))
    token_row = torch.searchsorted(tables.qo_indptr[1:].long(), tokens, right=True)
    page_row = torch.searchsorted(tables.kv_indptr[1:].long(), places, right=True)
    is_page = page_row < len(kv_lens)
    page_row = page_row.clamp(max=len(kv_lens) - 1)
    page_at = (places - tables.kv_indptr[page_row]) * page_size
    slot_at = (page_at[:, None] + torch.arange(page_size)).flatten()
    slot_row = page_row.repeat_interleave(page_size)
    is_slot = is_page.repeat_interleave(page_size) & (slot_at < kv_lens[slot_row])
    token_at = (kv_lens - qo_lens)[token_row] + tokens - tables.qo_indptr[token_row]
    visible = (token_row[:, None] == slot_row) & is_slot
    if causal:
        visible = visible & (slot_at <= token_at[:, None])
    if window_left >= 0:
        assert causal, "a window is counted from the query's own position"
        visible = visible & (slot_at >= token_at[:, None] - window_left)
    if custom_mask is not None:
        mask_begins = torch.cat([torch.zeros(1), (qo_lens * kv_lens).cumsum(0)[:-1]]).long()
        lines = mask_begins[token_row] + (tokens - tables.qo_indptr[token_row]) * kv_lens[token_row]
        bits = torch.where(visible, lines[:, None] + slot_at, 0)
        visible = visible & custom_mask[bits]
    keys, values = (
        each[torch.where(is_page, tables.kv_indices, 0)].float().flatten(0, 1) for each in pages
    )
    grouped = queries.float().view(num_tokens, num_kv_heads, -1, dim)
    scores = torch.einsum("nkgd,skd->nkgs", grouped, keys) * scale
    if soft_cap > 0:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    scores = scores.masked_fill(~visible[:, None, None], -torch.inf)
    sums = scores.logsumexp(-1)
    weights = torch.where(sums[..., None].isneginf(), 0.0, (scores - sums[..., None]).exp())
    weights = weights.masked_fill(~visible[:, None, None], 0.0)
    values = values.masked_fill(~is_slot[:, None, None], 0.0)  # what was never written may be NaN
    out = torch.einsum("nkgs,skd->nkgd", weights, values).reshape(queries.shape)
    return out.to(queries.dtype), sums.reshape(num_tokens, num_heads) / math.log(2)


def merge(
    out: Tensor, log2_sums: Tensor, other: Tensor, other_sums: Tensor
) -> tuple[Tensor, Tensor]:
    """Two parts of one softmax put together: FlashInfer's `merge_state`."""
    total = torch.logaddexp2(log2_sums, other_sums)
    shares = [(each - total).exp2()[..., None] for each in (log2_sums, other_sums)]
    return (out.float() * shares[0] + other.float() * shares[1]).to(out.dtype), total


def bound(function: Function) -> Function:
    """The function, after the call was bound to the real signature."""
    name = function.__qualname__

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        signature_of(name).bind(*args, **kwargs)
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _on_host(*tensors: Tensor) -> None:
    for each in tensors:
        assert each.device.type == "cpu", "planning waits for what is on the device"
        assert each.dtype == torch.int32, "index arrays are int32"


class _Wrapper:
    """What decodes and prefills have in common: one plan, and the run over it."""

    def _keep(self, tables: Tables, *, causal: bool, **problem: Any) -> None:
        self._tables, self._causal, self._problem = tables, causal, problem
        lengths = [len(tables.kv_indptr), len(tables.qo_indptr), len(tables.last_page_len) + 1]
        assert len(set(lengths)) == 1, "all index arrays are about as many rows"
        last = tables.last_page_len
        assert bool(((last >= 1) & (last <= problem["page_size"])).all()), "no page is empty"

    def _run(self, queries: Tensor, pages: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        problem = self._problem
        assert queries.is_contiguous(), "kernels may take queries for contiguous"
        assert queries.dtype == problem["q_data_type"], "queries are of the planned type"
        assert queries.shape[1:] == (problem["num_qo_heads"], problem["head_dim"])
        for each in pages:
            assert each.dtype == problem["kv_data_type"], "KV is of the planned type"
            shape = (problem["page_size"], problem["num_kv_heads"], problem["head_dim"])
            assert each.shape[1:] == shape, "the layout is NHD"
        return attend(
            queries,
            pages,
            self._tables,
            causal=self._causal,
            scale=problem["sm_scale"],
            window_left=problem["window_left"],
            soft_cap=problem["logits_soft_cap"] or 0.0,
            custom_mask=problem.get("custom_mask"),
        )


class BatchDecodeWithPagedKVCacheWrapper(_Wrapper):
    @bound
    def __init__(  # noqa: PLR0917 - as many as the real one has
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,
        use_tensor_cores: bool = False,
        paged_kv_indptr_buffer: Tensor | None = None,
        paged_kv_indices_buffer: Tensor | None = None,
        paged_kv_last_page_len_buffer: Tensor | None = None,
    ) -> None:
        assert kv_layout == "NHD" and float_workspace_buffer.dtype == torch.uint8
        self._static: Tables | None = None
        self._frozen: dict[str, Any] | None = None
        if use_cuda_graph:
            indptr, indices = paged_kv_indptr_buffer, paged_kv_indices_buffer
            last = paged_kv_last_page_len_buffer
            assert indptr is not None and indices is not None and last is not None
            assert len(indptr) == len(last) + 1, "buffers are about as many rows"
            qo_indptr = torch.arange(len(indptr), dtype=torch.int32)
            self._static = Tables(qo_indptr, indptr, indices, last)

    @bound
    def plan(self, indptr: Tensor, indices: Tensor, last_page_len: Tensor, **problem: Any) -> None:
        _on_host(indptr, last_page_len)
        tables = self._static
        if tables is None:
            qo_indptr = torch.arange(len(indptr), dtype=torch.int32)
            tables = Tables(qo_indptr, indptr.clone(), indices.clone(), last_page_len.clone())
        else:
            assert len(last_page_len) == len(tables.last_page_len), "the batch size is fixed"
            assert len(indices) <= len(tables.kv_indices), "the buffer is large enough"
            assert self._frozen in (None, problem), "a recorded problem stays what it is"
            self._frozen = problem
            tables.kv_indptr.copy_(indptr)
            tables.kv_indices[: len(indices)].copy_(indices)
            tables.last_page_len.copy_(last_page_len)
        self._keep(tables, causal=True, **problem)

    @bound
    def run(self, q: Tensor, paged_kv_cache: Any, return_lse: bool = False) -> Any:
        out = self._run(q, paged_kv_cache)
        return out if return_lse else out[0]


class BatchPrefillWithPagedKVCacheWrapper(_Wrapper):
    @bound
    def __init__(self, float_workspace_buffer: Tensor, kv_layout: str = "NHD") -> None:
        assert kv_layout == "NHD" and float_workspace_buffer.dtype == torch.uint8

    @bound
    def plan(
        self,
        qo_indptr: Tensor,
        paged_kv_indptr: Tensor,
        paged_kv_indices: Tensor,
        paged_kv_last_page_len: Tensor,
        *,
        head_dim_qk: int,
        causal: bool = False,
        **problem: Any,
    ) -> None:
        _on_host(qo_indptr, paged_kv_indptr, paged_kv_last_page_len)
        arrays = (qo_indptr, paged_kv_indptr, paged_kv_indices, paged_kv_last_page_len)
        tables = Tables(*(each.clone() for each in arrays))
        mask = problem.get("custom_mask")
        assert mask is None or (mask.dtype == torch.bool and not causal), "a mask says all"
        self._keep(tables, causal=causal, head_dim=head_dim_qk, **problem)

    @bound
    def run(self, q: Tensor, paged_kv_cache: Any, return_lse: bool = False) -> Any:
        out = self._run(q, paged_kv_cache)
        return out if return_lse else out[0]


class MultiLevelCascadeAttentionWrapper:
    @bound
    def __init__(
        self, num_levels: int, float_workspace_buffer: Tensor, kv_layout: str = "NHD"
    ) -> None:
        self._levels = [
            BatchPrefillWithPagedKVCacheWrapper(float_workspace_buffer, kv_layout)
            for _ in range(num_levels)
        ]

    @bound
    def plan(
        self,
        qo_indptr_arr: list[Tensor],
        paged_kv_indptr_arr: list[Tensor],
        paged_kv_indices_arr: list[Tensor],
        paged_kv_last_page_len: list[Tensor],
        *,
        head_dim: int,
        causal: bool = False,
        **problem: Any,
    ) -> None:
        arrays = (
            *(qo_indptr_arr, paged_kv_indptr_arr, paged_kv_indices_arr),
            paged_kv_last_page_len,
        )
        for level, own in zip(self._levels, zip(*arrays, strict=True), strict=True):
            is_last = level is self._levels[-1]
            level.plan(*own, head_dim_qk=head_dim, causal=causal and is_last, **problem)

    @bound
    def run(self, q: Tensor, paged_kv_cache: Any) -> Any:
        out, log2_sums = self._levels[-1].run(q, paged_kv_cache, return_lse=True)
        for level in self._levels[:-1]:
            other = level.run(q, paged_kv_cache, return_lse=True)
            out, log2_sums = merge(out, log2_sums, *other)
        return out


fake_flashinfer = SimpleNamespace(
    BatchDecodeWithPagedKVCacheWrapper=BatchDecodeWithPagedKVCacheWrapper,
    BatchPrefillWithPagedKVCacheWrapper=BatchPrefillWithPagedKVCacheWrapper,
    MultiLevelCascadeAttentionWrapper=MultiLevelCascadeAttentionWrapper,
)
