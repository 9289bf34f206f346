"""Paged attention by FlashInfer: the path of NVIDIA GPUs.

Owns which of FlashInfer's wrappers computes which rows of a batch. They are planned once a step,
with index arrays that lie on the host, so that planning does not wait for the device, and run for
every layer:

* rows of one token each: the decode wrapper;
* rows of any length: the prefill wrapper, causal;
* rows that share a long prefix: the cascade wrapper, which reads the prefix once for all of them.

Decodes can also be planned for a fixed number of rows, in memory that stays: what a CUDA graph was
recorded over (`StaticDecodes`). Index arrays are `page_arrays`' business.

FlashInfer has no float32: queries are computed in the pool's type, or in bfloat16 over 8 bits.
Source: Ye et al., FlashInfer (arXiv:2501.01005).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from runtime.attention.base import AttentionKind
from runtime.attention.page_arrays import (
    PageArrays,
    Sharing,
    arrays_of,
    cascade_arrays,
    find_sharing,
    padded,
    tokens_of,
)
from runtime.batch import Batch
from runtime.cache.paged_kv import FP8, PagedKVPool
from runtime.device.staging import Staging

LAYOUT = "NHD"

WORKSPACE_BYTES = 128 << 20
"""What FlashInfer recommends. One for all wrappers, which run one after another."""

TENSOR_CORES_FROM = 4
"""Query heads for each KV head, from which on decodes are computed as small prefills, on tensor
cores: SGLang's rule; not measured by us.
"""


@dataclass(frozen=True, slots=True)
class Inputs:
    """A step's input on the device: int64 [num_tokens] each. needed: places of the tokens whose
    hidden states are asked for.
    """

    token_ids: Tensor
    positions: Tensor
    slots: Tensor
    needed: Tensor


@dataclass(frozen=True, slots=True)
class PageTable:
    """Index arrays as the wrappers take them: all on the host but the longest."""

    arrays: PageArrays
    kv_indices: Tensor

    @property
    def qo_indptr(self) -> Tensor:
        return torch.from_numpy(self.arrays.qo_indptr)

    @property
    def kv_indptr(self) -> Tensor:
        return torch.from_numpy(self.arrays.kv_indptr)

    @property
    def last_page_len(self) -> Tensor:
        return torch.from_numpy(self.arrays.last_page_len)

    @property
    def is_decode(self) -> bool:
        return bool((np.diff(self.arrays.qo_indptr) == 1).all())


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows and the wrappers that are planned for them, one for each kind of attention. tokens:
    int64, their places in the batch; None: all of them, in order.
    """

    tokens: Tensor | None
    wrappers: dict[AttentionKind, Any]

    def run(self, queries: Tensor, pages: tuple[Tensor, Tensor], kind: AttentionKind) -> Tensor:
        out: Tensor = self.wrappers[kind].run(queries, pages)
        return out

    def run_with_sinks(
        self, queries: Tensor, pages: tuple[Tensor, Tensor], kind: AttentionKind, sinks: Tensor
    ) -> Tensor:
        """A sink is one score more below the fraction: what came out without it shrinks. (The
        wrappers' own `sinks` is not for every kernel that they may choose.)
        """
        out, log2_sums = self.wrappers[kind].run(queries, pages, return_lse=True)
        shares = torch.sigmoid(log2_sums * math.log(2) - sinks.float())
        shrunk: Tensor = out * shares[:, :, None].to(out.dtype)
        return shrunk


