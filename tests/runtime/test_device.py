"""Which device and which types are chosen, and what is refused; no GPU is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from runtime import Runtime
from runtime.config import RuntimeConfig
from runtime.device.choice import choose_device, kv_dtype, weights_dtype
from sgdsl.errors import UsageError

CPU, GPU = torch.device("cpu"), torch.device("cuda:0")


@pytest.fixture
def num_gpus(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    number: int = request.param
    monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: number)
    return number


@pytest.mark.parametrize(
    ("num_gpus", "asked", "chosen"),
    [
        (0, "auto", "cpu"),
        (0, "cpu", "cpu"),
        (2, "auto", "cuda:0"),
        (2, "cpu", "cpu"),
        (2, "cuda", "cuda:0"),
        (2, "cuda:1", "cuda:1"),
    ],
    indirect=["num_gpus"],
)
def test_auto_is_a_gpu_where_there_is_one(num_gpus: int, asked: str, chosen: str) -> None:
    assert choose_device(asked) == torch.device(chosen)


@pytest.mark.parametrize(
    ("num_gpus", "asked", "message"),
    [
        (0, "cuda", "device='cuda': there is no NVIDIA GPU to be had here"),
        (0, "cuda:3", "device='cuda:3': there is no NVIDIA GPU"),
        (2, "cuda:2", "there are 2 GPUs here, the last is 'cuda:1'"),
    ],
    indirect=["num_gpus"],
)
def test_a_gpu_that_is_not_there_is_refused(num_gpus: int, asked: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        choose_device(asked)


@pytest.mark.parametrize("asked", ["gpu", "cuda:", "cuda:01", "cuda:-1", "CPU", "", None, 0, "mps"])
def test_names_of_no_device_are_refused(asked: Any) -> None:
    with pytest.raises(UsageError, match=r"device=.*: it must be 'auto', 'cpu', 'cuda', or"):
        RuntimeConfig(device=asked)


def test_types_follow_the_device() -> None:
    assert weights_dtype("auto", CPU) == "float32" and weights_dtype("int8", CPU) == "int8"
    assert weights_dtype("auto", GPU) == weights_dtype("bfloat16", GPU) == "bfloat16"
    assert kv_dtype("auto", CPU) == kv_dtype("float32", CPU) == torch.float32
    assert kv_dtype("auto", GPU) == torch.bfloat16 and kv_dtype("fp8", GPU) == torch.float8_e4m3fn


@pytest.mark.parametrize(
    ("choose", "asked", "device"),
    [
        (weights_dtype, "float32", GPU),
        (weights_dtype, "int8", GPU),
        (kv_dtype, "float32", GPU),
        (kv_dtype, "fp8", CPU),
        (kv_dtype, "bfloat16", CPU),
    ],
)
def test_types_that_a_device_does_not_have_are_refused(
    choose: Any, asked: str, device: torch.device
) -> None:
    with pytest.raises(UsageError, match=f"dtype='{asked}' is for "):
        choose(asked, device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_runtime_says_that_there_is_no_gpu(tiny_llama_path: Path) -> None:
    with pytest.raises(UsageError, match="no NVIDIA GPU to be had here"):
        Runtime(tiny_llama_path, device="cuda")
