"""Bitmasks on logits against the unpacking of numpy, by plain torch and by the kernel.

The kernel runs in Triton's interpreter, on the CPU: `make contracts` has Triton, and `make test`
skips these.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from types import ModuleType
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from runtime.sampling.bitmask import apply_bitmask, unpack_bits
from runtime.sampling.sampler import unpack


def interpreted() -> ModuleType:
    """The kernel's module, loaded anew so that Triton decides for its interpreter."""
    found = importlib.util.find_spec("runtime.sampling.bitmask_kernel")
    assert found is not None and found.loader is not None, "the module is there"
    module = importlib.util.module_from_spec(found)
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        found.loader.exec_module(module)
    return module


def forbid_in_interpreter(logits: Tensor, bitmask: Tensor) -> None:
    pytest.importorskip("triton", reason="Triton is not installed; `make contracts` has it")
    interpreted().forbid(logits, bitmask)


both = pytest.mark.parametrize("apply", [apply_bitmask, forbid_in_interpreter])
Apply = Callable[[Tensor, Tensor], None]

sizes = st.tuples(st.integers(1, 4), st.sampled_from([1, 31, 32, 33, 70, 2047, 2048, 2049, 4200]))


def random_case(num_rows: int, vocab_size: int, seed: int) -> tuple[Tensor, Tensor]:
    chosen = np.random.default_rng(seed)
    logits = chosen.normal(size=(num_rows, vocab_size)).astype(np.float32)
    words = chosen.integers(-(2**31), 2**31, size=(num_rows, -(-vocab_size // 32) + seed % 2))
    words[chosen.random(words.shape) < 0.2] = 0
    words[chosen.random(words.shape) < 0.2] = -1
    return torch.from_numpy(logits), torch.from_numpy(words.astype(np.int32))


@both
@given(sizes, st.integers(0, 2**32 - 1))
def test_exactly_the_forbidden_tokens_become_minus_infinity(
    apply: Apply, size: tuple[int, int], seed: int
) -> None:
    logits, bitmask = random_case(*size, seed)
    allowed = unpack(bitmask.numpy(), size[1])
    wanted = logits.masked_fill(~allowed, -torch.inf)
    apply(logits, bitmask)
    assert torch.equal(logits, wanted)


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_type_of_logits(apply: Apply, dtype: torch.dtype) -> None:
    logits, bitmask = random_case(3, 100, 1)
    logits = logits.to(dtype)
    wanted = logits.masked_fill(~unpack_bits(bitmask, 100), -torch.inf)
    apply(logits, bitmask)
    assert torch.equal(logits, wanted)


@both
def test_rows_of_a_wider_matrix_and_nothing_beyond_them(apply: Apply) -> None:
    """Logits are often a part of a padded matrix; what lies beyond belongs to somebody else."""
    wide, bitmask = torch.zeros(3, 80), torch.zeros(3, 4, dtype=torch.int32)
    apply(wide[:2, :70], bitmask[:2, :3])
    assert bool(wide[:2, :70].isneginf().all())
    assert bool((wide[:2, 70:] == 0).all()) and bool((wide[2] == 0).all())


def test_a_nan_stays_where_it_is_allowed() -> None:
    logits = torch.tensor([[torch.nan, torch.nan, 1.0]])
    apply_bitmask(logits, torch.tensor([[0b101]], dtype=torch.int32))
    assert bool(logits[0, 0].isnan()) and logits[0, 1:].tolist() == [-torch.inf, 1.0]


def test_no_rows_at_all() -> None:
    apply_bitmask(torch.empty(0, 70), torch.empty(0, 3, dtype=torch.int32))


def test_a_mask_that_is_too_narrow_is_our_own_fault() -> None:
    with pytest.raises(AssertionError, match="a bit for every token"):
        apply_bitmask(torch.zeros(1, 33), torch.zeros(1, 1, dtype=torch.int32))
