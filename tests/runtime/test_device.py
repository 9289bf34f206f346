"""Which device and which types are chosen, and what is refused; no GPU is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from runtime import Runtime, local, sizes
from runtime.config import RuntimeConfig
from runtime.device.choice import choose_device, gpu_kv_bytes, kv_dtype, weights_dtype
from runtime.model.load import load_model
from runtime.sizes import GIB, StepShape
from sgdsl.errors import UsageError
from tests.tiny_llama import INTERMEDIATE_SIZE, VOCAB_SIZE

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


STEP = StepShape(token_budget=8192, max_running=256, widest=28_672, vocab_size=128_256)


def test_kv_takes_what_the_rule_says(monkeypatch: pytest.MonkeyPatch) -> None:
    free, total = 60 * GIB, 80 * GIB
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, total))
    assert gpu_kv_bytes(GPU, STEP) == sizes.gpu_kv_bytes(free, total, STEP)


def test_a_gpu_without_room_for_kv_is_refused_with_the_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (GIB, 16 * GIB))
    message = r"device='cuda:0': of its 16.0 GiB 1.0 are free .* up to 8,192 tokens and 256 rows"
    with pytest.raises(UsageError, match=message):
        gpu_kv_bytes(GPU, STEP)


@pytest.mark.parametrize(
    ("options", "tokens", "rows"), [({}, 8192, 256), ({"max_running": 8}, 8192, 8)]
)
def test_a_runtime_on_a_gpu_keeps_room_for_its_largest_step(
    tiny_llama_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    tokens: int,
    rows: int,
) -> None:
    """The sizing alone: the model stays where it is, and what the memory is asked for is told."""
    steps = []

    def told(device: torch.device, step: StepShape) -> int:
        steps.append(step)
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "choose_device", lambda asked: GPU)
    monkeypatch.setattr(local, "load_model", lambda *args, **said: load_model(tiny_llama_path))
    monkeypatch.setattr(local, "gpu_kv_bytes", told)
    with pytest.raises(KeyboardInterrupt):
        Runtime(tiny_llama_path, **options)
    widest = 2 * INTERMEDIATE_SIZE
    assert steps == [
        StepShape(token_budget=tokens, max_running=rows, widest=widest, vocab_size=VOCAB_SIZE)
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_runtime_says_that_there_is_no_gpu(tiny_llama_path: Path) -> None:
    with pytest.raises(UsageError, match="no NVIDIA GPU to be had here"):
        Runtime(tiny_llama_path, device="cuda")
