"""The executor of a GPU, put together around a model.

Owns which part is given what, and what the sizes of recorded decodes follow from. The library and
the recorder are given, so that the tests put the same parts together on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from runtime.attention.flashinfer import WORKSPACE_BYTES, FlashInferAttention
from runtime.attention.page_arrays import Sharing, find_sharing
from runtime.attention.trees import num_scratch_pages
from runtime.batch import Batch
from runtime.cache.paged_kv import PagedKVPool
from runtime.executor.cuda_graph import Recorder, graph_sizes
from runtime.executor.device_runner import DeviceRunner
from runtime.model.base import Model


def gpu_executor(
    model: Model,
    *,
    num_pages: int,
    page_size: int,
    kv_dtype: torch.dtype,
    device: torch.device,
    max_running: int,
    token_budget: int,
    context_len: int,
    library: Any,
    recorder: Recorder | None,
    find_sharing: Callable[[Batch], list[Sharing]] = find_sharing,
    workspace_bytes: int = WORKSPACE_BYTES,
) -> DeviceRunner:
    """`recorder`: None if no decodes are to be recorded. Raises what torch does when there is no
    memory for the pool.
    """
    shape = model.shape
    pool = PagedKVPool(
        num_layers=shape.num_layers,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        num_pages=num_pages,
        page_size=page_size,
        num_scratch_pages=num_scratch_pages(token_budget, max_running, page_size),
        dtype=kv_dtype,
        device=device,
    )
    attention = FlashInferAttention(
        pool,
        num_heads=shape.num_heads,
        kinds=model.attention_kinds,
        library=library,
        find_sharing=find_sharing,
        workspace_bytes=workspace_bytes,
    )
    runner = DeviceRunner(model, attention, max_drawn=token_budget)
    if recorder is not None:
        longest = -(-min(context_len, num_pages * page_size) // page_size)
        runner.record(graph_sizes(max_running), max_pages=longest, recorder=recorder)
    return runner