class FlashInferPlan:
    """A step's `AttentionPlan`, and its input."""

    def __init__(self, attention: FlashInferAttention, batch: Batch) -> None:
        self._attention = attention
        self._batch = batch
        self._whole: Part | None = None
        groups = attention.find_sharing(batch)
        together = [row for group in groups for row in group.rows]
        alone = sorted(set(range(batch.num_rows)) - set(together))
        tables = [arrays_of(batch, alone)] if alone else []
        places = [tokens_of(batch, rows) for rows in (together, alone)] if groups else []
        if groups:
            tables += [*cascade_arrays(batch, groups), arrays_of(batch, together)]
        needed = np.concatenate([batch.sample_at, batch.score_at])
        inputs = [batch.token_ids, batch.positions, batch.slots, needed]
        sent = attention.staging.send([*inputs, *places, *(t.kv_indices for t in tables)])
        longs = [each.long() for each in sent[: len(inputs) + len(places)]]
        on_device = list(map(PageTable, tables, sent[len(longs) :]))
        self.inputs = Inputs(*longs[:4])
        self._parts = []
        if alone:
            tokens = longs[5] if groups else None
            self._parts.append(attention.part(on_device.pop(0), tokens=tokens))
        if groups:
            self._parts.append(attention.sharing_part(on_device, tokens=longs[4]))

    def run(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        kind: AttentionKind,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """See `AttentionPlan`."""
        pool = self._attention.pool
        pool.write(layer, self.inputs.slots, keys, values)
        pages = pool.layer(layer)
        asked = queries.to(self._attention.dtype)
        if sinks is not None:
            out = self._unshared().run_with_sinks(asked, pages, kind, sinks)
        elif self._parts[0].tokens is None:
            out = self._parts[0].run(asked, pages, kind)
        else:
            out = torch.empty_like(asked)
            for part in self._parts:
                assert part.tokens is not None, "a part of several says which tokens it has"
                out[part.tokens] = part.run(asked[part.tokens], pages, kind)
        return out.to(queries.dtype)

    def _unshared(self) -> Part:
        """All rows, without a cascade: that does not tell its sums."""
        if self._parts[0].tokens is None:
            return self._parts[0]
        if self._whole is None:
            arrays = arrays_of(self._batch, range(self._batch.num_rows))
            table = PageTable(arrays, torch.from_numpy(arrays.kv_indices))
            self._whole = self._attention.part(table, name="whole")
        return self._whole


class FlashInferAttention:
    """An `AttentionBackend` over `pool`. kinds: all that the model's layers ask for. `library` is
    FlashInfer. find_sharing: which rows of a batch are to read a common prefix once.
    """

    def __init__(
        self,
        pool: PagedKVPool,
        *,
        num_heads: int,
        kinds: Sequence[AttentionKind],
        library: Any,
        find_sharing: Callable[[Batch], list[Sharing]] = find_sharing,
        workspace_bytes: int = WORKSPACE_BYTES,
    ) -> None:
        self.pool = pool
        self.kinds = tuple(kinds)
        self.dtype = torch.bfloat16 if pool.dtype == FP8 else pool.dtype
        self.staging = Staging(pool.device)
        self.find_sharing = find_sharing
        self._library = library
        self._num_heads = num_heads
        # Zeros, as the decode wrapper wants it for its first use.
        self._workspace = torch.zeros(workspace_bytes, dtype=torch.uint8, device=pool.device)
        self._wrappers: dict[tuple[str, AttentionKind], Any] = {}

    def plan(self, batch: Batch) -> FlashInferPlan:
        return FlashInferPlan(self, batch)

    def part(self, table: PageTable, *, tokens: Tensor | None = None, name: str = "alone") -> Part:
        """Rows that are computed each with all its pages."""
        plan = self._planned_decode if table.is_decode else self._planned_prefill
        return Part(tokens, {kind: plan(name, table, kind) for kind in self.kinds})

    def sharing_part(self, tables: Sequence[PageTable], *, tokens: Tensor) -> Part:
        """Rows that share prefixes: what they share, what each has of its own, and all of it. A
        window is counted from a row's own last token, which the level above does not know: such
        layers compute each row by itself.
        """
        above, below, whole = tables
        wrappers = {
            kind: self._planned_cascade([above, below], kind)
            if kind.window is None
            else self._planned_prefill("windowed", whole, kind)
            for kind in self.kinds
        }
        return Part(tokens, wrappers)

    def _planned_decode(self, name: str, table: PageTable, kind: AttentionKind) -> Any:
        def make() -> Any:
            return self._library.BatchDecodeWithPagedKVCacheWrapper(
                self._workspace, LAYOUT, use_tensor_cores=self._use_tensor_cores
            )

        wrapper = self._wrapper(f"decode {name}", kind, make)
        self.plan_decode(wrapper, table, kind)
        return wrapper

    def _planned_prefill(self, name: str, table: PageTable, kind: AttentionKind) -> Any:
        def make() -> Any:
            return self._library.BatchPrefillWithPagedKVCacheWrapper(self._workspace, LAYOUT)

        wrapper = self._wrapper(f"prefill {name}", kind, make)
        wrapper.plan(
            table.qo_indptr,
            table.kv_indptr,
            table.kv_indices,
            table.last_page_len,
            head_dim_qk=self.pool.head_dim,
            causal=True,
            **self._problem(kind),
        )
        return wrapper

    def _planned_cascade(self, levels: Sequence[PageTable], kind: AttentionKind) -> Any:
        def make() -> Any:
            return self._library.MultiLevelCascadeAttentionWrapper(
                len(levels), self._workspace, LAYOUT
            )

        wrapper = self._wrapper("cascade", kind, make)
        wrapper.plan(
            [level.qo_indptr for level in levels],
            [level.kv_indptr for level in levels],
            [level.kv_indices for level in levels],
            [level.last_page_len for level in levels],
            head_dim=self.pool.head_dim,
            causal=True,
            **self._problem(kind),
        )
        return wrapper

    def _wrapper(self, name: str, kind: AttentionKind, make: Callable[[], Any]) -> Any:
        """The wrapper of that name, which is kept: each has memory of its own, and one plan."""
        if (name, kind) not in self._wrappers:
            self._wrappers[name, kind] = make()
        return self._wrappers[name, kind]

    def plan_decode(self, wrapper: Any, table: PageTable, kind: AttentionKind) -> None:
        wrapper.plan(
            table.kv_indptr,
            table.kv_indices,
            table.last_page_len,
            head_dim=self.pool.head_dim,
            **self._problem(kind),
        )

    def static_wrapper(self, memory: PageMemory) -> Any:
        """A decode wrapper whose page tables stay where they are."""
        return self._library.BatchDecodeWithPagedKVCacheWrapper(
            self._workspace,
            LAYOUT,
            use_cuda_graph=True,
            use_tensor_cores=self._use_tensor_cores,
            paged_kv_indptr_buffer=memory.kv_indptr,
            paged_kv_indices_buffer=memory.kv_indices,
            paged_kv_last_page_len_buffer=memory.last_page_len,
        )

    @property
    def _use_tensor_cores(self) -> bool:
        group = self._num_heads // self.pool.num_kv_heads
        return group >= TENSOR_CORES_FROM or self.pool.dtype == FP8

    def _problem(self, kind: AttentionKind) -> dict[str, Any]:
        """What all wrappers are told alike."""
        return {
            "num_qo_heads": self._num_heads,
            "num_kv_heads": self.pool.num_kv_heads,
            "page_size": self.pool.page_size,
            "sm_scale": kind.scale,
            "window_left": -1 if kind.window is None else kind.window - 1,
            "logits_soft_cap": kind.soft_cap,
            "q_data_type": self.dtype,
            "kv_data_type": self.pool.dtype,
        }


@dataclass(frozen=True, slots=True)
class PageMemory:
    """Where the page tables of decodes lie for good: int32 [num_rows + 1], [max_pages],
    [num_rows].
    """

    kv_indptr: Tensor
    kv_indices: Tensor
    last_page_len: Tensor


class StaticDecodes:
    """An `AttentionPlan` for `num_rows` decodes that is renewed in place: what a step reads lies
    where it lay the step before, and only `renew` changes what it is.
    """

    def __init__(
        self, attention: FlashInferAttention, num_rows: int, *, kv_indices: Tensor
    ) -> None:
        """kv_indices: int32 [max_pages]; plans that take turns may share it."""
        self.num_rows = num_rows
        self._attention = attention
        device = attention.pool.device
        borders = torch.zeros(num_rows + 1, dtype=torch.int32, device=device)
        memory = PageMemory(borders, kv_indices, torch.ones_like(borders[1:]))
        wrappers = {kind: attention.static_wrapper(memory) for kind in attention.kinds}
        self._part = Part(None, wrappers)
        self._packed = torch.zeros(3 * num_rows + len(kv_indices), dtype=torch.int32, device=device)
        self._inputs = torch.zeros(3, num_rows, dtype=torch.int64, device=device)
        token_ids, positions, slots = self._inputs
        self.inputs = Inputs(token_ids, positions, slots, needed=slots[:0])

    def renew(self, batch: Batch) -> None:
        """Put a batch of decodes in; what is missing to the number of rows is padding."""
        attention, pool = self._attention, self._attention.pool
        zeros = np.zeros(self.num_rows - batch.num_rows, dtype=np.int32)
        scratch = zeros + np.int32(pool.scratch_page * pool.page_size)
        arrays = padded(
            arrays_of(batch, range(batch.num_rows)), self.num_rows, scratch_page=pool.scratch_page
        )
        begin = 3 * self.num_rows
        end = begin + len(arrays.kv_indices)
        assert end <= len(self._packed), "no row has more pages than were foreseen"
        inputs = [batch.token_ids, zeros, batch.positions, zeros, batch.slots, scratch]
        attention.staging.send_into(self._packed, [*inputs, arrays.kv_indices])
        self._inputs.view(-1).copy_(self._packed[:begin])
        kv_indices = self._packed[begin:end]
        for kind, wrapper in self._part.wrappers.items():
            attention.plan_decode(wrapper, PageTable(arrays, kv_indices), kind)

    def run(
        self,
        layer: int,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        *,
        kind: AttentionKind,
        sinks: Tensor | None = None,
    ) -> Tensor:
        """See `AttentionPlan`."""
        pool = self._attention.pool
        pool.write(layer, self.inputs.slots, keys, values)
        asked, pages = queries.to(self._attention.dtype), pool.layer(layer)
        if sinks is None:
            return self._part.run(asked, pages, kind).to(queries.dtype)
        return self._part.run_with_sinks(asked, pages, kind, sinks).to(queries.dtype)
