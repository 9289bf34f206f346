"""The rules by which a device's memory becomes KV, for devices that are not here."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from runtime.sizes import GIB, StepShape, cpu_kv_bytes, gpu_kv_bytes

LLAMA_8B = StepShape(token_budget=8192, max_running=256, widest=28_672, vocab_size=128_256)
SMOLLM_135M = StepShape(token_budget=8192, max_running=256, widest=3_072, vocab_size=49_152)


@pytest.mark.parametrize(
    ("free", "expected"),
    [(0, 0.25), (GIB // 2, 0.25), (4 * GIB, 1), (16 * GIB, 4), (1024 * GIB, 4)],
)
def test_a_cpu_gives_a_quarter_within_bounds(free: int, expected: float) -> None:
    assert cpu_kv_bytes(free) == expected * GIB


@pytest.mark.parametrize(
    ("total_gib", "weights_gib", "step", "expected_gib"),
    [
        (141, 15, LLAMA_8B, (115, 117)),  # H200
        (80, 15, LLAMA_8B, (58, 60)),  # A100, H100
        (24, 15, LLAMA_8B, (5.5, 7.5)),  # RTX 4090
        (24, 0.3, SMOLLM_135M, (21.5, 22.5)),
        (
            16,
            15,
            LLAMA_8B,
            (0, 0),
        ),  # T4: no room, which is refused in words where pages are counted
    ],
)
def test_a_gpu_gives_all_but_weights_steps_and_a_reserve(
    total_gib: float, weights_gib: float, step: StepShape, expected_gib: tuple[float, float]
) -> None:
    total = int(total_gib * GIB)
    found = gpu_kv_bytes(total - int(weights_gib * GIB), total, step)
    assert expected_gib[0] * GIB <= found <= expected_gib[1] * GIB


@given(st.integers(0, 200 * GIB), st.integers(0, 200 * GIB), st.integers(1, 2**16))
def test_pool_step_and_reserve_are_never_more_than_is_free(
    free: int, used: int, token_budget: int
) -> None:
    step = StepShape(token_budget=token_budget, max_running=64, widest=4096, vocab_size=32_000)
    found = gpu_kv_bytes(free, free + used, step)
    assert found == 0 or found + step.num_bytes + (free + used) // 16 <= free
    assert found <= gpu_kv_bytes(free, free, step), "what others hold leaves no more"
