"""Linear layers as the lean decoder runs them: weights laid out once, when the model is loaded.

Owns the layouts of the weights. Knows nothing of the layers that they belong to.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor


class Linear(Protocol):
    def __call__(self, x: Tensor) -> Tensor:
        """x: [num_rows, in_size]; returns [num_rows, out_size]."""

    def add_to(self, total: Tensor, x: Tensor) -> None:
        """Add the layer's output for `x` to `total` [num_rows, out_size], in place."""


class FloatLinear:
    """In float32 and bfloat16. The matrix stands as [in_size, out_size], which MKL multiplies a few
    rows with up to half as fast again as with the other one.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        """weight: [out_size, in_size]; bias: [out_size]."""
        self._weight = weight.t().to(dtype).contiguous()
        self._bias = None if bias is None else bias.to(dtype)

    def __call__(self, x: Tensor) -> Tensor:
        if self._bias is None:
            return torch.mm(x, self._weight)
        return torch.addmm(self._bias, x, self._weight)

    def add_to(self, total: Tensor, x: Tensor) -> None:
        total.addmm_(x, self._weight)
        if self._bias is not None:
            total += self._bias


class SummedLinear:
    """A layer whose inputs are split over processes: its output is the sum of all of theirs."""

    def __init__(self, linear: Linear, add_up: Callable[[Tensor], None]) -> None:
        self._linear = linear
        self._add_up = add_up

    def __call__(self, x: Tensor) -> Tensor:
        part = self._linear(x)
        self._add_up(part)
        return part

    def add_to(self, total: Tensor, x: Tensor) -> None:
        total += self(x)


BLOCK = 128
"""Inputs that `Int8Linear` may mix with each other."""


class Int8Linear:
    """Weights in 8 bits with a scale for each output, activations with a scale for each row. A
    row's output is bit for bit the same whatever else is in the batch: the sums are of integers. Of
    inputs that differ in the last bit it is not nearly the same, where one is rounded to another
    number.

    Activations have 7 bits: two products of 8 bits do not fit into the 16 that AVX2's instruction
    adds them up in. Where the processor adds in 32 bits (AVX-512 VNNI) they have 8.

    `mix`: an input that is far larger than the others of its row would take the scale for itself.
    Blocks of inputs are multiplied with a Hadamard matrix, which spreads it over the block, and the
    weights with its inverse (QuaRot, arXiv:2404.00456).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, mix: bool = False) -> None:
        """weight: float32 [out_size, in_size]; bias: [out_size]."""
        self._mixer = hadamard(largest_power(weight.shape[1], BLOCK)) if mix else None
        self._bias = bias
        weight = self._mixed(weight)
        scales = (weight.abs().amax(dim=1) / 127).clamp_(min=1e-20).double()
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        with warnings.catch_warnings():
            # The kernel takes its weights in no other form yet.
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor, torch.quantize_per_chan")
            quantized = torch.quantize_per_channel(weight, scales, zeros, 0, torch.qint8)
        self._packed = torch.ops.quantized.linear_prepack(quantized, None)
        self._greatest = 127 if _adds_in_32_bits() else 63

    def __call__(self, x: Tensor) -> Tensor:
        x = self._mixed(x)
        # The largest of each row, in two passes that write nothing as long as the row.
        largest = torch.maximum(x.amax(-1, keepdim=True), x.amin(-1, keepdim=True).neg_())
        largest.clamp_(min=1e-20)
        out: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            x * (self._greatest / largest), 1.0, self._greatest + 1, self._packed
        )
        out *= largest / self._greatest
        return out if self._bias is None else out.add_(self._bias)

    def add_to(self, total: Tensor, x: Tensor) -> None:
        total += self(x)

    def _mixed(self, x: Tensor) -> Tensor:
        """A Hadamard matrix is its own inverse: weights and activations are mixed alike."""
        if self._mixer is None:
            return x.contiguous()
        return torch.mm(x.reshape(-1, len(self._mixer)), self._mixer).view(x.shape)


def has_int8() -> bool:
    """Whether torch was built with the kernel that `Int8Linear` calls: on x86 it is."""
    return "fbgemm" in torch.backends.quantized.supported_engines


def _adds_in_32_bits() -> bool:
    # Older torch does not tell; 7 bits are right everywhere.
    tell = getattr(torch.cpu, "get_capabilities", None)
    return tell is not None and bool(tell().get("avx512_vnni"))


def hadamard(size: int) -> Tensor:
    """[size, size], orthogonal and symmetric, all entries as large; `size` is a power of two."""
    signs = torch.ones(1, 1)
    while len(signs) < size:
        signs = torch.cat([torch.cat([signs, signs], 1), torch.cat([signs, -signs], 1)])
    return signs.div(size**0.5)


def largest_power(number: int, most: int) -> int:
    """The largest power of two that divides `number`, at most `most`, a power of two."""
    return min(number & -number, most)
