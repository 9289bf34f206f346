"""An executor around a model, on whichever device: what every process of a runtime makes.

Owns the sizes that an executor is made with, as plain values that can be sent to another process.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from runtime.attention.invariant import InvariantAttention
from runtime.attention.torch import TorchAttention
from runtime.cache.kv import KVPool
from runtime.cache.store import PageStore
from runtime.config import unallocatable
from runtime.executor.base import Executor
from runtime.executor.cuda_graph import CudaRecorder
from runtime.executor.gpu import gpu_executor
from runtime.executor.runner import ModelRunner
from runtime.flashinfer_library import flashinfer
from runtime.model.base import Model
from runtime.model.decoder import LeanModel
from runtime.model.invariant import InvariantModel


@dataclass(frozen=True, slots=True)
class ExecutorSizes:
    """Pages of the KV pool and what is in them; rows and tokens of a step, and of a sequence."""

    num_pages: int
    page_size: int
    kv_dtype: torch.dtype
    max_running: int
    token_budget: int
    context_len: int
    num_host_pages: int = 0
    host_kv_bytes: int = 0
    batch_invariant: bool = False


def build_executor(model: Model, sizes: ExecutorSizes, device: torch.device) -> Executor:
    """Raises what torch does when there is no memory for the pool, UsageError without FlashInfer
    for a GPU.
    """
    if device.type == "cpu":
        shape = model.shape
        pool = KVPool(
            num_layers=shape.num_layers,
            num_kv_heads=shape.num_kv_heads,
            head_dim=shape.head_dim,
            num_slots=sizes.num_pages * sizes.page_size,
        )
        if sizes.batch_invariant:
            attention = InvariantAttention(pool, num_heads=shape.num_heads)
            return ModelRunner(InvariantModel(model), attention, _page_store(pool, sizes))
        return ModelRunner(
            model, TorchAttention(pool, num_heads=shape.num_heads), _page_store(pool, sizes)
        )
    return gpu_executor(
        model,
        num_pages=sizes.num_pages,
        page_size=sizes.page_size,
        kv_dtype=sizes.kv_dtype,
        device=device,
        max_running=sizes.max_running,
        token_budget=sizes.token_budget,
        context_len=sizes.context_len,
        library=flashinfer(),
        # transformers' code may do what no recording can hold.
        recorder=CudaRecorder() if isinstance(model, LeanModel) else None,
    )


def _page_store(pool: KVPool, sizes: ExecutorSizes) -> PageStore:
    """Raises UsageError when there is no memory for the host's pages."""
    try:
        return PageStore(pool, page_size=sizes.page_size, num_host_pages=sizes.num_host_pages)
    except (RuntimeError, TypeError, MemoryError) as error:
        raise unallocatable(sizes.host_kv_bytes, name="host_kv_bytes") from error
