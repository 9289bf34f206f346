"""Paged attention by FlashInfer: the path of NVIDIA GPUs.

Owns which of FlashInfer's wrappers computes which rows of a batch. They are planned once a step,
with index arrays that lie on the host, so that planning does not wait for the device, and run for
every layer:

* rows of one token each: the decode wrapper;
* rows of any length: the prefill wrapper, causal;
* rows that share a long prefix: the cascade wrapper, which reads the prefix once for all of them;
* trees: the prefill wrapper with a mask, before new KV is stored (`trees`).

Index arrays are `page_arrays`' business, plans that stay where they are `static_decodes`'.

FlashInfer has no float32: queries are computed in the pool's type, or in bfloat16 over 8 bits.
Source: Ye et al., FlashInfer (arXiv:2501.01005).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    tokens_of,
)
from runtime.attention.trees import TreeArrays, tree_arrays
from runtime.batch import Batch
from runtime.cache.paged_kv import FP8, PagedKVPool
from runtime.device.staging import Fence, Staging

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
    is_cascade: bool = False

    def attend(
        self,
        queries: Tensor,
        pages: tuple[Tensor, Tensor],
        *,
        kind: AttentionKind,
        sinks: Tensor | None,
    ) -> Tensor:
        """A sink is one score more below the fraction: what came out without it shrinks. (The
        wrappers' own `sinks` is not for every kernel that they may choose.)
        """
        if sinks is None:
            out: Tensor = self.wrappers[kind].run(queries, pages)
            return out
        assert not self.is_cascade, "a cascade does not tell its sums"
        whole, log2_sums = self.wrappers[kind].run(queries, pages, return_lse=True)
        shares = torch.sigmoid(log2_sums * math.log(2) - sinks.float())
        shrunk: Tensor = whole * shares[:, :, None].to(whole.dtype)
        return shrunk


class FlashInferPlan:
    """A step's `AttentionPlan`, and its input."""

    def __init__(self, attention: FlashInferAttention, batch: Batch) -> None:
        self._attention = attention
        self._batch = batch
        self._whole: Part | None = None
        groups = attention.find_sharing(batch)
        together = [row for group in groups for row in group.rows]
        trees = sorted(batch.trees)
        alone = sorted(set(range(batch.num_rows)) - set(together) - set(trees))
        is_whole = len(alone) == batch.num_rows
        tree = None
        tables = [arrays_of(batch, alone)] if alone else []
        if groups:
            tables += [*cascade_arrays(batch, groups), arrays_of(batch, together)]
        if trees:
            tree = tree_arrays(batch, trees, scratch_page=attention.pool.scratch_page)
            tables.append(tree.arrays)
        stored = np.flatnonzero(batch.slots >= 0).astype(np.int32)
        needed = np.concatenate([batch.sample_at, batch.score_at])
        inputs = [batch.token_ids, batch.positions, batch.slots[stored], needed]
        places = [stored, *(tokens_of(batch, rows) for rows in (alone, together, trees))]
        places.append(np.empty(0, np.int32) if tree is None else tree.slots)
        sent = attention.staging.send([*inputs, *places, *(t.kv_indices for t in tables)])
        longs = [each.long() for each in sent[: len(inputs) + len(places)]]
        on_device = list(map(PageTable, tables, sent[len(longs) :]))
        self.inputs = Inputs(*longs[:4])
        self._stored = None if len(stored) == batch.num_tokens else longs[4]
        self._parts: list[Part] = []
        if alone:
            tokens = None if is_whole else longs[5]
            self._parts.append(attention.part(on_device.pop(0), tokens=tokens))
        if groups:
            self._parts.append(attention.sharing_part(on_device[:3], tokens=longs[6]))
        self._tree: Part | None = None
        if tree is not None:
            self._tree = attention.tree_part(on_device[-1], tree, tokens=longs[7])
            self._tree_slots = longs[8]

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
        pages = pool.layer(layer)
        asked = queries.to(self._attention.dtype).contiguous()
        out = torch.empty_like(asked)
        if self._tree is not None:
            own = self._tree.tokens
            pool.write(layer, self._tree_slots, keys[own], values[own])
            out[own] = self._tree.attend(asked[own], pages, kind=kind, sinks=sinks)
        if self._stored is not None:
            keys, values = keys[self._stored], values[self._stored]
        pool.write(layer, self.inputs.slots, keys, values)
        for part in self._parts if sinks is None else self._unshared():
            if part.tokens is None:
                out = part.attend(asked, pages, kind=kind, sinks=sinks)
            else:
                out[part.tokens] = part.attend(asked[part.tokens], pages, kind=kind, sinks=sinks)
        return out.to(queries.dtype)

    def _unshared(self) -> list[Part]:
        """All chains, without a cascade: that does not tell its sums."""
        if len(self._parts) < 2 and not (self._parts and self._parts[0].is_cascade):
            return self._parts
        if self._whole is None:
            batch = self._batch
            chains = sorted(set(range(batch.num_rows)) - set(batch.trees))
            arrays = arrays_of(batch, chains)
            tokens, indices = self._attention.staging.send(
                [tokens_of(batch, chains), arrays.kv_indices]
            )
            table = PageTable(arrays, indices)
            with self._attention.planning():
                self._whole = self._attention.part(table, tokens=tokens.long(), name="whole")
        return [self._whole]


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
        self._planned = Fence(pool.device)

    @contextmanager
    def planning(self) -> Iterator[None]:
        """A wrapper lays its plan out in host memory of its own and has it copied, but waits for
        nothing: before it plans again, that copy must be made.
        """
        self._planned.wait()
        yield
        self._planned.set()

    def plan(self, batch: Batch) -> FlashInferPlan:
        with self.planning():
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
        return Part(tokens, wrappers, is_cascade=True)

    def tree_part(self, table: PageTable, trees: TreeArrays, *, tokens: Tensor) -> Part:
        """Rows whose tokens see what a mask says, windows included."""
        masks = {
            window: torch.from_numpy(trees.mask(window)).to(self.pool.device)
            for window in {kind.window for kind in self.kinds}
        }
        wrappers = {
            kind: self._planned_prefill(
                "tree",
                table,
                kind,
                # Not `packed_custom_mask`: with that the package takes bits for bytes from the
                # second row on.
                custom_mask=masks[kind.window],
                window_left=-1,
            )
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

    def _planned_prefill(
        self, name: str, table: PageTable, kind: AttentionKind, **masked: Any
    ) -> Any:
        def make() -> Any:
            return self._library.BatchPrefillWithPagedKVCacheWrapper(self._workspace, LAYOUT)

        wrapper = self._wrapper(f"prefill {name}", kind, make)
        wrapper.plan(
            table.qo_indptr,
            table.kv_indptr,
            table.kv_indices,
            table.last_page_len,
            head_dim_qk=self.pool.head_dim,
            causal=not masked,
            **(self._problem(kind) | masked),
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

    def static_wrapper(self, kv_indptr: Tensor, kv_indices: Tensor, last_page_len: Tensor) -> Any:
        """A decode wrapper whose page tables stay where they are: int32 [num_rows + 1],
        [max_pages], [num_rows].
        """
        return self._library.BatchDecodeWithPagedKVCacheWrapper(
            self._workspace,
            LAYOUT,
            use_cuda_graph=True,
            use_tensor_cores=self._use_tensor_cores,
            paged_kv_indptr_buffer=kv_indptr,
            paged_kv_indices_buffer=kv_indices,
            paged_kv_last_page_len_buffer=last_page_len,
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
