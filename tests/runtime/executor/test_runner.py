"""The model runner, where the memory ends."""

from __future__ import annotations

import pytest
import torch

from runtime.executor.runner import memory_errors


def test_memory_that_torch_cannot_get_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="allocate"), memory_errors():
        torch.empty(1 << 55)
    with pytest.raises(MemoryError, match="CUDA out of memory"), memory_errors():
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shape"), memory_errors():
        torch.ones(2).view(3)
