"""Which device computes, and what follows from it: types of numbers and memory for KV.

Owns the rules, and what is said when a device or a type is asked for that cannot be had. Knows
nothing of what is computed there.
"""

from __future__ import annotations

from pathlib import Path

import torch

from runtime import sizes
from runtime.sizes import GIB, StepShape
from sgdsl.errors import UsageError

CPU = torch.device("cpu")


def choose_device(asked: str) -> torch.device:
    """`asked`: an option of `RuntimeConfig`. "auto" is the first NVIDIA GPU, and the CPU where
    there is none. Raises UsageError for a GPU that cannot be had.
    """
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return CPU
    if not torch.cuda.is_available():
        reason = (
            "torch finds none"
            if torch.version.cuda
            else f"this torch ({torch.__version__}) was built without CUDA"
        )
        raise UsageError(
            f"device={asked!r}: there is no NVIDIA GPU to be had here ({reason}); use 'cpu', or "
            "'auto' for a GPU where there is one"
        )
    device = torch.device("cuda:0" if asked in ("auto", "cuda") else asked)
    num_devices = torch.cuda.device_count()
    if device.index >= num_devices:
        raise UsageError(
            f"device={asked!r}: there are {num_devices} GPUs here, the last is "
            f"'cuda:{num_devices - 1}'; use one of them"
        )
    return device


def check_num_devices(first: torch.device, num_ranks: int) -> None:
    """Raises UsageError where there are not so many GPUs from the first one on."""
    if first.type == "cpu":
        return
    num_devices = torch.cuda.device_count() - first.index
    if num_devices < num_ranks:
        raise UsageError(
            f"tensor_parallel={num_ranks}: from {str(first)!r} on there are {num_devices} GPUs;"
            " give no more than that"
        )


def refuse_on_others(
    *, batch_invariant: bool, host: int | None, prefix_file: str | Path | None
) -> None:
    """Raises UsageError for what there is on the CPU, in one process, alone."""
    asked = {
        "batch_invariant": batch_invariant,
        "host_kv_bytes": host,
        "prefix_file": prefix_file and str(prefix_file),
    }
    for name, given in asked.items():
        if given:
            raise UsageError(
                f"{name}={given!r} is for one process on the CPU, and not there yet for GPUs and"
                " tensor_parallel; leave it away, or use device='cpu' and tensor_parallel=1"
            )


def weights_dtype(asked: str, device: torch.device) -> str:
    """`asked`: an option of `RuntimeConfig`; what "auto" stands for on the device. Raises
    UsageError for a type that the device's path does not have.
    """
    if device.type == "cpu":
        # The promises of exactness are about float32, so nothing else is chosen unasked.
        return "float32" if asked == "auto" else asked
    if asked in ("auto", "bfloat16"):
        return "bfloat16"
    raise UsageError(
        f"dtype={asked!r} is for the CPU: FlashInfer, which computes attention on a GPU, has no "
        "float32, and int8 weights are for x86; use 'bfloat16' or device='cpu'"
    )


def kv_dtype(asked: str, device: torch.device) -> torch.dtype:
    """`asked`: an option of `RuntimeConfig`. Raises UsageError as `weights_dtype` does."""
    if device.type == "cpu":
        if asked not in ("auto", "float32"):
            raise UsageError(
                f"kv_dtype={asked!r} is for GPUs: on the CPU KV is 'float32'; leave it at 'auto'"
            )
        return torch.float32
    types = {"auto": torch.bfloat16, "bfloat16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
    if asked not in types:
        raise UsageError(
            f"kv_dtype={asked!r} is for the CPU: FlashInfer has no float32; use 'bfloat16' or 'fp8'"
        )
    return types[asked]


def gpu_kv_bytes(device: torch.device, step: StepShape) -> int:
    """By rule, when the weights are on the device. Raises UsageError where it leaves nothing."""
    free, total = torch.cuda.mem_get_info(device)
    found = sizes.gpu_kv_bytes(free, total, step)
    if found == 0:
        raise UsageError(
            f"device={str(device)!r}: of its {total / GIB:.1f} GiB {free / GIB:.1f} are free beside"
            f" the weights, which leaves none for KV where a step has up to {step.token_budget:,}"
            f" tokens and {step.max_running} rows; give a lower token_budget and max_running, or"
            " kv_bytes"
        )
    return found
